"""A workload through the ZooKeeper door: each client has a session of kazoo, moves with it, and tells what it saw.

It says zookeeper_seen of each node that a reply shows, zookeeper_armed and zookeeper_told of each watch,
zookeeper_watches_set of each move with watches, and zookeeper_unasked (docs/jepsen.md "Observations").
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from kazoo.exceptions import NoNodeError, RolledBackError, RuntimeInconsistency

from jepsen.client import Client, Doors
from jepsen.door_session import DoorRefused, DoorSession, Reply
from jepsen.spool import NOT_TOLD
from jepsen.workloads.base import Grant, Workload

Refusals = type[Exception] | tuple[type[Exception], ...]
MOVE_SHARE = 0.02  # of steps: the session goes on with another node


class DoorWorkload(Workload):
    """Its clients stand outside of the brokers, and ask no other way."""

    protocol = "zookeeper"

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        assert client.doors is not None, "a workload through the door needs doors"
        self.doors: Doors = client.doors
        self.session = DoorSession(self.doors, self)

    async def step(self) -> None:
        if self.client.random.random() < MOVE_SHARE:
            self.session.move()
        await self.act()

    @classmethod
    def grants(cls) -> tuple[Grant, ...]:
        """A door asks the rights of the client process; within the tree ZooKeeper's own lists of rights decide."""
        return ()

    @abstractmethod
    async def act(self) -> None:
        """Ask once, by self.session."""

    async def close(self) -> None:
        await self.session.close()

    def renew(self) -> None:
        """Another session, after this one was closed or left."""
        self.session = DoorSession(self.doors, self)

    # --- observations -------------------------------------------------------------------------------------------------
    def say(self, kind: str, subject: str, *, revision: int = NOT_TOLD, token: int = NOT_TOLD, value: str = "") -> None:
        self.client.spool.observe(
            kind, subject, process=self.client.process, revision=revision, token=token, value=value
        )

    def on_reply(self, session: int, zxid: int) -> None:
        self.say("zookeeper_seen", self.seat(session), revision=zxid)

    def on_watches_set(self, session: int, zxid: int, opcode: int, told: int) -> None:
        self.say("zookeeper_watches_set", self.seat(session), revision=zxid, token=told, value=str(opcode))

    def on_unasked(self, session: int, path: str) -> None:
        self.say("zookeeper_unasked", self.seat(session, path))

    def seat(self, session: int, what: str = "") -> str:
        """The subject of all that one session sees of one thing."""
        return f"{self.name}/{session:x}{what}"

    def seen(self, session: DoorSession, what: str, revision: int, *, is_armed: bool = False) -> None:
        """A reply showed `what` as of its last change. is_armed: and set a watch. On kazoo's thread."""
        self.say("zookeeper_seen", self.seat(session.id, what), revision=revision)
        if is_armed:
            self.armed(session, what, revision)

    def armed(self, session: DoorSession, what: str, revision: int) -> None:
        """A watch waits for a change beyond the revision. On kazoo's thread."""
        self.say("zookeeper_armed", self.seat(session.id, what), revision=revision)

    def _on_event(self, session: DoorSession, what: str, _event: Any) -> None:
        """A watch is told, or went with the session. On kazoo's thread."""
        self.say("zookeeper_told", self.seat(session.id, what))

    def watcher(self, session: DoorSession, what: str) -> Callable[[Any], None]:
        """Of the session that is told: another one may have begun while the request waited for a connection."""
        return partial(self._on_event, session, what)

    # --- requests -----------------------------------------------------------------------------------------------------
    async def get(self, path: str, *, is_watched: bool = False) -> Reply | None:
        """(data, stat) as this node has it; None: there is no such node."""
        session = self.session

        def told(value: Any, _zxid: int) -> None:
            self.seen(session, path, value[1].mzxid, is_armed=is_watched)

        watch = self.watcher(session, path) if is_watched else None
        try:
            return await session.ask(lambda zk: zk.get_async(path, watch=watch), told)
        except DoorRefused as refused:
            if isinstance(refused.error, NoNodeError):
                return None
            raise

    async def get_latest(self, path: str) -> Reply | None:
        """(data, stat), at least as new as everything that was committed before it was asked for."""
        if self.doors.is_local:
            await self.session.ask(lambda zk: zk.sync_async(path))
        return await self.get(path)

    async def create(self, path: str, data: bytes, **options: bool) -> Reply:
        """(path, stat). Raises DoorRefused."""
        return await self.session.ask(lambda zk: zk.create_async(path, data, include_data=True, **options))

    async def set(self, path: str, data: bytes, version: int = -1) -> Reply:
        """The stat. Raises DoorRefused."""
        session = self.session

        def told(stat: Any, _zxid: int) -> None:
            self.seen(session, path, stat.mzxid)

        return await session.ask(lambda zk: zk.set_async(path, data, version), told)

    async def multi(self, build: Callable[[Any], None]) -> Reply:
        """build(transaction) adds the operations. Their results. Raises DoorRefused: nothing of it was done."""

        def call(zk: Any) -> Any:
            transaction = zk.transaction()
            build(transaction)
            return transaction.commit_async()

        reply = await self.session.ask(call)
        errors = [one for one in reply.value if isinstance(one, Exception)]
        for error in errors:
            if not isinstance(error, RolledBackError | RuntimeInconsistency):
                raise DoorRefused(error, reply.zxid)
        assert not errors, f"a multi was refused, and no operation of it: {errors}"
        return reply

    async def refused(self, kind: Refusals, act: Callable[[], Awaitable[Reply]]) -> Reply | bool | None:
        """One request outside of any history: its reply, False: it was refused in this way, None: nobody knows."""
        try:
            reply: Reply | None = await self.client.attempt(act)
        except DoorRefused as refused:
            expect(refused, kind)
            return False
        return reply


def path_of(key: str) -> str:
    """The node of a key; all of them are children of the root."""
    return "/" + key.replace("/", "-")


def expect(refused: DoorRefused, kind: Refusals) -> None:
    """Raises the refusal if it is of another kind: nothing that clients do gives a reason for it."""
    if not isinstance(refused.error, kind):
        raise refused
