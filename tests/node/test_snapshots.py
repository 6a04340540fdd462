"""Snapshots on real nodes: the log stays short, a restart is quick, and a member that was away gets the state."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import raftmeta
from raftmeta import snapshot
from raftmeta.testing import Cluster
from tests.node.nodes import MIB, leader_of, running
from tests.processes.waiting import wait_until

KIB = 1024
SETTINGS = {
    "heartbeat_s": 0.03, "election_timeout_s": 0.15, "reserve_bytes": 0, "close_timeout_s": 5.0, "checks": True,
    "segment_bytes": 64 * KIB, "wal_bytes_max": 2 * MIB, "log_memory_bytes_max": MIB, "snapshot_entries": 500,
}  # fmt: skip


def write_many(node: raftmeta.Node, count: int, *, keys: int = 100, value: bytes = b"v" * 100) -> None:
    """Pipelined overwrites of a few keys, all acknowledged on return."""

    async def write() -> None:
        face = node.aio()
        for first in range(0, count, 1000):
            batch = range(first, min(first + 1000, count))
            await asyncio.gather(*(face.put(f"key-{i % keys}", value + b"%d" % i, timeout_s=30) for i in batch))

    asyncio.run(write())


def write_until_cut(leader: raftmeta.Node, count: int, *, applied: int) -> None:
    """Writes at least count, and until the log begins above what was applied."""
    write_many(leader, count)

    def is_cut() -> bool:
        write_many(leader, 600)  # a point that came while a checkpoint was written was passed over
        return leader.metrics()["log_first"] > applied

    wait_until(is_cut, timeout_s=40, what="the log to be cut")


def alike(nodes: list[raftmeta.Node]) -> bool:
    told = [node.status() for node in nodes]
    return len({(one.applied, one.state_hash) for one in told}) == 1


def told_index(node: raftmeta.Node, name: str) -> int:
    """The index in the newest event of this name."""
    return [int(event.facts["index"]) for event in node.events(timeout_s=0) if event.name == name][-1]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(3, config=raftmeta.Config(**SETTINGS), folder=tmp_path) as running:  # type: ignore[arg-type]
        yield running


def test_the_log_stays_short_under_endless_overwrites(tmp_path: Path) -> None:
    """features.md 21 is the class: three times wal_bytes_max is written, and growth is never refused."""
    with running(tmp_path, **SETTINGS) as nodes:
        leader = leader_of(nodes)
        write_many(leader, 36_000)
        assert leader.metrics()["log_write_bytes"] > 6 * MIB
        wait_until(lambda: alike(list(nodes.values())), timeout_s=40, what="all to have the same")

        def is_cut() -> bool:
            write_many(leader, 600)  # a point that came while a checkpoint was written was passed over
            return all(node.metrics()["log_bytes"] < MIB for node in nodes.values())

        wait_until(is_cut, timeout_s=60, what="the log to be cut")
        for node in nodes.values():
            assert node.metrics()["snapshots_taken"] > 5
            assert node.metrics()["log_first"] > 25_000
            assert list((tmp_path / node.name).glob("*.sealed")) == []  # made only for one who asks for the state


def test_a_restart_begins_at_the_newest_snapshot(cluster: Cluster) -> None:
    """All members at once: state, sessions and revisions are as before, and what the snapshot has is not replayed."""
    write_many(cluster.leader(), 4000)

    def all_have_one() -> bool:
        write_many(cluster.leader(), 600)  # a point that came while a checkpoint was written was passed over
        return all(node.metrics()["snapshot_index"] > 3000 for node in cluster.running())

    wait_until(all_have_one, timeout_s=40, what="a snapshot of each member")
    wait_until(lambda: alike(cluster.running()), timeout_s=40, what="all to have the same")
    before = cluster.leader().get("key-7")
    newest = {node.name: node.metrics()["snapshot_index"] for node in cluster.running()}
    for name in cluster.names:
        cluster.kill(name)
    cluster.start()
    for node in cluster.running():
        loaded = told_index(node, "snapshot_loaded")
        assert loaded >= newest[node.name]
        replayed = node.metrics()["entries_applied"]
        assert replayed <= node.status().applied - loaded
        assert node.get("key-7") == before
    wait_until(lambda: alike(cluster.running()), timeout_s=40, what="all to have the same")


def test_a_member_that_was_away_gets_the_state(cluster: Cluster) -> None:
    """paper 7: what it needs of the log is gone; writes go on meanwhile."""
    behind = cluster.followers()[0].name
    applied = cluster.node(behind).status().applied
    cluster.kill(behind)
    write_until_cut(cluster.leader(), 5000, applied=applied)
    node = cluster.restart(behind)
    write_many(cluster.leader(), 200)
    wait_until(lambda: alike(cluster.running()), timeout_s=40, what="all to have the same")
    assert node.metrics()["snapshots_installed"] >= 1
    entries = node.metrics()["entries_applied"]
    assert entries <= node.status().applied - (told_index(node, "snapshot_installed") - applied)


def test_a_member_that_falls_behind_again_gets_a_state_from_which_the_log_leads_on(cluster: Cluster) -> None:
    """A file made for the first time it was behind is older than what the log still has: offered once more, it would
    bring the member nowhere, again and again."""
    leader, behind = cluster.leader(), cluster.followers()[0].name
    for _ in range(3):
        applied = cluster.node(behind).status().applied
        cluster.kill(behind)
        write_until_cut(leader, 5000, applied=applied)
        assert cluster.restart(behind).metrics()["snapshots_installed"] == 1
        wait_until(lambda: alike(cluster.running()), timeout_s=40, what="all to have the same")
    for node in cluster.running():
        assert len(list((cluster.folder / node.name).glob("*.sealed"))) <= 1


def test_a_wiped_member_gets_the_state_and_its_vote_back(cluster: Cluster) -> None:
    wiped = cluster.followers()[0].name
    write_until_cut(cluster.leader(), 4000, applied=1)
    cluster.wipe(wiped)
    node = cluster.restart(wiped)
    wait_until(lambda: alike(cluster.running()), timeout_s=20, what="all to have the same")
    assert node.metrics()["snapshots_installed"] >= 1
    wait_until(
        lambda: all(member.role == "voter" for member in cluster.leader().status().members),
        timeout_s=20,
        what="three voters",
    )


def test_a_received_state_that_rotted_before_the_log_began_costs_the_member_its_vote(cluster: Cluster) -> None:
    """docs/decisions/log.md "A lost log": the file was vouched for, the crash came before the log began behind it.

    To go on from the older state, with the same vote, would take back what the member acknowledged.
    """
    behind = cluster.followers()[0]
    name, applied, former = behind.name, behind.status().applied, behind.status().id
    cluster.kill(name)
    write_until_cut(cluster.leader(), 3000, applied=applied)
    received = cluster.folder / name / f"{cluster.leader().status().applied:016x}.sealed"
    snapshot.save(cluster.leader(), received)
    damaged = bytearray(received.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    received.write_bytes(damaged)
    node = cluster.restart(name)
    assert node.status().id != former
    assert any(event.name == "snapshot_damaged" for event in node.events(timeout_s=0))
    wait_until(lambda: alike(cluster.running()), timeout_s=40, what="all to have the same")
    wait_until(
        lambda: sum(member.role == "voter" for member in cluster.leader().status().members) == 3,
        timeout_s=20,
        what="three voters",
    )


def test_a_received_state_that_cannot_be_read_ends_the_start(cluster: Cluster) -> None:
    """docs/decisions/log.md D6: unreadable is not lost. Nothing is thrown away, and the next start may read it."""
    behind = cluster.followers()[0]
    name, applied, former = behind.name, behind.status().applied, behind.status().id
    cluster.kill(name)
    write_until_cut(cluster.leader(), 3000, applied=applied)
    received = cluster.folder / name / f"{cluster.leader().status().applied:016x}.sealed"
    received.mkdir()  # reading it fails as a bad sector does, and not as an absent file does
    with pytest.raises(raftmeta.DiskFailed):
        cluster.restart(name)
    received.rmdir()
    assert cluster.restart(name).status().id == former
    wait_until(lambda: alike(cluster.running()), timeout_s=40, what="all to have the same")


def test_callers_and_watchers_of_an_overtaken_member_lose_nothing(cluster: Cluster) -> None:
    """decisions/README.md "Snapshots": answers are in the session table, events in the history of the new state."""
    cut_off = cluster.followers()[0]
    with cut_off.watch(prefix="", timeout_s=20) as watch, cut_off.lease(30) as lease:
        cut_off.put("mine", b"1", lease=lease)
        first = cut_off.status().revision
        cluster.isolate(cut_off)
        write_until_cut(cluster.leader(), 6000, applied=cut_off.status().applied)
        cluster.heal()
        cut_off.put("mine", b"2", lease=lease, timeout_s=20)
        assert cut_off.metrics()["snapshots_installed"] >= 1
        assert lease.held()
        last = cut_off.status().revision
        seen = []
        for batch in watch.batches():
            assert isinstance(batch, raftmeta.WatchBatch)
            seen.append(batch.revision)
            if batch.revision >= last:
                break
        assert seen == list(range(min(seen), last + 1))
        assert min(seen) <= first
        found = cut_off.get("mine")
        assert found is not None
        assert found.value == b"2"
