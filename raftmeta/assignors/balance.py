"""The balance: how many resources of each class each member gets, with the fewest moves.

Resources that the same members may have are alike: they are one class. So the problem is a flow of counts, and its size
does not grow with the number of resources. Of all ways to give every resource to a member that may have it, `balanced`
finds one with

1. the least sum of squared loads. Loads then differ as little as they can: with one class by at most one, with several
   no chain of moves would make a higher load lower at the cost of a load that is lower by two or more.
2. among those, the fewest resources that leave the member that has them.

A start is made by filling up from the lowest load. As long as a circle of moves with a negative price is left, it is
taken; without one, a flow is the cheapest (Klein's cycle-cancelling, circles found by Bellman and Ford's relaxation).
Prices are integers: a change of the squared sum, times more than all moves of a circle can cost, plus the moves.

Sources: Harvey, Ladner, Lovász, Tamir, "Semi-matchings for bipartite graphs and load balancing" (2003): a least sum of
squares is also the least for every other strictly convex measure of the loads. Klein, "A primal method for minimal cost
flows" (1967).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace

__all__ = ["ResourceClass", "balanced"]


@dataclass(frozen=True, slots=True)
class ResourceClass:
    """size: its resources. eligible: who may have them, ascending. owned: how many of them each member has already."""

    size: int
    eligible: tuple[int, ...]
    owned: dict[int, int]


def balanced(members: int, classes: Sequence[ResourceClass]) -> list[dict[int, int]]:
    """For each class, how many of its resources each eligible member gets. members: their number."""
    if len(classes) == 1:
        return [_of_one_class(classes[0])]
    counts = filled(members, classes)
    loads = [0] * members
    for count in counts:
        for member, has in count.items():
            loads[member] += has
    while _level(counts, loads):
        pass
    flow = _Flow(classes, counts, loads)
    while flow.improve():
        pass
    return counts


def filled(members: int, classes: Sequence[ResourceClass]) -> list[dict[int, int]]:
    """As balanced, but all that is owned stays where it is: resources without an owner go to the lowest loads."""
    counts = [dict.fromkeys(one.eligible, 0) | one.owned for one in classes]
    loads = [0] * members
    for count in counts:
        for member, has in count.items():
            loads[member] += has
    # The most bound first: a class that few may have finds its members still empty.
    for number in sorted(range(len(classes)), key=lambda number: (len(classes[number].eligible), number)):
        _fill(classes[number], counts[number], loads)
    return counts


def _of_one_class(one: ResourceClass) -> dict[int, int]:
    """Everybody gets the floor of the mean, and who owns most one more: nothing that fits moves."""
    floor, extra = divmod(one.size, len(one.eligible))
    by_owned = sorted(one.eligible, key=lambda member: -one.owned.get(member, 0))
    above = set(by_owned[:extra])
    return {member: floor + (member in above) for member in one.eligible}


def _fill(one: ResourceClass, count: dict[int, int], loads: list[int]) -> None:
    """Give the resources without an owner one by one to the lowest load."""
    free = one.size - sum(count.values())
    lowest = [(loads[member], member) for member in one.eligible]
    heapify(lowest)
    for _ in range(free):
        load, member = lowest[0]
        count[member] += 1
        loads[member] = load + 1
        heapreplace(lowest, (load + 1, member))


def _level(counts: list[dict[int, int]], loads: list[int]) -> bool:
    """Move resources within each class from the highest to the lowest load; whether any moved.

    It only makes the start good, so that few circles are left.
    """
    has_moved = False
    for count in counts:
        while givers := [member for member, has in count.items() if has]:
            giver, taker = max(givers, key=loads.__getitem__), min(count, key=loads.__getitem__)
            if loads[giver] - loads[taker] < 2:
                break
            count[giver] -= 1
            count[taker] += 1
            loads[giver] -= 1
            loads[taker] += 1
            has_moved = True
    return has_moved


class _Flow:
    """The residual graph. Nodes: members, then classes, then the hub, through which a load moves from one to another.

    An edge member -> class says that the member gives up one of the class, class -> member that the member takes one.
    hub -> member lowers the load of the member, member -> hub raises it.
    """

    def __init__(self, classes: Sequence[ResourceClass], counts: list[dict[int, int]], loads: list[int]) -> None:
        self._classes = classes
        self._counts = counts
        self._loads = loads
        self._hub = len(loads) + len(classes)
        self._load_price = 2 * (self._hub + 1)  # more than the moves of a circle, which enters each node once
        self._of_member: list[list[int]] = [[] for _ in loads]
        for number, one in enumerate(classes):
            for member in one.eligible:
                self._of_member[member].append(number)

    def improve(self) -> bool:
        """Take circles of negative price; False: there is none."""
        before = self._relax()
        taken: set[int] = set()
        found = False
        for circle in self._circles(before):
            if not taken.intersection(circle):
                taken.update(circle)
                self._take(circle)
                found = True
        return found

    def _edges(self, node: int) -> list[tuple[int, int]]:
        """(target, price) of each move that is possible at a node."""
        members, hub = len(self._loads), self._hub
        if node == hub:
            return [(member, self._load_price * (1 - 2 * load)) for member, load in enumerate(self._loads) if load]
        if node >= members:
            number = node - members
            owned, count = self._classes[number].owned, self._counts[number]
            return [(member, 1 if has >= owned.get(member, 0) else 0) for member, has in count.items()]
        edges = [(hub, self._load_price * (2 * self._loads[node] + 1))]
        for number in self._of_member[node]:
            if has := self._counts[number][node]:
                edges.append((members + number, -1 if has > self._classes[number].owned.get(node, 0) else 0))
        return edges

    def _relax(self) -> list[int]:
        """The node before each node on the cheapest way to it; -1 without one. Stops once these ways close a circle."""
        nodes = self._hub + 1
        price = [0] * nodes
        before = [-1] * nodes
        waiting = deque(range(nodes))
        is_waiting = [True] * nodes
        relaxed = 0
        while waiting:
            node = waiting.popleft()
            is_waiting[node] = False
            base = price[node]
            for target, step in self._edges(node):
                if base + step < price[target]:
                    price[target] = base + step
                    before[target] = node
                    relaxed += 1
                    if not is_waiting[target]:
                        is_waiting[target] = True
                        waiting.append(target)
            if relaxed >= nodes:
                relaxed = 0
                if next(self._circles(before), None) is not None:
                    return before
        return before

    def _circles(self, before: list[int]) -> Iterator[list[int]]:
        """The circles that the ways close, each once, as nodes in the direction of the moves.

        A circle of cheapest ways has a negative price: otherwise a way back to its own node would not be cheaper.
        """
        seen = [-1] * len(before)
        for start in range(len(before)):
            node = start
            while node >= 0 and seen[node] < 0:
                seen[node] = start
                node = before[node]
            if node < 0 or seen[node] != start:
                continue
            circle = [node]
            while (node := before[node]) != circle[0]:
                circle.append(node)
            yield circle[::-1]

    def _take(self, circle: list[int]) -> None:
        """Move one resource along each edge of a circle."""
        members, hub = len(self._loads), self._hub
        for source, target in zip(circle, [*circle[1:], circle[0]], strict=True):
            if source == hub:
                self._loads[target] -= 1
            elif target == hub:
                self._loads[source] += 1
            elif source < members:
                self._counts[target - members][source] -= 1
            else:
                self._counts[source - members][target] += 1
