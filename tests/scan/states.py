"""A store with a past: keys put, overwritten and deleted; and its rows, for the scans to agree with."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from raftmeta import Node
from raftmeta.operations import Delete, KeyRecord, Put
from raftmeta.scan import Scope, SnapshotFile

NOT_TEXT = b"\xff\xfe/raw"
LARGE = b"large"
MIB = 1 << 20


def fill(node: Node, *, writes: int = 300, seed: int = 1) -> None:
    """Random writes to few keys, among them transactions that change several, a key that is no text, a large value."""
    rng = random.Random(seed)
    for number in range(writes):
        key = b"key-%02d" % rng.randrange(40)
        if rng.random() < 0.2:
            node.delete(key)
        elif rng.random() < 0.1:
            node.txn([], [Put(key, b"t%d" % number), Put(key + b"/more", b""), Delete(b"key-00")])
        else:
            node.put(key, b"v%d" % number)
    node.put(NOT_TEXT, b"\x00\x01")
    node.put("schlüssel", "wert")
    node.put(LARGE, b"x" * MIB)


def as_row(record: KeyRecord, revision: int) -> dict[str, Any]:
    """A record as the table kv has it."""
    try:
        text = record.key.decode()
    except UnicodeDecodeError:
        text = None
    return {
        "at_revision": revision,
        "key": record.key,
        "key_text": text,
        "value": record.value,
        "create_revision": record.create_revision,
        "mod_revision": record.mod_revision,
        "version": record.version,
        "lease": record.lease,
    }


def told(node: Node, low: int, high: int) -> list[tuple[Any, ...]]:
    """The changes of (low, high] as a watch tells them."""
    found: list[tuple[Any, ...]] = []
    with node.watch(prefix="", start_revision=low + 1) as watch:
        for batch in watch.batches():
            if batch.revision > high:
                break
            for event in batch.events:
                before = found[-1][1] + 1 if found and found[-1][0] == batch.revision else 0
                value = None if event.type == "delete" else event.record.value
                ms = round(batch.time_s * 1000)
                found.append((batch.revision, before, ms, event.type, event.record.key, value, event.record.version))
            if batch.revision == high and batch.is_whole:
                break
    return found


def change_rows(batches: Iterator[Any]) -> list[tuple[Any, ...]]:
    """Rows of the table changes in the form of told()."""
    return [
        (
            row["revision"],
            row["sub"],
            round(row["ts"].timestamp() * 1000),
            row["op"],
            row["key"],
            row["value"],
            row["version"],
        )
        for batch in batches
        for row in batch.to_pylist()
    ]


PREVIOUS = ("revision", "sub", "op", "key", "prev_value", "prev_revision", "prev_lease")


def previous_rows(batches: Iterator[Any]) -> list[tuple[Any, ...]]:
    """Rows of the table changes with the columns PREVIOUS, as tuples."""
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def told_previous(node: Node, low: int, high: int) -> list[tuple[Any, ...]]:
    """The changes of (low, high] with the record before each as a watch tells them."""
    found: list[tuple[Any, ...]] = []
    with node.watch(prefix="", start_revision=low + 1, previous=True) as watch:
        for batch in watch.batches():
            for event in batch.events:
                sub = found[-1][1] + 1 if found and found[-1][0] == batch.revision else 0
                before = event.previous
                record = (before.value, before.mod_revision, before.lease) if before else (None, 0, 0)
                found.append((batch.revision, sub, event.type, event.key, *record))
            if batch.revision == high and batch.is_whole:
                return found
    return found


def key_rows(file: SnapshotFile, revision: int, scope: Scope | None = None, parts: int = 3) -> list[dict[str, Any]]:
    """Rows of the table kv, read in parts that are put behind one another."""
    scope = scope or Scope()
    return [
        row
        for start, stop in file.key_ranges(scope, parts)
        for batch in file.keys(Scope(start, stop, scope.columns), revision)
        for row in batch.to_pylist()
    ]
