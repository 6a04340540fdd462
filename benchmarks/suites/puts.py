"""Durable puts of 256 bytes in three processes, beside the machine's own limit for the same work.

Targets: issue "Speed" 1 and 2.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from benchmarks import limit
from benchmarks.bench import Bench
from benchmarks.load import inside
from benchmarks.load.values import KEYS
from benchmarks.measure import Row, Sample, Target, at_least, at_most, compare_with, interleaved, row_of
from tests.processes.cluster import Cluster, NodeProcess, status

ORDER = 10
TITLE = "Durable puts, 256 bytes, three processes"
VALUE_BYTES = 256
SMALL_BYTES = 16
OUTSTANDING = (1, 64, 1024)
EVENT_LOOPS = ("asyncio", "uvloop")
NATIVE_OUTSTANDING = (1024, 8192)
MANY_LISTS = 8  # of put_many under way
MANY_KEYS = 100_000
ANSWER_S = 180.0


def load(member: NodeProcess, function: Callable[..., object], *arguments: object) -> Callable[[], Sample]:
    return lambda: Sample.of(member.call(function, *arguments, timeout_s=ANSWER_S))


def cases(bench: Bench, cluster: Cluster, outstanding: int) -> dict[str, Callable[[], Sample]]:
    """Everything that is measured with so many operations under way, by the name of its row."""
    leader, follower = cluster.leader(), cluster.followers()[0]
    times = (bench.seconds, bench.warmup_s)
    with_limit = partial(limit_case, bench, outstanding)
    found = {f"limit, native, {outstanding}": with_limit("native")}
    for event_loop in EVENT_LOOPS:
        found[f"limit, {event_loop}, {outstanding}"] = with_limit(event_loop)
        for name, member in (("leader", leader), ("follower", follower)):
            arguments = (event_loop, outstanding, VALUE_BYTES, KEYS, *times)
            found[f"{event_loop}, {name}, {outstanding}"] = load(member, inside.puts_awaited, *arguments)
    if outstanding <= 64:
        found[f"threads, leader, {outstanding}"] = load(
            leader, inside.puts_by_threads, outstanding, VALUE_BYTES, KEYS, *times
        )
    found[f"native, leader, {outstanding}"] = load(leader, inside.puts_native, outstanding, VALUE_BYTES, KEYS, *times)
    return {name: case for name, case in found.items() if bench.wants(name)}


def limit_case(bench: Bench, outstanding: int, face: str, *, value_bytes: int = VALUE_BYTES) -> Callable[[], Sample]:
    """The limit in a scratch folder of its own."""

    def measure() -> Sample:
        with bench.folder() as folder:
            return limit.run(
                folder,
                face=face,
                value_bytes=value_bytes,
                outstanding=outstanding,
                seconds=bench.seconds,
                warmup_s=bench.warmup_s,
            )

    return measure


def run(bench: Bench) -> list[Row]:
    limit.build()
    inside.compile_native(None)
    with bench.folder() as folder, Cluster(folder) as cluster:
        rows = []
        began_s, term = time.monotonic(), cluster.leader().call(status)["term"]
        for outstanding in OUTSTANDING:
            rows += rows_of(bench, cases(bench, cluster, outstanding), outstanding)
        rows += saturated(bench, cluster)
        if rows:
            elections = Row("elections meanwhile", "", [cluster.leader().call(status)["term"] - term])
            elections.details["seconds"] = time.monotonic() - began_s
            elections.targets = [at_most("elections", elections.value, 0)]
            rows.append(elections)
        return rows


def rows_of(bench: Bench, chosen: dict[str, Callable[[], Sample]], outstanding: int) -> list[Row]:
    samples = interleaved(chosen, rounds=bench.rounds, advance=bench.step)
    rows = []
    for name, found in samples.items():
        face, member = name.split(", ")[:2]
        parameters = {"face": face, "member": member, "outstanding": outstanding, "value_bytes": VALUE_BYTES}
        row = row_of(name, found, parameters=parameters)
        kind = member if face == "limit" else {"threads": "native"}.get(face, face)
        reference = samples.get(f"limit, {kind}, {outstanding}")
        if face != "limit" and reference:
            compare_with(row, f"limit ({kind})", found, reference)
        row.targets = targets_of(row, samples)
        rows.append(row)
    return rows


def targets_of(row: Row, samples: dict[str, list[Sample]]) -> list[Target]:
    """What is asked of a row of its own, and of its ratio to another of the same round."""
    rate, details = row.value, row.details
    share = details.get("x limit (asyncio)", 0.0)
    leader = samples.get("asyncio, leader, 1024")
    if row.name == "asyncio, leader, 1024":
        return [at_least("rate", rate, 250_000, "/s"), at_least("share of the limit", share, 0.52)]
    if row.name == "uvloop, leader, 1024" and leader:
        return [at_least("x asyncio", compare_with(row, "asyncio", samples[row.name], leader), 1.25)]
    if row.name == "asyncio, follower, 1024" and leader:
        return [at_least("x leader", compare_with(row, "leader", samples[row.name], leader), 0.75)]
    if row.name == "asyncio, leader, 64":
        return [at_least("rate", rate, 100_000, "/s"), at_most("p99", details["p99_ms"], 1.2, " ms")]
    if row.name == "asyncio, leader, 1":
        return [at_most("p50", details["p50_ms"], 0.36, " ms")]
    if row.name == "asyncio, follower, 1":
        return [at_most("p50", details["p50_ms"], 0.5, " ms")]
    return []


def saturated(bench: Bench, cluster: Cluster) -> list[Row]:
    """Much under way: by `put_many`, and by the engine without Python."""
    chosen = {}
    leader = cluster.leader()
    times = (bench.seconds, bench.warmup_s)
    for value_bytes in (SMALL_BYTES, VALUE_BYTES):
        for outstanding in NATIVE_OUTSTANDING:
            name = f"native, {value_bytes} B, {outstanding} outstanding"
            chosen[name] = load(leader, inside.puts_native, outstanding, value_bytes, KEYS, *times)
        chosen[f"put_many, {value_bytes} B, {MANY_LISTS} lists outstanding"] = load(
            leader, inside.puts_many, MANY_LISTS, value_bytes, MANY_KEYS, *times
        )
        chosen[f"limit, {value_bytes} B"] = limit_case(bench, NATIVE_OUTSTANDING[-1], "native", value_bytes=value_bytes)
    samples = interleaved(
        {name: case for name, case in chosen.items() if bench.wants(name)}, rounds=bench.rounds, advance=bench.step
    )
    rows = []
    for name, found in samples.items():
        row = row_of(name, found)
        if not name.startswith("limit"):
            value_bytes = int(name.split()[1])
            reference = samples.get(f"limit, {value_bytes} B")
            if reference:
                compare_with(row, "limit (native)", found, reference)
            if not name.endswith(f"{NATIVE_OUTSTANDING[0]} outstanding"):
                row.targets = [at_least("rate", row.value, 1e6 if value_bytes == SMALL_BYTES else 8e5, "/s")]
        rows.append(row)
    return rows
