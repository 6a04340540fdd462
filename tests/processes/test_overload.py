"""More than a node can take: refused at once, with bounded memory, while leases live and no leader is lost."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import raftmeta
from raftmeta.operations import Put
from tests.processes.cluster import Cluster, NodeProcess, put, status
from tests.processes.remote import RemoteError
from tests.processes.waiting import wait_until

MIB = 1024 * 1024
OUTSTANDING_MAX = 256
LEASE_S = 1.5  # would end while the flood goes on
KEYS_PER_WRITE = 2500
MANY_KEYS = 200_000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    settings = {
        "outstanding_max": OUTSTANDING_MAX, "history_bytes_max": 16 * MIB, "snapshot_log_bytes": 64 * MIB,
        "log_memory_bytes_max": 32 * MIB,
    }  # fmt: skip
    with Cluster(tmp_path, **settings) as running:
        yield running


def told(node: NodeProcess) -> dict[str, Any]:
    found: dict[str, Any] = node.call(status)
    return found


def anonymous_bytes(_node: raftmeta.Node) -> int:
    """Memory that only this process can give back; pages of files, as of a checkpoint's map, are the kernel's."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))


# --- too many writers -------------------------------------------------------------------------------------------------


def flood(node: raftmeta.Node, seconds: float, value_bytes: int) -> dict[str, Any]:
    """Eight times as many writers as may be under way; what came of it, and a lease that was held meanwhile."""
    value = bytes(value_bytes)
    has_room = asyncio.Event()
    found: dict[str, Any] = {"done": 0, "overloaded": 0, "other": [], "refused_s": 0.0}

    async def write(face: raftmeta.aio.Node, writer: int, until: float) -> None:
        while (began := time.monotonic()) < until:
            try:
                await face.put(f"flood/{writer}", value, timeout_s=30)
                found["done"] += 1
                has_room.set()
            except raftmeta.Overloaded:
                found["refused_s"] = max(found["refused_s"], time.monotonic() - began)
                found["overloaded"] += 1
                has_room.clear()  # what fills the node has not been answered yet
                await has_room.wait()
            except raftmeta.RaftmetaError as error:
                found["other"].append(repr(error))

    async def run() -> None:
        face = node.aio()
        until = time.monotonic() + seconds
        await asyncio.gather(*(write(face, writer, until) for writer in range(8 * OUTSTANDING_MAX)))

    with node.lease(LEASE_S) as lease:
        node.put(f"held/{node.name}", b"", lease=lease.id)
        asyncio.run(run())
        found["is_held"] = lease.held()
        found["is_attached"] = node.get(f"held/{node.name}", timeout_s=30) is not None
    return found


@pytest.mark.uninstrumented
def test_too_many_writers_are_refused_and_cost_nobody_anything(cluster: Cluster) -> None:
    """Overloaded comes at once and certainly was not applied; leases are kept alive, the leader stays."""
    leader, follower = cluster.leader(), cluster.followers()[0]
    term = told(leader)["term"]
    for node in (leader, follower):
        node.call(flood, 0.5, 4096)  # buffers reach their size
    before = {node.name: node.call(anonymous_bytes) for node in cluster.nodes.values()}
    calls = [node.begin(flood, 3.0, 4096) for node in (leader, follower)]
    for found in [call.result(60) for call in calls]:
        assert found["overloaded"] > OUTSTANDING_MAX
        assert found["done"] > OUTSTANDING_MAX
        assert found["other"] == []
        assert found["refused_s"] < 10  # it waits for this process's event loop; the others wait for up to 30 seconds
        assert found["is_held"]
        assert found["is_attached"]
    assert told(leader)["term"] == term
    for node in cluster.nodes.values():
        # Three states of 24 MiB: the present one, that of the last checkpoint, that of the one being written. And the
        # entries kept in memory for slower members, 32 MiB. The rest is what is under way, and pieces half full.
        assert node.call(anonymous_bytes) - before[node.name] < 128 * MIB


def in_flight(node: raftmeta.Node) -> int:
    return node.metrics()["operations_in_flight"]


BLOCKED: list[threading.Thread] = []
OUTCOMES: list[str] = []


def put_blocked(node: raftmeta.Node, count: int, ended: int) -> list[str]:
    """count writes at once that nobody can decide; what became of the first that ended."""

    def write(number: int) -> None:
        try:
            node.put(f"blocked/{number}", b"v", timeout_s=60)
            OUTCOMES.append("done")
        except raftmeta.RaftmetaError as error:
            OUTCOMES.append(type(error).__name__)

    BLOCKED.extend(threading.Thread(target=write, args=(number,)) for number in range(count))
    for thread in BLOCKED:
        thread.start()
    wait_until(lambda: len(OUTCOMES) >= ended, timeout_s=20, what=f"the end of {ended} of them")
    return list(OUTCOMES)


def outcomes(_node: raftmeta.Node) -> list[str]:
    """Of all of them, in the order in which they ended."""
    for thread in BLOCKED:
        thread.join()
    return OUTCOMES


def test_without_a_quorum_what_is_too_much_is_refused_and_the_rest_waits(cluster: Cluster) -> None:
    """The queue does not grow while nothing is decided: exactly those beyond outstanding_max hear Overloaded, and all
    others are done when there is a quorum again."""
    leader, followers = cluster.leader(), cluster.followers()
    for node in followers:
        node.pause()
    try:
        refused = leader.call(put_blocked, OUTSTANDING_MAX + 50, 50)
    finally:
        for node in followers:
            node.resume()
    assert refused == ["Overloaded"] * 50
    assert leader.call(outcomes, timeout_s=80) == refused + ["done"] * OUTSTANDING_MAX
    cluster.wait_ready()
    wait_until(lambda: leader.call(in_flight) < OUTSTANDING_MAX, timeout_s=20, what="what was under way to end")
    assert leader.call(put, "after", b"")


# --- a very large range -----------------------------------------------------------------------------------------------


def fill(node: raftmeta.Node, first: int, last: int) -> None:
    for begin in range(first, last, KEYS_PER_WRITE):
        keys = range(begin, min(begin + KEYS_PER_WRITE, last))
        node.txn(then=[Put(f"many/{key:07}", b"") for key in keys], timeout_s=60)


def delete_all(node: raftmeta.Node, prefix: str) -> int:
    return int(node.delete_range(prefix=prefix, timeout_s=30).result)


def count_of(node: raftmeta.Node, prefix: str) -> int:
    return node.range(prefix=prefix, count_only=True, timeout_s=30).count


def delete_in_parts(node: raftmeta.Node, count: int) -> int:
    """The way that is open: ten thousand keys at a time."""
    ends = [f"many/{key:07}" for key in range(0, count + 1, 10_000)]
    return sum(node.delete_range(start, end, timeout_s=30).result for start, end in itertools.pairwise(ends))


@pytest.mark.uninstrumented
def test_a_range_delete_of_very_many_keys_is_refused_and_costs_no_election(cluster: Cluster) -> None:
    """One entry changes at most 10,000 keys: refused whole and fast; in parts it is done."""
    leader = cluster.leader()
    term = told(leader)["term"]
    leader.call(fill, 0, MANY_KEYS, timeout_s=100)
    assert leader.call(count_of, "many/", timeout_s=60) == MANY_KEYS
    began = time.monotonic()
    with pytest.raises(RemoteError) as caught:
        cluster.followers()[0].call(delete_all, "many/")
    assert caught.value.kind == "CommandRefused"
    assert time.monotonic() - began < 10
    assert leader.call(count_of, "many/", timeout_s=60) == MANY_KEYS
    assert leader.call(delete_in_parts, 100_000, timeout_s=60) == 100_000
    assert leader.call(count_of, "many/", timeout_s=60) == MANY_KEYS - 100_000
    applied = told(leader)["applied"]
    wait_until(
        lambda: all(told(node)["applied"] >= applied for node in cluster.nodes.values()), timeout_s=20, what="all"
    )
    assert (told(cluster.leader())["name"], told(leader)["term"]) == (leader.name, term)
