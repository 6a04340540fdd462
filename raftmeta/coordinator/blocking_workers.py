"""Workers for threads: the events of raftmeta.workers, one after the other, for a program that blocks.

It decides nothing that coordinator/workers does not decide in the same way. A daemon thread drives the member, so a
program that works between two events is no silent one. Hooks on that thread wait until their event is taken.

Invariants: those of coordinator/workers.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from threading import Condition
from types import TracebackType
from typing import Self

from raftmeta.common.apart import ApartThread
from raftmeta.coordinator.blocking import Coordinator
from raftmeta.coordinator.machine import MemberState, Settings
from raftmeta.coordinator.service import GroupService, MemberMetadata
from raftmeta.coordinator.sharing import PROTOCOL_TYPE, Assigned, Event, Lost, Revoked, Share
from raftmeta.errors import ReadyTimeout
from raftmeta.operations import Fence

__all__ = ["BlockingWorkers"]

SLICE_S = 2.0  # after which a join that waits is asked again, and the driving thread looks whether it is to end
END_S = 10.0


class _Closing(Exception):
    """The workers are closed: a hook that waits for the program gives up."""


class _Told:
    """An event for the program. is_done: the program went on behind it."""

    __slots__ = ("event", "is_done", "must_be_done")

    def __init__(self, event: Event, *, must_be_done: bool) -> None:
        self.event = event
        self.must_be_done = must_be_done
        self.is_done = False


class _Sharing(Coordinator):
    """The member, driven by `run` on one thread."""

    def __init__(self, service: GroupService, settings: Settings, share: Share) -> None:
        super().__init__(service, settings)
        self.events: deque[_Told] = deque()
        self.news = Condition()
        self.is_closing = False
        self.failure: Exception | None = None
        self._share = share
        self._replan_s: float | None = None

    protocol_type = PROTOCOL_TYPE

    def metadata(self) -> Sequence[tuple[str, bytes]]:
        return self._share.said()

    def on_join_prepare(self, generation: int, member_id: str) -> bool:
        if generation < 0:
            self.lose()
        elif self._share.owned and not self._share.is_cooperative:
            self._revoke(self._share.owned)
        return True

    def on_leader_elected(
        self, leader_id: str, protocol: str, members: Sequence[MemberMetadata], skip_assignment: bool
    ) -> Mapping[str, bytes]:
        if skip_assignment:
            return {}
        assignments, next_plan_s = self._share.plan(members, time.monotonic())
        # 0: the members that gave something up ask for the next plan
        self._replan_s = time.monotonic() + next_plan_s if next_plan_s else None
        return assignments

    def on_join_complete(self, generation: int, member_id: str, protocol: str, assignment: bytes) -> None:
        names, revoked = self._share.read(assignment)
        if gone := self._share.gone(names):
            self._revoke(gone)
        fence = self._machine.fence
        if fence is None or generation != self.generation.number:
            return  # the member was lost while the program gave up
        added = self._share.take(names, generation)
        self._tell(Assigned(names, added, generation, fence), must_be_done=False)
        if revoked:
            self.request_rejoin("gave up what moves")

    def on_leave_prepare(self) -> None:
        if not self.is_closing:
            self.lose()

    def lose(self) -> None:
        """Tell of it without waiting: others need not wait for this member."""
        if lost := self._share.lose():
            with self.news:
                self.events.append(_Told(Lost(lost), must_be_done=False))
                self.news.notify_all()

    def _revoke(self, names: tuple[str, ...]) -> None:
        """After a loss meanwhile, nothing is left to give up."""
        self._share.give_up(names)
        self._tell(Revoked(names), must_be_done=True)

    def _tell(self, event: Event, *, must_be_done: bool) -> None:
        told = _Told(event, must_be_done=must_be_done)
        with self.news:
            self.events.append(told)
            self.news.notify_all()
            while not told.is_done:
                if self.is_closing:
                    raise _Closing
                self.news.wait()

    # --- the driving thread ---------------------------------------------------------------------------------------
    def run(self) -> None:
        """Poll until the workers are closed, or an error ends the member."""
        try:
            while not self.is_closing:
                try:
                    self.ensure_active(SLICE_S)
                except ReadyTimeout:
                    continue
                self._wait_for_need()
        except _Closing:
            pass
        except Exception as error:
            self.lose()
            with self.news:
                self.failure = error
                self.news.notify_all()

    def _wait_for_need(self) -> None:
        """Until the member must join again, for as long as its caller may be silent; and until the next plan is due."""
        end_s = time.monotonic() + self._settings.max_poll_interval_s / 2
        with self._changed:
            while not self.is_closing and self._machine.state is MemberState.STABLE:
                now_s = time.monotonic()
                if self._replan_s is not None and now_s >= self._replan_s:
                    self._replan_s = None
                    self._machine.request_rejoin("the next plan is due")
                if self._machine.is_rejoin_needed or self._machine.fatal is not None or now_s >= end_s:
                    return
                due_s = end_s if self._replan_s is None else min(end_s, self._replan_s)
                self._changed.wait(due_s - now_s)

    def stop(self) -> None:
        """Let the driving thread end."""
        with self.news:
            self.is_closing = True
            self.news.notify_all()
        with self._changed:
            self._changed.notify_all()


class BlockingWorkers:
    """An iterator of events for one thread; `with` leaves the group at the end."""

    def __init__(self, sharing: _Sharing) -> None:
        self._sharing = sharing
        self._driver: ApartThread | None = None
        self._told: _Told | None = None

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

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        """The next event. Raises the error that ended the member: GroupRefused, PermissionDenied, NodeClosed."""
        event = self.next()
        if event is None:
            raise StopIteration
        return event

    def next(self, timeout_s: float | None = None) -> Event | None:
        """The next event; None: timeout_s seconds passed, or the workers are closed. Asking ends a Revoked."""
        sharing = self._sharing
        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        if self._driver is None and not sharing.is_closing:
            self._driver = ApartThread(sharing.run, "raftmeta-workers")
            self._driver.start()
        with sharing.news:
            if self._told is not None:
                self._told.is_done, self._told = True, None
                sharing.news.notify_all()
            while not sharing.events:
                if sharing.is_closing:
                    return None
                if sharing.failure is not None:
                    raise sharing.failure
                left_s = None if end_s is None else end_s - time.monotonic()
                if left_s is not None and left_s <= 0:
                    return None
                sharing.news.wait(left_s)
            told = sharing.events.popleft()
            if told.must_be_done:
                self._told = told
            else:
                told.is_done = True
                sharing.news.notify_all()
            return told.event

    def close(self, *, leave: bool = True) -> None:
        """End the membership: the program has given everything up. leave: False leaves it to the session time-out.

        From any thread; an iteration ends.
        """
        self._sharing.stop()
        if self._driver is not None and not self._driver.is_this():
            self._driver.wait(END_S)
        self._sharing.close(leave=leave)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def blocking_workers(service: GroupService, settings: Settings, share: Share) -> BlockingWorkers:
    """The workers of one member."""
    return BlockingWorkers(_Sharing(service, settings, share))
