"""The interfaces of KIP-30 on the blocking face, in the process of a node: fetches, and value listeners.

A fetch counts when its future has the value. Listeners are those of keys of their own; a row of them is the time until
the last is registered, so that it is told every change from then on. Beside each rate stands the processor time of the
whole process for one of them, which also counts on a machine that is not quiet. Targets: issue "Promises" 10.
"""

from __future__ import annotations

import threading
import time
from dataclasses import asdict
from functools import partial
from typing import Any

import raftmeta
from benchmarks.bench import Bench
from benchmarks.load.values import values_of
from benchmarks.measure import Row, Sample, Target, at_least, at_most, interleaved, row_of
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
    began_s, processor_s = time.perf_counter(), time.process_time()
    futures = [storage.fetch(names[number % KEYS]) for number in range(count)]
    for future in futures:
        assert future.result(30) is not None
    return measured(count, began_s, processor_s)


def listeners(node: raftmeta.Node, count: int) -> dict[str, Any]:
    """Register so many, then close the handle: the next round finds none."""
    registry = node.listeners
    threads_before = threading.active_count()
    began_s, processor_s = time.perf_counter(), time.process_time()
    for number in range(count):
        registry.add_value_change_listener(f"listened-{number:06}", _ignore)
    found = measured(count, began_s, processor_s) | {"threads": threading.active_count() - threads_before}
    registry.close()
    return found


def measured(count: int, began_s: float, processor_s: float) -> dict[str, Any]:
    """A sample since these two clocks, and the processor time of one."""
    used_s = time.process_time() - processor_s
    return asdict(Sample(count, time.perf_counter() - began_s)) | {"processor_us": used_s * 1e6 / count}


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
            row.details = {key: max(one[key] for one in told[name]) for key in told[name][0].keys() - row_keys()}
            row.targets = targets_of(row)
            rows.append(row)
    return rows


def row_keys() -> set[str]:
    """What a sample has already."""
    return set(Sample.__slots__)


def targets_of(row: Row) -> list[Target]:
    """A rate of fetches; of listeners, the time until all are open, and the threads that this takes."""
    if row.name == "fetch":
        return [at_least("rate", row.value, FETCHES_S, "/s")]
    return [
        at_most("all open", LISTENERS / row.value, OPEN_S, " s"),
        at_most("threads", row.details["threads"], THREADS_MAX),
    ]
