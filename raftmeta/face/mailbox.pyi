"""The base of an asyncio face, below its verbs: calls that wait on an event loop."""

from typing import Any

from raftmeta.face.base import PendingResult

class MailboxFace:
    """A face of a node for one event loop, the one of its first call. Use raftmeta.aio.Node."""

    def __del__(self) -> None: ...

class AioPendingResult(PendingResult):
    """An operation whose caller ran out of time: OutcomeUnknown.ticket."""

    async def result(self, timeout_s: float | None = 5.0) -> Any:
        """Go on waiting for the same operation, which is applied at most once; see PendingResult."""
