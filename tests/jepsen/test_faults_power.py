"""raftmeta on disks that lose their power, or fill up: what was acknowledged is there afterwards, on every node."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jepsen.faults import images
from jepsen.faults.images import Disk, Images, cut_power
from jepsen.faults.shim import Action, Calls
from tests.jepsen.nodes import FaultyCluster
from tests.processes.cluster import NodeProcess, put
from tests.processes.load import Load, start_again
from tests.processes.remote import ProcessGone, RemoteError
from tests.processes.waiting import wait_until

pytestmark = pytest.mark.mounts


@pytest.fixture(scope="module")
def disks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Images]:
    with Images(tmp_path_factory.mktemp("power") / "disks", size_bytes=64 * images.MIB) as made:
        yield made


@pytest.fixture(scope="module")
def cluster(disks: Images, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyCluster]:
    with FaultyCluster(tmp_path_factory.mktemp("on-disks"), images=disks) as running:
        yield running


def power_back(cluster: FaultyCluster, disks: Images, *names: str) -> None:
    """After a cut: whoever lives is killed, the disks come back, the nodes start."""
    for name in names:
        cluster.nodes[name].kill()
        disks.disks[name].remount()
    cluster.start()
    cluster.wait_ready()


@pytest.mark.parametrize("round_number", range(2))
def test_a_power_cut_of_all_loses_nothing_acknowledged(
    cluster: FaultyCluster, disks: Images, round_number: int
) -> None:
    """All disks at once under load, as in a data centre that goes dark."""
    with Load(cluster, prefix=f"all/{round_number}/", expected=("DiskFailed", "NodeClosed")) as load:
        load.wait_for_more(20)
        cut_power(disks.disks.values())
        power_back(cluster, disks, *cluster.nodes)
        load.wait_for_more(5)
    load.check(cluster)


@pytest.mark.parametrize("action", [Action.CUT_BEFORE, Action.CUT_AFTER])
@pytest.mark.parametrize("which", ["leader", "follower"])
def test_a_power_cut_at_a_sync_loses_nothing_acknowledged(
    cluster: FaultyCluster, disks: Images, which: str, action: Action
) -> None:
    """Of one node, in the moment of a sync of its log; the others go on."""
    node: NodeProcess = cluster.leader() if which == "leader" else cluster.followers()[0]
    page = cluster.page(node)
    with Load(cluster, prefix=f"{which}/{action}/", expected=("DiskFailed", "NodeClosed")) as load:
        load.wait_for_more(5)
        page.cut_with([disks.disks[node.name].mount])
        page.strike(Calls.SYNC, action, path=str(node.folder), skip=10, count=1)
        wait_until(lambda: not node.is_alive, timeout_s=20, what="the cut")
        load.wait_for_more(5)
        page.end_all()
        power_back(cluster, disks, node.name)
        load.wait_for_more(5)
    load.check(cluster)


def is_refused_for_room(node: NodeProcess, *disks: Disk) -> bool:
    """Write to the node once.

    disks: filled up before. A node that is asked seldom, as on a busy machine, has time for a checkpoint between two
    writes, and so shortens its log: the room that this frees must not last for ever.
    """
    for disk in disks:
        disk.fill_up(0)
    try:
        node.call(put, "filler", bytes(32 * 1024))
    except RemoteError as error:
        return error.kind == "NoSpace"
    except (ProcessGone, TimeoutError):
        return False
    return False


def test_full_disks_refuse_growth_and_go_on_when_there_is_room(cluster: FaultyCluster, disks: Images) -> None:
    """All three: writes are refused with NoSpace, nobody stops, and with room they go on by themselves."""
    with Load(cluster, prefix="full/", writers=3, expected=("NoSpace",)) as load:
        load.wait_for_more(5)
        for disk in disks.disks.values():
            disk.fill(images.MIB)
        wait_until(
            lambda: is_refused_for_room(cluster.leader(), *disks.disks.values()),
            timeout_s=40,
            what=lambda: cluster.logs(),
        )
        for disk in disks.disks.values():
            disk.drain()
        load.wait_for_more(5)
        assert all(node.status() and node.status()["state"] == "running" for node in cluster.nodes.values())  # type: ignore[index]
    load.check(cluster)


def is_full(node: NodeProcess, disk: Disk) -> bool:
    """Write to the node once, then ask it: a leader without room may have handed over, and then nobody refuses."""
    if is_refused_for_room(node, disk):
        return True
    told = node.status()
    return told is not None and any(kind == "disk_full" for kind, _ in told["problems"])


def test_a_leader_on_a_full_disk_hands_over(cluster: FaultyCluster, disks: Images) -> None:
    """The others have a majority with room: writes go on under one of them, though the leader could take no more."""
    leader = cluster.leader()
    with Load(cluster, prefix="leader-full/", expected=("NoSpace",)) as load:
        disks.disks[leader.name].fill(0)
        wait_until(lambda: is_full(leader, disks.disks[leader.name]), timeout_s=60, what=lambda: cluster.logs())
        cluster.leader(other_than=leader.name)
        load.wait_for_more(20)
        disks.disks[leader.name].drain()
        load.wait_for_more(5)
    load.check(cluster)


def test_a_node_starts_on_a_full_disk(cluster: FaultyCluster, disks: Images) -> None:
    """Its boot number has a place that was taken while there was room."""
    node = cluster.followers()[0]
    disks.disks[node.name].fill(0)
    node.kill()
    start_again(node)
    told = node.status()
    disks.disks[node.name].drain()
    assert told is not None and told["state"] == "running"


def test_a_node_on_a_full_disk_is_left_behind_and_comes_back(cluster: FaultyCluster, disks: Images) -> None:
    """The others have a majority: nothing is refused."""
    node = cluster.followers()[0]
    disk = disks.disks[node.name]
    with Load(cluster, prefix="one-full/", expected=("NoSpace",)) as load:
        disk.fill(0)
        load.wait_for_more(60)
        disk.drain()
        load.wait_for_more(5)
    load.check(cluster)
