# The log as a model of znodes takes it: leases, sessions, native writes, requests; and what commands must be answered.
#
#     I28     no two children of one parent get the same number
#     I30     czxid, mzxid and pzxid are revisions: one for each entry, and they grow with the log
#     I31     of the requests of one session that are joined by `after`, none is done before the one in front of it
#     I33     a request does what ZooKeeper's rules say at its place in the log, whole or not at all, and is answered so
#
# The model takes the committed log one entry after the other, decides by znodes_rules, and never looks at a node.
from libc.stdint cimport uint32_t, uint64_t

from raftmeta.raft.types cimport index_t
from raftmeta.sim.world.world_state cimport World
from raftmeta.sim.world.znodes_state cimport SimDoorCommand

# The entry at the next index is committed.
cdef void znodes_take(World* world, index_t index, uint64_t chain) noexcept nogil
# The answer of a command came (is_answered), or the model has judged it: both are there, and agree.
cdef void znodes_compare(World* world, uint32_t node, SimDoorCommand* command) noexcept nogil
# A node says that the entry at index made this revision. False: it contradicts what was said before, or their order.
cdef bint znodes_zxid(World* world, index_t index, uint64_t revision) noexcept nogil
cdef void znodes_release(World* world) noexcept nogil
