"""Counterexamples are short, true, and can be looked at."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from raftmeta.check import Checked, Counterexample, Event, Fault, History, check, to_html, to_json, to_text
from tests.check.store import Workload, history_of, overlapping, sequential


def counterexample(checked: Checked) -> Counterexample:
    assert checked.verdict == "violation"
    assert checked.counterexample is not None
    return checked.counterexample


def stale_after_much_else() -> History:
    """A thousand good operations, then a write that is acknowledged and not seen."""
    events = Workload(1000, 5, keys=3).run(4)
    last = len(events)
    events += [
        Event(last, 90, "invoke", "write", "k1", 700, time_ns=last * 1000),
        Event(last + 1, 90, "ok", time_ns=(last + 1) * 1000),
        Event(last + 2, 91, "invoke", "write", "k1", 701, time_ns=(last + 2) * 1000),
        Event(last + 3, 92, "invoke", "read", "k1", time_ns=(last + 3) * 1000),
        Event(last + 4, 91, "ok", time_ns=(last + 4) * 1000),
        Event(last + 5, 93, "invoke", "read", "k1", time_ns=(last + 5) * 1000),
        Event(last + 6, 93, "ok", result=700, time_ns=(last + 6) * 1000),
        Event(last + 7, 92, "ok", result=701, time_ns=(last + 7) * 1000),
    ]
    return History.of(events)


def test_the_window_is_short() -> None:
    """Of a thousand operations two remain: the write that was acknowledged, and the read that did not see it."""
    example = counterexample(check(stale_after_much_else(), model="kv"))
    assert example.keys == ('"k1"',)
    assert example.states_before == ("700",)
    assert [one.operation for one in example.operations] == ["write", "read"]
    assert example.culprit is not None and example.culprit.result == 700
    assert example.states_at_culprit == ("701",)
    assert example.is_shortened


def test_the_window_holds_what_is_needed_and_nothing_else() -> None:
    """Two reads during a write, new then old; a third one, and a write that nobody saw, do not matter."""
    history = overlapping(
        "w1 ok w2 . . . . . ok", ". . . r 2 . . . .", ". . . . . r 1 . .", ". . . . w9 . . ok .", ". . . r . 2 . . ."
    )
    example = counterexample(check(history, model="cas-register"))
    assert example.states_before == ("1",)
    assert [
        (one.operation, one.arguments if one.operation == "write" else one.result) for one in example.operations
    ] == [
        ("write", 2),
        ("read", 2),
        ("read", 1),
    ]
    assert example.left_out == 2
    assert example.culprit == example.operations[2]


def test_a_crashed_write_that_was_used_is_not_part_of_the_past() -> None:
    """It can take effect in the window, or have done so before: both were tried."""
    history = overlapping(
        "w1 ok . . . . . . . .", ". . w2 info . . . . . .", ". . . . r 2 r 1 . .", ". . . . . . . . r 2"
    )
    example = counterexample(check(history, model="register"))
    assert example.states_before == ("2",)
    assert example.culprit is not None and example.culprit.result == 1


def test_states_of_several_keys_are_told_by_name() -> None:
    events = [
        Event(0, 0, "invoke", "txn", arguments=[["w", "x", 1], ["w", "y", "a"]]),
        Event(1, 0, "ok", result=[["w", "x", 1], ["w", "y", "a"]]),
        Event(2, 0, "invoke", "txn", arguments=[["r", "x", None], ["r", "y", None]]),
        Event(3, 0, "ok", result=[["r", "x", 1], ["r", "y", "b"]]),
    ]
    example = counterexample(check(History.of(events), model="kv"))
    assert example.states_at_culprit == ('{"x": 1, "y": "a"}',)


@pytest.mark.parametrize(
    ("model", "calls", "state"),
    [
        ("set", [("add", 2, None), ("add", 1, None), ("read", None, [])], "{1, 2}"),
        ("queue", [("enqueue", 2, None), ("enqueue", "b", None), ("dequeue", None, 9)], '[2, "b"]'),
        ("lock", [("acquire", "a", True), ("acquire", "b", True)], '"a"'),
        ("lock", [("release", "a", True)], "nobody"),
        ("counter", [("add", 2, 2), ("read", None, 3)], "2"),
    ],
)
def test_states_of_a_model_are_told(model: str, calls: list[tuple[object, ...]], state: str) -> None:
    example = counterexample(check(sequential(*calls), model=model))
    assert example.states_at_culprit == (state,)


def test_the_text_names_the_culprit() -> None:
    text = to_text(check(stale_after_much_else(), model="kv"))
    assert text.startswith("violation: 1004 operations in 3 components as kv")
    assert re.search(r'^> \[\d+, \d+\] process 93: read "k1" -> 700$', text, re.MULTILINE)
    assert "possible states when the operation marked > completed: 701" in text


def test_the_json_is_whole() -> None:
    """It can be written and read, and says what the objects say."""
    checked = check(stale_after_much_else(), model="kv")
    told = json.loads(json.dumps(to_json(checked)))
    assert told["verdict"] == "violation"
    assert told["counterexample"]["operations"][1]["result"] == 700
    assert "arguments" not in told["counterexample"]["operations"][1]


class Page(HTMLParser):
    """Checks that what is opened is closed, and keeps what a test asks for."""

    VOID = ("meta", "rect", "line")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attributes)))

    def handle_data(self, data: str) -> None:
        self.words += data

    def of_class(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for _, attributes in self.seen if attributes.get("class") == name]


def test_the_page_draws_window_and_faults() -> None:
    """One red bar; the fault that was under way as a band, the other one not."""
    history = overlapping("w1 ok w2 . . . ok", ". . . r 2 . .", ". . . . . r 1")
    history = history_of([*history])
    history.time_ns = type(history.seq)("q", (seq * 1000 for seq in history.seq))
    faults = [Fault("partition a|bc", 3000, 6000), Fault("long before", -90000, -80000)]
    page = Page(to_html(check(history, model="register"), title="run 7", faults=faults))
    assert page.open == []
    assert (len(page.of_class("culprit")), len(page.of_class("bar")), len(page.of_class("band"))) == (1, 2, 1)
    assert "partition a|bc" in page.words and "long before" not in page.words
    assert "run 7: violation" in page.words


def test_the_page_loads_nothing_and_runs_nothing() -> None:
    """Whatever a history says stays text."""
    evil = "<script>alert(1)</script>"
    events = [Event(0, evil, "invoke", "read", evil), Event(1, evil, "ok", result=evil)]
    text = to_html(check(History.of(events), model="kv"), title=evil, faults=[Fault(evil, 0, 1)])
    page = Page(text)
    assert {tag for tag, _ in page.seen}.isdisjoint({"script", "link", "img", "iframe"})
    assert not re.search(r"https?://|url\(|@import|\son\w+=", text)


def test_a_page_without_a_counterexample_says_why() -> None:
    page = Page(to_html(check(History.of([Event(0, 0, "ok")]), model="kv")))
    assert "unknown" in page.words and "completes what was never invoked" in page.words


def test_much_that_is_wrong_is_counted_and_not_printed() -> None:
    events = [Event(number, 0, "ok", key=f"k{number}") for number in range(100)]
    text = to_text(check(History.of(events), model="kv"))
    assert text.count("completes what was never invoked") == 20
    assert "100 events make no sense" in text and "80 more components" in text
