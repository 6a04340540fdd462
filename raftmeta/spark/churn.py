"""The history of a broker cluster from a lake: `raftmeta pipeline churn` and `sizes`.

    lake ──► rows of the layout's keys ──► partitions, isr_changes ──► churn, flapping ──► report
                                      └──► brokers, controllers, outages

Partitions may be many and are rows of Spark. Brokers and controllers are few; one process follows them change by
change. Each change has the record before it, so the result does not depend on where reading begins.

It decides what counts as under-replicated, as flapping and as falling out together. It never leaves out a value that it
cannot read: such a value is a row of `unreadable`.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raftmeta.errors import ConfigError
from raftmeta.spark.brokers import broker_rows, controller_rows, outage_rows
from raftmeta.spark.folders import exchanged, expect_ours, write_json, write_table
from raftmeta.spark.jobs import Progress, failed, told
from raftmeta.spark.lake import Lake
from raftmeta.spark.layout import KAFKA, Layout, regex_of
from raftmeta.spark.session import import_pyspark, spark_session
from raftmeta.spark.travel import changes, state

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["Churned", "churn", "sizes"]

SUMMARY = "summary.json"
RAW_MAX = 500  # characters of a value that is not readable
FLAPPING_SCORE = 3.5  # robust deviations above the median: the usual cut for an outlier (Iglewicz and Hoaglin, 1993)
ASSIGNED = "struct<replicas: array<int>, adding: array<int>, removing: array<int>>"  # of a partition, by its topic
FLAPPING_MOVES = 3  # fewer changes than that are no flapping, however quiet the others are

SORTED_BY = {
    "brokers": ("revision", "broker"),
    "controllers": ("revision",),
    "outages": ("started",),
    "partitions": ("topic", "partition", "revision", "sub"),
    "isr_changes": ("revision", "sub"),
    "churn": ("window", "broker"),
    "flapping": ("topic", "partition"),
    "leases": ("window",),
    "sizes": ("prefix",),
    "unreadable": ("revision", "key_text"),
}


@dataclass(frozen=True, slots=True)
class Churned:
    """The findings. figures: of the whole time, for people and programs. counts: rows of each table."""

    figures: dict[str, Any]
    counts: dict[str, int]
    out: Path


def churn(
    lake: Lake,
    out: str | Path,
    *,
    layout: Layout = KAFKA,
    since: datetime.datetime | None = None,
    until: datetime.datetime | None = None,
    window_s: int = 60,
    together_s: float = 5.0,
    min_isr: int = 2,
    depth: int = 2,
    master: str = "local[*]",
    on_progress: Progress | None = None,
) -> Churned:
    """Read the history of a broker cluster out of a lake; write tables and report.html into the folder out.

    since, until: the time that counts; None: all that the lake has, behind its last gap. window_s: seconds of a row of
    churn. together_s: brokers that leave within so many seconds of one another fall out together. min_isr: a partition
    with fewer replicas in sync is below_min_isr. depth: parts of a key that make its prefix in sizes.
    Raises ConfigError: out holds something else. MissingRevisions: a time that the lake does not know. RuntimeError:
    the job failed. The whole folder is exchanged at the end.
    """
    import_pyspark()
    folder = Path(out).resolve()
    expect_ours(folder, SUMMARY, what="churn")
    if window_s < 1 or depth < 1:
        raise ConfigError("window_s and depth: must be at least 1")
    first, last = _revisions(lake, since, until)
    start_ms = _start_ms(lake, first) if since is None else round(since.timestamp() * 1000)
    settings = _Settings(layout, first, last, start_ms, _end_ms(lake, until), window_s, min_isr)
    with spark_session(master, app="raftmeta pipeline churn") as spark, told(spark, "reading", on_progress):
        tables = _tables(spark, lake, settings, together_s, depth)
    counts = {name: len(table) for name, table in tables.items()}
    figures = _figures(tables, settings)
    from raftmeta.spark.churn_report import churn_report

    with exchanged(folder) as fresh:
        for name, table in tables.items():
            write_table(fresh / f"{name}.parquet", table)
        (fresh / "report.html").write_text(churn_report(tables, figures), encoding="utf-8")
        write_json(fresh / SUMMARY, {"figures": figures, "rows": counts, "layout": asdict(layout)})
    return Churned(figures, counts, folder)


@dataclass(frozen=True, slots=True)
class _Settings:
    layout: Layout
    first: int  # revisions [first, last] are looked at, upon the state before
    last: int
    start_ms: int
    end_ms: int
    window_s: int
    min_isr: int


def _revisions(lake: Lake, since: datetime.datetime | None, until: datetime.datetime | None) -> tuple[int, int]:
    behind = lake.gaps[-1].last if lake.gaps else lake.oldest
    first = behind + 1 if since is None else lake.revision_at(since) + 1
    last = lake.last if until is None else lake.revision_at(until)
    if first <= last:
        lake.expect_changes(first, last)
    return first, last


def _start_ms(lake: Lake, first: int) -> int:
    """The time of the first change; earlier states count from then on."""
    for one in lake.files:
        if one.last >= first:
            return one.first_ms
    return lake.current_ms


def _end_ms(lake: Lake, until: datetime.datetime | None) -> int:
    """The end of states that did not change any more."""
    if until is not None:
        return round(until.timestamp() * 1000)
    return max(lake.current_ms, max((one.last_ms for one in lake.files), default=0))


def _tables(spark: SparkSession, lake: Lake, settings: _Settings, together_s: float, depth: int) -> dict[str, Any]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as f

    layout = settings.layout
    happened = (
        changes(spark, lake, first=settings.first, last=settings.last)
        if settings.first <= settings.last
        else (changes(spark, lake).where("false"))
    )
    events = _events(spark, lake, settings, happened)
    followed = [*layout.brokers, *layout.candidates, *layout.controller, *layout.controller_epoch]
    try:
        few = events.where(_is_one_of(followed)).orderBy("revision", "sub").toArrow().to_pylist()
        brokers, strange = broker_rows(few, layout)
        controllers, strange_too = controller_rows(few, layout, settings.end_ms)
        outages = outage_rows(brokers, round(1000 * together_s), settings.end_ms)
        rows = _partition_rows(events, settings).persist()
        partitions = rows.where("readable and not is_gone")
        frames = {
            "partitions": _with_time(partitions.where("not is_base")),
            "isr_changes": _isr_changes(partitions.where("not is_base"), settings),
            "churn": _churn(spark, partitions, brokers, settings),
            "flapping": _flapping(partitions, settings),
            "leases": _leases(happened, settings),
            "sizes": _sizes(state(spark, lake, revision=settings.last), happened, depth),
        }
        tables = {name: frame.toArrow() for name, frame in frames.items()}
        unreadable = (
            rows.where("not readable")
            .select("revision", "key_text", f.substring(f.col("text"), 1, RAW_MAX).alias("raw"))
            .toArrow()
            .to_pylist()
        )
    except (PySparkException, Py4JError) as error:
        raise failed(error) from None
    from raftmeta.spark.churn_rows import tables_of

    tables |= tables_of(brokers, controllers, outages, [*unreadable, *strange, *strange_too])
    return {name: tables[name].sort_by([(column, "ascending") for column in by]) for name, by in SORTED_BY.items()}


# --- rows of keys -----------------------------------------------------------------------------------------------------
def _is_one_of(patterns: Iterable[str]) -> Column:
    from pyspark.sql import functions as f

    tests = [f.col("key_text").rlike(regex_of(pattern)[0]) for pattern in patterns]
    return reduce(lambda one, other: one | other, tests, f.lit(False))


def _part(patterns: Iterable[str], part: str) -> Column:
    """The part of a key for {part}."""
    from pyspark.sql import functions as f

    found = []
    for pattern in patterns:
        regex, parts = regex_of(pattern)
        if part in parts:
            found.append(f.nullif(f.regexp_extract("key_text", regex, parts.index(part) + 1), f.lit("")))
    return f.coalesce(*found, f.lit(None).cast("string"))


def _events(spark: SparkSession, lake: Lake, settings: _Settings, happened: DataFrame) -> DataFrame:
    """Changes of the layout's keys, and before them the state that they change, as is_base."""
    from pyspark.sql import functions as f

    layout = settings.layout
    patterns = [
        one
        for name in ("brokers", "candidates", "controller", "controller_epoch", "topics", "states")
        for one in getattr(layout, name)
    ]
    start = f.timestamp_millis(f.lit(settings.start_ms))
    base = state(spark, lake, revision=settings.first - 1).select(
        f.col("mod_revision").alias("revision"), f.lit(-1).alias("sub"), start.alias("ts"), f.lit("put").alias("op"),
        "key_text", "value", f.lit(None).cast("binary").alias("prev_value"), "lease", "create_revision",
        f.lit(True).alias("is_base"),
    )  # fmt: skip
    new = happened.select(
        "revision", "sub", "ts", "op", "key_text", "value", "prev_value", "lease", "create_revision",
        f.lit(False).alias("is_base"),
    )  # fmt: skip
    return base.unionByName(new).where(_is_one_of(patterns))


def _state_of(column: str, layout: Layout) -> Column:
    """A partition's state from its JSON; null where the value is no state."""
    from pyspark.sql import functions as f

    kinds = {
        layout.leader: "int", layout.leader_epoch: "int", layout.epoch_of_controller: "bigint", layout.isr: "array<int>"
    }  # fmt: skip
    schema = ", ".join(f"`{name}` {kind}" for name, kind in kinds.items())
    parsed = f.from_json(f.col(column).cast("string"), schema)
    named = zip(("leader", "leader_epoch", "controller_epoch", "isr"), kinds, strict=True)
    whole = parsed.getField(layout.leader).isNotNull() & parsed.getField(layout.isr).isNotNull()
    return f.when(whole, f.struct(*(parsed.getField(field).alias(name) for name, field in named)))


def _partition_rows(events: DataFrame, settings: _Settings) -> DataFrame:
    """Each state of each partition, with the state before, the replicas of then, and its duration."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    layout = settings.layout
    states = events.where(_is_one_of(layout.states)).select(
        "revision", "sub", "ts", "is_base", "key_text",
        _part(layout.states, "topic").alias("topic"),
        _number(_part(layout.states, "partition")).alias("partition"),
        f.col("value").cast("string").alias("text"),
        (f.col("op") == "delete").alias("is_gone"),
        _state_of("value", layout).alias("now"),
        _state_of("prev_value", layout).alias("before"),
        f.lit(None).cast(ASSIGNED).alias("assigned"),
    )  # fmt: skip
    fields = (layout.assignment, layout.adding, layout.removing)
    kinds = ", ".join(f"`{field}` map<string, array<int>>" for field in fields)
    assignment = f.from_json(f.col("value").cast("string"), kinds)
    topics = events.where(_is_one_of(layout.topics)).where("op = 'put'")
    assigned = topics.select(
        "revision", "sub", "ts", "is_base", "key_text", _part(layout.topics, "topic").alias("topic"),
        f.explode_outer(assignment.getField(layout.assignment)).alias("number", "replicas"),
        assignment.getField(layout.adding).alias("adding"), assignment.getField(layout.removing).alias("removing"),
        f.col("value").cast("string").alias("text"),
    )  # fmt: skip
    assigned = assigned.select(
        "revision", "sub", "ts", "is_base", "key_text", "topic", _number(f.col("number")).alias("partition"), "text",
        f.lit(False).alias("is_gone"),
        f.when(f.col("replicas").isNotNull(), f.struct(
            "replicas", *(f.coalesce(f.col(moved)[f.col("number")], f.array().cast("array<int>")).alias(moved)
                          for moved in ("adding", "removing")))).alias("assigned"),
    )  # fmt: skip
    # Within one revision a state may stand before the assignment of its topic: all of the revision counts.
    whole = Window.partitionBy("topic", "partition").orderBy("revision").rangeBetween(Window.unboundedPreceding, 0)
    following = Window.partitionBy("topic", "partition").orderBy("revision", "sub")
    end = f.timestamp_millis(f.lit(settings.end_ms))
    both = states.unionByName(assigned, allowMissingColumns=True)
    both = both.withColumn("of_topic", f.last("assigned", ignorenulls=True).over(whole))
    kept = both.where("assigned is null").withColumn("until", f.coalesce(f.lead("ts").over(following), end))
    return kept.select(
        "revision", "sub", "ts", "until", "is_base", "key_text", "topic", "partition", "text", "is_gone",
        "of_topic.*", "now", "before",
        (f.col("is_gone") | (f.col("now").isNotNull() & f.col("partition").isNotNull())).alias("readable"),
        # One that a partition only moves to is not missing while it catches up, as Kafka counts it.
        f.array_except(f.array_except("of_topic.replicas", "of_topic.adding"), "now.isr").alias("missing"),
    )  # fmt: skip


def _number(column: Column) -> Column:
    return column.try_cast("int")


def _with_time(partitions: DataFrame) -> DataFrame:
    return partitions.select(
        "revision", "sub", "ts", "topic", "partition", "now.leader", "now.leader_epoch", "now.controller_epoch",
        "now.isr", "replicas", "adding", "removing", _lasted_ms().alias("lasted_ms"),
    )  # fmt: skip


def _lasted_ms() -> Column:
    from pyspark.sql import functions as f

    return f.greatest(f.unix_millis("until") - f.unix_millis("ts"), f.lit(0))


def _isr_changes(partitions: DataFrame, settings: _Settings) -> DataFrame:
    from pyspark.sql import functions as f

    shrunk, grown = f.array_except("before.isr", "now.isr"), f.array_except("now.isr", "before.isr")
    found = partitions.where("before is not null").select(
        "revision", "sub", "ts", "topic", "partition", shrunk.alias("shrunk"), grown.alias("grown"),
        f.col("before.leader").alias("old_leader"), f.col("now.leader").alias("new_leader"),
        (f.size("missing") > 0).alias("under_replicated"),
        (f.size("now.isr") < settings.min_isr).alias("below_min_isr"),
    )  # fmt: skip
    return found.where("size(shrunk) > 0 or size(grown) > 0 or old_leader <> new_leader")


# --- sums -------------------------------------------------------------------------------------------------------------
def _window(settings: _Settings, column: str = "ts") -> Column:
    from pyspark.sql import functions as f

    return f.window(column, f"{settings.window_s} seconds").getField("start").alias("window")


def _churn(spark: SparkSession, partitions: DataFrame, brokers: list[dict[str, Any]], settings: _Settings) -> DataFrame:
    """Per window and broker: leads that it took, ISRs it left and entered, sessions lost, time missing in an ISR."""
    from pyspark.sql import functions as f

    window = _window(settings)
    changed = partitions.where("not is_base and before is not null")
    counted = {
        "leader_moves": changed.where("now.leader <> before.leader and now.leader >= 0").select(
            window, f.col("now.leader").alias("broker")),
        "isr_shrinks": changed.select(window, f.explode(f.array_except("before.isr", "now.isr")).alias("broker")),
        "isr_grows": changed.select(window, f.explode(f.array_except("now.isr", "before.isr")).alias("broker")),
    }  # fmt: skip
    lost = [(row["ts_ms"], row["broker"]) for row in brokers if row["event"] == "down"]
    downs = spark.createDataFrame(lost, "ts_ms bigint, broker string").withColumn("ts", f.timestamp_millis("ts_ms"))
    parts = [
        rows.select(
            "window", f.col("broker").cast("string").alias("broker"), f.lit(name).alias("what"), f.lit(1).alias("n")
        )
        for name, rows in {**counted, "sessions_lost": downs.select(window, "broker")}.items()
    ]
    parts.append(_missing_ms(partitions, settings))
    names = [*counted, "sessions_lost", "under_replicated_ms"]
    sums = [f.sum(f.when(f.col("what") == name, f.col("n")).otherwise(0)).cast("bigint").alias(name) for name in names]
    return reduce(lambda one, other: one.unionByName(other), parts).groupBy("window", "broker").agg(*sums)


def _missing_ms(partitions: DataFrame, settings: _Settings) -> DataFrame:
    """How long a broker was missing in ISRs: the sum over its partitions, cut at the windows."""
    from pyspark.sql import functions as f

    length_ms = 1000 * settings.window_s
    begin, end = f.unix_millis("ts"), f.unix_millis("until")
    short = partitions.where("size(missing) > 0 and until > ts")
    first, last = f.floor(begin / length_ms), f.floor((end - 1) / length_ms)
    cut = short.select(begin.alias("begin"), end.alias("end"), f.explode("missing").alias("broker"),
                       f.sequence(first, last).alias("numbers"))  # fmt: skip
    cut = cut.select("begin", "end", "broker", f.explode("numbers").alias("number"))
    start = f.col("number") * length_ms
    lasted = f.least("end", start + length_ms) - f.greatest("begin", start)
    return cut.select(
        f.timestamp_millis(start).alias("window"), f.col("broker").cast("string").alias("broker"),
        f.lit("under_replicated_ms").alias("what"), lasted.alias("n"),
    )  # fmt: skip


def _flapping(partitions: DataFrame, settings: _Settings) -> DataFrame:
    """Per partition: how often it changed, and how far that is from the other partitions, in robust deviations."""
    from pyspark.sql import functions as f

    moved = f.col("before").isNotNull() & ~f.col("is_base")
    leader = moved & (f.col("now.leader") != f.col("before.leader"))
    shrunk = moved & (f.size(f.array_except("before.isr", "now.isr")) > 0)
    grown = moved & (f.size(f.array_except("now.isr", "before.isr")) > 0)
    lasted = f.when(f.size("missing") > 0, _lasted_ms()).otherwise(0)
    leaderless = f.when(f.col("now.leader") < 0, _lasted_ms()).otherwise(0)
    sums = partitions.groupBy("topic", "partition").agg(
        f.count_if(leader).alias("leader_moves"), f.count_if(shrunk).alias("isr_shrinks"),
        f.count_if(grown).alias("isr_grows"), f.sum(lasted).alias("under_replicated_ms"),
        f.sum(leaderless).alias("leaderless_ms"),
    )  # fmt: skip
    sums = sums.withColumn("moves", f.expr("leader_moves + isr_shrinks + isr_grows"))
    median = sums.agg(f.median("moves").alias("median"))
    spread = sums.crossJoin(median).agg(f.median(f.abs(f.col("moves") - f.col("median"))).alias("spread"))
    # 1.4826: makes the median deviation of a normal distribution its standard deviation; at least one change.
    score = (f.col("moves") - f.col("median")) / f.greatest(1.4826 * f.col("spread"), f.lit(1.0))
    scored = sums.crossJoin(median).crossJoin(spread).withColumn("flap_score", score)
    flapping = (f.col("flap_score") > FLAPPING_SCORE) & (f.col("moves") >= FLAPPING_MOVES)
    return scored.withColumn("is_flapping", flapping).drop("median", "spread", "moves")


def _leases(happened: DataFrame, settings: _Settings) -> DataFrame:
    """Per window: keys attached to leases, and leased keys that went."""
    from pyspark.sql import functions as f

    attached, gone = (
        (f.col("op") == "put") & (f.col("lease") != 0),
        (f.col("op") == "delete") & (f.col("prev_lease") != 0),
    )
    found = happened.where("lease <> 0 or prev_lease <> 0").groupBy(_window(settings)).agg(
        f.count_if(attached).alias("keys_attached"), f.count_if(gone).alias("keys_gone"),
        f.countDistinct(f.when(attached, f.col("lease"))).alias("leases_used"),
        f.countDistinct(f.when(gone, f.col("prev_lease"))).alias("leases_ended"),
    )  # fmt: skip
    return found


def _prefix(depth: int) -> Column:
    """The first parts of a key, each with its slash; a key without so many is in the prefix of its last slash."""
    from pyspark.sql import functions as f

    return f.regexp_extract("key_text", f"^((?:/?[^/]*/){{0,{depth}}})", 1).alias("prefix")


def _sizes(records: DataFrame, happened: DataFrame, depth: int) -> DataFrame:
    """Per prefix: the present keys, and the changes that a watch of it was sent."""
    from pyspark.sql import functions as f

    size = f.length("key") + f.coalesce(f.length("value"), f.lit(0))
    there = records.groupBy(_prefix(depth)).agg(
        f.count("*").alias("keys"), f.sum(f.length("key")).alias("key_bytes"),
        f.sum(f.length("value")).alias("value_bytes"), f.max(f.length("value")).alias("value_bytes_max"),
        f.count_if(f.col("lease") != 0).alias("leased_keys"),
    )  # fmt: skip
    sent = happened.groupBy(_prefix(depth)).agg(
        f.count("*").alias("changes"), f.sum(size).alias("changed_bytes"),
        f.countDistinct("revision").alias("revisions"), f.countDistinct("key").alias("changed_keys"),
    )  # fmt: skip
    return there.join(sent, "prefix", "full").fillna(0)


def sizes(
    lake: Lake, out: str | Path | None = None, *, depth: int = 2, revision: int | None = None, master: str | None = None
) -> Any:
    """Keys and bytes by prefix as of a revision (None: the newest), and the changes up to it, as a table of Arrow.

    out: a .parquet file to write it into as well. depth: how many parts of a key are its prefix. Changes count from
    the lake's last gap on. master: of Spark; None: only a large lake starts Spark. Raises as churn.
    """
    if out is not None and Path(out).suffix != ".parquet":
        raise ConfigError(f"out: {out} shall be a file that ends in .parquet", field="out")
    if depth < 1:
        raise ConfigError(f"depth: must be at least 1, not {depth}", field="depth")
    at = lake.last if revision is None else revision
    first, _ = _revisions(lake, None, None)
    if master is None:
        from raftmeta.spark.lake_answers import is_small, sizes_by_prefix

        if is_small(lake):
            table = sizes_by_prefix(lake, at, first, depth)
            if out is not None:
                write_table(Path(out), table)
            return table
    with spark_session(master or "local[*]", app="raftmeta pipeline sizes") as spark:
        happened = changes(spark, lake, first=first, last=at) if first <= at else changes(spark, lake).where("false")
        table = _sizes(state(spark, lake, revision=at), happened, depth).toArrow().sort_by("prefix")
    if out is not None:
        write_table(Path(out), table)
    return table


# --- the whole time ---------------------------------------------------------------------------------------------------
def _figures(tables: dict[str, Any], settings: _Settings) -> dict[str, Any]:
    """The answers to an operator's first questions."""
    import pyarrow.compute as pc

    def total(name: str, column: str) -> int:
        return int(pc.sum(tables[name][column]).as_py() or 0)

    events = tables["brokers"]["event"].to_pylist()
    return {
        "first_revision": settings.first,
        "last_revision": settings.last,
        "start_ms": settings.start_ms,
        "end_ms": settings.end_ms,
        "seconds": round((settings.end_ms - settings.start_ms) / 1000, 3),
        "partitions": len(tables["flapping"]),
        "brokers_lost": events.count("down"),
        "brokers_joined": events.count("up"),
        "outages_together": sum(len(brokers) > 1 for brokers in tables["outages"]["brokers"].to_pylist()),
        "controllers": len(tables["controllers"]),
        "leader_moves": total("flapping", "leader_moves"),
        "isr_shrinks": total("flapping", "isr_shrinks"),
        "isr_grows": total("flapping", "isr_grows"),
        "under_replicated_ms": total("flapping", "under_replicated_ms"),
        "leaderless_ms": total("flapping", "leaderless_ms"),
        "flapping_partitions": total("flapping", "is_flapping"),
        "keys": total("sizes", "keys"),
        "bytes": total("sizes", "key_bytes") + total("sizes", "value_bytes"),
        "unreadable": len(tables["unreadable"]),
    }
