"""Leaders, members and workers as real processes: kill -9, SIGSTOP, and what the others see."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import raftmeta
from raftmeta import recipes
from tests.processes.child import hold_gil
from tests.processes.cluster import Cluster, NodeProcess, ready
from tests.processes.load import start_again
from tests.processes.remote import RemoteError
from tests.processes.waiting import wait_until

TTL_S = 2.0  # long enough that a busy machine does not let it lapse
SERVICE = "controller"

# --- in the process of a node -----------------------------------------------------------------------------------------

_lost: list[int] = []  # epochs of leads, in the order of their losses
_leads: list[Any] = []


def nominate(node: raftmeta.Node, candidate: str) -> bool:
    return node.election(SERVICE, ttl_s=TTL_S).nominate(
        candidate, on_elected=_leads.append, on_lost=lambda lead: _lost.append(lead.epoch)
    )


def leader(node: raftmeta.Node) -> str | None:
    return node.election(SERVICE, ttl_s=TTL_S).get_leader()


def lead_epoch(node: raftmeta.Node, candidate: str) -> int:
    """0: this candidate does not lead."""
    lead = node.election(SERVICE, ttl_s=TTL_S).lead(candidate)
    return 0 if lead is None else lead.epoch


def lost_epochs(node: raftmeta.Node) -> list[int]:
    return list(_lost)


def lead_of(epoch: int) -> Any:
    """A lead that this process was told of. on_elected comes on a thread of its own, so it may follow lead()."""
    wait_until(lambda: any(lead.epoch == epoch for lead in _leads), timeout_s=30, what=lambda: f"{epoch} in {_leads}")
    return next(lead for lead in _leads if lead.epoch == epoch)


def write_as_leader(node: raftmeta.Node, epoch: int, value: bytes) -> int:
    """A write with the fence of a lead that this process had, whatever it thinks of it now."""
    return int(node.put("decision", value, fence=lead_of(epoch), timeout_s=20))


def write_while_held(node: raftmeta.Node, epoch: int, value: bytes) -> bool:
    """As a leader does: look at held(), then write. False: it knew that it does not lead."""
    lead = lead_of(epoch)
    if not lead.held():
        return False
    node.put("decision", value, fence=lead, timeout_s=20)
    return True


def join(node: raftmeta.Node, id: str, ttl_s: float) -> int:
    return node.group("brokers", ttl_s=ttl_s).join(id, node.name).epoch


def members(node: raftmeta.Node, ttl_s: float) -> dict[str, bytes]:
    return node.group("brokers", ttl_s=ttl_s).membership()


def work(node: raftmeta.Node, name: str, count: int, hang: bool) -> list[str]:
    """Do so many items of a queue; with hang, take one more and never end it."""
    queue = recipes.Queue(node, name, ttl_s=TTL_S)
    done = []
    for _ in range(count):
        with queue.take(timeout_s=20) as item:
            done.append(item.data.decode())
    if hang:
        done.append(queue.take(timeout_s=20).data.decode())
    return done


def fill(node: raftmeta.Node, name: str, count: int) -> None:
    for number in range(count):
        recipes.Queue(node, name).put(f"{number}")


# --- here -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path) as running:
        yield running


def wait_leader(node: NodeProcess, candidate: str, *, timeout_s: float = 20.0) -> None:
    wait_until(
        lambda: node.call(leader) == candidate, timeout_s=timeout_s, what=lambda: f"{candidate}\n{node.log_tail()}"
    )


def test_a_frozen_leader_wakes_fenced(cluster: Cluster) -> None:
    """SIGSTOP beyond its lease: another leads. Awake, it knows so at once, and its own late write is refused."""
    frozen, other, third = cluster.nodes.values()
    assert frozen.call(nominate, "frozen")
    epoch = frozen.call(lead_epoch, "frozen")
    assert not other.call(nominate, "other")
    assert frozen.call(write_as_leader, epoch, b"in time") > 0
    frozen.pause()
    wait_leader(other, "other")
    wait_until(lambda: other.call(lead_epoch, "other"), timeout_s=30, what="the other to know")
    other_epoch = other.call(lead_epoch, "other")
    assert other_epoch > epoch
    other.call(write_as_leader, other_epoch, b"new")
    frozen.resume()
    assert frozen.call(write_while_held, epoch, b"late") is False
    with pytest.raises(RemoteError) as refused:
        frozen.call(write_as_leader, epoch, b"late", timeout_s=30)
    assert refused.value.kind == "Fenced"
    wait_until(lambda: frozen.call(lost_epochs) == [epoch], timeout_s=30, what="on_lost to be called")
    other.call(write_as_leader, other_epoch, b"still leads")
    assert third.call(leader) == "other"


def test_a_leader_killed_is_replaced_within_its_lease(cluster: Cluster) -> None:
    """kill -9; the candidates lead in order, and the one who comes back stands behind them."""
    first, second, third = cluster.nodes.values()
    first.call(nominate, "first")
    second.call(nominate, "second")
    epoch = first.call(lead_epoch, "first")
    first.kill()
    killed_s = time.monotonic()
    wait_leader(third, "second")
    assert time.monotonic() - killed_s < 10 * TTL_S
    start_again(first)
    assert first.call(nominate, "first") is False
    wait_until(lambda: second.call(lead_epoch, "second"), timeout_s=30, what="the second to know")
    assert second.call(lead_epoch, "second") > epoch
    second.kill()
    wait_leader(third, "first")


def test_a_member_killed_joins_again_at_once(tmp_path: Path) -> None:
    """Its old lease has an hour left, and nobody else may have its place meanwhile."""
    with Cluster(tmp_path, leases_end_with_process=False) as cluster:
        first, second, _ = cluster.nodes.values()
        epoch = first.call(join, "broker-1", 3600.0)
        first.kill()
        with pytest.raises(RemoteError) as refused:
            second.call(join, "broker-1", 3600.0)
        assert refused.value.kind == "IdConflict"
        start_again(first)
        assert first.call(join, "broker-1", 3600.0) > epoch
        assert second.call(members, 3600.0) == {"broker-1": first.name.encode()}


def test_a_host_that_holds_the_gil_keeps_its_lead(cluster: Cluster) -> None:
    """Keep-alives are native: Python stands still for three leases, and nobody takes the lead."""
    first, second, _ = cluster.nodes.values()
    first.call(nominate, "first")
    second.call(nominate, "second")
    epoch = first.call(lead_epoch, "first")
    first.call(hold_gil, 3 * TTL_S)
    assert first.call(lead_epoch, "first") == epoch
    assert first.call(write_while_held, epoch, b"held")
    assert second.call(leader) == "first"
    assert first.call(lost_epochs) == []


def test_items_of_a_killed_worker_are_done_by_others(cluster: Cluster) -> None:
    """One worker dies with an item in its hands; all items are done once, its own among them."""
    first, second, third = cluster.nodes.values()
    third.call(fill, "jobs", 12)
    died_with = first.call(work, "jobs", 3, True)
    first.kill()
    done = second.call(work, "jobs", 9, False, timeout_s=60)
    assert sorted([*died_with[:-1], *done], key=int) == [str(number) for number in range(12)]
    assert died_with[-1] in done


def test_leads_survive_a_change_of_the_cluster_leader(cluster: Cluster) -> None:
    """Whoever leads the service is not who leads the cluster: killing the latter costs the former nothing."""
    leading = cluster.leader()
    first, second = cluster.followers()
    first.call(nominate, "first")
    second.call(nominate, "second")
    epoch = first.call(lead_epoch, "first")
    leading.kill()
    second.call(ready, 20.0)
    assert second.call(leader) == "first"
    assert first.call(lead_epoch, "first") == epoch
    assert first.call(write_as_leader, epoch, b"goes on") > 0
    assert first.call(lost_epochs) == []
