"""Lock, read/write lock and semaphore: who is in, in which order, and what becomes of those who vanish."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import raftmeta
from raftmeta import recipes
from raftmeta.recipes.keys import prefix_of
from tests.node.nodes import running
from tests.processes.waiting import wait_until
from tests.recipes.faces import Face
from tests.recipes.test_group import crash, next_of

Nodes = dict[str, raftmeta.Node]
MakeFace = Callable[[raftmeta.Node], Face]


class Waiter:
    """One who wants in, on a thread of its own; `permit` once it is in, `error` when it is refused."""

    def __init__(self, acquire: Callable[[], Any]) -> None:
        self.permit: Any = None
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, args=(acquire,), daemon=True)
        self._thread.start()

    def _run(self, acquire: Callable[[], Any]) -> None:
        try:
            self.permit = acquire()
        except raftmeta.RaftmetaError as error:
            self.error = error

    def join(self) -> Any:
        self._thread.join(20)
        assert not self._thread.is_alive()
        return self.permit


def in_line(node: raftmeta.Node, permit: Any) -> int:
    """How many hold or wait, by the keys beside this permit's."""
    return node.range(prefix=permit.fence.key.rsplit("/", 1)[0] + "/").count


def wait_in_line(node: raftmeta.Node, permit: Any, count: int) -> None:
    wait_until(lambda: in_line(node, permit) == count, timeout_s=30, what=f"{count} to stand in line")


def test_a_lock_has_one_holder_and_passes_in_order(nodes: Nodes, face: MakeFace, name: str) -> None:
    """Each release lets in the one who asked next; fences and epochs grow."""
    locks = [face(nodes[one]).recipe("Lock", name) for one in "abc"]
    first = locks[0].acquire()
    assert first.held()
    waiters = []
    for count, lock in enumerate(locks, 2):
        waiters.append(Waiter(lambda lock=lock: lock.acquire(timeout_s=30)))  # type: ignore[misc]
        wait_in_line(nodes["a"], first, count)
    permits = [first]
    for waiter in waiters:
        assert all(other.permit is None for other in waiters[waiters.index(waiter) :])
        permits[-1].release()
        permits.append(waiter.join())
        assert permits[-1].held()
        assert not permits[-2].held()
    permits[-1].release()
    permits[-1].release()
    epochs = [permit.epoch for permit in permits]
    assert epochs == sorted(set(epochs))


def test_a_lock_is_had_in_time_or_not_at_all(nodes: Nodes, face: MakeFace, name: str) -> None:
    """Withdrawn is also a TimeoutError, and leaves nobody in the line. Not re-entrant: the holder waits as well."""
    lock = face(nodes["a"]).recipe("Lock", name)
    with lock.acquire(timeout_s=5) as permit:
        begun_s = time.monotonic()
        with pytest.raises(TimeoutError) as refused:
            lock.acquire(timeout_s=0.2)
        assert 0.2 <= time.monotonic() - begun_s < 5
        assert isinstance(refused.value, raftmeta.Withdrawn)
        wait_in_line(nodes["a"], permit, 1)
        with pytest.raises(raftmeta.Withdrawn):
            lock.acquire(timeout_s=0)
    assert not permit.held()
    with lock.acquire(timeout_s=0) as permit:
        assert permit.held()


def test_a_waiter_that_gives_up_lets_those_behind_it_move_up(nodes: Nodes, face: MakeFace, name: str) -> None:
    """The one ahead leaves without having had the lock: whoever watched it looks again and waits on."""
    lock = face(nodes["a"]).recipe("Lock", name)
    first = lock.acquire()
    impatient = Waiter(lambda: lock.acquire(timeout_s=0.5))
    wait_in_line(nodes["a"], first, 2)
    patient = Waiter(lambda: lock.acquire(timeout_s=30))
    wait_in_line(nodes["a"], first, 3)
    assert impatient.join() is None
    assert isinstance(impatient.error, raftmeta.Withdrawn)
    wait_in_line(nodes["a"], first, 2)
    assert patient.permit is None
    first.release()
    patient.join().release()


def test_a_write_under_a_lock_that_was_lost_is_refused(nodes: Nodes, face: MakeFace, name: str) -> None:
    lock = face(nodes["a"]).recipe("Lock", name)
    permit = lock.acquire()
    nodes["b"].put("k", b"1", fence=permit.fence)
    permit.release()
    with lock.acquire(), pytest.raises(raftmeta.Fenced):
        nodes["b"].put("k", b"2", fence=permit.fence)


def test_a_crashed_holder_leaves_with_its_lease(tmp_path: Path) -> None:
    """The next in line has it then; the time is that of its lease."""
    with running(tmp_path) as nodes:
        recipes.Lock(nodes["a"], "l", ttl_s=0.8).acquire()
        waiter = Waiter(lambda: recipes.Lock(nodes["b"], "l").acquire(timeout_s=20))
        wait_until(lambda: nodes["b"].range(prefix="_raftmeta/locks/").count == 2, timeout_s=20, what="it to wait")
        crash(nodes["a"])
        assert waiter.join().held()


def test_a_holder_cut_off_is_told(tmp_path: Path, face: MakeFace) -> None:
    """And one who waits ends with LeaseExpired: its place in the line is gone."""
    lost: queue.Queue[Any] = queue.Queue()
    with running(tmp_path) as nodes:
        lock = face(nodes["a"]).recipe("Lock", "l", ttl_s=0.5)
        permit = lock.acquire(on_lost=lost.put)
        waiter = Waiter(lambda: lock.acquire(timeout_s=30))
        wait_until(lambda: nodes["a"].metrics()["watches"] == 1, timeout_s=20, what="it to watch the one ahead")
        for name in "bc":
            crash(nodes[name])
        assert permit == next_of(lost)
        assert not permit.held()
        assert waiter.join() is None
        assert isinstance(waiter.error, raftmeta.LeaseExpired)


def test_a_waiter_on_a_node_that_closes_is_told(tmp_path: Path) -> None:
    with running(tmp_path) as nodes:
        recipes.Lock(nodes["b"], "l").acquire()
        waiter = Waiter(lambda: recipes.Lock(nodes["a"], "l").acquire(timeout_s=30))
        wait_until(lambda: nodes["a"].metrics()["watches"] == 1, timeout_s=20, what="it to watch the one ahead")
        nodes["a"].close()
        assert waiter.join() is None
        assert isinstance(waiter.error, raftmeta.NodeClosed)


def test_readers_share_and_a_writer_is_alone(nodes: Nodes, face: MakeFace, name: str) -> None:
    """A writer that waits keeps later readers out, so that it is not starved."""
    lock = face(nodes["a"]).recipe("ReadWriteLock", name)
    readers = [lock.acquire_read(timeout_s=5) for _ in range(2)]
    writer = Waiter(lambda: lock.acquire_write(timeout_s=30))
    wait_in_line(nodes["a"], readers[0], 3)
    late = Waiter(lambda: lock.acquire_read(timeout_s=30))
    wait_in_line(nodes["a"], readers[0], 4)
    readers[1].release()
    with pytest.raises(raftmeta.Withdrawn):
        lock.acquire_read(timeout_s=0)
    assert (writer.permit, late.permit) == (None, None)
    readers[0].release()
    assert writer.join().held()
    assert late.permit is None
    with pytest.raises(raftmeta.Withdrawn):
        lock.acquire_write(timeout_s=0)
    writer.permit.release()
    assert late.join().held()
    late.permit.release()


def test_a_semaphore_lets_in_as_many_as_it_has_permits(nodes: Nodes, face: MakeFace, name: str) -> None:
    semaphores = [face(nodes[one]).recipe("Semaphore", name, 2) for one in "abc"]
    holders = [semaphores[0].acquire(), semaphores[1].acquire()]
    waiters = []
    for count in (3, 4):
        waiters.append(Waiter(lambda: semaphores[2].acquire(timeout_s=30)))
        wait_in_line(nodes["a"], holders[0], count)
    with pytest.raises(raftmeta.Withdrawn):
        semaphores[0].acquire(timeout_s=0.05)
    holders[0].release()
    assert waiters[0].join().held()
    assert waiters[1].permit is None
    waiters[0].permit.release()
    assert waiters[1].join().held()
    holders[1].release()
    waiters[1].permit.release()


def test_a_semaphore_has_one_number_of_permits(nodes: Nodes, face: MakeFace, name: str) -> None:
    make = face(nodes["a"]).recipe
    with make("Semaphore", name, 2).acquire(), pytest.raises(raftmeta.InvalidArgument, match="2"):
        make("Semaphore", name, 3).acquire()
    make("Semaphore", name, 3).acquire().release()
    with pytest.raises(raftmeta.InvalidArgument):
        make("Semaphore", name, 0)


@settings(max_examples=12)
@given(st.lists(st.sampled_from(["lock", "read", "write", "leave"]), min_size=4, max_size=10))
def test_no_history_lets_in_two_who_exclude_each_other(nodes: Nodes, steps: list[str]) -> None:
    """Against a model in one list: whoever is in, waits or left, the line lets in exactly who may."""
    name = f"history {time.monotonic_ns()}"
    lock = recipes.ReadWriteLock(nodes["a"], name)
    line: list[tuple[str, Waiter]] = []

    def settled() -> bool:
        is_in = [waiter.permit is not None for _, waiter in line]
        wanted = [
            (kind == "read" and all(other == "read" for other, _ in line[:place])) or place == 0
            for place, (kind, _) in enumerate(line)
        ]
        return is_in == wanted

    for step in steps:
        if step == "leave":
            insiders = [entry for entry in line if entry[1].permit is not None]
            if insiders:
                line.remove(insiders[-1])
                insiders[-1][1].permit.release()
        else:
            acquire = lock.acquire_read if step == "read" else lock.acquire_write
            line.append(("read" if step == "read" else "write", Waiter(lambda acquire=acquire: acquire(timeout_s=30))))  # type: ignore[misc]
            wait_until(
                lambda: nodes["a"].range(prefix=prefix_of("rwlocks", name)).count == len(line),
                timeout_s=20,
                what="the line",
            )
        wait_until(settled, timeout_s=30, what=lambda: f"{[(kind, waiter.permit) for kind, waiter in line]}")
    while line:
        insiders = [entry for entry in line if entry[1].permit is not None]
        for entry in insiders:
            line.remove(entry)
            entry[1].permit.release()
        wait_until(settled, timeout_s=30, what="the rest to be let in")


def test_a_key_that_is_no_text_stands_in_line_like_any_other(nodes: Nodes, face: MakeFace, name: str) -> None:
    """Anybody may put such a key below the prefix: it ended the waiting with UnicodeDecodeError."""
    prefix = prefix_of("locks", name)
    foreign = prefix.encode() + b"\xff\xfe"
    nodes["a"].put(foreign, b"")
    waiter = Waiter(lambda: face(nodes["b"]).recipe("Lock", name).acquire(timeout_s=20))
    wait_until(lambda: nodes["a"].range(prefix=prefix).count == 2, timeout_s=30, what="both in line")
    assert waiter.permit is None
    nodes["a"].delete(foreign)
    with waiter.join() as permit:
        assert permit.held()
