"""Three voters and a hundred observers that follow them. Targets: issue "A hundred brokers" 2 and "Endurance".

The load is one of the native generator in a follower's process, at a fixed rate. So the processor time of the leader is
that of its engine. The observers are several in a process, and know one voter only.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench
from benchmarks.load import inside, observing
from benchmarks.measure import Row, at_least, at_most
from tests.processes.cluster import Cluster, status
from tests.processes.remote import RemoteProcess
from tests.processes.waiting import free_addresses, wait_until

ORDER = 120
TITLE = "A hundred observers, several in a process"
IS_LONG = True
OBSERVERS = 100
PROCESSES = 4
RATE = 5000
VALUE_BYTES = 256
LOAD_S = 10.0
ENDURANCE_S = 600.0
PATIENCE_S = 240.0
KEPT_MB = 40.0  # what a voter's memory may grow by, beside its log and state


class Crowd:
    """Observers in processes, and one more in a process of its own, which is killed."""

    def __init__(self, cluster: Cluster, folder: Path, count: int) -> None:
        name, address = next(iter(cluster.peers.items()))
        free = iter(free_addresses(count))
        parts = [{"lone": next(free)}]
        parts += [{f"o{at:03}": next(free) for at in range(1 + part, count, PROCESSES)} for part in range(PROCESSES)]
        self.count = count
        self.processes = [
            RemoteProcess(
                observing.open_observers, part, [f"{name}={address}"], str(folder), log=folder / f"part-{at}.log"
            )
            for at, part in enumerate(parts)
            if part
        ]

    @property
    def lone(self) -> RemoteProcess:
        return self.processes[0]

    def start(self) -> None:
        """The lone one first, so that a voter feeds it and others come below it."""
        for some in (self.processes[:1], self.processes[1:]):
            for begun in [process.begin_start() for process in some]:
                begun.result(PATIENCE_S)
            for begun in [process.begin(observing.ready) for process in some]:
                begun.result(PATIENCE_S)

    def told(self) -> dict[str, dict[str, Any]]:
        """The status of each observer that runs, and the process that it is in."""
        alive = [process for process in self.processes if process.is_alive]
        answers = [process.begin(observing.told) for process in alive]
        return {
            name: told | {"process": process}
            for process, answer in zip(alive, answers, strict=True)
            for name, told in answer.result(PATIENCE_S).items()
        }

    def kill(self) -> None:
        for process in self.processes:
            if process.is_alive:
                process.kill()


@contextmanager
def crowd(cluster: Cluster, folder: Path, count: int) -> Iterator[Crowd]:
    made = Crowd(cluster, folder, count)
    try:
        made.start()
        yield made
    finally:
        made.kill()


def run(bench: Bench) -> list[Row]:
    inside.compile_native(None)
    count = 12 if bench.is_trial else OBSERVERS
    seconds = 1.0 if bench.is_trial else LOAD_S
    rows = []
    with bench.folder() as folder, Cluster(folder) as cluster:
        if bench.wants("follow"):
            alone = loaded(bench, cluster, seconds, "no observers")
            with crowd(cluster, folder, count) as observers:
                rows += [*followed(bench, cluster, observers, alone, seconds), one_dies(bench, cluster, observers)]
                rows.append(all_return(bench, cluster, observers, rows[0], seconds))
        if bench.wants("endurance"):
            (folder / "endurance").mkdir()
            with crowd(cluster, folder / "endurance", count) as observers:
                rows.append(endured(bench, cluster, observers, 3.0 if bench.is_trial else ENDURANCE_S))
    return rows


def loaded(bench: Bench, cluster: Cluster, seconds: float, what: str) -> dict[str, float]:
    """Processor time of the leader a write in microseconds, writes a second, and p99 at the voter that was asked."""
    bench.step(what)
    leader, follower = cluster.leader(), cluster.followers()[0]
    before = leader.call(inside.processor_s)
    begun = follower.begin(inside.offer_puts, RATE, VALUE_BYTES, seconds)
    told = begun.result(PATIENCE_S)
    used_s = leader.call(inside.processor_s) - before
    return {
        "leader_us": 1e6 * used_s / told["count"],
        "per_second": told["count"] / told["seconds"],
        "p99_ms": told["p99_ms"],
    }


def followed(
    bench: Bench, cluster: Cluster, observers: Crowd, alone: dict[str, float], seconds: float
) -> tuple[Row, ...]:
    """Whether they keep up, and what the leader pays for them."""
    found = loaded(bench, cluster, seconds, "all follow")
    wanted = cluster.leader().call(inside.applied)
    began_s = time.monotonic()
    wait_until(
        lambda: min(one["applied"] for one in observers.told().values()) >= wanted,
        timeout_s=PATIENCE_S,
        what="all observers to have applied the last write",
        pause_s=0.2,
    )
    caught_up_s = time.monotonic() - began_s
    known = wait_until(
        lambda: known_above(cluster, observers.count),
        timeout_s=PATIENCE_S,
        what="reports of all observers",
        pause_s=0.2,
    )
    row = Row("follow", "/s", [found["per_second"]])
    row.details = {
        "observers": observers.count,
        "caught_up_s": caught_up_s,
        "deepest": max(depth_of(known, name) for name in known),
        "fed_by_voters": sum(feeder in cluster.nodes for feeder in known.values()),
        "p99_ms": found["p99_ms"],
        "leader_us_a_write": found["leader_us"],
        "without_us_a_write": alone["leader_us"],
    }
    row.targets = [
        at_least("writes", found["per_second"], 0.98 * RATE, "/s"),
        at_most("leader's processor time a write", found["leader_us"] / alone["leader_us"], 1.1, " x"),
    ]
    return (row,)


def known_above(cluster: Cluster, count: int) -> dict[str, str]:
    """Observers and their feeders, as the voters together tell; {} unless these are so many, in chains of voters."""
    told = [voter.call(status)["observers"] for voter in cluster.nodes.values()]
    known = {name: feeder for rows in told for name, _, _, _, feeder in rows if name and feeder}
    is_whole = len(known) == count and all(feeder in known or feeder in cluster.nodes for feeder in known.values())
    return known if is_whole else {}


def depth_of(known: dict[str, str], name: str) -> int:
    """How many steps below a voter; no more than there are observers."""
    for depth in range(len(known)):
        if name not in known:
            return depth
        name = known[name]
    return len(known)


def one_dies(bench: Bench, cluster: Cluster, observers: Crowd) -> Row:
    """kill -9 of an observer under load; one that it fed shows every change once, and is fed by another."""
    bench.step("one dies")
    fed = {name: told for name, told in observers.told().items() if told["feeder"] == "lone"}
    writer = cluster.followers()[0]
    for name, told in fed.items():
        told["process"].call(observing.watch, name)
    begun = writer.begin(inside.offer_puts, RATE // 5, VALUE_BYTES, 3.0)
    observers.lone.kill()
    written = begun.result(PATIENCE_S)["count"]
    wanted = cluster.leader().call(inside.applied)
    wait_until(
        lambda: min(one["applied"] for one in observers.told().values()) >= wanted,
        timeout_s=PATIENCE_S,
        what="the others to go on",
        pause_s=0.2,
    )
    for name, told in fed.items():
        process = told["process"]
        wait_until(
            lambda name=name, process=process: process.call(observing.seen, name)[0] >= written,
            timeout_s=PATIENCE_S,
            what=f"the watch of {name} to show {written} changes",
            pause_s=0.2,
        )
    gaps = sum(told["process"].call(observing.seen, name)[1] for name, told in fed.items())
    row = Row("one dies", "", [gaps], details={"fed_by_it": len(fed), "changes_shown": written})
    row.targets = [at_most("gaps", gaps, 0)]
    return row


def all_return(bench: Bench, cluster: Cluster, observers: Crowd, before: Row, seconds: float) -> Row:
    """kill -9 of all under load; they come back at once."""
    bench.step("all die and return")
    observers.kill()
    begun = [process.begin_start() for process in observers.processes]
    found = loaded(bench, cluster, seconds, "all return")
    for start in begun:
        start.result(PATIENCE_S)
    for ready in [process.begin(observing.ready) for process in observers.processes]:
        ready.result(PATIENCE_S)
    p99_ms, usual_ms = found["p99_ms"], before.details["p99_ms"]
    row = Row("all die and return", " ms", [p99_ms], details={"p99_before_ms": usual_ms})
    row.targets = [at_most("p99 of the voters", p99_ms / usual_ms if usual_ms else 0.0, 2, " x")]
    return row


def endured(bench: Bench, cluster: Cluster, observers: Crowd, seconds: float) -> Row:
    """One observer a second closes and comes back."""
    voters = list(cluster.nodes.values())

    def memory_mb() -> float:
        return max(float(voter.call(inside.memory_mb)["anonymous"]) for voter in voters)

    def elections() -> int:
        return sum(int(voter.call(inside.metrics)["elections"]) for voter in voters)

    stood, term, used_mb = elections(), cluster.leader().call(status)["term"], memory_mb()
    names = [(name, told["process"]) for name, told in observers.told().items()]
    began_s = time.monotonic()
    churned = 0
    while (passed_s := time.monotonic() - began_s) < seconds:
        bench.step(f"churn, {passed_s:.0f} of {seconds:.0f} s")
        name, process = names[churned % len(names)]
        process.call(observing.again, name, timeout_s=PATIENCE_S)
        churned += 1
        due_s = began_s + churned
        wait_until(lambda due_s=due_s: time.monotonic() >= due_s, timeout_s=PATIENCE_S, what="the next second")
    for ready in [process.begin(observing.ready) for process in observers.processes]:
        ready.result(PATIENCE_S)
    grown_mb = memory_mb() - used_mb
    row = Row("endurance", "", [elections() - stood])
    row.details = {
        "seconds": seconds,
        "churned": churned,
        "terms": cluster.leader().call(status)["term"] - term,
        "grown_mb": grown_mb,
        "observers": observers.count,
    }
    row.targets = [at_most("elections", elections() - stood, 0), at_most("memory of a voter", grown_mb, KEPT_MB, " MB")]
    return row
