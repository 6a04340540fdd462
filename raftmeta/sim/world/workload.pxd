# Clients inside the simulated nodes: what they call, and what they may be told (I12, I13, I14).
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.raft.types cimport index_t
from raftmeta.sim.world.world_state cimport SimCall, SimNode, World
from raftmeta.status cimport status_t

# One call from a client of this node.
cdef void workload_call(World* world, SimNode* node) noexcept nogil
cdef void workload_done(World* world, SimNode* node, void* owner, status_t status, uint64_t revision, index_t index,
                        const uint8_t* body, uint32_t length) noexcept nogil
cdef void workload_forget_node(World* world, SimNode* node) noexcept nogil
# At the end, everything converged: counters hold what was acknowledged and nothing that was not submitted.
cdef void workload_final(World* world) noexcept nogil
cdef void workload_release(World* world) noexcept nogil
