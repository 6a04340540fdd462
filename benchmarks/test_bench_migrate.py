"""Migration of what real servers made: python -m pytest benchmarks/test_bench_migrate.py.

A ZooKeeper 3.9 and an etcd 3.5 are filled with the state of partitions as Kafka keeps it; RAFTMETA_BENCH_NODES says how
many (100,000 unless given; the figures in docs/migration.md are of more). Measured are reading (all checksums, the
replay, the sort), and loading into one node in a process of its own. Memory is that of the reading process, at its
peak.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import raftmeta
from raftmeta import migrate
from tests.client.nodes import ServingCluster
from tests.migrate import zookeeper_client as zk
from tests.migrate.etcd_server import EtcdServer
from tests.migrate.zookeeper_server import ZooKeeperServer

NODES = int(os.environ.get("RAFTMETA_BENCH_NODES", "100000"))
BLOCK = 500  # nodes below one parent, and requests under way at once
LIMITS = {"checks": False, "segment_bytes": 64 << 20, "wal_bytes_max": 4 << 30}


def state(number: int) -> bytes:
    return b'{"controller_epoch":3,"leader":%d,"version":1,"leader_epoch":17,"isr":[1,2,3]}' % (number % 7)


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a server that was killed: its last snapshot is fuzzy, and has a log behind it."""
    server = ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"), snap_count=max(NODES // 3, 1000))
    with server:
        with zk.ZooKeeperClient(server.port) as client:
            for block in range(NODES // BLOCK):
                paths = [f"/t{block}", *(f"/t{block}/partition-{number:06}" for number in range(BLOCK - 1))]
                client.ask_all((zk.CREATE, zk.create(path, state(block))) for path in paths)
        server.kill()
        yield server.data


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with EtcdServer(tmp_path_factory.mktemp("etcd")) as server:
        for block in range(NODES // BLOCK):
            server.put_all([(b"/t%d/partition-%06d" % (block, number), state(number)) for number in range(BLOCK)])
        yield server.save(server.folder / "saved.db")


def peak_mib(program: str) -> float:
    """Of a process that does nothing else."""
    code = f"from raftmeta import migrate\n{program}"
    subprocess.run([sys.executable, "-c", code], check=True)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


@pytest.mark.parametrize("kind", ["zookeeper", "etcd"])
def test_reading(benchmark: BenchmarkFixture, kind: str, request: pytest.FixtureRequest) -> None:
    """From files to items in order of their keys."""
    path = request.getfixturevalue(kind)
    classes = {"zookeeper": migrate.ZooKeeperSource, "etcd": migrate.EtcdSource}

    def read() -> int:
        with classes[kind](path) as source:
            return sum(1 for _ in source.items())

    assert benchmark.pedantic(read, rounds=3) >= NODES - BLOCK
    benchmark.extra_info["entries"] = NODES
    name = classes[kind].__name__
    benchmark.extra_info["peak_mib"] = peak_mib(f"with migrate.{name}({str(path)!r}) as s: sum(1 for _ in s.items())")


@pytest.mark.parametrize("kind", ["zookeeper", "etcd"])
def test_loading(benchmark: BenchmarkFixture, kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """From files to committed keys, each with its side key; then nothing differs."""
    path = request.getfixturevalue(kind)
    mapping = migrate.Mapping(side=b"old/")
    classes = {"zookeeper": migrate.ZooKeeperSource, "etcd": migrate.EtcdSource}
    with ServingCluster(tmp_path, names="a", **LIMITS) as cluster, raftmeta.Client(cluster.url) as client:
        client.ready(60)
        with classes[kind](path) as source:

            def move() -> int:
                return migrate.load(client, source, mapping, migrate.plan(source, mapping), timeout_s=120).items

            assert benchmark.pedantic(move, rounds=1) >= NODES - BLOCK
            benchmark.extra_info["entries"] = NODES
            assert next(migrate.compare(client, source, mapping, timeout_s=120), None) is None
