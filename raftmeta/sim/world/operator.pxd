# The operator of the simulated cluster: members come, go, gain and lose their votes while everything else goes wrong.
from libc.stdint cimport uint64_t

from raftmeta.raft.types cimport Membership
from raftmeta.sim.world.world_state cimport SimNode, World

# One change of the membership, chosen by the faults' random stream and asked of any node.
cdef void operator_act(World* world) noexcept nogil
# The next step back to a cluster in which every node votes, if one is missing; asked of the leader.
cdef void operator_restore(World* world) noexcept nogil
# A node that runs, answers now and believes that it leads; NULL: none.
cdef SimNode* operator_leader(World* world) noexcept nogil
