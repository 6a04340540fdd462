"""Which thread of this process held the GIL, and where it was.

It decides by processor time: the thread that used most of it since the last look. CPython takes the GIL away from a
thread as soon as its call into C has returned. So the stack of that thread still shows the call, and the thread waits
for the GIL. A thread that runs on instead works without the GIL, and it may be innocent.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from types import FrameType

__all__ = ["Holders"]

FRAMES_MAX = 8
STACK_BYTES_MAX = 320
TUNE_COST = 1000  # a look costs at most one in so many parts of the time: a process may have thousands of threads
FRESH_NS = 200_000_000  # a look that was so long before proves something


class Holders:
    """The processor time of all threads of Python, as of the last look."""

    def __init__(self) -> None:
        self._used: dict[int, int] = {}
        self._looked_ns = 0
        self._next_ns = 0

    def look(self) -> None:
        """Remember how much of the processor each thread has used."""
        begun_ns = time.monotonic_ns()
        if begun_ns < self._next_ns:
            return
        self._remember(dict(_used_by_threads()))
        self._next_ns = begun_ns + TUNE_COST * (time.monotonic_ns() - begun_ns)

    def found(self, held_ns: int) -> tuple[int, int, bytes]:
        """Who held the GIL for so long: the thread, its processor time meanwhile, its stack, innermost first.

        The thread is 0 if none is known, the time 0 if nothing proves that it was this one.
        """
        is_fresh = time.monotonic_ns() - self._looked_ns <= held_ns + FRESH_NS
        now = dict(_used_by_threads())
        used = {thread: max(0, ns - self._used.get(thread, ns)) for thread, ns in now.items()}
        most = max(used, key=used.__getitem__, default=0)
        busy = [thread for thread, ns in used.items() if 2 * ns >= held_ns]
        stacks = _stacks({most, *busy})  # first: who held the GIL may go on, and end, as soon as a file is read
        waiting = [thread for thread in busy if not _is_running(thread)]
        self._remember(now)
        holder = max(waiting, key=used.__getitem__, default=most)
        if not used.get(holder):
            return 0, 0, b""
        proved_ns = used[holder] if is_fresh and waiting == [holder] else 0
        return holder, proved_ns, stacks[holder].encode(errors="replace")[:STACK_BYTES_MAX]

    def _remember(self, used: dict[int, int]) -> None:
        self._used = used
        self._looked_ns = time.monotonic_ns()


def _used_by_threads() -> list[tuple[int, int]]:
    own = threading.get_native_id()
    found = []
    for thread in threading.enumerate():
        number = thread.native_id
        if number is None or number == own:
            continue
        try:
            found.append((number, time.clock_gettime_ns(_clock_of(number))))
        except OSError:  # it has ended
            continue
    return found


def _clock_of(thread: int) -> int:
    """The clock of the processor time of a thread, as Linux makes it (MAKE_THREAD_CPUCLOCK, CPUCLOCK_SCHED)."""
    return ~thread << 3 | 6


def _is_running(thread: int) -> bool:
    """Whether it has a processor or waits for one. While another thread has the GIL it then does without."""
    try:
        with open(f"/proc/self/task/{thread}/stat", "rb") as stat:
            return stat.read().rpartition(b") ")[2][:1] == b"R"
    except OSError:
        return False


def _stacks(threads: set[int]) -> dict[int, str]:
    """Where each of them is; an empty text for one that has ended."""
    identities = {one.native_id: one.ident for one in threading.enumerate()}
    frames = sys._current_frames()
    return {thread: _told(frames.get(identities.get(thread) or 0)) for thread in threads}


def _told(frame: FrameType | None) -> str:
    told: list[str] = []
    while frame is not None and len(told) < FRAMES_MAX:
        file = os.sep.join(frame.f_code.co_filename.split(os.sep)[-2:])
        told.append(f"{frame.f_code.co_name} ({file}:{frame.f_lineno})")
        frame = frame.f_back
    return " < ".join(told)
