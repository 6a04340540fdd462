"""Salvage of stopped folders: what comes along, which folder leads, and what is said of all that is damaged or missing.

tests/storage/test_salvage.py has the log alone, tests/processes/test_majority_lost.py the whole way back on processes.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import raftmeta
from raftmeta import snapshot
from raftmeta.cli.app import app
from raftmeta.errors import InvalidArgument, SnapshotDamaged
from tests.node.nodes import QUICK, all_ready, running
from tests.node.test_backup import restored
from tests.processes.waiting import free_ports, wait_until
from tests.replicated.machines import Counter

CHECKPOINTS = {"snapshot_entries": 100}


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders a, b and c of a stopped cluster with checkpoints, a log behind, a lease, and a replicated object."""
    folder = tmp_path_factory.mktemp("old")
    with running(folder, **CHECKPOINTS) as nodes:
        counter = nodes["a"].replicated("counter", Counter)
        node = nodes["b"]
        lease = node.lease(30.0)
        node.put("leased", b"1", lease=lease)
        for number in range(60):
            node.put(f"key/{number:03}", b"%d" % number)
            node.put("large", bytes(60_000))
            counter.add(f"add {number}")

        def is_cut() -> bool:
            node.put("large", bytes(60_000))
            return all(one.metrics()["log_first"] > 1 for one in nodes.values())

        wait_until(is_cut, timeout_s=30, what="the logs to be cut")
        for number in range(60, 70):
            node.put(f"key/{number:03}", b"%d" % number)
        last = node.put("last", b"written").index
        wait_until(
            lambda: all(one.status().applied >= last for one in nodes.values()), timeout_s=30, what="all to apply"
        )
    return folder


@pytest.fixture
def folders(old: Path, tmp_path: Path) -> Path:
    """A copy of the old folders, to be damaged."""
    shutil.copytree(old, tmp_path / "left")
    return tmp_path / "left"


def saved(path: Path, *folders: Path, **options: bool) -> snapshot.Salvaged:
    """Nothing in the folders may be changed by it; LMDB and the lock file are read, too."""
    before = [contents(folder) for folder in folders]
    salvaged = snapshot.save(list(folders), path, **options)
    assert [contents(folder) for folder in folders] == before
    return salvaged


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "lock"}


def zero(path: Path, begin: int = 0, end: int | None = None) -> None:
    content = bytearray(path.read_bytes())
    content[begin:end] = bytes(len(content[begin:end]))
    path.write_bytes(content)


def test_keys_leases_members_and_objects_come_along(old: Path, tmp_path: Path) -> None:
    path = tmp_path / "saved.sealed"
    salvaged = saved(path, old / "c")
    assert 0 < salvaged.copy_index < salvaged.index
    assert salvaged.copy_index <= salvaged.committed <= salvaged.index
    told = snapshot.inspect(path)
    assert (told.index, told.term) == (salvaged.index, salvaged.term)
    assert (told.keys, told.leases) == (73, 1)
    assert [(member.name, member.is_voter) for member in told.members] == [("a", True), ("b", True), ("c", True)]
    with all_ready(restored(path, tmp_path)) as nodes:
        records = nodes["a"].range(prefix="key/").records
        assert {one.key: one.value for one in records} == {f"key/{i:03}".encode(): b"%d" % i for i in range(70)}
        leased = nodes["b"].get("leased")
        assert leased is not None and leased.lease
        counter = nodes["c"].replicated("counter", Counter)
        assert counter.total() == 60 and counter.add("after") == 61


def test_only_what_is_certainly_committed_is_a_choice(old: Path, tmp_path: Path) -> None:
    everything = saved(tmp_path / "all.sealed", old / "a")
    certain = saved(tmp_path / "certain.sealed", old / "a", committed_only=True)
    assert certain.index == certain.committed == everything.committed
    assert certain.possibly_committed == 0
    assert certain.left_out == everything.index - certain.index
    if certain.left_out:
        assert "were left out, as was asked" in certain.ending
    assert snapshot.inspect(tmp_path / "certain.sealed").index == certain.index


def test_the_command_says_what_is_certain_and_what_is_not(old: Path, tmp_path: Path) -> None:
    words = ["snapshot", "save", str(tmp_path / "saved.sealed"), "--data", str(old / "a"), "--data", str(old / "b")]
    told = CliRunner().invoke(app, words)
    assert told.exit_code == 0
    salvaged = snapshot.save([old / "a", old / "b"], tmp_path / "same.sealed")
    assert (
        f"up to entry {salvaged.index} of term {salvaged.term}, from {salvaged.path}: the log ends here" in told.output
    )
    assert f"entries up to {salvaged.committed} are certainly committed" in told.output
    if salvaged.possibly_committed:
        assert f"entries {salvaged.committed + 1} to {salvaged.index} may be" in told.output
    assert f"{old / 'b'} (b): a copy of the state up to entry" in told.output
    assert CliRunner().invoke(app, [*words, "--committed-only"]).exit_code == 0
    assert CliRunner().invoke(app, ["snapshot", "save", "x", "--committed-only"]).exit_code == 2


def test_a_folder_without_identity_is_read_and_said_so(folders: Path, tmp_path: Path) -> None:
    wanted = saved(tmp_path / "whole.sealed", folders / "a")
    (folders / "a" / "identity").unlink()
    salvaged = saved(tmp_path / "saved.sealed", folders / "a")
    assert salvaged.index == wanted.index and salvaged.folders[0].name == ""
    assert "identity is missing" in salvaged.folders[0].problems[0]
    zero(folders / "b" / "identity", 20, 30)
    assert "identity is damaged" in saved(tmp_path / "saved.sealed", folders / "b").folders[0].problems[0]
    assert (tmp_path / "saved.sealed").read_bytes() == (tmp_path / "whole.sealed").read_bytes()


def test_a_damaged_checkpoint_is_replaced_by_that_of_another_folder(folders: Path, tmp_path: Path) -> None:
    """The log behind it leads on all the same; nothing can be made of one folder alone, which is said."""
    wanted = saved(tmp_path / "whole.sealed", folders / "a")
    for data in (folders / "a" / "checkpoint").glob("data.mdb"):
        zero(data)
    with pytest.raises(SnapshotDamaged, match=r"begins with entry \d+ only.*checkpoint is damaged.*name the folders"):
        saved(tmp_path / "saved.sealed", folders / "a")
    assert not (tmp_path / "saved.sealed").exists()
    (folders / "b" / "mark").unlink()
    for segment in (folders / "b").glob("*.log"):
        segment.unlink()
    salvaged = saved(tmp_path / "saved.sealed", folders / "a", folders / "b")
    assert salvaged.index == wanted.index and salvaged.path == str(folders / "a")
    assert (
        snapshot.inspect(tmp_path / "saved.sealed").state_hash == snapshot.inspect(tmp_path / "whole.sealed").state_hash
    )
    alone = saved(tmp_path / "alone.sealed", folders / "b")
    assert alone.index == alone.copy_index == alone.committed > 0


def test_a_log_from_the_first_entry_on_needs_no_copy(tmp_path: Path) -> None:
    with running(tmp_path, names="a", **CHECKPOINTS) as nodes:
        write_checkpoint(nodes["a"], b"value")
        assert nodes["a"].metrics()["log_first"] == 1
    whole = saved(tmp_path / "whole.sealed", tmp_path / "a")
    assert whole.copy_index
    zero(tmp_path / "a" / "checkpoint" / "data.mdb")
    salvaged = saved(tmp_path / "saved.sealed", tmp_path / "a")
    assert (salvaged.index, salvaged.copy_index) == (whole.index, 0)
    assert "is damaged" in salvaged.folders[0].problems[0]
    assert (
        snapshot.inspect(tmp_path / "saved.sealed").state_hash == snapshot.inspect(tmp_path / "whole.sealed").state_hash
    )


def test_a_sealed_file_takes_the_place_of_a_checkpoint(folders: Path, tmp_path: Path) -> None:
    """As a member has it that was given its state by another."""
    whole = saved(tmp_path / "whole.sealed", folders / "a")
    shutil.rmtree(folders / "a" / "checkpoint")
    shutil.copy(tmp_path / "whole.sealed", folders / "a" / f"{whole.index:016x}.sealed")
    salvaged = saved(tmp_path / "saved.sealed", folders / "a")
    assert salvaged.index == salvaged.copy_index == salvaged.committed == whole.index
    zero(folders / "a" / f"{whole.index:016x}.sealed", 300, 400)
    with pytest.raises(SnapshotDamaged, match="is damaged"):
        saved(tmp_path / "again.sealed", folders / "a")


def test_the_folder_that_was_longest_in_the_cluster_leads(tmp_path: Path) -> None:
    """init: c is down while a and b go on, by another term. check: whichever order they are named in, all comes back
    from b; c gives its prefix only."""
    with running(tmp_path) as nodes:
        nodes["b"].put("both", b"1")
        wait_until(lambda: nodes["c"].get("both") is not None, timeout_s=30, what="c to have it")
        nodes["c"].close()
        for number in range(20):
            nodes["b"].put(f"later/{number}", b"1")
    for order in ("bc", "cb"):
        salvaged = saved(tmp_path / "saved.sealed", *(tmp_path / name for name in order))
        assert salvaged.path == str(tmp_path / "b")
        assert snapshot.inspect(tmp_path / "saved.sealed").keys == 21
        assert [Path(folder.path).name for folder in salvaged.folders] == list(order)
    salvaged = saved(tmp_path / "saved.sealed", tmp_path / "c")
    assert snapshot.inspect(tmp_path / "saved.sealed").keys < 21


@contextlib.contextmanager
def members(folder: Path, peers: dict[str, str], names: str) -> Iterator[dict[str, raftmeta.Node]]:
    config = raftmeta.Config(**{**QUICK, **CHECKPOINTS})
    with all_ready(
        {name: raftmeta.Node(name, peers=peers, data_dir=folder / name, config=config) for name in names}
    ) as nodes:
        yield nodes


def write_checkpoint(node: raftmeta.Node, value: bytes) -> None:
    begun = node.metrics()["snapshot_index"]

    def is_taken() -> bool:
        node.put("key", value)
        return node.metrics()["snapshot_index"] > begun

    wait_until(is_taken, timeout_s=30, what="a checkpoint")


def test_folders_that_contradict_each_other_are_told(tmp_path: Path) -> None:
    """c's folder is put back to an older copy while a is down: a and b know different entries as committed."""
    peers = {name: f"127.0.0.1:{port}" for name, port in zip("abc", free_ports(3), strict=True)}
    with members(tmp_path, peers, "abc") as nodes:
        nodes["a"].put("key", b"first")
    shutil.copytree(tmp_path / "c", tmp_path / "kept")
    with members(tmp_path, peers, "ac") as nodes:
        write_checkpoint(nodes["a"], b"by a and c")
    shutil.rmtree(tmp_path / "c")
    (tmp_path / "kept").rename(tmp_path / "c")
    with members(tmp_path, peers, "bc") as nodes:
        write_checkpoint(nodes["b"], b"by b and c")
        write_checkpoint(nodes["b"], b"by b and c")
    with pytest.raises(InvalidArgument, match=r"contradict each other.*went back to an older copy"):
        saved(tmp_path / "saved.sealed", tmp_path / "a", tmp_path / "b")
    for name in "ab":
        assert saved(tmp_path / f"{name}.sealed", tmp_path / name).committed


def test_folders_of_two_clusters_are_not_mixed(old: Path, tmp_path: Path) -> None:
    with running(tmp_path, names="a") as nodes:
        nodes["a"].put("key", b"value")
    with pytest.raises(InvalidArgument, match="of different clusters"):
        saved(tmp_path / "saved.sealed", old / "a", tmp_path / "a")
    with pytest.raises(InvalidArgument, match="named twice"):
        saved(tmp_path / "saved.sealed", old / "a", old / "a")
    with pytest.raises(InvalidArgument, match="at least"):
        saved(tmp_path / "saved.sealed")
    with pytest.raises(InvalidArgument, match="there is no folder"):
        snapshot.save(tmp_path / "none", tmp_path / "saved.sealed")


def test_of_a_running_cluster_nothing_is_left_out(tmp_path: Path) -> None:
    with running(tmp_path, names="a") as nodes:
        nodes["a"].put("key", b"value")
        with pytest.raises(InvalidArgument, match="running cluster"):
            snapshot.save(nodes["a"], tmp_path / "x.sealed", committed_only=True)  # type: ignore[call-overload]
