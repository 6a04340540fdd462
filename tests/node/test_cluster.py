"""Three nodes in one process: any of them takes any call, leaders come and go, nothing acknowledged is lost."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import raftmeta
from raftmeta.faults import abort
from raftmeta.native import marks
from tests.node.nodes import MIB, QUICK, agree, leader_of, make_nodes, running
from tests.processes.waiting import wait_until


def test_every_node_takes_writes_and_serves_the_newest_read(tmp_path: Path) -> None:
    with running(tmp_path) as nodes:
        for name, node in nodes.items():
            node.put(f"from/{name}", name)
            for other in nodes.values():
                assert other.get(f"from/{name}").value == name.encode()  # type: ignore[union-attr]


def test_all_nodes_agree_on_the_state(tmp_path: Path) -> None:
    with running(tmp_path) as nodes:
        for i in range(100):
            last = nodes["abc"[i % 3]].put(f"k/{i % 7}", str(i)).revision
        wait_until(
            lambda: all(node.status().revision >= last for node in nodes.values()), timeout_s=20, what="all to apply"
        )
        assert agree(nodes)


def test_writes_go_on_when_the_leader_is_closed(tmp_path: Path) -> None:
    with running(tmp_path) as nodes:
        leader = leader_of(nodes)
        leader.put("k", b"before")
        leader.close()
        rest = {name: node for name, node in nodes.items() if node is not leader}
        for node in rest.values():
            assert node.get("k").value == b"before"  # type: ignore[union-attr]
            node.put("k", b"before")
        assert leader_of(rest) is not leader


def test_a_cluster_that_comes_back_as_a_whole_asks_before_any_time_out(tmp_path: Path) -> None:
    """No member has heard a leader whose time-out it would have to let pass (docs/divergence.md "Elections")."""
    marks.clear()
    nodes = make_nodes(tmp_path, election_timeout_s=10.0)
    for what in ("founded", "back"):
        try:
            for node in nodes.values():
                node.start()
            for node in nodes.values():
                node.ready(60)
            assert "EARLY_CAMPAIGN" in marks.reached(), what
            assert leader_of(nodes).put("k", what).revision
        finally:
            for node in nodes.values():
                abort(node)
        marks.clear()
        nodes = {
            name: raftmeta.Node(
                name,
                peers={one.identity.name: str(one.identity.listen) for one in nodes.values()},
                data_dir=tmp_path / name,
                config=node.config,
            )
            for name, node in nodes.items()
        }


def test_a_leader_that_closes_names_its_successor(tmp_path: Path) -> None:
    """Without transfer the others wait for a refused reconnect or a time-out; with it the next term begins at once."""
    with running(tmp_path) as nodes:
        leader = leader_of(nodes)
        term = leader.status().term
        follower = next(node for node in nodes.values() if node is not leader)
        leader.close(transfer=True)
        rest = {name: node for name, node in nodes.items() if node is not leader}
        assert leader_of(rest).status().term == term + 1
        names = [event.name for event in follower.events(timeout_s=0)]
        assert "leader_lost" not in names


def test_leadership_goes_where_it_is_sent(tmp_path: Path) -> None:
    with running(tmp_path) as nodes:
        for name in "abca":
            leader = leader_of(nodes)
            if leader.name != name:
                leader.transfer(name)
            assert leader_of(nodes).name == name


def test_a_node_that_was_away_catches_up(tmp_path: Path) -> None:
    with running(tmp_path) as nodes:
        away = next(node for node in nodes.values() if node is not leader_of(nodes))
        away.close()
        for i in range(200):
            leader_of({name: node for name, node in nodes.items() if node is not away}).put(f"k/{i}", b"v" * 1000)
        back = raftmeta.Node(
            away.name,
            peers={name: str(address) for name, address in away.identity.peers.items()},
            data_dir=away.identity.data_dir,
            config=away.config,
        )
        with back:
            back.ready(30)
            assert back.range(prefix="k/").count == 200


def test_members_with_other_settings_agree(tmp_path: Path) -> None:
    """decisions/README.md "Commands": limits are checked where a command is made; an entry does the same everywhere."""
    nodes = make_nodes(tmp_path)
    peers = {name: str(address) for name, address in nodes["a"].identity.peers.items()}
    settings = {"a": (1000, 16), "b": (2 * MIB, 1000), "c": (1, 100_000)}
    for name, (value_bytes_max, session_window) in settings.items():
        own = {**QUICK, "value_bytes_max": value_bytes_max, "session_window": session_window, "outstanding_max": 16}
        nodes[name] = raftmeta.Node(name, peers=peers, data_dir=tmp_path / name, config=raftmeta.Config(**own))
    with nodes["a"], nodes["b"], nodes["c"]:
        for node in nodes.values():
            node.ready(30)
        large = b"x" * (MIB + MIB // 2)
        assert nodes["b"].put("large", large).revision == 1
        with pytest.raises(raftmeta.InvalidArgument):
            nodes["a"].put("large", b"x" * 1001)
        last = nodes["c"].add("count", 1).revision
        assert nodes["a"].get("large").value == large  # type: ignore[union-attr]
        wait_until(
            lambda: all(node.status().revision == last for node in nodes.values()), timeout_s=20, what="all to apply"
        )
        assert agree(nodes)


def test_threads_write_together(tmp_path: Path) -> None:
    """Sequences of one session come from several threads; each write is done once and in some order."""
    with running(tmp_path) as nodes:
        node = next(node for node in nodes.values() if not node.status().is_leader)

        def write() -> None:
            for _ in range(100):
                node.txn([], [raftmeta.operations.Add("count", 1)])
                node.add("count", 1)

        threads = [threading.Thread(target=write) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert node.add("count", 0).result == 1600


def test_a_cluster_is_founded_only_when_all_are_there(tmp_path: Path) -> None:
    """The error of ready() names who is missing."""
    nodes = make_nodes(tmp_path)
    with nodes["a"], nodes["b"]:
        with pytest.raises(raftmeta.ReadyTimeout) as caught:
            nodes["a"].ready(0.3)
        assert "c" in caught.value.unreachable
        assert nodes["a"].status().state == "starting"
        with pytest.raises(raftmeta.NotReady):
            nodes["a"].get("k", local=True)
        with nodes["c"]:
            nodes["a"].ready(30)
            nodes["a"].put("k", b"v")


def test_status_names_members_and_connections(tmp_path: Path) -> None:
    with running(tmp_path) as nodes:
        status = nodes["b"].status()
        assert [(member.name, member.role, member.is_self) for member in status.members] == [
            ("a", "voter", False),
            ("b", "voter", True),
            ("c", "voter", False),
        ]
        wait_until(
            lambda: all(member.is_connected for member in nodes["b"].status().members), timeout_s=20, what="connections"
        )
        nodes["c"].close()
        wait_until(
            lambda: not nodes["b"].status().members[2].is_connected, timeout_s=20, what="the connection to break"
        )
