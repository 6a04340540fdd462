"""What makes no sense is found, named, and never passes as checked; nothing from outside breaks the loader."""

from __future__ import annotations

import threading
from array import array
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftmeta.check import Event, History, Nothing, Prepared, Recorder, canonical, check, to_html, to_text
from raftmeta.check.check_handle import CheckHandle
from raftmeta.check.history import TextColumn

WRITE = Event(0, 0, "invoke", "write", "x", 1)
OK = Event(1, 0, "ok")


@pytest.mark.parametrize(
    ("reason", "events"),
    [
        ("seq is not greater", [WRITE, OK, Event(1, 1, "invoke", "read", "x")]),
        ("kind is none of", [WRITE, Event(1, 0, "done")]),
        ("no such operation", [Event(0, 0, "invoke", "increment", "x")]),
        ("no such operation", [Event(0, 0, "invoke", None, "x")]),
        ("has an operation under way", [WRITE, Event(1, 0, "invoke", "read", "x"), Event(2, 0, "ok")]),
        ("completes what was never invoked", [Event(0, 0, "ok", key="x")]),
        ("completes what was never invoked", [WRITE, OK, Event(2, 0, "ok", key="x")]),
        ("another operation", [WRITE, Event(1, 0, "ok", "read")]),
        ("another key", [WRITE, Event(1, 0, "ok", "write", "y")]),
        ("arguments make no sense", [Event(0, 0, "invoke", "write", "x"), OK]),
        ("arguments make no sense", [Event(0, 0, "invoke", "cas", "x", 3), Event(1, 0, "ok", result=True)]),
        ("arguments make no sense", [Event(0, 0, "invoke", "cas", "x", [1, 2, 3]), Event(1, 0, "ok", result=True)]),
        ("arguments make no sense", [Event(0, 0, "invoke", "cas", "x", [1])]),
        ("result makes no sense", [Event(0, 0, "invoke", "cas", "x", [1, 2]), Event(1, 0, "ok", result=1)]),
        ("result makes no sense", [Event(0, 0, "invoke", "read", "x"), Event(1, 0, "ok")]),
        ("revision is negative", [WRITE, Event(1, 0, "ok", revision=-5)]),
    ],
)
def test_what_makes_no_sense_is_named(reason: str, events: list[Event]) -> None:
    """One event in quarantine with its reason; what it belongs to is not ok, and not accused."""
    checked = check(History.of(events), model="kv")
    assert [reason in one.reason for one in checked.quarantined] == [True]
    assert checked.verdict == "unknown"


@pytest.mark.parametrize(
    ("arguments", "result"),
    [
        ("not a list", [["r", "x", 1]]),
        ([["r", "x"]], [["r", "x", 1]]),
        ([["append", "x", 1]], [["append", "x", 1]]),
        ([["else"], ["r", "x", None]], [["r", "x", 1]]),
        ([["r", "x", None], ["if", "x", 1]], [["r", "x", 1]]),
        ([["if", "x", 1], ["else"], ["else"]], [["if", False]]),
        ([["r", "x", None]], 3),
        ([["r", "x", None]], []),
        ([["r", "x", None]], [["r", "y", 1]]),
        ([["r", "x", None]], [["w", "x", 1]]),
        ([["r", "x", None]], [["r", "x", 1], ["r", "x", 1]]),
        ([["if", "x", 1], ["r", "x", None]], [["r", "x", 1]]),
        ([["if", "x", 1], ["r", "x", None]], [["if", 7], ["r", "x", 1]]),
        ([[]], [[]]),
    ],
)
def test_a_transaction_that_makes_no_sense_is_named(arguments: Any, result: Any) -> None:
    """It may have touched any key: nothing of the history counts as checked."""
    events = [
        Event(0, 0, "invoke", "txn", arguments=arguments),
        Event(1, 0, "ok", result=result),
        Event(2, 0, "invoke", "write", "other", 1),
        Event(3, 0, "ok"),
    ]
    checked = check(History.of(events), model="kv")
    assert len(checked.quarantined) == 1
    assert checked.verdict == "unknown"
    assert "ok" not in checked.verdicts


def test_only_the_component_of_a_bad_event_is_left_unchecked() -> None:
    """The others are decided, a violation among them is told."""
    good = [Event(10, 1, "invoke", "write", "y", 1), Event(11, 1, "ok")]
    bad = [WRITE, Event(1, 0, "ok", "read")]
    checked = check(History.of(bad + good), model="kv")
    assert (checked.verdict, checked.verdicts) == ("unknown", {"ok": 1, "malformed": 1})
    stale = [Event(12, 1, "invoke", "read", "y"), Event(13, 1, "ok", result=9)]
    assert check(History.of(bad + good + stale), model="kv").verdict == "violation"


ABANDONED = Event(0, 1, "invoke", "write", "a", 1)  # an operation of process 1, which is under way


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([Event(1, 1, "invoke", "write", "b", 1), Event(2, 1, "ok")], "has an operation under way"),
        ([Event(1, 1, "invoke", "fly", "b"), Event(2, 1, "ok")], "no such operation"),
        ([Event(0, 1, "invoke", "write", "b", 1), Event(2, 1, "ok")], "seq is not greater"),
        ([Event(1, 1, "started", "write", "b", 1), Event(2, 1, "ok")], "kind is none of"),
    ],
)
def test_a_completion_that_may_be_of_another_operation_accuses_nobody(events: list[Event], reason: str) -> None:
    """A process invokes on b while it has an operation on a under way: the next completion may belong to either.

    A read that does not see the write on a is then no proof. Both components are malformed; others are decided.
    """
    read = [Event(3, 2, "invoke", "read", "a"), Event(4, 2, "ok", result=None)]
    other = [Event(5, 2, "invoke", "read", "c"), Event(6, 2, "ok", result=None)]
    prepared = Prepared(History.of([ABANDONED, *events, *read, *other]), "kv")
    prepared.run()
    assert {one.keys: one.verdict for one in prepared.components()} == {
        ('"a"',): "malformed",
        ('"b"',): "malformed",
        ('"c"',): "ok",
    }
    assert [reason in one.reason for one in prepared.quarantined()] == [True]


def test_a_completion_behind_two_invocations_that_are_not_understood_accuses_nobody() -> None:
    """The first invocation is in quarantine, so the second one is too: the completion may belong to either."""
    events = [
        Event(0, 1, "invoke", "fly", "b"),
        Event(1, 1, "invoke", "write", "a", 1),
        Event(2, 1, "ok", key="b"),
        Event(3, 2, "invoke", "read", "a"),
        Event(4, 2, "ok", result=1),
    ]
    checked = check(History.of(events), model="kv")
    assert (checked.verdict, checked.verdicts) == ("unknown", {"malformed": 2})


def test_a_transaction_with_a_key_of_its_own_taints_what_it_may_have_touched() -> None:
    """Its arguments name its keys. They make no sense, so it may have written any key."""
    events = [
        Event(0, 1, "invoke", "txn", "a", [["w", "b"]]),
        Event(1, 1, "ok", result=[]),
        Event(2, 2, "invoke", "read", "b"),
        Event(3, 2, "ok", result=7),
    ]
    checked = check(History.of(events), model="kv")
    assert checked.verdict == "unknown" and set(checked.verdicts) == {"malformed"}


def test_arguments_that_a_model_complains_about_are_named() -> None:
    events = [Event(0, 0, "invoke", "add", "n", "three"), Event(1, 0, "ok")]
    checked = check(History.of(events), model="counter")
    assert checked.verdict == "unknown"
    assert [one.reason for one in checked.quarantined] == ["arguments make no sense to this operation"]


def test_an_empty_history_is_unknown_unless_it_is_allowed() -> None:
    """Nothing was checked: a recorder that wrote nothing must not pass for a store that is right."""
    checked = check(History.of([]), model="kv")
    assert (checked.verdict, checked.components, checked.operations) == ("unknown", 0, 0)
    assert "no events" in to_text(checked) and "no events" in to_html(checked)
    assert check(History.of([]), model="kv", allow_empty=True).verdict == "ok"


def test_operations_that_failed_are_counted_and_left_out() -> None:
    checked = check(History.of([WRITE, Event(1, 0, "fail")]), model="kv")
    assert (checked.verdict, checked.failed, checked.operations) == ("ok", 1, 0)


def test_a_recorder_keeps_the_order_of_its_calls() -> None:
    """Threads write down what they do; seq is the order in which they called, times come from the clock given."""
    ticks = iter(range(0, 10**9, 5))
    recorder = Recorder(clock_ns=lambda: next(ticks))

    def client(process: int) -> None:
        for number in range(200):
            recorder.invoke(process, "write", "x", process * 1000 + number)
            recorder.ok(process, revision=None)

    threads = [threading.Thread(target=client, args=(process,)) for process in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    history = recorder.history()
    assert list(history.seq) == list(range(1600))
    assert list(history.time_ns) == list(range(0, 8000, 5))
    assert check(history, model="register").verdict == "ok"


def test_a_recorder_knows_all_fates() -> None:
    recorder = Recorder()
    for process, fate in enumerate((recorder.fail, recorder.info)):
        recorder.invoke(process, "write", "x", process)
        fate(process)
    recorder.invoke("reader", "read", "x")
    recorder.ok("reader", 1, revision=3)
    kinds = [(event.process, event.kind, event.revision) for event in recorder.history()]
    assert kinds[1:4:2] == [(0, "fail", None), (1, "info", None)]
    assert kinds[5] == ("reader", "ok", 3)
    assert check(recorder.history(), model="register").verdict == "ok"


def test_equal_values_have_equal_texts() -> None:
    assert (
        canonical({"b": [1, "ü"], "a": None})
        == '{"a":null,"b":[1,"ü"]}'.encode()
        == canonical({"a": None, "b": (1, "ü")})
    )
    assert canonical(Nothing) == b"" and repr(Nothing) == "Nothing"
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical(float("nan"))


json_like = st.text(alphabet='[]{}",\\:nulrwife0123xk ', max_size=24).map(str.encode)


@settings(max_examples=300, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 4), st.integers(-1, 6), json_like, json_like, json_like),
        max_size=14,
    )
)
def test_no_bytes_break_the_loader(rows: list[tuple[int, int, int, bytes, bytes, bytes]]) -> None:
    """Texts that are no JSON, kinds and codes that mean nothing: a verdict comes back, and memory stays whole."""
    key, arguments, result = TextColumn(), TextColumn(), TextColumn()
    for _, _, _, one, other, third in rows:
        key.append(one)
        arguments.append(other)
        result.append(third)
    handle = CheckHandle(
        (
            array("q", range(len(rows))),
            array("q", [row[0] for row in rows]),
            array("b", [row[1] for row in rows]),
            array("i", [row[2] for row in rows]),
            array("q", [-1] * len(rows)),
        ),
        (key.buffers(), arguments.buffers(), result.buffers()),
        bytes([1, 2, 3, 4, 5, 0]),
        is_table=False,
        steps_max=10**6,
        bytes_max=1 << 24,
    )
    assert handle.run(10.0) == 1
    assert all(1 <= handle.outcome(number)[0] <= 4 for number in range(handle.components))
    assert len(handle.malformed()) <= 2 * len(rows)


@pytest.mark.parametrize(
    ("spoiled", "complaint"),
    [
        ({"offsets": [0, 1]}, "one offset more"),
        ({"offsets": [0, 2, 1]}, "descend"),
        ({"offsets": [0, 1, 9]}, "outside"),
        ({"offsets": [-1, 1, 2]}, "outside"),
        ({"process": [1]}, "different lengths"),
    ],
)
def test_columns_that_do_not_fit_are_refused(spoiled: dict[str, list[int]], complaint: str) -> None:
    """Before anything is read through them."""
    text = (array("q", spoiled.get("offsets", [0, 1, 2])), b"ab")
    numbers = (array("q", [1, 2]), array("q", spoiled.get("process", [1, 1])), array("b", [0, 1]))
    with pytest.raises(ValueError, match=complaint):
        CheckHandle(
            (*numbers, array("i", [0, 0]), array("q", [-1, -1])),
            (text, text, text),
            b"\x01",
            is_table=False,
            steps_max=1,
            bytes_max=1,
        )


def test_an_unknown_model_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="append-list"):
        check(History.of([]), model="blockchain")
