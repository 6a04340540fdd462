"""A host that holds the GIL for five seconds: no leader is lost, nobody else waits, and its own leases stay.

Waiting is measured by the loops of the nodes (`commit_gap_ns_max`): how long commands were there and none was answered.
Nothing of Python stands between. What the machine itself takes is measured beside it, by a process without consensus:
how late a thread runs that wants to run every millisecond. One commit needs some hand-overs between threads, and each
may come that late. The logs are in memory where that can be had: it is not the disk that is asked about.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import raftmeta
from tests.processes.child import hold_gil
from tests.processes.cluster import Cluster, NodeProcess, status
from tests.processes.remote import RemoteProcess
from tests.processes.waiting import wait_until

HELD_S = 5.0
GAP_S = 0.05  # so much longer a commit may take while another host stalls
LEASE_S = 2.0  # would end twice while the GIL is held
WRITERS = 3
HAND_OVERS = 6  # caller, loop, leader's loop, a write thread, its loop, the leader's again


def write_on(node: raftmeta.Node, prefix: str, seconds: float) -> int:
    """Write from several threads, so that a pause of one thread is no pause of the writes, until end(); how many."""
    ended = threading.Event()
    counts = [0] * WRITERS

    def write(writer: int) -> None:
        while not ended.is_set():
            node.put(f"{prefix}{writer}", b"v")
            counts[writer] += 1

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(WRITERS)]
    for thread in threads:
        thread.start()
    ENDED.wait(seconds)
    ended.set()
    for thread in threads:
        thread.join()
    return sum(counts)


def longest_wait_s(node: raftmeta.Node, prefix: str, seconds: float) -> float:
    """Write until end(), or for so long: the longest time in which writes waited here and none was answered."""
    node.metrics(restart_maxima=True)
    began_s = time.monotonic()
    assert write_on(node, prefix, seconds) > 20 * (time.monotonic() - began_s)
    return node.metrics()["commit_gap_ns_max"] / 1e9


def longest_delay_s(nothing: None, seconds: float) -> float:
    """Until end(), or for so long: how late at most a thread ran that wanted to run every millisecond."""
    longest_s = 0.0
    until_s = time.monotonic() + seconds
    while (now_s := time.monotonic()) < until_s and not ENDED.wait(0.001):
        longest_s = max(longest_s, time.monotonic() - now_s - 0.001)
    return longest_s


def end(subject: object) -> None:
    """The calls under way in this process come to their end."""
    ENDED.set()


def nothing() -> None:
    """What a process without a node works on."""


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
ENDED = threading.Event()


def events(node: raftmeta.Node) -> list[str]:
    return [event.name for event in node.events(timeout_s=0)]


@pytest.fixture
def bystander(tmp_path: Path) -> Iterator[RemoteProcess]:
    process = RemoteProcess(nothing, log=tmp_path / "bystander.log")
    process.start()
    yield process
    process.kill()


@pytest.mark.uninstrumented
@pytest.mark.parametrize("who", ["leader", "follower"])
def test_a_held_gil_costs_no_leader_no_lease_and_no_time(
    memory_folder: Path, bystander: RemoteProcess, who: str
) -> None:
    """Neither the lead nor a lease is lost, and nobody else waits longer than threads here wait to run."""
    with Cluster(memory_folder) as cluster:
        holder = cluster.leader() if who == "leader" else cluster.followers()[0]
        writers = [node for node in cluster.nodes.values() if node is not holder]
        lease = holder.call(keep_lease)
        term = told(holder)["term"]
        delay = bystander.begin(longest_delay_s, 60)
        waits = [node.begin(longest_wait_s, f"{node.name}/", 60) for node in writers]
        holder.begin(hold_gil, HELD_S).result(HELD_S + 20)
        for process in (*writers, bystander):
            process.call(end)
        longest_s = max(wait.result(20) for wait in waits)
        assert holder.call(is_held, lease)
        assert (told(cluster.leader())["term"], told(holder)["term"]) == (term, term)
        delay_s = delay.result(20)
        assert longest_s < GAP_S + HAND_OVERS * delay_s, f"with threads running {delay_s} s late"


@pytest.mark.uninstrumented
def test_a_watched_host_that_hangs_loses_its_leases(memory_folder: Path) -> None:
    """decisions/README.md "Leases": they are kept while Python runs; when it stops they end, and the node says so."""
    with Cluster(memory_folder, host_watchdog_s=0.3) as cluster:
        holder, other = cluster.followers()
        lease = holder.call(keep_lease)
        holder.call(longest_wait_s, "own/", LEASE_S + 1.0)
        assert holder.call(is_held, lease)
        assert "host_stalled" not in holder.call(events)
        fifo = memory_folder / "fifo"
        os.mkfifo(fifo)
        holding = holder.begin(hold_gil_until_told, str(fifo))
        wait_until(lambda: other.call(is_gone, "held"), timeout_s=30, what="the key of the lease to vanish")
        assert not holding.done()
        fifo.write_bytes(b"!")
        holding.result(20)
        wait_until(lambda: "host_resumed" in holder.call(events), timeout_s=20, what="the host to be seen again")
        assert "host_stalled" in holder.call(events)
        assert not holder.call(is_held, lease)


def hold_gil_until_told(node: raftmeta.Node, fifo: str) -> None:
    """Read a byte without giving the GIL away: no Python runs in that process until one is written."""
    descriptor = os.open(fifo, os.O_RDWR)
    ctypes.PyDLL(None).read(descriptor, ctypes.create_string_buffer(1), 1)
    os.close(descriptor)


def is_gone(node: raftmeta.Node, key: str) -> bool:
    return node.get(key) is None


def told(node: NodeProcess) -> dict[str, Any]:
    found: dict[str, Any] = node.call(status)
    return found
