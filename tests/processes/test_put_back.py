"""A voter's folder is put back to an older copy while another voter is down: the one who knows better says so."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import raftmeta
from raftmeta import snapshot
from tests.processes.cluster import Cluster, NodeProcess, get, put, ready, status
from tests.processes.remote import RemoteError
from tests.processes.waiting import wait_until


def metric(node: raftmeta.Node, name: str) -> float:
    return float(node.metrics()[name])


def is_stopped(node: NodeProcess) -> bool:
    return node.call(status)["state"] == "stopped"


def copy_of(node: NodeProcess) -> Path:
    """What an operator takes for a backup."""
    copy = node.folder.with_suffix(".old")
    node.kill()
    shutil.copytree(node.folder, copy)
    node.begin_start().result(60)
    return copy


def put_back(node: NodeProcess, copy: Path) -> None:
    node.kill()
    shutil.rmtree(node.folder)
    copy.rename(node.folder)


def what_it_says(node: NodeProcess) -> str:
    with pytest.raises(RemoteError) as caught:
        node.call(get, "key")
    assert caught.value.kind == "HistoryLost"
    return str(caught.value)


def test_a_node_that_knows_better_than_a_majority_stops_and_keeps_what_they_lost(tmp_path: Path) -> None:
    """Init: a and c acknowledge while b is down; c is put back; b and c are a majority that lacks the writes.
    Act: a returns. Check: it cuts nothing, says what happened, and is not asked again thousands of times a second."""
    with Cluster(tmp_path) as cluster:
        a, b, c = cluster.nodes.values()
        for number in range(10):
            a.call(put, f"one{number}", b"x")
        copy = copy_of(c)
        cluster.wait_ready()
        b.kill()
        for number in range(10):
            a.call(put, f"two{number}", b"x")
        a.kill()
        put_back(c, copy)
        for begun in [b.begin_start(), c.begin_start()]:
            begun.result(60)
        b.call(ready, 40)
        b.call(put, "three", b"x")
        assert b.call(get, "two0") is None
        a.begin_start().result(60)
        wait_until(lambda: is_stopped(a), timeout_s=30, what="a to notice")
        assert "committed here" in what_it_says(a)
        assert "another voter" in what_it_says(a)
        before = b.call(metric, "connections_accepted")
        b.call(put, "four", b"x")
        assert b.call(metric, "connections_accepted") - before < 50
        a.kill()
        saved = snapshot.save(a.folder, tmp_path / "saved.sealed")
        assert saved.index > 20


def test_a_node_whose_own_folder_was_put_back_stops_when_a_leader_knows_better(tmp_path: Path) -> None:
    """The leader stayed up: what the node acknowledged to it is not in the copy."""
    with Cluster(tmp_path) as cluster:
        leader = cluster.leader()
        node = next(node for node in cluster.nodes.values() if node is not leader)
        copy = copy_of(node)
        cluster.wait_ready()
        for number in range(10):
            leader.call(put, f"key{number}", b"x")
        wait_until(lambda: node.call(get, "key9"), timeout_s=20, what="the writes to reach it")
        put_back(node, copy)
        node.begin_start().result(60)
        wait_until(lambda: is_stopped(node), timeout_s=30, what="it to notice")
        assert "Its own folder was put back" in what_it_says(node)
        node.kill()
        shutil.rmtree(node.folder)
        node.begin_start().result(60)
        node.call(ready, 40)
        assert node.call(get, "key9") == b"x"
