# The fault atlas: where a disk may fail so that the cluster can survive it (docs/faults.md "Losses of a minority").
from raftmeta.raft.types cimport index_t, term_t
from raftmeta.sim.world.world_state cimport SimNode, World

# May this node's disk lose or damage what it holds, now? Always, in ruin.
cdef bint atlas_allows(World* world, SimNode* node) noexcept nogil
# It did: the node counts as lost until it is a whole voter again, in a later life.
cdef void atlas_note(SimNode* node) noexcept nogil
# A bit of its sealed file at index flipped and it runs on: it counts as lost until that file is gone.
cdef void atlas_note_rot(SimNode* node, index_t index) noexcept nogil
# No disk fails from now on: a file that lost a bit endangers nobody any more.
cdef void atlas_end(World* world) noexcept nogil
# A node put a membership in force, by an entry at index: here or on its way to others, it may be committed later.
cdef void atlas_note_membership(World* world, index_t index, term_t term) noexcept nogil
# Does a disk wait to be whole again? Then nobody's vote is taken on purpose.
cdef bint atlas_is_calm(World* world) noexcept nogil
# Is it up, of sound log, and a voter of a committed membership?
cdef bint atlas_is_whole(const World* world, const SimNode* node) noexcept nogil
