# Record logs for readers on any thread: over a root that the reader has pinned (docs/kafka-records.md).
#
# It reads what machine/record_logs made, and changes nothing.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from raftmeta.machine.tree_state cimport Root
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport status_t
from raftmeta.wire.windows cimport Bytes

# Of a log that was never appended to all is zero.
cdef struct RecordLogView:
    uint64_t start              # the first offset that may be read
    uint64_t next               # the offset of the next record
    uint64_t bytes
    uint32_t batches

cdef void record_log_view(const Root* root, const Bytes* log, RecordLogView* view) noexcept nogil
# Append whole batches to `out`, from the one on that has the offset or follows it, as many as fit in bytes_max;
# must_have_one: the first also if it does not fit. NO_MEMORY.
cdef status_t record_log_fetch(const Root* root, const Bytes* log, uint64_t offset, uint32_t bytes_max,
                               bint must_have_one, Vec[uint8_t]* out) noexcept nogil
# The first record with this timestamp or a later one; of an opaque batch its first offset. False: there is none.
cdef bint record_log_at_time(const Root* root, const Bytes* log, int64_t timestamp, uint64_t* offset,
                             int64_t* found) noexcept nogil
# The record with the latest timestamp; of an opaque batch its last offset. False: there is none.
cdef bint record_log_latest(const Root* root, const Bytes* log, uint64_t* offset, int64_t* found) noexcept nogil
