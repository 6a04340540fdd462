# The faults, by whom and for how long; the profile says how often (SimFaultRates).
from raftmeta.sim.world.events cimport SimEvent
from raftmeta.sim.world.world_state cimport World

# One fault event: each kind strikes with its own rate.
cdef void faults_strike(World* world) noexcept nogil
# SIM_HEAL: a partition ends.
cdef void faults_heal(World* world, const SimEvent* event) noexcept nogil
# SIM_REVEAL: a damaged disk's process dies, so that the damage is found when it returns.
cdef void faults_reveal(World* world, const SimEvent* event) noexcept nogil
# No fault from now on, and nothing that one left behind: links, disks and clocks do their work.
cdef void faults_end(World* world) noexcept nogil
