"""Planted bugs: mistakes that Raft implementations made, as patches of this one; each must fall to an invariant.

A patch in patches/ begins with a header: Title; Source, where the mistake is warned of or was made; Profile, the worlds
of tests/mutants/hunt.py in which it is looked for first; Tests, of a bug that no world can show: the arguments of
pytest under which a test must fail; Harmless, of a change that must survive. A unified diff follows.

This file decides which modules a patch rebuilds, and where. It must never change the checkout.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from email.parser import Parser
from functools import cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PATCHES = Path(__file__).resolve().parent / "patches"
HUNT = Path(__file__).resolve().parent / "hunt.py"
BESIDE = ("docs", "jepsen", "demo", "examples", "benchmarks")  # that tests import, or read
BUILD_FILES = ("setup.py", "pyproject.toml", "README.md", "LICENSE")
NOT_COPIED = shutil.ignore_patterns("*.cpp", "__pycache__")


class PlantingFailed(Exception):
    """A patch does not apply, does not build, or its hunt did not end: the message is the tool's own."""


@dataclass(frozen=True)
class Planted:
    """One planted bug, or one harmless change."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.stem

    @cached_property
    def _header(self) -> dict[str, str]:
        return dict(Parser().parsestr(self.path.read_text(), headersonly=True).items())

    @property
    def title(self) -> str:
        return self._header["Title"]

    @property
    def source(self) -> str:
        return self._header["Source"]

    @property
    def profile(self) -> str:
        """Name of the worlds in which it is looked for first; empty: those of the swarm only."""
        return self._header.get("Profile", "")

    @property
    def tests(self) -> list[str]:
        """Arguments of pytest for the tests that must find it; empty: it is hunted in worlds."""
        return shlex.split(self._header.get("Tests", ""))

    @property
    def is_harmless(self) -> bool:
        return "Harmless" in self._header

    @property
    def modules(self) -> list[str]:
        """The compiled modules that the patch touches."""
        files = [line[6:].strip() for line in self.path.read_text().splitlines() if line.startswith("+++ b/")]
        return [file.removesuffix(".pyx").replace("/", ".") for file in files]

    @property
    def is_of_core(self) -> bool:
        """Does it touch the core, the one part that small worlds are made of?"""
        return any(module.startswith(("raftmeta._core", "raftmeta.raft.")) for module in self.modules)

    def apply(self, folder: Path, *, only_check: bool = False) -> None:
        """Apply the patch to the sources in folder. Raises PlantingFailed when they have moved on from it."""
        command = ["git", "apply", "-C1", *(["--check"] if only_check else []), str(self.path)]
        # A folder below a repository would be taken for a part of it.
        _run(command, folder, {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)})


@dataclass(frozen=True, slots=True)
class SmallFind:
    """Where a bug fell in a small world."""

    violation: str
    world: str  # its name in tests/mutants/hunt.py
    states: int  # of all small worlds until then
    actions: int  # of the history that is told


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one planted bug."""

    planted: Planted
    violation: str | None  # which invariant fell in the worlds of events, and how; None: it survived them
    world: str  # name and seed of the world that fell; of the profile when none did
    events: int  # of all worlds until then
    small: SmallFind | None  # None: it survived every history of the small worlds
    build_s: float
    hunt_s: float

    @property
    def is_killed(self) -> bool:
        return self.violation is not None or self.small is not None

    @property
    def is_as_it_should_be(self) -> bool:
        return self.is_killed != self.planted.is_harmless


def planted_bugs() -> list[Planted]:
    """All of them, the harmless ones last."""
    found = [Planted(path) for path in sorted(PATCHES.glob("*.patch"))]
    return sorted(found, key=lambda planted: (planted.is_harmless, planted.name))


def copy_sources(target: Path) -> None:
    """A copy of the checkout as far as it is needed to rebuild a module of it, with what is built already."""
    for name in ("raftmeta", "release"):
        shutil.copytree(ROOT / name, target / name, ignore=NOT_COPIED)
    for name in BUILD_FILES:
        shutil.copy2(ROOT / name, target / name)


def build(planted: Planted, folder: Path) -> None:
    """Plant the bug in a copy of the sources and build the modules that it touches."""
    copy_sources(folder)
    planted.apply(folder)
    only = ",".join(planted.modules)
    _run([sys.executable, "setup.py", "build_ext", "--inplace", "--parallel=1", f"--only={only}"], folder, None)


def hunt(planted: Planted, folder: Path, events_max: int) -> dict[str, Any]:
    """Run worlds of the copy until one falls or events_max are over, and the small worlds: what hunt.py found.

    A world that falls without the bug as well proves nothing: it is passed over, and told of.
    """
    passed_over: list[str] = []
    command = [planted.profile or "swarm", str(events_max), "1" if planted.is_of_core else "0"]
    while True:
        found: dict[str, Any] = json.loads(_hunt(folder, *command, *passed_over))
        large = found["large"]
        if large["violation"] is None or not falls_without_bug(large["world"]):
            return found
        print(f"{large['world']} falls without a bug, too: {large['violation']}", file=sys.stderr, flush=True)
        passed_over.append(large["world"])


def failing_test(planted: Planted, folder: Path) -> str | None:
    """The first of its tests that fails over the copy; None: all pass.

    The tests of the checkout run over the package in the copy. Raises PlantingFailed: one fails without the bug, too.
    """
    shutil.copytree(ROOT / "tests", folder / "tests", ignore=NOT_COPIED)
    for name in BESIDE:
        (folder / name).symlink_to(ROOT / name)
    found = _failing(planted, folder)
    if found is not None and (other := _failing(planted, ROOT)) is not None:
        raise PlantingFailed(f"{other} fails without {planted.name}, too")
    return found


def _failing(planted: Planted, folder: Path) -> str | None:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", "-p", "no:cacheprovider", *planted.tests]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode == 0:
        return None
    failed = re.search(r"^(?:FAILED|ERROR) [^ ]*?::(\w+)", done.stdout, re.MULTILINE)
    if done.returncode != 1 or failed is None:
        raise PlantingFailed(f"pytest in {folder}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return failed.group(1)


def falls_without_bug(world: str) -> bool:
    """Does this world of hunt.py fall in the checkout itself?"""
    return json.loads(_hunt(ROOT, "--live", world)) is not None


def _hunt(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return _run([sys.executable, str(HUNT), str(folder), *arguments], folder, environment)


def _run(command: list[str], folder: Path, environment: dict[str, str] | None) -> str:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        raise PlantingFailed(f"{' '.join(command[:4])} in {folder}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout
