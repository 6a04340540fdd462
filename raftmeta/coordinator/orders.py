"""How each order of the machine is carried out, once for both faces.

It decides nothing of the protocol, and it does not wait: `steps` yields the calls that the driver is to make, hooks of
the program and requests to the group, and goes on with their answers. A driver of threads makes them as they are, one
of tasks awaits them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from raftmeta.coordinator.machine import (
    AssignOrder,
    CompleteOrder,
    JoinOrder,
    LeaveOrder,
    MemberMachine,
    Order,
    PrepareOrder,
    SyncOrder,
)
from raftmeta.coordinator.service import Code
from raftmeta.errors import (
    AuthenticationFailed,
    ForkedProcess,
    GroupRefused,
    GroupTimeout,
    NodeClosed,
    NodeRemoved,
    NotExecuted,
    OutcomeUnknown,
    PermissionDenied,
    Unsupported,
    group_refused,
)

__all__ = ["HookCall", "RequestCall", "Steps", "is_lasting", "refusal_of", "steps"]

# A store that answers so will answer so again: the caller is told.
LASTING = (AuthenticationFailed, ForkedProcess, NodeClosed, NodeRemoved, PermissionDenied, Unsupported)


@dataclass(frozen=True, slots=True)
class HookCall:
    """A hook of the program."""

    call: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class RequestCall:
    """A request to the group; a driver of threads adds timeout_s."""

    call: Callable[..., Any]


Steps = Generator[HookCall | RequestCall, Any, None]


def is_lasting(error: Exception) -> bool:
    """Whether the store will answer so again."""
    return isinstance(error, LASTING)


def refusal_of(error: Exception) -> GroupRefused | None:
    """The refusal, or COORDINATOR_NOT_AVAILABLE for an error that passes; None: an error that lasts."""
    if isinstance(error, GroupRefused):
        return error
    if isinstance(error, NotExecuted | OutcomeUnknown) and not is_lasting(error):
        return group_refused(Code.COORDINATOR_NOT_AVAILABLE, 0)
    return None


def steps(member: Any, machine: MemberMachine, service: Any, order: Order, now_s: Callable[[], float]) -> Steps:
    """Carry out one order. member: has the hooks. An exception of a hook ends it, and the order comes again."""
    match order:
        case PrepareOrder(generation):
            is_done = yield HookCall(partial(member.on_join_prepare, generation.number, generation.member_id))
            machine.prepared(is_done, now_s(), generation)
        case AssignOrder(leader_id, protocol, members, skips):
            assignments = yield HookCall(partial(member.on_leader_elected, leader_id, protocol, members, skips))
            machine.assigned(assignments)
        case CompleteOrder(generation, assignment):
            yield HookCall(
                partial(
                    member.on_join_complete,
                    generation.number,
                    generation.member_id,
                    generation.protocol,
                    assignment,
                )
            )
            machine.completed()
        case JoinOrder(request):
            whole = replace(request, protocol_type=member.protocol_type, protocols=tuple(member.metadata()))
            yield from _request(machine, partial(service.join, whole), machine.joined, now_s)
        case SyncOrder(request):
            yield from _request(machine, partial(service.sync, request), machine.synced, now_s)
        case LeaveOrder(member_id, reason):
            yield from _leave(member, machine, service, member_id, reason)


def _request(
    machine: MemberMachine, call: Callable[..., Any], tell: Callable[[Any, float], None], now_s: Callable[[], float]
) -> Steps:
    try:
        answer = yield RequestCall(call)
    except GroupTimeout:
        return  # the phase goes on: the same order comes again
    except Exception as error:
        refusal = refusal_of(error)
        if refusal is None:
            raise
        machine.refused(refusal.code, now_s(), member_id=refusal.member_id)
        return
    tell(answer, now_s())


def _leave(member: Any, machine: MemberMachine, service: Any, member_id: str, reason: str) -> Steps:
    """A leave that fails is forgotten: the session time-out does the same later."""
    instance_id = machine.settings.instance_id
    try:
        yield HookCall(member.on_leave_prepare)
        if member_id:
            yield RequestCall(partial(service.leave, member_id, instance_id, reason))
    except Exception as error:
        if refusal_of(error) is None:
            raise
    finally:
        machine.left()
