"""Durable puts of 256 bytes with encryption at rest beside plain ones, and by clients with an audit trail beside
clients without one, in turns, in one run.

Clusters stand side by side, and one of them works at a time. Targets: issue 19 "Speed". TLS is measured here too, once
there is TLS.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from benchmarks.bench import Bench
from benchmarks.load import inside
from benchmarks.load.closed import closed_loop, run_in
from benchmarks.load.values import KEYS, keys_of, values_of
from benchmarks.measure import Row, Sample, at_least, compare_with, interleaved, row_of
from benchmarks.suites.puts import VALUE_BYTES, load
from raftmeta import aio
from tests.processes.cluster import Cluster, key_file

ORDER = 95
TITLE = "Puts with encryption at rest, or with an audit trail, beside plain ones, 256 bytes"
OUTSTANDING = (1, 1024)
LEAST_SHARE = 0.8  # of plain, with encryption at rest and TLS together
TRAILS: dict[str, dict[str, Any]] = {"silent": {}, "audited": {"audit": {"writes": True}}}


def run(bench: Bench) -> list[Row]:
    inside.compile_native(None)
    rows = []
    with ExitStack() as stack:
        clusters = {}
        for kind in ("plain", "encrypted"):
            folder = stack.enter_context(bench.folder())
            settings = {"encryption_key_file": key_file(folder / "keys")} if kind == "encrypted" else {}
            clusters[kind] = stack.enter_context(Cluster(folder, **settings))
        for outstanding in OUTSTANDING:
            rows += with_outstanding(bench, clusters, outstanding)
    return rows + with_trails(bench)


def with_outstanding(bench: Bench, clusters: dict[str, Cluster], outstanding: int) -> list[Row]:
    chosen = {}
    for kind, cluster in clusters.items():
        times = (bench.seconds, bench.warmup_s)
        name = f"asyncio, {kind}, {outstanding}"
        arguments = ("asyncio", outstanding, VALUE_BYTES, KEYS, *times)
        chosen[name] = load(cluster.leader(), inside.puts_awaited, *arguments)
        name = f"native, {kind}, {outstanding}"
        chosen[name] = load(cluster.leader(), inside.puts_native, outstanding, VALUE_BYTES, KEYS, *times)
    samples = interleaved(
        {name: case for name, case in chosen.items() if bench.wants(name)}, rounds=bench.rounds, advance=bench.step
    )
    rows = []
    for name, found in samples.items():
        face, kind, _ = name.split(", ")
        row = row_of(name, found, parameters={"face": face, "files": kind, "outstanding": outstanding})
        plain = samples.get(f"{face}, plain, {outstanding}")
        if kind == "encrypted" and plain:
            share = compare_with(row, "plain", found, plain)
            if outstanding == OUTSTANDING[-1]:
                row.targets = [at_least("share of plain", share, LEAST_SHARE)]
        rows.append(row)
    return rows


# --- an audit trail ---------------------------------------------------------------------------------------------------


def puts_by_client(bench: Bench, cluster: Cluster, outstanding: int) -> Callable[[], Sample]:
    """`await put` over raft:// in this process; the trail records requests of clients only."""
    names, values = keys_of(KEYS), values_of(VALUE_BYTES)

    async def main() -> dict[str, Any]:
        async with aio.Client(cluster.url) as client:
            return await closed_loop(
                lambda number: client.put(names[number % KEYS], values[number % len(values)]),
                outstanding=outstanding,
                seconds=bench.seconds,
                warmup_s=bench.warmup_s,
            )

    return lambda: Sample.of(run_in("asyncio", main()))


def with_trails(bench: Bench) -> list[Row]:
    """Each node of the audited cluster writes a line for each put that it serves."""
    rows = []
    with ExitStack() as stack:
        clusters = {}
        for kind, settings in TRAILS.items():
            folder = stack.enter_context(bench.folder())
            clusters[kind] = stack.enter_context(Cluster(folder, serves_clients=True, **settings))
        for outstanding in OUTSTANDING:
            cases = {
                f"client, {kind}, {outstanding}": puts_by_client(bench, cluster, outstanding)
                for kind, cluster in clusters.items()
            }
            samples = interleaved(
                {name: case for name, case in cases.items() if bench.wants(name)},
                rounds=bench.rounds,
                advance=bench.step,
            )
            for name, found in samples.items():
                kind = name.split(", ")[1]
                row = row_of(name, found, parameters={"face": "client", "trail": kind, "outstanding": outstanding})
                if kind == "audited" and (silent := samples.get(f"client, silent, {outstanding}")):
                    compare_with(row, "silent", found, silent)
                rows.append(row)
    return rows
