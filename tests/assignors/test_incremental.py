"""Connect's way: lost shares wait, come back, or are given out; balance never moves anything meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from raftmeta import ConfigError, InvalidArgument
from raftmeta.assignors import Incremental, Member, Plan, Resources
from tests.assignors.groups import after, assignable, moved, owner_of

DELAY_S = 300.0
TWELVE = Resources.of_topics({"t": 12})


@dataclass
class Life:
    """A group over its plans, each of which every member carries out before the next."""

    resources: Resources = TWELVE
    delay_max_s: float = DELAY_S
    members: list[Member] = field(default_factory=list)
    memory: bytes = b""
    now_s: float = 1000.0
    generation: int = 0

    def plan(self) -> Plan:
        assignor = Incremental(self.delay_max_s)
        plan = assignor.assign(self.members, self.resources, now_s=self.now_s, memory=self.memory)
        self.generation += 1
        self.members, self.memory = after(self.members, plan, self.generation), plan.memory
        return plan

    def settle(self) -> Plan:
        """Plans until none is due at once."""
        for _ in range(3):
            plan = self.plan()
            if plan.next_plan_s != 0:
                return plan
        raise AssertionError("a third plan takes something away")

    def join(self, *names: str, instance_id: str | None = None) -> None:
        self.members += [Member(name, instance_id) for name in names]

    def lose(self, *names: str) -> None:
        self.members = [member for member in self.members if member.id not in names]

    @property
    def shares(self) -> dict[str, tuple[str, ...]]:
        return {member.id: tuple(member.owned) for member in self.members}


def life_of(*names: str, delay_max_s: float = DELAY_S) -> Life:
    life = Life(delay_max_s=delay_max_s)
    life.join(*names)
    life.settle()
    return life


def test_a_lost_share_waits_and_nothing_else_moves() -> None:
    life = life_of("a", "b", "c")
    before = life.shares
    life.lose("c")
    plan = life.plan()
    assert plan.assignments == {"a": before["a"], "b": before["b"]}
    assert (plan.waiting, plan.revoked, plan.next_plan_s) == (before["c"], {}, DELAY_S)


def test_a_lost_share_is_given_out_when_the_delay_ends() -> None:
    """Not a second before, and not a second later."""
    life = life_of("a", "b", "c")
    life.lose("c")
    life.plan()
    life.now_s += DELAY_S - 1
    assert life.plan().next_plan_s == 1
    life.now_s += 1
    plan = life.plan()
    assert sorted(map(len, plan.assignments.values())) == [6, 6]
    assert (plan.waiting, plan.revoked, plan.next_plan_s) == ((), {}, None)


def test_a_second_loss_does_not_begin_the_delay_anew() -> None:
    life = life_of("a", "b", "c")
    life.lose("c")
    life.plan()
    life.now_s += 200
    life.lose("b")
    assert life.plan().next_plan_s == DELAY_S - 200


def test_a_static_member_gets_its_share_back_at_once() -> None:
    life = life_of("a", "b")
    life.join("c-1", instance_id="c")
    life.settle()
    before = life.shares
    life.lose("c-1")
    life.plan()
    life.now_s += 10
    life.join("c-2", instance_id="c")
    plan = life.plan()
    assert plan.assignments == {"a": before["a"], "b": before["b"], "c-2": before["c-1"]}
    assert (plan.waiting, plan.revoked, plan.next_plan_s) == ((), {}, None)


def test_a_stranger_waits_for_the_end_of_the_delay_and_gets_the_share() -> None:
    """A dynamic member that comes back has a new id; nobody can know that it is the old one."""
    life = life_of("a", "b", "c")
    before = life.shares
    life.lose("c")
    life.plan()
    life.join("c-again")
    life.now_s += 10
    plan = life.plan()
    assert (plan.assignments["c-again"], plan.waiting, plan.next_plan_s) == ((), before["c"], DELAY_S - 10)
    life.now_s += DELAY_S
    plan = life.plan()
    assert plan.assignments == {"a": before["a"], "b": before["b"], "c-again": before["c"]}


def test_a_member_that_never_heard_of_its_plan_gets_its_share_again() -> None:
    """It is there and states nothing: nobody is gone, so nothing waits."""
    life = life_of("a", "b")
    before = life.shares
    life.members[1] = replace(life.members[1], owned=(), generation=-1)
    plan = life.plan()
    assert (plan.assignments, plan.waiting) == (before, ())


def test_new_resources_do_not_wait_for_a_lost_member() -> None:
    life = life_of("a", "b", "c")
    life.lose("c")
    life.plan()
    life.resources = Resources.of_topics({"t": 12, "u": 2})
    plan = life.plan()
    assert {"u-0", "u-1"} <= owner_of(plan.assignments).keys()
    assert len(plan.waiting) == 4
    assert plan.revoked == {}


def test_without_a_delay_a_lost_share_is_given_out_at_once() -> None:
    life = life_of("a", "b", "c", delay_max_s=0)
    life.lose("c")
    plan = life.plan()
    assert sorted(map(len, plan.assignments.values())) == [6, 6]
    assert plan.next_plan_s is None


def test_without_memory_a_lost_share_counts_as_new() -> None:
    """A new leader that nobody told: it gives everything out rather than leave it lying."""
    life = life_of("a", "b", "c")
    life.lose("c")
    life.memory = b""
    assert life.plan().waiting == ()


def test_takings_in_a_row_are_spaced_out() -> None:
    """A member joins before each second plan: the first takes at once, then 40 ms, 1.6 s and 64 s go by before each."""
    life = Life(resources=Resources.of_topics({"t": 60}))
    life.join("m0", "m1")
    life.settle()
    spaces = []
    for number in range(4):
        life.join(f"new{number}")
        plan = life.plan()
        if plan.revoked:
            assert plan.next_plan_s == 0
            spaces.append(0.0)
            continue
        assert plan.next_plan_s is not None and plan.waiting == ()
        spaces.append(plan.next_plan_s)
        life.now_s += plan.next_plan_s
        assert life.plan().revoked
    assert spaces == pytest.approx([0.0, 0.04, 1.6, 64])


def test_a_plan_that_takes_nothing_ends_the_row() -> None:
    life = life_of("a", "b")
    for name in ("c", "d", "e"):
        life.join(name)
        assert life.plan().revoked
        assert not life.plan().revoked


def test_a_clock_that_jumped_waits_no_longer_than_the_delay() -> None:
    """The time of another machine may be years ahead."""
    life = life_of("a", "b", "c")
    life.lose("c")
    life.now_s = 1e9
    life.plan()
    life.now_s = 1000.0
    assert life.plan().next_plan_s == DELAY_S


def test_a_plan_at_the_time_that_is_named_is_in_time() -> None:
    """now + (until - now) is less than until for 20 of these times in binary: a caller would ask for ever."""
    for step in range(1000):
        life = Life(now_s=step / 1000 + 1e-9 / 3)
        life.join("a", "b")
        life.plan()
        life.lose("b")
        life.plan()
        life.now_s += step * 0.0371
        life.now_s += life.plan().next_plan_s or 0
        assert life.plan().waiting == ()


@pytest.mark.parametrize("memory", [b"\xc1", b"\x93\x01\x02\x03", b"\x01", b"x" * 40, b"\x96\x01\x90\xa1x\xc2\x00\xc0"])
def test_foreign_memory_is_refused(memory: bytes) -> None:
    with pytest.raises(InvalidArgument, match="memory"):
        Incremental().assign([Member("a")], TWELVE, memory=memory)


def test_memory_of_another_version_counts_as_none() -> None:
    plan = Incremental().assign([Member("a")], TWELVE, memory=b"\x92\x02\xc0")
    assert plan.assignments == {"a": TWELVE.names}


@given(st.binary(max_size=40))
def test_any_bytes_are_refused_or_ignored(memory: bytes) -> None:
    try:
        plan = Incremental().assign([Member("a")], TWELVE, memory=memory)
    except InvalidArgument:
        return
    assert plan.assignments == {"a": TWELVE.names}


@pytest.mark.parametrize("delay_s", [-1, float("nan")])
def test_a_wrong_delay_is_refused(delay_s: float) -> None:
    with pytest.raises(ConfigError, match="delay_max_s"):
        Incremental(delay_s)


class Lives(RuleBasedStateMachine):
    """Members come and go, resources too, and time goes by; some plans never reach some members."""

    @initialize(delay_s=st.sampled_from([0.0, 1.0, 300.0]))
    def begin(self, delay_s: float) -> None:
        self.life = Life(delay_max_s=delay_s)
        self.life.join("m0")
        self.next_number = 1
        self.plan: Plan | None = None

    @rule(is_static=st.booleans())
    def join(self, is_static: bool) -> None:
        name = f"m{self.next_number}"
        self.next_number += 1
        self.life.join(name, instance_id=f"i{self.next_number % 3}" if is_static and self._is_free() else None)

    def _is_free(self) -> bool:
        return all(member.instance_id != f"i{self.next_number % 3}" for member in self.life.members)

    @rule(number=st.integers(0, 9))
    def lose(self, number: int) -> None:
        if len(self.life.members) > 1:
            self.life.lose(self.life.members[number % len(self.life.members)].id)

    @rule(count=st.integers(0, 14))
    def resize(self, count: int) -> None:
        self.life.resources = Resources.of_topics({"t": count})

    @rule(seconds=st.sampled_from([0.01, 1.0, 100.0, 400.0]))
    def wait(self, seconds: float) -> None:
        self.life.now_s += seconds

    @rule(missed=st.integers(0, 9))
    def ask(self, missed: int) -> None:
        """One of the members may miss the plan, and keeps what it had; it is not told to have anything new."""
        before = self.life.members
        self.plan = plan = self.life.plan()
        self._judge(before, plan)
        for place, old in enumerate(before):
            if place == missed:
                self.life.members[place] = old

    def _judge(self, before: Iterable[Member], plan: Plan) -> None:
        owners = owner_of(plan.assignments)
        known = assignable(list(before), self.life.resources)
        assert sorted([*owners, *plan.waiting]) == sorted(known)
        for member in before:
            for name in member.owned:
                if owners.get(name, member.id) != member.id:
                    other = next(one for one in before if one.id == owners[name])
                    assert name in other.owned and other.generation > member.generation
        assert (plan.next_plan_s is None) <= (plan.waiting == ())
        if plan.next_plan_s is not None:
            assert 0 <= plan.next_plan_s <= self.life.delay_max_s

    @rule()
    def calm_down(self) -> None:
        """When nothing changes any more, everything is given out and balanced after a bounded number of plans."""
        for _ in range(6):
            plan = self.life.plan()
            if plan.next_plan_s is None:
                break
            self.life.now_s += plan.next_plan_s
        else:
            raise AssertionError("the plans do not end")
        assert plan.waiting == ()
        loads = [len(owned) for owned in plan.assignments.values()]
        assert max(loads) - min(loads) <= 1
        assert moved(self.life.shares, plan.assignments) == 0


TestLives = Lives.TestCase
