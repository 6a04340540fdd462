"""The work of a task: read events, put them into buckets or check them, and report its findings.

1. `read_parts` runs where histories are read. It checks a history that lies in buckets at once. It loads any other one
   whole: native code pairs the events and joins them into components, events that make no sense go into quarantine, and
   the rest leaves as buckets, to be shared out among all tasks. A component that fills a bucket alone is cut where its
   value is certain.
2. `check_buckets` runs behind the shuffle and checks the buckets that come.

It decides what belongs together, by asking the loader of raftmeta.check; it never decides a verdict. Nothing here
stops the job: a file that cannot be read is in quarantine like an event that makes no sense.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from raftmeta.check import History, Limits, Prepared
from raftmeta.check.arrow import cut_table
from raftmeta.check.explain import Counterexample, explain
from raftmeta.check.files import CANONICAL, from_arrow, rows_of, sorted_table, to_arrow
from raftmeta.check.report import counterexample_text
from raftmeta.spark.findings import decode_events, encode_events, finding_batches, findings_of
from raftmeta.spark.runs import Part
from raftmeta.spark.times import OK, Times

__all__ = ["check_buckets", "read_parts"]

EXPLAINED_MAX = 3  # violations of one bucket that are explained; all are told
WATCHED, WRITE = "watch", "write"  # the history beside which watches were observed, and what they must tell of
RAW_MAX = 500  # characters of a bad event that are kept


def read_parts(parts: Sequence[Part], limits: Limits, bucket_rows: int) -> Any:
    """For mapInArrow over the numbers of these parts. bucket_rows: events of a bucket, if it has several components."""

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from _read_part(parts[number], limits, bucket_rows)

    return read


def check_buckets(limits: Limits) -> Any:
    """For mapInArrow over findings: buckets become verdicts, everything else passes."""

    def check(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            buckets = batch.column("bucket")
            if buckets.null_count == len(batch):
                yield batch
                continue
            yield batch.filter(buckets.is_null())
            for row in range(len(batch)):
                if buckets[row].is_valid:
                    yield from _check_bucket(batch.slice(row, 1), limits)

    return check


# --- reading ----------------------------------------------------------------------------------------------------------
def _read_part(part: Part, limits: Limits, bucket_rows: int) -> Iterator[pa.RecordBatch]:
    try:
        if not part.row_groups:
            yield from _share_out(part, pq.read_table(part.history.path), limits, bucket_rows)
            return
        times = Times(part.fault_begins)
        with pq.ParquetFile(part.history.path) as file:
            for group in part.row_groups:
                yield from _check_row_group(part, file.read_row_group(group), limits, times)
        yield from times.findings(part.run, part.history.name)
    except (pa.ArrowException, OSError, ValueError, MemoryError) as error:
        yield from _not_checked(part.run, part.history.name, part.history.path, error)


def _not_checked(run: str, name: str, what: str, error: BaseException) -> Iterator[pa.RecordBatch]:
    reason = f"not readable: {' '.join(str(error).split()) or type(error).__name__}"
    yield from finding_batches(run, name, "quarantine", [{"row": -1, "reason": reason[:RAW_MAX], "raw": what}])


def _check_row_group(part: Part, table: Any, limits: Limits, times: Times) -> Iterator[pa.RecordBatch]:
    history = from_arrow(table)
    prepared = Prepared(history, part.history.model, limits=limits)
    prepared.handle.group(len(history))
    invocations = prepared.handle.invocations()
    times.add(history, invocations)
    yield from _written(part, history, invocations)
    yield from _verdicts(part.run, part.history.name, prepared, pieces=1)


def _share_out(part: Part, table: Any, limits: Limits, bucket_rows: int) -> Iterator[pa.RecordBatch]:
    """A whole history: the findings known at once, and its components in buckets."""
    run, name, model = part.run, part.history.name, part.history.model
    table = sorted_table(table)
    history = from_arrow(table)
    if CANONICAL not in (table.schema.metadata or {}):
        table = to_arrow(history)
    prepared = Prepared(history, model, limits=limits)
    handle = prepared.handle
    handle.group(bucket_rows)
    yield from _quarantine(run, name, prepared)
    tainted = [prepared.tainted(number) for number in handle.tainted()]
    yield from finding_batches(run, name, "verdict", [_verdict_row(prepared, one, 1, None) for one in tainted])
    times = Times(part.fault_begins)
    times.add(history, handle.invocations())
    yield from times.findings(run, name)
    yield from _written(part, history, handle.invocations())
    buckets = handle.buckets()
    del prepared, handle, history  # hundreds of bytes for each operation, which the buckets do not need
    turn = 0
    for bucket in buckets:
        for events, initial, pieces in _pieces(table.take(rows_of(bucket)), model, bucket_rows):
            row = {"model": model, "initial": initial, "pieces": pieces, "events": encode_events(events)}
            array = pa.array([row])
            order = ["model", "initial", "pieces", "events"]
            array = pa.StructArray.from_arrays([array.field(field) for field in order], names=order)
            yield findings_of(run, name, "bucket", array, turn=turn)
            turn += 1


def _written(part: Part, history: History, invocations: bytes) -> Iterator[pa.RecordBatch]:
    """Acknowledged writes of a history that was recorded beside watches, which must tell of these writes."""
    if part.history.name != WATCHED or WRITE not in history.names:
        return
    code, rows = history.names.index(WRITE), []
    for done, called in enumerate(memoryview(invocations).cast("i")):
        if (
            called >= 0
            and history.operation[called] == code
            and history.kind[done] == OK
            and history.revision[done] >= 0
        ):
            key, value = history.key[called].decode(), history.arguments[called].decode()
            rows.append({"key": key, "revision": history.revision[done], "value": value, "seq": history.seq[done]})
    yield from finding_batches(part.run, part.history.name, "written", rows)


def _pieces(table: Any, model: str, bucket_rows: int) -> list[tuple[Any, str | None, int]]:
    """Events, the initial value of their key, and the number of pieces: more than one only for a hot component."""
    if len(table) <= bucket_rows:
        return [(table, None, 1)]
    cut = list(cut_table(table, model=model, events_min=bucket_rows // 2))
    return [(events, None if initial is None else json.dumps(initial), len(cut)) for events, initial in cut]


# --- checking ---------------------------------------------------------------------------------------------------------
def _check_bucket(finding: pa.RecordBatch, limits: Limits) -> Iterator[pa.RecordBatch]:
    run, name = finding.column("run")[0].as_py(), finding.column("history")[0].as_py()
    bucket = finding.column("bucket")
    initial = bucket.field("initial")[0].as_py()
    events = decode_events(bucket.field("events")[0].as_buffer())
    model, pieces = bucket.field("model")[0].as_py(), bucket.field("pieces")[0].as_py()
    try:
        initial = None if initial is None else json.loads(initial)
        prepared = Prepared(from_arrow(events), model, initial=initial, limits=limits)
        yield from _verdicts(run, name, prepared, pieces=pieces)
    except MemoryError as error:
        yield from _not_checked(run, name, f"{len(events)} events", error)


def _verdicts(run: str, name: str, prepared: Prepared, *, pieces: int) -> Iterator[pa.RecordBatch]:
    """Check all loaded components."""
    prepared.run()
    rows, explained = [], 0
    for number, verdict in enumerate(prepared.components()):
        example = None
        if verdict.verdict == "violation" and explained < EXPLAINED_MAX:
            explained += 1
            example = explain(prepared, number)
        rows.append(_verdict_row(prepared, verdict, pieces, example))
    yield from finding_batches(run, name, "verdict", rows)
    yield from _quarantine(run, name, prepared)


def _verdict_row(prepared: Prepared, verdict: Any, pieces: int, example: Counterexample | None) -> dict[str, Any]:
    seqs = [] if example is None else [one.called_seq for one in example.operations]
    ends = [] if example is None else [one.completed_seq for one in example.operations if one.completed_seq is not None]
    return {
        "model": prepared.model.name,
        "component": verdict.keys[0],
        "keys": len(verdict.keys),
        "verdict": verdict.verdict,
        "limit": verdict.limit or None,
        "engine": verdict.engine,
        "operations": verdict.operations,
        "steps": verdict.steps,
        "pieces": pieces,
        "first_seq": min(seqs, default=None),
        "last_seq": max(seqs + ends, default=None),
        "explanation": None if example is None else counterexample_text(example),
    }


def _quarantine(run: str, name: str, prepared: Prepared) -> Iterator[pa.RecordBatch]:
    rows = [{"row": one.row, "reason": one.reason, "raw": one.raw[:RAW_MAX]} for one in prepared.quarantined()]
    yield from finding_batches(run, name, "quarantine", rows)
