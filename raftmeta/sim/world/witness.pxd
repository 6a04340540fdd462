# The history that clients saw must be one of registers (I24): from values and times alone.
from libc.stdint cimport int64_t, uint32_t, uint64_t

from raftmeta.sim.world.world_state cimport SimCall, SimNode, SimRegister, World

# Key 3, 7, 11, ... of the workload: put and read, never deleted, so that each value is written once.
cdef inline bint witness_watches(uint32_t key) noexcept nogil:
    return key % 4 == 3

cdef void witness_release(World* world) noexcept nogil
# The workload is about to send this put.
cdef void witness_called(World* world, const SimCall* call) noexcept nogil
# It is done; or it certainly never will be.
cdef void witness_done(World* world, const SimNode* node, const SimCall* call) noexcept nogil
cdef void witness_refused(World* world, const SimCall* call) noexcept nogil
# A linearizable read that was called then is served now, from the state of this node.
cdef void witness_read(World* world, SimNode* node, const SimCall* call) noexcept nogil
# Somebody who called at that moment knows now that the register had this value; 0: that it had none.
cdef void witness_saw(World* world, const SimNode* node, uint32_t key, uint64_t value, uint64_t called) noexcept nogil
# A counter answered.
cdef void witness_counted(World* world, const SimNode* node, const SimCall* call, int64_t number) noexcept nogil
