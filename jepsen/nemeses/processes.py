"""Processes that die, stand still, or are started anew."""

from __future__ import annotations

import signal
from functools import partial
from pathlib import Path
from typing import ClassVar

from jepsen.cgroup import Group
from jepsen.db import WaitFailed
from jepsen.nemesis import Harm, Nemesis, Target

STATE_S = 5.0  # for a signal to be seen in /proc
ROLL_S = 20.0  # for a broker that was started to serve


def has_state(pid: int, letter: str) -> bool:
    """Whether a process has this state in /proc: T is stopped, Z dead and not waited for."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == letter


class Kill(Nemesis):
    """SIGKILL. observed: processes that ended by it."""

    name = "kill"
    targets: ClassVar[tuple[Target, ...]] = ("one", "minority", "majority", "primaries", "all")
    harm = Harm.LIFE
    lasts_s = (0.0, 3.0)

    def begin(self, nodes: tuple[str, ...]) -> str:
        self.struck = nodes
        for name in nodes:
            self.cluster.nodes[name].begin_kill()
        for name in nodes:
            self.cluster.nodes[name].kill()
            self.observed += self.cluster.nodes[name].exit_code == -signal.SIGKILL
        return "SIGKILL"

    def end(self) -> None:
        for name in self.struck:
            if not self.cluster.nodes[name].is_alive:
                self.cluster.start(name)


class Pause(Nemesis):
    """SIGSTOP, later SIGCONT: it stands still, and believes that no time has passed. observed: seen stopped."""

    name = "pause"
    targets: ClassVar[tuple[Target, ...]] = ("one", "minority", "majority", "primaries", "all")
    harm = Harm.LIFE
    lasts_s = (0.5, 5.0)

    def begin(self, nodes: tuple[str, ...]) -> str:
        self.struck = nodes
        for name in nodes:
            self.cluster.nodes[name].pause()
        for name in nodes:
            is_stopped = partial(has_state, self.cluster.nodes[name].pid, "T")
            self.cluster.wait_for(is_stopped, f"{name} to stop", timeout_s=STATE_S)
            self.observed += 1
        return "SIGSTOP"

    def end(self) -> None:
        for name in self.struck:
            self.cluster.nodes[name].resume()


class Freeze(Nemesis):
    """The freezer of a control group: all threads stand still between two instructions, and no signal tells."""

    name = "freeze"
    targets = ("one", "minority", "primaries", "all")
    harm = Harm.LIFE
    lasts_s = (0.5, 5.0)

    @classmethod
    def requires(cls) -> str | None:
        return Group.missing("freezer")

    def begin(self, nodes: tuple[str, ...]) -> str:
        self.struck = nodes
        for name in nodes:
            node, group = self.cluster.nodes[name], self.cluster.group(name)
            node.is_paused = True
            group.add(node.pid)
            group.freeze()
        for name in nodes:
            self.cluster.wait_for(self.cluster.group(name).is_frozen, f"{name} to freeze", timeout_s=STATE_S)
            self.observed += 1
        return "frozen"

    def end(self) -> None:
        for name in self.struck:
            self.cluster.group(name).thaw()
            self.cluster.nodes[name].is_paused = False


class RollingRestart(Nemesis):
    """Close and start one broker after the other, each when the one before serves again. observed: those restarted."""

    name = "rolling-restart"
    targets = ("all",)
    harm = Harm.LIFE
    lasts_s = (0.0, 0.0)

    def begin(self, nodes: tuple[str, ...]) -> str:
        for name in nodes:
            node = self.cluster.nodes[name]
            boot = node.report.get("boot", 0)
            node.close()
            self.cluster.start(name)
            try:
                self.cluster.wait_ready(name, timeout_s=ROLL_S)
            except WaitFailed:
                return f"closed and started as far as {name}, which other faults keep from being ready"
            self.observed += node.report["boot"] > boot
        return "closed and started, one by one"

    def end(self) -> None:
        for name, node in self.cluster.nodes.items():
            if node.is_ended and node.life > 0 and not node.is_alive and name in self.cluster.voters():
                self.cluster.start(name)


NEMESES = (Kill, Pause, Freeze, RollingRestart)
