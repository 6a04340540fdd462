"""Hosts that get little of the processor, or whose Python does not run."""

from __future__ import annotations

from concurrent.futures import Future
from random import Random
from typing import Any

from jepsen.cgroup import Group
from jepsen.db import Brokers
from jepsen.nemesis import Nemesis
from tests.processes.child import hold_gil
from tests.processes.remote import ProcessGone, RemoteError

CPU_SHARE = 0.02  # of one processor: far below what an idle broker needs
GIL_S = 3.0


class StarveCpu(Nemesis):
    """A fiftieth of a processor. observed: periods in which the broker had to wait for the next."""

    name = "cpu"
    targets = ("one", "minority", "primaries")
    lasts_s = (2.0, 6.0)

    def __init__(self, cluster: Brokers, random: Random) -> None:
        super().__init__(cluster, random)
        self._before = 0

    @classmethod
    def requires(cls) -> str | None:
        return Group.missing("cpu")

    def begin(self, nodes: tuple[str, ...]) -> str:
        alive = tuple(name for name in nodes if self.cluster.nodes[name].is_alive)
        self.struck = alive
        self._before = sum(self.cluster.group(name).throttled for name in alive)
        for name in alive:
            self.cluster.group(name).add(self.cluster.nodes[name].pid)
            self.cluster.group(name).limit_cpu(CPU_SHARE)
        return f"{CPU_SHARE:g} of a processor for {' '.join(alive)}"

    def end(self) -> None:
        for name in self.struck:
            self.cluster.group(name).limit_cpu(None)
        self.observed += sum(self.cluster.group(name).throttled for name in self.struck) - self._before


class HoldGil(Nemesis):
    """The host holds the GIL for seconds, as a hung C extension does. observed: brokers that said nothing meanwhile."""

    name = "gil"
    targets = ("one", "minority", "primaries", "all")
    lasts_s = (GIL_S, GIL_S)

    def __init__(self, cluster: Brokers, random: Random) -> None:
        super().__init__(cluster, random)
        self._holding: list[Future[Any]] = []

    def begin(self, nodes: tuple[str, ...]) -> str:
        alive = [name for name in nodes if self.cluster.nodes[name].is_answering]
        self._holding = [self.cluster.nodes[name].begin(hold_gil, GIL_S) for name in alive]
        return f"{GIL_S:g} s in {' '.join(alive)}"

    def end(self) -> None:
        for holding in self._holding:
            try:
                self.observed += holding.result(3 * GIL_S) >= GIL_S
            except (ProcessGone, RemoteError, TimeoutError):
                continue  # killed, or frozen, by another nemesis meanwhile
        self._holding = []


NEMESES = (StarveCpu, HoldGil)
