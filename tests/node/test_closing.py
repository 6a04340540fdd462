"""close() comes from anywhere: from threads, signal handlers and tasks, several at once, in the middle of any call."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import raftmeta
import raftmeta.aio
from raftmeta.common.flags import Flag
from raftmeta.testing import Cluster
from raftmeta.testing.cluster import TEST_CONFIG
from tests.node.nodes import make_nodes, one_node, without_quorum
from tests.processes.waiting import wait_until

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("kind", "rounds"), [("node", 20), ("alone", 15), ("leader", 6), ("client", 30)], ids=lambda value: str(value)
)
def test_it_is_closed_at_random_moments(kind: str, rounds: int) -> None:
    """Random calls, and random closings: from threads, and from a signal handler in the middle of the main thread's.

    In a process of its own (tests/node/closing.py), which a mistake kills or hangs.
    """
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.node.closing", kind, "1", str(rounds)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, f"{ended.returncode}\n{ended.stdout[-4000:]}\n{ended.stderr[-8000:]}"


@pytest.mark.parametrize("kind", ["node", "client"])
def test_it_is_closed_at_each_line_that_holds_a_lock(kind: str) -> None:
    """By a signal handler, which runs on the thread that has the lock: also one of the module threading.

    In a process of its own (tests/node/closing_lines.py), which a mistake hangs. It tells how many lines it stopped at.
    """
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.node.closing_lines", kind]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 0, f"{ended.returncode}\n{ended.stdout[-4000:]}\n{ended.stderr[-8000:]}"
    stopped_at = [int(line.split()[-2]) for line in ended.stdout.splitlines()]
    assert len(stopped_at) == 3
    assert sum(stopped_at) > 50


def test_who_closes_second_waits_for_the_first(tmp_path: Path) -> None:
    """When close() returns, the folder is free, whichever thread it returns to."""
    nodes = make_nodes(tmp_path, names="a")
    node = nodes["a"].start()
    node.ready(30)
    for _ in range(5):
        threads = [threading.Thread(target=node.close) for _ in range(4)]
        for thread in threads:
            thread.start()
        node.close()
        assert not node.is_running
        node = raftmeta.Node("a", peers={"a": str(node.identity.peers["a"])}, data_dir=tmp_path / "a").start()
        for thread in threads:
            thread.join()
    node.close()


def test_tasks_close_at_once(tmp_path: Path) -> None:
    async def work() -> None:
        node = raftmeta.aio.Node("a", peers=peers, data_dir=tmp_path / "a")
        await node.start()
        await node.ready(30)
        await node.group("g").join("m")
        late = asyncio.ensure_future(node.close())
        await asyncio.sleep(0)
        late.cancel()  # the closing goes on
        assert await asyncio.gather(*[node.close() for _ in range(5)]) == [None] * 5
        assert not node.is_running
        await node.close()

    peers = {"a": str(make_nodes(tmp_path, names="a")["a"].identity.peers["a"])}
    asyncio.run(work())


def test_a_leader_without_a_successor_is_closed_twice() -> None:
    """A signal handler closes while close() waits for somebody to take over."""
    with Cluster(3) as cluster:
        node = cluster.leader()
        for follower in cluster.followers():
            cluster.kill(follower)
        before = signal.signal(signal.SIGALRM, lambda *_: node.close())
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            node.close()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert not node.is_running


@pytest.mark.parametrize(
    "call",
    [
        lambda node: next(node.election("e").terms("me")),
        lambda node: node.election("e").nominate("me"),
        lambda node: node.group("g").join("me"),
        lambda node: raftmeta.recipes.Lock(node, "l").acquire(),
    ],
)
def test_a_signal_handler_closes_below_a_recipe(tmp_path: Path, call: object) -> None:
    """No quorum: the recipe waits, with its lock held, on the very thread on which the handler closes the node."""
    took_s: list[float] = []

    def close(*_: object) -> None:
        began_s = time.monotonic()
        node.close()
        took_s.append(time.monotonic() - began_s)

    with without_quorum(tmp_path) as node:
        before = signal.signal(signal.SIGALRM, close)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            with pytest.raises(raftmeta.NodeClosed):
                call(node)  # type: ignore[operator]
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert took_s[0] < node.config.close_timeout_s


def test_a_queue_is_closed_while_it_claims(tmp_path: Path) -> None:
    """Without a quorum the claim waits with its mutex held: close() does not, for a signal handler could not."""
    failures: list[raftmeta.RaftmetaError] = []

    def take() -> None:
        try:
            queue.take()
        except raftmeta.RaftmetaError as error:
            failures.append(error)

    with without_quorum(tmp_path) as node:
        queue = raftmeta.recipes.Queue(node, "q")
        taking = threading.Thread(target=take)
        taking.start()
        wait_until(lambda: node.metrics()["operations_in_flight"], timeout_s=10, what="a claim under way")
        queue.close()
        assert not failures
        taking.join()
        assert len(failures) == 1


def test_a_node_that_is_closed_while_it_starts_gives_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a signal handler, which cannot wait for the start below it, and by another thread, which waits."""
    import raftmeta.face.base as node_base

    for name in "12":
        (tmp_path / name).mkdir()
    node, other = make_nodes(tmp_path / "1", names="a")["a"], make_nodes(tmp_path / "2", names="a")["a"]
    listen_at = node_base.listen_at
    closing = threading.Thread(target=other.close)

    def listen_late(address: object, *rest: object) -> object:
        if address == node.identity.listen:
            node.close()
        else:
            closing.start()
            closing.join(0.2)
            assert closing.is_alive()
        return listen_at(address, *rest)

    monkeypatch.setattr(node_base, "listen_at", listen_late)
    for each in (node, other):
        with pytest.raises(raftmeta.NodeClosed, match="while it started"):
            each.start()
        assert not each.is_running
        with pytest.raises(raftmeta.NodeClosed):
            each.start()
        each.close()
    closing.join()


def test_what_a_signal_handler_raises_leaves_close_and_the_node_is_closed(tmp_path: Path) -> None:
    def interrupt(*_: object) -> None:
        node.close()
        raise KeyboardInterrupt

    config = dataclasses.replace(TEST_CONFIG, election_timeout_s=2.0)  # it leads on while the others are killed
    with Cluster(3, folder=tmp_path, config=config) as cluster:
        node = cluster.leader()
        for follower in cluster.followers():
            cluster.kill(follower)
        before = signal.signal(signal.SIGALRM, interrupt)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(KeyboardInterrupt):
                node.close()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert not node.is_running


def test_a_forked_child_closes_what_its_parent_closes(tmp_path: Path) -> None:
    with one_node(tmp_path) as node:
        child = os.fork()
        if child == 0:
            node.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        node.put("k", b"v")


def test_a_flag_is_set_below_one_who_waits_for_it() -> None:
    """As a signal handler does at any point of wait(), set() and clear(); threading.Event hangs in some."""
    flag = Flag()
    points = 0

    def at_each_line(frame: object, event: str, argument: object) -> object:
        nonlocal points
        sys.settrace(None)
        points += 1
        flag.set()
        sys.settrace(at_each_line)
        return at_each_line

    for call in (flag.wait, flag.set):
        flag.clear()
        sys.settrace(at_each_line)
        call()
        sys.settrace(None)
    assert points > 5
    flag.clear()
    assert not flag.wait(0.01)
