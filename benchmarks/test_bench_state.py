"""A million keys in a node: what they take of memory and disk, how long a restart is, and whether memory creeps.

One process, so that a restart is that of the node alone: its checkpoint, the tail of its log, and an election of one.
Keys have 12 bytes, values 64. docs/operations.md "Sizes" has the figures.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import raftmeta
from raftmeta.operations import Put
from tests.processes.cluster import Cluster, NodeProcess, ready

MIB = 1024 * 1024
KEYS = 1_000_000
KEYS_PER_WRITE = 2500
CHECKPOINTS = 8
SETTINGS = {"snapshot_log_bytes": 64 * MIB, "history_bytes_max": 64 * MIB}


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """The only member, with all keys, each written by the last transaction in order of keys."""
    with Cluster(tmp_path_factory.mktemp("state"), names=("a",), **SETTINGS) as running:
        only = running.nodes["a"]
        only.call(fill, timeout_s=300)
        yield only


def fill(node: raftmeta.Node) -> None:
    for first in range(0, KEYS, KEYS_PER_WRITE):
        keys = range(first, min(first + KEYS_PER_WRITE, KEYS))
        node.txn(then=[Put(f"key/{key:08}", b"%064d" % key) for key in keys], timeout_s=60)


def overwrite_until_checkpoints(node: raftmeta.Node, more: int) -> list[int]:
    """Overwrite keys at random until so many more checkpoints are there; anonymous memory after each, in bytes."""
    generator = random.Random(7)
    found = []
    for _ in range(more):
        taken = node.metrics()["snapshots_taken"]
        while node.metrics()["snapshots_taken"] == taken:
            keys = generator.sample(range(KEYS), KEYS_PER_WRITE)
            node.txn(then=[Put(f"key/{key:08}", b"%064d" % key) for key in keys], timeout_s=60)
        found.append(anonymous_bytes(node))
    return found


def anonymous_bytes(_node: raftmeta.Node) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))


def metrics(node: raftmeta.Node) -> dict[str, int]:
    return node.metrics()


def folder_bytes(folder: Path) -> int:
    """On the disk: a file of the checkpoint is a map with holes."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def test_memory_over_many_checkpoints(benchmark: BenchmarkFixture, node: NodeProcess) -> None:
    """Steady overwrites: a round is the time until the next checkpoint. Memory after each stands in extra_info."""
    found: list[int] = []
    benchmark.extra_info["state_bytes"] = node.call(metrics)["state_bytes"]
    benchmark.pedantic(
        lambda: found.extend(node.call(overwrite_until_checkpoints, 1, timeout_s=300)), rounds=CHECKPOINTS
    )
    told = node.call(metrics)
    benchmark.extra_info["anonymous_bytes"] = found
    benchmark.extra_info["state_bytes_at_the_end"] = told["state_bytes"]
    benchmark.extra_info["history_bytes"] = told["history_bytes"]
    benchmark.extra_info["checkpoint_folder_bytes"] = folder_bytes(node.folder / "checkpoint")
    benchmark.extra_info["folder_bytes"] = folder_bytes(node.folder)


def test_restart_from_a_checkpoint(benchmark: BenchmarkFixture, node: NodeProcess) -> None:
    """From the start of a killed process, interpreter included, until the node is ready."""
    node.call(overwrite_until_checkpoints, 1, timeout_s=300)

    def start() -> None:
        node.start()
        node.call(ready, 60.0, timeout_s=65)

    benchmark.pedantic(start, setup=node.kill, rounds=5)
    told = node.call(metrics)
    assert told["keys"] == KEYS
    benchmark.extra_info["entries_replayed"] = told["entries_applied"]
    benchmark.extra_info["anonymous_bytes"] = node.call(anonymous_bytes)
