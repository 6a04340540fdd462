"""Something that is held by a lease: a place in a group, a candidacy or lead, a lock.

A Hold is a key that only its holder creates, attached to a lease that the store keeps alive. Its create revision is
the epoch, and key and create revision together are the fence: whoever takes the place later creates the key anew, with
a greater create revision, and the fence of the one before is refused from then on (docs/formats.md "Keys of the
recipes").

No clock of two machines is ever compared: a lease runs on the store's lease clock, held() on the holder's own clock.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, Self

from raftmeta.errors import Fatal, LeaseExpired, NotExecuted, OutcomeUnknown, Unsupported
from raftmeta.interfaces import AioHeld, HeldBase
from raftmeta.operations import Fence, KeyRecord
from raftmeta.recipes.face import Face
from raftmeta.recipes.store import LeaseBase

__all__ = ["Hold", "Permit", "give_up_lease"]

_LOG = logging.getLogger(__name__)


class Hold(AioHeld):
    """One place and its lease, as the asyncio face shows it. shown: the same for the face it was made on."""

    def __init__(self, face: Face, key: str, id: str, data: bytes) -> None:
        self.key = key
        self.face = face
        self.shown: HeldBase = face.show(self)
        self._id = id
        self._data = data
        self._epoch = 0
        self._lease: Any = None
        self._lost = face.signal()
        self._lock = threading.RLock()
        self._is_over = False
        self._on_lost: list[Callable[[Hold], None]] = []

    def __repr__(self) -> str:
        return f"<{self.key} epoch={self._epoch} {'held' if self.held() else 'lost'}>"

    # --- what its holder asks ---------------------------------------------------------------------------------------
    @property
    def id(self) -> str:
        return self._id

    @property
    def data(self) -> bytes:
        return self._data

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def fence(self) -> Fence:
        if not self.face.has_fences:
            raise Unsupported("fence: this back end cannot check one with a write", capability="fencing")
        return Fence(self.key, self._epoch)

    def held(self) -> bool:
        return not self._is_over and self._lease is not None and bool(self._lease.held())

    def remaining_s(self) -> float:
        return float(self._lease.remaining_s()) if self.held() else 0.0

    async def wait_lost(self, timeout_s: float | None = None) -> bool:
        return not self.held() or await self._lost.wait(timeout_s)

    # --- its life ---------------------------------------------------------------------------------------------------
    @property
    def is_over(self) -> bool:
        """Lost, or given back."""
        return self._is_over

    @property
    def lease(self) -> Any:
        """The lease that the key is attached to."""
        return self._lease

    def on_lost(self, callback: Callable[[Hold], None]) -> None:
        """Call back once when it is lost, not when it is given back; at once if it is lost already. Must not block."""
        with self._lock:
            if not self._is_over:
                self._on_lost.append(callback)
                return
        callback(self)

    def begin(self, lease: LeaseBase, epoch: int) -> None:
        self._lease = lease
        self._epoch = epoch

    def lose(self) -> None:
        """It is gone: the lease lapsed, or somebody took the key. Idempotent, from any thread."""
        is_first = not self._is_over
        for callback in self._end():
            callback(self)
        if is_first and self._lease is not None and self._lease.held():
            self.face.spawn(give_up_lease(self._lease), "give-up")  # else it would be kept alive for nothing

    def settle(self) -> None:
        """It is not held any more, and not lost either."""
        self._end()

    async def give_back(self, *, timeout_s: float | None = 5.0) -> None:
        """Stop holding it, then remove the key; where that fails, it goes with its lease."""
        self._end()
        await self._lease.revoke(timeout_s=timeout_s)

    def _end(self) -> Sequence[Callable[[Hold], None]]:
        with self._lock:
            if self._is_over:
                return ()
            self._is_over = True
            callbacks, self._on_lost = self._on_lost, []
        self._lost.set()
        return callbacks

    def check_record(self, revision: int, record: KeyRecord | None) -> None:
        """Compare with the store's record, of this revision or later: lost when it is another's, or nobody's."""
        if 0 < self._epoch <= revision and (record is None or record.create_revision != self._epoch):
            self.lose()


class Permit(Hold):
    """A hold that its holder gives back itself: a lock, a permit of a semaphore. As a context it is released."""

    async def release(self) -> None:
        """Give it back; the next one has it at once. Idempotent."""
        if not self.is_over:
            await self.give_back()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.release()


async def give_up_lease(lease: Any) -> None:
    """Revoke a lease that nothing depends on: should that fail, it expires."""
    try:
        await lease.revoke()
    except (NotExecuted, OutcomeUnknown, LeaseExpired, Fatal) as error:
        _LOG.info("lease left to expire lease=%d reason=%s", lease.id, error)
