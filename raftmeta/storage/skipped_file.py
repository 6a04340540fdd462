"""The file `skipped`: the entries that this folder's node passes over. Format: docs/formats.md "Skipped entries".

It decides nothing: face/skipping says which entry may stand in the file. An entry is named by its index and its chain
hash, so the file means nothing in any other log.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from raftmeta.errors import NewerFormat, StorageCorrupt
from raftmeta.native.native_handle import crc32c
from raftmeta.storage.checkpoint import sync_directory
from raftmeta.storage.privacy import FILE_MODE, OPEN_NO_LINK

__all__ = ["ENTRIES_MAX", "SkippedEntry", "skipped_of", "skipped_pairs", "write_skipped"]

_FILE_NAME = "skipped"
_WORKING_NAME = "skipped.tmp"
ENTRIES_MAX = 16  # machine/state SKIPPED_MAX
FORMAT_MAGIC = 0x504B5352
FORMAT_VERSION = 1
_HEAD = struct.Struct("<IIB3xI")
_ENTRY = struct.Struct("<QQQ")
_CRC_BEGIN = 8


class SkippedDamaged(Exception):
    """The file is not what was written."""


class SkippedNewerFormat(Exception):
    """A newer version of raftmeta wrote the file."""


class SkippedEntry(NamedTuple):
    """An entry that is passed over. term: for people; the chain hash names the entry."""

    index: int  # type: ignore[assignment]
    term: int
    chain: int


def skipped_of(data_dir: Path) -> list[SkippedEntry]:
    """The entries that the folder's node passes over, by index; most folders have none.

    Raises StorageCorrupt, NewerFormat: in words of the folder.
    """
    try:
        return _read(data_dir)
    except SkippedNewerFormat as error:
        raise NewerFormat(f"data_dir: {data_dir / _FILE_NAME}: {error}", field="data_dir") from None
    except (SkippedDamaged, OSError) as error:
        raise StorageCorrupt(
            f"data_dir: the file {data_dir / _FILE_NAME} is damaged ({error}). It names entries to pass over. Remove "
            "it, and skip these entries again: docs/operations.md, 'An entry that no node can apply'"
        ) from None


def skipped_pairs(data_dir: Path) -> list[tuple[int, int]]:
    """As skipped_of: index and chain hash of each."""
    return [(entry.index, entry.chain) for entry in skipped_of(data_dir)]


def _read(data_dir: Path) -> list[SkippedEntry]:
    try:
        with open(os.open(data_dir / _FILE_NAME, os.O_RDONLY | OPEN_NO_LINK), "rb") as file:
            content = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return []
    if len(content) < _HEAD.size:
        raise SkippedDamaged(f"{len(content)} bytes are too few")
    magic, crc, version, count = _HEAD.unpack_from(content)
    if magic != FORMAT_MAGIC or crc != crc32c(content[_CRC_BEGIN:]):
        raise SkippedDamaged("wrong checksum")
    if version > FORMAT_VERSION:
        raise SkippedNewerFormat(f"version {version} is newer than {FORMAT_VERSION}")
    if count > ENTRIES_MAX or len(content) != _HEAD.size + count * _ENTRY.size:
        raise SkippedDamaged("its lengths do not add up")
    return [SkippedEntry(*fields) for fields in _ENTRY.iter_unpack(content[_HEAD.size :])]


def write_skipped(data_dir: Path, entries: Sequence[SkippedEntry]) -> None:
    """Replace the file; durable on return. entries: at most ENTRIES_MAX. Raises OSError."""
    body = b"".join(_ENTRY.pack(*entry) for entry in sorted(entries))
    checked = _HEAD.pack(FORMAT_MAGIC, 0, FORMAT_VERSION, len(entries))[_CRC_BEGIN:] + body
    working = data_dir / _WORKING_NAME
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | OPEN_NO_LINK
    with open(os.open(working, flags, FILE_MODE), "wb") as file:
        file.write(struct.pack("<II", FORMAT_MAGIC, crc32c(checked)) + checked)
        file.flush()
        os.fsync(file.fileno())
    working.replace(data_dir / _FILE_NAME)
    sync_directory(data_dir)
