"""A member that is very far behind, as processes: it comes back by snapshot while the others go on writing."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import raftmeta
from tests.processes.cluster import Cluster, status
from tests.processes.load import Load, start_again
from tests.processes.waiting import wait_until

MIB = 1024 * 1024
# Behind by so many entries. A million takes the same way and half a minute; this is what a suite can afford.
ENTRIES = 100_000
SETTINGS: dict[str, Any] = {
    "segment_bytes": MIB, "wal_bytes_max": 32 * MIB, "snapshot_entries": 20_000, "reserve_bytes": 0,
}  # fmt: skip


def write_many(node: raftmeta.Node, count: int) -> None:
    """Overwrite 20,000 keys again and again, pipelined; all is acknowledged on return."""

    async def write() -> None:
        face = node.aio()
        for first in range(0, count, 4000):
            batch = range(first, min(first + 4000, count))
            await asyncio.gather(*(face.put(f"bulk/{i % 20_000}", b"%032d" % i, timeout_s=60) for i in batch))

    asyncio.run(write())


def metrics(node: raftmeta.Node) -> dict[str, int]:
    return node.metrics()


def test_a_member_far_behind_comes_back_by_snapshot_while_writes_go_on(tmp_path: Path) -> None:
    """paper 7, at size: nothing that was acknowledged is missing anywhere, and the log stays short everywhere."""
    with Cluster(tmp_path, **SETTINGS) as cluster:
        behind = cluster.followers()[0]
        behind.kill()
        cluster.leader().call(write_many, ENTRIES, timeout_s=120)
        with Load(cluster) as load:
            load.wait_for_more()
            begun_s = time.monotonic()
            start_again(behind, timeout_s=60)
            print(f"ready {time.monotonic() - begun_s:.2f} s after its start, {ENTRIES} entries behind")
            load.wait_for_more()
        load.check(cluster)
        told = {name: node.call(metrics) for name, node in cluster.nodes.items()}
        assert told[behind.name]["snapshots_installed"] >= 1
        assert told[behind.name]["entries_applied"] < ENTRIES
        assert all(one["log_bytes"] < SETTINGS["wal_bytes_max"] // 2 for one in told.values()), told

        def alike() -> bool:
            states = [node.call(status) for node in cluster.nodes.values()]
            return len({(one["applied"], one["state_hash"]) for one in states}) == 1

        wait_until(alike, timeout_s=10, what="all to have the same state")
