"""The asyncio face of user machines."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

import raftmeta
from raftmeta.testing import Cluster
from tests.replicated.machines import GATE, Board, Counter, Stack


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(3) as running:
        yield running


@pytest.mark.asyncio
async def test_commands_reads_and_rejections(cluster: Cluster) -> None:
    boards = [await cluster.node(name).aio().replicated("board", Board) for name in "abc"]
    assert await boards[0].move("ann", 3) == 1
    with pytest.raises(raftmeta.Rejected, match="3 is taken"):
        await boards[1].move("bob", 3)
    with pytest.raises(raftmeta.CommandFailed, match="torn"):
        await boards[2].tear("ann")
    assert [await board.standing() for board in boards] == [{"ann": 3}] * 3
    assert await boards[0].standing(local=True) == {"ann": 3}
    with pytest.raises(AttributeError, match="no command or read 'fly'"):
        await boards[0].fly()


@pytest.mark.asyncio
async def test_many_calls_at_once_are_applied_in_one_order(cluster: Cluster) -> None:
    stacks = [await cluster.node(name).aio().replicated("stack", Stack) for name in "abc"]
    lengths = await asyncio.gather(*(stacks[number % 3].push(number) for number in range(300)))
    assert sorted(lengths) == list(range(1, 301))
    orders = [await stack.all() for stack in stacks]
    assert orders[0] == orders[1] == orders[2]
    assert sorted(orders[0]) == list(range(300))


@pytest.mark.asyncio
async def test_a_busy_copy_does_not_block_the_event_loop(cluster: Cluster) -> None:
    """Time-outs, other calls and reads that wait for the object: all beside a command that does not end."""
    node = cluster.node("a").aio()
    counter = await node.replicated("counter", Counter)
    await counter.add("before")
    GATE.clear()
    try:
        slow = asyncio.create_task(counter.block())
        while not counter.metrics()["calls_under_way"]:
            await asyncio.sleep(0)
        with pytest.raises(raftmeta.OutcomeTimeout) as late:
            await counter.add("once", timeout_s=0.1)
        waits = asyncio.create_task(counter.total(timeout_s=10))
        await node.put("other", b"1")
        with pytest.raises(raftmeta.ReadyTimeout):
            await counter.total(timeout_s=0.05)
        with pytest.raises(raftmeta.ReadyTimeout):
            await counter.total(local=True, timeout_s=0.05)
        assert not slow.done()
    finally:
        GATE.set()
    await slow
    assert await late.value.ticket.result(30) == 2
    assert await waits == 2


@pytest.mark.asyncio
async def test_a_cancelled_call_is_applied_all_the_same(cluster: Cluster) -> None:
    """Nobody waits; nothing is undone, and nothing is kept for it."""
    counter = await cluster.node("a").aio().replicated("counter", Counter)
    assert await counter.add("first") == 1  # from here on the node has a session, and a call is submitted at once
    call = asyncio.create_task(counter.add("cancelled"))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await counter.add("next") == 3
    assert counter.metrics()["calls_under_way"] == 0


@pytest.mark.asyncio
async def test_upgrade_and_metrics(cluster: Cluster) -> None:
    counter = await cluster.node("b").aio().replicated("counter", Counter)
    assert await counter.upgrade() == 1
    assert counter.metrics()["version"] == 1
    assert repr(counter) == "<AioUserMachine 'counter' of Counter>"
