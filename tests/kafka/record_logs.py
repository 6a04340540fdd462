"""Requests for record logs as msgpack, and the keys of a log as Python values (docs/formats.md "Record logs")."""

from __future__ import annotations

import hashlib
import struct
from typing import Any, NamedTuple

from tests.faces import records as face
from tests.kafka.batches import Batch, read
from tests.machine import commands as c
from tests.machine.machines import Answer, Machine

APPEND, TRIM, DROP = 1, 2, 3
COMPACT, DELETE = 1, 2
OK, OUT_OF_RANGE, INVALID_REQUEST, POLICY, OUT_OF_ORDER, OLD_EPOCH = 0, 1, 42, 44, 45, 47
TO_END = (1 << 63) - 1
LOG = b"kafka/logs/t/0"
HEAD = struct.Struct("<QQQIII4x")
BATCH = struct.Struct("<QB7x")
KEY = struct.Struct("<QB7x")
TOMBSTONE = struct.Struct("<Q16s")
PRODUCER = struct.Struct("<hB5x")
PRODUCER_BATCH = struct.Struct("<Qii")
KEYED = 1
TOMBSTONE_MS = 10_000


def append(
    batch: bytes,
    *,
    policy: int = DELETE,
    retention_ms: int = 0,
    bytes_max: int = 0,
    records_max: int = 0,
    tombstone_ms: int = TOMBSTONE_MS,
    log: bytes = LOG,
    after: int = 0,
    **envelope: Any,
) -> bytes:
    data = [APPEND, policy, retention_ms, bytes_max, records_max, tombstone_ms, batch]
    return c.command(c.RECORDS, log, c.pack(data), after, **envelope)


def trim(offset: int, *, log: bytes = LOG, **envelope: Any) -> bytes:
    return c.command(c.RECORDS, log, c.pack([TRIM, offset]), 0, **envelope)


def drop(*, log: bytes = LOG, **envelope: Any) -> bytes:
    return c.command(c.RECORDS, log, c.pack([DROP]), 0, **envelope)


def new_machine(**limits: int) -> Machine:
    machine = Machine(**limits)
    assert machine.apply(c.command(c.LEVEL, 6)).status == c.OK
    return machine


def answered(machine: Machine, payload: bytes) -> list[int]:
    """[code, number, start] of a request that is carried out."""
    answer: Answer = machine.apply(payload)
    assert answer.status == c.OK, answer
    body: list[int] = answer.body
    return body


class Shown(NamedTuple):
    """A log as its keys tell it."""

    start: int
    next: int
    batches: list[Batch]
    keyed: list[bool]
    keys: dict[bytes, tuple[int, bool]]  # hash: offset, whether it is a tombstone
    tombstones: dict[int, bytes]  # offset: hash
    producers: dict[int, tuple[int, list[tuple[int, int, int]]]]  # id: epoch, batches


def hash_of(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()[:16]


def shown(machine: Machine, log: bytes = LOG) -> Shown | None:
    """The log as its keys have it; the counts of its head are checked. None: there is no such log."""
    records, _ = machine.results(c.read_range(log, log + b"\1"))[0]
    if not records:
        return None
    start, following, size, count, opaque, producing = HEAD.unpack(records[0][1])
    found = Shown(start, following, [], [], {}, {}, {})
    stored = 0
    for key, value, *_, flags in records:
        assert flags == c.RECORDS_KEY
        kind, rest = key[len(log) + 1 : len(log) + 2], key[len(log) + 2 :]
        if kind == b"b":
            _, keyed = BATCH.unpack_from(value)
            (batch,) = read(value[BATCH.size :])
            assert batch.last_offset == int.from_bytes(rest, "big")
            found.batches.append(batch)
            found.keyed.append(bool(keyed & KEYED))
            stored += len(value) - BATCH.size
        elif kind == b"k":
            offset, is_tombstone = KEY.unpack(value)
            found.keys[rest] = (offset, bool(is_tombstone))
        elif kind == b"t":
            found.tombstones[int.from_bytes(rest, "big")] = TOMBSTONE.unpack(value)[1]
        elif kind == b"p":
            epoch, kept = PRODUCER.unpack_from(value)
            batches = [PRODUCER_BATCH.unpack_from(value, 8 + 16 * place) for place in range(kept)]
            found.producers[int.from_bytes(rest, "big")] = (epoch, batches)
        else:
            assert key == log
    assert (size, count, opaque, producing) == (
        stored,
        len(found.batches),
        found.keyed.count(False),
        len(found.producers),
    )
    assert face.log_view(machine.handle, log) == (start, following, size, count)
    return found


def fetched(machine: Machine, offset: int = 0, *, log: bytes = LOG, **limits: Any) -> list[Batch]:
    return read(face.fetch(machine.handle, log, offset, **limits))


def values(machine: Machine, *, log: bytes = LOG) -> list[tuple[int, bytes | None, bytes | None]]:
    """Offset, key and value of each record from the start on."""
    start = face.log_view(machine.handle, log)[0]
    return [
        (offset, record.key, record.value)
        for batch in fetched(machine, start, log=log)
        for offset, record in batch.records
        if offset >= start
    ]
