# The world: a seed, a configuration, and a loop over events. One seed is one run, to the byte.
from libc.stdint cimport uint32_t, uint64_t

from raftmeta.sim.world.world_state cimport SimConfig, World

cdef void sim_config_init(SimConfig* config, uint64_t seed) noexcept nogil
cdef World* world_create(const SimConfig* config) noexcept nogil
cdef void world_destroy(World* world) noexcept nogil
# Handle up to `events` more events; stops at a violation. The number handled.
cdef uint64_t world_run(World* world, uint64_t events) noexcept nogil
