"""The comparison of states for tests: marks in, verdicts out; and a node whose state is made a wrong one."""
from libc.stdint cimport uint64_t
from libc.string cimport memset

from raftmeta.engine.divergence cimport Divergence, divergence_judge, divergence_note
from raftmeta.face.base cimport NodeBase
from raftmeta.native.intrinsics cimport Hash128
from raftmeta.raft.types cimport LEARNER, VOTER_INCOMING, Membership
from raftmeta.wire.state_messages cimport StateMark


cdef class DivergenceHandle:
    cdef Divergence divergence
    cdef Membership membership
    cdef uint64_t own

    def __cinit__(self, uint64_t own, list voters not None, object learners=(), *, uint64_t interval=10):
        memset(<void*>&self.divergence, 0, sizeof(Divergence))
        memset(&self.membership, 0, sizeof(Membership))
        self.own = own
        self.divergence.interval = interval
        for member in voters + list(learners):
            self.membership.members[self.membership.count].id = member
            self.membership.members[self.membership.count].roles = VOTER_INCOMING if member in voters else LEARNER
            self.membership.count += 1

    def note(self, uint64_t member, uint64_t index, uint64_t state_hash):
        cdef StateMark mark
        mark.index = index
        mark.hash.low = state_hash
        mark.hash.high = ~state_hash
        return divergence_note(&self.divergence, self.own, member, &mark)

    def judge(self, uint64_t index):
        cdef Hash128 other
        return divergence_judge(&self.divergence, &self.membership, index, &other)


def make_state_wrong(NodeBase node not None):
    # The hash alone: what a wrong apply would leave behind, without anything else that could stop the node.
    node.started().engine.machine.leases.hash.low += 1
