"""Storage that is lost: what a node promised to keep is damaged or gone. The atlas says when a cluster can bear that.

Each ends with a start of the node, which looks at all of its log: so damage is found before another node is struck.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from jepsen.faults import damage
from jepsen.faults.damage import NothingToDamage
from jepsen.nemesis import Harm, Nemesis, Target

FLIPS_MAX = 4


class LostStorage(Nemesis):
    """observed: strikes that found something to damage."""

    targets: ClassVar[tuple[Target, ...]] = ("one", "minority", "primaries")
    harm = Harm.STORAGE
    lasts_s = (1.0, 4.0)  # also the patience for a moment at which the atlas allows it

    @abstractmethod
    def damage(self, name: str) -> str:
        """Strike the files of one broker; what was done. Raises NothingToDamage."""

    def begin(self, nodes: tuple[str, ...]) -> str:
        self.struck = nodes
        told = []
        for name in nodes:
            try:
                told.append(f"{name}: {self.damage(name)}")
                self.observed += 1
            except NothingToDamage as error:
                told.append(f"{name}: {error}")
        return " ".join(told)

    def end(self) -> None:
        for name in self.struck:
            self.cluster.nodes[name].kill()
            self.cluster.start(name)
        self.struck = ()


class Wipe(LostStorage):
    """The folder is gone: the node comes back as another incarnation."""

    name = "wipe"

    def damage(self, name: str) -> str:
        self.cluster.nodes[name].kill()
        damage.wipe(self.cluster.nodes[name].folder)
        return "wiped"


class LostTail(LostStorage):
    """The end of the log is gone, though it was synced."""

    name = "lost-tail"

    def damage(self, name: str) -> str:
        self.cluster.nodes[name].kill()
        path, offset, length = damage.lose_tail(self.cluster.nodes[name].folder, self.random)
        return f"{path.name} from {offset}, {length} bytes"


class Flips(LostStorage):
    """Some bits, below a running node or one that is down."""

    snapshots: ClassVar[bool]

    def damage(self, name: str) -> str:
        node = self.cluster.nodes[name]
        if self.random.random() < 0.5:
            node.kill()
        files = damage.snapshot_files(node.folder) if self.snapshots else damage.log_files(node.folder)
        if not files:
            raise NothingToDamage(f"{node.folder}: no such file yet")
        count = self.random.randint(1, FLIPS_MAX)
        return " ".join(str(damage.flip(self.random.choice(files), self.random)) for _ in range(count))


class FlipLog(Flips):
    """In segments of the log."""

    name = "flip-log"
    snapshots = False


class FlipSnapshots(Flips):
    """In sealed files and in the checkpoint."""

    name = "flip-snapshots"
    snapshots = True


NEMESES = (Wipe, LostTail, FlipLog, FlipSnapshots)
