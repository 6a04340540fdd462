"""Workers on asyncio: one member of a group that shares resources, as a stream of events (raftmeta.workers).

It decides the order in which the program hears of its resources. The assignor decides who gets them, the group when.

    Assigned ──► Revoked ──► Assigned ──► ...     a rebalance; with an eager assignor everything is revoked first
    Assigned ──► Lost ──► Assigned                the session ended, or the program did not take its events in time

Invariants: a resource is in an Assigned before it is in a Revoked or a Lost, and in one of these at most once. The
member joins again only when the program asked for the event after Revoked: by then it has given the resources up.

Sources: KIP-429 (cooperative: only resources that move are revoked, by a second generation), KIP-415 (delays).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from raftmeta.coordinator.awaited import AioCoordinator
from raftmeta.coordinator.machine import Settings
from raftmeta.coordinator.service import AioGroupService, MemberMetadata
from raftmeta.coordinator.sharing import PROTOCOL_TYPE, Assigned, Event, Lost, Revoked, Share
from raftmeta.operations import Fence

__all__ = ["Workers"]


class _Sharing(AioCoordinator):
    """The member. tell: takes an event and whether the program must have given something up before it returns."""

    def __init__(self, service: AioGroupService, settings: Settings, share: Share) -> None:
        super().__init__(service, settings)
        self.events: asyncio.Queue[tuple[Event | Exception, asyncio.Future[None], bool]] = asyncio.Queue()
        self.is_closing = False
        self._share = share
        self._replan: asyncio.TimerHandle | None = None

    protocol_type = PROTOCOL_TYPE

    def metadata(self) -> Sequence[tuple[str, bytes]]:
        return self._share.said()

    async def on_join_prepare(self, generation: int, member_id: str) -> bool:
        if generation < 0:
            self.lose()
        elif self._share.owned and not self._share.is_cooperative:
            await self._revoke(self._share.owned)
        return True

    async def on_leader_elected(
        self, leader_id: str, protocol: str, members: Sequence[MemberMetadata], skip_assignment: bool
    ) -> Mapping[str, bytes]:
        if skip_assignment:
            return {}
        loop = asyncio.get_running_loop()
        assignments, next_plan_s = self._share.plan(members, loop.time())
        self.stop_replan()
        if next_plan_s:  # 0: the members that gave something up ask for it
            self._replan = loop.call_later(next_plan_s, self.request_rejoin, "the next plan is due")
        return assignments

    async def on_join_complete(self, generation: int, member_id: str, protocol: str, assignment: bytes) -> None:
        names, revoked = self._share.read(assignment)
        if gone := self._share.gone(names):
            await self._revoke(gone)
        fence = self._machine.fence
        if fence is None or generation != self.generation.number:
            return  # the member was lost while the program gave up
        added = self._share.take(names, generation)
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
        if lost := self._share.lose():
            self.events.put_nowait((Lost(lost), asyncio.get_running_loop().create_future(), False))

    async def _revoke(self, names: tuple[str, ...]) -> None:
        """After a loss meanwhile, nothing is left to give up."""
        self._share.give_up(names)
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


def aio_workers(service: AioGroupService, settings: Settings, share: Share) -> Workers:
    """The workers of one member."""
    return Workers(_Sharing(service, settings, share))
