"""The log: durable batches a second on this disk, and what the log itself costs where a sync costs nothing."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from tests.faces.disk import SimulatedDisk
from tests.faces.storage import FolderDisk, WalHandle, make_record

RECORD_BYTES = 320  # a 256-byte value with its key: 64 bytes of record header around it
SEGMENT_BYTES = 64 << 20


def batches(batch_bytes: int, count: int) -> list[tuple[int, bytes]]:
    """(first index, records) of `count` batches that follow each other."""
    per_batch = max(1, batch_bytes // RECORD_BYTES)
    found = []
    chain = 0
    indexes = itertools.count(1)
    for _ in range(count):
        records = []
        for index in itertools.islice(indexes, per_batch):
            record, chain = make_record(index, 1, bytes(RECORD_BYTES - 64), previous_chain=chain)
            records.append(record)
        found.append((index - per_batch + 1, b"".join(records)))
    return found


def begun(wal: WalHandle) -> WalHandle:
    wal.open()
    wal.begin(hard_state=(1, 0, 0))
    while not wal.prepare(4 << 20)[1]:
        pass
    return wal


@pytest.mark.parametrize("batch_bytes", [320, 4096, 65536])
def test_durable_batches(benchmark: BenchmarkFixture, tmp_path: Path, batch_bytes: int) -> None:
    """One write and one fdatasync each, into preallocated space; MB/s = batch_bytes x rate."""
    rounds = 1000
    wal = begun(WalHandle(FolderDisk(tmp_path / "node"), segment_bytes=SEGMENT_BYTES, alignment_bytes=4096))
    # The first segment is not preallocated; a batch that fills it makes the log go on in the prepared one.
    feed = iter(batches(batch_bytes, rounds + 50))
    benchmark.extra_info["operations"] = 1
    benchmark.extra_info["batch_bytes"] = batch_bytes

    def append() -> None:
        first, records = next(feed)
        assert wal.append(first, [records]) == 0

    benchmark.pedantic(append, rounds=rounds, warmup_rounds=20)
    wal.close()


@pytest.mark.parametrize("batch_bytes", [320, 65536])
def test_batches_without_a_disk(benchmark: BenchmarkFixture, batch_bytes: int) -> None:
    """The simulated disk syncs by copying: what is left is the log's own work and the copies."""
    rounds = 200
    wal = begun(WalHandle(SimulatedDisk(), segment_bytes=SEGMENT_BYTES, alignment_bytes=4096))
    feed = iter(batches(batch_bytes, rounds + 20))
    benchmark.extra_info["operations"] = 1

    def append() -> None:
        first, records = next(feed)
        assert wal.append(first, [records]) == 0

    benchmark.pedantic(append, rounds=rounds, warmup_rounds=10)
    wal.close()


def test_reopening_a_log(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """Read, check and settle 32 MB of records; counted are the records."""
    disk = FolderDisk(tmp_path / "node")
    wal = begun(WalHandle(disk, segment_bytes=SEGMENT_BYTES, alignment_bytes=4096))
    written = batches(1 << 20, 32)
    for first, records in written:
        wal.append(first, [records])
    wal.close()
    benchmark.extra_info["entries"] = sum(len(records) // RECORD_BYTES for _, records in written)

    def reopen() -> None:
        again = WalHandle(disk, segment_bytes=SEGMENT_BYTES, alignment_bytes=4096)
        assert again.open().last == benchmark.extra_info["entries"]
        again.close()

    benchmark.pedantic(reopen, rounds=5)
