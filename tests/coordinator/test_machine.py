"""The member's state machine by hand: each refusal in each state, the poll interval, answers that come too late."""

from __future__ import annotations

import pytest

from raftmeta.coordinator import Code, Generation, JoinReply, MemberState, Settings, SyncReply
from raftmeta.coordinator.machine import (
    AssignOrder,
    CompleteOrder,
    JoinOrder,
    LeaveOrder,
    MemberMachine,
    PrepareOrder,
    SyncOrder,
    WaitOrder,
)
from raftmeta.errors import GroupRefused, InvalidArgument

FIRST = Generation(1, "m", "p")


def machine_of(settings: Settings | None = None) -> MemberMachine:
    return MemberMachine(settings or Settings(), 0.0)


def prepare(machine: MemberMachine, *, is_done: bool = True, now_s: float = 0.0) -> None:
    if isinstance(order := machine.next_order(now_s), PrepareOrder):
        machine.prepared(is_done, now_s, order.generation)


def join(machine: MemberMachine, generation: Generation = FIRST, leader: str = "other", now_s: float = 0.0) -> None:
    prepare(machine, now_s=now_s)
    assert isinstance(machine.next_order(now_s), JoinOrder)
    machine.joined(JoinReply(generation, leader), now_s)


def stable(settings: Settings | None = None) -> MemberMachine:
    machine = machine_of(settings)
    join(machine)
    assert isinstance(machine.next_order(0), SyncOrder)
    machine.synced(SyncReply(b"mine"), 0)
    assert machine.next_order(0) == CompleteOrder(FIRST, b"mine")
    machine.completed()
    return machine


def test_the_orders_of_a_leader_come_in_turn() -> None:
    machine = machine_of()
    assert machine.next_order(0) == PrepareOrder(Generation())
    prepare(machine, is_done=True)
    order = machine.next_order(0)
    assert isinstance(order, JoinOrder) and order.request.member_id == ""
    assert machine.state is MemberState.PREPARING
    machine.joined(JoinReply(FIRST, "m"), 0)
    assert machine.state is MemberState.COMPLETING
    assert machine.next_order(0) == AssignOrder("m", "p", (), False)
    machine.assigned({"m": b"mine"})
    order = machine.next_order(0)
    assert isinstance(order, SyncOrder) and order.request.assignments == {"m": b"mine"}
    machine.synced(SyncReply(b"mine"), 0)
    assert machine.next_order(0) == machine.next_order(0) == CompleteOrder(FIRST, b"mine")
    machine.completed()
    assert machine.next_order(0) == WaitOrder(300.0)
    assert machine.generation_if_stable == FIRST


def test_a_member_joins_with_the_id_that_it_is_given() -> None:
    """KIP-394; the hook is not called again between the two joins."""
    machine = machine_of()
    prepare(machine, is_done=True)
    machine.next_order(0)
    machine.refused(Code.MEMBER_ID_REQUIRED, 0, member_id="given")
    order = machine.next_order(0)
    assert isinstance(order, JoinOrder) and order.request.member_id == "given"


def test_a_hook_that_is_not_done_is_called_again_after_a_pause() -> None:
    machine = machine_of()
    prepare(machine, is_done=False)
    assert machine.next_order(0) == WaitOrder(0.1)
    assert machine.next_order(0.1) == PrepareOrder(Generation())


@pytest.mark.parametrize(
    ("code", "generation"),
    [
        (Code.REBALANCE_IN_PROGRESS, FIRST),
        (Code.NOT_COORDINATOR, FIRST),
        (Code.ILLEGAL_GENERATION, Generation(member_id="m")),
        (Code.UNKNOWN_MEMBER_ID, Generation()),
    ],
)
def test_a_refused_sync_joins_again(code: Code, generation: Generation) -> None:
    machine = machine_of()
    join(machine)
    machine.next_order(0)
    machine.refused(code, 0)
    assert machine.generation == generation
    prepare(machine, is_done=True)
    order = machine.next_order(1)
    assert isinstance(order, JoinOrder) and order.request.member_id == generation.member_id
    assert order.request.reason == code.name


FATAL = [
    *(Code.FENCED_INSTANCE_ID, Code.INCONSISTENT_GROUP_PROTOCOL, Code.INVALID_SESSION_TIMEOUT, Code.INVALID_GROUP_ID),
    *(Code.GROUP_AUTHORIZATION_FAILED, Code.GROUP_MAX_SIZE_REACHED, Code.UNSUPPORTED_VERSION),
]


@pytest.mark.parametrize("code", FATAL)
def test_a_fatal_refusal_is_told_for_ever(code: Code) -> None:
    machine = machine_of()
    machine.refused(code, 0)
    for _ in range(2):
        with pytest.raises(GroupRefused) as told:
            machine.next_order(0)
        assert told.value.code == code


@pytest.mark.parametrize(
    ("code", "generation", "state"),
    [
        (None, FIRST, MemberState.STABLE),
        (Code.COORDINATOR_NOT_AVAILABLE, FIRST, MemberState.STABLE),
        (Code.REBALANCE_IN_PROGRESS, FIRST, MemberState.STABLE),
        (Code.ILLEGAL_GENERATION, Generation(member_id="m"), MemberState.UNJOINED),
        (Code.UNKNOWN_MEMBER_ID, Generation(), MemberState.UNJOINED),
    ],
)
def test_an_answer_to_a_heartbeat_counts_for_its_generation_only(
    code: Code | None, generation: Generation, state: MemberState
) -> None:
    machine = stable()
    sent = machine.beat(3)
    machine.beaten(Generation(0, "m", "p"), code, 3)
    assert (machine.generation, machine.state, machine.is_rejoin_needed) == (FIRST, MemberState.STABLE, False)
    machine.beaten(sent, code, 3)
    assert (machine.generation, machine.state) == (generation, state)
    assert machine.is_rejoin_needed is (code not in (None, Code.COORDINATOR_NOT_AVAILABLE))


def test_heartbeats_are_due_in_a_generation_only() -> None:
    machine = machine_of()
    assert machine.heartbeat_due_s is None
    join(machine, now_s=5.0)
    assert machine.heartbeat_due_s == 8.0
    machine.beat(8.5)
    assert machine.heartbeat_due_s == 11.5
    machine.refused(Code.UNKNOWN_MEMBER_ID, 9)
    assert machine.heartbeat_due_s is None


def test_a_member_knows_that_nothing_was_heard_for_a_session() -> None:
    machine = stable()
    machine.beaten(machine.beat(3), None, 4)
    machine.beaten(machine.beat(6), Code.COORDINATOR_NOT_AVAILABLE, 40)
    assert not machine.check_silence(48.9)
    assert machine.generation == FIRST
    assert machine.check_silence(49)
    assert (machine.generation, machine.state) == (Generation(), MemberState.UNJOINED)
    assert machine.next_order(49) == PrepareOrder(Generation())
    assert not machine.check_silence(1000)


def test_a_rejoin_that_is_requested_during_a_join_is_not_lost() -> None:
    machine = machine_of()
    prepare(machine, is_done=True)
    machine.request_rejoin("before")
    assert isinstance(machine.next_order(0), JoinOrder)
    machine.request_rejoin("during")
    machine.joined(JoinReply(FIRST, "other"), 0)
    machine.synced(SyncReply(b"mine"), 0)
    machine.completed()
    assert machine.is_rejoin_needed
    join(machine)
    machine.synced(SyncReply(b"mine"), 0)
    machine.completed()
    assert not machine.is_rejoin_needed


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("session_timeout_s", {"session_timeout_s": 0}),
        ("retry_s", {"retry_s": -1.0}),
        ("heartbeat_interval_s", {"heartbeat_interval_s": 45.0}),
    ],
)
def test_settings_that_cannot_be_are_named(field: str, given: dict[str, float]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Settings(**given)  # type: ignore[arg-type]
    assert caught.value.field == field


def test_a_caller_that_does_not_poll_leaves_once_and_joins_again_when_it_polls() -> None:
    machine = stable()
    machine.poll(100)
    assert machine.leave_order(399) is None
    order = machine.next_order(400)
    assert order == LeaveOrder("m", "no poll for 300 s")
    machine.left()
    assert machine.next_order(401) == WaitOrder(None)
    machine.poll(1000)
    assert machine.next_order(1000) == PrepareOrder(Generation())


def test_a_static_member_does_not_leave_by_itself() -> None:
    machine = stable(Settings(instance_id="i"))
    machine.maybe_leave("closed")
    assert machine.leave_order(0) is None


def test_a_member_that_is_lost_during_a_hook_is_told_before_it_joins() -> None:
    machine = stable()
    machine.request_rejoin("other resources")
    assert machine.next_order(0) == PrepareOrder(FIRST)
    machine.beaten(machine.beat(0), Code.UNKNOWN_MEMBER_ID, 0)
    machine.prepared(True, 0, FIRST)
    assert machine.next_order(0) == PrepareOrder(Generation())


def test_an_assignment_that_comes_after_the_loss_counts_for_nothing() -> None:
    machine = machine_of()
    join(machine)
    assert isinstance(machine.next_order(0), SyncOrder)
    machine.beaten(machine.beat(0), Code.UNKNOWN_MEMBER_ID, 0)
    machine.synced(SyncReply(b"mine"), 0)
    assert (machine.state, machine.next_order(0)) == (MemberState.UNJOINED, PrepareOrder(Generation()))
