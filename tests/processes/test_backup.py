"""Backup and restore as one does it: processes, a loss of everything, and old nodes that want to be let in again."""

from __future__ import annotations

import shutil
from pathlib import Path

import raftmeta
from raftmeta import snapshot
from tests.processes.cluster import Cluster, NodeProcess, get, put, ready, status
from tests.processes.load import Load
from tests.processes.waiting import wait_until

FOREIGN_CLUSTER = 70


def save(node: raftmeta.Node, path: str) -> None:
    snapshot.save(node, path)


def refusals(node: raftmeta.Node) -> list[int]:
    return [int(event.facts["status"]) for event in node.events(timeout_s=0) if event.name == "peer_refused"]


def test_all_is_lost_and_restored_and_old_nodes_stay_out(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    folder.mkdir()
    path = tmp_path / "backup.sealed"
    with Cluster(folder) as cluster:
        old_id = cluster.nodes["a"].call(status)["cluster_id"]
        with Load(cluster) as load:
            wait_until(lambda: len(load.acknowledged) > 200, timeout_s=20, what="some writes")
            before = list(load.acknowledged)
            cluster.nodes["b"].call(save, str(path))
        cluster.kill()
        shutil.copytree(folder / "c", tmp_path / "old" / "c")
        for name in cluster.nodes:
            shutil.rmtree(folder / name)
            snapshot.restore(path, folder / name, name, cluster.peers)
        cluster.start()
        cluster.wait_ready()
        assert cluster.nodes["a"].call(status)["cluster_id"] != old_id
        for one in before:
            assert cluster.nodes["c"].call(get, one.key) == one.value
        cluster.nodes["a"].call(put, "after", b"the loss")
        assert cluster.nodes["b"].call(get, "after") == b"the loss"

        # The old `c`, from a disk that was thought lost, in the place of the new one: refused both ways.
        cluster.nodes["c"].kill()
        late = NodeProcess("c", peers=cluster.peers, folder=tmp_path / "old", settings={})
        late.start()
        try:
            for node in (late, cluster.nodes["a"]):
                wait_until(
                    lambda node=node: FOREIGN_CLUSTER in node.call(refusals),
                    timeout_s=20,
                    what="the refusal of a node of another cluster",
                )
            assert late.call(status)["cluster_id"] == old_id
            assert not late.call(status)["is_ready"]
        finally:
            late.kill()
        cluster.nodes["c"].start()
        cluster.nodes["c"].call(ready, 20.0)
        assert cluster.nodes["c"].call(get, "after") == b"the loss"
