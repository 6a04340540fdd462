"""What a node counts: every number of metrics() moves by what it says it counts, and stands in docs/operations.md."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import raftmeta
from raftmeta import Node
from tests.lint.sources import ROOT
from tests.node.nodes import leader_of, make_nodes, one_node, running, without_quorum
from tests.processes.waiting import wait_until


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with one_node(tmp_path_factory.mktemp("metrics")) as made:
        yield made


def moved(node: Node, act: Callable[[], object]) -> dict[str, int]:
    """By how much each number changed."""
    before = node.metrics()
    act()
    after = node.metrics()
    return {name: after[name] - before[name] for name in after}


def put_ten(node: Node) -> None:
    for i in range(10):
        node.put(f"ten/{i}", b"x" * 1000)


def test_a_write_is_counted_from_the_proposal_to_the_disk(node: Node) -> None:
    change = moved(node, lambda: put_ten(node))
    assert change["proposals"] == change["commands_completed"] == change["revision"] == 10
    assert change["entries_applied"] >= 10
    assert change["applied"] == change["entries_applied"]
    assert change["keys"] == 10
    assert change["log_write_bytes"] > 10_000
    assert change["log_bytes"] >= change["log_write_bytes"]
    assert change["log_writes"] >= 1
    assert change["log_syncs"] >= 1
    assert change["log_sync_time_ns"] > 0
    assert change["apply_time_ns"] > 0
    assert change["history_bytes"] > 0
    now = node.metrics()
    assert 0 < now["apply_time_ns_max"] <= now["apply_time_ns"]
    assert 0 < now["log_sync_time_ns_max"] <= now["log_sync_time_ns"]
    assert now["state_bytes"] > 10_000
    assert now["log_free_bytes"] > 0
    assert now["term"] >= 1


def test_longest_times_can_be_measured_anew(node: Node) -> None:
    put_ten(node)
    assert node.metrics(restart_maxima=True)["commit_gap_ns_max"] > 0

    def are_forgotten() -> bool:
        now = node.metrics(restart_maxima=True)  # since the look before; the node may write an entry of its own
        return bool(now["commit_gap_ns_max"] == now["log_sync_time_ns_max"] == 0)

    wait_until(are_forgotten, timeout_s=20, what="the longest times to be forgotten")
    node.put("again", b"")
    assert 0 < node.metrics()["commit_gap_ns_max"] < 5 * 10**9
    assert node.metrics()["log_sync_time_ns_max"] > 0


def test_commands_that_nobody_answers_show_as_a_gap(tmp_path: Path) -> None:
    """Also while it lasts: nothing was answered yet."""
    with without_quorum(tmp_path) as lonely:
        lonely.metrics(restart_maxima=True)
        with pytest.raises(raftmeta.NotExecuted):
            lonely.put("k", b"", timeout_s=0.5)
        assert lonely.metrics()["commit_gap_ns_max"] > 400_000_000


def test_reads_are_counted(node: Node) -> None:
    assert moved(node, lambda: node.get("none"))["reads_served"] == 1
    assert moved(node, lambda: node.get("none", local=True))["reads_served"] == 0


def test_leases_and_sessions_are_counted(node: Node) -> None:
    with node.lease(10):
        wait_until(lambda: node.metrics()["leases"] == 1, timeout_s=20, what="the lease to be counted")
    wait_until(lambda: node.metrics()["leases"] == 0, timeout_s=20, what="its end to be counted")
    assert node.metrics()["sessions"] == 1


def test_what_waits_for_watchers_is_counted_in_bytes(node: Node) -> None:
    """It falls to nothing when all is taken, and also when a watch with a full queue is closed."""
    watch = node.watch(prefix="watched/")
    closed = node.watch(prefix="watched/")
    assert node.metrics()["watches"] == 2
    node.put("watched/k", b"x" * 10_000)
    wait_until(lambda: node.metrics()["watch_queue_bytes"] > 0, timeout_s=20, what="events to be counted")
    next(iter(watch))
    closed.close()
    wait_until(lambda: node.metrics()["watch_queue_bytes"] == 0, timeout_s=20, what="all to be taken or freed")
    watch.close()
    wait_until(lambda: node.metrics()["watches"] == 0, timeout_s=20, what="the watches to be gone")


def test_elections_and_leaders_are_counted_where_they_happen(tmp_path: Path) -> None:
    with running(tmp_path) as nodes:
        leader = leader_of(nodes)
        assert leader.metrics()["is_leader"] == 1
        other = next(node for node in nodes.values() if node is not leader)
        assert (other.metrics()["is_leader"], other.metrics()["role"]) == (0, 1)
        before = {name: node.metrics() for name, node in nodes.items()}
        leader.transfer(other.name)
        assert leader_of(nodes) is other
        assert other.metrics()["elections"] == before[other.name]["elections"] + 1
        assert other.metrics()["role"] == 4
        assert leader.metrics()["elections"] == before[leader.name]["elections"]
        for name, node in nodes.items():
            assert node.metrics()["leader_changes"] > before[name]["leader_changes"]
            assert node.metrics()["term"] == before[name]["term"] + 1


def test_bytes_are_counted_for_each_peer(tmp_path: Path) -> None:
    """The leader sends a large value to both; of itself nobody counts anything."""
    with running(tmp_path) as nodes:
        leader = leader_of(nodes)
        leader.put("large", b"x" * 500_000)

        def sent() -> list[int]:
            return [member.bytes_out for member in leader.status().members if not member.is_self]

        wait_until(lambda: min(sent()) > 500_000, timeout_s=20, what=lambda: f"both to be sent it: {sent()}")
        for node in nodes.values():
            members = {member.name: member for member in node.status().members}
            assert (members[node.name].bytes_in, members[node.name].bytes_out) == (0, 0)
            if node is not leader:
                wait_until(
                    lambda node=node: (
                        next(m for m in node.status().members if m.name == leader.name).bytes_in > 500_000
                    ),
                    timeout_s=20,
                    what="the value to be counted where it arrived",
                )
        assert leader.metrics()["bytes_out"] > 1_000_000
        assert leader.metrics()["frames_sent"] > 0
        assert leader.metrics()["frames_received"] > 0


def test_a_node_that_was_not_part_of_a_cluster_counts_from_nothing(tmp_path: Path) -> None:
    nodes = make_nodes(tmp_path)
    with nodes["a"] as lonely:
        metrics = lonely.metrics()
        assert {name: metrics[name] for name in ("term", "keys", "elections", "log_writes", "sessions")} == {
            "term": 0, "keys": 0, "elections": 0, "log_writes": 0, "sessions": 0,
        }  # fmt: skip


def test_every_metric_is_documented_and_every_documented_metric_is_there(node: Node) -> None:
    text = (ROOT / "docs" / "operations.md").read_text()
    section = text.split("\n## Metrics\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    documented = [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    of_peers = {"bytes_in", "bytes_out"}
    assert sorted(documented) == sorted({*node.metrics()})
    assert of_peers <= {*raftmeta.MemberStatus.__dataclass_fields__}
