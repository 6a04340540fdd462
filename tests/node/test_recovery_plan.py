"""A majority is lost: which folders are left decides what is certain, what is possible, and what may be gone.

tests/node/test_salvage.py has the choice of the state, tests/processes/test_majority_lost.py the way back on processes.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest
from click.testing import CliRunner

import raftmeta
from raftmeta import recovery, snapshot
from raftmeta.cli.app import app
from raftmeta.errors import ConfigError, InvalidArgument
from tests.node.nodes import QUICK, all_ready, running
from tests.processes.waiting import free_addresses, wait_until

CONFIG = raftmeta.Config(**QUICK)
WRITES = 40


def written(folder: Path, names: str = "abc") -> dict[str, str]:
    """The folders of a stopped cluster of these voters, which have all applied every write; their addresses."""
    with running(folder, names=names) as nodes:
        node = nodes["a"]
        lease = node.lease(30.0)
        node.put("leased", b"1", lease=lease)
        for number in range(WRITES):
            last = node.put(f"key/{number:02}", b"%d" % number).index
        wait_until(lambda: all(one.status().applied >= last for one in nodes.values()), timeout_s=30, what="all")
        return {member.name: member.address for member in node.members()}


@pytest.fixture(scope="module", params=["abc", "abcde"])
def old(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    folder = tmp_path_factory.mktemp(f"old-{request.param}")
    written(folder, request.param)
    yield folder, request.param


def torn(folder: Path) -> None:
    """The last quarter of the log's written part is gone, as a torn disk leaves it."""
    segment = max(path for path in folder.glob("*.log") if path.read_bytes().rstrip(b"\0"))
    content = bytearray(segment.read_bytes())
    used = len(bytes(content).rstrip(b"\0"))
    begin = used * 3 // 4 // 4096 * 4096
    content[begin:] = bytes(len(content) - begin)
    segment.write_bytes(content)


def test_every_choice_of_folders_is_judged_by_the_voters_that_are_missing(old: tuple[Path, str]) -> None:
    """Nothing is lost as long as the missing ones are no majority; else it is said who they are."""
    folder, names = old
    for count in range(1, len(names) + 1):
        for left in combinations(names, count):
            plan = recovery.plan([folder / name for name in left])
            assert {voter.name for voter in plan.missing} == set(names) - set(left)
            assert plan.is_loss_possible == (len(plan.missing) > len(names) // 2), plan.loss
            assert plan.keys == WRITES + 1 and plan.salvaged.committed <= plan.salvaged.index
            assert len(plan.leases) >= 1 and len(plan.sessions) == len(names)


def test_torn_folders_are_told_unless_another_one_has_the_rest(old: tuple[Path, str], tmp_path: Path) -> None:
    """For every folder that is torn, beside every choice of whole ones. A voter that lost writes counts as missing."""
    folder, names = old
    for name in names:
        shutil.copytree(folder / name, tmp_path / name)
        torn(tmp_path / name)
    for broken in names:
        alone = recovery.plan([tmp_path / broken])
        assert alone.is_loss_possible and alone.keys < WRITES
        others = [name for name in names if name != broken]
        for count in range(1, len(names)):
            for whole in combinations(others, count):
                plan = recovery.plan([tmp_path / broken, *(folder / name for name in whole)])
                assert plan.keys == WRITES + 1
                assert plan.is_loss_possible == (len(names) - count > len(names) // 2), plan.loss
    everyone = recovery.plan([tmp_path / name for name in names])
    assert everyone.is_loss_possible and everyone.keys < WRITES


def test_a_stale_folder_leads_only_where_nothing_newer_is_left(tmp_path: Path) -> None:
    """c was down while a and b went on: alone it knows the beginning, and says that the others may have had more."""
    with running(tmp_path) as nodes:
        nodes["a"].put("first", b"1")
        last = nodes["a"].status().committed
        wait_until(lambda: nodes["c"].status().applied >= last, timeout_s=30, what="c to have it")
        nodes["c"].close()
        nodes["a"].put("second", b"2", timeout_s=30)
    stale = recovery.plan([tmp_path / "c"])
    assert stale.keys == 1 and stale.is_loss_possible and "a, b: 2 of 3 voters are missing" in stale.loss
    for other in "ab":
        plan = recovery.plan([tmp_path / "c", tmp_path / other])
        assert plan.keys == 2 and not plan.is_loss_possible
        assert plan.salvaged.path == str(tmp_path / other)


def test_apply_makes_a_new_cluster_and_goes_on_after_an_interruption(tmp_path: Path) -> None:
    written(tmp_path)
    peers = dict(zip("ab", free_addresses(2), strict=True))
    new = tmp_path / "new"
    new.mkdir()
    saved = tmp_path / "saved.sealed"
    first = recovery.apply([tmp_path / "c"], saved, {"a": new / "a"}, peers)
    assert first.made == ("a",) and first.plan.is_loss_possible
    again = recovery.apply([tmp_path / "c"], saved, {"a": new / "a", "b": new / "b"}, peers)
    assert (again.made, again.kept, again.cluster_id) == (("b",), ("a",), first.cluster_id)
    report = json.loads(again.report.read_text())
    assert report["new_cluster_id"] == first.cluster_id != report["cluster_id"]
    assert report["state_hash"] == snapshot.inspect(saved).state_hash and len(report["saved"]["sha256"]) == 64
    made = {name: raftmeta.Node(name, peers=peers, data_dir=new / name, config=CONFIG) for name in peers}
    with all_ready(made) as nodes:
        assert nodes["b"].get("key/07").value == b"7"  # type: ignore[union-attr]
        assert nodes["a"].status().cluster_id == first.cluster_id


def test_apply_refuses_a_folder_of_another_and_a_file_of_another_state(tmp_path: Path) -> None:
    written(tmp_path)
    peers = {"a": free_addresses(1)[0]}
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "mine").write_bytes(b"1")
    with pytest.raises(ConfigError, match="not empty"):
        recovery.apply([tmp_path / "a"], tmp_path / "saved", {"a": tmp_path / "used"}, peers)
    assert [path.name for path in (tmp_path / "used").iterdir()] == ["mine"]
    with raftmeta.Node("a", peers=peers, data_dir=tmp_path / "other", config=CONFIG) as node:
        node.ready(20)
        node.put("k", b"v")
        snapshot.save(node, tmp_path / "another")
    with pytest.raises(InvalidArgument, match="another state"):
        recovery.apply([tmp_path / "a"], tmp_path / "another", {}, peers)
    with pytest.raises(InvalidArgument, match="none of the peers"):
        recovery.apply([tmp_path / "a"], tmp_path / "saved", {"z": tmp_path / "z"}, peers)


def test_apply_refuses_while_a_majority_of_the_old_voters_answers(tmp_path: Path) -> None:
    old = written(tmp_path)
    peers = {"a": free_addresses(1)[0]}
    places = [tuple(address.rsplit(":", 1)) for address in old.values()]
    with contextlib.ExitStack() as stack:
        for host, port in places[:2]:
            stack.enter_context(socket.create_server((host, int(port))))
        with pytest.raises(InvalidArgument, match="a majority of the old voters answers"):
            recovery.apply([tmp_path / "c"], tmp_path / "saved", {}, peers)
        assert not (tmp_path / "saved").exists()
        recovery.apply([tmp_path / "c"], tmp_path / "saved", {}, peers, although_answered=True)
        assert (tmp_path / "saved").exists()


def test_the_commands_tell_the_plan_and_do_it(tmp_path: Path) -> None:
    written(tmp_path)
    told = CliRunner().invoke(app, ["recover", "plan", "--data", str(tmp_path / "b")])
    assert told.exit_code == 0, told.output
    assert "possibly lost: a, c: 2 of 3 voters are missing" in told.output and "MISSING" in told.output
    words = ["--data", str(tmp_path / "b"), "--node", f"a={tmp_path / 'new'}", "--peer", f"a={free_addresses(1)[0]}"]
    done = CliRunner().invoke(app, ["--json", "recover", "apply", str(tmp_path / "saved"), *words])
    assert done.exit_code == 0, done.output
    assert json.loads(done.output)["made"] == ["a"] and (tmp_path / "new" / "identity").is_file()
    wrong = CliRunner().invoke(app, ["recover", "apply", str(tmp_path / "saved"), *words, "--node", "nonsense"])
    assert wrong.exit_code == 2
