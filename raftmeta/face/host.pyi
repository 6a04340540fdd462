"""A thread of Python that looks how long it has to wait for the GIL."""

from __future__ import annotations

from collections.abc import Callable

from raftmeta.common.apart import ApartThread

class HostWatch:
    """The watch of one node. Its thread runs body, which sleeps by this watch."""

    thread: ApartThread
    def __init__(self, body: Callable[[HostWatch], None], period_s: float, records: bool) -> None:
        """The thread is made and not started. records: find out who holds the GIL."""
