"""Leases: kept alive natively, held by this process's own clock, lost with all their keys at once."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import queue
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import raftmeta
from raftmeta.testing import Cluster
from tests.node.nodes import leader_of, one_node, running
from tests.processes.waiting import wait_until


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[raftmeta.Node]:
    with one_node(tmp_path_factory.mktemp("lease")) as made:
        yield made


def test_a_lease_is_held_until_it_is_revoked_and_takes_its_keys_along(node: raftmeta.Node) -> None:
    with node.lease(5) as lease:
        assert lease.held()
        assert 4 < lease.remaining_s() <= 5
        node.put("keys/a", b"1", lease=lease)
        node.put("keys/b", b"2", lease=lease.id)
        node.put("keys/c", b"3")
        assert node.get("keys/a").lease == lease.id  # type: ignore[union-attr]
    assert not lease.held()
    assert [record.key for record in node.range(prefix="keys/").records] == [b"keys/c"]
    with pytest.raises(raftmeta.LeaseExpired):
        node.put("keys/a", b"1", lease=lease)
    lease.revoke()


def test_an_id_may_be_chosen_once(node: raftmeta.Node) -> None:
    with node.lease(5, id=77) as lease:
        assert lease.id == 77
        with pytest.raises(raftmeta.IdConflict):
            node.lease(5, id=77)


def test_a_lease_is_kept_far_beyond_its_time_to_live(node: raftmeta.Node) -> None:
    """Native keep-alives: also while the host holds the GIL, here for two lives of the lease."""
    with node.lease(0.5) as lease:
        assert lease.ttl_s == 0.5
        node.put("kept/k", b"1", lease=lease)
        ctypes.PyDLL(None).usleep(1_000_000)  # keeps the GIL
        assert lease.held()
        assert node.get("kept/k") is not None


def test_more_leases_are_kept_than_one_entry_has_room_for(tmp_path: Path) -> None:
    """LEASES_MAX of wire/commands is 10,000: with that many, no keep-alive could be encoded, and all were lost."""
    with one_node(tmp_path) as node, ThreadPoolExecutor(32) as pool:
        leases = list(pool.map(lambda _: node.lease(4), range(10_050)))
        newest, renewals, left_s = leases[-1], 0, leases[-1].remaining_s()

        def is_renewed_often() -> bool:
            nonlocal renewals, left_s
            before_s, left_s = left_s, newest.remaining_s()
            renewals += left_s > before_s
            return renewals >= 6  # a keep-alive comes each quarter of the ttl

        wait_until(is_renewed_often, timeout_s=60, what="six keep-alives")
        assert all(lease.held() for lease in leases)
        assert node.metrics()["leases"] == len(leases)


def test_a_lease_whose_owner_lost_the_quorum_is_lost_to_it(tmp_path: Path) -> None:
    """held() turns false by this process's own clock, before anybody else may have it."""
    lost: queue.Queue[raftmeta.Lease] = queue.Queue()
    with running(tmp_path) as nodes:
        lease = nodes["a"].lease(0.6, on_lost=lost.put)
        assert lease.held()
        nodes["b"].close(transfer=False)
        nodes["c"].close(transfer=False)
        assert lost.get(timeout=20) is lease
        assert not lease.held()
        assert lease.wait_lost(0)


@pytest.mark.parametrize("face", ["blocking", "asyncio"])
def test_what_was_told_to_be_lost_is_not_held_again(face: str) -> None:
    """Its owner is heard again after it found the lease lost, and before the others may: they would still renew it. It
    is let go instead, so that what it stood for is free for others."""

    async def lease_of(node: raftmeta.Node) -> raftmeta.aio.Lease:
        return await node.aio().lease(4)

    with Cluster(3) as cluster:
        owner, leader = cluster.followers()[0], cluster.leader()
        lease = owner.lease(4) if face == "blocking" else asyncio.run(lease_of(owner))
        owner.put("stood for", b"1", lease=lease)
        cluster.isolate(owner)
        while lease.held():
            pass
        cluster.heal()
        wait_until(lambda: leader.get("stood for") is None, timeout_s=30, what="the key to go with its lease")
        assert not lease.held() and lease.remaining_s() == 0


def test_a_revoked_lease_is_not_told_as_lost(node: raftmeta.Node) -> None:
    lost: queue.Queue[raftmeta.Lease] = queue.Queue()
    others = threading.enumerate()  # of leases of other tests, which may run for a minute
    with node.lease(0.2, on_lost=lost.put) as lease:
        (watcher,) = set(threading.enumerate()) - set(others)
    assert lease.wait_lost(0)
    watcher.join(30)
    assert lost.empty()


def test_a_lease_of_a_process_that_is_gone_expires(tmp_path: Path) -> None:
    """The keys go in one revision, and watchers see it."""
    with running(tmp_path) as nodes:
        leader = leader_of(nodes)
        owner = next(node for node in nodes.values() if node is not leader)
        lease = owner.lease(0.5)
        owner.put("gone/a", b"1", lease=lease)
        owner.put("gone/b", b"2", lease=lease)
        leader.get("gone/b")  # the leader may apply a moment after the owner was answered
        with leader.watch(prefix="gone/", timeout_s=10) as watch:
            owner.close()
            batch = next(watch.batches())
        assert [(event.type, event.key) for event in batch.events] == [("delete", b"gone/a"), ("delete", b"gone/b")]


def test_a_leader_change_costs_no_lease(tmp_path: Path) -> None:
    """No leader change expires anyone early, and remaining time is kept."""
    with running(tmp_path) as nodes:
        owner = nodes["a"]
        with owner.lease(0.8) as lease:
            owner.put("stays/k", b"1", lease=lease)
            for _ in range(3):
                leader = leader_of(nodes)
                leader.transfer(next(name for name in nodes if name != leader.name))
                assert lease.held()
            assert owner.get("stays/k") is not None


def test_a_lost_lease_stays_lost_when_its_id_is_granted_again() -> None:
    """Who was cut off while its lease expired neither holds nor keeps what another is granted under the same id."""

    def wait_kept(lease: raftmeta.Lease) -> None:
        """Until a keep-alive of its node was decided, with which all that the node keeps was kept or found lost."""
        remaining_s = lease.remaining_s()

        def is_renewed() -> bool:
            nonlocal remaining_s
            before_s, remaining_s = remaining_s, lease.remaining_s()
            return remaining_s > before_s

        cluster.wait_for(is_renewed, what="a keep-alive")

    with Cluster(3) as cluster:
        owner, other = cluster.followers()
        lost = owner.lease(0.5, id=7)
        owner.put("attached", b"1", lease=lost)
        cluster.isolate(owner)
        cluster.wait_for(lambda: other.get("attached") is None, what="the lease to expire")
        assert not lost.held()
        cluster.heal()
        kept = owner.lease(0.5)
        wait_kept(kept)
        with other.lease(5, id=7) as held:
            for _ in range(2):  # the first one may have been decided before the grant
                wait_kept(kept)
            assert held.held()
            assert not lost.held()
            other.put("another's", b"1", lease=held)
            lost.revoke()
            assert owner.get("another's") is not None


def test_the_async_face_keeps_and_loses_leases_alike(tmp_path: Path) -> None:
    async def main(nodes: dict[str, raftmeta.Node]) -> None:
        async with nodes["a"].aio() as face:
            async with await face.lease(5) as lease:
                await face.put("async/k", b"1", lease=lease)
                assert lease.held()
            assert await face.get("async/k") is None
            lost: asyncio.Queue[raftmeta.aio.Lease] = asyncio.Queue()
            lease = await face.lease(0.6, on_lost=lost.put_nowait)
            nodes["b"].close(transfer=False)
            nodes["c"].close(transfer=False)
            assert await asyncio.wait_for(lost.get(), 5) is lease
            assert await lease.wait_lost()

    with running(tmp_path) as nodes:
        asyncio.run(main(nodes))


def test_leases_granted_side_by_side_are_all_held(node: raftmeta.Node) -> None:
    """A keep-alive that was under way before a lease was granted says nothing about it."""
    problems: list[raftmeta.Lease] = []

    def grant() -> None:
        for _ in range(20):
            with node.lease(0.5) as lease:
                node.put("side/k", b"v", lease=lease)
                if not lease.held():
                    problems.append(lease)

    threads = [threading.Thread(target=grant) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_the_store_counts_leases(node: raftmeta.Node) -> None:
    before = node.metrics()["leases"]
    leases = [node.lease(5) for _ in range(20)]
    wait_until(lambda: node.metrics()["leases"] == before + 20, timeout_s=20, what="the leases to be counted")
    for lease in leases:
        lease.revoke()
    wait_until(lambda: node.metrics()["leases"] == before, timeout_s=20, what="the leases to be gone")


def test_a_lease_of_an_idle_cluster_ends_in_time_however_often_the_leader_changes(tmp_path: Path) -> None:
    """etcd#9395, #15247: nothing is written, and with each change the ttl used to begin anew. Twice the ttl is allowed
    here, for a machine that is busy; the simulator holds the exact bound."""
    ttl_s = 4.0
    gone: queue.Queue[object] = queue.Queue()
    with running(tmp_path, leases_end_with_process=False) as nodes:
        owner = nodes["c"]
        owner.put("idle/k", b"1", lease=owner.lease(ttl_s))
        left = {name: node for name, node in nodes.items() if node is not owner}
        with left["a"].watch("idle/k", puts=False, callback=gone.put):
            ended_s = time.monotonic()
            owner.close(transfer=False)
            changes = 0
            while not is_told(gone, timeout_s=0.3):
                assert time.monotonic() < ended_s + 2 * ttl_s, changes
                leader = leader_of(left)
                leader.transfer("b" if leader is left["a"] else "a")
                changes += 1
        assert changes > 5
        assert time.monotonic() >= ended_s + ttl_s / 2


def is_told(changes: queue.Queue[object], *, timeout_s: float) -> bool:
    with contextlib.suppress(queue.Empty):
        changes.get(timeout=timeout_s)
        return True
    return False
