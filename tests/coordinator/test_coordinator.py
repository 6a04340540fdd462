"""Coordinators on asyncio and a fake group: hooks in order, rebalances, faults, static members."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest

from raftmeta.assignors import Member, OwnCodec, Resources, assignor
from raftmeta.coordinator import AioCoordinator, Code, Generation, MemberMetadata, MemberState, Settings
from raftmeta.errors import Fenced, GroupRefused, ReadyTimeout
from tests.coordinator.fake import FakeGroup

CODEC = OwnCodec()
RESOURCES = Resources.of_topics({"t": 6})
pytestmark = pytest.mark.asyncio
FAST = Settings(heartbeat_interval_s=0.001, retry_s=0.001)
QUIET = Settings(heartbeat_interval_s=30)


class Worker(AioCoordinator):
    """Shares six resources eagerly. told: its hooks in order."""

    def __init__(self, group: FakeGroup, settings: Settings = FAST) -> None:
        super().__init__(group, settings)
        self.told: list[str] = []
        self.owned: tuple[str, ...] = ()
        self.failures: list[Exception] = []
        self.not_done = 0

    protocol_type = "worker"

    def metadata(self) -> Sequence[tuple[str, bytes]]:
        return [("sticky", CODEC.encode_member(Member("", owned=self.owned, generation=self.generation.number)))]

    async def on_join_prepare(self, generation: int, member_id: str) -> bool:
        self.told.append(f"prepare {generation}")
        if self.not_done:
            self.not_done -= 1
            return False
        return True

    async def on_leader_elected(
        self, leader_id: str, protocol: str, members: Sequence[MemberMetadata], skip_assignment: bool
    ) -> Mapping[str, bytes]:
        self.told.append("elected, skips" if skip_assignment else "elected")
        asking = [CODEC.decode_member(one.metadata, id=one.member_id, instance_id=one.instance_id) for one in members]
        plan = assignor(protocol).assign(asking, RESOURCES)
        return {member: CODEC.encode_assignment(names) for member, names in plan.assignments.items()}

    async def on_join_complete(self, generation: int, member_id: str, protocol: str, assignment: bytes) -> None:
        self.told.append(f"complete {generation}")
        if self.failures:
            raise self.failures.pop(0)
        self.owned, _ = CODEC.decode_assignment(assignment)

    async def on_leave_prepare(self) -> None:
        self.told.append("leave")
        self.owned = ()

    @property
    def is_rejoin_needed(self) -> bool:
        return self._machine.is_rejoin_needed

    def tell_of_change(self) -> None:
        """As a heartbeat does that was answered."""
        self._changed.set()


async def poll_until(workers: Sequence[Worker], generation: int) -> None:
    """All of them poll until they are stable in a generation."""

    async def one(worker: Worker) -> None:
        while worker.generation_if_stable is None or worker.generation.number < generation:
            await worker.poll()
            await asyncio.sleep(0)

    await asyncio.gather(*(one(worker) for worker in workers))


async def test_one_member_leads_itself() -> None:
    group = FakeGroup()
    async with Worker(group) as worker:
        await worker.ensure_active(10)
        assert worker.told == ["prepare -1", "elected", "complete 1"]
        assert worker.owned == RESOURCES.names
        assert (worker.state, worker.generation) == (MemberState.STABLE, Generation(1, worker.member_id, "sticky"))
    assert worker.told[-1] == "leave"
    assert group.members == {}


async def test_members_share_and_a_lost_one_is_replaced() -> None:
    """The heartbeat tells of each rebalance; nobody asks for one."""
    group = FakeGroup()
    first, second = Worker(group), Worker(group)
    await first.ensure_active(10)
    joining = asyncio.create_task(second.ensure_active(10))
    await poll_until([first], 2)
    await joining
    assert sorted((*first.owned, *second.owned)) == sorted(RESOURCES.names)
    assert (len(first.owned), len(second.owned)) == (3, 3)
    await second.close(leave=False)
    group.remove(second.member_id)
    await poll_until([first], 3)
    assert first.owned == RESOURCES.names
    await first.close()


async def test_a_failed_hook_is_called_again_with_the_same() -> None:
    async with Worker(FakeGroup()) as worker:
        worker.failures = [ValueError("no room"), ValueError("no room")]
        for _ in range(2):
            with pytest.raises(ValueError, match="no room"):
                await worker.ensure_active(10)
        await worker.ensure_active(10)
        assert worker.told == ["prepare -1", "elected", "complete 1", "complete 1", "complete 1"]


async def test_a_hook_that_is_not_done_holds_up_the_join() -> None:
    group = FakeGroup()
    async with Worker(group) as worker:
        worker.not_done = 2
        await worker.ensure_active(10)
        assert worker.told == ["prepare -1"] * 3 + ["elected", "complete 1"]
        assert group.count("join") == 2  # one to be given an id


@pytest.mark.parametrize("kind", ["join", "sync"])
@pytest.mark.parametrize(
    "code",
    [
        *(Code.COORDINATOR_LOAD_IN_PROGRESS, Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR),
        *(Code.REBALANCE_IN_PROGRESS, Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION),
    ],
)
async def test_refusals_that_pass_are_survived(kind: str, code: Code) -> None:
    group = FakeGroup()
    group.refusals[kind] = [code, code]
    async with Worker(group) as worker:
        joining = asyncio.create_task(worker.ensure_active(10))
        # A member that forgot its id is another one to the group: the one before it ends with its session.
        while not joining.done():
            for name in [name for name in group.members if name != worker.member_id and len(group.members) > 1]:
                group.remove(name)
            await asyncio.sleep(0)
        await joining
        assert worker.owned == RESOURCES.names


async def test_a_fatal_refusal_reaches_the_caller() -> None:
    group = FakeGroup()
    group.refusals["join"] = [Code.GROUP_MAX_SIZE_REACHED]
    async with Worker(group) as worker:
        for _ in range(2):
            with pytest.raises(GroupRefused, match="GROUP_MAX_SIZE_REACHED"):
                await worker.ensure_active(10)


async def test_a_time_out_leaves_the_join_to_the_next_call() -> None:
    group = FakeGroup()
    first, second = Worker(group), Worker(group)
    await first.ensure_active(10)
    with pytest.raises(ReadyTimeout):
        await second.ensure_active(0.01)
    joining = asyncio.create_task(second.ensure_active(10))
    await poll_until([first], 2)
    await joining
    await asyncio.gather(first.close(), second.close())


async def test_a_static_member_comes_back_without_a_rebalance() -> None:
    """A restart within the session: the same generation, the same assignment; the old process is fenced."""
    group = FakeGroup()
    settings = Settings(instance_id="host-1", heartbeat_interval_s=0.001, retry_s=0.001)
    old = Worker(group, settings)
    await old.ensure_active(10)
    new = Worker(group, settings)
    await new.ensure_active(10)
    assert (new.generation.number, new.owned, group.generation) == (1, RESOURCES.names, 1)
    assert new.told == ["prepare -1", "elected, skips", "complete 1"]
    with pytest.raises(GroupRefused, match="FENCED_INSTANCE_ID"):
        await old.run()
    await asyncio.gather(old.close(), new.close())
    assert group.count("leave") == 0


async def test_a_member_that_does_not_poll_leaves() -> None:
    """Its heartbeats go on from a task of their own; the poll interval ends it nevertheless."""
    group = FakeGroup()
    worker = Worker(group, Settings(heartbeat_interval_s=0.001, max_poll_interval_s=1.0))
    await worker.ensure_active(10)
    while group.members:
        await asyncio.sleep(0)
    assert worker.told[-1] == "leave"
    assert ("leave", ("fake-1", "no poll for 1 s")) in group.log
    await worker.ensure_active(10)
    assert worker.told[-1] == "complete 2"
    await worker.close()


async def test_a_rejoin_that_is_requested_during_a_join_is_done_after_it() -> None:
    group = FakeGroup()

    class Asking(Worker):
        async def on_leader_elected(
            self, leader_id: str, protocol: str, members: Sequence[MemberMetadata], skip_assignment: bool
        ) -> Mapping[str, bytes]:
            if group.generation == 1:
                self.request_rejoin("other resources")
            return await super().on_leader_elected(leader_id, protocol, members, skip_assignment)

    async with Asking(group) as worker:
        await worker.ensure_active(10)
        assert worker.generation.number == 2


async def test_a_member_that_hears_nothing_for_a_session_is_told_that_it_is_lost() -> None:
    """The group is silent, not gone: no answer refuses anything."""
    group = FakeGroup()
    settings = Settings(heartbeat_interval_s=0.001, retry_s=0.001, session_timeout_s=0.5)
    async with Worker(group, settings) as worker:
        await worker.ensure_active(10)
        group.is_silent = True
        running = asyncio.create_task(worker.run())
        while worker.told[-1] != "prepare -1" or len(worker.told) < 4:
            await asyncio.sleep(0)
        assert worker.generation.number == -1
        with pytest.raises(Fenced):
            assert worker.fence
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize("turns", range(6))
async def test_a_cancellation_that_comes_with_news_ends_the_run(turns: int) -> None:
    """The task was told of a change, and is cancelled so many turns later: it must not go on waiting."""
    async with Worker(FakeGroup(), QUIET) as worker:
        running = asyncio.create_task(worker.run())
        while worker.told[-1:] != ["complete 1"] or worker.is_rejoin_needed:
            await asyncio.sleep(0)
        for _ in range(20):
            await asyncio.sleep(0)
        worker.tell_of_change()
        for _ in range(turns):
            await asyncio.sleep(0)
        running.cancel()
        _, left = await asyncio.wait({running}, timeout=2)
        assert not left, "the cancellation was swallowed"
        assert running.cancelled()
