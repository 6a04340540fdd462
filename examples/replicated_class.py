"""Seats of a theatre, sold by three box offices that never sell one twice.

    python examples/replicated_class.py

Each office is a node. Here all three run in one process, in production each in its own. The house is a plain class: its
commands run on every node in the same order, so each office has all of it and answers questions by itself.
"""

from __future__ import annotations

import raftmeta
from raftmeta.testing import Cluster


@raftmeta.replicated
class House:
    """Who sits where."""

    def __init__(self) -> None:
        self.seats: dict[int, str] = {}

    @raftmeta.command
    def sell(self, seat: int, to: str) -> int:
        """Sell a seat; return how many are sold."""
        if not 1 <= seat <= 100:
            raise raftmeta.Rejected(f"there is no seat {seat}")
        if seat in self.seats:
            raise raftmeta.Rejected(f"seat {seat} is sold", {"to": self.seats[seat]})
        self.seats[seat] = to
        return len(self.seats)

    def who(self, seat: int) -> str | None:
        return self.seats.get(seat)

    @raftmeta.invariant
    def house_is_not_larger(self) -> bool:
        """An invariant: `raftmeta sim examples.replicated_class:House` asks it after every command."""
        return all(1 <= seat <= 100 for seat in self.seats)


def main() -> None:
    with Cluster(3) as cluster:
        offices = [node.replicated("house", House) for node in cluster.running()]
        print("sold:", offices[0].sell(7, "ann"))
        try:
            offices[1].sell(7, "bob")
        except raftmeta.Rejected as rejection:
            print("rejected:", rejection, rejection.details)
        print("asked elsewhere:", offices[2].who(7))

        leader = cluster.leader()
        cluster.kill(leader)
        office = next(node for node in cluster.running()).replicated("house", House)
        print(f"sold after {leader.name} was killed:", office.sell(8, "bob"))


if __name__ == "__main__":
    main()
