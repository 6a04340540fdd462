"""The sealed snapshot file: complete or absent, and no byte shown that was not checked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faces.disk import SimulatedDisk
from tests.faces.sealed import SealedReaderHandle, SealedWriterHandle
from tests.storage.names import Status

pytestmark = pytest.mark.usefixtures("each_encryption")

NAME = "000000000000002a.sealed"
POINT = (42, 3, 0xABCDEF)
CHUNKS = [b"alpha" * 20, b"", b"beta" * 33, b"gamma"]
KEYS = {0: b"", 2: b"b-key"}


def write(disk: SimulatedDisk, chunks: list[bytes] = CHUNKS) -> int:
    """Write and seal a file; the first status that is not OK, or OK."""
    writer = SealedWriterHandle(disk)
    steps = [lambda: writer.begin(NAME, point=POINT, cluster=(5, 6), membership=b"members", feature_level=2, wall_ms=9)]
    for number, chunk in enumerate(chunks):
        steps.append(lambda chunk=chunk, number=number: writer.chunk(chunk, count=3, split_key=KEYS.get(number)))
    steps.append(writer.sync)
    steps.append(lambda: writer.seal(state_hash=(7, 8)))
    for step in steps:
        status = step()
        if status != Status.OK:
            return status
    return Status.OK


def read(disk: SimulatedDisk) -> tuple[int, list[bytes]]:
    """(NOT_FOUND at a sound end or what was wrong, the chunks shown until then)."""
    reader = SealedReaderHandle(disk)
    status = reader.open(NAME)
    shown: list[bytes] = []
    while status == Status.OK:
        status, chunk = reader.next()
        if status == Status.OK:
            shown.append(chunk)
    return status, shown


@given(st.lists(st.binary(max_size=300), max_size=12))
def test_what_was_sealed_is_read_back(chunks: list[bytes]) -> None:
    disk = SimulatedDisk()
    assert write(disk, chunks) == Status.OK
    assert disk.list_names() == [NAME]
    disk.crash()
    assert read(disk) == (Status.NOT_FOUND, chunks)
    reader = SealedReaderHandle(disk)
    assert reader.open(NAME) == Status.OK
    assert reader.header == (POINT, (5, 6), b"members", 2, 9)
    assert reader.footer == (len(chunks), 3 * len(chunks), sum(map(len, chunks)), (7, 8))


def test_readers_may_begin_at_any_split() -> None:
    """Several tasks read one file at once."""
    disk = SimulatedDisk()
    assert write(disk) == Status.OK
    reader = SealedReaderHandle(disk)
    assert reader.open(NAME) == Status.OK
    assert reader.splits() == [(0, b""), (2, b"b-key")]
    assert reader.seek(1) == Status.OK
    assert [reader.next()[1] for _ in range(2)] == CHUNKS[2:]
    assert reader.next()[0] == Status.NOT_FOUND
    assert reader.seek(2) == Status.NOT_FOUND


@pytest.mark.parametrize("fault", ["cut_at_sync", "cut_at_write"])
def test_a_power_cut_leaves_the_whole_file_or_none(fault: str) -> None:
    """decisions/log.md D11: the name comes last."""
    for moment in range(1, 8):
        for late in (0, 1):
            for seed in range(10):
                disk = SimulatedDisk(seed=seed)
                disk.plan(**{fault: moment}, cut_after_sync=late)
                status = write(disk)
                disk.plan()
                disk.crash()
                expected = [(Status.NOT_FOUND, CHUNKS)] + [(Status.NOT_FOUND, [])] * (status != Status.OK)
                assert read(disk) in expected
                # What is left over is no obstacle to the next one.
                assert write(disk) == Status.OK
                assert read(disk) == (Status.NOT_FOUND, CHUNKS)


def test_every_flipped_bit_is_noticed() -> None:
    """decisions/log.md D3: what is shown before the damage is right, and the damage is told."""
    disk = SimulatedDisk()
    assert write(disk) == Status.OK
    for offset in range(len(disk.durable(NAME))):
        for bit in range(8):
            copy = disk.copy()
            copy.flip(NAME, offset, 1 << bit)
            status, shown = read(copy)
            assert status in (Status.CORRUPT, Status.INCOMPLETE, Status.NEWER_FORMAT)
            assert shown == CHUNKS[: len(shown)]


def test_every_truncation_is_noticed() -> None:
    disk = SimulatedDisk()
    assert write(disk) == Status.OK
    for size_bytes in range(len(disk.durable(NAME))):
        copy = disk.copy()
        copy.cut_file(NAME, size_bytes)
        assert read(copy)[0] in (Status.CORRUPT, Status.INCOMPLETE)


def test_a_chunk_of_another_file_is_noticed() -> None:
    """decisions/log.md D4: a misdirected write puts a sound chunk into the wrong place."""
    disk = SimulatedDisk()
    disk.plan(misdirect_at_write=4, misdirect_by=-24 - len(CHUNKS[0]) - 24)
    assert write(disk) == Status.OK
    assert read(disk)[0] == Status.CORRUPT


def test_a_writer_that_gives_up_leaves_nothing() -> None:
    disk = SimulatedDisk()
    writer = SealedWriterHandle(disk)
    assert writer.begin(NAME, point=POINT) == Status.OK
    assert disk.list_names() == [NAME + ".tmp"]
    writer.abandon()
    assert disk.list_names() == []
    assert writer.chunk(b"x") == Status.INVARIANT_BROKEN
    assert writer.seal() == Status.INVARIANT_BROKEN


def test_limits_are_refused_before_anything_is_written() -> None:
    disk = SimulatedDisk()
    writer = SealedWriterHandle(disk)
    assert writer.begin("x" * 62) == Status.BAD_LENGTH
    assert writer.begin(NAME) == Status.OK
    assert writer.chunk(bytes(16 * 1024 * 1024 + 1)) == Status.BAD_LENGTH


def test_a_full_disk_is_told_and_an_absent_file_not_found() -> None:
    disk = SimulatedDisk()
    assert read(disk) == (Status.NOT_FOUND, [])
    disk.plan(no_space_at_write=3)
    assert write(disk) == Status.NO_SPACE
    assert NAME not in disk.list_names()
