"""The columns of the files of a lake, for changes and for states, and functions that make their rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from raftmeta.operations import KeyRecord
from raftmeta.results import WatchEvent

__all__ = [
    "BASE",
    "CHANGES",
    "changes_in",
    "changes_of",
    "keys_in",
    "records_of",
    "signed",
    "table_of",
    "whole_revisions",
]

CHANGES = pa.schema(
    [
        pa.field("revision", pa.int64(), nullable=False),
        pa.field("sub", pa.int32(), nullable=False),  # which change of this revision, from 0
        pa.field("ts", pa.timestamp("us", "UTC"), nullable=False),  # of the entry, as its leader's clock had it
        pa.field("op", pa.string(), nullable=False),  # put, delete
        pa.field("key", pa.binary(), nullable=False),
        pa.field("key_text", pa.string(), nullable=False),  # bytes that are no UTF-8 as \xff
        pa.field("value", pa.binary()),
        pa.field("prev_value", pa.binary()),
        pa.field("lease", pa.int64()),
        pa.field("prev_lease", pa.int64()),
        pa.field("create_revision", pa.int64()),
        pa.field("prev_revision", pa.int64()),  # mod revision of the record before; null: there was none
        pa.field("version", pa.int64()),
    ]
)
BASE = pa.schema(
    [
        pa.field("key", pa.binary(), nullable=False),
        pa.field("key_text", pa.string(), nullable=False),
        pa.field("value", pa.binary(), nullable=False),
        pa.field("create_revision", pa.int64(), nullable=False),
        pa.field("mod_revision", pa.int64(), nullable=False),
        pa.field("version", pa.int64(), nullable=False),
        pa.field("lease", pa.int64(), nullable=False),
    ]
)


def text_of(key: bytes) -> str:
    """A key for people; a key that is not UTF-8 stays readable and different from every other."""
    return key.decode("utf-8", "backslashreplace")


def texts_of(keys: Any, texts: Any) -> Any:
    """The column of text_of for key and key_text of a scan, which has null for keys that are not UTF-8."""
    return pa.array([text_of(key) for key in keys.to_pylist()], pa.string()) if texts.null_count else texts


def signed(number: int) -> int:
    """An id of 64 bits as the signed number of the same bits: tables have no others."""
    return number - (1 << 64) if number >> 63 else number


def changes_of(revisions: Iterable[tuple[int, float, list[WatchEvent]]]) -> pa.Table:
    """Rows of CHANGES for (revision, time in seconds of 1970, all its events)."""
    rows = []
    for revision, time_s, events in revisions:
        for sub, event in enumerate(events):
            record, before, is_put = event.record, event.previous, event.type == "put"
            rows.append(
                (
                    revision,
                    sub,
                    round(time_s * 1000) * 1000,
                    event.type,
                    record.key,
                    text_of(record.key),
                    record.value if is_put else None,
                    before.value if before else None,
                    signed(record.lease) if is_put else None,
                    signed(before.lease) if before else None,
                    record.create_revision if is_put else None,
                    before.mod_revision if before else None,
                    record.version if is_put else None,
                )
            )
    columns = list(zip(*rows, strict=True)) or [()] * len(CHANGES)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, CHANGES, strict=True)], schema=CHANGES
    )


def table_of(changes: Iterable[tuple[int, float, list[WatchEvent]] | pa.Table]) -> pa.Table:
    """One table of parts that are rows of CHANGES, or revisions for changes_of."""
    tables: list[pa.Table] = []
    for is_table, group in itertools.groupby(changes, key=lambda one: isinstance(one, pa.Table)):
        alike: list[Any] = list(group)
        tables += alike if is_table else [changes_of(alike)]
    return pa.concat_tables(tables)


def whole_revisions(batches: Iterable[Any]) -> Iterator[pa.Table]:
    """Rows of CHANGES for batches of a scan that end anywhere: each revision in one table."""
    held: list[pa.Table] = []
    for batch in batches:
        rows = changes_in(batch)
        revisions = rows["revision"].to_numpy()
        begin = int(revisions.searchsorted(revisions[-1]))  # of the last revision, which may go on
        if begin:
            yield pa.concat_tables([*held, rows[:begin]])
            held = []
        elif held and held[-1]["revision"][-1] != rows["revision"][0]:
            yield pa.concat_tables(held)
            held = []
        held.append(rows[begin:])
    if held:
        yield pa.concat_tables(held)


def changes_in(batch: Any) -> pa.Table:
    """Rows of CHANGES for a batch of a scan. Where a scan has 0 because there is no record, a lake has null."""
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    is_put = pc.equal(columns["op"], "put")
    had_record = pc.greater(columns["prev_revision"], 0)
    for names, is_there in (
        (("lease", "create_revision", "version"), is_put),
        (("prev_lease", "prev_revision"), had_record),
    ):
        for name in names:
            columns[name] = pc.if_else(is_there, columns[name], pa.scalar(None, pa.int64()))
    columns["sub"] = columns["sub"].cast(pa.int32())
    columns["key_text"] = texts_of(columns["key"], columns["key_text"])
    return pa.table([columns[name] for name in CHANGES.names], schema=CHANGES)


def keys_in(batch: Any) -> pa.Table:
    """Rows of BASE for a batch of a scan of its columns."""
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns["key_text"] = texts_of(columns["key"], columns["key_text"])
    return pa.table([columns[name] for name in BASE.names], schema=BASE)


def records_of(records: Iterable[KeyRecord]) -> pa.Table:
    """Rows of BASE for key records."""
    rows = [
        (one.key, text_of(one.key), one.value, one.create_revision, one.mod_revision, one.version, signed(one.lease))
        for one in records
    ]
    columns = list(zip(*rows, strict=True)) or [()] * len(BASE)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, BASE, strict=True)], schema=BASE)
