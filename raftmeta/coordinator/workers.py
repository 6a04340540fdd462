"""Workers: one member of a group that shares resources, as a stream of events (raftmeta.workers).

It decides the order in which the program hears of its resources. The assignor decides who gets them, the group when.

    Assigned ──► Revoked ──► Assigned ──► ...     a rebalance; with an eager assignor everything is revoked first
    Assigned ──► Lost ──► Assigned                the session ended, or the program did not take its events in time

Invariants: a resource is in an Assigned before it is in a Revoked or a Lost, and in one of these at most once. The
member joins again only when the program asked for the event after Revoked: by then it has given the resources up.

Sources: KIP-429 (cooperative: only resources that move are revoked, by a second generation), KIP-415 (delays).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Self

from raftmeta.assignors import Assignor, Member, OwnCodec, Resources
from raftmeta.assignors import assignor as assignor_of
from raftmeta.coordinator.awaited import AioCoordinator
from raftmeta.coordinator.machine import Settings
from raftmeta.coordinator.service import AioGroupService, MemberMetadata
from raftmeta.coordinator.store import AioStoreGroup
from raftmeta.operations import Fence, Key
from raftmeta.verbs.awaited import AioVerbs

__all__ = ["Assigned", "Lost", "Revoked", "Workers", "workers"]

PROTOCOL_TYPE = "raftmeta.workers"
CODEC = OwnCodec()
WORKER_SETTINGS = Settings(session_timeout_s=10.0, rebalance_timeout_s=60.0, heartbeat_interval_s=1.0)

ResourcesLike = Resources | Mapping[str, int] | Iterable[str]


@dataclass(frozen=True, slots=True)
class Assigned:
    """A generation begins. resources: all that this member has now. added: those that it did not have before.

    fence: for every write that belongs to the resources, also to those that it had before: older fences are over.
    """

    resources: tuple[str, ...]
    added: tuple[str, ...]
    generation: int
    fence: Fence


@dataclass(frozen=True, slots=True)
class Revoked:
    """Give these up now: asking for the next event says that it is done. They have no other owner before that."""

    resources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lost:
    """These may have other owners already. Writes with the fence of their assignment are refused."""

    resources: tuple[str, ...]


Event = Assigned | Revoked | Lost


def resources_of(given: ResourcesLike) -> Resources:
    """Resources as they are; a mapping of topics to numbers of partitions; or names."""
    if isinstance(given, Resources):
        return given
    if isinstance(given, Mapping):
        return Resources.of_topics(given)
    return Resources.of_names(given)


class _Sharing(AioCoordinator):
    """The member. tell: takes an event and whether the program must have given something up before it returns."""

    def __init__(
        self,
        service: AioGroupService,
        settings: Settings,
        resources: Callable[[], ResourcesLike],
        assignor: Assignor,
        topics: Iterable[str] | None,
    ) -> None:
        super().__init__(service, settings)
        self.events: asyncio.Queue[tuple[Event | Exception, asyncio.Future[None], bool]] = asyncio.Queue()
        self.owned: tuple[str, ...] = ()
        self.is_closing = False
        self._resources = resources
        self._assignor = assignor
        self._topics = None if topics is None else frozenset(topics)
        self._had: tuple[str, ...] = ()  # for the assignor; an eager member owns nothing while it joins
        self._had_generation = -1
        self._memory = b""
        self._replan: asyncio.TimerHandle | None = None

    protocol_type = PROTOCOL_TYPE

    def metadata(self) -> Sequence[tuple[str, bytes]]:
        said = Member("", topics=self._topics, owned=self._had, generation=self._had_generation)
        return [(self._assignor.name, CODEC.encode_member(said))]

    async def on_join_prepare(self, generation: int, member_id: str) -> bool:
        if generation < 0:
            self.lose()
        elif self.owned and not self._assignor.is_cooperative:
            await self._revoke(self.owned)
        return True

    async def on_leader_elected(
        self, leader_id: str, protocol: str, members: Sequence[MemberMetadata], skip_assignment: bool
    ) -> Mapping[str, bytes]:
        if skip_assignment:
            return {}
        asking = [CODEC.decode_member(one.metadata, id=one.member_id, instance_id=one.instance_id) for one in members]
        now_s = asyncio.get_running_loop().time()
        plan = self._assignor.assign(asking, resources_of(self._resources()), now_s=now_s, memory=self._memory)
        self._memory = plan.memory
        self.stop_replan()
        if plan.next_plan_s:  # 0: the members that gave something up ask for it
            loop = asyncio.get_running_loop()
            self._replan = loop.call_later(plan.next_plan_s, self.request_rejoin, "the next plan is due")
        return {
            member: CODEC.encode_assignment(names, plan.revoked.get(member, ()))
            for member, names in plan.assignments.items()
        }

    async def on_join_complete(self, generation: int, member_id: str, protocol: str, assignment: bytes) -> None:
        names, revoked = CODEC.decode_assignment(assignment) if assignment else ((), ())
        gone = tuple(name for name in self.owned if name not in set(names))
        if gone:
            await self._revoke(gone)
        fence = self._machine.fence
        if fence is None or generation != self.generation.number:
            return  # the member was lost while the program gave up
        added = tuple(name for name in names if name not in set(self.owned))
        self.owned = self._had = names
        self._had_generation = generation
        await self._tell(Assigned(names, added, generation, fence), must_be_done=False)
        if revoked:
            self.request_rejoin("gave up what moves")

    async def on_leave_prepare(self) -> None:
        if not self.is_closing:
            self.lose()

    def stop_replan(self) -> None:
        if self._replan is not None:
            self._replan.cancel()
            self._replan = None

    def lose(self) -> None:
        """Tell of it without waiting: others need not wait for this member."""
        lost, self.owned = self.owned, ()
        self._had, self._had_generation = (), -1
        if lost:
            self.events.put_nowait((Lost(lost), asyncio.get_running_loop().create_future(), False))

    async def _revoke(self, names: tuple[str, ...]) -> None:
        """After a loss meanwhile, nothing is left to give up."""
        self.owned = tuple(name for name in self.owned if name not in set(names))
        await self._tell(Revoked(names), must_be_done=True)

    async def _tell(self, event: Event, *, must_be_done: bool) -> None:
        taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.events.put_nowait((event, taken, must_be_done))
        await taken


class Workers:
    """An asynchronous iterator of events, for one task; `async with` leaves the group at the end."""

    def __init__(self, sharing: _Sharing) -> None:
        self._sharing = sharing
        self._running: asyncio.Task[None] | None = None
        self._told: asyncio.Future[None] | None = None
        self._failure: Exception | None = None

    @property
    def member_id(self) -> str:
        return self._sharing.member_id

    @property
    def fence(self) -> Fence:
        """Of the newest assignment. Raises Fenced while there is none."""
        return self._sharing.fence

    def request_rejoin(self, reason: str) -> None:
        """Ask for a new plan. Only the leader's request makes one, as after a change of its resources."""
        self._sharing.request_rejoin(reason)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        """The next event. Raises the error that ended the member: GroupRefused, PermissionDenied, NodeClosed."""
        if self._sharing.is_closing:
            raise StopAsyncIteration
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        self._done_with_event()
        if self._failure is not None and self._sharing.events.empty():
            raise self._failure
        event, taken, must_be_done = await self._sharing.events.get()
        if isinstance(event, Exception):
            self._failure = event
            raise event
        if must_be_done:
            self._told = taken
        elif not taken.done():
            taken.set_result(None)
        return event

    def _done_with_event(self) -> None:
        told, self._told = self._told, None
        if told is not None and not told.done():
            told.set_result(None)

    async def _run(self) -> None:
        try:
            await self._sharing.run()
        except Exception as error:
            self._sharing.lose()
            self._sharing.events.put_nowait((error, asyncio.get_running_loop().create_future(), False))

    async def close(self, *, leave: bool = True) -> None:
        """End the membership: the program has given everything up. leave: False leaves it to the session time-out."""
        self._sharing.is_closing = True
        self._sharing.stop_replan()
        running, self._running = self._running, None
        if running is not None:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        await self._sharing.close(leave=leave)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def workers(
    group: Key,
    *,
    store: AioVerbs,
    resources: ResourcesLike | Callable[[], ResourcesLike],
    assignor: str | Assignor = "cooperative-sticky",
    topics: Iterable[str] | None = None,
    settings: Settings = WORKER_SETTINGS,
    initial_delay_s: float = 0.0,
) -> Workers:
    """Share resources with the other workers of a group, and iterate over what this one has: Assigned, Revoked, Lost.

    store: a node, client or view for asyncio. resources: names, topics with numbers of partitions, or Resources; a
    callable is asked when this worker makes a plan. assignor: the same for all workers, by name or as an object.
    topics: those that this worker asks for; None: all. settings: time-outs, and instance_id of a static member.
    initial_delay_s: how long an empty group waits for further workers. Raises InvalidArgument, ConfigError.
    """
    made = assignor_of(assignor) if isinstance(assignor, str) else assignor
    asked = resources if callable(resources) else partial(resources_of, resources_of(resources))
    service = AioStoreGroup(store, group, initial_delay_s=initial_delay_s)
    return Workers(_Sharing(service, settings, asked, made, topics))
