"""Aids for tests of programs that use raftmeta: whole clusters of real nodes inside one process.

    with Cluster(3) as cluster:
        cluster.leader().put("key", b"value")
        cluster.kill(cluster.leader())
        assert cluster.leader().get("key").value == b"value"

raftmeta.testing.aio.Cluster is the same for asyncio. With pytest the fixture `raftmeta_cluster` gives a test a cluster
of its own (raftmeta/testing/plugin.py). docs/testing.md explains each fault and its limits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from raftmeta.testing.cluster import Cluster, stall_gil

__all__ = ["Cluster", "stall_gil"]


def __getattr__(name: str) -> Any:
    # pytest imports this package in each run, because its plugin is in it; the engine is loaded by those that use it.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from raftmeta.testing import cluster

    return getattr(cluster, name)
