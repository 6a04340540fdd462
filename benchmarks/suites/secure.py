"""The price of security: puts with TLS, encryption at rest, rights and audit beside plain ones, and handshakes.

Clusters of each kind stand side by side, and one of them works at a time, in turns. Each share is that of two samples
of one round. Targets: issue 19 "Speed".
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import raftmeta
from benchmarks.bench import Bench
from benchmarks.load import handshakes, inside
from benchmarks.load.closed import closed_loop, run_in
from benchmarks.load.values import KEYS, keys_of, values_of
from benchmarks.measure import Row, Sample, at_least, at_most, compare_with, interleaved, row_of
from benchmarks.suites.puts import VALUE_BYTES, load
from raftmeta.security.pki import Pki
from tests.processes.cluster import Cluster, NodeProcess, key_file, tls_of
from tests.processes.waiting import wait_until

ORDER = 95
TITLE = "TLS, encryption at rest, rights and audit beside plain puts of 256 bytes, and handshakes"
NAMES = ("a", "b", "c")
CLIENT = "bench"  # its principal, and the user where rights are on
PASSWORD = "only this benchmark's"
OUTSTANDING = (1, 1024)
HANDSHAKES, SHAKERS = 2000, 4
SETTLED_S = 30.0

# What a kind of cluster costs beside a plain one: the share of its rate that must be left.
LEAST_SHARE_INSIDE = {"tls": 0.88, "tls and encrypted": 0.8}
LEAST_SHARE_OF_CLIENTS = {"tls": 0.85, "rights": 0.97}
MORE_MS_MAX = 0.04  # of the median of one put at a time, with TLS
HANDSHAKES_S_MIN = 1000


@contextmanager
def clusters_of(bench: Bench) -> Iterator[tuple[dict[str, Cluster], Path]]:
    """One of each kind, and the folder of the certificates."""
    with bench.folder() as folder:
        pki = Pki.found(folder / "pki", "default")
        for name in NAMES:
            pki.issue("node", name)
        pki.issue("client", CLIENT)
        tls = {"pki_folder": str(pki.folder)}
        for kind in ("plain", "tls", "encrypted", "rights", "audited"):
            (folder / kind).mkdir()
        with (
            Cluster(folder / "plain", serves_clients=True) as plain,
            Cluster(folder / "tls", serves_clients=True, **tls) as secured,
            Cluster(folder / "encrypted", **tls, encryption_key_file=key_file(folder / "keys")) as encrypted,
            Cluster(folder / "rights", serves_clients=True) as rights,
            Cluster(folder / "audited", serves_clients=True, audit={"writes": True}) as audited,
        ):
            rights.leader().call(ask_for_rights)
            kinds = {"plain": plain, "tls": secured, "tls and encrypted": encrypted, "rights": rights}
            kinds["audited"] = audited  # a line for each put
            yield kinds, pki.folder / "client" / CLIENT


def ask_for_rights(node: raftmeta.Node) -> None:
    """Let the client write all keys, and nobody do anything without a right."""
    node.auth.put_user(CLIENT, PASSWORD)
    node.auth.put_role(CLIENT)
    node.auth.grant(CLIENT, "read", "write", prefix="")
    node.auth.bind(CLIENT, CLIENT)
    node.auth.enable()


def run(bench: Bench) -> list[Row]:
    inside.compile_native(None)
    with clusters_of(bench) as (clusters, place):
        rows = []
        for outstanding in OUTSTANDING:
            rows += inside_rows(bench, clusters, outstanding)
            rows += client_rows(bench, clusters, place, outstanding)
        return rows + handshake_rows(bench, clusters["tls"], place)


# --- puts -------------------------------------------------------------------------------------------------------------
def inside_rows(bench: Bench, clusters: dict[str, Cluster], outstanding: int) -> list[Row]:
    """In the process of the leader: TLS is between the nodes only, and nobody is asked for rights."""
    chosen = {}
    times = (bench.seconds, bench.warmup_s)
    for kind in ("plain", *LEAST_SHARE_INSIDE):
        leader = clusters[kind].leader()
        arguments = (outstanding, VALUE_BYTES, KEYS, *times)
        chosen[f"asyncio, {kind}, {outstanding}"] = load(leader, inside.puts_awaited, "asyncio", *arguments)
        chosen[f"native, {kind}, {outstanding}"] = load(leader, inside.puts_native, *arguments)
    return rows_of(bench, chosen, LEAST_SHARE_INSIDE, outstanding)


def client_rows(bench: Bench, clusters: dict[str, Cluster], place: Path, outstanding: int) -> list[Row]:
    """Over raft://, from this process."""
    more: dict[str, dict[str, Any]] = {
        "plain": {},
        "tls": {"tls": tls_of(place)},
        "rights": {"user": CLIENT, "password": PASSWORD},
        "audited": {},
    }
    chosen = {
        f"client, {kind}, {outstanding}": client_case(bench, clusters[kind], outstanding, given)
        for kind, given in more.items()
    }
    return rows_of(bench, chosen, LEAST_SHARE_OF_CLIENTS, outstanding)


def client_case(bench: Bench, cluster: Cluster, outstanding: int, given: dict[str, Any]) -> Callable[[], Sample]:
    names, values = keys_of(KEYS), values_of(VALUE_BYTES)

    async def main() -> dict[str, Any]:
        async with raftmeta.aio.Client(cluster.url, **given) as client:
            await client.ready()
            return await closed_loop(
                lambda number: client.put(names[number % KEYS], values[number % len(values)]),
                outstanding=outstanding,
                seconds=bench.seconds,
                warmup_s=bench.warmup_s,
            )

    return lambda: Sample.of(run_in("asyncio", main()))


def rows_of(
    bench: Bench, chosen: dict[str, Callable[[], Sample]], least_share: dict[str, float], outstanding: int
) -> list[Row]:
    samples = interleaved(
        {name: case for name, case in chosen.items() if bench.wants(name)}, rounds=bench.rounds, advance=bench.step
    )
    rows = []
    for name, found in samples.items():
        face, kind, _ = name.split(", ")
        row = row_of(name, found, parameters={"face": face, "kind": kind, "outstanding": outstanding})
        plain = samples.get(f"{face}, plain, {outstanding}")
        if kind != "plain" and plain:
            share = compare_with(row, "plain", found, plain)
            if outstanding == OUTSTANDING[-1] and kind in least_share:
                row.targets = [at_least("share of plain", share, least_share[kind])]
            elif kind == "tls":
                more_ms = statistics.median(one.p50_ms - other.p50_ms for one, other in zip(found, plain, strict=True))
                row.details["p50_ms, more than plain"] = more_ms
                row.targets = [at_most("p50 more than plain", more_ms, MORE_MS_MAX, " ms")]
        rows.append(row)
    return rows


# --- handshakes -------------------------------------------------------------------------------------------------------
def handshake_rows(bench: Bench, cluster: Cluster, place: Path) -> list[Row]:
    """Handshakes with one node for each second of its processor time, which is also right on a machine that works."""
    leader = cluster.leader()
    address = cluster.clients[leader.name]
    chosen = {
        "handshakes a core": handshake_case(bench, leader, address, place, is_resumed=False),
        "handshakes a core, resumed": handshake_case(bench, leader, address, place, is_resumed=True),
    }
    samples = interleaved(
        {name: case for name, case in chosen.items() if bench.wants(name)}, rounds=bench.rounds, advance=bench.step
    )
    rows = [row_of(name, found) for name, found in samples.items()]
    for row in rows:
        row.targets = [at_least("rate", row.value, HANDSHAKES_S_MIN, "/s")]
    return rows


def handshake_case(
    bench: Bench, leader: NodeProcess, address: str, place: Path, *, is_resumed: bool
) -> Callable[[], Sample]:
    counted = "client_tls_handshakes_resumed" if is_resumed else "client_tls_handshakes"
    count = bench.size(HANDSHAKES) // SHAKERS * SHAKERS

    def done() -> int:
        return int(leader.call(inside.metrics)[counted])

    def measure() -> Sample:
        first, began_s = done(), float(leader.call(inside.processor_s))
        least = count - SHAKERS if is_resumed else count  # the first of each thread brings the ticket
        handshakes.shake_many(address, place, count, threads=SHAKERS, is_resumed=is_resumed)
        wait_until(lambda: done() >= first + least, timeout_s=SETTLED_S, what=f"{least} handshakes")
        return Sample(count, float(leader.call(inside.processor_s)) - began_s)

    return measure
