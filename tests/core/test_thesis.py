"""Chapters 3, 4, 6, 9 and 10 of the thesis, rule by rule, as test_paper.py does it for the paper.

"thesis" is Ongaro, "Consensus: Bridging Theory and Practice". Departures stand in docs/divergence.md.
"""

from __future__ import annotations

import pytest

from tests.core.cluster import electorates, membership_of
from tests.core.scenes import (
    ELECTION_TICKS,
    alone,
    answers,
    lead_alone,
    led,
    led_with_learners,
    payloads,
    role,
    sent,
)
from tests.faces.core import LEARNER, VOTER, Member, Membership, Message, make_records

INFLIGHTS_MAX = 256  # raftmeta/raft/progress.pxd

# --- paper 6, thesis 4: membership ------------------------------------------------------------------------------------


def test_thesis_4_1_one_change_at_a_time() -> None:
    """thesis 4.1: a second change waits until the first is committed."""
    cluster = led_with_learners(4)
    assert cluster.act(1, "change_membership", membership_of([1, 2, 3, 4])) == "OK"
    assert cluster.act(1, "change_membership", membership_of([1, 2])) == "NOT_READY"
    cluster.settle()
    cluster.beat(1)
    assert cluster.act(1, "change_membership", membership_of([1, 2])) == "OK"


def test_thesis_4_1_no_change_before_an_entry_of_the_own_term_is_committed() -> None:
    """thesis 4.1 as mended in 2015: before that a leader cannot know whether an earlier change is committed."""
    cluster = alone((1,), term=1)
    lead_alone(cluster)
    assert cluster.act(1, "change_membership", membership_of([1, 2])) == "NOT_READY"
    answers(cluster, Message("APPEND_RESPONSE", 2, 1, term=2, index=2))
    assert cluster.act(1, "change_membership", membership_of([1, 2])) == "OK"


def test_thesis_4_1_a_truncated_membership_is_not_in_force_any_more() -> None:
    """thesis 4.1: a server must be prepared to fall back to the previous configuration in its log."""
    cluster = led()
    cluster.act(1, "change_membership", membership_of([1]))
    cluster.network.clear()
    assert cluster[1].membership().is_joint
    log = cluster[1].log()
    records = make_records([(2, b"other")], index=1, chain=log[0].chain)
    answers(cluster, Message("APPEND", 2, 1, term=2, index=1, log_term=1, count=1, records=records))
    assert electorates(cluster[1].membership()) == [{1, 2, 3}]


def test_thesis_4_1_votes_are_given_to_members_of_other_memberships() -> None:
    """thesis 4.1: a server grants its vote to a candidate that is not part of its latest configuration."""
    cluster = alone(term=1)
    (response,) = answers(cluster, Message("VOTE", 77, 1, term=2))
    assert not response.reject


def test_thesis_4_1_requests_of_a_leader_outside_the_membership_are_accepted() -> None:
    """thesis 4.1: servers process incoming RPC requests without consulting their current configurations."""
    cluster = alone(term=1)
    (response,) = answers(cluster, Message("APPEND", 77, 1, term=2))
    assert not response.reject


def test_thesis_4_2_1_a_learner_counts_in_no_majority() -> None:
    """thesis 4.2.1: a new server joins as a non-voting member first."""
    cluster = led(2, learners=1, promotes_learners=False)
    cluster.crash(2)
    cluster.act(1, "propose", [b"x"])
    cluster.settle()
    assert payloads(cluster[3].log()) == [b"x"]
    assert cluster[1].status().committed == 1


def test_thesis_4_2_1_a_new_voter_is_a_learner_first() -> None:
    """thesis 4.2.1; a blank member votes for nobody, so an electorate must never need its vote."""
    cluster = led(promotes_learners=False)
    cluster.add_blank(4)
    assert cluster.act(1, "change_membership", membership_of([1, 2, 4])) == "NOT_READY"
    assert cluster.act(1, "change_membership", membership_of([1, 2, 3], [4])) == "OK"
    cluster.partition([1, 2, 3], [4])
    cluster.settle()
    cluster.beat(1)
    assert cluster.act(1, "change_membership", membership_of([1, 2, 4])) == "NOT_READY"
    cluster.heal()
    cluster.beat(1)
    cluster.beat(1)
    assert cluster.act(1, "change_membership", membership_of([1, 2, 4])) == "OK"


def test_thesis_4_2_1_a_learner_starts_no_election() -> None:
    """thesis 4.2.1: it is not counted, so it has nothing to win."""
    cluster = led(2, learners=1, promotes_learners=False)
    cluster.crash(1)
    cluster.tick(3, 5 * ELECTION_TICKS)
    assert role(cluster, 3) == "FOLLOWER"
    assert sent(cluster, "PRE_VOTE") == []


def test_thesis_4_2_1_caught_up_learners_become_voters() -> None:
    """thesis 4.2.1: if the last round lasts less than an election timeout, the leader adds the server."""
    cluster = led(1, learners=2)
    for _ in range(3 * ELECTION_TICKS):
        cluster.tick_all()
        cluster.settle()
    assert electorates(cluster[1].membership()) == [{1, 2, 3}]
    assert electorates(cluster[3].membership()) == [{1, 2, 3}]


def test_thesis_4_2_2_the_removed_leader_hands_over() -> None:
    """thesis 4.2.2: the cluster does not wait for an election time-out after its leader removed itself."""
    cluster = led()
    cluster.act(1, "change_membership", membership_of([2, 3]))
    cluster.settle()
    assert "LEADER" in {role(cluster, 2), role(cluster, 3)}


def test_thesis_4_2_2_a_leader_that_dropped_itself_may_still_be_needed() -> None:
    """thesis 4.2.2, Figure 4.6: a server that is not part of its own latest configuration still starts elections."""
    cluster = led(2, promotes_learners=False)
    assert cluster.act(1, "change_membership", Membership((Member(1, LEARNER), Member(2, VOTER)))) == "OK"
    while cluster[1].membership().is_joint:
        cluster.deliver()
    cluster.network.clear()  # the leaving entry is on its own disk only
    for member_id in (1, 2):
        cluster.crash(member_id)
        cluster.restart(member_id)
    assert electorates(cluster[2].membership()) == [{2}, {1, 2}]
    cluster.tick(1, 2 * ELECTION_TICKS)
    cluster.settle()
    cluster.tick_all(2)
    cluster.settle()
    assert electorates(cluster[2].membership()) == [{2}]
    assert (role(cluster, 1), role(cluster, 2)) == ("FOLLOWER", "LEADER")


@pytest.mark.parametrize("type", ["VOTE", "PRE_VOTE"])
def test_thesis_4_2_3_a_member_that_hears_a_leader_refuses_without_taking_the_term(type: str) -> None:
    """thesis 4.2.3: it does not update its term or grant its vote."""
    cluster = led()
    cluster.give(Message(type, 3, 2, term=9, index=99, log_term=9))
    granted = [m for m in cluster.network if m.type == f"{type}_RESPONSE" and not m.reject]
    assert granted == []
    assert cluster[2].status().term == 1


def test_thesis_4_2_3_the_refusal_ends_with_the_minimum_election_time_out() -> None:
    """thesis 4.2.3: after that the leader is believed dead."""
    cluster = led()
    cluster.crash(1)
    cluster.tick(2, ELECTION_TICKS - 1)
    cluster.give(Message("PRE_VOTE", 3, 2, term=2, index=99, log_term=1))
    assert sent(cluster, "PRE_VOTE_RESPONSE")[-1].reject
    cluster.tick(2)
    cluster.give(Message("PRE_VOTE", 3, 2, term=2, index=99, log_term=1))
    assert not sent(cluster, "PRE_VOTE_RESPONSE")[-1].reject


def test_thesis_4_3_arbitrary_changes_go_in_one_step() -> None:
    """thesis 4.3: joint consensus replaces all members but one at once."""
    cluster = led_with_learners(4, 5)
    assert cluster.act(1, "change_membership", membership_of([1, 4, 5])) == "OK"
    cluster.settle()
    cluster.beat(1)
    assert electorates(cluster[4].membership()) == [{1, 4, 5}]


def test_thesis_4_3_a_demoted_voter_becomes_a_learner_at_the_end() -> None:
    """thesis 4.3: it votes in the old configuration until the change is over."""
    cluster = led(promotes_learners=False)
    target = Membership((Member(1, VOTER), Member(2, VOTER), Member(3, LEARNER)))
    assert cluster.act(1, "change_membership", target) == "OK"
    cluster.settle()
    cluster.beat(1)
    assert {member.id: member.roles for member in cluster[3].membership().members} == {1: VOTER, 2: VOTER, 3: LEARNER}


# --- paper 8, thesis 6: clients ---------------------------------------------------------------------------------------


def test_thesis_6_2_a_leader_without_quorum_steps_down() -> None:
    """thesis 6.2: a leader steps down if an election timeout elapses without a successful round of heartbeats."""
    cluster = led()
    cluster.partition([1], [2, 3])
    cluster.tick(1, ELECTION_TICKS + 1)
    assert (role(cluster), cluster[1].status().leader) == ("FOLLOWER", 0)


def test_thesis_6_2_a_leader_with_a_bare_quorum_stays() -> None:
    """thesis 6.2: a majority is enough."""
    cluster = led()
    cluster.crash(3)
    for _ in range(5 * ELECTION_TICKS):
        cluster.tick_all()
        cluster.settle()
    assert role(cluster) == "LEADER"


def test_thesis_6_4_a_read_index_is_never_below_what_was_committed_before_the_question() -> None:
    """thesis 6.4: the read sees every write that was acknowledged before it began."""
    cluster = led()
    for number in range(5):
        cluster.act(1, "propose", [b"%d" % number])
        cluster.settle()
        committed = cluster[1].status().committed
        reader = 1 + number % 3
        cluster.act(reader, "read_index", 100 + number)
        cluster.settle()
        cluster.beat(1)
        assert cluster.nodes[reader].reads[-1].context == 100 + number
        assert cluster.nodes[reader].reads[-1].index >= committed


def test_thesis_6_4_an_answer_to_an_earlier_round_serves_no_read() -> None:
    """thesis 6.4: only a round that began after the question proves that nobody else led when it was asked."""
    cluster = led()
    cluster.tick(1)
    cluster.deliver(lambda message: message.target == 2)
    cluster.act(1, "read_index", 7)
    cluster.drop(lambda message: message.type == "HEARTBEAT")
    assert [message.type for message in cluster.network] == ["HEARTBEAT_RESPONSE"]
    cluster.settle()
    assert cluster.nodes[1].reads == []
    cluster.beat(1)
    assert [read.context for read in cluster.nodes[1].reads] == [7]


def test_thesis_6_4_an_answer_to_an_earlier_life_serves_no_read() -> None:
    """thesis 6.4: contexts are never reused; a restarted follower must not take an old index for a new read."""
    cluster = led()
    cluster.act(3, "read_index", 1)
    for _ in range(3):
        cluster.deliver(lambda message: message.target != 3)
        cluster.deliver(lambda message: message.target == 2)
    (late,) = sent(cluster, "READ_INDEX_RESPONSE")
    cluster.drop()
    cluster.restart(3)
    cluster.beat(1)
    cluster.act(1, "propose", [b"new"])
    cluster.settle()
    cluster.act(3, "read_index", 2)
    cluster.give(late)
    assert cluster.nodes[3].reads == []
    cluster.settle()
    (read,) = cluster.nodes[3].reads
    assert (read.context, read.status) == (2, "OK")
    assert read.index > late.index


def test_thesis_6_4_1_a_lease_ends_before_another_leader_can_be_elected() -> None:
    """thesis 6.4.1: followers refuse votes for an election time-out, the leader stops reading before that."""
    cluster = led(lease_reads=True)
    cluster.partition([1], [2, 3])
    ticks = 0
    while True:
        cluster.network.clear()
        cluster.nodes[1].reads.clear()
        cluster.act(1, "read_index", 1)
        if not cluster.nodes[1].reads or cluster.nodes[1].reads[0].status != "OK":
            break
        cluster.tick_all()
        ticks += 1
    assert 0 < ticks < ELECTION_TICKS


# --- thesis 3.10: leadership transfer ---------------------------------------------------------------------------------


def test_thesis_3_10_the_target_is_brought_up_to_date_before_it_takes_over() -> None:
    """thesis 3.10: the prior leader fully updates the target server's log."""
    cluster = led()
    cluster.partition([1, 3], [2])
    cluster.act(1, "propose", [b"x"])
    cluster.settle()
    cluster.heal()
    assert cluster.act(1, "transfer", 2) == "OK"
    assert sent(cluster, "TIMEOUT_NOW") == []
    cluster.beat(1)
    assert role(cluster, 2) == "LEADER"
    assert payloads(cluster[2].log()) == [b"x"]


def test_thesis_3_10_a_leader_that_hands_over_takes_no_proposals() -> None:
    """thesis 3.10: the current leader stops accepting new client requests."""
    cluster = led()
    cluster.act(1, "transfer", 2)
    assert cluster.act(1, "propose", [b"late"]) == "NOT_READY"


def test_thesis_3_10_the_target_campaigns_at_once_and_is_not_held_back_by_stickiness() -> None:
    """thesis 3.10, 4.2.3: the campaign carries a flag that lifts the refusal."""
    cluster = led()
    cluster.act(1, "transfer", 2)
    cluster.settle()
    assert (role(cluster, 2), role(cluster, 1)) == ("LEADER", "FOLLOWER")
    assert cluster[2].status().term == 2


def test_thesis_3_10_a_transfer_without_success_ends_after_an_election_time_out() -> None:
    """thesis 3.10: a transfer not complete after about an election time-out is aborted."""
    cluster = led()
    cluster.crash(2)
    cluster.act(1, "transfer", 2)
    for _ in range(ELECTION_TICKS + 1):
        cluster.tick_all()
        cluster.settle()
    assert cluster.act(1, "propose", [b"again"]) == "OK"
    assert cluster[1].status().transferring == 0


# --- thesis 9.6: pre-vote ---------------------------------------------------------------------------------------------


def test_thesis_9_6_a_pre_vote_changes_no_term_and_no_vote() -> None:
    """thesis 9.6: a candidate would only increment its term if it first learned from a majority that it could win."""
    cluster = alone((1,), term=4)
    (response,) = answers(cluster, Message("PRE_VOTE", 2, 1, term=5, index=1, log_term=1))
    assert (response.type, response.reject, response.term) == ("PRE_VOTE_RESPONSE", False, 5)
    status = cluster[1].status()
    assert (status.term, status.vote) == (4, 0)
    assert cluster.nodes[1].disk.hard_state.term == 4


def test_thesis_9_6_a_cut_off_member_does_not_raise_its_term() -> None:
    """thesis 9.6: pre-vote solves the issue of a partitioned server disrupting the cluster when it rejoins."""
    cluster = led()
    cluster.partition([1, 2], [3])
    cluster.tick(3, 20 * ELECTION_TICKS)
    assert cluster[3].status().term == 1


def test_thesis_9_6_several_pre_votes_may_be_granted() -> None:
    """thesis 9.6: a pre-vote promises nothing, so it is not exclusive."""
    cluster = alone(term=1)
    for candidate in (2, 3):
        (response,) = answers(cluster, Message("PRE_VOTE", candidate, 1, term=2))
        assert not response.reject


# --- thesis 10.2.1: writing to the disk in parallel -------------------------------------------------------------------


def test_thesis_10_2_1_a_leader_sends_before_its_own_disk_is_done() -> None:
    """thesis 10.2.1: the leader can write to its disk in parallel with replicating to the followers."""
    cluster = led()
    cluster.nodes[1].is_slow = True
    cluster.act(1, "propose", [b"x"])
    assert {message.target for message in sent(cluster, "APPEND") if message.count} == {2, 3}
    assert cluster.nodes[1].disk.last == 1


def test_thesis_10_2_1_the_leader_counts_itself_only_when_its_disk_has_the_entry() -> None:
    """thesis 10.2.1: a majority of disks, the leader's among them or not."""
    cluster = led(5)
    cluster.nodes[1].is_slow = True
    cluster.act(1, "propose", [b"x"])
    cluster.partition([1, 2, 3], [4, 5])
    cluster.settle()
    assert cluster[1].status().committed == 1
    cluster.persist(1)
    assert cluster[1].status().committed == 2


def test_thesis_10_2_1_entries_may_be_committed_before_they_are_on_the_leaders_disk() -> None:
    """thesis 10.2.1: the leader may even commit an entry before it has been written to its own disk."""
    cluster = led()
    cluster.nodes[1].is_slow = True
    cluster.act(1, "propose", [b"x"])
    cluster.settle()
    assert cluster[1].status().committed == 2
    assert payloads(cluster.nodes[1].applied) == []
    cluster.persist(1)
    assert payloads(cluster.nodes[1].applied) == [b"x"]


def test_thesis_10_2_1_what_waits_for_room_leaves_together() -> None:
    """thesis 10.2.1: a member that does not answer is sent a bounded number of APPENDs; the rest goes in one."""
    cluster = led(3)
    cluster.partition([1, 2], [3])
    for number in range(INFLIGHTS_MAX + 50):
        cluster.act(1, "propose", [b"%d" % number])
        cluster.settle()
    behind = cluster[1].progress()[2]
    assert (behind.id, behind.state, behind.inflight_count) == (3, "REPLICATE", INFLIGHTS_MAX)
    last = cluster[1].status().last
    assert behind.next < last
    cluster.heal()
    cluster.give(Message("APPEND_RESPONSE", 3, 1, term=1, index=behind.match + 1))
    assert [(m.index, m.count) for m in sent(cluster, "APPEND")] == [(behind.next - 1, last - behind.next + 1)]


def test_thesis_10_2_1_appends_are_pipelined() -> None:
    """thesis 10.2.1: the leader updates nextIndex right after sending, without waiting for the response."""
    cluster = led()
    for number in range(3):
        cluster.act(1, "propose", [b"%d" % number])
    to_2 = [m for m in sent(cluster, "APPEND") if m.target == 2 and m.count]
    assert [m.index for m in to_2] == [1, 2, 3]
