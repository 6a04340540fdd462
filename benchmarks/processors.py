"""Processor time of a process and all that it started: what a busy machine does not change much.

On a machine that others use, wall times tell little; processor time beside them tells what the work costs.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Spins for a share of each 2 ms until its input is closed.
BURNER = """
import select, sys, time
share = float(sys.argv[1])
while not select.select([sys.stdin], [], [], 0)[0]:
    end_s = time.perf_counter() + 0.002 * share
    while time.perf_counter() < end_s:
        pass
    time.sleep(0.002 * (1.0 - share))
"""


def processor_s(*, without: Collection[int] = ()) -> float:
    """Processor time of this process and its descendants until now; without: those pids, and what they started."""
    parents, used = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has just ended; its parent has its time
            fields = stat.read_text().rpartition(")")[2].split()
            parents[int(stat.parent.name)] = int(fields[1])
            used[int(stat.parent.name)] = sum(map(int, fields[11:15]))
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours - set(without):
        ours |= more
    return sum(used[pid] for pid in ours) / TICKS_PER_S


def thread_s(pid: int, name: str) -> float:
    """Processor time until now of the threads of this name in a process."""
    found = 0
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        text = stat.read_text()
        if text.partition("(")[2].rpartition(")")[0] == name:
            found += sum(map(int, text.rpartition(")")[2].split()[11:13]))
    return found / TICKS_PER_S


@contextmanager
def burning(processors: float) -> Iterator[None]:
    """As much processor time as that many processors have is used by others during the block."""
    count = max(1, os.cpu_count() or 1)
    share = min(1.0, processors / count)
    command = [sys.executable, "-S", "-c", BURNER, str(share)]
    burners = [subprocess.Popen(command, stdin=subprocess.PIPE) for _ in range(count)]
    try:
        yield
    finally:
        for burner in burners:
            burner.communicate()
