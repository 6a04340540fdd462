"""Beginnings and short words of the tests by section: a cluster with a leader, or one member among played ones."""

from __future__ import annotations

from tests.core.cluster import Cluster, membership_of
from tests.faces.core import Entry, Message, make_records

ELECTION_TICKS = 10


def led(voters: int = 3, *, learners: int = 0, **options: object) -> Cluster:
    """A cluster with leader 1 in term 1; everybody has its no-op and knows that it is committed."""
    cluster = Cluster.of(voters, learners=learners, **options)
    cluster.elect(1)
    cluster.beat(1)
    return cluster


def led_with_learners(*learners: int) -> Cluster:
    """Leader 1 of the voters 1, 2, 3, and learners that have caught up and stay learners."""
    cluster = led(promotes_learners=False)
    for learner in learners:
        cluster.add_blank(learner)
    assert cluster.act(1, "change_membership", membership_of([1, 2, 3], learners)) == "OK"
    cluster.settle()
    cluster.beat(1)
    assert not cluster[1].membership().is_joint
    return cluster


def alone(log_terms: tuple[int, ...] = (), *, term: int = 1, vote: int = 0, members: int = 3) -> Cluster:
    """Member 1 of several, the others are played by the test."""
    cluster = Cluster()
    cluster.add_with_log(1, range(1, members + 1), log_terms, term=term, vote=vote)
    cluster.start(1)
    return cluster


def answers(cluster: Cluster, message: Message) -> list[Message]:
    """What member 1 says to this message."""
    cluster.network.clear()
    cluster.give(message)
    return list(cluster.network)


def role(cluster: Cluster, member_id: int = 1) -> str:
    return cluster[member_id].status().role


def terms(cluster: Cluster, member_id: int = 1) -> list[int]:
    return [entry.term for entry in cluster[member_id].log()]


def payloads(entries: list[Entry]) -> list[bytes]:
    return [entry.payload for entry in entries if entry.type == "COMMAND"]


def sent(cluster: Cluster, type: str) -> list[Message]:
    return [message for message in cluster.network if message.type == type]


def campaign_as_candidate(cluster: Cluster, member_id: int = 1) -> None:
    """The pre-vote passes, the member asks for votes of the next term."""
    assert cluster.act(member_id, "campaign") == "OK"
    for message in sent(cluster, "PRE_VOTE"):
        answer = Message("PRE_VOTE_RESPONSE", message.target, member_id, term=message.term)
        if role(cluster, member_id) == "PRE_CANDIDATE":
            cluster.give(answer)
    assert role(cluster, member_id) == "CANDIDATE"
    cluster.drop(lambda message: message.type == "PRE_VOTE")


def lead_alone(cluster: Cluster) -> None:
    """Member 1 wins with the votes of all others."""
    campaign_as_candidate(cluster)
    for message in sent(cluster, "VOTE"):
        cluster.give(Message("VOTE_RESPONSE", message.target, 1, term=message.term))
    assert role(cluster) == "LEADER"


def append_to(cluster: Cluster, after: int, new_terms: list[int], *, term: int, commit: int = 0) -> Message:
    """An APPEND of leader 2 whose log up to `after` is member 1's."""
    log = cluster[1].log()
    chain = log[after - 1].chain if after else 0
    records = make_records([(t, b"new %d" % t) for t in new_terms], index=after, chain=chain)
    return Message(
        "APPEND",
        2,
        1,
        term=term,
        index=after,
        log_term=log[after - 1].term if after else 0,
        commit=commit,
        count=len(new_terms),
        records=records,
    )
