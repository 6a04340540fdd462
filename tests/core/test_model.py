"""The core beside a plain model of Raft, under everything that a network, a disk and a crash can do.

After every step the logs and commit indexes of all members are what tests/core/model.py works out from the messages,
and the invariants of tests/core/cluster.py hold. In the end, when all is well again, all members agree on one log.
"""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from tests.core.cluster import Cluster, membership_of
from tests.core.model import RaftModel

MEMBERS = [1, 2, 3, 4, 5]
ids = st.sampled_from(MEMBERS)
positions = st.integers(0, 10**6)


class RaftMachine(RuleBasedStateMachine):
    """Five processes, of which three found the cluster; every rule is one thing that can happen."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.cluster.model = self.model = RaftModel()
        self.proposed = 0
        self.reads: dict[int, int] = {}

    @initialize(append_bytes_max=st.sampled_from([100, 262144]), inflight_bytes_max=st.sampled_from([100, 4194304]))
    def found(self, append_bytes_max: int, inflight_bytes_max: int) -> None:
        options = {"append_bytes_max": append_bytes_max, "inflight_bytes_max": inflight_bytes_max}
        self.cluster.add([1, 2, 3], **options)
        for member_id in (4, 5):
            self.cluster.add_blank(member_id, **options)

    def is_up(self, member_id: int) -> bool:
        return self.cluster.nodes[member_id].core is not None

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

    @rule(leader=ids, voters=st.sets(ids, min_size=1), learners=st.sets(ids))
    def change_membership(self, leader: int, voters: set[int], learners: set[int]) -> None:
        if self.is_up(leader):
            membership = membership_of(sorted(voters), sorted(learners - voters))
            self.cluster.act(leader, "change_membership", membership)

    @rule(leader=ids, target=ids)
    def transfer(self, leader: int, target: int) -> None:
        if self.is_up(leader):
            self.cluster.act(leader, "transfer", target)

    # --- time and network ---------------------------------------------------------------------------------------------

    @rule(member_id=ids, count=st.sampled_from([1, 1, 2, 5, 12]))
    def tick(self, member_id: int, count: int) -> None:
        if self.is_up(member_id):
            self.cluster.tick(member_id, count)

    @rule(member_id=ids)
    def campaign(self, member_id: int) -> None:
        if self.is_up(member_id):
            self.cluster.act(member_id, "campaign")

    @rule(member_id=ids, peer=ids, event=st.sampled_from(["PEER_CONNECTED", "PEER_UNREACHABLE", "PEER_REFUSED"]))
    def peer_event(self, member_id: int, peer: int, event: str) -> None:
        if self.is_up(member_id) and member_id != peer:
            self.cluster.act(member_id, "peer_event", event, peer)

    @precondition(lambda self: self.cluster.network)
    @rule(position=positions, is_repeated=st.booleans())
    def deliver_one(self, position: int, is_repeated: bool) -> None:
        message = self.cluster.network.pop(position % len(self.cluster.network))
        if is_repeated:
            self.cluster.network.append(message)
        self.cluster.give(message)
        self.check_reads()

    @rule(member_id=ids)
    def deliver_to(self, member_id: int) -> None:
        self.cluster.deliver(lambda message: message.target == member_id)
        self.check_reads()

    @rule(rounds=st.integers(1, 4))
    def deliver_all(self, rounds: int) -> None:
        for _ in range(rounds):
            self.cluster.deliver()
        self.check_reads()

    @rule(position=positions)
    def lose(self, position: int) -> None:
        if self.cluster.network:
            self.cluster.network.pop(position % len(self.cluster.network))

    @rule(side=st.sets(ids))
    def partition(self, side: set[int]) -> None:
        self.cluster.partition(side, set(MEMBERS) - side)

    @rule()
    def heal(self) -> None:
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
    def crash(self, member_id: int) -> None:
        self.cluster.crash(member_id)

    @rule(member_id=ids)
    def start(self, member_id: int) -> None:
        if not self.is_up(member_id):
            self.cluster.start(member_id)

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
            self.start(member_id)
        for node in self.cluster.running:
            for other in MEMBERS:
                if other != node.id:
                    self.cluster.act(node.id, "peer_event", "PEER_CONNECTED", other)
        for _ in range(120):
            self.cluster.tick_all()
            for _ in range(4):
                self.cluster.deliver()
            self.send_snapshots()
        leaders = [node for node in self.cluster.running if node.core.status().role == "LEADER"]
        assert leaders, [node.core.status() for node in self.cluster.running]
        leader = max(leaders, key=lambda node: node.core.status().term)
        members = {member.id for member in leader.core.membership().members}
        for member_id in members:
            applied = self.cluster.nodes[member_id].applied
            assert applied == leader.applied, f"{member_id} has not caught up with {leader.id}"
        assert leader.core.status().committed == leader.core.status().last


TestRaftMachine = RaftMachine.TestCase
TestRaftMachine.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
