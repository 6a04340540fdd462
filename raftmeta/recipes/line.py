"""Standing in line: lock, read/write lock and semaphore.

Whoever wants a permit creates a leased key of its own below the prefix of the lock; create revisions order the line,
so that nobody who came later can get in before. One has its turn when fewer than `limit` of those ahead block it:

    lock            all block, limit 1          write lock      all block, limit 1
    semaphore       all block, limit `permits`  read lock       writers block, limit 1

A crashed holder or waiter leaves with its lease. With limit 1 a waiter watches only the one ahead of it: a release
wakes one waiter, not all (etcd's recipes do the same). Waiters of a semaphore watch who leaves, and ask nothing.

Nothing here is re-entrant: a second acquire waits for the first to be released like anybody else's, until its time-out.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, cast

from raftmeta.errors import InvalidArgument, LeaseExpired, NodeClosed, NotExecuted, Withdrawn
from raftmeta.operations import KeyRecord, check_callable
from raftmeta.recipes.face import AioFace, Face
from raftmeta.recipes.held import Permit, give_up_lease, take_place
from raftmeta.recipes.keys import key_of, prefix_of, unpack_holder
from raftmeta.recipes.listeners import Failures, Strand
from raftmeta.recipes.store import AioStore
from raftmeta.recipes.waiting import Deadline, wait_until

__all__ = ["Lock", "ReadWriteLock", "Semaphore", "face_of", "stand_in_line"]

DEFAULT_TTL_S = 5.0

READ, WRITE = b"read", b"write"


def face_of(context: Any) -> Face:
    """The face that a blocking recipe made already, or one for asyncio over a store."""
    return context if isinstance(context, Face) else AioFace(context)


async def stand_in_line(
    face: Face,
    prefix: str,
    *,
    data: bytes = b"",
    blocks: Callable[[bytes], bool] = lambda _: True,
    limit: int = 1,
    ttl_s: float,
    deadline: Deadline,
) -> Permit:
    """Wait for one's turn. blocks: whether one ahead with this data blocks; limit: how many must not.

    Raises Withdrawn: the deadline passed, nothing is held. LeaseExpired: the place in the line was lost.
    """
    permit = Permit(face, prefix + os.urandom(8).hex(), face.owner.name, data)
    await take_place(face, permit, ttl_s=ttl_s)
    try:
        await _wait_for_turn(face, permit, prefix, blocks, limit, deadline)
    except BaseException as error:
        was_lost = not permit.held()
        permit.lose()
        face.spawn(give_up_lease(permit.lease), "give-up")
        if was_lost and isinstance(error, NotExecuted) and not isinstance(error, NodeClosed):
            raise LeaseExpired(f"{permit.key} was lost while waiting") from error  # whatever the store said then
        raise
    return permit


async def _wait_for_turn(
    face: Face, permit: Permit, prefix: str, blocks: Callable[[bytes], bool], limit: int, deadline: Deadline
) -> None:
    while True:
        line = (await face.verbs.range(prefix=prefix)).records
        if all(record.create_revision != permit.epoch for record in line):
            raise LeaseExpired(f"{permit.key} was lost while waiting")
        ahead = [one for one in line if one.create_revision < permit.epoch and blocks(unpack_holder(one.value).data)]
        if len(ahead) < limit:
            return
        if not await _until_fewer(face, permit, prefix, ahead, limit, deadline):
            raise Withdrawn(f"{prefix} was not had in time; not waiting any more")


async def _until_fewer(
    face: Face, permit: Permit, prefix: str, ahead: list[KeyRecord], limit: int, deadline: Deadline
) -> bool:
    """Until it is worth looking at the line again."""
    if limit == 1:
        last = max(ahead, key=lambda record: record.create_revision)
        return await wait_until(face, lambda records: not records, key=key_of(last.key), deadline=deadline, hold=permit)
    keys = {record.key for record in ahead}
    return await wait_until(
        face, lambda records: len(keys & records.keys()) < limit, prefix=prefix, deadline=deadline, hold=permit
    )


class _InLine:
    """What lock, read/write lock and semaphore share. ttl_s: how many seconds a silent holder keeps its permit."""

    def __init__(self, store: AioStore | Face, name: str, *, kind: str, ttl_s: float) -> None:
        self._face = face_of(store)
        self._prefix = prefix_of(kind, name)
        self._ttl_s = ttl_s
        self._failures = Failures()

    async def _acquire(self, timeout_s: float | None, on_lost: Callable[[Any], object] | None, **how: Any) -> Permit:
        check_callable(on_lost, "on_lost")
        permit = await stand_in_line(self._face, self._prefix, ttl_s=self._ttl_s, deadline=Deadline(timeout_s), **how)
        if on_lost is not None:
            strand: Strand[Any] = Strand(self._face, on_lost, self._failures)
            permit.on_lost(lambda lost: strand.tell(lost.shown))
        return cast(Permit, permit.shown)


class Lock(_InLine):
    """One holder at a time, in the order of asking: `async with await Lock(store, "jobs").acquire() as held:`."""

    def __init__(self, store: AioStore | Face, name: str, *, ttl_s: float = DEFAULT_TTL_S) -> None:
        super().__init__(store, name, kind="locks", ttl_s=ttl_s)

    async def acquire(
        self, *, timeout_s: float | None = None, on_lost: Callable[[Any], object] | None = None
    ) -> Permit:
        """Wait for the lock and hold it until release; give `fence=held` to every write it protects.

        on_lost: called once when it is lost before it was released. Raises Withdrawn (also a TimeoutError): not had
        within timeout_s seconds. LeaseExpired: this process was cut off while it waited.
        """
        return await self._acquire(timeout_s, on_lost)


class ReadWriteLock(_InLine):
    """Many readers or one writer. A writer that waits keeps later readers out, so that it is not starved."""

    def __init__(self, store: AioStore | Face, name: str, *, ttl_s: float = DEFAULT_TTL_S) -> None:
        super().__init__(store, name, kind="rwlocks", ttl_s=ttl_s)

    async def acquire_read(
        self, *, timeout_s: float | None = None, on_lost: Callable[[Any], object] | None = None
    ) -> Permit:
        """As Lock.acquire, beside other readers."""
        return await self._acquire(timeout_s, on_lost, data=READ, blocks=lambda data: data != READ)

    async def acquire_write(
        self, *, timeout_s: float | None = None, on_lost: Callable[[Any], object] | None = None
    ) -> Permit:
        """As Lock.acquire."""
        return await self._acquire(timeout_s, on_lost, data=WRITE)


class Semaphore(_InLine):
    """At most `permits` holders at a time, in the order of asking. All who use it must name the same number."""

    def __init__(self, store: AioStore | Face, name: str, permits: int, *, ttl_s: float = DEFAULT_TTL_S) -> None:
        if not isinstance(permits, int) or permits < 1:
            raise InvalidArgument(f"permits: must be an integer from 1 on, not {permits!r}", field="permits")
        super().__init__(store, name, kind="semaphores", ttl_s=ttl_s)
        self._permits = permits

    async def acquire(
        self, *, timeout_s: float | None = None, on_lost: Callable[[Any], object] | None = None
    ) -> Permit:
        """As Lock.acquire. Raises InvalidArgument: somebody ahead named another number of permits."""
        data = str(self._permits).encode()
        return await self._acquire(timeout_s, on_lost, data=data, blocks=self._blocks, limit=self._permits)

    def _blocks(self, data: bytes) -> bool:
        if data != str(self._permits).encode():
            raise InvalidArgument(
                f"permits: {self._prefix} is in use with {data.decode(errors='replace')}, not {self._permits}",
                field="permits",
            )
        return True
