"""Control groups of a run: one for each broker to be frozen or starved. Both versions of the kernel's interface.

Version 1 has a hierarchy for each controller, version 2 one for all.
"""

from __future__ import annotations

import os
from pathlib import Path

from jepsen.keeper import Keeper

ROOT = Path("/sys/fs/cgroup")
PERIOD_US = 100_000
V2_FILES = {"freezer": "cgroup.freeze", "cpu": "cpu.max"}
V1_FILES = {"freezer": "freezer.state", "cpu": "cpu.cfs_quota_us"}


def _is_v2() -> bool:
    return (ROOT / "cgroup.controllers").exists()


class Group:
    """The control group of one broker; it goes with the keeper. name: unique on the machine, by the run's id."""

    def __init__(self, name: str, keeper: Keeper) -> None:
        self._is_v2 = _is_v2()
        self._folders = (
            dict.fromkeys(V2_FILES, ROOT / name)
            if self._is_v2
            else {controller: ROOT / controller / name for controller in V1_FILES}
        )
        for folder in set(self._folders.values()):
            keeper.announce("cgroup", folder)
            folder.mkdir()

    @staticmethod
    def missing(controller: str) -> str | None:
        """Why a controller ("freezer", "cpu") cannot be used here, None if it can."""
        if os.geteuid() != 0:
            return "control groups need root"
        if _is_v2():
            enabled = (ROOT / "cgroup.subtree_control").read_text().split()
            return (
                None
                if controller == "freezer" or controller in enabled
                else f"cgroup.subtree_control lacks {controller}"
            )
        is_there = (ROOT / controller).is_dir() and os.access(ROOT / controller, os.W_OK)
        return None if is_there else f"the machine has no writable control group hierarchy for {controller}"

    def add(self, pid: int) -> None:
        """Take a process with all its threads in."""
        for folder in set(self._folders.values()):
            (folder / "cgroup.procs").write_text(str(pid))

    def freeze(self) -> None:
        self._write("freezer", "1" if self._is_v2 else "FROZEN")

    def thaw(self) -> None:
        self._write("freezer", "0" if self._is_v2 else "THAWED")

    def is_frozen(self) -> bool:
        """Whether all of it stands still."""
        if self._is_v2:
            return "frozen 1" in (self._folders["freezer"] / "cgroup.events").read_text()
        return (self._folders["freezer"] / V1_FILES["freezer"]).read_text().strip() == "FROZEN"

    def limit_cpu(self, share: float | None) -> None:
        """Give it so much of one processor; None: as much as there is."""
        quota_us = None if share is None else int(share * PERIOD_US)
        if self._is_v2:
            self._write("cpu", f"{'max' if quota_us is None else quota_us} {PERIOD_US}")
        else:
            self._write("cpu", str(-1 if quota_us is None else quota_us))

    @property
    def throttled(self) -> int:
        """How often its processes had to wait for the next period."""
        stat = dict(line.split() for line in (self._folders["cpu"] / "cpu.stat").read_text().splitlines())
        return int(stat["nr_throttled"])

    def _write(self, controller: str, text: str) -> None:
        (self._folders[controller] / (V2_FILES if self._is_v2 else V1_FILES)[controller]).write_text(text)
