"""What observations must obey: the rules of docs/jepsen.md "Observations"; each function names what breaks one.

A rule says nothing about what was not observed: who was killed or cut off saw less, and less can only accuse less.

It is the judge of one run, in memory and without Java; raftmeta/spark/observations.py is another one, written as
queries for any number of runs. Both are held to the same examples (tests/spark/observed.py), and to give every
contradiction the same name.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from raftmeta.check import History

Row = Mapping[str, Any]  # of observations.parquet
Change = tuple[str, Any]  # what a watch told of a key: type and value
Place = tuple[int, str]  # revision and key
Found = tuple[str, str]  # the name of a contradiction, and how it shows

GRANTED = ("lease_granted", "elected")
ENDED = ("fence_refused", "fence_ended")
NAME_THEIR_OWNER = ("elected", "held", "lease_granted", "member_joined")
NOBODY = "nobody"
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
            *_tokens(seen),
            *_listeners(seen),
            *_members(seen),
            *_sessions(seen),
            *_doors(seen),
            *_totals(seen),
        ]
        reasons += [f"{subject}: {name}: {how}" for name, how in found[:SHOWN]]
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


def _watches(rows: Iterable[Row], prefix: str, written: Mapping[Place, Change]) -> Iterator[Found]:
    """Each stream has all that anybody knows of between its beginning and its last progress; once, and in order."""
    streams: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        if row["kind"].startswith("watch_"):
            streams[row["process"]].append(row)
    known: dict[Place, list[Change]] = {
        place: [change] for place, change in written.items() if place[1].startswith(prefix)
    }
    told: dict[int, Counter[Place]] = {}
    for process, seen in streams.items():
        yield from _stream_order(process, seen)
        told[process] = Counter()
        for row in seen:
            if row["kind"] == "watch_event":
                type, key, value = json.loads(row["value"])
                place = row["revision"], key
                told[process][place] += 1
                changes = known.setdefault(place, [])
                if (type, value) not in changes:
                    changes.append((type, value))
    for process, places in told.items():
        for (revision, key), count in places.items():
            if count > 1:
                yield "watch duplicate", f"stream {process} was told {count} times of {key} at revision {revision}"
    for (revision, key), changes in known.items():
        if len(changes) > 1:
            shown = " and ".join(f"{type} {value}" for type, value in changes)
            yield "watch difference", f"{key} at revision {revision} is {shown}"
    for process, seen in streams.items():
        begin = max((row["revision"] for row in seen if row["kind"] == "watch_open"), default=None)
        end = max((row["revision"] for row in seen if row["kind"] == "watch_progress"), default=None)
        if begin is not None and end is not None:
            for revision, key in sorted(place for place in known.keys() - told[process] if begin < place[0] <= end):
                yield "watch gap", f"stream {process} was never told of {key} at revision {revision}"


def _stream_order(process: int, rows: Iterable[Row]) -> Iterator[Found]:
    """Nothing stands behind what is later, nor an event behind the news that all up to its revision was delivered."""
    highest = floor = -1  # floor: below which no event may come; several keys may change at one revision
    for row in rows:
        revision, is_event = row["revision"], row["kind"] == "watch_event"
        if revision < (floor if is_event else highest):
            yield "watch order", f"stream {process} was told revision {revision} after {highest}"
        highest = max(highest, revision)
        floor = max(floor, revision if is_event else revision + 1)


# --- what is held -----------------------------------------------------------------------------------------------------
def _fences(rows: Iterable[Row]) -> Iterator[Found]:
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
                yield "old fence accepted", f"a write under {token} at revision {revision}, behind fence {newest}"
            if token in ended:
                yield "ended fence accepted", f"a write under {token} at revision {revision}, ended at {ended[token]}"
        if row["kind"] in ENDED:
            ended.setdefault(token, revision)
        else:
            newest = max(newest, token)


def _overlaps(rows: list[Row]) -> Iterator[Found]:
    """By the clock of the run: nobody held what a later holder already had. Of groups, many are members at once."""
    if any(row["kind"].startswith("member") for row in rows):
        return
    newest, since_ns = 0, 0
    for row in sorted(rows, key=lambda row: row["time_ns"]):
        if row["kind"] == "held" and row["token"] < newest:
            late_ms = (row["time_ns"] - since_ns) / 1e6
            yield "two holders", f"{row['value']} held {row['token']} still {late_ms:.3f} ms after {newest} was held"
        elif row["kind"] in (*GRANTED, "held") and row["token"] > newest:
            newest, since_ns = row["token"], row["time_ns"]


def _listeners(rows: Iterable[Row]) -> Iterator[Found]:
    """Listeners are told revision after revision, and of one revision all are told the same."""
    last: dict[int, int] = {}
    states: dict[int, Any] = {}
    for row in rows:
        if row["kind"] in ("leader", "member"):
            revision, listener = row["revision"], row["process"]
            if revision <= last.get(listener, -1):
                yield "listener order", f"listener {listener} was told revision {revision} after {last[listener]}"
            last[listener] = revision
            # A leader is told as [name, whether changes were left out]; only who it is must agree.
            state = [_leader_name(row), row["token"]] if row["kind"] == "leader" else json.loads(row["value"])
            if states.setdefault(revision, state) != state:
                how = f"listener {listener} was told {state} of revision {revision}, another one {states[revision]}"
                yield "listeners differ", how


def _tokens(rows: Iterable[Row]) -> Iterator[Found]:
    """A token is one leader's, one member's, or one holder's, alone: all that name its owner name the same one."""
    owners: dict[int, str] = {}
    for row in rows:
        for token, name in _owners(row):
            owner = owners.setdefault(token, name)
            if owner != name:
                yield "one token of two", f"{name} and {owner} both have the epoch {token}"


def _owners(row: Row) -> list[tuple[int, str]]:
    """The tokens that a row tells of, each with the name of its owner."""
    if row["kind"] == "leader":
        return [(row["token"], _leader_name(row))] if row["token"] >= 0 else []
    if row["kind"] == "member":
        return [(epoch, name) for name, epoch in json.loads(row["value"]).items()]
    return [(row["token"], row["value"])] if row["kind"] in NAME_THEIR_OWNER and row["value"] else []


def _leader_name(row: Row) -> str:
    name = json.loads(row["value"])[0]
    return NOBODY if name is None else str(name)


def _members(rows: Iterable[Row]) -> Iterator[Found]:
    """Who holds a place stands in the list."""
    for row in rows:
        if row["kind"] == "member_read" and row["value"] != str(row["token"]):
            how = f"process {row['process']} held its place {row['token']}, and read {row['value']}"
            yield "member not listed", how


def _sessions(rows: Iterable[Row]) -> Iterator[Found]:
    """Each addition counted once, also those that were asked for again."""
    last: int | None = None
    for row in rows:
        if row["kind"] == "session_answer":
            if row["value"] != str(row["token"]):
                how = f"addition {row['token']} answered {row['value']} at revision {row['revision']}"
                yield "not exactly once", how
            if last is not None and row["revision"] <= last:
                yield "session order", f"addition {row['token']} answered revision {row['revision']} after {last}"
            last = row["revision"]


# --- through the ZooKeeper door ---------------------------------------------------------------------------------------
def _doors(rows: Iterable[Row]) -> Iterator[Found]:
    """A session is never shown less than before, nor a change before the watch that waits for it was told, once.

    Numbers of sequential nodes grow in the order in which the nodes were made.
    """
    highest = -1
    armed: int | None = None
    made: list[tuple[int, int]] = []
    for row in rows:
        revision = row["revision"]
        if row["kind"] == "zookeeper_seen":
            if revision < highest:
                yield "session went back", f"revision {revision} was shown after {highest}"
            if armed is not None and revision > armed:
                yield "shown before told", f"revision {revision} was shown, and the watch set at {armed} was not told"
            highest = max(highest, revision)
        elif row["kind"] == "zookeeper_armed":
            armed = revision
        elif row["kind"] == "zookeeper_told":
            armed = None
        elif row["kind"] == "zookeeper_unasked":
            yield "told unasked", "an event came while no watch stood"
        elif row["kind"] == "zookeeper_sequence":
            made.append((revision, row["token"]))
    made.sort()
    for (before, first), (after, second) in itertools.pairwise(made):
        if second <= first:
            yield "sequence order", f"number {second} was made at revision {after}, number {first} at {before}"


def _totals(rows: Iterable[Row]) -> Iterator[Found]:
    """Transfers move money between accounts: the sum of all accounts never changes."""
    for row in rows:
        if row["kind"] == "total" and row["value"] != str(row["token"]):
            yield "total differs", f"{row['value']} instead of {row['token']}"
