"""A node that is not ready says why, in words that name the mistake: in status().problems, ReadyTimeout and /readyz."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import raftmeta
from raftmeta import faults
from raftmeta.prometheus import liveness
from tests.node.nodes import QUICK, leader_of, make_nodes, one_node, running, without_quorum
from tests.node.test_fatal import refuse_writes
from tests.node.test_foreign_text import CLIENT, hello_of, say
from tests.processes.waiting import free_ports, wait_until

CONFIG = raftmeta.Config(**QUICK)
LEVEL = 7  # of this version
ROOT = Path(__file__).parents[2]


def texts(node: raftmeta.Node, kind: str) -> list[str]:
    return [problem.text for problem in node.status().problems if problem.kind == kind]


def told(node: raftmeta.Node, kind: str) -> str:
    """The first text of this kind, waited for; a ReadyTimeout says it too."""
    found = wait_until(lambda: texts(node, kind), timeout_s=30, what=lambda: f"{kind}: {node.status().problems}")
    return found[0]


def is_told(node: raftmeta.Node, kind: str, beginning: str) -> bool:
    """Whether one of the texts begins so, waited for: several peers may be the problem."""
    return wait_until(
        lambda: any(text.startswith(beginning) for text in texts(node, kind)),
        timeout_s=30,
        what=lambda: f"{beginning}: {node.status().problems}",
    )


def not_ready(node: raftmeta.Node) -> raftmeta.ReadyTimeout:
    with pytest.raises(raftmeta.ReadyTimeout) as caught:
        node.ready(0.2)
    return caught.value


def addresses(names: str) -> dict[str, str]:
    return {name: f"127.0.0.1:{port}" for name, port in zip(names, free_ports(len(names)), strict=True)}


@contextlib.contextmanager
def started(*nodes: raftmeta.Node) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for node in nodes:
            stack.callback(node.close, transfer=False)
            node.start()
        yield


def test_peers_that_differ_are_named_on_both_sides(tmp_path: Path) -> None:
    """The first evening: all three said "the node is not ready" and nothing else."""
    peers = addresses("abc")
    lists = {"a": peers, "b": {name: peers[name] for name in "ab"}, "c": peers}
    nodes = {name: raftmeta.Node(name, peers=lists[name], data_dir=tmp_path / name, config=CONFIG) for name in "abc"}
    with started(*nodes.values()):
        assert is_told(nodes["a"], "other_peers", "b was started with the peers a, b; this node with a, b, c")
        assert is_told(nodes["b"], "other_peers", "a was started with the peers a, b, c; this node with a, b")
        error = not_ready(nodes["a"])
        assert "b was started with the peers a, b; this node with a, b, c" in str(error)
        assert "other_peers" in [kind for kind, _ in error.problems]
        assert told(nodes["c"], "not_founded").startswith("the cluster is not founded yet: a founds it")


def test_another_cluster_name_is_named(tmp_path: Path) -> None:
    peers = addresses("ab")
    nodes = [
        raftmeta.Node(name, peers=peers, data_dir=tmp_path / name, config=CONFIG, cluster=cluster)
        for name, cluster in (("a", "default"), ("b", "other"))
    ]
    with started(*nodes):
        assert "b is of another cluster: this node was started with cluster='default'" in told(
            nodes[0], "other_cluster"
        )
        assert "a is of another cluster: this node was started with cluster='other'" in told(nodes[1], "other_cluster")
        assert "of another cluster" in str(not_ready(nodes[0]))


def test_two_nodes_of_one_name_are_named(tmp_path: Path) -> None:
    """The second one listens elsewhere, with a folder of its own."""
    with running(tmp_path, names="ab") as nodes:
        peers = {name: str(node.identity.advertise) for name, node in nodes.items()}
        (port,) = free_ports(1)
        twin = raftmeta.Node("b", peers=peers | {"b": f"127.0.0.1:{port}"}, data_dir=tmp_path / "twin", config=CONFIG)
        with started(twin):
            assert "two nodes run under the name b" in told(nodes["a"], "same_name")
            assert "two nodes run under the name b or a" in told(twin, "same_name")
            assert "same_name" in [kind for kind, _ in not_ready(twin).problems]


def test_peers_that_are_missing_for_a_majority_are_named(tmp_path: Path) -> None:
    with without_quorum(tmp_path) as node:
        text = told(node, "no_majority")
        assert text.startswith("2 of 3 voters must answer: no connection to b, c")
        assert not_ready(node).problems == node.status().problems  # it was ready once, and has its session still

        async def ask() -> None:
            with pytest.raises(raftmeta.ReadyTimeout, match="2 of 3 voters must answer"):
                await node.aio().ready(0.2)

        asyncio.run(ask())


def test_a_peer_that_is_away_is_a_problem_of_a_ready_node_too(tmp_path: Path) -> None:
    with running(tmp_path) as nodes:
        nodes["c"].close(transfer=False)
        assert told(nodes["a"], "unreachable") == "no connection to c"
        wait_until(lambda: nodes["a"].status().is_ready, timeout_s=30, what="a leader")


def test_peers_that_were_never_met_are_named(tmp_path: Path) -> None:
    nodes = make_nodes(tmp_path)
    with started(nodes["a"]):
        assert told(nodes["a"], "unreachable") == "no connection to b, c"
        error = not_ready(nodes["a"])
        assert error.unreachable == ("b", "c")
        assert str(error) == "the node is not ready: no connection to b, c"


def delete_under_way(folder: Path) -> None:
    """Remove the folder of a node that runs: it may make a file while the others are removed."""

    def is_gone() -> bool:
        shutil.rmtree(folder, ignore_errors=True)
        return not folder.exists()

    wait_until(is_gone, timeout_s=30, what=f"{folder} is gone")


@pytest.mark.parametrize("replaced", [False, True])
def test_a_folder_that_was_deleted_is_noticed(tmp_path: Path, replaced: bool) -> None:
    """The node said "running", and its own calls timed out for ever."""
    with one_node(tmp_path) as node:
        assert node.status().problems == ()
        delete_under_way(tmp_path / "a")
        if replaced:
            (tmp_path / "a").mkdir()
        assert "was deleted or replaced" in told(node, "folder_gone")


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    """Growth is refused while no more is free than is kept in reserve."""
    (node,) = make_nodes(tmp_path, names="a", reserve_bytes=1 << 30).values()
    with started(node):
        assert "is full" in told(node, "disk_full")
        assert str(tmp_path) in told(node, "disk_full")


def test_a_newcomer_says_that_it_waits_to_be_added(tmp_path: Path) -> None:
    with running(tmp_path, names="a") as nodes:
        peers = addresses("d") | {"a": str(nodes["a"].identity.advertise)}
        newcomer = raftmeta.Node("d", peers=peers, data_dir=tmp_path / "d", config=CONFIG)
        with started(newcomer):
            assert told(newcomer, "waits_for_member") == f"it waits for add_member('d', '{peers['d']}')"


def test_a_removed_node_says_so(tmp_path: Path) -> None:
    with running(tmp_path) as nodes:
        leader = next(node for node in nodes.values() if node.status().is_leader)
        gone = next(node for node in nodes.values() if node is not leader)
        leader.remove_member(gone.name)
        assert told(gone, "removed").startswith("it was removed from the cluster")


def test_voters_whose_disks_are_lost_for_a_majority_are_named(tmp_path: Path) -> None:
    """The one that is left has all data, and cannot be elected by two that know nothing."""
    with running(tmp_path) as nodes:
        for name in "bc":
            nodes[name].close(transfer=False)
            shutil.rmtree(tmp_path / name)
        wait_until(lambda: not nodes["a"].status().leader, timeout_s=30, what="a lost lead")
        with started(started_again(nodes["b"]), started_again(nodes["c"])):
            text = told(nodes["a"], "majority_lost")
            assert text.startswith("2 of 3 voters lost their disks (b, c), so no majority can ever be had")
            assert "majority_lost" in [kind for kind, _ in not_ready(nodes["a"]).problems]


def test_disks_are_not_lost_by_the_word_of_a_stranger(tmp_path: Path) -> None:
    """A stranger says HELLO in the names of two voters that are away. This node must not tell its operator to give the
    cluster up: only an answer at a voter's address tells of its disk."""
    with running(tmp_path) as nodes:
        wait_until(lambda: nodes["a"].status().feature_level == LEVEL, timeout_s=30, what="the level")
        for name in "bc":
            nodes[name].close(transfer=False)
        told(nodes["a"], "no_majority")
        accepted = nodes["a"].metrics()["connections_accepted"]
        refused = nodes["a"].metrics()["frames_refused"]
        for number, name in enumerate((b"b", b"c")):
            say(nodes["a"], hello_of(name, b"127.0.0.1:9", id=1000 + number, level=LEVEL))
        wait_until(
            lambda: nodes["a"].metrics()["connections_accepted"] == accepted + 2, timeout_s=30, what="both connections"
        )
        turns = nodes["a"].metrics()["turns"]
        wait_until(lambda: nodes["a"].metrics()["turns"] > turns + 20, timeout_s=30, what="turns behind that")
        assert nodes["a"].metrics()["frames_refused"] == refused
        assert nodes["a"].status().lost_disks == ()
        assert {problem.kind for problem in nodes["a"].status().problems} == {"no_majority"}


def test_an_observer_that_nobody_feeds_says_so(tmp_path: Path) -> None:
    """Before it has found a member, and when the last one is gone. Connections that it does not need are no problem."""
    places = addresses("ax")
    member = raftmeta.Node("a", peers={"a": places["a"]}, data_dir=tmp_path / "a", config=CONFIG)
    observer = raftmeta.Node(
        "x",
        role="observer",
        seeds=[f"a={places['a']}"],
        listen=places["x"],
        data_dir=tmp_path / "x",
        config=CONFIG,
    )
    with started(observer):
        assert told(observer, "no_feeder").endswith("no connection to a")
        with started(member):
            observer.ready(30)
            wait_until(lambda: observer.status().problems == (), timeout_s=30, what=lambda: f"{observer.status()}")
        assert "no connection to a" in told(observer, "no_feeder")


def test_each_state_is_in_the_document_and_has_a_test() -> None:
    """docs/operations.md "A node that is not ready" names those that face/problems tells, and no others."""
    source = (ROOT / "raftmeta/face/problems.pyx").read_text()
    table = (ROOT / "docs/operations.md").read_text().split("## A node that is not ready")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    kinds = set(re.findall(r'Problem\("(\w+)"', source))
    assert {kind for row in rows for kind in re.findall(r"`(\w+)`", row)} == kinds
    others = ("tests/security/test_renewal.py", "tests/client/test_audit.py")
    tests = "".join([Path(__file__).read_text(), *((ROOT / other).read_text() for other in others)])
    assert [kind for kind in kinds if f'"{kind}"' not in tests] == []


def test_a_single_node_whose_log_is_damaged_says_what_is_left(tmp_path: Path) -> None:
    with one_node(tmp_path) as node:
        address = str(node.identity.advertise)
        for number in range(50):
            node.put(f"k{number}", b"x" * 100)
    for segment in sorted((tmp_path / "a").glob("*.log")):
        data = bytearray(segment.read_bytes())
        for position in range(8192, min(len(data), 40_000), 512):
            data[position] ^= 0xFF
        segment.write_bytes(data)
    again = raftmeta.Node("a", peers={"a": address}, data_dir=tmp_path / "a", config=CONFIG)
    try:
        with started(again):
            kinds = wait_until(lambda: {one.kind for one in again.status().problems}, timeout_s=30, what="a problem")
            assert kinds & {"majority_lost", "stopped", "waits_for_member"}
    except raftmeta.Fatal as error:
        assert str(error)  # it does not start at all, and says why


def test_a_node_that_stopped_by_itself_says_why(tmp_path: Path) -> None:
    """A probe that asks for the status hears of it, without a call that fails."""
    with one_node(tmp_path) as node:
        assert refuse_writes(tmp_path / "a") > 0
        with pytest.raises(raftmeta.RaftmetaError):
            node.put("k", b"v")
        assert "it has stopped: " in told(node, "stopped")
        assert liveness(node) == (False, "stopped")


def started_again(node: raftmeta.Node) -> raftmeta.Node:
    """Another node over the folder of one that was closed; not started."""
    peers = {name: str(address) for name, address in node.identity.peers.items()}
    return raftmeta.Node(node.name, peers=peers, data_dir=node.identity.data_dir, config=CONFIG)


def cut_off(node: raftmeta.Node, *peers: str) -> None:
    """Frames are lost in both directions; the connections stay open."""
    faults.set_link_faults(node, {peer: faults.LinkFault(cut_to=True, cut_from=True) for peer in peers})


def test_a_peer_on_an_older_copy_of_its_folder_is_named(tmp_path: Path) -> None:
    """It was started twice since the copy was made, and a heard of both."""
    with running(tmp_path) as nodes:
        nodes["b"].close(transfer=False)
        shutil.copytree(tmp_path / "b", tmp_path / "copy")
        for _ in range(2):
            again = started_again(nodes["b"])
            with started(again):
                again.ready(30)
                wait_until(lambda: not nodes["a"].status().problems, timeout_s=30, what=lambda: nodes["a"].status())
        shutil.rmtree(tmp_path / "b")
        shutil.copytree(tmp_path / "copy", tmp_path / "b")
        with started(started_again(nodes["b"])):
            assert told(nodes["a"], "older_folder").startswith("b runs on an older copy of its folder")


@pytest.mark.parametrize(
    ("spoilt", "kind", "text"),
    [
        ({"version": 9}, "other_version", "b is of a version that does not understand this cluster"),
        ({"purpose": CLIENT, "boot": 0}, "refused", "the connection with b is refused (status"),
    ],
)
def test_a_peer_that_is_refused_is_named(tmp_path: Path, spoilt: dict[str, int], kind: str, text: str) -> None:
    node = make_nodes(tmp_path, names="ab")["a"]
    with started(node):
        say(node, hello_of(b"b", b"127.0.0.1:9", **spoilt))
        assert told(node, kind).startswith(text)


def test_a_removed_node_that_was_away_hears_of_it(tmp_path: Path) -> None:
    with running(tmp_path) as nodes:
        gone = next(node for node in nodes.values() if node is not leader_of(nodes))
        gone.close(transfer=False)
        leader_of({name: node for name, node in nodes.items() if node is not gone}).remove_member(gone.name)
        again = started_again(gone)
        with started(again):
            assert "was removed from the cluster, or this node was: add it again" in told(again, "removed_peer")
            turns = again.metrics()["turns"]
            wait_until(lambda: again.metrics()["turns"] > turns + 20, timeout_s=30, what="turns behind that")
            named = [event for event in again.events(timeout_s=0) if event.name == "became_member"]
            assert len(named) <= 1  # its log names it still; a removed node said so in each turn


def test_a_cluster_without_a_leader_says_so(tmp_path: Path) -> None:
    """All are connected, and their messages do not arrive."""
    with running(tmp_path) as nodes:
        for node in nodes.values():
            cut_off(node, *(set(nodes) - {node.name}))
        for node in nodes.values():
            assert told(node, "no_leader").startswith("no leader is known")


def test_a_node_that_waits_for_its_session_says_so(tmp_path: Path) -> None:
    """The leader's messages reach it late: it hears of the leader first, and of its session so much later."""
    with running(tmp_path) as nodes:
        leader = leader_of(nodes)
        away = next(node for node in nodes.values() if node is not leader)
        away.close(transfer=False)
        faults.set_link_faults(leader, {away.name: faults.LinkFault(delay_s=3.0)})
        again = started_again(away)
        with started(again):
            assert told(again, "no_session") == "a leader is known; this node waits for it to open its session"
            faults.set_link_faults(leader, {})
            again.ready(30)


def test_a_voter_that_lost_its_disk_is_named_until_it_is_taken_back(tmp_path: Path) -> None:
    """Nobody can take it back while the other two do not hear each other."""
    with running(tmp_path) as nodes:
        nodes["c"].close(transfer=False)
        cut_off(nodes["a"], "b")
        cut_off(nodes["b"], "a")
        wait_until(lambda: not nodes["a"].status().leader, timeout_s=30, what="a lost lead")
        shutil.rmtree(tmp_path / "c")
        with started(started_again(nodes["c"])):
            assert told(nodes["a"], "lost_disk") == "lost its disk and waits for a leader to take it back: c"
            for node in (nodes["a"], nodes["b"]):
                faults.set_link_faults(node, {})
            wait_until(lambda: not nodes["a"].status().problems, timeout_s=30, what=lambda: nodes["a"].status())


def test_a_ready_cluster_has_no_problems(tmp_path: Path) -> None:
    with running(tmp_path) as nodes:
        wait_until(
            lambda: all(node.status().problems == () for node in nodes.values()),
            timeout_s=30,
            what=lambda: str([node.status().problems for node in nodes.values()]),
        )
