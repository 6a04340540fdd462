"""Two of three disks are gone: everything that the folder left holds comes back, by an operator's hand."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from raftmeta import snapshot
from tests.processes.cluster import Cluster, NodeProcess, get, put
from tests.processes.load import read_all

WRITES = 1_000


def write_all(nodes: list[NodeProcess]) -> dict[str, bytes]:
    """Through all these nodes at once, each put acknowledged."""
    wanted = {f"key/{number:04}": f"value {number}".encode() * 20 for number in range(WRITES)}
    items = list(wanted.items())

    def write(position: int) -> None:
        for key, value in items[position :: len(nodes)]:
            nodes[position].call(put, key, value)

    with ThreadPoolExecutor(len(nodes)) as pool:
        list(pool.map(write, range(len(nodes))))
    return wanted


def saved_by_cli(path: Path, *folders: Path) -> dict[str, Any]:
    words = [word for folder in folders for word in ("--data", str(folder))]
    ended = subprocess.run(
        [sys.executable, "-m", "raftmeta.cli", "--json", "snapshot", "save", str(path), *words],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr.decode()
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def restored(path: Path, folder: Path, settings: dict[str, Any]) -> Cluster:
    """A new cluster of three out of the file, not started."""
    folder.mkdir()
    cluster = Cluster(folder, **settings)
    for name in cluster.nodes:
        snapshot.restore(path, folder / name, name, cluster.peers)
    return cluster


def all_values(cluster: Cluster) -> dict[str, bytes]:
    return {key.decode(): value for key, value, _ in cluster.nodes["b"].call(read_all, "key/")}


@pytest.mark.parametrize("settings", [{}, {"snapshot_entries": 300}], ids=["log_alone", "checkpoint_and_log"])
def test_every_acknowledged_write_comes_back_from_one_folder(tmp_path: Path, settings: dict[str, Any]) -> None:
    folder = tmp_path / "old"
    folder.mkdir()
    with Cluster(folder, **settings) as cluster:
        wanted = write_all(list(cluster.nodes.values()))
        cluster.kill()
    shutil.rmtree(folder / "a")
    shutil.rmtree(folder / "b")
    found = saved_by_cli(tmp_path / "saved.sealed", folder / "c")
    assert (found["copy_index"] > 0) == bool(settings)
    assert found["index"] >= WRITES and found["ending"] == "the log ends here"
    assert found["possibly_committed"] == found["index"] - found["committed"] >= 0
    assert not found["folders"][0]["problems"]
    with restored(tmp_path / "saved.sealed", tmp_path / "new", settings) as cluster:
        assert all_values(cluster) == wanted
        cluster.nodes["a"].call(put, "after", b"the loss")
        assert cluster.nodes["c"].call(get, "after") == b"the loss"


def test_a_damaged_tail_costs_what_stands_in_it_and_says_so(tmp_path: Path) -> None:
    """The last third of the log's last file is unreadable; the second survivor, that was down for a while, has less."""
    folder = tmp_path / "old"
    folder.mkdir()
    with Cluster(folder) as cluster:
        follower = next(node for node in cluster.followers())
        follower.kill()
        wanted = write_all([node for node in cluster.nodes.values() if node is not follower])
        cluster.kill()
    names = [name for name in "abc" if name != follower.name]
    shutil.rmtree(folder / names[0])
    left = folder / names[1]
    segment = max(left.glob("*.log"))
    content = bytearray(segment.read_bytes())
    used = len(bytes(content).rstrip(b"\0"))
    begin = used * 2 // 3 // 4096 * 4096
    content[begin:] = bytes(len(content) - begin)
    segment.write_bytes(content)
    for folders in ([left], [left, folder / follower.name]):
        salvaged = snapshot.save(folders, tmp_path / "saved.sealed")
        assert WRITES // 3 < salvaged.index < WRITES
        assert f"entry {salvaged.index + 1} is damaged or gone in every folder named" in salvaged.ending
        assert salvaged.path == str(left)
    with restored(tmp_path / "saved.sealed", tmp_path / "new", {}) as cluster:
        there = all_values(cluster)
        assert WRITES // 3 < len(there) < WRITES
        assert all(wanted[key] == value for key, value in there.items())
