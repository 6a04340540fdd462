"""The kinds of records in a flight recorder's file, and words for them.

The numbers are those of flight/ring, engine/state, loop/event_log and raft/ready; tests/recorder compares them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from raftmeta.explain.rings import Record

__all__ = ["CAMPAIGN_KINDS", "described"]

TRACE = 256
BECAME_FOLLOWER, BECAME_PRE_CANDIDATE, BECAME_CANDIDATE, BECAME_LEADER = TRACE + 1, TRACE + 2, TRACE + 3, TRACE + 4
VOTE_REFUSED = TRACE + 8
TRANSFER = TRACE + 9
STEPPED_DOWN = TRACE + 11
TRANSFER_ABORTED = TRACE + 13
LEADER_LOST = TRACE + 15
CAMPAIGN_KINDS = (BECAME_PRE_CANDIDATE, BECAME_CANDIDATE)

START, MACHINE, STOP, TEXT, PAUSE, CLOCK, SYNC, WRITE, WAITED, GIL = range(512, 522)

FATAL, LINK_UP, LINK_DOWN = 9, 10, 11
SESSION_LOST, HOST_STALLED, LEASES_EXPIRED, PROCESS_ENDED = 8, 14, 18, 34

STEPPED_DOWN_NO_QUORUM = 1

# Name of an event, and of its numbers a, b, c. "peer" is told by text, "member" is an id.
EVENTS: Mapping[int, tuple[str, tuple[str, ...]]] = {
    2: ("cluster_founded", ()),
    3: ("joined", ()),
    4: ("log_opened", ("state", "last", "dropped_bytes")),
    5: ("ready", ("member", "term")),
    6: ("became_member", ("membership",)),
    7: ("removed", ("membership",)),
    8: ("session_lost", ()),
    9: ("stopped_by_itself", ("status", "errno", "call")),
    10: ("link_up", ("", "member")),
    11: ("link_down", ("", "was_refused")),
    12: ("peer_refused", ("status", "link")),
    13: ("quorum_lost", ("links", "lost", "voters")),
    14: ("host_stalled", ("silent_ms",)),
    15: ("host_resumed", ()),
    16: ("disk_waits_for_descriptor", ("errno",)),
    17: ("disk_has_descriptor", ()),
    18: ("leases_expired", ("count",)),
    19: ("history_compacted", ("floor",)),
    20: ("feature_level_rises", ("level",)),
    21: ("state_diverged", ("index", "is_wrong")),
    22: ("machine_command_failed", ("index", "", "machine")),
    23: ("machine_diverged", ("index", "", "machine")),
    24: ("machine_stopped", ("index", "", "machine")),
    25: ("machine_not_dumped", ("index", "", "machine")),
    26: ("snapshot_due", ("index",)),
    27: ("snapshot_taken", ("index", "bytes")),
    28: ("snapshot_failed", ("index", "status")),
    29: ("snapshot_offered", ("index", "link")),
    30: ("snapshot_installed", ("index", "applied_before")),
    31: ("snapshot_loaded", ("index",)),
    32: ("snapshot_damaged", ("index", "status")),
    33: ("log_compacted", ("index",)),
    34: ("process_ended", ("member", "boot")),
    240: ("tls_renewed", ("expires_s",)),
    241: ("certificate_expires", ("days", "expires_s")),
    TRACE + 1: ("became_follower", ("member",)),
    TRACE + 2: ("became_pre_candidate", ("member", "early")),
    TRACE + 3: ("became_candidate", ()),
    TRACE + 4: ("became_leader", ("last",)),
    TRACE + 6: ("log_truncated", ("first", "last")),
    TRACE + 7: ("membership_in_force", ("index",)),
    TRACE + 8: ("vote_refused", ("member", "reason")),
    TRACE + 9: ("transfer_began", ("member",)),
    TRACE + 10: ("snapshot_needed", ("member",)),
    TRACE + 11: ("stepped_down", ("reason",)),
    TRACE + 12: ("record_repaired", ("index", "member")),
    TRACE + 13: ("transfer_aborted", ("member",)),
    TRACE + 14: ("learner_promoted", ("member",)),
    TRACE + 15: ("leader_lost", ("member",)),
    TRACE + 16: ("reads_void", ("count",)),
    START: ("started", ("boot", "member", "pid")),
    STOP: ("stopped", ("status",)),
}

# raft/ready VoteRefusal and StepDownReason.
REFUSALS = ("", "leader_alive", "log_behind", "voted_already", "term_old", "cannot_vote")
STEP_DOWNS = ("", "no_quorum", "higher_term", "removed")
# storage/disk DiskCall.
DISK_CALLS = ("", "open", "read", "write", "sync", "change", "list")


def described(record: Record, names: Mapping[int, str]) -> str:
    """One line for people: fixed words, key=value. names: of members by id."""
    if record.kind in (PAUSE, SYNC, WRITE, WAITED, GIL):
        return _measured(record)
    if record.kind == CLOCK:
        return f"clock_stepped by_ms={signed(record.a)}"
    name, words = EVENTS.get(record.kind, (f"event_{record.kind}", ("a", "b", "c")))
    facts = [f"term={record.d}"] if record.kind > TRACE and record.kind < START else []
    if record.text:
        facts.append(f"peer={record.text}")
    for word, number in zip(words, (record.a, record.b, record.c), strict=False):
        if word:
            facts.append(f"{word}={_fact(record.kind, word, number, names)}")
    return " ".join((name, *facts))


def signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number


def failure(record: Record) -> str:
    """Why a node stopped by itself: the call and the system's words if its disk failed."""
    if 0 < record.c < len(DISK_CALLS):
        return f"its disk failed ({DISK_CALLS[record.c]}: {os.strerror(record.b)})"
    return f"status {record.a}" + (f" at entry {record.b}" if record.b else "")


def seconds(ns: int) -> str:
    return f"{ns / 1e9:.1f} s" if ns >= 1_000_000_000 else f"{ns // 1_000_000} ms"


def _measured(record: Record) -> str:
    words = {
        PAUSE: f"did_not_run part={('loop', 'log', 'host', 'recorder')[record.part]}",
        SYNC: "slow_sync",
        WRITE: "slow_write",
        WAITED: "callers_waited",
        GIL: "gil_held",
    }
    told = f"{words[record.kind]} for={seconds(record.b)}"
    if record.kind in (SYNC, WRITE) and record.c:
        told += f" status={record.c}"
    return f"{told} stack={record.text}" if record.text else told


def _fact(kind: int, word: str, number: int, names: Mapping[int, str]) -> str:
    if word == "member":
        return names.get(number, f"{number:x}") if number else "none"
    if word == "reason":
        known = STEP_DOWNS if kind == STEPPED_DOWN else REFUSALS
        return known[number] if number < len(known) else str(number)
    return str(number)
