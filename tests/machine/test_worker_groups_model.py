"""A worker group beside a plain model of docs/groups.md, at random; with invariants I34 to I36, I38 and I39."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.machine import commands as c
from tests.machine import groups as g
from tests.machine.groups_model import Model, Refused
from tests.machine.machines import Answer, loaded

LEASES = (1, 2, 3, 4)
INSTANCES = st.sampled_from([b"", b"", b"s", b"t"])
WORDS = st.sampled_from(
    [
        ((b"x", b""),),
        ((b"x", b""), (b"y", b"")),
        ((b"y", b""), (b"x", b"")),
        ((b"x", b"more"),),
        ((b"y", b""),),
    ]
)


class WorkerGroup(RuleBasedStateMachine):
    @initialize(level=st.sampled_from([5, 6]))
    def begin(self, level: int) -> None:
        self.machine = g.new_machine(level=level)
        self.model = Model()
        self.ids: list[bytes] = [b"nobody"]
        self.deadlines: dict[int, int] = {}
        self.fences: dict[int, tuple[int, bytes]] = {}
        self.newest_fence = 0
        for lease in LEASES[:3]:
            self.grant(lease)

    # --- both sides -----------------------------------------------------------------------------------------------
    def ask(self, payload: bytes) -> Answer:
        self.before = g.shown(self.machine), self.machine.state_hash()
        return self.machine.apply(payload)

    def refuses(self, answer: Answer, code: int) -> None:
        assert (answer.status, answer.body) == (c.GROUP_REFUSED, code)
        assert (g.shown(self.machine), self.machine.state_hash()) == self.before

    @rule(lease=st.sampled_from(LEASES))
    def grant(self, lease: int) -> None:
        if lease not in self.deadlines:
            assert self.machine.apply(c.grant(lease, g.SESSION_MS)).status == c.OK
            self.deadlines[lease] = self.machine.lease_ms + g.SESSION_MS

    @precondition(lambda self: self.deadlines)
    @rule(
        data=st.data(),
        instance=INSTANCES,
        protocols=WORDS,
        rebalance_ms=st.sampled_from([4_000, 15_000]),
        initial_ms=st.sampled_from([0, 3_000]),
        most=st.sampled_from([2, 5_000]),
        two_steps=st.booleans(),
        is_new=st.booleans(),
    )
    def join(self, data: Any, is_new: bool, **asked: Any) -> None:
        id = b"" if is_new else data.draw(st.sampled_from(self.ids))
        lease = data.draw(st.sampled_from(sorted(self.deadlines)))
        if len(self.model.everyone) and not is_new and id in self.model.everyone:
            asked["instance"] = data.draw(st.sampled_from([self.model.everyone[id].instance, asked["instance"]]))
        asked |= {"member": id, "kind": g.TYPE, "lease": lease}
        self.asks_to_join(asked)

    def asks_to_join(self, asked: dict[str, Any]) -> None:
        answer = self.ask(g.join(**asked))
        saved = copy.deepcopy(self.model)
        new_id = answer.body[1] if answer.status == c.OK else b"?"
        try:
            what, told = self.model.join(dict(asked), new_id, self.machine.lease_ms)
        except Refused as refused:
            self.model = saved
            self.refuses(answer, refused.args[0])
            return
        assert answer.status == c.OK, answer
        assert answer.body[:2] == [what, told]
        if told not in self.ids:
            self.ids.append(told)

    @precondition(lambda self: self.model.state is not None)
    @rule(data=st.data(), instance=INSTANCES, step=st.sampled_from([0, 0, 0, -1, 1]))
    def sync(self, data: Any, instance: bytes, step: int) -> None:
        id = data.draw(st.sampled_from([*self.ids, *([self.model.leader] * 3 if self.model.leader else [])]))
        if id in self.model.everyone:
            instance = data.draw(st.sampled_from([self.model.everyone[id].instance, instance]))
        generation = max(self.model.generation + step, 0)
        given = {who: b"for " + who for who in data.draw(st.lists(st.sampled_from(self.ids), unique=True))}
        self.asks_to_sync(generation, id, instance, given)

    def asks_to_sync(self, generation: int, id: bytes, instance: bytes, given: dict[bytes, bytes]) -> None:
        answer = self.ask(g.sync(generation, id, given.items(), instance=instance))
        try:
            expected = self.model.sync(generation, id, instance, given)
        except Refused as refused:
            self.refuses(answer, refused.args[0])
            return
        assert (answer.status, answer.body) == (c.OK, expected)

    @precondition(lambda self: self.model.members)
    @rule(must_sync=st.booleans())
    def all_go_on(self, must_sync: bool) -> None:
        """What well-behaved members do; chance alone seldom makes a group stable."""
        for id, member in list(self.model.members.items()):
            if self.model.state == g.PREPARING and id in self.model.everyone:
                asked = {"member": id, "instance": member.instance, "protocols": member.protocols, "kind": g.TYPE}
                asked |= {"lease": member.lease, "rebalance_ms": member.rebalance_ms, "initial_ms": 0}
                self.asks_to_join(asked | {"most": 5_000, "two_steps": False})
        if must_sync and self.model.state == g.COMPLETING:
            self.asks_to_sync(self.model.generation, self.model.leader, b"", {id: id for id in self.model.members})

    @precondition(lambda self: self.model.state is not None)
    @rule(data=st.data(), instance=INSTANCES)
    def leave(self, data: Any, instance: bytes) -> None:
        pairs = [(id, b"") for id in data.draw(st.lists(st.sampled_from(self.ids), max_size=2))] + [(b"", instance)]
        answer = self.ask(g.leave(*pairs))
        codes = [self.model.leave(id, held, self.machine.lease_ms) for id, held in pairs]
        assert (answer.status, answer.body) == (c.OK, codes)

    @precondition(lambda self: self.model.state is not None)
    @rule()
    def delete(self) -> None:
        answer = self.ask(g.delete())
        try:
            self.model.delete()
        except Refused as refused:
            self.refuses(answer, refused.args[0])
            return
        assert answer.status == c.OK

    # --- time -----------------------------------------------------------------------------------------------------
    @rule(lease=st.sampled_from(LEASES))
    def keep_alive(self, lease: int) -> None:
        self.machine.apply(c.keep_alive(lease))
        if lease in self.deadlines:
            self.deadlines[lease] = self.machine.lease_ms + g.SESSION_MS

    @rule(lease=st.sampled_from(LEASES))
    def revoke(self, lease: int) -> None:
        self.machine.apply(c.revoke(lease))
        self.lease_ends(lease)

    def lease_ends(self, lease: int) -> None:
        self.deadlines.pop(lease, None)
        for id in sorted(id for id, member in self.model.everyone.items() if member.lease == lease):
            self.model.gone(id, self.machine.lease_ms)

    @rule(passed_ms=st.sampled_from([1_000, 3_000, 7_000]))
    def time_passes(self, passed_ms: int) -> None:
        """One lease at a time, so that the order is the model's; a test of its own ends many in one entry."""
        self.machine.lease_ms += passed_ms
        now = self.machine.lease_ms
        while due := self.machine.handle.due_leases(now):
            lease, deadline = due[0]
            assert deadline <= now
            self.machine.apply(c.expire((lease, deadline)))
            if lease in self.deadlines:
                assert self.deadlines[lease] == deadline
                self.lease_ends(lease)
            else:
                assert self.model.timer_at == deadline
                self.model.timer(now)
        assert all(deadline > now for deadline in self.deadlines.values())  # I38
        assert self.model.timer_at is None or self.model.timer_at > now

    # --- what must hold -------------------------------------------------------------------------------------------
    @invariant()
    def the_machine_is_as_the_model_says(self) -> None:
        found = g.shown(self.machine)
        assert (found.state if found else None) == self.model.state
        if found is None:
            return
        model = self.model
        assert (found.generation, found.leader, found.protocol) == (model.generation, model.leader, model.protocol)
        assert set(found.pending) == model.pending
        assert {id: (member.lease, member.instance, member.protocols) for id, member in found.members.items()} == {
            id: (member.lease, member.instance, member.protocols) for id, member in model.members.items()
        }
        if found.state == g.PREPARING:
            has_joined = {id for id, member in found.members.items() if member.joined == found.generation + 1}
            assert has_joined == {id for id, member in model.members.items() if member.has_joined}
        if found.state == g.STABLE:  # I39
            assert {id: (member.assigned, member.assignment) for id, member in found.members.items()} == {
                id: (model.generation, member.assignment) for id, member in model.members.items()
            }
            instances = [member.instance for member in found.members.values() if member.instance]
            assert len(instances) == len(set(instances))

    @invariant()
    def a_generation_has_one_leader_and_one_fence(self) -> None:
        """I34, I35: the fence names the generation for ever."""
        found = g.shown(self.machine)
        if found is None or found.generation == 0:
            return
        assert found.fence >= self.newest_fence
        self.newest_fence = found.fence
        generation, leader = self.fences.setdefault(found.fence, (found.generation, found.leader))
        assert generation == found.generation
        if found.state in (g.COMPLETING, g.STABLE):
            instance = found.members[found.leader].instance
            assert found.leader == leader or instance  # another holder of the leader's instance
            self.fences[found.fence] = (generation, found.leader)

    @rule()
    def dump(self) -> None:
        copied = loaded(self.machine.handle.dump())
        assert copied.status().state_hash == self.machine.state_hash()


TestWorkerGroup = WorkerGroup.TestCase
TestWorkerGroup.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)
