"""Record logs in the machine: each row of docs/kafka-records.md is a case."""

from __future__ import annotations

import pytest

from tests.faces import records as face
from tests.kafka import record_logs as r
from tests.kafka.batches import Record, batch
from tests.machine import commands as c
from tests.machine.machines import Machine, loaded


@pytest.fixture
def machine() -> Machine:
    return r.new_machine()


def plain(*values: bytes) -> bytes:
    return batch([Record(None, value) for value in values])


def keyed(**values: bytes | None) -> bytes:
    return batch([Record(key.encode(), value) for key, value in values.items()])


def compacted(machine: Machine, made: bytes, **options: int) -> list[int]:
    return r.answered(machine, r.append(made, policy=r.COMPACT, **options))


# --- offsets ----------------------------------------------------------------------------------------------------------
def test_offsets_are_given_without_a_gap_and_once(machine: Machine) -> None:
    assert r.answered(machine, r.append(plain(b"a", b"b"))) == [0, 0, 0]
    assert r.answered(machine, r.append(plain(b"c"))) == [0, 2, 0]
    assert r.answered(machine, r.append(plain(b"d"), log=b"other")) == [0, 0, 0]
    assert r.values(machine) == [(0, None, b"a"), (1, None, b"b"), (2, None, b"c")]
    assert r.answered(machine, r.trim(r.TO_END)) == [0, 3, 3]
    assert r.values(machine) == []
    assert r.answered(machine, r.append(plain(b"e"))) == [0, 3, 3]


def test_a_command_that_is_sent_twice_appends_once(machine: Machine) -> None:
    machine.apply(c.open_session(9))
    sent = r.append(plain(b"a"), session=9, sequence=1)
    assert machine.apply(sent).body == machine.apply(sent).body == [0, 0, 0]
    assert len(r.values(machine)) == 1


def test_an_append_waits_for_the_one_before_it(machine: Machine) -> None:
    """Of one connection: the second was proposed again first."""
    machine.apply(c.open_session(9))
    second = r.append(plain(b"b"), session=9, sequence=2, after=1)
    assert machine.apply(second).status == c.OUT_OF_ORDER
    assert machine.apply(r.append(plain(b"a"), session=9, sequence=1)).body == [0, 0, 0]
    assert machine.apply(second).body == [0, 1, 0]


def test_an_append_is_fenced_by_its_topic(machine: Machine) -> None:
    topic = machine.txn(c.put(b"topic")).revision
    assert machine.apply(r.append(plain(b"a"), fence=(b"topic", topic))).status == c.OK
    machine.txn(c.delete(b"topic"))
    machine.txn(c.put(b"topic"))
    assert machine.apply(r.append(plain(b"a"), fence=(b"topic", topic))).status == c.FENCED
    assert len(r.values(machine)) == 1


# --- producers --------------------------------------------------------------------------------------------------------
def from_producer(sequence: int, count: int = 1, *, epoch: int = 0, producer: int = 5) -> bytes:
    return r.append(batch([Record(None, b"v")] * count, producer=producer, epoch=epoch, sequence=sequence))


def test_a_batch_of_a_producer_is_stored_once(machine: Machine) -> None:
    assert r.answered(machine, from_producer(0, 2)) == [0, 0, 0]
    assert r.answered(machine, from_producer(2, 3)) == [0, 2, 0]
    before = machine.state_hash()
    assert r.answered(machine, from_producer(2, 3)) == [0, 2, 0]
    assert r.answered(machine, from_producer(0, 2)) == [0, 0, 0]
    assert machine.state_hash() == before


def test_a_sequence_that_is_not_the_next_is_refused(machine: Machine) -> None:
    r.answered(machine, from_producer(0, 2))
    before = machine.state_hash()
    for sequence, count in ((3, 1), (1, 1), (0, 1), (0, 3)):
        assert r.answered(machine, from_producer(sequence, count))[0] == r.OUT_OF_ORDER
    assert machine.state_hash() == before
    for place in range(6):
        assert r.answered(machine, from_producer(2 + place))[0] == r.OK
    assert r.answered(machine, from_producer(0, 2))[0] == r.OUT_OF_ORDER  # five batches are remembered
    assert r.answered(machine, from_producer(3)) == [0, 3, 0]


def test_an_old_epoch_is_refused_and_a_new_one_begins_at_zero(machine: Machine) -> None:
    r.answered(machine, from_producer(7, epoch=3))  # unknown here: any sequence
    assert r.answered(machine, from_producer(8, epoch=2))[0] == r.OLD_EPOCH
    assert r.answered(machine, from_producer(8, epoch=4))[0] == r.OUT_OF_ORDER
    assert r.answered(machine, from_producer(0, epoch=4)) == [0, 1, 0]
    assert r.answered(machine, from_producer(8, epoch=3))[0] == r.OLD_EPOCH


def test_sequences_wrap_around(machine: Machine) -> None:
    last = (1 << 31) - 1
    assert r.answered(machine, from_producer(last - 1, 3)) == [0, 0, 0]
    assert r.answered(machine, from_producer(1)) == [0, 3, 0]
    assert r.answered(machine, from_producer(last - 1, 3)) == [0, 0, 0]


def test_the_producer_that_appended_least_recently_is_forgotten(machine: Machine) -> None:
    for producer in range(1_000):
        r.answered(machine, from_producer(0, producer=producer))
    r.answered(machine, from_producer(1, producer=0))
    r.answered(machine, from_producer(0, producer=5_000))
    found = r.shown(machine)
    assert found is not None
    assert len(found.producers) == 1_000
    assert 1 not in found.producers
    assert {0, 2, 5_000} <= found.producers.keys()


# --- compaction -------------------------------------------------------------------------------------------------------
def test_the_last_value_of_a_key_is_kept(machine: Machine) -> None:
    compacted(machine, keyed(a=b"1", b=b"1", c=b"1"))
    compacted(machine, keyed(b=b"2"))
    assert r.values(machine) == [(0, b"a", b"1"), (2, b"c", b"1"), (3, b"b", b"2")]
    compacted(machine, keyed(a=b"3", c=b"3"))
    assert r.values(machine) == [(3, b"b", b"2"), (4, b"a", b"3"), (5, b"c", b"3")]
    found = r.shown(machine)
    assert found is not None
    assert [one.base_offset for one in found.batches] == [3, 4]
    assert found.keys == {r.hash_of(b"b"): (3, False), r.hash_of(b"a"): (4, False), r.hash_of(b"c"): (5, False)}


def test_a_key_twice_in_a_batch_is_kept_once(machine: Machine) -> None:
    made = batch([Record(b"a", b"1"), Record(b"b", b"1"), Record(b"a", b"2")])
    assert compacted(machine, made) == [0, 0, 0]
    assert r.values(machine) == [(1, b"b", b"1"), (2, b"a", b"2")]


def test_a_tombstone_stays_for_its_time(machine: Machine) -> None:
    compacted(machine, keyed(a=b"1", b=b"1"))
    compacted(machine, keyed(a=None))
    assert r.values(machine) == [(1, b"b", b"1"), (2, b"a", None)]
    machine.lease_ms += r.TOMBSTONE_MS - 1
    compacted(machine, keyed(c=b"1"))
    assert (2, b"a", None) in r.values(machine)
    machine.lease_ms += 1
    compacted(machine, keyed(d=b"1"))
    assert r.values(machine) == [(1, b"b", b"1"), (3, b"c", b"1"), (4, b"d", b"1")]
    found = r.shown(machine)
    assert found is not None
    assert not found.tombstones
    assert r.hash_of(b"a") not in found.keys


def test_a_tombstone_that_is_written_over_is_one_no_more(machine: Machine) -> None:
    compacted(machine, keyed(a=None))
    compacted(machine, keyed(a=b"1"))
    machine.lease_ms += 2 * r.TOMBSTONE_MS
    compacted(machine, keyed(b=b"1"))
    assert r.values(machine) == [(1, b"a", b"1"), (2, b"b", b"1")]


def test_a_tombstone_stays_while_an_opaque_batch_may_have_its_key(machine: Machine) -> None:
    compacted(machine, batch([Record(b"a", b"1")], attributes=1, body=b"compressed"))
    compacted(machine, keyed(a=None))
    machine.lease_ms += 2 * r.TOMBSTONE_MS
    compacted(machine, keyed(b=b"1"))
    assert r.values(machine) == [(1, b"a", None), (2, b"b", b"1")]


def test_a_record_without_a_key_is_no_command_for_a_compacted_log(machine: Machine) -> None:
    """The door refuses it with code 87 before it becomes a command."""
    assert machine.apply(r.append(plain(b"a"), policy=r.COMPACT)).status == c.COMMAND_INVALID


def test_a_batch_of_many_records_is_kept_whole(machine: Machine) -> None:
    made = batch([Record(b"%d" % number, b"") for number in range(2_001)])
    compacted(machine, made)
    compacted(machine, keyed(**{"7": b"new"}))
    assert len(r.values(machine)) == 2_002
    found = r.shown(machine)
    assert found is not None
    assert found.keyed == [False, True]


def test_a_large_batch_replaces_another_in_one_entry(machine: Machine) -> None:
    made = batch([Record(b"%d" % number, None) for number in range(2_000)])
    compacted(machine, made)
    answer = machine.apply(r.append(made, policy=r.COMPACT))
    assert answer.body == [0, 2_000, 0]
    assert [offset for offset, *_ in r.values(machine)] == list(range(2_000, 4_000))


# --- limits -----------------------------------------------------------------------------------------------------------
def test_the_oldest_batches_go_by_time(machine: Machine) -> None:
    r.answered(machine, r.append(plain(b"a"), retention_ms=1_000))
    machine.lease_ms += 600
    r.answered(machine, r.append(plain(b"b"), retention_ms=1_000))
    machine.lease_ms += 400
    assert r.answered(machine, r.append(plain(b"c"), retention_ms=1_000)) == [0, 2, 1]
    assert r.values(machine) == [(1, None, b"b"), (2, None, b"c")]


def test_the_oldest_batches_go_by_size_and_by_count(machine: Machine) -> None:
    for _ in range(4):
        r.answered(machine, r.append(plain(bytes(100))))
    size = face.log_view(machine.handle, r.LOG)[2] // 4
    assert r.answered(machine, r.append(plain(bytes(100)), bytes_max=3 * size)) == [0, 4, 2]
    assert r.answered(machine, r.append(plain(b"a", b"b"), records_max=3)) == [0, 5, 4]
    assert [offset for offset, *_ in r.values(machine)] == [4, 5, 6]
    assert r.answered(machine, r.append(plain(bytes(1_000)), bytes_max=1)) == [0, 7, 7]  # the newest always stays


def test_keys_of_batches_that_go_are_forgotten(machine: Machine) -> None:
    both = r.COMPACT | r.DELETE
    r.answered(machine, r.append(keyed(a=b"1", b=None), policy=both))
    r.answered(machine, r.append(keyed(c=b"1"), policy=both, records_max=1))
    found = r.shown(machine)
    assert found is not None
    assert found.keys == {r.hash_of(b"c"): (2, False)}
    assert not found.tombstones


def test_a_compacted_log_has_a_largest_size(machine: Machine) -> None:
    made = [batch([Record(b"%d" % number, bytes(1_000_000))]) for number in range(70)]
    fit = (64 << 20) // len(made[-1])
    assert [compacted(machine, one)[0] for one in made] == [r.OK] * fit + [r.POLICY] * (70 - fit)


def test_a_trim_moves_the_start(machine: Machine) -> None:
    for values in ((b"a", b"b"), (b"c", b"d")):
        r.answered(machine, r.append(plain(*values)))
    assert r.answered(machine, r.trim(5))[0] == r.OUT_OF_RANGE
    assert r.answered(machine, r.trim(3)) == [0, 3, 3]
    assert r.answered(machine, r.trim(1)) == [0, 3, 3]
    assert r.values(machine) == [(3, None, b"d")]
    found = r.shown(machine)
    assert found is not None
    assert [one.base_offset for one in found.batches] == [2]  # the batch that has the start stays whole


def test_a_log_is_dropped(machine: Machine) -> None:
    machine.txn(c.put(r.LOG + b"0", b"no key of the log"))
    r.answered(machine, from_producer(0))
    compacted(machine, keyed(a=None))
    r.answered(machine, r.append(plain(b"x"), log=r.LOG + b"1"))
    assert r.answered(machine, r.drop()) == [0, 0, 0]
    assert r.shown(machine) is None
    assert len(r.values(machine, log=r.LOG + b"1")) == 1
    assert r.answered(machine, r.drop()) == [0, 0, 0]


def test_a_large_log_is_dropped_in_several_entries(machine: Machine) -> None:
    for start in range(0, 10_500, 1_500):
        compacted(machine, batch([Record(b"%d" % number, None) for number in range(start, start + 1_500)]))
    assert r.answered(machine, r.drop()) == [0, 1, 0]
    more = 1
    while more:
        _, more, _ = r.answered(machine, r.drop())
    assert r.shown(machine) is None


# --- reads ------------------------------------------------------------------------------------------------------------
def test_a_fetch_begins_with_the_batch_that_has_the_offset(machine: Machine) -> None:
    for values in ((b"a", b"b"), (b"c",), (b"d", b"e")):
        r.answered(machine, r.append(plain(*values)))
    assert [one.base_offset for one in r.fetched(machine, 1)] == [0, 2, 3]
    assert [one.base_offset for one in r.fetched(machine, 3)] == [3]
    assert r.fetched(machine, 5) == []
    size = len(plain(b"a", b"b"))
    assert [one.base_offset for one in r.fetched(machine, 0, bytes_max=size + 1)] == [0]
    assert [one.base_offset for one in r.fetched(machine, 0, bytes_max=1)] == [0]
    assert r.fetched(machine, 0, bytes_max=1, must_have_one=False) == []


def test_offsets_are_found_by_time(machine: Machine) -> None:
    stamps = ((1_000, 1_500), (3_000,), (2_000, 4_000, 3_500))
    for times in stamps:
        r.answered(machine, r.append(batch([Record(None, b"", stamp) for stamp in times])))
    found = [face.at_time(machine.handle, r.LOG, stamp) for stamp in (0, 1_200, 1_501, 3_001, 4_001)]
    assert found == [(0, 1_000), (1, 1_500), (2, 3_000), (4, 4_000), None]
    assert face.at_time(machine.handle, r.LOG, None) == (4, 4_000)
    r.answered(machine, r.trim(2))
    assert face.at_time(machine.handle, r.LOG, 0) == (2, 3_000)
    assert face.at_time(machine.handle, b"none", 0) is None
    assert face.at_time(machine.handle, b"none", None) is None


# --- the rest of the state --------------------------------------------------------------------------------------------
def test_only_requests_for_record_logs_change_their_keys(machine: Machine) -> None:
    compacted(machine, keyed(a=None))
    r.answered(machine, from_producer(0))
    records, _ = machine.results(c.read_range(r.LOG, r.LOG + b"\1"))[0]
    assert len(records) == 6
    for key, *_ in records:
        for operation in (c.put(key, b"x"), c.delete(key), c.update(key, b"x"), c.add(key, 1)):
            assert machine.txn(operation).status == c.RECORDS_WRITE
    assert machine.txn(c.delete_range(r.LOG, b"")).status == c.RECORDS_WRITE
    machine.txn(c.put(b"taken", b"x"))
    assert r.answered(machine, r.append(plain(b"a"), log=b"taken"))[0] == r.INVALID_REQUEST
    assert r.answered(machine, r.trim(0, log=b"taken"))[0] == r.INVALID_REQUEST


def test_nothing_is_appended_below_level_six() -> None:
    machine = Machine()
    machine.apply(c.command(c.LEVEL, 5))
    assert machine.apply(r.append(plain(b"a"))).status == c.COMMAND_INVALID


@pytest.mark.parametrize("data", [[r.APPEND], [4], [r.TRIM, -1], [r.APPEND, 4, 0, 0, 0, 0, plain(b"a")]])
def test_a_request_of_another_form_is_no_command(machine: Machine, data: list[int | bytes]) -> None:
    assert machine.apply(c.command(c.RECORDS, r.LOG, c.pack(data), 0)).status == c.COMMAND_INVALID


@pytest.mark.parametrize("log", [b"", b"a\0b", bytes(401)])
def test_a_key_of_another_form_is_no_log(machine: Machine, log: bytes) -> None:
    assert machine.apply(r.append(plain(b"a"), log=log)).status == c.COMMAND_INVALID


def test_a_dump_brings_logs_back(machine: Machine) -> None:
    compacted(machine, keyed(a=b"1", b=None))
    r.answered(machine, from_producer(0))
    again = loaded(machine.handle.dump())
    assert again.status().state_hash == machine.state_hash()
    assert face.log_view(again, r.LOG) == face.log_view(machine.handle, r.LOG)
