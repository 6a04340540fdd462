"""Durable puts of 256 bytes with encryption at rest beside plain ones, in turns, in one run.

Two clusters stand side by side, and one of them works at a time. Targets: issue 19 "Speed". TLS is measured here too,
once there is TLS.
"""

from __future__ import annotations

from contextlib import ExitStack

from benchmarks.bench import Bench
from benchmarks.load import inside
from benchmarks.load.values import KEYS
from benchmarks.measure import Row, at_least, compare_with, interleaved, row_of
from benchmarks.suites.puts import VALUE_BYTES, load
from tests.processes.cluster import Cluster, key_file

ORDER = 95
TITLE = "Puts with encryption at rest beside plain ones, 256 bytes"
OUTSTANDING = (1, 1024)
LEAST_SHARE = 0.8  # of plain, with encryption at rest and TLS together


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
    return rows


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
