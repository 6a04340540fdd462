# Calls of clients that wait for their answers: small structs that come back as `owner`, from a pool.
from libc.stdint cimport int64_t, uint8_t, uint32_t

from raftmeta.sim.world.world_state cimport SimCall, SimNode, World

# A call on the node that begins now: what was acknowledged before it is its floor (I13). NULL: no memory.
cdef SimCall* call_take(World* world, SimNode* node, uint8_t kind) noexcept nogil
# Submit the command that stands encoded in World.scratch, under the node's next sequence.
cdef void call_submit(World* world, SimNode* node, SimCall* call) noexcept nogil
cdef void call_give_back(World* world, SimCall* call) noexcept nogil
cdef void calls_release(World* world) noexcept nogil
# The number in the answer to a transaction of one add(), which is [status, revision, [succeeded, [number]]]. False: it
# is something else.
cdef bint call_number(const uint8_t* body, uint32_t length, int64_t* number) noexcept nogil
