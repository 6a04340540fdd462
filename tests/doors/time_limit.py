"""A limit to the time of one test, which strikes again while the test winds up.

pytest-timeout strikes once. A test whose body hung, and whose end waits for its own threads, then hangs for ever.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

TOO_LONG = "longer than"


class TooLong(Exception):
    """The time of a test is over."""


@contextmanager
def limited(seconds: float, *, again_s: float) -> Iterator[None]:
    """Raises TooLong out of whatever the main thread does, after so many seconds and then every again_s seconds."""

    def strike(*_: object) -> None:
        raise TooLong(f"{TOO_LONG} {seconds:g} s")

    signal.signal(signal.SIGALRM, strike)
    signal.setitimer(signal.ITIMER_REAL, seconds, again_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
