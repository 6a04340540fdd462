# Range: reads of keys, at the newest revision or a past one.
#
# A linearizable Range waits for a read round of the desk. The options are those of etcd, in its order: what is in the
# range is counted, filtered, sorted, and cut at the limit.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from raftmeta.doors.etcd.keys cimport KeyRange
from raftmeta.doors.etcd.state cimport EtcdCall, EtcdDoor, KeyRecord
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport status_t
from raftmeta.wire.commands cimport Bytes

cdef struct RangeAsked:
    Bytes key
    Bytes range_end
    int64_t limit
    int64_t revision            # as etcd counts; 0 or less: the newest
    uint32_t order
    uint32_t target
    bint is_serializable
    bint keys_only
    bint count_only
    int64_t min_mod
    int64_t max_mod
    int64_t min_create
    int64_t max_create
    KeyRange range

cdef void range_read(const Bytes* message, RangeAsked* asked) noexcept nogil
# The fields of a RangeResponse behind its header, from all records of the range in the order of keys, which are sorted
# in place. False: no memory.
cdef bint range_put(Vec[uint8_t]* out, const RangeAsked* asked, Vec[KeyRecord]* records, uint64_t count) noexcept nogil
# Records at a revision of the pinned root, no more than can be needed. *count: keys of the range. False: no memory.
cdef bint range_collect(EtcdDoor* door, const RangeAsked* asked, uint64_t revision, Vec[KeyRecord]* records,
                        uint64_t* count) noexcept nogil
# Which of the node's revisions is asked for, where `newest` is the newest. COMPACTED, FUTURE_REVISION.
cdef status_t range_revision(EtcdDoor* door, const RangeAsked* asked, uint64_t newest,
                             uint64_t* revision) noexcept nogil
# The words with which it is refused; NULL: it may be asked.
cdef const char* range_fault(const RangeAsked* asked) noexcept nogil
cdef void range_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil
cdef void range_go(EtcdDoor* door, EtcdCall* call) noexcept nogil
