"""Migration of what real servers hold: a ZooKeeper 3.9 and an etcd 3.5, into three members that are processes.

Target: issue "The data pipeline on Spark". A rate is of everything from the first byte that is read to the last commit:
checksums, replay, sort, plan and load. Memory is the most that the migrating process ever had. After the last round the
cluster is read back, and must hold what the old system's own tool shows, node by node.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import raftmeta
from benchmarks.bench import Bench
from benchmarks.load import old_systems
from benchmarks.load.migrating import SIDE
from benchmarks.load.old_systems import Contents
from benchmarks.measure import Row, Target, at_least, at_most
from benchmarks.native import ROOT
from tests.client.nodes import ServingCluster

ORDER = 80
TITLE = "Migration from ZooKeeper and etcd"
SMALL, LARGE = 100_000, 1_000_000
LEAST = 100_000  # nodes/s
PEAK_MIB_MAX = 128  # of which the cache of the sorted table has 64, full or not
PATIENCE_S = 600.0

Made = Callable[[Path, int], AbstractContextManager[tuple[Path, Contents]]]
Found = Callable[[raftmeta.Client, bytes], Contents]
KINDS: dict[str, tuple[Made, Found]] = {
    "zookeeper": (old_systems.zookeeper, old_systems.zookeeper_in),
    "etcd": (old_systems.etcd, old_systems.etcd_in),
}


def run(bench: Bench) -> list[Row]:
    rows = []
    for kind in KINDS:
        for count in (SMALL, LARGE):
            name = f"{kind}, {count:,} keys"
            if not bench.wants(name):
                continue
            row = migrated(bench, name, kind, bench.size(count))
            row.targets.append(at_most("peak memory", row.details["peak_mib"], PEAK_MIB_MAX, " MiB"))
            if count == LARGE:
                row.targets.append(at_least("rate", row.value, LEAST, " keys/s"))
            rows.append(row)
    return rows


def migrated(bench: Bench, name: str, kind: str, count: int) -> Row:
    make, found_in = KINDS[kind]
    told: list[dict[str, Any]] = []
    bench.step(f"{name}: fill the old system, and ask its own tool")
    with bench.folder() as folder, make(folder, count) as (path, expected):
        for number in range(bench.rounds):
            bench.step(f"{name}: migrate")
            with bench.folder() as nodes, ServingCluster(nodes) as cluster:
                cluster.wait_ready()
                told.append(migrate(kind, path, cluster.url))
                if number == bench.rounds - 1:
                    bench.step(f"{name}: read back")
                    with raftmeta.Client(cluster.url) as client:
                        found = found_in(client, SIDE)
    assert found == expected, f"the cluster holds {found}, the old system {expected}"
    row = Row(name, " keys/s", [one["items"] / (one["read_s"] + one["plan_s"] + one["load_s"]) for one in told])
    row.details = {
        detail: statistics.median(one[detail] for one in told)
        for detail in ("read_s", "plan_s", "load_s", "processor_s", "peak_mib", "items", "keys", "bytes")
    }
    row.details["loaded/s"] = statistics.median(one["items"] / one["load_s"] for one in told)
    row.targets = [Target("equal to what the old system's own tool shows", found == expected)]
    return row


def migrate(kind: str, path: Path, url: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.load.migrating", kind, str(path), url]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found
