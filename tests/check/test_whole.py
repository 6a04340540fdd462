"""The whole way, from events to a verdict, against the definition in plain Python; and legal histories, spoiled."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftmeta.check import Event, History, Nothing, Prepared, check
from tests.check.store import Store, Workload, draw_register, draw_transactions, history_of

NEVER = 1 << 60


def draw_small(random_: random.Random, workload: Workload, number: int) -> tuple[str, Any, Any]:
    """Anything that the model kv has, on two keys with three values."""
    key, other = random_.choice(("x", "y")), random_.choice(("x", "y"))
    value, new = random_.choice((None, 1, 2)), random_.choice((1, 2))
    return random_.choice(
        [
            ("read", key, Nothing),
            ("write", key, new),
            ("delete", key, Nothing),
            ("cas", key, [value, new]),
            ("txn", Nothing, [["r", key, None], ["w", other, new], ["r", other, None]]),
        ]
    )


def has_linearization(events: list[Event]) -> bool:
    """By trying all orders: each operation in turn, if none that is left completed before it was invoked."""
    operations: list[dict[str, Any]] = []
    open_: dict[int | str, dict[str, Any]] = {}
    for event in events:
        if event.kind == "invoke":
            open_[event.process] = {"asked": event, "start": event.seq, "end": NEVER, "result": Nothing}
            operations.append(open_[event.process])
        elif event.kind == "ok":
            open_.pop(event.process).update(end=event.seq, result=event.result)

    def search(left: list[dict[str, Any]], values: dict[str, Any]) -> bool:
        if all(one["end"] == NEVER for one in left):
            return True
        for one in left:
            if any(other["end"] < one["start"] for other in left):
                continue
            store = Store(dict(values))
            asked = one["asked"]
            result = store.execute(asked.operation, asked.key, asked.arguments)
            if one["end"] != NEVER and result is not Nothing and result != one["result"]:
                continue
            if search([other for other in left if other is not one], store.values):
                return True
        return False

    return search(operations, {})


def spoil(events: list[Event], random_: random.Random) -> list[Event]:
    """Change one result to another that the operation could have had."""
    results = [row for row, event in enumerate(events) if event.kind == "ok" and event.result is not Nothing]
    if not results:
        return events
    row = random_.choice(results)
    result = events[row].result
    if isinstance(result, bool):
        changed: Any = not result
    elif isinstance(result, list):
        changed = [[name, key, 1 if name == "r" and value is None else value] for name, key, value in result]
    else:
        changed = random_.choice([other for other in (None, 1, 2) if other != result])
    return [*events[:row], replace(events[row], result=changed), *events[row + 1 :]]


@settings(max_examples=250, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    operations=st.integers(1, 6),
    processes=st.integers(1, 4),
    crash_share=st.sampled_from([0.0, 0.0, 0.2]),
    has_revisions=st.booleans(),
    is_spoiled=st.booleans(),
)
def test_the_verdict_is_that_of_the_definition(
    seed: int, operations: int, processes: int, crash_share: float, has_revisions: bool, is_spoiled: bool
) -> None:
    """Loader, programs, components and engines together."""
    events = Workload(operations, processes, 2, 3, crash_share, has_revisions, draw_small).run(seed)
    if is_spoiled:
        events = spoil(events, random.Random(seed))
    checked = check(History.of(events), model="kv")
    assert not checked.quarantined
    assert checked.verdict == ("ok" if has_linearization(events) else "violation")
    if checked.verdict == "violation":
        assert_counterexample_is_illegal(checked.counterexample, events)


def assert_counterexample_is_illegal(example: Any, events: list[Event]) -> None:
    """The operations of the window have no linearization from any of the states that are said to be possible before."""
    shown = {one.called_seq for one in example.operations}
    kept: dict[int | str, bool] = {}
    window = []
    for event in events:
        if event.kind == "invoke":
            kept[event.process] = event.seq in shown
        if kept[event.process]:
            window.append(event)
    assert example.culprit in example.operations
    for state in example.states_before:
        assert not has_linearization(state_as_writes(state, example.keys) + window)


def state_as_writes(state: str, keys: tuple[str, ...]) -> list[Event]:
    """Operations long before that lead to this state."""
    names = [json.loads(key) for key in keys]
    values = dict.fromkeys(names)
    if len(names) == 1:
        values[names[0]] = json.loads(state)
    else:
        values |= json.loads(state)
    written = []
    for number, (key, value) in enumerate(values.items()):
        written.append(Event(2 * number - 1000, "before", "invoke", "write", key, value))
        written.append(Event(2 * number - 999, "before", "ok"))
    return written


LARGE = {
    "one key": Workload(1500, 5),
    "many keys": Workload(1500, 8, keys=40),
    "ten at once": Workload(1000, 10),
    "crashes": Workload(1000, 5, keys=20, crash_share=0.01),
    "transactions": Workload(400, 4, keys=4, draw=draw_transactions),
}


@pytest.mark.parametrize("workload", LARGE.values(), ids=LARGE)
@pytest.mark.parametrize("seed", range(2))
def test_what_a_linearizable_store_did_is_ok(workload: Workload, seed: int) -> None:
    """With revisions by the witness pass alone, without them by search."""
    with_revisions = check(history_of(workload.run(seed)), model="kv")
    assert (with_revisions.verdict, with_revisions.engines.keys()) == ("ok", {"witness"})
    without = check(history_of(replace(workload, has_revisions=False).run(seed)), model="kv")
    assert without.verdict == "ok" and "witness" not in without.engines


def unique_writes(random_: random.Random, workload: Workload, number: int) -> tuple[str, Any, Any]:
    operation, key, _ = draw_register(random_, workload, number)
    return ("read", key, Nothing) if operation == "read" else ("write", key, number)


UNIQUE = Workload(600, 5, keys=5, draw=unique_writes)


def reads_of(events: list[Event]) -> list[int]:
    """Rows of the completions of reads that found a value, not among the first."""
    return [row for row, event in enumerate(events) if row > 200 and isinstance(event.result, int)]


def writes_dropped(events: list[Event], random_: random.Random) -> list[Event]:
    """The write of a value that was read is taken out of the history."""
    value = events[random_.choice(reads_of(events))].result
    row = next(row for row, event in enumerate(events) if event.kind == "invoke" and event.arguments == value)
    end = next(later for later in range(row + 1, len(events)) if events[later].process == events[row].process)
    return [event for place, event in enumerate(events) if place not in (row, end)]


def results_swapped(events: list[Event], random_: random.Random) -> list[Event]:
    """Two reads of one key, far apart, change their results."""
    key = "k1"
    open_key: dict[int | str, Any] = {}
    rows = []
    for row, event in enumerate(events):
        if event.kind == "invoke":
            open_key[event.process] = event.key
        elif isinstance(event.result, int) and open_key[event.process] == key:
            rows.append(row)
    early, late = rows[len(rows) // 4], rows[3 * len(rows) // 4]
    spoiled = list(events)
    spoiled[early] = replace(events[early], result=events[late].result)
    spoiled[late] = replace(events[late], result=events[early].result)
    return spoiled


def events_reordered(events: list[Event], random_: random.Random) -> list[Event]:
    """A read, both of its events, is moved to before the write that it saw was invoked."""
    row = random_.choice(reads_of(events))
    start = max(before for before in range(row) if events[before].process == events[row].process)
    written = next(
        place for place, one in enumerate(events) if one.kind == "invoke" and one.arguments == events[row].result
    )
    rest = [event for place, event in enumerate(events) if place not in (row, start)]
    reader = [replace(events[place], process="moved") for place in (start, row)]
    return [*rest[:written], *reader, *rest[written:]]


@pytest.mark.parametrize("spoiling", [writes_dropped, results_swapped, events_reordered])
@pytest.mark.parametrize("has_revisions", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_a_spoiled_history_is_found(spoiling: Any, has_revisions: bool, seed: int) -> None:
    """Each value is written once, so that each of these changes contradicts a result."""
    events = replace(UNIQUE, has_revisions=has_revisions).run(seed)
    assert check(history_of(events), model="kv").verdict == "ok"
    checked = check(history_of(spoiling(events, random.Random(seed))), model="kv")
    assert checked.verdict == "violation"
    assert checked.counterexample is not None and len(checked.counterexample.operations) <= 12


def test_wrong_revisions_accuse_nobody() -> None:
    """The order that a store tells is not believed when it fails; a search decides."""
    events = [replace(event, revision=7 if event.revision else None) for event in Workload(300, 4).run(1)]
    checked = check(history_of(events), model="kv")
    assert (checked.verdict, set(checked.engines)) == ("ok", {"wgl"})


def test_the_order_that_was_found_can_be_asked_for() -> None:
    """Replaying it gives every result."""
    events = Workload(200, 4).run(5)
    prepared = Prepared(History.of(events), "kv")
    prepared.run()
    order = prepared.handle.order()
    assert order is not None and sorted(order) == list(range(200))
    store = Store()
    for number in order:
        called, completed, _ = prepared.handle.operation(0, number)
        assert completed is not None
        asked = events[called]
        assert store.execute(str(asked.operation), asked.key, asked.arguments) == events[completed].result
