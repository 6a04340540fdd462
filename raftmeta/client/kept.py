"""A lease that a client keeps alive, as its own clock knows it."""

from __future__ import annotations

import time

DRIFT = 0.05  # clocks of two machines whose rates differ by more are broken


def now_boot_s() -> float:
    """Seconds by a clock that goes on while the machine sleeps, as leases do."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class KeptLease:
    """One grant: another one under the same id is another KeptLease."""

    __slots__ = ("since_s", "ttl_s")

    def __init__(self, ttl_s: float, since_s: float) -> None:
        self.ttl_s = ttl_s
        self.since_s = since_s  # when the grant, or the last acknowledged keep-alive, was sent

    def left_s(self) -> float:
        """Seconds for which it is certainly held; 0.0 or less: lost, and its id may be another owner's."""
        return self.since_s + self.ttl_s * (1 - DRIFT) - now_boot_s()
