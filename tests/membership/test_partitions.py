"""Three nodes cut apart: the majority goes on, the minority promises nothing it cannot keep, and both come together."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import pytest

import raftmeta
from raftmeta.testing import Cluster

FATES = (raftmeta.NotExecuted, raftmeta.OutcomeUnknown)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(3) as running:
        yield running


def new_leader(cluster: Cluster, old: raftmeta.Node) -> raftmeta.Node:
    def found() -> raftmeta.Node | None:
        return next((node for node in cluster.running() if node is not old and node.status().is_leader), None)

    return cluster.wait_for(found, what="the majority to elect")


def value_of(node: raftmeta.Node, key: str, *, local: bool = False) -> bytes | None:
    record = node.get(key, local=local, timeout_s=1)
    return None if record is None else record.value


def test_the_majority_goes_on_and_the_minority_refuses(cluster: Cluster) -> None:
    """The old leader is alone: what it takes is never acknowledged. NotExecuted is kept for good; what it had proposed
    is of unknown outcome, and its session may yet bring it in, once."""
    old = cluster.leader()
    old.put("key", b"before")
    cluster.isolate(old)
    with pytest.raises(FATES) as caught:
        old.put("key", b"minority", timeout_s=0.5)
    new = new_leader(cluster, old)
    new.put("key", b"majority")
    with pytest.raises(raftmeta.NotExecuted):
        old.get("key", timeout_s=0.5)
    assert value_of(old, "key", local=True) == b"before"
    cluster.heal()
    cluster.wait_converged()
    found = {value_of(node, "key") for node in cluster.running()}
    may_be_late = isinstance(caught.value, raftmeta.OutcomeUnknown)
    assert found in ([{b"majority"}, {b"minority"}] if may_be_late else [{b"majority"}])
    assert new.status().revision == 2 + (found == {b"minority"})


def test_no_acknowledged_write_is_lost_and_no_unacknowledged_one_comes_twice(cluster: Cluster) -> None:
    """Writers on every node while the cluster is cut in three ways and healed; each acknowledged key is there with the
    revision that was told, and counters count each acknowledged add once."""
    acknowledged: dict[str, int] = {}
    added, unknown = [0, 0, 0], [0, 0, 0]
    must_stop = threading.Event()

    def write(place: int) -> None:
        node, number = cluster.node(place), 0
        while not must_stop.is_set():
            number += 1
            key = f"key/{place}/{number}"
            with contextlib.suppress(*FATES):
                acknowledged[key] = int(node.put(key, b"value", timeout_s=0.5))
            try:
                node.add(f"counter/{place}", 1, timeout_s=0.5)
                added[place] += 1
            except raftmeta.OutcomeUnknown:
                unknown[place] += 1
            except raftmeta.NotExecuted:
                pass

    def more() -> None:
        before = len(acknowledged)
        cluster.wait_for(lambda: len(acknowledged) > before + 20, what="more writes")

    writers = [threading.Thread(target=write, args=(place,)) for place in range(3)]
    for writer in writers:
        writer.start()
    more()
    for name in cluster.names:
        cluster.isolate(name)
        more()
        cluster.heal()
        more()
    cluster.cut("a", "b")
    cluster.cut("b", "c")
    cluster.heal()
    more()
    must_stop.set()
    for writer in writers:
        writer.join(10)
    cluster.wait_converged()
    found = {record.key.decode(): record.mod_revision for record in cluster.leader().range(prefix="key/").records}
    assert {key: found.get(key) for key in acknowledged} == acknowledged
    for place in range(3):
        counted = int(cluster.leader().add(f"counter/{place}", 0).result)
        assert added[place] <= counted <= added[place] + unknown[place]


def test_no_linearizable_read_is_stale_across_a_partition(cluster: Cluster) -> None:
    """Readers on every node while a counter rises on the majority: none sees less than was acknowledged before it."""
    old = cluster.leader()
    old.add("counter", 1)
    must_stop = threading.Event()
    stale: list[tuple[int, int]] = []
    highest = [0]

    def read(node: raftmeta.Node) -> None:
        while not must_stop.is_set():
            acknowledged = highest[0]
            try:
                record = node.get("counter", timeout_s=0.2)
            except FATES:
                continue
            if record is None or record.version < acknowledged:
                stale.append((acknowledged, 0 if record is None else record.version))

    readers = [threading.Thread(target=read, args=(node,)) for node in cluster.running()]
    for reader in readers:
        reader.start()
    cluster.isolate(old)
    new = new_leader(cluster, old)
    for _ in range(200):
        added = new.add("counter", 1).result
        highest[0] = int(added)
    cluster.heal()
    for _ in range(200):
        highest[0] = int(cluster.leader().add("counter", 1).result)
    must_stop.set()
    for reader in readers:
        reader.join(10)
    assert stale == []


def test_a_lease_keeps_its_promise_across_a_partition(cluster: Cluster) -> None:
    """A holder that is cut off knows in time that it may have lost: it stops believing before anybody else may take
    over, and when it does, its fenced write is refused."""
    old = cluster.leader()
    lease = old.lease(1.0)
    old.put("lock", b"old", lease=lease)
    cluster.isolate(old)
    new = new_leader(cluster, old)
    assert value_of(new, "lock") == b"old"  # the clock stood still without a leader: nobody is early
    cluster.wait_for(lambda: value_of(new, "lock") is None, timeout_s=20, what="the lease to expire")
    assert not lease.held()
    new.create("lock", b"new")
    cluster.heal()
    cluster.wait_for(lambda: old.status().leader, what="the old holder to follow")
    with pytest.raises(raftmeta.LeaseExpired):
        old.put("lock", b"late", lease=lease, timeout_s=10)
    assert value_of(old, "lock") == b"new"


def test_a_watch_resumes_after_a_partition_without_gap_or_repetition(cluster: Cluster) -> None:
    """The watcher's node is cut off while the others write; it then gets every revision once and in order."""
    node = cluster.followers()[0]
    with node.watch(prefix="key/", start_revision=1, timeout_s=10) as watch:
        for number in range(10):
            cluster.leader().put(f"key/{number}", b"before")
        cluster.isolate(node)
        writer = next(one for one in cluster.running() if one is not node)
        for number in range(10, 60):
            writer.put(f"key/{number}", b"apart")
        cluster.heal()
        last = int(writer.put("key/end", b"after"))
        seen = []
        for event in watch:
            seen.append(event.revision)
            if event.revision == last:
                break
    assert seen == list(range(1, last + 1))


def test_a_one_way_cut_does_not_keep_a_deaf_leader(cluster: Cluster) -> None:
    """A leader that is heard and hears nobody steps down by check-quorum (thesis 6.2), and the others go on."""
    old = cluster.leader()
    for node in cluster.followers():
        cluster.cut(node, old)
    cluster.wait_for(lambda: not old.status().is_leader, timeout_s=30, what="it to step down")
    new = new_leader(cluster, old)
    new.put("key", b"value")
    cluster.heal()
    cluster.wait_converged()


def test_a_returning_node_disturbs_nobody(cluster: Cluster) -> None:
    """consul#1782, redpanda#2048: cut off for many election time-outs, it comes back into the term that it left."""
    away = cluster.followers()[0]
    leader = cluster.leader()
    term = leader.status().term
    cluster.isolate(away)
    campaigns = cluster.wait_for(
        lambda: sum(event.name == "became_pre_candidate" for event in away.events(timeout_s=0)) >= 5,
        what="it to campaign in vain",
    )
    assert campaigns
    leader.put("key", b"value")
    cluster.heal()
    cluster.wait_converged()
    assert (leader.status().is_leader, leader.status().term) == (True, term)
