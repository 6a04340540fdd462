"""What stands in the way of a start: a typed error within 100 ms, and the folder stays as it was."""

from __future__ import annotations

import os
import shutil
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import raftmeta
from raftmeta.native.native_handle import crc32c
from tests.node.nodes import one_node
from tests.processes.cluster import Cluster, put, ready
from tests.processes.waiting import free_ports

REFUSED_S = 5.0  # nothing is waited for; what it takes is that of a busy machine
MIB = 1024 * 1024


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
    assert error.address == address


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
    file[at + 8] += 1
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


def test_a_log_without_the_identity_that_it_was_written_under_is_refused(copy: Path) -> None:
    """Nobody knows whose it is: it must neither be used nor written over."""
    (copy / "identity").unlink()
    assert isinstance(refusal("a", copy), raftmeta.ForeignFolder)
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
