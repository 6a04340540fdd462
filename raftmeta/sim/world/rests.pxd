# Quiet hours: stretches of a second to a minute in which no client does anything (docs/faults.md "Quiet hours").
from raftmeta.sim.world.world_state cimport World

cdef void rests_plan(World* world) noexcept nogil       # the next one, if there are any in this world
cdef void rests_begin(World* world) noexcept nogil      # SIM_REST
