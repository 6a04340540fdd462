# Doors: clients of other processes that ask for znodes on behalf of sessions of their own (I27-I33).
#
# A door has one session of the store, and under it several owners, as ZooKeeper's clients have sessions: each has a
# lease, and its requests are sent before those in front are answered, joined by `after`. Every command is sent to any
# node until it is answered, also if it came too early. A door goes and comes back under another session.
from libc.stdint cimport uint32_t, uint64_t, uint8_t

from raftmeta.sim.world.world_state cimport SimCall, SimNode, World
from raftmeta.status cimport status_t

# One of them does something; the nodes that were asked, as bits.
cdef uint32_t doors_act(World* world) noexcept nogil
cdef void doors_done(World* world, SimNode* node, const SimCall* call, status_t status, uint64_t revision,
                     const uint8_t* body, uint32_t length) noexcept nogil
cdef void doors_release(World* world) noexcept nogil
