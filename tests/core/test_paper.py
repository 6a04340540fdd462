"""The paper, rule by rule: each test names its section in its name and docstring. The thesis has test_thesis.py.

"paper" is Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm (Extended Version)". Departures
stand in docs/divergence.md. tests/core/cluster.py checks the invariants beside all this after every step.
"""

from __future__ import annotations

import pytest

from tests.core.cluster import Cluster, electorates, membership_of
from tests.core.scenes import (
    ELECTION_TICKS,
    alone,
    answers,
    append_to,
    campaign_as_candidate,
    lead_alone,
    led,
    led_with_learners,
    payloads,
    role,
    sent,
    terms,
)
from tests.faces.core import CoreHandle, Message, make_records, read_records

# --- paper 5.1: terms -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", ["FOLLOWER", "CANDIDATE", "LEADER"])
def test_5_1_any_role_takes_over_a_larger_term_and_becomes_follower(start: str) -> None:
    """paper 5.1: a candidate or leader whose term is out of date reverts to follower at once."""
    cluster = alone()
    if start == "CANDIDATE":
        campaign_as_candidate(cluster)
    if start == "LEADER":
        lead_alone(cluster)
    assert role(cluster) == start
    answers(cluster, Message("APPEND_RESPONSE", 2, 1, term=9, reject=True))
    status = cluster[1].status()
    assert (status.role, status.term, status.vote) == ("FOLLOWER", 9, 0)
    assert cluster.nodes[1].disk.hard_state.term == 9


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        (Message("VOTE", 2, 1, term=3, index=99, log_term=3), "VOTE_RESPONSE"),
        (Message("APPEND", 2, 1, term=3), "APPEND_RESPONSE"),
    ],
)
def test_5_1_a_request_of_an_old_term_is_rejected_with_the_current_one(message: Message, answer: str) -> None:
    """paper 5.1: if a server receives a request with a stale term number, it rejects the request."""
    cluster = alone(term=5)
    (response,) = answers(cluster, message)
    assert (response.type, response.term) == (answer, 5)
    assert response.reject
    assert cluster[1].status().leader == 0


def test_5_1_an_answer_of_an_old_term_is_ignored() -> None:
    """paper 5.1: a vote for an earlier term does not count in this one."""
    cluster = alone(term=1)
    campaign_as_candidate(cluster)
    answers(cluster, Message("VOTE_RESPONSE", 2, 1, term=1))
    assert role(cluster) == "CANDIDATE"


# --- paper 5.2: leader election ---------------------------------------------------------------------------------------


def test_5_2_members_start_as_followers_without_leader() -> None:
    """paper 5.2: when servers start up, they begin as followers."""
    cluster = Cluster.of(3)
    assert {(node.core.status().role, node.core.status().leader) for node in cluster.running} == {("FOLLOWER", 0)}


def test_5_2_a_follower_stays_one_while_it_hears_the_leader() -> None:
    """paper 5.2: a server remains in follower state as long as it receives valid RPCs from a leader or candidate."""
    cluster = led()
    for _ in range(5 * ELECTION_TICKS):
        cluster.tick_all()
        cluster.settle()
    assert [role(cluster, i) for i in (1, 2, 3)] == ["LEADER", "FOLLOWER", "FOLLOWER"]
    assert cluster[1].status().term == 1


def test_5_2_a_silent_leader_is_replaced_within_two_time_outs() -> None:
    """paper 5.2: if a follower receives no communication over the election timeout, it begins an election."""
    cluster = led()
    cluster.crash(1)
    for _ in range(2 * ELECTION_TICKS):
        cluster.tick_all()
    assert "PRE_CANDIDATE" in {role(cluster, 2), role(cluster, 3)}
    for _ in range(4 * ELECTION_TICKS):
        cluster.settle()
        cluster.tick_all()
    assert sorted([role(cluster, 2), role(cluster, 3)]) == ["FOLLOWER", "LEADER"]


def test_5_2_a_candidate_raises_its_term_votes_for_itself_and_asks_everybody() -> None:
    """paper 5.2: increments its current term ... votes for itself and issues RequestVote RPCs in parallel."""
    cluster = alone((1, 1), term=4, members=5)
    campaign_as_candidate(cluster)
    status = cluster[1].status()
    assert (status.term, status.vote) == (5, 1)
    assert [(m.target, m.term, m.index, m.log_term) for m in sent(cluster, "VOTE")] == [
        (i, 5, 2, 1) for i in (2, 3, 4, 5)
    ]


@pytest.mark.parametrize(("members", "needed"), [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2), (7, 3)])
def test_5_2_a_candidate_wins_with_a_majority_and_not_with_less(members: int, needed: int) -> None:
    """paper 5.2: a candidate wins an election if it receives votes from a majority of the servers."""
    cluster = alone(members=members)
    if members == 1:
        cluster.act(1, "campaign")
    else:
        campaign_as_candidate(cluster)
    for voter in range(2, 2 + needed):
        assert role(cluster) == "CANDIDATE"
        cluster.give(Message("VOTE_RESPONSE", voter, 1, term=2))
    assert role(cluster) == "LEADER"


@pytest.mark.parametrize("learners", [0, 2])
def test_5_2_a_sole_voter_waits_for_no_time_out(learners: int) -> None:
    """paper 5.2: a majority of one is its own vote; learners have none (docs/divergence.md "Elections")."""
    cluster = Cluster.of(1, learners=learners)
    cluster.tick(1)
    cluster.settle()
    assert (role(cluster), cluster[1].status().term) == ("LEADER", 1)


def test_5_2_one_of_two_voters_waits_for_its_time_out() -> None:
    """paper 5.2: with anybody else to ask, the randomized time-out keeps two from asking at once."""
    cluster = Cluster.of(2)
    for _ in range(ELECTION_TICKS - 1):
        cluster.tick_all()
    assert {role(cluster, i) for i in (1, 2)} == {"FOLLOWER"}


def test_5_2_a_sole_voter_whose_disk_is_slow_begins_one_election() -> None:
    """paper 5.2: its own vote counts when it is durable; until then it does not raise its term again."""
    cluster = Cluster.of(1)
    cluster.nodes[1].is_slow = True
    for _ in range(ELECTION_TICKS - 1):
        cluster.tick(1)
    assert (role(cluster), cluster[1].status().term) == ("CANDIDATE", 1)


def test_5_2_a_sole_voter_with_lease_reads_waits_for_its_time_out() -> None:
    """thesis 6.4.1: another leader's lease, from before the others left, may still hold."""
    cluster = Cluster.of(1, lease_reads=True)
    for _ in range(ELECTION_TICKS - 1):
        cluster.tick(1)
    assert role(cluster) == "FOLLOWER"


@pytest.mark.parametrize("leader_says_farewell", [True, False])
def test_6_the_last_voter_leads_as_soon_as_its_leader_is_gone(leader_says_farewell: bool) -> None:
    """paper 6: with the others removed its vote is a majority, whether the leader hands over or its process dies."""
    cluster = led(3)
    cluster.act(1, "change_membership", membership_of([2]))
    while electorates(cluster[2].membership()) != [{2}]:
        assert role(cluster, 2) == "FOLLOWER"
        cluster.deliver()
    if not leader_says_farewell:
        cluster.crash(1)
        cluster.act(2, "peer_event", "PEER_REFUSED", 1)
        cluster.tick(2)
    cluster.settle()
    assert (role(cluster, 2), cluster[2].status().term) == ("LEADER", 2)


def test_5_2_a_repeated_vote_counts_once() -> None:
    """paper 5.2: a majority of servers, not of messages."""
    cluster = alone(members=5)
    campaign_as_candidate(cluster)
    for _ in range(3):
        cluster.give(Message("VOTE_RESPONSE", 2, 1, term=2))
    assert role(cluster) == "CANDIDATE"


def test_5_2_a_candidate_refused_by_a_majority_gives_up() -> None:
    """paper 5.2: it cannot win any more and waits for its next time-out."""
    cluster = alone(members=5)
    campaign_as_candidate(cluster)
    for voter in (2, 3, 4):
        cluster.give(Message("VOTE_RESPONSE", voter, 1, term=2, reject=True))
    assert role(cluster) == "FOLLOWER"
    assert cluster[1].status().vote == 1


@pytest.mark.parametrize(("vote", "candidate", "granted"), [(0, 2, True), (0, 3, True), (2, 2, True), (2, 3, False)])
def test_5_2_each_server_votes_for_one_candidate_per_term(vote: int, candidate: int, granted: bool) -> None:
    """paper 5.2: a server votes for at most one candidate per term, first come, first served."""
    cluster = alone(term=3, vote=vote)
    (response,) = answers(cluster, Message("VOTE", candidate, 1, term=3))
    assert response.reject != granted


def test_5_2_the_vote_survives_a_crash() -> None:
    """paper 5.2, Figure 2: votedFor is persistent state."""
    cluster = alone(term=3)
    answers(cluster, Message("VOTE", 2, 1, term=4))
    cluster.restart(1)
    (response,) = answers(cluster, Message("VOTE", 3, 1, term=4))
    assert response.reject


@pytest.mark.parametrize("term", [2, 3])
def test_5_2_a_candidate_recognises_a_leader_of_its_term_or_later(term: int) -> None:
    """paper 5.2: a leader whose term is at least the candidate's is legitimate."""
    cluster = alone(term=1)
    campaign_as_candidate(cluster)
    answers(cluster, Message("APPEND", 2, 1, term=term))
    status = cluster[1].status()
    assert (status.role, status.leader, status.term) == ("FOLLOWER", 2, term)


def test_5_2_a_candidate_stays_one_when_the_leader_is_of_an_older_term() -> None:
    """paper 5.2: otherwise the candidate rejects the RPC and continues in candidate state."""
    cluster = alone(term=5)
    campaign_as_candidate(cluster)
    (response,) = answers(cluster, Message("APPEND", 2, 1, term=5))
    assert response.reject
    assert role(cluster) == "CANDIDATE"


def test_5_2_a_candidate_without_result_tries_again_in_a_new_term() -> None:
    """paper 5.2: each candidate will time out and start a new election by incrementing its term."""
    cluster = alone(term=1)
    campaign_as_candidate(cluster)
    cluster.tick(1, 2 * ELECTION_TICKS)
    assert role(cluster) == "PRE_CANDIDATE"
    cluster.network.clear()
    campaign_as_candidate(cluster)
    assert cluster[1].status().term == 3


def test_5_2_election_time_outs_are_random_in_a_fixed_interval() -> None:
    """paper 5.2: election timeouts are chosen randomly from a fixed interval; here [10, 20) ticks."""
    seen = set()
    for seed in range(1, 120):
        core = CoreHandle(1, seed=seed)
        core.start([1, 2, 3])
        ticks = 0
        while core.status().role == "FOLLOWER":
            core.tick()
            ticks += 1
        seen.add(ticks)
    assert min(seen) >= ELECTION_TICKS
    assert max(seen) <= 2 * ELECTION_TICKS
    assert len(seen) == ELECTION_TICKS


@pytest.mark.parametrize("interval", [1, 3])
def test_5_2_a_leader_sends_heartbeats_at_its_interval(interval: int) -> None:
    """paper 5.2: leaders send periodic heartbeats to all followers in order to maintain their authority."""
    cluster = led(heartbeat_ticks=interval)
    counted = []
    for _ in range(4 * interval):
        cluster.tick(1)
        counted.append(len(sent(cluster, "HEARTBEAT")))
        cluster.settle()
    assert sum(counted) == 2 * 4
    assert max(counted) == 2


# --- paper 5.3: log replication ---------------------------------------------------------------------------------------


def test_5_3_an_entry_is_committed_when_a_majority_has_it() -> None:
    """paper 5.3: a log entry is committed once the leader has replicated it on a majority of the servers."""
    cluster = led(5)
    cluster.act(1, "propose", [b"x"])
    cluster.deliver(lambda message: message.target == 2)
    cluster.deliver(lambda message: message.source == 2)
    assert cluster[1].status().committed == 1
    cluster.deliver(lambda message: message.target == 3)
    cluster.deliver(lambda message: message.source == 3)
    assert cluster[1].status().committed == 2
    assert payloads(cluster.nodes[1].applied) == [b"x"]


def test_5_3_followers_learn_the_commit_index_and_apply_in_log_order() -> None:
    """paper 5.3: once a follower learns that a log entry is committed, it applies it, in log order."""
    cluster = led()
    cluster.act(1, "propose", [b"a", b"b", b"c"])
    cluster.settle()
    cluster.beat(1)
    for node in cluster.running:
        assert payloads(node.applied) == [b"a", b"b", b"c"]
        assert [entry.index for entry in node.applied] == [1, 2, 3, 4]


def test_5_3_the_consistency_check_refuses_an_append_behind_a_gap() -> None:
    """paper 5.3: if the follower does not find an entry with the same index and term, it refuses the new entries."""
    cluster = alone((1, 1), term=2)
    records = make_records([(2, b"far")], index=5, chain=12345)
    (response,) = answers(cluster, Message("APPEND", 2, 1, term=2, index=5, log_term=2, count=1, records=records))
    assert (response.type, response.reject, response.index) == ("APPEND_RESPONSE", True, 5)
    assert terms(cluster) == [1, 1]


def test_5_3_the_consistency_check_refuses_an_append_behind_another_term() -> None:
    """paper 5.3: the entry before must have the same index and the same term."""
    cluster = alone((1, 1, 1), term=3)
    records = make_records([(3, b"x")], index=3, chain=1)
    (response,) = answers(cluster, Message("APPEND", 2, 1, term=3, index=3, log_term=2, count=1, records=records))
    assert response.reject
    assert terms(cluster) == [1, 1, 1]


def test_5_3_conflicting_entries_are_removed_with_all_that_follow() -> None:
    """paper 5.3, Figure 2 AppendEntries 3: delete the existing entry and all that follow it."""
    cluster = alone((1, 2, 2, 2), term=3)
    (response,) = answers(cluster, append_to(cluster, 1, [3], term=3))
    assert (response.reject, response.index) == (False, 2)
    assert terms(cluster) == [1, 3]
    assert cluster.nodes[1].disk.last == 2


def test_5_3_an_append_that_is_there_already_removes_nothing() -> None:
    """paper Figure 2 AppendEntries 3 and 4: an old, shorter APPEND must not cut the log."""
    cluster = alone((1,), term=2)
    long = append_to(cluster, 1, [2, 2, 2], term=2)
    short = append_to(cluster, 1, [2], term=2)
    short = short._replace(records=long.records[: len(short.records)])
    answers(cluster, long)
    (response,) = answers(cluster, short)
    assert (response.reject, response.index) == (False, 2)
    assert terms(cluster) == [1, 2, 2, 2]


def test_5_3_a_leader_never_changes_its_own_entries() -> None:
    """paper 5.3 Leader Append-Only: whatever followers answer, a leader only appends."""
    cluster = alone((1, 1, 1), term=2)
    lead_alone(cluster)
    before = terms(cluster)
    for hint in (0, 1, 2, 3):
        answers(cluster, Message("APPEND_RESPONSE", 2, 1, term=3, reject=True, index=3, hint=hint, log_term=hint and 1))
        cluster.tick(1)
    assert terms(cluster)[: len(before)] == before == [1, 1, 1, 3]


def test_5_3_a_leader_backs_up_until_the_logs_meet() -> None:
    """paper 5.3: eventually nextIndex will reach a point where the leader and follower logs match."""
    cluster = Cluster()
    cluster.add_with_log(1, (1, 2, 3), (1, 1, 4, 4, 5, 6), term=6)
    cluster.add_with_log(2, (1, 2, 3), (1, 1, 4, 4, 5, 6), term=6)
    cluster.add_with_log(3, (1, 2, 3), (1, 2, 2, 3, 3), term=6)
    for member_id in (1, 2, 3):
        cluster.start(member_id)
    cluster.elect(1)
    cluster.beat(1)
    assert terms(cluster, 3) == terms(cluster, 1) == [1, 1, 4, 4, 5, 6, 7]


def test_5_3_a_conflict_hint_skips_a_whole_term_at_once() -> None:
    """paper 5.3: one AppendEntries RPC will be required for each term with conflicting entries."""
    cluster = alone((1,) + (2,) * 50, term=3)
    probe = Message("APPEND", 2, 1, term=4, index=60, log_term=3)
    (response,) = answers(cluster, probe)
    assert response.reject
    assert response.hint <= 51
    second = Message("APPEND", 2, 1, term=4, index=40, log_term=1)
    (response,) = answers(cluster, second)
    assert (response.hint, response.log_term) == (1, 1)


# --- paper 5.4: safety ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "last", "last_term", "granted"),
    [
        ((1,), 1, 1, True),
        ((1,), 2, 1, True),
        ((1, 1), 1, 1, False),
        ((1,), 1, 2, True),
        ((1, 1), 1, 2, True),
        ((2,), 1, 1, False),
        ((2,), 9, 1, False),
        ((1, 2), 1, 2, False),
        ((), 0, 0, True),
        ((1,), 0, 0, False),
    ],
)
def test_5_4_1_a_voter_refuses_a_log_older_than_its_own(
    own: tuple[int, ...], last: int, last_term: int, granted: bool
) -> None:
    """paper 5.4.1: the later last term wins; of equal ones, the longer log."""
    cluster = alone(own, term=3)
    (response,) = answers(cluster, Message("VOTE", 2, 1, term=4, index=last, log_term=last_term))
    assert response.reject != granted
    (response,) = answers(cluster, Message("PRE_VOTE", 3, 1, term=5, index=last, log_term=last_term))
    assert response.reject != granted


def test_5_4_2_entries_of_earlier_terms_are_not_counted() -> None:
    """paper 5.4.2, Figure 8: only log entries from the leader's current term are committed by counting replicas."""
    cluster = alone((1, 2), term=2)
    lead_alone(cluster)
    answers(cluster, Message("APPEND_RESPONSE", 2, 1, term=3, index=2))
    answers(cluster, Message("APPEND_RESPONSE", 3, 1, term=3, index=2))
    assert cluster[1].status().committed == 0
    answers(cluster, Message("APPEND_RESPONSE", 2, 1, term=3, index=3))
    assert cluster[1].status().committed == 3


def test_5_4_3_a_new_leader_holds_every_committed_entry() -> None:
    """paper 5.4.3 Leader Completeness: of two candidates only the one with the committed entry can win."""
    cluster = led()
    cluster.partition([1, 2], [3])
    cluster.act(1, "propose", [b"kept"])
    cluster.settle()
    cluster.crash(1)
    cluster.heal()
    for _ in range(8 * ELECTION_TICKS):
        cluster.tick_all()
        cluster.settle()
    assert role(cluster, 2) == "LEADER"
    assert payloads(cluster[3].log()) == [b"kept"]


# --- paper 5.5, 5.6 ---------------------------------------------------------------------------------------------------


def test_5_5_requests_are_idempotent() -> None:
    """paper 5.5: if a follower receives an AppendEntries request with entries already in its log, it ignores them."""
    cluster = alone((1,), term=2)
    message = append_to(cluster, 1, [2, 2], term=2, commit=3)
    first = answers(cluster, message)
    assert answers(cluster, message) == first
    assert terms(cluster) == [1, 2, 2]
    assert len(cluster.nodes[1].applied) == 3


def test_5_5_a_crashed_follower_catches_up_when_it_returns() -> None:
    """paper 5.5: Raft handles these failures by retrying indefinitely."""
    cluster = led()
    cluster.crash(3)
    cluster.act(1, "propose", [b"a", b"b"])
    cluster.settle()
    cluster.start(3)
    cluster.beat(1)
    cluster.beat(1)
    cluster.beat(1)
    assert payloads(cluster.nodes[3].applied) == [b"a", b"b"]


@pytest.mark.parametrize(("heartbeat", "election"), [(0, 10), (10, 10), (11, 10)])
def test_5_6_the_heartbeat_interval_must_be_below_the_election_time_out(heartbeat: int, election: int) -> None:
    """paper 5.6: broadcastTime << electionTimeout."""
    with pytest.raises(ValueError, match="out of range"):
        CoreHandle(1, heartbeat_ticks=heartbeat, election_timeout_ticks=election)


def test_6_a_membership_is_in_force_as_soon_as_it_is_in_the_log() -> None:
    """paper 6: a server always uses the latest configuration in its log, regardless of whether it is committed."""
    cluster = led_with_learners(4)
    committed = cluster[1].status().committed
    assert cluster.act(1, "change_membership", membership_of([1, 2, 3, 4])) == "OK"
    assert cluster[1].membership().is_joint
    assert cluster[1].status().committed == committed
    cluster.deliver(lambda message: message.target == 2)
    assert cluster[2].membership().is_joint


@pytest.mark.parametrize("side", [[1, 4, 5], [1, 2, 3]])
def test_6_joint_consensus_needs_a_majority_of_both_memberships(side: list[int]) -> None:
    """paper 6: agreement requires separate majorities from both the old and new configurations."""
    cluster = led_with_learners(4, 5)
    committed = cluster[1].status().committed
    cluster.partition(side, {2, 3, 4, 5} - set(side))
    assert cluster.act(1, "change_membership", membership_of([1, 4, 5])) == "OK"
    cluster.settle()
    cluster.beat(1)
    assert cluster[1].status().committed == committed, "all of one configuration, one of three of the other"
    cluster.heal()
    cluster.beat(1)
    cluster.beat(1)
    assert electorates(cluster[1].membership()) == [{1, 4, 5}]


def test_6_a_candidate_in_joint_consensus_needs_both_majorities() -> None:
    """paper 6: the rule holds for elections too."""
    cluster = led_with_learners(4, 5)
    cluster.act(1, "change_membership", membership_of([1, 4, 5]))
    cluster.deliver()
    cluster.crash(1)
    cluster.drop()
    cluster.partition([2, 3], [4, 5])
    assert cluster[2].membership().is_joint
    cluster.tick(2, 3 * ELECTION_TICKS)
    cluster.tick(3, ELECTION_TICKS)
    cluster.settle()
    assert role(cluster, 2) == "PRE_CANDIDATE", "2 and 3 are a majority of the old voters only"
    cluster.heal()
    cluster.forget_leader(2)
    cluster.act(2, "campaign")
    cluster.settle()
    assert electorates(cluster[4].membership()) == [{1, 4, 5}], "2 was elected and ended the change, which removed it"


def test_6_the_final_membership_follows_by_itself() -> None:
    """paper 6: once the joint configuration is committed, the leader appends the new one."""
    cluster = led(5)
    cluster.act(1, "change_membership", membership_of([1, 2, 3]))
    cluster.settle()
    cluster.beat(1)
    assert [entry.type for entry in cluster[1].log()] == ["NOOP", "MEMBERSHIP", "MEMBERSHIP"]
    assert electorates(cluster[2].membership()) == [{1, 2, 3}]


def test_6_a_leader_outside_the_new_membership_steps_down_when_it_is_committed() -> None:
    """paper 6, thesis 4.2.2: it manages the change without counting itself."""
    cluster = led()
    cluster.act(1, "change_membership", membership_of([2, 3]))
    cluster.partition([1, 2], [3])
    cluster.settle()
    assert role(cluster) == "LEADER", "1 and 2 are no majority of {2, 3}"
    cluster.heal()
    cluster.beat(1)
    cluster.settle()
    assert role(cluster) == "FOLLOWER"
    assert electorates(cluster[2].membership()) == [{2, 3}]


def test_6_a_removed_member_does_not_disturb_the_cluster() -> None:
    """paper 6: servers disregard RequestVote RPCs when they believe a current leader exists."""
    cluster = led(4)
    cluster.partition([1, 2, 3], [4])
    cluster.act(1, "change_membership", membership_of([1, 2, 3]))
    cluster.settle()
    cluster.heal()
    for _ in range(5 * ELECTION_TICKS):
        cluster.tick_all()
        cluster.settle()
    assert (role(cluster), cluster[1].status().term) == ("LEADER", 1)


# --- paper 7: snapshots -----------------------------------------------------------------------------------------------


def lagging_behind_compaction() -> Cluster:
    """3 missed entries 2 to 4, which are compacted at 1."""
    cluster = led()
    cluster.partition([1, 2], [3])
    cluster.act(1, "propose", [b"a", b"b", b"c"])
    cluster.settle()
    assert cluster.compact(1, 3) == "OK"
    cluster.heal()
    cluster.beat(1)
    cluster.settle()
    return cluster


def test_7_a_leader_asks_for_a_snapshot_when_the_next_entry_is_gone() -> None:
    """paper 7: the leader has already discarded the next log entry that it needs to send."""
    cluster = lagging_behind_compaction()
    assert set(cluster.nodes[1].snapshots_needed) == {3}
    assert [view.state for view in cluster[1].progress() if view.id == 3] == ["SNAPSHOT_WAIT"]


def test_7_an_installed_snapshot_replaces_the_log_and_replication_goes_on_behind_it() -> None:
    """paper 7, Figure 13."""
    cluster = lagging_behind_compaction()
    cluster.send_snapshot(1, 3)
    cluster.settle()
    cluster.beat(1)
    assert cluster[3].status().compacted == 3
    assert payloads(cluster.nodes[3].applied) == [b"a", b"b", b"c"]


def test_7_a_snapshot_keeps_the_entries_behind_its_point() -> None:
    """paper 7: when the snapshot describes a prefix of the log, the entries behind it are retained."""
    cluster = led()
    cluster.act(1, "propose", [b"a", b"b", b"c"])
    cluster.settle()
    assert cluster[3].status().applied == 1, "it holds the entries and does not know that they are committed"
    cluster.compact(1, 2)
    cluster.send_snapshot(1, 3)
    assert cluster[3].status().last == 4
    assert payloads(cluster[3].log()) == [b"b", b"c"]


def test_7_an_old_snapshot_changes_nothing() -> None:
    """paper 7: committed state never steps back."""
    cluster = led()
    cluster.act(1, "propose", [b"a", b"b"])
    cluster.settle()
    cluster.beat(1)
    cluster.compact(1, 2)
    point = cluster.nodes[1].disk.point
    cluster.compact(3, 3)
    before = cluster[3].status()
    assert cluster.act(3, "snapshot_installed", point, cluster[1].membership()) == "STALE"
    assert cluster[3].status() == before


def test_8_a_leader_begins_its_term_with_a_no_op() -> None:
    """paper 8: each leader commits a blank no-op entry into the log at the start of its term."""
    cluster = alone((1,), term=1)
    lead_alone(cluster)
    assert [(entry.type, entry.term) for entry in cluster[1].log()][1:] == [("NOOP", 2)]


def test_8_a_leader_answers_reads_only_after_a_round_with_a_majority() -> None:
    """paper 8, thesis 6.4: otherwise a deposed leader would answer with stale data."""
    cluster = led()
    cluster.act(1, "read_index", 7)
    assert cluster.nodes[1].reads == []
    cluster.settle()
    assert [(read.context, read.status) for read in cluster.nodes[1].reads] == [(7, "OK")]


# --- Figure 2 ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("commit", "expected"), [(1, 1), (2, 2), (9, 3)])
def test_figure_2_commit_index_is_the_lesser_of_leader_commit_and_last_new_entry(commit: int, expected: int) -> None:
    """paper Figure 2 AppendEntries 5: commitIndex = min(leaderCommit, index of last new entry)."""
    cluster = alone((1, 1, 1, 1), term=1)
    message = append_to(cluster, 3, [], term=2, commit=commit)
    answers(cluster, message)
    assert cluster[1].status().committed == expected


def test_figure_2_term_and_vote_are_durable_before_the_answer() -> None:
    """paper Figure 2 persistent state on all servers: updated on stable storage before responding to RPCs."""
    cluster = alone(term=1)
    cluster.nodes[1].is_slow = True
    assert answers(cluster, Message("VOTE", 2, 1, term=2)) == []
    cluster.persist(1)
    (response,) = cluster.network
    assert (response.type, response.reject, response.term) == ("VOTE_RESPONSE", False, 2)


def test_figure_2_entries_are_durable_before_they_are_acknowledged() -> None:
    """paper Figure 2 persistent state: log[] too."""
    cluster = alone((1,), term=2)
    cluster.nodes[1].is_slow = True
    assert answers(cluster, append_to(cluster, 1, [2], term=2)) == []
    while cluster.nodes[1].writes:
        cluster.persist(1)
    assert [(m.type, m.index) for m in cluster.network] == [("APPEND_RESPONSE", 2)]


def test_figure_2_a_candidate_counts_its_own_vote_when_it_is_durable() -> None:
    """paper Figure 2 persistent state: its vote for itself is a vote like every other."""
    cluster = alone(members=1)
    cluster.nodes[1].is_slow = True
    cluster.act(1, "campaign")
    assert role(cluster) == "CANDIDATE"
    cluster.persist(1)
    assert role(cluster) == "LEADER"


def test_figure_2_a_new_leader_begins_behind_its_own_last_entry() -> None:
    """paper Figure 2 nextIndex: initialized to leader last log index + 1."""
    cluster = alone((1, 1, 1), term=1)
    lead_alone(cluster)
    first = next(message for message in sent(cluster, "APPEND") if message.target == 2)
    assert (first.index, first.log_term) == (3, 1)
    assert [entry.index for entry in read_records(first.records)] in ([], [4])


def test_figure_2_match_never_steps_back() -> None:
    """paper Figure 2 matchIndex: increases monotonically."""
    cluster = alone((1, 1), term=1)
    lead_alone(cluster)
    answers(cluster, Message("APPEND_RESPONSE", 2, 1, term=2, index=3))
    answers(cluster, Message("APPEND_RESPONSE", 2, 1, term=2, index=1))
    answers(cluster, Message("APPEND_RESPONSE", 2, 1, term=2, reject=True, index=2, hint=1, log_term=1))
    assert [view.match for view in cluster[1].progress() if view.id == 2] == [3]


def test_figure_2_an_acknowledgement_beyond_the_log_is_refused() -> None:
    """A member cannot hold what was never sent: such an answer is nonsense, and no reason to commit or to stop."""
    cluster = alone((1,), term=1)
    lead_alone(cluster)
    before = cluster[1].status()
    assert cluster.give(Message("APPEND_RESPONSE", 2, 1, term=2, index=99)) not in ("OK", "INVARIANT_BROKEN")
    assert cluster[1].status().committed == before.committed
