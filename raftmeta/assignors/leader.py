"""one-leader: one member has a whole topic, and keeps it as long as it may.

It decides who that is: of the members that ask for the topic, the one that owns something of it by the newest plan;
without one, that with the smallest identity. Cooperative, so a leader goes on while others come and go.
Source: the writer of Confluent's Schema Registry, which is elected by a group of the protocol type "sr".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from raftmeta.assignors.board import Board
from raftmeta.assignors.shapes import Member, Plan, Resources

__all__ = ["OneLeader"]


@dataclass(frozen=True, slots=True)
class OneLeader:
    """Each topic is an election: who asks for it is a candidate."""

    name: str = "one-leader"
    is_cooperative: bool = True

    def assign(
        self, members: Sequence[Member], resources: Resources, *, now_s: float = 0.0, memory: bytes = b""
    ) -> Plan:
        board = Board.of(members, resources)
        said = board.statements()
        owners = board.owners(said)
        target: dict[str, int] = {}
        for topic, names in resources.topics.items():
            if candidates := board.eligible[topic]:
                leading = {owners[name] for name in names if name in owners}
                target.update(dict.fromkeys(names, _leader(board, sorted(leading) or candidates, bool(leading))))
        return board.cooperative_plan(target, said, owners)


def _leader(board: Board, places: Sequence[int], are_leading: bool) -> int:
    """Of members that lead the newest, of candidates the smallest."""

    def rank(place: int) -> tuple[int, str, int]:
        member = board.members[place]
        return -member.generation if are_leading else 0, member.identity, place

    return min(places, key=rank)
