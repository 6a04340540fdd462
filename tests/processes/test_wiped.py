"""Folders that are lost: one comes back by itself as a new incarnation; a lost majority never founds a new cluster."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import raftmeta
from raftmeta import faults
from tests.processes.cluster import Cluster, NodeProcess, get, put, ready, status
from tests.processes.load import Load, read_all, start_again
from tests.processes.remote import RemoteError
from tests.processes.waiting import wait_until

LOST_MAJORITY = r"2 of 3 voters lost their disks \(a, b\), so no majority can ever be had: restore .* from a backup"
NOT_EXECUTED = ("Withdrawn", "NotReady", "ReadyTimeout", "NoLeader")


def put_soon(node: raftmeta.Node, key: str, value: bytes) -> int:
    return int(node.put(key, value, timeout_s=0.3))


def events(node: raftmeta.Node) -> list[str]:
    return [str(event) for event in node.events(timeout_s=0)]


def get_locally(node: raftmeta.Node, key: str) -> bytes | None:
    record = node.get(key, local=True)
    return None if record is None else record.value


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as running:
        yield running


def wipe(node: NodeProcess) -> None:
    node.kill()
    shutil.rmtree(node.folder)


def told(node: NodeProcess) -> dict[str, Any]:
    found: dict[str, Any] = node.call(status)
    return found


def refused_kind(node: NodeProcess, *call: Any) -> str:
    with pytest.raises(RemoteError) as caught:
        node.call(*call)
    return caught.value.kind


# --- a majority is lost -----------------------------------------------------------------------------------------------


def test_two_wiped_folders_of_three_found_no_new_cluster(cluster: Cluster) -> None:
    """One node that is not blank forbids founding: the blank ones learn which cluster it was, all say "not ready"."""
    cluster.nodes["a"].call(put, "key", b"value")
    wait_until(lambda: cluster.nodes["c"].call(get_locally, "key"), timeout_s=20, what="the write to reach c")
    before = told(cluster.nodes["c"])
    for node in cluster.nodes.values():
        node.kill()
    for name in "ab":
        shutil.rmtree(cluster.nodes[name].folder)
    cluster.start()
    calls = [node.begin(ready, 1.5) for node in cluster.nodes.values()]
    for call in calls:
        with pytest.raises(RemoteError, match=LOST_MAJORITY) as caught:
            call.result(30)
        assert caught.value.kind == "ReadyTimeout"
    for node in cluster.nodes.values():
        assert told(node)["lost_disks"] == ["a", "b"]
        assert "quorum_lost names=a,b lost=2 voters=3" in node.call(events)
    for name in "ab":
        said = [line for line in cluster.nodes[name].call(events) if line.startswith(("joined", "cluster_founded"))]
        assert said == [f"joined cluster_id={before['cluster_id']} incarnation={told(cluster.nodes[name])['id']}"]
    for node in cluster.nodes.values():
        assert refused_kind(node, put_soon, "key", b"lost") in NOT_EXECUTED
        now = told(node)
        assert (now["leader"], now["is_ready"]) == ("", False)
        assert now["cluster_id"] in ("", before["cluster_id"])
    assert told(cluster.nodes["c"])["cluster_id"] == before["cluster_id"]
    assert cluster.nodes["c"].call(get_locally, "key") in (b"value", None)  # it cannot know what is committed


def test_all_but_the_founders_folder_wiped_found_no_new_cluster(cluster: Cluster) -> None:
    """The same where the survivor is the one that founded: it knows that it did."""
    before = told(cluster.nodes["a"])["cluster_id"]
    for node in cluster.nodes.values():
        node.kill()
    for name in "bc":
        shutil.rmtree(cluster.nodes[name].folder)
    cluster.start()
    assert refused_kind(cluster.nodes["b"], ready, 1.5) == "ReadyTimeout"
    assert told(cluster.nodes["a"])["cluster_id"] == before
    assert all(told(cluster.nodes[name])["cluster_id"] in ("", before) for name in "bc")
    assert not any(told(node)["leader"] for node in cluster.nodes.values())


# --- one is lost ------------------------------------------------------------------------------------------------------


def voters(cluster: Cluster) -> set[int]:
    """The incarnations that vote, by the leader's word."""
    return {member["id"] for member in told(cluster.leader())["members"] if member["role"] == "voter"}


@pytest.mark.parametrize("which", ["leader", "follower"])
def test_a_wiped_node_comes_back_as_another_incarnation(cluster: Cluster, which: str) -> None:
    """It catches up as a learner, is swapped for its old self, and then its vote counts: with it alone beside a
    third, the cluster goes on."""
    lost = cluster.leader() if which == "leader" else cluster.followers()[0]
    with Load(cluster) as load:
        load.wait_for_more()
        old = told(lost)
        wipe(lost)
        load.wait_for_more()
        start_again(lost, timeout_s=30)
        new = told(lost)
        assert new["id"] != old["id"]
        assert new["cluster_id"] == old["cluster_id"]
        assert not any(line.startswith("quorum_lost") for node in cluster.nodes.values() for line in node.call(events))
        wait_until(lambda: new["id"] in voters(cluster), timeout_s=20, what=lambda: f"its vote\n{cluster.logs()}")
        assert old["id"] not in voters(cluster)
        assert len(voters(cluster)) == 3
        load.wait_for_more()
    assert [told(node)["lost_disks"] for node in cluster.nodes.values()] == [[], [], []]
    load.check(cluster)
    other = next(node for node in cluster.nodes.values() if node is not lost)
    other.kill()
    cluster.leader(other_than=other.name).call(put, "after", b"1")
    assert lost.call(get, "after") == b"1"


def test_a_node_wiped_again_comes_back_again(cluster: Cluster) -> None:
    """Twice the same name; the membership never has it twice as a voter, and every node in turn may be lost."""
    cluster.nodes["a"].call(put, "key", b"value")
    ids = set()
    for name in ("c", "c", "b"):
        node = cluster.nodes[name]
        wipe(node)
        start_again(node, timeout_s=30)
        wait_until(lambda node=node: told(node)["id"] in voters(cluster), timeout_s=20, what=lambda: cluster.logs())
        wait_until(lambda: len(voters(cluster)) == 3, timeout_s=30, what="three voters")
        ids.add(told(node)["id"])
    assert len(ids) == 3
    assert [node.call(read_all, "key") for node in cluster.nodes.values()] == [[[b"key", b"value", 1]]] * 3


def test_a_wiped_node_keeps_its_new_self_over_a_restart(cluster: Cluster) -> None:
    """A node that joined has no founding membership; its log names it, also after kill -9."""
    node = cluster.followers()[0]
    cluster.leader().call(put, "key", b"value")
    wipe(node)
    start_again(node, timeout_s=30)
    joined = told(node)["id"]
    wait_until(lambda: joined in voters(cluster), timeout_s=20, what=lambda: cluster.logs())
    node.kill()
    start_again(node)
    assert told(node)["id"] == joined
    cluster.kill()
    cluster.start()
    cluster.wait_ready()
    assert [one.call(get, "key") for one in cluster.nodes.values()] == [b"value"] * 3
    assert joined in voters(cluster)


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


def founded_id(folder: Path) -> int:
    """The incarnation that a leader's membership named, as the identity file says; 0: none (docs/formats.md)."""
    identity = (folder / "identity").read_bytes()
    return int.from_bytes(identity[16:24], "little") if identity[9] == 3 else 0


def test_files_of_a_former_incarnation_are_not_a_log_that_has_not_begun(cluster: Cluster) -> None:
    """docs/decisions/log.md "A lost log"; the story of tests/sim/tapes/header_of_a_former_incarnation.json.

    Init: a member lost its log and is another incarnation, which votes. Act: its disk loses that log too, and shows
    files of the former incarnation. Check: it begins as a third incarnation. Under the second name it would vote again,
    without what it acknowledged.
    """
    node = cluster.followers()[0]
    cluster.leader().call(put, "key", b"value")
    first = told(node)["id"]
    node.kill()
    aside = node.folder.with_name("aside")
    shutil.copytree(node.folder, aside)
    for file in segments(node.folder):
        file.unlink()
    start_again(node, timeout_s=30)
    second = told(node)["id"]
    wait_until(lambda: second in voters(cluster), timeout_s=20, what=lambda: cluster.logs())
    wait_until(lambda: founded_id(node.folder) == second, timeout_s=20, what="the identity to say that it was named")
    node.kill()
    for file in segments(node.folder):
        file.unlink()
    assert segments(aside)
    for file in segments(aside):
        shutil.copy(file, node.folder)
    start_again(node, timeout_s=30)
    third = told(node)["id"]
    assert len({first, second, third}) == 3
    wait_until(lambda: third in voters(cluster), timeout_s=20, what=lambda: cluster.logs())
    assert node.call(read_all, "key") == [[b"key", b"value", 1]]


# --- two incarnations of a name ---------------------------------------------------------------------------------------


def drop_to(node: raftmeta.Node, *peers: str) -> None:
    """From now on frames to these peers are lost, and to no others; connections are made as ever."""
    faults.set_link_faults(node, {peer: faults.LinkFault(drop=1.0) for peer in peers})


def named(cluster: Cluster) -> set[int]:
    """All incarnations that the leader's membership names."""
    return {member["id"] for member in told(cluster.leader())["members"] if member["role"]}


def test_an_old_folder_that_comes_back_ends_the_new_one(cluster: Cluster) -> None:
    """docs/divergence.md "Incarnations": of two incarnations of a name the one that answers stays.

    Init: a node comes back with a blank folder, is named beside its old self, and hears nothing from its leader. Act:
    its process ends, and the old folder is put back and started. Check: the new incarnation is named no more.
    """
    leader, node = cluster.leader(), cluster.followers()[0]
    old = told(node)["id"]
    node.kill()
    aside = node.folder.with_name("aside")
    node.folder.rename(aside)
    leader.call(drop_to, node.name)
    node.start()
    wait_until(lambda: len(named(cluster)) == 4, timeout_s=20, what=lambda: cluster.logs())
    assert {told(node)["id"], old} <= named(cluster)
    wipe(node)
    aside.rename(node.folder)
    leader.call(drop_to)
    start_again(node)
    wait_until(lambda: len(named(cluster)) == 3, timeout_s=20, what=lambda: cluster.logs())
    assert old in voters(cluster)
    assert node.call(put, "key", b"value") > 0
