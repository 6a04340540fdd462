# Watches of the workload and what they may show (I15, I16).
from libc.stdint cimport uint8_t, uint32_t

from raftmeta.sim.world.world_state cimport SimNode, SimWatch, World
from raftmeta.status cimport status_t

# The node answered an opening; body holds the native watch.
cdef void watches_opened(SimWatch* watch, status_t status, const void* body) noexcept nogil
cdef void watches_woken(void* handle) noexcept nogil
# After a turn: take what there is, open those that are missing.
cdef void watches_look(World* world, SimNode* node) noexcept nogil
# One item that the watch showed: [kind, revision, wall_ms, events, more] (machine/watches).
cdef void watches_check_item(World* world, SimNode* node, SimWatch* watch, const uint8_t* item,
                             uint32_t length) noexcept nogil
# They died with the node; the next ones go on where they stood.
cdef void watches_forget(SimNode* node) noexcept nogil
