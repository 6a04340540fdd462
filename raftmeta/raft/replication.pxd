# Entries from the leader to the members, their acknowledgements, what is committed (paper 5.3, 5.4.2; thesis 10.2.1).
#
# Leader: APPENDs are decided in replicate(), once for each core_ready, so that many proposals share one; each carries
# one contiguous slice of the log, the same bytes that go to the disk. Commit is by majority of `match`, only for
# entries of its own term (Figure 8); its own match is what its own disk has acknowledged, nothing else.
# Member: a record is checked (crc, place, chain) before it enters the log; conflicts are cut, never committed entries.
from raftmeta.native.chunks cimport Slice
from raftmeta.raft.ready cimport LogRead
from raftmeta.raft.state cimport Core
from raftmeta.raft.types cimport Message, index_t, term_t
from raftmeta.status cimport status_t

cdef void replicate(Core* core) noexcept nogil
cdef status_t replication_on_append(Core* core, const Message* message) noexcept nogil
cdef status_t replication_on_heartbeat(Core* core, const Message* message) noexcept nogil
cdef status_t replication_on_snapshot(Core* core, const Message* message) noexcept nogil
cdef status_t replication_on_append_response(Core* core, const Message* message, int position) noexcept nogil
cdef status_t replication_on_snapshot_response(Core* core, const Message* message, int position) noexcept nogil
# Records for a member that is behind what is in memory.
cdef status_t replication_on_log_read(Core* core, const LogRead* read, const Slice* records,
                                      status_t status) noexcept nogil
# The write under way is durable as far as it was not superseded.
cdef void replication_on_persisted(Core* core) noexcept nogil
# Leader: has a majority reached a further entry of this term?
cdef void commit_by_count(Core* core) noexcept nogil
cdef void commit_to(Core* core, index_t index) noexcept nogil
# Memberships among the records from `first` on come into force.
cdef status_t take_memberships(Core* core, index_t first) noexcept nogil
# HISTORY_LOST: the entry at index is committed here, and a leader or a snapshot has one of another term there.
cdef status_t check_history(Core* core, index_t index, term_t term) noexcept nogil
# The greatest index at or below `match` that this member may acknowledge: below every damaged record.
cdef index_t acknowledgeable(Core* core, index_t match) noexcept nogil
