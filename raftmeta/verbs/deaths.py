"""The word of a parent or a service manager that a node's process is gone (docs/leases.md)."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from raftmeta.bindings.revision import Revision
from raftmeta.bindings.verbs import Request, end_process

__all__ = ["report", "report_awaited"]


def report(
    ask: Callable[[Request[Revision], float | None], Revision], member: int, boot: int, timeout_s: float | None
) -> Revision:
    """End that process with as many entries as its leases need. An answer's result says how many of them are left."""
    left_s = _clock(timeout_s)
    answer = ask(end_process(member, boot), timeout_s)
    while answer.result:
        answer = ask(end_process(member, boot), left_s())
    return answer


async def report_awaited(
    ask: Callable[[Request[Revision], float | None], Awaitable[Revision]],
    member: int,
    boot: int,
    timeout_s: float | None,
) -> Revision:
    """As report."""
    left_s = _clock(timeout_s)
    answer = await ask(end_process(member, boot), timeout_s)
    while answer.result:
        answer = await ask(end_process(member, boot), left_s())
    return answer


def _clock(timeout_s: float | None) -> Callable[[], float | None]:
    """A function that tells how much of that time is left; None: for ever."""
    if timeout_s is None:
        return lambda: None
    until_s = time.monotonic() + timeout_s
    return lambda: max(0.0, until_s - time.monotonic())
