"""Small histories whose verdict everybody knows: ways in which stores go wrong, and what only looks like it."""

from __future__ import annotations

from typing import Any

import pytest

from raftmeta.check import Event, History, check
from tests.check.store import overlapping, sequential

LEGAL = {
    "nothing happened": ("r -",),
    "a read during a write may see it": ("w1 . . ok", ". r 1 ."),
    "a read during a write may miss it": ("w1 . . ok", ". r - ."),
    "two reads during a write, old then new": ("w1 . . . . ok", ". r - r 1 ."),
    "writes at once in either order": ("w1 . ok . .", "w2 . ok . .", ". . . r 1"),
    "a crashed write takes effect late": ("w1 ok . . . . . .", ". . w2 info . . . .", ". . . . r 1 r 2"),
    "a crashed write never takes effect": ("w1 ok . . . .", ". . w2 info . .", ". . . . r 1"),
    "a comparison fails because of a crashed write": ("w1 ok . . . .", ". . w2 info . .", ". . . . c13 f"),
    "a crashed compare-and-set is seen": ("w1 ok . . . .", ". . c15 info . .", ". . . . r 5"),
    "crashed alike, both needed": ("w1 ok w2 info w3 ok . . . .", ". . w2 info . . r 2 . .", ". . . . . . . c23 t r 3"),
    "compare-and-sets in a chain": ("w0 ok c12 . t", ". . c01 . t"),
    "a process goes on after a crash": ("w1 info r - w2 ok", ". . . . . . r 1"),
}
ILLEGAL = {
    "a read of what nobody wrote": ("r 7",),
    "a stale read": ("w1 ok w2 ok . .", ". . . . r 1"),
    "an acknowledged write is lost": ("w1 ok . .", ". . r -"),
    "two reads during a write, new then old": ("w1 . . . . ok", ". r 1 r - ."),
    "two readers disagree on the order": ("w1 . ok", "w2 . ok", ". . . r 1 r 2", ". . . . . r 1"),
    "both compare-and-sets won": ("w0 ok c01 . t", ". . c02 . t"),
    "a comparison fails although it holds": ("w1 ok c12 f",),
    "a write that failed is seen": ("w1 fail . .", ". . r 1"),
    "a crashed write is seen and then not": ("w1 ok . . . . . .", ". . w2 info . . . .", ". . . . r 2 r 1"),
    "a crashed write takes effect twice": ("w1 ok . . . . w3 ok . .", ". . w2 info . . . . . .", ". . . . r 2 . . r 2"),
    "a crashed write is seen before it was invoked": ("r 1 . .", ". . w1 info"),
    "a crashed compare-and-set without its value": ("w1 ok . . . .", ". . c25 info . .", ". . . . r 5"),
}


@pytest.mark.parametrize("lines", LEGAL.values(), ids=LEGAL)
def test_a_legal_history_is_not_accused(lines: tuple[str, ...]) -> None:
    assert check(overlapping(*lines), model="cas-register").verdict == "ok"


@pytest.mark.parametrize("lines", ILLEGAL.values(), ids=ILLEGAL)
def test_an_illegal_history_is_found(lines: tuple[str, ...]) -> None:
    checked = check(overlapping(*lines), model="cas-register")
    assert checked.verdict == "violation"
    assert checked.counterexample is not None and checked.counterexample.culprit is not None


def steps(text: str) -> list[list[Any]]:
    """`if x -; w y 1; else; r y` -> the arguments or the result of a transaction; `-` is null."""
    words = {"-": None, "true": True, "false": False}
    found = []
    for step in text.split("; "):
        name, *rest = step.split()
        if name == "r" and len(rest) == 1:
            rest.append("-")
        found.append(
            [name, *(words[word] if word in words else int(word) if word.isdigit() else word for word in rest)]
        )
    return found


def transactions(*spans: tuple[int, int, str, str]) -> History:
    """(invoked at, completed at, arguments, result or `crashed`), each by a process of its own."""
    events = []
    for process, (start, end, arguments, result) in enumerate(spans):
        events.append(Event(start, process, "invoke", "txn", arguments=steps(arguments)))
        completed = Event(end, process, "ok", result=steps(result))
        events.append(completed if result != "crashed" else Event(end, process, "info"))
    return History.of(events)


BRANCHES = "if x -; w y 1; else; w y 2"
TRANSACTIONS = {
    "write skew, which snapshot isolation allows": (
        "violation",
        [(0, 2, "r x; w y 1", "r x; w y 1"), (1, 3, "r y; w x 1", "r y; w x 1")],
    ),
    "one behind the other": ("ok", [(0, 2, "r x; w y 1", "r x; w y 1"), (1, 3, "r y; w x 1", "r y 1; w x 1")]),
    "half of one is seen": ("violation", [(0, 1, "w x 1; w y 1", "w x 1; w y 1"), (2, 3, "r x; r y", "r x 1; r y")]),
    "its own write is seen": ("ok", [(0, 1, "w x 1; r x", "w x 1; r x 1")]),
    "its own write is not seen": ("violation", [(0, 1, "w x 1; r x", "w x 1; r x")]),
    "two readers see two writes in opposite orders": (
        "violation",
        [
            (0, 9, "w x 1", "w x 1"),
            (1, 8, "w y 1", "w y 1"),
            (2, 4, "r x; r y", "r x 1; r y"),
            (3, 5, "r x; r y", "r x; r y 1"),
        ],
    ),
    "a comparison holds": ("ok", [(0, 1, "if x -; w y 1; else; r y", "if true; w y 1")]),
    "a comparison cannot have held": ("violation", [(0, 1, "if x 1; w y 1; else; r y", "if true; w y 1")]),
    "a comparison does not hold": ("ok", [(0, 1, "if x 1; w y 1; else; r y", "if false; r y")]),
    "the other branch reads what is there": ("violation", [(0, 1, "if x 1; w y 1; else; r y", "if false; r y 1")]),
    "one of two comparisons does not hold": ("ok", [(0, 1, "if x -; if y 1; w y 1", "if false")]),
    "a crashed one ran the branch of its comparison": ("ok", [(0, 1, BRANCHES, "crashed"), (2, 3, "r y", "r y 1")]),
    "a crashed one cannot have run the other": ("violation", [(0, 1, BRANCHES, "crashed"), (2, 3, "r y", "r y 2")]),
    "a crashed one ran late, when it did not hold": (
        "ok",
        [(0, 1, BRANCHES, "crashed"), (2, 3, "w x 1", "w x 1"), (4, 5, "r y", "r y 2")],
    ),
}


@pytest.mark.parametrize(("verdict", "spans"), TRANSACTIONS.values(), ids=TRANSACTIONS)
def test_transactions_take_effect_at_once(verdict: str, spans: list[tuple[int, int, str, str]]) -> None:
    assert check(transactions(*spans), model="kv").verdict == verdict


MODEL_CASES: list[tuple[str, str, list[tuple[Any, ...]]]] = [
    ("set", "ok", [("add", 1, None), ("add", 2, True), ("read", None, [2, 1]), ("contains", 1, True)]),
    ("set", "ok", [("add", 1, True), ("remove", 1, True), ("remove", 1, False), ("read", None, [])]),
    ("set", "violation", [("add", 1, True), ("add", 1, True)]),
    ("set", "violation", [("add", 1, None), ("read", None, [])]),
    ("set", "violation", [("contains", 1, True)]),
    ("queue", "ok", [("enqueue", 1, None), ("enqueue", 2, None), ("dequeue", None, 1), ("dequeue", None, 2)]),
    ("queue", "ok", [("dequeue", None, None)]),
    ("queue", "violation", [("enqueue", 1, None), ("enqueue", 2, None), ("dequeue", None, 2)]),
    ("queue", "violation", [("enqueue", 1, None), ("dequeue", None, 1), ("dequeue", None, 1)]),
    ("queue", "violation", [("enqueue", 1, None), ("dequeue", None, None)]),
    ("lock", "ok", [("acquire", "a", True), ("acquire", "b", False), ("release", "a", None), ("acquire", "b", None)]),
    ("lock", "violation", [("acquire", "a", True), ("acquire", "b", True)]),
    ("lock", "violation", [("acquire", "a", True), ("release", "b", True)]),
    ("lock", "violation", [("acquire", "a", False)]),
    ("append-list", "ok", [("read", None, None), ("append", 1, 1), ("append", 2, None), ("read", None, [1, 2])]),
    ("append-list", "violation", [("append", 1, None), ("append", 2, None), ("read", None, [2, 1])]),
    ("append-list", "violation", [("append", 1, 2)]),
    ("counter", "ok", [("add", 2, 2), ("add", -1, None), ("read", None, 1)]),
    ("counter", "violation", [("add", 1, 1), ("add", 1, 1)]),
    ("counter", "violation", [("read", None, 1)]),
    ("text", "ok", [("read", None, None), ("append", "a", None), ("append", 'b"', None), ("read", None, 'ab"')]),
    ("text", "ok", [("append", "a", None), ("write", "", None), ("read", None, None), ("read", None, "")]),
    ("text", "violation", [("append", "a", None), ("write", "b", None), ("read", None, "ab")]),
    ("register", "ok", [("read", None, None), ("write", {"b": 1, "a": 2}, None), ("read", None, {"a": 2, "b": 1})]),
    ("kv", "ok", [("write", 1, None), ("delete", None, None), ("read", None, None)]),
    ("kv", "violation", [("write", 1, None), ("delete", None, None), ("read", None, 1)]),
]


@pytest.mark.parametrize(("model", "verdict", "calls"), MODEL_CASES)
def test_a_model_knows_what_its_object_may_say(model: str, verdict: str, calls: list[tuple[Any, ...]]) -> None:
    assert check(sequential(*calls), model=model).verdict == verdict


@pytest.mark.parametrize(
    ("model", "crashed", "seen"),
    [
        ("set", ("add", 1), ("read", None, [1])),
        ("queue", ("enqueue", 1), ("dequeue", None, 1)),
        ("lock", ("acquire", "a"), ("acquire", "b", False)),
        ("append-list", ("append", 1), ("read", None, [1])),
        ("counter", ("add", 3), ("read", None, 3)),
        ("text", ("append", "x"), ("read", None, "x")),
    ],
)
def test_a_crashed_operation_of_a_model_may_be_seen(
    model: str, crashed: tuple[str, Any], seen: tuple[str, Any, Any]
) -> None:
    """And without it the same would be a violation."""
    events = [
        Event(0, 0, "invoke", crashed[0], "k", crashed[1]),
        Event(1, 0, "info"),
        Event(2, 1, "invoke", seen[0], "k", seen[1]),
        Event(3, 1, "ok", result=seen[2]),
    ]
    assert check(History.of(events), model=model).verdict == "ok"
    assert check(History.of(events[2:]), model=model).verdict == "violation"


def test_the_initial_value_can_be_told() -> None:
    history = overlapping("r 4", ". . r 4")
    assert check(history, model="register").verdict == "violation"
    assert check(history, model="register", initial=4).verdict == "ok"


def test_keys_are_checked_one_by_one() -> None:
    """A bad key among good ones is named, and the others are ok."""
    events = []
    for key in ("a", "b", "c"):
        written = len(events)
        events += [
            Event(written, 0, "invoke", "write", key, written),
            Event(written + 1, 0, "ok"),
            Event(written + 2, 0, "invoke", "read", key),
            Event(written + 3, 0, "ok", result=99 if key == "b" else written),
        ]
    checked = check(History.of(events), model="kv")
    assert checked.verdicts == {"ok": 2, "violation": 1}
    assert [one.keys for one in checked.not_ok] == [('"b"',)]


def test_a_model_of_ones_own_can_be_checked() -> None:
    """A stack, in ten lines."""

    class Stack:
        name = "stack"
        operations = frozenset({"push", "pop"})
        observers: frozenset[str] = frozenset()

        def initial(self) -> Any:
            return ()

        def step(self, state: Any, call: Any) -> Any:
            if call.operation == "push":
                return (*state, call.arguments)
            return state[:-1] if state and call.returned(state[-1]) else None

    calls: list[tuple[Any, ...]] = [("push", 1, None), ("push", 2, None), ("pop", None, 2), ("pop", None, 1)]
    assert check(sequential(*calls), model=Stack()).verdict == "ok"
    assert check(sequential(*reversed(calls)), model=Stack()).verdict == "violation"
    assert check(sequential(*calls[:2], calls[3]), model=Stack()).verdict == "violation"
