"""Coordinator on asyncio: hooks of a program, driven by MemberMachine over a group service.

It decides nothing of the protocol: it carries out orders, one at a time, and sends heartbeats beside them from a task
of its own. An exception of a hook reaches the caller of `poll` or `ensure_active`. The next call calls the hook again.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from raftmeta.common.waiting import happened
from raftmeta.coordinator.machine import MemberMachine, MemberState, Order, Settings, WaitOrder
from raftmeta.coordinator.member import MemberFace
from raftmeta.coordinator.orders import HookCall, RequestCall, is_lasting, refusal_of, steps
from raftmeta.coordinator.service import AioGroupService, Code, Generation, MemberMetadata
from raftmeta.errors import GroupRefused, RaftmetaError, ReadyTimeout

__all__ = ["AioCoordinator"]


class AioCoordinator(MemberFace, ABC):
    """A member of a group; subclasses say what it is for (KIP-795). One task drives it at a time.

    service: AioStoreGroup(store, "group"), or any other that no second member uses.
    """

    def __init__(self, service: AioGroupService, settings: Settings | None = None) -> None:
        self._service = service
        self._settings = settings or Settings()
        self._machine = MemberMachine(self._settings, self._now_s())
        self._beats: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None
        self._requests = 0  # that the driving task waits for
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
        """Before a join: give up what must be given up. False: not done yet, call again.

        generation: the last one; -1: the member was lost, and others may own already what it had.
        """
        return True

    @abstractmethod
    async def on_leader_elected(
        self, leader_id: str, protocol: str, members: Sequence[MemberMetadata], skip_assignment: bool
    ) -> Mapping[str, bytes]:
        """This member leads the generation: the bytes of each member."""

    @abstractmethod
    async def on_join_complete(self, generation: int, member_id: str, protocol: str, assignment: bytes) -> None:
        """The group is stable. If it raises, it is called again with the same."""

    async def on_leave_prepare(self) -> None:
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

    async def run(self) -> None:
        """Poll for ever: join again whenever the group asks for it. Ends by cancellation and by errors only."""
        while True:
            await self.ensure_active()
            self._changed.clear()
            if not self._machine.is_rejoin_needed and self._machine.state is MemberState.STABLE:
                await happened(self._changed, self._settings.max_poll_interval_s / 2)

    async def poll(self) -> None:
        """Show that the caller is alive, and join again if the group asks for it. Returns when the member is stable."""
        await self.ensure_active()

    def request_rejoin(self, reason: str) -> None:
        """Join again as soon as somebody drives; also if a join is under way now."""
        self._machine.request_rejoin(reason)
        self._changed.set()

    async def maybe_leave(self, reason: str) -> None:
        """Leave the group at once; a static member stays."""
        self._machine.maybe_leave(reason)
        if (order := self._machine.leave_order(self._now_s())) is not None:
            await self._carry_out(order)

    async def close(self, *, leave: bool = True) -> None:
        """Leave the group, and end the heartbeats. leave: False lets the group find out by the session time-out."""
        try:
            if leave and self._machine.fatal is None:
                await self.maybe_leave("the coordinator was closed")
        finally:
            beside = [task for task in (self._beats, self._listening) if task is not None]
            self._beats = self._listening = None
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            self._service.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- orders ---------------------------------------------------------------------------------------------------

    async def _step(self) -> bool:
        """Carry out one order; True: there is none, and the member is stable."""
        if self._beats is None:
            self._beats = asyncio.create_task(self._beat_on())
            if (until_refused := getattr(self._service, "until_refused", None)) is not None:
                self._listening = asyncio.create_task(self._listen_on(until_refused))
        self._machine.poll(self._now_s())
        order = self._machine.next_order(self._now_s())
        if isinstance(order, WaitOrder):
            if self._machine.state is MemberState.STABLE and not self._machine.is_rejoin_needed:
                return True
            self._changed.clear()
            delay_s = None if order.until_s is None else max(0.0, order.until_s - self._now_s())
            await happened(self._changed, delay_s)
            return False
        await self._carry_out(order)
        self._changed.set()
        return False

    async def _carry_out(self, order: Order) -> None:
        flow = steps(self, self._machine, self._service, order, self._now_s)
        try:
            asked = next(flow)
            while True:
                try:
                    answer = await self._answer_of(asked)
                except Exception as error:
                    asked = flow.throw(error)
                else:
                    asked = flow.send(answer)
        except StopIteration:
            pass
        finally:
            flow.close()

    async def _answer_of(self, asked: HookCall | RequestCall) -> object:
        if isinstance(asked, HookCall):
            return await asked.call()
        self._requests += 1
        try:
            return await asked.call()
        finally:
            self._requests -= 1

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
            if self._requests:  # a caller that waits for the group is not late
                self._machine.poll(self._now_s())
            if (order := self._machine.leave_order(self._now_s())) is not None:
                with suppress(Exception):  # the hook's; the member has left all the same
                    await self._carry_out(order)
                continue
            await self._beat()
            self._machine.check_silence(self._now_s())
            self._changed.set()

    async def _beat(self) -> None:
        sent = self._machine.beat(self._now_s())
        code: int | None = None
        try:
            async with asyncio.timeout(self._settings.heartbeat_interval_s):
                await self._service.heartbeat(sent, self._settings.instance_id)
        except (RaftmetaError, TimeoutError) as error:
            refusal = refusal_of(error)
            code = Code.COORDINATOR_NOT_AVAILABLE if refusal is None else refusal.code
        self._machine.beaten(sent, code, self._now_s())

    async def _listen_on(self, until_refused: Callable[..., Awaitable[None]]) -> None:
        """Hear at once that the generation is over, or the member. Heartbeats tell it later, and tell of silence."""
        heard: Generation | None = None
        while True:
            sent = self._machine.generation_if_stable
            if sent is None or sent == heard:
                self._changed.clear()
                await self._changed.wait()
                continue
            try:
                await until_refused(sent, self._settings.instance_id)
            except GroupRefused as refused:
                heard = sent
                self._machine.beaten(sent, refused.code, self._now_s())
                self._changed.set()
            except RaftmetaError as error:
                if is_lasting(error):
                    return
                await asyncio.sleep(self._settings.retry_s)

    @staticmethod
    def _now_s() -> float:
        return asyncio.get_running_loop().time()
