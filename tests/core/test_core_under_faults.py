"""Random histories with hardly any memory: records leave it, come back from the log file, are damaged and mended.

Every step is checked by tests/core/cluster.py (I1 to I7, I9); at the end all faults stop, and everything converges.
"""

from __future__ import annotations

import random

import pytest

from tests.core.cluster import Cluster
from tests.faces.core import CoreHandle, HardState, Member, Membership, SnapshotPoint

STEPS = 1500
MEMBERS = (1, 2, 3)


class Fate:
    """One seeded history."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.cluster = Cluster.of(
            len(MEMBERS),
            append_bytes_max=self.random.choice([100, 400, 4000]),
            inflight_bytes_max=self.random.choice([300, 2000, 100_000]),
            log_chunk_bytes=self.random.choice([64, 256, 1024]),
            log_memory_bytes_max=self.random.choice([0, 500, 3000]),
            lease_reads=self.random.random() < 0.3,
        )
        self.steps = [self.tick] * 6 + [self.propose] * 4 + [self.deliver] * 12
        self.steps += [self.read, self.event, self.restart, self.partition, self.compact, self.snapshot, self.transfer]

    def run(self) -> None:
        for _ in range(STEPS):
            self.random.choice(self.steps)(self.random.choice(MEMBERS))

    def tick(self, member: int) -> None:
        self.cluster.tick(member, self.random.randrange(1, 4))

    def propose(self, member: int) -> None:
        payloads = [bytes(self.random.randrange(200)) for _ in range(self.random.randrange(1, 5))]
        self.cluster.act(member, "propose", payloads, is_waiting=True)

    def read(self, member: int) -> None:
        self.cluster.act(member, "read_index", self.random.getrandbits(32))

    def transfer(self, member: int) -> None:
        self.cluster.act(member, "transfer", self.random.choice((0, *MEMBERS)))

    def event(self, member: int) -> None:
        event = self.random.choice(["PEER_CONNECTED", "PEER_UNREACHABLE", "PEER_REFUSED", "CLOCK_JUMPED"])
        self.cluster.act(member, "peer_event", event, self.random.choice(MEMBERS))

    def deliver(self, member: int) -> None:
        """To one member: each message arrives, is lost, comes twice, or comes later."""
        for message in [message for message in self.cluster.network if message.target == member]:
            fate = self.random.random()
            if fate < 0.95:
                self.cluster.network.remove(message)
            if fate > 0.05:
                self.cluster.give(message)

    def partition(self, member: int) -> None:
        if self.random.random() < 0.5:
            self.cluster.partition([member], [other for other in MEMBERS if other != member])
        else:
            self.cluster.heal()

    def restart(self, member: int) -> None:
        self.cluster.crash(member)
        self.damage(member)
        self.cluster.start(member)

    def damage(self, member: int) -> None:
        """One record, never the last, and only where every other member has it: what is lost everywhere is lost."""
        disk = self.cluster.nodes[member].disk
        others = [node.disk for node in self.cluster.nodes.values() if node.id != member]
        healthy = [
            index
            for index in sorted(disk.records)[:-1]
            if all(index <= other.point.index or other.chain(index) == disk.chain(index) for other in others)
        ]
        if healthy and not any(node.disk.damaged for node in self.cluster.nodes.values()):
            self.cluster.damage(member, self.random.choice(healthy))

    def compact(self, member: int) -> None:
        status = self.cluster[member].status()
        if status.applied > status.snapshotted and not status.is_repairing:
            self.cluster.compact(member, status.applied)

    def snapshot(self, member: int) -> None:
        """Streams begin for all who need one, and some break."""
        node = self.cluster.nodes[member]
        needed, node.snapshots_needed = node.snapshots_needed, []
        for target in needed:
            if self.random.random() < 0.7:
                self.cluster.send_snapshot(member, target)
            else:
                self.cluster.act(member, "peer_event", "PEER_SNAPSHOT_FAILED", target)

    def stop(self) -> None:
        """No more faults: an election time-out passes, then another, until all agree."""
        self.cluster.heal()
        for _ in range(200):
            self.cluster.tick_all()
            self.cluster.settle()
            for member in MEMBERS:
                for target in self.cluster.nodes[member].snapshots_needed:
                    self.cluster.send_snapshot(member, target)
                self.cluster.nodes[member].snapshots_needed.clear()


@pytest.mark.parametrize("seed", range(30))
def test_little_memory_and_damaged_records_lose_nothing(seed: int) -> None:
    """Init: three members, tiny chunks. Act: 1,500 random steps, then peace. Check: one leader, one log, all mended."""
    fate = Fate(seed)
    fate.run()
    fate.stop()
    words = [fate.cluster[member].status() for member in MEMBERS]
    assert [status.role for status in words].count("LEADER") == 1, words
    assert len({(status.last, status.last_chain, status.committed, status.applied) for status in words}) == 1, words
    assert not any(status.is_repairing for status in words), words
    assert words[0].committed == words[0].last > 0


def test_snapshot_of_a_later_term_raises_the_term() -> None:
    """Seed 215: 1. member 2, in term 1, repairs; 2. one that is ahead offers its snapshot at a point of term 2;
    3. it is installed, and member 2 restarts before its hard state followed. It cannot have voted in term 2.
    """
    point = SnapshotPoint(15, 2, 99)
    installed = CoreHandle(2)
    installed.start([1, 2, 3], hard_state=HardState(1, 3, 0))
    assert installed.snapshot_installed(point, Membership((Member(1), Member(2), Member(3)))) == "OK"
    write = installed.ready().write
    assert write is not None and write.hard_state == HardState(2, 0, 15)
    restarted = CoreHandle(2)
    restarted.start([1, 2, 3], hard_state=HardState(1, 3, 0), point=point)
    assert (restarted.status().term, restarted.status().vote) == (2, 0)
    write = restarted.ready().write
    assert write is not None and write.hard_state == HardState(2, 0, 15)
