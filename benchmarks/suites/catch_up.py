"""A follower that was cut off and comes back: how fast it takes entries, alone and beside 50,000 offered puts/s.

Targets: issue "Speed" 6. The log between is long enough to be seen and short enough to need no snapshot.
"""

from __future__ import annotations

from typing import Any

from benchmarks.bench import Bench
from benchmarks.load import inside
from benchmarks.measure import Row, Sample, at_least, at_most
from tests.processes.cluster import Cluster, NodeProcess, ready

ORDER = 70
TITLE = "Catch-up of a follower that was away"
BEHIND = 400_000
OFFERED = 50_000
VALUE_BYTES = 256
# Kept in the log back to the snapshot before, so that none of the entries has to come as part of a snapshot.
SETTINGS: dict[str, Any] = {"snapshot_log_bytes": 512 * 1024 * 1024, "snapshot_entries": 2_000_000}
PATIENCE_S = 180.0


def run(bench: Bench) -> list[Row]:
    alone, loaded, normal = "alone", f"with {OFFERED} puts/s offered", f"puts at {OFFERED}/s, nobody away"
    if not any(bench.wants(name) for name in (alone, loaded)):
        return []
    rates: dict[str, list[float]] = {alone: [], loaded: []}
    served: dict[str, list[dict[str, Any]]] = {loaded: [], normal: []}
    inside.compile_native(None)
    with bench.folder() as folder, Cluster(folder, **SETTINGS) as cluster:
        follower, leader = cluster.followers()[0], cluster.leader()
        offered = OFFERED // 10 if bench.is_trial else OFFERED
        for _ in range(bench.rounds):
            bench.step(normal)
            served[normal].append(leader.call(inside.offer_puts, offered, VALUE_BYTES, 2.0, timeout_s=PATIENCE_S))
            bench.step(alone)
            rates[alone].append(caught_up(bench, cluster, leader, follower))
            bench.step(loaded)
            rates[loaded].append(caught_up(bench, cluster, leader, follower, offered=offered, served=served[loaded]))
    return [
        catch_up_row(alone, rates[alone], 400_000),
        catch_up_row(loaded, rates[loaded], 200_000),
        served_row(normal, served[normal], []),
        served_row(f"puts {loaded}, one away", served[loaded], served[normal]),
    ]


def caught_up(
    bench: Bench,
    cluster: Cluster,
    leader: NodeProcess,
    follower: NodeProcess,
    *,
    offered: int = 0,
    served: list[dict[str, Any]] | None = None,
) -> float:
    """Entries a second that the follower takes, from the first until it has what the leader had when it came back."""
    follower.call(inside.cut_off, [name for name in cluster.nodes if name != follower.name])
    leader.call(inside.fill_one_by_one, bench.size(BEHIND), VALUE_BYTES, timeout_s=PATIENCE_S)
    offer = leader.begin(inside.offer_puts, offered, VALUE_BYTES, PATIENCE_S) if offered else None
    wanted = leader.call(inside.applied)
    found: float = follower.call(inside.catch_up, wanted, timeout_s=PATIENCE_S)
    if offer is not None and served is not None:
        leader.call(inside.end_offer)
        served.append(offer.result(PATIENCE_S))
    follower.call(ready, PATIENCE_S, timeout_s=PATIENCE_S)
    return found


def catch_up_row(name: str, rates: list[float], least: int) -> Row:
    row = Row(f"catch-up, {name}", " entries/s", rates)
    row.targets = [at_least("rate", row.value, least, " entries/s")]
    return row


def served_row(name: str, told: list[dict[str, Any]], normal: list[dict[str, Any]]) -> Row:
    """The offered puts: p99 against that without anybody away, and none left behind."""
    samples = [Sample.of(one) for one in told]
    row = Row(name, "/s", [sample.per_second for sample in samples])
    row.details = {"p99_ms": max(sample.p99_ms for sample in samples), "late": max(one["late"] for one in told)}
    if normal:
        times = row.details["p99_ms"] / max(Sample.of(one).p99_ms for one in normal)
        row.details["p99 x normal"] = times
        row.targets = [at_most("p99 x normal", times, 2.0), at_most("late", row.details["late"], 0)]
    return row
