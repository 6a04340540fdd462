# I11: where snapshots are due, held against the committed log (decisions/README.md "Snapshots").
#
# A point comes after so many entries or so many bytes of records, whichever is first, and only the log counts them. So
# every node has the same points, whatever it was given as a file, restarted at, or was too busy to take. This ends when
# a node that has no file makes one between two points, because another asks for it: who loads that counts from there.
from raftmeta.raft.types cimport Record, index_t
from raftmeta.sim.world.world_state cimport SimNode, World

# A record is durable somewhere.
cdef void points_note(World* world, const Record* record) noexcept nogil
# The entry at index is committed; its chain hash stands in the world's truth.
cdef void points_committed(World* world, index_t index) noexcept nogil
# The node begins a snapshot of the state after index, between two of its points.
cdef void points_taken(World* world, SimNode* node, index_t index) noexcept nogil
# The node applied something.
cdef void points_check(World* world, SimNode* node) noexcept nogil
cdef void points_release(World* world) noexcept nogil
