# Put a snapshot in the place of log entries (paper 7, Figure 13), and drop entries that a snapshot holds.
#
# The tail behind the snapshot stays if it continues the snapshot and the disk holds the log that far: this member
# acknowledged the tail. Otherwise the log begins anew, and promises and writes of the old log vouch for nothing.
from raftmeta.raft.state cimport Core
from raftmeta.raft.types cimport Membership, SnapshotPoint, index_t
from raftmeta.status cimport status_t

# As core_snapshot_installed, for a point that is not applied yet. The caller drops what it gave out to apply.
cdef status_t install(Core* core, const SnapshotPoint* point, const Membership* membership,
                      bint* begins) noexcept nogil
# Remove entries up to compact_to from the log.
cdef void forget_entries(Core* core, index_t compact_to) noexcept nogil
