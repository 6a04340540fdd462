"""What a nemesis is: it does harm to a cluster, takes it back, and proves that it was felt.

    requires()     why it cannot run on this machine, None if it can; nothing is skipped silently
    prepare()      once, before any broker starts: hooks of jepsen/db.py
    begin(nodes)   strike these; on return the fault acts
    end()          heal: on return everything that was struck works again, or is on its way there by itself
    observed       how often, so far, the fault was really seen to act: packets lost, processes gone, ticks throttled

begin and end come in turns, on a thread of the schedule (jepsen/schedule.py); other nemeses act at the same time. Which
nodes may be struck is the atlas's to say (jepsen/atlas.py). A run in which a nemesis that struck was never observed
fails: a fault that did nothing has tested nothing.

A nemesis never decides when it strikes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum
from random import Random
from typing import ClassVar, Literal

from jepsen.db import Brokers

# Of the voters; primaries: those that say they lead; none: no broker by itself. Of the observers: one, or all; feeder:
# a node that feeds one of them.
Target = Literal["none", "one", "minority", "majority", "primaries", "all", "observer", "observers", "feeder"]


class Harm(Enum):
    """What a strike takes from a node, and so what may not strike it at the same time."""

    NONE = "none"  # of its links, its clocks, its share of the processor: any number at once
    LIFE = "life"  # its process: one at a time for each node
    STORAGE = "storage"  # what it has promised to keep: jepsen/atlas.py
    MEMBERS = "members"  # its place in the membership: one change at a time


class Nemesis(ABC):
    """name: on the command line and in faults.parquet. targets: the words it may be aimed with.

    needs_papers: it can only strike in a secure run; needs_observers: where there are observers. lasts_s: how long a
    strike lasts, at least and at most, in seconds. struck: what begin struck and end shall heal.
    """

    name: ClassVar[str]
    targets: ClassVar[tuple[Target, ...]]
    harm: ClassVar[Harm] = Harm.NONE
    needs_papers: ClassVar[bool] = False
    needs_observers: ClassVar[bool] = False
    lasts_s: ClassVar[tuple[float, float]] = (2.0, 5.0)

    def __init__(self, cluster: Brokers, random: Random) -> None:
        self.cluster = cluster
        self.random = random
        self.observed = 0
        self.struck: tuple[str, ...] = ()

    @classmethod
    def requires(cls) -> str | None:
        """Why it cannot run on this machine, in words that say what to do; None if it can."""
        return None

    def prepare(self) -> None:  # noqa: B027  # most have nothing to prepare
        """Hook in before the brokers start. By default nothing."""

    @abstractmethod
    def begin(self, nodes: tuple[str, ...]) -> str:
        """Strike these nodes; what exactly was done, for the timeline."""

    @abstractmethod
    def end(self) -> None:
        """Heal what begin did. Also called when begin raised, and then undoes what was done so far."""
