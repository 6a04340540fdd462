"""What stands in the way of a start: a typed error within 100 ms, and the folder stays as it was."""

from __future__ import annotations

import os
import shutil
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lmdb
import pytest

import raftmeta
import raftmeta.snapshot
from raftmeta.native.native_handle import crc32c
from raftmeta.storage.checkpoint import CheckpointStore
from tests.node.nodes import one_node
from tests.processes.cluster import Cluster, put, ready
from tests.processes.waiting import free_ports

REFUSED_S = 5.0  # nothing is waited for; what it takes is that of a busy machine
MIB = 1024 * 1024
POINTS: dict[str, Any] = {"segment_bytes": 1 << 16, "snapshot_log_bytes": 1 << 16}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of node a of three, as kill -9 left it."""
    base = tmp_path_factory.mktemp("folders")
    with Cluster(base, segment_bytes=MIB, wal_bytes_max=64 * MIB) as cluster:
        for i in range(50):
            cluster.nodes["a"].call(put, f"k{i}", b"v" * 100)
    yield base / "a"


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "a"))


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file but the lock, with its bytes and the time of its last change."""
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file() and path.name != "lock"
    }


def refusal(name: str, folder: Path, *, cluster: str = "default", address: str = "") -> raftmeta.RaftmetaError:
    """The error of start(), three times alike; the folder is as it was."""
    peers = {one: f"127.0.0.1:{port}" for one, port in zip("abc", free_ports(3), strict=True)}
    peers |= {name: address} if address else {}
    node = raftmeta.Node(name, peers=peers, data_dir=folder, cluster=cluster)
    before = contents(folder)
    began = time.monotonic()
    for _ in range(3):
        with pytest.raises(raftmeta.RaftmetaError) as caught:
            node.start()
    assert time.monotonic() - began < REFUSED_S
    assert contents(folder) == before
    return caught.value


def test_a_port_in_use_is_told(copy: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        error = refusal("a", copy, address=address)
    assert isinstance(error, raftmeta.AddressInUse)
    assert (error.address, error.field) == (address, "listen")


def test_a_port_for_clients_in_use_is_told_as_such(copy: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        peers = {one: f"127.0.0.1:{port}" for one, port in zip("abc", free_ports(3), strict=True)}
        with pytest.raises(raftmeta.AddressInUse) as caught:
            raftmeta.Node("a", peers=peers, data_dir=copy, client_listen=address).start()
    assert (caught.value.address, caught.value.field) == (address, "client_listen")


def test_a_folder_that_is_a_file_is_told(tmp_path: Path) -> None:
    """It used to be a failed write of the log."""
    (tmp_path / "a").write_bytes(b"mine")
    peers = {"a": f"127.0.0.1:{free_ports(1)[0]}"}
    with pytest.raises(raftmeta.ConfigError, match="Not a directory") as caught:
        raftmeta.Node("a", peers=peers, data_dir=tmp_path / "a").start()
    assert caught.value.field == "data_dir"
    with pytest.raises(raftmeta.ConfigError, match="Not a directory"):
        raftmeta.Node("a", peers=peers, data_dir=tmp_path / "a" / "b").start()
    assert (tmp_path / "a").read_bytes() == b"mine"


def test_another_nodes_folder_is_refused(copy: Path) -> None:
    error = refusal("b", copy)
    assert isinstance(error, raftmeta.ForeignFolder)
    assert str(copy) in str(error)


def test_another_clusters_folder_is_refused(copy: Path) -> None:
    assert isinstance(refusal("a", copy, cluster="other"), raftmeta.ForeignFolder)


def test_a_folder_in_use_names_the_process_that_uses_it(tmp_path: Path) -> None:
    """The other process goes on, and after its death the folder is free at once."""
    with Cluster(tmp_path) as cluster:
        holder = cluster.nodes["a"]
        began = time.monotonic()
        with pytest.raises(raftmeta.FolderInUse) as caught:
            raftmeta.Node("a", peers={"a": f"127.0.0.1:{free_ports(1)[0]}"}, data_dir=holder.folder).start()
        assert time.monotonic() - began < REFUSED_S
        assert caught.value.pid == holder.pid
        assert caught.value.pid != os.getpid()
        assert str(holder.pid) in str(caught.value)
        holder.call(put, "k", b"v")
        holder.kill()
        cluster.start()
        holder.call(ready, 20)


# --- a newer format ---------------------------------------------------------------------------------------------------


def make_newer(file: bytearray, at: int, end: int) -> None:
    """docs/formats.md: all begin alike, with magic, checksum of the bytes from 8 on, and version."""
    file[at + 8] += 2  # some have a version 2, for encrypted files
    struct.pack_into("<I", file, at + 4, crc32c(bytes(file[at + 8 : end])))


def newer_identity(file: bytearray) -> None:
    make_newer(file, 0, len(file))


def newer_segment(file: bytearray) -> None:
    """Both copies of the header."""
    alignment = struct.unpack_from("<I", file, 64)[0]
    (length,) = struct.unpack_from("<I", file, 12)
    for at in (0, -(-length // alignment) * alignment):
        make_newer(file, at, at + length)


def newer_batch(file: bytearray) -> None:
    """The first batch behind the two headers."""
    alignment = struct.unpack_from("<I", file, 64)[0]
    (length,) = struct.unpack_from("<I", file, 12)
    at = 2 * -(-length // alignment) * alignment
    assert file[at : at + 4] == b"RBCH"
    make_newer(file, at, at + struct.unpack_from("<I", file, at + 12)[0])


def newer_mark(file: bytearray) -> None:
    """Both slots, of which the second may never have been written."""
    for at in (0, 4096):
        if file[at : at + 4] == b"RMRK":
            make_newer(file, at, at + struct.unpack_from("<I", file, at + 12)[0])


@pytest.mark.parametrize(
    ("pattern", "change"),
    [("identity", newer_identity), ("*.log", newer_segment), ("*.log", newer_batch), ("mark", newer_mark)],
    ids=["identity", "segment", "batch", "mark"],
)
def test_a_newer_format_is_refused(copy: Path, pattern: str, change: Callable[[bytearray], None]) -> None:
    """A file with a version above ours is not damaged: nothing is cut, repaired or begun anew."""
    files = list(copy.rglob(pattern))
    assert files
    for path in files:
        content = bytearray(path.read_bytes())
        change(content)
        path.write_bytes(content)
    assert isinstance(refusal("a", copy), raftmeta.NewerFormat)


def put_until_log_begins_behind(node: raftmeta.Node, index: int) -> None:
    """And until there is a checkpoint."""
    for i in range(2000):
        node.put(f"k{i % 10}", bytes(3000))
        metrics = node.metrics()
        if metrics["snapshots_taken"] and metrics["log_first"] > index:
            return
    raise AssertionError("no checkpoint, or the log is never cut")


def test_a_newer_checkpoint_is_left_as_it_is(tmp_path: Path) -> None:
    """The log beside it was opened, and its mark written, before the checkpoint was looked at."""
    with one_node(tmp_path, **POINTS) as node:
        put_until_log_begins_behind(node, 0)
    folder = tmp_path / "a"
    store = CheckpointStore(folder / "checkpoint")
    manifest = store.open()
    assert manifest is not None
    row = bytearray(manifest.pack())
    make_newer(row, 0, len(row))
    store.close()
    with lmdb.open(str(folder / "checkpoint"), lock=False) as environment, environment.begin(write=True) as writing:
        writing.put(b"m", bytes(row))
    assert isinstance(refusal("a", folder), raftmeta.NewerFormat)


def test_a_newer_sealed_file_is_left_as_it_is(tmp_path: Path) -> None:
    with one_node(tmp_path, **POINTS) as node:
        node.put("k", b"v")
        raftmeta.snapshot.save(node, tmp_path / "backup")
    content = bytearray((tmp_path / "backup").read_bytes())
    make_newer(content, 0, struct.unpack_from("<I", content, 12)[0])
    (tmp_path / "a" / f"{2**40:016x}.sealed").write_bytes(content)
    assert isinstance(refusal("a", tmp_path / "a"), raftmeta.NewerFormat)


def test_a_damaged_identity_is_named_with_a_way_out(copy: Path) -> None:
    content = bytearray((copy / "identity").read_bytes())
    content[20] ^= 1
    (copy / "identity").write_bytes(content)
    error = refusal("a", copy)
    assert isinstance(error, raftmeta.StorageCorrupt)
    assert str(copy / "identity") in str(error) and "ove the folder away" in str(error)


def test_a_damaged_checkpoint_of_a_lone_node_is_named_with_a_way_out(tmp_path: Path) -> None:
    """The log no longer begins with the first entry, so nothing leads to the state."""
    with one_node(tmp_path, **POINTS) as node:
        put_until_log_begins_behind(node, 1)
    folder = tmp_path / "a"
    data = bytearray((folder / "checkpoint" / "data.mdb").read_bytes())
    for at in range(0, len(data), 64):  # in every page
        data[at + 40] ^= 0xFF
    (folder / "checkpoint" / "data.mdb").write_bytes(data)
    with pytest.raises(raftmeta.StorageCorrupt, match="checkpoint") as caught:
        raftmeta.Node("a", peers={"a": f"127.0.0.1:{free_ports(1)[0]}"}, data_dir=folder).start()
    assert f"raftmeta snapshot save FILE --data {folder}" in str(caught.value)


def test_a_log_without_the_identity_that_it_was_written_under_is_refused(copy: Path) -> None:
    """Nobody knows whose it is: it must neither be used nor written over."""
    (copy / "identity").unlink()
    error = refusal("a", copy)
    assert isinstance(error, raftmeta.ForeignFolder)
    assert str(copy) in str(error) and "no file 'identity'" in str(error)
    for log in copy.glob("*.log"):
        log.write_bytes(bytes(log.stat().st_size))
    (copy / "mark").unlink()
    assert isinstance(refusal("a", copy), raftmeta.ForeignFolder)


def test_a_lone_node_whose_log_is_lost_halts_and_keeps_its_files(tmp_path: Path) -> None:
    """docs/decisions/log.md "A lost log": another incarnation would wait for ever for somebody to take it."""
    with one_node(tmp_path) as node:
        node.put("k", b"v")
    folder = tmp_path / "a"
    (log,) = folder.glob("*.log")
    log.write_bytes(bytes(MIB))
    before = contents(folder)
    with pytest.raises(raftmeta.StorageCorrupt, match=str(folder)):
        raftmeta.Node("a", peers={"a": f"127.0.0.1:{free_ports(1)[0]}"}, data_dir=folder).start()
    assert contents(folder) == before
