"""Tables and streams of a cluster on Spark: python -m pytest benchmarks/test_bench_spark_tables.py.

The values are states of partitions as a broker keeps them: key, value and numbers of a row have 165 bytes. Spark runs
on local[2] with the settings of spark_session alone: those of `verify` are for jobs whose rows are few and large, and
make a scan of many small ones twice as dear. Beside wall times stand processor time and the load of the machine.
"""

from __future__ import annotations

import os
import socket
import statistics
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import raftmeta
from benchmarks.load import inside
from benchmarks.measure import Sample
from benchmarks.processors import burning, evenly, process_s, processor_s, recording, thread_s
from raftmeta import Config, Node, snapshot
from raftmeta.operations import Put
from raftmeta.spark import ClientSource, feed, read, spark_session
from tests.client.nodes import ServingCluster

SCANNED, SCANS, WARMING_SCANS = 3_000_000, 9, 5  # the JVM compiles for some five of them
CHANGES, CHANGES_PER_BATCH, CHANGES_PER_REVISION = 1_000_000, 200_000, 5
STATE = '{{"controller_epoch":{},"leader":{},"version":1,"leader_epoch":{},"isr":[1,2,3]}}'
WRITERS = 64  # transactions under way while a node is filled

BESIDE_KEYS, BESIDE_ROUNDS = 300_000, 40
PUTS = ("asyncio", 64, 256, 999, 1.2, 0.2)  # what inside.puts_awaited takes: 64 under way, 256 bytes, 1.2 s
CLIENTS_THREAD = "raftmeta-client"


def partition_states(first: int, count: int) -> list[Put]:
    return [
        Put(f"/brokers/topics/topic-{i // 30:06}/partitions/{i % 30}/state", STATE.format(i % 7, i % 50, i % 90))
        for i in range(first, first + count)
    ]


def fill(store: Node | raftmeta.Client, count: int, each: int) -> None:
    """So many keys, `each` of them in a revision."""
    with ThreadPoolExecutor(WRITERS) as writers:
        for _ in writers.map(
            lambda first: store.txn([], partition_states(first, each), timeout_s=60.0), range(0, count, each)
        ):
            pass


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
    fill(node, SCANNED, 2000)
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
    fill(node, CHANGES, CHANGES_PER_REVISION)
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
    fill(node, CHANGES, CHANGES_PER_REVISION)
    with raftmeta.Client(f"raft+unix://{tmp_path / 'a'}") as client:
        client.ready(60)
        begun_s = processor_s()
        fed = benchmark.pedantic(lambda: feed(ClientSource(client), tmp_path / "lake"))
        benchmark.extra_info["processor_s"] = processor_s() - begun_s
        benchmark.extra_info["load_after"] = os.getloadavg()
    assert fed.changes == CHANGES
    benchmark.extra_info["operations"] = CHANGES


@pytest.mark.timeout(1200)
def test_puts_beside_a_scan(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    """Target: a scan of a running cluster takes at most 10 % of its puts, beside the processor time that it uses.

    By turns, puts of a cluster of three run beside scans by Spark, and beside processes that use the processors as much
    as those scans and the threads that served them did, and do nothing with it: at the same times, and spread evenly.
    Bursts take more of the puts than the same time spread out does, whoever has them; so the first is the comparison.
    """
    rates: dict[str, list[float]] = {"scan": [], "burner": [], "even_burner": [], "alone": []}
    used: dict[str, list[float]] = {kind: [] for kind in rates if kind != "alone"}  # processors
    node_us_per_put: dict[str, list[float]] = {kind: [] for kind in rates}  # beside the clients' threads
    with ServingCluster(tmp_path, history_bytes_max=1 << 28, wal_bytes_max=4 << 30) as cluster:
        cluster.wait_ready()
        leader = cluster.leader()
        pids = {one.pid for one in cluster.nodes.values()}
        with raftmeta.Client(cluster.url) as client:
            client.ready(60)
            fill(client, BESIDE_KEYS, 1000)

        def serving_s() -> float:
            return sum(thread_s(pid, CLIENTS_THREAD) for pid in pids)

        def scans_s() -> float:
            return processor_s(without=pids) + serving_s()

        def puts(kind: str) -> None:
            """One run of the load, whose rate and cost are kept."""
            begun_s = sum(map(process_s, pids)) - serving_s()
            found = Sample.of(leader.call(inside.puts_awaited, *PUTS, timeout_s=120.0))
            spent_s = sum(map(process_s, pids)) - serving_s() - begun_s
            rates[kind].append(found.per_second)
            node_us_per_put[kind].append(1e6 * spent_s / (found.per_second * sum(PUTS[-2:])))

        with spark_session("local[2]") as spark:

            def scan() -> None:
                read(spark, url=cluster.url).write.format("noop").mode("overwrite").save()

            for _ in range(WARMING_SCANS):
                scan()

            def by_turns() -> None:
                is_over = threading.Event()

                def scan_on() -> None:
                    while not is_over.is_set():
                        scan()

                scanner = threading.Thread(target=scan_on)
                try:
                    with recording(scans_s) as steps:
                        scanner.start()
                        puts("scan")
                finally:
                    is_over.set()
                    scanner.join()
                used["scan"].append(steps[-1][1] / steps[-1][0])
                for kind, profile in (("burner", steps), ("even_burner", evenly(steps))):
                    with burning(profile) as burnt:
                        puts(kind)
                    used[kind].append(burnt.processor_s / steps[-1][0])
                puts("alone")

            benchmark.pedantic(by_turns, rounds=BESIDE_ROUNDS)
    benchmark.extra_info["load_after"] = os.getloadavg()
    benchmark.extra_info["puts_per_second"] = rates
    benchmark.extra_info["node_us_per_put"] = node_us_per_put
    benchmark.extra_info["processors"] = used
    for kind in ("burner", "even_burner"):
        by_round = [scan / burner for scan, burner in zip(rates["scan"], rates[kind], strict=True)]
        benchmark.extra_info[f"scan_takes_beside_{kind}"] = 1.0 - statistics.median(by_round)
