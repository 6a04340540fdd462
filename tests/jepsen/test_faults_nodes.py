"""raftmeta survives what the shim does to its clocks and its disk, and the damage that is done to its files.

After each fault every acknowledged write is on every node. One fault at a time; the runs of jepsen/ mix them.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from jepsen.faults import damage
from jepsen.faults.damage import NothingToDamage
from jepsen.faults.shim import Action, Calls, Page, Rule
from tests.jepsen.nodes import FaultyCluster
from tests.processes.cluster import NodeProcess
from tests.processes.load import Load, start_again
from tests.processes.remote import ProcessGone
from tests.processes.waiting import wait_until

SECOND_NS = 1_000_000_000


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyCluster]:
    with FaultyCluster(tmp_path_factory.mktemp("faulty")) as cluster:
        yield cluster


@pytest.fixture
def cluster(running: FaultyCluster) -> Iterator[FaultyCluster]:
    yield running
    for node in running.faulty.values():
        node.page.end_all()


@pytest.fixture
def load(cluster: FaultyCluster, request: pytest.FixtureRequest) -> Iterator[Load]:
    """Writers that run during the test; afterwards nothing may be lost."""
    with Load(cluster, prefix=f"{request.node.name}/", writers=3, expected=("DiskFailed", "NodeClosed")) as writing:
        writing.wait_for_more(5)
        yield writing
        writing.wait_for_more(5)
    writing.check(cluster)


def target(cluster: FaultyCluster, which: str) -> NodeProcess:
    return cluster.leader() if which == "leader" else cluster.followers()[0]


def wait_struck(rule: Rule, count: int) -> None:
    wait_until(lambda: rule.struck >= count, timeout_s=20, what=f"{count} calls to be struck")


def wait_read(page: Page, count: int) -> None:
    wait_until(lambda: page.clock_reads >= count, timeout_s=20, what=f"{count} readings of a clock that is wrong")


def is_stopped(node: NodeProcess) -> bool:
    told = node.status()
    return told is not None and told["state"] == "stopped"


# --- clocks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["leader", "follower"])
def test_wall_clocks_may_leap(cluster: FaultyCluster, load: Load, which: str) -> None:
    """An hour ahead, a year back: it decides nothing, so the leader stays."""
    leader, node = cluster.leader(), target(cluster, which)
    page = cluster.page(node)
    for seconds in (3600.0, -365 * 86400.0, 0.0):
        read = page.clock_reads
        page.set_wall_offset(seconds)
        load.wait_for_more(5)
        if seconds:
            wait_read(page, read + 1)
    assert cluster.leader() is leader


@pytest.mark.parametrize("which", ["leader", "follower"])
def test_steady_clocks_may_leap_and_drift(cluster: FaultyCluster, load: Load, which: str) -> None:
    """As of a machine that slept for ten seconds, then of one whose oscillator runs away: another leader at worst."""
    page = cluster.page(target(cluster, which))
    page.leap(10.0)
    load.wait_for_more(5)
    for rate in (1.5, 0.6, 1.0):
        page.set_rate(rate)
        load.wait_for_more(5)
    wait_read(page, 1)


# --- disks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["leader", "follower"])
def test_a_slow_disk_delays_and_loses_nothing(cluster: FaultyCluster, load: Load, which: str) -> None:
    """A fifth of a second for each sync."""
    rule = cluster.page(target(cluster, which)).strike(Calls.SYNC, Action.DELAY, value=SECOND_NS // 5)
    wait_struck(rule, 5)
    load.wait_for_more(5)
    rule.end()


@pytest.mark.parametrize("calls", [Calls.SYNC, Calls.WRITE], ids=["sync", "write"])
@pytest.mark.parametrize("which", ["leader", "follower"])
def test_a_failed_sync_or_write_stops_the_node(cluster: FaultyCluster, load: Load, calls: Calls, which: str) -> None:
    """Once is enough, whatever the next one would say (fsyncgate); a restart finds what the disk has."""
    node = target(cluster, which)
    rule = cluster.page(node).strike(calls, Action.FAIL, path=".log", value=errno.EIO, count=1)
    wait_until(lambda: is_stopped(node), timeout_s=20, what=lambda: f"the node to stop\n{node.log_tail()}")
    assert rule.struck == 1
    load.wait_for_more(5)
    node.kill()
    start_again(node)


def test_short_writes_are_continued(cluster: FaultyCluster, load: Load) -> None:
    """Every second one on every node; nothing stops."""
    rules = [node.page.strike(Calls.WRITE, Action.SHORTEN, path=".log", chance=0.5) for node in cluster.faulty.values()]
    for rule in rules:
        wait_struck(rule, 5)
    load.wait_for_more(5)
    assert not any(is_stopped(node) for node in cluster.nodes.values())


def test_short_reads_are_continued_and_failed_ones_told(cluster: FaultyCluster, load: Load) -> None:
    """At a start, which reads the whole log: half reads are read on; an unreadable sector is never taken for an end."""
    node = target(cluster, "follower")
    page = cluster.page(node)
    node.kill()
    short = page.strike(Calls.READ, Action.SHORTEN, path=".log", chance=0.5)
    start_again(node)
    assert short.struck > 0
    short.end()
    node.kill()
    failed = page.strike(Calls.READ, Action.FAIL, path=".log", value=errno.EIO, skip=2, count=1)
    with pytest.raises(ProcessGone, match="DiskFailed"):
        start_again(node)
    assert failed.struck == 1
    node.kill()
    start_again(node)


def test_a_start_that_finds_no_room_says_so(cluster: FaultyCluster, load: Load) -> None:
    """Half-way through its opening; then there is room again."""
    node = target(cluster, "follower")
    node.kill()
    rule = cluster.page(node).strike(Calls.WRITE, Action.FAIL, path="identity", value=errno.ENOSPC, count=1)
    with pytest.raises(ProcessGone, match="NoSpace"):
        start_again(node)
    assert rule.struck == 1
    node.kill()
    start_again(node)


# --- files ------------------------------------------------------------------------------------------------------------


def with_snapshots(node: NodeProcess, load: Load) -> None:
    wait_until(lambda: damage.snapshot_files(node.folder), timeout_s=20, what="a snapshot")
    load.wait_for_more(5)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("files", ["log", "snapshots"])
def test_flipped_bits_are_found_at_the_start(cluster: FaultyCluster, load: Load, files: str, seed: int) -> None:
    """Of a node that is down: it comes back whole, repaired by the others."""
    node, random = target(cluster, "follower"), Random(seed)
    with_snapshots(node, load)
    node.kill()
    struck = damage.log_files(node.folder) if files == "log" else damage.snapshot_files(node.folder)
    flips = [damage.flip(random.choice(struck), random) for _ in range(3)]
    assert len(flips) == 3
    start_again(node)


@pytest.mark.parametrize("files", ["log", "snapshots"])
def test_flipped_bits_below_a_running_node_harm_nobody(cluster: FaultyCluster, load: Load, files: str) -> None:
    """It goes on, or stops; then it starts again, and is whole."""
    node, random = target(cluster, "follower"), Random(1)
    with_snapshots(node, load)
    for _ in range(3):
        struck = damage.log_files(node.folder) if files == "log" else damage.snapshot_files(node.folder)
        damage.flip(random.choice(struck), random)
        load.wait_for_more(5)
    node.kill()
    start_again(node)


@pytest.mark.parametrize("seed", range(3))
def test_a_lost_tail_is_noticed(cluster: FaultyCluster, load: Load, seed: int) -> None:
    """What this node acknowledged is gone: it fetches it, or comes back as another incarnation."""
    node = target(cluster, "follower")
    node.kill()
    _, _, length = damage.lose_tail(node.folder, Random(seed))
    assert length > 0
    start_again(node, timeout_s=30)


def test_a_wiped_disk_comes_back_as_another_incarnation(cluster: FaultyCluster, load: Load) -> None:
    """By itself, as a learner first (docs/invariants.md I18)."""
    node = target(cluster, "follower")
    told = node.status()
    node.kill()
    damage.wipe(node.folder)
    start_again(node, timeout_s=30)
    now = node.status()
    assert told is not None and now is not None and now["id"] != told["id"]


def test_damage_strikes_only_what_is_there(tmp_path: Path) -> None:
    """Zeros are room and no content; an empty folder has nothing to lose."""
    with pytest.raises(NothingToDamage):
        damage.lose_tail(tmp_path, Random(0))
    log = tmp_path / f"{1:016x}.log"
    log.write_bytes(bytes(3 * damage.BLOCK))
    with pytest.raises(NothingToDamage):
        damage.flip(log, Random(0))
    log.write_bytes(bytes(2 * damage.BLOCK) + b"x" * 10 + bytes(2 * damage.BLOCK))
    assert damage.flip(log, Random(0)).offset // damage.BLOCK == 2
    assert damage.lose_tail(tmp_path, Random(0)) == (log, 2 * damage.BLOCK, damage.BLOCK)
    assert damage.log_files(tmp_path) == [log]
    assert log.read_bytes() == bytes(len(log.read_bytes()))
    damage.wipe(tmp_path)
    assert list(tmp_path.iterdir()) == []
