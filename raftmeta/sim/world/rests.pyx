"""Quiet hours: all clients stop together, and begin together again.

Leases and sessions end, segments stay half full for long, faults meet a cluster that only sends heartbeats, and the
first commands afterwards find whatever became of it. It decides when, how long, and who lets go of a lease
before. It must never hold up a fault, or what the engine does by itself.
"""

from libc.stdint cimport uint32_t, uint64_t

from raftmeta.engine.state cimport ENGINE_RUNNING
from raftmeta.native.intrinsics cimport next_random
from raftmeta.sim.world.events cimport SIM_REST
from raftmeta.sim.world.leases cimport leases_drop
from raftmeta.sim.world.nodes cimport node_run
from raftmeta.sim.world.schedule cimport schedule_at
from raftmeta.sim.world.world_state cimport SimNode

cdef enum:
    LENGTHS = 6                 # octaves: the longest quiet hour, half of it, ... a thirty-second


cdef void rests_plan(World* world) noexcept nogil:
    cdef uint64_t busy_us
    if world.config.rest_us != 0:
        busy_us = next_random(&world.random_rests) % (2 * <uint64_t>world.config.busy_us + 1)
        schedule_at(world, SIM_REST, 0, 0, max(world.now_ns, world.rest_until_ns) + 1000 * busy_us)


# Log-uniform: as many of one to two seconds as of thirty to sixty.
cdef uint64_t _length_ns(World* world) noexcept nogil:
    cdef uint64_t draw = next_random(&world.random_rests)
    cdef uint64_t most_us = world.config.rest_us >> draw % LENGTHS
    return 1000 * (most_us // 2 + (draw >> 8) % (most_us // 2 + 1))


cdef void rests_begin(World* world) noexcept nogil:
    cdef SimNode* node
    cdef uint32_t number
    if not world.clients_are_on:
        return
    world.counts.rests += 1
    world.rest_until_ns = world.now_ns + _length_ns(world)
    for number in range(world.config.nodes):
        node = &world.nodes[number]
        if (node.is_up and node.engine.state == ENGINE_RUNNING and node.paused_until_ns <= world.now_ns
                and next_random(&world.random_rests) & 1):
            leases_drop(world, node)
            node_run(world, node)
    rests_plan(world)
