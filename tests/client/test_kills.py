"""Nodes die and hang under clients: nothing acknowledged is lost, nothing is applied twice, watches miss nothing."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

import raftmeta
from raftmeta import aio
from tests.client.nodes import ServingCluster
from tests.processes.waiting import wait_until

TIMES = {"heartbeat_s": 0.05, "election_timeout_s": 0.25, "segment_bytes": 1 << 20, "wal_bytes_max": 1 << 26}
WORKERS = 16


@pytest.fixture
def cluster(tmp_path: Path):  # type: ignore[no-untyped-def]
    with ServingCluster(tmp_path, **TIMES) as made:
        yield made


def wait_for_more(results: list[int], count: int, what: str) -> None:
    target = len(results) + count
    wait_until(lambda: len(results) >= target, timeout_s=30, what=what)


def test_kills_lose_nothing_and_repeat_nothing(cluster: ServingCluster) -> None:
    """Three times the node that serves the client is killed under its adds: the results are 1, 2, ... without a gap.

    Init: a client adds to one counter from many tasks, another watches it. Act: kill the node that leads (and so serves
    both), start it again. Check: each acknowledged number came once, and the watch saw each of them in order.
    """
    results: list[int] = []
    enough = threading.Event()

    async def add_all() -> dict[str, int]:
        async with aio.Client(cluster.url) as client:

            async def add() -> None:
                while not enough.is_set():
                    results.append((await client.add("n", timeout_s=60)).result)

            await asyncio.gather(*(add() for _ in range(WORKERS)))
            return client.metrics()

    found: list[dict[str, int]] = []
    adding = threading.Thread(target=lambda: found.append(asyncio.run(add_all())))
    seen: list[int] = []
    with raftmeta.Client(cluster.url) as watcher, watcher.watch("n", start_revision=1, timeout_s=30) as watch:
        adding.start()
        for _ in range(3):
            wait_for_more(results, 200, "progress")
            leader = cluster.leader()
            leader.kill()
            wait_for_more(results, 100, "fail-over")
            leader.start()
            cluster.wait_ready()
        enough.set()
        adding.join(60)
        assert not adding.is_alive()
        for event in watch:
            seen.append(int.from_bytes(event.value, "big", signed=True))  # type: ignore[union-attr]
            if len(seen) == len(results):
                break
        assert watcher.add("n", 0).result == len(results)
    assert sorted(results) == list(range(1, len(results) + 1))
    assert seen == sorted(results)
    assert found[0]["requests_repeated"] > 0 and found[0]["sessions"] == 1, found


def test_a_client_moves_to_the_leader(cluster: ServingCluster) -> None:
    """It begins with any node; whoever leads serves it soon, also after the leadership was handed over."""
    with raftmeta.Client(cluster.url) as client:
        client.put("k", "1")
        wait_until(lambda: client.status().is_leader, timeout_s=30, what="the client to be at the leader")
        other = cluster.followers()[0].name
        client.transfer(other, timeout_s=20)
        wait_until(lambda: client.status().name == other, timeout_s=30, what="the client to follow")
        assert client.get("k").value == b"1"  # type: ignore[union-attr]


def test_a_node_that_hangs_is_left(cluster: ServingCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped process keeps its connections open and answers nothing: the silence is noticed."""
    monkeypatch.setattr("raftmeta.client.connection.PING_S", 0.3)
    with raftmeta.Client(cluster.url) as client:
        client.put("k", "1")
        wait_until(lambda: client.status().is_leader, timeout_s=30, what="the client to be at the leader")
        leader = cluster.leader()
        leader.pause()
        try:
            assert client.add("n", timeout_s=30).result == 1
            assert client.status().name != leader.name
        finally:
            leader.resume()


def test_a_session_that_expired_is_opened_anew(cluster: ServingCluster) -> None:
    """All nodes were away for longer than the session lives on the lease clock after they are back."""
    with raftmeta.Client(cluster.url, session_ttl_s=1.0) as client:
        client.put("k", "1")
        channel = client._client._bound
        assert channel is not None
        old = channel.encoder.session

        async def stop_keeping() -> None:
            if channel._keeping is not None:
                channel._keeping.cancel()

        client.wait(stop_keeping())
        leader = cluster.leader()
        sessions = 4  # one of each node, and the client's

        def is_expired() -> bool:
            return bool(leader.call(session_count) < sessions)

        wait_until(is_expired, timeout_s=20, what="the session to expire")
        client.put("k", "2")
        assert channel.encoder.session not in (0, old) and client.metrics()["sessions"] == 2


def session_count(node: raftmeta.Node) -> int:
    return node.metrics()["sessions"]
