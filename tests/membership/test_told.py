"""Who is told to be removed, and who is not (docs/divergence.md "Membership"), on nodes that missed a lot."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from raftmeta import NodeRemoved
from raftmeta.testing import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(3) as running:
        yield running


def test_a_member_removed_while_it_was_away_is_told_when_it_is_back(cluster: Cluster) -> None:
    """It missed the change and thinks that it votes: consul#1782. Nobody's term moves."""
    away = cluster.followers()[0]
    leader = cluster.leader()
    cluster.isolate(away)
    leader.remove_member(away.name)
    term = leader.status().term
    assert away.status().state == "running"
    cluster.heal()
    cluster.wait_for(lambda: away.status().state == "removed", what="it to be told")
    leader.put("key", b"value")
    assert (leader.status().is_leader, leader.status().term) == (True, term)


def test_a_removed_member_refuses_many_puts_at_once(cluster: Cluster) -> None:
    """NodeRemoved is a NotReady that never ends: without a time limit, to wait for it would be for ever."""
    removed = cluster.followers()[0]
    cluster.leader().remove_member(removed.name)
    cluster.wait_for(lambda: removed.status().state == "removed", what="it to be told")
    with pytest.raises(NodeRemoved) as refused:
        removed.put_many({"a": b"1"}, timeout_s=None)
    assert refused.value.items_done == 0

    async def put_many() -> None:
        async with removed.aio() as node:
            await node.put_many({"a": b"1"}, timeout_s=None)

    with pytest.raises(NodeRemoved) as refused:
        asyncio.run(put_many())
    assert refused.value.items_done == 0


def test_a_removed_learner_that_says_nothing_is_told_too(cluster: Cluster) -> None:
    """A learner never campaigns, so nothing it sends would be refused: it asks."""
    node = cluster.add("d")
    leader = cluster.leader()
    leader.add_member("d", cluster.peers["d"], voter=False)
    node.ready(30)
    leader.remove_member("d")
    cluster.wait_for(lambda: node.status().state == "removed", what="it to be told")


def test_a_member_that_lags_does_not_turn_a_newer_one_away(cluster: Cluster) -> None:
    """b has not heard that d was added and votes: its older membership is no reason to refuse d, and d can lead it."""
    leader = cluster.leader()
    lagging, other = cluster.followers()
    node = cluster.add("d")
    cluster.isolate(lagging)
    leader.add_member("d", cluster.peers["d"])
    node.ready(30)
    leader.promote("d")
    cluster.heal()
    cluster.kill(leader)
    new = cluster.leader()
    new.put("key", b"value")
    assert {one.status().state for one in (node, lagging, other)} == {"running"}
    cluster.wait_converged()


def test_a_member_follows_a_leader_that_its_log_does_not_name_yet(cluster: Cluster) -> None:
    """What names d lies behind more than one append carries, so b must answer d before it knows who that is."""
    leader = cluster.leader()
    lagging = cluster.followers()[0]
    node = cluster.add("d")
    cluster.isolate(lagging)
    for number in range(64):
        leader.put(f"key-{number}", bytes(65536))
    leader.add_member("d", cluster.peers["d"])
    node.ready(30)
    leader.promote("d")
    leader.transfer("d")
    cluster.wait_for(lambda: node.status().is_leader, what="d to lead")
    cluster.heal()
    cluster.wait_converged()


def test_a_disk_that_was_thought_lost_returns_as_a_learner(cluster: Cluster) -> None:
    """dragonboat#256: the vote passed to the name's new incarnation. The old one has none when it is back: it catches
    up, and takes the vote again only because the new one is silent."""
    name = cluster.followers()[0].name
    cluster.kill(name)
    kept = cluster.folder / f"{name}.kept"
    (cluster.folder / name).rename(kept)
    cluster.restart(name)
    leader = cluster.leader()
    cluster.wait_for(
        lambda: (cluster.node(name).status().id, "voter") in [(m.id, m.role) for m in leader.members()],
        what="the new incarnation to take the vote",
    )
    promoted = [event.facts["member"] for event in leader.events(timeout_s=0) if event.name == "learner_promoted"]
    cluster.kill(name)
    (cluster.folder / name).rename(cluster.folder / f"{name}.new")
    kept.rename(cluster.folder / name)
    old = cluster.restart(name, wait=False)
    cluster.wait_for(
        lambda: (old.status().id, "voter") in [(m.id, m.role) for m in leader.members()],
        what="the old incarnation to take the vote back",
    )
    events = [event.facts["member"] for event in leader.events(timeout_s=0) if event.name == "learner_promoted"]
    assert events == [*promoted, old.status().id]
    old.put("key", b"value")
    cluster.wait_converged()
