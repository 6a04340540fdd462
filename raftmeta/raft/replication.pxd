# Entries from the leader to the members, their acknowledgements, and the commit index (paper 5.3, 5.4.2; thesis
# 10.2.1).
#
# Leader: replicate() decides the APPENDs once for each core_ready, so that many proposals share one. Each carries one
# contiguous slice of the log, the same bytes that go to the disk. An entry of the leader's own term commits by a
# majority
# of `match` (Figure 8). The leader's own match is what its disk has acknowledged, nothing else.
# Member: checks a record (crc, place, chain) before the record enters the log. It cuts conflicts, never committed
# entries.
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
# Records for a member that lacks entries which left memory.
cdef status_t replication_on_log_read(Core* core, const LogRead* read, const Slice* records,
                                      status_t status) noexcept nogil
# The write under way is durable, except for the records that later ones superseded.
cdef void replication_on_persisted(Core* core) noexcept nogil
cdef void commit_to(Core* core, index_t index) noexcept nogil
# Append the records of an APPEND or a FEED behind (message.index, message.log_term), where this log is known to meet
# the sender's. Records that are here already are skipped, and entries that conflict are cut.
cdef status_t take_records(Core* core, const Message* message) noexcept nogil
# Put the memberships among the records from `first` on in force.
cdef status_t take_memberships(Core* core, index_t first) noexcept nogil
# HISTORY_LOST: the entry at index is committed here, but a leader or a snapshot has one of another term there.
cdef status_t check_history(Core* core, index_t index, term_t term) noexcept nogil
# The greatest index at or below `match` that this member may acknowledge: below every damaged record.
cdef index_t acknowledgeable(Core* core, index_t match) noexcept nogil
