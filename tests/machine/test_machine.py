"""Apply as a total function: entries, nonsense, feature levels, slices, publishing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftmeta.common.invariants import NAMES
from raftmeta.storage.skipped_file import ENTRIES_MAX
from tests.faces.machine import ApplyFatal, MachineHandle
from tests.machine import commands as c
from tests.machine.machines import Machine

NO_MEMORY = 96


def number_of(belief: str) -> int:
    return next(number for number, name in NAMES.items() if name == belief)


def test_revision_counts_entries_that_changed_keys() -> None:
    machine = Machine()
    assert machine.txn(c.put(b"a"), c.put(b"b")).revision == 1
    assert machine.txn(c.get(b"a")).revision == 1
    assert machine.txn(c.delete(b"none")).revision == 1
    assert machine.txn(c.delete(b"a")).revision == 2
    assert machine.handle.status().applied == 4


@pytest.mark.parametrize("entry_type", [c.NOOP, c.MEMBERSHIP])
def test_entries_of_the_protocol_advance_applied_and_the_lease_clock_only(entry_type: int) -> None:
    machine = MachineHandle()
    before = machine.status()
    machine.apply(b"\x01\x02", entry_type=entry_type, lease_ms=70)
    after = machine.status()
    assert after._replace(applied=0, lease_ms=0, state_hash=before.state_hash) == before
    assert (after.applied, after.lease_ms) == (1, 70)


def test_lease_clock_never_goes_back() -> None:
    machine = MachineHandle()
    machine.apply(b"", entry_type=c.NOOP, lease_ms=70)
    machine.apply(b"", entry_type=c.NOOP, lease_ms=60)
    assert machine.status().lease_ms == 70


@pytest.mark.parametrize("entry_type", [0, 4, 255])
def test_unknown_entry_type_is_fatal(entry_type: int) -> None:
    """An unknown entry at apply is Fatal, never a guess."""
    machine = MachineHandle()
    with pytest.raises(ApplyFatal) as fatal:
        machine.apply(b"", entry_type=entry_type)
    assert fatal.value.args == (c.UNKNOWN_ENTRY,)


def test_unknown_kind_of_command_is_fatal() -> None:
    machine = MachineHandle()
    with pytest.raises(ApplyFatal) as fatal:
        machine.apply(c.command(100, b"from a later version"))
    assert fatal.value.args == (c.UNKNOWN_ENTRY,)
    assert machine.status().applied == 0


def test_feature_level_above_this_build_is_fatal() -> None:
    machine = MachineHandle()
    assert machine.apply(c.command(c.LEVEL, 1)).status == c.OK
    assert machine.apply(c.command(c.LEVEL, 0)).status == c.COMMAND_INVALID
    with pytest.raises(ApplyFatal) as fatal:
        machine.apply(c.command(c.LEVEL, 7))
    assert fatal.value.args == (c.UNKNOWN_ENTRY,)


@pytest.mark.parametrize("payload", [c.command(100, b"from a later version"), c.command(c.LEVEL, 7), b"\xc1"])
def test_a_skipped_entry_is_a_no_op_whatever_it_says(payload: bytes) -> None:
    """docs/decisions/skip.md: it moves the clock and `applied`; those before and behind it are applied as always."""
    machine, other = MachineHandle(), MachineHandle()
    machine.skip([(2, 0)])
    for one in (machine, other):
        one.apply(c.keys(c.put(b"k", b"1")))
    machine.apply(payload, lease_ms=70)
    other.apply(b"", entry_type=c.NOOP, lease_ms=70)
    for one in (machine, other):
        one.apply(c.keys(c.put(b"k", b"2")))
        one.publish()
    assert machine.status() == other.status()
    assert machine.status().applied == 3 and machine.status().lease_ms == 70


def test_only_the_entry_of_that_index_and_hash_is_skipped() -> None:
    """Records of this test have the chain hash 0."""
    for entries in ([(1, 7)], [(2, 0)], [(1, 1), (3, 0)]):
        machine = MachineHandle()
        machine.skip(entries)
        with pytest.raises(ApplyFatal):
            machine.apply(c.command(100, b"from a later version"))


def test_no_more_entries_are_skipped_than_there_is_room_for() -> None:
    machine = MachineHandle()
    machine.skip([(number, 0) for number in range(1, ENTRIES_MAX + 1)])
    with pytest.raises(OverflowError):
        machine.skip([(ENTRIES_MAX + 1, 0)])
    for _ in range(ENTRIES_MAX):
        machine.apply(c.command(100, b"from a later version"))
    with pytest.raises(ApplyFatal):
        machine.apply(c.command(100, b"from a later version"))


def test_user_command_is_refused_below_level_two() -> None:
    assert Machine().apply(c.command(c.USER, b"machine", b"data")).status == c.COMMAND_INVALID


@pytest.mark.parametrize("index", [0, 1, 3])
def test_entry_out_of_order_is_fatal(index: int) -> None:
    """Applied moves by one."""
    machine = MachineHandle()
    machine.apply(b"", entry_type=c.NOOP)
    with pytest.raises(ApplyFatal) as fatal:
        machine.apply(b"", entry_type=c.NOOP, index=index)
    assert fatal.value.args == (c.INVARIANT_BROKEN,)
    assert machine.broken == (number_of("BROKEN_APPLY_ORDER"), index, 2)


@given(st.lists(st.one_of(st.binary(max_size=200), st.binary(max_size=60).map(lambda b: c.keys(c.put(b"k"))[:-3] + b))))
def test_nonsense_is_answered_and_changes_nothing_but_applied(payloads: list[bytes]) -> None:
    """One bad command must not stop the cluster; the answer is a result."""
    machine = MachineHandle()
    machine.apply(c.keys(c.put(b"key", b"value")))
    before = machine.status()
    for payload in payloads:
        applied = machine.apply(payload)
        if applied.status in (c.COMMAND_INVALID, c.KEY_INVALID):
            assert applied.changed == 0 and c.unpack(applied.body)[0] == applied.status
            assert machine.status() == before._replace(applied=machine.status().applied)
        else:
            before = machine.status()


@given(st.data())
def test_every_prefix_and_flipped_bit_of_a_command_is_answered(data: st.DataObject) -> None:
    payload = c.keys(
        c.add(b"n", 3),
        c.put(b"k", b"v", flags=c.KEY_FROM_RESULT),
        c.nested(c.delete_range(b"", b"")),
        compares=[[c.VALUE, c.EQUAL, b"k", b"v"]],
        otherwise=[c.read_range(b"a", b"z", 4)],
        fence=(b"f", 3),
    )
    machine = MachineHandle()
    for length in range(len(payload)):
        assert machine.apply(payload[:length]).status == c.COMMAND_INVALID
    bit = data.draw(st.integers(0, 8 * len(payload) - 1))
    flipped = bytearray(payload)
    flipped[bit // 8] ^= 1 << bit % 8
    try:
        assert machine.apply(bytes(flipped)).status < 32
    except ApplyFatal as fatal:
        assert fatal.args == (c.UNKNOWN_ENTRY,) and flipped[1] > c.USER


def test_failed_command_leaves_no_partial_effect() -> None:
    machine = Machine()
    machine.txn(c.put(b"taken", b"old"))
    before = machine.handle.status()
    refused = machine.txn(c.put(b"a"), c.add(b"n", 1), c.delete(b"taken"), c.nested(c.create(b"b"), c.update(b"none")))
    assert refused[:2] == (c.KEY_MISSING, 1)
    assert machine.handle.status()._replace(applied=before.applied) == before
    assert machine.keys() == [b"taken"]


def test_refusal_names_the_operation() -> None:
    machine = Machine()
    machine.txn(c.put(b"taken"))
    assert machine.txn(c.get(b"a"), c.create(b"taken")).body == 1
    assert machine.txn(c.put(b"b"), fence=(b"none", 1)).body is None


@pytest.mark.parametrize("tree_bytes_max", range(4096, 200_000, 7919))
def test_memory_that_is_out_is_fatal_and_leaves_nothing_behind(tree_bytes_max: int) -> None:
    """Growth that fails stops the node as Fatal; what is left can be closed, and read until then."""
    try:
        machine = MachineHandle(tree_bytes_max=tree_bytes_max, fanout=4)
    except MemoryError:
        return
    with pytest.raises(ApplyFatal) as fatal:
        for i in range(3000):
            machine.apply(c.keys(*(c.put(b"%d" % (7 * i + j), bytes(50)) for j in range(5))))
    assert fatal.value.args == (NO_MEMORY,)
    status = machine.status()
    assert machine.range_shared()[4] <= status.revision
    assert status.applied == status.revision


# --- slices -----------------------------------------------------------------------------------------------------------
def test_large_entry_is_applied_in_slices_and_shows_only_when_done() -> None:
    machine = MachineHandle(changes_per_slice=10)
    machine.apply(c.keys(c.put(b"key-00", b"old")))
    machine.publish()
    machine.begin(c.keys(*(c.put(b"key-%02d" % i, b"new") for i in range(50))))
    before = machine.status()
    slices = 0
    while (applied := machine.slice()) is None:
        slices += 1
        assert machine.publish() == c.OK
        assert machine.get(b"key-00")[1] == (b"key-00", b"old", 1, 1, 1, 0, 0)
        assert machine.get(b"key-01") == (c.NOT_FOUND, None)
        assert machine.range_shared()[2] == 1
        assert machine.history(2)[0] == c.FUTURE_REVISION
        assert (machine.status().applied, machine.status().revision) == (before.applied, before.revision)
        with pytest.raises(ValueError, match="33"):  # NOT_READY
            machine.dump()
    assert slices >= 8  # five slices to evaluate, five to make
    assert (applied.changed, applied.revision) == (50, 2)
    machine.publish()
    assert machine.range_shared()[2] == 50


def test_slices_know_whose_answer_they_are() -> None:
    machine = MachineHandle(changes_per_slice=1)
    machine.apply(c.open_session(5))
    applied = machine.apply(c.keys(*(c.put(b"%d" % i) for i in range(5)), session=5, sequence=3, lowest=3))
    assert (applied.session, applied.sequence, applied.entry_index) == (5, 3, 2)
    assert applied.slices > 5


def test_slicing_does_not_change_the_state() -> None:
    """The same entries, the same state, however they are cut."""
    hashes = set()
    for changes_per_slice in (1, 7, 10_000):
        machine = MachineHandle(changes_per_slice=changes_per_slice)
        machine.apply(c.grant(1, 100))
        machine.apply(c.keys(*(c.put(b"%d" % i, b"v", lease=i % 2) for i in range(40))))
        machine.apply(c.keys(c.delete_range(b"1", b"3"), c.add(b"n", 4)))
        machine.apply(c.revoke(1))
        hashes.add(machine.status().state_hash)
    assert len(hashes) == 1


# --- published state --------------------------------------------------------------------------------------------------
def test_other_threads_see_published_state_only() -> None:
    machine = MachineHandle()
    machine.apply(c.keys(c.put(b"a", b"1")))
    assert machine.get_shared(b"a") == (c.NOT_FOUND, b"", 0)
    machine.publish()
    machine.apply(c.keys(c.put(b"a", b"2")))
    status, body, seen = machine.get_shared(b"a")
    assert (status, c.unpack(body)[1], seen) == (c.OK, b"1", 1)
    assert machine.get(b"a")[1] == (b"a", b"2", 1, 2, 2, 0, 0)
    assert machine.get_shared(b"a", 2)[0] == c.FUTURE_REVISION


def test_range_is_cut_by_limit_and_bytes_and_goes_on_after_the_last_key() -> None:
    machine = MachineHandle()
    machine.apply(c.keys(*(c.put(b"k%d" % i, b"x" * 20) for i in range(9))))
    machine.publish()
    status, whole, count, more, seen = machine.range_shared(b"k")
    assert (status, count, more, seen) == (c.OK, 9, False, 1)
    for limits in ({"limit": 2}, {"bytes_max": 50}, {"bytes_max": 1}):
        pieces, start = [], b"k"
        while True:
            _, piece, count, more, _ = machine.range_shared(start, b"l", revision=1, **limits)
            pieces.append(piece)
            assert 1 <= count <= 2
            if not more:
                break
            start = b"k%d" % (sum(part.count(b"\xc4\x02k") for part in pieces) - 1) + b"\0"
        assert b"".join(pieces) == whole


def test_range_of_keys_only_and_count_only() -> None:
    machine = MachineHandle()
    machine.apply(c.keys(c.put(b"a", b"1"), c.put(b"b", b"2"), c.put(b"c", b"3")))
    machine.apply(c.keys(c.delete(b"b")))
    machine.publish()
    assert c.unpack(machine.range_shared(b"b", keys_only=True)[1]) == [b"c", b"", 1, 1, 1, 0, 0]
    assert machine.range_shared(count_only=True)[1:4] == (b"", 2, False)
    assert machine.range_shared(b"b", b"c", count_only=True)[2] == 0
    assert machine.range_shared(count_only=True, revision=1)[2] == 3
    assert machine.range_shared(b"b", b"b")[1:3] == (b"", 0)
