"""Native objects: the same verdicts as their definitions in Python, and what they may begin with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftmeta.check import Event, History, Limits, Model, Nothing, check
from raftmeta.check.models import AppendList, Counter, Lock, Queue, Set, Text
from tests.check.store import sequential

SMALL = st.integers(0, 2)
WHETHER = st.sampled_from([None, True, False])
# The definition of each object, and calls of it: operation, arguments, a result that it may have or not.
DRAWN: dict[str, tuple[type[Model], st.SearchStrategy[tuple[str, Any, Any]]]] = {
    "set": (
        Set,
        st.one_of(
            st.tuples(st.sampled_from(["add", "remove"]), SMALL, WHETHER),
            st.tuples(st.just("contains"), SMALL, st.booleans()),
            st.tuples(st.just("read"), st.none(), st.lists(SMALL, unique=True, max_size=3)),
        ),
    ),
    "queue": (
        Queue,
        st.one_of(
            st.tuples(st.just("enqueue"), SMALL, st.none()),
            st.tuples(st.just("dequeue"), st.none(), st.sampled_from([None, 0, 1, 2])),
        ),
    ),
    "lock": (Lock, st.tuples(st.sampled_from(["acquire", "release"]), st.sampled_from("ab"), WHETHER)),
    "append-list": (
        AppendList,
        st.one_of(
            st.tuples(st.just("append"), SMALL, st.sampled_from([None, 1, 2, 3])),
            st.tuples(st.just("read"), st.none(), st.one_of(st.none(), st.lists(SMALL, max_size=3))),
        ),
    ),
    "counter": (
        Counter,
        st.one_of(
            st.tuples(st.just("add"), st.integers(-2, 2), st.one_of(st.none(), st.integers(-3, 3))),
            st.tuples(st.just("read"), st.none(), st.integers(-3, 3)),
        ),
    ),
    "text": (
        Text,
        st.one_of(
            st.tuples(st.sampled_from(["write", "append"]), st.sampled_from(["", "a", "b", "ab", "ü"]), st.none()),
            st.tuples(st.just("read"), st.none(), st.sampled_from([None, "", "a", "ab", "abb", "üa", "b"])),
        ),
    ),
}
FATES = st.sampled_from(["ok", "ok", "ok", "info"])


def history_of(drawn: list[tuple[int, tuple[str, Any, Any], str]]) -> History:
    """Calls of four processes, some at once and some crashed."""
    events: list[Event] = []
    open_: dict[int, tuple[str, Any]] = {}

    def complete(process: int) -> None:
        kind, result = open_.pop(process)
        events.append(Event(len(events), process, kind, result=result if kind == "ok" else Nothing))

    for process, call, kind in drawn:
        if process in open_:
            complete(process)
        events.append(Event(len(events), process, "invoke", call[0], "k", call[1]))
        open_[process] = (kind, call[2])
    for process in list(open_):
        complete(process)
    return History.of(events)


@pytest.mark.parametrize("model", DRAWN)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_native_object_is_the_one_that_python_defines(model: str, data: st.DataObject) -> None:
    """Both find the same verdict."""
    definition, calls = DRAWN[model]
    history = history_of(data.draw(st.lists(st.tuples(st.integers(0, 3), calls, FATES), max_size=7)))
    native = check(history, model=model, allow_empty=True)
    assert not native.quarantined
    assert native.verdict == check(history, model=definition(), allow_empty=True).verdict


@settings(max_examples=600, deadline=None)
@given(data=st.data())
def test_the_order_of_what_is_read_is_that_of_the_appends(data: st.DataObject) -> None:
    """Every value is appended once, so the longest read tells an order: the verdict stays that of the definition.

    Appends that tell how long the list became leave gaps, which appends of unknown outcome may fill.
    """
    told = data.draw(st.sampled_from([st.none(), st.one_of(st.none(), st.integers(1, 5))]))
    values = data.draw(st.permutations(range(5)))
    read = st.integers(0, 5).map(lambda count: list(values[:count]))
    call = st.one_of(st.none(), st.one_of(read, read, read, st.lists(st.integers(0, 4), max_size=5)))
    drawn, left = [], data.draw(st.permutations(range(5)))
    for process, result, kind in data.draw(st.lists(st.tuples(st.integers(0, 3), call, FATES), max_size=10)):
        if result is None and left:
            drawn.append((process, ("append", left.pop(), data.draw(told)), kind))
        else:
            drawn.append((process, ("read", None, result or []), kind))
    history = history_of(drawn)
    native = check(history, model="append-list", allow_empty=True)
    assert native.verdict == check(history, model=AppendList(), allow_empty=True).verdict


def test_appends_of_unknown_outcome_cost_no_orders() -> None:
    """Twenty of them between two reads, of which the second saw half: every order of them would be too many."""
    events = [Event(number, number, "invoke", "append", "k", number) for number in range(20)]
    for shown in (list(range(0, 20, 2)), list(range(0, 20, 2))):
        events.append(Event(len(events), 50, "invoke", "read", "k"))
        events.append(Event(len(events), 50, "ok", result=shown[::-1]))
    assert check(History.of(events), model="append-list", limits=Limits(steps=100_000)).verdict == "ok"


@pytest.mark.parametrize(("lost", "verdict"), [(12, "ok"), (25, "violation")])
def test_appends_of_unknown_outcome_fill_gaps_in_any_order(lost: int, verdict: str) -> None:
    """A store stands still, 24 appends end without an answer, and nobody reads the list before its key rotates.

    Later appends tell lengths that `lost` of the 24 explain. All subsets and orders of the 24 would be too many.
    """
    events: list[Event] = []

    def call(process: int, operation: str, arguments: Any, result: Any) -> list[Event]:
        return [Event(0, process, "invoke", operation, "k", arguments), Event(0, process, "ok", result=result)]

    for number in range(30):
        events += call(0, "append", number, number + 1)
    events += call(1, "read", None, list(range(30)))
    events += [Event(0, 100 + number, "invoke", "append", "k", 1000 + number) for number in range(24)]
    for number in range(0, 40, 2):  # two at once, and the one that begins later takes effect first
        length = 31 + number + lost * (number + 2) // 40
        one, other = (call(process, "append", 100 + number + process, length + 1 - process) for process in (0, 1))
        events += [one[0], other[0], one[1], other[1]]
    history = History.of(replace(event, seq=position) for position, event in enumerate(events))
    assert check(history, model="append-list", limits=Limits(steps=2_000_000)).verdict == verdict


@pytest.mark.parametrize(
    ("model", "initial", "call"),
    [
        ("set", [2, 1], ("read", None, [1, 2])),
        ("queue", ["a", "b"], ("dequeue", None, "a")),
        ("lock", "me", ("acquire", "you", False)),
        ("append-list", [1], ("append", 2, 2)),
        ("counter", -5, ("add", 1, -4)),
        ("text", "free", ("read", None, "free")),
    ],
)
def test_an_object_begins_with_its_initial_value(model: str, initial: object, call: tuple[Any, ...]) -> None:
    assert check(sequential(call), model=model).verdict == "violation"
    assert check(sequential(call), model=model, initial=initial).verdict == "ok"


@pytest.mark.parametrize(
    ("model", "initial"), [("set", 3), ("queue", "a"), ("counter", 1.5), ("text", 7), (Counter(), 1)]
)
def test_an_initial_value_that_an_object_cannot_have_is_refused(model: str | Model, initial: object) -> None:
    """Of a model of one's own, too: it says itself how it begins."""
    with pytest.raises(ValueError, match="initial: "):
        check(sequential(("read", None, None)), model=model, initial=initial)


@pytest.mark.parametrize(
    ("model", "operation", "arguments", "result", "word"),
    [
        ("set", "read", None, 3, "result"),
        ("set", "contains", 1, "maybe", "result"),
        ("queue", "enqueue", Nothing, None, "arguments"),
        ("queue", "dequeue", None, Nothing, "result"),
        ("lock", "acquire", Nothing, True, "arguments"),
        ("append-list", "read", None, "[1]", "result"),
        ("counter", "add", 1.5, None, "arguments"),
        ("counter", "add", 10**19, None, "arguments"),
        ("counter", "read", None, None, "result"),
        ("text", "append", 3, None, "arguments"),
        ("text", "read", None, [], "result"),
    ],
)
def test_what_makes_no_sense_to_an_object_is_in_quarantine(
    model: str, operation: str, arguments: Any, result: Any, word: str
) -> None:
    """By its row, each time that it comes, and its component is accused of nothing."""
    call = (operation, arguments, result)
    checked = check(sequential(call, call), model=model)
    assert [f"{word} make" in one.reason or f"{word} makes" in one.reason for one in checked.quarantined] == [True] * 2
    assert (checked.verdict, checked.verdicts) == ("unknown", {"malformed": 1})


def test_a_counter_beyond_its_numbers_is_unknown() -> None:
    """Never a wrong verdict: the sums are kept far from the end of 64 bits."""
    most = 10**18 - 1
    assert check(sequential(*[("add", most, None)] * 4), model="counter").verdict == "ok"
    checked = check(sequential(*[("add", most, None)] * 5), model="counter")
    assert [one.verdict for one in checked.not_ok] == ["unknown"]


def test_many_components_of_large_objects_are_checked_in_turn() -> None:
    """Lists that grow: states of one component are forgotten when there are many, and it is still decided right."""
    events: list[Event] = []
    for key in range(6):
        for number in range(4000):
            events.append(Event(len(events), key, "invoke", "append", key, number))
            events.append(Event(len(events), key, "ok", result=number + 1))
        events.append(Event(len(events), key, "invoke", "read", key))
        last = 3999 if key != 4 else 7
        events.append(Event(len(events), key, "ok", result=[*range(3999), last]))
    checked = check(History.of(events), model="append-list")
    assert checked.verdicts == {"ok": 5, "violation": 1}
    assert [one.keys for one in checked.not_ok] == [("4",)]
