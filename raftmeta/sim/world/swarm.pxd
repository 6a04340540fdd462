# Which faults a seed has, how big its cluster is and how narrow its files are.
from raftmeta.sim.world.world_state cimport SimConfig

cdef enum SwarmKind:
    SWARM_EITHER = 0            # the seed chooses between the two below, with even chance
    SWARM_DENSE = 1             # each fault is there with p = 0.5
    SWARM_SPARSE = 2            # two to six kinds of faults, often, and no other

# config is what sim_config_init made of a seed; afterwards the seed has chosen the rest too.
cdef void swarm_config(SimConfig* config, SwarmKind kind) noexcept nogil
