"""incremental: Kafka Connect's way. The share of a member that is lost waits for it before others get it.

It decides four things, in this order:

1. A resource that a member of the group had by the plan before and does not state any more goes back to that member.
   A static member that comes back under its instance is the same member. (Kafka's workers have no instance ids; there a
   worker that comes back waits until the delay is over.)
2. The resources of a member that is gone wait for `delay_max_s` seconds. The delay ends early when nothing waits.
   It does not begin anew when a second member goes.
3. Resources that are new, or have waited long enough, go to the lowest loads.
4. While nobody is waited for, and only then, the loads are balanced as cooperative-sticky does. Plans that take
   something away one after the other are spaced out: the second waits for 40 ms, the third for 1.6 s, and each further
   one 40 times longer, up to `delay_max_s`.

It reads no clock: now_s is an argument. Everything that it must know of the past is in Plan.memory. Without it, after
the leader of a group changed and nobody kept the memory, resources without an owner count as new. Memory of another
version counts as none.

Sources: KIP-415 Incremental Cooperative Rebalancing in Kafka Connect; the back-off is that of Kafka 3.9 (KAFKA-12495).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgpack

from raftmeta.assignors.board import Board
from raftmeta.assignors.shapes import Member, Plan, Resources
from raftmeta.assignors.sticky import sticky_target
from raftmeta.errors import ConfigError, InvalidArgument

__all__ = ["Incremental"]

FORMAT_MEMORY = 1
TUNE_SPACING_S = 0.001  # times TUNE_SPACING_FACTOR for each plan in a row; Kafka 3.9 IncrementalCooperativeAssignor
TUNE_SPACING_FACTOR = 40
TUNE_EARLY_S = 0.001  # so much too early is in time: now_s + next_plan_s may round to less than the time that is meant


@dataclass(frozen=True, slots=True)
class Memory:
    """shares: the resources of each member, by Member.order, as the plan before left them; with those that wait.

    waits_until_s: the end of the delay for members that are gone. has_revoked: the plan before took something away
    for the balance. revocations: how many plans in a row wanted to. spaced_until_s: no such plan before this time.
    """

    shares: Mapping[tuple[bool, str], tuple[str, ...]] = field(default_factory=dict)
    waits_until_s: float | None = None
    has_revoked: bool = False
    revocations: int = 0
    spaced_until_s: float | None = None

    def encode(self) -> bytes:
        shares = [[is_dynamic, identity, names] for (is_dynamic, identity), names in self.shares.items() if names]
        rest = [self.waits_until_s, self.has_revoked, self.revocations, self.spaced_until_s]
        packed: bytes = msgpack.packb([FORMAT_MEMORY, shares, *rest])
        return packed

    @classmethod
    def decode(cls, memory: bytes) -> Memory:
        if not memory:
            return cls()
        try:
            version, *fields = msgpack.unpackb(memory, use_list=False)
            if version != FORMAT_MEMORY:
                return cls()
            shares, *rest = fields
            made = cls({(bool(kind), str(identity)): _texts(names) for kind, identity, names in shares}, *rest)
            made._check()
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            raise InvalidArgument(f"memory: is not that of an incremental plan: {error}", field="memory") from None
        return made

    def _check(self) -> None:
        times = [time for time in (self.waits_until_s, self.spaced_until_s) if time is not None]
        if not all(math.isfinite(time) for time in times):
            raise ValueError("a time is not finite")
        if type(self.has_revoked) is not bool or type(self.revocations) is not int:
            raise ValueError("a count has another type")


def _texts(names: Any) -> tuple[str, ...]:
    if not all(isinstance(name, str) for name in names):
        raise ValueError("a resource is no text")
    return tuple(names)


@dataclass(frozen=True, slots=True)
class Incremental:
    """delay_max_s: seconds that the share of a member that is gone waits; 0: none. Five minutes are Kafka's default."""

    delay_max_s: float = 300.0
    name: str = "incremental"
    is_cooperative: bool = True

    def __post_init__(self) -> None:
        if not self.delay_max_s >= 0:
            raise ConfigError(f"delay_max_s: must be 0 or more, not {self.delay_max_s}", field="delay_max_s")

    def assign(
        self, members: Sequence[Member], resources: Resources, *, now_s: float = 0.0, memory: bytes = b""
    ) -> Plan:
        board = Board.of(members, resources)
        past = Memory.decode(memory)
        said = board.statements()
        owners = board.owners(said)
        gone = _unstated(board, past, said, owners)
        until_s = self._waits_until(past.waits_until_s, bool(gone), now_s)
        waiting = gone if until_s is not None else {}
        target, now = self._target(board, past, owners, waiting, now_s)
        ends_s = [one for one in (until_s, now.spaced_until_s) if one is not None]
        plan = board.cooperative_plan(
            target, said, owners, waiting=waiting, next_plan_s=min(ends_s) - now_s if ends_s else None
        )
        shares = {member.order: plan.assignments[member.id] for member in board.members}
        for name, member in waiting.items():
            shares[member] = (*shares.get(member, ()), name)
        return replace(plan, memory=replace(now, shares=shares, waits_until_s=until_s).encode())

    def _waits_until(self, until_s: float | None, has_gone: bool, now_s: float) -> float | None:
        """The end of the delay; None when nothing waits, or has waited long enough."""
        if not has_gone or self.delay_max_s == 0:
            return None
        if until_s is None:
            return now_s + self.delay_max_s
        return None if now_s >= until_s - TUNE_EARLY_S else min(until_s, now_s + self.delay_max_s)

    def _target(
        self,
        board: Board,
        past: Memory,
        owners: Mapping[str, int],
        waiting: Mapping[str, tuple[bool, str]],
        now_s: float,
    ) -> tuple[dict[str, int], Memory]:
        """Who shall have what, and the memory of how often something was taken away; its other fields are void."""
        if waiting:
            return sticky_target(board, owners, can_move=False, without=waiting.keys()), Memory()
        target = sticky_target(board, owners)
        if all(target[name] == place for name, place in owners.items()):
            return target, Memory()
        if past.spaced_until_s is not None and now_s >= past.spaced_until_s - TUNE_EARLY_S:
            return target, Memory(has_revoked=True, revocations=past.revocations)
        revocations, until_s = past.revocations, past.spaced_until_s
        if until_s is None:
            spacing_s = 0.0
            if past.has_revoked:
                revocations += 1
                # The exponent is bounded: 40 to the power of 200 seconds is longer than any delay, and no overflow.
                spacing_s = min(TUNE_SPACING_S * TUNE_SPACING_FACTOR ** min(revocations, 200), self.delay_max_s)
            if spacing_s == 0:
                return target, Memory(has_revoked=True, revocations=revocations)
            until_s = now_s + spacing_s
        until_s = min(until_s, now_s + self.delay_max_s)
        return sticky_target(board, owners, can_move=False), Memory(
            has_revoked=True, revocations=revocations, spaced_until_s=until_s
        )


def _unstated(
    board: Board, past: Memory, said: Mapping[str, list[int]], owners: dict[str, int]
) -> dict[str, tuple[bool, str]]:
    """Resources that a member had and nobody states: with who had them, if it is gone; given back in owners, if not."""
    place_of = {member.order: place for place, member in enumerate(board.members)}
    gone: dict[str, tuple[bool, str]] = {}
    for member, names in past.shares.items():
        for name in names:
            if name in board.topic_of and name not in said:
                place = place_of.get(member)
                if place is None:
                    gone[name] = member
                elif board.may_have(place, name):
                    owners[name] = place
    return gone
