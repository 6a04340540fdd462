# The states of a small world that were met: which of them are one, and which need not be taken because of another.
#
# It decides two things. States that differ by an exchange of nodes that began alike are one: each is kept under the
# naming that gives the least hash. And of two states with equal nodes and an equal past the one with more messages and
# more of each bound left *covers* the other: whatever can happen in the other can happen in it, as messages are never
# used up. It never decides what can happen: raftmeta/sim/small/exhaustive does.
#
#     states_create     the namings, and nothing met yet
#     states_keep       the successor, unless a state that was met covers it; those that it covers need not be taken
#     states_load       a state as it was met, into Exhaustive.world
from libc.stdint cimport uint32_t

from raftmeta.sim.small.exhaustive_state cimport Exhaustive, small_action_t
from raftmeta.status cimport status_t

cdef status_t states_create(Exhaustive* exhaustive) noexcept nogil
cdef void states_release(Exhaustive* exhaustive) noexcept nogil
# False: no memory.
cdef bint states_keep(Exhaustive* exhaustive, uint32_t parent, small_action_t action) noexcept nogil
cdef bint states_load(Exhaustive* exhaustive, uint32_t number) noexcept nogil
