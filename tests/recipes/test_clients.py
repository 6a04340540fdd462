"""The recipes on raftmeta.Client: the same contracts from a process that runs no node, and beside nodes."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import raftmeta
from raftmeta import recipes
from raftmeta.interfaces import GroupChange
from tests.client.nodes import serving
from tests.processes.waiting import wait_until
from tests.recipes.test_group import crash, next_of

Serving = tuple[dict[str, raftmeta.Node], str]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving(tmp_path_factory.mktemp("clients"), names="abc") as made:
        yield made


def test_clients_and_nodes_are_members_of_one_group(cluster: Serving, name: str) -> None:
    nodes, url = cluster
    told: queue.Queue[GroupChange] = queue.Queue()
    nodes["a"].group(name).join("node")
    with raftmeta.Client(url) as client:
        client.group(name).add_listener(told.put)
        client.group(name).join("client", b"data")
        assert next_of(told).ids == {"node", "client"}
        assert nodes["b"].group(name).membership() == {"node": b"", "client": b"data"}
        with pytest.raises(raftmeta.IdConflict):
            client.group(name).join("node")
    assert nodes["b"].group(name).membership_list() == {"node"}  # closing left
    nodes["a"].group(name).leave("node")


def test_a_client_with_an_owner_takes_over_from_its_earlier_life(
    cluster: Serving, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The first one is not told by anybody that it ended; its fence is refused from then on. It takes nothing back."""
    url = cluster[1]
    lost: queue.Queue[Any] = queue.Queue()
    with raftmeta.Client(url, owner="w") as first, raftmeta.Client(url, owner="w") as second:
        assert first.election(name, ttl_s=60).nominate("w", on_lost=lost.put)
        old = first.election(name, ttl_s=60).lead("w")
        assert old is not None
        first.storage.put(name, b"1", fence=old)
        assert second.election(name, ttl_s=60).nominate("w")
        with pytest.raises(raftmeta.Fenced):
            first.storage.update(name, b"2", fence=old)
        assert next_of(lost) is old
        taken = second.election(name, ttl_s=60).lead("w")
        wait_until(lambda: "candidacy ended candidate=w" in caplog.text, timeout_s=20, what="the end of the first one")
        assert taken is not None and taken.held()
        with raftmeta.Client(url) as other, pytest.raises(raftmeta.IdConflict):
            other.election(name).nominate("w")
        with pytest.raises(raftmeta.InvalidArgument):
            raftmeta.Client(url, owner="")


def test_a_lead_of_a_client_outlives_the_node_it_asks(tmp_path: Path) -> None:
    """The node is killed; the client goes on with another one, and its listeners miss nothing."""
    with serving(tmp_path, names="abc") as (nodes, url), raftmeta.Client(url) as client:
        told: queue.Queue[GroupChange] = queue.Queue()
        client.group("g", ttl_s=10).add_listener(told.put)
        assert client.election("s", ttl_s=10).nominate("x")
        lead = client.election("s", ttl_s=10).lead("x")
        assert lead is not None
        leader = next(node for node in nodes.values() if node.status().is_leader)
        left = [node for node in nodes.values() if node is not leader]
        crash(leader)
        wait_until(lambda: left[0].status().leader not in ("", leader.name), timeout_s=30, what="another leader")
        left[0].group("g").join("1")
        left[1].group("g").join("2")
        assert [next_of(told).ids for _ in range(2)] == [{"1"}, {"1", "2"}]
        assert lead.held()
        client.storage.put("k", b"v", fence=lead)
        assert left[0].election("s").get_leader() == "x"


def test_locks_and_queues_between_clients_and_nodes(cluster: Serving, name: str) -> None:
    nodes, url = cluster
    with raftmeta.Client(url) as client:
        with recipes.Lock(client, name).acquire(timeout_s=5) as held:
            with pytest.raises(raftmeta.Withdrawn):
                recipes.Lock(nodes["a"], name).acquire(timeout_s=0.1)
            client.put(f"k/{name}", b"v", fence=held.fence)
        with recipes.Lock(nodes["a"], name).acquire(timeout_s=5):
            pass
        recipes.Queue(nodes["a"], name).put(b"1")
        worker = recipes.Queue(client, name)
        with worker.take(timeout_s=5) as item:
            assert item.data == b"1"
        worker.close()


def test_the_asyncio_client_has_them_too(cluster: Serving, name: str) -> None:
    nodes, url = cluster

    async def main() -> None:
        async with raftmeta.aio.Client(url, owner="w") as client:
            told: asyncio.Queue[GroupChange] = asyncio.Queue()
            await client.group(name).add_listener(told.put_nowait)
            await client.group(name).join("x")
            assert (await asyncio.wait_for(told.get(), 10)).ids == {"x"}
            async for lead in client.election(name).terms("x"):
                await client.storage.put(name, b"1", fence=lead)
                await client.election(name).resign("x")
            assert await client.storage.fetch(name) == b"1"
        assert nodes["a"].group(name).membership_list() == frozenset()

    asyncio.run(main())


def test_a_closed_client_says_so(cluster: Serving, name: str) -> None:
    client = raftmeta.Client(cluster[1])
    group = client.group(name)
    group.join("x")
    client.close()
    client.close()
    for call in (group.membership, lambda: client.group(name), lambda: client.storage):
        with pytest.raises(raftmeta.NodeClosed):
            call()
