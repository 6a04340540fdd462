# Members of worker groups: clients of other processes that join, share work, hang, leave and come back (I34-I39).
#
# A client has a session of the store, a lease and one command under way, which goes to any node until it is answered.
# It waits for phases of its group as the store's verbs do: it looks at the keys of the group on some node. Clients with
# an instance keep it when they come back as another process. A client that works writes under the fence of its
# assignment; it cannot know whether that still holds. In a world with topics it commits offsets. Half of the
# clients let their joins grant them a lease.
from libc.stdint cimport uint8_t, uint32_t

from raftmeta.sim.world.world_state cimport SimCall, SimNode, World
from raftmeta.status cimport status_t

# One of them does something; the nodes that were asked, as bits.
cdef uint32_t group_clients_act(World* world) noexcept nogil
cdef void group_clients_done(World* world, SimNode* node, const SimCall* call, status_t status, const uint8_t* body,
                             uint32_t length) noexcept nogil
