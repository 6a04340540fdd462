"""Without a leader: `kill -9` and a silent partition, until the next acknowledged write. Targets: issue "Speed" 7.

Without a controller: `kill -9` of the process that leads an election of the recipes, until another process is told that
it is elected. The place is free when its holder is dead (docs/leases.md), and not when its lease ends.
"""

from __future__ import annotations

import time

import raftmeta
from benchmarks.bench import Bench
from benchmarks.load import inside
from benchmarks.measure import Row, Target, at_most, percentile
from raftmeta import RaftmetaError
from tests.processes.cluster import Cluster, NodeProcess, ready
from tests.processes.waiting import wait_until

ORDER = 80
TITLE = "Failover and idling, default settings"
KILLS = 30
CONTROLLERS = 50
SERVICE = "controller"
LEVEL_OF_PROCESSES = 7  # machine/state
PARTITIONS = 5
IDLE_S = 10.0
PATIENCE_S = 60.0
ATTEMPT_S = 0.05


def first_put(node: raftmeta.Node, key: str) -> float:
    """time.monotonic(), which all processes share, when a put that began now was acknowledged; it is tried again."""
    until_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < until_s:
        try:
            node.put(key, b"first", timeout_s=ATTEMPT_S)
        except RaftmetaError:
            continue
        return time.monotonic()
    raise TimeoutError(f"no put within {PATIENCE_S} s")


def run(bench: Bench) -> list[Row]:
    rows = []
    with bench.folder() as folder, Cluster(folder) as cluster:
        if bench.wants("kill -9 of the leader"):
            times = [killed(bench, cluster, number) for number in range(3 if bench.is_trial else KILLS)]
            rows.append(outage_row("kill -9 of the leader", times, [(0.5, 0.12), (0.99, 0.5)]))
        if bench.wants("silent partition of the leader"):
            times = [cut(bench, cluster, number) for number in range(1 if bench.is_trial else PARTITIONS)]
            rows.append(outage_row("silent partition of the leader", times, [(1.0, 1.0)]))
        if bench.wants("idle"):
            rows.append(idle(bench, cluster))
        if bench.wants("kill -9 of the controller"):
            rows.append(controllers(bench, cluster))
    return rows


def outage_row(name: str, times_s: list[float], asked: list[tuple[float, float]]) -> Row:
    row = Row(name, " s", times_s)
    targets: list[Target] = []
    for share, most_s in asked:
        found_s = percentile(sorted(times_s), share)
        row.details[f"p{100 * share:g}_s"] = found_s
        targets.append(at_most(f"p{100 * share:g}", found_s, most_s, " s"))
    row.targets = targets
    return row


def killed(bench: Bench, cluster: Cluster, number: int) -> float:
    """Seconds from the signal to the acknowledgement of a write that another member's process began right after it."""
    bench.step(f"kill {number + 1}")
    leader, survivor = cluster.leader(), cluster.followers()[0]
    survivor.call(first_put, "before")
    began_s = time.monotonic()
    leader.kill()
    took_s: float = survivor.call(first_put, f"kill-{number}", timeout_s=PATIENCE_S) - began_s
    leader.start()
    leader.call(ready, PATIENCE_S, timeout_s=PATIENCE_S)
    return took_s


def cut(bench: Bench, cluster: Cluster, number: int) -> float:
    """The same for a leader from which and to which no frame passes, while every connection stays open."""
    bench.step(f"partition {number + 1}")
    leader, survivor = cluster.leader(), cluster.followers()[0]
    others = [name for name in cluster.nodes if name != leader.name]
    leader.call(inside.cut_off, others)
    began_s = time.monotonic()
    took_s: float = survivor.call(first_put, f"cut-{number}", timeout_s=PATIENCE_S) - began_s
    leader.call(inside.cut_off, [])
    leader.call(ready, PATIENCE_S, timeout_s=PATIENCE_S)
    wait_until(lambda: steady(cluster), timeout_s=PATIENCE_S, what="one leader for all")
    return took_s


def steady(cluster: Cluster) -> bool:
    told = [member.status() for member in cluster.nodes.values()]
    return all(one is not None and one["is_ready"] for one in told) and len({one["leader"] for one in told if one}) == 1


def idle(bench: Bench, cluster: Cluster) -> Row:
    """Processor time of a member whose host asks for nothing, in percent of one processor; the leader's is the most."""
    bench.step("idle")
    seconds = 1.0 if bench.is_trial else IDLE_S
    shares = [100 * used / seconds for used in used_in(cluster, seconds)]
    row = Row("idle, each member", " % of a processor", shares)
    row.targets = [at_most("the most", max(shares), 0.5, " %")]
    return row


def used_in(cluster: Cluster, seconds: float) -> list[float]:
    members: list[NodeProcess] = list(cluster.nodes.values())
    before = [member.call(inside.processor_s) for member in members]
    began_s = time.monotonic()
    wait_until(lambda: time.monotonic() - began_s >= seconds, timeout_s=seconds + 5, what="time to pass")
    return [member.call(inside.processor_s) - used for member, used in zip(members, before, strict=True)]


def controllers(bench: Bench, cluster: Cluster) -> Row:
    """Each member is a candidate, with the recipe's default time to live; the leading one is killed each time."""
    wait_until(lambda: min(levels(cluster)) >= LEVEL_OF_PROCESSES, timeout_s=PATIENCE_S, what="the level of processes")
    for member in cluster.nodes.values():
        member.call(inside.stand, SERVICE, timeout_s=PATIENCE_S)
    times = [replaced(bench, cluster, number) for number in range(3 if bench.is_trial else CONTROLLERS)]
    return outage_row("kill -9 of the controller, until another is elected", times, [(0.5, 0.15), (0.99, 0.5)])


def levels(cluster: Cluster) -> list[int]:
    """The feature level of each member; it rises a moment after the founding."""
    return [(member.status() or {}).get("feature_level", 0) for member in cluster.nodes.values()]


def replaced(bench: Bench, cluster: Cluster, number: int) -> float:
    """Seconds from the signal until the next controller's own process is told that it is elected."""
    bench.step(f"controller {number + 1}")
    controller = wait_until(lambda: leading(cluster), timeout_s=PATIENCE_S, what="a controller")
    survivors = [member for member in cluster.nodes.values() if member is not controller]
    began_s = time.monotonic()
    controller.kill()
    elected_s = wait_until(
        lambda: latest_after(survivors, began_s), timeout_s=PATIENCE_S, what="another controller", pause_s=0.01
    )
    controller.start()
    controller.call(ready, PATIENCE_S, timeout_s=PATIENCE_S)
    controller.call(inside.stand, SERVICE, timeout_s=PATIENCE_S)
    return elected_s - began_s


def latest_after(members: list[NodeProcess], began_s: float) -> float | None:
    """When one of them was elected after that; None: none was."""
    latest_s: float = max(member.call(inside.elected_s, SERVICE) for member in members)
    return latest_s if latest_s > began_s else None


def leading(cluster: Cluster) -> NodeProcess | None:
    """The member that leads the election, once all are steady."""
    if not steady(cluster):
        return None
    return next((member for member in cluster.nodes.values() if member.call(inside.leads, SERVICE)), None)
