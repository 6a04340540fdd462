"""Tables and streams of a cluster on Spark: python -m pytest benchmarks/test_bench_spark_tables.py.

The values are states of partitions as a broker keeps them: key, value and numbers of a row have 165 bytes. Spark runs
on local[2] with the settings of spark_session alone: those of `verify` are for jobs whose rows are few and large, and
make a scan of many small ones twice as dear. Beside wall times stand processor time and the load of the machine.
"""

from __future__ import annotations

import os
import socket
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import raftmeta
from benchmarks.load.partitions import fill_partitions
from benchmarks.processors import processor_s
from raftmeta import Config, Node, snapshot
from raftmeta.spark import ClientSource, feed, read, spark_session

SCANNED, SCANS, WARMING_SCANS = 3_000_000, 9, 5  # the JVM compiles for some five of them
CHANGES, CHANGES_PER_BATCH, CHANGES_PER_REVISION = 1_000_000, 200_000, 5


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """One node with room for the history of the run."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        peers = {"a": f"127.0.0.1:{probe.getsockname()[1]}"}
    config = Config(reserve_bytes=0, wal_bytes_max=8 << 30, history_bytes_max=4 << 30, local_clients=True)
    with Node("a", peers=peers, data_dir=tmp_path / "a", config=config) as made:
        made.ready(60.0)
        yield made


def test_scan_of_three_million_keys(benchmark: BenchmarkFixture, node: Node, tmp_path: Path) -> None:
    """Target on local[2], after Spark's start: 2,000,000 rows/s of the table kv into the sink noop."""
    path = tmp_path / "backup.sealed"
    fill_partitions(node, SCANNED, 2000)
    node.compact(node.status().revision)
    snapshot.save(node, path, timeout_s=600.0)
    node.close()
    with spark_session("local[2]") as spark:
        assert read(spark, path=path).count() == SCANNED
        scan = read(spark, path=path).write.format("noop").mode("overwrite")
        for _ in range(WARMING_SCANS):
            scan.save()
        benchmark.extra_info["load_before"] = os.getloadavg()
        begun_s = processor_s()
        benchmark.pedantic(scan.save, rounds=SCANS)
        benchmark.extra_info["processor_s_per_round"] = (processor_s() - begun_s) / SCANS
        benchmark.extra_info["load_after"] = os.getloadavg()
    benchmark.extra_info["reads"] = SCANNED


def test_stream_of_a_million_changes(benchmark: BenchmarkFixture, node: Node, tmp_path: Path) -> None:
    """Target on local[2], in warm batches: 250,000 changes/s out of a running node into Parquet.

    The first of two runs is to warm Spark up: its first batch compiles for seconds.
    """
    fill_partitions(node, CHANGES, CHANGES_PER_REVISION)
    options = {"table": "changes", "url": f"raft+unix://{tmp_path / 'a'}"}
    options["revisions_per_batch"] = str(CHANGES_PER_BATCH // CHANGES_PER_REVISION)
    with spark_session("local[2]") as spark:
        stream = spark.readStream.format("raftmeta").options(**options).load()

        def run(name: str) -> list[Any]:
            writer = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / f"{name}-check"))
            query = writer.trigger(availableNow=True).start(str(tmp_path / name))
            query.awaitTermination()
            return [batch for batch in query.recentProgress if batch.numInputRows]

        run("warm-up")
        begun_s = processor_s()
        batches = benchmark.pedantic(run, ("measured",))
        benchmark.extra_info["processor_s"] = processor_s() - begun_s
        benchmark.extra_info["load_after"] = os.getloadavg()
    assert sum(batch.numInputRows for batch in batches) == CHANGES
    warm_s = [batch.durationMs["triggerExecution"] / 1000 for batch in batches[1:]]
    benchmark.extra_info["warm_batches_s"] = warm_s
    benchmark.extra_info["warm_changes_per_second"] = CHANGES_PER_BATCH / statistics.median(warm_s)
    benchmark.extra_info["operations"] = CHANGES


def test_feed_of_a_million_changes(benchmark: BenchmarkFixture, node: Node, tmp_path: Path) -> None:
    """Target: 250,000 changes/s out of a running node into a new lake, by `raftmeta pipeline feed`."""
    fill_partitions(node, CHANGES, CHANGES_PER_REVISION)
    with raftmeta.Client(f"raft+unix://{tmp_path / 'a'}") as client:
        client.ready(60)
        begun_s = processor_s()
        fed = benchmark.pedantic(lambda: feed(ClientSource(client), tmp_path / "lake"))
        benchmark.extra_info["processor_s"] = processor_s() - begun_s
        benchmark.extra_info["load_after"] = os.getloadavg()
    assert fed.changes == CHANGES
    benchmark.extra_info["operations"] = CHANGES
