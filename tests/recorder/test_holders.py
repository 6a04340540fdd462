"""Who held the GIL (raftmeta/face/holders), and when that is proved."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from raftmeta.face import holders
from raftmeta.face.holders import FRESH_NS, STACK_BYTES_MAX, Holders
from tests.processes.waiting import wait_until

HELD_NS = 1_000_000  # so little work proves something
LARGE = bytes(1_000_000)


class Worker:
    """A thread that does each work that it is told, and waits in between."""

    def __init__(self) -> None:
        self.works: list[Callable[[], object]] = []
        self.told, self.done = threading.Semaphore(0), threading.Semaphore(0)
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        while True:
            self.told.acquire()
            work = self.works.pop()
            if work is nothing:
                return
            work()
            self.done.release()

    def begin(self, work: Callable[[], object]) -> None:
        self.works.append(work)
        self.told.release()

    def do(self, work: Callable[[], object]) -> None:
        self.begin(work)
        assert self.done.acquire(timeout=60)

    def end(self) -> None:
        self.begin(nothing)
        self.thread.join()


def nothing() -> None:
    pass


def count_in_c() -> None:
    """Far more processor time than HELD_NS."""
    sum(range(3_000_000))


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Worker]]:
    """Two, and no other thread of this process counts."""
    made = [Worker(), Worker()]
    numbers = {one.thread.native_id for one in made}
    used = holders._used_by_threads
    monkeypatch.setattr(holders, "_used_by_threads", lambda: [one for one in used() if one[0] in numbers])
    yield made
    for one in made:
        one.end()


@contextmanager
def hashing(worker: Worker) -> Iterator[None]:
    """The worker computes hashes meanwhile: for that it needs no GIL."""
    is_over = threading.Event()
    has_begun = threading.Event()

    def work() -> None:
        while not is_over.is_set():
            hashlib.sha256(LARGE)
            has_begun.set()

    worker.begin(work)
    assert has_begun.wait(60)
    try:
        yield
    finally:
        is_over.set()
        assert worker.done.acquire(timeout=60)


def test_the_thread_that_used_the_processor_is_proved(workers: list[Worker]) -> None:
    """It waits now; its stack says where, innermost first."""
    watch, number = Holders(), workers[1].thread.native_id or 0
    watch.look()
    workers[1].do(count_in_c)
    wait_until(lambda: not holders._is_running(number), timeout_s=60, what="the worker to wait")
    watch._looked_ns = time.monotonic_ns()  # however long all that took
    thread, used_ns, stack = watch.found(HELD_NS)
    assert thread == number
    assert used_ns >= HELD_NS / 2
    assert b" < _run (recorder/test_holders.py:" in stack
    assert len(stack) <= STACK_BYTES_MAX


def test_the_stack_is_told_of_a_thread_that_ends_during_the_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """To ask the kernel gives the GIL away, and the thread goes on."""
    watch, may_end = Holders(), threading.Event()
    has_worked = threading.Semaphore(0)

    def work() -> None:
        count_in_c()
        has_worked.release()
        assert may_end.wait(60)

    def ends(_thread: int) -> bool:
        may_end.set()
        worker.join(60)
        return False

    monkeypatch.setattr(holders, "_is_running", ends)
    worker = threading.Thread(target=work)
    watch.look()
    worker.start()
    number = worker.native_id or 0
    watch._used[number] = 0
    assert has_worked.acquire(timeout=60)
    watch._looked_ns = time.monotonic_ns()
    thread, used_ns, stack = watch.found(HELD_NS)
    assert (thread, used_ns >= HELD_NS / 2) == (number, True)
    assert b"work (recorder/test_holders.py:" in stack


def test_two_threads_that_worked_prove_nothing(workers: list[Worker]) -> None:
    watch = Holders()
    watch.look()
    for one in workers:
        one.do(count_in_c)
    for one in workers:
        wait_until(lambda one=one: not holders._is_running(one.thread.native_id), timeout_s=60, what="it to wait")
    watch._looked_ns = time.monotonic_ns()
    thread, used_ns, _ = watch.found(HELD_NS)
    assert thread in {one.thread.native_id for one in workers}
    assert used_ns == 0


def test_a_thread_that_runs_without_the_gil_is_not_proved(
    workers: list[Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be innocent: while this thread has the GIL, that one goes on."""
    running = workers[0].thread.native_id
    monkeypatch.setattr(holders, "_is_running", lambda thread: thread == running)
    watch = Holders()
    watch.look()
    workers[0].do(count_in_c)
    watch._looked_ns = time.monotonic_ns()
    assert watch.found(HELD_NS)[:2] == (running, 0)


def test_a_look_of_long_ago_proves_nothing(workers: list[Worker], monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Holders()
    watch.look()
    workers[1].do(count_in_c)
    later_ns = time.monotonic_ns() + HELD_NS + 2 * FRESH_NS
    monkeypatch.setattr(holders.time, "monotonic_ns", lambda: later_ns)
    assert watch.found(HELD_NS)[:2] == (workers[1].thread.native_id, 0)


def test_nobody_worked_and_nobody_is_named(workers: list[Worker]) -> None:
    """A thread that came after the last look is not known either."""
    watch = Holders()
    watch._used = {one.thread.native_id or 0: 10**18 for one in workers}
    assert watch.found(HELD_NS) == (0, 0, b"")


def test_whether_a_thread_runs_is_told_by_the_kernel(workers: list[Worker]) -> None:
    assert holders._is_running(threading.get_native_id())
    assert not holders._is_running(2**22 + 1)  # there is no such thread
    with hashing(workers[0]):
        number = workers[0].thread.native_id or 0
        wait_until(lambda: holders._is_running(number), timeout_s=60, what="the worker to run")


def test_looks_cost_little_however_many_threads_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look that took 1 ms is repeated after a second."""
    now = [10**12]
    calls = []

    def used() -> list[tuple[int, int]]:
        calls.append(now[0])
        now[0] += 1_000_000
        return []

    monkeypatch.setattr(holders.time, "monotonic_ns", lambda: now[0])
    monkeypatch.setattr(holders, "_used_by_threads", used)
    watch = Holders()
    for _ in range(100):
        watch.look()
        now[0] += 50_000_000
    assert len(calls) == pytest.approx(5, abs=1)
