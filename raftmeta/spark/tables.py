"""From findings to tables: verdicts, anomalies, quarantine, latency, availability, failovers.

Each function takes and gives DataFrames; sums, percentiles and windows are Spark's. The columns of SORTED_BY tell the
rows of a table apart, and no column depends on when or how fast the job ran, so that the same input gives the same
table.

It decides how findings are added up. It never decides a component's verdict, which is the worst of its pieces'.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from raftmeta.spark.times import SLOT_NS, STEPS_PER_DOUBLING

__all__ = [
    "SORTED_BY",
    "anomalies",
    "availability",
    "histories",
    "latency",
    "quarantine",
    "throughput",
    "verdicts",
    "written",
]

WORST_FIRST = ("violation", "malformed", "unknown", "ok")
PERCENTILES = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "p999_ms": 0.999}
OF_A_HISTORY = ("run", "history")
SORTED_BY = {
    "histories": OF_A_HISTORY,
    "verdicts": (*OF_A_HISTORY, "component"),
    "anomalies": (*OF_A_HISTORY, "kind", "subject", "first_seq", "last_seq", "explanation"),
    "quarantine": (*OF_A_HISTORY, "row", "reason", "raw"),
    "latency": (*OF_A_HISTORY, "operation", "outcome", "window_ns"),
    "availability": ("run", "fault"),
    "elections": ("run", "subject", "token"),
    "throughput": ("run", "second"),
}


def _of(findings: DataFrame, name: str) -> DataFrame:
    return findings.where(F.col(name).isNotNull()).select(*OF_A_HISTORY, f"{name}.*")


def _worst(verdict: Column) -> Column:
    """The worst verdict of a group."""
    rank = F.min(F.array_position(F.lit(list(WORST_FIRST)), verdict))
    return F.element_at(F.lit(list(WORST_FIRST)), rank.cast("int"))


def verdicts(findings: DataFrame) -> DataFrame:
    """One row for each component; pieces of one are joined. A piece too many or too few makes it malformed."""
    grouped = _of(findings, "verdict").groupBy(*OF_A_HISTORY, "component")
    joined = grouped.agg(
        F.first("model").alias("model"),
        F.max("keys").alias("keys"),
        F.when(F.count("*") == F.max("pieces"), _worst(F.col("verdict"))).otherwise("malformed").alias("verdict"),
        F.array_join(F.array_sort(F.collect_set("limit")), ", ").alias("limit"),
        F.array_join(F.array_sort(F.collect_set("engine")), ", ").alias("engine"),
        F.sum("operations").alias("operations"),
        F.sum("steps").alias("steps"),
        F.max("pieces").alias("pieces"),
    )
    return joined


def written(findings: DataFrame) -> DataFrame:
    """Acknowledged writes that watches must tell: run, key, revision, value, seq."""
    return _of(findings, "written").drop("history")


def anomalies(findings: DataFrame, seen: DataFrame | None) -> DataFrame:
    """Components without a linearization, and contradicting observations; seen: from raftmeta.spark.observations."""
    illegal = (
        _of(findings, "verdict")
        .where(F.col("verdict") == "violation")
        .select(
            *OF_A_HISTORY,
            F.lit("not linearizable").alias("kind"),
            F.col("component").alias("subject"),
            "first_seq",
            "last_seq",
            F.coalesce("explanation", F.lit("not explained: others of its bucket are")).alias("explanation"),
        )
    )
    return illegal if seen is None else illegal.unionByName(seen)


def quarantine(findings: DataFrame, strange: DataFrame | None) -> DataFrame:
    """Events that make no sense and files that could not be read; strange: such observations."""
    found = _of(findings, "quarantine")
    return found if strange is None else found.unionByName(strange)


def histories(findings: DataFrame, expected: DataFrame, allow_empty: bool) -> DataFrame:
    """One row for each history. It is ok if all its components are and nothing of it is in quarantine.

    expected: run, history and model of all that were to be read; a history without any finding is unknown.
    allow_empty: a history without events is ok, instead of unknown.
    """
    totals = _of(findings, "totals").groupBy(*OF_A_HISTORY)
    counted = totals.agg(*(F.sum(name).alias(name) for name in ("events", "ok", "fail", "info")))
    of_components = _of(findings, "verdict").groupBy(*OF_A_HISTORY)
    judged = of_components.agg(
        F.count_distinct("component").alias("components"),
        *(
            F.count_distinct(F.when(F.col("verdict") == name, F.col("component"))).alias(f"components_{name}")
            for name in WORST_FIRST
        ),
    )
    bad = _of(findings, "quarantine").groupBy(*OF_A_HISTORY).agg(F.count("*").alias("quarantined"))
    joined = expected
    for one in (counted, judged, bad):
        joined = joined.join(one, list(OF_A_HISTORY), "left")
    numbers = [name for name in joined.columns if name not in (*OF_A_HISTORY, "model")]
    has_result = F.col("events").isNotNull()
    joined = joined.withColumn("has_result", has_result).na.fill(0, numbers)
    verdict = (
        F.when(F.col("components_violation") > 0, "violation")
        .when(~F.col("has_result") | (F.col("quarantined") > 0), "unknown")
        .when(F.col("components_unknown") + F.col("components_malformed") > 0, "unknown")
        .when((F.col("events") == 0) & F.lit(not allow_empty), "unknown")
        .otherwise("ok")
    )
    return joined.select(*OF_A_HISTORY, "model", verdict.alias("verdict"), *numbers)


# --- times ------------------------------------------------------------------------------------------------------------
def latency(findings: DataFrame) -> DataFrame:
    """Percentiles by operation, outcome and window of 10 s of the run; exact to 2.2 %, longest_ms exact."""
    key = (*OF_A_HISTORY, "operation", "outcome", "window_ns")
    steps = _of(findings, "latency").groupBy(*key, "step")
    counted = steps.agg(F.sum("n").alias("n"), F.max("longest_ns").alias("longest_ns"))
    so_far = Window.partitionBy(*key).orderBy("step")
    ranked = counted.withColumn("below", F.sum("n").over(so_far))
    ranked = ranked.withColumn("all", F.sum("n").over(Window.partitionBy(*key)))

    def percentile(share: float) -> Column:
        step = F.min(F.when(F.col("below") >= F.col("all") * share, F.col("step")))
        return F.round(F.pow(F.lit(2.0), (step + 0.5) / STEPS_PER_DOUBLING) / 1e6, 4)

    return ranked.groupBy(*key).agg(
        F.sum("n").alias("n"),
        *(percentile(share).alias(name) for name, share in PERCENTILES.items()),
        (F.max("longest_ns") / 1e6).alias("longest_ms"),
    )


def availability(findings: DataFrame, faults: DataFrame) -> DataFrame:
    """One row for each fault: answers during it, the longest time without one, and the first one after it began.

    faults: rows of faults.parquet with `run` and `fault`, their number in it. longest_gap_ms counts a gap whole if it
    overlaps the fault; null: no gap of two slots. first_ok_ms: from the beginning of the fault to the end of the first
    operation that was invoked after it and succeeded.
    """
    answers = _of(findings, "answers")
    within = (F.col("slot_ns") + SLOT_NS > F.col("begin_ns")) & (F.col("slot_ns") < F.col("end_ns"))
    struck = answers.join(F.broadcast(faults.select("run", "fault", "begin_ns", "end_ns")), "run").where(within)
    counted = struck.groupBy("run", "fault").agg(
        *(F.sum(F.when(F.col("outcome") == name, F.col("n"))).alias(name) for name in ("ok", "fail", "info"))
    )
    longest = (
        gaps(findings)
        .join(F.broadcast(faults.select("run", "fault", "begin_ns", "end_ns")), "run")
        .where((F.col("gap_end_ns") > F.col("begin_ns")) & (F.col("gap_begin_ns") < F.col("end_ns")))
        .groupBy("run", "fault")
        .agg((F.max(F.col("gap_end_ns") - F.col("gap_begin_ns")) / 1e6).alias("longest_gap_ms"))
    )
    first = _of(findings, "first_answer").groupBy("run", "fault").agg(F.min("time_ns").alias("first_ok_ns"))
    joined = faults.join(counted, ["run", "fault"], "left").join(longest, ["run", "fault"], "left")
    joined = joined.join(first, ["run", "fault"], "left").na.fill(0, ["ok", "fail", "info"])
    milliseconds = ((F.col("first_ok_ns") - F.col("begin_ns")) / 1e6).alias("first_ok_ms")
    facts: Iterable[Any] = ("run", "fault", "nemesis", "target", "detail", "observed", "begin_ns", "end_ns")
    return joined.select(*facts, "ok", "fail", "info", "longest_gap_ms", milliseconds)


def gaps(findings: DataFrame) -> DataFrame:
    """Times of a run in which nothing succeeded, of at least two slots, up to the end of its histories."""
    ok = _of(findings, "answers").where(F.col("outcome") == "ok").groupBy("run", "slot_ns")
    slots = ok.agg(F.min("first_ns").alias("first_ns"), F.max("last_ns").alias("last_ns"))
    ends = _of(findings, "totals").groupBy("run").agg(F.max("last_ns").alias("end_ns"))
    in_order = Window.partitionBy("run").orderBy("slot_ns")
    following = F.coalesce(F.lead("first_ns").over(in_order), F.col("end_ns"))
    ordered = slots.join(F.broadcast(ends), "run").withColumn("gap_end_ns", following)
    found = ordered.select("run", F.col("last_ns").alias("gap_begin_ns"), "gap_end_ns")
    return found.where(F.col("gap_end_ns") - F.col("gap_begin_ns") >= 2 * SLOT_NS)


def throughput(findings: DataFrame) -> DataFrame:
    """Answers of each second of a run, by outcome, for the plot of the report."""
    second = F.floor(F.col("slot_ns") / 1_000_000_000).cast("bigint").alias("second")
    answers = _of(findings, "answers").select("run", second, "outcome", "n")
    return answers.groupBy("run", "second").agg(
        *(
            F.sum(F.when(F.col("outcome") == name, F.col("n")).otherwise(0)).alias(name)
            for name in ("ok", "fail", "info")
        )
    )
