# Every record that any disk has: what is committed later is found here by its chain hash, for models of the state.
from libc.stdint cimport uint64_t

from raftmeta.raft.types cimport Record
from raftmeta.sim.world.world_state cimport World

cdef void entries_note(World* world, const Record* record) noexcept nogil
# The record, with its payload behind it; NULL: no disk had it. Valid until the next note.
cdef const Record* entries_find(World* world, uint64_t chain) noexcept nogil
cdef void entries_release(World* world) noexcept nogil
