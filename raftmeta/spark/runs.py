"""The runs to verify: run folders and histories, looked at before Spark starts.

A run is a folder that a fault run left:

    run.json                    parameters, versions, seed, t0; "models": the model of each history, by its file
    history-<name>.parquet      operations, as docs/checker.md "Files" has them
    observations.parquet        observations (docs/pipeline.md "Observations"); may be missing
    faults.parquet              the strikes on the cluster; may be missing

or one history in Parquet, a file or a folder of parts, with the model that the caller names. Paths must mean the same
on every executor.

It decides what a task reads. It never reads an event: only the footers of files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from raftmeta.check.files import bucket_model
from raftmeta.check.models import MODELS
from raftmeta.errors import ConfigError

__all__ = ["HistoryFile", "Part", "Run", "find_runs", "parts_of"]

RUNAWAY_CLOCKS = "clock-runaway"  # the nemesis under which only fences protect (docs/jepsen.md "Observations")
PART_ROWS = 4_000_000  # events of buckets that one task reads

HISTORY_COLUMNS = {"seq", "process", "kind", "operation"}
OBSERVATION_COLUMNS = {
    "seq": "int64",
    "time_ns": "int64",
    "kind": "string",
    "subject": "string",
    "process": "int64",
    "node": "string",
    "revision": "int64",
    "token": "int64",
    "value": "string",
}
FAULT_COLUMNS = {
    "seq_begin": "int64",
    "seq_end": "int64",
    "begin_ns": "int64",
    "end_ns": "int64",
    "nemesis": "string",
    "target": "string",
    "detail": "string",
    "observed": "int64",
}


@dataclass(frozen=True, slots=True)
class HistoryFile:
    """A history of a run. buckets: rows of each row group, if each holds whole components as this model joins them."""

    name: str
    path: str
    model: str
    rows: int
    buckets: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """A run folder, or a history that stands alone. fault_begins: times of faults.parquet, in its order."""

    name: str
    histories: tuple[HistoryFile, ...]
    facts: dict[str, Any] = field(default_factory=dict)
    observations: str = ""
    faults: str = ""
    fault_begins: tuple[int, ...] = ()
    has_true_clocks: bool = True  # false: steady clocks were made to drift beyond what holders allow for


@dataclass(frozen=True, slots=True)
class Part:
    """The input of one task: a whole history, or some of its buckets."""

    run: str
    history: HistoryFile
    row_groups: tuple[int, ...]  # none: all of it, still to be put into buckets
    fault_begins: tuple[int, ...]


def find_runs(paths: Sequence[str | Path], *, model: str = "kv") -> list[Run]:
    """The runs at these paths, in the order of their names.

    model: of histories that stand alone. Raises ConfigError, which says which path is no run and why.
    """
    runs = [_run_at(Path(path), model) for path in paths]
    for one, other in pairwise(sorted(runs, key=lambda run: run.name)):
        if one.name == other.name:
            raise ConfigError(f"two runs are named {one.name!r}: the tables could not tell them apart")
    if not runs:
        raise ConfigError("no run is named")
    return sorted(runs, key=lambda run: run.name)


def parts_of(runs: Iterable[Run]) -> list[Part]:
    """The inputs of the tasks; the largest first, so that none of them is alone at the end."""
    parts = [part for run in runs for history in run.histories for part in _parts(run, history)]
    return sorted(parts, key=_rows, reverse=True)


def _parts(run: Run, history: HistoryFile) -> Iterator[Part]:
    taken: list[int] = []
    for number, rows in enumerate(history.buckets):
        if taken and sum(history.buckets[one] for one in taken) + rows > PART_ROWS:
            yield Part(run.name, history, tuple(taken), run.fault_begins)
            taken = []
        taken.append(number)
    yield Part(run.name, history, tuple(taken), run.fault_begins)


def _rows(part: Part) -> int:
    return sum(part.history.buckets[number] for number in part.row_groups) or part.history.rows


# --- one path ---------------------------------------------------------------------------------------------------------
def _run_at(path: Path, model: str) -> Run:
    path = path.resolve()
    if not path.exists():
        raise ConfigError(f"{path}: no such run")
    if not (path / "run.json").exists():
        if path.suffix == ".parquet":
            return Run(f"{path.parent.name}/{path.name}", (_history(path, model),))
        raise ConfigError(f"{path}: no run: neither a folder with run.json nor a .parquet history")
    facts = _facts(path / "run.json")
    histories = tuple(_history(path / file, str(of)) for file, of in sorted(facts["models"].items()))
    faults = _table(path / "faults.parquet", FAULT_COLUMNS)
    observations = _table(path / "observations.parquet", OBSERVATION_COLUMNS)
    if not histories and not observations:
        raise ConfigError(f"{path}: run.json names no history, and there are no observations: nothing to verify")
    begins, nemeses = _fault_columns(faults)
    return Run(path.name, histories, facts, observations, faults, begins, RUNAWAY_CLOCKS not in nemeses)


def _facts(path: Path) -> dict[str, Any]:
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise ConfigError(f"{path}: not readable as JSON: {error}") from None
    if not isinstance(facts, dict) or not isinstance(facts.get("models"), dict):
        raise ConfigError(f'{path}: without "models", an object that gives the model of each history by its file')
    return facts


def _history(path: Path, model: str) -> HistoryFile:
    import pyarrow.dataset as ds

    name = path.stem.removeprefix("history-")
    if model not in MODELS:
        raise ConfigError(f"{path}: no model {model!r}; there are: {', '.join(MODELS)}")
    if path.is_dir():
        parts = [(_footer(part), part) for part in ds.dataset(str(path), format="parquet").files]
        for footer, part in parts:
            _expect_history(footer, part)
        return HistoryFile(name, str(path), model, sum(footer.num_rows for footer, _ in parts))
    footer = _footer(path)
    _expect_history(footer, path)
    has_buckets = bucket_model(footer.schema.to_arrow_schema()) == model
    groups = range(footer.num_row_groups) if has_buckets else ()
    buckets = tuple(footer.row_group(group).num_rows for group in groups)
    return HistoryFile(name, str(path), model, footer.num_rows, buckets)


def _footer(path: str | Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_metadata(path)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such history, though run.json names it") from None
    except (pa.ArrowException, OSError) as error:
        raise ConfigError(f"{path}: no Parquet file, or a broken one: {_line(error)}") from None


def _expect_history(footer: Any, path: str | Path) -> None:
    if missing := HISTORY_COLUMNS - set(footer.schema.to_arrow_schema().names):
        columns = ", ".join(sorted(missing))
        raise ConfigError(f"{path}: no history: without the columns {columns} (docs/checker.md, Files)")


def _table(path: Path, columns: dict[str, str]) -> str:
    """The path of an optional table of a run, with these columns; "" if the run has none."""
    if not path.exists():
        return ""
    found = {one.name: str(one.type) for one in _footer(path).schema.to_arrow_schema()}
    wrong = [f"{name} {kind}" for name, kind in columns.items() if found.get(name) != kind]
    if wrong:
        raise ConfigError(f"{path}: needs the columns {', '.join(wrong)}")
    return str(path)


def _fault_columns(path: str) -> tuple[tuple[int, ...], set[str]]:
    """When each fault began, and the nemeses that struck."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path:
        return (), set()
    try:
        table = pq.read_table(path, columns=["begin_ns", "nemesis"])
        return tuple(table.column("begin_ns").to_pylist()), set(table.column("nemesis").to_pylist())
    except (pa.ArrowException, OSError) as error:
        raise ConfigError(f"{path}: broken: {_line(error)}") from None


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
