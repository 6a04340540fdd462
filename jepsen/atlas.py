"""Which nodes may be struck: the rule that keeps every run one that the cluster must survive.

- A process is in the hands of one nemesis at a time, so that none restarts what another has killed.
- One change of membership at a time is under way, and no storage is lost meanwhile: a membership of three that becomes
  one of two has no disk to spare.
- Storage may be lost (flipped bits, a wiped disk, a lost tail) only while intact, up-to-date voters elsewhere form a
  quorum: what was acknowledged is then still on the disks of enough of them. A node that was struck so is damaged until
  it is a voter again that has caught up. `ruin` lifts this rule: then nothing promises progress, and the cluster must
  halt rather than lie.

Crashes, pauses, power cuts and partitions of all nodes at once are always allowed: what was promised is on their disks.

The atlas decides who may be struck; it strikes nobody.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from random import Random

from jepsen.db import Brokers, WaitFailed
from jepsen.nemesis import Harm, Nemesis, Target

UP_TO_DATE_S = 2.0  # for which voters may take to write down what was committed when they were asked


@dataclass(frozen=True, slots=True)
class Aim:
    """Nodes in the hands of a nemesis. word: how they were aimed at."""

    nemesis: str
    harm: Harm
    word: str
    nodes: tuple[str, ...]


class Atlas:
    """Any thread may call it."""

    def __init__(self, cluster: Brokers, random: Random, *, is_ruin: bool = False) -> None:
        self._cluster = cluster
        self._random = random
        self._is_ruin = is_ruin
        self._lock = threading.Lock()
        self._aims: list[Aim] = []
        self._damaged: set[str] = set()

    def aim(self, nemesis: Nemesis) -> Aim | None:
        """Nodes that the nemesis may strike now, by one of its words; None when there are none at the moment."""
        words = list(nemesis.targets)
        self._random.shuffle(words)
        with self._lock:
            for word in words:
                nodes = self._nodes_for(word, nemesis.harm)
                if nodes is not None and self._may_strike(nodes, nemesis.harm):
                    aim = Aim(nemesis.name, nemesis.harm, word, nodes)
                    self._aims.append(aim)
                    if nemesis.harm is Harm.STORAGE:
                        self._damaged.update(nodes)
                    return aim
        return None

    def release(self, aim: Aim) -> None:
        """Give the nodes back; what lost storage stays damaged until it was seen whole again."""
        with self._lock:
            self._aims.remove(aim)

    def _nodes_for(self, word: Target, harm: Harm) -> tuple[str, ...] | None:
        """Nodes for a word, of those that are free; None when there are not enough."""
        voters = list(self._cluster.voters())
        free = voters if harm is Harm.NONE else [name for name in voters if name not in self._held()]
        if word == "primaries":
            primaries = [
                name for name in self._cluster.answering() if self._cluster.nodes[name].report["role"] == "leader"
            ]
            return tuple(primaries) if primaries and set(primaries) <= set(free) else None
        if word in ("observer", "observers", "feeder"):
            return self._beside_voters(word)
        most = len(voters) // 2 + 1
        count = {"none": 0, "one": 1, "minority": max(len(voters) - most, 1), "majority": most, "all": len(voters)}[
            word
        ]
        return tuple(self._random.sample(free, count)) if count <= len(free) else None

    def _beside_voters(self, word: Target) -> tuple[str, ...] | None:
        """Observers that are free, or a node that feeds one: a member or another observer."""
        free = [name for name in self._cluster.observers if name not in self._held()]
        if word == "observers":
            return tuple(free) if free and len(free) == len(self._cluster.observers) else None
        if word == "feeder":
            fed = [self._cluster.nodes[name] for name in self._cluster.observers]
            feeders = {node.report["feeder"] for node in fed if node.is_answering} - {"", *self._held()}
            free = [name for name in sorted(feeders) if name in self._cluster.nodes]
        return (self._random.choice(free),) if free else None

    def _held(self) -> set[str]:
        """Nodes whose process is in somebody's hands; who changes members has all spares."""
        held = {name for aim in self._aims if aim.harm is not Harm.NONE for name in aim.nodes}
        if any(aim.harm is Harm.MEMBERS for aim in self._aims):
            held.update(self._cluster.spares)
        return held

    def _may_strike(self, nodes: tuple[str, ...], harm: Harm) -> bool:
        if harm is Harm.MEMBERS:
            return all(aim.harm is not Harm.MEMBERS for aim in self._aims) and not self._lost()
        if harm is Harm.STORAGE and not self._is_ruin:
            is_changing = any(aim.harm is Harm.MEMBERS for aim in self._aims)
            return not is_changing and self._is_survivable(set(nodes) | self._lost())
        return True

    def _lost(self) -> set[str]:
        """Nodes that lost storage and are not whole again."""
        held = self._held()
        self._damaged = {name for name in self._damaged if name in held or not self._is_whole(name)}
        return self._damaged

    def _is_whole(self, name: str) -> bool:
        node, leader = self._cluster.nodes[name], self._cluster.leader()
        if leader is None or not node.is_answering or not node.report["is_ready"] or name not in self._cluster.voters():
            return False
        told = self._cluster.nodes[leader].report
        return name not in told["lost_disks"] and self._has(name, told["committed"])

    def _has(self, name: str, index: int) -> bool:
        """Whether the node has written down everything up to this index."""
        node = self._cluster.nodes[name]
        try:
            self._cluster.wait_for(
                lambda: node.is_answering and node.report["persisted"] >= index, f"{name}", timeout_s=UP_TO_DATE_S
            )
        except WaitFailed:
            return False
        return True

    def _is_survivable(self, lost: set[str]) -> bool:
        """Do voters that keep their disks, and have everything that is committed, form a quorum?"""
        voters = self._cluster.voters()
        reports = [self._cluster.nodes[name].report for name in self._cluster.answering()]
        committed = max((report["committed"] for report in reports), default=None)
        if committed is None:
            return False
        intact = [name for name in voters if name not in lost and self._has(name, committed)]
        return 2 * len(intact) > len(voters)
