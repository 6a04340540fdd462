"""Requests for topics and offsets as msgpack, and their keys as values (docs/formats.md "Topics and offsets")."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgpack

from tests.machine import commands as c
from tests.machine import groups as g
from tests.machine.machines import Machine

CREATE, DELETE, PARTITIONS, COMMIT, FORGET, CONFIGS = range(1, 7)
SET, UNSET, APPEND, SUBTRACT = range(4)
OK, UNKNOWN, METADATA_TOO_LARGE, INVALID_NAME, NO_ROOM = 0, 3, 12, 17, 28
EXISTS, INVALID_PARTITIONS, INVALID_CONFIG, SUBSCRIBED, UNKNOWN_ID = 36, 37, 40, 86, 100
ROOT = b"topics/"
RETENTION_MS = 50_000
RETENTION_MS_MAX = 1 << 40  # the longest life of a lease
TOPIC_KEY, HEAD_KEY, OFFSET_KEY = 64, 128, 256
TOPIC = struct.Struct("<16sII")
OFFSET = struct.Struct("<16sqiIHH")
HEAD = struct.Struct("<QQII")


def id_of(number: int) -> bytes:
    return bytes([number]) * 16


def command(data: list[Any], after: int = 0, **envelope: Any) -> bytes:
    return c.command(c.TOPICS, ROOT, c.pack(data), after, **envelope)


def create(
    name: bytes, partitions: int = 2, *, number: int = 1, configs: Iterable[bytes] = (), is_trial: bool = False
) -> bytes:
    return command([CREATE, is_trial, [name, id_of(number), partitions, list(configs)]])


def delete(name: bytes, id: bytes = b"", **envelope: Any) -> bytes:
    return command([DELETE, [name, id]], **envelope)


def extend(name: bytes, partitions: int, *, is_trial: bool = False) -> bytes:
    return command([PARTITIONS, is_trial, [name, partitions]])


def configure(
    name: bytes, *changes: tuple[int, bytes, bytes, bytes], is_trial: bool = False, is_whole: bool = False
) -> bytes:
    """changes: kind, name, value, and the list where the topic has none."""
    return command([CONFIGS, is_trial, is_whole, [name, [part for change in changes for part in change]]])


def commit(
    offsets: dict[tuple[bytes, int], int],
    *,
    generation: int = -1,
    member: bytes = b"",
    instance: bytes = b"",
    metadata: bytes = b"",
    retention_ms: int = RETENTION_MS,
    key: bytes = g.KEY,
    after: int = 0,
    **envelope: Any,
) -> bytes:
    items: list[Any] = []
    for (name, partition), offset in offsets.items():
        items += [name, partition, offset, -1, metadata]
    return command([COMMIT, key, generation, member, instance, retention_ms, items], after, **envelope)


def forget(*partitions: tuple[bytes, int], key: bytes = g.KEY) -> bytes:
    return command([FORGET, key, [half for pair in partitions for half in pair]])


class Head(NamedTuple):
    retention_ms: int
    has_timer: bool
    count: int
    lease: int


def head(machine: Machine, key: bytes = g.KEY) -> Head | None:
    """The head of the group's offsets, read; None: it has none."""
    found = machine.results(c.get(key + b"\1\0"))[0]
    if found is None:
        return None
    assert found[6] == HEAD_KEY
    retention_ms, timer_revision, count, zero = HEAD.unpack(found[1])
    assert zero == 0
    assert (timer_revision != 0) == (found[5] != 0)
    return Head(retention_ms, timer_revision != 0, count, found[5])


def topic(machine: Machine, name: bytes) -> tuple[bytes, int] | None:
    """Id and partitions of a topic."""
    found = machine.results(c.get(ROOT + name))[0]
    if found is None:
        return None
    assert found[6] == TOPIC_KEY
    id, partitions, length = TOPIC.unpack_from(found[1])
    assert len(msgpack.unpackb(found[1][TOPIC.size :])) % 2 == 0
    assert length == len(found[1]) - TOPIC.size
    return id, partitions


def configs(machine: Machine, name: bytes) -> dict[bytes, bytes]:
    found = machine.results(c.get(ROOT + name))[0]
    assert found is not None
    pairs = msgpack.unpackb(found[1][TOPIC.size :])
    return dict(zip(pairs[::2], pairs[1::2], strict=True))


def offsets(machine: Machine, key: bytes = g.KEY) -> dict[tuple[bytes, int], int]:
    """Offsets of topics that there are; the keys and the head are compared with one another."""
    records, _ = machine.results(c.read_range(key + b"\1\0", key + b"\1\1"))[0]
    found, count = {}, 0
    for record in records[1:]:
        assert record[6] == OFFSET_KEY
        id, offset, _, partition, name_length, _ = OFFSET.unpack_from(record[1])
        name = record[1][OFFSET.size : OFFSET.size + name_length]
        assert record[0] == key + b"\1\0" + name + b"\0" + struct.pack(">I", partition)
        count += 1
        there = topic(machine, name)
        if there is not None and there[0] == id:
            found[name, partition] = offset
    told = head(machine, key)
    assert count == (told.count if told else 0)
    return found


def new_machine(*leases: int, **options: Any) -> Machine:
    return g.new_machine(*leases, **options)
