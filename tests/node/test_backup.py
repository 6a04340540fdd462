"""Backups: saved while writes go on, checked to the last byte, restored as another cluster (raftmeta/snapshot.py)."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import raftmeta
from raftmeta import snapshot
from raftmeta.cli.app import app
from raftmeta.errors import ConfigError, InvalidArgument, NodeClosed, SnapshotDamaged
from raftmeta.scan import Scope, SnapshotFile
from tests.node.nodes import leader_of, running
from tests.processes.waiting import free_ports


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, bytes], raftmeta.NodeStatus]]:
    """A file, what was acknowledged before it was saved, and the node's status then."""
    folder = tmp_path_factory.mktemp("saved")
    path = folder / "backup.sealed"
    acknowledged: dict[str, bytes] = {}
    with running(folder) as nodes:
        node = leader_of(nodes)
        lease = node.lease(30.0)
        node.put("leased", b"1", lease=lease)
        for i in range(50):
            node.put("changed", b"%d" % i)
        going = threading.Event()

        def write() -> None:
            i = 0
            while not going.is_set():
                node.put(f"during/{i}", b"x")
                acknowledged[f"during/{i}"] = b"x"
                i += 1

        writer = threading.Thread(target=write)
        writer.start()
        while len(acknowledged) < 50:
            pass
        before = dict(acknowledged)
        other = next(one for one in nodes.values() if one is not node)
        snapshot.save(other, path)
        going.set()
        writer.join()
        status = node.status()
    yield path, before, status


def restored(path: Path, folder: Path, names: str = "abc", **options: str) -> dict[str, raftmeta.Node]:
    """Nodes over folders that were made of the file, not started."""
    peers = {name: f"127.0.0.1:{port}" for name, port in zip(names, free_ports(len(names)), strict=True)}
    config = raftmeta.Config(
        heartbeat_s=0.03,
        election_timeout_s=0.15,
        segment_bytes=1 << 20,
        wal_bytes_max=64 << 20,
        reserve_bytes=0,
        snapshot_log_bytes=16 << 20,
    )
    for name in names:
        snapshot.restore(path, folder / name, name, peers, config=config, **options)
    return {name: raftmeta.Node(name, peers=peers, data_dir=folder / name, config=config) for name in names}


def test_the_file_says_what_it_holds(saved: tuple[Path, dict[str, bytes], raftmeta.NodeStatus]) -> None:
    path, before, status = saved
    told = snapshot.inspect(path)
    assert told.cluster_id == status.cluster_id
    assert 0 < told.term <= status.term
    assert told.keys >= 2 + len(before)
    assert told.revision >= 51 + len(before)
    assert (told.leases, told.sessions) == (1, 3)
    assert [(member.name, member.is_voter) for member in told.members] == [("a", True), ("b", True), ("c", True)]
    assert told.file_bytes == path.stat().st_size
    snapshot.verify(path)


def test_restored_members_found_one_new_cluster_with_all_data(
    saved: tuple[Path, dict[str, bytes], raftmeta.NodeStatus], tmp_path: Path
) -> None:
    path, before, status = saved
    told = snapshot.inspect(path)
    nodes = restored(path, tmp_path)
    for node in nodes.values():
        node.start()
    try:
        for node in nodes.values():
            node.ready(30)
        ids = {node.status().cluster_id for node in nodes.values()}
        assert len(ids) == 1 and ids != {status.cluster_id}
        for node in nodes.values():
            for key, value in before.items():
                record = node.get(key)
                assert record is not None and record.value == value
            now, then = node.get("changed"), node.get("changed", revision=20)
            assert now is not None and now.version == 50
            assert then is not None and then.version == now.version - (now.mod_revision - 20)
            assert node.status().revision >= told.revision
            assert node.get("leased") is not None
        assert nodes["b"].put("new", b"write") == told.revision + 1
        record = nodes["c"].get("new")
        assert record is not None and record.value == b"write"
    finally:
        for node in nodes.values():
            node.close(transfer=False)


def test_one_member_can_be_made_of_the_backup_of_three(
    saved: tuple[Path, dict[str, bytes], raftmeta.NodeStatus], tmp_path: Path
) -> None:
    path, before, _ = saved
    nodes = restored(path, tmp_path, "x")
    with nodes["x"] as node:
        node.ready(30)
        assert len(node.range(prefix="during/").records) >= len(before)


def test_another_token_makes_another_cluster(
    saved: tuple[Path, dict[str, bytes], raftmeta.NodeStatus], tmp_path: Path
) -> None:
    ids = set()
    for token in ("", "", "again"):
        folder = tmp_path / f"{len(ids)}{token}x"
        folder.mkdir(exist_ok=True)
        shutil.rmtree(folder)
        folder.mkdir()
        with restored(saved[0], folder, "x", token=token)["x"] as node:
            node.ready(30)
            ids.add(node.status().cluster_id)
    assert len(ids) == 2


# --- what is refused --------------------------------------------------------------------------------------------------
def test_a_folder_that_is_not_empty_is_left_alone(
    saved: tuple[Path, dict[str, bytes], raftmeta.NodeStatus], tmp_path: Path
) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / "precious").write_bytes(b"data")
    with pytest.raises(ConfigError, match="not empty") as caught:
        snapshot.restore(saved[0], folder, "a", {"a": "127.0.0.1:7000"})
    assert caught.value.field == "data_dir"
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "precious"]
    assert (folder / "precious").read_bytes() == b"data"


def test_damage_anywhere_is_found_and_makes_no_folder(
    saved: tuple[Path, dict[str, bytes], raftmeta.NodeStatus], tmp_path: Path
) -> None:
    whole = saved[0].read_bytes()
    copy = tmp_path / "copy"
    for position in [*range(200), *range(200, len(whole), 97), *range(len(whole) - 90, len(whole))]:
        flipped = bytearray(whole)
        flipped[position] ^= 1 << position % 8
        copy.write_bytes(flipped)
        with pytest.raises(ConfigError):
            snapshot.verify(copy)
    for length in (0, 50, len(whole) // 2, len(whole) - 1):
        copy.write_bytes(whole[:length])
        with pytest.raises(SnapshotDamaged):
            snapshot.restore(copy, tmp_path / "a", "a", {"a": "127.0.0.1:7000"})
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


def test_arguments_are_checked_before_anything_is_made(
    saved: tuple[Path, dict[str, bytes], raftmeta.NodeStatus], tmp_path: Path
) -> None:
    peers = {"a": "127.0.0.1:7000"}
    with pytest.raises(InvalidArgument, match="no file"):
        snapshot.restore(tmp_path / "absent", tmp_path / "a", "a", peers)
    with pytest.raises(ConfigError, match="peers"):
        snapshot.restore(saved[0], tmp_path / "a", "b", peers)
    with pytest.raises(ConfigError, match="does not exist"):
        snapshot.restore(saved[0], tmp_path / "no" / "a", "a", peers)
    assert list(tmp_path.iterdir()) == []


def test_save_says_what_is_wrong_and_leaves_no_file(tmp_path: Path) -> None:
    with running(tmp_path, names="a") as nodes:
        with pytest.raises(InvalidArgument, match="63 bytes"):
            snapshot.save(nodes["a"], tmp_path / ("x" * 70))
        with pytest.raises(FileNotFoundError):
            snapshot.save(nodes["a"], tmp_path / "no" / "backup")
        with pytest.raises(InvalidArgument, match="source"):
            snapshot.save("a", tmp_path / "backup")  # type: ignore[arg-type]
    with pytest.raises(NodeClosed):
        snapshot.save(nodes["a"], tmp_path / "backup")
    assert not list(tmp_path.glob("backup*"))


def written_folder(folder: Path) -> int:
    """A stopped node's folder with a checkpoint of a base and a difference; how many keys were put, a revision each."""
    revision = 0
    with running(folder, names="a", snapshot_log_bytes=512 << 10) as nodes:
        node = nodes["a"]
        seen: set[int] = set()
        while len(seen) < 3:  # 0, the base, a difference
            revision = node.put(f"key-{revision:06}", bytes(4096)).revision
            seen.add(int(node.metrics()["snapshot_index"]))
    return revision


def test_the_folder_of_a_stopped_node_is_saved_whole(tmp_path: Path) -> None:
    """Each revision put one key, so the file has exactly as many keys as its revision; the folder stays as it was, and
    the node starts from it. While a node runs there, and where nothing is, the folder is refused."""
    last = written_folder(tmp_path)
    before = (tmp_path / "a" / "checkpoint" / "data.mdb").read_bytes()
    snapshot.save(tmp_path / "a", tmp_path / "folder.sealed")
    info = snapshot.inspect(tmp_path / "folder.sealed")
    assert info.revision == last
    words = ["snapshot", "save", str(tmp_path / "same.sealed"), "--data", str(tmp_path / "a")]
    assert CliRunner().invoke(app, words).exit_code == 0
    assert (tmp_path / "same.sealed").read_bytes() == (tmp_path / "folder.sealed").read_bytes()
    file = SnapshotFile(tmp_path / "folder.sealed")
    parts = file.key_ranges(Scope(), 4)
    assert len(parts) > 1
    keys = [row["key"] for start, stop in parts for batch in file.keys(Scope(start, stop), file.revision)
            for row in batch.to_pylist()]  # fmt: skip
    assert keys == [b"key-%06d" % number for number in range(info.revision)]
    assert (tmp_path / "a" / "checkpoint" / "data.mdb").read_bytes() == before
    with running(tmp_path, names="a") as nodes:
        assert nodes["a"].status().revision >= last
        with pytest.raises(InvalidArgument, match="a node runs in"):
            snapshot.save(tmp_path / "a", tmp_path / "running.sealed")
    with pytest.raises(InvalidArgument, match="holds no checkpoint and no log"):
        snapshot.save(tmp_path, tmp_path / "nothing.sealed")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "folder.sealed", "same.sealed"]


def test_a_damaged_checkpoint_is_not_saved_without_the_log_before_it(tmp_path: Path) -> None:
    """Whatever byte of its rows is wrong, and wherever its file ends."""
    written_folder(tmp_path)
    data = tmp_path / "a" / "checkpoint" / "data.mdb"
    whole = data.read_bytes()
    snapshot.save(tmp_path / "a", tmp_path / "whole.sealed")
    refused = 0
    for place in range(len(whole) // 8, len(whole), len(whole) // 8):
        data.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        try:
            snapshot.save(tmp_path / "a", tmp_path / "damaged.sealed")
        except SnapshotDamaged:
            refused += 1
            assert not (tmp_path / "damaged.sealed").exists()
        else:  # in a page that the newest checkpoint does not use
            assert (tmp_path / "damaged.sealed").read_bytes() == (tmp_path / "whole.sealed").read_bytes()
            (tmp_path / "damaged.sealed").unlink()
    assert refused
    for length in (0, 100, len(whole) // 2, len(whole) - 4096):
        data.write_bytes(whole[:length])
        with pytest.raises(SnapshotDamaged, match="is damaged"):
            snapshot.save(tmp_path / "a", tmp_path / "damaged.sealed")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "whole.sealed"]
