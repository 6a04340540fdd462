"""A million keys: what they cost puts, memory, checkpoints and restarts. Targets: issue "Speed" 5.

Keys have 12 bytes, values 64. Restarts are measured twice: of the node inside a running process, which is what the
targets are about, and of killed processes, interpreter and imports included, with a bare start of those beside it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lmdb

import raftmeta
from benchmarks.bench import Bench
from benchmarks.load import inside
from benchmarks.load.closed import run_in
from benchmarks.load.values import values_of
from benchmarks.measure import (
    Row,
    Sample,
    Target,
    at_least,
    at_most,
    compare_with,
    interleaved,
    percentile,
    row_of,
)
from benchmarks.suites.puts import load
from raftmeta.faults import abort
from tests.processes.cluster import Cluster, NodeProcess, ready
from tests.processes.remote import RemoteProcess
from tests.processes.waiting import wait_until

ORDER = 60
TITLE = "A million keys of 12 bytes with 64-byte values"
KEYS = 1_000_000
FEW_KEYS = 1_000
VALUE_BYTES = 64
OUTSTANDING = 1024
TAIL = 100_000
CHANGED_ONE_IN = 100
CHECKPOINT_OUTSTANDING = 64
CHUNK = b"c"  # the first byte of the key of a chunk
FAR_S = 0.05  # puts less than that before or after a checkpoint count for neither side
MIB = 1024 * 1024
PATIENCE_S = 300.0
PUTS_PER_S = 5_000  # beside checkpoints: one is due every two seconds


def run(bench: Bench) -> list[Row]:
    names = ("puts", "memory", "checkpoint", "restart")
    if not any(bench.wants(name) for name in names):
        return []
    keys = bench.size(KEYS)
    rows: list[Row] = []
    if bench.wants("puts") or bench.wants("memory"):
        rows += put_and_memory_rows(bench, keys)
    if bench.wants("restart"):
        rows += restart_rows(bench, keys)
    if bench.wants("checkpoint"):
        rows += checkpoint_rows(bench, keys)
    return rows


def put_and_memory_rows(bench: Bench, keys: int) -> list[Row]:
    """With default settings."""
    with bench.folder() as folder, Cluster(folder) as cluster:
        few = puts_at(bench, cluster, FEW_KEYS)
        bench.step(f"writing {keys:,} keys")
        fill_s = filled(cluster, keys)
        written = memory_rows(cluster, "once written")
        written[0].targets = [at_most("anonymous", max(written[0].values), 200, " MB")]
        written[0].details["seconds to write all keys"] = fill_s
        many = puts_at(bench, cluster, keys)
        rows = [row_of(f"puts, {FEW_KEYS} keys", few, parameters={"keys": FEW_KEYS}), put_row(keys, many, few)]
        return rows + written + memory_rows(cluster, "after the puts")


def filled(cluster: Cluster, keys: int) -> float:
    """Seconds until all keys are on every member."""
    began_s = time.monotonic()
    cluster.leader().call(inside.fill, 0, keys, VALUE_BYTES, timeout_s=PATIENCE_S)
    for member in cluster.nodes.values():
        wait_until(
            lambda member=member: member.call(inside.metrics)["keys"] >= keys,  # type: ignore[misc]
            timeout_s=PATIENCE_S,
            what=f"{member.name} to have all keys",
        )
    return time.monotonic() - began_s


def puts_at(bench: Bench, cluster: Cluster, keys: int) -> list[Sample]:
    bench.step(f"puts at {keys:,} keys")
    times = (bench.seconds, bench.warmup_s)
    case = load(cluster.leader(), inside.puts_awaited, "asyncio", OUTSTANDING, VALUE_BYTES, keys, *times)
    return interleaved({"": case}, rounds=bench.rounds, advance=lambda _: None)[""]


def put_row(keys: int, many: list[Sample], few: list[Sample]) -> Row:
    row = row_of(f"puts, {KEYS} keys", many, parameters={"keys": keys})
    share = compare_with(row, f"{FEW_KEYS} keys", many, few)
    row.targets = [at_least(f"x {FEW_KEYS} keys", share, 0.8)]
    return row


def memory_rows(cluster: Cluster, when: str) -> list[Row]:
    """Each follower's; anonymous memory is what the machine cannot take back.

    Peers are measured once their keys are written, and so has the target it. Puts that follow fill the history, which
    a node keeps up to history_bytes_max. In the leader's process the load ran, whose million names leave their room to
    the allocators.
    """
    told = [member.call(inside.memory_mb) for member in cluster.followers()]
    anonymous = Row(f"memory {when}, anonymous, each follower", " MB", [one["anonymous"] for one in told])
    anonymous.details["with the load's, on the leader"] = cluster.leader().call(inside.memory_mb)["anonymous"]
    return [anonymous, Row(f"memory {when}, resident, each follower", " MB", [one["resident"] for one in told])]


# --- checkpoints -----------------------------------------------------------------------------------------------------


def overwrite_until_checkpoint(node: raftmeta.Node, keys: int) -> None:
    """Put the same one key in a hundred, over and over, until the node has taken one checkpoint more."""
    taken = node.metrics()["snapshots_taken"]
    while node.metrics()["snapshots_taken"] == taken:
        inside.overwrite(node, keys, CHANGED_ONE_IN, VALUE_BYTES)


def offer_beside_checkpoints(
    node: raftmeta.Node, keys: int, is_busy: bool, seconds: float
) -> list[tuple[float, float]]:
    """When each put began, and how long it took, in seconds.

    is_busy: another thread of this process computes in Python meanwhile.
    """
    ended = threading.Event()
    busy = threading.Thread(target=compute_until, args=(ended,))
    if is_busy:
        busy.start()
    names = [f"key-{number:08}" for number in range(0, keys, CHANGED_ONE_IN)]
    values = values_of(VALUE_BYTES)
    answered: list[tuple[float, float]] = []

    async def work(first: int, face: raftmeta.aio.Node) -> None:
        number = first
        until_s = time.time() + seconds
        while (began_s := time.time()) < until_s:
            await face.put(names[number % len(names)], values[number % len(values)])
            answered.append((began_s, time.time() - began_s))
            number += CHECKPOINT_OUTSTANDING
            await asyncio.sleep(CHECKPOINT_OUTSTANDING / PUTS_PER_S)

    async def main() -> None:
        face = node.aio()
        await asyncio.gather(*(work(first, face) for first in range(CHECKPOINT_OUTSTANDING)))

    run_in("asyncio", main())
    ended.set()
    if is_busy:
        busy.join()
    return answered


class WrittenCheckpoints(logging.Handler):
    """When each checkpoint of this process was written, as its thread tells; waiting for its turn does not count."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.spans: list[tuple[float, float]] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno == logging.DEBUG and isinstance(record.args, tuple):
            began_s, took_s = (float(str(value)) for value in record.args[-2:])
            self.spans.append((began_s, began_s + took_s))


WRITTEN = WrittenCheckpoints()


def note_checkpoints(_node: raftmeta.Node) -> None:
    log = logging.getLogger("raftmeta.checkpoint")
    log.setLevel(logging.DEBUG)
    log.addHandler(WRITTEN)


def written_since(_node: raftmeta.Node, since_s: float) -> list[tuple[float, float]]:
    return [span for span in WRITTEN.spans if span[0] >= since_s]


def checkpoints_of(node: raftmeta.Node, since_s: float) -> list[tuple[float, float]]:
    """When each checkpoint that was due since then began and was durable."""
    spans: list[tuple[float, float]] = []
    due_s = 0.0
    for event in node.events(timeout_s=0):
        if event.name == "snapshot_due":
            due_s = event.time_s
        elif event.name == "snapshot_taken" and due_s >= since_s:
            spans.append((due_s, event.time_s))
    return spans


def beside_checkpoints(
    answered: list[tuple[float, float]], spans: list[tuple[float, float]]
) -> tuple[list[float], list[float]]:
    """Times of the puts that were under way while any member wrote a checkpoint, and of those far from any, sorted."""
    near: list[float] = []
    far: list[float] = []
    for began_s, took_s in answered:
        if any(began_s < end_s and began_s + took_s > due_s for due_s, end_s in spans):
            near.append(took_s)
        elif not any(began_s < end_s + FAR_S and began_s + took_s > due_s - FAR_S for due_s, end_s in spans):
            far.append(took_s)
    return sorted(near), sorted(far)


def compute_until(ended: threading.Event) -> None:
    number = 0
    while not ended.is_set():
        number = (number * 31 + 7) % 1_000_003


def checkpoint_rows(bench: Bench, keys: int) -> list[Row]:
    """Of members that take a checkpoint after so many entries; the transactions that write all keys are few."""
    settings: dict[str, Any] = {"snapshot_entries": max(100, keys // CHANGED_ONE_IN), "snapshot_log_bytes": 1024 * MIB}
    with bench.folder() as folder, Cluster(folder, **settings) as cluster:
        bench.step(f"writing {keys:,} keys")
        filled(cluster, keys)
        return measured_checkpoints(bench, cluster, keys)


def measured_checkpoints(bench: Bench, cluster: Cluster, keys: int) -> list[Row]:
    """The size of what one checkpoint wrote, and what checkpoints did to the puts beside them."""
    leader = cluster.leader()
    rows = []
    for member in cluster.nodes.values():
        member.call(note_checkpoints)
    # A whole one, and one of all that was put while that was written.
    for _ in range(2):
        leader.call(overwrite_until_checkpoint, keys, timeout_s=PATIENCE_S)
    for name, is_busy in (("host idle", False), ("a busy host thread", True)):
        bench.step(f"checkpoints beside puts, {name}")
        leader.call(overwrite_until_checkpoint, keys, timeout_s=PATIENCE_S)
        seconds = 1.0 if bench.is_trial else 20.0
        began_s = time.time()
        answered = leader.call(offer_beside_checkpoints, keys, is_busy, seconds, timeout_s=PATIENCE_S)
        told = {member.name: member.call(written_since, began_s) for member in cluster.nodes.values()}
        rows.append(beside_row(name, answered, told[leader.name], [span for spans in told.values() for span in spans]))
    for _ in range(2):  # if the first is a new base, the second is none
        leader.call(overwrite_until_checkpoint, keys, timeout_s=PATIENCE_S)
    leader.kill()
    base, *differences = layers_of(leader.folder / "checkpoint")
    back(leader)
    written = differences[-1] if differences else base
    share = 100 * written / base
    size = Row("checkpoint after 1 % of the keys", " % of a full one", [share])
    size.details = {"MB written": written / MIB, "MB of a full one": base / MIB}
    size.targets = [at_most("size", share, 3.0, " %")]
    return [size, *rows]


def beside_row(
    name: str, answered: list[tuple[float, float]], own: list[tuple[float, float]], spans: list[tuple[float, float]]
) -> Row:
    """own: the leader's checkpoints; spans: those of all members."""
    near, far = beside_checkpoints(answered, spans)
    details = {"checkpoints": float(len(own)), "puts beside": float(len(near))}
    added_ms = 0.0
    for share in (0.5, 0.99):
        beside_ms, otherwise_ms = (1000 * percentile(times, share) if times else 0.0 for times in (near, far))
        details[f"p{100 * share:.0f}_ms beside a checkpoint"] = beside_ms
        details[f"p{100 * share:.0f}_ms otherwise"] = otherwise_ms
        added_ms = beside_ms - otherwise_ms
    row = Row(f"checkpoint beside puts, {name}", " ms added to p99", [added_ms], details=details)
    if own:
        row.targets = [at_most("added", added_ms, 1.0, " ms")]
    else:
        row.note = "no checkpoint was due in that time"
    return row


def layers_of(folder: Path) -> list[int]:
    """Bytes of the base and of each difference, of a node that does not run; docs/formats.md "Checkpoint"."""
    sizes: Counter[int] = Counter()
    with lmdb.open(str(folder), readonly=True, lock=False) as environment, environment.begin(buffers=True) as reading:
        for key, row in reading.cursor():
            if bytes(key[:1]) == CHUNK:
                sizes[int.from_bytes(key[1:9], "big")] += len(row)
    return [size for _, size in sorted(sizes.items())]


# --- restarts --------------------------------------------------------------------------------------------------------


def imported() -> str:
    return raftmeta.__name__


def restart_rows(bench: Bench, keys: int) -> list[Row]:
    """Members whose checkpoints come after more log than the tail that is to be replayed has."""
    settings: dict[str, Any] = {"snapshot_log_bytes": bench.size(64) * MIB, "snapshot_entries": 1_000_000_000}
    with bench.folder() as folder, Cluster(folder, **settings) as cluster:
        bench.step(f"writing {keys:,} keys")
        filled(cluster, keys)
        return measured_restarts(bench, cluster, keys, folder)


def overwrite_until_due(node: raftmeta.Node, keys: int) -> None:
    """Put as overwrite_until_checkpoint does, but end when a checkpoint begins, and wait until that is there.

    What is put while it is written stands behind it in the log: up to 250,000 changes, where a base takes a second.
    """
    began_s = time.time()
    while not any(event.name == "snapshot_due" and event.time_s >= began_s for event in node.events(timeout_s=0)):
        inside.overwrite(node, keys, CHANGED_ONE_IN, VALUE_BYTES)
    wait_until(lambda: checkpoints_of(node, began_s), timeout_s=PATIENCE_S, what="the checkpoint to be there")


def checkpoint_everywhere(cluster: Cluster, keys: int) -> None:
    """On return each member has a checkpoint of almost now; members take them at the same points."""
    leader = cluster.leader()
    leader.call(overwrite_until_due, keys, timeout_s=PATIENCE_S)
    index = leader.call(inside.metrics)["snapshot_index"]
    for member in cluster.nodes.values():
        wait_until(
            lambda member=member: member.call(inside.metrics)["snapshot_index"] >= index,  # type: ignore[misc]
            timeout_s=PATIENCE_S,
            what=f"{member.name} to have its checkpoint",
        )


def measured_restarts(bench: Bench, cluster: Cluster, keys: int, folder: Path) -> list[Row]:
    """In each round: killed processes, nodes that end inside their processes, and one with a tail."""
    bare = RemoteProcess(imported, log=folder / "bare.log")
    follower = cluster.followers()[0]
    measured: dict[str, list[float]] = {}
    with ThreadPoolExecutor(len(cluster.nodes)) as pool:
        for _ in range(bench.rounds):
            bench.step("restarts")
            checkpoint_everywhere(cluster, keys)
            measured.setdefault("processes, interpreter and imports alone", []).append(started(bare.start))
            bare.kill()
            follower.kill()
            measured.setdefault("processes, one member", []).append(back(follower))
            cluster.kill()
            began_s = time.monotonic()
            list(pool.map(back, cluster.nodes.values()))
            measured.setdefault("processes, all three members", []).append(time.monotonic() - began_s)
            measured.setdefault("restart, one member", []).append(follower.call(reopened, timeout_s=PATIENCE_S))
            follower.kill()
            back(follower)
            opened = [member.begin(reopened) for member in cluster.nodes.values()]
            measured.setdefault("restart, all three members", []).append(max(one.result(PATIENCE_S) for one in opened))
            cluster.kill()
            list(pool.map(back, cluster.nodes.values()))
            cluster.leader().call(inside.fill_one_by_one, bench.size(TAIL), VALUE_BYTES, timeout_s=PATIENCE_S)
            measured.setdefault(f"restart, one member with a tail of {TAIL}", []).append(
                follower.call(reopened, timeout_s=PATIENCE_S)
            )
            follower.kill()
            back(follower)
        cluster.kill()
    rows = [Row(name, " s", values) for name, values in measured.items()]
    for row in rows:
        row.targets = restart_targets(row)
    return rows


def restart_targets(row: Row) -> list[Target]:
    if not row.name.startswith("restart"):
        return []
    most_s = 0.8 if "tail" in row.name else 1.0 if "all" in row.name else 0.5
    return [at_most("time", row.value, most_s, " s")]


def reopened(node: raftmeta.Node) -> float:
    """End the node of this process as kill -9 would, and open its folder again: seconds until it is ready.

    The process is of no use for other calls afterwards: the node that runs is not the one it was made with.
    """
    identity = node.identity
    abort(node)
    began_s = time.monotonic()
    peers = {name: str(address) for name, address in identity.peers.items()}
    again = raftmeta.Node(identity.name, peers=peers, data_dir=identity.data_dir, config=node.config).start()
    again.ready(PATIENCE_S)
    REOPENED.append(again)
    return time.monotonic() - began_s


REOPENED: list[raftmeta.Node] = []  # they run until their process ends


def started(start: Any) -> float:
    began_s = time.monotonic()
    start()
    return time.monotonic() - began_s


def back(member: NodeProcess) -> float:
    began_s = time.monotonic()
    member.start(timeout_s=PATIENCE_S)
    member.call(ready, PATIENCE_S, timeout_s=PATIENCE_S + 5)
    return time.monotonic() - began_s
