"""`format("raftmeta")`: the keyspace, its changes, members and leases as tables of Spark, and the changes as a stream.

    register(spark)
    spark.read.format("raftmeta").option("prefix", "/brokers/").load("backup.sealed")
    spark.readStream.format("raftmeta").option("url", "raft://h1:7100,h2:7100").option("table", "changes").load()

It decides which part of a table a task reads, and which revisions a batch of the stream has. It never takes filters
from Spark. PySpark 4.3 keeps them on the table and not on the query, so that a second query on the same DataFrame would
silently get the rows of the first. Narrow a table by options; Spark filters above it.

A reader that is sent to an executor carries options and no open file: Spark's workers fork.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from raftmeta.errors import InvalidArgument
from raftmeta.scan import Batches, Scope
from raftmeta.scan.batches import TABLES
from raftmeta.spark.options import OTHER_TABLES, SourceOptions, is_of_catalog, options_of_catalog
from raftmeta.spark.places import Place, place_of
from raftmeta.spark.shipping import travelling
from raftmeta.spark.writer import BatchWriter, StreamWriter

__all__ = ["RaftmetaSource"]

OPTIONS = "raftmeta.options"  # in the metadata of the first column of a table in Spark's catalog
KINDS: dict[str, DataType] = {
    "bigint": LongType(),
    "binary": BinaryType(),
    "boolean": BooleanType(),
    "int": IntegerType(),
    "string": StringType(),
    "timestamp": TimestampType(),
}


class RaftmetaSource(DataSource):
    """The tables of a cluster or of a sealed file; the options are those of docs/pipeline.md."""

    @classmethod
    def name(cls) -> str:
        return "raftmeta"

    def __reduce__(self) -> tuple[Any, ...]:
        return travelling(self, (dict(self.options),))

    def schema(self) -> StructType:
        """The columns that the options ask for. Raises InvalidArgument that names a wrong option.

        Spark keeps the options of CREATE TABLE with the table, but asks here only for its schema, and gives the reader
        no options later. So the options of such a table travel in the metadata of its first column.
        """
        is_table = is_of_catalog(self.options)
        given = options_of_catalog(self.options) if is_table else dict(self.options)
        fields = _fields_of(SourceOptions.parse(given))
        if is_table:
            fields[0].metadata = {OPTIONS: json.dumps(given, sort_keys=True)}
        return StructType(fields)

    def reader(self, schema: Any) -> DataSourceReader:
        return TableReader(_given(self.options, schema))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return ChangesReader(_given(self.options, schema))

    def writer(self, schema: Any, overwrite: bool) -> DataSourceWriter:
        return BatchWriter(dict(self.options), schema.fieldNames(), overwrite)

    def streamWriter(self, schema: Any, overwrite: bool) -> DataSourceStreamWriter:
        return StreamWriter(dict(self.options), schema.fieldNames(), overwrite)


def _fields_of(options: SourceOptions) -> list[StructField]:
    if options.table in OTHER_TABLES:
        columns = [tuple(column.split()) for column in OTHER_TABLES[options.table].split(", ")]
    else:
        Batches(options.table, options.scope.columns)  # names a column that there is not
        kinds = {name: kind for name, _, kind in TABLES[options.table]}
        columns = [(name, kinds[name]) for name in options.scope.columns]
    return [StructField(name, KINDS[kind]) for name, kind in columns]


def _given(options: Mapping[str, str], schema: Any) -> dict[str, str]:
    """The options of a query: those of the table in Spark's catalog, if it reads one, and its own."""
    kept = schema.fields[0].metadata.get(OPTIONS, "{}") if schema.fields else "{}"
    given = {**json.loads(kept), **options}
    if not given:
        raise InvalidArgument(
            "path: no options came: give path or url. CREATE TABLE ... USING raftmeta must not list columns: the "
            "options of such a table travel with the columns that raftmeta gives it",
            field="path",
        )
    return given


@dataclass(frozen=True, slots=True)
class Part(InputPartition):
    """The input of one task. kind: keys, changes or rows; detail: the facts that the place needs to find it again."""

    kind: str
    scope: Scope
    low: int = 0
    high: int = 0
    detail: tuple[Any, ...] = ()


class TableReader(DataSourceReader):
    """One table, once."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._given = dict(options)
        self._options = SourceOptions.parse(options)

    def __reduce__(self) -> tuple[Any, ...]:
        return travelling(self, (self._given,))

    def partitions(self) -> list[InputPartition]:
        """Parts that together are the table at one revision, which is fixed here."""
        options = self._options
        if options.table in OTHER_TABLES:
            return [Part("rows", options.scope)]
        with place_of(options) as place:
            if options.table == "kv":
                return _key_parts(options, place)
            high = place.check_revision(options.revision)
            low = place.floor() if options.start_revision == 0 else options.start_revision - 1
            if options.start_revision < 0:
                raise InvalidArgument("start_revision: now is for streams: a table ends today", field="start_revision")
            return _change_parts(options, place, low, high)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Record batches of a part; tuples for members and leases."""
        return _read(self._options, partition)


def _key_parts(options: SourceOptions, place: Place) -> list[InputPartition]:
    revision = place.check_revision(options.revision)
    return [
        Part("keys", Scope(start, stop, options.scope.columns), high=revision, detail=place.detail(number))
        for number, (start, stop) in enumerate(place.key_ranges(options.scope, revision, options.partitions))
    ]


def _change_parts(options: SourceOptions, place: Place, low: int, high: int) -> list[InputPartition]:
    parts = place.change_parts(low, high, options.partitions)
    return [
        Part("changes", options.scope, before, end, (*place.detail(number), begin))
        for number, (begin, before, end) in enumerate(parts)
    ]


def _read(options: SourceOptions, partition: InputPartition) -> Iterator[Any]:
    if not isinstance(partition, Part):  # what Spark makes of a table without parts
        return
    detail = partition.detail[:-1] if partition.kind == "changes" else partition.detail
    with place_of(options, detail) as place:
        if partition.kind == "keys":
            yield from place.keys(partition.scope, partition.high)
        elif partition.kind == "changes":
            yield from place.changes(partition.scope, partition.detail[-1], partition.low, partition.high)
        else:
            yield from place.rows(options.table)


class ChangesReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The changes as a stream. An offset is the last revision that was read, and its cluster."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._given = dict(options)
        self._options = SourceOptions.parse(options)
        self._target: int | None = None
        if self._options.table != "changes":
            raise InvalidArgument(
                f"table: a stream has changes only, not {self._options.table}: .option('table', 'changes')",
                field="table",
            )
        if self._options.revision:
            raise InvalidArgument("revision: a stream has no last revision; use the table changes", field="revision")

    def __reduce__(self) -> tuple[Any, ...]:
        return travelling(self, (self._given,))

    def initialOffset(self) -> dict[str, Any]:
        """The offset before the first revision that start_revision asks for."""
        with place_of(self._options) as place:
            start = self._options.start_revision
            low = place.floor() if start == 0 else place.check_revision(0) if start < 0 else start - 1
            return _offset(place, low)

    def getDefaultReadLimit(self) -> ReadLimit:
        """At most so many revisions, whatever the changes in them: a batch never cuts a revision."""
        return ReadMaxRows(self._options.revisions_per_batch)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The end of the next batch; with the trigger availableNow never behind the end at the start of the query."""
        with place_of(self._options) as place:
            low = _low(place, start)
            high = place.check_revision(0) if self._target is None else self._target
            if isinstance(limit, ReadMaxRows):
                high = min(high, low + limit.max_rows)
            return _offset(place, max(low, high))

    def prepareForTriggerAvailableNow(self) -> None:
        with place_of(self._options) as place:
            self._target = place.check_revision(0)

    def reportLatestOffset(self) -> dict[str, Any]:
        with place_of(self._options) as place:
            return _offset(place, place.check_revision(0))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Parts that together are the revisions behind start up to end."""
        with place_of(self._options) as place:
            return _change_parts(self._options, place, _low(place, start), int(end["revision"]))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Record batches of a part."""
        return _read(self._options, partition)


def _offset(place: Place, revision: int) -> dict[str, Any]:
    # Spark compares offsets as text: always these names in this order.
    return {"cluster": place.cluster_id(), "revision": revision}


def _low(place: Place, start: dict[str, Any]) -> int:
    """The revision of an offset. Raises InvalidArgument when it cannot be one of this place."""
    if start["cluster"] != place.cluster_id():
        raise InvalidArgument(
            f"checkpoint: it was made of the cluster {start['cluster']}, but {place} is {place.cluster_id()}: "
            "revisions of one mean nothing in another; begin with a new checkpoint",
            field="checkpointLocation",
        )
    low = int(start["revision"])
    newest = place.check_revision(0)
    if newest < low:
        raise InvalidArgument(
            f"checkpoint: it ends at revision {low}, but {place} is only at {newest}: it is older than what was read "
            "before; use the folder or cluster of then, or begin with a new checkpoint",
            field="checkpointLocation",
        )
    return low
