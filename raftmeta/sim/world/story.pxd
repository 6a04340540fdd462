# The story of a run, line by line, for people: messages that arrived, faults that struck, who led and committed.
# Kept only when it is asked for, and of a long run the end.
from libc.stdint cimport uint32_t

from raftmeta.sim.world.events cimport SimEvent
from raftmeta.sim.world.world_state cimport World

# Around an event: what it is, and what became of the nodes.
cdef void story_before(World* world, const SimEvent* event) noexcept nogil
cdef void story_after(World* world) noexcept nogil
cdef void story_fault(World* world, uint32_t kind) noexcept nogil
