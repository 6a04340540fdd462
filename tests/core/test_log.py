"""raft/log against a plain list: records, pointers, conflicts, memory, damage; and the vectors of docs/formats.md."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.faces.core import make_records, read_records
from tests.faces.raft_parts import LogHandle, check_records

HEAD = 64


def split(records: bytes) -> list[bytes]:
    """The single records in these bytes."""
    parts = []
    while records:
        size = (HEAD + struct.unpack_from("<I", records, 4)[0] + 7) // 8 * 8
        parts.append(records[:size])
        records = records[size:]
    return parts


def chain_of(record: bytes) -> int:
    return int(struct.unpack_from("<Q", record, 24)[0])


def filled(terms: list[int], *, chunk_bytes: int = 256) -> LogHandle:
    log = LogHandle(chunk_bytes)
    for term in terms:
        assert log.append(term, b"x" * term) == "OK"
    return log


def test_record_has_the_bytes_of_the_formats_page() -> None:
    """docs/formats.md "Record", test vectors."""
    first, second = split(make_records([(1, b""), (3, b"raftmeta")], lease_ms=7))
    assert first.hex() == (
        "a87d9a3e000000000100000000000000010000000000000054846f369db31f94"
        "0000000000000000070000000000000000000000000000000000000002010000"
    )
    assert second.hex() == (
        "e0802a58080000000200000000000000030000000000000034cde9d6d90dc3ac"
        "0000000000000000070000000000000000000000000000000000000002010000726166746d657461"
    )


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 255])
def test_record_is_padded_with_zeros_to_eight_bytes(length: int) -> None:
    record = make_records([(1, b"\xff" * length)])
    assert len(record) % 8 == 0
    assert set(record[HEAD + length :]) <= {0}
    assert read_records(record)[0].payload == b"\xff" * length


def test_every_flipped_bit_of_a_record_is_detected() -> None:
    """Only the padding, which nobody reads, is not covered."""
    record = make_records([(2, b"payload!")])
    for bit in range(len(record) * 8):
        damaged = bytearray(record)
        damaged[bit // 8] ^= 1 << bit % 8
        assert check_records(bytes(damaged), 1, chain=0) != "OK", bit


def test_every_prefix_of_records_is_refused() -> None:
    records = make_records([(1, b"abc"), (1, b"defg")])
    for length in range(len(records)):
        assert check_records(records[:length], 2, chain=0) != "OK"
    assert check_records(records, 1, chain=0) == "BAD_LENGTH"
    assert check_records(records, 2, chain=0) == "OK"


def test_records_of_another_history_are_refused_by_their_chain() -> None:
    """Sound records, right place, right terms: only the past differs (reliability: log matching in O(1))."""
    ours = make_records([(1, b"a"), (1, b"b")])
    theirs = make_records([(1, b"A"), (1, b"b")])
    last_chain = chain_of(split(ours)[0])
    assert check_records(split(ours)[1], 1, index=1, term=1, chain=last_chain) == "OK"
    assert check_records(split(theirs)[1], 1, index=1, term=1, chain=last_chain) == "CORRUPT"


@pytest.mark.parametrize(
    ("index", "term", "term_max"),
    [(1, 0, 9), (0, 3, 9), (0, 0, 1)],
    ids=["gap in the indexes", "term falls", "term above the leader's"],
)
def test_records_out_of_order_are_refused(index: int, term: int, term_max: int) -> None:
    assert check_records(make_records([(2, b"")]), 1, index=index, term=term, term_max=term_max) == "BAD_FIELD"


def test_chain_covers_term_type_payload_and_both_clocks() -> None:
    base = chain_of(make_records([(1, b"p")]))
    assert base != chain_of(make_records([(2, b"p")]))
    assert base != chain_of(make_records([(1, b"q")]))
    assert base != chain_of(make_records([(1, b"p")], type="NOOP"))
    assert base != chain_of(make_records([(1, b"p")], lease_ms=1))
    assert base != chain_of(make_records([(1, b"p")], chain=1))
    assert base == chain_of(make_records([(1, b"p")]))


def test_find_conflict_skips_whole_terms() -> None:
    """Paper 5.3: one step per term. The log has terms 1 1 2 2 5 5."""
    log = filled([1, 1, 2, 2, 5, 5])
    assert log.find_conflict(6, 5) == 6
    assert log.find_conflict(6, 4) == 4
    assert log.find_conflict(3, 4) == 3
    assert log.find_conflict(6, 1) == 2
    assert log.find_conflict(99, 7) == 6
    assert log.find_conflict(6, 0) == 0


@pytest.mark.parametrize(
    ("index", "term", "is_up_to_date"),
    [(3, 3, True), (2, 3, False), (1, 4, True), (9, 2, False), (4, 3, True)],
)
def test_later_last_term_wins_then_the_longer_log(index: int, term: int, is_up_to_date: bool) -> None:
    """Paper 5.4.1; this log ends with (3, 3)."""
    assert filled([1, 2, 3]).is_up_to_date(index, term) is is_up_to_date


def test_bytes_that_were_shown_never_change() -> None:
    """A socket still reads entries 1..3 while 2 and 3 are replaced."""
    log = filled([1, 1, 1])
    shown = log.show(1, 3)
    assert log.truncate(2) == "OK"
    for _ in range(20):
        log.append(2, b"other bytes")
    assert log.reread() == [shown]
    assert [entry.term for entry in read_records(log.record(2) or b"")] == [2]


def test_slice_is_contiguous_and_within_its_limit_but_never_empty() -> None:
    log = filled([1] * 6, chunk_bytes=65536)
    size = len(log.record(1) or b"")
    assert log.slice(1, 6, 3 * size) == (3, b"".join(log.record(i) or b"" for i in (1, 2, 3)))
    assert log.slice(2, 6, 3 * size - 1)[0] == 3
    assert log.slice(4, 6, 1) == (4, log.record(4))
    assert log.slice(4, 5, 10_000)[0] == 5
    assert log.slice(7, 7, 10_000) == (0, b"")


def test_released_entries_keep_their_terms_and_the_last_chain() -> None:
    """What left memory can still be a previous entry of an APPEND."""
    log = filled([1, 1, 2, 2, 3, 3, 3, 3])
    chain = log.chain(4)
    log.set_pointers(committed=8, staged=8, persisted=8, applied=8)
    log.release_memory(8, 200)
    pointers = log.pointers()
    assert 0 < pointers.offset < 8
    assert log.memory_bytes() <= 200
    assert log.record(pointers.offset) is None
    assert [log.term(i) for i in range(1, 9)] == [1, 1, 2, 2, 3, 3, 3, 3]
    assert pointers.offset != 4 or log.chain(4) == chain
    assert log.check() == 0


def test_chunks_out_of_use_serve_the_next_records_and_leave_when_none_come() -> None:
    """Fresh memory for each chunk would cost more than its records; memory of a log at rest goes back."""
    log = filled([1] * 12)
    log.set_pointers(committed=12, staged=12, persisted=12, applied=12)
    log.release_memory(12, 0)
    kept = log.spares()
    assert kept > 1
    for _ in range(99):  # records come now and then
        log.tick()
    for _ in range(3):  # of four in a chunk
        assert log.append(2, b"yy") == "OK"
    assert log.spares() == kept - 1
    assert [log.record(i) for i in range(13, 16)] == split(b"".join(log.record(i) or b"" for i in range(13, 16)))
    assert log.check() == 0
    for _ in range(100):
        log.tick()
        assert log.spares() == kept - 1
    for left in range(kept - 2, -1, -1):
        log.tick()
        assert log.spares() == left
    log.tick()
    assert log.spares() == 0


def test_compacted_entries_are_unknown_but_the_last_one() -> None:
    log = filled([1, 2, 3, 4])
    log.set_pointers(committed=4, staged=4, persisted=4, applied=4, snapshotted=3)
    log.compact(3)
    assert [log.term(i) for i in (1, 2, 3, 4)] == [0, 0, 3, 4]
    assert log.record(3) is None
    assert log.find_conflict(4, 1) == 3
    assert log.check() == 0


def test_damaged_record_is_mended_only_by_its_own_bytes() -> None:
    """Fetched by (index, expected chain hash)."""
    records = split(make_records([(1, b"one"), (1, b"two"), (2, b"three")]))
    other = split(make_records([(1, b"one"), (1, b"TWO")]))[1]
    log = LogHandle(256)
    assert log.append_records(records[0], 1, is_shared=True) == "OK"
    assert log.append_damaged(2, chain_of(records[1])) == "OK"
    assert log.append_records(records[2], 1) == "OK"
    assert (log.first_damaged(), log.term(2), log.check()) == (2, 0, 0)
    assert log.find_conflict(2, 9) == 1
    assert log.repair(other) == "STALE"
    assert log.repair(records[0]) == "STALE"
    assert log.repair(records[1]) == "OK"
    assert (log.first_damaged(), log.term(2), log.check()) == (None, 1, 0)
    assert b"".join(log.slices(1, 3)) == b"".join(records)
    assert log.bytes_between(0, 3) == sum(map(len, records))
    assert log.repair(records[1]) == "STALE"


def test_damaged_place_is_refused_out_of_order_or_without_a_chain() -> None:
    log = filled([1])
    assert log.append_damaged(3, 5) == "BAD_FIELD"
    assert log.append_damaged(2, 0) == "BAD_FIELD"


def test_truncation_takes_damage_with_it() -> None:
    log = filled([1])
    assert log.append_damaged(2, 77) == "OK"
    assert log.truncate(2) == "OK"
    assert log.first_damaged() is None
    assert log.append(2, b"new") == "OK"
    assert log.check() == 0


class LogComparison(RuleBasedStateMachine):
    """The log against a list of records; chunks are small, so that runs and arenas change all the time."""

    @initialize(chunk_bytes=st.sampled_from([64, 200, 1000]))
    def start(self, chunk_bytes: int) -> None:
        self.log = LogHandle(chunk_bytes)
        self.records: list[bytes] = []
        self.term = 1
        self.compacted = self.released = self.applied = 0
        self.shown: list[bytes] = []

    @property
    def last(self) -> int:
        return len(self.records)

    @rule(payload=st.binary(max_size=150), step=st.integers(0, 2))
    def append(self, payload: bytes, step: int) -> None:
        self.term += step
        chain = chain_of(self.records[-1]) if self.records else 0
        assert self.log.append(self.term, payload) == "OK"
        self.records.append(make_records([(self.term, payload)], index=self.last, chain=chain))

    @rule(payloads=st.lists(st.binary(max_size=100), min_size=1, max_size=6), is_shared=st.booleans())
    def append_records(self, payloads: list[bytes], is_shared: bool) -> None:
        chain = chain_of(self.records[-1]) if self.records else 0
        records = make_records([(self.term, p) for p in payloads], index=self.last, chain=chain)
        previous = struct.unpack_from("<Q", self.records[-1], 16)[0] if self.records else 0
        assert check_records(records, len(payloads), index=self.last, term=previous, chain=chain) == "OK"
        assert self.log.append_records(records, len(payloads), is_shared=is_shared) == "OK"
        self.records += split(records)

    @precondition(lambda self: self.last > self.applied)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        first = data.draw(st.integers(self.applied + 1, self.last))
        assert self.log.truncate(first) == "OK"
        del self.records[first - 1 :]
        self.term += 1

    @rule(data=st.data())
    def apply_and_release(self, data: st.DataObject) -> None:
        self.applied = data.draw(st.integers(self.applied, self.last))
        index = self.applied
        self.log.set_pointers(committed=index, staged=self.last, persisted=self.last, applied=index)
        self.log.release_memory(index, data.draw(st.integers(0, 400)))

    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        self.compacted = data.draw(st.integers(self.compacted, self.applied))
        self.log.set_pointers(snapshotted=self.applied)
        self.log.compact(self.compacted)

    @precondition(lambda self: self.log.pointers().offset < self.last)
    @rule(data=st.data())
    def show(self, data: st.DataObject) -> None:
        first = data.draw(st.integers(self.log.pointers().offset + 1, self.last))
        self.shown.append(self.log.show(first, self.last))

    @invariant()
    def is_the_same(self) -> None:
        assert self.log.check() == 0
        pointers = self.log.pointers()
        assert pointers.last == self.last
        assert self.log.reread() == self.shown
        in_memory = self.records[pointers.offset :]
        if in_memory:
            assert b"".join(self.log.slices(pointers.offset + 1, self.last)) == b"".join(in_memory)
        assert self.log.memory_bytes() == sum(map(len, in_memory))
        for index in range(self.compacted + 1, self.last + 1):
            assert self.log.term(index) == struct.unpack_from("<Q", self.records[index - 1], 16)[0]


LogComparison.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestLogComparison = LogComparison.TestCase


@given(
    terms=st.lists(st.integers(0, 2), max_size=20),
    index=st.integers(0, 25),
    term=st.integers(0, 25),
)
@settings(max_examples=200, deadline=None)
def test_find_conflict_agrees_with_a_walk_backwards(terms: list[int], index: int, term: int) -> None:
    rising = [1 + sum(terms[: i + 1]) for i in range(len(terms))]
    expected = min(index, len(rising))
    while expected > 0 and rising[expected - 1] > term:
        expected -= 1
    assert filled(rising).find_conflict(index, term) == expected
