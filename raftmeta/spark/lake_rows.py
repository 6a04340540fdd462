"""What stands in the files of a lake: columns of changes and of states, and rows of them from events and records."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from raftmeta.operations import KeyRecord
from raftmeta.results import WatchEvent

__all__ = ["BASE", "CHANGES", "changes_of", "records_of", "signed", "text_of"]

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
    """A key for people; one that is no UTF-8 stays readable and different from every other."""
    return key.decode("utf-8", "backslashreplace")


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


def records_of(records: Iterable[KeyRecord]) -> pa.Table:
    """Rows of BASE for key records."""
    rows = [
        (one.key, text_of(one.key), one.value, one.create_revision, one.mod_revision, one.version, signed(one.lease))
        for one in records
    ]
    columns = list(zip(*rows, strict=True)) or [()] * len(BASE)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, BASE, strict=True)], schema=BASE)
