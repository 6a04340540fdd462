"""The keyspace and its changes as record batches of Arrow: out of a sealed file, or from the nodes of a cluster.

    from raftmeta.scan import Scope, SnapshotFile

    file = SnapshotFile("backup.sealed")
    for batch in file.keys(Scope(), file.revision):
        print(batch.num_rows)

It is what `format("raftmeta")` of Spark reads with (docs/pipeline.md), and needs pyarrow but not Spark. It decides
which rows there are, and that none is missing; it never changes a file or a key.
"""

from __future__ import annotations

from raftmeta.scan.batches import Batches, Scope
from raftmeta.scan.cluster import ClusterScan, followers_first, node_urls
from raftmeta.scan.files import SnapshotFile, find_snapshot

__all__ = ["Batches", "ClusterScan", "Scope", "SnapshotFile", "find_snapshot", "followers_first", "node_urls"]
