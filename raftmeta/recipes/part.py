"""What the four interfaces have in common: set up once, closed once, and following a prefix when somebody needs it."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from typing import Any

from raftmeta.errors import InvalidArgument, NodeClosed, NotReady
from raftmeta.operations import RangeResult
from raftmeta.recipes.deadline import DEFAULT_TIMEOUT_S
from raftmeta.recipes.face import AioFace, Face
from raftmeta.recipes.listeners import Failures
from raftmeta.recipes.mirror import Mirror

__all__ = ["Followed", "Part"]


class Part:
    """One of the four, between init and close."""

    def __init__(self, title: str) -> None:
        self.failures = Failures()
        self._title = title
        self._face: Face | None = None
        self._is_closed = False
        # For a few lines at a time: nothing waits while it is held. Re-entrant as a signal handler may close the store.
        self._lock = threading.RLock()

    async def init(self, context: Any) -> None:
        """context: a raftmeta.aio.Node, or another AioStore."""
        self.begin(AioFace(context))

    def begin(self, face: Face) -> None:
        """Set up on either face."""
        if self._face is not None:
            raise InvalidArgument(f"context: the {self._title} was set up already", field="context")
        self._face = face
        self._set_up(face)

    def _set_up(self, face: Face) -> None:
        """What a part needs of its face from the beginning."""

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


class Followed(Part, ABC):
    """A part with one mirror of its prefix, opened when it is first needed."""

    def __init__(self, title: str, prefix: str) -> None:
        super().__init__(title)
        self._prefix = prefix
        self._mirror: Mirror | None = None  # also while it is being opened
        self._is_open = False

    def _set_up(self, face: Face) -> None:
        self._opening = face.mutex()

    def _on_open(self, mirror: Mirror) -> None:
        """The mirror has been read, and no change was told yet."""

    @abstractmethod
    def _on_change(self, mirror: Mirror) -> None:
        """The mirror has changed."""

    async def _known(self, *, keys_only: bool, local: bool, timeout_s: float | None) -> RangeResult:
        """All keys of this part. local: from the node's own state, or the mirror of who has none and follows them."""
        face, mirror = self.face, self._mirror
        if local and not face.has_state and self._is_open and mirror is not None:
            revision = mirror.revision  # first: the records are not older
            records = list(mirror.records.values())
            return RangeResult(len(records), records, revision=revision)
        return await face.read_range(self._prefix, keys_only=keys_only, local=local, timeout_s=timeout_s)

    async def _follow(self, *, timeout_s: float | None = DEFAULT_TIMEOUT_S) -> Mirror:
        """On return every later change leads to _on_change."""
        async with self._opening:
            if not self._is_open:
                self._mirror = Mirror(self.face, self._on_change, prefix=self._prefix)
                await self._mirror.open(timeout_s=timeout_s)
                self._on_open(self._mirror)
                self._is_open = True
                if self._is_closed:  # meanwhile; _unfollow has seen this mirror, or we see that it was called
                    await self._mirror.close()
                self._mirror.start()
            assert self._mirror is not None
            return self._mirror

    async def _unfollow(self) -> None:
        """It does not wait for one who is opening the mirror: that may be the very thread below a signal handler."""
        if self._mirror is not None:
            await self._mirror.close()
