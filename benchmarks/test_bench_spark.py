"""The pipeline on Spark: python -m pytest benchmarks/test_bench_spark.py; the last part is about tables of a cluster.

Ten histories of a thousand operations on one key, by five processes of its own, are drawn, and repeated under other
names, so that all keys go on at once: neighbouring rows belong to different keys, as clients of a store leave them
behind. One file must be grouped and shuffled; the other one lies in buckets. Times are wall times on local[2] after the
start of Spark, and include all tables and the report; the load of the machine stands beside them.
"""

from __future__ import annotations

import os
import socket
import statistics
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from raftmeta import Config, Node, snapshot
from raftmeta.check import History, write_history
from raftmeta.check.files import from_arrow, to_arrow
from raftmeta.operations import Put
from raftmeta.spark import Verified, read, spark_session, verify
from raftmeta.spark.verify import SETTINGS
from tests.check.store import Workload, history_of

KEYS, OPERATIONS, PROCESSES, DRAWN = 10_000, 1000, 5, 10
STEP_NS = 30_000  # between two events: ten million operations in ten minutes
MODEL = "cas-register"
ROUNDS = 2


def interleaved(keys: int) -> pa.Table:
    """Event i of all keys, then event i + 1 of all keys."""
    drawn = [to_arrow(history_of(Workload(OPERATIONS, PROCESSES).run(seed))) for seed in range(DRAWN)]
    together = pa.concat_tables(drawn).combine_chunks()
    events = len(drawn[0])
    key = np.tile(np.arange(keys, dtype=np.int64), events)
    rows = np.repeat(np.arange(events, dtype=np.int64), keys) + key % DRAWN * events
    table = together.take(pa.array(rows))
    seq = np.arange(len(rows), dtype=np.int64)
    names = pa.array([f'"k{number:05}"' for number in range(keys)], pa.large_string())
    is_given = table["key"].is_valid().combine_chunks()
    columns = {
        "seq": pa.array(seq),
        "process": pa.array(table["process"].to_numpy() + key * PROCESSES),
        "key": names.take(pa.array(key, mask=~np.asarray(is_given))),
        "time_ns": pa.array(seq * STEP_NS),
    }
    for name, column in columns.items():
        table = table.set_column(table.schema.get_field_index(name), name, column)
    return table.replace_schema_metadata(together.schema.metadata)


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """By the way that they take."""
    folder = tmp_path_factory.mktemp("histories")
    paths = {"shuffle": folder / "shuffle.parquet", "buckets": folder / "buckets.parquet"}
    table = interleaved(KEYS)
    pq.write_table(table, paths["shuffle"])
    history: History = from_arrow(table)
    write_history(history, paths["buckets"], bucketed_for=MODEL)
    yield paths
    for path in paths.values():
        path.unlink()


def processor_s() -> float:
    """Processor time of this process, the JVM and its workers until now: what a busy machine does not change much."""
    parents, used = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended; its parent has its time
            fields = stat.read_text().rpartition(")")[2].split()
            parents[int(stat.parent.name)] = int(fields[1])
            used[int(stat.parent.name)] = sum(map(int, fields[11:15]))
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(used[pid] for pid in ours) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("way", ["shuffle", "buckets"])
def test_ten_million_operations(
    benchmark: BenchmarkFixture, histories: dict[str, Path], tmp_path: Path, way: str
) -> None:
    """Target on local[2], after Spark's start: 30 s through the shuffle, 15 s in buckets."""
    with spark_session("local[2]", settings=SETTINGS) as spark:
        spark.range(10).count()
        benchmark.extra_info["load_before"] = os.getloadavg()
        begun_s = processor_s()
        verified: Verified = benchmark.pedantic(
            verify, ([histories[way]], tmp_path / "out"), {"model": MODEL}, rounds=ROUNDS
        )
        benchmark.extra_info["processor_s_per_round"] = (processor_s() - begun_s) / ROUNDS
        benchmark.extra_info["load_after"] = os.getloadavg()
    assert verified.verdict == "ok"
    assert (verified.counts["verdicts"], verified.histories[0]["ok"]) == (KEYS, KEYS * OPERATIONS)
    benchmark.extra_info["operations"] = KEYS * OPERATIONS


# --- tables of a cluster ----------------------------------------------------------------------------------------------
SCANNED, CHANGES, CHANGES_PER_BATCH = 3_000_000, 1_000_000, 200_000
STATE = '{{"controller_epoch":{},"leader":{},"version":1,"leader_epoch":{},"isr":[1,2,3]}}'


def partition_states(first: int, count: int) -> list[Put]:
    """Partition states as a broker keeps them: 165 bytes of key, value and numbers each."""
    return [
        Put(f"/brokers/topics/topic-{i // 30:06}/partitions/{i % 30}/state", STATE.format(i % 7, i % 50, i % 90))
        for i in range(first, first + count)
    ]


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
    for first in range(0, SCANNED, 5000):
        node.txn([], partition_states(first, 5000), timeout_s=60.0)
    node.compact(node.status().revision)
    snapshot.save(node, path, timeout_s=600.0)
    with spark_session("local[2]", settings=SETTINGS) as spark:
        assert read(spark, path=path).count() == SCANNED
        scan = read(spark, path=path).write.format("noop").mode("overwrite")
        benchmark.extra_info["load_before"] = os.getloadavg()
        begun_s = processor_s()
        benchmark.pedantic(scan.save, rounds=5)
        benchmark.extra_info["processor_s_per_round"] = (processor_s() - begun_s) / 5
        benchmark.extra_info["load_after"] = os.getloadavg()
    benchmark.extra_info["reads"] = SCANNED


def test_stream_of_a_million_changes(benchmark: BenchmarkFixture, node: Node, tmp_path: Path) -> None:
    """Target on local[2], in warm batches: 250,000 changes/s out of a running node into Parquet."""
    for first in range(0, CHANGES, 5):
        node.txn([], partition_states(first, 5), timeout_s=60.0)
    options = {"table": "changes", "url": f"raft+unix://{tmp_path / 'a'}"}
    options["revisions_per_batch"] = str(CHANGES_PER_BATCH // 5)
    with spark_session("local[2]", settings=SETTINGS) as spark:
        stream = spark.readStream.format("raftmeta").options(**options).load()
        writer = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "check"))

        def run() -> list[Any]:
            query = writer.trigger(availableNow=True).start(str(tmp_path / "out"))
            query.awaitTermination()
            return [batch for batch in query.recentProgress if batch.numInputRows]

        batches = benchmark.pedantic(run)
        benchmark.extra_info["load_after"] = os.getloadavg()
    assert sum(batch.numInputRows for batch in batches) == CHANGES
    warm_s = [batch.durationMs["triggerExecution"] / 1000 for batch in batches[1:]]
    benchmark.extra_info["warm_batches_s"] = warm_s
    benchmark.extra_info["warm_changes_per_second"] = CHANGES_PER_BATCH / statistics.median(warm_s)
    benchmark.extra_info["operations"] = CHANGES
