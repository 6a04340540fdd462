"""What observations must obey: the rules of docs/jepsen.md "Observations"; each function names what breaks one.

A rule says nothing about what was not observed: who was killed or cut off saw less, and less can only accuse less.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from raftmeta.check import History

Row = Mapping[str, Any]  # of observations.parquet
Change = tuple[str, Any]  # what a watch told of a key: type and value
Place = tuple[int, str]  # revision and key

GRANTED = ("lease_granted", "elected")
ENDED = ("fence_refused", "fence_ended")
WATCH = "watch"
SHOWN = 3  # of what a rule found, in its reason


def broken_rules(rows: Iterable[Row], histories: Mapping[str, History]) -> list[str]:
    """What is wrong, in words; nothing: all rules are kept.

    rows: in order of seq. histories: by workload; acknowledged writes of the workload `watch` must be seen by its
    watches.
    """
    subjects: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        subjects[row["subject"]].append(row)
    written = dict(_written(histories[WATCH])) if WATCH in histories else {}
    reasons: list[str] = []
    for subject, seen in subjects.items():
        found = [
            *_watches(seen, subject, written),
            *_fences(seen),
            *_overlaps(seen),
            *_tellings(seen),
            *_members(seen),
            *_sessions(seen),
        ]
        reasons += [f"{subject}: {reason}" for reason in found[:SHOWN]]
        if len(found) > SHOWN:
            reasons.append(f"{subject}: and {len(found) - SHOWN} more")
    return reasons


# --- watches ----------------------------------------------------------------------------------------------------------
def _written(history: History) -> Iterator[tuple[Place, Change]]:
    """Acknowledged writes, by revision and key."""
    asked: dict[int | str, tuple[Any, Any]] = {}
    for event in history:
        if event.kind == "invoke" and event.operation == "write":
            asked[event.process] = (event.key, event.arguments)
        elif event.process in asked:
            key, value = asked.pop(event.process)
            if event.kind == "ok" and event.revision is not None:
                yield (event.revision, key), ("put", value)


def _watches(rows: Iterable[Row], prefix: str, written: Mapping[Place, Change]) -> Iterator[str]:
    """Each stream has all that anybody knows of between its beginning and its last progress; once, and in order."""
    streams: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        if row["kind"].startswith("watch_"):
            streams[row["process"]].append(row)
    truth = {place: change for place, change in written.items() if place[1].startswith(prefix)}
    told: dict[int, dict[Place, Change]] = {}
    for process, seen in streams.items():
        told[process] = {}
        last = seen[0]["revision"]
        for row in seen[1:]:
            if row["revision"] < last:
                yield f"stream {process}: revision {row['revision']} after {last}"
            last = row["revision"]
            if row["kind"] != "watch_event":
                continue
            type, key, value = json.loads(row["value"])
            place = row["revision"], key
            if place in told[process]:
                yield f"stream {process}: {key} twice at revision {row['revision']}"
            told[process][place] = truth.setdefault(place, (type, value))
            if told[process][place] != (type, value):
                yield f"stream {process}: {key} at revision {row['revision']} is {type} {value}, not {truth[place]}"
    for process, seen in streams.items():
        begin, end = seen[0]["revision"], max(row["revision"] for row in seen if row["kind"] != "watch_event")
        missing = [place for place in truth if begin < place[0] <= end and place not in told[process]]
        for revision, key in sorted(missing)[:1]:
            yield f"stream {process}: {len(missing)} changes are missing, the first at revision {revision}: {key}"


# --- what is held -----------------------------------------------------------------------------------------------------
def _fences(rows: Iterable[Row]) -> Iterator[str]:
    """By revision: nothing is accepted under an old fence, nor under one that had ended."""
    newest = 0
    ended: dict[int, int] = {}
    # An epoch is the revision at which a candidate was nominated, not that at which it was elected: of a lead only the
    # writes tell.
    of_fences = [row for row in rows if row["kind"] in ("lease_granted", "fence_accepted", *ENDED)]
    for row in sorted(of_fences, key=lambda row: (row["revision"], row["kind"] in ENDED)):
        token, revision = row["token"], row["revision"]
        if row["kind"] == "fence_accepted":
            if token < newest:
                yield f"a write under fence {token} was accepted at revision {revision}, behind fence {newest}"
            if token in ended:
                yield f"a write under fence {token} was accepted at revision {revision}; it ended at {ended[token]}"
        if row["kind"] in ENDED:
            ended.setdefault(token, revision)
        else:
            newest = max(newest, token)


def _overlaps(rows: Iterable[Row]) -> Iterator[str]:
    """By the clock of the run: nobody held what a later holder already had."""
    newest, since_ns = 0, 0
    for row in sorted(rows, key=lambda row: row["time_ns"]):
        if row["kind"] in GRANTED and row["token"] > newest:
            newest, since_ns = row["token"], row["time_ns"]
        elif row["kind"] == "held" and row["token"] < newest:
            late_ms = (row["time_ns"] - since_ns) / 1e6
            yield f"{row['value']} held {row['token']} still {late_ms:.3f} ms after {newest} was granted"


def _tellings(rows: Iterable[Row]) -> Iterator[str]:
    """Listeners are told revision after revision, and of one revision all are told the same."""
    last: dict[int, int] = {}
    states: dict[int, Any] = {}
    owners: dict[int, str] = {}
    for row in rows:
        if row["kind"] in ("leader", "member"):
            revision, listener = row["revision"], row["process"]
            if revision <= last.get(listener, -1):
                yield f"listener {listener} was told revision {revision} after {last[listener]}"
            last[listener] = revision
            told = json.loads(row["value"])
            state = (told[0], row["token"]) if row["kind"] == "leader" else told
            if states.setdefault(revision, state) != state:
                yield f"listener {listener} was told {state} of revision {revision}, another one {states[revision]}"
        elif (
            row["kind"] in ("elected", "member_joined")
            and owners.setdefault(row["token"], row["value"]) != row["value"]
        ):
            yield f"{row['value']} and {owners[row['token']]} both have the epoch {row['token']}"


def _members(rows: Iterable[Row]) -> Iterator[str]:
    """Who holds a place stands in the list."""
    for row in rows:
        if row["kind"] == "member_read" and int(row["value"]) != row["token"]:
            yield f"process {row['process']} held its place {row['token']}, and read {row['value']}"


def _sessions(rows: Iterable[Row]) -> Iterator[str]:
    """Each addition counted once, also those that were asked for again."""
    last = 0
    for row in rows:
        if row["kind"] == "session_answer":
            if int(row["value"]) != row["token"]:
                yield f"addition {row['token']} answered {row['value']} at revision {row['revision']}"
            if row["revision"] <= last:
                yield f"addition {row['token']} answered revision {row['revision']} after {last}"
            last = row["revision"]
