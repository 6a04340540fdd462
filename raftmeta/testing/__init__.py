"""Aids for tests of programs that use raftmeta: whole clusters of real nodes inside one process.

    with Cluster(3) as cluster:
        cluster.leader().put("key", b"value")
        cluster.kill(cluster.leader())
        assert cluster.leader().get("key").value == b"value"

raftmeta.testing.aio.Cluster is the same for asyncio. With pytest the fixture `raftmeta_cluster` gives a test a cluster
of its own (raftmeta/testing/plugin.py). docs/testing.md tells what each fault is, and what it is not.
"""

from raftmeta.testing.cluster import Cluster, stall_gil

__all__ = ["Cluster", "stall_gil"]
