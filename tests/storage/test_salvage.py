"""Salvage: what can be read of a log that nobody goes on with (storage/salvage), by the dictionary that wrote it."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from raftmeta.face.stopped_log import Point, StoppedLog, follow
from tests.faces.disk import SimulatedDisk
from tests.faces.storage import record_fields
from tests.storage.driver import LogDriver, LogModel
from tests.storage.names import Status

pytestmark = pytest.mark.usefixtures("each_encryption")

SECTOR = 512
LIMITS = {"segment_bytes": 5120, "alignment_bytes": SECTOR}
Files = dict[str, bytes]


def lived_log(seed: int, steps: int = 30) -> LogDriver:
    """A log over several segments, with conflicts, compaction, kills and a commit index that is never taken back."""
    drawn = random.Random(seed)
    log = LogDriver(SimulatedDisk(seed=seed), LIMITS)
    assert log.open() is not None and log.begin()
    for _ in range(steps):
        term, _, committed = log.model.hard_state
        last = log.model.last
        back = drawn.randint(0, min(4, last - max(committed, log.model.compacted)))
        hard_state = (term + (back > 0), 0, drawn.randint(committed, last - back)) if drawn.random() < 0.6 else None
        assert log.append([drawn.choice((10, 60, 400)) for _ in range(drawn.randint(1, 5))], back=back,
                          hard_state=hard_state)  # fmt: skip
        if drawn.random() < 0.1:
            assert log.compact(log.model.hard_state[2])
        if drawn.random() < 0.1:
            assert log.idle()
        if drawn.random() < 0.1:
            assert log.kill()
    assert log.idle()  # the mark claims all of it
    log.wal.close()
    log.wal = None
    log.disk.reopen()
    return log


def files_of(log: LogDriver) -> Files:
    return {
        name: bytes(log.disk.durable(name)) for name in log.disk.list_names() if name.endswith(".log") or name == "mark"
    }


def salvaged(files: Files) -> StoppedLog:
    log = StoppedLog(
        [(int(name[:16], 16), content) for name, content in files.items() if name.endswith(".log")],
        files.get("mark", b""),
        keys=SimulatedDisk().key_ring,
    )
    assert log.status == Status.OK
    return log


def wanted(model: LogModel, index: int) -> bytes:
    """The record of index as it was written, without its padding."""
    record = model.records[index - model.start[0] - 1]
    return record[: 64 + len(record_fields(record)[3])]


def check_whole(log: StoppedLog, model: LogModel) -> None:
    assert log.last == model.last and log.lost_batches == 0
    assert log.start == model.point(log.start[0])
    for index in range(log.start[0] + 1, model.last + 1):
        assert log.record(index) == wanted(model, index)
    assert follow([log], log.start).point == model.point(model.last)


def check_truthful(log: StoppedLog, model: LogModel, from_point: Point) -> Point:
    """Nothing wrong is shown as committed, and all that is reached was written so; the end that is reached."""
    end = follow([log], from_point).point
    certain = min(end[0], log.committed)
    for index in range(from_point[0] + 1, certain + 1):
        assert log.record(index) == wanted(model, index)
    if certain > from_point[0]:
        assert follow([log], from_point, until=certain).point == model.point(certain)
    return end


@pytest.mark.parametrize("seed", range(20))
def test_a_sound_log_is_read_whole(seed: int) -> None:
    log = lived_log(seed)
    found = salvaged(files_of(log))
    check_whole(found, log.model)
    assert found.committed == log.model.hard_state[2]


def zeroed(files: Files) -> Iterator[tuple[str, int, Files]]:
    for name, content in files.items():
        for offset in range(0, len(content), SECTOR):
            yield name, offset, {**files, name: content[:offset] + bytes(SECTOR) + content[offset + SECTOR :]}


@pytest.mark.parametrize("seed", range(6))
def test_one_lost_sector_costs_the_records_in_it_and_no_others(seed: int) -> None:
    """A sector that held a whole batch, too: the batch behind it, or the mark, says what it was."""
    log = lived_log(seed, steps=14)
    model = log.model
    hit = 0
    for name, offset, files in zeroed(files_of(log)):
        found = salvaged(files)
        check_truthful(found, model, found.start)
        assert found.lost_batches == 0, (name, offset)
        assert found.last == model.last, (name, offset)
        for index in range(found.start[0] + 1, model.last + 1):
            chain, is_whole = found.chain(index)
            assert chain == model.point(index)[2], (name, offset, index)
            hit += not is_whole
            assert not is_whole or found.record(index) == wanted(model, index)
    assert hit


@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_damaged_what_is_called_committed_is_right(seed: int) -> None:
    """Sectors zeroed in several places, files cut or gone: then entries that were superseded may show again, for what
    superseded them is gone, but never below the commit index that is believed."""
    log = lived_log(seed)
    model = log.model
    drawn = random.Random(seed)
    for _ in range(60):
        files = files_of(log)
        for _ in range(drawn.randint(1, 6)):
            name = drawn.choice(sorted(files))
            offset = drawn.randrange(0, len(files[name]) + 1, SECTOR)
            kind = drawn.random()
            if kind < 0.7:
                files[name] = files[name][:offset] + bytes(SECTOR) + files[name][offset + SECTOR :]
            elif kind < 0.9:
                files[name] = files[name][:offset]
            elif len(files) > 1:
                del files[name]
        check_truthful(salvaged(files), model, log.model.start)
        found = salvaged(files)
        if found.start[0] > model.start[0]:  # what a checkpoint leads to
            check_truthful(found, model, model.point(min(found.start[0] + 1, model.last)))


def test_a_cut_tail_is_read_up_to_the_cut() -> None:
    """The mark of the whole log tells that more was acknowledged."""
    log = lived_log(1)
    files = files_of(log)
    last = max(name for name in files if name.endswith(".log"))
    ends = []
    for length in range(len(files[last]), 0, -SECTOR):
        found = salvaged({**files, last: files[last][:length]})
        ends.append(follow([found], found.start).point[0])
        assert ends[-1] <= log.model.last
        assert found.lost_batches or ends[-1] == log.model.last or not found.chain(ends[-1] + 1)[1]
    assert ends == sorted(ends, reverse=True) and ends[0] == log.model.last > ends[-1]


def test_two_logs_mend_each_other() -> None:
    """A record that is damaged in one is taken from the other if it has the hash that is wanted."""
    log = lived_log(3)
    whole = files_of(log)
    names = sorted(name for name in whole if name.endswith(".log"))
    assert len(names) > 2
    cut = salvaged({**whole, names[-1]: whole[names[-1]][:1536]})
    assert follow([cut], cut.start).point[0] < log.model.last
    mended = 0
    for name, _, files in zeroed(whole):
        holed = salvaged(files)
        if name == names[-1] or follow([holed], holed.start).point[0] == log.model.last:
            continue
        for logs in ([holed, cut], [cut, holed]):
            assert follow(logs, holed.start).point == log.model.point(log.model.last)
        mended += 1
    assert mended > 2
