"""Coordinator on asyncio: hooks of a program, driven by MemberMachine over a GroupService.

It decides nothing of the protocol: it carries out orders, one at a time, and sends heartbeats beside them from a task
of its own. An exception of a hook reaches the caller of `poll` or `ensure_active`. The next call calls the hook again.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Self, TypeVar

from raftmeta.coordinator.machine import (
    AssignOrder,
    CompleteOrder,
    JoinOrder,
    LeaveOrder,
    MemberMachine,
    MemberState,
    Order,
    PrepareOrder,
    Settings,
    SyncOrder,
    WaitOrder,
)
from raftmeta.coordinator.service import Code, Generation, GroupRefused, GroupService, MemberMetadata
from raftmeta.errors import NotExecuted, OutcomeUnknown, ReadyTimeout

__all__ = ["AioCoordinator"]

Answer = TypeVar("Answer")


class AioCoordinator(ABC):
    """A member of a group; subclasses say what it is for (KIP-795). One task drives it at a time."""

    def __init__(self, service: GroupService, settings: Settings | None = None) -> None:
        self._service = service
        self._settings = settings or Settings()
        self._machine = MemberMachine(self._settings, self._now_s())
        self._beats: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    # --- hooks ----------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def protocol_type(self) -> str:
        """All members of a group have the same."""

    @abstractmethod
    def metadata(self) -> Sequence[tuple[str, bytes]]:
        """Each protocol that this member speaks, with its bytes for the leader; the preferred one first."""

    async def on_join_prepare(self, generation: int, member_id: str) -> bool:
        """Before a join: give up what must be given up. False: not done yet, call again."""
        return True

    @abstractmethod
    async def on_leader_elected(
        self, leader_id: str, protocol: str, members: Sequence[MemberMetadata], skip_assignment: bool
    ) -> Mapping[str, bytes]:
        """This member leads the generation: the bytes of each member."""

    @abstractmethod
    async def on_join_complete(self, generation: int, member_id: str, protocol: str, assignment: bytes) -> None:
        """The group is stable. If it raises, it is called again with the same."""

    async def on_leave_prepare(self) -> None:  # noqa: B027 it may be left as it is
        """Before the member leaves, also after it was silent for too long."""

    # --- driving --------------------------------------------------------------------------------------------------

    async def ensure_active(self, timeout_s: float | None = None) -> None:
        """Return when the member is stable and on_join_complete has returned.

        Raises ReadyTimeout after timeout_s; the next call goes on. Raises GroupRefused when it can never be stable.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while not await self._step():
                    pass
        except TimeoutError as error:
            if isinstance(error, ReadyTimeout):
                raise
            raise ReadyTimeout(f"the group was not stable within {timeout_s:g} s") from None

    async def poll(self) -> None:
        """Show that the caller is alive, and join again if the group asks for it. Returns when the member is stable."""
        await self.ensure_active()

    def request_rejoin(self, reason: str) -> None:
        self._machine.request_rejoin(reason)
        self._changed.set()

    async def maybe_leave(self, reason: str) -> None:
        """Leave the group at once; a static member stays."""
        self._machine.maybe_leave(reason)
        if (order := self._machine.leave_order(self._now_s())) is not None:
            await self._carry_out(order)

    async def close(self, *, leave: bool = True) -> None:
        """leave: False lets the group find out by the session time-out."""
        try:
            if leave and self._machine.fatal is None:
                await self.maybe_leave("the coordinator was closed")
        finally:
            beats, self._beats = self._beats, None
            if beats is not None:
                beats.cancel()
                await asyncio.gather(beats, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def generation(self) -> Generation:
        return self._machine.generation

    @property
    def generation_if_stable(self) -> Generation | None:
        return self._machine.generation_if_stable

    @property
    def member_id(self) -> str:
        return self._machine.generation.member_id

    @property
    def state(self) -> MemberState:
        return self._machine.state

    # --- orders ---------------------------------------------------------------------------------------------------

    async def _step(self) -> bool:
        """Carry out one order; True: there is none, and the member is stable."""
        if self._beats is None:
            self._beats = asyncio.create_task(self._beat_on())
        self._machine.poll(self._now_s())
        order = self._machine.next_order(self._now_s())
        if isinstance(order, WaitOrder):
            if self._machine.state is MemberState.STABLE and not self._machine.is_rejoin_needed:
                return True
            self._changed.clear()
            delay_s = None if order.until_s is None else max(0.0, order.until_s - self._now_s())
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), delay_s)
            return False
        await self._carry_out(order)
        self._changed.set()
        return False

    async def _carry_out(self, order: Order) -> None:
        machine = self._machine
        try:
            match order:
                case PrepareOrder(generation):
                    is_done = await self.on_join_prepare(generation.number, generation.member_id)
                    machine.prepared(is_done, self._now_s())
                case JoinOrder(request):
                    whole = replace(request, protocol_type=self.protocol_type, protocols=tuple(self.metadata()))
                    machine.joined(await self._asked(self._service.join(whole)), self._now_s())
                case AssignOrder(leader_id, protocol, members, skips):
                    machine.assigned(await self.on_leader_elected(leader_id, protocol, members, skips))
                case SyncOrder(request):
                    machine.synced(await self._asked(self._service.sync(request)), self._now_s())
                case CompleteOrder(generation, assignment):
                    await self.on_join_complete(
                        generation.number, generation.member_id, generation.protocol, assignment
                    )
                    machine.completed()
                case LeaveOrder(member_id, reason):
                    await self._leave(member_id, reason)
        except GroupRefused as refused:
            machine.refused(refused.code, self._now_s(), member_id=refused.member_id)

    async def _leave(self, member_id: str, reason: str) -> None:
        """A leave that fails is forgotten: the session time-out does the same later."""
        try:
            await self.on_leave_prepare()
            if member_id:
                await self._asked(self._service.leave(member_id, self._settings.instance_id, reason))
        except GroupRefused:
            pass
        finally:
            self._machine.left()

    async def _asked(self, answer: Awaitable[Answer]) -> Answer:
        """The answer; a carrier that could not tell it counts as a coordinator that is not there."""
        try:
            return await answer
        except (NotExecuted, OutcomeUnknown) as error:
            raise GroupRefused(Code.COORDINATOR_NOT_AVAILABLE) from error

    async def _beat_on(self) -> None:
        """Heartbeats as long as the coordinator is open; a caller that does not poll is made to leave from here."""
        while True:
            due_s = self._machine.heartbeat_due_s
            if due_s is None:
                self._changed.clear()
                await self._changed.wait()
                continue
            if (delay_s := due_s - self._now_s()) > 0:
                await asyncio.sleep(delay_s)
                continue
            if (order := self._machine.leave_order(self._now_s())) is not None:
                await self._carry_out(order)
                continue
            sent = self._machine.beat(self._now_s())
            code: Code | None = None
            try:
                await self._service.heartbeat(sent, self._settings.instance_id)
            except GroupRefused as refused:
                code = refused.code
            except (NotExecuted, OutcomeUnknown):
                code = Code.COORDINATOR_NOT_AVAILABLE
            self._machine.beaten(sent, code, self._now_s())
            self._changed.set()

    @staticmethod
    def _now_s() -> float:
        return asyncio.get_running_loop().time()
