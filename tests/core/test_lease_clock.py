"""The lease clock goes on where the last leader left it (divergence.md "Time"; rules by their numbers there)."""

from __future__ import annotations

import pytest

from tests.core.cluster import Cluster
from tests.core.scenes import alone, led
from tests.faces.core import Message, make_records

TICK_MS = 10
TIMEOUT_TICKS = 10


def clock(cluster: Cluster, leader: int) -> int:
    return cluster[leader].status().lease_ms


def pass_ticks(cluster: Cluster, count: int) -> None:
    """Everybody's clock advances; what is said is heard at once."""
    for _ in range(count):
        cluster.tick_all()
        cluster.settle()


def hand_over(cluster: Cluster, source: int, target: int) -> None:
    cluster.act(source, "transfer", target)
    cluster.settle()
    assert cluster[target].status().role == "LEADER"


@pytest.mark.parametrize("every", [3, 5, 20])
def test_an_idle_cluster_loses_no_time_with_any_number_of_changes(every: int) -> None:
    """etcd#9395, #15247. Init: an idle cluster. Act: leaders come and go. Check: the clock shows the time."""
    cluster = led(voters=3)
    begun, changes, leader = clock(cluster, 1), 30, 1
    for _ in range(changes):
        pass_ticks(cluster, every)
        hand_over(cluster, leader, leader % 3 + 1)
        leader = leader % 3 + 1
    pass_ticks(cluster, 2)
    passed_ms = clock(cluster, leader) - begun
    assert (changes * every + 1) * TICK_MS <= passed_ms <= (changes * every + 2) * TICK_MS


def test_a_leader_that_dies_costs_at_most_the_time_without_a_leader() -> None:
    """Rule 4: of a time without a leader one election time-out counts, and never more than has passed."""
    cluster = led(voters=3)
    pass_ticks(cluster, 20)
    before = clock(cluster, 1)
    cluster.crash(1)
    cluster.tick_all(3 * TIMEOUT_TICKS)
    cluster.drop()
    cluster.elect(2)
    pass_ticks(cluster, 2)
    assert before + (TIMEOUT_TICKS - 1) * TICK_MS <= clock(cluster, 2) <= before + (TIMEOUT_TICKS + 3) * TICK_MS


def test_a_clock_that_no_quorum_confirms_is_at_most_one_election_time_out_ahead() -> None:
    """Rule 1: a leader that only one follower hears tells it no more than that."""
    cluster = led(voters=5)
    pass_ticks(cluster, 20)
    before = clock(cluster, 1)
    cluster.partition([1, 2], [3, 4, 5])
    for _ in range(3 * TIMEOUT_TICKS):
        cluster.tick(1)
        cluster.deliver()
    told = [message.lease_ms for message in cluster.network if message.type == "HEARTBEAT"]
    assert all(lease_ms <= before + TIMEOUT_TICKS * TICK_MS for lease_ms in told)


def test_a_candidate_that_heard_nothing_for_long_learns_the_clock_from_a_vote() -> None:
    """Rules 3 and 4: a quorum was told the clock, and a candidate asks a quorum."""
    cluster = led(voters=3)
    cluster.partition([1, 2], [3])
    pass_ticks(cluster, 100)
    before = clock(cluster, 1)
    assert before >= 95 * TICK_MS
    cluster.crash(1)
    cluster.heal()
    cluster.elect(3)
    assert clock(cluster, 3) >= before


def test_a_member_that_did_not_restart_does_not_lead_by_a_clock_that_the_others_forgot() -> None:
    """Rule 2. Init: all were told a late clock; 1 and 2 restart while 3 is cut off; 1 leads by the log's clock and
    grants a lease. Act: 3 takes that entry and leads. Check: its clock goes on from the entry."""
    cluster = led(voters=3)
    pass_ticks(cluster, 100)
    late = clock(cluster, 1)
    cluster.partition([1, 2], [3])
    cluster.restart(1)
    cluster.restart(2)
    cluster.elect(1)
    cluster.act(1, "propose", [b"grant"])
    cluster.settle()
    granted = cluster[1].log()[-1].lease_ms
    assert granted < late - 50 * TICK_MS
    cluster.heal()
    cluster.act(1, "peer_event", "PEER_CONNECTED", 3)
    cluster.settle()
    hand_over(cluster, 1, 3)
    pass_ticks(cluster, 2)
    assert granted <= clock(cluster, 3) < granted + 2 * TIMEOUT_TICKS * TICK_MS


def test_the_clock_of_a_leader_is_believed_only_by_a_log_that_ends_with_its_entries() -> None:
    """Rule 2: what another leader's entry granted is not judged by this one's clock."""
    cluster = led(voters=3)
    cluster.give(Message("HEARTBEAT", 2, 3, term=2, context=1, lease_ms=10**6))
    cluster.drop()
    cluster.crash(2)
    cluster.elect(3)
    assert clock(cluster, 3) < 10**6


def test_an_entry_carries_the_time_that_no_quorum_has_confirmed_yet() -> None:
    """Rule 1: else the next leader would take that time from a lease that was granted at its end."""
    cluster = led(voters=3)
    pass_ticks(cluster, 20)
    before = clock(cluster, 1)
    for _ in range(TIMEOUT_TICKS - 2):
        cluster.tick(1)
        cluster.tick(2)
        cluster.drop()
    cluster.act(1, "propose", [b"grant"])
    granted = cluster[1].log()[-1].lease_ms
    assert granted == before + (TIMEOUT_TICKS - 2) * TICK_MS
    assert clock(cluster, 1) == before
    cluster.deliver(lambda message: message.type == "APPEND" and message.target == 2)
    cluster.crash(1)
    cluster.drop()
    cluster.elect(2)
    assert cluster[2].log()[-2].payload == b"grant"
    assert clock(cluster, 2) == granted


def test_time_before_a_lease_was_granted_is_not_credited_to_it() -> None:
    """Rule 5. Init: a leader's clock jumps between two rounds, so the time since the last one does not count. Act: it
    grants a lease, and another member leads. Check: that member counted the time, and does not charge the lease for
    it."""
    cluster = led(voters=3, heartbeat_ticks=8)
    pass_ticks(cluster, 24)
    before = clock(cluster, 1)
    pass_ticks(cluster, 7)
    cluster.act(1, "peer_event", "CLOCK_JUMPED", 0)
    cluster.drop()
    cluster.act(1, "propose", [b"grant"])
    granted = cluster[1].log()[-1].lease_ms
    assert granted == before
    cluster.deliver(lambda message: message.type == "APPEND" and message.target == 2)
    cluster.crash(1)
    cluster.drop()
    cluster.elect(2)
    assert cluster[2].log()[-2].payload == b"grant"
    assert clock(cluster, 2) == granted


def test_an_entry_that_comes_late_does_not_set_the_clock_back() -> None:
    """Rule 5: a member that was told more since the entry was made goes on from there."""
    cluster = led(voters=3)
    pass_ticks(cluster, 20)
    cluster.act(1, "propose", [b"grant"])
    granted = cluster[1].log()[-1].lease_ms
    for _ in range(TIMEOUT_TICKS // 2):
        cluster.tick(1)
        cluster.tick(2)
        cluster.deliver(lambda message: message.type != "APPEND")
    assert cluster[2].status().last == cluster[1].status().last - 1
    cluster.deliver(lambda message: message.type == "APPEND" and message.target == 2)
    cluster.crash(1)
    cluster.drop()
    cluster.elect(2)
    assert clock(cluster, 2) == granted + TIMEOUT_TICKS // 2 * TICK_MS


def test_an_entry_of_an_older_build_costs_a_lease_at_most_one_time_out() -> None:
    """docs/operations.md "Upgrade". Init: a leader of an older build tells its clock, and then grants a lease by the
    clock that a quorum had confirmed, as its builds did. Act: a member of this build leads. Check: its clock charges
    the lease for the time between, and for no more than an election time-out."""
    confirmed, told = 1050, 1100
    cluster = alone((1,), term=2)
    for index, lease_ms in ((1, 1000), (2, confirmed)):
        records = make_records([(2, b"grant")], index=index, chain=cluster[1].log()[index - 1].chain, lease_ms=lease_ms)
        append = Message("APPEND", 2, 1, 2, index, index, index, count=1, records=records)
        assert cluster.give(append) == "OK"
        if index == 1:
            assert cluster.give(Message("HEARTBEAT", 2, 1, term=2, context=1, lease_ms=told)) == "OK"
            cluster.tick(1, TIMEOUT_TICKS // 2)
    assert [record.lease_ms for record in cluster[1].log()[1:]] == [1000, confirmed]
    cluster.act(1, "campaign")
    cluster.give(Message("PRE_VOTE_RESPONSE", 3, 1, term=3))
    cluster.give(Message("VOTE_RESPONSE", 3, 1, term=3))
    assert cluster[1].status().role == "LEADER"
    assert confirmed < clock(cluster, 1) <= confirmed + TIMEOUT_TICKS * TICK_MS


@pytest.mark.parametrize("lease_ms", [2**62, 2**43])
def test_a_clock_of_another_century_is_refused(lease_ms: int) -> None:
    """The clock never goes back, so one false word would end all leases for ever. Of a leader, and of a voter."""
    cluster = led(voters=3)
    assert cluster.give(Message("HEARTBEAT", 1, 2, term=1, context=99, lease_ms=lease_ms)) == "BAD_FIELD"
    assert clock(cluster, 2) < 10**6
    cluster = alone((1,), term=1)
    cluster.act(1, "campaign")
    cluster.give(Message("PRE_VOTE_RESPONSE", 3, 1, term=2))
    assert cluster.give(Message("VOTE_RESPONSE", 2, 1, term=2, lease_ms=lease_ms)) == "BAD_FIELD"
    assert cluster[1].status().role == "CANDIDATE"
    cluster.give(Message("VOTE_RESPONSE", 3, 1, term=2))
    assert cluster[1].status().role == "LEADER"
    assert clock(cluster, 1) < 10**6
