"""The asyncio face: the same verbs, answers in batches, on asyncio and uvloop, several event loops on one node."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

import raftmeta
from raftmeta import aio
from tests.node.nodes import make_nodes, one_node, running, without_quorum

Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    return asyncio.run if request.param == "asyncio" else uvloop.run


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[raftmeta.Node]:
    with one_node(tmp_path_factory.mktemp("aio")) as made:
        yield made


def test_every_verb_awaits(run: Run, node: raftmeta.Node) -> None:
    async def main() -> None:
        async with node.aio() as face:
            await face.ready()
            first = await face.put("verbs/k", b"1")
            assert (await face.put("verbs/k", b"2", previous=True)).result.value == b"1"
            assert (await face.get("verbs/k")).value == b"2"
            assert (await face.get("verbs/k", revision=first.revision, local=True)).value == b"1"
            with pytest.raises(raftmeta.KeyExists):
                await face.create("verbs/k", b"3")
            await face.create("verbs/other", b"3")
            with pytest.raises(raftmeta.CompareFailed):
                await face.update("verbs/k", b"4", expected_revision=first.revision)
            await face.update("verbs/k", b"4")
            assert (await face.range(prefix="verbs/")).count == 2
            assert (await face.add("verbs/n", 4)).result == 4
            reply = await face.txn([raftmeta.operations.Version("verbs/k") == 3], [raftmeta.operations.Get("verbs/k")])
            assert (reply.succeeded, reply.results[0].value) == (True, b"4")
            assert (await face.delete("verbs/k", previous=True)).result.value == b"4"
            assert (await face.delete_range(prefix="verbs/")).result == 2
            await face.compact(first.revision)
            assert face.status().is_leader
            assert face.metrics()["is_leader"] == 1

    run(main())


def test_put_many_says_how_many_items_are_set(run: Run, node: raftmeta.Node) -> None:
    """The fence falls as soon as the first group is seen: one behind it is refused, and none is begun after that."""

    async def main() -> None:
        async with node.aio() as face:
            await face.ready()
            held = raftmeta.operations.Fence("proof", int(await face.create("proof", b"")))
            items = {f"group/{number:05}": str(number) for number in range(50_000)}
            putting = asyncio.ensure_future(face.put_many(items, fence=held))
            while await face.get("group/00000", local=True) is None:
                await asyncio.sleep(0)
            await face.delete("proof")
            with pytest.raises(raftmeta.Fenced) as caught:
                await putting
            done = caught.value.items_done
            assert 0 < done < len(items) and done % 4096 == 0
            assert (await face.range(prefix="group/")).count == done
            await face.put_many(list(items.items())[done:])
            assert (await face.range(prefix="group/")).count == len(items)
            for first in range(5):  # a deletion has at most 10,000 keys
                assert (await face.delete_range(prefix=f"group/{first}")).result == 10_000

    run(main())


def test_a_thousand_at_once_are_answered_in_batches(run: Run, node: raftmeta.Node) -> None:
    async def main() -> None:
        async with node.aio() as face:
            before = face.metrics()["turns"]
            answers = await asyncio.gather(*[face.put(f"batch/{i}", b"v") for i in range(1000)])
            assert sorted(int(answer) for answer in answers) == [int(answer) for answer in answers]
            assert face.metrics()["turns"] - before < 1000
            assert (await face.range(prefix="batch/")).count == 1000
            await face.delete_range(prefix="batch/")

    run(main())


def test_cancelling_a_wait_undoes_no_write_and_spoils_no_batch(run: Run, node: raftmeta.Node) -> None:
    async def main() -> None:
        async with node.aio() as face:
            tasks = [asyncio.create_task(face.put(f"cancel/{i}", b"v")) for i in range(100)]
            await asyncio.sleep(0)  # every task runs up to its await: all are submitted
            for task in tasks[::2]:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            assert [type(one) for one in ended[:2]] == [asyncio.CancelledError, raftmeta.Revision]
            assert all(isinstance(one, raftmeta.Revision) for one in ended[1::2])
            await face.put("cancel/after", b"v")  # behind them all
            assert (await face.range(prefix="cancel/")).count == 101
            await face.delete_range(prefix="cancel/")

    run(main())


def test_time_outs_tell_the_fate(run: Run, tmp_path: Path) -> None:
    async def main(node: raftmeta.Node) -> None:
        async with node.aio() as face:
            ended = await asyncio.gather(
                face.put("k", b"v", timeout_s=0.05),
                face.get("k", timeout_s=0.02),
                face.txn([], [], timeout_s=0.03),
                face.delete("k", timeout_s=0),
                return_exceptions=True,
            )
            assert [type(one) for one in ended] == [raftmeta.Withdrawn] * 4
            assert await face.get("k", local=True) is None

    with without_quorum(tmp_path) as node:
        run(main(node))


def test_an_unknown_outcome_goes_on(run: Run, tmp_path: Path) -> None:
    async def main(nodes: dict[str, raftmeta.Node]) -> None:
        leader = next(node for node in nodes.values() if node.status().is_leader)
        others = [node for node in nodes.values() if node is not leader]
        for node in others:
            node.close(transfer=False)
        async with leader.aio() as face:
            with pytest.raises(raftmeta.OutcomeTimeout) as caught:
                await face.add("n", 1, timeout_s=0.05)
            with pytest.raises(raftmeta.OutcomeTimeout) as again:
                await caught.value.ticket.result(0.01)
            peers = {name: str(address) for name, address in leader.identity.peers.items()}
            other = others[0]
            with raftmeta.Node(other.name, peers=peers, data_dir=other.identity.data_dir, config=other.config):
                assert (await again.value.ticket.result(30)).result == 1
                assert (await caught.value.ticket.result(30)).result == 1
                assert (await face.add("n", 0)).result == 1

    with running(tmp_path) as nodes:
        run(main(nodes))


def test_a_face_that_is_closed_answers_those_who_wait(run: Run, tmp_path: Path) -> None:
    async def main(node: raftmeta.Node) -> None:
        face = node.aio()
        waiting = asyncio.create_task(face.put("k", b"v", timeout_s=None))
        await asyncio.sleep(0)
        await face.close()
        with pytest.raises(raftmeta.NodeClosed):
            await waiting
        with pytest.raises(raftmeta.NodeClosed):
            await face.put("k", b"v")

    with without_quorum(tmp_path) as node:
        run(main(node))
        assert node.is_running


def test_an_event_loop_that_ends_leaves_nothing_behind(run: Run, tmp_path: Path) -> None:
    """Nobody awaited the answers and nobody closed the face: the node goes on, and frees them as they come."""

    async def main(node: raftmeta.Node) -> None:
        face = node.aio()
        for i in range(100):
            asyncio.create_task(face.put(f"k/{i}", b"v"))  # noqa: RUF006  # nobody waits, on purpose
        await asyncio.sleep(0)

    with one_node(tmp_path) as node:
        for _ in range(5):
            run(main(node))
        node.put("after", b"v")
        assert node.range(prefix="k/").count == 100


def test_a_node_of_its_own_starts_and_closes(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        made = make_nodes(tmp_path, names="a")["a"]
        peers = {name: str(address) for name, address in made.identity.peers.items()}
        async with aio.Node("a", peers=peers, data_dir=tmp_path / "a", config=made.config) as node:
            await node.ready()
            await node.put("k", b"v")
            waiting = asyncio.create_task(node.watch("k")._next())
            await node.put("k", b"w")
            await node.close()
            assert not node.is_running
            await waiting

    run(main())


def test_a_call_before_the_node_is_ready_waits_until_it_is(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        nodes = make_nodes(tmp_path)
        async with asyncio.TaskGroup() as group, aio.Node.of(nodes["a"].start()) as face:
            with pytest.raises(raftmeta.ReadyTimeout) as caught:
                await face.put("k", b"v", timeout_s=0.05)
            assert set(caught.value.unreachable) == {"b", "c"}
            writing = group.create_task(face.put("k", b"v", timeout_s=10))
            nodes["b"].start()
            nodes["c"].start()
            assert await writing >= 1
        for node in nodes.values():
            node.close(transfer=False)

    run(main())


def test_news_of_a_watch_that_is_gone_harm_nobody(run: Run, tmp_path: Path) -> None:
    """The loop thread posted it, the event loop was busy, and meanwhile the node was closed and the watch dropped."""

    async def main(node: raftmeta.Node) -> None:
        face = node.aio()
        watch = face.watch(prefix="")
        await watch.__aenter__()
        node.put("k", b"v")  # blocks the event loop: its mail lies there
        node.close()
        del watch
        gc.collect()
        await asyncio.sleep(0)
        await face.close()

    with one_node(tmp_path) as node:
        run(main(node))


def test_several_event_loops_share_one_node(node: raftmeta.Node) -> None:
    """Each thread runs a loop of its own with a face of its own; callers that block are there too."""
    problems: list[BaseException] = []

    async def write(name: str) -> None:
        async with node.aio() as face:
            for _ in range(20):
                await asyncio.gather(*[face.put(f"loops/{name}/{i}", b"v") for i in range(20)])
            assert (await face.range(prefix=f"loops/{name}/")).count == 20

    def guarded(target: Callable[[], Any]) -> None:
        try:
            target()
        except BaseException as problem:
            problems.append(problem)

    targets: list[Callable[[], Any]] = [
        lambda: asyncio.run(write("one")),
        lambda: uvloop.run(write("two")),
        lambda: [node.put("loops/blocking", b"v") for _ in range(100)],
    ]
    threads = [threading.Thread(target=guarded, args=(target,)) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert problems == []
    assert node.range(prefix="loops/").count == 41


def test_a_face_belongs_to_one_event_loop(node: raftmeta.Node) -> None:
    face = node.aio()

    async def use() -> None:
        await face.put("belongs/k", b"v")

    asyncio.run(use())
    with pytest.raises(raftmeta.InvalidArgument, match="event loop"):
        asyncio.run(use())
