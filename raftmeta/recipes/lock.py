"""Lock, read/write lock and semaphore: permits that are had in the order of asking (recipes/line).

    lock            all ahead block, limit 1          write lock      all ahead block, limit 1
    semaphore       all block, limit `permits`        read lock       writers block, limit 1

Nothing here is re-entrant: a second acquire waits for the first to be released like anybody else's, until its time-out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast

from raftmeta.errors import InvalidArgument
from raftmeta.recipes.recipe import (
    DEFAULT_TTL_S,
    Deadline,
    Face,
    Failures,
    Permit,
    face_of,
    prefix_of,
    stand_in_line,
    telling,
)
from raftmeta.recipes.store import AioStore

__all__ = ["Lock", "ReadWriteLock", "Semaphore"]

READ, WRITE = b"read", b"write"

OnLost: TypeAlias = Callable[[Any], object] | None


class _InLine:
    """The base of lock, read/write lock and semaphore. ttl_s: how many seconds a silent holder keeps its permit."""

    def __init__(self, store: AioStore | Face, name: str, *, kind: str, ttl_s: float) -> None:
        self._face = face_of(store)
        self._prefix = prefix_of(kind, name)
        self._ttl_s = ttl_s
        self._failures = Failures()

    async def _acquire(self, timeout_s: float | None, on_lost: OnLost, **how: Any) -> Permit:
        tell_lost = telling(self._face, self._failures, on_lost, "on_lost")
        permit = await stand_in_line(self._face, self._prefix, ttl_s=self._ttl_s, deadline=Deadline(timeout_s), **how)
        permit.on_lost(tell_lost)
        return cast(Permit, permit.shown)


class Lock(_InLine):
    """One holder at a time, in the order of asking: `async with await Lock(store, "jobs").acquire() as held:`."""

    def __init__(self, store: AioStore | Face, name: str, *, ttl_s: float = DEFAULT_TTL_S) -> None:
        super().__init__(store, name, kind="locks", ttl_s=ttl_s)

    async def acquire(self, *, timeout_s: float | None = None, on_lost: OnLost = None) -> Permit:
        """Wait for the lock and hold it until release; give `fence=held` to every write it protects.

        on_lost: called once when it is lost before it was released. Raises Withdrawn (also a TimeoutError): not had
        within timeout_s seconds. LeaseExpired: this process was cut off while it waited.
        """
        return await self._acquire(timeout_s, on_lost)


class ReadWriteLock(_InLine):
    """Many readers or one writer. A writer that waits keeps later readers out, so that it is not starved."""

    def __init__(self, store: AioStore | Face, name: str, *, ttl_s: float = DEFAULT_TTL_S) -> None:
        super().__init__(store, name, kind="rwlocks", ttl_s=ttl_s)

    async def acquire_read(self, *, timeout_s: float | None = None, on_lost: OnLost = None) -> Permit:
        """As Lock.acquire, beside other readers."""
        return await self._acquire(timeout_s, on_lost, data=READ, blocks=lambda data: data != READ)

    async def acquire_write(self, *, timeout_s: float | None = None, on_lost: OnLost = None) -> Permit:
        """As Lock.acquire."""
        return await self._acquire(timeout_s, on_lost, data=WRITE)


class Semaphore(_InLine):
    """At most `permits` holders at a time, in the order of asking. All who use it must name the same number."""

    def __init__(self, store: AioStore | Face, name: str, permits: int, *, ttl_s: float = DEFAULT_TTL_S) -> None:
        if not isinstance(permits, int) or permits < 1:
            raise InvalidArgument(f"permits: must be an integer from 1 on, not {permits!r}", field="permits")
        super().__init__(store, name, kind="semaphores", ttl_s=ttl_s)
        self._permits = permits

    async def acquire(self, *, timeout_s: float | None = None, on_lost: OnLost = None) -> Permit:
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
