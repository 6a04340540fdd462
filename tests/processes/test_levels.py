"""The feature level of a real cluster rises when every member has answered for itself, and by nobody else's word."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftmeta import snapshot
from raftmeta.face.stopped_folder import opened_folder
from raftmeta.face.stopped_log import MACHINE_LIMITS
from raftmeta.storage.identity_file import read_identity
from raftmeta.storage.sealed_handle import SealedWriterHandle
from raftmeta.storage.storage_handle import FolderDisk
from tests.faces.core import Member, Membership, encode_membership
from tests.faces.machine import MachineHandle
from tests.machine import commands
from tests.processes.cluster import Cluster, NodeProcess, put
from tests.processes.load import start_again
from tests.processes.test_hostile import KEEP_ALIVE, LEVEL, connect, counted, forge, hello_of, metrics, told
from tests.processes.waiting import wait_until
from tests.wire.names import FrameType, Status


def file_of_level_one(path: Path) -> Path:
    """A backup of an empty cluster whose members support no more than level 1."""
    machine = MachineHandle(**MACHINE_LIMITS)
    machine.apply(b"", entry_type=commands.NOOP)
    machine.publish()
    records = b"".join(machine.dump(1 << 20))
    disk = FolderDisk(path.parent)
    writer = SealedWriterHandle(disk)
    membership = encode_membership(Membership((Member(1, 1, "a", "h:1"),)))
    begun = writer.begin(
        path.name,
        point=(1, 1, 7),
        cluster=(1, 2),
        membership=membership,
        membership_index=0,
        feature_level=1,
        wall_ms=0,
    )
    assert begun == writer.chunk(records, count=count_of(records), split_key=b"") == Status.OK
    state_hash = machine.status().state_hash
    assert writer.seal(state_hash=(state_hash & (1 << 64) - 1, state_hash >> 64)) == Status.OK
    disk.close()
    return path


def count_of(records: bytes) -> int:
    """Records of a state, by their lengths (docs/formats.md "Records of the state")."""
    at = count = 0
    while at < len(records):
        at += 8 + int.from_bytes(records[at : at + 4], "little")
        count += 1
    return count


@contextlib.contextmanager
def cluster_of_level_one(folder: Path) -> Iterator[tuple[Cluster, NodeProcess]]:
    """A cluster whose member c is away, so that its level cannot rise, and its leader."""
    cluster = Cluster(folder)
    path = file_of_level_one(folder / "one.sealed")
    for name in cluster.nodes:
        snapshot.restore(path, folder / name, name, cluster.peers)
    try:
        for name in "ab":
            cluster.nodes[name].start()
        cluster.wait_ready()
        yield cluster, cluster.leader()
    finally:
        cluster.kill()


def test_a_level_that_was_only_claimed_raises_nothing(tmp_path: Path) -> None:
    """A level never falls, and would keep an older member out for ever. Act: somebody says that it is c, of this
    version. Check: the level waits for the true c."""
    with cluster_of_level_one(tmp_path) as (cluster, leader):
        absent = read_identity(tmp_path / "c")
        assert absent is not None
        claim = {"id": absent.incarnation, "boot": 5, "name": b"c", "address": cluster.peers["c"].encode()}
        with connect(cluster, leader.name) as connection:
            connection.sendall(hello_of(cluster, "a" if leader.name == "b" else "b", **claim))
            assert connection.recv(4096)[9] == FrameType.FRAME_HELLO
            turns = leader.call(metrics)["turns"]
            wait_until(lambda: leader.call(metrics)["turns"] > turns + 100, timeout_s=30, what="turns of the leader")
            leader.call(put, "after", b"claim")
            assert told(leader)["feature_level"] == 1
        start_again(cluster.nodes["c"])
        wait_until(lambda: told(leader)["feature_level"] == LEVEL, timeout_s=30, what=cluster.logs)


@pytest.mark.parametrize(
    "payload",
    [
        commands.command(commands.USER, b"machine", b"a level too early"),
        commands.command(commands.LEVEL, LEVEL),
        commands.spoken(commands.keep_alive()),
    ],
    ids=["a user machine", "the level itself", "spoken"],
)
def test_a_command_above_the_level_never_reaches_the_log(tmp_path: Path, payload: bytes) -> None:
    """This version knows it, and c may be of one that does not: at apply it would stop c."""
    with cluster_of_level_one(tmp_path) as (cluster, leader):
        with counted(cluster, "frames_received", count=2, name=leader.name):
            forge(cluster, (0, [KEEP_ALIVE, payload]), (0, [KEEP_ALIVE]))
        leader.call(put, "behind", b"it")
        assert told(leader)["feature_level"] == 1
    with opened_folder(tmp_path / leader.name) as folder:
        records = [folder.log.record(index) for index in range(folder.log.first, folder.log.last + 1)]
    payloads = [record[64:] for record in records if record is not None]
    assert any(b"behind" in one for one in payloads) and payload not in payloads
