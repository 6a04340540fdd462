# Which buggify points fire in a world (raftmeta/native/buggify): each with its own rate and its own random stream.
from raftmeta.sim.world.world_state cimport SimConfig, World

# The rates of a seed: half of the worlds have none at all; in the others a quarter of the points fire.
cdef void buggify_draw(SimConfig* config) noexcept nogil
# The streams of a new world.
cdef void buggify_begin(World* world) noexcept nogil
# From here to buggify_leave this thread runs the world: its points may fire, while faults are on.
cdef void buggify_enter(World* world) noexcept nogil
cdef void buggify_leave() noexcept nogil
