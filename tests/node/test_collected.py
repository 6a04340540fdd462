"""What becomes of objects that nobody closed: leases whose object was collected, faces whose event loop was closed."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import raftmeta
import raftmeta.aio
from tests.client.nodes import serving
from tests.node.nodes import one_node
from tests.processes.waiting import wait_until


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[raftmeta.Node]:
    with one_node(tmp_path_factory.mktemp("node")) as made:
        yield made


def descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def forget(leases: list[Any]) -> None:
    """Collect them."""
    leases.clear()
    gc.collect()


def test_a_lease_whose_object_was_collected_ends(node: raftmeta.Node) -> None:
    leases = [node.lease(0.5) for _ in range(20)]
    for number in range(20):
        node.put(f"held/{number}", b"", lease=leases[number])
    forget(leases)
    wait_until(lambda: not node.range(prefix="held/").records, timeout_s=30, what="the leases to expire")
    kept = node.lease(30)  # lets go of what the loop has let go of
    kept.revoke()


def test_a_lease_of_the_asyncio_face_whose_object_was_collected_ends(node: raftmeta.Node) -> None:
    async def hold() -> None:
        leases = [await node.aio().lease(0.5)]
        await node.aio().put("held", b"", lease=leases[0])
        await asyncio.sleep(0)  # until then the call that is answered holds its arguments
        forget(leases)

    asyncio.run(hold())
    wait_until(lambda: node.get("held") is None, timeout_s=30, what="the lease to expire")


def test_a_client_s_lease_whose_object_was_collected_ends(tmp_path: Path) -> None:
    async def hold(url: str) -> None:
        async with raftmeta.aio.Client(url) as client:
            leases = [await client.lease(0.5)]
            await client.put("held", b"", lease=leases[0])
            forget(leases)
            while await client.get("held") is not None:
                await asyncio.sleep(0)

    with serving(tmp_path) as (_, url), raftmeta.Client(url) as client:
        leases = [client.lease(0.5)]
        client.put("held", b"", lease=leases[0])
        forget(leases)
        wait_until(lambda: client.get("held") is None, timeout_s=30, what="the lease to expire")
        asyncio.run(hold(url))


def test_a_lease_that_is_over_is_collected_without_a_word(node: raftmeta.Node) -> None:
    """Revoked, lost, or of a node that is closed: a warning would fail this test."""
    revoked, lost = node.lease(5), node.lease(0.1)
    revoked.revoke()
    node.put("held", b"", lease=lost)
    assert lost.id
    with node.lease(5):
        pass
    node.txn(then=[raftmeta.operations.Delete("held")])
    lost.revoke()
    del revoked, lost
    gc.collect()


def test_an_event_loop_that_is_closed_with_a_call_under_way_leaves_nothing(node: raftmeta.Node) -> None:
    """Neither asyncio.run nor anybody else ends its tasks: the face, its eventfd and the calls are collected."""

    def one() -> None:
        async def go() -> None:
            tasks.append(asyncio.ensure_future(face.put("k", b"v")))
            tasks.append(asyncio.ensure_future(face.get("k")))
            await asyncio.sleep(0)

        tasks: list[Any] = []
        loop, face = asyncio.new_event_loop(), node.aio()
        loop.run_until_complete(go())
        for task in tasks:
            task._log_destroy_pending = False
        loop.close()

    one()
    before = descriptors()
    for _ in range(20):
        one()
    # A mailbox goes when the last call is answered that was submitted through it.
    wait_until(lambda: descriptors() <= before, timeout_s=30, what="the eventfds to be closed")
