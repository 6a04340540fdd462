# I60, I61: a process is ended only when it is gone, and nothing of it takes effect afterwards (engine/deaths).
#
#     I60  an entry that ends the processes of an incarnation up to a boot is committed only when none of them runs; a
#          lease leaves the state before its deadline only by such an entry of its keeper
#     I61  a session that such a process had opened before stands in no state that has applied the entry
from libc.stdint cimport uint64_t

from raftmeta.raft.types cimport Record, index_t
from raftmeta.sim.world.world_state cimport SimNode, World

# Whether this record is one that processes_take reads.
cdef bint processes_wants(const Record* record) noexcept nogil
# The entry is committed; its record stands under its chain hash (entries).
cdef void processes_take(World* world, SimNode* node, index_t index, uint64_t chain) noexcept nogil
# The node has applied more.
cdef void processes_check(World* world, SimNode* node) noexcept nogil
# Whether that process is ended in the state that has applied so far.
cdef bint processes_are_ended(const World* world, uint64_t member, uint64_t boot, index_t applied) noexcept nogil
cdef void processes_release(World* world) noexcept nogil
