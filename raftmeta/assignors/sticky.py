"""sticky: the best balance, and among the best plans one with the fewest moves. Eager: everybody stops meanwhile.

It decides which resources stay, and who gets the others. Sources: KIP-54 Sticky Partition Assignment Strategy; the
balance is that of assignors/balance, which is stricter than Kafka's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from raftmeta.assignors.balance import ResourceClass, balanced, filled
from raftmeta.assignors.board import Board
from raftmeta.assignors.shapes import Member, Plan, Resources

__all__ = ["Sticky", "sticky_target"]


@dataclass(frozen=True, slots=True)
class Sticky:
    """Everybody gives up everything, and gets back as much of it as the balance allows."""

    name: str = "sticky"
    is_cooperative: bool = False

    def assign(
        self, members: Sequence[Member], resources: Resources, *, now_s: float = 0.0, memory: bytes = b""
    ) -> Plan:
        board = Board.of(members, resources)
        return Plan(board.assignments(sticky_target(board, board.owners(board.statements()))))


def sticky_target(
    board: Board, owners: Mapping[str, int], *, can_move: bool = True, without: Collection[str] = ()
) -> dict[str, int]:
    """The place of the member that shall have each resource. owners: who has it now, where somebody has.

    can_move: False leaves each resource with its owner, and only gives out the others. without: resources to leave out.
    """
    names_of: dict[tuple[int, ...], list[str]] = {}
    for name, topic in board.topic_of.items():
        if name not in without:
            names_of.setdefault(board.eligible[topic], []).append(name)
    classes = []
    for eligible, names in names_of.items():
        owned: dict[int, int] = {}
        for name in names:
            if (place := owners.get(name)) is not None:
                owned[place] = owned.get(place, 0) + 1
        classes.append(ResourceClass(len(names), eligible, owned))
    counts = (balanced if can_move else filled)(len(board.members), classes)
    target: dict[str, int] = {}
    for names, count in zip(names_of.values(), counts, strict=True):
        target.update(_dealt(names, owners, count))
    return target


def _dealt(names: Sequence[str], owners: Mapping[str, int], count: Mapping[int, int]) -> dict[str, int]:
    """Who gets each resource of a class: owners keep their first ones, the others are dealt out in turns.

    count: how many each member gets. Turns spread the partitions of one topic over many members.
    """
    left = dict(count)
    dealt: dict[str, int] = {}
    for name in names:
        place = owners.get(name)
        if place is not None and left[place]:
            left[place] -= 1
            dealt[name] = place
    free = iter([name for name in names if name not in dealt])
    while takers := [place for place, more in left.items() if more]:
        for place in takers:
            left[place] -= 1
            dealt[next(free)] = place
    return dealt
