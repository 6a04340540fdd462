"""A place is free when its holder is dead: processes, killed, frozen, cut off and started again (docs/leases.md)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import raftmeta
from tests.processes.cluster import Cluster, NodeProcess, cut_off, get, put, ready
from tests.processes.waiting import wait_until

TTL_S = 60.0  # nothing of these tests waits for so long: a lease that ends meanwhile ended before its time
WAIT_S = 30.0
LEVEL_OF_PROCESSES = 7

HELD: list[raftmeta.Lease] = []  # of the process of a node


def hold(node: raftmeta.Node, key: str, ttl_s: float) -> None:
    """A key that this process holds for as long as it lives."""
    lease = node.lease(ttl_s)
    HELD.append(lease)
    node.create(key, b"held", lease=lease)


def level(node: raftmeta.Node) -> int:
    return node.status().feature_level


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as running:
        wait_for_level(running)
        yield running


def wait_for_level(cluster: Cluster) -> None:
    for node in cluster.nodes.values():
        wait_until(lambda node=node: node.call(level) >= LEVEL_OF_PROCESSES, timeout_s=WAIT_S, what="the level")


def wait_gone(node: NodeProcess, key: str) -> float:
    """Seconds until the key is gone."""
    began_s = time.monotonic()
    wait_until(lambda: node.call(get, key) is None, timeout_s=WAIT_S, what=f"the end of {key}")
    return time.monotonic() - began_s


def test_a_place_is_free_when_its_holder_was_killed(cluster: Cluster) -> None:
    """A follower first, then the leader, whose successor has to find out. Places of others stay."""
    holder = cluster.followers()[0]
    for node in cluster.nodes.values():
        node.call(hold, node.name, TTL_S)
    holder.kill()
    leader = cluster.leader()
    assert wait_gone(leader, holder.name) < TTL_S / 4
    other = next(node for node in cluster.nodes.values() if node not in (holder, leader))
    assert leader.call(get, other.name) == leader.call(get, leader.name) == b"held"
    holder.start()
    holder.call(ready, WAIT_S, timeout_s=WAIT_S)
    leader.kill()
    assert wait_gone(holder, leader.name) < TTL_S / 4
    assert holder.call(get, other.name) == b"held"


def test_a_place_stays_while_its_holder_may_live(cluster: Cluster) -> None:
    """A process that stands still, and one that is cut off: others are elected meanwhile, and write."""
    first, second = cluster.followers()
    first.call(hold, "first", TTL_S)
    cluster.leader().call(cut_off, [first.name])
    second.call(cut_off, [first.name])
    assert all(second.call(put, f"cut-{number}", b"v") for number in range(50))
    assert second.call(get, "first") == b"held"
    for node in (cluster.leader(), second):
        node.call(cut_off, [])
    leader = cluster.leader()
    leader.call(hold, "leader", TTL_S)
    leader.pause()
    try:
        successor = cluster.leader(other_than=leader.name)
        assert all(successor.call(put, f"frozen-{number}", b"v") for number in range(50))
        assert successor.call(get, "leader") == successor.call(get, "first") == b"held"
    finally:
        leader.resume()


def test_the_next_life_of_a_cluster_has_no_place_of_the_last_one(cluster: Cluster) -> None:
    """All are killed at once: nobody is left who could find another gone, and each knows of its own folder."""
    for node in cluster.nodes.values():
        node.call(hold, node.name, TTL_S)
    cluster.kill()
    cluster.start()
    cluster.wait_ready()
    for name in cluster.nodes:
        assert wait_gone(cluster.leader(), name) < TTL_S / 4


def test_a_node_whose_setting_says_so_keeps_its_places_for_their_time(tmp_path: Path) -> None:
    with Cluster(tmp_path, leases_end_with_process=False) as running:
        wait_for_level(running)
        holder, other = running.followers()
        holder.call(hold, "place", 3.0)
        began_s = time.monotonic()
        holder.kill()
        wait_gone(other, "place")
        assert time.monotonic() - began_s > 2.0


def report(node: raftmeta.Node, member: int, boot: int) -> None:
    node.report_dead(member, boot)


def test_a_process_that_is_reported_dead_loses_its_place(cluster: Cluster) -> None:
    """The word is wrong here: the process stands still. It loses what it held, hears of it, and goes on."""
    holder, other = cluster.followers()
    told = holder.status()
    assert told is not None
    holder.call(hold, "place", TTL_S)
    holder.pause()
    try:
        other.call(report, told["id"], told["boot"])
        assert other.call(get, "place") is None
    finally:
        holder.resume()
    wait_until(lambda: not holder.call(holds), timeout_s=WAIT_S, what="the loss of the lease")
    holder.call(hold, "another place", TTL_S)
    assert other.call(get, "another place") == b"held"


def holds(_node: raftmeta.Node) -> bool:
    return HELD[-1].held()
