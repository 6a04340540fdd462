"""Frames between brokers that are lost, late, repeated, overtaken or damaged, by the proxy (jepsen/faults/proxy.py)."""

from __future__ import annotations

from abc import abstractmethod
from random import Random
from typing import ClassVar

from jepsen.db import Brokers
from jepsen.faults.proxy import FrameFault
from jepsen.faults.resources import Proxies
from jepsen.nemesis import Nemesis, Target


class Frames(Nemesis):
    """Strikes what the nodes send, what is sent to them, or both. observed: frames that met the fault."""

    targets: ClassVar[tuple[Target, ...]] = ("one", "minority", "primaries", "all")
    counter: ClassVar[str]  # of the proxy

    def __init__(self, cluster: Brokers, random: Random) -> None:
        super().__init__(cluster, random)
        self._before = 0

    def prepare(self) -> None:
        self._proxies = self.cluster.resource(Proxies)

    @abstractmethod
    def fault(self) -> FrameFault:
        """What happens to each frame this time."""

    def begin(self, nodes: tuple[str, ...]) -> str:
        way, fault = self.random.choice(("from", "to", "from and to")), self.fault()
        others = self.cluster.nodes
        directions = {
            (source, target)
            for one in nodes
            for other in others
            if one != other
            for source, target in ((one, other), (other, one))
            if way == "from and to" or (source == one) == (way == "from")
        }
        self._before = self._proxies.counters()[self.counter]
        self._proxies.set(self, dict.fromkeys(directions, fault))
        return f"{way} {' '.join(nodes)}: {fault}"

    def end(self) -> None:
        self._proxies.set(self, {})
        self.observed += self._proxies.counters()[self.counter] - self._before


class Drop(Frames):
    """A twentieth to a half is lost."""

    name = "frames-drop"
    counter = "drop"

    def fault(self) -> FrameFault:
        return FrameFault(drop=self.random.uniform(0.05, 0.5))


class Delay(Frames):
    """From far below an election time-out to above it."""

    name = "frames-delay"
    counter = "delay"

    def fault(self) -> FrameFault:
        return FrameFault(delay_s=self.random.uniform(0.0, 0.4), jitter_s=self.random.uniform(0.0, 0.4))


class Duplicate(Frames):
    """Up to every one comes twice."""

    name = "frames-duplicate"
    counter = "duplicate"

    def fault(self) -> FrameFault:
        return FrameFault(duplicate=self.random.uniform(0.1, 1.0))


class Reorder(Frames):
    """Overtaken by the next one."""

    name = "frames-reorder"
    counter = "reorder"

    def fault(self) -> FrameFault:
        return FrameFault(reorder=self.random.uniform(0.1, 0.5))


class Corrupt(Frames):
    """A bit is flipped: each costs a connection."""

    name = "frames-corrupt"
    counter = "corrupt"

    def fault(self) -> FrameFault:
        return FrameFault(corrupt=self.random.uniform(0.01, 0.1))


class Truncate(Frames):
    """Cut off in the middle, and the connection with it."""

    name = "frames-truncate"
    counter = "truncate"

    def fault(self) -> FrameFault:
        return FrameFault(truncate=self.random.uniform(0.01, 0.1))


NEMESES = (Drop, Delay, Duplicate, Reorder, Corrupt, Truncate)
