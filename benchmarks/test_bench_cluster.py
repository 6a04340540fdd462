"""Three processes on one machine, every write durable on a majority: what a user of raftmeta gets.

The calls run inside the process of the leader or a follower, by the public interface; values have 256 bytes. Read the
numbers beside those of test_bench_machine.py, which say what the disk and the network allow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import raftmeta
from tests.processes.cluster import Cluster, NodeProcess, put

VALUE = bytes(256)
KEYS = 1000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(params=["leader", "follower"])
def member(cluster: Cluster, request: pytest.FixtureRequest) -> NodeProcess:
    return cluster.leader() if request.param == "leader" else cluster.followers()[0]


def put_many(node: raftmeta.Node, outstanding: int, count: int) -> None:
    """count awaited puts, of which `outstanding` are under way at any time."""

    async def worker(face: raftmeta.aio.Node, first: int) -> None:
        for number in range(first, count, outstanding):
            await face.put(f"key-{number % KEYS}", VALUE)

    async def run() -> None:
        face = node.aio()
        await asyncio.gather(*(worker(face, first) for first in range(outstanding)))

    asyncio.run(run())


def put_one_by_one(node: raftmeta.Node, count: int) -> None:
    for number in range(count):
        node.put(f"key-{number % KEYS}", VALUE)


def read_locally(node: raftmeta.Node, count: int) -> None:
    for _ in range(count):
        node.get("key-7", local=True)


def read_linearizably(node: raftmeta.Node, count: int) -> None:
    for _ in range(count):
        node.get("key-7")


@pytest.mark.parametrize("outstanding", [64, 1024])
def test_awaited_puts(benchmark: BenchmarkFixture, member: NodeProcess, outstanding: int) -> None:
    """Throughput of one event loop."""
    count = outstanding * 400
    benchmark.extra_info["operations"] = count
    benchmark.pedantic(member.call, args=(put_many, outstanding, count), rounds=5, warmup_rounds=1)


def test_puts_one_by_one(benchmark: BenchmarkFixture, member: NodeProcess) -> None:
    """Latency: one divided by the rate is the mean time of a put that nothing else shares its sync with."""
    benchmark.extra_info["operations"] = 500
    benchmark.pedantic(member.call, args=(put_one_by_one, 500), rounds=7, warmup_rounds=1)


def test_local_reads(benchmark: BenchmarkFixture, member: NodeProcess) -> None:
    """One thread, no message, no other thread woken."""
    member.call(put, "key-7", VALUE)
    benchmark.extra_info["operations"] = 100_000
    benchmark.pedantic(member.call, args=(read_locally, 100_000), rounds=5, warmup_rounds=1)


def test_linearizable_reads_one_by_one(benchmark: BenchmarkFixture, member: NodeProcess) -> None:
    """A round with a quorum each."""
    member.call(put, "key-7", VALUE)
    benchmark.extra_info["operations"] = 500
    benchmark.pedantic(member.call, args=(read_linearizably, 500), rounds=5, warmup_rounds=1)
