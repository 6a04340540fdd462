"""A volatile cache for any folder: what a process did not sync there can be taken back after it was killed.

    unsynced = Unsynced(tmp_path / "a.journal", root=tmp_path / "a", stash=tmp_path / "stash")
    page.keep_unsynced(unsynced.journal, unsynced.root, unsynced.stash)     before the process starts
    ... the process is killed; a disk of jepsen/faults/images.py is mounted again ...
    unsynced.take_back()                  everything that was not synced
    unsynced.take_back(seed=7)            as a disk would: some of it, torn at the borders of sectors

The shim (shim.c) journals the old bytes of every write, and every name that was made, renamed or removed. A write is
durable by a sync of its file, a name by a sync of its folder, and by nothing else: a file system may do more, and POSIX
promises no more. It needs no rights and no image, so it also sees what was written past the page cache.
"""

from __future__ import annotations

import contextlib
import ctypes
import enum
import fcntl
import os
import shutil
import struct
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

MIB = 1024 * 1024
CAPACITY_BYTES = 16 * MIB  # of old bytes; what is older counts as written back
SECTOR_BYTES = 512
STASHED = 16  # the number of shim.c
GET_VERSION = (2 << 30) | (8 << 16) | (ord("v") << 8) | 1  # FS_IOC_GETVERSION, linux/fs.h


class _Header(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_uint64) for name in ("capacity", "head", "tail", "number")),
        ("stashed", ctypes.c_uint64 * 2 * STASHED),
    )


_RECORD = struct.Struct("=IIQQQQQQIHH")


class Kind(enum.IntEnum):
    """Of a record; the numbers of shim.c."""

    PAD = 0
    WRITTEN = 1
    SYNCED = 2
    DURABLE = 3  # a write that was its own sync (O_DSYNC)
    CREATED = 4
    RENAMED = 5
    REMOVED = 6
    MADE = 7  # a folder
    FOLDER_SYNCED = 8


NAMES = frozenset({Kind.CREATED, Kind.RENAMED, Kind.REMOVED, Kind.MADE})


@dataclass(frozen=True, slots=True)
class Record:
    """One call. number: grows with each; of a sync: of the last call that it makes durable."""

    kind: Kind
    number: int
    file: tuple[int, int]
    offset: int
    length: int
    size_before: int
    path: str
    other: str
    data: bytes

    @property
    def folder(self) -> str:
        return os.path.dirname(self.other or self.path)


class Unsynced:
    """The journal of one page, and what is done with it."""

    def __init__(self, journal: Path, *, root: Path, stash: Path) -> None:
        """A new journal for files below root. stash: a folder of that file system which the process never looks at."""
        self.journal = journal
        self.root = root
        self.stash = stash
        with journal.open("wb") as file:
            # All of its blocks at once: a mapped file that finds no room later would kill the process.
            os.posix_fallocate(file.fileno(), 0, ctypes.sizeof(_Header) + CAPACITY_BYTES)
        self.forget()

    def forget(self) -> None:
        """All is durable. The process must not run."""
        with self.journal.open("r+b") as file:
            file.write(bytes(_Header(capacity=CAPACITY_BYTES)))
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.stash)
        self.stash.mkdir(parents=True)

    def records(self) -> Iterator[Record]:
        """What the journal still has, in order."""
        with self.journal.open("rb") as file:
            header = _Header.from_buffer_copy(file.read(ctypes.sizeof(_Header)))
            ring = file.read(CAPACITY_BYTES)
        at = header.tail
        while at < header.head:
            place = at % CAPACITY_BYTES
            size, kind = struct.unpack_from("=II", ring, place)
            at += size
            if kind == Kind.PAD:
                continue
            _, _, number, inode, generation, offset, length, before, data, path, other = _RECORD.unpack_from(
                ring, place
            )
            texts = ring[place + _RECORD.size : place + _RECORD.size + path + other]
            rest = place + _RECORD.size + path + other
            yield Record(
                kind=Kind(kind),
                number=number,
                file=(inode, generation),
                offset=offset,
                length=length,
                size_before=before,
                path=os.fsdecode(texts[:path]),
                other=os.fsdecode(texts[path:]),
                data=ring[rest : rest + data],
            )

    def take_back(self, *, seed: int | None = None, is_cut: bool = False) -> list[str]:
        """Undo what was not synced, newest first; say what, in words. The process must not run.

        seed: of each folder the first so many changes stay, of each sector the first so many writes. None: nothing.
        is_cut: the file system has lost its power, too, and has taken back its own part: no file is made longer.
        """
        told = list(_TakeBack(self, Random(seed) if seed is not None else None, may_grow=not is_cut).run())
        self.forget()
        return told


class _TakeBack:
    def __init__(self, unsynced: Unsynced, random: Random | None, *, may_grow: bool) -> None:
        self._records = list(unsynced.records())
        self._root = unsynced.root
        self._stash = unsynced.stash
        self._random = random
        self._may_grow = may_grow
        self._settled: dict[tuple[int, int], set[int]] = defaultdict(set)  # sectors that stay as they are
        self._paths = self._find()

    def run(self) -> Iterator[str]:
        lost = {record.number for record in self._lost_names()}
        synced: dict[tuple[int, int], int] = defaultdict(int)
        born: dict[tuple[int, int], int] = {}
        for record in self._records:
            if record.kind == Kind.SYNCED:
                synced[record.file] = max(synced[record.file], record.number)
            elif record.kind == Kind.CREATED:
                born[record.file] = record.number  # an inode number of a file that is gone may be given again
        for record in reversed(self._records):
            if record.kind == Kind.DURABLE:
                self._settled[record.file].update(_sectors(record))
            elif record.kind == Kind.WRITTEN and record.number > max(synced[record.file], born.get(record.file, 0)):
                yield from self._unwrite(record)
            elif record.kind in NAMES and record.number in lost:
                yield self._unname(record)
                self._paths = self._find()

    def _lost_names(self) -> Iterator[Record]:
        synced: dict[str, int] = defaultdict(int)
        pending: dict[str, list[Record]] = defaultdict(list)
        for record in self._records:
            if record.kind == Kind.FOLDER_SYNCED:
                synced[record.path] = max(synced[record.path], record.number)
            elif record.kind in NAMES:
                pending[record.folder].append(record)
        for folder, changes in pending.items():
            unsynced = [record for record in changes if record.number > synced[folder]]
            yield from unsynced[self._random.randint(0, len(unsynced)) if self._random else 0 :]

    def _find(self) -> dict[tuple[int, int], Path]:
        found = {}
        for top in (self._root, self._stash):
            for folder, _, names in os.walk(top):
                for name in names:
                    path = Path(folder, name)
                    with suppress(OSError):
                        found[_file_of(path)] = path
        return found

    def _unwrite(self, record: Record) -> Iterator[str]:
        path = self._paths.get(record.file)
        if path is None:
            return
        settled, sectors = self._settled[record.file], _sectors(record)
        if self._random is not None:
            settled.update(sector for sector in sectors if self._random.random() < 0.5)
        lost = [sector for sector in sectors if sector not in settled]
        if not lost:
            return
        with path.open("r+b") as file:
            size = os.fstat(file.fileno()).st_size
            first, end = record.offset, record.offset + record.length
            old = record.data + bytes(record.length - len(record.data))
            for sector in lost:
                low, high = max(first, sector * SECTOR_BYTES), min(end, (sector + 1) * SECTOR_BYTES)
                if not self._may_grow:
                    high = max(low, min(high, size))
                os.pwrite(file.fileno(), old[low - first : high - first], low)
            # What grew the file and is gone altogether leaves it as short as it was.
            kept = max((SECTOR_BYTES * (sector + 1) for sector in settled), default=0)
            if record.size_before < end and size <= end and kept <= record.size_before:
                os.ftruncate(file.fileno(), record.size_before)
            elif self._may_grow:
                os.ftruncate(file.fileno(), max(size, min(end, record.size_before)))
        yield f"{path.name}: {len(lost)} sectors from {record.offset}"

    def _unname(self, record: Record) -> str:
        path, other, kept = Path(record.path), Path(record.other), self._stash / str(record.number)
        with suppress(OSError):  # a file system that lost its power, too, has taken it back already
            match record.kind:
                case Kind.CREATED:
                    if _file_of(path) == record.file:
                        path.unlink()
                case Kind.MADE:
                    shutil.rmtree(path)
                case Kind.REMOVED:
                    if not path.exists():
                        kept.rename(path)
                case Kind.RENAMED:
                    if other.exists() and not path.exists():
                        other.rename(path)
                        if record.offset:
                            kept.rename(other)
        return f"{record.kind.name.lower()} {path.name} {other.name}".rstrip()


def _sectors(record: Record) -> range:
    return range(record.offset // SECTOR_BYTES, -(-(record.offset + record.length) // SECTOR_BYTES))


def _file_of(path: Path) -> tuple[int, int]:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        try:
            told = fcntl.ioctl(handle, GET_VERSION, bytes(8))
            generation = int.from_bytes(told[:4], "little")
        except OSError:
            generation = 0  # no such numbers on this file system
        return os.fstat(handle).st_ino, generation
    finally:
        os.close(handle)
