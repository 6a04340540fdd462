"""range and round-robin: plans without memory, equal to those of Kafka's assignors of these names.

They decide by the order of members and resources alone. A member that comes or goes may move nearly everything.
Sources: Kafka 3.9 RangeAssignor and RoundRobinAssignor, whose answers are recorded in tests/assignors/testdata. Racks
(KIP-881) are not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from raftmeta.assignors.board import Board
from raftmeta.assignors.shapes import Member, Plan, Resources

__all__ = ["Range", "RoundRobin"]


@dataclass(frozen=True, slots=True)
class Range:
    """Each topic is cut into as many pieces as there are members that ask for it; the first pieces have one more."""

    name: str = "range"
    is_cooperative: bool = False

    def assign(
        self, members: Sequence[Member], resources: Resources, *, now_s: float = 0.0, memory: bytes = b""
    ) -> Plan:
        board = Board.of(members, resources)
        owner_of: dict[str, int] = {}
        for topic, names in resources.topics.items():
            if places := board.eligible[topic]:
                size, longer = divmod(len(names), len(places))
                ends = [(number + 1) * size + min(number + 1, longer) for number in range(len(places))]
                for place, begin, end in zip(places, [0, *ends], ends, strict=False):
                    owner_of.update(dict.fromkeys(names[begin:end], place))
        return Plan(board.assignments(owner_of))


@dataclass(frozen=True, slots=True)
class RoundRobin:
    """All resources are dealt out in turns, in order; a member that does not ask for the topic is passed over."""

    name: str = "round-robin"
    is_cooperative: bool = False

    def assign(
        self, members: Sequence[Member], resources: Resources, *, now_s: float = 0.0, memory: bytes = b""
    ) -> Plan:
        board = Board.of(members, resources)
        owner_of: dict[str, int] = {}
        turn = 0
        for name in board.topic_of:
            while not board.may_have(turn, name):
                turn = (turn + 1) % len(board.members)
            owner_of[name] = turn
            turn = (turn + 1) % len(board.members)
        return Plan(board.assignments(owner_of))
