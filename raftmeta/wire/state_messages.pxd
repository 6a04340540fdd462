# A member's state after an entry, as a msgpack body: [index, state hash low, state hash high].
from libc.stdint cimport uint8_t, uint32_t

from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport Hash128
from raftmeta.raft.types cimport index_t
from raftmeta.status cimport status_t

cdef struct StateMark:
    index_t index               # after this entry; 0: nothing is known
    Hash128 hash                # machine_status

# BAD_FIELD: index 0; NO_MEMORY: nothing was appended.
cdef status_t state_mark_encode(const StateMark* mark, Vec[uint8_t]* body) noexcept nogil
# BAD_FIELD, BAD_LENGTH: not a mark.
cdef status_t state_mark_decode(const uint8_t* body, uint32_t length, StateMark* mark) noexcept nogil
