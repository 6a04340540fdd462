# Putting events into the world's order. Inline, since every part of the world does it.
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.native.intrinsics cimport next_random
from raftmeta.sim.world.events cimport SimEvent, events_push
from raftmeta.sim.world.world_state cimport VIOLATION_NO_MEMORY, World, violate

cdef inline void schedule(World* world, const SimEvent* event) noexcept nogil:
    if not events_push(&world.events, event):
        violate(world, VIOLATION_NO_MEMORY, event.node, 0, 0)

cdef inline void schedule_at(World* world, uint32_t kind, uint32_t node, uint64_t life,
                             uint64_t time_ns) noexcept nogil:
    cdef SimEvent event
    memset(&event, 0, sizeof(SimEvent))
    event.kind = kind
    event.node = node
    event.life = life
    event.time_ns = time_ns
    schedule(world, &event)

# At a moment drawn evenly from the next 2 * mean_us.
cdef inline void schedule_after(World* world, uint32_t kind, uint32_t node, uint64_t life, uint64_t mean_us,
                                uint64_t* random) noexcept nogil:
    schedule_at(world, kind, node, life, world.now_ns + 1000 + next_random(random) % (2 * mean_us + 1) * 1000)
