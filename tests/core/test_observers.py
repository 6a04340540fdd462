"""Observers: cores without a place in the membership, beside a cluster of real members (docs/observers.md "Rules")."""

from __future__ import annotations

import pytest

from tests.core.cluster import Cluster, Disk, Node, membership_of
from tests.core.scenes import led, payloads, sent
from tests.faces.core import CoreBroken, Entry, Message, make_records

OBSERVER, SECOND = 9, 8
TIMEOUT = 10
BEHIND, CUT_OFF, FULL, OTHER_HISTORY = 3, 2, 1, 5


def observed(*feeders: int, voters: int = 3, **options: object) -> Cluster:
    """A cluster led by 1, and an observer with links to these nodes, the first of which feeds it."""
    cluster = led(voters, **options)
    add_observer(cluster, OBSERVER, *(feeders or (2,)))
    return cluster


def add_observer(cluster: Cluster, id: int, *feeders: int) -> None:
    cluster.add_blank(id, is_observer=True)
    for feeder in feeders:
        cluster.act(id, "peer_event", "PEER_CONNECTED", feeder)
    cluster.settle()


def write(cluster: Cluster, *values: bytes) -> None:
    """Committed, and every member knows it."""
    for value in values:
        assert cluster.act(1, "propose", [value]) == "OK"
    cluster.settle()
    cluster.beat(1)


def log_of(cluster: Cluster, id: int = OBSERVER) -> list[Entry]:
    return cluster[id].log()


def rest(cluster: Cluster, ticks: int) -> None:
    """Time passes for all, and all that is said arrives."""
    for _ in range(ticks):
        cluster.tick_all()
        cluster.settle()


def test_an_observer_follows_what_is_committed() -> None:
    """Rule 1: it has the members' entries, in their order, and applies them."""
    cluster = observed(2)
    write(cluster, b"x", b"y")
    assert log_of(cluster) == cluster[1].log()
    assert payloads(cluster.nodes[OBSERVER].applied) == [b"x", b"y"]
    status = cluster[OBSERVER].status()
    assert (status.role, status.leader, status.feeder, status.feed_depth) == ("FOLLOWER", 1, 2, 1)
    assert cluster[2].status().feed_count == 1


def test_an_observer_gets_nothing_that_may_be_taken_back() -> None:
    """Rule 1: entries that a cut-off leader only appended stay there."""
    cluster = observed(1)
    cluster.partition((1, OBSERVER), (2, 3))
    cluster.act(1, "propose", [b"lost"])
    rest(cluster, 3)
    assert cluster[1].log()[-1].payload == b"lost"
    assert payloads(log_of(cluster)) == []


def test_an_observer_is_counted_nowhere() -> None:
    """Rule 2: with one of two voters and an observer nothing is committed, and nobody is elected."""
    cluster = observed(1, voters=2)
    cluster.partition((1, OBSERVER), (2,))
    before = cluster[1].status().committed
    cluster.act(1, "propose", [b"x"])
    rest(cluster, 3)
    assert cluster[1].status().committed == before
    rest(cluster, 3 * TIMEOUT)
    assert cluster[1].status().role != "LEADER"
    assert not [message for message in cluster.network if message.source == OBSERVER and "VOTE" in message.type]


@pytest.mark.parametrize("type", ["APPEND", "HEARTBEAT", "SNAPSHOT", "VOTE", "PRE_VOTE", "TIMEOUT_NOW", "TRANSFER"])
def test_an_observer_takes_no_message_of_a_leader_or_candidate(type: str) -> None:
    """Rule 2."""
    cluster = observed(2)
    before = cluster[OBSERVER].status()
    assert cluster.give(Message(type, 3, OBSERVER, before.term + 1, index=50, log_term=before.term)) == "STALE"
    assert cluster[OBSERVER].status() == before
    assert not cluster.network


def test_an_observer_takes_what_it_asked_for_and_nothing_else() -> None:
    """Rule 3: of its feeder, with the number of its open request, behind its own last entry, by chain."""
    cluster = observed(2)
    last = log_of(cluster)[-1]
    rest(cluster, 1)
    cluster.blocked = {(2, OBSERVER), (OBSERVER, 2)}
    number = feed_number(cluster)
    records = make_records([(last.term, b"x")], index=last.index, chain=last.chain)
    good = Message("FEED", 2, OBSERVER, last.term, index=last.index, log_term=last.term, commit=last.index + 1,
                   hint=number, context=1, count=1, records=records)  # fmt: skip
    for wrong in (good._replace(source=3), good._replace(hint=number + 1), good._replace(hint=number - 1)):
        cluster.blocked = set()
        assert cluster.give(wrong) == "STALE"
    assert log_of(cluster)[-1] == last
    assert cluster.give(good) == "OK"
    assert cluster.give(good) == "STALE"
    assert log_of(cluster)[-1].payload == b"x"
    assert cluster[OBSERVER].status().committed == last.index + 1


def feed_number(cluster: Cluster) -> int:
    """The number of the observer's open request: it asks again while it hears nothing."""
    cluster.drop()
    for _ in range(TIMEOUT):
        cluster.tick(OBSERVER)
        if asked := sent(cluster, "FEED_REQUEST"):
            cluster.drop()
            return asked[-1].hint
    raise AssertionError("it did not ask")


def test_a_feeder_that_is_silent_is_left_without_a_gap() -> None:
    """Within an election time-out; the log goes on where it ended."""
    cluster = observed(2, 3)
    first = cluster[OBSERVER].status().feeder
    cluster.blocked = {(first, OBSERVER)}
    write(cluster, b"x", b"y")
    rest(cluster, TIMEOUT + 4)
    assert cluster[OBSERVER].status().feeder not in (0, first)
    assert log_of(cluster) == cluster[1].log()
    assert payloads(cluster.nodes[OBSERVER].applied) == [b"x", b"y"]


def test_a_feeder_whose_connection_broke_is_left_at_once() -> None:
    cluster = observed(2, 3)
    first = cluster[OBSERVER].status().feeder
    cluster.act(OBSERVER, "peer_event", "PEER_REFUSED", first)
    cluster.settle()
    assert cluster[OBSERVER].status().feeder == 5 - first


def test_the_leader_feeds_only_when_there_is_no_other() -> None:
    """It has the most to do. Once an observer knows who leads, it prefers the others."""
    cluster = observed(1, 2, 3)
    for _ in range(5):
        feeder = cluster[OBSERVER].status().feeder
        cluster.act(OBSERVER, "peer_event", "PEER_UNREACHABLE", feeder)
        cluster.act(OBSERVER, "peer_event", "PEER_CONNECTED", feeder)
        cluster.settle()
        assert cluster[OBSERVER].status().feeder in (2, 3)


def test_a_feeder_that_lies_behind_is_left() -> None:
    """Member 3 was cut off before the writes that the observer has; it says so, and another one is asked."""
    cluster = observed(2, 3)
    cluster.act(OBSERVER, "peer_event", "PEER_UNREACHABLE", 3)
    cluster.settle()
    cluster.partition((1, 2, OBSERVER), (3,))
    write(cluster, b"x")
    assert payloads(log_of(cluster)) == [b"x"]
    cluster.partition((1, 2), (3, OBSERVER))
    cluster.act(OBSERVER, "peer_event", "PEER_CONNECTED", 3)
    cluster.act(OBSERVER, "peer_event", "PEER_UNREACHABLE", 2)
    rest(cluster, 2)
    assert cluster[OBSERVER].status().feeder == 3
    cluster.heal()
    cluster.blocked = {(1, 3), (3, 1), (2, 3), (3, 2)}
    cluster.act(OBSERVER, "peer_event", "PEER_CONNECTED", 2)
    rest(cluster, TIMEOUT + 4)
    assert cluster[OBSERVER].status().feeder == 2
    assert payloads(log_of(cluster)) == [b"x"]


def test_an_observer_of_another_history_stops() -> None:
    """Its committed entry is another one than its feeder's: its folder belongs elsewhere."""
    cluster = observed(2)
    last = log_of(cluster)[-1]
    number = feed_number(cluster)
    refusal = Message("FEED", 2, OBSERVER, last.term, hint=number, reject=True, flags=OTHER_HISTORY)
    with pytest.raises(CoreBroken, match="HISTORY_LOST"):
        cluster[OBSERVER].step(refusal)


def test_a_feeder_finds_another_history() -> None:
    """By term, and by chain hash."""
    cluster = observed(2)
    last = cluster[2].log()[-1]
    for asked in ({"log_term": last.term + 1, "context": last.chain}, {"log_term": last.term, "context": 77}):
        cluster.network.clear()
        cluster.give(Message("FEED_REQUEST", SECOND, 2, 0, index=last.index, hint=1, **asked))
        (said,) = sent(cluster, "FEED")
        assert (said.reject, said.flags & 15) == (True, OTHER_HISTORY)


def test_a_feeder_has_eight_places() -> None:
    cluster = led()
    for id in range(20, 28):
        cluster.give(Message("FEED_REQUEST", id, 2, 0, hint=1))
    assert cluster[2].status().feed_count == 8
    cluster.network.clear()
    cluster.give(Message("FEED_REQUEST", 28, 2, 0, hint=1))
    (said,) = sent(cluster, "FEED")
    assert (said.target, said.reject, said.flags & 15) == (28, True, FULL)
    cluster.drop()
    for _ in range(2 * TIMEOUT + 1):
        cluster.tick_all()
        cluster.drop(lambda message: message.target >= 20)
        cluster.settle()
    assert cluster[2].status().feed_count == 0


def test_a_place_is_free_when_its_observer_is_gone() -> None:
    """At once, and not after two election time-outs: those that it fed look for places now."""
    cluster = observed(2, feeds_max=1)
    add_observer(cluster, SECOND, 2)
    assert cluster[SECOND].status().feeder == 0
    cluster.act(2, "peer_event", "PEER_UNREACHABLE", OBSERVER)
    assert cluster[2].status().feed_count == 1
    cluster.act(2, "peer_event", "PEER_REFUSED", OBSERVER)
    assert cluster[2].status().feed_count == 0
    cluster.crash(OBSERVER)
    rest(cluster, TIMEOUT + 2)
    assert cluster[SECOND].status().feeder == 2


def test_an_observer_feeds_another_one() -> None:
    """A chain: what is committed reaches its end, and reads and writes of the end reach the leader."""
    cluster = observed(2)
    add_observer(cluster, SECOND, OBSERVER)
    write(cluster, b"x")
    assert log_of(cluster, SECOND) == cluster[1].log()
    assert (cluster[SECOND].status().feeder, cluster[SECOND].status().feed_depth) == (OBSERVER, 2)
    assert cluster.act(SECOND, "propose", [b"y"], context=5, is_waiting=True) == "OK"
    cluster.act(SECOND, "read_index", 7)
    cluster.settle()
    cluster.beat(1)
    cluster.settle()
    assert payloads(cluster.nodes[SECOND].applied) == [b"x", b"y"]
    assert [(read.context, read.status) for read in cluster.nodes[SECOND].reads] == [(7, "OK")]


def test_an_observer_that_stands_deep_looks_for_a_place_further_up() -> None:
    """The last of a chain of five finds a member; those that feed others stay."""
    cluster = observed(2)
    for id in range(20, 24):
        add_observer(cluster, id, OBSERVER if id == 20 else id - 1)
    assert [cluster[id].status().feed_depth for id in (20, 21, 22, 23)] == [2, 3, 4, 5]
    for id in (20, 22, 23):
        cluster.act(id, "peer_event", "PEER_CONNECTED", 3)
    for _ in range(1000):
        if cluster[23].status().feeder == 3:
            break
        rest(cluster, 1)
    assert (cluster[23].status().feeder, cluster[23].status().feed_depth) == (3, 1)
    assert cluster[20].status().feeder == OBSERVER
    write(cluster, b"x")
    assert log_of(cluster, 23) == cluster[1].log()


def test_an_observer_that_is_cut_off_feeds_nobody() -> None:
    """Rule 5: the one that it fed hears so within a heartbeat, and a circle of two does not begin."""
    cluster = observed(2)
    add_observer(cluster, SECOND, OBSERVER)
    cluster.act(OBSERVER, "peer_event", "PEER_CONNECTED", SECOND)
    cluster.act(OBSERVER, "peer_event", "PEER_REFUSED", 2)
    rest(cluster, 4)
    assert cluster[OBSERVER].status().feeder == 0 or cluster[SECOND].status().feeder == 0
    rest(cluster, 8 * TIMEOUT)
    for id in (OBSERVER, SECOND):
        assert cluster[id].status().leader == 0


def test_one_that_a_cut_off_observer_fed_goes_elsewhere() -> None:
    """Rule 5: its feeder has no feeder any more, and says so instead of that there is no news."""
    cluster = observed(2)
    add_observer(cluster, SECOND, OBSERVER)
    cluster.act(SECOND, "peer_event", "PEER_CONNECTED", 3)
    cluster.act(OBSERVER, "peer_event", "PEER_REFUSED", 2)
    rest(cluster, 4)
    assert cluster[SECOND].status().feeder == 3


def test_a_refusal_comes_back_to_the_observer_that_asked() -> None:
    """The leader hands over and takes no proposal: the observer's caller hears that nothing was done."""
    cluster = observed(2)
    refused: list[tuple[int, str]] = []
    cluster.watcher = lambda node, ready: refused.extend(
        (one.context, one.status) for one in ready.refusals if node.id == OBSERVER
    )
    cluster.blocked = {(1, 3), (3, 1)}
    cluster.act(1, "transfer", 3)
    assert cluster.act(OBSERVER, "propose", [b"x"], context=5) == "OK"
    cluster.settle()
    assert refused == [(5, "NOT_READY")]


def test_a_read_of_an_observer_is_not_older_than_what_was_committed_before() -> None:
    """I13: its feeder lags, and the answer names the leader's commit index."""
    cluster = observed(2)
    cluster.blocked = {(1, 2)}
    cluster.act(1, "propose", [b"x"])
    cluster.settle()
    committed = cluster[1].status().committed
    cluster.blocked = set()
    cluster.act(OBSERVER, "read_index", 7)
    cluster.settle()
    cluster.beat(1)
    cluster.settle()
    (read,) = cluster.nodes[OBSERVER].reads
    assert (read.status, read.index >= committed) == ("OK", True)


def test_an_observer_far_behind_is_offered_a_snapshot() -> None:
    """The feeder's log does not reach back: the observer installs the state, and follows from there."""
    cluster = led()
    write(cluster, b"x", b"y")
    for id in (1, 2, 3):
        assert cluster.compact(id, 2) == "OK"
    add_observer(cluster, OBSERVER, 2)
    assert cluster.nodes[2].snapshots_needed == [OBSERVER]
    cluster.send_snapshot(2, OBSERVER)
    rest(cluster, 6)
    write(cluster, b"z")
    assert cluster[OBSERVER].status().last == cluster[1].status().last
    assert payloads(cluster.nodes[OBSERVER].applied)[-1] == b"z"


def test_an_observer_mends_its_damaged_record() -> None:
    """The feed begins before it."""
    cluster = observed(2)
    write(cluster, b"x", b"y", b"z")
    cluster.crash(OBSERVER)
    cluster.damage(OBSERVER, 3)
    cluster.start(OBSERVER)
    assert cluster[OBSERVER].status().is_repairing
    cluster.act(OBSERVER, "peer_event", "PEER_CONNECTED", 2)
    rest(cluster, 4)
    assert not cluster[OBSERVER].status().is_repairing
    assert log_of(cluster) == cluster[1].log()


def test_an_observer_that_starts_again_goes_on_where_it_ended() -> None:
    cluster = observed(2)
    write(cluster, b"x")
    cluster.crash(OBSERVER)
    write(cluster, b"y")
    cluster.start(OBSERVER)
    cluster.act(OBSERVER, "peer_event", "PEER_CONNECTED", 3)
    cluster.settle()
    assert log_of(cluster) == cluster[1].log()
    assert payloads(cluster.nodes[OBSERVER].applied) == [b"x", b"y"]


def test_an_observer_hears_of_a_new_leader() -> None:
    """The callers look at leader and term, and propose waiting commands of the observer to the new leader."""
    cluster = observed(3)
    cluster.elect(2)
    rest(cluster, TIMEOUT + 4)
    status = cluster[OBSERVER].status()
    assert (status.leader, status.term) == (2, cluster[2].status().term)
    cluster.act(2, "propose", [b"x"])
    cluster.settle()
    cluster.beat(2)
    assert payloads(cluster.nodes[OBSERVER].applied) == [b"x"]


def test_a_member_is_fed_by_nobody() -> None:
    """Rule 6: whom the membership names hears from its leader."""
    cluster = led()
    assert cluster.give(Message("FEED_REQUEST", 3, 2, 0, hint=1)) == "STALE"
    assert cluster[2].status().feed_count == 0


def test_an_observer_learns_the_founding_membership_which_stands_in_no_entry() -> None:
    """From its feeder, with its first request. A later one stands in the log."""
    cluster = led()
    cluster.nodes[OBSERVER] = Node(OBSERVER, Disk(membership_of([])), {"is_observer": True})
    cluster.start(OBSERVER)
    assert cluster[OBSERVER].membership().members == ()
    cluster.act(OBSERVER, "peer_event", "PEER_CONNECTED", 2)
    cluster.settle()
    assert cluster[OBSERVER].membership() == cluster[2].membership()
