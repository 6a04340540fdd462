"""Members come and go while the cluster lives: every verb, from any node, again and again."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import raftmeta
from raftmeta.testing import Cluster, aio


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(3) as running:
        yield running


def roles(node: raftmeta.Node) -> dict[str, str]:
    return {member.name: member.role for member in node.members()}


def follower(cluster: Cluster) -> raftmeta.Node:
    return cluster.followers()[0]


def add(cluster: Cluster, name: str, **options: Any) -> raftmeta.Node:
    """A new node that is a member and has caught up."""
    node = cluster.add(name)
    cluster.leader().add_member(name, cluster.peers[name], **options)
    node.ready(30)
    return node


# --- in ---------------------------------------------------------------------------------------------------------------


def test_a_new_node_waits_until_it_is_added_and_then_serves(cluster: Cluster) -> None:
    """Its process first: it finds the cluster, says what it waits for, and has all that was written once it is in."""
    cluster.leader().put("key", b"value")
    node = cluster.add("d")
    cluster.wait_for(lambda: node.status().state == "joining", what="it to find the cluster")
    with pytest.raises(raftmeta.ReadyTimeout, match=r"waits for add_member\('d', '127.0.0.1:\d+'\)"):
        node.ready(0.2)
    follower(cluster).add_member("d", cluster.peers["d"])
    node.ready(30)
    assert node.status().state == "running"
    record = node.get("key")
    assert record is not None and record.value == b"value"
    assert "became_member" in [event.name for event in node.events(timeout_s=0)]


def test_a_member_may_be_asked_for_before_its_process_starts(cluster: Cluster) -> None:
    """The other order: the call waits for it; in vain, it says so, and nothing was changed."""
    asked = follower(cluster)
    address = "127.0.0.1:1"
    with pytest.raises(raftmeta.Withdrawn, match=rf"d does not answer at {address}"):
        asked.add_member("d", address, timeout_s=0.3)
    assert roles(asked) == {"a": "voter", "b": "voter", "c": "voter"}
    cluster.peers["d"] = spare = cluster.free_address()
    adding = threading.Thread(target=asked.add_member, args=("d", spare))
    adding.start()
    cluster.restart("d", wait=False)
    adding.join(20)
    assert roles(asked)["d"] == "learner"


def test_learners_are_promoted_in_pairs_from_an_odd_number(cluster: Cluster) -> None:
    """One more voter would bear no more failures: the fourth member learns until a fifth has caught up, too."""
    add(cluster, "d")
    assert roles(cluster.node("d"))["d"] == "learner"
    add(cluster, "e")
    cluster.wait_for(lambda: set(roles(cluster.leader()).values()) == {"voter"}, what="five voters")
    cluster.kill(cluster.leader())
    cluster.kill(cluster.leader())
    cluster.leader().put("key", b"three of five")


def test_a_standby_is_promoted_only_by_hand(cluster: Cluster) -> None:
    add(cluster, "d", voter=False)
    add(cluster, "e")
    asked = follower(cluster)
    assert roles(asked) == {"a": "voter", "b": "voter", "c": "voter", "d": "standby", "e": "learner"}
    asked.promote("d")
    assert roles(asked)["d"] == "voter"
    cluster.wait_for(lambda: roles(asked)["e"] == "voter", what="the learner to make it five")
    asked.demote("d")
    assert roles(asked)["d"] == "standby"


# --- out --------------------------------------------------------------------------------------------------------------


def test_a_removed_leader_hands_over_is_told_and_disturbs_nobody(cluster: Cluster) -> None:
    """Asked of itself. Afterwards it takes no calls, campaigns no more, and nobody's term moves."""
    gone = cluster.leader()
    gone.put("key", b"value")
    gone.remove_member(gone.name)
    new = cluster.wait_for(lambda: next((n for n in cluster.running() if n.status().is_leader), None))
    assert new is not gone
    cluster.wait_for(lambda: gone.status().state == "removed", what="it to be told")
    for call in (gone.put, gone.create):
        with pytest.raises(raftmeta.NotReady, match=f"node {gone.name} was removed"):
            call("key", b"late")
    with pytest.raises(raftmeta.NotReady, match="was removed"):
        gone.ready(1)
    names = [event.name for event in gone.events(timeout_s=0)]
    assert "removed" in names
    term, campaigns = new.status().term, names.count("became_pre_candidate")
    for number in range(50):
        new.put(f"key/{number}", b"value")
    cluster.wait_for(lambda: len(list(new.events(timeout_s=2 * cluster.config.election_timeout_s))) >= 0)
    assert new.status().term == term
    assert [e.name for e in gone.events(timeout_s=0)].count("became_pre_candidate") == campaigns


def test_a_removed_node_comes_back_only_by_add_member(cluster: Cluster) -> None:
    """dragonboat#350: who was removed may return. Restarted it is told again; added, it catches up and serves."""
    gone = follower(cluster).name
    leader = cluster.leader()
    leader.remove_member(gone)
    leader.put("key", b"while it was away")
    again = cluster.restart(gone, wait=False)
    cluster.wait_for(lambda: again.status().state == "removed", what="it to be told again")
    assert roles(leader).keys() == set(cluster.names) - {gone}
    leader.add_member(gone, cluster.peers[gone])
    again.ready(30)
    record = again.get("key")
    assert record is not None and record.value == b"while it was away"
    assert again.status().state == "running"


def test_a_dead_member_is_removed_and_one_that_is_needed_is_not(cluster: Cluster) -> None:
    """With c dead, b must not go: a alone would be no quorum of what is left. The error names who is silent."""
    leader = cluster.leader()
    first, second = cluster.followers()
    cluster.kill(second)
    cluster.wait_for(lambda: not {m.name: m for m in leader.status().members}[second.name].is_connected)
    with pytest.raises(raftmeta.ChangeRefused, match=f"would leave no quorum: {second.name} does not answer"):
        leader.remove_member(first.name, timeout_s=1)
    assert len(leader.members()) == 3
    leader.remove_member(second.name)
    assert roles(leader) == {leader.name: "voter", first.name: "voter"}


def test_a_member_without_a_quorum_tells_that_nothing_was_changed(cluster: Cluster) -> None:
    leader = cluster.leader()
    for node in cluster.followers():
        cluster.kill(node)
    cluster.wait_for(lambda: not leader.status().is_leader, what="it to step down")
    with pytest.raises(raftmeta.Withdrawn, match="no leader is known"):
        leader.remove_member("b", timeout_s=0.3)


def test_the_last_voter_cannot_be_removed() -> None:
    with Cluster(1) as cluster, pytest.raises(raftmeta.ChangeRefused, match="only voter"):
        cluster.leader().remove_member("a")


# --- in another's place -----------------------------------------------------------------------------------------------


def test_a_leader_is_replaced_in_one_change(cluster: Cluster) -> None:
    """There are three voters before and after, and never another number of them."""
    old = cluster.leader()
    old.put("key", b"value")
    node = cluster.add("d")
    asked = follower(cluster)
    asked.replace_member(old.name, "d", cluster.peers["d"])
    assert roles(asked) == {name: "voter" for name in cluster.names if name != old.name}
    node.ready(30)
    asked.replace_member(old.name, "d", cluster.peers["d"])  # again: nothing is left to do
    cluster.kill(old)
    cluster.leader().put("key", b"after")


def test_a_wiped_standby_comes_back_as_a_standby(cluster: Cluster) -> None:
    add(cluster, "d", voter=False)
    before = cluster.node("d").status().id
    cluster.wipe("d")
    node = cluster.restart("d")
    assert node.status().id != before
    assert {m.name: (m.id, m.role) for m in node.members()}["d"] == (node.status().id, "standby")


# --- whoever asks, and how often --------------------------------------------------------------------------------------


def test_every_call_may_be_repeated(cluster: Cluster) -> None:
    """A goal that is reached needs no change: the index of the last membership stays."""
    add(cluster, "d", voter=False)
    leader = cluster.leader()
    address = cluster.peers["d"]
    for verb, arguments in (
        ("add_member", ("d", address)),
        ("promote", ("d",)),
        ("demote", ("d",)),
    ):
        getattr(leader, verb)(*arguments)
        index = leader.status().committed
        before = [(member.name, member.id, member.role) for member in leader.members()]
        getattr(follower(cluster), verb)(*arguments)
        getattr(leader, verb)(*arguments)
        assert [(member.name, member.id, member.role) for member in leader.members()] == before
        assert leader.status().committed - index < 8, verb


def test_changes_from_all_nodes_at_once_are_all_made(cluster: Cluster) -> None:
    """openraft#1544: quick changes. Each names the membership it was made from, so none undoes another."""
    for name in "defg":
        cluster.add(name)
    errors: list[BaseException] = []

    def ask(node: raftmeta.Node, name: str) -> None:
        try:
            node.add_member(name, cluster.peers[name], voter=False)
        except BaseException as error:
            errors.append(error)

    threads = [
        threading.Thread(target=ask, args=(cluster.node(number % 3), name)) for number, name in enumerate("defgdefg")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not errors
    assert roles(cluster.leader()) == dict.fromkeys("abc", "voter") | dict.fromkeys("defg", "standby")


def test_a_dead_learner_holds_no_other_change_up(cluster: Cluster) -> None:
    """dragonboat#369: a member that never catches up must not keep others from coming and going."""
    add(cluster, "d")
    cluster.kill("d")
    add(cluster, "e", voter=False)
    leader = cluster.leader()
    leader.promote("e")
    leader.remove_member("d")
    assert roles(leader) == dict.fromkeys("abce", "voter")


def test_a_changed_address_is_followed(cluster: Cluster) -> None:
    """A member restarts elsewhere: peers connect to where it says it is, and the membership says so, too."""
    name = follower(cluster).name
    cluster.kill(name)
    cluster.peers[name] = cluster.free_address()
    node = cluster.restart(name)
    leader = cluster.leader()
    told = cluster.wait_for(
        lambda: [m for m in leader.members() if m.name == name and m.address == cluster.peers[name]],
        what="the membership to name its new address",
    )
    assert told[0].id == node.status().id
    leader.put("key", b"value")
    cluster.wait_converged()


def test_arguments_are_checked_before_anything_is_sent(cluster: Cluster) -> None:
    leader = cluster.leader()
    for call, field in (
        (lambda: leader.add_member("", "127.0.0.1:1"), "name"),
        (lambda: leader.add_member("d", "nowhere"), "address"),
        (lambda: leader.replace_member("a", "a", "127.0.0.1:1"), "name"),
    ):
        with pytest.raises(raftmeta.InvalidArgument) as caught:
            call()
        assert caught.value.field == field
    with pytest.raises(raftmeta.ChangeRefused, match="x is no member; there are a, b and c"):
        leader.promote("x")
    with pytest.raises(raftmeta.ChangeRefused, match="typo is no member, or not any more; there are a, b and c"):
        leader.remove_member("typo")


def test_members_come_and_go_from_asyncio() -> None:
    async def use() -> None:
        async with aio.Cluster(3) as cluster:
            node = await cluster.add("d")
            leader = await cluster.leader()
            await leader.add_member("d", cluster.sync.peers["d"], voter=False)
            await node.ready(30)
            await node.promote("d")
            assert {m.name: m.role for m in await node.members()} == dict.fromkeys("abcd", "voter")
            await node.demote("d")
            await leader.remove_member("d")
            assert len(await leader.members()) == 3
            with pytest.raises(raftmeta.ChangeRefused, match="d is no member, or not any more"):
                await leader.remove_member("d")
            with pytest.raises(raftmeta.Withdrawn, match="does not answer"):
                await leader.add_member("e", "127.0.0.1:1", timeout_s=0.2)

    asyncio.run(use())
