"""The cost of the flight recorder at full load, by account: it hardly depends on other programs of the machine.

    python -m benchmarks.recorder_cost --turns 5 --seconds 2
    python -m benchmarks.recorder_cost --ratio --turns 9 --seconds 2

The native generator loads the leader of three processes on loopback. The recorder costs the processor time of its two
threads in each process, and some ns of each turn of the loop. The account says how much that is of all that the
processes used meanwhile. Records themselves are not in it: at full load there are none.

--ratio compares two clusters by turns, one with recorders and one without: processor time of the leader for each put,
and puts a second. Both meet the same other programs, but not at the same moment, so a busy machine blurs it.
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


def load_of(node: NodeProcess, mode: str, seconds: float) -> dict[str, float]:
    """One run on a leader: its processor time for each put in µs, and puts a second."""
    before_s = node.call(inside.processor_s)
    if mode == "native":
        told = node.call(inside.puts_native, OUTSTANDING, VALUE_BYTES, KEYS, seconds, 0.0, timeout_s=120)
    else:
        asked = ("asyncio", OUTSTANDING, VALUE_BYTES, KEYS, seconds, 0.0)
        told = node.call(inside.puts_awaited, *asked, timeout_s=120)
    used_s = node.call(inside.processor_s) - before_s
    return {"us_per_put": used_s / told["count"] * 1e6, "puts_per_s": told["count"] / told["seconds"]}


def ratios(folder: Path, turns: int, seconds: float) -> dict[str, object]:
    """With recorders over without, of each turn; the order changes from turn to turn."""
    settings = {"election_timeout_s": 5.0, "heartbeat_s": 0.1}
    found: dict[str, dict[str, list[float]]] = {}
    for name in ("on", "off"):
        (folder / name).mkdir()
    with (
        Cluster(folder / "on", **settings) as on,
        Cluster(folder / "off", flight_recorder_bytes=0, **settings) as off,
    ):
        for mode in ("native", "asyncio"):
            rows: dict[str, list[float]] = {"us_per_put": [], "puts_per_s": []}
            for leader in (on.leader(), off.leader()):
                load_of(leader, mode, seconds)  # warm
            for turn in range(turns):
                pair = (on, off) if turn % 2 == 0 else (off, on)
                runs = {cluster is on: load_of(cluster.leader(), mode, seconds) for cluster in pair}
                for name, row in rows.items():
                    row.append(runs[True][name] / runs[False][name])
            found[mode] = rows
    return {
        mode: {
            name: {"median": statistics.median(row), "quartiles": statistics.quantiles(row, n=4), "all": row}
            for name, row in rows.items()
        }
        for mode, rows in found.items()
    }


def main() -> None:
    """Print the figures as JSON."""
    parser = argparse.ArgumentParser(description="The flight recorder's share of the processor time of its nodes.")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--ratio", action="store_true")
    asked = parser.parse_args()
    inside.compile_native(None)
    if asked.ratio:
        with tempfile.TemporaryDirectory() as scratch:
            told = ratios(Path(scratch), asked.turns, asked.seconds)
            told |= {"load": os.getloadavg()[0], "machine": machine(Path(scratch))}
        print(json.dumps(told, indent=2))
        return
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
