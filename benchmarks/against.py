"""This tree beside another one: both run the same rows by turns, and each row has the ratio of the two.

    python -m benchmarks against FOLDER [SUITE ...] [-k REGEX] [--turns N]

FOLDER is a whole tree of another commit whose extensions are built. Each turn runs the rows once in each tree, in a
process of its own, and which tree begins changes from turn to turn. The ratio of a turn compares two runs that lie
seconds apart, so a machine that is slower for minutes changes neither. It decides nothing: it shows the median ratio
and the least and the greatest beside it.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from benchmarks.measure import rounded
from benchmarks.native import ROOT

TABLE_WIDTH = 130  # a row has to stay on one line, in a file too


class TreeFailed(Exception):
    """The benchmarks of a tree ended with an error; its last lines are the text."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One row in both trees. here, there: its value in each turn, in `unit`."""

    suite: str
    name: str
    unit: str
    here: Sequence[float]
    there: Sequence[float]

    @property
    def ratios(self) -> list[float]:
        """Here divided by there, turn by turn; turns in which there is nothing to divide by are left out."""
        return [mine / its for mine, its in zip(self.here, self.there, strict=True) if its]

    def to_json(self) -> dict[str, Any]:
        ratios = self.ratios
        return {
            "suite": self.suite,
            "name": self.name,
            "unit": self.unit,
            "here": rounded(statistics.median(self.here)),
            "there": rounded(statistics.median(self.there)),
            "ratio": rounded(statistics.median(ratios)) if ratios else None,
            "least": rounded(min(ratios)) if ratios else None,
            "greatest": rounded(max(ratios)) if ratios else None,
            "turns": len(self.here),
        }


def run_tree(tree: Path, suites: Sequence[str], selection: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Measure the rows in one tree; by suite and row, as its JSON has them."""
    folder = tree / "build" / "benchmarks" / "results"
    for suite in suites:
        (folder / f"{suite}.json").unlink(missing_ok=True)
    command = [sys.executable, "-m", "benchmarks", "run", *suites, "-k", selection, "--noisy"]
    ended = subprocess.run(
        command, cwd=tree, env={**os.environ, "PYTHONPATH": str(tree)}, capture_output=True, text=True
    )
    if ended.returncode:
        raise TreeFailed(f"{tree}: {' '.join(command)} ended with {ended.returncode}\n{ended.stdout[-2000:]}")
    found = {}
    for suite in suites:
        path = folder / f"{suite}.json"
        rows = json.loads(path.read_text())["rows"] if path.exists() else []
        found.update({(suite, row["name"]): row for row in rows})
    return found


def compare(
    other: Path,
    suites: Sequence[str],
    selection: str,
    *,
    turns: int,
    step: Callable[[str], None],
    run: Callable[[Path, Sequence[str], str], Mapping[tuple[str, str], dict[str, Any]]] = run_tree,
) -> list[Pair]:
    """Rows that both trees have in every turn. step: told the tree before each of its runs."""
    trees = (ROOT, other)  # `other` may be this tree: that shows how much the machine itself differs
    found: tuple[list[Any], list[Any]] = ([], [])
    for turn in range(turns):
        for which in (0, 1) if turn % 2 == 0 else (1, 0):
            step(f"turn {turn + 1} of {turns}: {trees[which]}")
            found[which].append(run(trees[which], suites, selection))
    here, there = found
    return [
        Pair(*key, row["unit"], *([rows[key]["value"] for rows in runs] for runs in found))
        for key, row in here[0].items()
        if all(key in rows for rows in here + there)
    ]


def table_of(pairs: Sequence[Pair], other: Path) -> Table:
    """A line for each row: both medians, and the ratio with the least and the greatest of all turns."""
    table = Table(title=f"this tree beside {other}")
    for heading in ("row", "here", "there", "here / there", "of all turns"):
        table.add_column(heading, justify="left" if heading == "row" else "right", no_wrap=True)
    for pair in pairs:
        told = pair.to_json()
        if told["ratio"] is None:
            continue
        table.add_row(
            f"{pair.suite}: {pair.name}",
            f"{told['here']:,g}{pair.unit}",
            f"{told['there']:,g}{pair.unit}",
            f"{told['ratio']:.3f}",
            f"{told['least']:.3f} to {told['greatest']:.3f}",
        )
    return table
