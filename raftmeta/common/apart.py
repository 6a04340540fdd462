"""Threads that a signal handler may start and wait for in the middle of anything.

threading.Thread.start() holds two locks for a moment: one of all threads, and one of the new thread. A signal handler
that runs in that moment, on that very thread, and starts or joins a thread then waits for ever: also when the start
below it is the host's own. So a raw thread, which has no lock, starts the proper one; and whoever waits for its end
waits for a flag.
"""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable

from raftmeta.common.flags import Flag

__all__ = ["ApartThread", "start_apart"]

TUNE_GONE_S = 0.1  # from the end of a body until its thread is in no list any more


def start_apart(body: Callable[[], object], name: str) -> None:
    """Run body on a daemon thread of this name."""
    _thread.start_new_thread(threading.Thread(target=body, name=name, daemon=True).start, ())


class ApartThread:
    """A daemon thread of this name, to be waited for."""

    def __init__(self, body: Callable[[], object], name: str) -> None:
        self._body = body
        self._begun, self._ended = Flag(), Flag()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """It runs on return: what comes next on this thread cannot keep it from its beginning."""
        _thread.start_new_thread(self._thread.start, ())
        self._begun.wait()

    def _run(self) -> None:
        self._begun.set()
        try:
            self._body()
        finally:
            self._ended.set()

    def is_this(self) -> bool:
        """Whether the caller runs on it."""
        return self._thread.ident == threading.get_ident()

    def wait(self, timeout_s: float) -> bool:
        """Wait until the body has ended; False: timeout_s seconds passed."""
        if not self._ended.wait(timeout_s):
            return False
        self._thread.join(TUNE_GONE_S)
        return True
