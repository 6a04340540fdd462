"""The tables, their columns, and native buffers as record batches of Arrow.

It decides what a table is called and looks like. It never decides which rows there are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from raftmeta.errors import InvalidArgument
from raftmeta.scan.scan_handle import ColumnsHandle

__all__ = ["Batches", "Scope", "columns_of"]

TUNE_BATCH_ROWS = 8192  # on a busy machine 16,384 took Spark more processor time, and 2,048 no less
TUNE_BATCH_BYTES = 8 << 20  # of keys and values: a batch of large values stays small

# By table: column, its number in raftmeta/scan/columns.pxd, and its type. Numbers of 64 bits are shown as signed ones.
_CHANGED = (
    ("key", 9, "binary"),
    ("key_text", 10, "string"),
    ("value", 11, "binary"),
    ("create_revision", 3, "bigint"),
)
# Of the record before a change. They cost: a node looks each up, and of a file all history is held in memory.
_PREVIOUS = (
    ("prev_value", 13, "binary"),
    ("prev_lease", 8, "bigint"),
    ("prev_revision", 7, "bigint"),
)
TABLES: dict[str, tuple[tuple[str, int, str], ...]] = {
    "kv": (
        ("at_revision", 0, "bigint"),
        *_CHANGED,
        ("mod_revision", 4, "bigint"),
        ("version", 5, "bigint"),
        ("lease", 6, "bigint"),
    ),
    "changes": (
        ("revision", 0, "bigint"),
        ("sub", 1, "bigint"),
        ("ts", 2, "timestamp"),
        ("op", 12, "string"),
        *_CHANGED,
        ("version", 5, "bigint"),
        ("lease", 6, "bigint"),
        *_PREVIOUS,
    ),
}


def columns_of(table: str, *, previous: bool = False) -> tuple[str, ...]:
    """The columns of a table when none are named; previous: those of the record before a change as well."""
    left_out = set() if previous else {name for name, _, _ in _PREVIOUS}
    return tuple(name for name, _, _ in TABLES[table] if name not in left_out)


@dataclass(frozen=True, slots=True)
class Scope:
    """The wanted part of a table.

    start, stop: keys of [start, stop), an empty stop means to the last key. columns: names in the wanted order; none
    means columns_of the table.
    """

    start: bytes = b""
    stop: bytes = b""
    columns: tuple[str, ...] = field(default=())

    def wants_previous(self) -> bool:
        """True when a column is of the record before a change."""
        return any(name in self.columns for name, _, _ in _PREVIOUS)

    def holds_nothing(self) -> bool:
        """True when no key can be in [start, stop)."""
        return bool(self.stop) and self.stop <= self.start


class Batches:
    """Rows of one table on their way to Arrow."""

    def __init__(self, table: str, columns: tuple[str, ...] = ()) -> None:
        """Raises InvalidArgument that names a column which the table does not have."""
        import pyarrow as pa

        known = {name: (number, kind) for name, number, kind in TABLES[table]}
        for name in columns:
            if name not in known:
                raise InvalidArgument(f"columns: {table} has no {name!r}; it has {', '.join(known)}", field="columns")
        types = {
            "bigint": pa.int64(),
            "binary": pa.binary(),
            "string": pa.string(),
            "timestamp": pa.timestamp("us", "UTC"),
        }
        names = columns or columns_of(table)
        self._wanted = [(known[name][0], types[known[name][1]]) for name in names]
        self.schema = pa.schema([(name, types[known[name][1]]) for name in names])
        self.handle = ColumnsHandle(sum({1 << number for number, _ in self._wanted}))

    def is_full(self) -> bool:
        return self.handle.rows >= TUNE_BATCH_ROWS or self.handle.byte_count >= TUNE_BATCH_BYTES

    def take(self) -> Any:
        """The rows so far as a pyarrow.RecordBatch, or None without any."""
        import pyarrow as pa

        rows = self.handle.rows
        if rows == 0:
            return None
        taken = self.handle.take()
        arrays = []
        for number, kind in self._wanted:
            nulls, buffers = taken[number]
            held = [None if part is None else pa.py_buffer(part) for part in buffers]
            arrays.append(pa.Array.from_buffers(kind, rows, held, nulls))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)
