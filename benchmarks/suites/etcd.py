"""The etcd door beside a real etcd 3.7: one server of each, loaded by etcd's own client in Go.

The same program (tests/doors/programs/EtcdLoad.go) loads both, one after the other in each round. Both servers stand at
the same time and share the machine with the client. Targets: issue "Speed" of the etcd door.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench
from benchmarks.load.etcd_servers import Server, door, real
from benchmarks.measure import Row, Target, at_least, at_most

ORDER = 97
TITLE = "Clients of etcd on raftmeta and on etcd 3.7"
IS_LONG = True
DOOR, REAL = "raftmeta", "etcd"
KINDS = {DOOR: door, REAL: real}
OUTSTANDING = 1_024
VALUE_BYTES = 256
LOAD_S = 5
WATCHERS = 1_000
KEYS = 1_000_000
SMALL_BYTES = 64
MIB = 1 << 20


def run(bench: Bench) -> list[Row]:
    rows: list[Row] = []
    with bench.folder() as folder:
        bench.step("starting one server of each")
        with door(folder / DOOR) as ours, real(folder / REAL) as theirs:
            servers = {DOOR: ours, REAL: theirs}
            rows += _rates(bench, servers)
    if bench.wants("keys"):
        rows += _many_keys(bench)
    return rows


def _rates(bench: Bench, servers: dict[str, Server]) -> list[Row]:
    rows = []
    seconds = 1 if bench.is_trial else LOAD_S
    loads: list[tuple[str, list[str | int], float]] = [
        (f"Put of 256 B, {OUTSTANDING:,} outstanding", ["put", OUTSTANDING, seconds, VALUE_BYTES], 2.5),
        ("Put of 256 B, 1 outstanding", ["put", 1, seconds, VALUE_BYTES], 0),
        (f"linearizable Range, {OUTSTANDING:,} outstanding", ["get", OUTSTANDING, seconds, VALUE_BYTES], 3),
        (f"events to {WATCHERS:,} watchers", ["watch", bench.size(WATCHERS), seconds], 3),
    ]
    for name, words, times in loads:
        if not bench.wants(name):
            continue
        found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in servers}
        for number in range(bench.rounds):
            for kind, server in servers.items():
                bench.step(f"{name} on {kind}, {number + 1}")
                found[kind].append(server.load(*words))
        rows += _beside(name, found, times)
    return rows


def _beside(name: str, found: dict[str, list[dict[str, Any]]], times: float) -> list[Row]:
    """times: what the door must reach of the other's rate; 0: its median time counts, at most 60 % of the other's."""
    rows = {}
    for kind, rounds in found.items():
        details = {}
        if rounds[0]["p50_ms"]:
            middle = sorted(rounds, key=lambda one: one["count"] / one["seconds"])[len(rounds) // 2]
            details = {"p50, ms": middle["p50_ms"], "p99, ms": middle["p99_ms"]}
        details["us of processor for each"] = (
            1e6 * sum(one["processor_s"] / one["count"] for one in rounds) / len(rounds)
        )
        rates = [one["count"] / one["seconds"] for one in rounds]
        rows[kind] = Row(f"{kind}, {name}", "/s", rates, details=details)
    ratio = rows[DOOR].value / rows[REAL].value
    rows[DOOR].details[f"x {REAL}"] = ratio
    if times:
        rows[DOOR].targets = [at_least(f"x {REAL}", ratio, times)]
    else:
        rows[DOOR].targets = [
            at_most(f"p50 / {REAL}'s", rows[DOOR].details["p50, ms"] / rows[REAL].details["p50, ms"], 0.6)
        ]
    return [*rows.values()]


def _many_keys(bench: Bench) -> list[Row]:
    """Memory of a server with so many keys of 64 B, and how long it takes to serve again after a kill."""
    count = bench.size(KEYS)
    memory, restart = {}, {}
    for kind, make in KINDS.items():
        with bench.folder() as folder, make(Path(folder) / kind) as server:
            bench.step(f"{count:,} keys on {kind}")
            server.load("fill", count, SMALL_BYTES)
            memory[kind] = server.memory_bytes() / MIB
            bench.step(f"a restart of {kind}")
            server.kill()
            begun_s = time.monotonic()
            server.start()
            restart[kind] = time.monotonic() - begun_s
    return [
        *_pair(f"memory of {count:,} keys of 64 B", "MiB", memory, 0.5),
        *_pair(f"restart with {count:,} keys", "s", restart, 0.25),
    ]


def _pair(name: str, unit: str, values: dict[str, float], most: float) -> list[Row]:
    share = values[DOOR] / values[REAL]
    targets: list[Target] = [at_most(f"of {REAL}'s", share, most)]
    return [
        Row(f"{DOOR}, {name}", unit, [values[DOOR]], details={f"x {REAL}": share}, targets=targets),
        Row(f"{REAL}, {name}", unit, [values[REAL]]),
    ]
