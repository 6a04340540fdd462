# The simulated side of the checkpoint port (engine/snapshots/checkpoint): LMDB stays outside, what it promises is here.
from libc.stdint cimport uint32_t

from raftmeta.engine.snapshots.checkpoint cimport CheckpointPort
from raftmeta.sim.world.world_state cimport SimNode

cdef CheckpointPort checkpoint_port(SimNode* node) noexcept nogil
# The process ended: what was under way is lost, what was committed stays. Before the engine is released.
cdef void checkpoint_let_go(SimNode* node) noexcept nogil
# The folder is gone, and the checkpoint in it.
cdef void checkpoint_wipe(SimNode* node) noexcept nogil
# A bit of a chunk is not what was written, and its checksum says so when it is read. False: there is no checkpoint.
cdef bint checkpoint_damage(SimNode* node, uint32_t draw) noexcept nogil
