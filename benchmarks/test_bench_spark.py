"""The pipeline on Spark: python -m pytest benchmarks/test_bench_spark.py.

Ten histories of a thousand operations on one key, by five processes of its own, are drawn, and repeated under other
names, so that all keys go on at once: neighbouring rows belong to different keys, as clients of a store leave them
behind. One file must be grouped and shuffled; the other one lies in buckets. Times are wall times on local[2] after the
start of Spark, and include all tables and the report; the load of the machine stands beside them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks.processors import processor_s
from raftmeta.check import History, write_history
from raftmeta.check.files import from_arrow, to_arrow
from raftmeta.spark import Verified, spark_session, verify
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
