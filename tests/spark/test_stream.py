"""The changes as a stream: exactly once into files, over restarts; what cannot go on is an error that says why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

import raftmeta
from raftmeta import snapshot
from raftmeta.errors import Compacted, InvalidArgument
from raftmeta.operations import Put
from raftmeta.spark.source import ChangesReader, Part, TableReader
from tests.client.nodes import serving

KEYS_EACH = 3  # of a transaction

pytestmark = pytest.mark.timeout(600)  # a JVM and its workers start: on a busy machine that takes minutes


@pytest.fixture
def store(tmp_path: Path) -> Iterator[tuple[raftmeta.Node, str]]:
    with serving(tmp_path) as (nodes, url):
        yield nodes["a"], url


def write(node: raftmeta.Node, revisions: int) -> int:
    """So many transactions, each of several keys; the last revision."""
    for number in range(revisions):
        node.txn([], [Put(f"key-{number}-{key}", str(number)) for key in range(KEYS_EACH)])
    return node.status().revision


def run(spark: Any, folder: Path, url: str, **options: str) -> Any:
    """One run of the stream up to what is there now; the query, ended."""
    stream = spark.readStream.format("raftmeta").options(table="changes", url=url, **options).load()
    query = (
        stream.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "check"))
        .trigger(availableNow=True)
        .start(str(folder / "out"))
    )
    query.awaitTermination()
    return query


def written(spark: Any, folder: Path) -> list[tuple[int, int]]:
    rows = spark.read.parquet(str(folder / "out")).select("revision", "sub").collect()
    return sorted((row.revision, row.sub) for row in rows)


def test_every_change_comes_once_over_restarts(spark: Any, store: tuple[raftmeta.Node, str], tmp_path: Path) -> None:
    """Batches of a few revisions, the rest with the next run from the checkpoint, and no revision cut in two."""
    node, url = store
    first = write(node, 5)
    query = run(spark, tmp_path, url, revisions_per_batch="2")
    batches = [progress.sources[0] for progress in query.recentProgress if progress.numInputRows]
    assert [batch.numInputRows for batch in batches] == [2 * KEYS_EACH, 2 * KEYS_EACH, KEYS_EACH]
    assert written(spark, tmp_path) == [(number, sub) for number in range(1, first + 1) for sub in range(KEYS_EACH)]
    last = write(node, 4)
    run(spark, tmp_path, url)
    assert written(spark, tmp_path) == [(number, sub) for number in range(1, last + 1) for sub in range(KEYS_EACH)]


def following(spark: Any, folder: Path, url: str) -> Any:
    """A query that goes on until it is stopped."""
    stream = spark.readStream.format("raftmeta").options(table="changes", url=url).load()
    options = {"checkpointLocation": str(folder / "check"), "path": str(folder / "out")}
    return stream.writeStream.format("parquet").options(**options).start()


def test_two_drivers_on_one_checkpoint_count_each_change_once(
    spark: Any, store: tuple[raftmeta.Node, str], tmp_path: Path
) -> None:
    """Init: a query that follows. Act: the same once more in this session, which ends the first one; then a driver
    elsewhere begins the next batch before ours does. Check: ours ends with an error that says so and has written
    nothing of that batch; whoever goes on has every change once."""
    node, url = store
    write(node, 3)
    first = following(spark, tmp_path, url)
    first.processAllAvailable()
    second = following(spark, tmp_path, url)
    assert not first.isActive
    last = write(node, 2)
    second.processAllAvailable()
    expected = [(number, sub) for number in range(1, last + 1) for sub in range(KEYS_EACH)]
    assert written(spark, tmp_path) == expected
    ours = max(int(path.name) for path in (tmp_path / "check" / "offsets").glob("[0-9]*"))
    begun = (tmp_path / "check" / "offsets" / str(ours)).read_text()
    theirs = begun.replace(f'"revision": {last}', f'"revision": {last + 1}')
    assert theirs != begun
    (tmp_path / "check" / "offsets" / str(ours + 1)).write_text(theirs)
    last = write(node, 2)
    with pytest.raises(StreamingQueryException, match="CONCURRENT_STREAM_LOG_UPDATE"):
        second.processAllAvailable()
    assert written(spark, tmp_path) == expected
    run(spark, tmp_path, url)
    assert written(spark, tmp_path) == [(number, sub) for number in range(1, last + 1) for sub in range(KEYS_EACH)]


def test_a_compacted_start_ends_the_stream(spark: Any, store: tuple[raftmeta.Node, str], tmp_path: Path) -> None:
    """With the oldest revision that there is; nothing was written."""
    node, url = store
    write(node, 9)
    node.compact(6)
    with pytest.raises(StreamingQueryException, match=r"up to revision 6 are compacted .* the oldest one is 7"):
        run(spark, tmp_path, url)
    assert not list(tmp_path.glob("out/*.parquet"))


# --- the reader without Spark -----------------------------------------------------------------------------------------


def reader(url: str, **options: str) -> ChangesReader:
    return ChangesReader({"table": "changes", "url": url, **options})


def test_offsets_are_revisions_and_obey_the_limit(store: tuple[raftmeta.Node, str]) -> None:
    """Where a stream begins, how far a batch goes, and where availableNow ends although others go on writing."""
    node, url = store
    last = write(node, 6)
    begun = reader(url)
    start = begun.initialOffset()
    assert (start["revision"], reader(url, start_revision="4").initialOffset()["revision"]) == (0, 3)
    assert reader(url, start_revision="now").initialOffset()["revision"] == last
    assert begun.latestOffset(start, ReadMaxRows(4))["revision"] == 4
    assert begun.latestOffset(start, ReadAllAvailable())["revision"] == last
    begun.prepareForTriggerAvailableNow()
    write(node, 3)
    assert begun.latestOffset(start, ReadAllAvailable())["revision"] == last
    assert reader(url).latestOffset(start, ReadAllAvailable())["revision"] == last + 3
    node.compact(5)
    assert reader(url, start_revision="oldest").initialOffset()["revision"] == 5


def test_a_checkpoint_of_another_state_is_refused(store: tuple[raftmeta.Node, str], tmp_path: Path) -> None:
    """Of another cluster, or from behind the newest revision: a store that was restored from a backup."""
    node, url = store
    last = write(node, 2)
    begun = reader(url)
    mine = begun.initialOffset()
    with pytest.raises(InvalidArgument, match="it was made of the cluster 00"):
        begun.latestOffset({"cluster": "00", "revision": 1}, ReadAllAvailable())
    with pytest.raises(InvalidArgument, match=f"it ends at revision {last + 5}, but {url} is only at {last}"):
        begun.latestOffset({**mine, "revision": last + 5}, ReadAllAvailable())
    with pytest.raises(InvalidArgument, match="table: a stream has changes only"):
        ChangesReader({"url": url})


def test_an_empty_store_is_a_table_and_a_stream_without_rows(store: tuple[raftmeta.Node, str], tmp_path: Path) -> None:
    """Of a running cluster and of its backup; what Spark makes of a table without parts is read, too."""
    node, url = store
    snapshot.save(node, tmp_path / "empty.sealed")
    for where in ({"url": url}, {"path": str(tmp_path / "empty.sealed")}):
        for table in ("kv", "changes", "leases"):
            reading = TableReader({"table": table, **where})
            parts = [*reading.partitions(), InputPartition(None)]
            assert [batch for part in parts for batch in reading.read(part)] == []
        begun = ChangesReader({"table": "changes", **where})
        start = begun.initialOffset()
        assert (start["revision"], begun.latestOffset(start, ReadAllAvailable())) == (0, start)
        assert begun.partitions(start, start) == []


def test_history_that_goes_between_plan_and_task_is_an_error(store: tuple[raftmeta.Node, str]) -> None:
    """A part whose first revisions are compacted before it is read gives no rows."""
    node, url = store
    last = write(node, 8)
    begun = reader(url)
    start = begun.initialOffset()
    (part,) = begun.partitions(start, {**start, "revision": last})
    assert isinstance(part, Part)
    assert sum(batch.num_rows for batch in begun.read(part)) == last * KEYS_EACH
    node.compact(4)
    with pytest.raises(Compacted, match="before revision 5 are compacted"):
        list(begun.read(part))
