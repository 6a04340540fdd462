"""The records of several nodes as one timeline: one clock for all, lives of processes, names of members.

It decides which clock counts: CLOCK_BOOTTIME for nodes of one machine. Between machines it is the wall clock, moved so
far that no effect comes before its cause. It never names a cause itself (explain/causes).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

import raftmeta.explain.words as words
from raftmeta.explain.rings import Record, Ring

__all__ = ["Life", "Timeline", "timeline_of"]

TIME = itemgetter(0)


@dataclass(frozen=True, slots=True)
class Life:
    """One process of a node. Times in seconds since 1970, end_s: None while it runs or when nobody knows.

    end: "runs", "stopped" (in order), "vanished", "machine" (it went with its machine), "unknown".
    """

    node: str
    number: int
    begin_s: float
    end_s: float | None
    end: str
    member: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """Records in order of time, each with its time in s since 1970. shifts_s: how far clocks were moved, by node.

    by_kind: the same records, by node and kind. absent: voters and leaders without records, by name.
    """

    records: tuple[tuple[float, Record], ...]
    by_kind: dict[tuple[str, int], list[tuple[float, Record]]]
    lives: tuple[Life, ...]
    names: dict[int, str]
    nodes: tuple[str, ...]
    offsets_s: dict[tuple[str, int], float]
    shifts_s: dict[str, float]
    absent: tuple[str, ...] = ()

    def of(self, node: str, *kinds: int, since_s: float = 0.0, until_s: float = float("inf")) -> list[Record]:
        """The records of a node of these kinds within that time, in order."""
        found: list[tuple[float, Record]] = []
        for kind in kinds:
            records = self.by_kind.get((node, kind), [])
            found += records[bisect_left(records, since_s, key=TIME) : bisect_right(records, until_s, key=TIME)]
        if len(kinds) > 1:
            found.sort(key=TIME)
        return [record for _, record in found]

    def at(self, record: Record) -> float:
        """When it was written."""
        return self.moment(record, record.boot_ns)

    def moment(self, record: Record, boot_ns: int) -> float:
        """A time of CLOCK_BOOTTIME that the record tells."""
        return boot_ns / 1e9 + self.offsets_s[record.node, record.life]

    def span(self, record: Record) -> tuple[float, float]:
        """Of a record with a beginning and a length: PAUSE, SYNC, WRITE, WAITED, GIL."""
        begun_s = self.moment(record, record.a)
        return begun_s, begun_s + record.b / 1e9

    def life_at(self, node: str, at_s: float) -> Life | None:
        """The newest life of a node that had begun by then."""
        found = [life for life in self.lives if life.node == node and life.begin_s <= at_s]
        return found[-1] if found else None


def timeline_of(rings: Sequence[Ring], voters: Iterable[str] = ()) -> Timeline:
    """One timeline of the rings of one cluster. voters: names of members that may have no ring here."""
    machines = {(ring.node, life): machine for ring in rings for life, machine in _machines(ring)}
    offsets_s = _offsets(rings, machines)
    found = _assembled(rings, machines, offsets_s, {})
    shifts_s = _shifts(found)
    if shifts_s:
        moved = {key: offset + shifts_s.get(key[0], 0.0) for key, offset in offsets_s.items()}
        found = _assembled(rings, machines, moved, shifts_s)
    return replace(found, absent=_absent(found, voters))


def _absent(timeline: Timeline, voters: Iterable[str]) -> tuple[str, ...]:
    followed = {record.a for _, record in timeline.records if record.kind == words.BECAME_FOLLOWER and record.a}
    led = {timeline.names[member] for member in followed if member in timeline.names}
    return tuple(sorted((led | set(voters)) - set(timeline.nodes)))


def _assembled(
    rings: Sequence[Ring],
    machines: dict[tuple[str, int], tuple[int, int]],
    offsets_s: dict[tuple[str, int], float],
    shifts_s: dict[str, float],
) -> Timeline:
    timed = [
        (record.boot_ns / 1e9 + offsets_s[record.node, record.life], record)
        for ring in rings
        for record in ring.records
    ]
    timed.sort(key=lambda one: (one[0], one[1].node, one[1].part, one[1].number))
    lives = tuple(life for ring in rings for life in _lives(ring, machines, offsets_s))
    names = {
        record.b: record.text if record.kind == words.LINK_UP else record.node
        for _, record in timed
        if record.kind == words.START or (record.kind == words.LINK_UP and record.text)
    }
    by_kind: dict[tuple[str, int], list[tuple[float, Record]]] = defaultdict(list)
    for at_s, record in timed:
        by_kind[record.node, record.kind].append((at_s, record))
    return Timeline(
        tuple(timed), dict(by_kind), lives, names, tuple(sorted(ring.node for ring in rings)), offsets_s, shifts_s
    )


# --- clocks -----------------------------------------------------------------------------------------------------------


def _machines(ring: Ring) -> Iterator[tuple[int, tuple[int, int]]]:
    for record in ring.records:
        if record.kind == words.MACHINE:
            yield record.life, (record.a, record.b)


def _offsets(rings: Sequence[Ring], machines: dict[tuple[str, int], tuple[int, int]]) -> dict[tuple[str, int], float]:
    """Wall time less CLOCK_BOOTTIME of each life, as of its machine's newest record: until then clocks are set."""
    newest: dict[object, Record] = {}
    lives = {(record.node, record.life) for ring in rings for record in ring.records}
    for ring in rings:
        for record in ring.records:
            machine = machines.get((record.node, record.life), (record.node, record.life))
            if machine not in newest or record.boot_ns > newest[machine].boot_ns:
                newest[machine] = record
    found = {}
    for life in lives:
        record = newest[machines.get(life, life)]
        found[life] = (record.wall_ns - record.boot_ns) / 1e9
    return found


def _shifts(timeline: Timeline) -> dict[str, float]:
    """How far each node's clock must move, at least, so that nobody follows a leader before it was elected."""
    elected = {record.d: (at_s, record.node) for at_s, record in timeline.records if record.kind == words.BECAME_LEADER}
    shifts: dict[str, float] = {}
    for _ in timeline.nodes:
        for at_s, record in timeline.records:
            if record.kind != words.BECAME_FOLLOWER or record.a == 0 or record.d not in elected:
                continue
            led_s, leader = elected[record.d]
            if leader == record.node:
                continue
            missing_s = led_s + shifts.get(leader, 0.0) - at_s - shifts.get(record.node, 0.0)
            if missing_s > 0:
                shifts[record.node] = shifts.get(record.node, 0.0) + missing_s
    return {node: shift for node, shift in shifts.items() if shift > 0}


# --- lives ------------------------------------------------------------------------------------------------------------


def _lives(
    ring: Ring, machines: dict[tuple[str, int], tuple[int, int]], offsets_s: dict[tuple[str, int], float]
) -> Iterator[Life]:
    records: dict[int, list[Record]] = defaultdict(list)
    for record in ring.records:
        records[record.life].append(record)
    begun = [record for record in ring.records if record.kind == words.START]
    for start, following in zip(begun, [*begun[1:], None], strict=True):
        own = records[start.life]
        offset_s = offsets_s[ring.node, start.life]
        last = max(own, key=lambda record: record.boot_ns)
        last_ns = last.boot_ns
        if following is not None:
            # Its last sign of life, told by the wall clock as that was set then.
            last_ns = max(last_ns, following.d - (last.wall_ns - last.boot_ns))
        elif ring.alive is not None and ring.alive.life == start.life:
            last_ns = max(last_ns, ring.alive.boot_ns)
        life = Life(ring.node, start.life, start.boot_ns / 1e9 + offset_s, None, "unknown", start.b)
        ended = replace(life, end_s=last_ns / 1e9 + offset_s)
        if any(record.kind == words.STOP for record in own):
            yield replace(ended, end="stopped")
        elif following is not None:
            is_same = machines.get((ring.node, start.life)) == machines.get((ring.node, following.life))
            yield replace(ended, end="vanished" if is_same else "machine")
        elif ring.is_running is False:
            yield replace(ended, end="vanished")
        else:
            yield replace(life, end="runs" if ring.is_running else "unknown")
