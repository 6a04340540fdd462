"""Ten minutes of full load on all processors: does a member stand for election? Target: issue "Speed" 7.

Each minute has another load: `await put` on the leader, the same on a follower, `put_many`, and the native generator.
A time-out that is too short for a busy machine shows here as a term that was not there before.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.bench import Bench
from benchmarks.load import inside
from benchmarks.load.values import KEYS
from benchmarks.measure import Row, Sample, at_most, row_of
from tests.processes.cluster import Cluster, NodeProcess, status

ORDER = 110
TITLE = "Ten minutes of full load, three processes"
IS_LONG = True
MINUTES = 10
MINUTE_S = 60.0
VALUE_BYTES = 256
MANY_LISTS = 8
MANY_KEYS = 100_000
ANSWER_S = 120.0

Load = tuple[NodeProcess, Callable[..., object], tuple[object, ...]]


def loads(cluster: Cluster) -> dict[str, Load]:
    leader, follower = cluster.leader(), cluster.followers()[0]
    return {
        "asyncio, leader, 1024": (leader, inside.puts_awaited, ("asyncio", 1024, VALUE_BYTES, KEYS)),
        "native, 8192": (leader, inside.puts_native, (8192, VALUE_BYTES, KEYS)),
        "asyncio, follower, 1024": (follower, inside.puts_awaited, ("asyncio", 1024, VALUE_BYTES, KEYS)),
        "put_many, 8 lists": (leader, inside.puts_many, (MANY_LISTS, VALUE_BYTES, MANY_KEYS)),
    }


def elections(cluster: Cluster) -> int:
    """For which any member stood, each counted by itself."""
    return sum(member.call(inside.metrics)["elections"] for member in cluster.nodes.values())


def run(bench: Bench) -> list[Row]:
    inside.compile_native(None)
    minute_s = bench.seconds if bench.is_trial else MINUTE_S
    found: dict[str, list[Sample]] = {}
    with bench.folder() as folder, Cluster(folder) as cluster:
        chosen = {name: load for name, load in loads(cluster).items() if bench.wants(name)}
        before, term = elections(cluster), cluster.leader().call(status)["term"]
        for minute in range(MINUTES if chosen else 0):
            name = list(chosen)[minute % len(chosen)]
            bench.step(f"minute {minute + 1} of {MINUTES}: {name}")
            member, function, arguments = chosen[name]
            taken = member.call(function, *arguments, minute_s, bench.warmup_s, timeout_s=ANSWER_S)
            found.setdefault(name, []).append(Sample.of(taken))
        stood = elections(cluster) - before
        terms = cluster.leader().call(status)["term"] - term
    rows = [row_of(name, samples) for name, samples in found.items()]
    if rows:
        row = Row("elections in ten minutes", "", [stood], details={"terms": terms, "seconds": MINUTES * minute_s})
        row.targets = [at_most("elections", stood, 0)]
        rows.append(row)
    return rows
