"""Worker groups in the machine: each row of docs/groups.md "Requests" and "Checks" is a case here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tests.machine import commands as c
from tests.machine import groups as g
from tests.machine.machines import Answer, Machine, loaded

OTHER = ((b"sticky", b"words"),)
WIDER = ((b"range", b"more words"),)


# --- a group in each state --------------------------------------------------------------------------------------------
class Stage(NamedTuple):
    """a leads, b follows, s is static (instance "s"). Leases 1, 2, 3; 7 and 8 are free."""

    machine: Machine
    ids: dict[str, bytes]

    @property
    def group(self) -> g.Group:
        found = g.shown(self.machine)
        assert found is not None
        return found


def dead() -> Stage:
    return Stage(g.new_machine(1, 2, 3, 7, 8), {"a": b"nobody-a", "b": b"nobody-b", "s": b"nobody-s"})


def completing() -> Stage:
    machine = g.new_machine(1, 2, 3, 7, 8)
    ids = {"a": g.joined(machine, 1)}
    ids["b"] = g.joined(machine, 2)
    ids["s"] = g.joined(machine, 3, instance=b"s")
    for lease, who, instance in ((1, "a", b""), (2, "b", b"")):
        g.joined(machine, lease, ids[who], instance=instance)
    stage = Stage(machine, ids)
    assert (stage.group.state, stage.group.leader) == (g.COMPLETING, ids["a"])
    return stage


def stable() -> Stage:
    stage = completing()
    given = [(stage.ids[who], who.encode()) for who in "abs"]
    stage.machine.apply(g.sync(stage.group.generation, stage.ids["a"], given))
    assert stage.group.state == g.STABLE
    return stage


def preparing() -> Stage:
    """The leader has joined for the next generation, the others have not."""
    stage = stable()
    g.joined(stage.machine, 1, stage.ids["a"])
    assert (stage.group.state, stage.group.joined) == (g.PREPARING, 1)
    return stage


def empty() -> Stage:
    stage = stable()
    stage.machine.apply(g.leave(*[(stage.ids[who], b"") for who in "abs"]))
    assert (stage.group.state, len(stage.group.members)) == (g.EMPTY, 0)
    return stage


STAGES: dict[str, Callable[[], Stage]] = {
    "Dead": dead,
    "Empty": empty,
    "Preparing": preparing,
    "Completing": completing,
    "Stable": stable,
}
NAMES = ("Empty", "Preparing", "Completing", "Stable")


# --- requests of the rows ---------------------------------------------------------------------------------------------
def apply(stage: Stage, payload: bytes) -> Answer:
    return stage.machine.apply(payload)


def generation_of(stage: Stage) -> int:
    found = g.shown(stage.machine)
    return found.generation if found else 1


def join_new(stage: Stage) -> Answer:
    return apply(stage, g.join(7))


def join_two_steps(stage: Stage) -> Answer:
    return apply(stage, g.join(7, two_steps=True))


def join_pending(stage: Stage) -> Answer:
    return apply(stage, g.join(7, apply(stage, g.join(7, two_steps=True)).body[1]))


def join_new_instance(stage: Stage) -> Answer:
    return apply(stage, g.join(7, instance=b"t"))


def join_known_instance(stage: Stage) -> Answer:
    return apply(stage, g.join(7, instance=b"s"))


def join_known_instance_other(stage: Stage) -> Answer:
    return apply(stage, g.join(7, instance=b"s", protocols=(*g.PROTOCOLS, *OTHER)))


def join_follower(stage: Stage) -> Answer:
    return apply(stage, g.join(2, stage.ids["b"]))


def join_leader(stage: Stage) -> Answer:
    return apply(stage, g.join(1, stage.ids["a"]))


def join_other_protocols(stage: Stage) -> Answer:
    return apply(stage, g.join(2, stage.ids["b"], protocols=WIDER))


def sync_leader(stage: Stage) -> Answer:
    return apply(stage, g.sync(generation_of(stage), stage.ids["a"], [(stage.ids["a"], b"a")]))


def sync_follower(stage: Stage) -> Answer:
    return apply(stage, g.sync(generation_of(stage), stage.ids["b"], [(stage.ids["b"], b"taken")]))


def leave_member(stage: Stage) -> Answer:
    return apply(stage, g.leave((stage.ids["b"], b"")))


def leave_pending(stage: Stage) -> Answer:
    return apply(stage, g.leave((apply(stage, g.join(7, two_steps=True)).body[1], b"")))


def delete_group(stage: Stage) -> Answer:
    return apply(stage, g.delete())


def end_lease(stage: Stage) -> Answer:
    return apply(stage, c.revoke(2))


def end_pending(stage: Stage) -> Answer:
    apply(stage, g.join(7, two_steps=True))
    return apply(stage, c.revoke(7))


# What a row says of the answer: a code that refuses, or the first element of the answer.
def waits(stage: Stage, answer: Answer) -> None:
    assert (answer.status, answer.body[0]) == (c.OK, g.WAITS)
    assert answer.body[2] == generation_of(stage) + 1
    assert stage.group.members[answer.body[1]].joined == answer.body[2]


def done(stage: Stage, answer: Answer) -> None:
    assert (answer.status, answer.body[0]) == (c.OK, g.DONE)


def needs_id(stage: Stage, answer: Answer) -> None:
    assert (answer.status, answer.body[0]) == (c.OK, g.ID_REQUIRED)
    assert answer.body[1] in stage.group.pending


def fine(stage: Stage, answer: Answer) -> None:
    assert answer.status == c.OK


def goes(stage: Stage, answer: Answer) -> None:
    assert (answer.status, answer.body) == (c.OK, [0])


def unknown_each(stage: Stage, answer: Answer) -> None:
    assert (answer.status, answer.body) == (c.OK, [g.UNKNOWN_MEMBER])


def refused(code: int) -> Callable[[Stage, Answer], None]:
    def check(stage: Stage, answer: Answer) -> None:
        assert (answer.status, answer.body, answer.changed) == (c.GROUP_REFUSED, code, 0)

    return check


# request, state before, answer, state after, change of the generation
Row = tuple[Callable[[Stage], Answer], str, Callable[[Stage, Answer], None], int | None, int]
ROWS: list[Row] = [
    *[(join_two_steps, name, needs_id, state, 0) for state, name in enumerate(NAMES)],
    (join_two_steps, "Dead", needs_id, g.EMPTY, 0),
    (join_new, "Dead", done, g.COMPLETING, 1),
    (join_new, "Empty", done, g.COMPLETING, 1),
    (join_new, "Preparing", waits, g.PREPARING, 0),
    (join_new, "Completing", waits, g.PREPARING, 0),
    (join_new, "Stable", waits, g.PREPARING, 0),
    (join_pending, "Dead", done, g.COMPLETING, 1),
    (join_pending, "Empty", done, g.COMPLETING, 1),
    (join_pending, "Preparing", waits, g.PREPARING, 0),
    (join_pending, "Completing", waits, g.PREPARING, 0),
    (join_pending, "Stable", waits, g.PREPARING, 0),
    (join_new_instance, "Dead", done, g.COMPLETING, 1),
    (join_new_instance, "Empty", done, g.COMPLETING, 1),
    (join_new_instance, "Preparing", waits, g.PREPARING, 0),
    (join_new_instance, "Completing", waits, g.PREPARING, 0),
    (join_new_instance, "Stable", waits, g.PREPARING, 0),
    (join_known_instance, "Preparing", waits, g.PREPARING, 0),
    (join_known_instance, "Completing", waits, g.PREPARING, 0),
    (join_known_instance, "Stable", done, g.STABLE, 0),
    (join_known_instance_other, "Stable", done, g.STABLE, 0),
    (join_follower, "Dead", refused(g.UNKNOWN_MEMBER), None, 0),
    (join_follower, "Empty", refused(g.UNKNOWN_MEMBER), g.EMPTY, 0),
    (join_follower, "Preparing", waits, g.PREPARING, 0),
    (join_follower, "Completing", done, g.COMPLETING, 0),
    (join_follower, "Stable", done, g.STABLE, 0),
    (join_leader, "Dead", refused(g.UNKNOWN_MEMBER), None, 0),
    (join_leader, "Empty", refused(g.UNKNOWN_MEMBER), g.EMPTY, 0),
    (join_leader, "Preparing", waits, g.PREPARING, 0),
    (join_leader, "Completing", done, g.COMPLETING, 0),
    (join_leader, "Stable", waits, g.PREPARING, 0),
    (join_other_protocols, "Empty", refused(g.UNKNOWN_MEMBER), g.EMPTY, 0),
    (join_other_protocols, "Preparing", waits, g.PREPARING, 0),
    (join_other_protocols, "Completing", waits, g.PREPARING, 0),
    (join_other_protocols, "Stable", waits, g.PREPARING, 0),
    (sync_leader, "Dead", refused(g.UNKNOWN_MEMBER), None, 0),
    (sync_leader, "Empty", refused(g.UNKNOWN_MEMBER), g.EMPTY, 0),
    (sync_leader, "Preparing", refused(g.IN_PROGRESS), g.PREPARING, 0),
    (sync_leader, "Completing", done, g.STABLE, 0),
    (sync_leader, "Stable", done, g.STABLE, 0),
    (sync_follower, "Dead", refused(g.UNKNOWN_MEMBER), None, 0),
    (sync_follower, "Empty", refused(g.UNKNOWN_MEMBER), g.EMPTY, 0),
    (sync_follower, "Preparing", refused(g.IN_PROGRESS), g.PREPARING, 0),
    (sync_follower, "Completing", fine, g.COMPLETING, 0),
    (sync_follower, "Stable", done, g.STABLE, 0),
    (leave_member, "Dead", unknown_each, None, 0),
    (leave_member, "Empty", unknown_each, g.EMPTY, 0),
    (leave_member, "Preparing", goes, g.PREPARING, 0),
    (leave_member, "Completing", goes, g.PREPARING, 0),
    (leave_member, "Stable", goes, g.PREPARING, 0),
    *[(leave_pending, name, goes, state, 0) for state, name in enumerate(NAMES)],
    (end_lease, "Preparing", fine, g.PREPARING, 0),
    (end_lease, "Completing", fine, g.PREPARING, 0),
    (end_lease, "Stable", fine, g.PREPARING, 0),
    *[(end_pending, name, fine, state, 0) for state, name in enumerate(NAMES)],
    (delete_group, "Dead", refused(g.NOT_FOUND), None, 0),
    (delete_group, "Empty", fine, None, 0),
    (delete_group, "Preparing", refused(g.NON_EMPTY), g.PREPARING, 0),
    (delete_group, "Completing", refused(g.NON_EMPTY), g.COMPLETING, 0),
    (delete_group, "Stable", refused(g.NON_EMPTY), g.STABLE, 0),
]


@pytest.mark.parametrize("row", ROWS, ids=[f"{row[0].__name__}-{row[1]}" for row in ROWS])
def test_each_row_of_the_table(row: Row) -> None:
    ask, name, check, state, grown = row
    stage = STAGES[name]()
    before = g.shown(stage.machine)
    answer = ask(stage)
    after = g.shown(stage.machine)
    check(stage, answer)
    assert (after.state if after else None) == state
    if after is not None:
        assert after.generation == (before.generation if before else 0) + grown
    loaded(stage.machine.handle.dump())


# --- checks, in their order -------------------------------------------------------------------------------------------
def code_of(stage: Stage, payload: bytes) -> int:
    answer = apply(stage, payload)
    assert (answer.status, answer.changed) == (c.GROUP_REFUSED, 0)
    code: int = answer.body
    return code


def test_a_request_needs_the_feature_level() -> None:
    machine = Machine()
    machine.apply(c.command(c.LEVEL, 4))
    machine.apply(c.grant(1, 1000))
    assert machine.apply(g.join(1)).status == c.COMMAND_INVALID
    machine.apply(c.command(c.LEVEL, 5))
    assert machine.apply(g.join(1)).status == c.OK


def test_a_join_needs_a_lease() -> None:
    stage = stable()
    assert apply(stage, g.join(99)).status == c.LEASE_EXPIRED
    assert apply(stage, g.join(0)).status == c.LEASE_EXPIRED
    stage = preparing()
    assert apply(stage, g.join(stage.group.lease)).status == c.LEASE_EXPIRED


# --- a join that grants the lease of its member -----------------------------------------------------------------------
def test_a_join_that_grants_a_lease_needs_a_later_level() -> None:
    machine = Machine()
    machine.apply(c.command(c.LEVEL, 5))
    assert machine.apply(g.join(0, ttl_ms=1000)).status == c.COMMAND_INVALID
    machine.apply(c.command(c.LEVEL, 6))
    assert machine.apply(g.join(0, ttl_ms=1000)).status == c.OK


def test_a_join_grants_the_lease_of_its_member() -> None:
    """The member ends with the lease, which has the time to live that the join named."""
    machine = g.new_machine()
    id = g.joined(machine, 0, ttl_ms=1000)
    found = g.shown(machine)
    assert found is not None
    lease = found.members[id].lease
    assert lease not in (0, found.lease)
    assert machine.apply(c.keep_alive(lease)).body == [1000]
    machine.lease_ms += 1001
    g.expire(machine)
    after = g.shown(machine)
    assert after is not None and not after.members


def test_a_member_that_joins_again_keeps_its_lease() -> None:
    machine = g.new_machine()
    id = g.joined(machine, 0, ttl_ms=1000)
    before = g.shown(machine)
    g.joined(machine, 0, id, ttl_ms=5000)
    after = g.shown(machine)
    assert before is not None and after is not None
    assert after.members[id].lease == before.members[id].lease


def test_the_second_step_of_a_join_has_the_lease_of_the_first() -> None:
    machine = g.new_machine()
    asked = machine.apply(g.join(0, two_steps=True, ttl_ms=1000))
    assert asked.body[0] == g.ID_REQUIRED
    pending = g.shown(machine)
    assert pending is not None
    lease = pending.pending[asked.body[1]].lease
    assert g.joined(machine, 0, asked.body[1], two_steps=True, ttl_ms=1000) == asked.body[1]
    found = g.shown(machine)
    assert found is not None and found.members[asked.body[1]].lease == lease


def test_a_holder_that_takes_a_place_gets_a_lease_of_its_own() -> None:
    machine = g.new_machine()
    first = g.joined(machine, 0, instance=b"i", ttl_ms=1000)
    before = g.shown(machine)
    second = g.joined(machine, 0, instance=b"i", ttl_ms=1000)
    after = g.shown(machine)
    assert before is not None and after is not None and first not in after.members
    assert after.members[second].lease != before.members[first].lease


def test_a_join_that_is_refused_grants_nothing() -> None:
    machine = g.new_machine()
    g.joined(machine, 0, ttl_ms=1000)
    leases = len(machine.handle.due_leases(1 << 40))
    answer = machine.apply(g.join(0, protocols=OTHER, ttl_ms=1000))
    assert (answer.status, answer.body) == (c.GROUP_REFUSED, g.INCONSISTENT)
    assert len(machine.handle.due_leases(1 << 40)) == leases


def test_a_join_names_a_lease_or_grants_one() -> None:
    machine = g.new_machine(1)
    assert machine.apply(g.join(1, ttl_ms=1000)).status == c.COMMAND_INVALID
    assert machine.apply(g.join(0, ttl_ms=1 << 41)).status == c.COMMAND_INVALID


def test_another_key_may_stand_in_the_place_of_a_group() -> None:
    stage = dead()
    stage.machine.txn(c.put(g.KEY))
    for payload in (g.join(1), g.sync(1, b"m"), g.delete()):
        assert code_of(stage, payload) == g.INVALID_ID


def test_only_requests_for_groups_change_its_keys() -> None:
    stage = stable()
    for key in (g.KEY, g.KEY + b"\0" + stage.ids["b"]):
        for operation in (c.put(key), c.delete(key), c.update(key), c.add(key, 1), c.delete_range(key, key + b"\0")):
            assert stage.machine.txn(operation).status == c.GROUP_WRITE
        assert stage.machine.txn(c.put(key, flags=c.KEEP_VALUE)).status == c.GROUP_WRITE
    assert apply(preparing(), c.revoke(1)).status == c.OK
    stage = preparing()
    assert apply(stage, c.revoke(stage.group.lease)).status == c.GROUP_WRITE
    assert apply(stage, c.keep_alive(stage.group.lease)).body == [0]


def test_a_group_has_room_for_so_many() -> None:
    stage = stable()
    assert code_of(stage, g.join(7, most=3)) == g.MAX_SIZE
    assert apply(stage, g.join(7, most=3, instance=b"s")).body[0] == g.DONE
    stage = preparing()
    assert code_of(stage, g.join(7, most=1)) == g.MAX_SIZE
    assert code_of(stage, g.join(2, stage.ids["b"], most=1)) == g.MAX_SIZE
    assert apply(stage, g.join(1, stage.ids["a"], most=1)).body[0] == g.WAITS


def test_a_member_must_share_type_and_a_protocol() -> None:
    for stage in (dead(), empty()):
        assert code_of(stage, g.join(7, kind=b"")) == g.INCONSISTENT
        assert code_of(stage, g.join(7, protocols=())) == g.INCONSISTENT
    stage = stable()
    assert code_of(stage, g.join(7, kind=b"other")) == g.INCONSISTENT
    assert code_of(stage, g.join(7, protocols=OTHER)) == g.INCONSISTENT
    assert code_of(stage, g.join(2, stage.ids["b"], protocols=OTHER)) == g.INCONSISTENT


def test_an_instance_has_one_holder() -> None:
    stage = stable()
    new = apply(stage, g.join(7, instance=b"s")).body[1]
    old, generation = stage.ids["s"], stage.group.generation
    assert old not in stage.group.members
    assert code_of(stage, g.join(3, old, instance=b"s")) == g.FENCED_INSTANCE
    assert code_of(stage, g.sync(generation, old, instance=b"s")) == g.FENCED_INSTANCE
    assert apply(stage, g.leave((old, b"s"))).body == [g.FENCED_INSTANCE]
    assert code_of(stage, g.sync(generation, new, instance=b"t")) == g.UNKNOWN_MEMBER
    assert apply(stage, g.sync(generation, new, instance=b"s")).body == [g.DONE, generation, b"s"]
    apply(stage, c.revoke(3))
    assert new in stage.group.members


def test_a_static_leader_that_returns_assigns_nothing() -> None:
    machine = g.new_machine(1, 2)
    first = g.joined(machine, 1, instance=b"s")
    machine.apply(g.sync(1, first, [(first, b"all")]))
    answer = machine.apply(g.join(2, instance=b"s"))
    assert answer.body == [g.DONE, answer.body[1], 1, answer.body[1], b"range", True]
    assert machine.apply(g.sync(1, answer.body[1], instance=b"s")).body == [g.DONE, 1, b"all"]


def test_another_protocol_of_a_static_member_makes_a_generation() -> None:
    machine = g.new_machine(1, 2)
    both = ((b"range", b""), (b"sticky", b""))
    first = g.joined(machine, 1, instance=b"s", protocols=both)
    machine.apply(g.sync(1, first, [(first, b"all")]))
    answer = machine.apply(g.join(2, instance=b"s", protocols=both[::-1]))
    assert answer.body == [g.DONE, answer.body[1], 2, answer.body[1], b"sticky", False]


def test_a_sync_names_generation_type_and_protocol() -> None:
    stage = completing()
    generation, leader = stage.group.generation, stage.ids["a"]
    for wrong in (generation - 1, generation + 1):
        assert code_of(stage, g.sync(wrong, leader)) == g.ILLEGAL_GENERATION
    assert code_of(stage, g.sync(generation, leader, kind=b"other")) == g.INCONSISTENT
    assert code_of(stage, g.sync(generation, leader, protocol=b"other")) == g.INCONSISTENT
    assert apply(stage, g.sync(generation, leader, kind=g.TYPE, protocol=b"range")).status == c.OK


def test_a_pending_member_has_no_say() -> None:
    stage = stable()
    pending = apply(stage, g.join(7, two_steps=True)).body[1]
    assert code_of(stage, g.sync(stage.group.generation, pending)) == g.UNKNOWN_MEMBER
    assert code_of(stage, g.join(7, pending, instance=b"s")) == g.FENCED_INSTANCE
    assert code_of(stage, g.join(7, pending, instance=b"t")) == g.UNKNOWN_MEMBER


# --- phases -----------------------------------------------------------------------------------------------------------
def test_the_phase_ends_when_all_have_joined_and_none_is_pending() -> None:
    stage = preparing()
    pending = apply(stage, g.join(7, two_steps=True)).body[1]
    g.joined(stage.machine, 3, stage.ids["s"], instance=b"s")
    assert apply(stage, g.join(2, stage.ids["b"])).body[0] == g.WAITS
    assert stage.group.state == g.PREPARING
    apply(stage, g.leave((pending, b"")))
    assert (stage.group.state, stage.group.generation) == (g.COMPLETING, generation_of(stage))


def test_the_timer_ends_the_phase_without_dynamic_members_that_did_not_join() -> None:
    stage = preparing()
    for lease in (1, 2, 3):
        stage.machine.lease_ms = g.SESSION_MS // 2
        apply(stage, c.keep_alive(lease))
    stage.machine.lease_ms = g.REBALANCE_MS - 1
    apply(stage, c.keep_alive(1, 2, 3))
    g.expire(stage.machine)
    assert stage.group.state == g.PREPARING
    stage.machine.lease_ms = g.REBALANCE_MS
    g.expire(stage.machine)
    assert (stage.group.state, sorted(stage.group.members)) == (
        g.COMPLETING,
        sorted((stage.ids["a"], stage.ids["s"])),
    )


def test_a_phase_in_which_only_static_members_are_left_begins_anew() -> None:
    stage = stable()
    apply(stage, g.leave((stage.ids["a"], b""), (stage.ids["b"], b"")))
    first = stage.group.lease
    stage.machine.lease_ms = g.REBALANCE_MS
    apply(stage, c.keep_alive(3))
    g.expire(stage.machine)
    assert (stage.group.state, list(stage.group.members)) == (g.PREPARING, [stage.ids["s"]])
    assert stage.group.lease != first
    assert apply(stage, g.join(3, stage.ids["s"], instance=b"s")).body[0] == g.DONE


def test_a_leader_that_does_not_sync_is_dropped() -> None:
    stage = completing()
    stage.machine.lease_ms = g.REBALANCE_MS
    apply(stage, c.keep_alive(1, 2, 3))
    g.expire(stage.machine)
    assert (stage.group.state, stage.ids["a"] in stage.group.members) == (g.PREPARING, False)


def test_the_initial_delay_is_extended_while_members_come() -> None:
    machine = g.new_machine(1, 2, 3, ttl_ms=1_000_000)
    options = {"initial_ms": 100, "rebalance_ms": 250}
    assert machine.apply(g.join(1, **options)).body[0] == g.WAITS
    for lease, until in ((2, 100), (3, 200)):
        machine.apply(g.join(lease, **options))
        machine.lease_ms = until
        g.expire(machine)
        group = g.shown(machine)
        assert group is not None
        assert (group.state, group.timer_ms) == (g.PREPARING, 100 if until == 100 else 50)
    machine.lease_ms = 250
    g.expire(machine)
    group = g.shown(machine)
    assert group is not None
    assert (group.state, group.generation, len(group.members)) == (g.COMPLETING, 1, 3)


def test_the_oldest_member_that_joined_leads_on() -> None:
    stage = stable()
    apply(stage, g.leave((stage.ids["a"], b"")))
    g.joined(stage.machine, 3, stage.ids["s"], instance=b"s")
    g.joined(stage.machine, 2, stage.ids["b"])
    assert stage.group.leader == stage.ids["b"]


def test_votes_choose_the_protocol() -> None:
    machine = g.new_machine(1, 2, 3)
    words = {name: (name, b"") for name in (b"x", b"y", b"z")}
    lists = ([b"x", b"y", b"z"], [b"z", b"y"], [b"z", b"y", b"x"])
    ids = [g.joined(machine, lease, protocols=[words[name] for name in names]) for lease, names in enumerate(lists, 1)]
    for lease, names in list(enumerate(lists, 1))[:2]:
        g.joined(machine, lease, ids[lease - 1], protocols=[words[name] for name in names])
    group = g.shown(machine)
    assert group is not None
    assert (group.state, group.protocol) == (g.COMPLETING, b"z")


def test_a_join_that_is_asked_again_is_no_second_member() -> None:
    machine = g.new_machine(1, 2)
    options = {"initial_ms": 1000}
    first = machine.apply(g.join(1, **options)).body
    assert machine.apply(g.join(1, **options)).body == first
    pending = machine.apply(g.join(2, two_steps=True)).body
    assert machine.apply(g.join(2, two_steps=True)).body == pending
    group = g.shown(machine)
    assert group is not None
    assert (len(group.members), len(group.pending), group.joined) == (1, 1, 1)


def test_members_of_many_leases_end_in_one_entry() -> None:
    stage = stable()
    stage.machine.lease_ms = g.SESSION_MS
    answer = g.expire(stage.machine)
    assert (answer.status, stage.group.state, stage.group.members) == (c.OK, g.EMPTY, {})
    assert stage.group.generation == 3


@pytest.mark.parametrize("rebalance_ms", [g.SESSION_MS // 2, g.SESSION_MS * 2])
def test_a_lease_and_the_timer_that_went_on_without_its_member_end_in_one_entry(rebalance_ms: int) -> None:
    """Found by the simulator: the timer, due first, removed the member, and its lease did not find it any more."""
    stage = Stage(g.new_machine(1, 2), {})
    stage.ids["a"] = g.joined(stage.machine, 1, rebalance_ms=rebalance_ms)
    stage.ids["b"] = g.joined(stage.machine, 2, rebalance_ms=rebalance_ms)
    assert stage.group.state == g.PREPARING
    stage.machine.lease_ms = max(rebalance_ms, g.SESSION_MS)
    stage.machine.apply(c.keep_alive(2))
    answer = g.expire(stage.machine)
    assert answer.status == c.OK
    assert set(stage.group.members) == {stage.ids["b"]}


def test_assignments_of_a_sync_are_for_members_alone() -> None:
    stage = completing()
    given = [(stage.ids["b"], b"b"), (b"aaa", b"nobody's"), (b"zzz", b"nobody's")]
    apply(stage, g.sync(stage.group.generation, stage.ids["a"], given))
    assert {id: member.assignment for id, member in stage.group.members.items()} == {
        stage.ids["a"]: b"",
        stage.ids["b"]: b"b",
        stage.ids["s"]: b"",
    }


# --- fences -----------------------------------------------------------------------------------------------------------
def holds(stage: Stage, key: bytes, revision: int) -> bool:
    status = stage.machine.txn(c.put(b"k"), fence=(key, revision)).status
    assert status in (c.OK, c.FENCED)
    return status == c.OK


def test_the_fence_of_a_generation_ends_with_the_next_one() -> None:
    stage = stable()
    fence = stage.group.fence
    g.joined(stage.machine, 1, stage.ids["a"])
    assert holds(stage, g.KEY, fence)
    g.joined(stage.machine, 3, stage.ids["s"], instance=b"s")
    g.joined(stage.machine, 2, stage.ids["b"])
    assert stage.group.state == g.COMPLETING
    assert not holds(stage, g.KEY, fence)
    assert holds(stage, g.KEY, stage.group.fence)


def test_no_fence_of_a_deleted_group_ever_holds_again() -> None:
    stage = empty()
    old = stage.group.fence
    apply(stage, g.delete())
    assert not holds(stage, g.KEY, old)
    for _ in range(old):
        member = g.joined(stage.machine, 7)
        apply(stage, g.leave((member, b"")))
        assert stage.group.fence > old
    assert not holds(stage, g.KEY, old)


def test_the_fence_of_an_assignment_ends_with_the_next_one_and_with_the_member() -> None:
    stage = stable()
    key = g.KEY + b"\0" + stage.ids["b"]
    fence = stage.group.members[stage.ids["b"]].fence
    g.joined(stage.machine, 1, stage.ids["a"])
    g.joined(stage.machine, 3, stage.ids["s"], instance=b"s")
    g.joined(stage.machine, 2, stage.ids["b"])
    assert holds(stage, key, fence)
    apply(stage, g.sync(stage.group.generation, stage.ids["a"]))
    assert not holds(stage, key, fence)
    fence = stage.group.members[stage.ids["b"]].fence
    assert holds(stage, key, fence)
    apply(stage, c.revoke(2))
    assert not holds(stage, key, fence)


def test_another_holder_of_an_instance_ends_the_fence_of_the_first() -> None:
    stage = stable()
    key, fence = g.KEY + b"\0" + stage.ids["s"], stage.group.members[stage.ids["s"]].fence
    assert holds(stage, key, fence)
    apply(stage, g.join(7, instance=b"s"))
    assert not holds(stage, key, fence)


# --- snapshots --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", NAMES)
def test_a_group_comes_back_from_a_dump(name: str) -> None:
    stage = STAGES[name]()
    copy = loaded(stage.machine.handle.dump())
    assert copy.status().state_hash == stage.machine.state_hash()
    assert copy.due_leases(1 << 40) == stage.machine.handle.due_leases(1 << 40)


def test_bytes_that_are_no_request_are_refused() -> None:
    stage = stable()
    wrong: list[Any] = [
        [],
        [9],
        [g.DELETE, 1],
        [g.LEAVE, [b"a"]],
        [g.SYNC, 1, b"a", b"", b"", b"", [b"b", b"", b"a", b""]],
        [g.SYNC, 1, b"a", b"", b"", b"", [b"a", b"", b"a", b""]],
        [g.JOIN, b"", b"", b"", b"t", [b"p", b""], 1, 1, 0, False],
        [g.JOIN, b"", b"x" * 129, b"", b"t", [b"p", b""], 1, 1, 1, False],
    ]
    for data in wrong:
        answer = apply(stage, c.command(c.GROUPS, 7, g.KEY, c.pack(data)))
        assert (answer.status, answer.changed) == (c.COMMAND_INVALID, 0)
    for key in (b"a\0b", b"k" * 301):
        assert apply(stage, g.join(7, key=key)).status == c.COMMAND_INVALID
