"""The findings of a task, as rows of one shape, so that one pass over the events feeds every table.

A row belongs to a history of a run and carries exactly one finding; its other columns are null. A `bucket` is a finding
on its way: events that another task will check, as bytes of Arrow. So Spark shuffles a few large rows instead of
millions of small ones (a JVM spends more time on shuffling and sorting events than the checker on checking them).

It decides the shape of rows. It never looks into them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

__all__ = ["FINDINGS", "decode_events", "encode_events", "finding_batches", "findings_of", "spark_schema"]

ROWS_PER_BATCH = 10_000

_PARTS: dict[str, list[tuple[str, Any]]] = {
    "bucket": [
        ("model", pa.string()),
        ("initial", pa.string()),  # the value of its key at first, as JSON; null: none
        ("pieces", pa.int32()),  # into how many its component was cut
        ("events", pa.binary()),
    ],
    "verdict": [
        ("model", pa.string()),
        ("component", pa.string()),  # its first key, as JSON
        ("keys", pa.int64()),
        ("verdict", pa.string()),
        ("limit", pa.string()),
        ("engine", pa.string()),
        ("operations", pa.int64()),
        ("steps", pa.int64()),
        ("pieces", pa.int32()),
        ("first_seq", pa.int64()),
        ("last_seq", pa.int64()),
        ("explanation", pa.string()),
    ],
    "totals": [
        ("events", pa.int64()),
        ("ok", pa.int64()),
        ("fail", pa.int64()),
        ("info", pa.int64()),
        ("first_ns", pa.int64()),
        ("last_ns", pa.int64()),
    ],
    "quarantine": [("row", pa.int64()), ("reason", pa.string()), ("raw", pa.string())],
    "latency": [
        ("operation", pa.string()),
        ("outcome", pa.string()),
        ("window_ns", pa.int64()),
        ("step", pa.int32()),  # of a logarithmic scale: raftmeta/spark/times.py
        ("n", pa.int64()),
        ("longest_ns", pa.int64()),
    ],
    "answers": [
        ("slot_ns", pa.int64()),
        ("outcome", pa.string()),
        ("n", pa.int64()),
        ("first_ns", pa.int64()),
        ("last_ns", pa.int64()),
    ],
    "written": [
        ("key", pa.string()),
        ("revision", pa.int64()),
        ("value", pa.string()),
        ("seq", pa.int64()),
    ],
    "first_answer": [("fault", pa.int32()), ("time_ns", pa.int64())],
}
FINDINGS = pa.schema(
    [("run", pa.string()), ("history", pa.string()), ("turn", pa.int32())]
    + [(name, pa.struct(fields)) for name, fields in _PARTS.items()]
)


def spark_schema() -> Any:
    """FINDINGS as Spark has it."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(FINDINGS)


def finding_batches(run: str, history: str, name: str, rows: Sequence[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
    """Findings of one kind from dictionaries."""
    for begin in range(0, len(rows), ROWS_PER_BATCH):
        array = pa.array(rows[begin : begin + ROWS_PER_BATCH], pa.struct(_PARTS[name]))
        yield findings_of(run, history, name, array)


def findings_of(run: str, history: str, name: str, array: Any, *, turn: int = 0) -> pa.RecordBatch:
    """Findings of one kind from an array of structs. turn: rows of one number go to one task, if they go anywhere."""
    count = len(array)
    columns = [pa.array([run] * count, pa.string()), pa.array([history] * count, pa.string())]
    columns.append(pa.array([turn] * count, pa.int32()))
    for field in list(FINDINGS)[3:]:
        columns.append(array.cast(field.type) if field.name == name else pa.nulls(count, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=FINDINGS)


def encode_events(table: Any) -> bytes:
    """A table of events, to be sent to another task."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def decode_events(raw: Any) -> Any:
    """The table that encode_events was given."""
    return pa.ipc.open_stream(raw).read_all()
