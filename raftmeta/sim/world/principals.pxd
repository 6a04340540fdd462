# Clients with names and passwords in a world with rights: they change rights and try what these allow (I26).
#
# One is the admin, who sets everything up, grants and takes away. Now and then it has the founder made, and becomes an
# admin anew by the founder's token. The others write, delete, take leases, change their passwords, and make tokens, by
# which they speak as long as a node knows them, and a little longer. Each has one command under way, sends it to any
# node until it is answered, and proves its password to a node as a client does: by the table that this node has.
# rights_model says whether the outcome is right.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Vec
from raftmeta.sim.world.world_state cimport SimCall, SimNode, World
from raftmeta.status cimport status_t

# One of them does something; the nodes that were asked, as bits.
cdef uint32_t principals_act(World* world) noexcept nogil
cdef void principals_done(World* world, SimNode* node, const SimCall* call, status_t status) noexcept nogil
# The command of another client as a node would hand it on: by the user of all other clients. False: no memory.
cdef bint principals_speak(const uint8_t* payload, size_t length, Vec[uint8_t]* out) noexcept nogil
cdef void principals_release(World* world) noexcept nogil
