"""One run of the benchmarks: which rows are wanted, where scratch folders lie, and what the user sees meanwhile.

A suite is a module of benchmarks/suites with ORDER, TITLE and `run(bench) -> list[Row]`; one with IS_LONG runs only
when it is named. It asks bench.wants() before it measures a row, and tells bench.step() what it does.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from benchmarks import suites
from benchmarks.measure import Row


class Progress(Protocol):
    """What shows the user how far a suite is."""

    def __call__(self, what: str) -> None: ...


class Suite(Protocol):
    """A module of benchmarks/suites."""

    ORDER: int
    TITLE: str

    def run(self, bench: Bench) -> list[Row]: ...


class Bench:
    """What a suite may know of the run.

    rounds, seconds, warmup_s: of each load; a trial run has one short round and small sizes, and its figures are none.
    """

    def __init__(self, folder: Path, *, selection: str, is_trial: bool, progress: Progress) -> None:
        self._folder = folder
        self._selection = re.compile(selection)
        self.is_trial = is_trial
        self.rounds = 1 if is_trial else 3
        self.seconds = 0.2 if is_trial else 1.5
        self.warmup_s = 0.1 if is_trial else 0.4
        self.suite = ""
        self.step = progress

    def wants(self, row: str) -> bool:
        """Whether the selection matches "suite: row"."""
        return bool(self._selection.search(f"{self.suite}: {row}"))

    def size(self, whole: int) -> int:
        """A number of keys, entries or watchers; a hundredth of it in a trial."""
        return max(1, whole // 100) if self.is_trial else whole

    @contextmanager
    def folder(self) -> Iterator[Path]:
        """A scratch folder on the disk that is measured; nothing of it stays."""
        with TemporaryDirectory(prefix=f"{self.suite}-", dir=self._folder) as made:
            yield Path(made)


def chosen_suites(names: Sequence[str]) -> dict[str, Suite]:
    """Those of these names; without any all but the long ones."""
    if names:
        return {name: suite for name, suite in all_suites().items() if name in names}
    return {name: suite for name, suite in all_suites().items() if not getattr(suite, "IS_LONG", False)}


def all_suites() -> dict[str, Suite]:
    """By name, in the order in which they run."""
    found = {
        module.name: importlib.import_module(f"benchmarks.suites.{module.name}")
        for module in pkgutil.iter_modules(suites.__path__)
    }
    return dict(sorted(found.items(), key=lambda named: named[1].ORDER))
