"""Waiting for a condition of the real world, with a deadline: the only place of the tests that sleeps."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PAUSE_S = 0.002


def wait_until(condition: Callable[[], T], *, timeout_s: float, what: str | Callable[[], str]) -> T:
    """Return the first true value of condition(); AssertionError with `what` when timeout_s have passed without one.

    what: the condition in words, or a function that also tells how things stand when the time is over.
    """
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s} s: {what() if callable(what) else what}")
        time.sleep(PAUSE_S)
    return value


def free_ports(count: int) -> list[int]:
    """Loopback ports that nobody uses just now, all different."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
