"""The log as its caller sees it: append, supersede, read back, compact, repair, install."""

from __future__ import annotations

import pytest

from raftmeta.security.cipher_handle import KeyRingHandle
from tests.faces.disk import SimulatedDisk
from tests.faces.storage import WalHandle, make_record, record_fields
from tests.storage.driver import LogDriver
from tests.storage.names import Status, WalState

pytestmark = pytest.mark.usefixtures("each_encryption")

LIMITS = {"segment_bytes": 4096, "alignment_bytes": 512}


def begun_log(**limits: int) -> LogDriver:
    log = LogDriver(SimulatedDisk(), LIMITS | limits)
    assert log.open() is not None and log.begin()
    return log


def segments_of(log: LogDriver) -> list[str]:
    return [name for name in log.disk.list_names() if name.endswith(".log")]


def live_records(log: LogDriver, bytes_max: int = 4096) -> list[bytes]:
    """All records that were not compacted, read back through wal_read."""
    found: list[bytes] = []
    index = max(log.model.start[0], log.model.compacted) + 1
    while index <= log.model.last:
        status, records = log.wal.read(index, bytes_max)
        assert status == Status.OK and records
        found += records
        index += len(records)
    return found


def test_a_new_folder_is_blank_and_takes_nothing_before_begin() -> None:
    """Only a founded or installed log has a place to write to."""
    log = LogDriver(SimulatedDisk(), LIMITS)
    opened = log.open()
    assert opened is not None and opened.state == WalState.WAL_BLANK
    assert log.wal.append(1, [], hard_state=(1, 0, 0)) == Status.INVARIANT_BROKEN
    assert log.disk.list_names() == []


def test_records_come_back_as_the_same_bytes() -> None:
    """A record is never changed: what the leader made stands in every log (docs/formats.md "Record")."""
    log = begun_log()
    for sizes in ([1], [2, 3, 4], [1000], [0], [5000, 1], [7] * 40):
        assert log.append(sizes)
    assert live_records(log) == list(log.model.records)
    assert log.crash()
    assert live_records(log) == list(log.model.records)


@pytest.mark.parametrize("bytes_max", [0, 64, 200, 1000, 100_000])
def test_read_gives_at_least_one_record_and_no_more_than_asked(bytes_max: int) -> None:
    """Catch-up reads are bounded by bytes; one record that is larger still gets through."""
    log = begun_log()
    for sizes in ([10, 20, 30], [500], [1, 2], [900]):
        assert log.append(sizes)
    for index in range(1, log.model.last + 1):
        status, records = log.wal.read(index, bytes_max)
        assert status == Status.OK
        assert records[0] == log.model.records[index - 1]
        assert len(records) == 1 or sum(map(len, records)) <= bytes_max
        assert tuple(records) == log.model.records[index - 1 : index - 1 + len(records)]
    if bytes_max == 100_000:
        assert log.wal.read(1, bytes_max)[1] == list(log.model.records)


def test_reading_outside_the_log_finds_nothing() -> None:
    """Compacted entries and those to come are NOT_FOUND; the caller sends a snapshot or waits."""
    log = begun_log()
    assert log.append([10])
    assert log.wal.read(0)[0] == Status.NOT_FOUND
    assert log.wal.read(2)[0] == Status.NOT_FOUND


def test_a_lower_index_supersedes_everything_above() -> None:
    """paper 5.3: an existing entry that conflicts with a new one goes, and all that follow it."""
    log = begun_log()
    assert log.append([10] * 6)
    assert log.append([20], back=4)
    assert log.model.last == 3
    assert live_records(log) == list(log.model.records)
    assert log.kill() and log.crash()
    assert live_records(log) == list(log.model.records)


def test_a_hard_state_without_records_is_durable() -> None:
    """paper Figure 2: term and vote are on stable storage before the answer leaves."""
    log = begun_log()
    assert log.append([], hard_state=(5, 3, 0))
    assert log.crash()
    assert log.model.hard_state == (5, 3, 0)


def test_a_batch_that_does_not_continue_the_log_is_refused() -> None:
    """A hole, records that do not follow each other, a wrong last index: the caller is broken, the log is not."""
    log = begun_log()
    assert log.append([10, 10])
    first, chain = make_record(3, 1, b"x", previous_chain=log.model.chain_before(3))
    second, _ = make_record(5, 1, b"x", previous_chain=chain)
    for attempt in (
        log.wal.append(4, [make_record(4, 1, b"x")[0]]),
        log.wal.append(3, [first, second]),
        log.wal.append(3, [first], last=4),
        log.wal.append(3, [first[:-8]]),
        log.wal.append(0, [make_record(0, 1, b"x")[0]]),
    ):
        assert attempt == Status.INVARIANT_BROKEN
    assert log.append([10])
    assert log.crash()


def test_compaction_removes_whole_segments_and_keeps_the_rest_readable() -> None:
    """Segments go when all their entries are below the point; a header says what is left."""
    log = begun_log()
    for _ in range(30):
        assert log.append([400])
    names = len(segments_of(log))
    assert log.compact(20)
    assert len(segments_of(log)) < names
    opened = log.open()
    assert opened is not None and 0 < opened.start[0] <= 20
    assert log.wal.read(opened.start[0])[0] == Status.NOT_FOUND
    assert log.wal.read(21)[1][0] == log.model.records[20]


def test_compaction_waits_for_a_segment_whose_successors_reach_below_it() -> None:
    """The header of the first segment kept says exactly what stood before it: no later batch may supersede that."""
    log = begun_log()
    for _ in range(10):
        assert log.append([400])
    assert log.append([400], back=6)
    assert log.compact(5)
    opened = log.open()
    assert opened is not None
    assert opened.start == log.model.point(opened.start[0])


def test_compacting_beyond_the_end_changes_nothing() -> None:
    log = begun_log()
    assert log.append([10])
    assert log.wal.compact((2, 1, 5)) == Status.STALE
    assert log.crash()


def test_a_removed_segment_is_used_again_without_reviving_its_batches() -> None:
    """decisions/log.md D2: stale sectors of a recycled file carry another uuid and number."""
    log = begun_log()
    for _ in range(40):
        assert log.append([300]) and log.prepare(8192)
        assert log.compact(log.model.last - 1)
    assert "spare" in log.disk.list_names()
    for _ in range(5):
        assert log.append([10])
        assert log.kill()
    assert live_records(log)[-1] == log.model.records[-1]


def test_zeros_ahead_are_synced_when_a_file_has_all_of_them() -> None:
    """A sync behind each step would record each growth of the file; nobody misses zeros that a power cut takes."""
    log = begun_log(segment_bytes=1 << 20)
    while not log.wal.prepare(8192)[1]:
        pass
    assert log.append([300_000, 300_000, 300_000]) and log.append([300_000])  # takes the spare
    syncs, writes = log.disk.counters["syncs"], log.disk.counters["writes"]
    while not log.wal.prepare(8192)[1]:
        pass
    assert log.disk.counters["writes"] - writes == (1 << 20) // 8192
    assert log.disk.counters["syncs"] - syncs == 1
    assert log.append([300_000]) and log.append([300_000]) and log.append([300_000])  # and the next one
    assert log.wal.prepare(8192)[0] == Status.OK
    assert log.crash()
    assert live_records(log) == list(log.model.records)


def test_an_install_begins_a_new_stream() -> None:
    """After a snapshot was installed the old entries are void, whatever files a crash leaves."""
    log = begun_log()
    for _ in range(10):
        assert log.append([400])
    assert log.begin((100, 9, 4242), (9, 1, 100))
    assert sum(name.endswith(".log") for name in log.disk.list_names()) == 1
    assert log.append([5])
    opened = log.open()
    assert opened is not None
    assert (opened.start, opened.first, opened.last) == ((100, 9, 4242), 101, 101)
    assert opened.membership == b"membership" * 5


def test_a_segment_header_carries_the_membership_in_force() -> None:
    """A restart after compaction knows its configuration from the first segment kept (thesis 4.1)."""
    log = begun_log()
    record, _ = make_record(1, 1, b"configuration")
    assert log.wal.append(1, [record], membership=b"newer", membership_index=1) == Status.OK
    log.model = log.model.written(1, [record])
    for _ in range(12):
        assert log.append([600])
    opened = log.open()
    assert opened is not None and (opened.membership, opened.membership_index) == (b"membership" * 5, 0)
    assert log.compact(12)
    opened = log.open()
    assert opened is not None and opened.start[0] > 1
    assert (opened.membership, opened.membership_index) == (b"newer", 1)


def test_a_repair_replaces_exactly_its_record(each_encryption: KeyRingHandle | None) -> None:
    """A damaged entry comes from a peer and is written again; what stands above it stays. Encrypted, it is a run."""
    lost = 1 if each_encryption is None else 2
    log = begun_log()
    for _ in range(4):
        assert log.append([200, 200])
    log.wal.close()
    log.wal = None
    log.disk.reopen()
    assert log.disk.flip("0000000000000001.log", 1024 + 400, 1) == Status.OK
    wal = WalHandle(log.disk, **LIMITS)
    opened = wal.open()
    assert opened.state == WalState.WAL_DAMAGED
    assert opened.damaged == [(index, log.model.point(index)[2]) for index in range(1, lost + 1)]
    assert wal.read(lost)[0] == Status.CORRUPT
    assert wal.read(lost + 1)[1][0] == log.model.records[lost]
    assert wal.append(1, list(log.model.records[:lost]), repairs=True) == Status.OK
    assert wal.read(lost)[1][0] == log.model.records[lost - 1]
    wal.close()
    assert log.crash()
    assert live_records(log) == list(log.model.records)


def test_a_record_that_rots_under_a_running_node_is_never_read_as_sound(
    each_encryption: KeyRingHandle | None,
) -> None:
    """Scrub and catch-up check every record again; a repair in the middle of a batch leaves its neighbours."""
    log = begun_log()
    assert log.append([100, 100, 100, 100])
    log.disk.flip("0000000000000001.log", 1024 + 192 + 4 * 8 + 168 + 70, 4)
    assert log.wal.read(2)[0] == Status.CORRUPT
    if each_encryption is None:
        status, records = log.wal.read(1)
        assert status == Status.OK and [record_fields(record)[0] for record in records] == [1]
        assert log.wal.append(2, [log.model.records[1]], repairs=True) == Status.OK
    else:  # all four are one run
        assert log.wal.read(1)[0] == Status.CORRUPT
        assert log.wal.append(1, list(log.model.records), repairs=True) == Status.OK
    assert live_records(log) == list(log.model.records)
    assert log.crash()


def test_superseding_a_damaged_record_heals_the_log() -> None:
    """A leader that overwrites the entry makes the old one meaningless (paper 5.3)."""
    log = begun_log()
    assert log.append([100]) and log.append([100]) and log.append([100])
    log.wal.close()
    log.wal = None
    log.disk.reopen()
    log.disk.zero("0000000000000001.log", 1024 + 512, 512)
    log.wal = WalHandle(log.disk, **LIMITS)
    assert log.wal.open().damaged == [(2, log.model.point(2)[2])]
    assert log.append([100], back=2)
    assert log.crash()


def test_write_ahead_of_the_log_limit_is_refused_but_urgent_batches_pass() -> None:
    """Votes, configuration and deletes must get through; NO_SPACE leaves the log as it was."""
    log = begun_log(log_bytes_max=3000)
    while log.wal.free_bytes() >= 1536:
        assert log.append([400])
    record, _ = make_record(
        log.model.last + 1, 1, b"x" * 900, previous_chain=log.model.chain_before(log.model.last + 1)
    )
    assert log.wal.append(log.model.last + 1, [record]) == Status.NO_SPACE
    assert log.wal.append(log.model.last + 1, [record], is_urgent=True) == Status.OK
    log.model = log.model.written(log.model.last + 1, [record])
    assert log.crash()
