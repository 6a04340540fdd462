"""The verdict: what clients were promised, against what each node has and what its watcher saw. Pure functions."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from demo.ledger import Acknowledgement

Records = Mapping[str, tuple[str, int]]  # key: digest of its value, and its revision

EXAMPLES_MAX = 5


def read_records(lines: Iterable[str]) -> Records:
    """Of a file that node.read_back wrote."""
    records = {}
    for line in lines:
        key, digest, revision = line.split()
        records[key] = digest, int(revision)
    return records


def lost_writes(promised: Iterable[Acknowledgement], nodes: Mapping[str, Records]) -> list[str]:
    """The acknowledged writes that a node does not have as promised, in words."""
    lost = []
    for one in promised:
        for name, records in nodes.items():
            found = records.get(one.key)
            if found != (one.digest, one.revision):
                lost.append(f"{one.key} at revision {one.revision}: node {name} has {found}")
    return lost


def failover_ns(promised: Iterable[Acknowledgement], killed_ns: int) -> int | None:
    """From the kill to the first acknowledgement of a write that was begun after it; None without one."""
    times = [one.acknowledged_ns for one in promised if one.begun_ns > killed_ns]
    return min(times) - killed_ns if times else None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report:
    """The table. Times in milliseconds.

    unknown: writes whose outcome nobody could tell; they were promised to nobody.
    watched: the last revision that each node's watcher saw; it has to be the last one there is.
    """

    seconds: float
    acknowledged: int
    unknown: int
    lost: list[str]
    revision: int
    watched: dict[str, int]
    watch_gaps: int
    failovers_ms: list[float]
    kills: int
    full_restart_ms: float
    applied: int
    state_hashes: dict[str, str]

    @property
    def unseen(self) -> int:
        """Revisions that a watcher should have seen at the end and did not."""
        return sum(abs(self.revision - watched) for watched in self.watched.values())

    @property
    def failover_p50_ms(self) -> float:
        return statistics.median(self.failovers_ms) if self.failovers_ms else 0.0

    @property
    def failover_max_ms(self) -> float:
        return max(self.failovers_ms, default=0.0)

    def checks(self) -> list[tuple[str, str, bool]]:
        """The rows: what, how much, and whether that is right."""
        rate = self.acknowledged / self.seconds
        hashes = set(self.state_hashes.values())
        nodes = len(self.state_hashes)
        return [
            ("acknowledged writes", f"{self.acknowledged:,} ({rate:,.0f}/s)", self.acknowledged > 0),
            ("lost, of those, on any node", str(len(self.lost)), not self.lost),
            ("watch gaps and repeats", str(self.watch_gaps + self.unseen), self.watch_gaps + self.unseen == 0),
            ("leaders killed, and replaced", f"{len(self.failovers_ms)} of {self.kills}", self._all_replaced),
            ("failover, median", f"{self.failover_p50_ms:,.0f} ms", self._all_replaced),
            ("failover, longest", f"{self.failover_max_ms:,.0f} ms", self._all_replaced),
            ("all killed, until the next write", f"{self.full_restart_ms:,.0f} ms", self.full_restart_ms > 0),
            (f"state hash on {nodes} nodes", f"{' '.join(sorted(hashes))} at index {self.applied}", len(hashes) == 1),
        ]

    @property
    def _all_replaced(self) -> bool:
        return len(self.failovers_ms) == self.kills

    @property
    def is_right(self) -> bool:
        return all(right for _, _, right in self.checks())

    def as_json(self) -> dict[str, Any]:
        return {
            "right": self.is_right,
            "seconds": round(self.seconds, 1),
            "acknowledged": self.acknowledged,
            "unknown": self.unknown,
            "lost": len(self.lost),
            "lost_examples": self.lost[:EXAMPLES_MAX],
            "watch_gaps": self.watch_gaps + self.unseen,
            "kills": self.kills,
            "failover_ms": {
                "p50": round(self.failover_p50_ms, 1),
                "max": round(self.failover_max_ms, 1),
                "all": [round(one, 1) for one in self.failovers_ms],
            },
            "full_restart_ms": round(self.full_restart_ms, 1),
            "revision": self.revision,
            "applied": self.applied,
            "state_hashes": self.state_hashes,
        }


def same_applied(reports: Sequence[Mapping[str, Any]]) -> bool:
    """Whether state hashes may be compared: they are of one log index."""
    return len({one.get("applied") for one in reports}) == 1 and bool(reports[0])
