"""Coordinator for threads: the same hooks as plain functions, called on the thread that drives.

It decides nothing of the protocol. A daemon thread sends heartbeats beside the driving calls. The lock guards the
machine: no request is made under it, and of the hooks only `metadata`, which must not wait. A member whose caller does
not poll leaves on the thread of the heartbeats, which then calls on_leave_prepare, too.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from threading import Condition
from types import TracebackType
from typing import Any, Self

from raftmeta.common.apart import ApartThread
from raftmeta.coordinator.machine import MemberMachine, MemberState, Order, Settings, WaitOrder
from raftmeta.coordinator.member import MemberFace
from raftmeta.coordinator.orders import HookCall, RequestCall, Steps, is_lasting, refusal_of, steps
from raftmeta.coordinator.service import Code, Generation, GroupService, MemberMetadata
from raftmeta.errors import GroupRefused, GroupTimeout, RaftmetaError, ReadyTimeout

__all__ = ["Coordinator"]

LEAVE_S = 5.0
END_S = 10.0
LISTEN_S = 5.0  # after which a listener looks whether it is to end; it needs a read each time
LISTEN_END_S = 0.5  # a listener of a member that left ends at once, another one by itself


class Coordinator(MemberFace, ABC):
    """A member of a group; subclasses say what it is for (KIP-795). One thread drives it at a time.

    service: StoreGroup(store, "group"), or any other that no second member uses.
    """

    def __init__(self, service: GroupService, settings: Settings | None = None) -> None:
        self._service = service
        self._settings = settings or Settings()
        self._machine = MemberMachine(self._settings, time.monotonic())
        self._changed = Condition()
        self._beats: ApartThread | None = None
        self._listening: ApartThread | None = None
        self._requests = 0  # that the driving thread waits for
        self._is_closed = False

    # --- hooks ----------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def protocol_type(self) -> str:
        """All members of a group have the same."""

    @abstractmethod
    def metadata(self) -> Sequence[tuple[str, bytes]]:
        """Each protocol that this member speaks, with its bytes for the leader; the preferred one first."""

    def on_join_prepare(self, generation: int, member_id: str) -> bool:
        """Before a join: give up what must be given up. False: not done yet, call again.

        generation: the last one; -1: the member was lost, and others may own already what it had.
        """
        return True

    @abstractmethod
    def on_leader_elected(
        self, leader_id: str, protocol: str, members: Sequence[MemberMetadata], skip_assignment: bool
    ) -> Mapping[str, bytes]:
        """This member leads the generation: the bytes of each member."""

    @abstractmethod
    def on_join_complete(self, generation: int, member_id: str, protocol: str, assignment: bytes) -> None:
        """The group is stable. If it raises, it is called again with the same."""

    def on_leave_prepare(self) -> None:
        """Before the member leaves, also after it was silent for too long."""

    # --- driving --------------------------------------------------------------------------------------------------

    def ensure_active(self, timeout_s: float | None = None) -> None:
        """Return when the member is stable and on_join_complete has returned.

        Raises ReadyTimeout after timeout_s; the next call goes on. Raises GroupRefused when it can never be stable.
        """
        if self._beats is None:
            self._beats = ApartThread(self._beat_on, "raftmeta-coordinator")
            self._beats.start()
            if (until_refused := getattr(self._service, "until_refused", None)) is not None:
                self._listening = ApartThread(partial(self._listen_on, until_refused), "raftmeta-coordinator")
                self._listening.start()
        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._step(end_s):
            if end_s is not None and time.monotonic() >= end_s:
                raise ReadyTimeout(f"the group was not stable within {timeout_s:g} s")

    def poll(self) -> None:
        """Show that the caller is alive, and join again if the group asks for it. Returns when the member is stable."""
        self.ensure_active()

    def request_rejoin(self, reason: str) -> None:
        """Join again as soon as somebody drives; also if a join is under way now."""
        with self._changed:
            self._machine.request_rejoin(reason)
            self._changed.notify_all()

    def maybe_leave(self, reason: str) -> None:
        """Leave the group at once; a static member stays."""
        with self._changed:
            self._machine.maybe_leave(reason)
            order = self._machine.leave_order(time.monotonic())
        if order is not None:
            self._carry_out(order, time.monotonic() + LEAVE_S)

    def close(self, *, leave: bool = True) -> None:
        """Leave the group, and end the heartbeats. leave: False lets the group find out by the session time-out."""
        try:
            if leave and self._machine.fatal is None:
                self.maybe_leave("the coordinator was closed")
        finally:
            with self._changed:
                self._is_closed = True
                self._changed.notify_all()
            if self._beats is not None and not self._beats.is_this():
                self._beats.wait(END_S)
            if self._listening is not None and not self._listening.is_this():
                self._listening.wait(LISTEN_END_S)
            self._service.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- orders ---------------------------------------------------------------------------------------------------

    def _step(self, end_s: float | None) -> bool:
        """Carry out one order; True: there is none, and the member is stable."""
        with self._changed:
            now_s = time.monotonic()
            self._machine.poll(now_s)
            order = self._machine.next_order(now_s)
            if isinstance(order, WaitOrder):
                if self._machine.state is MemberState.STABLE and not self._machine.is_rejoin_needed:
                    return True
                ends_s = [one for one in (order.until_s, end_s) if one is not None]
                self._changed.wait(max(0.0, min(ends_s) - now_s) if ends_s else None)
                return False
        self._carry_out(order, end_s)
        return False

    def _carry_out(self, order: Order, end_s: float | None) -> None:
        flow = steps(self, self._machine, self._service, order, time.monotonic)
        asked = self._went_on(flow, None, None)
        while asked is not None:
            answer: Any = None
            failure: Exception | None = None
            try:
                answer = self._answer_of(asked, end_s)
            except Exception as error:
                failure = error
            asked = self._went_on(flow, answer, failure)

    def _went_on(self, flow: Steps, answer: Any, failure: Exception | None) -> HookCall | RequestCall | None:
        """The next call; None: the order is carried out."""
        with self._changed:
            try:
                return flow.send(answer) if failure is None else flow.throw(failure)
            except StopIteration:
                return None
            finally:
                self._changed.notify_all()

    def _answer_of(self, asked: HookCall | RequestCall, end_s: float | None) -> Any:
        if isinstance(asked, HookCall):
            return asked.call()
        with self._changed:
            self._requests += 1
        try:
            return asked.call(timeout_s=None if end_s is None else max(0.0, end_s - time.monotonic()))
        finally:
            with self._changed:
                self._requests -= 1

    # --- heartbeats -----------------------------------------------------------------------------------------------

    def _beat_on(self) -> None:
        while (due := self._wait_until_due()) is not None:
            if isinstance(due, WaitOrder):
                self._beat()
            else:
                with suppress(Exception):  # the hook's; the member has left all the same
                    self._carry_out(due, time.monotonic() + LEAVE_S)

    def _wait_until_due(self) -> Order | None:
        """Wait for the next heartbeat, or for the end of a caller's silence. None: the coordinator was closed."""
        with self._changed:
            while not self._is_closed:
                now_s, due_s = time.monotonic(), self._machine.heartbeat_due_s
                if due_s is None or due_s > now_s:
                    self._changed.wait(None if due_s is None else due_s - now_s)
                    continue
                if self._requests:  # a caller that waits for the group is not late
                    self._machine.poll(now_s)
                return self._machine.leave_order(now_s) or WaitOrder(None)
            return None

    def _beat(self) -> None:
        with self._changed:
            sent = self._machine.beat(time.monotonic())
        code: int | None = None
        try:
            self._service.heartbeat(sent, self._settings.instance_id, timeout_s=self._settings.heartbeat_interval_s)
        except RaftmetaError as error:
            refusal = refusal_of(error)
            code = Code.COORDINATOR_NOT_AVAILABLE if refusal is None else refusal.code
        with self._changed:
            self._machine.beaten(sent, code, time.monotonic())
            self._machine.check_silence(time.monotonic())
            self._changed.notify_all()

    def _listen_on(self, until_refused: Callable[..., None]) -> None:
        """Hear at once that the generation is over, or the member. Heartbeats tell it later, and tell of silence."""
        heard: Generation | None = None
        while (sent := self._wait_until_stable(heard)) is not None:
            try:
                until_refused(sent, self._settings.instance_id, timeout_s=LISTEN_S)
            except GroupTimeout:
                continue
            except GroupRefused as refused:
                heard = sent
                with self._changed:
                    self._machine.beaten(sent, refused.code, time.monotonic())
                    self._changed.notify_all()
            except RaftmetaError as error:
                if is_lasting(error):
                    return
                with self._changed:
                    self._changed.wait(self._settings.retry_s)

    def _wait_until_stable(self, heard: Generation | None) -> Generation | None:
        """The generation that the member is stable in, unless it was heard of; None: the coordinator was closed."""
        with self._changed:
            while not self._is_closed:
                found = self._machine.generation_if_stable
                if found is not None and found != heard:
                    return found
                self._changed.wait()
            return None
