"""How long a call may take in all, over several calls of a store; how long a silent holder keeps what it has."""

from __future__ import annotations

import time

__all__ = ["DEFAULT_TIMEOUT_S", "DEFAULT_TTL_S", "Deadline"]

DEFAULT_TIMEOUT_S = 5.0  # as the verbs of a store
DEFAULT_TTL_S = 5.0  # of leases


class Deadline:
    """When to give up. timeout_s: seconds from now, None: never."""

    def __init__(self, timeout_s: float | None) -> None:
        self._at_s = None if timeout_s is None else time.monotonic() + timeout_s

    def left_s(self) -> float | None:
        """Seconds left, 0 when it has passed; None: for ever."""
        return None if self._at_s is None else max(0.0, self._at_s - time.monotonic())
