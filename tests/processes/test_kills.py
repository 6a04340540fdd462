"""kill -9 of real processes under load: whatever was acknowledged is on every node afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes.cluster import Cluster, key_file, status
from tests.processes.load import Load, start_again
from tests.processes.waiting import wait_until


@pytest.fixture(params=["plain", "encrypted"])
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    settings = {"encryption_key_file": key_file(tmp_path / "keys")} if request.param == "encrypted" else {}
    with Cluster(tmp_path, **settings) as running:
        yield running


def test_no_kill_of_one_node_loses_a_write(cluster: Cluster) -> None:
    """Each node in turn, whichever leads; while it is away, and when it is back, writes go on."""
    with Load(cluster) as load:
        for node in cluster.nodes.values():
            load.wait_for_more()
            node.kill()
            load.wait_for_more()
            start_again(node)
    load.check(cluster)


def test_no_kill_of_all_loses_a_write(cluster: Cluster) -> None:
    """Twice, so that the second life began from a log that was cut by the first end."""
    with Load(cluster) as load:
        for _ in range(2):
            load.wait_for_more(100)
            cluster.kill()
            cluster.start()
            cluster.wait_ready()
        load.wait_for_more()
    load.check(cluster)
    assert states_agree(cluster)


def test_a_node_killed_while_it_catches_up_catches_up(cluster: Cluster) -> None:
    """It dies again and again in the middle of what it missed; each life goes on where the last one had synced."""
    away = cluster.followers()[0]
    with Load(cluster) as load:
        load.wait_for_more()
        away.kill()
        load.wait_for_more(300)
        for _ in range(4):
            away.start()
            away.kill()
        start_again(away)
        load.wait_for_more()
    load.check(cluster)


def test_followers_killed_together_stop_writes_until_one_is_back(cluster: Cluster) -> None:
    """Without a majority nothing is acknowledged; with one follower back everything goes on."""
    leader, followers = cluster.leader(), cluster.followers()
    with Load(cluster) as load:
        load.wait_for_more()
        for node in followers:
            node.kill()
        wait_until(lambda: not (leader.status() or {}).get("leader"), timeout_s=30, what="the leader to step down")
        without_quorum = len(load.acknowledged)
        followers[0].start()
        load.wait_for_more()
        start_again(followers[1])
    assert len(load.acknowledged) > without_quorum
    load.check(cluster)


def states_agree(cluster: Cluster) -> bool:
    """All nodes come to the same index with the same state."""

    def agreed() -> bool:
        told = [node.call(status) for node in cluster.nodes.values()]
        return len({(one["applied"], one["state_hash"], one["revision"]) for one in told}) == 1

    return wait_until(agreed, timeout_s=30, what="the states to agree")
