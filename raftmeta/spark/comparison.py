"""The differences between an old system and a cluster, as a join: any size, on as many executors as there are.

    with spark_session() as spark, ZooKeeperSource("/var/lib/zookeeper") as source:
        print(compare(spark, client, source, Mapping(side=b"migrated/zookeeper/")).counts)

The old side is everything that a load would write (raftmeta/migrate/mapping.py), written once as Parquet, in bounded
memory. The new side is the table kv at one revision. A full outer join on the key compares them; the result is a table
of differences.

It decides which rows are compared. raftmeta/migrate/comparison.py decides what a difference is. It never writes to the
cluster.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import raftmeta
from raftmeta.migrate import Difference, Mapping, Record
from raftmeta.migrate import Source as OldSystem
from raftmeta.migrate.comparison import compared_revision, compared_spans
from raftmeta.operations import KeyRecord
from raftmeta.spark.folders import exchanged, expect_ours
from raftmeta.spark.jobs import Progress, failed, told
from raftmeta.spark.reading import read
from raftmeta.spark.scratch import scratch_folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Compared", "compare"]

TABLE = "differences"
MARKER = f"{TABLE}/_SUCCESS"  # which Spark writes last
TUNE_BATCH_ROWS = 16_384
TUNE_BATCH_BYTES = 8 << 20  # of keys and values in a row group
RECORD_COLUMNS = ("key", "value", "create_revision", "mod_revision", "version", "lease")
U64 = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Compared:
    """The result of a comparison. counts: of each kind (Difference.what). first: some of them, in order, data first.

    revision: of the cluster, at which it was read. position: of the old system.
    """

    counts: Counter[str]
    first: list[Difference]
    revision: int
    position: str


def compare(
    spark: SparkSession,
    client: raftmeta.Client,
    source: OldSystem,
    mapping: Mapping,
    *,
    shown: int = 20,
    out: Path | None = None,
    scratch: Path | None = None,
    timeout_s: float = 30.0,
    on_progress: Progress | None = None,
) -> Compared:
    """Find all differences between the records that a load would write and those of the cluster now.

    shown: how many differences are in `first`. out: a folder for the table of all of them, which is exchanged whole.
    scratch: the place of a temporary folder, of about the size of the data; on a cluster of Spark it must mean the
    same on every executor. Leases are not compared: a key that is attached to one vanishes with it.
    Raises RuntimeError: the job failed. If the cluster forgot the revision meanwhile (its history is bounded), compare
    again. Raises ConfigError: out holds something else.
    """
    if out is not None:
        expect_ours(out, MARKER, what="comparison")
    try:
        with scratch_folder("compare", within=scratch) as folder:
            _write_source(source, mapping, folder / "old")
            revision = compared_revision(client, mapping, timeout_s=timeout_s)
            with told(spark, "comparing", on_progress):
                found = _joined(spark, client, source, mapping, folder / "old", revision)
                found.write.parquet(str(folder / "new" / TABLE))
            table = spark.read.parquet(str(folder / "new" / TABLE))
            counts = Counter({row["what"]: row["count"] for row in table.groupBy("what").count().collect()})
            first = [_difference(row) for row in table.orderBy("region", "key").limit(shown).collect()]
            if out is not None:
                with exchanged(out) as fresh:
                    shutil.move(folder / "new" / TABLE, fresh / TABLE)
    except raftmeta.RaftmetaError:
        raise
    except Exception as error:  # whatever the JVM threw: its class is known to py4j alone
        raise failed(error) from None
    return Compared(counts, first, revision, source.position)


def _joined(
    spark: SparkSession, client: raftmeta.Client, source: OldSystem, mapping: Mapping, old_files: Path, revision: int
) -> DataFrame:
    """One row for each key that differs; the columns of a side without the key are null."""
    from pyspark.sql import functions as f

    old = spark.read.parquet(str(old_files))
    parts = [
        _records(spark, client, start, end, revision).withColumn("new_region", f.lit(number))
        for number, spans in compared_spans(source, mapping)
        for start, end in spans
    ]
    new = reduce(lambda one, other: one.unionAll(other), parts)
    what = (
        f.when(f.col("old_value").isNull(), "extra")
        .when(f.col("value").isNull(), "missing")
        .when(f.col("old_value") != f.col("value"), "differs")
    )
    both = old.join(new, "key", "full_outer").withColumn("what", what).where(f.col("what").isNotNull())
    region = f.coalesce("old_region", "new_region").alias("region")
    return both.select(region, "what", "old_value", "holder", "is_counter", *RECORD_COLUMNS)


def _records(spark: SparkSession, client: raftmeta.Client, start: bytes, end: bytes, revision: int) -> DataFrame:
    """Keys of the cluster in [start, end)."""
    options: dict[str, Any] = {"url": client.url, "cluster": client.cluster, "keys": "hex"}
    options |= {"start": start.hex(), "end": end.hex(), "columns": ",".join(RECORD_COLUMNS)}
    if revision:  # 0: nothing was ever written
        options["revision"] = revision
    return read(spark, partitions=max(8, 4 * spark.sparkContext.defaultParallelism), **options)


def _write_source(source: OldSystem, mapping: Mapping, folder: Path) -> None:
    """Write the records of a load as Parquet; tasks share its row groups."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(
        [
            pa.field("old_region", pa.int32(), nullable=False),
            pa.field("key", pa.binary(), nullable=False),
            pa.field("old_value", pa.binary(), nullable=False),
            pa.field("holder", pa.int64(), nullable=False),
            pa.field("is_counter", pa.bool_(), nullable=False),
        ]
    )
    folder.mkdir()
    with pq.ParquetWriter(folder / "old.parquet", schema, compression="zstd", use_dictionary=False) as writer:
        for rows in _batches(source, mapping):
            columns = zip(*rows, strict=True)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
            writer.write_batch(pa.record_batch(arrays, schema=schema))


def _batches(source: OldSystem, mapping: Mapping) -> Iterator[list[tuple[int, bytes, bytes, int, bool]]]:
    rows: list[tuple[int, bytes, bytes, int, bool]] = []
    size = 0
    for item in source.items():
        for region, (key, value, holder, is_counter) in enumerate(mapping.records(item)):
            rows.append((region, key, value, _signed(holder), is_counter))
            size += len(key) + len(value)
        if len(rows) >= TUNE_BATCH_ROWS or size >= TUNE_BATCH_BYTES:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows


def _difference(row: Any) -> Difference:
    key = bytes(row["key"])
    old = new = None
    if row["old_value"] is not None:
        old = Record(key, bytes(row["old_value"]), row["holder"] & U64, row["is_counter"])
    if row["value"] is not None:
        numbers = (row["create_revision"], row["mod_revision"], row["version"], row["lease"] & U64)
        new = KeyRecord(key, bytes(row["value"]), *numbers)
    return Difference(row["what"], key, old, new)


def _signed(number: int) -> int:
    """The signed number of the same 64 bits: Parquet's and Spark's."""
    return number - (1 << 64) if number >> 63 == 1 else number
