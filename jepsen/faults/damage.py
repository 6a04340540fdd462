"""Damage to the files of one node at rest: flipped bits, a tail of the log that is gone, everything gone.

What it knows of the files stands in docs/formats.md: their names, and that a log segment is room of which only the
beginning is used. It strikes bytes that are used, so that every strike matters, and tells what it did. What it wrote is
synced and dropped from the cache, so that the next reader sees what the "disk" has.

It never strikes the identity file: whose folder it is, is not what these faults are about.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

BLOCK = 4096
LOG = re.compile(r"[0-9a-f]{16}\.log")
SEALED = re.compile(r"[0-9a-f]{16}\.sealed")


class NothingToDamage(Exception):
    """The folder has no file of that kind, or none with anything in it."""


@dataclass(frozen=True, slots=True)
class Flip:
    """One bit of one file that is the other one now. bit: from 0, of the byte at offset."""

    file: Path
    offset: int
    bit: int

    def __str__(self) -> str:
        return f"{self.file.name}+{self.offset}.{self.bit}"


def log_files(folder: Path) -> list[Path]:
    """The segments of the log, oldest first."""
    return sorted(path for path in _files(folder) if LOG.fullmatch(path.name))


def snapshot_files(folder: Path) -> list[Path]:
    """Sealed files, oldest first, and the LMDB file of the checkpoint."""
    checkpoint = folder / "checkpoint" / "data.mdb"
    sealed = sorted(path for path in _files(folder) if SEALED.fullmatch(path.name))
    return [*sealed, *([checkpoint] if checkpoint.exists() else [])]


def flip(path: Path, random: Random) -> Flip:
    """Flip one bit in a block of the file that is used. Raises NothingToDamage; the node may run."""
    blocks = list(_used_blocks(path))
    if not blocks:
        raise NothingToDamage(f"{path}: there is nothing in it")
    begin, length = random.choice(blocks)
    struck = Flip(path, begin + random.randrange(length), random.randrange(8))
    descriptor = os.open(path, os.O_RDWR)
    try:
        (byte,) = os.pread(descriptor, 1, struck.offset)
        os.pwrite(descriptor, bytes([byte ^ 1 << struck.bit]), struck.offset)
        _settle(descriptor)
    finally:
        os.close(descriptor)
    return struck


def lose_tail(folder: Path, random: Random, *, blocks_max: int = 16) -> tuple[Path, int, int]:
    """Zero the last blocks of the log that are used; (file, offset, bytes). Raises NothingToDamage.

    A disk that lied about its syncs has lost them. The mark, which says how far the log was synced, stays: without it
    nobody could know (decisions/log.md). The node must not run: it would write on behind the hole.
    """
    files = log_files(folder)
    blocks = list(_used_blocks(files[-1])) if files else []
    lost = blocks[-random.randint(1, blocks_max) :]
    lost = [block for block in lost if block[0] >= 2 * BLOCK]  # the segment's header is another fault
    if not lost:
        raise NothingToDamage(f"{folder}: the newest segment of the log is empty")
    begin, length = lost[0][0], lost[-1][0] + lost[-1][1] - lost[0][0]
    descriptor = os.open(files[-1], os.O_RDWR)
    try:
        os.pwrite(descriptor, bytes(length), begin)
        _settle(descriptor)
    finally:
        os.close(descriptor)
    return files[-1], begin, length


def wipe(folder: Path) -> None:
    """Remove everything in the folder, as if the disk had been replaced; the node must not run.

    Synced on return: a power cut that brought half of the old life back would be no fault that a disk has.
    """
    for path in _files(folder):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    if folder.exists():
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _files(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.exists() else []


def _used_blocks(path: Path) -> Iterator[tuple[int, int]]:
    """(offset, length) of each block that is not all zeros."""
    with path.open("rb") as file:
        offset = 0
        while block := file.read(BLOCK):
            if block.count(0) != len(block):
                yield offset, len(block)
            offset += len(block)


def _settle(descriptor: int) -> None:
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
