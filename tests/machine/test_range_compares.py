"""Compares over ranges: every key agrees, or there is none and the missing key does. Source: etcd applyCompare."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.machine import commands as c
from tests.machine.machines import Machine

LEVEL = 7
PLACES = {c.CREATE_REVISION: 2, c.MOD_REVISION: 3, c.VERSION: 4, c.LEASE: 5}
KEYS = st.sampled_from([b"a", b"b", b"c", b"d"])
BOUNDS = st.sampled_from([b"", b"a", b"b", b"bb", b"d", b"z"])
VALUES = st.sampled_from([b"", b"1", b"2"])


def agrees(result: int, found: Any, operand: Any) -> bool:
    return {
        c.EQUAL: found == operand,
        c.NOT_EQUAL: found != operand,
        c.LESS: found < operand,
        c.GREATER: found > operand,
    }[result]


def holds(records: list[Any], target: int, result: int, operand: Any) -> bool:
    if target == c.VALUE:
        return bool(records) and all(agrees(result, record[1], operand) for record in records)
    found = [record[PLACES[target]] for record in records] or [0]
    return all(agrees(result, number, operand) for number in found)


def new_machine() -> Machine:
    machine = Machine()
    assert machine.apply(c.command(c.LEVEL, LEVEL)).status == c.OK
    return machine


@st.composite
def compares(draw: st.DrawFn) -> tuple[int, int, Any]:
    target = draw(st.sampled_from([c.VALUE, *PLACES]))
    operand = draw(VALUES if target == c.VALUE else st.integers(0, 4))
    return target, draw(st.integers(c.EQUAL, c.GREATER)), operand


@given(
    puts=st.lists(st.tuples(KEYS, VALUES), max_size=6),
    deleted=st.lists(KEYS, max_size=2),
    bounds=st.tuples(BOUNDS, BOUNDS),
    compare=compares(),
)
def test_a_compare_over_a_range_is_that_of_all_its_keys(
    puts: list[tuple[bytes, bytes]], deleted: list[bytes], bounds: tuple[bytes, bytes], compare: tuple[int, int, Any]
) -> None:
    machine = new_machine()
    for key, value in puts:
        machine.txn(c.put(key, value))
    for key in deleted:
        machine.txn(c.delete(key))
    start, end = bounds
    target, result, operand = compare
    records, _ = machine.results(c.read_range(start, end))[0]
    answer = machine.txn(compares=[[target + c.OF_ALL, result, start, [end, operand]]])
    assert (answer.status, answer.body[0]) == (c.OK, holds(records, target, result, operand))


def test_a_compare_sees_what_the_entry_wrote_before() -> None:
    machine = new_machine()
    inner = c.nested(c.put(b"seen", b""), compares=[[c.VALUE + c.OF_ALL, c.EQUAL, b"a", [b"c", b"new"]]])
    machine.txn(c.put(b"a", b"old"))
    machine.txn(c.put(b"a", b"new"), c.put(b"b", b"new"), inner)
    assert machine.value(b"seen") == b""


def test_a_range_of_too_many_keys_is_refused() -> None:
    machine = new_machine()
    for first in range(0, c.CHANGES_MAX, 1000):
        machine.txn(*(c.put(b"%06d" % number, b"") for number in range(first, first + 1000)))
    compare = [c.VERSION + c.OF_ALL, c.EQUAL, b"", [b"", 1]]
    assert machine.txn(compares=[compare]).body[0] is True
    machine.txn(c.put(b"one more", b""))
    assert machine.txn(compares=[compare]).status == c.TOO_MANY_CHANGES


def test_all_ranges_of_an_entry_are_bounded_together() -> None:
    machine = new_machine()
    for first in range(0, c.CHANGES_MAX // 2, 1000):
        machine.txn(*(c.put(b"%06d" % number, b"") for number in range(first, first + 1000)))
    compare = [c.VERSION + c.OF_ALL, c.EQUAL, b"", [b"", 1]]
    assert machine.txn(compares=[compare, compare]).body[0] is True
    assert machine.txn(compares=[compare, compare, compare]).status == c.TOO_MANY_CHANGES
    assert machine.txn(c.nested(compares=[compare]), compares=[compare, compare]).status == c.TOO_MANY_CHANGES


def test_a_compare_over_a_range_needs_its_feature_level() -> None:
    machine = Machine()
    compare = [c.VERSION + c.OF_ALL, c.EQUAL, b"", [b"", 0]]
    for level in range(1, LEVEL):
        machine.apply(c.command(c.LEVEL, level))
        assert machine.txn(c.put(b"a", b""), compares=[compare]).status == c.COMMAND_INVALID
        assert machine.txn(c.nested(compares=[compare])).status == c.COMMAND_INVALID
    machine.apply(c.command(c.LEVEL, LEVEL))
    assert machine.txn(c.put(b"a", b""), compares=[compare]).body[0] is True


def test_whether_a_range_is_empty_has_no_such_form() -> None:
    machine = new_machine()
    for compare in ([c.RANGE_EMPTY + c.OF_ALL, c.EQUAL, b"a", [b"b", b""]], [c.OF_ALL, c.EQUAL, b"a", [b"b", 0]]):
        assert machine.txn(compares=[compare]).status == c.COMMAND_INVALID
