"""The cost of the flight recorder at full load, by account: it hardly depends on other programs of the machine.

    python -m benchmarks.recorder_cost --turns 5 --seconds 2

The native generator loads the leader of three processes on loopback. The recorder costs the processor time of its two
threads in each process, and some ns of each turn of the loop. The account says how much that is of all that the
processes used meanwhile. Records themselves are not in it: at full load there are none.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import raftmeta
from benchmarks.load import inside
from benchmarks.results import machine
from tests.faces.flight import turn_ns
from tests.processes.cluster import Cluster, NodeProcess

OUTSTANDING = 1024
VALUE_BYTES = 256
KEYS = 1000
WARMUP_S = 0.5
MEASURED_TURNS = 1_000_000


def host_thread(_node: raftmeta.Node) -> int:
    """In the process of a node: its thread of Python that belongs to the recorder."""
    return next(thread.native_id or 0 for thread in threading.enumerate() if thread.name == "raftmeta-host")


def processor_ns(node: NodeProcess) -> tuple[int, int]:
    """Used by its process so far, and by the recorder's threads in it, by the scheduler's account."""
    host = str(node.call("benchmarks.recorder_cost:host_thread"))
    own_ns = 0
    for task in Path(f"/proc/{node.pid}/task").iterdir():
        with suppress(OSError):  # another thread, which has ended
            if task.name == host or (task / "comm").read_text().strip() == "raftmeta-flight":
                own_ns += int((task / "schedstat").read_text().split()[0])
    return time.clock_gettime_ns(~node.pid << 3 | 2), own_ns


def account(cluster: Cluster, seconds: float, hook_ns: float) -> dict[str, float]:
    """One run: shares of the processor time of all processes, and puts a second."""
    nodes = list(cluster.nodes.values())
    turns = -sum(node.call(inside.metrics)["turns"] for node in nodes)
    before = [processor_ns(node) for node in nodes]
    told = cluster.leader().call(inside.puts_native, OUTSTANDING, VALUE_BYTES, KEYS, seconds, WARMUP_S, timeout_s=120)
    after = [processor_ns(node) for node in nodes]
    turns += sum(node.call(inside.metrics)["turns"] for node in nodes)
    used_ns = sum(late[0] - early[0] for late, early in zip(after, before, strict=True))
    own_ns = sum(late[1] - early[1] for late, early in zip(after, before, strict=True))
    return {
        "own_ms": own_ns / 1e6 / len(nodes) / (seconds + WARMUP_S),
        "threads": own_ns / used_ns,
        "turns": turns * hook_ns / used_ns,
        "puts_per_s": told["count"] / told["seconds"],
    }


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description="The flight recorder's share of the processor time of its nodes.")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    asked = parser.parse_args()
    inside.compile_native(None)
    hook_ns = statistics.median(turn_ns(MEASURED_TURNS) / MEASURED_TURNS for _ in range(7))
    with tempfile.TemporaryDirectory() as scratch:
        with Cluster(Path(scratch), election_timeout_s=5.0, heartbeat_s=0.1) as cluster:
            runs = [account(cluster, asked.seconds, hook_ns) for _ in range(asked.turns)]
        told = {
            "share_of_processor_time": [round(run["threads"] + run["turns"], 5) for run in runs],
            "of_threads": statistics.median(run["threads"] for run in runs),
            "of_turns": statistics.median(run["turns"] for run in runs),
            "ms_of_threads_per_node_and_s": statistics.median(run["own_ms"] for run in runs),
            "ns_per_turn": hook_ns,
            "puts_per_s": statistics.median(run["puts_per_s"] for run in runs),
            "load": os.getloadavg()[0],
            "machine": machine(Path(scratch)),
        }
    print(json.dumps(told, indent=2))


if __name__ == "__main__":
    main()
