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
from raftmeta.faults import LinkFault, set_link_faults
from tests.node.nodes import make_nodes, one_node, running, settle, without_quorum
from tests.processes.waiting import wait_until

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
            cancelled = [task.cancel() for task in tasks[::2]]  # False: its answer was faster, on a busy machine
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            kinds = [asyncio.CancelledError if was else raftmeta.Revision for was in cancelled]
            assert [type(one) for one in ended[::2]] == kinds
            assert all(isinstance(one, raftmeta.Revision) for one in ended[1::2])
            await face.put("cancel/after", b"v")  # behind them all
            assert (await face.range(prefix="cancel/")).count == 101
            await face.delete_range(prefix="cancel/")

    run(main())


def test_a_put_is_a_coroutine_to_asyncio(run: Run, node: raftmeta.Node) -> None:
    """Everything that takes a coroutine takes it, and each tells the same."""

    async def main() -> None:
        async with node.aio() as face:
            await face.ready()
            first = int(await face.put("call/k", b"0"))
            one = face.put("call/k", b"1")
            assert asyncio.iscoroutine(one) and not asyncio.isfuture(one)
            loop = asyncio.get_running_loop()
            done = [
                await one,
                await asyncio.create_task(face.put("call/k", b"2")),
                await asyncio.wait_for(face.put("call/k", b"3"), 30),
                await asyncio.shield(face.put("call/k", b"4")),
                *await asyncio.gather(face.put("call/k", b"5"), face.put("call/k", b"6")),
                *[await each for each in asyncio.as_completed([face.put("call/k", b"7")])],
                *[each.result() for each in (await asyncio.wait([asyncio.ensure_future(face.put("call/k", b"8"))]))[0]],
                await asyncio.to_thread(asyncio.run_coroutine_threadsafe(face.put("call/k", b"9"), loop).result),
                await one,
            ]
            assert [int(one) - first for one in done] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 1]
            await face.delete("call/k")

    run(main())


def test_what_a_task_waits_for_is_a_future(run: Run, node: raftmeta.Node) -> None:
    async def main() -> None:
        async with node.aio() as face:
            await face.ready()
            told: list[Any] = []
            call: Any = face.put("call/k", b"v").__await__()
            assert asyncio.isfuture(call) and not asyncio.iscoroutine(call)
            assert call.get_loop() is asyncio.get_running_loop()
            assert not call.done() and "pending" in repr(call)
            call.add_done_callback(told.append)
            call.add_done_callback(told.remove)
            assert call.remove_done_callback(told.remove) == 1 and call.remove_done_callback(told.remove) == 0
            with pytest.raises(asyncio.InvalidStateError):
                call.result()
            with pytest.raises(asyncio.InvalidStateError):
                call.exception()
            done, _ = await asyncio.wait([call])
            assert done == {call} and told == [call] and call.exception() is None and not call.cancelled()
            assert call.cancel() is False
            call.add_done_callback(told.remove)
            assert await call == call.result() and await asyncio.gather(call, call) == [call.result()] * 2
            assert told == []
            read: Any = face.get("call/k")
            both = await asyncio.gather(*[asyncio.create_task(awaited(read)) for _ in range(2)])
            assert [one.value for one in both] == [b"v", b"v"]
            await face.delete("call/k")

    async def awaited(call: Any) -> Any:
        return await call

    run(main())


def test_a_call_is_submitted_when_it_is_made_and_fails_where_it_is_awaited(run: Run, node: raftmeta.Node) -> None:
    async def main() -> None:
        problems: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: problems.append(context))
        async with node.aio() as face:
            await face.ready()
            calls: list[Any] = [face.put("made/k", str(number)) for number in range(10)]
            del calls[1:]  # nobody awaits these
            wrong: Any = face.put("", b"v")
            forgotten: Any = face.get("made/k", timeout_s=-1)
            fenced: Any = face.put("made/k", b"v", fence=raftmeta.operations.Fence("made/none", 1))
            await face.put("made/behind", b"v")
            assert (await face.get("made/k")).value == b"9"
            with pytest.raises(raftmeta.InvalidArgument, match="key"):
                await wrong
            with pytest.raises(raftmeta.Fenced):
                await asyncio.wait_for(fenced, 30)
            assert isinstance(fenced.__await__().exception(), raftmeta.Fenced)
            with pytest.raises(TypeError):
                face.put("made/k")  # type: ignore[call-arg]
            assert problems == []
            del forgotten
            gc.collect()
            assert [type(one["exception"]) for one in problems] == [raftmeta.InvalidArgument]
            await face.delete_range(prefix="made/")

    run(main())


def test_a_cancelled_call_is_cancelled_for_all_who_wait(run: Run, node: raftmeta.Node) -> None:
    async def main() -> None:
        async with node.aio() as face:
            await face.ready()
            call: Any = face.put("cancelled/k", b"v").__await__()
            waiting = [asyncio.ensure_future(awaited(call)) for _ in range(2)]
            await asyncio.sleep(0)
            assert call.cancel("enough") and call.cancelled() and call.done()
            ended = await asyncio.gather(*waiting, return_exceptions=True)
            assert [type(one) for one in ended] == [asyncio.CancelledError] * 2
            with pytest.raises(asyncio.CancelledError, match="enough"):
                call.exception()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await face.put("cancelled/k", b"w")
            await face.put("cancelled/after", b"v")
            assert (await face.get("cancelled/k")).value == b"w"
            await face.delete_range(prefix="cancelled/")

    async def awaited(call: Any) -> Any:
        return await call

    run(main())


def test_what_a_resumed_task_does_never_meets_mail_of_its_batch(run: Run, node: raftmeta.Node) -> None:
    """A watch is closed, and a face, by tasks whose answers lie in the mailbox before that watch's news."""

    async def main() -> None:
        async with node.aio() as other:
            face = node.aio()
            watch: Any = face.watch(prefix="batch/")
            await watch.__aenter__()

            async def put_and_close(number: int) -> None:
                nonlocal watch
                await face.put(f"batch/{number}", b"v")
                closed, watch = watch, None
                if closed is not None:
                    await closed.close()
                    del closed
                    await face.close()

            tasks = [asyncio.create_task(put_and_close(number)) for number in range(20)]
            await asyncio.sleep(0)
            node.put("batch/last", b"v")  # blocks the event loop: all mail lies there
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            assert ended == [None] * 20
            gc.collect()
            await other.delete_range(prefix="batch/")

    run(main())


@pytest.mark.parametrize("event_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_task_that_ends_the_event_loop_loses_no_answer_of_others(
    event_loop: Callable[[], asyncio.AbstractEventLoop], node: raftmeta.Node
) -> None:
    """KeyboardInterrupt in the midst of a batch: whoever was behind is resumed when the event loop goes on."""
    loop = event_loop()
    face = node.aio()

    async def put(number: int) -> int:
        await face.put(f"ended/{number}", b"v")
        if number == 3:
            raise KeyboardInterrupt
        return number

    tasks: list[asyncio.Task[int]] = []

    async def submit() -> None:
        await face.ready()
        tasks.extend(asyncio.create_task(put(number)) for number in range(10))
        await asyncio.sleep(0)
        node.put("ended/last", b"v")  # blocks the event loop: all mail lies there
        await asyncio.wait(tasks)

    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(submit())
        ended = loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        assert [one for one in ended if not isinstance(one, BaseException)] == [0, 1, 2, 4, 5, 6, 7, 8, 9]
        loop.run_until_complete(face.close())
    finally:
        loop.close()


def test_a_put_of_a_session_that_has_just_ended_is_encoded_anew(run: Run, tmp_path: Path) -> None:
    """Cut off until its session expired, a node learns so in the midst of a flood: no put ends as NotReady."""

    async def main(nodes: dict[str, raftmeta.Node]) -> None:
        name = next(name for name, node in nodes.items() if not node.status().is_leader)
        others = [other for other in nodes if other != name]
        events = nodes[name].events()

        def sessions() -> int:
            return max(nodes[other].metrics()["sessions"] for other in others)

        async with nodes[name].aio() as face:
            await face.ready()
            set_link_faults(nodes[name], {other: LinkFault(cut_to=True, cut_from=True) for other in others})
            await asyncio.to_thread(wait_until, lambda: sessions() == 2, timeout_s=30, what="the session to expire")
            lost = asyncio.create_task(asyncio.to_thread(lambda: next(e for e in events if e.name == "session_lost")))
            set_link_faults(nodes[name], {})
            calls: list[Any] = []
            while not lost.done():
                calls += [face.put(f"flood/{number}", b"v", timeout_s=None) for number in range(10)]
                await asyncio.sleep(0)
            ended = await asyncio.gather(*calls, return_exceptions=True)
            kinds = {type(one): str(one) for one in ended}
            assert kinds.keys() <= {raftmeta.Revision, raftmeta.OutcomeUnknown, raftmeta.Overloaded}, kinds
            await face.put("flood/after", b"v")

    with running(tmp_path, session_ttl_s=1.0) as nodes:
        run(main(nodes))


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
        settle(nodes)
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

    with running(tmp_path, election_timeout_s=2.0) as nodes:  # the leader leads on while the others are closed
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


def test_a_watch_left_open_when_its_face_closes_harms_nobody(tmp_path: Path) -> None:
    """The node goes on to tell it; its signal's mailbox must outlive the face."""
    with one_node(tmp_path) as node:

        async def leave_open() -> Any:
            face = node.aio()
            watch = face.watch("k")
            await watch.__aenter__()
            await face.close()
            return watch

        left = [asyncio.run(leave_open()) for _ in range(20)]
        for number in range(50):
            node.put("k", str(number))
        assert len(left) == 20
