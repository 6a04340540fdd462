"""What a put costs against the size of its value, the number of members, and the length of its wait for company."""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.load import inside
from benchmarks.load.values import KEYS
from benchmarks.measure import Row, compare_with, interleaved, row_of
from benchmarks.suites.puts import limit_case, load
from tests.processes.cluster import Cluster

ORDER = 20
TITLE = "Cost against value size and cluster size"
VALUE_BYTES = (16, 256, 1024, 4096, 16384)
MEMBERS = (1, 3, 5)
OUTSTANDING = (1, 16, 256, 1024, 4096)
MANY = 1024


def run(bench: Bench) -> list[Row]:
    rows = []
    with bench.folder() as folder, Cluster(folder) as cluster:
        rows += by_value(bench, cluster)
        rows += by_outstanding(bench, cluster)
    for members in MEMBERS:
        name = f"{members} members, asyncio, {MANY}"
        if bench.wants(name):
            rows.append(with_members(bench, name, members))
    return rows


def by_value(bench: Bench, cluster: Cluster) -> list[Row]:
    leader = cluster.leader()
    rows = []
    for value_bytes in VALUE_BYTES:
        ours, theirs = f"{value_bytes} B, asyncio, {MANY}", f"{value_bytes} B, limit, native, {MANY}"
        arguments = ("asyncio", MANY, value_bytes, KEYS, bench.seconds, bench.warmup_s)
        chosen = {
            ours: load(leader, inside.puts_awaited, *arguments),
            theirs: limit_case(bench, MANY, "native", value_bytes=value_bytes),
        }
        samples = interleaved(
            {name: case for name, case in chosen.items() if bench.wants(name)},
            rounds=bench.rounds,
            advance=bench.step,
        )
        for name, found in samples.items():
            row = row_of(name, found, parameters={"value_bytes": value_bytes, "is_limit": name == theirs})
            if name == ours and theirs in samples:
                compare_with(row, "limit (native)", found, samples[theirs])
            rows.append(row)
    return rows


def by_outstanding(bench: Bench, cluster: Cluster) -> list[Row]:
    leader = cluster.leader()
    chosen = {
        f"{outstanding} outstanding, asyncio": load(
            leader, inside.puts_awaited, "asyncio", outstanding, 256, KEYS, bench.seconds, bench.warmup_s
        )
        for outstanding in OUTSTANDING
    }
    samples = interleaved(
        {name: case for name, case in chosen.items() if bench.wants(name)}, rounds=bench.rounds, advance=bench.step
    )
    return [row_of(name, found, parameters={"outstanding": int(name.split()[0])}) for name, found in samples.items()]


def with_members(bench: Bench, name: str, members: int) -> Row:
    """All members share the machine's processors: what a member costs, not what a larger cluster reaches."""
    with bench.folder() as folder, Cluster(folder, names=tuple("abcdefg"[:members])) as cluster:
        case = load(cluster.leader(), inside.puts_awaited, "asyncio", MANY, 256, KEYS, bench.seconds, bench.warmup_s)
        samples = interleaved({name: case}, rounds=bench.rounds, advance=bench.step)
    return row_of(name, samples[name], parameters={"members": members})
