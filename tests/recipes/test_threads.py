"""Listeners, holds and fetches of the blocking face cost no thread each."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import pytest

import raftmeta
from raftmeta.common.shared_threads import Losses, SharedThreads
from tests.client.nodes import serving
from tests.node.nodes import without_quorum
from tests.processes.waiting import wait_until

THREADS_MAX = 24  # for all listeners, holds and fetches of one store, on a machine where threads often seem stuck


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[raftmeta.Node, str]]:
    with serving(tmp_path_factory.mktemp("threads")) as (nodes, url):
        yield nodes["a"], url


@pytest.fixture(params=["node", "client"])
def store(request: pytest.FixtureRequest, cluster: tuple[raftmeta.Node, str]) -> Iterator[Any]:
    if request.param == "node":
        yield cluster[0]
    else:
        with raftmeta.Client(cluster[1]) as client:
            yield client


def test_listeners_and_holds_share_threads(store: Any, name: str) -> None:
    """400 keys and key sets, 100 members and 40 candidates, each of which is told of something."""
    before = threading.active_count()
    told: list[Any] = []
    for number in range(200):
        store.listeners.add_value_change_listener(f"{name}/{number}", told.append)
        store.listeners.add_key_set_change_listener(f"{name}/{number}", told.append)
    for number in range(100):
        store.group(name).join(f"member {number}", on_lost=told.append)
    elected: list[Any] = []
    for number in range(40):
        assert store.election(f"{name}/{number}").nominate("me", on_elected=elected.append, on_lost=told.append)
    store.put_many([(f"{name}/{number}", b"1") for number in range(200)])
    # Of the names here one may begin with another: "/1" is told of "/10" and "/100", too.
    wait_until(
        lambda: {change.key for change in told if hasattr(change, "key")} == {f"{name}/{n}" for n in range(200)},
        timeout_s=30,
        what="every value listener to be told",
    )
    wait_until(lambda: len(elected) == 40, timeout_s=30, what="every candidate to be told")
    assert threading.active_count() - before <= THREADS_MAX


def test_a_lost_lease_is_told_on_shared_threads(cluster: tuple[raftmeta.Node, str]) -> None:
    """One thread looks at all leases, and ends with them; what was removed is not told."""

    class Lapsed:
        ttl_s = 0.02

        def __init__(self, held: bool) -> None:
            self.held = held

        def remaining_s(self) -> float:
            return 60.0 if self.held else 0.0

    losses, told = Losses(SharedThreads("test")), []
    leases = [Lapsed(held=number % 2 == 0) for number in range(200)]
    before = threading.active_count()
    for lease in leases:
        losses.add(lease, lambda lease=lease: told.append(lease))  # type: ignore[misc]
    assert threading.active_count() - before <= THREADS_MAX
    losses.remove(leases[0])
    wait_until(lambda: len(told) == 100, timeout_s=20, what="the lapsed ones to be told")
    for lease in leases:
        lease.held = False
    wait_until(lambda: len(told) == 199, timeout_s=20, what="the others to be told")
    assert leases[0] not in told
    wait_until(lambda: not losses._has_thread, timeout_s=20, what="the thread to end")


def test_a_call_that_blocks_delays_no_other() -> None:
    """Nor does an exception; a bounded number of threads stays bounded."""
    threads, go_on, told = SharedThreads("test"), threading.Event(), []
    for _ in range(3):
        threads.post(go_on.wait)
    threads.post(lambda: told.append(1))
    wait_until(lambda: told, timeout_s=20, what="the call behind three that block")
    few = SharedThreads("test-few", threads_max=2)
    for _ in range(50):
        few.post(go_on.wait)
    few.post(lambda: told.append(2))
    go_on.set()
    wait_until(lambda: len(told) == 2, timeout_s=20, what="the last of all")
    assert sum(one.name == "raftmeta-test-few" for one in threading.enumerate()) <= 3  # and who looks on


def test_fetches_share_a_thread(store: Any, name: str) -> None:
    """2,000 at once, each with its own key; one that was cancelled is passed over."""
    store.put_many([(f"{name}/{number}", str(number)) for number in range(2000)])
    before = threading.active_count()
    futures = [store.storage.fetch(f"{name}/{number}") for number in range(2000)]
    futures[7].cancel()
    missing = store.storage.fetch(f"{name}/none")
    assert threading.active_count() - before <= 2
    assert missing.result(20) is None
    assert [futures[number].result(20) for number in (0, 6, 8, 1999)] == [b"0", b"6", b"8", b"1999"]
    assert not wait(futures, 20).not_done


def test_a_fetch_that_nobody_can_answer_fails_in_time(tmp_path: Path) -> None:
    """Each at its own time; and after the node is closed at once."""
    with without_quorum(tmp_path) as node:
        quick, slow = node.fetch("k", timeout_s=0.2), node.fetch("k", timeout_s=30)
        with pytest.raises(raftmeta.RaftmetaError):
            quick.result(20)
        assert not slow.done()
    with pytest.raises(raftmeta.NodeClosed):
        slow.result(20)
    late: Future[bytes | None] = node.fetch("k")
    with pytest.raises(raftmeta.NodeClosed):
        late.result(0)


def test_a_callback_is_told_what_came_before_its_watch_was_open(cluster: tuple[raftmeta.Node, str], name: str) -> None:
    """The loop may tell of the past before the thread that opened the watch knows that it is open."""
    node = cluster[0]
    revision = int(node.put(name, b"1"))
    told: list[Any] = []
    watches = [node.watch(name, start_revision=revision, callback=told.append) for _ in range(300)]
    wait_until(lambda: len(told) == 300, timeout_s=20, what="every callback to be told")
    for watch in watches:
        watch.close()


def test_the_end_of_a_watch_is_told_once(store: Any, cluster: tuple[raftmeta.Node, str], name: str) -> None:
    """With the error that ended it; not when it was closed."""
    old = int(store.put(name, b"1"))
    new = int(store.put(name, b"2"))
    cluster[0].compact(new)
    ends: list[BaseException | None] = []
    watch = store.watch(name, start_revision=old, callback=lambda _: None, on_end=ends.append)
    wait_until(lambda: ends, timeout_s=20, what="the end of the watch")
    assert isinstance(ends[0], raftmeta.Compacted)
    watch.close()
    boom = ValueError("on purpose")

    def fail(_: object) -> None:
        raise boom

    store.watch(name, callback=fail, on_end=ends.append)
    store.put(name, b"3")
    wait_until(lambda: len(ends) == 2, timeout_s=20, what="the end of the second")
    assert ends[1] is boom
    closed = store.watch(name, callback=lambda _: None, on_end=ends.append)
    closed.close()
    store.put(name, b"4")
    assert len(ends) == 2
