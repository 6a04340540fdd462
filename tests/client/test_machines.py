"""User machines called by clients, which have no copy: once, whatever breaks, and answered as on a node."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import raftmeta
from tests.client.nodes import ServingCluster, serving
from tests.node.nodes import QUICK
from tests.processes.waiting import wait_until
from tests.replicated.machines import GATE, Board, Counter


def open_board(node: raftmeta.Node) -> None:
    node.replicated("board", Board)


def count_on(node: raftmeta.Node) -> int:
    count: int = node.replicated("board", Board).count()
    return count


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, raftmeta.Node], str]]:
    """Three nodes, each with a copy of "board"."""
    with serving(tmp_path_factory.mktemp("n"), names="abc") as (nodes, url):
        for node in nodes.values():
            open_board(node)
        yield nodes, url


def test_commands_and_reads_are_those_of_a_node(served: tuple[dict[str, raftmeta.Node], str]) -> None:
    """A result, a rejection with its details, a failure that changed nothing, and a read that sees all before it."""
    nodes, url = served
    with raftmeta.Client(url) as client:
        board = client.replicated("board", Board)
        before = board.count()
        assert board.move("x", 3) == before + 1
        with pytest.raises(raftmeta.Rejected, match="taken") as rejected:
            board.move("y", 3)
        assert rejected.value.details == {"by": "x"}
        with pytest.raises(raftmeta.CommandFailed) as failed:
            board.tear("x")
        assert failed.value.kind == "ValueError"
        assert board.standing() == {"x": 3} and board.standing(local=True).keys() <= {"x"}
        with pytest.raises(raftmeta.CommandFailed) as failed:
            board.whose(99)
        assert failed.value.kind == "StopIteration"
        for node in nodes.values():
            assert node.replicated("board", Board).standing() == {"x": 3}
        assert nodes["a"].replicated("board", Board).move("x", 4) == before + 2
        assert board.standing() == {"x": 4}


def test_the_asyncio_face_awaits_the_same(served: tuple[dict[str, raftmeta.Node], str]) -> None:
    async def use() -> int:
        async with raftmeta.aio.Client(served[1]) as client:
            board = await client.replicated("board", Board)
            before: int = await board.count()
            await asyncio.gather(*(board.move(f"p{number}", 100 + number) for number in range(50)))
            return await board.count() - before

    assert asyncio.run(use()) == 50


def test_what_cannot_be_is_told_before_anything_is_sent(served: tuple[dict[str, raftmeta.Node], str]) -> None:
    with raftmeta.Client(served[1]) as client:
        board = client.replicated("board", Board)
        with pytest.raises(AttributeError, match="has no command or read"):
            board.fly()
        with pytest.raises(raftmeta.InvalidArgument, match="plain value"):
            board.move(object(), 1)
        with pytest.raises(raftmeta.InvalidArgument, match="local"):
            board.move("x", 1, local=True)
        with pytest.raises(raftmeta.InvalidArgument, match="name"):
            client.replicated("", Board)
        with pytest.raises(raftmeta.ConfigError, match="replicated"):
            client.replicated("board", dict)
        with pytest.raises(raftmeta.InvalidArgument, match="at most"):
            board.move("x" * (2 << 20), 1)
        assert board.upgrade() == 1


def test_a_node_without_a_copy_takes_no_command_and_says_so(served: tuple[dict[str, raftmeta.Node], str]) -> None:
    """Certainly not executed: the log did not get it."""
    nodes, url = served
    with raftmeta.Client(url) as client:
        lonely = client.replicated("lonely", Board)
        for call in (lambda: lonely.move("x", 1), lonely.count):
            with pytest.raises(raftmeta.MachineStopped, match="call replicated"):
                call()
        for node in nodes.values():
            assert node.replicated("lonely", Board).count() == 0
        wait_until(lambda: _counts(lonely) == 0, timeout_s=30, what="the copy to be there")


def _counts(board: object) -> int | None:
    try:
        count: int = board.count()  # type: ignore[attr-defined]
    except raftmeta.MachineStopped:
        return None
    return count


def test_a_fence_that_is_lost_keeps_a_command_out(served: tuple[dict[str, raftmeta.Node], str]) -> None:
    with raftmeta.Client(served[1]) as client:
        board = client.replicated("board", Board)
        revision = client.put("held", b"1").revision
        fence = raftmeta.Fence("held", revision)
        before = board.count()
        board.move("fenced", 200, fence=fence)
        client.delete("held")
        with pytest.raises(raftmeta.Fenced):
            board.move("fenced", 201, fence=fence)
        assert board.count() == before + 1


def test_a_call_that_ran_out_of_time_goes_on_by_its_ticket(tmp_path: Path) -> None:
    """The copy is busy: the command is in the log, and its ticket has the outcome later, once."""
    GATE.clear()
    try:
        with serving(tmp_path) as (nodes, url), raftmeta.Client(url) as client:
            nodes["a"].replicated("counter", Counter)
            counter = client.replicated("counter", Counter)
            wait_until(lambda: _reads(counter) == 0, timeout_s=30, what="the copy to be there")
            blocked = threading.Thread(target=counter.block, kwargs={"timeout_s": 30})
            blocked.start()
            with pytest.raises(raftmeta.OutcomeTimeout) as late:
                counter.add("late", timeout_s=0.5)
            GATE.set()
            assert late.value.ticket.result(30) == 1
            blocked.join()
            assert (counter.total(), counter.repeated()) == (1, [])
    finally:
        GATE.set()


def _reads(counter: object) -> int | None:
    try:
        value: int = counter.total()  # type: ignore[attr-defined]
    except raftmeta.MachineStopped:
        return None
    return value


def move(board: Any, number: int) -> int:
    """A node that was just started serves clients before it has its copy again: that is certainly not executed."""
    while True:
        with contextlib.suppress(raftmeta.MachineStopped):
            answer: int = board.move("x", number, timeout_s=30)
            return answer


def test_calls_are_executed_once_while_nodes_are_killed(tmp_path: Path) -> None:
    """Real processes: each move is answered with its number, and counted once on every node."""
    with ServingCluster(tmp_path, **QUICK) as cluster:
        for node in cluster.nodes.values():
            node.call(open_board)
        answers: list[int] = []
        with raftmeta.Client(cluster.url) as client:
            board = client.replicated("board", Board)
            for number in range(60):
                if number in (20, 40):
                    victim = cluster.leader()
                    victim.kill()
                    victim.start()
                    victim.call(open_board)
                answers.append(move(board, number))
            assert answers == list(range(1, 61))
            assert board.count(timeout_s=10) == 60
        for node in cluster.nodes.values():
            assert node.call(count_on, timeout_s=20) == 60
