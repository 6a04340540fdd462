"""Checkpoints of running nodes: the log stays short, a restart needs only its tail, and nobody waits for them."""

from __future__ import annotations

import ctypes
import itertools
import logging
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lmdb

import raftmeta
from raftmeta.storage.checkpoint import FORMAT_BASE, CheckpointStore, Manifest
from tests.node.nodes import MIB, leader_of, make_nodes, running
from tests.processes.waiting import wait_until

POINTS = {"snapshot_entries": 100}
LOG_TAIL_LOST = 4  # WalState
TURNS, TURN_MAX_S = 2, 0.05  # raftmeta/face/checkpoints.pyx


def manifest(folder: Path) -> Manifest | None:
    """What is durable, read beside the node that has it open: LMDB readers see what was committed."""
    if not (folder / "checkpoint" / "data.mdb").exists():
        return None
    path = str(folder / "checkpoint")
    copy = folder.with_name(folder.name + "-copy")
    copy.mkdir(exist_ok=True)
    (copy / "data.mdb").write_bytes((Path(path) / "data.mdb").read_bytes())
    store = CheckpointStore(copy)
    try:
        return store.open()
    finally:
        store.close()


def fill(node: raftmeta.Node, count: int, *, start: int = 0) -> None:
    for i in range(start, start + count):
        node.put(f"key-{i:05}", b"%d" % i)


def taken(node: raftmeta.Node) -> int:
    return node.metrics()["snapshots_taken"]


def pass_points(nodes: dict[str, raftmeta.Node], count: int) -> None:
    """A point that comes while a checkpoint is being written is passed over: so wait for each."""
    for point in range(count):
        before = {name: taken(node) for name, node in nodes.items()}
        fill(leader_of(nodes), 100, start=100 * point)
        for name, node in nodes.items():
            wait_until(
                lambda node=node, than=before[name]: taken(node) > than, timeout_s=20, what=f"a checkpoint of {name}"
            )


class Written(logging.Handler):
    """When each node began to write which difference, and how long that took, as its thread tells."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.differences: list[tuple[str, int, float, float]] = []

    def emit(self, record: logging.LogRecord) -> None:
        assert isinstance(record.args, tuple)
        folder, index, layers, began_s, took_s = record.args
        if layers > 1:  # type: ignore[operator]
            self.differences.append((Path(str(folder)).parent.name, index, began_s, took_s))  # type: ignore[arg-type]


def test_members_write_what_changed_one_after_the_other(tmp_path: Path) -> None:
    """All come to a point at the same entry; a majority that writes at the same moment is slower as a whole."""
    log, written = logging.getLogger("raftmeta.checkpoint"), Written()
    log.addHandler(written)
    level = log.level
    log.setLevel(logging.DEBUG)
    try:
        with running(tmp_path, **POINTS, snapshot_log_bytes=4 * MIB) as nodes:  # a log that lacks room waits for nobody
            pass_points(nodes, 5)
            due = {
                (name, event.facts["index"]): event.time_s
                for name, node in nodes.items()
                for event in node.events(timeout_s=0)
                if event.name == "snapshot_due"
            }
    finally:
        log.removeHandler(written)
        log.setLevel(level)
    turns = []
    for name in nodes:
        mine = [(index, began_s, took_s) for of, index, began_s, took_s in written.differences if of == name]
        waited = [
            (began_s - due[name, index]) / min(TURN_MAX_S, TURNS * took_before_s)
            for (_, _, took_before_s), (index, began_s, _) in itertools.pairwise(mine)
        ]
        assert waited, name
        turns.append(min(waited))
    assert [turn >= place for place, turn in enumerate(sorted(turns))] == [True] * 3, turns


def everything(node: raftmeta.Node) -> list[tuple[str, bytes, int, int]]:
    found = node.range(prefix="key-")
    return [(one.key, one.value, one.mod_revision, one.version) for one in found.records]


def test_a_restart_loads_the_checkpoint_and_the_tail_of_the_log(tmp_path: Path) -> None:
    with running(tmp_path, names="a", **POINTS) as nodes:
        pass_points(nodes, 3)
        before = everything(nodes["a"])
        old = nodes["a"].get("key-00007", revision=30)
    written = manifest(tmp_path / "a")
    assert written is not None and written.index >= 200
    assert written.layers[0].kind == FORMAT_BASE
    assert not list((tmp_path / "a").glob("*.sealed"))
    again = raftmeta.Node(
        "a", peers={"a": str(nodes["a"].identity.listen)}, data_dir=tmp_path / "a", config=nodes["a"].config
    )
    again.start()
    try:
        again.ready(30)
        told = next(event for event in again.events() if event.name == "snapshot_loaded")
        assert told.facts["index"] == written.index
        assert everything(again) == before
        assert again.get("key-00007", revision=30) == old
        fill(again, 120, start=1000)
        wait_until(lambda: taken(again) >= 1, timeout_s=30, what="one more checkpoint")
        assert len(everything(again)) == 420
    finally:
        again.close()
    later = manifest(tmp_path / "a")
    assert later is not None and later.index > written.index


def test_the_log_goes_behind_a_checkpoint(tmp_path: Path) -> None:
    """Segments of 64 KiB: without checkpoints the log would pass its limit and refuse."""
    small = {"segment_bytes": 64 * 1024, "wal_bytes_max": 512 * 1024, "snapshot_log_bytes": 64 * 1024}
    with running(tmp_path, names="a", **POINTS | small) as nodes:
        for i in range(300):
            nodes["a"].put(f"key-{i % 50:05}", bytes(4000))
        assert nodes["a"].metrics()["snapshots_taken"] > 3


def test_whoever_holds_the_gil_stalls_neither_loop_nor_log(tmp_path: Path) -> None:
    """The checkpoint of the stalled host is late; entries of the others are applied there all the same."""
    with running(tmp_path, **POINTS) as nodes:
        leader = leader_of(nodes)
        done = threading.Event()

        def write() -> None:
            fill(leader, 150)
            done.set()

        writer = threading.Thread(target=write)
        writer.start()
        for _ in range(20):
            ctypes.PyDLL(None).usleep(20_000)  # with the GIL held, of all three nodes
            time.sleep(0)
        assert done.wait(30)
        writer.join()
        for node in nodes.values():
            wait_until(lambda node=node: taken(node) >= 1, timeout_s=30, what="the checkpoint")
            assert node.metrics()["elections"] <= 1


def events_of_a_start(tmp_path: Path, spoil: Callable[[Path], None]) -> dict[str, Any]:
    """Of a start of one of three whose folder was spoiled while it was down: it has the others' state afterwards."""
    nodes = make_nodes(tmp_path, **POINTS)
    for node in nodes.values():
        node.start()
    try:
        for node in nodes.values():
            node.ready(30)
        pass_points(nodes, 3)
        before = everything(nodes["a"])
        victim = nodes["b"]
        victim.close()
        spoil(tmp_path / "b")
        peers = {name: str(node.identity.listen) for name, node in nodes.items()}
        again = nodes["b"] = raftmeta.Node("b", peers=peers, data_dir=tmp_path / "b", config=victim.config)
        again.start()
        again.ready(20)
        events = {event.name: event for event in again.events(timeout_s=5)}
        assert everything(again) == before
        return events
    finally:
        for node in nodes.values():
            node.close(transfer=False)


def test_a_damaged_checkpoint_is_passed_over_and_the_node_comes_back(tmp_path: Path) -> None:
    """The log does not reach back any more: the others' state takes its place."""
    assert "snapshot_damaged" in events_of_a_start(tmp_path, damage)


def test_a_checkpoint_beside_a_lost_log_counts_for_nothing(tmp_path: Path) -> None:
    """It is loaded while the log is opened: the node must not go on from it, but begin another incarnation."""
    events = events_of_a_start(tmp_path, lose_log)
    assert events["log_opened"].facts["state"] == LOG_TAIL_LOST
    assert "snapshot_loaded" not in events


def lose_log(folder: Path) -> None:
    assert manifest(folder) is not None
    for log in folder.glob("*.log"):
        log.unlink()


def damage(folder: Path) -> None:
    with (
        lmdb.open(str(folder / "checkpoint"), lock=False, map_size=1 << 30) as environment,
        environment.begin(write=True) as transaction,
        transaction.cursor() as cursor,
    ):
        assert cursor.set_range(b"c" + struct.pack(">QI", 0, 0))
        row = bytearray(cursor.value())
        row[len(row) // 2] ^= 1
        transaction.put(cursor.key(), bytes(row))


def test_close_does_not_wait_for_a_checkpoint(tmp_path: Path) -> None:
    with running(tmp_path, names="a", **POINTS) as nodes:
        fill(nodes["a"], 110)
        began = time.monotonic()
        nodes["a"].close()
        assert time.monotonic() - began < nodes["a"].config.close_timeout_s
    assert not [thread for thread in threading.enumerate() if thread.name == "raftmeta-checkpoint"]
