"""The causes of leader changes, waits and lost leases, out of a timeline.

It decides how sure a cause is. "certain": the record says so itself, or no other story fits the records. "likely": the
records fit, and another story is possible. "unknown": nothing recorded explains it. A cause that is not proved is never
called certain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import raftmeta.explain.words as words
from raftmeta.explain.rings import Record
from raftmeta.explain.timeline import Life, Timeline

__all__ = ["Cause", "Incident", "incidents_of"]

STOP_AFTER_TRANSFER_S = 10.0  # a closing node hands over first, and then waits for its disk
TUNE_NEAR_S = 0.35  # signs of life are 0.25 s apart, and records are carried 0.02 s later
TUNE_LEASE_S = 120.0  # how long before the end of leases their holder's trouble may be
TUNE_AWAY_S = 0.2  # a pause that long, until a leader misses its majority, is why a member did not answer
TUNE_COVERED = 0.8  # of a wait: a pause or a sync that takes so much of it is its cause


@dataclass(frozen=True, slots=True)
class Cause:
    """text: for people, with the node that was the cause by name. confidence: "certain", "likely" or "unknown"."""

    text: str
    confidence: str
    evidence: tuple[Record, ...] = ()


UNKNOWN = Cause("nothing that was recorded explains it", "unknown")


@dataclass(frozen=True, slots=True)
class Incident:
    """kind: "leader_change", "slow_write", "leases_lost", "gil", "pause", "disk", "clock", "end". Times: s since 1970.

    number: of leader changes, from 1; 0 for the others. nodes: whom it struck; of a leader change, old and new leader.
    uncertain: what is not known because records of some nodes are missing. terms: of both leaders; 0 for the others.
    """

    kind: str
    number: int
    begun_s: float
    ended_s: float
    nodes: tuple[str, ...]
    text: str
    cause: Cause
    uncertain: tuple[str, ...] = ()
    terms: tuple[int, int] = (0, 0)


def incidents_of(timeline: Timeline) -> list[Incident]:
    """All that happened, in order of time."""
    changes = list(_leader_changes(timeline))
    found = [
        *changes,
        *_slow_writes(timeline, changes),
        *_lost_leases(timeline),
        *_held(timeline),
        *_pauses(timeline),
        *_slow_disks(timeline),
        *_clocks(timeline),
        *_ends(timeline),
    ]
    found = [_with_doubts(timeline, incident) for incident in found] if timeline.absent else found
    return sorted(found, key=lambda incident: (incident.begun_s, incident.ended_s))


# --- records that are missing -----------------------------------------------------------------------------------------
def _with_doubts(timeline: Timeline, incident: Incident) -> Incident:
    """Say what may be otherwise without the missing records: never a cause that is proved."""
    absent = " and ".join(timeline.absent)
    doubts = []
    if incident.kind == "leader_change":
        old, new = incident.nodes
        if old in timeline.absent:
            doubts.append(f"{old}'s records are missing: it may have been killed, paused, cut off or stopped")
        if new in timeline.absent:
            doubts.append(f"{new}'s records are missing: when it began to ask for votes is not known")
        if incident.terms[1] > incident.terms[0] + 1:
            doubts.append(f"{absent} may have led in between, in a term below {incident.terms[1]}")
        if old not in timeline.absent and incident.cause.confidence != "certain":
            doubts.append(f"{absent} may have been away itself")
    elif incident.cause.confidence == "unknown":
        doubts.append(f"a pause or a slow disk of {absent} would not be seen here")
    return replace(incident, uncertain=tuple(doubts)) if doubts else incident


# --- leader changes ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reign:
    """One leader of one term. since_s: when it was elected, or first followed. node: "" if unknown."""

    term: int
    node: str
    since_s: float


@dataclass(frozen=True, slots=True)
class Change:
    """From one reign to the next. campaign_s: when the new leader began to ask for votes. by_order: by no pre-vote."""

    timeline: Timeline
    old: Reign
    new: Reign
    campaign_s: float
    by_order: bool

    def of_old(self, *kinds: int, until_s: float | None = None) -> list[Record]:
        """Records of the old leader since its election."""
        return self.timeline.of(
            self.old.node, *kinds, since_s=self.old.since_s, until_s=self.new.since_s if until_s is None else until_s
        )


def _reigns(timeline: Timeline) -> list[Reign]:
    found: dict[int, Reign] = {}
    for at_s, record in timeline.records:
        if record.kind == words.BECAME_LEADER:
            found[record.d] = Reign(record.d, record.node, at_s)
    for at_s, record in timeline.records:
        if record.kind == words.BECAME_FOLLOWER and record.a and record.d not in found:
            found[record.d] = Reign(record.d, timeline.names.get(record.a, f"{record.a:x}"), at_s)
    return [found[term] for term in sorted(found)]


def _leader_changes(timeline: Timeline) -> Iterator[Incident]:
    reigns = _reigns(timeline)
    for number, (old, new) in enumerate(pairwise(reigns), start=1):
        steps = (*words.CAMPAIGN_KINDS, words.BECAME_FOLLOWER)
        last = _last_campaign(timeline.of(new.node, *steps, since_s=old.since_s, until_s=new.since_s))
        change = Change(
            timeline,
            old,
            new,
            timeline.at(last) if last else new.since_s,
            bool(last and last.kind == words.BECAME_CANDIDATE),
        )
        yield Incident(
            "leader_change",
            number,
            change.campaign_s,
            new.since_s,
            (old.node, new.node),
            f"{old.node} -> {new.node}, term {old.term} -> {new.term}",
            _cause_of(change),
            terms=(old.term, new.term),
        )


def _last_campaign(told: list[Record]) -> Record | None:
    """The record with which the campaign began that was won: its pre-vote, or its candidacy if it had none.

    told: records of one node of CAMPAIGN_KINDS and BECAME_FOLLOWER. A pre-vote before it followed again does not count.
    """
    while told and told[-1].kind == words.BECAME_FOLLOWER:
        told = told[:-1]
    if not told:
        return None
    return told[-2] if len(told) > 1 and told[-2].kind == words.BECAME_PRE_CANDIDATE else told[-1]


def _cause_of(change: Change) -> Cause:
    if change.old.node not in change.timeline.nodes:
        return _without_ring(change)
    for look in (_handed_over, _ended, _paused, _cut_off, _disk_of_leader, _new_leaders_own):
        cause = look(change)
        if cause is not None:
            return cause
    return UNKNOWN


def _without_ring(change: Change) -> Cause:
    lost = [
        record
        for node in change.timeline.nodes
        for record in change.timeline.of(node, words.LEADER_LOST, until_s=change.new.since_s)
        if change.timeline.at(record) >= change.old.since_s
    ]
    if lost:
        return Cause(f"{change.old.node}'s process was gone: its address refused connections", "likely", (lost[0],))
    return Cause(f"{change.old.node} was silent, and its records are not here", "unknown")


def _handed_over(change: Change) -> Cause | None:
    """A transfer that was begun and not given up. The target then asks for votes without a pre-vote."""
    began = change.of_old(words.TRANSFER)
    if not began or not change.by_order:
        return None
    target = change.timeline.names.get(began[-1].a, "")
    if target != change.new.node:
        return None
    stopped = change.timeline.of(
        change.old.node,
        words.STOP,
        since_s=change.timeline.at(began[-1]),
        until_s=change.new.since_s + STOP_AFTER_TRANSFER_S,
    )
    if stopped:
        return Cause(f"{change.old.node} was stopped in order", "certain", (began[-1], stopped[0]))
    return Cause(f"{change.old.node} was asked to transfer its lead to {target}", "certain", (began[-1],))


def _ended(change: Change) -> Cause | None:
    timeline, old = change.timeline, change.old.node
    fatal = change.of_old(words.FATAL)
    if fatal:
        return Cause(f"{old} stopped by itself: {words.failure(fatal[0])}", "certain", (fatal[0],))
    life = timeline.life_at(old, change.old.since_s + TUNE_NEAR_S)
    if life is None or life.end in ("runs", "unknown") or life.end_s is None:
        return None
    if life.end_s > change.new.since_s + TUNE_NEAR_S:
        return None
    if life.end == "stopped":
        return Cause(f"{old} was stopped in order", "certain", tuple(change.of_old(words.STOP)))
    if life.end == "machine":
        return Cause(f"{old}'s machine lost power or was started anew", "likely")
    # Others that find the address refusing know that the process is gone. Else it may have stood still before.
    seen = [record for record in _seen_gone(change, life.end_s) if timeline.at(record) <= change.new.since_s]
    text = f"{old}'s process was killed or crashed"
    return Cause(text, "certain" if seen else "likely", tuple(seen[:2]))


def _seen_gone(change: Change, end_s: float) -> list[Record]:
    member = {life.member for life in change.timeline.lives if life.node == change.old.node}
    return [
        record
        for node in change.timeline.nodes
        for record in change.timeline.of(node, words.LEADER_LOST, since_s=end_s - TUNE_NEAR_S)
        if record.a in member
    ]


def _paused(change: Change) -> Cause | None:
    """The old leader did not run when the new one began to ask for votes."""
    timeline = change.timeline
    pauses = [
        pause
        for pause in timeline.of(change.old.node, words.PAUSE, since_s=change.old.since_s)
        if timeline.span(pause)[0] < change.campaign_s < timeline.span(pause)[1]
    ]
    if not pauses:
        return None
    longest = max(pauses, key=lambda pause: pause.b)
    parts = {pause.part for pause in pauses if pause.b >= longest.b * TUNE_COVERED}
    if len(parts) > 1:
        return Cause(f"{change.old.node} was paused {words.seconds(longest.b)}", "certain", tuple(pauses))
    return Cause(f"a thread of {change.old.node} did not run for {words.seconds(longest.b)}", "likely", tuple(pauses))


def _cut_off(change: Change) -> Cause | None:
    stepped = [record for record in change.of_old(words.STEPPED_DOWN) if record.a == words.STEPPED_DOWN_NO_QUORUM]
    timeline = change.timeline
    if not stepped:
        # It may have noticed only after the others had elected another one.
        later = timeline.of(
            change.old.node, words.STEPPED_DOWN, since_s=change.new.since_s, until_s=change.new.since_s + 10.0
        )
        stepped = [
            record for record in later if record.a == words.STEPPED_DOWN_NO_QUORUM and record.d == change.old.term
        ]
    if not stepped:
        return None
    at_s = timeline.at(stepped[0])
    away = [node for node in timeline.nodes if node != change.old.node and _was_away(timeline, node, at_s)]
    if 2 * (len(away) + 1) > len(timeline.nodes) + len(timeline.absent) and away:
        return Cause(f"{' and '.join(away)} did not answer {change.old.node}", "likely", (stepped[0],))
    return Cause(f"{change.old.node} heard no majority of the others: it was cut off", "likely", (stepped[0],))


def _was_away(timeline: Timeline, node: str, at_s: float) -> bool:
    life = timeline.life_at(node, at_s)
    if life is None or (life.end_s is not None and life.end_s < at_s):
        return True
    return any(
        timeline.span(pause)[0] < at_s - TUNE_AWAY_S and timeline.span(pause)[1] > at_s - TUNE_AWAY_S / 4
        for pause in timeline.of(node, words.PAUSE)
    )


def _disk_of_leader(change: Change) -> Cause | None:
    for record in change.timeline.of(change.old.node, words.SYNC, words.WRITE):
        begun_s, ended_s = change.timeline.span(record)
        if begun_s < change.campaign_s < ended_s:
            return Cause(_disk_text(record), "likely", (record,))
    return None


def _new_leaders_own(change: Change) -> Cause | None:
    """The new leader stood still itself, and so heard nothing of the old one."""
    for record in change.timeline.of(change.new.node, words.PAUSE, until_s=change.new.since_s):
        _, ended_s = change.timeline.span(record)
        if 0 <= change.campaign_s - ended_s < 1.0:
            return Cause(f"{change.new.node} did not run for {words.seconds(record.b)}", "likely", (record,))
    return None


# --- waits ------------------------------------------------------------------------------------------------------------


def _disk_text(record: Record) -> str:
    call = "fdatasync" if record.kind == words.SYNC else "a write"
    return f"{record.node}'s disk: {call} {words.seconds(record.b)}"


def _share(of: tuple[float, float], by: tuple[float, float]) -> float:
    """How much of one span another one covers."""
    common_s = min(of[1], by[1]) - max(of[0], by[0])
    return max(0.0, common_s) / max(of[1] - of[0], 1e-9)


def _slow_writes(timeline: Timeline, changes: list[Incident]) -> Iterator[Incident]:
    for _, record in timeline.records:
        if record.kind == words.WAITED:
            begun_s, ended_s = timeline.span(record)
            text = f"callers of {record.node} waited {words.seconds(record.b)} for an answer"
            cause = _cause_of_wait(timeline, record, changes)
            yield Incident("slow_write", 0, begun_s, ended_s, (record.node,), text, cause)


def _cause_of_wait(timeline: Timeline, record: Record, changes: list[Incident]) -> Cause:
    span = timeline.span(record)
    own = _covering(timeline, (record.node,), span)
    if own is not None:
        # An answer needs this node to run, and its entry on this node's own disk.
        return _of_covering(own, "certain")
    for change in changes:
        if change.begun_s < span[1] and change.ended_s > span[0]:
            return Cause(
                f"the leader changed ({change.text}): {change.cause.text}",
                change.cause.confidence,
                change.cause.evidence,
            )
    others = _covering(timeline, timeline.nodes, span)
    if others is not None:
        return _of_covering(others, "likely")
    ended = [life for life in timeline.lives if life.end_s is not None and span[0] - 1.0 < life.end_s < span[1]]
    if ended:
        return Cause(f"{ended[0].node} {_end_words(ended[0])}", "likely")
    return UNKNOWN


def _covering(timeline: Timeline, nodes: Iterable[str], span: tuple[float, float]) -> Record | None:
    """The pause or the call of a disk that takes most of a span, if it takes enough."""
    found = [
        (_share(span, timeline.span(record)), record)
        for node in nodes
        for record in timeline.of(node, words.PAUSE, words.SYNC, words.WRITE)
    ]
    share, record = max(found, key=lambda one: one[0], default=(0.0, None))
    return record if share >= TUNE_COVERED else None


def _of_covering(record: Record, confidence: str) -> Cause:
    text = f"{record.node} did not run for {words.seconds(record.b)}"
    return Cause(text if record.kind == words.PAUSE else _disk_text(record), confidence, (record,))


# --- leases -----------------------------------------------------------------------------------------------------------


def _lost_leases(timeline: Timeline) -> Iterator[Incident]:
    for at_s, record in timeline.records:
        if record.kind == words.PROCESS_ENDED:
            name = timeline.names.get(record.a, f"{record.a:x}")
            cause = Cause(f"{name}'s process is gone: its address refused connections", "certain", (record,))
            yield Incident("leases_lost", 0, at_s, at_s, (name,), f"the leases of {name} ended", cause)
        elif record.kind == words.SESSION_LOST:
            cause = _trouble_of(timeline, record.node, at_s) or UNKNOWN
            yield Incident("leases_lost", 0, at_s, at_s, (record.node,), f"the session of {record.node} ended", cause)
        elif record.kind == words.HOST_STALLED:
            text = f"{record.node} keeps its leases no longer"
            yield Incident("leases_lost", 0, at_s, at_s, (record.node,), text, _stall(timeline, record, at_s))
        elif record.kind == words.LEASES_EXPIRED:
            yield Incident(
                "leases_lost", 0, at_s, at_s, (), f"{record.a} leases ended by their time", _expiry(timeline, at_s)
            )


def _stall(timeline: Timeline, record: Record, at_s: float) -> Cause:
    for held in timeline.of(record.node, words.GIL):
        begun_s, ended_s = timeline.span(held)
        if begun_s < at_s < ended_s:
            return _holder(held)
    return Cause(f"Python of {record.node} made no progress for {record.a} ms", "certain", (record,))


def _trouble_of(timeline: Timeline, node: str, at_s: float) -> Cause | None:
    pauses = [
        pause
        for pause in timeline.of(node, words.PAUSE)
        if timeline.span(pause)[0] < at_s and timeline.span(pause)[1] > at_s - TUNE_LEASE_S and pause.b >= 1_000_000_000
    ]
    if pauses:
        longest = max(pauses, key=lambda pause: pause.b)
        return Cause(f"{node} was paused {words.seconds(longest.b)}", "likely", (longest,))
    ended = [
        life
        for life in timeline.lives
        if life.node == node and life.end_s is not None and at_s - TUNE_LEASE_S < life.end_s < at_s
    ]
    return Cause(f"{node} {_end_words(ended[-1])}", "likely") if ended else None


def _expiry(timeline: Timeline, at_s: float) -> Cause:
    found = [cause for node in timeline.nodes if (cause := _trouble_of(timeline, node, at_s)) is not None]
    return found[0] if len(found) == 1 else UNKNOWN


# --- what was measured ------------------------------------------------------------------------------------------------


def _holder(record: Record) -> Cause:
    """Who held the GIL. The record has its processor time if that is proved."""
    where = f" in {record.text}" if record.text else ""
    text = f"{record.node}'s host held the GIL {words.seconds(record.b)}{where}"
    return Cause(text, "certain" if record.c else "likely", (record,))


def _held(timeline: Timeline) -> Iterator[Incident]:
    for _, record in timeline.records:
        if record.kind == words.GIL:
            begun_s, ended_s = timeline.span(record)
            text = f"Python of {record.node} waited {words.seconds(record.b)} for the GIL"
            yield Incident("gil", 0, begun_s, ended_s, (record.node,), text, _holder(record))


def _pauses(timeline: Timeline) -> Iterator[Incident]:
    """Pauses of a node's threads at the same time are one."""
    for node in timeline.nodes:
        together: list[Record] = []
        until_s = float("-inf")
        for record in sorted(timeline.of(node, words.PAUSE), key=timeline.span):
            begun_s, ended_s = timeline.span(record)
            if together and begun_s > until_s:
                yield _pause(timeline, together)
                together = []
            together.append(record)
            until_s = max(until_s, ended_s) if len(together) > 1 else ended_s
        if together:
            yield _pause(timeline, together)


def _pause(timeline: Timeline, records: list[Record]) -> Incident:
    longest = max(records, key=lambda record: record.b)
    parts = {record.part for record in records if record.b >= longest.b * TUNE_COVERED}
    node = longest.node
    begun_s, ended_s = timeline.span(longest)
    text = f"{node} did not run for {words.seconds(longest.b)}"
    if len(parts) > 1:
        cause = Cause(f"all threads of {node} stood still: its process or its machine was paused", "likely")
    else:
        cause = Cause(f"one thread of {node} got no processor, or worked for so long", "likely")
    return Incident("pause", 0, begun_s, ended_s, (node,), text, Cause(cause.text, "likely", tuple(records)))


def _slow_disks(timeline: Timeline) -> Iterator[Incident]:
    for _, record in timeline.records:
        if record.kind in (words.SYNC, words.WRITE):
            begun_s, ended_s = timeline.span(record)
            text = f"{record.node}'s log was not written for {words.seconds(record.b)}"
            cause = Cause(_disk_text(record), "certain", (record,))
            yield Incident("disk", 0, begun_s, ended_s, (record.node,), text, cause)


def _clocks(timeline: Timeline) -> Iterator[Incident]:
    for at_s, record in timeline.records:
        if record.kind == words.CLOCK:
            cause = Cause(f"the wall clock of {record.node}'s machine was set", "certain", (record,))
            text = f"{record.node}'s wall clock stepped by {words.signed(record.a)} ms"
            yield Incident("clock", 0, at_s, at_s, (record.node,), text, cause)


def _end_words(life: Life) -> str:
    return {"stopped": "was stopped in order", "machine": "went with its machine"}.get(
        life.end, "was killed or crashed"
    )


def _ends(timeline: Timeline) -> Iterator[Incident]:
    for life in timeline.lives:
        if life.end_s is not None:
            text = f"{life.node} {_end_words(life)}"
            confidence = "certain" if life.end == "stopped" else "likely"
            yield Incident("end", 0, life.end_s, life.end_s, (life.node,), text, Cause(text, confidence))
