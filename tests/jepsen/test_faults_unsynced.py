"""What is journaled of a process, and what a cut takes back of it: exactly that which no sync made durable."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from jepsen.faults.shim import Page
from jepsen.faults.unsynced import CAPACITY_BYTES, SECTOR_BYTES, Kind, Unsynced
from tests.processes.remote import RemoteProcess

BLOCK = 4096


# --- in the process under the shim ------------------------------------------------------------------------------------


def make_nothing() -> None:
    return None


def write(_: None, path: str, fill: str, blocks: int, first: int = 0, flags: int = 0, is_synced: bool = False) -> None:
    """Whole blocks of one letter from an aligned place, as the log writes them."""
    data = mmap.mmap(-1, blocks * BLOCK)
    data[:] = fill.encode() * (blocks * BLOCK)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o600)
    os.pwrite(descriptor, data, first * BLOCK)
    if is_synced:
        os.fdatasync(descriptor)
    os.close(descriptor)


def sync(_: None, path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def rename(_: None, source: str, target: str) -> None:
    os.rename(source, target)


def remove(_: None, path: str) -> None:
    os.unlink(path)


def make_folder(_: None, path: str) -> None:
    os.mkdir(path)


def shorten(_: None, path: str, size: int) -> None:
    descriptor = os.open(path, os.O_RDWR)
    os.ftruncate(descriptor, size)
    os.close(descriptor)


class Disk:
    """A process whose writes below `root` are journaled."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.root.mkdir()
        self.unsynced = Unsynced(folder / "journal", root=self.root, stash=folder / "stash")
        self.page = Page.make(folder / "page")
        self.page.keep_unsynced(self.unsynced.journal, self.root, folder / "stash")
        self.process = RemoteProcess(make_nothing, log=folder / "log", environment=self.page.environment())
        self.process.start()

    def durable(self, name: str, fill: str, blocks: int) -> Path:
        path = self.root / name
        self.process.call(write, str(path), fill, blocks, 0, 0, True)
        self.process.call(sync, str(self.root))
        return path

    def cut(self, seed: int | None = None) -> list[str]:
        self.process.kill()
        return self.unsynced.take_back(seed=seed)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path)
    yield made
    made.process.kill()


def letters(path: Path) -> str:
    """One for each block."""
    return path.read_bytes()[::BLOCK].decode()


@pytest.mark.parametrize("flags", [0, os.O_DIRECT], ids=["cached", "direct"])
def test_an_unsynced_write_is_taken_back(disk: Disk, flags: int) -> None:
    """Also one that went past the page cache; a synced one stays, and a file that grew is as short as before."""
    path = disk.durable("f", "a", 4)
    disk.process.call(write, str(path), "b", 1, 1, flags, True)
    disk.process.call(write, str(path), "c", 1, 2, flags)
    disk.process.call(write, str(path), "d", 2, 4, flags)
    assert letters(path) == "abcadd"
    assert disk.cut()
    assert letters(path) == "abaa"
    assert list(disk.unsynced.records()) == []


def test_a_write_that_is_a_sync_stays(disk: Disk) -> None:
    """O_DSYNC, by which LMDB commits: that write stays, and an older one below it does not come back."""
    path = disk.durable("f", "a", 3)
    disk.process.call(write, str(path), "b", 2)
    disk.process.call(write, str(path), "c", 1, 1, os.O_DSYNC)
    disk.cut()
    assert letters(path) == "aca"


def test_swapped_syncs_make_the_other_file_durable(disk: Disk) -> None:
    """Two files are mistaken for each other: what was written behind the other's sync is taken back."""
    one, other = disk.durable("one", "a", 2), disk.durable("other", "b", 2)
    disk.page.swap("/root*/one", "/root*/other")
    disk.process.call(write, str(one), "c", 1, 0, 0, True)  # the other was not met yet: nothing is synced
    disk.process.call(write, str(other), "d", 1, 0, os.O_DSYNC)  # is no sync; one is synced instead
    disk.process.call(write, str(one), "e", 1, 1, 0, True)  # the other is synced
    disk.process.call(write, str(other), "f", 1, 1)
    disk.cut()
    assert (letters(one), letters(other)) == ("ca", "db")


def test_names_last_by_the_sync_of_their_folder(disk: Disk) -> None:
    """A file that was made, renamed over another, or removed, and a folder; the sync of a file is none of its name."""
    kept, replaced, removed = (
        disk.durable("kept", "a", 1),
        disk.durable("replaced", "b", 1),
        disk.durable("removed", "c", 1),
    )
    disk.process.call(write, str(disk.root / "made"), "d", 1, 0, 0, True)
    disk.process.call(rename, str(kept), str(replaced))
    disk.process.call(remove, str(removed))
    disk.process.call(make_folder, str(disk.root / "folder"))
    disk.process.call(write, str(disk.root / "folder" / "inside"), "e", 1, 0, 0, True)
    disk.process.call(sync, str(disk.root / "folder"))
    disk.cut()
    assert {path.name: letters(path) for path in disk.root.iterdir()} == {"kept": "a", "replaced": "b", "removed": "c"}


def test_synced_names_stay(disk: Disk) -> None:
    """The same calls, and a sync of the folder."""
    kept, replaced, removed = (
        disk.durable("kept", "a", 1),
        disk.durable("replaced", "b", 1),
        disk.durable("removed", "c", 1),
    )
    disk.process.call(rename, str(kept), str(replaced))
    disk.process.call(remove, str(removed))
    disk.process.call(sync, str(disk.root))
    disk.cut()
    assert {path.name: letters(path) for path in disk.root.iterdir()} == {"replaced": "a"}


def test_data_of_a_file_that_was_renamed_is_taken_back_under_its_new_name(disk: Disk) -> None:
    """A segment of the log is written as a spare and gets its name later."""
    path = disk.durable("spare", "a", 2)
    disk.process.call(write, str(path), "b", 1)
    disk.process.call(rename, str(path), str(disk.root / "segment"))
    disk.process.call(sync, str(disk.root))
    disk.cut()
    assert letters(disk.root / "segment") == "aa"


def test_a_file_that_was_cut_short_is_long_again(disk: Disk) -> None:
    """With the bytes it had."""
    path = disk.durable("f", "a", 3)
    disk.process.call(shorten, str(path), BLOCK)
    assert letters(path) == "a"
    disk.cut()
    assert letters(path) == "aaa"


def test_by_a_seed_some_sectors_stay(disk: Disk) -> None:
    """Each sector is old or new, never anything else; the same seed leaves the same."""
    path = disk.durable("f", "a", 8)
    disk.process.call(write, str(path), "b", 8)
    disk.cut(seed=1)
    data = path.read_bytes()
    sectors = {data[at : at + SECTOR_BYTES] for at in range(0, len(data), SECTOR_BYTES)}
    assert sectors == {b"a" * SECTOR_BYTES, b"b" * SECTOR_BYTES}


def test_what_the_journal_has_no_room_for_counts_as_written_back(disk: Disk) -> None:
    """It is bounded: the oldest goes first, and the newest is always there."""
    blocks = CAPACITY_BYTES // BLOCK // 8
    path = disk.durable("f", "a", 10 * blocks)
    for number in range(10):
        disk.process.call(write, str(path), "b", blocks, number * blocks)
    assert disk.unsynced.journal.stat().st_size < CAPACITY_BYTES + BLOCK
    written = [record for record in disk.unsynced.records() if record.kind == Kind.WRITTEN]
    assert 4 <= len(written) < 10
    disk.cut()
    found = letters(path)[::blocks]
    assert found == "b" * (10 - len(written)) + "a" * len(written)


def test_a_process_that_is_started_again_goes_on_with_the_journal(disk: Disk) -> None:
    """A kill takes no page cache away: what was not synced before it may still be lost by a cut after it."""
    path = disk.durable("f", "a", 2)
    disk.process.call(write, str(path), "b", 1)
    disk.process.kill()
    disk.process.start()
    disk.process.call(write, str(path), "c", 1, 1)
    disk.cut()
    assert letters(path) == "aa"
