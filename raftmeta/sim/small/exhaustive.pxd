# Every history of a small world: all orders in which messages, time-outs, finished writes, crashes, proposals and one
# change of membership can meet production cores, within bounds that are said below.
#
# A state is: what each node is (raftmeta/sim/small/node), the set of messages that were sent, what of each bound is
# left, who led each term, and what is committed. States are taken in order of distance from the beginning. A state that
# was met is not taken again, nor one that another state covers (raftmeta/sim/small/states).
#
#     exhaustive_run      takes states until none is left, one violates an invariant, or enough were taken
#     exhaustive_path     the actions that lead to a state
#
# Bounds. Time-outs, proposals, heartbeats beside those of the protocol itself, crashes and changes are counted, each
# over all nodes; time-outs bound the terms. Messages are not bounded: one that was sent may arrive at any time, in any
# order, any number of times, or never. Nor are finished writes; a crash may come before or after one.
# Time itself is left out: see core_settle in copies. Nothing else is: docs/faults.md "Every history of a small
# world" says why the reductions leave nothing out, and tests compare with a search without them (is_plain).
#
# Why it is fast: an action changes one node only, and the same node meets the same action in very many states. Its
# outcome is computed once with the real core and remembered by (node, action).
from libc.stdint cimport uint32_t

from raftmeta.native.containers cimport Vec
from raftmeta.sim.small.exhaustive_state cimport Exhaustive, SmallConfig

# NULL: no memory, or a config out of range.
cdef Exhaustive* exhaustive_create(const SmallConfig* config) noexcept nogil
cdef void exhaustive_destroy(Exhaustive* exhaustive) noexcept nogil
# Take up to `states` more; returns how many. 0: all are taken, or there is a violation.
cdef uint32_t exhaustive_run(Exhaustive* exhaustive, uint32_t states) noexcept nogil
# All that can happen in exhaustive.world.
cdef void exhaustive_take(Exhaustive* exhaustive) noexcept nogil
# The actions from the beginning to the state with this number, oldest first.
cdef bint exhaustive_path(Exhaustive* exhaustive, uint32_t state, Vec[uint32_t]* actions) noexcept nogil
