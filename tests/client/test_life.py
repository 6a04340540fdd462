"""Clients and nodes come and go in any order, and leave neither thread nor descriptor behind."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from pathlib import Path

import pytest

import raftmeta
from tests.node.nodes import QUICK
from tests.processes.waiting import free_ports, wait_until

ROUNDS = 6


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("first", ["node", "client"])
def test_closing_in_any_order_is_quick_and_complete(tmp_path: Path, first: str) -> None:
    """With a watch open, a lease kept and the client at work; also when it has nobody left to say goodbye to."""
    port, client_port = free_ports(2)
    counts = []
    for _ in range(ROUNDS):
        node = raftmeta.Node(
            "a",
            peers={"a": f"127.0.0.1:{port}"},
            client_listen=f"127.0.0.1:{client_port}",
            data_dir=tmp_path / "a",
            config=raftmeta.Config(**QUICK),
        ).start()
        node.ready(30)
        client = raftmeta.Client(f"raft://127.0.0.1:{client_port}")
        lease = client.lease(5.0)
        client.put("k", "1", lease=lease)
        watch = client.watch("k", start_revision=1)
        assert next(iter(watch)).key == b"k"  # type: ignore[union-attr]
        if first == "node":
            node.close(transfer=False)
        began_s = time.monotonic()
        client.close()
        assert time.monotonic() - began_s < 3.0
        node.close(transfer=False)
        counts.append((threading.active_count(), open_descriptors()))
    assert counts[-1] == counts[0]


def test_a_closed_client_reports_no_lease_as_lost(tmp_path: Path) -> None:
    """Whoever closes gives up its leases itself: they are not held any more, and nobody is told."""
    port, client_port = free_ports(2)
    lost: list[object] = []
    with raftmeta.Node(
        "a",
        peers={"a": f"127.0.0.1:{port}"},
        client_listen=f"127.0.0.1:{client_port}",
        data_dir=tmp_path / "a",
        config=raftmeta.Config(**QUICK),
    ) as node:
        node.ready(30)
        client = raftmeta.Client(f"raft://127.0.0.1:{client_port}")
        running_before = set(threading.enumerate())  # other tests' clusters may hold leases of their own
        lease = client.lease(10.0, on_lost=lost.append)
        client.close()
        assert not lease.held()
        wait_until(
            lambda: not set(threading.enumerate()) - running_before, timeout_s=20, what="the end of the shared threads"
        )
        assert lost == []

        async def use() -> None:
            async with raftmeta.aio.Client(f"raft://127.0.0.1:{client_port}") as other:
                await other.lease(10.0, on_lost=lost.append)

        asyncio.run(use())
        assert lost == []


def test_a_node_that_is_closed_answers_whoever_waits(tmp_path: Path) -> None:
    """Its client loses the connection and goes on looking; a call tells in time that nothing was executed."""
    port, client_port = free_ports(2)
    config = raftmeta.Config(**QUICK)
    with raftmeta.Client(f"raft://127.0.0.1:{client_port}") as client:
        with raftmeta.Node(
            "a",
            peers={"a": f"127.0.0.1:{port}"},
            client_listen=f"127.0.0.1:{client_port}",
            data_dir=tmp_path / "a",
            config=config,
        ) as node:
            node.ready(30)
            client.put("k", "1")
        with pytest.raises(raftmeta.Withdrawn):
            client.get("k", timeout_s=0.2)
        with pytest.raises(raftmeta.Withdrawn):
            client.put("k", "2", timeout_s=0.2)


@pytest.mark.parametrize("face", ["blocking", "asyncio"])
def test_a_client_that_closes_gives_its_leases_back_at_once(tmp_path: Path, face: str) -> None:
    """All of them, in several rounds where they are many; those of other clients stay."""
    port, client_port = free_ports(2)
    url = f"raft://127.0.0.1:{client_port}"

    async def come_and_go() -> None:
        async with raftmeta.aio.Client(url) as visitor:
            leases = [await visitor.lease(60.0) for _ in range(3)]
            for number, lease in enumerate(leases):
                await visitor.put(f"gone/{number}", b"", lease=lease)

    with raftmeta.Node(
        "a",
        peers={"a": f"127.0.0.1:{port}"},
        client_listen=f"127.0.0.1:{client_port}",
        data_dir=tmp_path / "a",
        config=raftmeta.Config(**QUICK),
    ) as node:
        node.ready(30)
        with raftmeta.Client(url) as other:
            other.put("stays", b"", lease=other.lease(60.0))
            if face == "asyncio":
                asyncio.run(come_and_go())
            else:
                with raftmeta.Client(url) as visitor:
                    leases = [visitor.lease(60.0) for _ in range(300)]
                    for number, lease in enumerate(leases):
                        visitor.put(f"gone/{number}", b"", lease=lease)
                assert not any(lease.held() for lease in leases)
            assert [record.key for record in node.range(prefix="").records] == [b"stays"]
