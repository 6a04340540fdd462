# One simulated node's life: its folder, its engine, its clock, its disk's schedule.
from libc.stdint cimport uint64_t

from raftmeta.sim.world.world_state cimport SimNode, World

cdef void node_create(World* world, SimNode* node, unsigned int number) noexcept nogil
cdef void node_destroy(SimNode* node) noexcept nogil
# Boot the engine from the folder as it is. A folder that cannot be run is a violation.
cdef void node_boot(World* world, SimNode* node) noexcept nogil
# The process dies and is started again later; with is_power_cut what was not synced is kept, lost or torn.
cdef void node_crash(World* world, SimNode* node, bint is_power_cut) noexcept nogil
# Let the engine run until it has nothing more to do now, check it, and plan its next wake-up.
cdef void node_run(World* world, SimNode* node) noexcept nogil
# The disk does what is queued.
cdef void node_disk(World* world, SimNode* node) noexcept nogil
cdef void node_disk_done(World* world, SimNode* node) noexcept nogil
# The first job of its background has waited long enough.
cdef void node_background(World* world, SimNode* node) noexcept nogil
# A node that is down loses its disk: it will come back blank, as another incarnation.
cdef void node_wipe(World* world, SimNode* node) noexcept nogil
# A copy of the node's folder as it is, and the folder of a node that is down replaced by that copy.
cdef void node_copy(World* world, SimNode* node) noexcept nogil
cdef void node_put_back(SimNode* node) noexcept nogil
