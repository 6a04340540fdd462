"""Kafka's record batches made and read by plain Python, after the protocol guide. For tests: it is slow."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from raftmeta.native import native_handle

HEADER = struct.Struct(">qiibIHiqqqhii")
BEHIND_CHECKSUM = 21
HEADER_BYTES = 61


class Record(NamedTuple):
    """One record; a value of None is a tombstone."""

    key: bytes | None
    value: bytes | None
    timestamp: int = 1_000
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


class Batch(NamedTuple):
    """A batch as it was read; records have their offsets before them."""

    base_offset: int
    last_offset: int
    producer: int
    epoch: int
    sequence: int
    max_timestamp: int
    records: list[tuple[int, Record]]


def varint(value: int) -> bytes:
    raw = (value << 1) ^ (value >> 63)
    out = bytearray()
    while raw >= 0x80:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def blob(value: bytes | None) -> bytes:
    return varint(-1) if value is None else varint(len(value)) + value


def record(one: Record, delta: int, base_timestamp: int) -> bytes:
    body = b"\0" + varint(one.timestamp - base_timestamp) + varint(delta) + blob(one.key) + blob(one.value)
    body += varint(len(one.headers)) + b"".join(blob(name) + blob(value) for name, value in one.headers)
    return varint(len(body)) + body


def batch(
    records: Sequence[Record],
    *,
    producer: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    attributes: int = 0,
    base_offset: int = 0,
    count: int | None = None,
    last_delta: int | None = None,
    body: bytes | None = None,
    magic: int = 2,
) -> bytes:
    """What a producer sends. body: the records as other bytes, as of a compressed batch."""
    first = records[0].timestamp if records else 0
    if body is None:
        body = b"".join(record(one, delta, first) for delta, one in enumerate(records))
    newest = max((one.timestamp for one in records), default=0)
    count = len(records) if count is None else count
    fields = (
        attributes,
        count - 1 if last_delta is None else last_delta,
        first,
        newest,
        producer,
        epoch,
        sequence,
        count,
    )
    covered = HEADER.pack(0, 0, 0, 0, 0, *fields)[BEHIND_CHECKSUM:] + body
    head = struct.pack(">qiibI", base_offset, HEADER_BYTES - 12 + len(body), -1, magic, native_handle.crc32c(covered))
    return head + covered


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def varint(self) -> int:
        raw = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            raw |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (raw >> 1) ^ -(raw & 1)

    def blob(self) -> bytes | None:
        length = self.varint()
        if length < 0:
            return None
        self.at += length
        return self.data[self.at - length : self.at]


def read(data: bytes) -> list[Batch]:
    """Batches one behind the other, with their checksums looked at; records of open ones only."""
    found = []
    while data:
        (base, length, _, magic, checksum, attributes, delta, first, newest, producer, epoch, sequence, count) = (
            HEADER.unpack_from(data)
        )
        whole, data = data[: 12 + length], data[12 + length :]
        assert magic == 2
        assert checksum == native_handle.crc32c(whole[BEHIND_CHECKSUM:])
        records = []
        reader = _Reader(whole)
        reader.at = HEADER_BYTES
        for _ in range(0 if attributes & 7 else count):
            reader.varint()
            reader.at += 1
            timestamp, offset = first + reader.varint(), base + reader.varint()
            key, value = reader.blob(), reader.blob()
            headers = tuple((reader.blob() or b"", reader.blob()) for _ in range(reader.varint()))
            records.append((offset, Record(key, value, timestamp, headers)))
        assert attributes & 7 or reader.at == len(whole)
        found.append(Batch(base, base + delta, producer, epoch, sequence, newest, records))
    return found
