"""The interfaces of KIP-30 on the blocking face, in the process of a node: fetches, and value listeners.

A fetch counts when its future has the value. Listeners are those of keys of their own; a row of them is the time until
the last is registered, so that it is told every change from then on.

The value of a row is what the clock says. Other programs take their share of it: a run at a load of 16 told a quarter
of the rate of a quiet machine. So `alone_s` is the same time without waiting for a processor, and targets are judged by
that. `processor_us` is the processor time of the whole process for one of them. Targets: issue "Promises" 10.
"""

from __future__ import annotations

import statistics
import threading
from dataclasses import asdict
from functools import partial
from typing import Any

import raftmeta
from benchmarks.bench import Bench
from benchmarks.load.values import values_of
from benchmarks.measure import Row, Sample, Target, at_least, at_most, interleaved, row_of
from benchmarks.processors import Stopwatch
from benchmarks.suites.puts import ANSWER_S
from tests.processes.cluster import Cluster

ORDER = 55
TITLE = "Interfaces of KIP-30 on the blocking face of the leader"
FETCHES = 30_000  # under way at once, less than what a node lets wait
LISTENERS = 10_000
FETCHES_S = 50_000  # wanted each second
OPEN_S = 1.0  # wanted for all listeners
THREADS_MAX = 32
KEYS = 1000


def fetches(node: raftmeta.Node, count: int) -> dict[str, Any]:
    """So many futures at once, then each one's value."""
    names, values = [f"fetched-{number:04}" for number in range(KEYS)], values_of(256)
    node.put_many([(name, values[number % len(values)]) for number, name in enumerate(names)])
    storage = node.storage
    watch = Stopwatch()
    futures = [storage.fetch(names[number % KEYS]) for number in range(count)]
    for future in futures:
        assert future.result(30) is not None
    return measured(count, watch)


def listeners(node: raftmeta.Node, count: int) -> dict[str, Any]:
    """Register so many, then close the handle: the next round finds none."""
    registry = node.listeners
    threads_before = threading.active_count()
    watch = Stopwatch()
    for number in range(count):
        registry.add_value_change_listener(f"listened-{number:06}", _ignore)
    found = measured(count, watch) | {"threads": threading.active_count() - threads_before}
    registry.close()
    return found


def measured(count: int, watch: Stopwatch) -> dict[str, Any]:
    """A sample of this time, the processor time of one, and the seconds that all had taken alone."""
    wall_s, used_s, alone_s = watch.read()
    return asdict(Sample(count, wall_s)) | {"processor_us": used_s * 1e6 / count, "alone_s": alone_s}


def _ignore(_change: raftmeta.ValueChange) -> None:
    """A listener."""


def run(bench: Bench) -> list[Row]:
    rows = []
    with bench.folder() as folder, Cluster(folder) as cluster:
        cases = {"fetch": (fetches, FETCHES), f"{LISTENERS} value listeners": (listeners, LISTENERS)}
        told: dict[str, list[dict[str, Any]]] = {name: [] for name in cases}

        def measure(name: str) -> Sample:
            function, count = cases[name]
            told[name].append(cluster.leader().call(function, bench.size(count), timeout_s=ANSWER_S))
            return Sample.of(told[name][-1])

        chosen = {name: partial(measure, name) for name in cases if bench.wants(name)}
        for name, samples in interleaved(chosen, rounds=bench.rounds, advance=bench.step).items():
            row = row_of(name, samples)
            row.details = {
                key: statistics.median(one[key] for one in told[name]) for key in ("processor_us", "alone_s")
            }
            if "threads" in told[name][0]:
                row.details["threads"] = max(one["threads"] for one in told[name])
            row.targets = targets_of(row, samples[0].count)
            rows.append(row)
    return rows


def targets_of(row: Row, count: int) -> list[Target]:
    """A rate of fetches; of listeners, the time until all are open, and the threads that this takes."""
    alone_s = row.details["alone_s"]
    if row.name == "fetch":
        return [at_least("rate alone", count / alone_s, FETCHES_S, "/s")]
    return [
        at_most("all open, alone", alone_s * LISTENERS / count, OPEN_S, " s"),
        at_most("threads", row.details["threads"], THREADS_MAX),
    ]
