"""A host that holds the GIL for five seconds: no leader is lost, nobody else waits, and its own leases stay.

Gaps are read from what the replicated log says: each entry carries the time at which the leader's native loop took it.
Nothing of Python stands between the clock and that number.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import raftmeta
from tests.processes.cluster import Cluster, NodeProcess, hold_gil, put, status

HELD_S = 5.0
GAP_S = 0.05  # DESIGN section 1, with the number
LEASE_S = 2.0  # would end twice while the GIL is held
WRITERS = 3


def write_for(node: raftmeta.Node, prefix: str, seconds: float) -> int:
    """Write from several threads, so that a pause of one thread is no pause of the writes; how many."""
    ended = threading.Event()
    counts = [0] * WRITERS

    def write(writer: int) -> None:
        while not ended.is_set():
            node.put(f"{prefix}{writer}", b"v")
            counts[writer] += 1

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(WRITERS)]
    for thread in threads:
        thread.start()
    ended.wait(seconds)
    ended.set()
    for thread in threads:
        thread.join()
    return sum(counts)


def times_of(node: raftmeta.Node, prefix: str, start_revision: int, count: int) -> list[float]:
    """The leader's time of each of these writes, from the history."""
    with node.watch(prefix=prefix, start_revision=start_revision, timeout_s=5) as watch:
        return [batch.time_s for batch in itertools.islice(watch.batches(), count)]  # type: ignore[union-attr]


def keep_lease(node: raftmeta.Node) -> int:
    """Grant a lease that this process keeps, with a key attached, and leave it to the native threads."""
    lease = node.lease(LEASE_S)
    KEPT[lease.id] = lease
    node.put("held", b"by me", lease=lease.id)
    return lease.id


def is_held(node: raftmeta.Node, number: int) -> bool:
    """By the clock of its owner, and by the replicated state."""
    return KEPT[number].held() and node.get("held") is not None


KEPT: dict[int, raftmeta.Lease] = {}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as running:
        yield running


def longest_gap_s(cluster: Cluster, writers: list[NodeProcess], prefix: str, seconds: float) -> float:
    """Write through these nodes for a while; the longest time without a write of theirs."""
    start = writers[0].call(put, "mark", b"") + 1
    calls = [node.begin(write_for, prefix, seconds) for node in writers]
    count = sum(call.result(seconds + 20) for call in calls)
    assert count > 20 * seconds
    times = writers[0].call(times_of, prefix, start, count)
    assert len(times) == count
    return max(after - before for before, after in itertools.pairwise(times))


@pytest.mark.uninstrumented
@pytest.mark.parametrize("who", ["leader", "follower"])
def test_a_held_gil_costs_no_leader_no_lease_and_no_time(cluster: Cluster, who: str) -> None:
    """DESIGN section 1. The yardstick is the same writes just before, on a machine that may be busy with others."""
    holder = cluster.leader() if who == "leader" else cluster.followers()[0]
    writers = [node for node in cluster.nodes.values() if node is not holder]
    lease = holder.call(keep_lease)
    term = told(holder)["term"]
    usual_s = longest_gap_s(cluster, writers, "before/", 1.5)
    holding = holder.begin(hold_gil, HELD_S)
    longest_s = longest_gap_s(cluster, writers, "meanwhile/", HELD_S - 1.0)
    assert not holding.done()
    holding.result(HELD_S + 10)
    assert holder.call(is_held, lease)
    assert (told(cluster.leader())["term"], told(holder)["term"]) == (term, term)
    assert longest_s < max(GAP_S, 2 * usual_s)


def told(node: NodeProcess) -> dict[str, Any]:
    found: dict[str, Any] = node.call(status)
    return found
