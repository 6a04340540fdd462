"""A client: asks one operation after the other, and writes down what it asked and what became of it.

The fate is the one that raftmeta's errors document (raftmeta/errors.py): a result, refusals included, is `ok`;
NotExecuted is `fail`; OutcomeUnknown is `info`, as is a node that stopped under the call. Any other exception is a
mistake of the workload or of raftmeta, and ends the process, which fails the run.

A client works through whatever has the verbs: raftmeta.aio.Node, the caller inside a broker, or raftmeta.aio.Client, a
process of its own. It never decides what to ask (jepsen/workloads).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import raftmeta
from jepsen.generator import Pace, Rotation
from jepsen.spool import Spool

Store = raftmeta.aio.Node | raftmeta.aio.Client

TIMEOUT_S = 3.0  # of one operation; longer than an election, shorter than most faults
PATIENCE_S = 20.0  # for which an operation whose outcome is unknown is gone on with, where a workload does that
PROCESS_STEP = 1 << 12  # lives of a slot, and within one operations that ended in doubt


@dataclass(frozen=True, slots=True)
class Doors:
    """Of all brokers. hosts: as ZooKeeper's clients take them. is_local: a node serves reads out of what it has.

    etcd, kafka: addresses of the doors for clients of these. tls: in a secure run, the files of this client process.
    login: name and password of SASL, as all clients have them.
    """

    hosts: str
    is_local: bool
    tls: Mapping[str, str] | None = None
    login: Sequence[str] = ()
    etcd: Sequence[str] = ()
    kafka: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """What an operation returned. revision: at which it was executed, where the store told it."""

    result: Any
    revision: int | None = None


# Of one call: nothing was done, or nobody knows. Whoever gets one of these may ask again later.
UNSURE = (raftmeta.NotExecuted, raftmeta.OutcomeUnknown, raftmeta.Fatal)
Act = Callable[[], Awaitable[Answer]]


@dataclass(slots=True)
class Fates:
    """How many operations ended how, and of those that did not end well, by which error.

    answered: of those that ended well, how many only a node can have answered. A lease that ran out by the client's own
    clock is a refusal that needs no node.
    """

    answered: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)

    def count(self, fate: str, error: BaseException | None = None) -> None:
        self.counts[fate] += 1
        if error is not None:
            self.errors[f"{fate} {type(error).__name__}"] += 1


class Client:
    """One slot of one workload: at most one operation at a time.

    doors: those of the brokers, for workloads that ask there and nowhere else. slot: its number among all
    clients of the run, whichever process they are in. life: of its process. group: clients that share keys. name: of
    this client in this life, for what it holds.
    """

    def __init__(
        self,
        store: Store,
        spool: Spool,
        fates: Fates,
        *,
        workload: str,
        slot: int,
        group: int,
        life: int,
        pace: Pace,
        rotation: Rotation,
        random: Random,
        doors: Doors | None = None,
    ) -> None:
        self.store = store
        self.doors = doors
        self.spool = spool
        self.workload = workload
        self.slot = slot
        self.group = group
        self.random = random
        self.name = f"{workload}-{slot}-{life}"
        self._fates = fates
        self._pace = pace
        self._rotation = rotation
        self._process = (slot * PROCESS_STEP + life) * PROCESS_STEP
        self._values = 0

    @property
    def process(self) -> int:
        """The number in the history; another one after each operation whose outcome is not known."""
        return self._process

    async def turn(self) -> None:
        """Wait for this client's next turn."""
        await self._pace.wait()

    def prefix(self) -> str:
        """Of the keys that this client's group uses just now."""
        return f"{self.workload}/{self.group}/{self._rotation.number()}/"

    def new_value(self) -> int:
        """A number that no other client of this run ever writes."""
        self._values += 1
        return self._process * PROCESS_STEP * PROCESS_STEP + self._values

    async def ask(self, operation: str, key: Any, arguments: Any, act: Act) -> Answer | None:
        """Perform act as one operation of the history; its answer, None when there was none."""
        return await self._perform(operation, key, arguments, act, is_told=True)

    async def _perform(self, operation: str, key: Any, arguments: Any, act: Act, *, is_told: bool) -> Answer | None:
        """is_told: the result is a JSON value, and belongs into the history."""
        self.spool.invoke(self.workload, self._process, operation, key, arguments)
        try:
            answer = await act()
        except raftmeta.NotExecuted as error:
            self.spool.fail(self.workload, self._process)
            self._fates.count("fail", error)
            return None
        except (raftmeta.OutcomeUnknown, raftmeta.Fatal) as error:
            self.spool.info(self.workload, self._process)
            self._fates.count("info", error)
            self._process += 1
            return None
        result = answer.result if is_told else None
        self.spool.ok(self.workload, self._process, result, answer.revision)
        self._fates.count("ok")
        self._fates.answered += is_told
        return answer

    async def attempt(self, act: Callable[[], Awaitable[Any]]) -> Any:
        """Perform act, which no model knows; what it returned, None: not executed, or nobody knows.

        Raises Refused, which is a result.
        """
        refusal: raftmeta.Refused | None = None

        async def told() -> Answer:
            nonlocal refusal
            try:
                return Answer(await act())
            except raftmeta.Refused as error:
                refusal = error
                return Answer(None)

        answer = await self._perform("attempt", None, None, told, is_told=False)
        if refusal is not None:
            raise refusal
        return None if answer is None else answer.result


async def settled(call: Awaitable[Any], *, patience_s: float = PATIENCE_S) -> Any:
    """Await a call, and go on with the same operation while its outcome is unknown: it is applied at most once.

    Raises what the call raises; OutcomeUnknown when patience_s seconds were not enough, or nobody can tell any more.
    """
    deadline_s = asyncio.get_running_loop().time() + patience_s
    try:
        return await call
    except raftmeta.OutcomeUnknown as error:
        unknown = error
    while unknown.ticket is not None and asyncio.get_running_loop().time() < deadline_s:
        try:
            return await unknown.ticket.result(TIMEOUT_S)
        except raftmeta.OutcomeUnknown as error:
            unknown = error
    raise unknown
