"""cooperative-sticky: the balance and the moves of sticky, while everything that does not move goes on.

It decides which resources a member gives up before another one gets them. The first plan takes them away, and asks for
a second plan, which gives them out. After the first plan nobody owns a resource that another member is to have, so
between the two plans no resource has two owners.

There is no third plan. Everything that members own after the first plan is where its target puts it. The second plan
can keep all of that and still reach the same balance, so the fewest moves are those of the resources without an owner.

Source: KIP-429 Kafka Consumer Incremental Rebalance Protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from raftmeta.assignors.board import Board
from raftmeta.assignors.shapes import Member, Plan, Resources
from raftmeta.assignors.sticky import sticky_target

__all__ = ["CooperativeSticky"]


@dataclass(frozen=True, slots=True)
class CooperativeSticky:
    """Two plans; only resources that move are given up."""

    name: str = "cooperative-sticky"
    is_cooperative: bool = True

    def assign(
        self, members: Sequence[Member], resources: Resources, *, now_s: float = 0.0, memory: bytes = b""
    ) -> Plan:
        board = Board.of(members, resources)
        said = board.statements()
        owners = board.owners(said)
        return board.cooperative_plan(sticky_target(board, owners), said, owners)
