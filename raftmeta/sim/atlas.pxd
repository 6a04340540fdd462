# The fault atlas: where a disk may fail so that the cluster can survive it (docs/faults.md "What a minority may lose").
from raftmeta.sim.world_state cimport SimNode, World

# May this node's disk lose or damage what it holds, now? Always, in ruin.
cdef bint atlas_allows(World* world, SimNode* node) noexcept nogil
# It did: the node counts as lost until it is a whole voter again, in a later life.
cdef void atlas_note(SimNode* node) noexcept nogil
# Does a disk wait to be whole again? Then nobody's vote is taken on purpose.
cdef bint atlas_is_calm(World* world) noexcept nogil
# Is it up, of sound log, and a voter of a committed membership?
cdef bint atlas_is_whole(const World* world, const SimNode* node) noexcept nogil
