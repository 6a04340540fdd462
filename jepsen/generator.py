"""When a client asks, and of which keys.

Keys rotate: a key that is asked for a thousand times, or by ten clients at once, makes a history that is hard to check
(docs/checker.md "Figures"). All clients of a group turn to the next keys at the same moment of the run's clock, without
talking to one another.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from random import Random

from jepsen.clock import NS_PER_S, now_ns

GROUP = 8  # clients that share keys
OPERATIONS_PER_KEY = 400
ROTATION_MIN_S, ROTATION_MAX_S = 2.0, 20.0


class Pace:
    """Turns at random times, period_s apart on average. One that comes late makes up for nothing."""

    def __init__(self, period_s: float, random: Random) -> None:
        self._period_s = period_s
        self._random = random

    async def wait(self) -> None:
        """Until the next turn."""
        await asyncio.sleep(self._random.uniform(0, 2 * self._period_s))


@dataclass(frozen=True, slots=True)
class Rotation:
    """t0_ns: the beginning of the run. period_s: how long a key is used."""

    t0_ns: int
    period_s: float

    @classmethod
    def of(cls, t0_ns: int, operations_per_s: float) -> Rotation:
        """For a key that is asked for at this rate."""
        period_s = OPERATIONS_PER_KEY / max(operations_per_s, 1.0)
        return cls(t0_ns, min(max(period_s, ROTATION_MIN_S), ROTATION_MAX_S))

    def number(self) -> int:
        """Of the keys in use now."""
        return int((now_ns() - self.t0_ns) / (self.period_s * NS_PER_S))
