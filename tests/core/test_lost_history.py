"""A folder that was put back to an older copy is noticed where a member can know (divergence.md "Lost history")."""

from __future__ import annotations

import pytest

from tests.core.cluster import Cluster, membership_of
from tests.core.scenes import alone, append_to, led
from tests.faces.core import CoreBroken, CoreHandle, HardState, Message, SnapshotPoint, make_records

TRUNCATED_COMMITTED = 10
ACKNOWLEDGED_LOST = 23


def knowing(committed: int) -> Cluster:
    """Member 1 with the entries 1 to 4 of term 1, which knows by its disk how many are committed."""
    cluster = Cluster()
    cluster.add_with_log(1, (1, 2, 3), (1, 1, 1, 1), term=1)
    cluster.nodes[1].disk.hard_state = HardState(1, 0, committed)
    cluster.start(1)
    return cluster


def not_applied_yet(committed: int) -> CoreHandle:
    """The same member before it has applied anything."""
    core = CoreHandle(1)
    assert core.restore_membership(membership_of([1, 2, 3]), SnapshotPoint()) == "OK"
    assert core.restore_records(make_records([(1, b"1")] * 4)) == "OK"
    assert core.restored(HardState(1, 0, committed), 0) == "OK"
    return core


def history_lost(cluster: Cluster, message: Message) -> tuple[int, int, int]:
    """The belief that broke and its two facts."""
    with pytest.raises(CoreBroken) as caught:
        cluster.give(message)
    assert caught.value.status == "HISTORY_LOST"
    return caught.value.broken, caught.value.a, caught.value.b


def test_a_committed_entry_is_never_cut_silently() -> None:
    """paper 5.4.3: each leader has what is committed, unless a voter forgot what it acknowledged."""
    assert history_lost(knowing(3), append_to(knowing(3), 1, [2, 2], term=2)) == (TRUNCATED_COMMITTED, 2, 3)


def test_an_entry_that_is_not_known_as_committed_is_cut_as_ever() -> None:
    """paper 5.3."""
    cluster = knowing(1)
    assert cluster.give(append_to(cluster, 1, [2, 2], term=2)) == "OK"
    assert [entry.term for entry in cluster[1].log()] == [1, 2, 2]


def test_a_probe_behind_which_a_committed_entry_differs_says_enough() -> None:
    """The leader's entry in front of the records is of another term than the committed one here."""
    probe = Message("APPEND", 2, 1, term=3, index=3, log_term=2)
    assert history_lost(knowing(3), probe) == (TRUNCATED_COMMITTED, 3, 3)


@pytest.mark.parametrize("after", [1, 2])
def test_another_past_of_equal_index_and_term_is_noticed(after: int) -> None:
    """A voter that was put back votes twice in a term: two leaders of term 1 wrote different entries."""
    cluster = knowing(3)
    chain = cluster[1].log()[after - 1].chain if after == 1 else 4242
    records = make_records([(1, b"other")], index=after, chain=chain)
    message = Message("APPEND", 2, 1, term=1, index=after, log_term=1, count=1, records=records)
    assert history_lost(cluster, message)[0] == TRUNCATED_COMMITTED


def test_another_past_behind_what_is_committed_is_refused_and_stops_nobody() -> None:
    """It may be a mistake of the sender: nothing that was promised is at stake."""
    cluster = knowing(1)
    records = make_records([(1, b"other")], index=2, chain=cluster[1].log()[1].chain)
    message = Message("APPEND", 2, 1, term=1, index=2, log_term=1, count=1, records=records)
    assert cluster.give(message) == "CORRUPT"


def test_a_snapshot_of_another_history_replaces_no_committed_entry() -> None:
    """Announced by its term, or installed with another chain hash."""
    announced = Message("SNAPSHOT", 2, 1, term=3, index=3, log_term=2)
    assert history_lost(knowing(3), announced) == (TRUNCATED_COMMITTED, 3, 3)
    for point in (SnapshotPoint(3, 2, 77), SnapshotPoint(3, 1, 77)):
        with pytest.raises(CoreBroken) as caught:
            not_applied_yet(3).snapshot_installed(point, membership_of([1, 2, 3]))
        assert (caught.value.status, caught.value.broken) == ("HISTORY_LOST", TRUNCATED_COMMITTED)


def test_a_member_whose_log_ends_before_what_it_acknowledged_stops() -> None:
    """A leader that stayed up clamps the commit index of its heartbeats to what the member acknowledged."""
    cluster = led(voters=3)
    old = dict(cluster.nodes[3].disk.records)
    for payload in (b"x", b"y", b"z"):
        cluster.act(1, "propose", [payload])
        cluster.settle()
    cluster.beat(1)
    cluster.crash(3)
    cluster.nodes[3].disk.records = old
    cluster.nodes[3].disk.hard_state = HardState(1, 1, 1)
    cluster.nodes[3].applied.clear()
    cluster.start(3)
    cluster.act(1, "peer_event", "PEER_CONNECTED", 3)
    with pytest.raises(CoreBroken) as caught:
        cluster.beat(1)
    assert (caught.value.status, caught.value.broken) == ("HISTORY_LOST", ACKNOWLEDGED_LOST)
    assert (caught.value.a, caught.value.b) == (4, 1)


def test_a_late_heartbeat_accuses_nobody() -> None:
    """The commit index of a heartbeat is at most what was acknowledged before it left."""
    cluster = alone((1, 1), term=1)
    cluster.give(append_to(cluster, 2, [1, 1], term=1))
    for commit in (2, 4, 3, 2):
        assert cluster.give(Message("HEARTBEAT", 2, 1, term=1, commit=commit, context=1)) == "OK"
