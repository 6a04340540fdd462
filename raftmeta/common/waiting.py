"""Waiting on asyncio with a time-out, so that a cancellation is never lost.

asyncio.wait_for of Python 3.11 swallows a cancellation that comes in the same turn of the event loop as the result: it
returns the result, and the task goes on as if nobody had asked it to end. Who then waits for its end waits for ever
(python/cpython issue 86296). asyncio.timeout has no such gap. tests/test_style.py bans the former from the package.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

__all__ = ["happened", "within"]

T = TypeVar("T")


async def within(awaited: Awaitable[T], timeout_s: float | None) -> T:
    """Await something for so many seconds; None: for ever. Raises TimeoutError, and cancels a future that it awaits."""
    async with asyncio.timeout(timeout_s):
        return await awaited


async def happened(event: asyncio.Event, timeout_s: float | None) -> bool:
    """Wait until the event is set; False: so many seconds passed."""
    if event.is_set():  # also with a time-out of 0
        return True
    try:
        return await within(event.wait(), timeout_s)
    except TimeoutError:
        return event.is_set()
