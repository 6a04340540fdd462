"""rendezvous: each resource goes to the member with the highest hash of resource and member.

It decides by names alone, so it needs no memory and no statement of who owns what. A member that leaves moves its own
resources only, and a new one only those that it gets. Loads are those of chance: with n resources and m members a load
is n/m, give or take about the square root of n/m.

The hash of a pair mixes a hash of each name (BLAKE2b, 8 bytes) as splitmix64 ends: two multiplications modulo 2^64.
Source: Thaler and Ravishankar, "Using name-based mappings to increase hit rates" (1998).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from raftmeta.assignors.board import Board
from raftmeta.assignors.shapes import Member, Plan, Resources

__all__ = ["Rendezvous"]

FORMAT_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # of splitmix64; other ones would move every resource
BITS_64 = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """Static members are hashed by their instance, others by their id."""

    name: str = "rendezvous"
    is_cooperative: bool = True

    def assign(
        self, members: Sequence[Member], resources: Resources, *, now_s: float = 0.0, memory: bytes = b""
    ) -> Plan:
        board = Board.of(members, resources)
        seeds = [_hash(member.identity) for member in board.members]
        target: dict[str, int] = {}
        for topic, names in resources.topics.items():
            if places := board.eligible[topic]:
                asking = [(seeds[place], place) for place in places]
                for name in names:
                    target[name] = _highest(_hash(name), asking)
        said = board.statements()
        return board.cooperative_plan(target, said, board.owners(said))


def _hash(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")


def _highest(resource: int, asking: Sequence[tuple[int, int]]) -> int:
    """The place of the member with the highest hash; of equal ones the first."""
    first, second = FORMAT_MULTIPLIERS
    highest, found = -1, -1
    for seed, place in asking:
        mixed = (seed ^ resource) * first & BITS_64
        mixed = (mixed ^ mixed >> 27) * second & BITS_64
        if mixed > highest:
            highest, found = mixed, place
    return found
