"""One request that is not answered, over however many connections, and what became of it.

The rule that decides every fate: a sending whose connection broke before its answer, or whose answer was that nobody
knows, may have been executed (`doubts`); an answer that says "not executed" only speaks for its own sending. So a
request is certainly not executed only while it has no doubt, and with one it is sent again until a result comes: the
session makes that once (docs/formats.md "Client protocol").
"""

from __future__ import annotations

import asyncio
from typing import Any

from raftmeta.client.connection import Connection
from raftmeta.errors import OutcomeTimeout


class OpenRequest:
    """id, frame: as sent, and sent again. sequence: of a command in its session, 0 for everything else.

    is_sent_once: a step that no session makes once: whatever becomes of its one sending is told at once.

    deadline_s: on the event loop's clock. connection: where its last sending waits for an answer.

    future: whoever waits for the answer; replaced when a waiter gives up and leaves a PendingResult.
    """

    __slots__ = (
        "connection",
        "deadline_s",
        "doubts",
        "frame",
        "future",
        "id",
        "is_sent_once",
        "purpose",
        "sends",
        "sequence",
        "session",
    )

    def __init__(
        self,
        id: int,
        frame: bytes,
        purpose: int,
        *,
        session: int,
        sequence: int,
        deadline_s: float,
        future: asyncio.Future[Any],
        is_sent_once: bool,
    ) -> None:
        self.id = id
        self.is_sent_once = is_sent_once
        self.frame = frame
        self.purpose = purpose
        self.session = session
        self.sequence = sequence
        self.deadline_s = deadline_s
        self.future = future
        self.connection: Connection | None = None
        self.sends = 0
        self.doubts = 0


class PendingResult:
    """An operation whose caller ran out of time: OutcomeUnknown.ticket. The client goes on with it meanwhile."""

    def __init__(self, future: asyncio.Future[Any]) -> None:
        self._future = future

    @property
    def is_done(self) -> bool:
        return self._future.done()

    async def result(self, timeout_s: float | None = 5.0) -> Any:
        """Go on waiting for the same operation and return what its call would have returned.

        Raises OutcomeTimeout, with a ticket again: still not known. The operation is applied at most once.
        """
        await asyncio.wait([self._future], timeout=timeout_s)
        if not self._future.done():
            raise OutcomeTimeout("timed out after it was sent; it may still be applied", ticket=self)
        return self._future.result()
