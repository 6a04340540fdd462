"""A lake as others read it: as a Delta table by deltalake and DuckDB, and by `format("raftmeta")` with its path.

Each must show exactly the changes that lake.json names, also after a crash and after files were merged.
"""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

import raftmeta
from raftmeta import snapshot
from raftmeta.errors import ConfigError
from raftmeta.spark import ClientSource, Lake, delta_log, feed, merge, read
from raftmeta.spark import lake as lake_module
from tests.client.nodes import serving
from tests.spark.test_lake import Replayed, put, write_a_lot

pytestmark = pytest.mark.timeout(600)  # a JVM and its workers start: on a busy machine that takes minutes


def truth(folder: Path) -> list[dict[str, Any]]:
    """The changes that count, by lake.json alone, with the day that their file stands for."""
    rows: list[dict[str, Any]] = []
    for one in Lake.load(folder).files:
        table = pq.read_table(folder / one.file, partitioning=None)
        rows += [{**row, "day": one.day} for row in table.to_pylist()]
    return rows


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    shown = [{**row, "day": str(row["day"])} for row in rows]
    return sorted(shown, key=lambda row: (row["revision"], row["sub"]))


def by_deltalake(folder: Path) -> list[dict[str, Any]]:
    return in_order(pa.table(deltalake.DeltaTable(folder / "changes").to_pyarrow_table()).to_pylist())


def by_duckdb(folder: Path, question: str) -> list[tuple[Any, ...]]:
    """The files that the log names, asked by an engine that is neither ours nor Delta's."""
    files = deltalake.DeltaTable(folder / "changes").file_uris()
    return duckdb.sql(question.format(f"read_parquet({files!r})")).fetchall()


def many(count: int) -> Replayed:
    return Replayed([put(number, f"k{number % 3}", day=number // 4) for number in range(1, count + 1)])


def test_a_lake_is_a_delta_table(tmp_path: Path) -> None:
    """Every column with its kind, the day as a partition, and the numbers of revisions for pruning."""
    feed(many(10), tmp_path, file_rows=3)
    assert by_deltalake(tmp_path) == truth(tmp_path)
    assert by_duckdb(tmp_path, "SELECT count(*), min(revision), max(revision) FROM {}") == [(10, 1, 10)]
    table = deltalake.DeltaTable(tmp_path / "changes")
    of_a_day = table.to_pyarrow_table(filters=[("day", "=", datetime.date(1970, 1, 2))])
    assert [str(day) for day in of_a_day["day"].to_pylist()] == ["1970-01-02"] * 4
    version = table.version()
    feed(many(10), tmp_path)
    assert deltalake.DeltaTable(tmp_path / "changes").version() == version, "nothing new makes no commit"


def test_an_empty_lake_is_an_empty_table(tmp_path: Path) -> None:
    feed(Replayed([]), tmp_path)
    assert by_deltalake(tmp_path) == []


def test_a_table_shows_what_counts_after_a_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver dies before lake.json, and one between lake.json and the log: never a row twice, none too much.

    A reader that lists the folder would see the stray file.
    """
    feed(many(4), tmp_path)
    before = truth(tmp_path)

    def dies(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(lake_module, "write_json", dies)
        with pytest.raises(KeyboardInterrupt):
            Lake.load(tmp_path).append(pa.concat_tables([_changes(5), _changes(6)]))
    listed = duckdb.sql(f"SELECT count(*) FROM read_parquet('{tmp_path}/changes/*/*.parquet')").fetchall()
    assert listed == [(6,)], "what a reader by path alone would see"
    assert by_deltalake(tmp_path) == truth(tmp_path) == before
    with monkeypatch.context() as patch:
        patch.setattr(lake_module, "bring_up", dies)
        with pytest.raises(KeyboardInterrupt):
            Lake.load(tmp_path).append(_changes(5))
    assert by_deltalake(tmp_path) == before, "one step behind, and whole"
    feed(many(6), tmp_path)
    assert by_deltalake(tmp_path) == truth(tmp_path)
    assert by_duckdb(tmp_path, "SELECT count(*), count(DISTINCT revision) FROM {}") == [(6, 6)]


def _changes(revision: int) -> pa.Table:
    from raftmeta.spark.lake_rows import changes_of

    return changes_of([put(revision, "k", day=revision // 4)])


def test_a_table_outlives_many_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints take the place of old commits; with each commit the table is what counts."""
    monkeypatch.setattr(delta_log, "CHECKPOINT_EACH", 3)
    for count in range(1, 14):
        feed(many(count), tmp_path)
        assert by_deltalake(tmp_path) == truth(tmp_path)
    log = tmp_path / "changes" / delta_log.LOG
    assert sorted(path.name for path in log.glob("*.checkpoint.parquet"))[-1] == f"{12:020}.checkpoint.parquet"
    assert not (log / f"{0:020}.json").exists()


def test_a_damaged_log_is_named_and_written_anew(tmp_path: Path) -> None:
    feed(many(4), tmp_path)
    log = tmp_path / "changes" / delta_log.LOG
    (log / f"{0:020}.json").write_text("{")
    with pytest.raises(ConfigError, match="remove the folder"):
        feed(many(5), tmp_path)
    for path in log.iterdir():
        path.unlink()
    log.rmdir()
    feed(many(5), tmp_path)
    assert by_deltalake(tmp_path) == truth(tmp_path)


def test_a_merged_lake_is_the_same_table(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer files, the same rows; a driver that dies before it removes the old files leaves nothing twice."""
    feed(many(10), tmp_path, file_rows=1)
    before = truth(tmp_path)
    files = len(deltalake.DeltaTable(tmp_path / "changes").file_uris())
    merge(spark, tmp_path)
    assert len(deltalake.DeltaTable(tmp_path / "changes").file_uris()) < files
    assert by_deltalake(tmp_path) == truth(tmp_path) == before


def test_a_lake_is_read_by_its_path(spark: Any, tmp_path: Path) -> None:
    """The same rows as of the backup from which it was fed: changes, keys now and then, parts of both; and a stream."""
    with serving(tmp_path) as (_, url), raftmeta.Client(url) as client:
        client.ready(10)
        write_a_lot(client, 3)
        snapshot.save(client, tmp_path / "backup.sealed")
        feed(ClientSource(client, quiet_s=0.2), tmp_path / "lake", file_rows=10)
    path, file = str(tmp_path / "lake"), str(tmp_path / "backup.sealed")

    def rows(table: str, **options: Any) -> list[Any]:
        return sorted(map(tuple, read(spark, table, **options).collect()), key=repr)

    last = Lake.load(path).last
    for options in (
        {"previous": "true"},
        {"prefix": "k", "columns": "revision,key,op"},
        {"start_revision": 7, "revision": 31},
    ):
        assert rows("changes", path=path, partitions=3, **options) == rows("changes", path=file, **options)
    for options in ({}, {"prefix": "k1", "columns": "key,value"}):
        assert rows("kv", path=path, **options) == rows("kv", path=file, **options)
    for revision in (0, 5, last // 2):
        given = {"revision": revision} if revision else {}
        assert rows("kv", path=path, **given) == rows("kv", path=file, **given)
    with pytest.raises(PySparkException, match=f"the newest is {last}"):
        rows("kv", path=path, revision=last + 1)
    with pytest.raises(PySparkException, match="a lake has kv and changes"):
        rows("members", path=path)
    stream = spark.readStream.format("raftmeta").options(path=path, table="changes", revisions_per_batch="20").load()
    sink = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "check"))
    sink.trigger(availableNow=True).start(str(tmp_path / "out")).awaitTermination()
    assert spark.read.parquet(str(tmp_path / "out")).count() == len(rows("changes", path=path))
