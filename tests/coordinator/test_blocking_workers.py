"""Workers on threads, over real nodes: the same events in the same order as those on asyncio."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import raftmeta
from raftmeta.coordinator import Assigned, BlockingWorkers, Lost, Revoked, Settings, Workers
from raftmeta.testing import stall_gil
from tests.coordinator.test_real import QUICK, WAIT_S
from tests.node.nodes import running
from tests.processes.waiting import wait_until

RESOURCES = {"t": 12}


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, raftmeta.Node]]:
    with running(tmp_path_factory.mktemp("workers")) as made:
        for node in made.values():
            wait_until(lambda node=node: node.status().feature_level >= 5, timeout_s=WAIT_S, what="the level of groups")
        yield made


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)


class Owners:
    """Who has which resource, as the events say; two owners of one are an error."""

    def __init__(self) -> None:
        self.of: dict[str, int] = {}
        self.shares: dict[int, tuple[str, ...]] = {}
        self.revoked: list[str] = []
        self.errors: list[Exception] = []
        self._lock = threading.Lock()

    def follow(self, number: int, workers: BlockingWorkers) -> threading.Thread:
        thread = threading.Thread(target=self._follow, args=(number, workers))
        thread.start()
        return thread

    def _follow(self, number: int, workers: BlockingWorkers) -> None:
        try:
            for event in workers:
                with self._lock:
                    self._take(number, event)
        except Exception as error:
            self.errors.append(error)

    def _take(self, number: int, event: Any) -> None:
        if isinstance(event, Assigned):
            for resource in event.added:
                assert resource not in self.of, f"{resource} has two owners"
                self.of[resource] = number
            self.shares[number] = event.resources
            return
        assert isinstance(event, Revoked), f"nothing is lost here: {event}"
        self.revoked.extend(event.resources)
        for resource in event.resources:
            assert self.of.pop(resource) == number

    def settled(self, *sizes: int) -> None:
        def sees() -> bool:
            return bool(self.errors) or tuple(sorted(map(len, list(self.shares.values())))) == sizes

        wait_until(sees, timeout_s=WAIT_S, what=lambda: f"shares of {sizes}, not {self.shares}")
        assert not self.errors


def written_under(node: raftmeta.Node, workers: BlockingWorkers) -> raftmeta.Fence:
    """The fence of a write. A generation that begins meanwhile ends the fence, and the next one has another."""
    found: list[raftmeta.Fence] = []

    def write() -> bool:
        with contextlib.suppress(raftmeta.Fenced):
            fence = workers.fence
            node.put("work", b"", fence=fence)
            found.append(fence)
        return bool(found)

    wait_until(write, timeout_s=WAIT_S, what="a write under the newest fence")
    return found[0]


@pytest.mark.parametrize("kind", ["cooperative-sticky", "range"])
def test_workers_on_threads_share_come_and_go(nodes: dict[str, raftmeta.Node], name: str, kind: str) -> None:
    """No resource has two owners by the events; a closed worker's iteration ends, and its share goes to the others."""
    owners = Owners()
    made = [
        raftmeta.workers(name, store=node, resources=RESOURCES, assignor=kind, settings=QUICK)
        for node in nodes.values()
    ]
    threads = []
    for number, one in enumerate(made):
        threads.append(owners.follow(number, one))
        owners.settled(*{0: (12,), 1: (6, 6), 2: (4, 4, 4)}[number])
    if kind == "cooperative-sticky":
        assert len(owners.revoked) == 6 + 4
    fence = written_under(nodes["a"], made[0])
    owners.of = {resource: owner for resource, owner in owners.of.items() if owner != 0}
    del owners.shares[0]
    made[0].close()
    threads[0].join(WAIT_S)
    owners.settled(6, 6)
    with pytest.raises(raftmeta.Fenced):
        nodes["a"].put("work", b"", fence=fence)
    for one, thread in zip(made[1:], threads[1:], strict=True):
        one.close()
        thread.join(WAIT_S)
    assert not [thread for thread in threads if thread.is_alive()]
    assert owners.errors == []


@pytest.mark.asyncio
async def test_the_store_says_which_workers_there_are(nodes: dict[str, raftmeta.Node], name: str) -> None:
    assert isinstance(raftmeta.workers(name, store=nodes["a"], resources=["x"]), BlockingWorkers)
    assert isinstance(raftmeta.workers(name, store=nodes["a"].aio(), resources=["x"]), Workers)
    with pytest.raises(raftmeta.InvalidArgument) as caught:
        raftmeta.workers(name, store="a", resources=["x"])  # type: ignore[call-overload]
    assert caught.value.field == "store"


def test_a_worker_that_is_removed_hears_of_its_loss_first(nodes: dict[str, raftmeta.Node], name: str) -> None:
    with raftmeta.workers(name, store=nodes["a"], resources=["x", "y"], settings=QUICK) as workers:
        first = next(workers)
        assert isinstance(first, Assigned) and first.added == ("x", "y")
        assert workers.next(0.01) is None
        nodes["b"].groups.leave(name, [workers.member_id])
        assert next(workers) == Lost(("x", "y"))
        again = next(workers)
        assert isinstance(again, Assigned) and again.added == ("x", "y") and again.fence != first.fence
        with pytest.raises(raftmeta.Fenced):
            nodes["a"].put("k", b"", fence=first.fence)
    assert workers.next() is None


def test_a_program_that_works_for_long_between_two_events_stays(nodes: dict[str, raftmeta.Node], name: str) -> None:
    """Longer than it may be silent: another thread drives the member."""
    settings = Settings(session_timeout_s=5.0, heartbeat_interval_s=0.05, max_poll_interval_s=0.4)
    with raftmeta.workers(name, store=nodes["a"], resources=["x"], settings=settings) as workers:
        first = next(workers)
        assert isinstance(first, Assigned)
        assert workers.next(1.0) is None
        nodes["a"].put("k", b"", fence=first.fence)


def test_a_program_that_holds_the_gil_for_longer_than_its_session_stays(
    nodes: dict[str, raftmeta.Node], name: str
) -> None:
    settings = Settings(session_timeout_s=1.0, heartbeat_interval_s=0.1)
    with raftmeta.workers(name, store=nodes["a"], resources=["x"], settings=settings) as workers:
        first = next(workers)
        assert isinstance(first, Assigned)
        stall_gil(1.5)
        assert workers.next(0.3) is None
        nodes["a"].put("k", b"", fence=first.fence)


def test_an_event_that_is_not_taken_in_time_costs_the_membership(nodes: dict[str, raftmeta.Node], name: str) -> None:
    """The program must give up x, and does not: the others need not wait for ever."""
    settings = Settings(session_timeout_s=5.0, heartbeat_interval_s=0.05, max_poll_interval_s=0.5)
    with (
        raftmeta.workers(name, store=nodes["a"], resources=["x"], assignor="range", settings=settings) as slow,
        raftmeta.workers(name, store=nodes["b"], resources=["x"], assignor="range", settings=settings) as other,
    ):
        first = next(slow)
        assert isinstance(first, Assigned)
        assert other.next(0.01) is None  # it joins
        assert next(slow) == Revoked(("x",))
        found = other.next(WAIT_S)
        assert isinstance(found, Assigned) and found.resources == ("x",)
        with pytest.raises(raftmeta.Fenced):
            nodes["a"].put("k", b"", fence=first.fence)


def test_a_lasting_error_comes_behind_the_loss(nodes: dict[str, raftmeta.Node], name: str) -> None:
    """Another holder of the instance fences the first one."""
    settings = Settings(instance_id="i", session_timeout_s=5.0, heartbeat_interval_s=0.05)
    old = raftmeta.workers(name, store=nodes["a"], resources=["x"], settings=settings)
    assert isinstance(next(old), Assigned)
    with raftmeta.workers(name, store=nodes["b"], resources=["x"], settings=settings) as new:
        assert isinstance(next(new), Assigned)
        assert next(old) == Lost(("x",))
        for _ in range(2):
            with pytest.raises(raftmeta.GroupRefused, match="FENCED_INSTANCE_ID"):
                next(old)
    old.close()
