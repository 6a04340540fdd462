"""An entry that no node can apply stops every member; an operator leads all of them out (docs/decisions/skip.md)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import raftmeta
from raftmeta import recovery, snapshot
from raftmeta.face.stopped_folder import opened_folder
from raftmeta.native.native_handle import crc32c
from raftmeta.storage.skipped_file import SkippedEntry, skipped_of, write_skipped
from tests.faces.plant import plant
from tests.processes.cluster import START_S, Cluster, NodeProcess, get, key_file, put, ready, status
from tests.processes.load import read_all, start_again
from tests.processes.waiting import wait_until

COMPARED_ENTRIES = 1024  # members compare their states each so many entries
UNKNOWN_KIND = bytes.fromhex("96ccc8000000c009")  # a command of kind 200, without a session


def plant_entry(node: raftmeta.Node, payload: str) -> None:
    plant(node, bytes.fromhex(payload))


def last_words(node: raftmeta.Node) -> dict[str, Any]:
    """Of a node that has stopped: the error of its calls, its events and its problems."""
    with pytest.raises(raftmeta.Fatal) as caught:
        node.get("k")
    return {
        "error": str(caught.value),
        "events": [str(event) for event in node.events(timeout_s=0)],
        "problems": {problem.kind: problem.text for problem in node.status().problems},
    }


def has_stopped(node: NodeProcess) -> bool:
    return (node.status() or {}).get("state") == "stopped"


def cli(*words: str) -> tuple[int, str]:
    """The exit code, and what the command said: on standard output, or the error."""
    ended = subprocess.run(
        [sys.executable, "-m", "raftmeta.cli", "--json", "recover", *words],
        capture_output=True,
        timeout=60,
        check=False,
    )
    return ended.returncode, (ended.stdout or ended.stderr).decode()


def looked(folder: Path) -> dict[str, Any]:
    code, told = cli("look", "--data", str(folder))
    assert code == 0, told
    found: dict[str, Any] = json.loads(told)
    return found


def stop_all_at_the_entry(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """The last words of each member. Two may stop before the third hears that the entry is committed; then they are
    started again, until each has stopped once."""
    words: dict[str, dict[str, Any]] = {}

    def all_stopped() -> bool:
        for name, node in cluster.nodes.items():
            if has_stopped(node):
                words[name] = node.call(last_words)
                node.kill()
                node.begin_start().result(START_S)
        return words.keys() == cluster.nodes.keys()

    wait_until(all_stopped, timeout_s=120, what=lambda: f"{list(words)}\n{cluster.logs()}")
    cluster.kill()
    return words


def test_all_stop_at_an_entry_and_go_on_when_it_is_skipped(tmp_path: Path) -> None:
    """Init: an entry of a later version is in the log. Act: skip it on two of three, then on the third. Check: nobody
    goes past it unasked, nothing else can be skipped, and all agree in the end."""
    with Cluster(tmp_path) as cluster:
        cluster.nodes["a"].call(put, "k/before", b"1")
        cluster.leader().call(plant_entry, UNKNOWN_KIND.hex())
        words = stop_all_at_the_entry(cluster)
        found = {name: looked(tmp_path / name) for name in cluster.nodes}
        (index,) = {one["index"] for one in found.values()}
        assert len({one["chain"] for one in found.values()}) == 1
        assert found["a"]["payload"] == UNKNOWN_KIND.hex() and "not known to this version" in found["a"]["reason"]
        for told in words.values():
            assert f"entry {index} cannot be applied" in told["error"]
            assert f"entry {index} cannot be applied" in told["problems"]["stopped"]
            assert any(event.endswith(f"stopped status=99 entry={index}") for event in told["events"]), told["events"]

        code, told_by_cli = cli("skip", "--data", str(tmp_path / "a"), "--index", str(index - 1))
        assert code == 2 and f"is {index}, not {index - 1}; nothing was changed" in told_by_cli
        for name in "ab":
            code, told_by_cli = cli("skip", "--data", str(tmp_path / name), "--index", str(index))
            assert code == 0, told_by_cli
        assert looked(tmp_path / "a") == {"index": 0}
        with pytest.raises(raftmeta.InvalidArgument, match=f"entry {index} is skipped already"):
            recovery.skip(tmp_path / "a", index)

        cluster.start()
        left_out = cluster.nodes["c"]
        for name in "ab":
            cluster.nodes[name].call(ready, 40.0)
        cluster.nodes["a"].call(put, "k/after", b"2")
        wait_until(lambda: has_stopped(left_out), timeout_s=60, what=cluster.logs)
        assert f"entry {index} cannot be applied" in left_out.call(last_words)["error"]
        left_out.kill()
        recovery.skip(tmp_path / "c", index)
        start_again(left_out)
        left_out.call(ready, 40.0)
        states = [node.call(read_all, "k/") for node in cluster.nodes.values()]
        assert states[0] == states[1] == states[2] and len(states[0]) == 2
        assert left_out.call(get, "k/after") == b"2"
        wait_until(lambda: are_alike(cluster), timeout_s=30, what=cluster.logs)


def are_alike(cluster: Cluster) -> bool:
    """All stand at one index, where their states must have one hash."""
    told = [node.call(status) for node in cluster.nodes.values()]
    if len({one["applied"] for one in told}) != 1:
        return False
    assert len({one["state_hash"] for one in told}) == 1, told
    return True


def test_an_entry_in_a_checkpoint_is_not_skipped(tmp_path: Path) -> None:
    """A member applied it, so it belongs to the state."""
    with Cluster(tmp_path, names=("a",), snapshot_entries=100) as cluster:
        node = cluster.nodes["a"]
        for number in range(300):
            node.call(put, f"k{number}", b"v")
        wait_until(lambda: node.call(checkpoint_index) > 50, timeout_s=30, what=cluster.logs)
        cluster.kill()
    with pytest.raises(raftmeta.InvalidArgument, match="holds the state after entry"):
        recovery.skip(tmp_path / "a", 20)
    assert recovery.unappliable(tmp_path / "a") is None
    with pytest.raises(raftmeta.InvalidArgument, match="applies all entries"):
        recovery.skip(tmp_path / "a", 10_000)
    assert not (tmp_path / "a" / "skipped").exists()


def checkpoint_index(node: raftmeta.Node) -> int:
    return node.metrics()["snapshot_index"]


def test_a_folder_whose_node_runs_is_left_alone(tmp_path: Path) -> None:
    with Cluster(tmp_path, names=("a",)) as cluster:
        cluster.nodes["a"].call(put, "k", b"v")
        with pytest.raises(raftmeta.InvalidArgument, match="a node runs in"):
            recovery.unappliable(tmp_path / "a")
        assert cluster.nodes["a"].call(status)["state"] == "running"


def test_a_node_with_a_damaged_list_does_not_start(tmp_path: Path) -> None:
    """It might pass over less than the others, and would be the only one to stop; or over more."""
    with Cluster(tmp_path, names=("a",)) as cluster:
        node = cluster.nodes["a"]
        node.call(plant_entry, UNKNOWN_KIND.hex())
        wait_until(lambda: has_stopped(node), timeout_s=30, what=cluster.logs)
        cluster.kill()
        found = recovery.unappliable(tmp_path / "a")
        assert found is not None
        recovery.skip(tmp_path / "a", found.index)
        path = tmp_path / "a" / "skipped"
        assert path.stat().st_mode & 0o777 == 0o600
        sound = path.read_bytes()
        assert sound[4:8] != bytes(4) and len(sound) == 16 + 24
        path.write_bytes(sound[:-1] + bytes([sound[-1] ^ 1]))
        with pytest.raises(raftmeta.StorageCorrupt, match="skipped is damaged"):
            raftmeta.Node("a", peers=cluster.peers, data_dir=tmp_path / "a").start()
        path.write_bytes(sound)
        cluster.start()
        cluster.wait_ready()
        node.call(put, "k", b"v")
        cluster.kill()
    # What is saved of the folder is the state that the node had.
    assert snapshot.save(tmp_path / "a", tmp_path / "saved.sealed").index > found.index


def test_an_entry_of_an_encrypted_folder_is_found_with_its_key(tmp_path: Path) -> None:
    """The list itself holds no data, and needs no key."""
    key = key_file(tmp_path / "key")
    with Cluster(tmp_path, names=("a",), encryption_key_file=key) as cluster:
        node = cluster.nodes["a"]
        node.call(plant_entry, UNKNOWN_KIND.hex())
        wait_until(lambda: has_stopped(node), timeout_s=30, what=cluster.logs)
        cluster.kill()
        with pytest.raises(raftmeta.EncryptionKeyMissing):
            recovery.unappliable(tmp_path / "a")
        encryption = raftmeta.Encryption(key_file=key)
        found = recovery.unappliable(tmp_path / "a", encryption=encryption)
        assert found is not None and found.payload == UNKNOWN_KIND
        recovery.skip(tmp_path / "a", found.index, encryption=encryption)
        cluster.start()
        cluster.wait_ready()
        node.call(put, "k", b"v")


def test_a_list_has_the_bytes_of_its_format(tmp_path: Path) -> None:
    """docs/formats.md "Skipped entries"; what does not fit is named, and a newer version is left alone."""
    entries = [SkippedEntry(7, 2, 0x1122334455667788), SkippedEntry(3, 1, 9)]
    write_skipped(tmp_path, entries)
    written = (tmp_path / "skipped").read_bytes()
    body = bytes.fromhex("0100000002000000030000000000000001000000000000000900000000000000")
    body += bytes.fromhex("070000000000000002000000000000008877665544332211")
    assert written == b"RSKP" + crc32c(body).to_bytes(4, "little") + body
    assert skipped_of(tmp_path) == sorted(entries)
    assert [path.name for path in tmp_path.iterdir()] == ["skipped"]
    for spoilt in (written[:-1], written + b"\0", written[:10], b"X" + written[1:]):
        (tmp_path / "skipped").write_bytes(spoilt)
        with pytest.raises(raftmeta.StorageCorrupt, match="skipped is damaged"):
            skipped_of(tmp_path)
    newer = b"\2" + body[1:]
    (tmp_path / "skipped").write_bytes(b"RSKP" + crc32c(newer).to_bytes(4, "little") + newer)
    with pytest.raises(raftmeta.NewerFormat):
        skipped_of(tmp_path)


def put_index(node: raftmeta.Node, key: str) -> int:
    """The index of the entry of this put."""
    return node.put(key, b"v").index


def put_often(node: raftmeta.Node, count: int) -> None:
    for number in range(count):
        node.put("often", b"%d" % number)


def test_a_member_that_skips_alone_is_found_out(tmp_path: Path) -> None:
    """As one would be whose version cannot apply what the others applied. Init: c passes over a sound entry, which the
    tool refuses to skip. Act: write up to the next point at which members compare. Check: c stops, the others go on."""
    with Cluster(tmp_path) as cluster:
        index = cluster.leader().call(put_index, "k/alone")
        cluster.kill()
        with pytest.raises(raftmeta.InvalidArgument, match="applies all entries"):
            recovery.skip(tmp_path / "c", index)
        with opened_folder(tmp_path / "c") as folder:
            chain, is_whole = folder.log.chain(index)
        assert is_whole
        write_skipped(tmp_path / "c", [SkippedEntry(index, 1, chain)])
        cluster.start()
        cluster.wait_ready()
        assert len(cluster.nodes["c"].call(read_all, "k/")) == 0
        cluster.nodes["a"].begin(put_often, COMPARED_ENTRIES).result(120)
        wait_until(lambda: has_stopped(cluster.nodes["c"]), timeout_s=60, what=cluster.logs)
        assert "is not the one that a majority has" in cluster.nodes["c"].call(last_words)["error"]
        assert len(cluster.nodes["b"].call(read_all, "k/")) == 1
