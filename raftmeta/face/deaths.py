"""The word of a parent or a service manager that a node's process is gone (docs/leases.md)."""

from __future__ import annotations

import time
from collections.abc import Callable

from raftmeta.bindings.revision import Revision
from raftmeta.bindings.verbs import Request, end_process
from raftmeta.errors import NotReady

__all__ = ["end_of", "seconds_left"]

LEVEL_OF_PROCESSES = 7  # machine/state


def end_of(member: int, boot: int, level: int) -> Request[Revision]:
    """The request that ends that process. The result of its answer: how many of its leases are left for the next one.

    Raises NotReady while a member runs a version that cannot apply it.
    """
    if level < LEVEL_OF_PROCESSES:
        raise NotReady(f"a member runs an older version: feature level {level}, {LEVEL_OF_PROCESSES} is needed")
    return end_process(member, boot)


def seconds_left(timeout_s: float | None) -> Callable[[], float | None]:
    """A function that tells how much of that time is left; None: for ever."""
    if timeout_s is None:
        return lambda: None
    until_s = time.monotonic() + timeout_s
    return lambda: max(0.0, until_s - time.monotonic())
