"""What a user would take instead, side by side: each peer is founded anew in each round, and the rounds take turns.

A client-server peer's client shares the machine with its servers, which an embedded one does not need: so each row says
which of the two it is, and both kinds stand beside both forms of raftmeta. A peer that cannot be had, or that fails (a
time-out for example), has a row that says so; the others are measured all the same.
"""

from __future__ import annotations

from benchmarks.bench import Bench
from benchmarks.compare import Peer, ReadablePeer
from benchmarks.compare.etcd import Etcd
from benchmarks.compare.provision import PeerMissing
from benchmarks.compare.py_sync_obj import PySyncObj
from benchmarks.compare.raft_meta import Embedded, OverRaft
from benchmarks.compare.zookeeper import ZooKeeper
from benchmarks.measure import Row, Sample, Target, at_least, compare_with, row_of
from benchmarks.suites.puts import limit_case

ORDER = 40
TITLE = "Peers, durable puts of 256 bytes and linearizable reads"
PEERS: tuple[type[Peer], ...] = (Embedded, PySyncObj, OverRaft, Etcd, ZooKeeper)
OUTSTANDING = (1, 64, 1024)
VALUE_BYTES = 256
TIMES_ETCD = 13.0


def run(bench: Bench) -> list[Row]:
    samples: dict[str, list[Sample]] = {}
    lacking: dict[str, Row] = {}
    for _ in range(bench.rounds):
        for outstanding in OUTSTANDING:
            name = f"limit, asyncio, put, {outstanding}"
            if bench.wants(name):
                bench.step(name)
                samples.setdefault(name, []).append(limit_case(bench, outstanding, "asyncio")())
        for kind in PEERS:
            if kind.name in lacking or not any(bench.wants(name) for name in rows_of(kind)):
                continue
            try:
                one_round(bench, kind, samples)
            except PeerMissing as error:
                lacking[kind.name] = Row(f"{kind.name}: not measured", "/s", [0.0], note=str(error))
            except Exception as error:  # it may be anything: each peer is a program, or a library, of somebody else
                bench.step(f"{kind.name} failed: {error!r}")
                lacking[kind.name] = failed_row(kind, error)
    return [finished(name, found, samples) for name, found in samples.items()] + list(lacking.values())


def failed_row(kind: type[Peer], error: Exception) -> Row:
    """Return the row of a peer that failed while it was measured. If raftmeta itself failed, a target is missed."""
    targets = [at_least("rounds without a failure", 0, 1)] if kind in (Embedded, OverRaft) else []
    note = f"failed, and was not tried again: {type(error).__name__}: {error}".rstrip(": ")
    return Row(f"{kind.name}: not measured", "/s", [0.0], note=note, targets=targets)


def rows_of(kind: type[Peer]) -> dict[str, tuple[str, int]]:
    """The names of a peer's rows: what is done, and how many at a time."""
    verbs = ("put", "get") if issubclass(kind, ReadablePeer) else ("put",)
    return {f"{kind.name}, {verb}, {outstanding}": (verb, outstanding) for verb in verbs for outstanding in OUTSTANDING}


def one_round(bench: Bench, kind: type[Peer], samples: dict[str, list[Sample]]) -> None:
    bench.step(f"founding {kind.name}")
    with bench.folder() as folder, kind(folder) as peer:
        for name, (verb, outstanding) in rows_of(kind).items():
            if bench.wants(name):
                bench.step(name)
                found = measure(bench, peer, verb, outstanding)
                samples.setdefault(name, []).append(found)


def measure(bench: Bench, peer: Peer, verb: str, outstanding: int) -> Sample:
    times = {"seconds": bench.seconds, "warmup_s": bench.warmup_s}
    if verb == "put":
        return peer.puts(outstanding=outstanding, value_bytes=VALUE_BYTES, **times)
    assert isinstance(peer, ReadablePeer), f"{verb} of {peer.name}"
    return peer.gets(outstanding=outstanding, **times)


def finished(name: str, found: list[Sample], samples: dict[str, list[Sample]]) -> Row:
    who, verb, outstanding = name.rsplit(", ", 2)
    peer = next((kind for kind in PEERS if kind.name == who), None)
    parameters = {"peer": who, "verb": verb, "outstanding": int(outstanding)}
    row = row_of(name, found, parameters=parameters, note=note_of(peer))
    if peer in (Embedded, OverRaft):
        for other in (*PEERS, None):
            reference = f"{other.name if other else 'limit, asyncio'}, {verb}, {outstanding}"
            if other not in (Embedded, OverRaft) and reference in samples:
                compare_with(row, other.name if other else "limit (asyncio)", found, samples[reference])
    row.targets = targets_of(row)
    return row


def note_of(peer: type[Peer] | None) -> str:
    if peer is None:
        return "no engine: benchmarks/limit"
    return f"{'embedded' if peer.is_embedded else 'client-server'}: {peer.settings}"


def targets_of(row: Row) -> list[Target]:
    times = row.details.get(f"x {Etcd.name}")
    if row.name == f"{Embedded.name}, put, 1024" and times is not None:
        return [at_least(f"x {Etcd.name}", times, TIMES_ETCD)]
    return []
