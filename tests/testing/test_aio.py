"""raftmeta.testing.aio.Cluster: the same from asyncio; the event loop goes on while its verbs wait."""

from __future__ import annotations

import asyncio

import pytest

import raftmeta
from raftmeta.testing import Cluster, aio


@pytest.mark.asyncio
async def test_a_cluster_is_used_from_asyncio() -> None:
    async with aio.Cluster(3) as cluster:
        leader = await cluster.leader()
        await leader.put("key", b"value")
        await cluster.kill(leader)
        new = await cluster.leader()
        assert new.name != leader.name
        record = await new.get("key")
        assert record is not None and record.value == b"value"
        again = await cluster.restart(leader)
        assert again is cluster.node(leader.name)
        await cluster.wait_converged()


@pytest.mark.asyncio
async def test_a_write_waits_in_a_partition_while_the_loop_runs() -> None:
    """A task that writes through an isolated leader is told its fate; heal lets the next one through."""
    async with aio.Cluster(3) as cluster:
        leader = await cluster.leader()
        await cluster.isolate(leader)
        with pytest.raises((raftmeta.NotExecuted, raftmeta.OutcomeUnknown)):
            await leader.put("key", b"value", timeout_s=0.5)
        await cluster.heal()
        await (await cluster.leader()).put("key", b"after")


def test_a_running_cluster_lends_itself_to_asyncio() -> None:
    with Cluster(1) as sync:

        async def use() -> None:
            async with aio.Cluster(cluster=sync) as cluster:
                await (await cluster.leader()).put("key", b"value")

        asyncio.run(use())
        assert sync.leader().get("key") is not None
