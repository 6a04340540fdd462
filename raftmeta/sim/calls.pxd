# What clients have asked of nodes and wait for: small structs that come back as `owner`, from a pool.
from libc.stdint cimport uint8_t

from raftmeta.sim.world_state cimport SimCall, SimNode, World

# A call on the node that begins now: what was acknowledged before it is its floor (I13). NULL: no memory.
cdef SimCall* call_take(World* world, SimNode* node, uint8_t kind) noexcept nogil
cdef void call_give_back(World* world, SimCall* call) noexcept nogil
cdef void calls_release(World* world) noexcept nogil
