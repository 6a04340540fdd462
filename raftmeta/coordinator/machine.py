"""A member of a group as a state machine: which request or hook comes next, and what an answer means.

It decides when to join, sync, beat and leave, and which answers are too old to count. It never sends, waits, or reads a
clock: `next_order` names the next thing to do, and the driver reports how it ended. Heartbeats run beside the orders:
`heartbeat_due_s` says when, `beat` what to send.

    UNJOINED ──join sent──► PREPARING ──join answered──► COMPLETING ──sync answered──► STABLE
        ▲                       ▲                             │                            │
        │                       └── REBALANCE_IN_PROGRESS ────┴────────────────────────────┘
        └── the member id is unknown, the caller does not poll, or nothing was heard for a session

Invariants: on_join_prepare is called once before each series of joins, and again only if it was not done.
on_join_complete is called with each generation that was synced, and again with the same until it returns. An answer to
a heartbeat of an older generation changes nothing. A rejoin that is requested while a join is under way comes after it.

Sources: KIP-795 Add public APIs for AbstractCoordinator; KIP-62 (poll interval), KIP-345 (static members), KIP-394
(MEMBER_ID_REQUIRED).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum

from raftmeta.coordinator.service import (
    MEMBER_ERRORS,
    RETRIABLE,
    Code,
    Generation,
    JoinReply,
    JoinRequest,
    MemberMetadata,
    SyncReply,
    SyncRequest,
)
from raftmeta.errors import InvalidArgument, group_refused
from raftmeta.operations import Fence

__all__ = [
    "AssignOrder",
    "CompleteOrder",
    "JoinOrder",
    "LeaveOrder",
    "MemberMachine",
    "MemberState",
    "Order",
    "PrepareOrder",
    "Settings",
    "SyncOrder",
    "WaitOrder",
]


class MemberState(Enum):
    """Kafka's names of a member's states."""

    UNJOINED = "unjoined"
    PREPARING = "preparing"
    COMPLETING = "completing"
    STABLE = "stable"


@dataclass(frozen=True, slots=True)
class Settings:
    """Of one member; times in seconds, more than 0.

    instance_id: of a static member. session_timeout_s: a member that is not heard for so long is out of the group.
    rebalance_timeout_s: how long the group waits for its members to join. heartbeat_interval_s: between two questions
    whether the generation goes on. max_poll_interval_s: a caller that polls less often leaves the group. retry_s: the
    pause before a request that could not be answered is sent again. Raises InvalidArgument.
    """

    instance_id: str | None = None
    session_timeout_s: float = 45.0
    rebalance_timeout_s: float = 300.0
    heartbeat_interval_s: float = 3.0
    max_poll_interval_s: float = 300.0
    retry_s: float = 0.1

    def __post_init__(self) -> None:
        for name in fields(self):
            value = getattr(self, name.name)
            if name.name != "instance_id" and not (isinstance(value, int | float) and value > 0):
                raise InvalidArgument(f"{name.name}: must be more than 0 seconds, not {value!r}", field=name.name)
        if self.heartbeat_interval_s >= self.session_timeout_s:
            raise InvalidArgument(
                f"heartbeat_interval_s: {self.heartbeat_interval_s:g} s must be less than the session time-out, "
                f"{self.session_timeout_s:g} s",
                field="heartbeat_interval_s",
            )


# --- orders -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PrepareOrder:
    """Call on_join_prepare, then `prepared`."""

    generation: Generation


@dataclass(frozen=True, slots=True)
class JoinOrder:
    """Send it, then `joined` or `refused`. The driver adds the protocol type and the protocols."""

    request: JoinRequest


@dataclass(frozen=True, slots=True)
class AssignOrder:
    """Call on_leader_elected, then `assigned`."""

    leader_id: str
    protocol: str
    members: Sequence[MemberMetadata]
    skip_assignment: bool


@dataclass(frozen=True, slots=True)
class SyncOrder:
    """Send it, then `synced` or `refused`."""

    request: SyncRequest


@dataclass(frozen=True, slots=True)
class CompleteOrder:
    """Call on_join_complete, then `completed`."""

    generation: Generation
    assignment: bytes


@dataclass(frozen=True, slots=True)
class LeaveOrder:
    """Call on_leave_prepare, send the leave unless the member has no id, then `left`."""

    member_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class WaitOrder:
    """Nothing to do before this time; None: before something happens."""

    until_s: float | None


Order = PrepareOrder | JoinOrder | AssignOrder | SyncOrder | CompleteOrder | LeaveOrder | WaitOrder


class MemberMachine:
    """One member. Times are seconds on any clock that never goes back."""

    def __init__(self, settings: Settings, now_s: float) -> None:
        self.settings = settings
        self.state = MemberState.UNJOINED
        self.generation = Generation()
        self.fence: Fence | None = None  # of the assignment
        self.fatal: int | None = None
        self._needs_join = True
        self._requests = 0  # of rejoins; a join answers those before it
        self._requests_joined = 0
        self._needs_prepare = True
        self._reason = ""
        self._reply: JoinReply | None = None
        self._assignments: Mapping[str, bytes] | None = None
        self._incomplete: bytes | None = None
        self._leave_reason: str | None = None
        self._has_timed_out = False
        self._retry_s = now_s
        self._polled_s = now_s
        self._beat_s = now_s
        self._heard_s = now_s

    # --- the caller -----------------------------------------------------------------------------------------------

    def poll(self, now_s: float) -> None:
        """The caller is alive. After it was silent for too long, the member joins again from now on."""
        self._polled_s = now_s
        self._has_timed_out = False

    def request_rejoin(self, reason: str) -> None:
        """Join again as soon as possible, as the same member."""
        self._needs_join = True
        self._requests += 1
        self._reason = self._reason or reason

    def maybe_leave(self, reason: str) -> None:
        """Leave the group, unless the member is static: its place waits for it (KIP-345)."""
        if self.settings.instance_id is None and self.generation.member_id:
            self._leave_reason = reason

    @property
    def generation_if_stable(self) -> Generation | None:
        return self.generation if self.state is MemberState.STABLE else None

    @property
    def is_rejoin_needed(self) -> bool:
        return self._needs_join or self._incomplete is not None

    # --- what is next ---------------------------------------------------------------------------------------------

    def next_order(self, now_s: float) -> Order:
        """The next thing to do; the same one until its end is reported. Raises GroupRefused after a fatal refusal."""
        if self.fatal is not None:
            raise group_refused(self.fatal, 0)
        if (leave := self.leave_order(now_s)) is not None:
            return leave
        if self._has_timed_out:
            return WaitOrder(None)
        if self._incomplete is not None and self.state is MemberState.STABLE:
            return CompleteOrder(self.generation, self._incomplete)
        if self.state is MemberState.COMPLETING:
            return self._order_of_completing()
        if not self._needs_join and self.state is MemberState.STABLE:
            return WaitOrder(self._late_s)
        if now_s < self._retry_s:
            return WaitOrder(self._retry_s)
        if self._needs_prepare:
            return PrepareOrder(self.generation)
        self.state = MemberState.PREPARING
        self._requests_joined = self._requests
        return JoinOrder(
            JoinRequest(
                self.generation.member_id,
                self.settings.instance_id,
                "",
                (),
                self.settings.session_timeout_s,
                self.settings.rebalance_timeout_s,
                self._reason,
            )
        )

    def leave_order(self, now_s: float) -> LeaveOrder | None:
        """The order to leave, because the caller asked for it or is silent for too long; it changes no state."""
        if now_s >= self._late_s and self.generation.member_id and not self._has_timed_out:
            self._has_timed_out = True
            self._leave_reason = f"no poll for {self.settings.max_poll_interval_s:g} s"
        return None if self._leave_reason is None else LeaveOrder(self.generation.member_id, self._leave_reason)

    @property
    def _late_s(self) -> float:
        return self._polled_s + self.settings.max_poll_interval_s

    def _order_of_completing(self) -> Order:
        reply = self._reply
        assert reply is not None, "completing without an answer to the join"
        if self._assignments is None and reply.leader_id == self.generation.member_id:
            return AssignOrder(reply.leader_id, self.generation.protocol, reply.members, reply.skip_assignment)
        return SyncOrder(SyncRequest(self.generation, self.settings.instance_id, self._assignments))

    # --- how it ended ---------------------------------------------------------------------------------------------

    def prepared(self, is_done: bool, now_s: float, generation: Generation) -> None:
        """is_done: False asks for the hook again, after a pause. generation: of the order.

        A member that was lost during the hook is asked again at once, with generation -1.
        """
        if generation != self.generation:
            return
        self._needs_prepare = not is_done
        if not is_done:
            self._retry_s = now_s + self.settings.retry_s

    def joined(self, reply: JoinReply, now_s: float) -> None:
        self.state = MemberState.COMPLETING
        self.generation = reply.generation
        self._reply, self._assignments = reply, None
        self._needs_join = self._requests != self._requests_joined
        self._reason = ""
        self._beat_s = self._heard_s = now_s

    def assigned(self, assignments: Mapping[str, bytes]) -> None:
        self._assignments = assignments

    def synced(self, reply: SyncReply, now_s: float) -> None:
        """An answer that comes after the member was lost counts for nothing."""
        if self.state is not MemberState.COMPLETING:
            return
        self.state = MemberState.STABLE
        self._incomplete, self.fence = reply.assignment, reply.fence
        self._needs_prepare = True
        self._heard_s = now_s

    def completed(self) -> None:
        """The hook returned. If it raises, nothing is reported, and CompleteOrder comes again."""
        self._incomplete = None

    def left(self) -> None:
        self._leave_reason = None
        self._begin_anew(Generation())

    def refused(self, code: int, now_s: float, *, member_id: str = "") -> None:
        """The join or the sync was refused."""
        if code not in RETRIABLE | MEMBER_ERRORS:
            self.fatal = code
            return
        if code == Code.MEMBER_ID_REQUIRED:
            self.generation = replace(self.generation, member_id=member_id)
        elif code == Code.UNKNOWN_MEMBER_ID:
            self._begin_anew(Generation())
        elif code == Code.ILLEGAL_GENERATION:
            self._begin_anew(Generation(member_id=self.generation.member_id))
        else:
            if self.state is MemberState.COMPLETING:
                self.state = MemberState.UNJOINED
            self._retry_s = now_s + (0 if code == Code.REBALANCE_IN_PROGRESS else self.settings.retry_s)
        self.request_rejoin(Code(code).name)

    # --- heartbeats -----------------------------------------------------------------------------------------------

    @property
    def heartbeat_due_s(self) -> float | None:
        """The time of the next heartbeat; None: the member is in no generation."""
        if self.state not in (MemberState.COMPLETING, MemberState.STABLE) or self.generation.number < 0:
            return None
        return self._beat_s + self.settings.heartbeat_interval_s

    def beat(self, now_s: float) -> Generation:
        """The generation to send. The answer is told with it, so that an answer that comes late is known."""
        self._beat_s = now_s
        return self.generation

    def beaten(self, sent: Generation, code: int | None, now_s: float) -> None:
        """code: of a refusal; None: the group knows the member."""
        if sent != self.generation or code in RETRIABLE:
            return
        if code is None:
            self._heard_s = now_s
        elif code == Code.REBALANCE_IN_PROGRESS:
            if self.state is MemberState.STABLE:
                self.request_rejoin("the group rebalances")
        elif code == Code.ILLEGAL_GENERATION:
            self._begin_anew(Generation(member_id=self.generation.member_id))
        elif code == Code.UNKNOWN_MEMBER_ID:
            self._begin_anew(Generation())
        else:
            self.fatal = code

    def check_silence(self, now_s: float) -> bool:
        """Whether nothing was heard of the group for a session time-out: the member then begins anew, without an id.

        Others may own what it had. The driver hears of it by on_join_prepare, whose generation is -1.
        """
        if self.heartbeat_due_s is None or now_s < self._heard_s + self.settings.session_timeout_s:
            return False
        self._begin_anew(Generation())
        return True

    def _begin_anew(self, generation: Generation) -> None:
        self.state = MemberState.UNJOINED
        self.generation = generation
        self._reply = self._assignments = self._incomplete = self.fence = None
        self._needs_join = self._needs_prepare = True
