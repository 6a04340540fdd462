"""The one clock by which everything of a run is ordered.

CLOCK_MONOTONIC_RAW of the kernel is the same for all processes of a machine, namespaces included, and no fault of this
package turns it: a shim that makes a broker's clocks jump or drift leaves this one alone.
"""

from __future__ import annotations

import time

NS_PER_S = 1_000_000_000


def now_ns() -> int:
    """Nanoseconds of CLOCK_MONOTONIC_RAW; meaningful only against another call on this machine since its boot."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
