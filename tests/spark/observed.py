"""Observations that are right, and for each rule a few rows that contradict it and nothing else.

Both judges are held to them: the queries of raftmeta/spark/observations.py and jepsen/observed.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

Row = dict[str, Any]
MS = 1_000_000


def whole(rows: Iterable[Row]) -> list[Row]:
    """Rows in their order, a millisecond apart; what a row does not say is what jepsen says then."""
    defaults = {"process": 1, "node": "", "revision": -1, "token": -1, "value": ""}
    return [{"seq": seq, "time_ns": seq * MS, **defaults, **row} for seq, row in enumerate(rows)]


def stream(process: int, begin: int, *revisions: int, until: int) -> list[Row]:
    """A watch from behind `begin`, told of a put at each revision, and at last that all until there was delivered."""
    rows: list[Row] = [{"kind": "watch_open", "revision": begin}]
    rows += [{"kind": "watch_event", "revision": one, "value": f'["put","w/k",{one}]'} for one in revisions]
    rows.append({"kind": "watch_progress", "revision": until})
    return [{"subject": "w/", "process": process, **row} for row in rows]


def told(kind: str, subject: str, token: int = -1, **more: Any) -> Row:
    return {"kind": kind, "subject": subject, "token": token, **more}


RIGHT: list[Row] = [
    *stream(1, 0, 1, 2, 3, until=4),
    *stream(2, 1, 2, 3, until=3),
    *stream(3, 3, until=3),
    # Two keys at one revision; the second stream ends before it was told all of it.
    {"kind": "watch_open", "subject": "x/", "process": 4, "revision": 0},
    {"kind": "watch_event", "subject": "x/", "process": 4, "revision": 9, "value": '["put","x/1",1]'},
    {"kind": "watch_event", "subject": "x/", "process": 4, "revision": 9, "value": '["delete","x/2",null]'},
    {"kind": "watch_open", "subject": "x/", "process": 5, "revision": 0},
    {"kind": "watch_event", "subject": "x/", "process": 5, "revision": 9, "value": '["put","x/1",1]'},
    told("fence_accepted", "lock", 7, revision=30),
    told("fence_accepted", "lock", 5, revision=20),  # answered late: the store's order is the revision
    told("fence_refused", "lock", 5, revision=31),
    told("lease_granted", "lock", 5),
    told("held", "lock", 5, time_ns=100),
    told("held", "lock", 5, time_ns=200),
    told("lease_lost", "lock", 5),
    told("held", "lock", 7, time_ns=201),
    told("elected", "lead", 3, value="a", revision=3, time_ns=1_000),
    told("held", "lead", 3, time_ns=9_000_000),
    told("elected", "lead", 8, value="b", revision=8, time_ns=11_000_000),
    told("leader", "lead", 3, revision=3, value='["a",false]'),
    told("leader", "lead", 3, revision=3, value='["a",true]', process=2),
    told("leader", "lead", 8, revision=8, value='["b",false]'),
    # Of a group many are members at once.
    told("member_joined", "group", 4, revision=4),
    told("held", "group", 4, time_ns=100),
    told("held", "group", 6, time_ns=50),
    told("held", "group", 6, time_ns=150),
    told("member", "group", revision=6, value='{"a":4,"b":6}'),
    told("member", "group", revision=6, value='{"a":4,"b":6}', process=2),
    told("member_read", "group", 4, value="4"),
    told("session_answer", "s", 1, value="1", revision=2),
    told("session_answer", "s", 2, value="2", revision=5),
    # An epoch is the revision of the nomination: who was nominated first may lead later.
    told("elected", "line", 8, value="a"),
    told("fence_accepted", "line", 2, revision=10),
    # A stream that broke off knows less than others, and is accused of nothing.
    *({**row, "subject": "y/"} for row in stream(6, 0, 1, until=1)),
    {"kind": "watch_open", "subject": "y/", "process": 7, "revision": 0},
    {"kind": "watch_event", "subject": "y/", "process": 7, "revision": 1, "value": '["put","w/k",1]'},
    {"kind": "watch_event", "subject": "y/", "process": 7, "revision": 4, "value": '["put","w/k",4]'},
]

RIGHT += [
    # A watch is told before its change is shown; another session, and another thing, know nothing of it.
    told("zookeeper_seen", "z/1/a", revision=5),
    told("zookeeper_armed", "z/1/a", revision=5),
    told("zookeeper_seen", "z/1/a", revision=5),
    told("zookeeper_seen", "z/1/b", revision=9),
    told("zookeeper_seen", "z/2/a", revision=9),
    told("zookeeper_told", "z/1/a"),
    told("zookeeper_seen", "z/1/a", revision=9),
    told("zookeeper_watches_set", "z/1", 0, revision=9, value="101"),
    told("zookeeper_sequence", "z/line", 3, revision=12),  # answered late: the store's order is the revision
    told("zookeeper_sequence", "z/line", 2, revision=11),
    told("total", "z/sum", 300, value="300"),
]

# name -> rows, kinds of the anomalies that they are
CONTRADICTED: dict[str, tuple[list[Row], list[str]]] = {
    "watch-order": ([*stream(1, 0, 1, 3, 2, until=3)], ["watch order"]),
    "watch-behind-progress": ([*stream(1, 0, 1, until=5), *stream(1, 5, 4, until=5)[1:]], ["watch order"]),
    "watch-news-behind": ([*stream(1, 0, 1, 3, until=3), stream(1, 0, until=2)[1]], ["watch order"]),
    "watch-duplicate": ([*stream(1, 0, 1, 2, 2, 3, until=3)], ["watch duplicate"]),
    "watch-gap": ([*stream(1, 0, 1, 2, 3, until=3), *stream(2, 0, 1, 3, until=3)], ["watch gap"]),
    "watch-difference": (
        [
            *stream(1, 0, 1, until=1),
            {**stream(2, 0, 1, until=1)[1], "value": '["put","w/k",7]'},
        ],
        ["watch difference"],
    ),
    "old-fence": (
        [told("fence_accepted", "lock", 7, revision=30), told("fence_accepted", "lock", 5, revision=31)],
        ["old fence accepted"],
    ),
    "fence-behind-grant": (
        [told("lease_granted", "lock", 7, revision=7), told("fence_accepted", "lock", 5, revision=8)],
        ["old fence accepted"],
    ),
    "ended-fence": (
        [told("fence_accepted", "lock", 5, revision=12), told("fence_ended", "lock", 5, revision=11)],
        ["ended fence accepted"],
    ),
    "two-holders": (
        [
            told("held", "lock", 5, time_ns=100),
            told("lease_granted", "lock", 7, revision=7, time_ns=150),
            told("held", "lock", 5, time_ns=200),
        ],
        ["two holders"],
    ),
    "two-holders-ungranted": (
        [told("held", "lock", 7, time_ns=100), told("held", "lock", 5, time_ns=101)],
        ["two holders"],
    ),
    "two-leaders": (
        [told("elected", "lead", 3, value="a"), told("elected", "lead", 3, value="b")],
        ["one token of two"],
    ),
    "leader-of-another-name": (
        [
            told("elected", "lead", 3, value="a", revision=3),
            told("leader", "lead", 3, revision=3, value='["b",false]'),
        ],
        ["one token of two"],
    ),
    "leader-of-no-name": (
        [
            told("leader", "lead", 3, revision=3, value='["a",false]'),
            told("leader", "lead", 3, revision=4, value="[null,false]"),
        ],
        ["one token of two"],
    ),
    "member-of-another-name": (
        [told("member_joined", "group", 4, value="a"), told("member", "group", revision=6, value='{"b":4}')],
        ["one token of two"],
    ),
    "held-by-another": (
        [told("lease_granted", "lock", 5, value="a", revision=5), told("held", "lock", 5, value="b")],
        ["one token of two"],
    ),
    "listener-order": (
        [told("member", "group", revision=6, value="{}"), told("member", "group", revision=5, value="{}")],
        ["listener order"],
    ),
    "listeners-differ": (
        [
            told("member", "group", revision=6, value='{"a":4}'),
            told("member", "group", revision=6, value='{"b":5}', process=2),
            told("leader", "lead", 3, revision=3, value='["a",false]'),
            told("leader", "lead", 4, revision=3, value='["b",false]', process=2),
        ],
        ["listeners differ", "listeners differ"],
    ),
    "listeners-name-two": (
        [
            told("leader", "lead", revision=3, value='["a",false]'),
            told("leader", "lead", revision=3, value='["b",false]', process=2),
        ],
        ["listeners differ"],
    ),
    "not-once": ([told("session_answer", "s", 2, value="3")], ["not exactly once"]),
    "session-order": (
        [told("session_answer", "s", 1, value="1", revision=5), told("session_answer", "s", 2, value="2", revision=5)],
        ["session order"],
    ),
    "not-listed": ([told("member_read", "group", 4, value="-1")], ["member not listed"]),
    "session-back": (
        [told("zookeeper_seen", "z", revision=5), told("zookeeper_seen", "z", revision=4)],
        ["session went back"],
    ),
    "shown-before-told": (
        [
            told("zookeeper_armed", "z", revision=4),
            told("zookeeper_told", "z"),
            told("zookeeper_armed", "z", revision=5),
            told("zookeeper_seen", "z", revision=6),
            told("zookeeper_told", "z"),
        ],
        ["shown before told"],
    ),
    "told-unasked": (
        [
            told("zookeeper_armed", "z", revision=4),
            told("zookeeper_told", "z"),
            told("zookeeper_unasked", "z"),
        ],
        ["told unasked"],
    ),
    "sequence-twice": (
        [told("zookeeper_sequence", "z", 2, revision=5), told("zookeeper_sequence", "z", 2, revision=6)],
        ["sequence order"],
    ),
    "sequence-falls": (
        [told("zookeeper_sequence", "z", 2, revision=6), told("zookeeper_sequence", "z", 3, revision=5)],
        ["sequence order"],
    ),
    "total-differs": ([told("total", "z", 300, value="290")], ["total differs"]),
}
STRANGE: list[Row] = [
    {"kind": "watch_event", "subject": "w/", "revision": -1},
    {"kind": "never heard of", "subject": "w/"},
    {"kind": "fence_accepted", "subject": "lock", "revision": 3},
    {"kind": "held", "subject": None, "token": 3},
    {"kind": "leader", "subject": "lead", "process": None, "revision": 3, "value": '["a",false]'},
]
