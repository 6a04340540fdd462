"""The meters of a metastore: Kafka's names, as `kafka.server:type=SessionExpireListener,name=ZooKeeperExpiresPerSec`.

They count and measure, and decide nothing.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field

__all__ = ["Latency", "Meter", "Meters"]

KEPT = 1024  # the answers whose times the quantiles are of

EVENTS = ("Disconnects", "SyncConnects", "AuthFailures", "ReadOnlyConnects", "SaslAuthentications", "Expires")


@dataclass(slots=True)
class Meter:
    """How often something happened since the metastore began."""

    count: int = 0
    begun_s: float = field(default_factory=time.monotonic)

    def mark(self) -> None:
        self.count += 1

    @property
    def rate_per_s(self) -> float:
        """The mean since the metastore began."""
        return self.count / max(time.monotonic() - self.begun_s, 1e-9)


@dataclass(slots=True)
class Latency:
    """The times of answers, in seconds. quantile: of the last 1,024 of them, 0 without one."""

    count: int = 0
    sum_s: float = 0.0
    max_s: float = 0.0
    last_s: deque[float] = field(default_factory=lambda: deque(maxlen=KEPT))

    def add(self, time_s: float) -> None:
        self.count += 1
        self.sum_s += time_s
        self.max_s = max(self.max_s, time_s)
        self.last_s.append(time_s)

    def quantile(self, part: float) -> float:
        """part: from 0 to 1."""
        ordered = sorted(self.last_s)
        return ordered[min(int(part * len(ordered)), len(ordered) - 1)] if ordered else 0.0


class Meters:
    """Six meters of session events by name, and the latency of requests."""

    def __init__(self, group: str, kind: str) -> None:
        self._prefix = f"{group}:type={kind},name="
        self.events = {name: Meter() for name in EVENTS}
        self.latency = Latency()

    def values(self, state: str) -> dict[str, int | float | str]:
        """All of them by their full names. state: the gauge SessionState."""
        named: dict[str, int | float | str] = {
            f"ZooKeeper{name}PerSec": meter.count for name, meter in self.events.items()
        }
        named["SessionState"] = state
        named["ZooKeeperRequestLatencyMs"] = 1000 * self.latency.sum_s / max(self.latency.count, 1)
        return {self._prefix + name: value for name, value in named.items()}
