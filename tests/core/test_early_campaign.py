"""Elections before the time-out: when a whole cluster comes back, nobody waits for a leader that nobody has heard.

The rule stands in docs/divergence.md "Elections": every voter must grant a pre-vote that comes before the time-out.
"""

from __future__ import annotations

import pytest

from tests.core.cluster import Cluster
from tests.core.scenes import alone, answers, led, role, sent
from tests.faces.core import Message

JITTER_TICKS = 4  # TUNE_JITTER_MS of raftmeta/raft/election.pyx, 10 ms each, and the tick in which it is drawn
TIME_OUT_TICKS = 10  # the least; drawn from [10, 20)


def connect(cluster: Cluster, member: int, *others: int) -> None:
    for other in others:
        assert cluster.act(member, "peer_event", "PEER_CONNECTED", other) == "OK"


def connect_all(cluster: Cluster) -> None:
    members = [node.id for node in cluster.running]
    for member in members:
        connect(cluster, member, *(other for other in members if other != member))


def pass_jitter(cluster: Cluster) -> None:
    for _ in range(JITTER_TICKS):
        cluster.tick_all()
        cluster.settle()


def leaders(cluster: Cluster) -> list[int]:
    return [node.id for node in cluster.running if role(cluster, node.id) == "LEADER"]


def asks_early(**options: object) -> Cluster:
    """Member 1 of three has all links and asks; 2 and 3 are played by the test."""
    cluster = alone((1,), term=1, **options)
    connect(cluster, 1, 2, 3)
    cluster.tick(1, JITTER_TICKS)
    return cluster


def ticks_to_the_time_out(cluster: Cluster) -> int:
    """Until member 1 asks by the ordinary rule."""
    cluster.network.clear()
    for count in range(1, 2 * TIME_OUT_TICKS + 1):
        cluster.tick(1)
        if sent(cluster, "PRE_VOTE"):
            return count
    raise AssertionError("no campaign within two time-outs")


@pytest.mark.parametrize("voters", [2, 3, 5])
def test_a_cluster_that_comes_back_has_a_leader_before_any_time_out(voters: int) -> None:
    cluster = led(voters)
    for node in list(cluster.nodes.values()):
        cluster.crash(node.id)
    for node in cluster.nodes.values():
        cluster.start(node.id)
    connect_all(cluster)
    pass_jitter(cluster)
    assert len(leaders(cluster)) == 1


def test_a_missing_link_to_a_voter_is_waited_for() -> None:
    cluster = alone((1,), term=1)
    connect(cluster, 1, 2)
    cluster.tick(1, TIME_OUT_TICKS - 1)
    assert role(cluster) == "FOLLOWER"
    assert not cluster.network


def test_links_to_learners_are_not_waited_for() -> None:
    cluster = Cluster.of(2, learners=1)
    connect(cluster, 1, 2)
    cluster.tick(1, JITTER_TICKS)
    assert role(cluster) == "PRE_CANDIDATE"


def test_a_majority_is_not_enough_before_the_time_out() -> None:
    cluster = asks_early()
    assert role(cluster) == "PRE_CANDIDATE"
    answers(cluster, Message("PRE_VOTE_RESPONSE", 2, 1, term=2))
    assert role(cluster) == "PRE_CANDIDATE"
    answers(cluster, Message("PRE_VOTE_RESPONSE", 3, 1, term=2))
    assert role(cluster) == "CANDIDATE"


def test_the_vote_behind_it_is_an_ordinary_one() -> None:
    cluster = asks_early()
    for voter in (2, 3):
        cluster.give(Message("PRE_VOTE_RESPONSE", voter, 1, term=2))
    answers(cluster, Message("VOTE_RESPONSE", 2, 1, term=2))
    assert role(cluster) == "LEADER"


@pytest.mark.parametrize("answer", ["refused", "refused in a higher term", "silence"])
def test_one_that_does_not_pass_leaves_the_time_out_as_it_was(answer: str) -> None:
    undisturbed = alone((1,), term=1)
    undisturbed.tick(1, JITTER_TICKS)
    cluster = asks_early()
    if answer != "silence":
        term = 1 if answer == "refused" else 7
        answers(cluster, Message("PRE_VOTE_RESPONSE", 2, 1, term=term, reject=True))
        assert role(cluster) == "FOLLOWER"
    assert ticks_to_the_time_out(cluster) == ticks_to_the_time_out(undisturbed)
    cluster.give(Message("PRE_VOTE_RESPONSE", 3, 1, term=cluster[1].status().term + 1))
    assert role(cluster) == "CANDIDATE", "a majority is enough now"


def test_a_leader_that_lives_is_not_deposed_by_a_majority_that_comes_back() -> None:
    cluster = led()
    for member in (2, 3):
        cluster.restart(member)
    cluster.network.clear()
    for member in (2, 3):
        connect(cluster, member, *({1, 2, 3} - {member}))
    for _ in range(JITTER_TICKS):
        for member in (2, 3):  # before the leader's next heartbeat
            cluster.tick(member)
        cluster.settle()
    assert leaders(cluster) == [1]
    assert [cluster[member].status().term for member in (1, 2, 3)] == [1, 1, 1]


def test_who_refuses_for_its_longer_log_asks_instead() -> None:
    cluster = alone((1, 1), term=1)
    (refusal,) = answers(cluster, Message("PRE_VOTE", 2, 1, term=2, index=1, log_term=1))
    assert refusal.reject
    cluster.network.clear()
    cluster.tick(1, JITTER_TICKS)
    assert {message.target for message in sent(cluster, "PRE_VOTE")} == {2, 3}


def test_the_longest_log_on_the_lowest_term_comes_to_lead() -> None:
    cluster = Cluster()
    cluster.add_with_log(1, [1, 2, 3], (1, 1, 1), term=1)
    cluster.add_with_log(2, [1, 2, 3], (1, 1), term=3)
    cluster.add_with_log(3, [1, 2, 3], (1,), term=5)
    for member in (1, 2, 3):
        cluster.start(member)
    connect(cluster, 3, 1, 2)  # the others' last links come later
    for _ in range(3):  # 1 asks, learns the terms, is asked by the others and asks again
        pass_jitter(cluster)
    assert leaders(cluster) == [1]


def test_who_grants_a_pre_vote_lets_the_other_go_first() -> None:
    cluster = alone((1,), term=1)
    connect(cluster, 1, 2, 3)
    (granted,) = answers(cluster, Message("PRE_VOTE", 2, 1, term=2, index=1, log_term=1))
    assert not granted.reject
    cluster.network.clear()
    cluster.tick(1, TIME_OUT_TICKS - 1)
    assert not sent(cluster, "PRE_VOTE")


def test_who_has_heard_a_leader_waits_for_its_time_out() -> None:
    cluster = alone((1,), term=1)
    answers(cluster, Message("HEARTBEAT", 2, 1, term=1))
    connect(cluster, 1, 2, 3)
    cluster.network.clear()
    cluster.tick(1, TIME_OUT_TICKS - 1)
    assert not sent(cluster, "PRE_VOTE")


def test_a_former_leader_waits_for_its_time_out() -> None:
    cluster = led()
    assert cluster.act(1, "step", Message("APPEND_RESPONSE", 2, 1, term=5)) in ("OK", "STALE")
    assert role(cluster) == "FOLLOWER"
    cluster.network.clear()
    connect(cluster, 1, 2, 3)
    cluster.tick(1, JITTER_TICKS)
    assert not sent(cluster, "PRE_VOTE")


def test_with_lease_reads_everybody_waits() -> None:
    """A restart forgets a leader that may still read under its lease (thesis 6.4.1)."""
    cluster = Cluster.of(3, lease_reads=True)
    connect_all(cluster)
    pass_jitter(cluster)
    assert not leaders(cluster)
    assert not cluster.network


def test_a_candidacy_by_the_ordinary_rule_goes_on_by_it() -> None:
    cluster = alone((1,), term=1)
    assert cluster.act(1, "campaign") == "OK"
    connect(cluster, 1, 2, 3)
    cluster.tick(1, JITTER_TICKS)
    answers(cluster, Message("PRE_VOTE_RESPONSE", 2, 1, term=2))
    assert role(cluster) == "CANDIDATE"
