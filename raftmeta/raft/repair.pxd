# Damaged records: this disk lost their bytes but knows their chain hashes, so any member that has the bytes can mend
# them
# (decisions/README.md "Log"). No leader is needed: the hash is the proof.
#
# Until every one is mended and written again, this member gives no vote, does not campaign, acknowledges nothing at or
# above the first of them, and marks its answers MESSAGE_REPAIRING.
from libc.stdint cimport uint64_t

from raftmeta.native.chunks cimport Slice
from raftmeta.raft.ready cimport LogRead
from raftmeta.raft.state cimport Core
from raftmeta.raft.types cimport Message, member_id_t
from raftmeta.status cimport status_t

cdef void repair_tick(Core* core) noexcept nogil
# A link to a peer, member or not, came up or broke.
cdef void repair_on_link(Core* core, member_id_t peer, bint is_up) noexcept nogil
cdef status_t repair_on_request(Core* core, const Message* message) noexcept nogil
cdef status_t repair_on_response(Core* core, const Message* message) noexcept nogil
# The log file gave an entry for another member. STALE: none was wanted.
cdef status_t repair_on_log_read(Core* core, const LogRead* read, const Slice* records, status_t status) noexcept nogil
# Mend with the first of these records, given by `source` (0: the leader's APPEND). STALE: it is not the lost record.
cdef status_t repair_take(Core* core, const Slice* record, member_id_t source) noexcept nogil
