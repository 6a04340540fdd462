"""History: change records, past reads and the floor."""

from __future__ import annotations

import random
import threading

import msgpack
import pytest

from tests.machine import commands as c
from tests.machine.machines import Machine, loaded


@pytest.fixture
def machine() -> Machine:
    machine = Machine()
    machine.txn(c.put(b"a", b"1"))  # 1
    machine.txn(c.put(b"a", b"2"), c.put(b"b", b"x"))  # 2
    machine.txn(c.delete(b"a"))  # 3
    machine.txn(c.put(b"a", b"4"))  # 4
    machine.handle.publish()
    return machine


def past(machine: Machine, revision: int) -> list[tuple[bytes, bytes]]:
    status, body, *_ = machine.handle.range_shared(revision=revision)
    assert status == c.OK
    unpacker = msgpack.Unpacker()
    unpacker.feed(body)
    return [(key, value) for key, value, *_ in unpacker]


def test_past_reads_answer_from_the_chains(machine: Machine) -> None:
    assert past(machine, 1) == [(b"a", b"1")]
    assert past(machine, 2) == [(b"a", b"2"), (b"b", b"x")]
    assert past(machine, 3) == [(b"b", b"x")]
    assert past(machine, 4) == [(b"a", b"4"), (b"b", b"x")]
    assert machine.handle.get(b"a", 2)[1] == (b"a", b"2", 1, 2, 2, 0, 0)
    assert machine.handle.get(b"a", 3) == (c.NOT_FOUND, None)


def test_change_records_show_before_and_after(machine: Machine) -> None:
    assert machine.handle.history(2)[1] == [
        ((b"a", b"2", 1, 2, 2, 0, 0), (b"a", b"1", 1, 1, 1, 0, 0)),
        ((b"b", b"x", 2, 2, 1, 0, 0), None),
    ]
    assert machine.handle.history(3)[1] == [((b"a", b"", 0, 3, 0, 0, c.TOMBSTONE), (b"a", b"2", 1, 2, 2, 0, 0))]
    assert machine.handle.history(4)[1] == [((b"a", b"4", 4, 4, 1, 0, 0), None)]
    assert machine.handle.history(5)[0] == c.FUTURE_REVISION
    assert machine.handle.history(0)[0] == c.COMPACTED


def test_history_carries_the_wall_time_of_its_entry() -> None:
    machine = Machine()
    machine.handle.apply(c.keys(c.put(b"a")), wall_ms=1234)
    assert machine.handle.history(1)[2] == 1234


def test_compaction_moves_the_floor(machine: Machine) -> None:
    assert machine.apply(c.compact(2)).status == c.OK
    assert machine.handle.history(2)[0] == c.COMPACTED
    assert machine.handle.history(3)[0] == c.OK
    assert machine.handle.get(b"a", 1)[0] == c.COMPACTED
    assert machine.handle.get(b"a", 2)[1][1] == b"2"  # the floor itself can be read
    assert machine.handle.get_shared(b"a", 1)[:2] == (c.COMPACTED, b"")
    assert machine.handle.range_shared(revision=1)[:3] == (c.COMPACTED, b"", 0)
    assert past(machine, 2) == [(b"a", b"2"), (b"b", b"x")]


def test_floor_moves_up_only_and_not_beyond_the_newest(machine: Machine) -> None:
    assert machine.apply(c.compact(5)).status == c.FUTURE_REVISION
    machine.apply(c.compact(3))
    assert machine.apply(c.compact(2)).status == c.COMPACTED
    assert machine.apply(c.compact(3)).status == c.OK
    assert machine.handle.status().compacted == 3


def test_newest_reads_survive_any_floor(machine: Machine) -> None:
    machine.apply(c.compact(4))
    for _ in range(3):
        machine.handle.publish()
    assert past(machine, 4) == past(machine, 0) == [(b"a", b"4"), (b"b", b"x")]


def test_floor_between_publishes_does_not_disturb_readers_of_the_newest(machine: Machine) -> None:
    """A reader of the newest published state needs no history, wherever the floor is by now."""
    machine.txn(c.put(b"a", b"5"))
    machine.apply(c.compact(5))
    status, body, seen = machine.handle.get_shared(b"a")
    assert (status, c.unpack(body)[1], seen) == (c.OK, b"4", 4)


def test_history_bytes_count_what_is_above_the_floor(machine: Machine) -> None:
    assert machine.handle.status().history_bytes == 5 * 64 + 5 + 4
    machine.apply(c.compact(2))
    assert machine.handle.status().history_bytes == 2 * 64 + 2 + 1
    machine.apply(c.compact(4))
    assert machine.handle.status().history_bytes == 0


def test_memory_below_the_floor_is_given_back() -> None:
    """Memory is what the state needs. Versions and tombstones go in bounded steps."""
    machine = Machine()
    writes = [c.keys(c.put(b"%03d" % (i % 500), bytes(200))) for i in range(2000)]
    writes += [c.keys(c.delete(b"%03d" % i)) for i in range(500)]
    settled = 0
    for round_number in range(8):
        machine.handle.apply_many(writes)
        machine.apply(c.compact(machine.handle.status().revision))
        for _ in range(40):
            machine.handle.publish()
        if round_number == 2:
            settled = machine.handle.status().state_bytes
    assert machine.handle.status().state_bytes <= settled + 16_384  # one block of history more or less
    assert machine.handle.range_shared(count_only=True)[2] == 0


def test_tombstone_below_the_floor_does_not_take_a_newer_one_with_it() -> None:
    machine = Machine()
    machine.txn(c.put(b"k", b"1"))
    machine.txn(c.delete(b"k"))
    machine.txn(c.put(b"k", b"3"))
    machine.txn(c.delete(b"k"))
    machine.apply(c.compact(2))
    for _ in range(5):
        machine.handle.publish()
    assert past(machine, 3) == [(b"k", b"3")]
    assert past(machine, 2) == past(machine, 4) == []
    assert machine.handle.history(4)[1] == [((b"k", b"", 0, 4, 0, 0, c.TOMBSTONE), (b"k", b"3", 3, 3, 1, 0, 0))]


def test_long_revision_is_trimmed_in_steps() -> None:
    machine = Machine()
    for value in (b"1", b"2", b"3"):
        machine.txn(*(c.put(b"%05d" % i, value) for i in range(3000)))
    machine.apply(c.compact(3))
    for _ in range(40):
        machine.handle.publish()
        assert len(past(machine, 3)) == 3000
    assert machine.handle.get(b"00000", 3)[1][1] == b"3"


def test_dump_keeps_history_that_falls_below_the_floor_meanwhile(machine: Machine) -> None:
    dump = machine.handle.dump(1)
    machine.apply(c.compact(4))
    for _ in range(20):
        machine.handle.publish()
    copy = loaded(dump)
    assert copy.status().compacted == 0
    assert copy.get(b"a", 1)[1] == (b"a", b"1", 1, 1, 1, 0, 0)
    assert copy.history(2) == (
        c.OK,
        [
            ((b"a", b"2", 1, 2, 2, 0, 0), (b"a", b"1", 1, 1, 1, 0, 0)),
            ((b"b", b"x", 2, 2, 1, 0, 0), None),
        ],
        0,
    )


def test_past_reads_beside_a_moving_floor_are_whole_or_compacted() -> None:
    """reads.pyx tells the race: a reader that met a cut chain must not take the key for missing."""
    machine = Machine(changes_per_slice=1000)
    keys = [b"%02d" % i for i in range(40)]
    stop = threading.Event()
    seen = {c.OK: 0, c.COMPACTED: 0, c.FUTURE_REVISION: 0}
    wrong: list[object] = []

    def read() -> None:
        generator = random.Random(1)
        while not stop.is_set():
            newest = machine.handle.range_shared(limit=1)[4]
            at = max(1, newest - generator.randrange(400))
            status, body, count, _, _ = machine.handle.range_shared(revision=at)
            seen[status] += 1
            if status == c.OK and (count, body.count(b"\xc4\x08%08d" % at)) != (40, 40):
                wrong.append((at, count))

    machine.txn(*(c.put(key, b"%08d" % 1) for key in keys))
    machine.handle.publish()
    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    revision = 1
    while min(seen[c.OK], seen[c.COMPACTED]) < 1000 and revision < 40_000:
        payloads = []
        for _ in range(100):
            revision += 1
            payloads.append(c.keys(*(c.put(key, b"%08d" % revision) for key in keys)))
        payloads.append(c.compact(revision - 150 if revision > 300 else 0))
        assert set(machine.handle.apply_many(payloads, batch=10)) == {c.OK}
    stop.set()
    for reader in readers:
        reader.join()
    assert wrong == []
    assert min(seen[c.OK], seen[c.COMPACTED]) > 0, seen


def test_trimming_goes_on_when_the_dump_is_over(machine: Machine) -> None:
    dump = machine.handle.dump()
    machine.txn(*(c.put(b"%04d" % i, bytes(1000)) for i in range(2000)))
    machine.txn(c.delete_range(b"", b""))
    machine.apply(c.compact(machine.handle.status().revision))
    dump.close()
    dump.close()
    for _ in range(100):
        machine.handle.publish()
    before = machine.handle.status().state_bytes
    machine.txn(*(c.put(b"%04d" % i, bytes(1000)) for i in range(2000)))
    assert machine.handle.status().state_bytes == before
