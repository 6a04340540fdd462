"""raftmeta.testing.Cluster: real nodes in one process, killed, wiped, cut apart and put together again."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import raftmeta
from raftmeta import faults
from raftmeta.testing import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(3) as running:
        yield running


def value_of(node: raftmeta.Node, key: str, *, local: bool = False) -> bytes | None:
    record = node.get(key, local=local)
    return None if record is None else record.value


def test_clusters_that_run_side_by_side_share_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Out of three ports for three nodes each is taken once, and a stopped node keeps its own."""
    ports = [int(address.rpartition(":")[2]) for address in Cluster(3).peers.values()]
    monkeypatch.setattr("raftmeta.testing.cluster.PORTS", ports)
    cluster = Cluster(3)
    assert {int(address.rpartition(":")[2]) for address in cluster.peers.values()} == set(ports)
    with cluster:
        cluster.stop("a")
        for port in ports:
            with socket.socket() as other, pytest.raises(OSError):
                other.bind(("127.0.0.1", port))
        cluster.restart("a")


# --- ends and beginnings ----------------------------------------------------------------------------------------------


def test_a_killed_leader_is_replaced_and_comes_back(cluster: Cluster) -> None:
    """What was acknowledged before the kill is there after it, on the node that was killed too."""
    old = cluster.leader()
    old.put("key", b"before")
    cluster.kill(old)
    assert not cluster.is_running(old.name)
    new = cluster.leader()
    assert new.name != old.name
    new.put("key", b"after")
    again = cluster.restart(old.name)
    assert again is cluster.node(old.name)
    assert value_of(again, "key") == b"after"
    cluster.wait_converged()


def test_a_killed_node_leaves_no_thread_and_no_file_open(cluster: Cluster) -> None:
    """Descriptors and native threads are gone when kill returns, and the folder can be opened at once."""
    victim = cluster.followers()[0].name

    def held() -> list[str]:
        links = (os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd"))
        return [target for link in links if os.path.lexists(link) and (target := os.readlink(link)).startswith(place)]

    place = str(cluster.folder / victim)
    threads = len(os.listdir("/proc/self/task"))
    assert held()
    cluster.kill(victim)
    assert held() == []
    assert len(os.listdir("/proc/self/task")) <= threads - 2
    cluster.restart(victim)


def test_callers_of_a_killed_node_learn_the_fate_of_their_writes(cluster: Cluster) -> None:
    """A write that waits for a quorum ends at the kill: proposed and unknown, never silently lost."""
    leader = cluster.leader()
    cluster.isolate(leader)
    caught: list[raftmeta.RaftmetaError] = []

    def write() -> None:
        try:
            leader.put("key", b"value", timeout_s=30)
        except raftmeta.RaftmetaError as error:
            caught.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    cluster.wait_for(lambda: leader.metrics()["operations_in_flight"], what="the write to be under way")
    cluster.kill(leader)
    writer.join(10)
    assert isinstance(caught[0], raftmeta.OutcomeUnknown | raftmeta.NotExecuted)
    with pytest.raises(raftmeta.NodeClosed):
        leader.put("key", b"value")


def test_all_nodes_killed_at_once_keep_what_was_acknowledged(cluster: Cluster) -> None:
    for number in range(20):
        cluster.node(number % 3).put(f"key/{number}", b"value")
    for name in cluster.names:
        cluster.kill(name)
    cluster.start()
    assert cluster.leader().range(prefix="key/").count == 20


def test_a_wiped_node_comes_back_as_another_incarnation(cluster: Cluster) -> None:
    cluster.leader().put("key", b"value")
    name = cluster.followers()[0].name
    before = cluster.node(name).status().id
    cluster.wipe(name)
    node = cluster.restart(name)
    assert node.status().id != before
    assert value_of(node, "key") == b"value"


def test_a_stopped_node_hands_over_first(cluster: Cluster) -> None:
    old = cluster.leader()
    cluster.stop(old)
    assert cluster.leader(timeout_s=20).name != old.name


# --- the network ------------------------------------------------------------------------------------------------------


def test_an_isolated_leader_is_replaced_and_follows_when_it_is_back(cluster: Cluster) -> None:
    old = cluster.leader()
    cluster.isolate(old)
    new = cluster.wait_for(lambda: next((n for n in cluster.running() if n.status().is_leader and n is not old), None))
    new.put("key", b"value")
    cluster.wait_for(lambda: not old.status().is_leader, what="the old leader to step down")
    assert value_of(old, "key", local=True) is None
    cluster.heal()
    assert cluster.wait_converged().revision == new.status().revision
    assert value_of(old, "key") == b"value"


def test_a_node_restarted_in_a_partition_stays_cut_off(cluster: Cluster) -> None:
    """The faults of now hold before its first frame, and nothing tells the others that it was gone."""
    name = cluster.followers()[0].name
    cluster.isolate(name)
    node = cluster.restart(name, wait=False)
    with pytest.raises(raftmeta.NotReady):
        node.ready(0.5)
    assert not any(member.is_connected for member in node.status().members if not member.is_self)
    cluster.heal()
    node.ready(30)


def test_a_one_way_cut_lets_the_other_direction_through(cluster: Cluster) -> None:
    """A follower that hears its leader but is not heard: it follows, and does not count for a quorum."""
    leader = cluster.leader()
    deaf_to, other = cluster.followers()
    cluster.cut(deaf_to, leader)
    cluster.kill(other)
    term = leader.status().term
    with pytest.raises((raftmeta.NotExecuted, raftmeta.OutcomeUnknown)):
        leader.put("key", b"value", timeout_s=1)
    cluster.heal()
    assert cluster.leader().status().term >= term


def test_lost_repeated_and_late_frames_slow_a_cluster_and_break_nothing(cluster: Cluster) -> None:
    for source in cluster.names:
        for target in cluster.names:
            if source != target:
                cluster.disturb(source, target, drop=0.05, duplicate=0.1, delay_s=0.002)
    revisions = [int(cluster.node(number % 3).put(f"key/{number}", b"value", timeout_s=20)) for number in range(60)]
    cluster.heal()
    assert revisions == sorted(set(revisions))
    assert cluster.wait_converged().keys == 60


def test_groups_must_not_overlap_and_names_must_be_known(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="two groups"):
        cluster.partition({"a", "b"}, {"b", "c"})
    with pytest.raises(ValueError, match="no node 'x'"):
        cluster.isolate("x")
    with pytest.raises(raftmeta.InvalidArgument, match="drop"):
        cluster.disturb("a", "b", drop=1.5)


# --- the host ---------------------------------------------------------------------------------------------------------


def test_a_held_gil_costs_no_leader(cluster: Cluster) -> None:
    """The host of every node stands still for several election time-outs; terms and leader stay."""
    leader = cluster.leader()
    term = leader.status().term
    cluster.stall_gil(5 * cluster.config.election_timeout_s)
    assert (leader.status().is_leader, leader.status().term) == (True, term)


# --- the cluster itself -----------------------------------------------------------------------------------------------


def test_a_cluster_leaves_no_folder_behind(tmp_path: Path) -> None:
    """Its own temporary folder goes with it; one that was given stays, and holds the state for the next."""
    with Cluster(1) as cluster:
        place = cluster.folder
        assert place.exists()
    assert not place.exists()
    with Cluster(1, folder=tmp_path) as cluster:
        cluster.leader().put("key", b"value")
    assert (tmp_path / "a").exists()


def test_a_failed_wait_tells_how_every_node_stands(cluster: Cluster) -> None:
    leader = cluster.leader()
    victim = cluster.followers()[0]
    cluster.kill(victim)
    with pytest.raises(AssertionError) as caught:
        cluster.wait_for(lambda: False, timeout_s=0, what="the impossible")
    told = str(caught.value)
    assert "the impossible" in told
    assert f"{victim.name}: does not run" in told
    assert f"{leader.name}: running leader" in told
    assert "became_leader" in told


def test_faults_are_set_before_a_node_starts_and_belong_to_names(tmp_path: Path) -> None:
    node = raftmeta.Node("a", peers={"a": "127.0.0.1:1"}, data_dir=tmp_path / "a")
    faults.set_link_faults(node, {"b": faults.LinkFault(cut_to=True)})
    with pytest.raises(raftmeta.InvalidArgument, match="no name"):
        faults.set_link_faults(node, {"": faults.LinkFault()})
    with pytest.raises(raftmeta.NodeClosed):
        faults.abort(node)
