"""A plain model of one worker group, written from docs/groups.md. The machine gives ids; the model takes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.machine import groups as g

Pairs = tuple[tuple[bytes, bytes], ...]


@dataclass
class Member:
    """One member, pending or not."""

    lease: int
    instance: bytes
    protocols: Pairs
    rebalance_ms: int
    order: int = 0
    has_joined: bool = False
    is_pending: bool = False
    assignment: bytes = b""


class Refused(Exception):
    """args[0] is the code."""


@dataclass
class Model:
    """The group; state None: Dead."""

    state: int | None = None
    generation: int = 0
    type: bytes = b""
    protocol: bytes = b""
    leader: bytes = b""
    everyone: dict[bytes, Member] = field(default_factory=dict)
    timer_at: int | None = None
    initial: tuple[int, int] | None = None  # delay, and by how much it may still be extended
    has_new: bool = False
    orders: int = 0

    # --- what it is made of ---------------------------------------------------------------------------------------
    @property
    def members(self) -> dict[bytes, Member]:
        return {id: self.everyone[id] for id in sorted(self.everyone) if not self.everyone[id].is_pending}

    @property
    def pending(self) -> set[bytes]:
        return {id for id, member in self.everyone.items() if member.is_pending}

    def holder(self, instance: bytes) -> bytes | None:
        return next((id for id, member in self.everyone.items() if instance and member.instance == instance), None)

    def common(self, name: bytes) -> bool:
        return all(name in dict(member.protocols) for member in self.members.values())

    def elected(self) -> bytes:
        members = list(self.members.values())
        names = [name for name, _ in members[0].protocols if self.common(name)]
        votes = [next(name for name, _ in member.protocols if name in names) for member in members]
        return max(names, key=lambda name: (votes.count(name), -names.index(name)))

    def check(self, id: bytes, instance: bytes) -> Member:
        if instance:
            holder = self.holder(instance)
            if holder is None:
                raise Refused(g.UNKNOWN_MEMBER)
            if holder != id:
                raise Refused(g.FENCED_INSTANCE)
        if id not in self.everyone:
            raise Refused(g.UNKNOWN_MEMBER)
        return self.everyone[id]

    # --- phases ---------------------------------------------------------------------------------------------------
    def prepare(self, now: int, initial_ms: int = 0) -> None:
        longest = max([member.rebalance_ms for member in self.members.values()], default=0)
        self.initial = None
        if self.state == g.EMPTY and initial_ms:
            self.initial = (initial_ms, max(longest - initial_ms, 0))
            longest = initial_ms
        for member in self.everyone.values():
            member.has_joined = False
        self.state, self.has_new, self.timer_at = g.PREPARING, False, now + max(longest, 1)

    def settle(self, now: int) -> None:
        is_awaited = self.pending or not all(member.has_joined for member in self.members.values())
        if self.state == g.PREPARING and self.initial is None and not is_awaited:
            self.complete(now)

    def complete(self, now: int) -> None:
        self.initial = None
        for id, member in self.members.items():
            if not member.has_joined and not member.instance:
                del self.everyone[id]
        members = self.members
        joined = [id for id in members if members[id].has_joined]
        longest = max([member.rebalance_ms for member in members.values()], default=0)
        if members and not joined:
            self.timer_at, self.has_new = now + max(longest, 1), False
            if self.leader not in members:
                self.leader = b""
            return
        self.generation += 1
        for member in members.values():
            member.has_joined = False
        if not members:
            self.state, self.protocol, self.leader, self.timer_at = g.EMPTY, b"", b"", None
            return
        if self.leader not in joined:
            self.leader = min(joined, key=lambda id: members[id].order)
        self.state, self.protocol, self.timer_at = g.COMPLETING, self.elected(), now + max(longest, 1)

    def gone(self, id: bytes, now: int) -> None:
        member = self.everyone.pop(id)
        if id == self.leader:
            self.leader = b""
        if not member.is_pending and self.state in (g.COMPLETING, g.STABLE):
            self.prepare(now)
        self.settle(now)

    def timer(self, now: int) -> None:
        if self.state == g.COMPLETING:
            self.gone(self.leader, now)
        elif self.initial and self.has_new and self.initial[1]:
            delay, left = self.initial
            more = min(delay, left)
            self.initial, self.has_new, self.timer_at = (delay, left - more), False, now + more
        else:
            self.complete(now)

    # --- requests -------------------------------------------------------------------------------------------------
    def join(self, asked: dict[str, Any], new_id: bytes, now: int) -> list[Any]:
        """asked: the arguments of groups.join. new_id: what the machine calls a member that is made."""
        id, instance, lease = asked["member"], asked["instance"], asked["lease"]
        if id and self.state is None:
            raise Refused(g.UNKNOWN_MEMBER)
        state = g.EMPTY if self.state is None else self.state
        if not id:
            same = (key for key, held in self.everyone.items() if held.lease == lease and held.instance == instance)
            me = next(iter(sorted(same)), None)
        else:
            me = id if id in self.everyone else None
        self.check_room(state, me, asked)
        self.check_words(state, asked)
        if id:
            member = self.check(id, instance)
            if not member.is_pending and state == g.EMPTY:
                raise Refused(g.UNKNOWN_MEMBER)
        if me is not None and not self.everyone[me].is_pending:
            return self.rejoin(me, asked, now)
        self.state = state
        if me is not None and not id and asked["two_steps"]:
            return [g.ID_REQUIRED, me]
        holder = None if me is not None else self.holder(instance)
        if holder is not None:
            return self.replace(holder, new_id, asked, now)
        made = me or new_id
        self.everyone[made] = Member(lease, instance, asked["protocols"], asked["rebalance_ms"])
        if me is None and asked["two_steps"] and not instance:
            self.everyone[made].is_pending = True
            return [g.ID_REQUIRED, made]
        self.orders += 1
        self.everyone[made].order = self.orders
        if len(self.members) == 1:
            self.type = asked["kind"]
        self.leader = self.leader or made
        if state == g.PREPARING:
            self.has_new = self.has_new or self.generation == 0
        else:
            self.prepare(now, asked["initial_ms"])
        return self.await_next(made, now)

    def check_room(self, state: int, me: bytes | None, asked: dict[str, Any]) -> None:
        most = asked["most"]
        is_member = me is not None and not self.everyone[me].is_pending
        is_new = me is None and (asked["member"] or self.holder(asked["instance"]) is None)
        if state == g.PREPARING:
            has_joined = me is not None and is_member and self.everyone[me].has_joined
            if not has_joined and sum(member.has_joined for member in self.members.values()) >= most:
                raise Refused(g.MAX_SIZE)
        elif state != g.EMPTY and (is_new or (me is not None and not is_member)) and len(self.members) >= most:
            raise Refused(g.MAX_SIZE)

    def check_words(self, state: int, asked: dict[str, Any]) -> None:
        if state == g.EMPTY:
            if not asked["kind"] or not asked["protocols"]:
                raise Refused(g.INCONSISTENT)
        elif asked["kind"] != self.type or not any(self.common(name) for name, _ in asked["protocols"]):
            raise Refused(g.INCONSISTENT)

    def await_next(self, id: bytes, now: int) -> list[Any]:
        self.everyone[id].has_joined = True
        self.settle(now)
        return [g.WAITS if self.state == g.PREPARING else g.DONE, id]

    def rejoin(self, id: bytes, asked: dict[str, Any], now: int) -> list[Any]:
        member = self.everyone[id]
        is_same = member.protocols == asked["protocols"]
        member.lease, member.protocols, member.rebalance_ms = asked["lease"], asked["protocols"], asked["rebalance_ms"]
        if is_same and (self.state == g.COMPLETING or (self.state == g.STABLE and id != self.leader)):
            return [g.DONE, id]
        if self.state != g.PREPARING:
            self.prepare(now)
        return self.await_next(id, now)

    def replace(self, old: bytes, new: bytes, asked: dict[str, Any], now: int) -> list[Any]:
        member = self.everyone.pop(old)
        member.lease, member.protocols, member.rebalance_ms = asked["lease"], asked["protocols"], asked["rebalance_ms"]
        self.everyone[new] = member
        if self.leader == old:
            self.leader = new
        if self.state == g.STABLE and self.elected() == self.protocol:
            return [g.DONE, new]
        if self.state != g.PREPARING:
            self.prepare(now)
        return self.await_next(new, now)

    def sync(self, generation: int, id: bytes, instance: bytes, given: dict[bytes, bytes]) -> list[Any]:
        if self.check(id, instance).is_pending:
            raise Refused(g.UNKNOWN_MEMBER)
        if generation != self.generation:
            raise Refused(g.ILLEGAL_GENERATION)
        if self.state == g.EMPTY:
            raise Refused(g.UNKNOWN_MEMBER)
        if self.state == g.PREPARING:
            raise Refused(g.IN_PROGRESS)
        if self.state == g.COMPLETING and id == self.leader:
            for key, member in self.members.items():
                member.assignment = given.get(key, b"")
            self.state, self.timer_at = g.STABLE, None
        if self.state == g.STABLE:
            return [g.DONE, generation, self.everyone[id].assignment]
        return [g.WAITS, generation, b""]

    def leave(self, id: bytes, instance: bytes, now: int) -> int:
        try:
            if not id and instance:
                held = self.holder(instance)
                if held is None:
                    raise Refused(g.UNKNOWN_MEMBER)
                id = held
            else:
                self.check(id, instance)
        except Refused as refused:
            return int(refused.args[0])
        self.gone(id, now)
        return g.OK

    def delete(self) -> None:
        if self.state is None:
            raise Refused(g.NOT_FOUND)
        if self.state != g.EMPTY:
            raise Refused(g.NON_EMPTY)
        self.__init__()  # type: ignore[misc]
