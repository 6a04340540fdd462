"""Disks that are slow, full, without power, or say no: what was promised is on them all the same."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable
from random import Random
from typing import ClassVar

from jepsen.clock import NS_PER_S
from jepsen.db import Brokers, WaitFailed
from jepsen.faults import images
from jepsen.faults.images import MIB, cut_power
from jepsen.faults.resources import Disks, Shims
from jepsen.faults.shim import Action, Calls, Rule
from jepsen.faults.shim import missing as shim_missing
from jepsen.nemesis import Harm, Nemesis, Target

STRUCK_S = 3.0  # for a broker under load to make the call that is struck
SKIP_MAX = 60  # syncs that pass before the one at which the power fails: into the middle of a snapshot, too


class ShimmedDisk(Nemesis):
    """Rules of the shim in force while it lasts. observed: calls that were struck."""

    targets: ClassVar[tuple[Target, ...]] = ("one", "minority", "primaries", "all")

    def __init__(self, cluster: Brokers, random: Random) -> None:
        super().__init__(cluster, random)
        self._rules: list[Rule] = []

    @classmethod
    def requires(cls) -> str | None:
        return shim_missing()

    def prepare(self) -> None:
        self._pages = self.cluster.resource(Shims).pages

    def end(self) -> None:
        for rule in self._rules:
            rule.end()
            self.observed += rule.struck
        self._rules = []


class SlowDisk(ShimmedDisk):
    """Each sync takes 20 to 500 ms longer."""

    name = "slow-disk"
    lasts_s = (2.0, 6.0)

    def begin(self, nodes: tuple[str, ...]) -> str:
        delay_s = self.random.choice((0.02, 0.1, 0.5))
        for name in nodes:
            rule = self._pages[name].strike(Calls.SYNC, Action.DELAY, value=round(delay_s * NS_PER_S))
            self._rules.append(rule)
        return f"{delay_s:g} s for each sync"


class ShortWrites(ShimmedDisk):
    """Every second write of the log takes half of its bytes, and says so.

    Not of the checkpoint: LMDB calls that an input/output error, and a disk that fails stops the node.
    """

    name = "short-writes"

    def begin(self, nodes: tuple[str, ...]) -> str:
        for name in nodes:
            self._rules.append(self._pages[name].strike(Calls.WRITE, Action.SHORTEN, path=".log", chance=0.5))
        return "every second write"


class FailingDisk(ShimmedDisk):
    """One sync or write fails with EIO: the node stops for good, and is started again later."""

    name = "disk-error"
    harm = Harm.LIFE
    lasts_s = (0.0, 2.0)

    def begin(self, nodes: tuple[str, ...]) -> str:
        self.struck = nodes
        calls = self.random.choice((Calls.SYNC, Calls.WRITE))
        for name in nodes:
            node = self.cluster.nodes[name]
            node.is_ended = True  # it will end by itself, and that is on purpose
            place = f"{node.folder}/"
            skip = self.random.randrange(10)
            rule = self._pages[name].strike(calls, Action.FAIL, path=place, value=errno.EIO, skip=skip, count=1)
            self._rules.append(rule)
        _wait(self.cluster, lambda: all(rule.struck for rule in self._rules), "a call to fail")
        return f"EIO at a {calls.name.lower() if calls.name else calls}"

    def end(self) -> None:
        super().end()
        for name in self.struck:
            self.cluster.nodes[name].kill()
            self.cluster.start(name)
        self.struck = ()


class OnDisks(Nemesis):
    """One that needs a disk for each broker."""

    harm = Harm.LIFE

    @classmethod
    def requires(cls) -> str | None:
        return images.missing() or shim_missing()

    def prepare(self) -> None:
        self._disks = self.cluster.resource(Disks).disks


class PowerCut(OnDisks):
    """What was not synced is gone, also what was written past the page cache: all of it or some, torn between sectors.

    At once, or when one of the brokers is about to sync or has just done so.

    observed: disks that lost their power.
    """

    name = "power-cut"
    targets = ("one", "minority", "majority", "primaries", "all")
    lasts_s = (0.0, 2.0)

    def prepare(self) -> None:
        super().prepare()
        shims = self.cluster.resource(Shims)
        shims.keep_unsynced(self._disks)
        self._pages, self._unsynced = shims.pages, shims.unsynced

    def begin(self, nodes: tuple[str, ...]) -> str:
        self.struck = nodes
        for name in nodes:
            self.cluster.nodes[name].is_ended = True
        action = self.random.choice((None, Action.CUT_BEFORE, Action.CUT_AFTER))
        if action is None or not self._cut_at_sync(nodes, action):
            cut_power(self._disks[name] for name in nodes)
        for name in nodes:
            self.cluster.nodes[name].kill()
        self.observed += len(nodes)
        return "at once" if action is None else action.name.lower().replace("_", " ") + " a sync"

    def _cut_at_sync(self, nodes: tuple[str, ...], action: Action) -> bool:
        """Let the first of them take all with it; whether it came to that sync in time."""
        node, page = self.cluster.nodes[nodes[0]], self._pages[nodes[0]]
        page.cut_with(self._disks[name].mount for name in nodes)
        skip = self.random.randrange(SKIP_MAX)
        rule = page.strike(Calls.SYNC, action, path=str(node.folder), skip=skip, count=1)
        _wait(self.cluster, lambda: rule.struck > 0, "a sync")
        rule.end()
        return rule.struck > 0

    def end(self) -> None:
        for name in self.struck:
            self.cluster.nodes[name].kill()
            self._disks[name].remount()
            self._unsynced[name].take_back(seed=self.random.getrandbits(32), is_cut=True)
            self.cluster.start(name)
        self.struck = ()


class FullDisk(OnDisks):
    """Less room is left than a node keeps in reserve, or none at all. observed: disks that got so full.

    A node may make room meanwhile, by files that it keeps for comfort.
    """

    name = "disk-full"
    targets = ("one", "minority", "majority", "primaries", "all")
    lasts_s = (2.0, 5.0)

    def begin(self, nodes: tuple[str, ...]) -> str:
        self.struck = nodes
        left = {name: self._disks[name].fill(self.random.choice((0, MIB // 2, MIB))) for name in nodes}
        self.observed += sum(count <= 2 * MIB for count in left.values())
        return " ".join(f"{name}: {count} bytes left" for name, count in left.items())

    def end(self) -> None:
        for name in self.struck:
            self._disks[name].drain()
        self.struck = ()


def _wait(cluster: Brokers, condition: Callable[[], bool], what: str) -> None:
    """For a call that a broker under load soon makes; one that does not, is not struck this time."""
    with contextlib.suppress(WaitFailed):
        cluster.wait_for(condition, what, timeout_s=STRUCK_S)


NEMESES = (SlowDisk, ShortWrites, FailingDisk, PowerCut, FullDisk)
