"""Telling listeners: each in order, one call at a time, and none waits for another.

It decides when a listener is called and what becomes of one that throws (logged and counted) or is slow (its calls
are coalesced once TUNE_..._MAX of them wait). It never calls a listener on the thread of the one who tells, nor while a
lock is held (features of the older plug-ins that went wrong are listed in docs/kip30.md "Mistakes").
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Generic, TypeVar

from raftmeta.interfaces import GroupChange, KeySetChange, LeaderChange, State, ValueChange, listener_call
from raftmeta.recipes.face import Face

__all__ = ["Failures", "Listeners", "Strand"]

TUNE_PENDING_MAX = 1000  # changes waiting for one listener before they are coalesced
TUNE_KEY_SETS_PENDING_MAX = 32  # the same: a listener that looks at all keys each time needs long for each

_LOG = logging.getLogger(__name__)

Told = TypeVar("Told")
Change = TypeVar("Change", GroupChange, LeaderChange, ValueChange, KeySetChange, State)


class Failures:
    """Counts what listeners threw."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, listener: Callable[[Any], object]) -> None:
        """Called while the exception is handled."""
        self.count += 1
        _LOG.exception("listener failed listener=%r", listener)


class Strand(Generic[Told]):
    """The calls of one listener. Its worker lives only while there is something to tell."""

    def __init__(
        self, face: Face, listener: Any, failures: Failures, call: Callable[[Told], object] | None = None
    ) -> None:
        """call: how listener is called, None: as it is."""
        self.listener = listener
        self._call: Callable[[Told], object] = listener if call is None else call
        self._face = face
        self._failures = failures
        self._pending: deque[Told] = deque()
        self._lock = threading.RLock()
        self._is_running = False
        self._is_closed = False

    def tell(self, told: Told, merge: Callable[[list[Told]], Told] | None = None, *, pending_max: int = 0) -> None:
        """Queue one call. merge: makes the call that stands for all that wait, when they are more than pending_max."""
        with self._lock:
            if self._is_closed:
                return
            if merge is not None and len(self._pending) >= pending_max:
                told = merge([*self._pending, told])
                self._pending.clear()
            self._pending.append(told)
            if self._is_running:
                return
            self._is_running = True
        self._face.spawn_calls(self._work())

    def close(self) -> None:
        """When it returns no further call begins; one that runs may go on."""
        with self._lock:
            self._is_closed = True
            self._pending.clear()

    def _next(self) -> Told | None:
        with self._lock:
            if not self._pending:
                self._is_running = False
                return None
            return self._pending.popleft()

    async def _work(self) -> None:
        while (told := self._next()) is not None:
            try:
                await self._face.call(self._call, told)
            except BaseException as error:  # sys.exit() in a listener ends neither its thread nor the event loop
                if self._face.is_ending(error):
                    raise
                self._failures.add(self.listener)


def coalesced(changes: list[Change]) -> Change:
    """The call that stands for all of these, the newest last."""
    latest = changes[-1]
    if isinstance(latest, State):
        return latest
    if not isinstance(latest, KeySetChange):
        return replace(latest, coalesced=True)
    net: dict[str, int] = {}  # each key alternates: added, removed, added ...
    for change in changes:
        for key in change.added:
            net[key] = net.get(key, 0) + 1
        for key in change.removed:
            net[key] = net.get(key, 0) - 1
    added = frozenset(key for key, count in net.items() if count > 0)
    removed = frozenset(key for key, count in net.items() if count < 0)
    return replace(latest, coalesced=True, added=added, removed=removed)


class Listeners(Generic[Change]):
    """The listeners of one group, service, key or namespace."""

    def __init__(self, face: Face, failures: Failures, kind: type[Change]) -> None:
        self._face = face
        self._failures = failures
        self._kind: type[Any] = kind
        self._strands: list[Strand[Change]] = []
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self._strands)

    def add(self, listener: object) -> None:
        """Adding it again changes nothing. Raises InvalidArgument for what is no listener."""
        call = listener_call(self._kind, listener)
        with self._lock:
            if all(strand.listener != listener for strand in self._strands):
                self._strands.append(Strand(self._face, listener, self._failures, call))

    def remove(self, listener: object) -> None:
        with self._lock:
            removed = [strand for strand in self._strands if strand.listener == listener]
            self._strands = [strand for strand in self._strands if strand.listener != listener]
        for strand in removed:
            strand.close()

    def tell(self, change: Change) -> None:
        pending_max = TUNE_KEY_SETS_PENDING_MAX if isinstance(change, KeySetChange) else TUNE_PENDING_MAX
        for strand in self._strands:
            strand.tell(change, coalesced, pending_max=pending_max)

    def close(self) -> None:
        with self._lock:
            strands, self._strands = self._strands, []
        for strand in strands:
            strand.close()
