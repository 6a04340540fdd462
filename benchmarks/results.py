"""Results as files: one small JSON for each suite, with what a figure needs beside it to be comparable.

It decides whether a run counts: figures taken while other programs used the machine are marked as noisy, and neither
the README nor the page shows them as results.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.measure import Row
from benchmarks.native import ROOT

RESULTS = ROOT / "benchmarks" / "results"
TRIALS = ROOT / "build" / "benchmarks" / "results"
SCRATCH = ROOT / "build" / "benchmarks" / "data"
LOOK_S = 2.0
BUSY_MAX = 0.25  # processors that others may use before and after a run that counts
PACKAGES = ("raftmeta", "uvloop", "lmdb", "Cython", "pysyncobj")


def busy_processors() -> float:
    """How many of the machine's processors others use just now, over LOOK_S."""
    before = _busy_ticks()
    time.sleep(LOOK_S)
    return (_busy_ticks() - before) / os.sysconf("SC_CLK_TCK") / LOOK_S


def _busy_ticks() -> int:
    user, nice, system, _idle, _wait, irq, soft_irq, stolen = map(
        int, Path("/proc/stat").read_text().split("\n")[0].split()[1:9]
    )
    return user + nice + system + irq + soft_irq + stolen


def file_system_of(folder: Path) -> str:
    """Its type, as the kernel names it: ext4, xfs, tmpfs."""
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    above = [(place, kind) for place, kind in mounts if folder.resolve().is_relative_to(place)]
    return max(above, key=lambda mount: len(mount[0]))[1]


def machine(folder: Path) -> dict[str, Any]:
    """The machine and the versions. folder: where nodes keep their data."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": model[0] if model else platform.machine(),
        "processors": len(os.sched_getaffinity(0)),
        "memory_gib": round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1),
        "file system": file_system_of(folder),
        "kernel": platform.release(),
        "python": platform.python_version(),
        **{package: version(package) for package in PACKAGES},
    }


def commit() -> str:
    """The commit that was measured, with a + when files differ from it."""
    found = _git("rev-parse", "--short", "HEAD")
    return found + "+" if _git("status", "--porcelain", "--untracked-files=no") else found


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True).stdout.strip()


def report(
    suite: str, title: str, rows: list[Row], *, command: str, busy: tuple[float, float], folder: Path
) -> dict[str, Any]:
    """What is written for a suite. busy: processors that others used before and after it; folder: of the data."""
    return {
        "suite": suite,
        "title": title,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": commit(),
        "command": command,
        "machine": machine(folder),
        "busy_before": round(busy[0], 2),
        "busy_after": round(busy[1], 2),
        "is_noisy": max(busy) > BUSY_MAX,
        "rows": [row.to_json() for row in rows],
    }


def write(found: dict[str, Any], folder: Path) -> Path:
    """One row to a line, so that a difference between two runs can be read."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = ",\n".join("  " + json.dumps(row) for row in found["rows"])
    head = json.dumps({name: value for name, value in found.items() if name != "rows"}, indent=1)
    path = folder / f"{found['suite']}.json"
    path.write_text(f'{head[:-2]},\n "rows": [\n{rows}\n ]\n}}\n')
    return path


def read_all(folder: Path) -> dict[str, dict[str, Any]]:
    """Reports by suite; files of other shapes in the folder are none."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        told = json.loads(path.read_text())
        if "rows" in told and "suite" in told:
            found[told["suite"]] = told
    return found
