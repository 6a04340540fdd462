"""A check ends: by steps, by memory, by time; then the verdict is unknown, and never ok."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from raftmeta.check import Event, History, Limits, Prepared, Recorder, check, to_text
from raftmeta.check.check_handle import CheckHandle
from raftmeta.check.explain import explain
from raftmeta.check.models import Queue
from tests.check.store import Workload, history_of


def hard_history(width: int = 26) -> History:
    """Writes all at once, and reads that no order explains: every set of them must be tried."""
    recorder = Recorder()
    for process in range(width):
        recorder.invoke(process, "write", "x", process)
    recorder.invoke("reader", "read", "x")
    for process in range(width):
        recorder.ok(process)
    recorder.ok("reader", "nobody wrote this")
    return recorder.history()


@pytest.mark.parametrize(
    ("limits", "limit"),
    [
        (Limits(steps=100_000), "steps"),
        (Limits(memory_bytes=1 << 20), "memory"),
        (Limits(time_s=0.05), "time"),
    ],
)
def test_a_limit_makes_the_verdict_unknown(limits: Limits, limit: str) -> None:
    """And says which one it was."""
    begun = time.monotonic()
    checked = check(hard_history(), model="register", limits=limits)
    assert time.monotonic() - begun < 20
    assert checked.verdict == "unknown"
    assert [(one.verdict, one.limit) for one in checked.not_ok] == [("unknown", limit)]
    assert checked.counterexample is None


def test_the_rest_is_decided_when_one_component_is_too_hard() -> None:
    events = list(hard_history(18))
    seq = len(events)
    easy = [Event(seq, 0, "invoke", "write", "easy", 1), Event(seq + 1, 0, "ok")]
    checked = check(History.of(events + easy), model="register", limits=Limits(steps=50_000))
    assert (checked.verdict, checked.verdicts) == ("unknown", {"ok": 1, "unknown": 1})


def test_a_violation_next_to_an_unknown_is_a_violation() -> None:
    events = list(hard_history(18))
    seq = len(events)
    wrong = [Event(seq, 0, "invoke", "read", "y"), Event(seq + 1, 0, "ok", result=3)]
    assert check(History.of(events + wrong), model="register", limits=Limits(steps=50_000)).verdict == "violation"


def test_an_illegal_component_is_found_behind_a_hard_one() -> None:
    """Components take turns, and the first without a linearization decides: the hard one is not searched to its end."""
    events = list(hard_history(40))
    seq = len(events)
    wrong = [Event(seq, 0, "invoke", "read", "y"), Event(seq + 1, 0, "ok", result=3)]
    checked = check(History.of(events + wrong), model="register")
    assert (checked.verdict, checked.verdicts) == ("violation", {"violation": 1, "unknown": 1})
    assert [(one.limit, one.steps < 10**6) for one in checked.not_ok] == [("violation", True), ("", True)]
    assert "another component has no linearization" in to_text(checked)


def test_every_component_is_decided_when_each_needs_more_than_a_turn() -> None:
    """None is forgotten between two turns; the pipeline, which wants all verdicts, gets them."""
    events: list[Event] = []
    for key in range(3):
        for event in hard_history(13):
            named = event.key if event.kind != "invoke" else f"k{key}"
            events.append(replace(event, seq=len(events), process=f"{event.process}-{key}", key=named))
    prepared = Prepared(History.of(events), "register")
    prepared.run()
    found = list(prepared.components())
    assert [(one.verdict, one.limit) for one in found] == [("violation", "")] * 3
    assert min(one.steps for one in found) > 131_072


def test_the_explanation_ends_with_the_time_of_the_check() -> None:
    """A window that cannot be made shorter in time is shown as it is; the verdict stays."""
    prepared = Prepared(hard_history(9), "register")
    prepared.run()
    prepared.ends = time.monotonic()
    example = explain(prepared, 0)
    assert not example.is_shortened
    assert len(example.operations) == 10


def engines_answer(history: History, engines: int, model: str = "kv") -> tuple[int, int]:
    """(verdict, steps) of the first component with these engines alone."""
    prepared = Prepared(history, model)
    handle = CheckHandle(
        history.numbers(),
        history.texts(),
        prepared.meanings(),
        is_table=False,
        steps_max=10**9,
        bytes_max=1 << 28,
        engines=engines,
    )
    while handle.run(1.0) != 1:
        pass
    return handle.outcome(0)[0], handle.steps()


def many_enqueues(width: int = 12) -> History:
    """All at once, and one that takes out what nobody put in: a queue has as many states as they have orders."""
    recorder = Recorder()
    for process in range(width):
        recorder.invoke(process, "enqueue", "q", process)
    recorder.invoke("taker", "dequeue", "q")
    for process in range(width):
        recorder.ok(process)
    recorder.ok("taker", "nobody put this in")
    return recorder.history()


@pytest.mark.parametrize("model", ["queue", Queue()])
@pytest.mark.parametrize(
    ("limits", "limit"),
    [
        (Limits(steps=20_000), "steps"),
        (Limits(memory_bytes=1 << 20), "memory"),
        (Limits(time_s=0.05), "time"),
    ],
)
def test_limits_hold_for_objects_too(limits: Limits, limit: str, model: str | Queue) -> None:
    """Of native ones, and of those of Python, also while the search does nothing but ask."""
    begun = time.monotonic()
    checked = check(many_enqueues(), model=model, limits=limits)
    assert time.monotonic() - begun < 20
    assert [(one.verdict, one.limit) for one in checked.not_ok] == [("unknown", limit)]


def test_alike_crashed_operations_are_tried_in_one_order() -> None:
    """Otherwise every subset of them would be another set to search."""
    recorder = Recorder()
    for process in range(16):
        recorder.invoke(process, "write", "x", 1)
        recorder.info(process)
    for _ in range(17):
        recorder.invoke("writer", "write", "x", 0)
        recorder.ok("writer")
        recorder.invoke("reader", "read", "x")
        recorder.ok("reader", 1)
    for engines in (2, 4):
        verdict, steps = engines_answer(recorder.history(), engines)
        assert verdict == 2, "seventeen times seen, sixteen times written"
        assert steps < 20_000


def test_just_in_time_is_quick_where_many_crashed() -> None:
    """Sixty crashed writes of two values: those that are alike can change places, so few configurations are left."""
    recorder = Recorder()
    for process in range(60):
        recorder.invoke(process, "write", "x", process % 2)
        recorder.info(process)
    for number in range(100):
        recorder.invoke("reader", "read", "x")
        recorder.ok("reader", number % 2 if number < 60 else 1)
    verdict, steps = engines_answer(recorder.history(), 4)
    assert verdict == 1
    assert steps < 100_000


def test_no_length_is_too_long_for_the_search() -> None:
    """A step or two per operation, though the history has no end of a set that could be a key."""
    history = history_of(Workload(20_000, 4, has_revisions=False).run(2))
    verdict, steps = engines_answer(history, 2)
    assert verdict == 1
    assert steps < 200_000


def test_both_searches_answer_when_they_take_turns() -> None:
    """What WGL does not find in its first million steps is found in turns, within the limit of both together."""
    history = hard_history(13)
    assert check(history, model="register").verdict == "violation"
    assert engines_answer(history, 2)[0] == engines_answer(history, 4)[0] == 2


def test_an_interrupted_check_can_go_on() -> None:
    """Slices of no time at all lead to the same verdict."""
    prepared = Prepared(history_of(Workload(300, 6, keys=2, has_revisions=False).run(1)), "kv")
    while prepared.handle.run(0.0) != 1:
        pass
    assert [one.verdict for one in prepared.components()] == ["ok", "ok"]


def test_what_was_not_decided_has_no_verdict() -> None:
    prepared = Prepared(history_of(Workload(10, 2).run(1)), "kv")
    with pytest.raises(IndexError):
        prepared.component(0)
