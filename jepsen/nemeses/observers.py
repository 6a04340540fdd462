"""Harm to observers and to those that feed them (docs/observers.md).

No quorum counts an observer, so any of them may be struck at any time. A feeder is a member or another observer.
"""

from __future__ import annotations

from typing import ClassVar

from jepsen.nemeses.partitions import Partition, between
from jepsen.nemeses.processes import Kill, Pause
from jepsen.nemeses.storage import Wipe
from jepsen.nemesis import Harm, Target
from jepsen.network import Direction


class ObserverKill(Kill):
    """SIGKILL for an observer, all of them, or one that feeds an observer. observed: processes that ended by it."""

    name = "observer-kill"
    targets: ClassVar[tuple[Target, ...]] = ("observer", "observers", "feeder")
    needs_observers = True


class ObserverPause(Pause):
    """SIGSTOP for an observer, or for one that feeds an observer; later SIGCONT. observed: seen stopped."""

    name = "observer-pause"
    targets: ClassVar[tuple[Target, ...]] = ("observer", "feeder")
    needs_observers = True


class ObserverCut(Partition):
    """Observers are cut off from their feeders alone, or from everybody. observed: packets that were lost."""

    name = "observer-cut"
    targets: ClassVar[tuple[Target, ...]] = ("observer", "observers")
    needs_observers = True

    def directions(self, nodes: tuple[str, ...]) -> set[Direction]:
        brokers = self.cluster.nodes
        if self.random.random() < 0.5:
            return between(nodes, set(brokers) - set(nodes))
        feeders = {name: brokers[name].report.get("feeder", "") for name in nodes}
        return set().union(
            *(between({name}, {feeder}) for name, feeder in feeders.items() if feeder in brokers)
        ) or between(nodes, set(brokers) - set(nodes))


class ObserverWipe(Wipe):
    """The folder of an observer is gone; it begins with nothing. observed: folders."""

    name = "observer-wipe"
    targets: ClassVar[tuple[Target, ...]] = ("observer",)
    harm = Harm.LIFE
    needs_observers = True


NEMESES = (ObserverKill, ObserverPause, ObserverCut, ObserverWipe)
