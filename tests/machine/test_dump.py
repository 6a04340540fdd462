"""Dump and load: the state that was dumped, whole, or a refusal."""

from __future__ import annotations

import random
import struct
import threading

import pytest

from tests.faces.machine import MachineHandle
from tests.machine import commands as c
from tests.machine.machines import Machine, loaded


def rich_machine() -> Machine:
    """A machine with something of everything."""
    machine = Machine()
    machine.lease_ms = 40
    machine.apply(c.command(c.LEVEL, 2))
    machine.apply(c.command(c.USER, b"board", b"move"))
    machine.apply(c.open_session(5, ttl_ms=500, window=4))
    machine.apply(c.open_session(6))
    machine.apply(c.close_session(6))
    machine.apply(c.grant(1, 100, b"note"))
    machine.apply(c.grant(2, 200))
    machine.txn(c.put(b"a", b"1", lease=1), c.put(b"b", b"1"), c.add(b"n", 3))
    machine.txn(c.put(b"a", b"2", lease=2), c.delete(b"b"), session=5, sequence=2, lowest=2)
    machine.apply(c.compact(1))
    machine.txn(c.create(b"b", b"again", lease=1), c.read_range(b"", b""), session=5, sequence=4, lowest=2)
    machine.txn(c.delete(b"n"))
    return machine


def dumped(machine: MachineHandle, bytes_max: int = 1 << 16) -> list[bytes]:
    return list(machine.dump(bytes_max))


def test_loaded_machine_is_the_dumped_one() -> None:
    machine = rich_machine()
    copy = loaded(dumped(machine.handle))
    assert copy.status()._replace(state_bytes=0) == machine.handle.status()._replace(state_bytes=0)
    assert copy.lease(1) == machine.handle.lease(1) == (c.OK, 100, 140, 1)
    assert copy.session_result(5, 2) == machine.handle.session_result(5, 2)
    assert copy.session_result(5, 1)[0] == c.RESULT_EVICTED
    assert copy.history(3) == machine.handle.history(3)
    assert copy.get(b"b", 1) == machine.handle.get(b"b", 1)
    assert copy.get(b"b", 2) == (c.NOT_FOUND, None)


def test_loaded_machine_goes_on_as_the_dumped_one() -> None:
    machine = rich_machine()
    copy = Machine()
    copy.handle = loaded(dumped(machine.handle))
    copy.lease_ms = machine.lease_ms
    for payload in (
        c.keys(c.put(b"z"), session=5, sequence=4),
        c.keys(c.put(b"z"), session=5, sequence=5),
        c.open_session(6),
        c.revoke(1),
        c.keys(c.add(b"n", 1)),
        c.compact(4),
    ):
        assert copy.apply(payload) == machine.apply(payload)
    assert copy.state_hash() == machine.state_hash()


def test_dump_of_a_loaded_machine_is_the_same() -> None:
    machine = rich_machine()
    chunks = dumped(machine.handle)
    assert b"".join(dumped(loaded(chunks))) == b"".join(chunks)


def test_empty_machine_can_be_dumped() -> None:
    assert loaded(dumped(MachineHandle())).status().applied == 0


@pytest.mark.parametrize("bytes_max", [1, 100, 1000, 1 << 20])
def test_chunks_hold_whole_records_and_are_bounded(bytes_max: int) -> None:
    machine = Machine()
    for i in range(60):
        machine.txn(c.put(b"%d" % (i % 20), bytes(90)))
    machine.apply(c.compact(30))
    chunks = dumped(machine.handle, bytes_max)
    assert all(len(chunk) <= bytes_max + 240 for chunk in chunks)
    assert loaded(chunks).status().state_hash == machine.state_hash()


def test_dump_is_of_the_moment_it_began() -> None:
    machine = rich_machine()
    before = machine.handle.status()
    dump = machine.handle.dump(64)
    chunks = [next(dump)]
    generator = random.Random(3)
    for chunk in dump:
        chunks.append(chunk)
        machine.txn(c.put(b"%d" % generator.randrange(9)), c.delete(b"%d" % generator.randrange(9)))
        machine.apply(c.keep_alive(1, 2))
        machine.apply(c.compact(machine.handle.status().revision))
        machine.handle.publish()
    copy = loaded(chunks).status()
    assert (copy.state_hash, copy.applied, copy.revision) == (before.state_hash, before.applied, before.revision)


def test_preparing_in_slices_gives_the_same_dump() -> None:
    """Leases, sessions and results are copied a few at a time, so that a large number of them stalls nobody."""
    machine = rich_machine()
    for session in range(40, 20, -1):
        machine.apply(c.open_session(session))
        machine.txn(c.put(b"s"), session=session, sequence=1)
    whole = b"".join(machine.handle.dump())
    assert all(b"".join(machine.handle.dump(4096, prepared_at_once=slice)) == whole for slice in (1, 2, 7))


def test_dump_may_be_read_by_another_thread() -> None:
    machine = MachineHandle()
    machine.apply_many([c.keys(c.put(b"%05d" % (i % 3000), bytes(50))) for i in range(9000)])
    machine.apply(c.compact(4000))
    before = machine.status()
    dump = machine.dump(4096)
    chunks: list[bytes] = []
    reader = threading.Thread(target=lambda: chunks.extend(dump))
    reader.start()
    while reader.is_alive():
        machine.apply_many([c.keys(c.put(b"%05d" % i, bytes(50))) for i in range(100)])
        machine.apply(c.compact(machine.status().revision))
    reader.join()
    copy = loaded(chunks).status()
    assert (copy.state_hash, copy.history_bytes) == (before.state_hash, before.history_bytes)


def change_at_random(machine: Machine, generator: random.Random) -> None:
    """A few entries of every kind that take something away, and a floor that follows closely."""
    key = b"%d" % generator.randrange(30)
    others = [c.put(b"%d" % other, bytes(generator.randrange(40))) for other in generator.sample(range(30), 3)]
    machine.txn(c.put(key, key * generator.randrange(5)))
    machine.txn(c.delete(b"%d" % generator.randrange(30)))
    machine.txn(*others)
    machine.apply(c.command(c.USER, b"board", bytes(generator.randrange(99))))
    if generator.random() < 0.7:
        machine.apply(c.compact(machine.handle.status().revision - generator.randrange(4)))
    machine.handle.publish()


@pytest.mark.parametrize("seed", range(12))
def test_trimming_takes_nothing_from_a_dump_under_way(seed: int) -> None:
    """init: a history, and for odd seeds an earlier dump. act: change, cut and trim between any two records of a dump.
    check: it is, byte by byte, the dump that was made at once when it began."""
    generator = random.Random(seed)
    machine = Machine()
    machine.apply(c.command(c.LEVEL, 2))
    base, twin = (machine.handle.dump_base(), machine.handle.dump_base()) if seed % 2 else (None, None)
    for _ in range(3):
        for _ in range(generator.randrange(400)):
            change_at_random(machine, generator)
        at_once = b"".join(machine.handle.dump(base=twin))
        dump = machine.handle.dump(1 + generator.randrange(200), base)
        chunks = []
        for chunk in dump:
            chunks.append(chunk)
            change_at_random(machine, generator)
        assert b"".join(chunks) == at_once


def state_bytes_after(machine: MachineHandle, revisions: int) -> int:
    """After so many more revisions of 100 keys, with a history of 100 revisions."""
    for _ in range(revisions // 100):
        machine.apply_many([c.keys(c.put(b"%02d" % key, bytes(1000))) for key in range(100)])
        machine.apply(c.compact(machine.status().revision - 100))
        machine.publish()
    return machine.status().state_bytes


def test_a_dump_that_takes_long_holds_the_memory_of_its_beginning() -> None:
    """init: a dump that nobody goes on reading. act: write many times the history. check: what was written is trimmed
    as ever; and when the dump is over, what it held is used again."""
    machine = MachineHandle()
    steady = state_bytes_after(machine, 5000)
    dump = machine.dump()
    while_under_way = state_bytes_after(machine, 5000)
    assert while_under_way < 3 * steady  # the state now, that of the dump, and pieces half full
    assert state_bytes_after(machine, 50_000) == while_under_way
    dump.close()
    assert state_bytes_after(machine, 50_000) <= while_under_way


def test_different_states_have_different_hashes() -> None:
    """What differs between replicas shows, whatever it is."""
    variants = [
        [],
        [c.keys(c.put(b"a"))],
        [c.keys(c.put(b"b"))],
        [c.keys(c.put(b"a", b"x"))],
        [c.keys(c.put(b"a")), c.keys(c.delete(b"a"))],
        [c.keys(c.put(b"a")), c.compact(1)],
        [c.grant(1, 10)],
        [c.grant(1, 11)],
        [c.grant(1, 10, b"note")],
        [c.open_session(1)],
        [c.open_session(1, window=7)],
        [c.open_session(1), c.close_session(1)],
        [c.open_session(1), c.keys(session=1, sequence=1)],
        [c.open_session(1), c.keys(session=1, sequence=2)],
        [c.open_session(1), c.keys(session=1, sequence=2, lowest=2)],
    ]
    hashes = set()
    for payloads in variants:
        machine = Machine()
        for payload in payloads:
            assert machine.apply(payload).status == c.OK
        hashes.add(machine.state_hash())
    assert len(hashes) == len(variants)


# --- damaged dumps ----------------------------------------------------------------------------------------------------
def load(chunks: list[bytes]) -> int:
    """The first status that is not OK."""
    machine = MachineHandle()
    for chunk in chunks:
        status = machine.load_chunk(chunk)
        if status != c.OK:
            return status
    return machine.load_done()


def records(dump: bytes) -> list[bytes]:
    found = []
    while dump:
        length = struct.unpack("<I", dump[:4])[0] + 8
        found.append(dump[:length])
        dump = dump[length:]
    return found


def test_every_prefix_is_refused() -> None:
    whole = b"".join(dumped(rich_machine().handle))
    ends = {sum(map(len, records(whole)[:i])) for i in range(len(records(whole)))}
    for length in range(len(whole)):
        assert load([whole[:length]]) == (c.INCOMPLETE if length in ends else c.BAD_LENGTH)


def test_every_flipped_bit_is_refused() -> None:
    """The container has checksums of its own; this is the second line, for what is read is what will be served."""
    whole = b"".join(dumped(rich_machine().handle))
    for bit in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        assert load([bytes(flipped)]) in (c.BAD_FIELD, c.BAD_LENGTH, c.BAD_VERSION, c.BAD_CHECKSUM), bit


def test_every_missing_doubled_and_moved_record_is_refused() -> None:
    parts = records(b"".join(dumped(rich_machine().handle)))
    for i in range(len(parts)):
        assert load(parts[:i] + parts[i + 1 :]) != c.OK, i
        assert load([*parts[: i + 1], *parts[i:]]) != c.OK, i
        if i + 1 < len(parts):
            assert load([*parts[:i], parts[i + 1], parts[i], *parts[i + 2 :]]) != c.OK, i


def test_dump_of_a_newer_format_or_level_is_refused() -> None:
    whole = bytearray(b"".join(dumped(rich_machine().handle)))
    for offset, value in ((8, 5), (12, 7)):
        newer = bytearray(whole)
        newer[offset] = value
        assert load([bytes(newer)]) == c.BAD_VERSION


def test_a_session_that_would_take_all_memory_is_refused() -> None:
    """Found by a fuzzer: a sealed file of 669 bytes named a window of 883,229,792 results; their places were taken."""
    whole = records(b"".join(dumped(rich_machine().handle)))
    for window, is_refused in ((1_000_000, False), (1_000_001, True), (2**32 - 1, True), (2**64 - 1, True)):
        changed = b""
        for one in whole:
            if one[4:8] == (4).to_bytes(4, "little"):  # DUMP_SESSION: the window is its last field
                one = one[:-8] + window.to_bytes(8, "little")
            changed += one
        fresh = MachineHandle()
        # Up to the session only: behind it, results of the session and the hash of all records would not fit.
        at = next(i for i, one in enumerate(whole) if one[4:8] == (4).to_bytes(4, "little"))
        until = sum(len(one) for one in whole[: at + 1])
        assert (fresh.load_chunk(changed[:until]) == c.BAD_FIELD) == is_refused, window


def test_only_an_empty_machine_can_load() -> None:
    chunks = dumped(rich_machine().handle)
    machine = Machine()
    machine.txn(c.put(b"k"))
    assert machine.handle.load_chunk(chunks[0]) == c.BAD_FIELD
