"""The process that migrates, which does nothing else: python -m benchmarks.load.migrating KIND PATH URL.

It prints as JSON how long it read, planned and loaded, how many items there were, its processor time, and the most
memory that it ever had.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import raftmeta
from raftmeta import migrate

PATIENCE_S = 120.0
SIDE = b"old/"
MAPPING = migrate.Mapping(side=SIDE, held="keep")  # all that the oracle shows
SOURCES = {"zookeeper": migrate.ZooKeeperSource, "etcd": migrate.EtcdSource}


def peak_mib() -> float:
    """VmHWM: the largest resident set so far."""
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024


def main(kind: str, path: str, url: str) -> None:
    with raftmeta.Client(url) as client:
        client.ready(PATIENCE_S)
        times_s = [time.perf_counter()]
        with SOURCES[kind](path) as source:
            times_s.append(time.perf_counter())
            plan = migrate.plan(source, MAPPING)
            times_s.append(time.perf_counter())
            loaded = migrate.load(client, source, MAPPING, plan, timeout_s=PATIENCE_S)
            times_s.append(time.perf_counter())
    told = {f"{what}_s": times_s[number + 1] - times_s[number] for number, what in enumerate(("read", "plan", "load"))}
    told |= {"items": loaded.items, "keys": plan.records, "bytes": plan.key_bytes + plan.value_bytes}
    print(json.dumps(told | {"processor_s": time.process_time(), "peak_mib": peak_mib()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
