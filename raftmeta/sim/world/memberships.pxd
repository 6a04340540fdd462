# I10: which membership a node works under, held against the log (thesis 4.1; raft/membership_change).
#
#     in force    every membership that the node knows stands in its own log, at that index, with those bytes
#     committed   the newest one up to its commit index is the newest one of the committed log up to there
# A node that kept a membership whose entry was cut, passed one over, or took another one for it counts the wrong
# votes; so it shows here before two electorates decide.
from raftmeta.raft.types cimport Record, index_t
from raftmeta.sim.world.world_state cimport SimNode, World

# A record is durable somewhere.
cdef void memberships_note(World* world, const Record* record) noexcept nogil
# The entry at index is committed; its chain hash stands in the world's truth.
cdef void memberships_committed(World* world, index_t index) noexcept nogil
# The node ran.
cdef void memberships_check(World* world, SimNode* node, index_t committed, bint is_repairing) noexcept nogil
cdef void memberships_release(World* world) noexcept nogil
