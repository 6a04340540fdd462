"""Observations, and the rules that they must obey (docs/jepsen.md "Observations").

Each rule is a query over the rows of observations.parquet: a window over one stream, or a grouping of the observations
of several clients. It gives an anomaly for each row, or each pair of rows, that contradicts it. The store's own order
is the revision; for rows without one, `seq` is the order in which the whole run was recorded.

It decides which observations contradict each other. A kind without a rule is known by its name or goes into quarantine.
jepsen/observed.py judges one run in memory, and is held to the same examples (tests/spark/observed.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from raftmeta.spark.runs import OBSERVATION_COLUMNS, Run

__all__ = ["OBSERVED", "contradictions", "elections", "read_observations", "strange_observations"]

WITHOUT_RULE = (
    "lead_lost",
    "lease_lost",
    "lease_released",
    "member_left",
    "member_lost",
    "resigned",
    "zookeeper_watches_set",
)
WITH_RULE = (
    "elected",
    "fence_accepted",
    "fence_ended",
    "fence_refused",
    "held",
    "leader",
    "lease_granted",
    "member",
    "member_joined",
    "member_read",
    "session_answer",
    "total",
    "watch_event",
    "watch_open",
    "watch_progress",
    "zookeeper_armed",
    "zookeeper_seen",
    "zookeeper_sequence",
    "zookeeper_told",
    "zookeeper_unasked",
)
OBSERVED = pa.schema(
    [("run", pa.string())] + [(name, pa.type_for_alias(kind)) for name, kind in OBSERVATION_COLUMNS.items()]
)


def read_observations(runs: Sequence[Run]) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """For mapInArrow over the numbers of these runs: their observations, with the name of the run.

    An unreadable file is one row of no kind, whose value is the reason.
    """

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                run = runs[number]
                try:
                    table = pq.read_table(run.observations, columns=list(OBSERVATION_COLUMNS))
                except (pa.ArrowException, OSError) as error:
                    row = {"run": run.name, "seq": -1, "value": f"not readable: {' '.join(str(error).split())}"}
                    yield pa.RecordBatch.from_pylist([row], schema=OBSERVED)
                    continue
                named = table.add_column(0, "run", pa.array([run.name] * len(table), pa.string()))
                yield from named.cast(OBSERVED).to_batches(max_chunksize=100_000)

    return read


def strange_observations(observed: DataFrame) -> DataFrame:
    """For the quarantine: rows that no rule can look at."""
    known = F.col("kind").isin(*WITH_RULE, *WITHOUT_RULE)
    reason = (
        F.when(F.col("seq") < 0, F.col("value"))
        .when(F.col("seq").isNull() | F.col("subject").isNull(), "an observation without seq or subject")
        .when(~F.coalesce(known, F.lit(False)), "no rule knows this kind of observation")
        .when(_needs_process() & F.col("process").isNull(), "this kind tells a process")
        .when(_needs_revision() & (F.coalesce("revision", F.lit(-1)) < 0), "this kind tells a revision")
        .when(_needs_token() & (F.coalesce("token", F.lit(-1)) < 0), "this kind tells a token")
    )
    strange = observed.withColumn("reason", reason).where(F.col("reason").isNotNull())
    raw = F.to_json(F.struct("kind", "subject", "process", "revision", "token", "value"))
    row = F.coalesce("seq", F.lit(-1))
    return strange.select("run", F.lit("observations").alias("history"), row.alias("row"), "reason", raw.alias("raw"))


def _needs_process() -> Column:
    return F.col("kind").startswith("watch_") | F.col("kind").isin("leader", "member")


def _needs_revision() -> Column:
    return (
        F.col("kind").startswith("watch_")
        | F.col("kind").startswith("fence_")
        | F.col("kind").isin("leader", "member", "zookeeper_armed", "zookeeper_seen", "zookeeper_sequence")
    )


def _needs_token() -> Column:
    return F.col("kind").startswith("fence_") | F.col("kind").isin(
        *("held", "elected", "lease_granted", "session_answer", "member_read", "total", "zookeeper_sequence")
    )


def contradictions(observed: DataFrame, written: DataFrame, runs: Sequence[Run]) -> DataFrame:
    """One row for each contradiction: run, history, kind, subject, first_seq, last_seq, explanation.

    written: acknowledged writes that watches must tell: run, key, revision, value and seq.
    """
    rules = [rule(observed) for rule in RULES]
    rules.append(_overlaps(observed.where(F.col("run").isin([run.name for run in runs if run.has_true_clocks]))))
    rules += [rule(_changes(observed, written), _streams(observed)) for rule in WATCH_RULES]
    columns = ("run", F.lit("observations").alias("history"), "kind", "subject", "first_seq", "last_seq", "explanation")
    found = rules[0].select(*columns)
    for rule in rules[1:]:
        found = found.unionByName(rule.select(*columns))
    return found


def _told(kind: str, explanation: Column, *, first: str = "seq", last: str = "seq") -> list[Column]:
    """The columns of a contradiction. first, last: columns of the seq at which it began and was seen."""
    columns = {"kind": F.lit(kind), "first_seq": F.col(first), "last_seq": F.col(last), "explanation": explanation}
    return [F.col("run"), F.col("subject"), *(column.alias(name) for name, column in columns.items())]


# --- watches ----------------------------------------------------------------------------------------------------------
STREAM = ("run", "subject", "process")


def _watch_order(observed: DataFrame) -> DataFrame:
    """No event comes behind a later one, or behind the news that everything up to its revision was delivered."""
    rows = observed.where(F.col("kind").isin("watch_open", "watch_event", "watch_progress"))
    before = Window.partitionBy(*STREAM).orderBy("seq").rowsBetween(Window.unboundedPreceding, -1)
    # The row behind an event may have its revision: several keys change at once. Behind the other kinds it is later.
    floor = F.when(F.col("kind") == "watch_event", F.col("revision")).otherwise(F.col("revision") + 1)
    rows = rows.withColumn("floor", F.max(floor).over(before)).withColumn("highest", F.max("revision").over(before))
    least = F.when(F.col("kind") == "watch_event", F.col("floor")).otherwise(F.col("highest"))
    late = rows.where(F.col("revision") < least)
    explanation = F.format_string("stream %d was told revision %d after %d", "process", "revision", "highest")
    return late.select(*_told("watch order", explanation))


def _streams(observed: DataFrame) -> DataFrame:
    """The revisions that each stream must tell: behind `begin`, up to `end`."""
    progress = F.when(F.col("kind") == "watch_progress", F.col("revision"))
    begin = F.when(F.col("kind") == "watch_open", F.col("revision"))
    bounds = observed.where(F.col("kind").isin("watch_open", "watch_progress")).groupBy(*STREAM)
    return bounds.agg(F.max(begin).alias("begin"), F.max(progress).alias("end"))


def _changes(observed: DataFrame, written: DataFrame) -> DataFrame:
    """The changes that anybody tells: a stream, or with the process null an acknowledged write."""
    events = observed.where(F.col("kind") == "watch_event")
    told = events.select(*STREAM, "revision", F.get_json_object("value", "$[1]").alias("key"), "value", "seq")
    watched = observed.where(F.col("kind") == "watch_open").select("run", "subject").distinct()
    key = F.get_json_object(F.concat(F.lit("["), F.col("key"), F.lit("]")), "$[0]")
    value = F.concat(F.lit('["put",'), F.col("key"), F.lit(","), F.col("value"), F.lit("]"))
    acknowledged = written.select("run", "revision", key.alias("key"), value.alias("value"), "seq")
    acknowledged = acknowledged.join(watched, "run").where(F.col("key").startswith(F.col("subject")))
    return told.unionByName(acknowledged.withColumn("process", F.lit(None).cast("bigint")))


CHANGE = ("run", "subject", "revision", "key")


def _watch_duplicates(changes: DataFrame, streams: DataFrame) -> DataFrame:
    """No stream is told of one key twice at a revision."""
    grouped = changes.where(F.col("process").isNotNull()).groupBy(*CHANGE, "process")
    twice = grouped.agg(F.count("*").alias("n"), F.min("seq").alias("first"), F.max("seq").alias("last"))
    twice = twice.where(F.col("n") > 1)
    explanation = F.format_string("stream %d was told %d times of %s at revision %d", "process", "n", "key", "revision")
    return twice.select(*_told("watch duplicate", explanation, first="first", last="last"))


def _watch_differences(changes: DataFrame, streams: DataFrame) -> DataFrame:
    """All that tell of a change tell the same."""
    values = F.array_sort(F.collect_set("value")).alias("all")
    grouped = changes.groupBy(*CHANGE).agg(values, F.min("seq").alias("first"), F.max("seq").alias("last"))
    differ = grouped.where(F.size("all") > 1)
    explanation = F.format_string("at revision %d there are %s", "revision", F.array_join("all", " and "))
    return differ.select(*_told("watch difference", explanation, first="first", last="last"))


def _watch_gaps(changes: DataFrame, streams: DataFrame) -> DataFrame:
    """Every stream that got so far has each change that anybody tells."""
    known = changes.groupBy(*CHANGE).agg(F.min("seq").alias("seq"))
    due = known.join(streams, ["run", "subject"])
    due = due.where((F.col("revision") > F.col("begin")) & (F.col("revision") <= F.col("end")))
    missing = due.join(changes.select(*CHANGE, "process").distinct(), [*CHANGE, "process"], "left_anti")
    explanation = F.format_string("stream %d was never told of %s at revision %d", "process", "key", "revision")
    return missing.select(*_told("watch gap", explanation))


# --- what is held -----------------------------------------------------------------------------------------------------
def _fences(observed: DataFrame) -> DataFrame:
    """In the store's own order, no write is accepted under a token behind a newer one."""
    rows = observed.where(F.col("kind").isin("lease_granted", "fence_accepted"))
    before = Window.partitionBy("run", "subject").orderBy("revision", "seq")
    rows = rows.withColumn("newer", F.max("token").over(before.rowsBetween(Window.unboundedPreceding, -1)))
    old = rows.where((F.col("kind") == "fence_accepted") & (F.col("token") < F.col("newer")))
    explanation = F.format_string(
        "a write with token %d was accepted at revision %d, behind token %d", "token", "revision", "newer"
    )
    return old.select(*_told("old fence accepted", explanation))


def _ended_fences(observed: DataFrame) -> DataFrame:
    """No write is accepted under a token that was refused before, or whose key was seen removed."""
    rows = observed.where(F.col("kind").isin("fence_accepted", "fence_refused", "fence_ended"))
    ended = F.when(F.col("kind") != "fence_accepted", F.col("revision"))
    rows = rows.withColumn("ended", F.min(ended).over(Window.partitionBy("run", "subject", "token")))
    late = rows.where((F.col("kind") == "fence_accepted") & (F.col("revision") > F.col("ended")))
    explanation = F.format_string(
        "a write with token %d was accepted at revision %d; it had ended at %d", "token", "revision", "ended"
    )
    return late.select(*_told("ended fence accepted", explanation))


def _overlaps(observed: DataFrame) -> DataFrame:
    """Nobody holds a place that a later holder already had; a group has many members at once."""
    is_group = F.max(F.col("kind").startswith("member")).over(Window.partitionBy("run", "subject"))
    rows = observed.withColumn("is_group", is_group).where(~F.col("is_group"))
    rows = rows.where(F.col("kind").isin("held", "elected", "lease_granted"))
    before = Window.partitionBy("run", "subject").orderBy("time_ns", "seq")
    newest = F.max(F.struct("token", "time_ns")).over(before.rowsBetween(Window.unboundedPreceding, -1))
    late = rows.withColumn("newest", newest)
    late = late.where((F.col("kind") == "held") & (F.col("token") < F.col("newest.token")))
    explanation = F.format_string(
        "token %d was held at %d ns, token %d by then", "token", "time_ns", F.col("newest.token")
    )
    return late.select(*_told("two holders", explanation))


def _tokens_of_two(observed: DataFrame) -> DataFrame:
    """A token belongs to one leader, one member, or one holder: all that name its owner name the same one."""
    columns = ("run", "subject", "token", "name", "seq")
    told_themselves = observed.where(F.col("kind").isin("elected", "held", "lease_granted", "member_joined"))
    told_themselves = told_themselves.where(F.col("value") != "").withColumn("name", F.col("value"))
    leaders = observed.where((F.col("kind") == "leader") & (F.col("token") >= 0)).withColumn("name", _leader_name())
    members = observed.where(F.col("kind") == "member").drop("token")
    listed = F.explode(F.from_json("value", "map<string,bigint>")).alias("name", "token")
    members = members.select("run", "subject", "seq", listed)
    named = told_themselves.select(*columns).unionByName(leaders.select(*columns)).unionByName(members)
    told = named.groupBy("run", "subject", "token").agg(
        F.array_sort(F.collect_set("name")).alias("names"), F.min("seq").alias("first"), F.max("seq").alias("last")
    )
    several = told.where(F.size("names") > 1)
    explanation = F.format_string("token %d was given to %s", "token", F.array_join("names", " and "))
    return several.select(*_told("one token of two", explanation, first="first", last="last"))


def _leader_name() -> Column:
    """The name that a row of the kind `leader` told its listener. Its value: [name, were changes left out]."""
    return F.coalesce(F.get_json_object("value", "$[0]"), F.lit("nobody"))


# --- listeners and sessions -------------------------------------------------------------------------------------------
def _listeners_in_order(observed: DataFrame) -> DataFrame:
    """A listener is told revisions in their order."""
    rows = observed.where(F.col("kind").isin("leader", "member"))
    before = Window.partitionBy(*STREAM, "kind").orderBy("seq")
    rows = rows.withColumn("earlier", F.lag("revision").over(before))
    back = rows.where(F.col("revision") <= F.col("earlier"))
    explanation = F.format_string("listener %d was told revision %d after %d", "process", "revision", "earlier")
    return back.select(*_told("listener order", explanation))


def _listeners_agree(observed: DataFrame) -> DataFrame:
    """At one revision a group has one list of members, and a service one leader."""
    # Whether changes were left out may differ between listeners; who leads must agree.
    leader = F.concat_ws(" with token ", _leader_name(), F.col("token").cast("string"))
    value = F.when(F.col("kind") == "leader", leader).otherwise(F.col("value"))
    rows = observed.where(F.col("kind").isin("leader", "member")).withColumn("told", value)
    grouped = rows.groupBy("run", "subject", "kind", "revision").agg(
        F.array_sort(F.collect_set("told")).alias("all"), F.min("seq").alias("first"), F.max("seq").alias("last")
    )
    differ = grouped.where(F.size("all") > 1)
    explanation = F.format_string("at revision %d listeners were told %s", "revision", F.array_join("all", " and "))
    return differ.select(*_told("listeners differ", explanation, first="first", last="last"))


def _answers_as_expected(observed: DataFrame) -> DataFrame:
    """A session's n-th addition answers n; a member that holds its place stands in the list with its own token; what
    only goes from place to place is neither more nor less.
    """
    rows = observed.where(F.col("kind").isin("session_answer", "member_read", "total"))
    wrong = rows.where(~F.col("value").eqNullSafe(F.col("token").cast("string")))
    explanation = F.format_string("process %d expected %d and was told %s", "process", "token", "value")
    which = F.when(F.col("kind") == "session_answer", "not exactly once")
    which = which.when(F.col("kind") == "total", "total differs").otherwise("member not listed")
    return wrong.select(*_told("", explanation), which.alias("which")).withColumn("kind", F.col("which"))


def _sessions_in_order(observed: DataFrame) -> DataFrame:
    """Revisions of a session's answers rise."""
    rows = observed.where(F.col("kind") == "session_answer")
    before = Window.partitionBy("run", "subject").orderBy("seq")
    rows = rows.withColumn("earlier", F.lag("revision").over(before))
    back = rows.where(F.col("revision") <= F.col("earlier"))
    explanation = F.format_string("addition %d answered revision %d after %d", "token", "revision", "earlier")
    return back.select(*_told("session order", explanation))


# --- through the ZooKeeper door ---------------------------------------------------------------------------------------
def _went_back(observed: DataFrame) -> DataFrame:
    """No session is shown an older state of a thing than before."""
    rows = observed.where(F.col("kind") == "zookeeper_seen")
    before = Window.partitionBy("run", "subject").orderBy("seq").rowsBetween(Window.unboundedPreceding, -1)
    rows = rows.withColumn("highest", F.max("revision").over(before))
    explanation = F.format_string("revision %d was shown after %d", "revision", "highest")
    back = rows.where(F.col("revision") < F.col("highest"))
    return back.select(*_told("session went back", explanation))


def _shown_before_told(observed: DataFrame) -> DataFrame:
    """No session is shown a change that its watch waits for and was not told."""
    rows = observed.where(F.col("kind").isin("zookeeper_seen", "zookeeper_armed", "zookeeper_told"))
    before = Window.partitionBy("run", "subject").orderBy("seq").rowsBetween(Window.unboundedPreceding, -1)
    armed = F.when(F.col("kind") == "zookeeper_armed", F.col("revision")).when(F.col("kind") == "zookeeper_told", -1)
    rows = rows.withColumn("armed", F.last(armed, ignorenulls=True).over(before))
    shown = rows.where((F.col("kind") == "zookeeper_seen") & (F.col("armed") >= 0))
    explanation = F.format_string("revision %d was shown, and the watch set at %d was not told", "revision", "armed")
    return shown.where(F.col("revision") > F.col("armed")).select(*_told("shown before told", explanation))


def _told_unasked(observed: DataFrame) -> DataFrame:
    """No watch is told twice, and none that was not set."""
    rows = observed.where(F.col("kind") == "zookeeper_unasked")
    return rows.select(*_told("told unasked", F.lit("an event came while no watch stood")))


def _sequence_order(observed: DataFrame) -> DataFrame:
    """Numbers of sequential nodes grow in the order in which the nodes were made."""
    rows = observed.where(F.col("kind") == "zookeeper_sequence")
    before = Window.partitionBy("run", "subject").orderBy("revision", "token")
    rows = rows.withColumn("earlier", F.lag("token").over(before))
    explanation = F.format_string("number %d was made at revision %d, behind %d", "token", "revision", "earlier")
    return rows.where(F.col("token") <= F.col("earlier")).select(*_told("sequence order", explanation))


RULES = (
    _watch_order,
    _fences,
    _ended_fences,
    _tokens_of_two,
    _listeners_in_order,
    _listeners_agree,
    _answers_as_expected,
    _sessions_in_order,
    _went_back,
    _shown_before_told,
    _told_unasked,
    _sequence_order,
)
WATCH_RULES = (_watch_duplicates, _watch_differences, _watch_gaps)


def elections(observed: DataFrame, faults: DataFrame) -> DataFrame:
    """One row for each change of an elected leader, from the last moment when the old one certainly led.

    fault: the last fault that had begun by then, if it was still under way or had ended less than 10 s before.
    """
    rows = observed.where(F.col("kind").isin("elected", "held")).groupBy("run", "subject", "token")
    led = rows.agg(
        F.max(F.when(F.col("kind") == "elected", F.col("value"))).alias("leader"),
        F.min(F.when(F.col("kind") == "elected", F.col("time_ns"))).alias("elected_ns"),
        F.max("time_ns").alias("last_ns"),
    ).where(F.col("elected_ns").isNotNull())
    in_order = Window.partitionBy("run", "subject").orderBy("token")
    changes = led.select(
        "run",
        "subject",
        "token",
        F.lag("leader").over(in_order).alias("old_leader"),
        F.col("leader").alias("new_leader"),
        F.lag("last_ns").over(in_order).alias("led_until_ns"),
        "elected_ns",
    ).where(F.col("led_until_ns").isNotNull())
    struck = faults.select("run", "fault", "begin_ns", "end_ns")
    caused = changes.join(F.broadcast(struck), "run").where(
        (F.col("begin_ns") <= F.col("elected_ns")) & (F.col("end_ns") + 10_000_000_000 >= F.col("led_until_ns"))
    )
    causes = caused.groupBy("run", "subject", "token").agg(F.max("fault").alias("fault"))
    joined = changes.join(causes, ["run", "subject", "token"], "left")
    milliseconds = ((F.col("elected_ns") - F.col("led_until_ns")) / 1e6).alias("ms")
    return joined.select(*changes.columns, milliseconds, "fault")
