"""A medium that lies: flipped bits, zeroed and misdirected sectors, lost writes, vanished files (D2, D3, D4, D10).

Whatever happens to one place of one file: no wrong record is shown, and no acknowledged one goes missing silently.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.faces.disk import SimulatedDisk
from tests.faces.storage import OpenedLog, WalHandle, record_fields
from tests.storage.driver import LogDriver, LogModel
from tests.storage.names import Status, WalState

pytestmark = pytest.mark.usefixtures("each_encryption")

SECTOR = 512
LIMITS = {"segment_bytes": 5120, "alignment_bytes": SECTOR}
FIRST, SECOND = "0000000000000001.log", "0000000000000002.log"


def small_log(*, segments: int = 1) -> LogDriver:
    """A log with hard states, conflicts and batches of one and of several sectors, over one or two segments."""
    log = LogDriver(SimulatedDisk(), LIMITS)
    assert log.open() is not None and log.begin()
    assert log.append([10]) and log.append([40, 40, 40], hard_state=(2, 5, 1))
    assert log.append([700], back=1) and log.append([], hard_state=(3, 6, 2))
    if segments == 2:
        assert log.append([900, 60]) and log.append([300, 300]) and log.append([80], back=1)
    assert log.append([30, 30])
    log.wal.close()
    log.wal = None
    log.disk.reopen()
    assert [name for name in log.disk.list_names() if name.endswith(".log")] == [FIRST, SECOND][:segments]
    return log


def open_copy(disk: SimulatedDisk) -> OpenedLog:
    return WalHandle(disk, **LIMITS).open()


def check_honest(opened: OpenedLog, model: LogModel) -> None:
    """All of the log is accounted for: each record is right, or named with the hash that the right one has."""
    assert opened.status == Status.OK
    assert opened.state in (WalState.WAL_CLEAN, WalState.WAL_DAMAGED)
    assert opened.hard_state == model.hard_state
    assert (opened.first, opened.last) == (model.start[0] + 1, model.last)
    chains = {}
    for record in opened.records:
        index, _, chain, _ = record_fields(record)
        assert record == model.records[index - model.start[0] - 1]
        chains[index] = chain
    for index, chain in opened.damaged:
        assert index not in chains
        chains[index] = chain
    assert chains == {index: model.point(index)[2] for index in range(opened.first, opened.last + 1)}
    assert (opened.state == WalState.WAL_DAMAGED) == bool(opened.damaged)


def check_never_wrong(opened: OpenedLog, model: LogModel) -> None:
    """As check_honest, or the log says that it cannot be used."""
    if opened.state == WalState.WAL_TAIL_LOST:
        assert not opened.records
        return
    check_honest(opened, model)


@pytest.mark.parametrize("name", [FIRST, "mark"])
def test_every_flipped_bit_is_harmless_or_names_the_damaged_records(name: str) -> None:
    """decisions/log.md D3: exhaustive over one segment and the mark, at rest."""
    log = small_log()
    damaged = 0
    for offset in range(len(log.disk.durable(name))):
        for bit in range(8):
            disk = log.disk.copy()
            assert disk.flip(name, offset, 1 << bit) == Status.OK
            opened = open_copy(disk)
            check_honest(opened, log.model)
            damaged += len(opened.damaged)
    assert (damaged > 1000) == (name == FIRST)


@pytest.mark.parametrize("name", [FIRST, SECOND, "mark"])
def test_every_zeroed_sector_is_harmless_or_names_the_damaged_records(name: str) -> None:
    """decisions/log.md D3: also a sector that held a whole batch, header and hashes included."""
    log = small_log(segments=2)
    damaged = set()
    for offset in range(0, len(log.disk.durable(name)), SECTOR):
        disk = log.disk.copy()
        assert disk.zero(name, offset, SECTOR) == Status.OK
        opened = open_copy(disk)
        check_honest(opened, log.model)
        damaged.update(index for index, _ in opened.damaged)
    assert bool(damaged) == (name != "mark")


def test_damage_is_found_again_by_the_next_open() -> None:
    """Opening changes nothing that matters: the second answer is the first one."""
    log = small_log(segments=2)
    for name in (FIRST, SECOND):
        for offset in range(0, len(log.disk.durable(name)), SECTOR):
            disk = log.disk.copy()
            disk.zero(name, offset, SECTOR)
            once = open_copy(disk)
            disk.crash()
            twice = open_copy(disk)
            assert (once.state, once.records, once.damaged) == (twice.state, twice.records, twice.damaged)


def random_log(draw: random.Random) -> LogDriver:
    """A log after a random life: conflicts, rolls, spares, compaction, restarts and repairs of sound records."""
    limits = {"segment_bytes": draw.choice([4096, 8192]), "reserve_bytes": draw.choice([0, 4096])}
    log = LogDriver(SimulatedDisk(seed=draw.randrange(1000)), limits | {"alignment_bytes": SECTOR})
    assert log.open() is not None and log.begin()
    for _ in range(draw.randint(3, 25)):
        model = log.model
        kind = draw.choice(["append"] * 5 + ["vote", "compact", "prepare", "kill", "repair"])
        if kind == "append":
            sizes = [draw.choice([0, 10, 200, 700, 1500]) for _ in range(draw.randint(1, 6))]
            assert log.append(sizes, back=draw.choice([0, 0, 0, 1, 2]))
        elif kind == "vote":
            assert log.append([], hard_state=(model.hard_state[0] + 1, draw.randint(0, 3), model.compacted))
        elif kind == "compact":
            assert log.compact(draw.randint(0, max(1, model.last)))
        elif kind == "prepare":
            assert log.prepare(4000)
        elif kind == "kill":
            assert log.kill()
        elif model.last > model.compacted:
            index = draw.randint(model.compacted + 1, model.last)
            record = model.records[index - model.start[0] - 1]
            assert log.wal.append(index, [record], repairs=True) == Status.OK
    return log


def test_one_damaged_place_of_any_log_is_harmless_or_names_the_damaged_records() -> None:
    """decisions/log.md D3 over random logs: no single bit or sector makes a record nameless."""
    states = set()
    for seed in range(150):
        draw = random.Random(seed)
        log = random_log(draw)
        opened = log.open()
        assert opened is not None
        model = replace(log.model, start=opened.start, records=tuple(opened.records))
        log.wal.close()
        log.disk.reopen()
        for _ in range(10):
            disk = log.disk.copy()
            name = draw.choice([name for name in disk.list_names() if name not in ("spare", "reserve")])
            size_bytes = len(disk.durable(name))
            if draw.random() < 0.5:
                disk.zero(name, draw.randrange(0, size_bytes, SECTOR), SECTOR)
            else:
                disk.flip(name, draw.randrange(size_bytes), 1 << draw.randrange(8))
            found = WalHandle(disk, **log.limits).open()
            check_honest(found, model)
            states.add(found.state)
    assert states == {WalState.WAL_CLEAN, WalState.WAL_DAMAGED}


@pytest.mark.parametrize("name", [FIRST, SECOND, "mark"])
def test_every_truncation_is_noticed(name: str) -> None:
    """A file that lost its end: what is missing is named, or the whole log is declared lost."""
    log = small_log(segments=2)
    for size_bytes in range(0, len(log.disk.durable(name)), 8):
        disk = log.disk.copy()
        assert disk.cut_file(name, size_bytes) == Status.OK
        check_never_wrong(open_copy(disk), log.model)


def test_a_vanished_segment_is_noticed() -> None:
    """decisions/log.md D10: the last one by the mark, one in the middle by its neighbours, the first by its start."""
    log = small_log(segments=2)
    disk = log.disk.copy()
    assert disk.forget(SECOND) == Status.OK
    assert open_copy(disk).state == WalState.WAL_TAIL_LOST
    disk = log.disk.copy()
    assert disk.forget(FIRST) == Status.OK
    opened = open_copy(disk)
    assert opened.start[0] > log.model.start[0] and opened.last == log.model.last
    assert all(record in log.model.records for record in opened.records)
    disk = log.disk.copy()
    assert disk.forget(FIRST) == Status.OK and disk.forget(SECOND) == Status.OK
    assert open_copy(disk).state == WalState.WAL_TAIL_LOST


def test_a_vanished_segment_in_the_middle_is_noticed() -> None:
    """decisions/log.md D10: the numbers of its neighbours do not follow each other."""
    log = small_log(segments=2)
    assert log.open() is not None
    assert log.append([3000])
    log.wal.close()
    log.wal = None
    assert log.disk.forget(SECOND) == Status.OK
    assert open_copy(log.disk).state == WalState.WAL_TAIL_LOST


def test_a_vanished_mark_is_harmless_to_a_whole_log() -> None:
    """The mark only matters when the tail is in doubt."""
    log = small_log(segments=2)
    assert log.disk.forget("mark") == Status.OK
    check_honest(open_copy(log.disk), log.model)


def test_a_segment_under_a_foreign_number_is_not_read() -> None:
    """decisions/log.md D10: a file that was copied or renamed says its own number."""
    log = small_log(segments=2)
    image = log.disk.durable(FIRST)
    file = log.disk.open("0000000000000003.log", create=True)
    log.disk.write(file, 0, image)
    log.disk.close_file(file)
    check_never_wrong(open_copy(log.disk), log.model)


def test_a_segment_of_another_incarnation_is_refused() -> None:
    """decisions/log.md D12: swapped disks; nothing is written."""
    disk = SimulatedDisk()
    wal = WalHandle(disk, **LIMITS, owner=7)
    assert wal.open().state == WalState.WAL_BLANK
    assert wal.begin() == Status.OK
    wal.close()
    before = disk.counters["writes"]
    assert WalHandle(disk, **LIMITS, owner=8).open().status == Status.FOREIGN_NODE
    assert disk.counters["writes"] == before
    assert WalHandle(disk, **LIMITS, owner=7).open().status == Status.OK


def test_a_log_without_a_sound_header_is_lost_and_left_alone() -> None:
    """decisions/log.md "A lost log": to refuse it would stop a node that its cluster can well replace."""
    log = small_log()
    log.disk.zero(FIRST, 0, 2 * SECTOR)
    before = log.disk.counters["writes"]
    wal = WalHandle(log.disk, **LIMITS)
    assert (wal.open().state, log.disk.counters["writes"]) == (WalState.WAL_TAIL_LOST, before)
    assert wal.begin((0, 0, 0), (0, 0, 0)) == Status.OK
    wal.close()
    assert open_copy(log.disk).state == WalState.WAL_CLEAN


def test_a_damaged_copy_of_a_header_is_written_anew() -> None:
    """Else two flipped bits, months apart, would cost the log."""
    log = small_log(segments=2)
    for name in (FIRST, SECOND):
        image = log.disk.durable(name)
        for copy in (0, 1, 1, 0):
            log.disk.flip(name, copy * SECTOR + 30, 1)
            check_honest(open_copy(log.disk), log.model)
            assert log.disk.durable(name)[: 2 * SECTOR] == image[: 2 * SECTOR]


def test_a_misdirected_header_is_written_where_it_belongs() -> None:
    """decisions/log.md D4: both copies landed behind, where they are found, and where the log's next batches go."""
    log = LogDriver(SimulatedDisk(), LIMITS)
    assert log.open() is not None and log.begin() and log.append([3000])
    log.disk.plan(misdirect_at_write=1, misdirect_by=6 * SECTOR)
    assert log.append([900])
    log.disk.plan()
    image = log.disk.durable(SECOND)
    header = image[6 * SECTOR : 8 * SECTOR]
    assert image[: 2 * SECTOR] == bytes(2 * SECTOR) and header.startswith(b"RGMG")
    assert log.kill()
    assert log.disk.durable(SECOND)[: 2 * SECTOR] == header
    for _ in range(3):
        assert log.append([300])
    assert log.disk.durable(SECOND)[6 * SECTOR : 8 * SECTOR] != header
    assert log.crash()


@pytest.mark.parametrize("loss", ["headers", "hole", "segments", "nothing"])
def test_a_new_incarnation_begins_its_log_over_the_former_ones_at_any_power_cut(loss: str) -> None:
    """decisions/log.md "A lost log": void until the new log stands, then the new log alone; never a mixture."""
    seen = set()
    for seed in range(12):
        for moment in range(1, 14):
            disk = SimulatedDisk(seed=seed)
            log = LogDriver(disk, {**LIMITS, "owner": 7})
            assert log.open() is not None and log.begin()
            assert log.append([700] * 3) and log.append([900] * 3) and log.append([10])
            log.wal.close()
            if loss == "headers":
                disk.zero(FIRST, 0, 2 * SECTOR)
            elif loss == "hole":
                disk.zero(FIRST, 2 * SECTOR, 6 * SECTOR)
            elif loss == "segments":
                disk.forget(FIRST)
            former = WalHandle(disk, **LIMITS, owner=8, void_owner=7)
            assert former.open().state == WalState.WAL_VOID
            disk.plan(cut_at_sync=moment, cut_after_sync=seed % 2)
            status = former.begin((0, 0, 0), (1, 0, 0), b"m")
            former.close()
            disk.plan()
            disk.crash()
            again = WalHandle(disk, **LIMITS, owner=8, void_owner=7)
            opened = again.open()
            assert opened.status == Status.OK
            assert opened.state == WalState.WAL_CLEAN or status == Status.POWER_CUT
            if opened.state == WalState.WAL_VOID:
                assert again.begin((0, 0, 0), (1, 0, 0), b"m") == Status.OK
            else:
                assert (opened.state, opened.first, opened.last) == (WalState.WAL_CLEAN, 1, 0)
                assert (opened.hard_state, opened.membership) == ((1, 0, 0), b"m")
            seen.add((status, opened.state))
            again.close()
            assert WalHandle(disk, **LIMITS, owner=9).open().status == Status.FOREIGN_NODE
            last = WalHandle(disk, **LIMITS, owner=8)
            assert last.open().state == WalState.WAL_CLEAN
    assert {(Status.POWER_CUT, WalState.WAL_VOID), (Status.OK, WalState.WAL_CLEAN)} <= seen


@pytest.mark.parametrize("fault", ["lose_at_write", "misdirect_at_write"])
def test_a_lost_or_misdirected_write_names_the_damaged_records(fault: str) -> None:
    """decisions/log.md D4: a batch that was reported written and stands nowhere, or over another one."""
    for moment in range(1, 12):
        log = LogDriver(SimulatedDisk(), LIMITS)
        assert log.open() is not None and log.begin()
        assert log.append([10]) and log.append([20, 30]) and log.append([30]) and log.append([10, 30])
        log.disk.plan(**{fault: moment}, misdirect_by=-2 * SECTOR)
        assert log.append([100]) and log.append([20, 30], hard_state=(4, 4, 0)) and log.append([900])
        assert log.append([100]) and log.append([20, 30])
        log.wal.close()
        log.wal = None
        log.disk.reopen()
        check_never_wrong(open_copy(log.disk), log.model)


def test_a_torn_batch_that_the_mark_covers_is_damage_not_a_tail() -> None:
    """decisions/log.md D2: only what nobody can have claimed is cut."""
    log = small_log()
    end = log.disk.durable(FIRST).rstrip(b"\0")
    last_sector = (len(end) - 1) // SECTOR * SECTOR
    log.disk.zero(FIRST, last_sector, SECTOR)
    opened = open_copy(log.disk)
    assert opened.state == WalState.WAL_DAMAGED
    check_honest(opened, log.model)


def put(disk: SimulatedDisk, name: str, image: bytes) -> None:
    file = disk.open(name)
    disk.write(file, 0, image)
    disk.sync(file)
    disk.close_file(file)


def long_log(batches: int) -> tuple[LogDriver, dict[int, bytes]]:
    """A log of one-sector batches in one prepared segment, and the mark that a power cut after each would leave."""
    log = LogDriver(SimulatedDisk(), {"segment_bytes": 64 * SECTOR, "alignment_bytes": SECTOR})
    assert log.open() is not None and log.begin() and log.prepare(1 << 20)
    marks = {}
    for batch in range(1, batches + 1):
        assert log.append([10])
        marks[batch] = log.disk.durable("mark")
    log.wal.close()
    log.wal = None
    log.disk.reopen()
    return log, marks


def header_of(batch: int) -> int:
    """Where the batch of long_log begins: behind the two copies of the segment's header."""
    return (2 + batch - 1) * SECTOR


def check_hole(log: LogDriver, mark: bytes, lost: int) -> None:
    """With this mark and one header destroyed, exactly that batch's record is damaged."""
    disk = log.disk.copy()
    put(disk, "mark", mark)
    disk.zero(FIRST, header_of(lost), SECTOR)
    opened = WalHandle(disk, **log.limits).open()
    assert [index for index, _ in opened.damaged] == [lost]
    check_honest(opened, log.model)


@pytest.mark.parametrize("batches", range(8, 21))
def test_what_stands_behind_a_hole_is_found_with_the_mark_of_a_power_cut(batches: int) -> None:
    """decisions/log.md "What an open reads": the mark is some batches old, and the medium has destroyed one header. The
    batches behind the hole, which may have been acknowledged, must not be taken for the room that is not read."""
    log, marks = long_log(batches)
    for lost in range(1, batches):
        check_hole(log, marks[batches], lost)


def test_an_older_mark_that_rules_by_damage_hides_nothing() -> None:
    """The newer slot is gone: the older one says how far batches went long ago. With a slot that is not sound, or a
    batch behind what the only one says, all of the segment is searched."""
    log, marks = long_log(20)
    for seen in range(1, 19):
        mark = marks[seen]
        newer = 0 if mark[16:24] < mark[4112:4120] else 4096
        for lost in range(seen + 1, 20):
            check_hole(log, mark[:newer] + b"\xff" * 4096 + mark[newer + 4096 :], lost)
        for lost in range(seen + 6, 20):  # four sectors of reach, and one batch behind them
            check_hole(log, mark, lost)


def test_a_torn_batch_without_any_mark_is_never_cut() -> None:
    """The mark's synced slot survives every crash: without one, nobody knows what was acknowledged."""
    log = small_log()
    end = log.disk.durable(FIRST).rstrip(b"\0")
    log.disk.zero(FIRST, (len(end) - 1) // SECTOR * SECTOR + 300, 100)
    log.disk.zero("mark", 0, 2 * 4096)
    check_honest(open_copy(log.disk), log.model)


def test_hard_state_lost_in_both_places_is_the_end_of_this_incarnation() -> None:
    """The node must join anew; only wal_begin is accepted."""
    log = small_log()
    log.disk.zero(FIRST, 2 * SECTOR, 6 * SECTOR)
    log.disk.zero("mark", 0, 2 * 4096)
    wal = WalHandle(log.disk, **LIMITS)
    opened = wal.open()
    assert (opened.status, opened.state) == (Status.OK, WalState.WAL_TAIL_LOST)
    assert wal.append(1, [], hard_state=(1, 1, 1)) == Status.INVARIANT_BROKEN
    assert wal.begin((9, 2, 5), (4, 0, 9)) == Status.OK
    wal.close()
    assert WalHandle(log.disk, **LIMITS).open().start == (9, 2, 5)
