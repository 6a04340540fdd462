"""The cost of the flight recorder at full load: the same cluster with it and without it, by turns.

    python -m benchmarks.recorder_cost --turns 10 --seconds 2

Two clusters of three processes live on loopback, one without recorders. In each turn the native generator loads the
leader of each for some seconds, and who begins changes from turn to turn. A figure is the processor time of all three
processes for a put: it hardly depends on other programs of the machine. The ratio of a turn compares two runs that lie
seconds apart.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.load import inside
from benchmarks.results import machine
from tests.processes.cluster import Cluster

OUTSTANDING = 1024
VALUE_BYTES = 256
KEYS = 1000
WARMUP_S = 0.5


def processor_us(cluster: Cluster) -> float:
    """Used by all its processes so far, ended threads included: their clocks, as Linux numbers them."""
    return sum(time.clock_gettime_ns(~node.pid << 3 | 2) for node in cluster.nodes.values()) / 1000


def cost(cluster: Cluster, seconds: float) -> tuple[float, float]:
    """Processor time of a put in us, and puts a second."""
    leader = cluster.leader()
    begun_us = processor_us(cluster)
    told = leader.call(inside.puts_native, OUTSTANDING, VALUE_BYTES, KEYS, seconds, WARMUP_S, timeout_s=seconds + 60)
    used_us = processor_us(cluster) - begun_us
    return used_us / (told["count"] * (seconds + WARMUP_S) / seconds), told["count"] / told["seconds"]


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description="Compare nodes with and without a flight recorder.")
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=2.0)
    asked = parser.parse_args()
    inside.compile_native(None)
    found: dict[str, list[tuple[float, float]]] = {"with": [], "without": []}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for name in found:
            (folder / name).mkdir()
        with Cluster(folder / "with") as one, Cluster(folder / "without", flight_recorder_bytes=0) as other:
            clusters = {"with": one, "without": other}
            for turn in range(asked.turns):
                for name in list(clusters) if turn % 2 else list(clusters)[::-1]:
                    found[name].append(cost(clusters[name], asked.seconds))
        ratios = [one[0] / other[0] for one, other in zip(found["with"], found["without"], strict=True)]
        told = {
            "processor_us_per_put": {name: statistics.median(run[0] for run in runs) for name, runs in found.items()},
            "puts_per_s": {name: statistics.median(run[1] for run in runs) for name, runs in found.items()},
            "ratio": statistics.median(ratios),
            "ratios": [round(ratio, 4) for ratio in ratios],
            "load": os.getloadavg()[0],
            "machine": machine(folder),
        }
    print(json.dumps(told, indent=2))


if __name__ == "__main__":
    main()
