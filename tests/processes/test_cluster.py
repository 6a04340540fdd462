"""Three real processes on real disks and sockets, through the helper that the other process tests use."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import raftmeta
from tests.processes.child import hold_gil
from tests.processes.cluster import Cluster, get, put
from tests.processes.remote import RemoteError


def get_within(node: raftmeta.Node, key: str, timeout_s: float) -> bytes | None:
    record = node.get(key, timeout_s=timeout_s)
    return None if record is None else record.value


def get_locally(node: raftmeta.Node, key: str) -> bytes | None:
    record = node.get(key, local=True)
    return None if record is None else record.value


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as running:
        yield running


def test_a_write_on_one_process_is_read_on_every_other(cluster: Cluster) -> None:
    """Whoever leads, each member takes a write, and a linearizable read on each sees all three."""
    for name, node in cluster.nodes.items():
        assert node.call(put, f"from/{name}", name.encode()) > 0
    for node in cluster.nodes.values():
        assert [node.call(get, f"from/{name}") for name in cluster.nodes] == [name.encode() for name in cluster.nodes]


def test_a_killed_leader_is_replaced_and_comes_back(cluster: Cluster) -> None:
    """kill -9 of the leader: another one leads, what was acknowledged is there, and the killed one catches up."""
    leader = cluster.leader()
    leader.call(put, "before", b"1")
    leader.kill()
    successor = cluster.leader(other_than=leader.name)
    successor.call(put, "after", b"2")
    assert successor.call(get, "before") == b"1"
    cluster.start()
    cluster.wait_ready()
    assert (leader.call(get, "before"), leader.call(get, "after")) == (b"1", b"2")


def test_all_killed_at_once_lose_nothing(cluster: Cluster) -> None:
    """kill -9 of every process: the same folders bring back every acknowledged write, at the same revision."""
    revision = cluster.leader().call(put, "kept", b"value")
    cluster.kill()
    cluster.start()
    cluster.wait_ready()
    assert [node.call(get, "kept") for node in cluster.nodes.values()] == [b"value"] * 3
    assert cluster.nodes["a"].call(put, "next", b"") == revision + 1


def test_a_leader_whose_host_holds_the_gil_stays_leader(cluster: Cluster) -> None:
    """No Python runs in the leader's process for two seconds, several election time-outs; others go on writing."""
    leader = cluster.leader()
    found = leader.status()
    assert found is not None
    other = cluster.followers()[0]
    holding = leader.begin(hold_gil, 2.0)
    written = 0
    while not holding.done():
        other.call(put, f"meanwhile/{written}", b"")
        written += 1
    holding.result()
    assert written > 20
    after = leader.status()
    assert after is not None
    assert (after["leader"], after["term"]) == (leader.name, found["term"])


def test_a_leader_without_a_quorum_answers_no_linearizable_read(cluster: Cluster) -> None:
    """Thesis 6.4: with both followers paused, a leader cannot know that it still leads; local reads go on."""
    leader, followers = cluster.leader(), cluster.followers()
    leader.call(put, "key", b"old")
    for follower in followers:
        follower.pause()
    with pytest.raises(RemoteError) as caught:
        leader.call(get_within, "key", 1.0)
    assert caught.value.kind in ("NoLeader", "Withdrawn", "ReadyTimeout", "NotReady"), caught.value
    assert leader.call(get_locally, "key") == b"old"
    for follower in followers:
        follower.resume()
    cluster.wait_ready()
    assert [node.call(get, "key") for node in cluster.nodes.values()] == [b"old"] * 3


def test_a_closed_cluster_leaves_no_process(tmp_path: Path) -> None:
    """The quiet end: each node is closed and its process ends with exit code 0."""
    with Cluster(tmp_path) as cluster:
        for node in cluster.nodes.values():
            node.close()
        assert not any(node.is_alive for node in cluster.nodes.values())
