# Checks between the nodes of a small world: I1-I4, I7 and I10 of docs/invariants.md.
#
# It looks at Exhaustive.successor after an action of one node, and keeps there what must not be forgotten: who led a
# term, what is committed and in whose term. It never changes a node. raftmeta/sim/small/node
# sees what one node alone can do wrong (I5, I6, I9); raftmeta/sim/small/parts, electorates without overlap (I10).
from libc.stdint cimport uint32_t

from raftmeta.sim.small.exhaustive_state cimport Exhaustive

# After an action of the node at this position; the other nodes are what they were. 0, or the SmallViolation.
cdef uint32_t checks_after(Exhaustive* exhaustive, uint32_t position) noexcept nogil
