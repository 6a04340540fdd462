"""Run folders as a fault run leaves them, small, made from seeds: right ones, wrong ones, broken ones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from raftmeta.check import Event, History, write_history
from raftmeta.check.files import to_arrow
from raftmeta.spark.runs import FAULT_COLUMNS, OBSERVATION_COLUMNS
from tests.check.store import Workload, draw_transactions, sequential
from tests.spark.observed import CONTRADICTED, stream, whole

MODEL = "cas-register"
SMALL_BUCKET = 400  # events: so that small histories have several
KEYS = 12
MS = 1_000_000


def schema_of(columns: dict[str, str]) -> pa.Schema:
    return pa.schema([(name, pa.type_for_alias(kind)) for name, kind in columns.items()])


def write_run(folder: Path, histories: dict[str, str], **facts: Any) -> Path:
    """run.json of a folder, made if it is not there. histories: the model by name."""
    folder.mkdir(parents=True, exist_ok=True)
    models = {f"history-{name}.parquet": model for name, model in histories.items()}
    (folder / "run.json").write_text(json.dumps({"models": models, **facts}))
    return folder


def register_events(seed: int = 1, operations: int = 1200) -> list[Event]:
    """Registers with compare-and-set, some operations crashed; an event takes a millisecond."""
    events = Workload(operations, 5, keys=KEYS, crash_share=0.01).run(seed)
    return [replace(event, time_ns=event.seq * MS) for event in events]


def clean(folder: Path) -> Path:
    """All is right; two faults struck."""
    events = register_events()
    write_history(History.of(events), write_run(folder, {"register": MODEL}, seed=1) / "history-register.parquet")
    write_faults(folder, [fault("kill", 200, 400), fault("partition", 900, 1000)])
    return folder


def write_faults(folder: Path, rows: Sequence[dict[str, Any]]) -> None:
    pq.write_table(pa.Table.from_pylist(rows, schema_of(FAULT_COLUMNS)), folder / "faults.parquet")


def read(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows


def fault(nemesis: str, begin: int, end: int) -> dict[str, Any]:
    return {
        "seq_begin": begin,
        "seq_end": end,
        "begin_ns": begin * MS,
        "end_ns": end * MS,
        "nemesis": nemesis,
        "target": "one: n1",
        "detail": "",
        "observed": 1,
    }


def clean_in_buckets(folder: Path) -> Path:
    """The same history and faults, recorded in buckets."""
    clean(folder)
    path = folder / "history-register.parquet"
    write_history(History.of(register_events()), path, bucketed_for=MODEL, bucket_rows=SMALL_BUCKET)
    return folder


def stale(folder: Path) -> Path:
    """One read returns a value that nobody had written."""
    events = register_events()
    invoked = max(event.seq for event in events[:600] if event.operation == "read")
    answer = next(event for event in events[invoked + 1 :] if event.process == events[invoked].process)
    assert answer.kind == "ok"
    events[answer.seq] = replace(answer, result=77, revision=None)
    write_history(History.of(events), write_run(folder, {"register": MODEL}) / "history-register.parquet")
    return folder


def transactions(folder: Path) -> Path:
    """Every two keys meet in some transaction: one component."""
    events = Workload(300, 4, keys=5, draw=draw_transactions).run(2)
    write_history(History.of(events), write_run(folder, {"txn": "kv"}) / "history-txn.parquet")
    return folder


def strange(folder: Path) -> Path:
    """A completion of nothing, on a key that it names; row groups of a hundred events in no order, all times tied."""
    events = [replace(event, time_ns=5) for event in register_events()]
    events.append(Event(len(events), 99, "ok", key="k3", result=1))
    table = to_arrow(History.of(events))
    write_run(folder, {"register": MODEL})
    pq.write_table(table.sort_by([("seq", "descending")]), folder / "history-register.parquet", row_group_size=100)
    return folder


def foreign(folder: Path) -> Path:
    """A folder of parts that Spark could have written: texts that are not canonical, kinds as words, no times."""
    table = to_arrow(History.of(register_events())).replace_schema_metadata(None).drop_columns(["time_ns"])
    kinds = pa.array(["invoke", "ok", "fail", "info"]).take(table["kind"].combine_chunks())
    keys = pa.array([None if key is None else f" {key} " for key in table["key"].to_pylist()])
    table = table.set_column(table.schema.get_field_index("kind"), "kind", kinds)
    table = table.set_column(table.schema.get_field_index("key"), "key", keys)
    parts = write_run(folder, {"parts": MODEL}) / "history-parts.parquet"
    parts.mkdir()
    for number, begin in enumerate(range(0, len(table), 700)):
        pq.write_table(table.slice(begin, 700), parts / f"part-{number}.parquet")
    return folder


def unwatched(folder: Path) -> Path:
    """Three acknowledged writes, and a watch that was told of two."""
    calls = [("write", 1, None), ("write", 2, None), ("write", 3, None)]
    events = [replace(event, revision=event.seq // 2 + 1) for event in sequential(*calls, key="w/k")]
    observed(folder, stream(1, 0, 1, 3, until=3))
    write_history(History.of(events), write_run(folder, {"watch": "kv"}) / "history-watch.parquet")
    return folder


def unseen(folder: Path) -> Path:
    """An acknowledged write, and a watch that passed its revision and was never told of anything. It knows of more."""
    events = [replace(event, revision=2) for event in sequential(("write", 1, None), key="w/k")]
    observed(folder, stream(1, 1, until=3))
    write_run(folder, {"watch": "kv"}, failures=["kill: never struck <at all>"])
    write_history(History.of(events), folder / "history-watch.parquet")
    return folder


def runaway(folder: Path) -> Path:
    """Two hold one lock by their own clocks, which ran wild: only the fence had to protect."""
    observed(folder, CONTRADICTED["two-holders"][0])
    write_faults(folder, [fault("clock-runaway", 0, 10)])
    return folder


def torn(folder: Path) -> Path:
    """The pages are garbage; the footer is whole."""
    path = clean(folder) / "history-register.parquet"
    raw = bytearray(path.read_bytes())
    footer = int.from_bytes(raw[-8:-4], "little") + 8
    raw[4 : len(raw) - footer] = b"\xff" * (len(raw) - footer - 4)
    path.write_bytes(raw)
    return folder


def observed(folder: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """A run with observations only."""
    table = pa.Table.from_pylist(whole(rows), schema_of(OBSERVATION_COLUMNS))
    pq.write_table(table, write_run(folder, {}) / "observations.parquet")
    return folder
