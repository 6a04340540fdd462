"""Offsets of a group beside a plain model, at random: what the last accepted commit said, until group or topic ends."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.machine import commands as c
from tests.machine import groups as g
from tests.machine import topics as t
from tests.machine.machines import loaded

NAMES = (b"a", b"b")
PARTITIONS = st.tuples(st.sampled_from(NAMES), st.integers(0, 2))
LEASES = (1, 2)


class Offsets(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.machine = t.new_machine(*LEASES)
        self.topics: dict[bytes, int] = {}
        self.number = 0
        self.offset = 0
        self.committed: dict[tuple[bytes, int], int] = {}
        self.ends_at: int | None = None
        self.ids = [b"nobody-" + b"0" * 32]

    def state(self) -> int | None:
        found = g.shown(self.machine)
        return found.state if found else None

    @rule(name=st.sampled_from(NAMES))
    def create(self, name: bytes) -> None:
        self.number += 1
        (told,) = self.machine.apply(t.create(name, 2, number=self.number)).body
        assert told[0] == (t.EXISTS if name in self.topics else t.OK)
        self.topics.setdefault(name, self.number)

    @rule(name=st.sampled_from(NAMES))
    def delete(self, name: bytes) -> None:
        assert self.machine.apply(t.delete(name)).body == [t.OK if name in self.topics else t.UNKNOWN]
        self.topics.pop(name, None)
        self.committed = {key: offset for key, offset in self.committed.items() if key[0] != name}

    @rule(lease=st.sampled_from(LEASES))
    def join(self, lease: int) -> None:
        answer = self.machine.apply(g.join(lease, kind=b"consumer"))
        if answer.status == c.OK:
            self.ids.append(answer.body[1])
            self.ends_at = None

    @rule()
    def sync(self) -> None:
        found = g.shown(self.machine)
        if found is not None and found.state == g.COMPLETING:
            self.machine.apply(g.sync(found.generation, found.leader))

    @rule(data=st.data())
    def leave(self, data: Any) -> None:
        before = self.state()
        self.machine.apply(g.leave((data.draw(st.sampled_from(self.ids)), b"")))
        self.may_be_empty(before)

    def may_be_empty(self, before: int | None) -> None:
        if before != g.EMPTY and self.state() == g.EMPTY and t.head(self.machine) is not None:
            self.ends_at = self.machine.lease_ms + t.RETENTION_MS

    @rule(
        data=st.data(), keys=st.lists(PARTITIONS, min_size=1, max_size=4, unique=True), step=st.sampled_from([0, 0, 1])
    )
    def commit(self, data: Any, keys: list[tuple[bytes, int]], step: int) -> None:
        """Of a member, or of nobody; the newest member asks most often."""
        found = g.shown(self.machine)
        id = data.draw(st.sampled_from([b"", self.ids[-1], self.ids[-1], *self.ids]))
        generation = (found.generation if found else 1) + step if id else -1
        code = self.judge(found, id, generation)
        self.offset += 1
        asked = dict.fromkeys(keys, self.offset)
        answer = self.machine.apply(t.commit(asked, generation=generation, member=id))
        known = [name in self.topics and partition < 2 for name, partition in keys]
        assert answer.body == [code if is_known else t.UNKNOWN for is_known in known]
        written = {key for key, is_known in zip(keys, known, strict=True) if is_known} if code == g.OK else set()
        self.committed |= dict.fromkeys(written, self.offset)
        if written and self.state() == g.EMPTY:
            self.ends_at = self.machine.lease_ms + t.RETENTION_MS

    def judge(self, found: g.Group | None, id: bytes, generation: int) -> int:
        if found is None:
            return g.ILLEGAL_GENERATION if id else g.OK
        if not id:
            return g.OK if found.state == g.EMPTY else g.UNKNOWN_MEMBER
        if id not in found.members:
            return g.UNKNOWN_MEMBER
        if generation != found.generation:
            return g.ILLEGAL_GENERATION
        return g.IN_PROGRESS if found.state == g.COMPLETING else g.OK

    @rule(key=PARTITIONS)
    def forget(self, key: tuple[bytes, int]) -> None:
        state = self.state()
        answer = self.machine.apply(t.forget(key))
        if state is None:
            assert answer.body == [g.NOT_FOUND]
        elif key[0] not in self.topics:
            assert answer.body == [g.OK, t.UNKNOWN]
        elif state == g.EMPTY:
            assert answer.body == [g.OK, t.OK]
            self.committed.pop(key, None)
        else:  # the metadata of these members is no subscription, so they may read anything
            assert answer.body == [g.OK, t.SUBSCRIBED]
        assert self.state() == state

    @rule()
    def delete_group(self) -> None:
        if self.machine.apply(g.delete()).status == c.OK:
            self.committed, self.ends_at = {}, None

    @rule(passed_ms=st.sampled_from([1_000, 12_000, 30_000]), is_alive=st.booleans())
    def time_passes(self, passed_ms: int, is_alive: bool) -> None:
        """One lease at a time, in the order of their deadlines."""
        self.machine.lease_ms += passed_ms
        if is_alive:
            self.machine.apply(c.keep_alive(*LEASES))
        while due := self.machine.handle.due_leases(self.machine.lease_ms):
            before = self.state()
            self.machine.apply(c.expire(due[0]))
            if self.ends_at is not None and due[0][1] == self.ends_at and self.state() is None:
                self.committed, self.ends_at = {}, None
            self.may_be_empty(before)
        for lease in LEASES:
            self.machine.apply(c.grant(lease, g.SESSION_MS))

    @invariant()
    def offsets_are_those_of_the_model(self) -> None:
        """A head has a timer exactly while the group is Empty; no offset is left without a group."""
        assert t.offsets(self.machine) == self.committed
        head = t.head(self.machine)
        assert head is None or head.has_timer == (self.state() == g.EMPTY)
        assert head is None or self.state() is not None
        assert self.ends_at is None or self.ends_at > self.machine.lease_ms

    @rule()
    def dump(self) -> None:
        assert loaded(self.machine.handle.dump()).status().state_hash == self.machine.state_hash()


TestOffsets = Offsets.TestCase
TestOffsets.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
