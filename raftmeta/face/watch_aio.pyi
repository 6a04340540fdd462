"""Watching keys: the asyncio face."""

from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from raftmeta.face.mailbox import MailboxFace
from raftmeta.face.watch import WatchBase
from raftmeta.operations import Key
from raftmeta.results import WatchBatch, WatchEvent, WatchReset

class AioWatch(WatchBase):
    """A watch of the asyncio face; Node.watch makes it. One task consumes it."""

    def __init__(
        self,
        face: MailboxFace,
        key: Key | None = None,
        end: Key | None = None,
        *,
        prefix: Key | None = None,
        start_revision: int = 0,
        previous: bool = False,
        puts: bool = True,
        deletes: bool = True,
        progress: bool = False,
        raise_lagged: bool = False,
        reset: bool = False,
        timeout_s: float | None = None,
    ) -> None: ...
    def batches(self) -> AsyncIterator[WatchBatch | WatchReset]:
        """Changes as the node delivers them, one revision (or a part of a large one) at a time."""
    def __aiter__(self) -> AsyncIterator[WatchEvent | WatchReset]: ...
    async def close(self) -> None:
        """Stop watching; what was not looked at is thrown away."""
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *_exc: type[BaseException] | BaseException | TracebackType | None) -> None: ...
