"""Facts and lies about a small world, for tests of its search and of its checks; liar.pyi is the manual."""

from __future__ import annotations

from libc.stdint cimport uint32_t
from libc.string cimport memset

from raftmeta.native.chunks cimport chunk_drop
from raftmeta.raft.invariants cimport BROKEN_TRUNCATED_COMMITTED
from raftmeta.raft.state cimport broken
from raftmeta.raft.types cimport LEARNER, VOTER_INCOMING, Membership
from raftmeta.sim.small.exhaustive cimport exhaustive_take
from raftmeta.sim.small.exhaustive_handle cimport Exhaustive
from raftmeta.sim.small.exhaustive_state cimport (BITS_PER_TERM, Exhaustive as NativeExhaustive, SmallEntry,
                                                  SmallNodeState)
from raftmeta.sim.small.node cimport SmallNode, SmallOutcome, SmallPointers, node_compare, node_look
from raftmeta.sim.small.states cimport states_load


# Of the node at this position: first its kind, so that nodes of one kind stand together when they are sorted.
cdef tuple _node_facts(const NativeExhaustive* native, uint32_t position):
    cdef const SmallNodeState* state = &native.nodes.data[native.world.nodes[position]]
    log = tuple(native.entries.data[state.log[index]].chain for index in range(1, state.log_length + 1))
    durable = tuple(native.entries.data[state.durable[index]].chain for index in range(1, state.durable_length + 1))
    return (native.config.kinds[position], state.role, state.term, state.durable_term, state.committed,
            bool(state.is_writing), log, durable)


def node_facts(world: Exhaustive) -> set[tuple[tuple[object, ...], ...]]:
    cdef uint32_t number
    cdef NativeExhaustive* native = world.native
    met = set()
    for number in range(native.states.size - (native.violation != 0)):
        if not states_load(native, number):
            raise MemoryError
        met.add(tuple(sorted(_node_facts(native, position) for position in range(native.config.nodes))))
    return met


cdef class SmallLiar:
    """Bends one fact of one state of a small world and lets everything happen in it."""

    cdef Exhaustive world
    cdef NativeExhaustive* native
    cdef uint32_t position

    def __init__(self, world: Exhaustive, role: int, *, term: int = 1, committed: int = 0, length: int = 0,
                 is_writing: bool = False):
        cdef uint32_t number
        self.world = world
        self.native = world.native
        for number in range(self.native.states.size):
            if not states_load(self.native, number):
                raise MemoryError
            self.native.taken = number
            for position in range(self.native.config.nodes):
                self.position = position
                if self._is_wanted(role, term, committed, length, is_writing):
                    return
        raise ValueError(f"no state has a node in role {role} with {committed} committed of {length} entries")

    cdef SmallNodeState* _facts(self):
        return &self.native.nodes.data[self.native.world.nodes[self.position]]

    # What was found out about the node before the lie is not true any more.
    cdef SmallNode* _node(self):
        self.native.steps.clear()
        return &self._facts().node

    cdef bint _is_wanted(self, role, term, committed, length, is_writing):
        cdef SmallNodeState* state = self._facts()
        return (state.role == role and state.term == term and state.committed == committed
                and state.log_length == length and bool(state.is_writing) == is_writing)

    # Number of an entry that is like this one in all but its past.
    cdef uint32_t _forge(self, uint32_t entry) except 0:
        cdef SmallEntry forged = self.native.entries.data[entry]
        forged.chain += 1
        if not self.native.entries.push(forged):
            raise MemoryError
        return <uint32_t>self.native.entries.size - 1

    def take(self) -> None:
        with nogil:
            exhaustive_take(self.native)

    def say_led_by_another(self) -> None:
        cdef uint32_t shift = <uint32_t>(self._facts().term - 1) * BITS_PER_TERM
        cdef uint32_t other = (self.position + 1) % self.native.config.nodes + 1
        self.native.world.leaders &= ~(<uint32_t>15 << shift)
        self.native.world.leaders |= other << shift

    def change_log(self) -> None:
        self._facts().log[1] = self._forge(self._facts().log[1])

    def commit_another(self) -> None:
        self.native.world.committed = self._forge(self._facts().log[1])
        self.native.world.committed_term = 0

    def forget_disks(self) -> None:
        cdef size_t i
        self.native.world.committed = 0
        for i in range(self.native.nodes.size):
            memset(self.native.nodes.data[i].durable, 0, sizeof(self.native.nodes.data[i].durable))

    def call_all_memberships(self) -> None:
        cdef size_t i
        for i in range(self.native.nodes.size):
            memset(self.native.nodes.data[i].memberships, 1, sizeof(self.native.nodes.data[i].memberships))

    def lose_records(self) -> None:
        cdef SmallNode* node = self._node()
        while node.records.size:
            chunk_drop(node.records.back().chunk)
            node.records.pop()

    def lose_term(self) -> None:
        self._node().hard.term = 0

    def lose_vote(self) -> None:
        self._node().hard.vote = 0

    def vote_for_another(self) -> None:
        cdef SmallNode* node = self._node()
        node.hard.term = node.core.hard.term
        node.hard.vote = node.core.hard.vote % self.native.config.nodes + 1

    def part_electorates(self) -> None:
        cdef SmallNode* node = self._node()
        cdef Membership other = node.core.memberships.back()
        cdef uint32_t i
        for i in range(other.count):
            other.members[i].roles = VOTER_INCOMING if i + 1 == other.count else LEARNER
        if not node.core.memberships.push(other):
            raise MemoryError

    def step_back(self) -> None:
        cdef SmallNode* node = self._node()
        cdef SmallPointers before = node_look(node)
        cdef SmallOutcome outcome
        memset(&outcome, 0, sizeof(outcome))
        before.committed += 1
        node_compare(node, &before, &outcome)
        self.native.violation = outcome.violation

    def stop(self) -> None:
        broken(self._node().core, BROKEN_TRUNCATED_COMMITTED, 0, 0)
