"""Watches: every change once and in order, across restarts of the watcher, for threads, callbacks and event loops."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import uvloop

import raftmeta
from raftmeta import WatchBatch, WatchReset
from raftmeta.operations import Delete, Put
from tests.node.nodes import leader_of, one_node, running
from tests.processes.waiting import wait_until

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[raftmeta.Node]:
    with one_node(tmp_path_factory.mktemp("watch")) as made:
        yield made


def test_changes_come_in_order_with_what_was_before(node: raftmeta.Node) -> None:
    with node.watch("order/k", previous=True, timeout_s=5) as watch:
        first = node.put("order/k", b"1")
        second = node.put("order/k", b"2")
        gone = node.delete("order/k")
        events = iter(watch)
        told = [next(events) for _ in range(3)]
    assert [(event.type, event.value, event.revision) for event in told] == [
        ("put", b"1", first),
        ("put", b"2", second),
        ("delete", b"", gone),
    ]
    assert told[0].previous is None
    assert [event.previous.value for event in told[1:]] == [b"1", b"2"]  # type: ignore[union-attr]
    assert told[2].key == b"order/k"


def test_a_watch_begins_in_the_past(node: raftmeta.Node) -> None:
    first = node.put("past/k", b"1")
    node.put("past/k", b"2")
    with node.watch(prefix="past/", start_revision=first.revision, timeout_s=5) as watch:
        events = iter(watch)
        assert [next(events).value for _ in range(2)] == [b"1", b"2"]
        node.put("past/k", b"3")
        assert next(events).value == b"3"


def test_one_revision_is_one_batch(node: raftmeta.Node) -> None:
    with node.watch(prefix="whole/", timeout_s=5) as watch:
        reply = node.txn([], [Put("whole/a", b"1"), Put("whole/b", b"2"), Put("other", b"3")])
        batch = next(watch.batches())
    assert isinstance(batch, WatchBatch)
    assert (batch.revision, batch.is_whole) == (reply.revision, True)
    assert [event.key for event in batch.events] == [b"whole/a", b"whole/b"]


def test_filters_and_ranges_leave_the_rest_out(node: raftmeta.Node) -> None:
    with (
        node.watch(prefix="filter/", puts=False, timeout_s=5) as deletes,
        node.watch("filter/b", "filter/d", deletes=False, timeout_s=5) as middle,
    ):
        for name in "abcd":
            node.put(f"filter/{name}", b"v")
        node.txn([], [Delete("filter/a"), Delete("filter/c")])
        node.put("filter/b", b"last")
        assert [(event.type, event.key) for event in next(deletes.batches()).events] == [
            ("delete", b"filter/a"),
            ("delete", b"filter/c"),
        ]
        events = iter(middle)
        assert [next(events).key for _ in range(3)] == [b"filter/b", b"filter/c", b"filter/b"]


def test_an_iterator_without_news_ends_after_its_time_out(node: raftmeta.Node) -> None:
    with node.watch("silent/k", timeout_s=0.01) as watch:
        assert list(watch) == []
        node.put("silent/k", b"1")
        assert [event.value for event in watch] == [b"1"]


def test_a_callback_is_called_on_a_thread_of_the_node(node: raftmeta.Node) -> None:
    told: queue.Queue[tuple[str, bytes]] = queue.Queue()

    def tell(batch: WatchBatch | WatchReset) -> None:
        assert isinstance(batch, WatchBatch)
        told.put((threading.current_thread().name, batch.events[0].value))

    with node.watch("callback/k", callback=tell):
        node.put("callback/k", b"1")
        assert told.get(timeout=20) == ("raftmeta-watch", b"1")


def test_closing_the_last_watch_with_a_callback_ends_their_threads(node: raftmeta.Node) -> None:
    watches = [node.watch("callback/closed", callback=print) for _ in range(3)]
    for watch in watches[:2]:
        watch.close()
    threads = wait_until(
        lambda: [thread for thread in threading.enumerate() if thread.name == "raftmeta-watch"],
        timeout_s=30,
        what="a thread for callbacks",
    )
    watches[2].close()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


def test_a_callback_that_blocks_does_not_hold_up_others(node: raftmeta.Node) -> None:
    """Several block at once, each in the middle of its events; when they go on they have missed nothing."""
    goes_on = threading.Event()
    told: dict[str, list[int]] = {name: [] for name in ("first", "second", "free")}
    begun = threading.Semaphore(0)
    has_all = threading.Semaphore(0)

    def callback_of(name: str) -> Callable[[WatchBatch | WatchReset], None]:
        def tell(batch: WatchBatch | WatchReset) -> None:
            if name != "free" and not told[name]:
                begun.release()
                assert goes_on.wait(30)
            told[name].append(batch.revision)
            if len(told[name]) == 20:
                has_all.release()

        return tell

    with contextlib.ExitStack() as watches:
        for name in told:
            watches.enter_context(node.watch("blocked/k", callback=callback_of(name)))
        written = [int(node.put("blocked/k", b"%d" % i)) for i in range(20)]
        assert begun.acquire(timeout=30)
        assert begun.acquire(timeout=30)
        assert has_all.acquire(timeout=30)
        assert told == {"first": [], "second": [], "free": written}
        goes_on.set()
        for _ in range(2):
            assert has_all.acquire(timeout=30)
    assert told == dict.fromkeys(told, written)


def test_a_callback_may_write_and_close_its_watch(node: raftmeta.Node) -> None:
    told: queue.Queue[int] = queue.Queue()

    def tell(batch: WatchBatch | WatchReset) -> None:
        told.put(batch.revision)
        told.put(int(node.put("answer/k", b"seen")))
        watch.close()
        told.put(0)

    watch = node.watch("question/k", callback=tell)
    asked = [int(node.put("question/k", b"%d" % i)) for i in range(2)]
    assert told.get(timeout=30) == asked[0]
    assert told.get(timeout=30) > asked[0]
    assert told.get(timeout=30) == 0


def test_a_callback_that_raises_is_reported_and_its_watch_ends(
    node: raftmeta.Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: queue.Queue[BaseException | None] = queue.Queue()
    monkeypatch.setattr(threading, "excepthook", lambda told: reported.put(told.exc_value))
    wrong = ValueError("wrong")
    told: queue.Queue[int] = queue.Queue()

    def fail(_batch: WatchBatch | WatchReset) -> None:
        raise wrong

    with node.watch("raises/k", callback=fail), node.watch("raises/k", callback=lambda batch: told.put(batch.revision)):
        written = [int(node.put("raises/k", b"%d" % i)) for i in range(2)]
        assert [told.get(timeout=30) for _ in written] == written
        assert reported.get(timeout=30) is wrong
    assert reported.empty()


def test_many_callbacks_are_told_everything_in_order(node: raftmeta.Node) -> None:
    """They share the events, and the thread."""
    told: list[list[int]] = [[] for _ in range(50)]
    all_told = threading.Semaphore(0)

    def callback_of(revisions: list[int]) -> Callable[[WatchBatch | WatchReset], None]:
        def tell(batch: WatchBatch | WatchReset) -> None:
            revisions.append(batch.revision)
            if len(revisions) == 100:
                all_told.release()

        return tell

    with contextlib.ExitStack() as watches:
        for revisions in told:
            watches.enter_context(node.watch("many/k", callback=callback_of(revisions)))
        written = [int(node.put("many/k", b"%d" % i)) for i in range(100)]
        for _ in told:
            assert all_told.acquire(timeout=30)
    assert told == [written] * len(told)


def test_watches_that_are_told_the_same_share_nothing_that_can_change(node: raftmeta.Node) -> None:
    with (
        node.watch(prefix="same/", timeout_s=5) as first,
        node.watch(prefix="same/", timeout_s=5) as second,
        node.watch("same/b", previous=True, timeout_s=5) as third,
    ):
        node.put("same/b", b"0")
        node.txn([], [Put("same/a", b"1"), Put("same/b", b"2")])
        watches = [watch.batches() for watch in (first, second, third)]
        begun = [next(batches) for batches in watches]
        assert [len(batch.events) for batch in begun if isinstance(batch, WatchBatch)] == [1, 1, 1]
        told = [batch.events for batches in watches if isinstance(batch := next(batches), WatchBatch)]
    assert told[0] == told[1]
    assert [event.value for event in told[1]] == [b"1", b"2"]
    told[0].clear()
    assert len(told[1]) == 2
    assert [(event.value, event.previous and event.previous.value) for event in told[2]] == [(b"2", b"0")]
    assert told[1][1].previous is None


def test_a_slow_watcher_goes_on_where_it_lagged(tmp_path: Path) -> None:
    """Bounded queues; too slow means one lagged(resume_revision), never silence."""
    with one_node(tmp_path, watch_queue_bytes_max=64 * 1024) as node:
        with node.watch(prefix="k/", timeout_s=5) as patient, node.watch(prefix="k/", raise_lagged=True) as strict:
            written = [node.put(f"k/{i}", b"x" * 4000).revision for i in range(100)]
            events = iter(patient)
            assert [next(events).revision for _ in range(100)] == written
            seen = []
            with pytest.raises(raftmeta.Lagged) as caught:
                for event in strict:
                    seen.append(event.revision)
        assert seen == written[: len(seen)]
        with node.watch(prefix="k/", start_revision=caught.value.revision, timeout_s=5) as rest:
            events = iter(rest)
            assert seen + [next(events).revision for _ in range(100 - len(seen))] == written


def test_a_start_below_the_history_is_compacted_or_a_reset(tmp_path: Path) -> None:
    with one_node(tmp_path) as node:
        node.put("k/gone", b"0")
        node.put("k/stays", b"1")
        last = node.delete("k/gone")
        node.compact(last.revision)
        with node.watch(prefix="k/", start_revision=1, timeout_s=5) as strict, pytest.raises(raftmeta.Compacted):
            next(strict.batches())
        with node.watch(prefix="k/", start_revision=1, reset=True, timeout_s=5) as watch:
            found = watch.batches()
            reset = next(found)
            assert isinstance(reset, WatchReset)
            assert [record.value for record in reset.records] == [b"1"]
            node.put("k/more", b"2")
            following = next(found)
            assert isinstance(following, WatchBatch)
            assert following.revision == reset.revision + 1


def test_a_watch_that_ends_stops_costing(node: raftmeta.Node) -> None:
    for _ in range(50):
        with node.watch(prefix="") as watch:
            pass
        assert list(watch) == []
    node.put("costing/k", b"v")


def test_watches_of_followers_see_the_same(tmp_path: Path) -> None:
    with running(tmp_path) as nodes:
        watches = [node.watch(prefix="k/", timeout_s=10) for node in nodes.values()]
        leader = leader_of(nodes)
        written = [leader.put(f"k/{i}", b"v").revision for i in range(50)]
        for watch in watches:
            events = iter(watch)
            assert [next(events).revision for _ in range(50)] == written
            watch.close()


def test_a_watch_ends_with_its_node(tmp_path: Path) -> None:
    with one_node(tmp_path) as node:
        watch = node.watch(prefix="k/")
        told: queue.Queue[int] = queue.Queue()
        thread = threading.Thread(target=lambda: [told.put(event.revision) for event in watch])
        thread.start()
        node.put("k/1", b"v")
        assert told.get(timeout=20) == 1
        node.close()
        thread.join(30)
        assert not thread.is_alive()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_an_async_watch_delivers_while_others_write(run: object, node: raftmeta.Node) -> None:
    async def main() -> None:
        async with node.aio() as face, face.watch(prefix="async/", timeout_s=5) as watch:
            writing = asyncio.gather(*[face.put(f"async/{i}", b"v") for i in range(100)])
            told = [event.revision async for event in _first(watch, 100)]
            assert told == sorted(int(revision) for revision in await writing)
            batches = watch.batches()
            last = await face.put("async/last", b"v")
            assert (await anext(batches)).revision == last
            reader = asyncio.create_task(anext(batches))
            await asyncio.sleep(0)
            await face.put("async/late", b"v")
            assert (await reader).events[0].key == b"async/late"

    run(main())  # type: ignore[operator]


async def _first(watch: raftmeta.aio.Watch, count: int):  # type: ignore[no-untyped-def]
    async for event in watch:
        yield event
        count -= 1
        if count == 0:
            return


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_an_async_watch_lags_resets_and_times_out_alike(run: object, tmp_path: Path) -> None:
    async def main(node: raftmeta.Node) -> None:
        async with node.aio() as face:
            async with face.watch(prefix="k/", timeout_s=5) as watch:
                written = [(await face.put(f"k/{i}", b"x" * 4000)).revision for i in range(100)]
                assert [event.revision async for event in _first(watch, 100)] == written
            await face.compact(written[-1])
            async with face.watch(prefix="k/", start_revision=1, reset=True, timeout_s=0.01) as watch:
                found = [batch async for batch in watch.batches()]
            assert [type(one) for one in found] == [WatchReset]
            async with face.watch(prefix="k/", start_revision=1) as watch:
                with pytest.raises(raftmeta.Compacted):
                    await anext(watch.batches())

    with one_node(tmp_path, watch_queue_bytes_max=64 * 1024) as node:
        run(main(node))  # type: ignore[operator]


@pytest.mark.parametrize(
    ("wanted", "field", "words"),
    [
        ({"start_revision": 1}, "key", 'prefix="" is every key'),
        ({"prefix": "", "start_revision": -1}, "start_revision", "0 to"),
        ({"prefix": "", "start_revision": 1 << 64}, "start_revision", "0 to"),
        ({"prefix": "", "start_revision": "1"}, "start_revision", "an int"),
        ({"prefix": "", "callback": 5}, "callback", "a function to call"),
    ],
)
def test_a_watch_that_makes_no_sense_is_refused_in_words(
    node: raftmeta.Node, wanted: dict[str, object], field: str, words: str
) -> None:
    with pytest.raises(raftmeta.InvalidArgument, match=words) as caught:
        node.watch(**wanted)  # type: ignore[arg-type]
    assert caught.value.field == field
    assert node.metrics()["watches"] == 0
