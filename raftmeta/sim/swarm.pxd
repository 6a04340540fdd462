# Which faults a seed has, how big its cluster is and how narrow its files are.
from raftmeta.sim.world_state cimport SimConfig

# config is what sim_config_init made of a seed; afterwards the seed has chosen the rest too.
cdef void swarm_config(SimConfig* config) noexcept nogil
