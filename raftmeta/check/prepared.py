"""A history that was loaded for one model: its components, and the answers of models written in Python.

It decides nothing: it names what the native checker numbers, keeps the limits, and asks.
"""

from __future__ import annotations

import json
import time
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from raftmeta.check.check_handle import ASKS, LEGAL, CheckHandle
from raftmeta.check.history import History, Nothing, Quarantined, canonical
from raftmeta.check.models import Call, Model, Program, model_named
from raftmeta.common import numbers

__all__ = ["ComponentVerdict", "Limits", "Prepared"]

VERDICTS = ("none", "ok", "violation", "unknown", "malformed")
ENGINES = ("none", "witness", "wgl", "just-in-time")
# "violation": another component has no linearization, which decides the history.
LIMITS = ("", "time", "steps", "memory", "violation")
REASONS = {
    numbers.REASON_SEQ: "seq is not greater than that of the event before",
    numbers.REASON_KIND: "kind is none of invoke, ok, fail, info",
    numbers.REASON_OPERATION: "the model knows no such operation",
    numbers.REASON_UNDER_WAY: "the process has an operation under way",
    numbers.REASON_NOT_INVOKED: "completes what was never invoked",
    numbers.REASON_OTHER_OPERATION: "completes another operation than was invoked",
    numbers.REASON_OTHER_KEY: "completes an operation on another key than was invoked",
    numbers.REASON_ARGUMENTS: "arguments make no sense to this operation",
    numbers.REASON_RESULT: "result makes no sense to this operation",
    numbers.REASON_REVISION: "revision is negative",
}
# By the names of operations: the Meaning of raftmeta/check/meaning.pxd.
MEANINGS = {
    "read": numbers.MEANING_READ,
    "write": numbers.MEANING_WRITE,
    "cas": numbers.MEANING_CAS,
    "delete": numbers.MEANING_DELETE,
    "txn": numbers.MEANING_TRANSACTION,
}
# By the names of objects: the Object of raftmeta/check/objects.pxd, and the Meaning of each operation.
OBJECTS: dict[str, tuple[int, dict[str, int]]] = {
    "set": (
        numbers.OBJECT_SET,
        {
            "add": numbers.MEANING_SET_ADD,
            "remove": numbers.MEANING_SET_REMOVE,
            "contains": numbers.MEANING_SET_CONTAINS,
            "read": numbers.MEANING_SET_READ,
        },
    ),
    "queue": (
        numbers.OBJECT_QUEUE,
        {"enqueue": numbers.MEANING_QUEUE_ENQUEUE, "dequeue": numbers.MEANING_QUEUE_DEQUEUE},
    ),
    "lock": (numbers.OBJECT_LOCK, {"acquire": numbers.MEANING_LOCK_ACQUIRE, "release": numbers.MEANING_LOCK_RELEASE}),
    "append-list": (numbers.OBJECT_LIST, {"append": numbers.MEANING_LIST_APPEND, "read": numbers.MEANING_LIST_READ}),
    "counter": (numbers.OBJECT_COUNTER, {"add": numbers.MEANING_COUNTER_ADD, "read": numbers.MEANING_COUNTER_READ}),
    "text": (
        numbers.OBJECT_TEXT,
        {"write": numbers.MEANING_TEXT_WRITE, "append": numbers.MEANING_TEXT_APPEND, "read": numbers.MEANING_TEXT_READ},
    ),
}
SLICE_S = 0.05  # between two looks at signals


@dataclass(frozen=True, slots=True)
class Limits:
    """Where checking ends without an answer: the verdict is then `unknown`, and says by which of them.

    time_s: for the whole history and its explanation. steps: of the search in one component. memory_bytes: of each
    engine.
    """

    time_s: float = 300.0
    steps: int = 2_000_000_000
    memory_bytes: int = 1 << 30


@dataclass(frozen=True, slots=True)
class ComponentVerdict:
    """The verdict about the keys of one component. limit: the limit that made the verdict unknown, else empty."""

    keys: tuple[str, ...]
    verdict: str
    engine: str
    limit: str
    operations: int
    steps: int
    seconds: float


@dataclass(slots=True)
class Table:
    """Numbers for the states of a model that is written in Python, and its answers."""

    model: Model
    names: list[str]
    states: list[Hashable] = field(default_factory=list)
    numbers: dict[Hashable, int] = field(default_factory=dict)
    nonsense: list[Quarantined] = field(default_factory=list)  # what the model complained about

    def __post_init__(self) -> None:
        self.number(self.model.initial())

    def number(self, state: Hashable) -> int:
        number = self.numbers.setdefault(state, len(self.states))
        if number == len(self.states):
            self.states.append(state)
        return number

    def answer(self, handle: CheckHandle) -> None:
        """Tell the search what it asks."""
        state, code, is_crashed, arguments, result = handle.asked()
        call = Call(self.names[code], _value(arguments), _value(result), is_crashed)
        try:
            after = self.model.step(self.states[state], call)
        except ValueError as error:
            self.nonsense.append(Quarantined(-1, str(error), repr(call)))
            handle.reject()
        else:
            handle.answer(None if after is None else self.number(after))


def _value(text: bytes) -> object:
    return json.loads(text) if text else Nothing


class Prepared:
    """A history that was loaded for one model: components are checked in turns, and can be asked about."""

    def __init__(
        self,
        history: History,
        model: str | Model = "kv",
        *,
        initial: object = None,
        limits: Limits | None = None,
        stops_at_violation: bool = False,
    ) -> None:
        """model: a name of `raftmeta.check.models`, or a model of your own. initial: the value of every key at first.

        stops_at_violation: once one component has no linearization, the hard ones among the others stay unknown.
        Raises ValueError for an unknown model, and for a value that it cannot begin with; MemoryError when the
        operations do not fit.
        """
        self.history = history
        self.limits = Limits() if limits is None else limits
        self.ends = time.monotonic() + self.limits.time_s
        self.model = model_named(model) if isinstance(model, str) else model
        self.table = None if isinstance(self.model, Program) else Table(self.model, history.names)
        if self.table is not None and initial is not None:
            raise ValueError(
                f"initial: the model {self.model.name} is written in Python, and says itself how it begins"
            )
        self.handle = CheckHandle(
            history.numbers(),
            history.texts(),
            self.meanings(),
            is_table=self.table is not None,
            object_kind=OBJECTS[self.model.name][0] if self.is_object else 0,
            initial=canonical(initial),
            steps_max=self.limits.steps,
            bytes_max=self.limits.memory_bytes,
            time_ns=max(1, int(self.limits.time_s * 1e9)),
            stops_at_violation=stops_at_violation,
        )

    @property
    def is_object(self) -> bool:
        """The model is a native object: a set, a queue, ..."""
        return isinstance(self.model, Program) and self.model.is_object

    def meanings(self) -> bytes:
        """The Meaning (raftmeta/check/meaning.pxd) of each operation that the history names; 0: the model lacks it."""
        if self.is_object:
            known = OBJECTS[self.model.name][1]
        elif isinstance(self.model, Program):
            known = {name: MEANINGS[name] for name in self.model.operations}
        else:
            known = dict.fromkeys(self.model.operations, numbers.MEANING_TABLE)
            known |= dict.fromkeys(self.model.observers, numbers.MEANING_OBSERVER)
        return bytes(known.get(name, 0) for name in self.history.names)

    def run(self) -> None:
        """Decide every component, within the limits."""
        while (answer := self.handle.run(SLICE_S)) != LEGAL:
            if answer == ASKS:
                self.answer()

    def answer(self) -> None:
        """Tell the search what it asks of a model written in Python."""
        if self.table is None:
            raise RuntimeError("a native model asks nothing")
        self.table.answer(self.handle)

    def component(self, number: int) -> ComponentVerdict:
        """The verdict on one component. Raises IndexError for one that was not decided yet."""
        verdict, engine, limit, steps, elapsed_ns, operations = self.handle.outcome(number)
        keys = tuple(key.decode() for key in self.handle.keys(number))
        return ComponentVerdict(
            keys, VERDICTS[verdict], ENGINES[engine], LIMITS[limit], operations, steps, elapsed_ns / 1e9
        )

    def tainted(self, number: int) -> ComponentVerdict:
        """The verdict on one of handle.tainted(), without a search."""
        keys = tuple(key.decode() for key in self.handle.keys(number))
        return ComponentVerdict(keys, "malformed", "none", "", 0, 0, 0.0)

    def components(self) -> Iterator[ComponentVerdict]:
        """The verdicts on all components, in the order in which their keys were first seen."""
        return (self.component(number) for number in range(self.handle.components))

    def quarantined(self) -> list[Quarantined]:
        """The events that make no sense, those of the file first."""
        found = list(self.history.quarantined)
        for row, reason in self.handle.malformed():
            found.append(Quarantined(row, REASONS[reason], repr(self.history.event(row))))
        return found + (self.table.nonsense if self.table is not None else [])
