"""Members that are very far behind, as processes: they come back by snapshot while the others go on writing."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

import raftmeta
from tests.processes.cluster import Cluster, NodeProcess, open_node, put, status
from tests.processes.load import Load, start_again
from tests.processes.remote import ProcessGone, RemoteProcess
from tests.processes.waiting import wait_until

MIB = 1024 * 1024
KEYS = 20_000
UNDER_WAY = 4096
POINT = 200_000
SETTINGS: dict[str, Any] = {
    "segment_bytes": 4 * MIB, "wal_bytes_max": 256 * MIB, "snapshot_entries": POINT, "reserve_bytes": 0,
}  # fmt: skip


def write_many(node: raftmeta.Node, count: int) -> None:
    """Overwrite the same keys again and again, many under way; all is acknowledged on return."""

    async def write(face: raftmeta.aio.Node, first: int) -> None:
        for number in range(first, count, UNDER_WAY):
            await face.put(f"bulk/{number % KEYS}", b"%d" % number, timeout_s=60)

    async def run() -> None:
        face = node.aio()
        await asyncio.gather(*(write(face, first) for first in range(UNDER_WAY)))

    asyncio.run(run())


def metrics(node: raftmeta.Node) -> dict[str, int]:
    return node.metrics()


def told_index(node: raftmeta.Node, name: str) -> int:
    """The index in the newest event of this name."""
    return [int(event.facts["index"]) for event in node.events(timeout_s=0) if event.name == name][-1]


def applied_of(node: NodeProcess) -> int:
    return int(node.call(status)["applied"])


def wait_until_alike(cluster: Cluster) -> None:
    def alike() -> bool:
        states = [node.call(status) for node in cluster.nodes.values()]
        return len({(one["applied"], one["state_hash"]) for one in states}) == 1

    wait_until(alike, timeout_s=20, what="all to have the same state")


@pytest.mark.uninstrumented
def test_a_member_a_million_entries_behind_comes_back_by_snapshot_while_writes_go_on(tmp_path: Path) -> None:
    """paper 7, at size: nothing that was acknowledged is missing anywhere, and the log stays short everywhere.

    Then the member that never made a file for anyone is killed: its state comes back from its LMDB checkpoint.
    """
    entries = 1_000_000
    with Cluster(tmp_path, **SETTINGS) as cluster:
        leader, (behind, other) = cluster.leader(), cluster.followers()
        before = applied_of(behind)
        behind.kill()
        leader.call(write_many, entries, timeout_s=300)
        for _ in range(10):  # a point that passes while a checkpoint is written has none
            if leader.call(metrics)["log_first"] > entries // 2:
                break
            leader.call(write_many, POINT, timeout_s=300)
        wait_until(lambda: leader.call(metrics)["log_first"] > entries // 2, timeout_s=20, what="the log to be cut")
        with Load(cluster) as load:
            load.wait_for_more()
            start_again(behind, timeout_s=60)
            load.wait_for_more()
        load.check(cluster)
        told = {name: node.call(metrics) for name, node in cluster.nodes.items()}
        assert told[behind.name]["committed"] > entries
        assert told[behind.name]["snapshots_installed"] >= 1
        skipped = behind.call(told_index, "snapshot_installed") - before
        assert skipped > entries // 2
        assert told[behind.name]["entries_applied"] <= applied_of(behind) - skipped + POINT // 10
        assert all(one["log_bytes"] < leader.call(metrics)["log_write_bytes"] // 2 for one in told.values()), told
        wait_until_alike(cluster)

        other.kill()
        assert list(other.folder.glob("*.sealed")) == []
        start_again(other)
        loaded = other.call(told_index, "snapshot_loaded")
        assert loaded > entries // 2
        assert other.call(metrics)["entries_applied"] <= applied_of(other) - loaded
        load.check(cluster)
        wait_until_alike(cluster)


# --- a receiver that is killed ----------------------------------------------------------------------------------------

VALUE_BYTES = MIB // 2
VALUES = 40


def write_values(node: raftmeta.Node, count: int) -> None:
    for number in range(count):
        node.put(f"value/{number % VALUES}", bytes([number % 251]) * VALUE_BYTES, timeout_s=30)


def open_node_that_dies(
    name: str, peers: dict[str, str], folder: str, settings: dict[str, Any], received_bytes: int
) -> raftmeta.Node:
    """A node whose process ends as by kill -9 once so many bytes of a snapshot have come."""
    node = open_node(name, peers, folder, settings)

    def die() -> None:
        wait_until(lambda: node.metrics()["snapshot_bytes_received"] >= received_bytes, timeout_s=30, what="a snapshot")
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=die, daemon=True).start()
    return node


def run_until_received(node: NodeProcess, peers: dict[str, str], settings: dict[str, Any], received_bytes: int) -> None:
    """One life of the member, which ends in the middle of a transfer."""
    arguments = (node.name, peers, str(node.folder), settings, received_bytes)
    life = RemoteProcess(open_node_that_dies, *arguments, log=node.folder.with_suffix(".log"))
    try:
        with contextlib.suppress(ProcessGone):
            life.start()
        wait_until(lambda: not life.is_alive, timeout_s=40, what=lambda: f"the end of {node.name}\n{life.log_tail()}")
    finally:
        life.kill()


def sealed_names(node: NodeProcess) -> list[str]:
    """All files of snapshots, whole or not."""
    return sorted(path.name for path in node.folder.iterdir() if ".sealed" in path.name or ".received" in path.name)


def test_a_receiver_killed_at_any_place_begins_again_and_leaves_nothing_behind(tmp_path: Path) -> None:
    """Init: a follower that needs 20 MiB of state. act: kill -9 at the first piece, in the middle, when
    all is there. check: one file and no remnant once it has caught up; none, when two more checkpoints were taken."""
    settings = {
        "segment_bytes": 4 * MIB, "wal_bytes_max": 64 * MIB, "snapshot_log_bytes": 8 * MIB, "history_bytes_max": MIB,
        "reserve_bytes": 0,
    }  # fmt: skip
    with Cluster(tmp_path, **settings) as cluster:
        behind = cluster.followers()[0]
        behind.kill()
        cluster.leader().call(write_values, 2 * VALUES, timeout_s=120)
        remnants = set()
        for share in (0.0, 0.3, 0.7, 1.0):
            run_until_received(behind, cluster.peers, settings, max(1, int(share * VALUES * VALUE_BYTES)))
            remnants.update(sealed_names(behind))
        assert any(name.endswith(".received") for name in remnants), remnants
        start_again(behind, timeout_s=60)
        wait_until_alike(cluster)
        assert behind.call(metrics)["snapshots_installed"] <= 1
        (installed,) = sealed_names(behind)
        assert installed.endswith(".sealed")

        def all_gone() -> bool:
            cluster.leader().call(write_values, VALUES // 2, timeout_s=60)
            return not any(sealed_names(node) for node in cluster.nodes.values())

        wait_until(all_gone, timeout_s=60, what=lambda: str([sealed_names(one) for one in cluster.nodes.values()]))
        assert cluster.leader().call(put, "after", b"")
        behind.kill()
        start_again(behind)
        wait_until_alike(cluster)
