"""Processor time of a process and all that it started: what a busy machine does not change much.

On a machine that others use, wall times tell little; processor time beside them tells what the work costs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
SAMPLE_S = 0.1
# Uses processor time as its argument says, [[seconds from its start, processor seconds until then], ...], until its
# input is closed, and tells how much it had. What others kept it from it makes up for: wall time that it merely spun
# through would be less than was asked for where they want the processors, too.
BURNER = """
import json, select, sys, time
steps = json.loads(sys.argv[1])
begun_s, used_s, step = time.perf_counter(), time.process_time(), 0
while not select.select([sys.stdin], [], [], 0)[0]:
    now_s = time.perf_counter() - begun_s
    while step < len(steps) - 1 and steps[step][0] <= now_s:
        step += 1
    while time.process_time() - used_s < steps[step][1] and time.perf_counter() - begun_s < now_s + 0.01:
        pass
    if time.process_time() - used_s >= steps[step][1]:
        time.sleep(0.001)
print(time.process_time() - used_s)
"""

Steps = list[tuple[float, float]]  # wall seconds from a beginning, processor seconds used until then


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


class Stopwatch:
    """Times since it was made, of this process: by the clock, on processors, and as if no other program ran.

    The kernel counts how long each thread was ready to run and another one had its processor. A figure of Python code,
    one thread at a time, is free of other programs without that. Threads that waited at the same time are counted each,
    so the rest could be too little; it is never less than the processor time. It keeps all other waiting: for answers,
    for the disk, for the GIL.
    """

    def __init__(self) -> None:
        self._delays = thread_delays_s()
        self._processor_s = time.process_time()
        self._began_s = time.perf_counter()

    def read(self) -> tuple[float, float, float]:
        """(wall seconds, processor seconds, wall seconds without waiting for a processor)."""
        wall_s = time.perf_counter() - self._began_s
        used_s = time.process_time() - self._processor_s
        delays = thread_delays_s()
        waited_s = sum(delay_s - self._delays.get(thread, 0.0) for thread, delay_s in delays.items())
        return wall_s, used_s, min(wall_s, max(used_s, wall_s - waited_s))


def thread_delays_s() -> dict[int, float]:
    """How long each thread of this process has waited for a processor, in seconds, by its id."""
    found = {}
    for path in Path("/proc/self/task").glob("*/schedstat"):
        with suppress(OSError):  # it has just ended
            found[int(path.parent.name)] = int(path.read_text().split()[1]) / 1e9
    return found


def process_s(pid: int) -> float:
    """Processor time until now of one process, all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / TICKS_PER_S


def thread_s(pid: int, name: str) -> float:
    """Processor time until now of the threads of this name in a process."""
    found = 0
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        text = stat.read_text()
        if text.partition("(")[2].rpartition(")")[0] == name:
            found += sum(map(int, text.rpartition(")")[2].split()[11:13]))
    return found / TICKS_PER_S


@contextmanager
def recording(used_s: Callable[[], float]) -> Iterator[Steps]:
    """What used_s tells during the block, from its beginning on, every SAMPLE_S and at its end."""
    steps: Steps = []
    is_over = threading.Event()
    begun_s, before_s = time.perf_counter(), used_s()

    def sample() -> None:
        steps.append((time.perf_counter() - begun_s, used_s() - before_s))

    def sample_on() -> None:
        while not is_over.wait(SAMPLE_S):
            sample()

    sampler = threading.Thread(target=sample_on)
    sampler.start()
    try:
        yield steps
    finally:
        is_over.set()
        sampler.join()
        sample()


@dataclass(slots=True)
class Burnt:
    """What burners used, known when they ended."""

    processor_s: float = 0.0


@contextmanager
def burning(steps: Steps) -> Iterator[Burnt]:
    """As much processor time is used by others during the block, and at the same times, as far as they get it.

    They are twice as many as processors: so many threads of Spark and its workers want them at a time.
    """
    count = 2 * max(1, os.cpu_count() or 1)
    shares = [(at_s, used_s / count) for at_s, used_s in steps]
    command = [sys.executable, "-S", "-c", BURNER, json.dumps(shares)]
    burners = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(count)]
    burnt = Burnt()
    try:
        yield burnt
    finally:
        burnt.processor_s = sum(float(burner.communicate()[0]) for burner in burners)


def evenly(steps: Steps) -> Steps:
    """The same processor time in the same time, spread over it."""
    seconds, used_s = steps[-1]
    count = max(1, round(seconds / SAMPLE_S))
    return [(seconds * n / count, used_s * n / count) for n in range(1, count + 1)]
