"""The base of the four interfaces of KIP-30: set up once on a face, closed once."""

from __future__ import annotations

import threading
from typing import Any

from raftmeta.errors import InvalidArgument, NodeClosed, NotReady
from raftmeta.recipes.face import Face
from raftmeta.recipes.listeners import Failures

__all__ = ["Part", "face_of"]


def face_of(store: Any) -> Face:
    """The face that a blocking recipe made already, or one for asyncio over a store."""
    if isinstance(store, Face):
        return store
    from raftmeta.recipes.face_aio import AioFace  # loads asyncio

    return AioFace(store)


class Part:
    """One of the four, between init and close."""

    is_idle = True  # nobody has a place in it

    def __init__(self, title: str) -> None:
        self.failures = Failures()
        self._title = title
        self._face: Face | None = None
        self._is_closed = False
        # For a few lines at a time: nothing waits while it is held. Re-entrant as a signal handler may close the store.
        self._lock = threading.RLock()

    async def init(self, context: Any) -> None:
        """context: a raftmeta.aio.Node, or another AioStore; for a blocking twin, its face."""
        if self._face is not None:
            raise InvalidArgument(f"context: the {self._title} was set up already", field="context")
        self._face = face_of(context)
        self._set_up(self._face)

    def _set_up(self, face: Face) -> None:
        """Take from the face what a part needs from the beginning."""

    @property
    def face(self) -> Face:
        """Raises NotReady before init, NodeClosed after close."""
        if self._is_closed:
            raise NodeClosed(f"the {self._title} is closed")
        if self._face is None:
            raise NotReady(f"the {self._title} is not set up: call init() first")
        return self._face

    @property
    def listener_failures(self) -> int:
        """How many calls of listeners ended with an exception."""
        return self.failures.count

    def _end(self) -> bool:
        """True for the first close of a part that was set up."""
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
        return not was_closed and self._face is not None
