"""Partitions: which directions between nodes are cut. The shapes are those of Jepsen's `grudge`s.

A shape decides directions; the network cuts them where they arrive (jepsen/network.py).
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Collection
from random import Random
from typing import ClassVar

from jepsen.db import Brokers
from jepsen.nemesis import Nemesis, Target
from jepsen.network import Direction, Namespaces

HEAL_SHARE = 0.5  # of the period of a flapping link
FLAP_S = (0.05, 0.6)  # from far below an election time-out to above it


def between(one: Collection[str], other: Collection[str]) -> set[Direction]:
    """Both directions between two sides."""
    return {pair for a in one for b in other if a != b for pair in ((a, b), (b, a))}


class Partition(Nemesis):
    """Cuts what `directions` says. observed: packets that were lost to the cuts."""

    targets: ClassVar[tuple[Target, ...]] = ("all",)

    def __init__(self, cluster: Brokers, random: Random) -> None:
        super().__init__(cluster, random)
        self._lost_before = 0

    @classmethod
    def requires(cls) -> str | None:
        return Namespaces.missing()

    def prepare(self) -> None:
        network = self.cluster.network
        assert isinstance(network, Namespaces), "what requires() says was not asked"
        self._network = network

    @abstractmethod
    def directions(self, nodes: tuple[str, ...]) -> set[Direction]:
        """What to cut between these nodes."""

    def begin(self, nodes: tuple[str, ...]) -> str:
        self._lost_before = self._network.lost()
        directions = self.directions(nodes)
        self.cut(directions)
        return " ".join(f"{source}>{target}" for source, target in sorted(directions))

    def cut(self, directions: set[Direction]) -> None:
        """Let these be cut from now on."""
        self._network.cut(self, directions)

    def end(self) -> None:
        self._network.cut(self, ())
        self.observed += self._network.lost() - self._lost_before


class Halves(Partition):
    """A majority and a minority that hear nothing of each other."""

    name = "partition-halves"

    def directions(self, nodes: tuple[str, ...]) -> set[Direction]:
        side = self.random.sample(nodes, len(nodes) // 2)
        return between(side, set(nodes) - set(side))


class LeaderInMinority(Partition):
    """The leader alone, or with one other of five: what it appends is never committed."""

    name = "partition-leader"

    def directions(self, nodes: tuple[str, ...]) -> set[Direction]:
        leader = self.cluster.leader() or self.random.choice(nodes)
        others = [name for name in nodes if name != leader]
        side = {leader, *self.random.sample(others, max((len(nodes) - 1) // 2 - 1, 0))}
        return between(side, set(nodes) - side)


class OneWay(Partition):
    """One side is heard, and hears nothing: the leader as often as not."""

    name = "partition-one-way"

    def directions(self, nodes: tuple[str, ...]) -> set[Direction]:
        leader = self.cluster.leader()
        deaf = leader if leader is not None and self.random.random() < 0.5 else self.random.choice(nodes)
        others = [name for name in nodes if name != deaf]
        if self.random.random() < 0.5:
            return {(other, deaf) for other in others}
        return {(deaf, other) for other in others}


class Bridge(Partition):
    """Two halves that share one node, which hears both. Not the leader: followers have nothing to say to each other."""

    name = "partition-bridge"

    def directions(self, nodes: tuple[str, ...]) -> set[Direction]:
        leader = self.cluster.leader()
        bridge = self.random.choice([name for name in nodes if name != leader])
        others = self.random.sample([name for name in nodes if name != bridge], len(nodes) - 1)
        middle = len(others) // 2
        return between(others[:middle], others[middle:])


class Ring(Partition):
    """Each hears its neighbours on a ring only, so that with five nodes no two see the same majority.

    Of three, a ring would cut nothing: there each is heard by one neighbour and hears the other.
    """

    name = "partition-ring"

    def directions(self, nodes: tuple[str, ...]) -> set[Direction]:
        ring = self.random.sample(nodes, len(nodes))
        if len(ring) <= 3:
            return {(one, ring[number - 1]) for number, one in enumerate(ring)}
        near = {(one, ring[number - 1]) for number, one in enumerate(ring)}
        return between(ring, ring) - near - {(b, a) for a, b in near}


class Flapping(Partition):
    """The links of one node go and come, from far below an election time-out to above it."""

    name = "partition-flapping"

    def __init__(self, cluster: Brokers, random: Random) -> None:
        super().__init__(cluster, random)
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def directions(self, nodes: tuple[str, ...]) -> set[Direction]:
        one = self.random.choice(nodes)
        return between({one}, set(nodes) - {one})

    def cut(self, directions: set[Direction]) -> None:
        self._stopping.clear()
        self._thread = threading.Thread(target=self._flap, args=(directions,), daemon=True)
        self._thread.start()

    def _flap(self, directions: set[Direction]) -> None:
        while not self._stopping.is_set():
            period_s = self.random.uniform(*FLAP_S)
            self._network.cut(self, directions)
            self._stopping.wait(period_s * (1 - HEAL_SHARE))
            self._network.cut(self, ())
            self._stopping.wait(period_s * HEAL_SHARE)

    def end(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        super().end()


NEMESES = (Halves, LeaderInMinority, OneWay, Bridge, Ring, Flapping)
