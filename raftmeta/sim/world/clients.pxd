# Clients of other processes: sessions of their own, commands that are sent to any node until they are answered.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.sim.world.world_state cimport SimCall, SimNode, World
from raftmeta.status cimport status_t

# The client does its next step: another sending of what is not answered, one more of what is, or its next command.
# The nodes that it sent something to, by bits, which have something to do now.
cdef uint32_t clients_act(World* world, uint32_t number) noexcept nogil
# A node answers a sending.
cdef void clients_done(World* world, SimNode* node, const SimCall* call, status_t status, uint64_t revision,
                       const uint8_t* body, uint32_t length) noexcept nogil
cdef void clients_release(World* world) noexcept nogil
