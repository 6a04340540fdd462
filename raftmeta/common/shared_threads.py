"""Calls on threads that many share: of listeners, of callbacks, and of work that a recipe goes on with.

It decides on which thread a call runs, and how many threads there are: one, and one more each time that the calls under
way made no progress for TUNE_LOOK_S while others wait. So a slow call delays nobody else, and ten thousand quick ones
need one thread. Threads that find nothing to do end after TUNE_LINGER_S. It decides nothing about what is called.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from raftmeta.common.apart import start_apart

__all__ = ["Loss", "Losses", "SharedThreads"]

TUNE_LOOK_S = 0.005  # as long as Python lets a thread compute when others want to
TUNE_LINGER_S = 1.0
LOOKS_PER_TTL = 20  # at a lease whose owner wants to be told of its loss

Work = Callable[[], object]


class SharedThreads:
    """Calls what is posted, once each. threads_max: how many threads at most, None: as many as calls block."""

    def __init__(self, name: str, *, threads_max: int | None = None) -> None:
        self._name = name
        self._threads_max = threads_max
        self._lock = threading.RLock()  # a signal handler may come in between
        self._has_work = threading.Condition(self._lock)
        self._must_look = threading.Condition(self._lock)
        self._due: deque[Work] = deque()
        self._threads = 0
        self._idle = 0
        self._calls = 0  # begun or ended
        self._has_onlooker = False

    def post(self, work: Work) -> None:
        """Call work soon, on another thread. An exception goes to threading.excepthook."""
        with self._lock:
            self._due.append(work)
            if self._idle:
                self._has_work.notify()
            elif not self._threads:
                self._add_thread()
            if self._has_onlooker:
                self._must_look.notify()
            elif self._threads_max != 1:
                self._has_onlooker = True
                self._start(self._look_on)

    def _add_thread(self) -> None:
        self._threads += 1
        self._start(self._run)

    def _start(self, body: Callable[[], None]) -> None:
        start_apart(body, f"raftmeta-{self._name}")

    def _run(self) -> None:
        while (work := self._next()) is not None:
            try:
                work()
            except BaseException as error:
                threading.excepthook(
                    threading.ExceptHookArgs((type(error), error, error.__traceback__, threading.current_thread()))
                )
            with self._lock:
                self._calls += 1

    def _next(self) -> Work | None:
        with self._lock:
            while not self._due:
                self._idle += 1
                was_told = self._has_work.wait(TUNE_LINGER_S)
                self._idle -= 1
                if not was_told and not self._due:
                    self._threads -= 1
                    return None
            self._calls += 1
            return self._due.popleft()

    def _look_on(self) -> None:
        """The thread that finds the others stuck."""
        with self._lock:
            while True:
                if self._due:
                    seen = self._calls
                    self._lock.release()
                    try:
                        time.sleep(TUNE_LOOK_S)
                    finally:
                        self._lock.acquire()
                    if self._due and self._calls == seen and not self._idle and self._may_grow():
                        self._add_thread()
                elif not self._must_look.wait(TUNE_LINGER_S) and not self._due:
                    self._has_onlooker = False
                    return

    def _may_grow(self) -> bool:
        return self._threads_max is None or self._threads < self._threads_max


class Loss(Protocol):
    """A lease, as far as its loss is concerned."""

    @property
    def ttl_s(self) -> float: ...
    def remaining_s(self) -> float: ...


class Losses:
    """Tells of leases that are not held any more. One thread looks at all of them, and threads calls back."""

    def __init__(self, threads: SharedThreads) -> None:
        self._threads = threads
        self._changed = threading.Condition()
        self._leases: dict[Loss, Work] = {}
        self._has_thread = False
        self._look_s = 0.0  # when the thread looks next, on the monotonic clock

    def add(self, lease: Loss, on_lost: Work) -> None:
        """Call on_lost once when lease is lost, unless it is removed before."""
        with self._changed:
            self._leases[lease] = on_lost
            if not self._has_thread:
                self._has_thread = True
                threading.Thread(target=self._look_at_all, name="raftmeta-lease", daemon=True).start()
            elif time.monotonic() + lease.ttl_s / LOOKS_PER_TTL < self._look_s:
                self._changed.notify()

    def remove(self, lease: Loss) -> None:
        """Do not tell of it any more. One that is not here is ignored."""
        with self._changed:
            if self._leases.pop(lease, None) is not None and not self._leases:
                self._changed.notify()

    def _look_at_all(self) -> None:
        while leases := self._all_or_end():
            pause_s = min(self._look_at(lease) for lease in leases)
            with self._changed:
                if self._leases:
                    self._look_s = time.monotonic() + pause_s
                    self._changed.wait(pause_s)
                self._look_s = 0.0

    def _all_or_end(self) -> list[Loss]:
        with self._changed:
            self._has_thread = bool(self._leases)
            return list(self._leases)

    def _look_at(self, lease: Loss) -> float:
        """How many seconds later to look again."""
        left_s = lease.remaining_s()
        if left_s > 0:
            return max(0.001, min(left_s, lease.ttl_s / LOOKS_PER_TTL))
        with self._changed:
            on_lost = self._leases.pop(lease, None)
        if on_lost is not None:
            self._threads.post(on_lost)
        return lease.ttl_s / LOOKS_PER_TTL
