"""The file of a flight recorder, read (docs/formats.md "Flight recorder").

It decides which records count: those with a right checksum at their place. It never writes, and never waits for a node
that runs: what such a node is about to write is a torn record, and left out.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from raftmeta.errors import InvalidArgument, StorageCorrupt
from raftmeta.flight.image import ALIVE, HEADER, MAGIC, PAGE_BYTES, RECORD_BYTES, VERSION
from raftmeta.native.native_handle import crc32c

__all__ = ["Alive", "Record", "Ring", "parse_ring", "read_ring"]

FILE_NAME = "flight.ring"
PARTS_MAX = 64
TEXT = 515

_RECORD = struct.Struct("<QQQHHIQQQQ")
_FLOCK = struct.Struct("hhqqi4x")


@dataclass(frozen=True, slots=True)
class Record:
    """One event. boot_ns, wall_ns: CLOCK_BOOTTIME and CLOCK_REALTIME. The kind says the meaning of a to d."""

    node: str
    part: int
    number: int
    life: int
    kind: int
    boot_ns: int
    wall_ns: int
    a: int
    b: int
    c: int
    d: int
    text: str = ""


@dataclass(frozen=True, slots=True)
class Alive:
    """The last sign of life of the newest life of a node."""

    boot_ns: int
    wall_ns: int
    life: int


@dataclass(frozen=True, slots=True)
class Ring:
    """The records of one node. torn: records with a wrong checksum. is_running: None: nobody can tell (a copy).

    source: the path of the file, or the address of the node that gave its content.
    """

    node: str
    source: str
    records: tuple[Record, ...]
    alive: Alive | None
    torn: int
    is_running: bool | None


def read_ring(path: str | os.PathLike[str]) -> Ring:
    """Read a folder of a node, or a copy of its file. Raises InvalidArgument, StorageCorrupt."""
    file = Path(path)
    is_running = None
    if file.is_dir():
        is_running = _is_locked(file / "lock")
        file = file / FILE_NAME
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise InvalidArgument(f"folder: {file} cannot be read: {error.strerror}", field="folder") from error
    return parse_ring(raw, source=str(file), is_running=is_running)


def parse_ring(raw: bytes, *, source: str, is_running: bool | None) -> Ring:
    """The content of such a file. Raises StorageCorrupt, which names the source."""
    if len(raw) < 2 * PAGE_BYTES:
        raise StorageCorrupt(f"folder: {source} is too short for a flight recorder's file")
    magic, version, record_bytes, parts, name_length, capacity, name, _, checksum = HEADER.unpack_from(raw)
    if magic != MAGIC or checksum != crc32c(raw[: HEADER.size - 4]):
        raise StorageCorrupt(f"folder: {source} is no flight recorder's file, or its first page is damaged")
    if version != VERSION or record_bytes != RECORD_BYTES or parts > PARTS_MAX:
        raise StorageCorrupt(f"folder: {source} was written by another version of raftmeta")
    if len(raw) < 2 * PAGE_BYTES + parts * capacity * RECORD_BYTES:
        raise StorageCorrupt(f"folder: {source} was cut")
    node = name[:name_length].decode(errors="replace")
    found: list[Record] = []
    torn = 0
    for part in range(parts):
        records, bad = _part(raw, node, part, capacity)
        found.extend(records)
        torn += bad
    found.sort(key=lambda record: (record.life, record.boot_ns, record.part, record.number))
    return Ring(node, source, tuple(found), _alive(raw), torn, is_running)


def _alive(raw: bytes) -> Alive | None:
    boot_ns, wall_ns, life, _, checksum = ALIVE.unpack_from(raw, PAGE_BYTES)
    if life == 0 or checksum != crc32c(raw[PAGE_BYTES : PAGE_BYTES + ALIVE.size - 4]):
        return None
    return Alive(boot_ns, wall_ns, life)


def _part(raw: bytes, node: str, part: int, capacity: int) -> tuple[list[Record], int]:
    """Its records in order, with their texts joined; how many are torn."""
    base = 2 * PAGE_BYTES + part * capacity * RECORD_BYTES
    found: dict[int, tuple[Record, bytes]] = {}
    torn = 0
    for place in range(capacity):
        at = base + place * RECORD_BYTES
        bytes_ = raw[at : at + RECORD_BYTES]
        if not any(bytes_):
            continue
        number, boot_ns, wall_ns, kind, life, checksum, a, b, c, d = _RECORD.unpack(bytes_)
        is_whole = checksum == crc32c(bytes_[:28] + b"\0\0\0\0" + bytes_[32:])
        if not is_whole or number == 0 or (number - 1) % capacity != place:
            torn += 1
            continue
        found[number] = Record(node, part, number, life, kind, boot_ns, wall_ns, a, b, c, d), bytes_[32:]
    return list(_joined(found)), torn


def _joined(found: dict[int, tuple[Record, bytes]]) -> Iterator[Record]:
    texts: dict[int, bytes] = defaultdict(bytes)
    owner = 0
    for number in sorted(found):
        record, words = found[number]
        if record.kind != TEXT:
            owner = number
        elif owner and number - 1 in found:
            texts[owner] += words
    for number in sorted(found):
        record, _ = found[number]
        if record.kind != TEXT:
            text = texts[number].rstrip(b"\0").decode(errors="replace") if number in texts else ""
            yield replace(record, text=text) if text else record


def _is_locked(path: Path) -> bool | None:
    """Whether a node has the lock of its folder. It is only looked at."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, asked)
    finally:
        os.close(descriptor)
    kind: int = _FLOCK.unpack(answer)[0]
    return kind != fcntl.F_UNLCK
