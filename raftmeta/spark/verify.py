"""From the folders of fault runs to a verdict: the pipeline `verify`.

    runs ──► read_parts ──► shuffle of buckets ──► check_buckets ──► findings ──► tables ──► report
             (native: pair, join, quarantine)      (native: search)

Histories that were recorded in buckets skip the shuffle. One pass over the events gives everything in the tables;
observations are queries of their own. The same input gives the same tables, byte by byte.

It decides the order of the steps and the verdict on the whole: `violation` if anything was contradicted, `ok` if
everything was checked and nothing was in quarantine, `unknown` for all else. It never leaves a half-written folder: it
exchanges the whole of `out` at the end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raftmeta.check import Limits
from raftmeta.spark.folders import exchanged, expect_ours, write_json, write_table
from raftmeta.spark.jobs import Progress, failed, told
from raftmeta.spark.runs import FAULT_COLUMNS, Run, find_runs, parts_of
from raftmeta.spark.session import import_pyspark, spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Verified", "verify"]

SUMMARY = "summary.json"
# The JVM only adds up what native code found: thousands of rows, for which planning twice and compiling take longer
# than computing (first run on small data: 22 s of processor time with all of it, 14 s without). Its shuffled data is
# compressed already. With one compiler only Java would give compiled code 48 MB, which a session that lives long fills:
# then it ends with "Out of space in CodeCache".
SETTINGS = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m",
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
BUCKET_ROWS = 125_000  # events, about 2 MB of them
TASK_EVENTS = 2_000_000  # that a task checks, at most: its buckets come in one Arrow batch


@dataclass(frozen=True, slots=True)
class Verified:
    """The findings of `verify`.

    verdict: ok, violation or unknown. histories: rows of histories.parquet. counts: rows of each table. out: the folder
    with the tables, summary.json and report.html.
    """

    verdict: str
    histories: tuple[dict[str, Any], ...]
    counts: dict[str, int]
    out: Path


def verify(
    paths: Sequence[str | Path],
    out: str | Path,
    *,
    master: str = "local[*]",
    model: str = "kv",
    limits: Limits | None = None,
    bucket_rows: int = BUCKET_ROWS,
    allow_empty: bool = False,
    on_progress: Progress | None = None,
) -> Verified:
    """Check the runs at these paths, and write tables and report into the folder out.

    paths: run folders, or histories in Parquet, which are checked as `model`. master: of Spark; ignored when a session
    is active. limits: of each bucket of components. bucket_rows: events of a bucket that is shuffled; a component with
    more is cut where its value is certain. allow_empty: a history without events is `ok` instead of `unknown`.
    on_progress: called with (what, tasks done, tasks) from another thread, a few times a second. A folder of an earlier
    verify is replaced. Raises ConfigError for a path that is no run, an `out` that holds something else, and missing
    Spark or Java; RuntimeError when the job itself failed.
    """
    import_pyspark()
    runs = find_runs(paths, model=model)
    folder = Path(out).resolve()
    expect_ours(folder, SUMMARY, what="verify")
    session = spark_session(master, app="raftmeta pipeline verify", settings=SETTINGS)
    with session as spark, told(spark, "checking", on_progress):
        tables = _tables(spark, runs, limits or Limits(), bucket_rows, allow_empty)
    counts = {name: len(table) for name, table in tables.items()}
    histories = tables["histories"].to_pylist()
    verdict = _verdict(histories, counts)
    summary = {
        "verdict": verdict,
        "runs": [{"run": run.name, "facts": run.facts} for run in runs],
        "rows": counts,
    }
    _write(folder, tables, summary)
    return Verified(verdict, tuple(histories), counts, folder)


def _verdict(histories: list[dict[str, Any]], counts: dict[str, int]) -> str:
    if counts["anomalies"]:
        return "violation"
    if counts["quarantine"] or any(row["verdict"] != "ok" for row in histories):
        return "unknown"
    return "ok"


# --- the job ----------------------------------------------------------------------------------------------------------
def _tables(
    spark: SparkSession, runs: list[Run], limits: Limits, bucket_rows: int, allow_empty: bool
) -> dict[str, Any]:
    """Every table, as Arrow."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    import raftmeta.spark.observations as of
    import raftmeta.spark.tables as make

    # The rows of one run lie together, so that the windows and groups of the tables shuffle nothing more.
    together = spark.sparkContext.defaultParallelism if len(runs) > 1 else 1
    findings = _findings(spark, runs, limits, bucket_rows).repartition(together, "run").persist()
    faults = _faults(spark, runs)
    names = [(run.name, history.name, history.model) for run in runs for history in run.histories]
    expected = spark.createDataFrame(names, "run string, history string, model string")
    observed = _observed(spark, runs).repartition(together, "run").persist()
    wrong, strange = None, None
    if any(run.observations for run in runs):
        wrong = of.contradictions(observed, make.written(findings), runs)
        strange = of.strange_observations(observed)
    frames = {
        "histories": make.histories(findings, expected, allow_empty),
        "verdicts": make.verdicts(findings),
        "anomalies": make.anomalies(findings, wrong),
        "quarantine": make.quarantine(findings, strange),
        "latency": make.latency(findings),
        "availability": make.availability(findings, faults),
        "elections": of.elections(observed, faults),
        "throughput": make.throughput(findings),
    }
    try:
        return {name: _sorted(frame.toArrow(), make.SORTED_BY[name]) for name, frame in frames.items()}
    except (PySparkException, Py4JError) as error:
        raise failed(error) from None
    finally:
        findings.unpersist()
        observed.unpersist()


def _sorted(table: Any, columns: Sequence[str]) -> Any:
    return table.sort_by([(column, "ascending") for column in columns]).combine_chunks()


def _findings(spark: SparkSession, runs: list[Run], limits: Limits, bucket_rows: int) -> DataFrame:
    from raftmeta.spark.findings import spark_schema
    from raftmeta.spark.gathering import check_buckets, read_parts

    schema = spark_schema()
    parts = parts_of(runs)
    bucketed = [part for part in parts if part.row_groups]
    whole = [part for part in parts if not part.row_groups]
    found = spark.createDataFrame([], schema)
    if bucketed:
        numbers = spark.range(0, len(bucketed), 1, len(bucketed))
        found = found.unionByName(numbers.mapInArrow(read_parts(bucketed, limits, bucket_rows), schema))
    if whole:
        events = sum(part.history.rows for part in whole)
        tasks = max(4, math.ceil(events / TASK_EVENTS), min(32, math.ceil(events / bucket_rows)))
        numbers = spark.range(0, len(whole), 1, len(whole))
        shared = numbers.mapInArrow(read_parts(whole, limits, bucket_rows), schema).repartition(tasks, "turn")
        found = found.unionByName(shared.mapInArrow(check_buckets(limits), schema))
    return found


def _observed(spark: SparkSession, runs: list[Run]) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    from raftmeta.spark.observations import OBSERVED, read_observations

    seen = [run for run in runs if run.observations]
    schema = from_arrow_schema(OBSERVED)
    if not seen:
        return spark.createDataFrame([], schema)
    return spark.range(0, len(seen), 1, len(seen)).mapInArrow(read_observations(seen), schema)


def _faults(spark: SparkSession, runs: list[Run]) -> DataFrame:
    """The strikes on the clusters: few rows, read here."""
    import pyarrow.parquet as pq

    rows: list[tuple[Any, ...]] = []
    for run in runs:
        if run.faults:
            columns = pq.read_table(run.faults, columns=list(FAULT_COLUMNS)).to_pylist()
            rows += [(run.name, number, *row.values()) for number, row in enumerate(columns)]
    kinds = (f"{name} {'bigint' if kind == 'int64' else kind}" for name, kind in FAULT_COLUMNS.items())
    return spark.createDataFrame(rows, f"run string, fault int, {', '.join(kinds)}")


# --- the folder -------------------------------------------------------------------------------------------------------
def _write(folder: Path, tables: dict[str, Any], summary: dict[str, Any]) -> None:
    from raftmeta.spark.report import report

    with exchanged(folder) as fresh:
        for name, table in tables.items():
            write_table(fresh / f"{name}.parquet", table)
        (fresh / "report.html").write_text(report(tables, summary), encoding="utf-8")
        write_json(fresh / SUMMARY, summary)
