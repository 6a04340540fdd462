"""A node that is killed while it is read: the rest comes from the others, with nothing twice and nothing missing."""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

import raftmeta
from raftmeta.spark import ClientSource, feed, read
from tests.client.nodes import ServingCluster
from tests.processes.cluster import NodeProcess
from tests.processes.waiting import wait_until

VALUES, VALUE_BYTES = 96, 1 << 19  # 48 MiB: more than sockets, workers and the JVM hold of a reader that must wait
ROWS_AT_ONCE = "4"  # that Spark gives to Python
TIMEOUT_S = 120.0

pytestmark = pytest.mark.timeout(600)  # a JVM and its workers start: on a busy machine that takes minutes


def value_of(number: int) -> bytes:
    return number.to_bytes(8) * (VALUE_BYTES // 8)


def metrics(node: raftmeta.Node) -> dict[str, int]:
    return node.metrics()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ServingCluster]:
    """Three processes with large values: revision n put key-n."""
    cluster = ServingCluster(tmp_path, history_bytes_max=1 << 28)
    with cluster:
        with raftmeta.Client(cluster.url) as client:
            client.ready(TIMEOUT_S)
            for number in range(1, VALUES + 1):
                client.put(b"key-%03d" % number, value_of(number), timeout_s=TIMEOUT_S)
        yield cluster


@pytest.fixture
def small_steps(spark: Any) -> Iterator[Any]:
    """The session, which gives few rows at once to Python: what waits there holds up what reads."""
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(name)
    spark.conf.set(name, ROWS_AT_ONCE)
    yield spark
    spark.conf.set(name, before)


class Gate:
    """What Spark reads stops at it after the first rows, until the block is left: a lock on a file."""

    def __init__(self, folder: Path) -> None:
        self._here, self._lock = folder / "reading", folder / "gate"

    def __enter__(self) -> Self:
        self._held = self._lock.open("w")
        fcntl.flock(self._held, fcntl.LOCK_EX)
        return self

    def __exit__(self, *_exc: object) -> None:
        self._held.close()

    def wait_for_rows(self) -> None:
        wait_until(self._here.exists, what="the first rows", timeout_s=TIMEOUT_S)

    def holding(self) -> Callable[[Iterator[Any]], Iterator[Any]]:
        """For mapInArrow, in another process."""
        here, lock = str(self._here), str(self._lock)

        def hold(batches: Iterator[Any]) -> Iterator[Any]:
            import fcntl
            from pathlib import Path

            for batch in batches:
                Path(here).touch()
                with Path(lock).open() as at:
                    fcntl.flock(at, fcntl.LOCK_SH)
                yield batch

        return hold


def kill(cluster: ServingCluster) -> Callable[[], int]:
    """Kill the first follower of the URL, which serves; the function tells how many requests the others had since."""
    leader = cluster.leader()
    victim = next(node for node in cluster.nodes.values() if node.name != leader.name)
    assert victim.call(metrics)["client_connections"] > 0
    victim.kill()
    others = [node for node in cluster.nodes.values() if node is not victim]
    before = sum(map(requests_of, others))
    return lambda: sum(map(requests_of, others)) - before


def requests_of(node: NodeProcess) -> int:
    return int(node.call(metrics)["client_requests"])


def test_a_table_is_whole_when_its_node_is_killed(small_steps: Any, cluster: ServingCluster, tmp_path: Path) -> None:
    """Init: a scan of which a few rows came. Act: kill -9 of the follower that serves it. Check: every key once, with
    its value, as of the revision at which the scan began."""
    with raftmeta.Client(cluster.url) as client, ThreadPoolExecutor(1) as thread:
        client.ready(TIMEOUT_S)
        with Gate(tmp_path) as gate:
            frame = read(small_steps, url=cluster.url, columns="key,value,mod_revision").mapInArrow(
                gate.holding(), "key binary, value binary, mod_revision bigint"
            )
            scanned = thread.submit(frame.select("key", F.md5("value").alias("digest"), "mod_revision").collect)
            gate.wait_for_rows()
            client.put("key-001", b"later", timeout_s=TIMEOUT_S)
            asked = kill(cluster)
        rows = scanned.result(TIMEOUT_S)
    assert asked() > 0
    assert sorted((bytes(row.key), row.digest, row.mod_revision) for row in rows) == [
        (b"key-%03d" % number, hashlib.md5(value_of(number)).hexdigest(), number) for number in range(1, VALUES + 1)
    ]


def test_a_stream_has_each_change_once_when_its_node_is_killed(
    small_steps: Any, cluster: ServingCluster, tmp_path: Path
) -> None:
    """The same in the middle of a batch of the stream into files."""
    stream = small_steps.readStream.format("raftmeta").options(
        table="changes", url=cluster.url, columns="revision,sub,value"
    )
    with Gate(tmp_path) as gate:
        query = (
            stream.load()
            .mapInArrow(gate.holding(), "revision bigint, sub bigint, value binary")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "check"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "out"))
        )
        gate.wait_for_rows()
        asked = kill(cluster)
    query.awaitTermination()
    assert asked() > 0
    rows = small_steps.read.parquet(str(tmp_path / "out")).collect()
    assert sorted((row.revision, row.sub, bytes(row.value)) for row in rows) == [
        (number, 0, value_of(number)) for number in range(1, VALUES + 1)
    ]


def test_a_lake_is_whole_when_its_node_is_killed(cluster: ServingCluster, tmp_path: Path) -> None:
    """Init: a feed that follows. Act: kill -9 of the follower that serves it after its first changes; write more when
    all are there; then Ctrl-C. Check: every revision once, by columns from the first to the last."""
    later = 20
    asked: list[Callable[[], int]] = []
    with raftmeta.Client(cluster.url) as client:
        client.ready(TIMEOUT_S)

        class Mortal(ClientSource):
            def changes(self, first: int) -> Generator[pa.Table | None, None, None]:
                for table in super().changes(first):
                    if table is None:
                        yield None
                        continue
                    last = table["revision"][-1].as_py()
                    if not asked:
                        assert last < VALUES
                        asked.append(kill(cluster))
                    yield table
                    if last == VALUES:
                        for number in range(later):
                            client.put(f"later-{number}", b"1", timeout_s=TIMEOUT_S)
                    if last == VALUES + later:
                        raise KeyboardInterrupt

        fed = feed(Mortal(client, quiet_s=0.5), tmp_path / "lake", follow=True)
        assert asked[0]() > later  # which are this test's own
    assert (fed.last, fed.changes) == (VALUES + later, VALUES + later)
    paths = fed.lake.files_of(1, fed.last)
    rows = pa.concat_tables([pq.read_table(path, columns=["revision", "key", "value"]) for path in paths]).to_pylist()
    assert [row["revision"] for row in rows] == list(range(1, VALUES + later + 1))
    assert all(row["value"] == value_of(row["revision"]) for row in rows[:VALUES])
