"""A flag to wait for, which a signal handler may set in the middle of anything.

threading.Event holds a lock for a moment in each of its calls. A signal handler that runs in that moment, on that very
thread, waits for the lock for ever. A Flag has no lock: each waiter sleeps on a lock of its own, and who sets the flag
lets it go.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any

__all__ = ["Flag"]


class Flag:
    """As threading.Event."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: list[Any] = []

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        # 1. The waiter puts itself in the list, 2. looks at the flag and sleeps; here the flag is 3. set before 4. the
        # list is looked at. If 1 comes after 3, then 2 sees the flag. If 3 comes after 1, then 4 sees the waiter.
        self._is_set = True
        while self._waiting:
            with contextlib.suppress(IndexError):  # another thread has let it go
                self._waiting.pop().release()

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait until it is set; False: timeout_s seconds passed."""
        if self._is_set:
            return True
        sleeping = threading.Lock()
        sleeping.acquire()
        self._waiting.append(sleeping)
        try:
            return self._is_set or sleeping.acquire(timeout=-1 if timeout_s is None else max(0.0, timeout_s))
        finally:
            with contextlib.suppress(ValueError):
                self._waiting.remove(sleeping)
