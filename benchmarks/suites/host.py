"""A host that holds the GIL: what is left of the throughput of native code beside it. Targets: issue "Speed" 8.

Every member's host sleeps without giving the GIL away; the load is the native generator's, which needs no GIL. Rounds
with and without a holder take turns, and no member may stand for election meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.bench import Bench
from benchmarks.load import inside
from benchmarks.load.values import KEYS
from benchmarks.measure import Row, Sample, at_least, at_most, compare_with, interleaved, row_of
from tests.processes.cluster import Cluster, status
from tests.processes.waiting import wait_until

ORDER = 90
TITLE = "Hosts that hold the GIL, native load on the leader"
OUTSTANDING = 1024
VALUE_BYTES = 256
OFTEN = (0.2, 0.05)  # held, free, in seconds
LONG = (5.0, 0.05)
PATIENCE_S = 60.0


def run(bench: Bench) -> list[Row]:
    free, often, long = "free hosts", "GIL held 200 of 250 ms", "GIL held 5 s at a time"
    if not any(bench.wants(name) for name in (free, often, long)):
        return []
    inside.compile_native(None)
    with bench.folder() as folder, Cluster(folder) as cluster:
        term = cluster.leader().call(status)["term"]
        chosen = {free: held(bench, cluster, (0.0, 0.0)), often: held(bench, cluster, OFTEN)}
        chosen[long] = held(bench, cluster, LONG)
        samples = interleaved(
            {name: case for name, case in chosen.items() if name == free or bench.wants(name)},
            rounds=bench.rounds,
            advance=bench.step,
        )
        elections = cluster.leader().call(status)["term"] - term
    rows = [row_of(name, found) for name, found in samples.items()]
    for row in rows[1:]:
        row.targets = [
            at_least(f"x {free}", compare_with(row, free, samples[row.name], samples[free]), 0.9),
            at_most("elections", elections, 0),
        ]
    return rows


def held(bench: Bench, cluster: Cluster, times: tuple[float, float]) -> Callable[[], Sample]:
    """A case: the load on the leader while the hosts of all members hold their GILs so."""

    def measure() -> Sample:
        held_s, free_s = times
        seconds = bench.seconds + bench.warmup_s + held_s
        leader = cluster.leader()
        arguments = (OUTSTANDING, VALUE_BYTES, KEYS, bench.seconds + held_s, bench.warmup_s)
        loaded = leader.begin(inside.puts_native, *arguments)
        holders = []
        if held_s:
            wait_for_load(leader.call(inside.metrics)["commands_completed"], lambda: leader.call(inside.metrics))
            members = cluster.nodes.values()
            holders = [member.begin(inside.hold_gil_often, held_s, free_s, seconds) for member in members]
        sample = Sample.of(loaded.result(PATIENCE_S))
        for holder in holders:
            holder.result(PATIENCE_S)
        return sample

    return measure


def wait_for_load(completed: int, metrics: Callable[[], dict[str, int]]) -> None:
    """Until the native generator has begun: it needs the GIL for that."""
    wait_until(lambda: metrics()["commands_completed"] > completed, timeout_s=PATIENCE_S, what="the load to begin")
