"""What the log and the sealed files believe of their callers: each belief that falls is named with its two numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from raftmeta.common.invariants import NAMES
from tests.faces.disk import SimulatedDisk
from tests.faces.sealed import SealedWriterHandle
from tests.faces.storage import WalHandle, make_record
from tests.storage.names import Status
from tests.storage.test_wal import LIMITS, begun_log

RECORD_BYTES = len(make_record(3, 1, b"x")[0])


def told(handle: WalHandle | SealedWriterHandle) -> tuple[str, int, int]:
    what, a, b = handle.broken
    return NAMES.get(what, "nothing"), a, b


def record(index: int) -> bytes:
    return make_record(index, 1, b"x")[0]


@pytest.mark.parametrize(
    ("append", "belief"),
    [
        (lambda wal: wal.append(4, [record(4)]), ("BROKEN_BATCH_PLACE", 4, 2)),
        (lambda wal: wal.append(0, [record(0)]), ("BROKEN_BATCH_PLACE", 0, 2)),
        (lambda wal: wal.append(3, [record(3)], repairs=True), ("BROKEN_REPAIR_PLACE", 3, 2)),
        (lambda wal: wal.append(3, [record(3) + record(5)]), ("BROKEN_BATCH_RECORD", 5, 4)),
        (lambda wal: wal.append(3, [record(3)], last=4), ("BROKEN_BATCH_COUNT", 3, 4)),
        (lambda wal: wal.append(3, [record(3)[:-8]]), ("BROKEN_BATCH_TORN", RECORD_BYTES, RECORD_BYTES - 8)),
        (
            lambda wal: wal.append(3, [record(3)], last=2, hard_state=(1, 0, 0)),
            ("BROKEN_BATCH_SLICES", 1, 0),
        ),
    ],
)
def test_a_batch_that_does_not_continue_the_log_is_named(
    append: Callable[[WalHandle], int], belief: tuple[str, int, int]
) -> None:
    """Nothing of it is written; the first belief stays, whatever comes behind it."""
    log = begun_log()
    assert log.append([10, 10])
    assert told(log.wal) == ("nothing", 0, 0)
    assert append(log.wal) == Status.INVARIANT_BROKEN
    assert told(log.wal) == belief
    assert log.wal.append(9, [record(9)]) == Status.INVARIANT_BROKEN
    assert told(log.wal) == belief
    assert log.append([10])
    assert log.crash()


def test_a_log_that_was_not_opened_or_begun_takes_nothing() -> None:
    """Both numbers are yes or no: was it opened, may it be written."""
    wal = WalHandle(SimulatedDisk(), **LIMITS)
    assert wal.append(1, [record(1)]) == Status.INVARIANT_BROKEN
    assert told(wal) == ("BROKEN_WAL_NOT_WRITABLE", 0, 0)
    wal = WalHandle(SimulatedDisk(), **LIMITS)
    wal.open()
    assert wal.read(1)[0] == Status.INVARIANT_BROKEN
    assert told(wal) == ("BROKEN_WAL_NOT_WRITABLE", 1, 0)


def test_a_log_is_opened_once() -> None:
    log = begun_log()
    assert log.append([10, 10, 10])
    assert log.wal.open().status == Status.INVARIANT_BROKEN
    assert told(log.wal) == ("BROKEN_WAL_OPENED_TWICE", 3, 0)


def test_each_record_of_the_log_is_somewhere() -> None:
    """a: records whose place is known, b: records of the log."""
    log = begun_log()
    assert log.append([10, 10]) and log.append([10])
    assert log.wal.check_runs() == Status.OK
    log.wal.forget_run()
    assert log.wal.check_runs() == Status.INVARIANT_BROKEN
    assert told(log.wal) == ("BROKEN_LOG_RECORDS", 2, 3)


def test_a_segment_has_a_higher_number_than_the_one_before() -> None:
    """A lower number would be removed at the next opening, as a leftover."""
    log = begun_log()
    log.wal.number_segments_from(1)
    large = make_record(1, 1, b"x" * LIMITS["segment_bytes"])[0]
    assert log.wal.append(1, [large]) == Status.INVARIANT_BROKEN
    assert told(log.wal) == ("BROKEN_SEGMENT_ORDER", 1, 1)


@pytest.mark.parametrize("step", ["chunk", "sync", "seal"])
def test_a_sealed_file_that_was_given_up_takes_nothing(step: str) -> None:
    """a: chunks written before, b: bytes."""
    writer = SealedWriterHandle(SimulatedDisk())
    assert writer.begin("000000000000002a.sealed") == Status.OK
    assert writer.chunk(b"x" * 100) == Status.OK
    writer.abandon()
    status = writer.chunk(b"x") if step == "chunk" else writer.sync() if step == "sync" else writer.seal()
    assert status == Status.INVARIANT_BROKEN
    name, chunks, length = told(writer)
    assert (name, chunks) == ("BROKEN_SEALED_CLOSED", 1)
    assert length > 100
