"""Watches by example and against a list: no gap, no duplicate, whole revisions, whatever the start and the pace."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterable
from typing import Any

import msgpack
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.faces.watches import HandledWatch, WatchedMachine
from tests.machine import commands as c

NO_PUT, NO_DELETE, PREVIOUS, PROGRESS = 1, 2, 4, 8
EVENTS, MARK, LAGGED, COMPACTED, CLOSED = 1, 2, 3, 4, 5
PUT, DELETE = 1, 2
FRAGMENT_BYTES = 1 << 20

Item = tuple[int, int, int, list[Any], bool]


def unpacked(data: bytes) -> list[Item]:
    unpacker = msgpack.Unpacker(use_list=True, max_buffer_size=0)
    unpacker.feed(data)
    return [tuple(item) for item in unpacker]


def taken(watch: HandledWatch, items_max: int = 1 << 30, bytes_max: int = (1 << 32) - 1) -> list[Item]:
    count, data = watch.take(items_max, bytes_max)
    items = unpacked(data)
    assert len(items) == count
    return items


def revisions(items: Iterable[Item]) -> list[int]:
    return [item[1] for item in items]


def single(key: bytes) -> tuple[bytes, bytes]:
    return key, key + b"\0"


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def replayed(machine: WatchedMachine) -> None:
    while machine.pump():
        pass


# --- what an item says ------------------------------------------------------------------------------------------------


def test_an_event_carries_the_record_and_on_request_the_one_before() -> None:
    """docs/formats.md "Results": [kind, revision, wall_ms, [[type, record, previous], ...], more]."""
    machine = WatchedMachine()
    plain, full = machine.add(*single(b"a")), machine.add(b"a", b"b", filter=PREVIOUS)
    machine.apply(c.keys(c.put(b"a", b"1")), wall_ms=1000)
    machine.apply(c.keys(c.put(b"a", b"2")), wall_ms=2000)
    machine.apply(c.keys(c.delete(b"a")), wall_ms=3000)
    machine.apply(c.keys(c.put(b"a", b"3")), wall_ms=4000)
    one, two = [b"a", b"1", 1, 1, 1, 0, 0], [b"a", b"2", 1, 2, 2, 0, 0]
    gone, three = [b"a", b"", 0, 3, 0, 0, 1], [b"a", b"3", 4, 4, 1, 0, 0]
    assert taken(full) == [
        (EVENTS, 1, 1000, [[PUT, one, None]], False),
        (EVENTS, 2, 2000, [[PUT, two, one]], False),
        (EVENTS, 3, 3000, [[DELETE, gone, two]], False),
        (EVENTS, 4, 4000, [[PUT, three, None]], False),
    ]
    assert [item[3][0][1:] for item in taken(plain)] == [[one, None], [two, None], [gone, None], [three, None]]


def test_a_revision_is_one_item_with_its_changes_in_the_order_of_the_entry() -> None:
    """A transaction of many keys: each watch gets the part in its range, as one item."""
    machine = WatchedMachine()
    everything, middle = machine.add(b"", b""), machine.add(b"b", b"d")
    machine.apply(c.keys(c.put(b"c"), c.put(b"a"), c.put(b"b"), c.put(b"d")))
    assert [[event[1][0] for event in item[3]] for item in taken(everything)] == [[b"c", b"a", b"b", b"d"]]
    assert [[event[1][0] for event in item[3]] for item in taken(middle)] == [[b"c", b"b"]]


def test_filters_leave_out_puts_or_deletes() -> None:
    """NO_PUT and NO_DELETE; a revision of which nothing is left makes no item."""
    machine = WatchedMachine()
    deletes = machine.add(b"", b"", filter=NO_PUT)
    puts = machine.add(b"", b"", filter=NO_DELETE)
    neither = machine.add(b"", b"", filter=NO_PUT | NO_DELETE)
    machine.apply(c.keys(c.put(b"a"), c.put(b"b")))
    machine.apply(c.keys(c.delete(b"a"), c.put(b"c")))
    machine.apply(c.keys(c.delete_range(b"", b"")))
    kinds = [[(item[1], [e[0] for e in item[3]]) for item in taken(watch)] for watch in (deletes, puts, neither)]
    assert kinds == [[(2, [DELETE]), (3, [DELETE, DELETE])], [(1, [PUT, PUT]), (2, [PUT])], []]


def test_a_long_revision_comes_in_fragments_that_end_alike_for_everyone() -> None:
    """More than 1 MiB encoded: all fragments but the last say more; limits of a take never cut a fragment."""
    machine = WatchedMachine()
    quick, slow = machine.add(b"", b""), machine.add(b"", b"", filter=PREVIOUS)
    machine.apply(c.keys(*(c.put(b"%03d" % n, bytes(200_000)) for n in range(12)), c.put(b"long", bytes(1 << 20))))
    machine.apply(c.keys(c.put(b"next")))
    items = taken(quick)
    pieces = []
    while piece := taken(slow, items_max=1, bytes_max=1):
        pieces += piece
    assert pieces == items
    assert [item[4] for item in items] == [True, True, True, False, False]
    assert revisions(items) == [1, 1, 1, 1, 2]
    assert [len(item[3]) for item in items] == [5, 5, 2, 1, 1]
    replay = machine.add(b"", b"", start=1)
    replayed(machine)
    assert taken(replay) == items


def test_a_take_stops_after_the_bytes_asked_for() -> None:
    """bytes_max: at least one item, and none begun once it is reached."""
    machine = WatchedMachine()
    watch = machine.add(b"", b"")
    machine.apply(c.keys(c.put(b"a", bytes(100))), times=10)
    assert revisions(taken(watch, bytes_max=1)) == [1]
    assert revisions(taken(watch, bytes_max=300)) == [2, 3, 4]
    assert revisions(taken(watch, items_max=2)) == [5, 6]
    assert revisions(taken(watch)) == [7, 8, 9, 10]
    assert taken(watch) == []


# --- who gets it ------------------------------------------------------------------------------------------------------


def test_ranges_and_single_keys_find_exactly_their_watches() -> None:
    """Random ranges, nested and equal ones, with and without end, against a comparison of each with each key; then half
    of them leave and the rest still find theirs."""
    draw = random.Random(7)
    names = [bytes(draw.choices(b"ab\0\xff", k=draw.randrange(1, 5))) for _ in range(150)]
    machine = WatchedMachine()
    watches = []
    for number in range(600):
        first, second = draw.choice([b"", *names]), draw.choice([b"", *names])
        key, end = single(first) if number % 3 == 0 and first else (first, second)
        watches.append((key, end, machine.add(key, end, owner=number)))
    for _ in range(2):
        for name in names:
            machine.apply(c.keys(c.put(name)))
            woken: list[int] = []
            while some := machine.take_woken(50):
                woken += some
            wanted = [n for n, (key, end, w) in enumerate(watches) if w and key <= name and (name < end or not end)]
            assert sorted(woken) == wanted
        for number in range(0, 600, 2):
            key, end, watch = watches[number]
            if watch:
                watch.close()
                watches[number] = (key, end, None)


def test_owners_are_woken_once_for_all_that_is_new() -> None:
    """hub_take_woken: once per batch, at most so many in one call, none for nothing."""
    machine = WatchedMachine()
    watches = [machine.add(b"", b"", owner=number) for number in range(5)]
    machine.apply(c.keys(c.put(b"a")), times=3)
    assert sorted(machine.take_woken(3) + machine.take_woken(3)) == [0, 1, 2, 3, 4]
    assert machine.take_woken() == []
    machine.apply(c.keys(c.put(b"a")))
    watches[2].close()
    assert sorted(machine.take_woken()) == [0, 1, 3, 4]


# --- where it starts --------------------------------------------------------------------------------------------------


def test_a_watch_of_the_past_meets_the_present_without_gap_or_duplicate() -> None:
    """Replay in small pumps while new revisions come in, from every start."""
    machine = WatchedMachine()
    machine.apply(c.keys(c.put(b"a")), times=20)
    watches = [(start, machine.add(b"", b"", start=start)) for start in range(1, 22)]
    more = True
    while more or machine.revision < 40:
        machine.apply(c.keys(c.put(b"b"), c.put(b"a")))
        more = machine.pump(45)
    last = machine.revision
    for start, watch in watches:
        assert revisions(taken(watch)) == list(range(start, last + 1))


def test_a_watch_of_the_future_waits_for_its_revision() -> None:
    """start beyond the newest: nothing before it, also if it goes through replay."""
    machine = WatchedMachine()
    watch = machine.add(b"", b"", start=4)
    machine.apply(c.keys(c.put(b"a")), times=2)
    machine.apply(c.keys(c.put(b"a")), times=3, is_seen=False)
    machine.pump()
    machine.apply(c.keys(c.put(b"a")))
    assert revisions(taken(watch)) == [4, 5, 6]


def test_a_start_below_the_history_floor_is_compacted() -> None:
    """The item names the first revision from which one can resume, and that one works."""
    machine = WatchedMachine()
    machine.apply(c.keys(c.put(b"a")), times=10)
    machine.apply(c.compact(6))
    watch = machine.add(b"", b"", start=6)
    replayed(machine)
    assert taken(watch) == [(COMPACTED, 7, 0, [], False)]
    watch = machine.add(b"", b"", start=7)
    machine.apply(c.keys(c.put(b"a")))
    replayed(machine)
    assert revisions(taken(watch)) == [7, 8, 9, 10, 11]


def test_a_replay_that_the_floor_overtakes_ends_as_compacted() -> None:
    """Replay waits for its consumer; the floor does not."""
    machine = WatchedMachine(queue_bytes_max=400)
    machine.apply(c.keys(c.put(b"a", bytes(50))), times=20)
    watch = machine.add(b"", b"", start=1)
    assert not machine.pump()
    machine.apply(c.compact(15))
    first = taken(watch)
    machine.pump()
    rest = taken(watch)
    assert revisions(first) == list(range(1, len(first) + 1)) and 1 <= len(first) < 15
    assert rest == [(COMPACTED, 16, 0, [], False)]


def test_after_an_install_watches_go_on_from_the_history_of_the_snapshot() -> None:
    """The machine jumps ahead without hub_publish: live watches are replayed what they missed, or told COMPACTED."""
    machine = WatchedMachine()
    watch, other = machine.add(b"", b""), machine.add(*single(b"b"))
    machine.apply(c.keys(c.put(b"a")), times=3)
    machine.apply(c.keys(c.put(b"a"), c.put(b"b")), times=4, is_seen=False)
    machine.apply(c.keys(c.put(b"a")))
    replayed(machine)
    machine.apply(c.keys(c.put(b"b")))
    assert revisions(taken(watch)) == list(range(1, 10))
    assert revisions(taken(other)) == [4, 5, 6, 7, 9]
    machine.apply(c.keys(c.put(b"a")), times=5, is_seen=False)
    machine.apply(c.compact(11), is_seen=False)
    replayed(machine)
    assert taken(watch) == [(COMPACTED, 12, 0, [], False)]


# --- how it ends ------------------------------------------------------------------------------------------------------


def test_a_consumer_that_is_too_slow_is_told_once_where_to_resume() -> None:
    """The queue is full: LAGGED after all that was enqueued, then nothing; a new watch from there misses nothing."""
    machine = WatchedMachine(queue_bytes_max=2000)
    watch = machine.add(b"", b"")
    machine.apply(c.keys(c.put(b"a", bytes(100))), times=50)
    items = taken(watch)
    resume = items[-1][1]
    assert items[-1] == (LAGGED, resume, 0, [], False) and 3 < resume < 50
    assert revisions(items[:-1]) == list(range(1, resume))
    machine.apply(c.keys(c.put(b"a")))
    assert taken(watch) == []
    again, seen = machine.add(b"", b"", start=resume), []
    while len(seen) < 52 - resume:
        machine.pump()
        seen += revisions(taken(again))
    assert seen == list(range(resume, 52))


def test_a_revision_longer_than_the_queue_still_gets_through() -> None:
    """An empty queue takes any revision: else its watcher would resume from it for ever."""
    machine = WatchedMachine(queue_bytes_max=1000)
    watch = machine.add(b"", b"")
    machine.apply(c.keys(c.put(b"a", bytes(5000))))
    assert revisions(taken(watch)) == [1]
    late = machine.add(b"", b"", start=1)
    machine.pump()
    assert revisions(taken(late)) == [1]


def test_closing_tells_every_watch_that_has_not_ended() -> None:
    """CLOSED comes behind what waits; a lagged one has had its last item."""
    machine = WatchedMachine(queue_bytes_max=500)
    live, lagged = machine.add(b"b", b"c", owner=1), machine.add(b"a", b"b", owner=2)
    machine.apply(c.keys(c.put(b"b")))
    machine.apply(c.keys(c.put(b"a")), times=30)
    behind = machine.add(b"", b"", start=1, owner=3)
    machine.take_woken()
    machine.close()
    assert sorted(machine.take_woken()) == [1, 3]
    assert [(item[0], item[1]) for item in taken(live)] == [(EVENTS, 1), (CLOSED, 31)]
    assert [item[0] for item in taken(behind)] == [CLOSED]
    assert taken(lagged)[-1][0] == LAGGED
    assert taken(live) == []


def test_progress_marks_say_how_far_a_quiet_watch_is() -> None:
    """When it begins or catches up, then after a thousand revisions without a match, and only if it was asked for."""
    machine = WatchedMachine()
    machine.apply(c.keys(c.put(b"a")), times=5)
    told, late = machine.add(b"x", b"y", filter=PROGRESS), machine.add(b"x", b"y", start=2, filter=PROGRESS)
    untold = machine.add(b"x", b"y")
    machine.pump()
    assert taken(told) == taken(late) == [(MARK, 5, 0, [], False)]
    machine.apply(c.keys(c.put(b"a")), times=999)
    machine.pump()
    assert taken(told) == []
    machine.apply(c.keys(c.put(b"a")))
    machine.pump()
    machine.pump()
    assert taken(told) == taken(late) == [(MARK, 1005, 0, [], False)]
    machine.apply(c.keys(c.put(b"x")))
    machine.apply(c.keys(c.put(b"a")), times=999)
    machine.pump()
    assert revisions(taken(told)) == [1006]
    assert revisions(taken(untold)) == [1006]


def test_a_mark_waits_until_what_is_enqueued_was_taken() -> None:
    """A consumer that does not take gets no pile of marks."""
    machine = WatchedMachine()
    watch = machine.add(b"x", b"y", filter=PROGRESS)
    machine.apply(c.keys(c.put(b"x")))
    for _ in range(3):
        machine.apply(c.keys(c.put(b"a")), times=1000)
        machine.pump()
    assert revisions(taken(watch)) == [1]
    machine.pump()
    assert taken(watch) == [(MARK, 3001, 0, [], False)]


# --- threads and numbers ----------------------------------------------------------------------------------------------


def test_consumers_in_other_threads_get_everything_in_order() -> None:
    """Two consumers take natively while the applying thread publishes: all revisions, once, ascending."""
    machine = WatchedMachine(queue_bytes_max=1 << 30)
    watches = [machine.add(b"", b""), machine.add(*single(b"a"), filter=PREVIOUS)]
    seen: list[list[Item]] = [[], []]

    def consume(place: int) -> None:
        while not seen[place] or seen[place][-1][0] != CLOSED:
            seen[place] += taken(watches[place], items_max=100)

    threads = [threading.Thread(target=consume, args=(place,)) for place in (0, 1)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        machine.apply(c.keys(c.put(b"a", bytes(30)), c.put(b"b")), times=500)
    machine.close()
    for thread in threads:
        thread.join()
    for items, events in zip(seen, (2, 1), strict=True):
        assert revisions(items) == [*range(1, 10_001), 10_000]
        assert all(len(item[3]) == events for item in items[:-1])


@pytest.mark.parametrize("filter", [0, PREVIOUS])
def test_many_watches_of_one_key_share_one_encoding(filter: int) -> None:
    """1,000 watches and a value of 200 KB: the memory is that of one batch, and all take the same bytes."""
    machine = WatchedMachine()
    watches = [machine.add(*single(b"a"), filter=filter) for _ in range(1000)]
    before = resident_bytes()
    machine.apply(c.keys(c.put(b"a", bytes(200_000))))
    assert resident_bytes() - before < 20_000_000
    first = watches[0].take()
    assert all(watch.take() == first for watch in watches[1:])


# --- the model --------------------------------------------------------------------------------------------------------

KEYS = [b"a", b"a/", b"a/1", b"a/2", b"b", b"b\0", b"\xff"]
BOUNDS = [b"", *KEYS, b"a0", b"b\0\0"]


class WatchesAgainstAList(RuleBasedStateMachine):
    """The model is the list of all changes; a watch must have got the part it asked for, no less, no more."""

    @initialize(queue_bytes_max=st.sampled_from([400, 3000, 1 << 24]))
    def start(self, queue_bytes_max: int) -> None:
        self.machine = WatchedMachine(queue_bytes_max=queue_bytes_max)
        self.state: dict[bytes, list[Any]] = {}
        self.changes: list[tuple[int, int, list[Any], list[Any] | None]] = []
        self.watches: list[dict[str, Any]] = []

    @rule(
        puts=st.lists(st.tuples(st.sampled_from(KEYS), st.binary(max_size=30)), min_size=1, max_size=4),
        is_seen=st.sampled_from([True, True, True, False]),
    )
    def put(self, puts: list[tuple[bytes, bytes]], is_seen: bool) -> None:
        distinct = dict(puts)
        revision = self.machine.apply(c.keys(*(c.put(k, v) for k, v in distinct.items())), is_seen=is_seen)
        for key, value in distinct.items():
            before = self.state.get(key)
            create, version = (revision, 1) if before is None else (before[2], before[4] + 1)
            self.state[key] = [key, value, create, revision, version, 0, 0]
            self.changes.append((revision, PUT, self.state[key], before))

    @rule(start=st.sampled_from(BOUNDS), end=st.sampled_from(BOUNDS), is_seen=st.booleans())
    def delete_range(self, start: bytes, end: bytes, is_seen: bool) -> None:
        gone = [key for key in sorted(self.state) if key >= start and (key < end or not end)]
        if not gone or (end and start >= end):
            return
        revision = self.machine.apply(c.keys(c.delete_range(start, end)), is_seen=is_seen)
        for key in gone:
            self.changes.append((revision, DELETE, [key, b"", 0, revision, 0, 0, 1], self.state.pop(key)))

    @precondition(lambda self: self.machine.revision > 0)
    @rule(share=st.floats(0, 1))
    def compact(self, share: float) -> None:
        floor = max(int(self.machine.revision * share), self.machine.compacted)
        if floor:
            self.machine.apply(c.compact(floor))

    @rule(
        key=st.sampled_from(BOUNDS),
        end=st.sampled_from(BOUNDS),
        is_single=st.booleans(),
        start=st.integers(0, 12),
        filter=st.sampled_from([0, PREVIOUS, NO_PUT, NO_DELETE, PREVIOUS | PROGRESS]),
    )
    def add(self, key: bytes, end: bytes, is_single: bool, start: int, filter: int) -> None:
        end = key + b"\0" if is_single else end
        begin = max(self.machine.revision + 3 - start, 1) if start else self.machine.revision + 1
        watch = self.machine.add(key, end, start=begin if start else 0, filter=filter, owner=len(self.watches))
        self.watches.append(
            {
                "watch": watch,
                "key": key,
                "end": end,
                "filter": filter,
                "begin": begin,
                "got": [],
                "upto": 0,
                "end_item": None,
            }
        )

    @rule(changes_max=st.sampled_from([1, 5, 1000]))
    def pump(self, changes_max: int) -> None:
        self.machine.pump(changes_max)

    @rule(data=st.data(), items_max=st.sampled_from([1, 3, 100]), bytes_max=st.sampled_from([1, 100, 1 << 30]))
    def take(self, data: Any, items_max: int, bytes_max: int) -> None:
        if self.watches:
            self.take_from(data.draw(st.sampled_from(self.watches)), items_max, bytes_max)

    @rule(data=st.data())
    def close(self, data: Any) -> None:
        if self.watches:
            watch = data.draw(st.sampled_from(self.watches))
            watch["watch"].close()
            self.watches.remove(watch)

    def take_from(self, watch: dict[str, Any], items_max: int = 1 << 30, bytes_max: int = 1 << 30) -> int:
        items = taken(watch["watch"], items_max, bytes_max)
        for kind, revision, _, events, more in items:
            assert watch["end_item"] is None, "an item after the last one"
            assert not more
            if kind == EVENTS:
                assert events and revision > watch["upto"]
                watch["got"].append((revision, events))
                watch["upto"] = revision
            elif kind == MARK:
                assert revision >= watch["upto"]
                watch["upto"] = revision
            else:
                watch["end_item"] = (kind, revision)
        self.check(watch)
        return len(items)

    def expected(self, watch: dict[str, Any], upto: int) -> list[tuple[int, list[Any]]]:
        found: dict[int, list[Any]] = {}
        for revision, kind, record, before in self.changes:
            if not watch["begin"] <= revision <= upto or not watch["key"] <= record[0]:
                continue
            if watch["end"] and record[0] >= watch["end"]:
                continue
            if watch["filter"] & (NO_PUT if kind == PUT else NO_DELETE):
                continue
            found.setdefault(revision, []).append([kind, record, before if watch["filter"] & PREVIOUS else None])
        return sorted(found.items())

    def check(self, watch: dict[str, Any]) -> None:
        upto = watch["upto"]
        if watch["end_item"]:
            kind, revision = watch["end_item"]
            assert kind in (LAGGED, COMPACTED) and revision >= watch["begin"]
            if kind == LAGGED:
                upto = revision - 1
            else:
                assert revision <= self.machine.compacted + 1
        assert watch["got"] == self.expected(watch, upto)

    def teardown(self) -> None:
        if not hasattr(self, "machine"):
            return
        busy = True
        while busy:
            busy = self.machine.pump()
            for watch in self.watches:
                busy = self.take_from(watch) > 0 or busy
        for watch in self.watches:
            if not watch["end_item"]:
                assert watch["got"] == self.expected(watch, self.machine.revision)


TestWatchesAgainstAList = WatchesAgainstAList.TestCase
TestWatchesAgainstAList.settings = settings(stateful_step_count=50)
