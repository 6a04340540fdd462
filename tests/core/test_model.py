"""The core beside a plain model of Raft, under everything that a network, a disk and a crash can do.

After every step the logs and commit indexes of all members are what tests/core/model.py works out from the messages,
and the invariants of tests/core/cluster.py hold. In the end, when all is well again, all members agree on one log.
"""

from __future__ import annotations

from random import Random

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.core.cluster import Cluster, Node, membership_of
from tests.core.model import RaftModel

MEMBERS = [1, 2, 3, 4, 5]
ids = st.sampled_from(MEMBERS)
positions = st.integers(0, 10**6)


def is_leader(node: Node) -> bool:
    return node.core is not None and node.core.status().role == "LEADER"


class RaftMachine(RuleBasedStateMachine):
    """Five processes, of which three found the cluster; every rule is one thing that can happen."""

    has_model = True

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.cluster.model = RaftModel() if self.has_model else None
        self.proposed = 0
        self.reads: dict[int, int] = {}

    @initialize(append_bytes_max=st.sampled_from([100, 262144]), inflight_bytes_max=st.sampled_from([100, 4194304]))
    def found(self, append_bytes_max: int, inflight_bytes_max: int) -> None:
        options = {"append_bytes_max": append_bytes_max, "inflight_bytes_max": inflight_bytes_max}
        self.cluster.add([1, 2, 3], **options)
        for member_id in (4, 5):
            self.cluster.add_blank(member_id, **options)
        self.cluster.elect(1)

    def is_up(self, member_id: int) -> bool:
        return self.cluster.nodes[member_id].core is not None

    def newest_leader(self) -> int:
        """The member that leads the highest term, or 1 when nobody leads."""
        leaders = [(node.core.status().term, node.id) for node in self.cluster.running if is_leader(node)]
        return max(leaders, default=(0, self.cluster.running[0].id if self.cluster.running else 0))[1]

    # --- callers ------------------------------------------------------------------------------------------------------

    @rule(member_id=ids, count=st.integers(1, 3))
    def propose(self, member_id: int, count: int) -> None:
        if self.is_up(member_id):
            payloads = [b"%d" % (self.proposed + i) for i in range(count)]
            self.proposed += count
            self.cluster.act(member_id, "propose", payloads, is_waiting=count == 1)

    @rule(member_id=ids)
    def read(self, member_id: int) -> None:
        """I13: the index is at least what was committed anywhere when the question was asked."""
        if self.is_up(member_id):
            context = len(self.reads) + 1
            self.reads[context] = len(self.cluster.truth)
            self.cluster.act(member_id, "read_index", context)
            self.check_reads()

    def check_reads(self) -> None:
        for node in self.cluster.nodes.values():
            for read in node.reads:
                assert read.status != "OK" or read.index >= self.reads[read.context], f"stale read {read}"
            node.reads.clear()

    @rule(voters=st.sets(ids, min_size=1), learners=st.sets(ids))
    def change_membership(self, voters: set[int], learners: set[int]) -> None:
        leader = self.newest_leader()
        if leader:
            membership = membership_of(sorted(voters), sorted(learners - voters))
            self.cluster.act(leader, "change_membership", membership)

    @rule(successor=ids)
    def transfer(self, successor: int) -> None:
        leader = self.newest_leader()
        if leader:
            self.cluster.act(leader, "transfer", successor)

    # --- time and network ---------------------------------------------------------------------------------------------

    @rule(rounds=st.integers(1, 12))
    def live(self, rounds: int) -> None:
        """Time passes as it mostly does: everything arrives that is not cut off."""
        for _ in range(rounds):
            self.cluster.tick_all()
            self.cluster.deliver()
            self.cluster.deliver()
        self.check_reads()

    @rule(seed=st.integers(0, 2**32))
    def storm(self, seed: int) -> None:
        """Forty single events in any order: messages delivered, repeated or lost, ticks and writes of one member."""
        random = Random(seed)
        for _ in range(40):
            member_id = random.choice(MEMBERS)
            kind = random.random()
            if kind < 0.7 and self.cluster.network:
                self.deliver_one(random.randrange(10**6), random.choice(["deliver"] * 8 + ["repeat", "lose"]))
            elif kind < 0.9:
                self.tick(member_id, 1)
            else:
                self.persist(member_id)

    @rule(member_id=ids, count=st.sampled_from([1, 2, 5, 12]))
    def tick(self, member_id: int, count: int) -> None:
        if self.is_up(member_id):
            self.cluster.tick(member_id, count)

    @rule(member_id=ids)
    def usurp(self, member_id: int) -> None:
        """One member campaigns when the others have not heard from a leader for long."""
        for node in self.cluster.running:
            if not is_leader(node):
                self.cluster.tick(node.id, 9)
        if self.is_up(member_id):
            self.cluster.act(member_id, "campaign")
            for _ in range(4):
                self.cluster.deliver(lambda message: member_id in (message.source, message.target))

    @rule(member_id=ids, peer=ids, event=st.sampled_from(["PEER_CONNECTED", "PEER_UNREACHABLE", "PEER_REFUSED"]))
    def peer_event(self, member_id: int, peer: int, event: str) -> None:
        if self.is_up(member_id) and member_id != peer:
            self.cluster.act(member_id, "peer_event", event, peer)

    @precondition(lambda self: self.cluster.network)
    @rule(position=positions, fate=st.sampled_from(["deliver", "repeat", "lose"]))
    def deliver_one(self, position: int, fate: str) -> None:
        message = self.cluster.network.pop(position % len(self.cluster.network))
        if fate == "repeat":
            self.cluster.network.append(message)
        if fate != "lose":
            self.cluster.give(message)
        self.check_reads()

    @rule(member_id=ids)
    def deliver_to(self, member_id: int) -> None:
        self.cluster.deliver(lambda message: message.target == member_id)
        self.check_reads()

    @rule(side=st.sets(ids), is_healed=st.booleans())
    def partition(self, side: set[int], is_healed: bool) -> None:
        self.cluster.partition(side, set(MEMBERS) - side)
        if is_healed:
            self.cluster.heal()

    # --- disks and crashes --------------------------------------------------------------------------------------------

    @rule(member_id=ids, is_slow=st.booleans())
    def set_disk(self, member_id: int, is_slow: bool) -> None:
        self.cluster.nodes[member_id].is_slow = is_slow
        while self.is_up(member_id) and not is_slow and self.cluster.nodes[member_id].writes:
            self.cluster.persist(member_id)

    @rule(member_id=ids)
    def persist(self, member_id: int) -> None:
        if self.is_up(member_id) and self.cluster.nodes[member_id].writes:
            self.cluster.persist(member_id)

    @rule(member_id=ids)
    def crash_or_start(self, member_id: int) -> None:
        if self.is_up(member_id):
            self.cluster.crash(member_id)
        else:
            self.cluster.start(member_id)

    @rule(member_id=ids)
    def restart(self, member_id: int) -> None:
        self.cluster.restart(member_id)

    @rule(member_id=ids, position=positions)
    def compact(self, member_id: int, position: int) -> None:
        if not self.is_up(member_id):
            return
        status = self.cluster[member_id].status()
        newest = max(status.compacted + 1, status.membership_index)
        if newest <= status.applied and not self.cluster[member_id].membership().is_joint:
            self.cluster.compact(member_id, newest + position % (status.applied - newest + 1))

    @rule()
    def send_snapshots(self) -> None:
        for node in self.cluster.running:
            wanted, node.snapshots_needed = node.snapshots_needed, []
            for target in set(wanted):
                if self.is_up(target) and (node.id, target) not in self.cluster.blocked:
                    self.cluster.send_snapshot(node.id, target)

    # --- the end ------------------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        """I22: when nothing fails any more, a leader is found and everybody applies the same log."""
        if not self.cluster.nodes:
            return
        self.cluster.heal()
        for member_id in MEMBERS:
            self.set_disk(member_id, is_slow=False)
            if not self.is_up(member_id):
                self.cluster.start(member_id)
        for node in self.cluster.running:
            for other in MEMBERS:
                if other != node.id:
                    self.cluster.act(node.id, "peer_event", "PEER_CONNECTED", other)
        for _ in range(120):
            self.cluster.tick_all()
            for _ in range(4):
                self.cluster.deliver()
            self.send_snapshots()
        if self.is_ruined():
            return
        leader = self.cluster.nodes[self.newest_leader()]
        assert is_leader(leader), [node.core.status() for node in self.cluster.running]
        members = {member.id for member in leader.core.membership().members}
        for member_id in members:
            applied = self.cluster.nodes[member_id].applied
            assert applied == leader.applied, f"{member_id} has not caught up with {leader.id}"
        assert leader.core.status().committed == leader.core.status().last

    def is_ruined(self) -> bool:
        """Is there a damaged record of which no member has a copy? Then a halt is right: nobody guesses."""
        for node in self.cluster.running:
            members = {member.id for member in node.core.membership().members} - {node.id}
            disks = [self.cluster.nodes[member_id].disk for member_id in members]
            for index, chain in node.disk.damaged.items():
                if all(disk.chain(index) != chain and disk.point.index < index for disk in disks):
                    return True
        return False


class DamageMachine(RaftMachine):
    """The same with disks that forget records, on one member at a time. The model cannot follow a log with holes."""

    has_model = False

    @rule(member_id=ids, position=positions, count=st.integers(1, 3))
    def damage(self, member_id: int, position: int, count: int) -> None:
        if any(node.disk.damaged for node in self.cluster.nodes.values()):
            return
        self.cluster.crash(member_id)
        written = sorted(self.cluster.nodes[member_id].disk.records)
        for index in {written[(position + 7 * i) % len(written)] for i in range(count if written else 0)}:
            self.cluster.damage(member_id, index)
        self.cluster.start(member_id)


TestRaftMachine = RaftMachine.TestCase
TestRaftMachine.settings = settings(max_examples=80, stateful_step_count=50, deadline=None)
TestDamageMachine = DamageMachine.TestCase
TestDamageMachine.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
