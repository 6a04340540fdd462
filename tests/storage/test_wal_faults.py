"""A disk that fails or is full (D5, D6, D7, D11): the log refuses, and never says more than the disk has."""

from __future__ import annotations

import pytest

from tests.faces.disk import SimulatedDisk
from tests.faces.storage import WalHandle, make_record
from tests.storage.driver import LogDriver
from tests.storage.names import Status, WalState

pytestmark = pytest.mark.usefixtures("each_encryption")

LIMITS = {"segment_bytes": 4096, "reserve_bytes": 4096, "alignment_bytes": 512}


def begun_log() -> LogDriver:
    log = LogDriver(SimulatedDisk(), LIMITS)
    assert log.open() is not None and log.begin()
    assert log.append([10, 10])
    return log


def next_record(log: LogDriver, size: int) -> bytes:
    index = log.model.last + 1
    return make_record(index, 1, b"x" * size, previous_chain=log.model.chain_before(index))[0]


def fill(log: LogDriver) -> None:
    """Append until the disk says that it is full."""
    for _ in range(100):
        record = next_record(log, 600)
        status = log.wal.append(log.model.last + 1, [record])
        if status == Status.NO_SPACE:
            return
        assert status == Status.OK
        log.model = log.model.written(log.model.last + 1, [record])
    raise AssertionError("the disk never filled")


@pytest.mark.parametrize("fault", ["fail_at_sync", "fail_at_write"])
def test_the_first_failure_poisons_the_log_for_good(fault: str) -> None:
    """decisions/log.md D5: after a failed sync the kernel forgets the pages; asking again would lie."""
    log = begun_log()
    log.disk.plan(**{fault: 1})
    record = next_record(log, 50)
    assert log.wal.append(3, [record]) == Status.DISK_FAILED
    # The disk is well again; the log does not believe it.
    assert log.wal.append(3, [record]) == Status.DISK_FAILED
    assert log.wal.read(1)[0] == Status.DISK_FAILED
    assert log.wal.compact((1, 1, 0)) == Status.DISK_FAILED
    assert log.wal.prepare()[0] == Status.DISK_FAILED
    assert log.wal.idle() == Status.DISK_FAILED
    assert log.wal.free_bytes() == 0


def test_a_restart_after_a_failed_sync_believes_the_disk_and_not_the_cache() -> None:
    """decisions/log.md D5: the cache shows the batch as clean, the disk never had it; a power cut proves it."""
    log = begun_log()
    before = log.model
    log.disk.plan(fail_at_sync=1)
    log.wal.append(3, [next_record(log, 50)])
    log.disk.plan()
    assert log.kill()
    assert log.model == before
    assert log.crash()


def test_a_failed_read_while_opening_is_reported_and_changes_nothing() -> None:
    """decisions/log.md D6: unreadable is not absent."""
    log = begun_log()
    log.wal.close()
    log.wal = None
    log.disk.reopen()
    writes = log.disk.counters["writes"]
    log.disk.plan(fail_at_read=1)
    assert WalHandle(log.disk, **LIMITS).open().status == Status.DISK_FAILED
    assert log.disk.counters["writes"] == writes
    assert log.open() is not None


def test_a_full_disk_leaves_the_log_as_it_was() -> None:
    """decisions/log.md D7: refused is refused, also after a power cut in the middle of it."""
    log = begun_log()
    for seed in range(20):
        log.disk.plan(no_space_at_write=1)
        assert log.wal.append(log.model.last + 1, [next_record(log, 300 + 50 * seed)]) == Status.NO_SPACE
        log.disk.plan()
        assert log.append([30])
        assert log.crash()


def test_a_refused_batch_never_comes_back_by_itself() -> None:
    """It was NotExecuted: half of it in the file must not become a record at the next start."""
    log = begun_log()
    log.disk.plan(no_space_at_write=1)
    assert log.wal.append(3, [next_record(log, 1)]) == Status.NO_SPACE
    log.disk.plan()
    assert log.kill()
    assert log.model.last == 2


def test_a_refused_batch_that_cannot_be_erased_stops_the_log() -> None:
    """decisions/log.md D7: what stands behind the end is not known, so nothing follows it; a start is whole."""
    log = LogDriver(SimulatedDisk(), {**LIMITS, "segment_bytes": 65536})
    assert log.open() is not None and log.begin() and log.append([10])
    long = next_record(log, 8000)
    log.disk.plan(no_space_at_write=1)
    assert log.wal.append(log.model.last + 1, [long]) == Status.NO_SPACE  # half of it made the file longer
    log.disk.plan(capacity_bytes=1, no_space_at_write=1)  # no room to grow, then none to write over what is there
    assert log.wal.append(log.model.last + 1, [long]) == Status.DISK_FAILED
    assert log.disk.counters["failures"] == 1
    log.disk.plan()
    assert log.wal.append(log.model.last + 1, [next_record(log, 10)]) == Status.DISK_FAILED
    assert log.kill()
    assert log.append([10])
    assert log.crash()


def test_the_reserve_takes_votes_when_the_disk_is_full() -> None:
    """A preallocated reserve keeps votes and compaction possible; growth stays refused."""
    log = begun_log()
    while not log.wal.prepare(1024)[1]:
        pass
    used = sum(log.disk.size(log.disk.open(name)) for name in log.disk.list_names())
    log.disk.plan(capacity_bytes=used + 4096)
    fill(log)
    for term in range(2, 8):
        assert log.wal.append(1, [], hard_state=(term, 1, 0), last=0, is_urgent=True) == Status.OK
    assert log.wal.append(log.model.last + 1, [next_record(log, 10)]) == Status.NO_SPACE
    assert log.disk.list_names().count("reserve") == 0
    log.model = log.model.__class__(**{**log.model.__dict__, "hard_state": (7, 1, 0)})
    assert log.crash()
    # Space returns: growth goes on in an ordinary segment and the reserve is prepared anew.
    log.disk.plan()
    assert log.append([10])
    while not log.wal.prepare(1024)[1]:
        pass
    assert "reserve" in log.disk.list_names()
    assert log.crash()


def test_compaction_frees_a_full_disk() -> None:
    """decisions/log.md D7: it recovers by itself, without a restart."""
    log = begun_log()
    log.disk.plan(capacity_bytes=30_000)
    fill(log)
    assert log.compact(log.model.last)
    assert log.append([600]) and log.append([600])
    log.disk.plan()
    assert log.crash()


def test_an_install_on_a_full_disk_leaves_the_old_log_or_makes_the_new_one() -> None:
    """decisions/log.md D11: NO_SPACE in wal_begin changes nothing."""
    log = begun_log()
    log.disk.plan(no_space_at_write=1)
    assert log.wal.begin((50, 3, 9), (3, 0, 50), b"m") == Status.NO_SPACE
    log.disk.plan()
    assert log.append([10], hard_state=(2, 2, 1))
    assert log.crash()
    while not log.wal.prepare(1024)[1]:
        pass
    log.disk.plan(no_space_at_write=1)
    assert log.begin((50, 3, 9), (3, 0, 50))
    assert log.append([], hard_state=(4, 0, 50)) or log.wal is None
    log.disk.plan()
    assert log.crash()


def test_a_log_begins_as_soon_as_a_full_disk_has_room() -> None:
    """decisions/log.md D7: a refused beginning leaves nothing half done, wherever the room ended."""
    begun = []
    for capacity_bytes in range(0, 14_000, 500):
        disk = SimulatedDisk()
        wal = WalHandle(disk, **LIMITS)
        assert wal.open().state == WalState.WAL_BLANK
        disk.plan(capacity_bytes=max(capacity_bytes, 1))
        begun.append(wal.begin(hard_state=(1, 0, 0)))
        disk.plan()
        if begun[-1] != Status.OK:
            assert begun[-1] == Status.NO_SPACE
            assert not [name for name in disk.list_names() if name.endswith(".log")]
            assert wal.begin(hard_state=(1, 0, 0)) == Status.OK
        assert wal.append(1, [make_record(1, 1, b"x")[0]]) == Status.OK
        wal.close()
        assert WalHandle(disk, **LIMITS).open().last == 1
    assert set(begun) == {Status.NO_SPACE, Status.OK}


def test_the_power_may_fail_again_while_the_log_is_opened() -> None:
    """D11: recovery itself is interrupted at every write and sync, and still tells the same story."""
    for seed in range(12):
        for fault in ("cut_at_sync", "cut_at_write"):
            for moment in range(1, 8):
                disk = SimulatedDisk(seed=seed)
                log = LogDriver(disk, LIMITS)
                assert log.open() is not None and log.begin()
                for _ in range(6):
                    assert log.append([700])
                disk.plan(cut_at_sync=2 + seed % 3)
                while log.append([500, 500], hard_state=(3, 1, 0)) and log.compact(5):
                    pass
                disk.plan(**{fault: moment})
                log.crash()
                disk.plan()
                assert log.crash()
                assert log.append([5])


def test_a_later_format_is_refused_and_left_alone() -> None:
    """A downgrade finds a version it does not know, sound by its checksum: NEWER_FORMAT, nothing written."""
    log = begun_log()
    log.wal.close()
    log.wal = None
    log.disk.reopen()
    image = bytearray(log.disk.durable("0000000000000001.log"))
    image[8] = 3  # 2: of an encrypted segment
    image[4:8] = crc32c(bytes(image[8 : int.from_bytes(image[12:16], "little")])).to_bytes(4, "little")
    file = log.disk.open("0000000000000001.log")
    log.disk.write(file, 0, bytes(image))
    log.disk.close_file(file)
    writes = log.disk.counters["writes"]
    assert WalHandle(log.disk, **LIMITS).open().status == Status.NEWER_FORMAT
    assert log.disk.counters["writes"] == writes


def crc32c(data: bytes) -> int:
    """CRC-32C bit by bit, as RFC 3720 defines it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_the_mark_is_synced_when_nothing_is_written() -> None:
    """After wal_idle a power cut leaves a mark that covers the last batch: damage is never taken for a torn tail."""
    log = begun_log()
    assert log.append([10]) and log.idle()
    log.wal.close()
    log.wal = None
    log.disk.crash()
    end = log.disk.durable("0000000000000001.log").rstrip(b"\0")
    log.disk.zero("0000000000000001.log", (len(end) - 1) // 512 * 512, 512)
    opened = WalHandle(log.disk, **LIMITS).open()
    assert opened.state == WalState.WAL_DAMAGED and opened.damaged == [(3, log.model.point(3)[2])]


@pytest.mark.parametrize("failure", ["fail_at_sync", "fail_at_write"])
@pytest.mark.parametrize("loss", ["lose_at_write", "misdirect_at_write"])
def test_a_lost_last_batch_is_known_when_the_disk_then_fails(loss: str, failure: str) -> None:
    """decisions/log.md D4, D5: the mark alone knows of the last batch, and a failed sync may drop the mark.

    Init: the disk loses a batch and reports success, so the batch is acknowledged. Act: the next write or sync of the
    log or of its mark fails, the log stops, the process starts again. Check: the batch is named as damaged, or the log
    as lost.
    """
    for calls in range(1, 4):
        log = begun_log()
        log.disk.plan(**{loss: 2}, misdirect_by=6 * 512)  # the first write is the mark, which goes ahead
        assert log.append([10])
        log.disk.plan(**{failure: calls})
        record = next_record(log, 50)
        assert Status.DISK_FAILED in (log.wal.idle(), log.wal.append(4, [record]), log.wal.idle())
        log.disk.plan()
        log.wal.close()
        log.wal = None
        log.disk.reopen()
        opened = WalHandle(log.disk, **LIMITS).open()
        if opened.state == WalState.WAL_DAMAGED:
            assert opened.damaged == [(3, log.model.point(3)[2])] and opened.last in (3, 4)
        else:
            assert opened.state == WalState.WAL_TAIL_LOST
