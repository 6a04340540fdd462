"""What became of an operation: time-outs, overload, closing, and how to go on after an unknown outcome."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import raftmeta
from tests.node.nodes import make_nodes, one_node, running, settle, without_quorum
from tests.processes.waiting import wait_until


@pytest.fixture
def lonely(tmp_path: Path) -> Iterator[raftmeta.Node]:
    """A node that knows no leader any more."""
    with without_quorum(tmp_path) as node:
        yield node


def test_a_write_that_nobody_took_is_withdrawn(lonely: raftmeta.Node) -> None:
    with pytest.raises(raftmeta.Withdrawn) as caught:
        lonely.put("k", b"v", timeout_s=0.05)
    assert isinstance(caught.value, raftmeta.NotExecuted | TimeoutError)
    wait_until(lambda: lonely.metrics()["operations_in_flight"] <= 1, timeout_s=20, what="the engine to forget it")


def test_a_read_that_nobody_confirms_is_withdrawn(lonely: raftmeta.Node) -> None:
    with pytest.raises(raftmeta.Withdrawn):
        lonely.get("k", timeout_s=0.05)
    assert lonely.get("k", local=True) is None


def test_a_time_out_of_zero_does_not_wait(lonely: raftmeta.Node) -> None:
    began = time.monotonic()
    with pytest.raises(raftmeta.Withdrawn):
        lonely.put("k", b"v", timeout_s=0)
    assert time.monotonic() - began < 4  # without one it would wait for five seconds


def test_an_operation_that_was_proposed_has_an_unknown_outcome_and_a_ticket(tmp_path: Path) -> None:
    """Its ticket goes on with the same operation, which is applied once."""
    with running(tmp_path) as nodes:
        settle(nodes)
        leader = next(node for node in nodes.values() if node.status().is_leader)
        others = [node for node in nodes.values() if node is not leader]
        for node in others:
            node.close(transfer=False)
        with pytest.raises(raftmeta.OutcomeTimeout) as caught:
            leader.add("count", 1, timeout_s=0.05)  # still leads: appended, but nobody acknowledges
        assert not caught.value.ticket.is_done
        with pytest.raises(raftmeta.OutcomeTimeout) as again:
            caught.value.ticket.result(0.01)
        back = _again(others[0])
        with back:
            assert again.value.ticket.result(30).result == 1
            assert caught.value.ticket.result(30).result == 1
            assert leader.add("count", 0).result == 1


def _again(node: raftmeta.Node) -> raftmeta.Node:
    peers = {name: str(address) for name, address in node.identity.peers.items()}
    return raftmeta.Node(node.name, peers=peers, data_dir=node.identity.data_dir, config=node.config)


def test_too_much_under_way_is_overloaded_at_once(tmp_path: Path) -> None:
    with without_quorum(tmp_path, outstanding_max=8) as node:
        waiting = [threading.Thread(target=_expect_closed, args=(node,)) for _ in range(8)]
        for thread in waiting:
            thread.start()
        wait_until(lambda: node.metrics()["operations_in_flight"] == 8, timeout_s=20, what="eight under way")
        with pytest.raises(raftmeta.Overloaded):
            node.put("k", b"v", timeout_s=None)
        with pytest.raises(raftmeta.Withdrawn):
            node.delete("k", timeout_s=0.01)  # deletes pass, as do fences and keep-alives
        node.close(transfer=False)
        for thread in waiting:
            thread.join(30)
            assert not thread.is_alive()


def _expect_closed(node: raftmeta.Node) -> None:
    with pytest.raises(raftmeta.NodeClosed):
        node.put("k", b"v", timeout_s=None)


def test_closing_answers_everybody_who_waits(lonely: raftmeta.Node) -> None:
    waiting = threading.Thread(target=_expect_closed, args=(lonely,))
    waiting.start()
    wait_until(lambda: lonely.metrics()["operations_in_flight"] >= 1, timeout_s=20, what="a write under way")
    lonely.close()
    waiting.join(30)
    assert not waiting.is_alive()


def test_a_node_that_is_not_running_says_so(tmp_path: Path) -> None:
    node = make_nodes(tmp_path, names="a")["a"]
    for call in (node.status, node.metrics, node.events, lambda: node.put("k", b"v"), lambda: node.get("k")):
        with pytest.raises(raftmeta.NodeClosed, match="not started"):
            call()  # type: ignore[operator]
    node.close()
    with node:
        node.ready(30)
    for call in (node.status, lambda: node.put("k", b"v"), node.start):
        with pytest.raises(raftmeta.NodeClosed):
            call()  # type: ignore[operator]
    node.close()


def test_ctrl_c_ends_a_blocked_call(lonely: raftmeta.Node) -> None:
    """The signal is this process's own, as from a terminal; the call has no time-out."""

    def interrupt() -> None:
        wait_until(lambda: lonely.metrics()["operations_in_flight"] >= 1, timeout_s=20, what="a write under way")
        signal.raise_signal(
            signal.SIGINT
        ) if threading.current_thread() is threading.main_thread() else signal.pthread_kill(
            threading.main_thread().ident or 0, signal.SIGINT
        )

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        lonely.put("k", b"v", timeout_s=None)
    thread.join()


def test_a_refusal_is_a_result_and_harms_nothing(tmp_path: Path) -> None:
    with one_node(tmp_path) as node:
        for _ in range(100):
            with pytest.raises(raftmeta.KeyMissing):
                node.delete("k", must_exist=True)
        assert node.status().revision == 0
        node.put("k", b"v")
