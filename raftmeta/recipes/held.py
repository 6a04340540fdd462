"""What is held by a lease: a place in a group, a candidacy or lead, a lock.

A Hold is a key that only its holder creates, attached to a lease that the store keeps alive. Its create revision is
the epoch, and key and create revision together are the fence: whoever takes the place later creates the key anew, with
a greater create revision, and the fence of the one before is refused from then on (docs/formats.md "Keys of the
recipes").

take_place decides who gets a key:
  1. nobody has it: the caller;
  2. an earlier life of the same owner has it: the caller, at once. The key is deleted and created in one transaction,
     so that the earlier life, should it still run, is fenced by the very act that replaces it;
  3. anybody else has it, this life of the owner included: IdConflict.

No clock of two machines is ever compared: a lease runs on the store's lease clock, held() on the holder's own clock.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self, cast

from raftmeta.errors import Fatal, IdConflict, LeaseExpired, NotExecuted, OutcomeUnknown
from raftmeta.interfaces import AioHeld, Held, HeldBase
from raftmeta.operations import Create, Delete, Fence, Get, KeyRecord, ModRevision, Operation, Version
from raftmeta.recipes.deadline import DEFAULT_TIMEOUT_S, Deadline
from raftmeta.recipes.face import Face, run
from raftmeta.recipes.keys import pack_holder, unpack_holder
from raftmeta.recipes.store import LeaseBase

__all__ = ["BlockingHold", "BlockingPermit", "Hold", "Permit", "take_place"]

TUNE_GIVE_BACK_S = 1.0  # of close(): well below Config.close_timeout_s

_LOG = logging.getLogger(__name__)


class Hold(AioHeld):
    """One place and its lease, as the asyncio face shows it. shown: the same for the face it was made on."""

    def __init__(self, face: Face, key: str, id: str, data: bytes) -> None:
        self.key = key
        self._face = face
        self.shown: HeldBase = self._blocking() if face.is_blocking else self
        self._id = id
        self._data = data
        self._epoch = 0
        self._lease: Any = None
        self._lost = face.signal()
        self._lock = threading.RLock()
        self._is_over = False
        self._on_lost: list[Callable[[Hold], None]] = []

    def _blocking(self) -> HeldBase:
        return BlockingHold(self)

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
            self._face.spawn(give_up_lease(self._lease), "give-up")  # else it would be kept alive for nothing

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
        """What the store had under the key, at this revision or later: lost when it is another's, or nobody's."""
        if 0 < self._epoch <= revision and (record is None or record.create_revision != self._epoch):
            self.lose()


class Permit(Hold):
    """A hold that its holder gives back itself: a lock, a permit of a semaphore. As a context it is released."""

    def _blocking(self) -> HeldBase:
        return BlockingPermit(self)

    async def release(self) -> None:
        """Give it back; the next one has it at once. Idempotent."""
        if not self.is_over:
            await self.give_back()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.release()


# --- for callers that may block ---------------------------------------------------------------------------------------


class BlockingHold(Held):
    """A Hold whose loss may be waited for by blocking."""

    def __init__(self, hold: Hold) -> None:
        self._hold = hold

    def __repr__(self) -> str:
        return repr(self._hold)

    @property
    def id(self) -> str:
        return self._hold.id

    @property
    def data(self) -> bytes:
        return self._hold.data

    @property
    def epoch(self) -> int:
        return self._hold.epoch

    @property
    def fence(self) -> Fence:
        return self._hold.fence

    def held(self) -> bool:
        return self._hold.held()

    def remaining_s(self) -> float:
        return self._hold.remaining_s()

    def wait_lost(self, timeout_s: float | None = None) -> bool:
        return run(self._hold.wait_lost(timeout_s))


class BlockingPermit(BlockingHold):
    """As Permit."""

    def release(self) -> None:
        """Give it back; the next one has it at once. Idempotent."""
        run(cast(Permit, self._hold).release())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


# --- taking a place ---------------------------------------------------------------------------------------------------


async def take_place(
    face: Face, hold: Hold, *, ttl_s: float, replaces: int = 0, deadline: Deadline | None = None
) -> None:
    """Create the key of `hold` under a new lease, by the rules above; on any error nothing is left behind.

    deadline: when to give up, None: in 5 seconds. replaces: the epoch of a hold of this life that is known to be lost
    and may still stand in the store.
    Raises IdConflict.
    """
    deadline = Deadline(DEFAULT_TIMEOUT_S) if deadline is None else deadline
    lease = await face.verbs.lease(ttl_s, on_lost=lambda _: hold.lose(), timeout_s=deadline.left_s())
    value = pack_holder(face.owner, hold.data, key=hold.key, id=hold.id)
    create = Create(hold.key, value, lease=lease.id)
    try:
        epoch = await _take_key(face, hold, create, replaces, deadline)
    except BaseException:
        # Not awaited: the caller may have been cancelled. Should it fail, nobody keeps the lease alive any more.
        face.spawn(give_up_lease(lease), "give-up")
        raise
    hold.begin(lease, epoch)


async def _take_key(face: Face, hold: Hold, create: Create, replaces: int, deadline: Deadline) -> int:
    compare: Any = Version(hold.key) == 0
    then: list[Operation] = [create]
    while True:
        reply = await face.verbs.txn([compare], then, [Get(hold.key)], timeout_s=deadline.left_s())
        if reply.succeeded:
            return reply.revision
        record = cast("KeyRecord | None", reply.results[0])
        if record is None:
            compare, then = Version(hold.key) == 0, [create]
            continue
        owner = unpack_holder(record.value).owner
        if record.create_revision != replaces and not face.owner.succeeds(owner):
            raise IdConflict(
                f"{hold.id!r} is held by {owner.name!r} until that one leaves or its lease ends ({hold.key})",
                revision=reply.revision,
            )
        compare, then = ModRevision(hold.key) == record.mod_revision, [Delete(hold.key), create]


async def give_up_lease(lease: Any) -> None:
    """Revoke a lease that nothing depends on: should that fail, it expires."""
    try:
        await lease.revoke()
    except (NotExecuted, OutcomeUnknown, LeaseExpired, Fatal) as error:
        _LOG.info("lease left to expire lease=%d reason=%s", lease.id, error)


async def give_back_quietly(*holds: Hold, timeout_s: float = TUNE_GIVE_BACK_S) -> None:
    """For close(), which must end soon: what is not given back in time goes with its lease, no longer kept alive."""
    until_s = time.monotonic() + timeout_s
    for hold in holds:
        try:
            await hold.give_back(timeout_s=max(0.0, until_s - time.monotonic()))
        except (NotExecuted, OutcomeUnknown, Fatal) as error:
            _LOG.info("left to expire key=%s reason=%s", hold.key, error)
