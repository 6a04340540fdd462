"""Transactions: operations, order within one entry, limits."""

from __future__ import annotations

import pytest

from tests.machine import commands as c
from tests.machine.machines import Machine


@pytest.fixture
def machine() -> Machine:
    return Machine()


# --- single operations ------------------------------------------------------------------------------------------------
def test_put_creates_and_replaces(machine: Machine) -> None:
    machine.txn(c.put(b"k", b"1"))
    machine.txn(c.put(b"other"))
    machine.txn(c.put(b"k", b"2"))
    assert machine.handle.get(b"k")[1] == (b"k", b"2", 1, 3, 2, 0, 0)


def test_create_refuses_a_key_that_exists(machine: Machine) -> None:
    """KIP-30 Storage.put throws if the key exists."""
    assert machine.txn(c.create(b"k", b"1")).status == c.OK
    assert machine.txn(c.create(b"k", b"2")).status == c.KEY_EXISTS
    assert machine.value(b"k") == b"1"


def test_update_refuses_a_key_that_is_missing(machine: Machine) -> None:
    """KIP-30 Storage.update throws if it does not exist."""
    assert machine.txn(c.update(b"k", b"1")).status == c.KEY_MISSING
    assert machine.value(b"k") is None


def test_update_compares_the_revision(machine: Machine) -> None:
    """Versions are checked with the write, in one step."""
    machine.txn(c.put(b"k", b"1"))
    assert machine.txn(c.update(b"k", b"2", expected=7)).status == c.COMPARE_FAILED
    assert machine.txn(c.update(b"k", b"2", expected=1)).status == c.OK
    assert machine.txn(c.delete(b"k", expected=1)).status == c.COMPARE_FAILED
    assert machine.txn(c.delete(b"k", expected=2)).status == c.OK


def test_delete_says_whether_there_was_something(machine: Machine) -> None:
    machine.txn(c.put(b"k", b"1"))
    assert machine.results(c.delete(b"k")) == [1]
    assert machine.results(c.delete(b"k")) == [0]
    assert machine.results(c.delete(b"k", flags=c.WANT_PREVIOUS)) == [None]
    assert machine.txn(c.delete(b"k", flags=c.MUST_EXIST)).status == c.KEY_MISSING
    assert machine.txn(c.delete(b"k", expected=1)).status == c.COMPARE_FAILED


def test_previous_records_are_given_on_request(machine: Machine) -> None:
    assert machine.results(c.put(b"k", b"1", flags=c.WANT_PREVIOUS)) == [None]
    assert machine.results(c.put(b"k", b"2", flags=c.WANT_PREVIOUS)) == [[b"k", b"1", 1, 1, 1, 0, 0]]
    assert machine.results(c.delete(b"k", flags=c.WANT_PREVIOUS)) == [[b"k", b"2", 1, 2, 2, 0, 0]]


def test_key_that_was_deleted_begins_anew(machine: Machine) -> None:
    machine.txn(c.put(b"k"))
    machine.txn(c.put(b"k"))
    machine.txn(c.delete(b"k"))
    machine.txn(c.put(b"k"))
    assert machine.handle.get(b"k")[1] == (b"k", b"", 4, 4, 1, 0, 0)


def test_value_can_be_kept(machine: Machine) -> None:
    machine.apply(c.grant(9, 100))
    assert machine.txn(c.put(b"k", flags=c.KEEP_VALUE)).status == c.KEY_MISSING
    machine.txn(c.put(b"k", b"value"), c.add(b"n", 5))
    machine.txn(c.put(b"k", flags=c.KEEP_VALUE, lease=9), c.update(b"n", flags=c.KEEP_VALUE, lease=9))
    assert machine.handle.get(b"k")[1] == (b"k", b"value", 1, 2, 2, 9, 0)
    assert machine.results(c.add(b"n", 1)) == [6]


def test_range_answers_in_key_order_and_says_whether_there_is_more(machine: Machine) -> None:
    machine.txn(c.put(b"b"), c.put(b"a"), c.put(b"\xff"), c.put(b"a\0"))
    records, more = machine.results(c.read_range(b"", b"", 3))[0]
    assert ([record[0] for record in records], more) == ([b"a", b"a\0", b"b"], True)
    records, more = machine.results(c.read_range(b"", b"", 4))[0]
    assert ([record[0] for record in records], more) == ([b"a", b"a\0", b"b", b"\xff"], False)
    assert machine.results(c.read_range(b"a\0", b"b")) == [[[[b"a\0", b"", 1, 1, 1, 0, 0]], False]]
    assert machine.results(c.read_range(b"b", b"a")) == [[[], False]]


# --- order within one entry -------------------------------------------------------------------------------------------
def test_operations_see_the_writes_before_them(machine: Machine) -> None:
    machine.txn(c.put(b"a", b"old"), c.put(b"c"))
    results = machine.results(
        c.put(b"a", b"new"), c.get(b"a"), c.delete(b"c"), c.get(b"c"), c.put(b"b"), c.read_range(b"", b"")
    )
    assert results[1] == [b"a", b"new", 1, 2, 2, 0, 0]
    assert results[3] is None
    assert [record[0] for record in results[5][0]] == [b"a", b"b"]


def test_key_written_twice_changes_once_and_the_last_write_wins(machine: Machine) -> None:
    answer = machine.txn(c.put(b"k", b"1"), c.put(b"k", b"2"), c.put(b"j"), c.put(b"k", b"3"))
    assert (answer.changed, answer.revision) == (2, 1)
    assert machine.handle.get(b"k")[1] == (b"k", b"3", 1, 1, 1, 0, 0)
    assert [after[0] for after, _ in machine.handle.changes(2)] == [b"k", b"j"]


def test_key_deleted_and_written_again_in_one_entry_is_a_new_key(machine: Machine) -> None:
    machine.txn(c.put(b"lock", b"first"))
    machine.txn(c.delete(b"lock"), c.create(b"lock", b"second"))
    assert machine.handle.get(b"lock")[1] == (b"lock", b"second", 2, 2, 1, 0, 0)
    assert machine.txn(c.put(b"x"), fence=(b"lock", 1)).status == c.FENCED


def test_key_made_and_deleted_in_one_entry_is_no_change(machine: Machine) -> None:
    answer = machine.txn(c.put(b"k"), c.delete(b"k"))
    assert (answer.status, answer.changed, answer.revision) == (c.OK, 0, 0)


def test_range_delete_takes_what_the_entry_wrote_before(machine: Machine) -> None:
    machine.txn(c.put(b"a"), c.put(b"c"))
    assert machine.results(c.put(b"b"), c.delete_range(b"a", b"c"), c.read_range(b"", b""))[1:] == [
        2,
        [[[b"c", b"", 1, 1, 1, 0, 0]], False],
    ]
    assert machine.results(c.delete_range(b"", b"", flags=c.WANT_PREVIOUS)) == [[1, [[b"c", b"", 1, 1, 1, 0, 0]]]]


# --- compares ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("target", "operand"),
    [(c.VERSION, 2), (c.CREATE_REVISION, 1), (c.MOD_REVISION, 2), (c.LEASE, 0), (c.VALUE, b"m")],
)
def test_compares_choose_the_branch(machine: Machine, target: int, operand: int | bytes) -> None:
    machine.txn(c.put(b"k", b"l"))
    machine.txn(c.put(b"k", b"m"))
    above = b"n" if isinstance(operand, bytes) else operand + 1
    for result, against, holds in [
        (c.EQUAL, operand, True),
        (c.EQUAL, above, False),
        (c.NOT_EQUAL, operand, False),
        (c.NOT_EQUAL, above, True),
        (c.LESS, above, True),
        (c.LESS, operand, False),
        (c.GREATER, operand, False),
    ]:
        answer = machine.txn(c.get(b"then"), compares=[[target, result, b"k", against]], otherwise=[])
        assert answer.body == ([True, [None]] if holds else [False, []])


def test_compares_of_a_missing_key(machine: Machine) -> None:
    """Numbers are 0; of a value nothing can be said, as in etcd."""
    for target in (c.VERSION, c.CREATE_REVISION, c.MOD_REVISION, c.LEASE):
        assert machine.txn(compares=[[target, c.EQUAL, b"none", 0]]).body[0] is True
    for result in (c.EQUAL, c.NOT_EQUAL, c.LESS, c.GREATER):
        assert machine.txn(compares=[[c.VALUE, result, b"none", b""]]).body[0] is False


def test_range_can_be_asked_to_be_empty(machine: Machine) -> None:
    empty = [c.RANGE_EMPTY, c.EQUAL, b"a", b"b"]
    taken = [c.RANGE_EMPTY, c.NOT_EQUAL, b"a", b"b"]
    machine.txn(c.put(b"b"), c.put(b"a1"))
    assert machine.txn(compares=[taken]).body[0] is True
    machine.txn(c.delete(b"a1"))
    assert machine.txn(compares=[empty]).body[0] is True
    assert machine.txn(compares=[taken]).body[0] is False


def test_nested_transactions_see_the_writes_before_them(machine: Machine) -> None:
    inner = c.nested(c.put(b"inner"), compares=[[c.VALUE, c.EQUAL, b"k", b"new"]], otherwise=[c.put(b"wrong")])
    assert machine.results(c.put(b"k", b"new"), c.nested(inner, c.get(b"inner"))) == [
        None,
        [True, [[True, [None]], [b"inner", b"", 1, 1, 1, 0, 0]]],
    ]
    assert machine.keys() == [b"inner", b"k"]


def test_controller_epoch_is_taken_by_one_only(machine: Machine) -> None:
    """Kafka's registerControllerAndIncrementControllerEpoch: multi(create, setData at an expected version)."""
    machine.txn(c.create(b"/controller_epoch", b"1"))
    taking = [c.create(b"/controller", b"a"), c.update(b"/controller_epoch", b"2", expected=1)]
    assert machine.txn(*taking).status == c.OK
    assert machine.txn(*taking).status == c.KEY_EXISTS
    machine.txn(c.delete(b"/controller"))
    assert machine.txn(*taking).status == c.COMPARE_FAILED
    assert machine.value(b"/controller") is None


# --- counters and sequence keys ---------------------------------------------------------------------------------------
def test_counter_begins_at_zero_and_adds(machine: Machine) -> None:
    assert machine.results(c.add(b"n", 5), c.add(b"n", -7)) == [5, -2]
    assert machine.handle.get(b"n")[1] == (b"n", (-2).to_bytes(8, "big", signed=True), 1, 1, 1, 0, c.COUNTER)


def test_counter_is_refused_at_its_ends(machine: Machine) -> None:
    """64 bits, and no silent ceiling."""
    machine.txn(c.add(b"n", (1 << 63) - 1))
    assert machine.txn(c.add(b"n", 1)).status == c.NUMBER_OVERFLOW
    assert machine.results(c.add(b"n", 0)) == [(1 << 63) - 1]
    assert machine.txn(c.add(b"m", -(1 << 63))).status == c.OK
    assert machine.txn(c.add(b"m", -1)).status == c.NUMBER_OVERFLOW


def test_only_counters_are_numbers(machine: Machine) -> None:
    machine.txn(c.put(b"k", bytes(8)))
    assert machine.txn(c.add(b"k", 1)).status == c.NOT_A_NUMBER
    machine.txn(c.add(b"n", 1))
    machine.txn(c.put(b"n", bytes(8)))
    assert machine.txn(c.add(b"n", 1)).status == c.NOT_A_NUMBER


def test_sequence_keys_are_built_from_a_counter(machine: Machine) -> None:
    """Sequential keys of 64 bits: one entry counts and creates."""
    for expected in (1, 2):
        machine.results(
            c.add(b"last", 1), c.create(b"queue/", b"v", flags=c.KEY_FROM_RESULT, result_from=0), c.add(b"last", 0)
        )
        assert machine.value(b"queue/%020d" % expected) == b"v"
    assert machine.keys() == [b"last", b"queue/%020d" % 1, b"queue/%020d" % 2]


def test_sequence_key_of_a_negative_number_is_refused(machine: Machine) -> None:
    answer = machine.txn(c.add(b"n", -1), c.put(b"q", flags=c.KEY_FROM_RESULT))
    assert (answer.status, answer.body) == (c.NUMBER_OVERFLOW, 1)
    assert machine.keys() == []


def test_sequence_keys_name_additions_of_their_own_list(machine: Machine) -> None:
    machine.txn(c.add(b"n", 40))
    machine.results(
        c.add(b"n", 1), c.nested(c.get(b"x"), c.add(b"n", 1), c.put(b"q", flags=c.KEY_FROM_RESULT, result_from=1))
    )
    assert machine.keys() == [b"n", b"q%020d" % 42]


# --- limits -----------------------------------------------------------------------------------------------------------
def test_value_over_its_limit_is_refused() -> None:
    machine = Machine(value_bytes_max=8)
    assert machine.txn(c.put(b"k", b"12345678")).status == c.OK
    assert machine.txn(c.put(b"k", b"123456789")).status == c.VALUE_TOO_LARGE
    assert machine.txn(c.update(b"k", b"123456789")).status == c.VALUE_TOO_LARGE


@pytest.mark.parametrize("key", [b"", b"k" * 481])
def test_key_out_of_bounds_is_refused(machine: Machine, key: bytes) -> None:
    assert machine.txn(c.put(key)).status == c.KEY_INVALID
    assert machine.txn(c.put(b"k" * 480)).status == c.OK


def filled(count: int) -> Machine:
    machine = Machine()
    for start in range(0, count, 5000):
        machine.txn(*(c.put(b"%08d" % i) for i in range(start, min(start + 5000, count))))
    return machine


def test_range_delete_of_too_many_keys_is_refused() -> None:
    machine = filled(c.CHANGES_MAX + 1)
    assert machine.txn(c.delete_range(b"", b"")).status == c.TOO_MANY_CHANGES
    assert machine.txn(c.read_range(b"", b"")).status == c.TOO_MANY_CHANGES
    assert machine.txn(c.put(b"new"), c.delete_range(b"", b"%08d" % c.CHANGES_MAX)).status == c.TOO_MANY_CHANGES
    assert machine.handle.status().keys == c.CHANGES_MAX + 1
    answer = machine.txn(c.delete_range(b"", b"%08d" % c.CHANGES_MAX))
    assert (answer.status, answer.changed) == (c.OK, c.CHANGES_MAX)
    assert machine.handle.status().keys == 1


def test_limited_range_of_a_large_one_is_answered() -> None:
    """What lies beyond the limit is not looked at: only an answer without a limit must be whole."""
    records, more = filled(c.CHANGES_MAX + 10).results(c.read_range(b"", b"", 5))[0]
    assert (len(records), more) == (5, True)


def test_result_over_its_limit_is_refused() -> None:
    """A result is replicated with its session: it cannot be any size."""
    machine = Machine()
    for i in range(17):
        machine.txn(c.put(b"%d" % i, bytes(1 << 20)))
    assert machine.txn(c.read_range(b"", b"")).status == c.VALUE_TOO_LARGE
    assert machine.txn(*(c.get(b"%d" % i) for i in range(17))).status == c.VALUE_TOO_LARGE
    assert machine.txn(c.read_range(b"", b"", 3)).status == c.OK
