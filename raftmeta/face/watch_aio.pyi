"""Watching keys: the asyncio face."""

from collections.abc import AsyncIterator
from typing import Self

from raftmeta.face.mailbox import MailboxFace
from raftmeta.face.watch import WatchBase
from raftmeta.results import WatchBatch, WatchEvent, WatchReset
from raftmeta.verbs.asked import WatchAsked
from raftmeta.verbs.watch import AioWatch

class AioNodeWatch(WatchBase, AioWatch):
    """A watch of the asyncio face; the mailbox of its face wakes its task."""

    def __init__(self, face: MailboxFace, asked: WatchAsked) -> None: ...
    def batches(self) -> AsyncIterator[WatchBatch | WatchReset]:
        """Changes as the node delivers them."""
    def __aiter__(self) -> AsyncIterator[WatchEvent | WatchReset]: ...
    async def close(self) -> None:
        """Stop watching."""
    async def __aenter__(self) -> Self: ...
