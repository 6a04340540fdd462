# Copies of a user machine, one on each node, and the commands that clients give it (I11, I14).
from libc.stdint cimport uint8_t, uint32_t

from raftmeta.sim.world.world_state cimport SimCall, SimNode, World
from raftmeta.status cimport status_t

# A client of this node gives the machine a command, if the cluster has such machines yet. False: not this time.
cdef bint copies_call(World* world, SimNode* node) noexcept nogil
# The engine answered a command, or a part of a dump.
cdef void copies_answered(World* world, SimNode* node, const SimCall* call, status_t status, const uint8_t* body,
                          uint32_t length) noexcept nogil
# The engine has something for the copy: it begins with it a little later.
cdef void copies_fetched(World* world, SimNode* node, status_t status, const uint8_t* body,
                         uint32_t length) noexcept nogil
# SIM_COPY: it does what it has; the next turn of its node asks for more.
cdef void copies_run(World* world, SimNode* node) noexcept nogil
# After a turn: ask for more, send the dump that is due.
cdef void copies_look(World* world, SimNode* node) noexcept nogil
# It has run every command that its node knows of.
cdef bint copies_are_done(const World* world, const SimNode* node) noexcept nogil
# It dies with its process.
cdef void copies_forget(SimNode* node) noexcept nogil
cdef void copies_release(World* world) noexcept nogil
