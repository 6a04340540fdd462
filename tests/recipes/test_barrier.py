"""Barrier, double barrier and counter."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import raftmeta
import raftmeta.operations
from raftmeta import recipes
from raftmeta.recipes.double_barrier import DoubleBarrier
from raftmeta.recipes.keys import prefix_of
from tests.node.nodes import running
from tests.processes.waiting import wait_until
from tests.recipes.faces import Face
from tests.recipes.test_group import crash
from tests.recipes.test_line import Waiter

Nodes = dict[str, raftmeta.Node]
MakeFace = Callable[[raftmeta.Node], Face]


def test_a_barrier_holds_back_until_it_is_lifted(nodes: Nodes, face: MakeFace, name: str) -> None:
    here, there = face(nodes["a"]).recipe("Barrier", name), face(nodes["b"]).recipe("Barrier", name)
    assert there.wait(timeout_s=0)
    here.set()
    here.set()
    assert not there.wait(timeout_s=0.05)
    waiters = [Waiter(lambda: there.wait(timeout_s=30)) for _ in range(2)]
    here.lift()
    here.lift()
    assert [waiter.join() for waiter in waiters] == [True, True]


def test_all_enter_and_leave_a_double_barrier_together(nodes: Nodes, face: MakeFace, name: str) -> None:
    """Twice over the same barrier; nobody is through before all have come."""
    barriers = [face(nodes[one]).recipe("DoubleBarrier", name, 3) for one in "abc"]
    for _ in range(2):
        entering = [Waiter(lambda one=one: one.enter(timeout_s=30) or True) for one in barriers[:2]]  # type: ignore[misc]
        with pytest.raises(raftmeta.InvalidArgument):
            barriers[2].leave()
        assert [waiter.permit for waiter in entering] == [None, None]
        entering.append(Waiter(lambda: barriers[2].enter(timeout_s=30) or True))
        assert [waiter.join() for waiter in entering] == [True] * 3
        with pytest.raises(raftmeta.InvalidArgument):
            barriers[0].enter()
        leaving = [Waiter(lambda one=one: one.leave(timeout_s=30)) for one in barriers[:2]]  # type: ignore[misc]
        assert not any(waiter.permit for waiter in leaving)
        leaving.append(Waiter(lambda: barriers[2].leave(timeout_s=30)))
        assert [waiter.join() for waiter in leaving] == [True] * 3


def test_who_does_not_come_in_time_is_not_inside(nodes: Nodes, face: MakeFace, name: str) -> None:
    one, two = (face(nodes["a"]).recipe("DoubleBarrier", name, 2) for _ in range(2))
    with pytest.raises(TimeoutError):
        one.enter(timeout_s=0.1)
    with pytest.raises(raftmeta.InvalidArgument):
        one.leave()
    first = Waiter(lambda: one.enter(timeout_s=30) or True)
    two.enter(timeout_s=30)
    assert first.join()
    assert not one.leave(timeout_s=0.05)
    assert two.leave(timeout_s=5)


def test_who_gives_up_is_out_before_enter_raises(
    nodes: Nodes, face: MakeFace, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease may live on: here it is never revoked."""

    async def forget(lease: object) -> None:
        """The store could not be asked."""

    monkeypatch.setattr("raftmeta.recipes.double_barrier.give_up_lease", forget)
    monkeypatch.setattr("raftmeta.recipes.held.give_up_lease", forget)
    one, two = (face(nodes["a"]).recipe("DoubleBarrier", name, 2, ttl_s=60) for _ in range(2))
    for _ in range(2):
        with pytest.raises(raftmeta.Withdrawn):
            one.enter(timeout_s=0.1)
        assert nodes["a"].range(prefix=prefix_of("double-barriers", name)).count == 0
    with pytest.raises(raftmeta.Withdrawn):
        two.enter(timeout_s=0.1)


class _Late:
    """A node whose barriers open late: not before `ready` says so."""

    def __init__(self, node: raftmeta.Node, ready: Callable[[], object]) -> None:
        self._node = node
        self._ready = ready

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)

    def txn(self, compares: Sequence[Any] = (), then: Sequence[Any] = (), *others: Any, **options: Any) -> Any:
        if any(isinstance(one, raftmeta.operations.Put) for one in then):
            self._ready()
        return self._node.txn(compares, then, *others, **options)


def test_a_barrier_is_not_opened_with_one_who_gave_up(nodes: Nodes, name: str) -> None:
    """The last one came in, saw all, and the first one gave up before the barrier was opened."""
    first = recipes.DoubleBarrier(nodes["a"], name, 2)
    inside = prefix_of("double-barriers", name) + "inside/"
    waiter = Waiter(lambda: first.enter(timeout_s=1.5))
    wait_until(lambda: nodes["a"].range(prefix=inside).count == 1, timeout_s=20, what="the first to be inside")
    last = recipes.DoubleBarrier(_Late(nodes["b"], waiter.join), name, 2)
    with pytest.raises(raftmeta.Withdrawn):
        last.enter(timeout_s=2)
    assert isinstance(waiter.error, raftmeta.Withdrawn)
    assert nodes["a"].range(prefix=prefix_of("double-barriers", name)).count == 0


def test_one_whose_time_ends_when_all_have_come_is_inside(
    nodes: Nodes, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It did not hear of it in time. Its time-out must not leave the others with a barrier that one of them left."""
    opened = prefix_of("double-barriers", name) + "open"
    deaf: set[int] = set()
    in_time = DoubleBarrier._in_time

    async def hear_late(self: DoubleBarrier, *arguments: Any) -> None:
        if threading.get_ident() not in deaf:
            return await in_time(self, *arguments)
        wait_until(lambda: nodes["a"].get(opened) is not None, timeout_s=20, what="the barrier to open")
        raise raftmeta.Withdrawn("not all came in time")

    def enter_deaf() -> bool:
        deaf.add(threading.get_ident())
        late.enter(timeout_s=1)
        return True

    monkeypatch.setattr(DoubleBarrier, "_in_time", hear_late)
    late = recipes.DoubleBarrier(nodes["a"], name, 2)
    waiter = Waiter(enter_deaf)
    recipes.DoubleBarrier(nodes["b"], name, 2).enter(timeout_s=30)
    assert waiter.join()
    assert deaf
    assert not late.leave(timeout_s=0.05)


def test_a_participant_that_dies_leaves_with_its_lease(tmp_path: Path) -> None:
    with running(tmp_path) as nodes:
        dying = recipes.DoubleBarrier(nodes["a"], "b", 2, ttl_s=0.6)
        other = recipes.DoubleBarrier(nodes["b"], "b", 2, ttl_s=0.6)
        waiter = Waiter(lambda: dying.enter(timeout_s=30) or True)
        other.enter(timeout_s=30)
        assert waiter.join()
        crash(nodes["a"])
        assert other.leave(timeout_s=20)
        both = [recipes.DoubleBarrier(nodes[one], "b", 2, ttl_s=0.6) for one in "bc"]
        waiter = Waiter(lambda: both[0].enter(timeout_s=30) or True)
        both[1].enter(timeout_s=30)
        assert waiter.join()
        nodes["b"].delete_range(prefix="_raftmeta/double-barriers/b/inside/")  # both die, and leave it open
        again = recipes.DoubleBarrier(nodes["b"], "b", 1)
        again.enter(timeout_s=5)
        assert again.leave(timeout_s=5)


def test_a_counter_counts_every_add(nodes: Nodes, face: MakeFace, name: str) -> None:
    counters = [face(node).recipe("Counter", name) for node in nodes.values()]
    assert counters[0].get() == 0
    sums: list[int] = []

    def add() -> None:
        sums.extend(counter.add() for _ in range(20) for counter in counters)

    threads = [threading.Thread(target=add) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(sums) == list(range(1, 181))
    assert counters[1].add(-200) == -20
    assert counters[2].get() == -20
    wait_until(lambda: counters[0].get() == -20, timeout_s=20, what="the sum")
