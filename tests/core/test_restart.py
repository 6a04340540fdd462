"""What a member may believe after a restart: its disk, and nothing more (paper 5.5; divergence.md "Repair")."""

from __future__ import annotations

import pytest

from tests.core.cluster import Cluster
from tests.core.scenes import led, payloads
from tests.faces.core import Message, SnapshotPoint, make_records, read_records


def test_the_commit_hint_of_a_repair_names_no_entry_that_is_not_on_the_disk_yet() -> None:
    """divergence.md "The commit index on disk is a hint": never of entries that the disk holds in another version.

    Init: 1 has a damaged entry 2 and entries 3 and 4 of term 1; a slow write of its new term is under way.
    Act: the leader of term 3 replaces 3 and 4 and says that they are committed; 2 is repaired, which is written first;
    the member crashes when only that write is done.
    Check: it does not believe that its old entries 3 and 4 are committed.
    """
    cluster = Cluster()
    cluster.add_with_log(1, (1, 2, 3), (1, 1, 1, 1), term=1)
    disk = cluster.nodes[1].disk
    sound = disk.records[2]
    chain = disk.damaged[2] = read_records(sound)[0].chain
    cluster.nodes[1].is_slow = True
    cluster.start(1)
    cluster.give(Message("HEARTBEAT", 2, 1, term=2, context=1))
    records = make_records([(3, b"x"), (3, b"y")], index=2, chain=chain)
    append = Message("APPEND", 3, 1, term=3, index=2, log_term=1, commit=4, count=2, records=records)
    cluster.give(Message("ENTRY_RESPONSE", 2, 1, index=2, context=chain, count=1, records=sound))
    cluster.give(append)
    cluster.persist(1)
    assert cluster.nodes[1].writes[0].repairs
    cluster.persist(1)
    cluster.truth.clear()
    cluster.restart(1)
    assert cluster[1].status().committed <= 2


def test_a_damaged_member_asks_every_connected_peer() -> None:
    """divergence.md "Repair": who is no member by what its own log says may be one by now; the hash is the proof.

    Init: 1 of the members 1, 2, 3 has a damaged entry 2; 9 is connected, then not, then again.
    Check: 9 is asked while it is connected, and its answer mends the entry.
    """
    cluster = Cluster()
    cluster.add_with_log(1, (1, 2, 3), (1, 1, 1), term=1)
    disk = cluster.nodes[1].disk
    sound = disk.records[2]
    chain = disk.damaged[2] = read_records(sound)[0].chain
    cluster.start(1)
    for event, asked in (("PEER_CONNECTED", {2, 3, 9}), ("PEER_UNREACHABLE", {2, 3}), ("PEER_CONNECTED", {2, 3, 9})):
        cluster.network.clear()
        cluster.act(1, "peer_event", event, 9)
        cluster.tick(1, 2)
        assert {message.target for message in cluster.network if message.type == "ENTRY_REQUEST"} == asked
    assert cluster.give(Message("ENTRY_RESPONSE", 9, 1, index=2, context=chain, count=1, records=sound)) == "OK"
    assert not cluster[1].status().is_repairing


def test_a_member_restarted_under_the_same_leader_learns_the_commit_index_without_a_new_entry() -> None:
    """Heartbeats are clamped to what an APPEND has proved; the leader proves it again when the connection is new."""
    cluster = led()
    cluster.act(1, "propose", [b"x"])
    cluster.settle()
    cluster.beat(1)
    cluster.restart(3)
    assert cluster[3].status().committed == 0
    cluster.act(1, "peer_event", "PEER_CONNECTED", 3)
    cluster.settle()
    cluster.beat(1)
    assert payloads(cluster.nodes[3].applied) == [b"x"]


def test_an_unsaid_vote_is_forgotten_by_a_crash_and_a_said_one_is_not() -> None:
    """paper Figure 2: what a crash takes away, nobody has heard of."""
    cluster = Cluster.of(3)
    cluster.nodes[1].is_slow = True
    cluster.give(Message("VOTE", 2, 1, term=1))
    cluster.restart(1)
    assert cluster[1].status().vote == 0
    cluster.give(Message("VOTE", 3, 1, term=1))
    cluster.persist(1)
    cluster.restart(1)
    assert cluster[1].status().vote == 3


def test_entries_not_yet_durable_are_gone_after_a_crash_and_were_not_acknowledged() -> None:
    """I5: the acknowledgement waits inside the core for the write that it is about."""
    cluster = led()
    cluster.nodes[3].is_slow = True
    cluster.act(1, "propose", [b"x"])
    cluster.deliver(lambda message: message.target == 3)
    assert payloads(cluster[3].log()) == [b"x"]
    assert [message for message in cluster.network if message.source == 3] == []
    cluster.restart(3)
    assert payloads(cluster[3].log()) == []


def member_with_damaged_entry(index: int) -> Cluster:
    """Member 1 acknowledged entries 1 to 4 of term 1; the record at index is damaged on its disk."""
    cluster = Cluster()
    cluster.add_with_log(1, (1, 2, 3), (1, 1, 1, 1), term=1)
    disk = cluster.nodes[1].disk
    disk.damaged[index] = read_records(disk.records[index])[0].chain
    cluster.start(1)
    return cluster


@pytest.mark.parametrize("damaged", [1, 2, 3])
def test_a_snapshot_keeps_what_was_acknowledged_behind_a_damaged_record(damaged: int) -> None:
    """I8: entries 3 and 4 were acknowledged; a snapshot up to 2, whose entry is known by its chain hash, drops none."""
    cluster = member_with_damaged_entry(damaged)
    disk = cluster.nodes[1].disk
    point = SnapshotPoint(2, 1, read_records(disk.records[2])[0].chain)
    disk.install(point, cluster[1].membership())
    assert cluster.act(1, "snapshot_installed", point, cluster[1].membership()) == "OK"
    status = cluster[1].status()
    assert (status.compacted, status.committed, status.last) == (2, 2, 4)
    assert status.is_repairing == (damaged > 2)
    append = Message("APPEND", 2, 1, term=1, index=2, log_term=1, commit=2)
    assert cluster.give(append) == "OK"
    assert [(m.type, m.reject, m.index) for m in cluster.network if m.type == "APPEND_RESPONSE"] == [
        ("APPEND_RESPONSE", False, 2)
    ]


def test_a_snapshot_of_another_history_drops_the_log() -> None:
    """paper 7: the chain hash at the point tells the two apart."""
    cluster = member_with_damaged_entry(2)
    assert cluster.act(1, "snapshot_installed", SnapshotPoint(2, 2, 12345), cluster[1].membership()) == "OK"
    assert cluster[1].status().last == 2
