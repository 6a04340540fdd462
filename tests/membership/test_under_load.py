"""Membership changes on real processes, under load and with kill -9: no acknowledged write is lost, no term has two
leaders, and at the end all members have one state."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import raftmeta
from tests.node.nodes import QUICK
from tests.processes.cluster import Cluster, NodeProcess, get, put, ready, status
from tests.processes.load import Load
from tests.processes.remote import ProcessGone, RemoteError
from tests.processes.waiting import free_ports, wait_until

# What a kill elsewhere may do to a change; it is asked for again, and goes on where it was.
EXPECTED = {"OutcomeUnknown", "Withdrawn", "NotReady", "NodeRemoved", "NoLeader", "ChangeRefused", "ReadyTimeout"}
SPARE = "d"
CALL_S = 8.0


# --- in the process of a node -----------------------------------------------------------------------------------------


def change(node: raftmeta.Node, verb: str, arguments: list[Any], timeout_s: float) -> None:
    getattr(node, verb)(*arguments, timeout_s=timeout_s)


def roles(node: raftmeta.Node) -> dict[str, str]:
    return {member.name: member.role for member in node.members()}


def leads(node: raftmeta.Node) -> list[int]:
    """The terms in which this process became leader."""
    return [int(event.facts["term"]) for event in node.events(timeout_s=0) if event.name == "became_leader"]


# --- here -------------------------------------------------------------------------------------------------------------


class Members(Cluster):
    """A cluster whose nodes come and go; a new one knows the founders and itself."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, **QUICK | {"wal_bytes_max": 256 * 1024 * 1024})
        self.folder = folder
        self.leaders: dict[int, set[str]] = {}

    def spawn(self, name: str) -> NodeProcess:
        self.peers[name] = f"127.0.0.1:{free_ports(1)[0]}"
        node = NodeProcess(name, peers=self.peers, folder=self.folder, settings=QUICK | {"wal_bytes_max": 2**28})
        node.start()
        self.nodes[name] = node
        return node

    def note_leaders(self, *nodes: NodeProcess) -> None:
        """A process takes its events with it: before each kill."""
        for node in nodes or self.nodes.values():
            for term in node.call(leads):
                self.leaders.setdefault(term, set()).add(node.name)

    def kill_and_restart(self, victim: NodeProcess) -> None:
        self.note_leaders(victim)
        victim.kill()
        victim.start()

    def change(self, asked: NodeProcess, verb: str, *arguments: Any, victim: NodeProcess | None = None) -> None:
        """Ask one node; while the change is under way kill -9 another; then ask until it is done."""
        call = asked.begin(change, verb, list(arguments), CALL_S)
        answers: list[str] = []
        if victim is not None:
            self.kill_and_restart(victim)

        def done() -> bool:
            nonlocal call
            try:
                call.result(CALL_S + 5)
            except (RemoteError, ProcessGone) as error:
                assert isinstance(error, ProcessGone) or error.kind in EXPECTED, error
                answers.append(str(error))
                call = asked.begin(change, verb, list(arguments), CALL_S)
                return False
            return True

        def so_far() -> str:
            told = [f"{name}: {node.status()}" for name, node in self.nodes.items()]
            return "\n".join([f"{verb}{arguments} asked of {asked.name}", *answers[-5:], *told, self.logs()])

        wait_until(done, timeout_s=60, what=so_far)

    def agree(self) -> None:
        """All nodes have applied the same, and have one state."""

        def told() -> list[dict[str, Any]] | None:
            found = [node.call(status) for node in self.nodes.values()]
            return found if len({one["applied"] for one in found}) == 1 else None

        assert (
            len({one["state_hash"] for one in wait_until(told, timeout_s=20, what="all to have applied the same")}) == 1
        )
        self.note_leaders()
        assert {term: names for term, names in self.leaders.items() if len(names) > 1} == {}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Members]:
    with Members(tmp_path) as running:
        assert isinstance(running, Members)
        yield running


def choose_victim(cluster: Members, kind: str, target: str) -> NodeProcess:
    """leader; target: the node that the change is about; bystander: neither."""
    leader = cluster.leader().name
    if kind == "leader":
        return cluster.nodes[leader]
    if kind == "target":
        return cluster.nodes[target]
    return next(node for name, node in cluster.nodes.items() if name not in (leader, target))


def test_twenty_changes_with_a_kill_in_each_lose_nothing(cluster: Members) -> None:
    """Four rounds of five changes: the spare is added, promoted, another demoted and removed, and replaces a third. In
    each a node is killed: the leader, the one in question, a bystander, in turn. Some node that lives is asked."""
    spare, changes = SPARE, 0
    victims = ("leader", "target", "bystander")
    cluster.spawn(spare)
    with Load(cluster, writers=2) as load:
        for _ in range(4):
            voters = [name for name in cluster.nodes if name != spare]
            leaving, replaced = voters[0], voters[1]
            # verb, the node in question, arguments, who is no member then and cannot be asked
            steps: list[tuple[str, str, list[Any], set[str]]] = [
                ("add_member", spare, [spare, cluster.peers[spare]], {spare}),
                ("promote", spare, [spare], set()),
                ("demote", leaving, [leaving], set()),
                ("remove_member", leaving, [leaving], {leaving}),
                ("replace_member", leaving, [replaced, leaving, cluster.peers[leaving]], {leaving, replaced}),
            ]
            for verb, target, arguments, outside in steps:
                victim = choose_victim(cluster, victims[changes % 3], target)
                asked = next(node for name, node in cluster.nodes.items() if name not in outside | {victim.name})
                cluster.change(asked, verb, *arguments, victim=victim)
                load.wait_for_more(5)
                changes += 1
            spare = replaced
    assert changes == 20
    gone = cluster.nodes.pop(spare)
    wait_until(lambda: (gone.status() or {}).get("state") == "removed", timeout_s=30, what="it to be told")
    for node in cluster.nodes.values():
        node.call(ready, 20.0, timeout_s=25)
    assert cluster.leader().call(roles) == dict.fromkeys(cluster.nodes, "voter")
    load.check(cluster)
    cluster.agree()
    gone.kill()


def test_all_three_nodes_are_replaced_by_three_others_under_load(cluster: Members) -> None:
    """A rolling replacement: at its end nothing is left of the founders, and what they acknowledged is all there."""
    with Load(cluster, writers=2) as load:
        for old, new in zip("abc", "def", strict=True):
            cluster.spawn(new)
            asked = next(node for name, node in cluster.nodes.items() if name not in (old, new))
            cluster.change(asked, "replace_member", old, new, cluster.peers[new])
            cluster.note_leaders(cluster.nodes[old])
            cluster.nodes.pop(old).kill()
            load.wait_for_more(10)
    load.check(cluster)
    assert cluster.leader().call(roles) == dict.fromkeys("def", "voter")
    cluster.agree()
    cluster.kill()
    cluster.start()
    cluster.wait_ready()
    cluster.leader().call(put, "after", b"1")
    assert {node.call(get, "after") for node in cluster.nodes.values()} == {b"1"}
