"""Clocks that are wrong, by the shim (jepsen/faults/shim.py). What is ordered by a clock of the run stays true."""

from __future__ import annotations

from abc import abstractmethod
from random import Random
from typing import ClassVar

from jepsen.db import Brokers
from jepsen.faults.resources import Shims
from jepsen.faults.shim import Page
from jepsen.faults.shim import missing as shim_missing
from jepsen.nemesis import Nemesis, Target

HOUR_S, YEAR_S = 3600.0, 365 * 86400.0


class Clock(Nemesis):
    """observed: readings of a clock that was wrong."""

    targets: ClassVar[tuple[Target, ...]] = ("one", "minority", "primaries", "all")

    def __init__(self, cluster: Brokers, random: Random) -> None:
        super().__init__(cluster, random)
        self._reads_before: dict[str, int] = {}

    @classmethod
    def requires(cls) -> str | None:
        return shim_missing()

    def prepare(self) -> None:
        self._pages = self.cluster.resource(Shims).pages

    @abstractmethod
    def turn(self, page: Page) -> str:
        """Make the clocks of one broker wrong; how."""

    def restore(self, page: Page) -> None:
        """Make them right again, as far as clocks can be."""

    def begin(self, nodes: tuple[str, ...]) -> str:
        self._reads_before = {name: self._pages[name].clock_reads for name in nodes}
        return " ".join(f"{name}: {self.turn(self._pages[name])}" for name in nodes)

    def end(self) -> None:
        for name, before in self._reads_before.items():
            self.observed += self._pages[name].clock_reads - before
            self.restore(self._pages[name])
        self._reads_before = {}


class WallClock(Clock):
    """The wall clock leaps, each broker's by something else, and back."""

    name = "clock-wall"

    def turn(self, page: Page) -> str:
        seconds = self.random.choice((1.0, HOUR_S, 10 * YEAR_S)) * self.random.choice((-1, 1))
        page.set_wall_offset(seconds)
        return f"{seconds:+g} s"

    def restore(self, page: Page) -> None:
        page.set_wall_offset(0.0)


class SteadyLeap(Clock):
    """The steady clocks leap ahead, as if the machine had slept, and nobody else's did."""

    name = "clock-leap"
    lasts_s = (0.5, 2.0)

    def turn(self, page: Page) -> str:
        seconds = self.random.choice((0.1, 1.0, 30.0))
        page.leap(seconds)
        return f"+{seconds:g} s"


class Drift(Clock):
    """The steady clocks run too fast or too slow, within what holders of leases allow for."""

    name = "clock-drift"
    lasts_s = (3.0, 6.0)
    rates: ClassVar[tuple[float, ...]] = (0.98, 0.99, 1.01, 1.02)  # of two clocks together less than 5 %

    def turn(self, page: Page) -> str:
        rate = self.random.choice(self.rates)
        page.set_rate(rate)
        return f"x {rate:g}"

    def restore(self, page: Page) -> None:
        page.set_rate(1.0)


class Runaway(Drift):
    """The steady clocks run far too fast or too slow: what a holder believes may be wrong, only fences protect."""

    name = "clock-runaway"
    rates = (0.5, 0.8, 1.2, 1.5)


NEMESES = (WallClock, SteadyLeap, Drift, Runaway)
