"""The verdict: what clients were promised, against what each member has and what its watcher saw. Pure functions."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from demo.ledger import Acknowledgement

Records = Mapping[str, tuple[str, int]]  # key: digest of its value, and its revision

EXAMPLES_MAX = 5
GAP_MAX_MS = (
    500.0  # of commits while another host stalls; without a lead change it is some tens, on a busy machine more
)


class FlowLike(Protocol):
    """demo.stage.Flow."""

    @property
    def rate(self) -> float: ...
    @property
    def gap_ms(self) -> float: ...


def read_records(lines: Iterable[str]) -> Records:
    """Of a file that read_back wrote."""
    records = {}
    for line in lines:
        key, digest, revision = line.split()
        records[key] = digest, int(revision)
    return records


def lost_writes(promised: Iterable[Acknowledgement], members: Mapping[str, Records]) -> list[str]:
    """The acknowledged writes that a member does not have as promised, in words."""
    lost = []
    for one in promised:
        for name, records in members.items():
            found = records.get(one.key)
            if found != (one.digest, one.revision):
                lost.append(f"{one.key} at revision {one.revision}: {name} has {found}")
    return lost


def missing_writes(promised: Iterable[Acknowledgement], members: Mapping[str, Records]) -> int:
    """How many acknowledged writes a member does not have, where there are no revisions."""
    return sum(any(records.get(one.key, ("", 0))[0] != one.digest for records in members.values()) for one in promised)


def failover_ns(promised: Iterable[Acknowledgement], killed_ns: int) -> int | None:
    """From the kill to the first acknowledgement of a write that was begun after it; None without one."""
    times = [one.acknowledged_ns for one in promised if one.begun_ns > killed_ns]
    return min(times) - killed_ns if times else None


def longest_gap_ns(times_ns: Iterable[int], first_ns: int, last_ns: int) -> int:
    """The longest time in [first_ns, last_ns] in which nothing happened."""
    edges = [first_ns, *sorted(times_ns), last_ns]
    return max(after - before for before, after in itertools.pairwise(edges))


def same_applied(reports: Sequence[Mapping[str, Any]]) -> bool:
    """Whether state hashes may be compared: they are of one log index."""
    return len({one.get("applied") for one in reports}) == 1 and bool(reports[0])


@dataclasses.dataclass(frozen=True, kw_only=True)
class PeerReport:
    """The same on PySyncObj, as far as it has it. Times in milliseconds.

    lost, restart_ms: None where it did not come back after all were killed.
    """

    acknowledged: int
    lost: int | None
    leader_killed_ms: float
    is_leader_unchanged: bool
    calm: FlowLike
    held: FlowLike
    restart_ms: float | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table. right: None where nothing is judged. peer: what PySyncObj did."""

    what: str
    value: str
    right: bool | None
    peer: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report:
    """The table. Times in milliseconds.

    unknown: writes whose outcome nobody could tell; they were promised to nobody.
    watch_gaps: changes that a watcher saw out of turn, twice, or not at all.
    late_writes_refused_as: the errors that woken controllers got, "" for none.
    calm, held: the flow of the others' clients before and while the controller's host held its GIL.
    """

    seconds: float
    topics: int
    topics_ms: float
    partitions: dict[str, int]
    acknowledged: int
    unknown: int
    lost: list[str]
    watch_gaps: int
    late_writes_accepted: int
    late_writes_refused_as: list[str]
    controller_killed_ms: float
    writes_after_kill_ms: float
    controller_frozen_ms: float
    is_leader_unchanged: bool
    calm: FlowLike
    held: FlowLike
    wiped_ms: float
    restart_ms: float
    applied: int
    state_hashes: dict[str, str]
    peer: PeerReport | None = None
    peer_failure: str = ""

    def rows(self) -> list[Row]:
        peer = self.peer
        hashes = set(self.state_hashes.values())
        fenced = bool(self.late_writes_refused_as) and set(self.late_writes_refused_as) == {"Fenced"}
        follow = set(self.partitions.values()) == {3 * self.topics}
        steady = self.is_leader_unchanged and self.held.gap_ms <= max(GAP_MAX_MS, 2 * self.calm.gap_ms)
        return [
            Row(
                what="acknowledged writes",
                value=f"{self.acknowledged:,} ({self.acknowledged / self.seconds:,.0f}/s)",
                right=self.acknowledged > 0,
                peer=f"{peer.acknowledged:,}" if peer else "",
            ),
            Row(
                what="lost, of those",
                value=f"{len(self.lost)}",
                right=not self.lost,
                peer=_told(peer.lost) if peer else "",
            ),
            Row(what="watch gaps and repeats", value=f"{self.watch_gaps}", right=self.watch_gaps == 0),
            Row(
                what="late writes accepted",
                value=f"{self.late_writes_accepted} (refused: {' '.join(self.late_writes_refused_as)})",
                right=self.late_writes_accepted == 0 and fenced,
            ),
            Row(
                what=f"{self.topics:,} topics on every broker",
                value=f"{self.topics_ms:,.0f} ms",
                right=follow,
            ),
            Row(
                what="(a) controller killed, writes go on",
                value=f"{self.writes_after_kill_ms:,.0f} ms",
                right=None,
                peer=_told(peer.leader_killed_ms, " ms") if peer else "",
            ),
            Row(what="    another one is elected", value=f"{self.controller_killed_ms:,.0f} ms", right=None),
            Row(what="(b) controller frozen, replaced", value=f"{self.controller_frozen_ms:,.0f} ms", right=None),
            Row(
                what="(c) GIL held: leader and controller",
                value="unchanged" if self.is_leader_unchanged else "CHANGED",
                right=self.is_leader_unchanged,
                peer=("unchanged" if peer.is_leader_unchanged else "changed") if peer else "",
            ),
            Row(
                what="    the others' commits per second",
                value=f"{self.held.rate:,.0f} (before {self.calm.rate:,.0f})",
                right=None,
                peer=f"{peer.held.rate:,.0f} (before {peer.calm.rate:,.0f})" if peer else "",
            ),
            Row(
                what="    longest gap of them",
                value=f"{self.held.gap_ms:,.0f} ms (before {self.calm.gap_ms:,.0f})",
                right=steady,
                peer=f"{peer.held.gap_ms:,.0f} ms (before {peer.calm.gap_ms:,.0f})" if peer else "",
            ),
            Row(what="(d) wiped folder, caught up", value=f"{self.wiped_ms:,.0f} ms", right=None),
            Row(
                what="(e) all killed, until a write",
                value=f"{self.restart_ms:,.0f} ms",
                right=None,
                peer=_told(peer.restart_ms, " ms") if peer else "",
            ),
            Row(
                what=f"state hash on {len(self.state_hashes)} brokers",
                value=f"{' '.join(sorted(hashes))} at index {self.applied}",
                right=len(hashes) == 1,
            ),
        ]

    @property
    def is_right(self) -> bool:
        return all(row.right is not False for row in self.rows())

    def as_json(self) -> dict[str, Any]:
        facts = dataclasses.asdict(self)
        facts["lost_examples"] = self.lost[:EXAMPLES_MAX]
        facts["lost"] = len(self.lost)
        return {"right": self.is_right, **_rounded(facts)}


def _told(number: float | None, unit: str = "") -> str:
    return "did not come back" if number is None else f"{number:,.0f}{unit}"


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    return round(value, 1) if isinstance(value, float) else value
