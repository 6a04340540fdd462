"""A store that does what a test says: carriers whose answers, changes and ends are given by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from raftmeta.metastore import AioMetastore, ChangeType, Code, Listener, Request, SessionEvent, Settings
from raftmeta.metastore.awaited import call_here
from raftmeta.metastore.carrier import Asked, Give
from raftmeta.metastore.requests import failed


class ScriptedCarrier:
    """asked: the requests under way, in order. fails: what opening raises, until there is none left."""

    def __init__(self, source: ScriptedSource, listener: Listener) -> None:
        self.source = source
        self.listener = listener
        self.session_id = 0
        self.asked: list[Asked] = []
        self.is_closed = False

    async def open(self) -> None:
        self.source.log.append("open")
        if self.source.failures:
            raise self.source.failures.pop(0)
        self.source.sessions += 1
        self.session_id = self.source.sessions
        self.tell(SessionEvent.CONNECTED)

    def submit(self, request: Request[Any], arm: bool, give: Give) -> None:
        self.asked.append(Asked(request, arm, give))
        if self.source.answers_at_once:
            self.answer()

    async def close(self) -> None:
        self.source.log.append("close")
        self.is_closed = True
        while self.asked:
            self.answer(Code.SESSIONEXPIRED)

    def answer(self, code: Code = Code.OK) -> None:
        """Answer the oldest request."""
        asked = self.asked.pop(0)
        asked.answer(failed(asked.request, code))

    def tell(self, event: SessionEvent) -> None:
        self.listener.on_session(self, event)

    def change(self, change: ChangeType, path: str) -> None:
        self.listener.on_change(self, change, path)

    def expire(self) -> None:
        while self.asked:
            self.answer(Code.SESSIONEXPIRED)
        self.tell(SessionEvent.EXPIRED)


@dataclass
class ScriptedSource:
    """carriers: all that were made. log: what was asked of them, and what handlers add."""

    answers_at_once: bool = False
    failures: list[Exception] = field(default_factory=list)
    carriers: list[ScriptedCarrier] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    sessions: int = 0
    is_closed: bool = False

    def carrier(self, listener: Listener) -> ScriptedCarrier:
        self.carriers.append(ScriptedCarrier(self, listener))
        return self.carriers[-1]

    @property
    def now(self) -> ScriptedCarrier:
        """The carrier of the session now."""
        return self.carriers[-1]

    async def close(self) -> None:
        self.is_closed = True


async def opened(source: ScriptedSource, **settings: Any) -> AioMetastore:
    """A metastore on it."""
    return await AioMetastore(source, Settings(**settings), caller=call_here).open()


def closing(store: AioMetastore) -> Callable[[], Any]:
    """A handler that closes its own metastore."""

    async def close() -> None:
        await store.close()

    return close
