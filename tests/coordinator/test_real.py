"""Coordinators and workers on real nodes: in one process, and as processes that are killed and frozen."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import raftmeta
import raftmeta.aio
from raftmeta.assignors import Member, OwnCodec, Resources, assignor
from raftmeta.coordinator import (
    AioStoreGroup,
    Assigned,
    Coordinator,
    Lost,
    MemberMetadata,
    MemberState,
    Revoked,
    Settings,
    StoreGroup,
    Workers,
)
from raftmeta.testing import stall_gil
from tests.client.nodes import serving
from tests.coordinator.test_coordinator import RESOURCES, Worker, poll_until
from tests.node.nodes import running
from tests.processes.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
CODEC = OwnCodec()
WAIT_S = 60.0
QUICK = Settings(session_timeout_s=5.0, rebalance_timeout_s=20.0, heartbeat_interval_s=0.05, retry_s=0.02)


def wait_for_groups(node: raftmeta.Node) -> None:
    wait_until(lambda: node.status().feature_level >= 5, timeout_s=WAIT_S, what="the level of groups")


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, raftmeta.Node]]:
    with running(tmp_path_factory.mktemp("coordinator")) as made:
        wait_for_groups(made["a"])
        yield made


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A group that no other test has."""
    return str(request.node.name)


async def seen(condition: Callable[[], bool], what: str) -> None:
    """Wait for it while the event loop goes on."""
    await asyncio.to_thread(wait_until, condition, timeout_s=WAIT_S, what=what)


def service(store: Any, name: str) -> Any:
    return AioStoreGroup(store, name, initial_delay_s=0)


# --- coordinators -----------------------------------------------------------------------------------------------------
@pytest.mark.asyncio
async def test_coordinators_on_three_nodes_share_and_their_fences_end(
    nodes: dict[str, raftmeta.Node], name: str
) -> None:
    stores = [node.aio() for node in nodes.values()]
    members = [Worker(service(store, name), QUICK) for store in stores]
    async with asyncio.timeout(WAIT_S):
        running = [asyncio.create_task(member.run()) for member in members]
        await seen(lambda: [len(member.owned) for member in members] == [2, 2, 2], "three shares")
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        gone, *rest = members
        old = gone.fence
        await stores[0].put("work", b"by its owner", fence=old)
        generation = gone.generation.number
        await gone.close()
        await poll_until(rest, generation + 1)
        assert sorted(resource for member in rest for resource in member.owned) == sorted(RESOURCES.names)
        with pytest.raises(raftmeta.Fenced):
            await stores[1].put("work", b"too late", fence=old)
        await stores[1].put("work", b"by its owner", fence=rest[0].fence)
    for end in (*rest, *stores):
        await end.close()


@pytest.mark.asyncio
async def test_a_member_whose_lease_is_gone_is_told_so_and_joins_again(
    nodes: dict[str, raftmeta.Node], name: str
) -> None:
    async with nodes["a"].aio() as store, asyncio.timeout(WAIT_S):
        member = Worker(service(store, name), QUICK)
        await member.ensure_active()
        first = member.member_id
        await store.groups.leave(name, [first])
        while member.member_id in (first, "") or member.generation_if_stable is None:
            await member.poll()
            await asyncio.sleep(0)
        assert member.told == ["prepare -1", "elected", "complete 1", "prepare -1", "elected", "complete 3"]
        await member.close()


@pytest.mark.asyncio
async def test_a_static_member_keeps_its_assignment_over_a_restart(nodes: dict[str, raftmeta.Node], name: str) -> None:
    settings = Settings(instance_id="host", session_timeout_s=30.0, heartbeat_interval_s=0.05)
    async with nodes["a"].aio() as store, asyncio.timeout(WAIT_S):
        first, second = Worker(service(store, name), settings), Worker(service(store, name), settings)
        await first.ensure_active()
        fence = first.fence
        await first.close()
        await second.ensure_active()
        assert (second.generation.number, second.owned) == (1, RESOURCES.names)
        with pytest.raises(raftmeta.Fenced):
            await store.put("work", b"", fence=fence)
        await store.put("work", b"", fence=second.fence)
        await second.close()


def test_stores_of_the_other_face_are_refused(nodes: dict[str, raftmeta.Node]) -> None:
    for make in (lambda: AioStoreGroup(nodes["a"], "g"), lambda: StoreGroup(nodes["a"].aio(), "g")):  # type: ignore[arg-type]
        with pytest.raises(raftmeta.InvalidArgument) as caught:
            make()
        assert caught.value.field == "store"


class Thread(Coordinator):
    """Shares six resources on a thread. told: its hooks in order, each with its thread."""

    protocol_type = "worker"

    def __init__(self, store: Any, group: str, settings: Settings = QUICK) -> None:
        super().__init__(StoreGroup(store, group, initial_delay_s=0), settings)
        self.told: list[str] = []
        self.threads: set[int] = set()
        self.owned: tuple[str, ...] = ()
        self.failures: list[Exception] = []

    def note(self, what: str) -> None:
        self.told.append(what)
        self.threads.add(threading.get_ident())

    def metadata(self) -> Sequence[tuple[str, bytes]]:
        return [("sticky", CODEC.encode_member(Member("", owned=self.owned, generation=self.generation.number)))]

    def on_join_prepare(self, generation: int, member_id: str) -> bool:
        self.note(f"prepare {generation}")
        return True

    def on_leader_elected(
        self, leader_id: str, protocol: str, members: Sequence[MemberMetadata], skip_assignment: bool
    ) -> Mapping[str, bytes]:
        self.note("elected")
        asking = [CODEC.decode_member(one.metadata, id=one.member_id, instance_id=one.instance_id) for one in members]
        plan = assignor(protocol).assign(asking, RESOURCES)
        return {member: CODEC.encode_assignment(names) for member, names in plan.assignments.items()}

    def on_join_complete(self, generation: int, member_id: str, protocol: str, assignment: bytes) -> None:
        self.note(f"complete {generation}")
        if self.failures:
            raise self.failures.pop(0)
        self.owned, _ = CODEC.decode_assignment(assignment)

    def on_leave_prepare(self) -> None:
        self.note("leave")


def test_blocking_coordinators_share_and_call_hooks_where_they_are_driven(
    nodes: dict[str, raftmeta.Node], name: str
) -> None:
    """One on a node, one on a view of another node; each is driven by a thread of its own."""
    with (
        ThreadPoolExecutor(2) as pool,
        Thread(nodes["a"], name) as first,
        Thread(nodes["b"], name) as second,
    ):
        first.failures = [ValueError("no room")]
        with pytest.raises(ValueError, match="no room"):
            first.ensure_active(WAIT_S)
        first.ensure_active(WAIT_S)
        assert first.told == ["prepare -1", "elected", "complete 1", "complete 1"]
        assert (first.state, first.owned) == (MemberState.STABLE, RESOURCES.names)
        joining = pool.submit(second.ensure_active, WAIT_S)
        wait_until(lambda: (first.poll(), len(first.owned))[1] == 3, timeout_s=WAIT_S, what="a share for two")
        joining.result(WAIT_S)
        assert sorted((*first.owned, *second.owned)) == sorted(RESOURCES.names)
        assert first.threads == {threading.get_ident()}
        nodes["a"].put("work", b"", fence=first.fence)
        with Thread(nodes["c"], name) as third, pytest.raises(raftmeta.ReadyTimeout):
            third.ensure_active(0.05)


def test_a_blocking_caller_that_does_not_poll_leaves(nodes: dict[str, raftmeta.Node], name: str) -> None:
    settings = Settings(session_timeout_s=5.0, heartbeat_interval_s=0.05, max_poll_interval_s=1.0)
    with Thread(nodes["a"], name, settings) as member:
        member.ensure_active(WAIT_S)
        wait_until(lambda: member.member_id == "", timeout_s=WAIT_S, what="its leave")
        assert member.told[-1] == "leave"
        info = nodes["b"].groups.describe(name)
        assert info is not None and info.members == ()
        member.ensure_active(WAIT_S)
        assert member.generation.number > 1


def test_a_process_that_holds_the_gil_loses_no_member(nodes: dict[str, raftmeta.Node], name: str) -> None:
    """For two sessions; nobody joins again, and nothing is told."""
    settings = Settings(session_timeout_s=1.0, heartbeat_interval_s=0.05)
    with Thread(nodes["a"], name, settings) as member:
        member.ensure_active(WAIT_S)
        stall_gil(2.0)
        nodes["a"].put("work", b"", fence=member.fence)
        member.poll()
        assert member.told == ["prepare -1", "elected", "complete 1"]


# --- workers ----------------------------------------------------------------------------------------------------------
class Owners:
    """Who has which resource, as the workers' events say; two owners of one are an error."""

    def __init__(self) -> None:
        self.of: dict[str, int] = {}
        self.shares: dict[int, tuple[str, ...]] = {}
        self.revoked: list[str] = []
        self.fences: dict[int, Any] = {}

    async def follow(self, number: int, workers: Workers) -> None:
        async for event in workers:
            if isinstance(event, Assigned):
                for resource in event.added:
                    assert resource not in self.of, f"{resource} has two owners"
                    self.of[resource] = number
                self.shares[number], self.fences[number] = event.resources, event.fence
                continue
            assert isinstance(event, Revoked), "nothing is lost here"
            self.revoked.extend(event.resources)
            for resource in event.resources:
                assert self.of.pop(resource) == number

    def forget(self, number: int) -> None:
        self.of = {resource: owner for resource, owner in self.of.items() if owner != number}
        del self.shares[number]

    async def settled(self, *sizes: int) -> None:
        await seen(lambda: tuple(sorted(map(len, list(self.shares.values())))) == sizes, f"shares of {sizes}")


async def write(store: raftmeta.aio.Node, key: str, worker: Workers) -> None:
    """As an owner does: a generation that begins meanwhile ends the fence, and the next one has another."""
    while True:
        try:
            await store.put(key, b"", fence=worker.fence)
            return
        except raftmeta.Fenced:
            await asyncio.sleep(0)


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", ["cooperative-sticky", "sticky", "range", "incremental"])
async def test_workers_share_come_and_go(nodes: dict[str, raftmeta.Node], name: str, kind: str) -> None:
    """No resource has two owners by the events, and a cooperative assignor revokes only what moves."""
    stores = [node.aio() for node in nodes.values()]
    owners = Owners()
    made = [raftmeta.workers(name, store=store, resources={"t": 12}, assignor=kind, settings=QUICK) for store in stores]
    following = []
    async with asyncio.timeout(WAIT_S):
        for number, one in enumerate(made):
            following.append(asyncio.create_task(owners.follow(number, one)))
            await owners.settled(*{0: (12,), 1: (6, 6), 2: (4, 4, 4)}[number])
        if kind == "cooperative-sticky":
            assert len(owners.revoked) == 6 + 4
        for number, store in enumerate(stores):
            await write(store, f"work/{number}", made[number])
        following[0].cancel()
        await asyncio.gather(following[0], return_exceptions=True)
        owners.forget(0)
        await made[0].close()
        if kind != "incremental":  # it waits for a lost worker
            await owners.settled(6, 6)
        with pytest.raises(raftmeta.Fenced):
            await stores[1].put("work/0", b"", fence=owners.fences[0])
    assert not [task for task in following[1:] if task.done()]
    for task in following[1:]:
        task.cancel()
    await asyncio.gather(*following[1:], return_exceptions=True)
    for end in (*made[1:], *stores):
        await end.close()


@pytest.mark.asyncio
async def test_a_worker_that_is_removed_is_told_that_it_lost(nodes: dict[str, raftmeta.Node], name: str) -> None:
    async with (
        nodes["a"].aio() as store,
        asyncio.timeout(WAIT_S),
        raftmeta.workers(name, store=store, resources=["x", "y"], settings=QUICK) as workers,
    ):
        first = await anext(workers)
        assert isinstance(first, Assigned) and first.added == ("x", "y")
        await store.groups.leave(name, [workers.member_id])
        assert await anext(workers) == Lost(("x", "y"))
        again = await anext(workers)
        assert isinstance(again, Assigned) and again.added == ("x", "y") and again.fence != first.fence
        with pytest.raises(raftmeta.Fenced):
            await store.put("k", b"", fence=first.fence)


@pytest.mark.asyncio
async def test_a_worker_hears_of_a_lasting_error_behind_its_loss(nodes: dict[str, raftmeta.Node], name: str) -> None:
    """Another holder of its instance fences it."""
    settings = Settings(instance_id="i", session_timeout_s=5.0, heartbeat_interval_s=0.05)
    async with nodes["a"].aio() as store, asyncio.timeout(WAIT_S):
        old = raftmeta.workers(name, store=store, resources=["x"], settings=settings)
        assert isinstance(await anext(old), Assigned)
        async with raftmeta.workers(name, store=store, resources=["x"], settings=settings) as new:
            assert isinstance(await anext(new), Assigned)
            assert await anext(old) == Lost(("x",))
            for _ in range(2):
                with pytest.raises(raftmeta.GroupRefused, match="FENCED_INSTANCE_ID"):
                    await anext(old)
            await old.close()


# --- processes --------------------------------------------------------------------------------------------------------
class Process:
    """A worker program, and the lines that it told so far."""

    def __init__(self, url: str, name: str, count: int) -> None:
        command = [sys.executable, "-m", "tests.coordinator.program", url, name, str(count)]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self.told: list[dict[str, Any]] = []
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.told.append(json.loads(line))

    @property
    def share(self) -> list[str]:
        """By its last Assigned."""
        return next((line["names"] for line in reversed(self.told) if line["what"] == "assigned"), [])

    def has_told(self, what: str, resource: str) -> bool:
        return any(line["what"] == what and resource in line["names"] for line in self.told)

    def write(self, resource: str, number: int) -> None:
        """Under the fence of the assignment of this number."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{resource} {number}\n")
        self.process.stdin.flush()

    def answers(self) -> list[str]:
        return [line["what"] for line in [*self.told] if line["what"] in ("written", "fenced")]

    def write_as_owner(self, resource: str) -> int:
        """Under the newest fence, until that holds; its number."""
        while True:
            number = sum(line["what"] == "assigned" and resource in line["names"] for line in [*self.told]) - 1
            before = len(self.answers())
            self.write(resource, number)
            wait_until(lambda: len(self.answers()) > before, timeout_s=WAIT_S, what="the answer to a write")  # noqa: B023
            if self.answers()[-1] == "written":
                return number

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reading.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


@contextmanager
def processes(url: str, names: str, count: int) -> Iterator[dict[str, Process]]:
    made = {name: Process(url, name, count) for name in names}
    try:
        yield made
    finally:
        for one in made.values():
            one.end()


def have(workers: Sequence[Process], names: Resources) -> Callable[[], bool]:
    """Whether they share all resources evenly."""

    def condition() -> bool:
        shares = [one.share for one in workers]
        lengths = {len(share) for share in shares}
        return (
            sorted(name for share in shares for name in share) == sorted(names.names)
            and max(lengths) - min(lengths) <= 1
        )

    return condition


def test_killed_and_frozen_workers_are_replaced_and_fenced(tmp_path: Path) -> None:
    """kill -9: the others get the share. SIGSTOP: the same, and the late write of the worker that wakes is refused."""
    resources = Resources.of_topics({"r": 9})
    with serving(tmp_path, names="abc") as (nodes, url):
        wait_for_groups(nodes["a"])
        with processes(url, "xyz", 9) as workers:
            wait_until(have([*workers.values()], resources), timeout_s=WAIT_S, what="three shares")
            x, y, z = workers.values()
            x.process.kill()
            wait_until(have([y, z], resources), timeout_s=WAIT_S, what="the share of the killed one")
            resource = y.share[0]
            number = y.write_as_owner(resource)
            y.process.send_signal(signal.SIGSTOP)
            wait_until(have([z], resources), timeout_s=WAIT_S, what="the share of the frozen one")
            told = len(y.answers())
            y.write(resource, number)
            z.write_as_owner(resource)
            y.process.send_signal(signal.SIGCONT)
            wait_until(lambda: y.answers()[told:] == ["fenced"], timeout_s=WAIT_S, what="the refusal")
            wait_until(lambda: y.has_told("lost", resource), timeout_s=WAIT_S, what="the news")
            record = nodes["a"].get(f"done/{resource}")
            assert record is not None and record.value == b"z"
            wait_until(have([y, z], resources), timeout_s=WAIT_S, what="its return")


# --- news -------------------------------------------------------------------------------------------------------------
RARE = Settings(session_timeout_s=120.0, rebalance_timeout_s=20.0, heartbeat_interval_s=60.0, retry_s=0.02)
AT_ONCE_S = 10.0  # far less than the interval of heartbeats


@pytest.mark.asyncio
async def test_a_loss_and_a_rebalance_are_told_before_the_next_heartbeat(
    nodes: dict[str, raftmeta.Node], name: str
) -> None:
    stores = [node.aio() for node in nodes.values()]
    async with asyncio.timeout(AT_ONCE_S):
        first = raftmeta.workers(name, store=stores[0], resources=["x", "y"], settings=RARE)
        assert isinstance(await anext(first), Assigned)
        second = raftmeta.workers(name, store=stores[1], resources=["x", "y"], settings=RARE)
        joining = asyncio.ensure_future(anext(second))
        assert isinstance(await anext(first), Revoked)
        following = asyncio.ensure_future(anext(first))
        assert isinstance(await joining, Assigned)
        assert isinstance(await following, Assigned)
        await stores[2].groups.leave(name, [first.member_id])
        while not isinstance(await anext(first), Lost):
            pass
    for end in (first, second, *stores):
        await end.close()


def test_a_blocking_coordinator_hears_of_its_loss_before_the_next_heartbeat(
    nodes: dict[str, raftmeta.Node], name: str
) -> None:
    with Thread(nodes["a"], name, RARE) as member:
        member.ensure_active(WAIT_S)
        nodes["b"].groups.leave(name, [member.member_id])
        wait_until(lambda: member.member_id == "", timeout_s=AT_ONCE_S, what="its loss")
        member.ensure_active(WAIT_S)
        assert member.told[-3:] == ["prepare -1", "elected", "complete 3"]


@pytest.mark.parametrize("code", [27, 25])
def test_waiting_for_a_refusal_ends_with_what_a_heartbeat_would_get(
    nodes: dict[str, raftmeta.Node], name: str, code: int
) -> None:
    groups, others = nodes["a"].groups, nodes["b"].groups
    lease, other = nodes["a"].lease(30), nodes["b"].lease(30)
    me = groups.join(name, {"p": b""}, lease=lease, initial_delay_s=0, timeout_s=WAIT_S)
    with pytest.raises(raftmeta.GroupTimeout):
        groups.until_refused(name, me.generation, me.member_id, timeout_s=0.05)
    groups.sync(name, me.generation, me.member_id, {}, timeout_s=WAIT_S)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(groups.until_refused, name, me.generation, me.member_id, timeout_s=WAIT_S)
        if code == 25:
            others.leave(name, [me.member_id])
        else:
            with pytest.raises(raftmeta.GroupTimeout):
                others.join(name, {"p": b""}, lease=other, initial_delay_s=0, timeout_s=0.5)
        with pytest.raises(raftmeta.GroupRefused) as caught:
            waiting.result(WAIT_S)
    assert caught.value.code == code
