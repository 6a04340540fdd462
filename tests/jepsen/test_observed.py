"""Each rule of docs/jepsen.md "Observations": what keeps it passes, the smallest thing that breaks it is found."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jepsen.observed import broken_rules
from raftmeta.check import Recorder


def rows(*facts: dict[str, Any]) -> list[dict[str, Any]]:
    """Observations in this order, one a nanosecond."""
    blank = {"subject": "s", "process": 1, "node": "n1", "revision": -1, "token": -1, "value": ""}
    return [{**blank, "seq": seq, "time_ns": seq, **fact} for seq, fact in enumerate(facts)]


def opened(revision: int, *, process: int = 1) -> dict[str, Any]:
    return {"kind": "watch_open", "process": process, "revision": revision}


def put(revision: int, key: str = "s/k", value: int = 5, *, process: int = 1) -> dict[str, Any]:
    told = json.dumps(["put", key, value])
    return {"kind": "watch_event", "process": process, "revision": revision, "value": told}


def progress(revision: int, *, process: int = 1) -> dict[str, Any]:
    return {"kind": "watch_progress", "process": process, "revision": revision}


def fact(kind: str, token: int, revision: int = -1, value: str = "") -> dict[str, Any]:
    return {"kind": kind, "token": token, "revision": revision, "value": value}


def leader(revision: int, token: int, *, process: int = 1, id: str = "a") -> dict[str, Any]:
    told = {"kind": "leader", "token": token, "revision": revision, "process": process}
    return {**told, "value": json.dumps([id, False])}


KEPT = {
    "watches": [
        opened(0),
        put(1),
        put(2),
        progress(2),
        opened(1, process=2),
        put(2, process=2),
        progress(9, process=2),
    ],
    "a stream that was cut off": [
        opened(0),
        put(1),
        progress(1),
        opened(0, process=2),
        put(1, process=2),
        put(4, process=2),
    ],
    "fences": [
        fact("lease_granted", 3, 3),
        fact("fence_accepted", 3, 4),
        fact("lease_granted", 7, 7),
        fact("fence_refused", 3, 8),
        fact("fence_accepted", 7, 9),
    ],
    "leads out of the order of nomination": [fact("elected", 8), fact("fence_accepted", 2, 10)],
    "what is held": [fact("lease_granted", 3, 3), fact("held", 3), fact("lease_granted", 7, 7), fact("held", 7)],
    "listeners": [leader(4, 4), leader(6, 6, id="b"), leader(6, 6, id="b", process=2)],
    "members": [fact("member_read", 4, value="4")],
    "sessions": [fact("session_answer", 1, 10, "1"), fact("session_answer", 2, 12, "2")],
}
BROKEN = {
    "1 changes are missing": [opened(0), progress(2), opened(0, process=2), put(1, process=2), progress(1, process=2)],
    "after 2": [opened(0), put(2), put(1), progress(2)],
    "twice": [opened(0), put(1), put(1), progress(2)],
    "is put 6, not": [
        opened(0),
        put(1),
        progress(1),
        opened(0, process=2),
        put(1, value=6, process=2),
        progress(1, process=2),
    ],
    "behind fence 7": [fact("lease_granted", 7, 7), fact("fence_accepted", 3, 8)],
    "ended at 8": [fact("fence_ended", 3, 8), fact("fence_accepted", 3, 9)],
    "still 0.000 ms after 7": [fact("lease_granted", 7, 7), fact("held", 3)],
    "revision 4 after 6": [leader(6, 6), leader(4, 4)],
    "another one": [leader(6, 6), leader(6, 6, id="b", process=2)],
    "both have the epoch 6": [fact("elected", 6, value="a"), fact("elected", 6, value="b")],
    "and read -1": [fact("member_read", 4, value="-1")],
    "addition 2 answered 3": [fact("session_answer", 1, 10, "1"), fact("session_answer", 2, 12, "3")],
    "revision 9 after 10": [fact("session_answer", 1, 10, "1"), fact("session_answer", 2, 9, "2")],
}


@pytest.mark.parametrize("name", KEPT)
def test_what_keeps_the_rules_passes(name: str) -> None:
    """Less than everything was seen, and that accuses nobody."""
    assert broken_rules(rows(*KEPT[name]), {}) == []


@pytest.mark.parametrize("reason", BROKEN)
def test_what_breaks_a_rule_is_named(reason: str) -> None:
    """One reason, which says what was seen."""
    (found,) = broken_rules(rows(*BROKEN[reason]), {})
    assert reason in found


def test_an_acknowledged_write_is_missed_in_a_watch() -> None:
    """Also when no watch saw it at all."""
    recorder = Recorder()
    recorder.invoke(1, "write", "s/k", 5)
    recorder.ok(1, None, revision=2)
    (found,) = broken_rules(rows(opened(1), progress(3)), {"watch": recorder.history()})
    assert "1 changes are missing, the first at revision 2: s/k" in found
