"""Reads: linearizable ones by read rounds, on leader and follower, and local ones. Targets: issue "Speed" 3."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.load import inside
from benchmarks.load.values import KEYS
from benchmarks.measure import Row, at_least, interleaved, row_of
from benchmarks.suites.puts import load
from tests.processes.cluster import Cluster

ORDER = 30
TITLE = "Reads, 256 bytes, three processes"
OUTSTANDING = (1, 64, 1024)
BATCH = 256
LOCAL_READS = 200_000


def run(bench: Bench) -> list[Row]:
    with bench.folder() as folder, Cluster(folder) as cluster:
        leader, follower = cluster.leader(), cluster.followers()[0]
        leader.call(inside.fill, 0, KEYS, 256, timeout_s=60)
        chosen = {}
        for outstanding in OUTSTANDING:
            for event_loop in ("asyncio", "uvloop"):
                for name, member in (("leader", leader), ("follower", follower)):
                    chosen[f"linearizable, {event_loop}, {name}, {outstanding}"] = load(
                        member, inside.gets_awaited, event_loop, outstanding, KEYS, bench.seconds, bench.warmup_s
                    )
        count = bench.size(LOCAL_READS)
        chosen["local, one by one"] = load(follower, inside.gets_local, KEYS, count)
        chosen[f"local, ranges of {BATCH}"] = load(follower, inside.ranges_local, KEYS, BATCH, max(count, BATCH))
        samples = interleaved(
            {name: case for name, case in chosen.items() if bench.wants(name)}, rounds=bench.rounds, advance=bench.step
        )
    rows = []
    for name, found in samples.items():
        row = row_of(name, found)
        if name.startswith("linearizable"):
            _, face, where, under_way = name.split(", ")
            row.parameters = {"face": face, "member": where, "outstanding": int(under_way)}
        if name in ("linearizable, asyncio, leader, 1024", "linearizable, asyncio, follower, 1024"):
            row.targets = [at_least("rate", row.value, 400_000, "/s")]
        elif name == "local, one by one":
            row.targets = [at_least("rate", row.value, 1e6, "/s")]
        elif name.startswith("local"):
            row.targets = [at_least("rate", row.value, 2e6, "/s")]
        rows.append(row)
    return rows
