# The end of a world: everything heals, in two steps, and progress must follow (I22).
from libc.stdint cimport uint64_t

from raftmeta.sim.world.world_state cimport World

# No more faults and no new calls.
#     1. A random core, a majority of each electorate that anybody knows, is joined; all others are cut off. Within
#        bounds of time it has one leader, has applied the same, and every call on it is answered.
#     2. Everybody is joined, and the operator gives everyone a vote. The same holds for all, within events_max.
# Then everything is compared once more. In ruin nothing need progress: the world runs on for a while and is compared.
cdef void liveness_settle(World* world, uint64_t events_max) noexcept nogil
