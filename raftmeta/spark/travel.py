"""Questions to a lake on Spark: who changed a key and when, and the state at any revision or time. And its upkeep.

    spark = ...                                  # any session
    lake = Lake.load("lake")
    changes(spark, lake, key="topics/t").show()
    state(spark, lake, revision=1042).show()
    merge(spark, lake.folder); retain(spark, lake.folder, before=...)

It decides which files a question needs: the newest base before it and the changes since, no more. It never changes the
content of a lake: merging gives the same rows in fewer files, and retention gives up the oldest only when told to.
"""

from __future__ import annotations

import datetime
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from raftmeta.errors import ConfigError
from raftmeta.operations import Key, prefix_end
from raftmeta.spark.folders import HALF_WRITTEN, write_table
from raftmeta.spark.jobs import failed
from raftmeta.spark.lake import Base, ChangesFile, Lake

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["changes", "merge", "retain", "state"]

MERGED_BYTES = 128 << 20  # of one file of a day


def _within(key: Key | None, prefix: Key | None) -> Column | None:
    from pyspark.sql import functions as f

    def raw(text: Key) -> bytes:
        return text.encode() if isinstance(text, str) else text

    if key is not None:
        return f.col("key") == f.lit(raw(key))
    if prefix is not None:
        end = prefix_end(prefix)
        above = f.col("key") >= f.lit(raw(prefix))
        return above & (f.col("key") < f.lit(end)) if end else above
    return None


def _read(spark: SparkSession, files: list[str], schema: Any) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    kinds = from_arrow_schema(schema)
    if not files:
        return spark.createDataFrame([], kinds)
    return spark.read.schema(kinds).parquet(*files)


def changes(
    spark: SparkSession,
    lake: Lake,
    *,
    first: int = 0,
    last: int | None = None,
    since: datetime.datetime | None = None,
    until: datetime.datetime | None = None,
    key: Key | None = None,
    prefix: Key | None = None,
) -> DataFrame:
    """Changes of the revisions [first, last], of the times [since, until), of one key or a prefix; not sorted.

    Columns: those of lake_rows.CHANGES. Raises MissingRevisions when first or last is given and a revision between is
    missing. With neither you get everything in the lake, and lake.gaps tells the missing revisions.
    """
    from pyspark.sql import functions as f

    from raftmeta.spark.lake_rows import CHANGES

    until_revision = lake.last if last is None else last
    if first or last is not None:
        lake.expect_changes(first or lake.oldest + 1, until_revision)
    found = _read(spark, lake.files_of(first, until_revision), CHANGES)
    found = found.where(f.col("revision").between(first, until_revision))
    if since is not None:
        found = found.where(f.col("ts") >= f.lit(since))
    if until is not None:
        found = found.where(f.col("ts") < f.lit(until))
    condition = _within(key, prefix)
    return found if condition is None else found.where(condition)


def state(
    spark: SparkSession,
    lake: Lake,
    *,
    revision: int | None = None,
    at: datetime.datetime | None = None,
    key: Key | None = None,
    prefix: Key | None = None,
) -> DataFrame:
    """All keys as of a revision or a time; without both, of the newest revision in the lake. Not sorted.

    Columns: at_revision, and those of lake_rows.BASE. at: its zone counts (UTC where it has none). Raises
    MissingRevisions for a revision or time that the lake does not have.
    """
    from pyspark.sql import functions as f

    from raftmeta.spark.lake_rows import BASE, CHANGES

    if revision is not None and at is not None:
        raise ConfigError("revision and at: give one of them")
    if at is not None:
        revision = lake.revision_at(at if at.tzinfo else at.replace(tzinfo=datetime.UTC))
    revision = lake.last if revision is None else revision
    base = lake.base_for(revision)
    names = [field.name for field in BASE]
    old = _read(spark, [str(lake.folder / base.file)], BASE).withColumns({"sub": f.lit(-1), "op": f.lit("put")})
    new = _read(spark, lake.files_of(base.revision + 1, revision), CHANGES)
    new = new.where(f.col("revision").between(base.revision + 1, revision)).withColumnRenamed(
        "revision", "mod_revision"
    )
    columns = [*names, "sub", "op"]
    both = old.select(columns).unionByName(new.select(columns))
    condition = _within(key, prefix)
    both = both if condition is None else both.where(condition)
    newest = f.max_by(f.struct(*columns), f.struct("mod_revision", "sub")).alias("newest")
    found = both.groupBy(f.col("key").alias("of")).agg(newest).select("newest.*").where("op = 'put'")
    return found.select(f.lit(revision).cast("bigint").alias("at_revision"), *names)


# --- upkeep -----------------------------------------------------------------------------------------------------------
def merge(spark: SparkSession, folder: str | Path, *, file_bytes: int = MERGED_BYTES) -> Lake:
    """Make one file of many small ones of a day, up to file_bytes each, and return the lake.

    Raises ConfigError when another driver works there. A reader that loaded the lake before may miss files afterwards.
    """
    with Lake.driven(Path(folder).resolve()) as lake:
        if lake is None:
            raise ConfigError(f"{folder}: no lake: raftmeta pipeline feed makes one")
        groups = list(_groups(lake, file_bytes))
        if not groups:
            return lake
        root = str(lake.folder)

        def merge_one(group: list[ChangesFile]) -> ChangesFile:
            import pyarrow as pa
            import pyarrow.parquet as pq

            from raftmeta.spark.lake_rows import CHANGES

            first, last = group[0], group[-1]
            file = f"changes/day={first.day}/{first.first:020}-{last.last:020}.parquet"
            tables = [pq.read_table(Path(root) / one.file, schema=CHANGES, partitioning=None) for one in group]
            write_table(Path(root) / file, pa.concat_tables(tables))
            rows, size_bytes = sum(one.rows for one in group), (Path(root) / file).stat().st_size
            return replace(first, file=file, last=last.last, last_ms=last.last_ms, rows=rows, size_bytes=size_bytes)

        merged = _ran(lambda: spark.sparkContext.parallelize(groups, len(groups)).map(merge_one).collect())
        return _replaced(lake, lake.with_merged(merged))


def _groups(lake: Lake, file_bytes: int) -> Iterator[list[ChangesFile]]:
    """Neighbours of one day that are small enough together. A gap separates them."""
    group: list[ChangesFile] = []
    for one in [*lake.files, None]:
        fits = (
            one is not None
            and group
            and one.day == group[-1].day
            and one.first == group[-1].last + 1
            and sum(file.size_bytes for file in group) + one.size_bytes <= file_bytes
        )
        if not fits:
            if len(group) > 1:
                yield group
            group = []
        if one is not None:
            group.append(one)


def retain(spark: SparkSession, folder: str | Path, *, before: datetime.datetime) -> Lake:
    """Give up the changes of all days before this time, and return the lake, which then begins with a base there.

    before: its day (UTC) is kept whole. A lake without older changes stays as it is. Raises as merge.
    """
    with Lake.driven(Path(folder).resolve()) as lake:
        if lake is None:
            raise ConfigError(f"{folder}: no lake: raftmeta pipeline feed makes one")
        day = before.astimezone(datetime.UTC).date().isoformat()
        old = [one for one in lake.files if one.day < day]
        if not old:
            return lake
        base = Base(f"bases/{old[-1].last:020}.parquet", old[-1].last)
        if base.revision not in [one.revision for one in lake.bases]:
            _write_base(state(spark, lake, revision=base.revision), lake.folder / base.file)
        return _replaced(lake, lake.without_changes_before(base))


def _write_base(rows: DataFrame, path: Path) -> None:
    """Write a folder of parts, which is there when it is whole."""
    half = path.with_name(path.name + HALF_WRITTEN)
    shutil.rmtree(half, ignore_errors=True)
    _ran(lambda: rows.drop("at_revision").orderBy("key").write.parquet(str(half)))
    for part in half.iterdir():
        with part.open("rb") as file:
            os.fsync(file.fileno())
    half.rename(path)


def _ran(job: Any) -> Any:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        return job()
    except (PySparkException, Py4JError) as error:
        raise failed(error) from None


def _replaced(old: Lake, new: Lake) -> Lake:
    """Make the new lake count; then remove the files of the old one."""
    new.saved()
    for file in old.named - new.named:
        path = old.folder / file
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return new
