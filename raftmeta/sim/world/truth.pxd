# Truths about the whole cluster, each checked where it could first become false (docs/invariants.md).
from libc.stdint cimport uint64_t

from raftmeta.raft.types cimport Message, index_t, term_t
from raftmeta.sim.world.world_state cimport SimNode, World
from raftmeta.status cimport status_t

# I1, I3: the node says that it leads.
cdef void truth_leader(World* world, SimNode* node, term_t term) noexcept nogil
# I5, I6 and what I8 will be held against: the node is about to send this message.
cdef void truth_message(World* world, SimNode* node, const Message* message) noexcept nogil
# The node cut its log from `first` on for the leader of this term.
cdef void truth_truncated(SimNode* node, term_t term, index_t first) noexcept nogil
# I2: records were handed to the node's disk. I5-I7: after a disk job, look at what is really durable.
cdef void truth_durable(World* world, SimNode* node) noexcept nogil
# I4, I7, I9, I10, I20: the node ran.
cdef void truth_after_run(World* world, SimNode* node) noexcept nogil
# I11, I20: this is the state hash at a point; the bytes of the sealed file there are everywhere the same.
cdef void truth_point(World* world, SimNode* node, index_t index, uint64_t hash_low) noexcept nogil
cdef void truth_file(World* world, SimNode* node, index_t index, uint64_t hash_low) noexcept nogil
# I8: the node came back with this log.
cdef void truth_recovered(World* world, SimNode* node) noexcept nogil
# All logs whole, all hashes equal: a slow second opinion on the quick checks, at the end.
cdef void truth_compare_all(World* world) noexcept nogil
