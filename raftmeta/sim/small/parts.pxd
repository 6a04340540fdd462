# The parts of a small world by number: nodes as they can be, messages, entries; and what an action makes of a node.
#
# A number stands for one content for ever, 0 for none. Parts are only added. Two parts with the same 64-bit digest are
# taken for one: with a million of them the chance that this ever goes wrong is below one in ten million.
from libc.stdint cimport uint32_t

from raftmeta.sim.small.exhaustive_state cimport Exhaustive, SmallStep, small_action_t
from raftmeta.sim.small.node cimport SmallNode
from raftmeta.status cimport status_t

cdef status_t parts_create(Exhaustive* exhaustive) noexcept nogil
cdef void parts_release(Exhaustive* exhaustive) noexcept nogil
# Number of this node, which is the catalogue's from now on; 0: no memory, and it is released.
cdef uint32_t parts_node(Exhaustive* exhaustive, SmallNode* node) noexcept nogil
# The node with this number after the action, at this position in the world. NULL: no memory. Valid until the
# next call.
cdef const SmallStep* parts_step(Exhaustive* exhaustive, uint32_t node, small_action_t action) noexcept nogil
