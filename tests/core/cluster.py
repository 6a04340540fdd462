"""A cluster of real cores with a network and disks that do exactly what a test says, and the checks of every step.

Nothing moves by itself: `deliver` hands messages over, `tick` lets time pass. A disk is durable at once unless it is
slow; then `persist` completes its writes one by one. After every step the invariants of docs/invariants.md that can be
seen from outside a core are checked (I1 to I7, I9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from tests.faces.core import (
    LEARNER,
    VOTER,
    VOTER_OUTGOING,
    CoreHandle,
    Entry,
    HardState,
    LogRead,
    Member,
    Membership,
    Message,
    ReadReady,
    Ready,
    SnapshotPoint,
    Write,
    make_records,
    read_records,
)

NO_LIMIT = 2**64 - 1


@dataclass
class Disk:
    """What survives a crash: hard state, records by index, and the snapshot they continue."""

    membership: Membership
    hard_state: HardState = field(default_factory=HardState)
    point: SnapshotPoint = field(default_factory=SnapshotPoint)
    records: dict[int, bytes] = field(default_factory=dict)
    damaged: dict[int, int] = field(default_factory=dict)

    def write(self, write: Write) -> None:
        if write.hard_state is not None:
            self.hard_state = write.hard_state
        if write.first > write.last:
            return
        if not write.repairs:
            self.records = {index: record for index, record in self.records.items() if index < write.first}
        at = 0
        for entry in read_records(write.records):
            length = (64 + len(entry.payload) + 7) // 8 * 8
            self.records[entry.index] = write.records[at : at + length]
            self.damaged.pop(entry.index, None)
            at += length

    def install(self, point: SnapshotPoint, membership: Membership) -> None:
        if point.chain not in (self.chain(point.index), self.damaged.get(point.index)):
            self.records.clear()
        self.records = {index: record for index, record in self.records.items() if index > point.index}
        self.damaged = {index: chain for index, chain in self.damaged.items() if index in self.records}
        self.point, self.membership = point, membership

    def entry(self, index: int) -> Entry | None:
        if index in self.damaged or index not in self.records:
            return None
        return read_records(self.records[index])[0]

    def chain(self, index: int) -> int | None:
        """The chain hash of the entry at index; None: it is not here."""
        if index == self.point.index:
            return self.point.chain
        entry = self.entry(index)
        return entry.chain if entry else None

    @property
    def last(self) -> int:
        return max(self.records, default=self.point.index)


@dataclass
class Node:
    id: int
    disk: Disk
    options: dict[str, object]
    core: CoreHandle | None = None
    boots: int = 0
    is_slow: bool = False
    writes: list[Write] = field(default_factory=list)
    applied: list[Entry] = field(default_factory=list)
    reads: list[ReadReady] = field(default_factory=list)
    snapshots_needed: list[int] = field(default_factory=list)
    log_reads: list[LogRead] = field(default_factory=list)
    term_seen: int = 0


class Model(Protocol):
    """A witness of everything that a core is told; tests/core/model.py is the one there is."""

    def observe(self, node: Node, verb: str, arguments: tuple[object, ...], status: str) -> None: ...
    def restart(self, node: Node) -> None: ...


class Cluster:
    """Cores by id, messages under way in order, and what has been seen of the whole so far."""

    def __init__(self, watcher: Callable[[Node, Ready], None] | None = None) -> None:
        self.nodes: dict[int, Node] = {}
        self.network: list[Message] = []
        self.blocked: set[tuple[int, int]] = set()
        self.watcher = watcher
        self.leaders: dict[int, int] = {}
        self.chains: dict[tuple[int, int], int] = {}
        self.truth: dict[int, Entry] = {}
        self.model: Model | None = None

    # --- members ------------------------------------------------------------------------------------------------------

    @classmethod
    def of(cls, voters: int, *, learners: int = 0, **options: object) -> Cluster:
        """Members 1 to voters + learners, started."""
        cluster = cls()
        cluster.add(range(1, voters + 1), range(voters + 1, voters + learners + 1), **options)
        return cluster

    def add(self, voters: Iterable[int], learners: Iterable[int] = (), **options: object) -> None:
        voters, learners = list(voters), list(learners)
        membership = membership_of(voters, learners)
        for member_id in voters + learners:
            self.nodes[member_id] = Node(member_id, Disk(membership), options)
            self.start(member_id)

    def add_blank(self, member_id: int, **options: object) -> None:
        """A member-to-be: it has an empty log and only the founding membership, which does not name it."""
        first = next(iter(self.nodes.values()))
        founding = Membership(tuple(m for m in first.disk.membership.members if m.id != member_id))
        self.nodes[member_id] = Node(member_id, Disk(founding), {**first.options, **options})
        self.start(member_id)

    def add_with_log(
        self,
        member_id: int,
        members: Iterable[int],
        log_terms: Iterable[int],
        *,
        term: int,
        vote: int = 0,
        **options: object,
    ) -> None:
        """A member whose disk holds entries of these terms already; start it afterwards."""
        disk = Disk(membership_of(members), HardState(term, vote))
        records = make_records([(entry_term, b"%d" % entry_term) for entry_term in log_terms])
        if records:
            disk.write(Write(0, None, 1, len(read_records(records)), records, False, False))
        self.nodes[member_id] = Node(member_id, disk, options)

    def start(self, member_id: int) -> None:
        node = self.nodes[member_id]
        node.boots += 1
        node.term_seen = node.disk.hard_state.term
        node.core = CoreHandle(member_id, seed=member_id * 1000 + node.boots, **node.options)
        expect(node.core.restore_membership(node.disk.membership, node.disk.point))
        for index in range(node.disk.point.index + 1, node.disk.last + 1):
            if index in node.disk.damaged:
                expect(node.core.restore_damaged(index, node.disk.damaged[index]))
            else:
                expect(node.core.restore_records(node.disk.records[index]))
        node.applied = [self.truth[index] for index in range(1, node.disk.point.index + 1)]
        expect(node.core.restored(node.disk.hard_state, node.disk.point.index))
        self.run(node)
        if self.model is not None:
            self.model.restart(node)

    def crash(self, member_id: int) -> None:
        node = self.nodes[member_id]
        node.core = None
        node.writes.clear()
        node.reads.clear()
        node.snapshots_needed.clear()
        node.log_reads.clear()

    def restart(self, member_id: int) -> None:
        self.crash(member_id)
        self.start(member_id)

    def __getitem__(self, member_id: int) -> CoreHandle:
        core = self.nodes[member_id].core
        assert core is not None, f"{member_id} is down"
        return core

    @property
    def running(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.core is not None]

    # --- what happens -------------------------------------------------------------------------------------------------

    def act(self, member_id: int, verb: str, *arguments: object, **options: object) -> str:
        """Call one verb of a core, take what it wants from the world, and return the verb's status."""
        node = self.nodes[member_id]
        status: str = getattr(self[member_id], verb)(*arguments, **options)
        self.run(node)
        if self.model is not None:
            self.model.observe(node, verb, arguments, status)
        return status

    def tick(self, member_id: int, count: int = 1) -> None:
        for _ in range(count):
            expect(self.act(member_id, "tick"))

    def tick_all(self, count: int = 1) -> None:
        for _ in range(count):
            for node in self.running:
                self.tick(node.id)

    def deliver(self, chosen: Callable[[Message], bool] = lambda message: True) -> list[tuple[Message, str]]:
        """Hand over the messages that are under way now and chosen, in order; what they cause stays under way."""
        given = [message for message in self.network if chosen(message)]
        self.network = [message for message in self.network if not chosen(message)]
        return [(message, self.give(message)) for message in given]

    def give(self, message: Message) -> str:
        node = self.nodes.get(message.target)
        if node is None or node.core is None or (message.source, message.target) in self.blocked:
            return "LOST"
        return self.act(message.target, "step", message)

    def drop(self, chosen: Callable[[Message], bool] = lambda message: True) -> None:
        self.network = [message for message in self.network if not chosen(message)]

    def settle(self, rounds: int = 100) -> None:
        """Deliver until nothing is under way; fails when that never comes."""
        for _ in range(rounds):
            if not self.network:
                return
            self.deliver()
        raise AssertionError(f"not settled after {rounds} rounds: {self.network[:5]}")

    def partition(self, *sides: Iterable[int]) -> None:
        """Only members of one side hear each other."""
        side_of = {member_id: position for position, side in enumerate(sides) for member_id in side}
        self.blocked = {(a, b) for a in self.nodes for b in self.nodes if a != b and side_of.get(a) != side_of.get(b)}

    def heal(self) -> None:
        self.blocked = set()

    def elect(self, member_id: int) -> None:
        """Make this member leader, by the ordinary way."""
        if self[member_id].status().role != "LEADER":
            self.forget_leader(member_id)
            self.act(member_id, "campaign")
            self.settle()
        assert self[member_id].status().role == "LEADER", self[member_id].status()

    def forget_leader(self, candidate: int) -> None:
        """Others that still follow somebody hear nothing for an election time-out, so they may vote (thesis 4.2.3)."""
        for node in self.running:
            may_hear = node.core.status().leader not in (0, candidate) or node.options.get("lease_reads")
            if node.id != candidate and may_hear:
                self.tick(node.id, int(node.options.get("election_timeout_ticks", 10)))
                self.drop()

    def beat(self, leader: int) -> None:
        """One heartbeat round, delivered: followers learn the commit index, reads are confirmed."""
        self.tick(leader, int(self.nodes[leader].options.get("heartbeat_ticks", 1)))
        self.settle()

    # --- disk ---------------------------------------------------------------------------------------------------------

    def persist(self, member_id: int) -> None:
        """Complete the oldest write of a slow disk."""
        node = self.nodes[member_id]
        write = node.writes.pop(0)
        node.disk.write(write)
        expect(self.act(member_id, "persisted", write.id))

    def damage(self, member_id: int, index: int) -> None:
        """The record at index of a crashed member cannot be read any more; its chain hash is known from the next."""
        node = self.nodes[member_id]
        assert node.core is None
        entry = node.disk.entry(index)
        assert entry is not None
        node.disk.damaged[index] = entry.chain

    def compact(self, member_id: int, index: int) -> str:
        """A checkpoint at index is durable and the log up to it goes."""
        node = self.nodes[member_id]
        membership = committed_membership(node, index)
        chain = node.disk.chain(index)
        assert chain is not None
        node.disk.install(SnapshotPoint(index, self.truth[index].term, chain), membership)
        return self.act(member_id, "compacted", index, index)

    def send_snapshot(self, source: int, target: int) -> None:
        """The chunks of source's checkpoint reach target and are installed there."""
        disk = self.nodes[source].disk
        node = self.nodes[target]
        while node.writes:
            self.persist(target)  # a disk does its jobs in order
        if disk.point.index > self[target].status().applied:
            node.disk.install(disk.point, disk.membership)
            node.applied = [self.truth[index] for index in range(1, disk.point.index + 1)]
        expect(self.act(target, "snapshot_installed", disk.point, disk.membership))
        expect(self.act(source, "peer_event", "PEER_SNAPSHOT_SENT", target))

    # --- what a core wants --------------------------------------------------------------------------------------------

    def run(self, node: Node) -> None:
        assert node.core is not None
        while node.core.has_ready():
            ready = node.core.ready()
            if self.watcher:
                self.watcher(node, ready)
            for message in ready.messages:
                check_durable_before_said(node, message)
            self.network += ready.messages
            if ready.write is not None:
                node.writes.append(ready.write)
            if not node.is_slow:
                self.finish_writes(node)
            if ready.apply is not None:
                node.applied += read_records(ready.apply.records)
                expect(node.core.applied(ready.apply.last))
            node.reads += ready.reads
            node.snapshots_needed += ready.snapshots
            self.answer_log_reads(node, ready.log_reads)
        self.check(node)

    def finish_writes(self, node: Node) -> None:
        assert node.core is not None
        while node.writes:
            write = node.writes.pop(0)
            node.disk.write(write)
            expect(node.core.persisted(write.id))

    def answer_log_reads(self, node: Node, log_reads: list[LogRead]) -> None:
        assert node.core is not None
        for log_read in log_reads:
            taken = b""
            for index in range(log_read.first, node.disk.last + 1):
                record = node.disk.records.get(index)
                if record is None or (taken and len(taken) + len(record) > log_read.bytes_max):
                    break
                taken += record
            expect(node.core.log_read(log_read, taken, "OK" if taken else "NOT_FOUND"))

    # --- checks -------------------------------------------------------------------------------------------------------

    def check(self, node: Node) -> None:
        assert node.core is not None
        status = node.core.status()
        log = self.log_of(node)
        assert status.term >= node.term_seen, "I9 term fell"
        assert status.compacted <= status.snapshotted <= status.applied <= status.committed <= status.last, "I9"
        node.term_seen = status.term
        for entry in log.values():
            chain = self.chains.setdefault((entry.index, entry.term), entry.chain)
            assert chain == entry.chain, f"I2 log matching: {node.id} at {entry.index}/{entry.term}"
        self.check_committed(node, status.committed, log)
        if status.role == "LEADER":
            self.check_leader(node, status.term, log, status.compacted)

    def log_of(self, node: Node) -> dict[int, Entry]:
        """Its whole log: what is in memory, and below that what only the disk has."""
        assert node.core is not None
        log = {entry.index: entry for entry in node.core.log()}
        status = node.core.status()
        for index in range(status.compacted + 1, min(log, default=status.last + 1)):
            entry = node.disk.entry(index)
            if entry is not None:
                log[index] = entry
        return log

    def check_committed(self, node: Node, committed: int, log: dict[int, Entry]) -> None:
        for index in range(1, committed + 1):
            if index in log and index in self.truth:
                assert self.truth[index].chain == log[index].chain, f"I4: {node.id} committed another {index}"
            elif index in log:
                self.truth[index] = log[index]
                self.check_quorum_is_durable(node, log[index])
        for position, entry in enumerate(node.applied):
            assert entry == self.truth[position + 1], f"I4: {node.id} applied another {position + 1}"

    def check_leader(self, node: Node, term: int, log: dict[int, Entry], compacted: int) -> None:
        if self.leaders.setdefault(term, node.id) != node.id:
            raise AssertionError(f"I1 election safety: {node.id} and {self.leaders[term]} lead term {term}")
        for index, entry in self.truth.items():
            if index > compacted and entry.term < term:
                assert log[index].chain == entry.chain, f"I3 leader completeness: {node.id} lacks {index}"

    def check_quorum_is_durable(self, node: Node, entry: Entry) -> None:
        assert node.core is not None
        if node.core.status().role != "LEADER":
            return
        holders = {
            other.id
            for other in self.nodes.values()
            if entry.chain in (other.disk.chain(entry.index), other.disk.damaged.get(entry.index))
            or other.disk.point.index >= entry.index
        }
        for electorate in electorates(node.core.membership()):
            if electorate <= self.nodes.keys():  # members played by a test have no disk to look at
                count = len(electorate & holders)
                assert 2 * count > len(electorate), f"I7: {entry.index} is committed but only {holders} have it"


def electorates(membership: Membership) -> list[set[int]]:
    """The sets of voters that must each agree by majority."""
    incoming = {member.id for member in membership.members if member.roles & VOTER}
    outgoing = {member.id for member in membership.members if member.roles & VOTER_OUTGOING}
    return [incoming, outgoing] if membership.is_joint else [incoming]


def membership_of(voters: Iterable[int], learners: Iterable[int] = ()) -> Membership:
    members = [Member(member_id, VOTER) for member_id in voters] + [Member(i, LEARNER) for i in learners]
    return Membership(tuple(members))


def committed_membership(node: Node, index: int) -> Membership:
    """The membership in force at index, as the entries up to it tell."""
    assert node.core is not None
    membership = node.core.membership()
    assert membership.index <= index, "a test compacts only what every membership is older than"
    return membership


def check_durable_before_said(node: Node, message: Message) -> None:
    """I5, I6: what a message claims stands on the sender's disk already."""
    hard = node.disk.hard_state
    if message.type in ("PRE_VOTE", "PRE_VOTE_RESPONSE"):
        return
    assert hard.term >= message.term, f"I6: {message} with durable term {hard.term}"
    if message.type == "VOTE" or (message.type == "VOTE_RESPONSE" and not message.reject):
        voted = message.source if message.type == "VOTE" else message.target
        assert (hard.term, hard.vote) == (message.term, voted), f"I6: {message} with durable {hard}"
    if message.type == "APPEND_RESPONSE" and not message.reject:
        assert node.disk.chain(message.index) is not None or message.index <= node.disk.point.index, f"I5: {message}"


def expect(status: str) -> None:
    assert status in ("OK", "STALE", "ALREADY"), status
