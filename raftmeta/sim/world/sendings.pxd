# Commands of clients of other processes: how a node gets them.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Vec
from raftmeta.sim.world.world_state cimport SimCall, SimNode, World

# The node gets the command; with rights it hands it on as one of the user of all other clients. call: NULL, nobody
# waits.
# The node that was asked, as a bit.
cdef uint32_t sending_submit(World* world, SimNode* node, const Vec[uint8_t]* bytes, SimCall* call, uint64_t session,
                             uint64_t sequence) noexcept nogil
