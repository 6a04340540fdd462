# Every history of a small world: all orders in which messages, time-outs, finished writes, crashes, proposals and one
# change of membership can meet production cores, within bounds that are said below.
#
# A state is: what each node is (raftmeta/sim/small_node), the set of messages that were sent, what of each bound is
# left, who led each term, and what is committed. States are taken in order of distance from the beginning, so the first
# violation is found by a shortest history. A state that was seen (by its 64-bit hash) is not taken again.
#
#     exhaustive_run      takes states until none is left, one violates an invariant, or enough were taken
#     exhaustive_path     the actions that lead to a state
#
# Bounds. Time-outs, proposals, heartbeats beside those of the protocol itself, crashes and changes are counted, each
# over all nodes; time-outs bound the terms. Messages are not bounded: one that was sent may arrive at any time, in any
# order, any number of times, or never. Nor are finished writes; a crash may come before or after one.
# Time itself is left out: see core_settle in raft/copies. Nothing else is but what is told by something else: nodes
# that begin alike may be exchanged, so the first time-out is that of the first of them, and no crash comes before it;
# a message that no node can ever take again is forgotten.
#
# Why it is fast: an action changes one node only, and the same node meets the same action in very many states. Its
# outcome is computed once with the real core and remembered by (node, action).
from libc.stdint cimport uint32_t

from raftmeta.native.containers cimport Vec
from raftmeta.sim.exhaustive_state cimport Exhaustive, SmallConfig

# NULL: no memory, or a config out of range.
cdef Exhaustive* exhaustive_create(const SmallConfig* config) noexcept nogil
cdef void exhaustive_destroy(Exhaustive* exhaustive) noexcept nogil
# Take up to `states` more; returns how many. 0: all are taken, or there is a violation.
cdef uint32_t exhaustive_run(Exhaustive* exhaustive, uint32_t states) noexcept nogil
# The actions from the beginning to the state with this number, oldest first.
cdef bint exhaustive_path(const Exhaustive* exhaustive, uint32_t state, Vec[uint32_t]* actions) noexcept nogil
