"""User machines of members that are so far behind that they get the state as a snapshot: dump, tail and outcomes come
with it, for voters and standbys, whether the copy was running or not."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import raftmeta
from raftmeta.testing import Cluster
from tests.node.test_snapshots import SETTINGS, alike, write_many
from tests.processes.waiting import wait_until
from tests.replicated.machines import Board, Counter, copies_agree, until
from tests.replicated.test_cluster import fill, names_of_events


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(3, config=raftmeta.Config(**SETTINGS | {"wal_bytes_max": 32 * 1024 * 1024})) as running:  # type: ignore[arg-type]
        yield running


def leave_behind(cluster: Cluster, last: int) -> None:
    """Write until what a member whose log ends with `last` needs is gone from the leader's log."""

    def is_gone() -> bool:
        write_many(cluster.leader(), 600)  # a point that came while a checkpoint was written was passed over
        return cluster.leader().metrics()["log_first"] > last + 1

    wait_until(is_gone, timeout_s=40, what="the log to be cut")


def check_alike(cluster: Cluster, machines: list[raftmeta.UserMachine], total: int) -> None:
    wait_until(lambda: alike(cluster.running()), timeout_s=40, what="all to have the same state")
    until(lambda: copies_agree(machines), what="all copies")
    assert [machine.total(local=True) for machine in machines] == [total] * len(machines)
    assert [machine.repeated(local=True) for machine in machines] == [[]] * len(machines)
    for node in cluster.running():
        assert not names_of_events(node, "machine_diverged")
        assert not names_of_events(node, "machine_stopped")


def test_a_copy_that_runs_takes_the_dump_of_a_snapshot(cluster: Cluster) -> None:
    """init: a follower with a running copy is cut off. act: dumps and commands beside many entries. check: after the
    install its copy is at the newest command, without having run those before the dump."""
    leader, behind = cluster.leader(), cluster.followers()[0]
    counters = {node.name: node.replicated("counter", Counter) for node in cluster.running()}
    counters[leader.name].add("first")
    until(lambda: copies_agree(counters.values()), what="all copies")
    cluster.isolate(behind)
    calls = 1 + fill(counters[leader.name], 4.0)
    until(lambda: counters[leader.name].metrics()["dump"], what="a dump")
    leave_behind(cluster, behind.metrics()["last"])
    calls += fill(counters[leader.name], 0.5)
    cluster.heal()
    assert counters[behind.name].add("last", timeout_s=8) == calls + 1
    assert behind.metrics()["snapshots_installed"] >= 1
    assert counters[behind.name].metrics()["commands"] < calls
    check_alike(cluster, list(counters.values()), calls + 1)


def test_a_copy_opened_after_the_install_has_everything(cluster: Cluster) -> None:
    """A member that was killed, and another machine that was made while it was away."""
    leader, behind = cluster.leader(), cluster.followers()[0].name
    last = cluster.node(behind).metrics()["last"]
    cluster.kill(behind)
    counters = [node.replicated("counter", Counter) for node in cluster.running()]
    calls = fill(counters[0], 2.0)
    board = leader.replicated("board", Board)
    board.move("ann", 3)
    leave_behind(cluster, last)
    node = cluster.restart(behind)
    assert node.metrics()["snapshots_installed"] == 1
    counters.append(node.replicated("counter", Counter))
    assert counters[-1].total(timeout_s=20) == calls
    assert node.replicated("board", Board).standing() == {"ann": 3}
    check_alike(cluster, counters, calls)


def test_a_standby_gets_user_machines_by_snapshot_too(cluster: Cluster) -> None:
    """It joins when the log no longer tells how it all began, falls behind once more, and its copy follows."""
    counter = cluster.leader().replicated("counter", Counter)
    calls = fill(counter, 2.0)
    leave_behind(cluster, 1)
    standby = cluster.add("d")
    cluster.leader().add_member("d", cluster.peers["d"], voter=False)
    standby.ready(20)
    assert standby.metrics()["snapshots_installed"] == 1
    copy = standby.replicated("counter", Counter)
    assert copy.total(timeout_s=20) == calls
    cluster.isolate(standby)
    calls += fill(counter, 4.0)
    leave_behind(cluster, standby.metrics()["last"])
    cluster.heal()
    assert copy.add("by the standby", timeout_s=8) == calls + 1
    assert standby.metrics()["snapshots_installed"] == 2
    assert {member.name: member.role for member in standby.members()}["d"] == "standby"
    check_alike(cluster, [counter, copy], calls + 1)


def test_a_call_that_an_install_overtakes_gets_its_outcome(cluster: Cluster) -> None:
    """init: a follower hears nothing any more, but is heard. act: it calls; the command is applied by the others, then
    dumped, and its log is cut. check: after the install the caller has the outcome, once."""
    leader, deaf = cluster.leader(), cluster.followers()[0]
    counters = {node.name: node.replicated("counter", Counter) for node in cluster.running()}
    assert counters[deaf.name].add("first") == 1
    until(lambda: copies_agree(counters.values()), what="all copies")
    for other in cluster.running():
        if other is not deaf:
            cluster.cut(other, deaf)
    with ThreadPoolExecutor() as pool:
        call = pool.submit(counters[deaf.name].add, "overtaken", 5, timeout_s=60)
        until(lambda: counters[leader.name].total() == 6, what="the command on the leader")
        calls = fill(counters[leader.name], 4.0)
        leave_behind(cluster, deaf.metrics()["last"])
        assert not call.done()
        cluster.heal()
        assert call.result(60) == 6
    assert deaf.metrics()["snapshots_installed"] >= 1
    check_alike(cluster, list(counters.values()), 6 + calls)
