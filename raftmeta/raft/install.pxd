# A snapshot takes the place of what stood in the log (paper 7, Figure 13), and entries that a snapshot holds go.
#
# The tail behind the snapshot stays when it continues it, and the disk has it that far: it was acknowledged. Else the
# log begins anew, and what was promised or written of the old one vouches for nothing.
from raftmeta.raft.state cimport Core
from raftmeta.raft.types cimport Membership, SnapshotPoint, index_t
from raftmeta.status cimport status_t

# As core_snapshot_installed, of a point that is not applied yet; what was given out to apply is the caller's to drop.
cdef status_t install(Core* core, const SnapshotPoint* point, const Membership* membership,
                      bint* begins) noexcept nogil
# Entries up to compact_to leave the log.
cdef void forget_entries(Core* core, index_t compact_to) noexcept nogil
