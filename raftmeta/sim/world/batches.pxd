# Record batches of Kafka's protocol, version 2, as a producer of a world writes them.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Vec

cdef enum:
    SIM_BATCH_RECORDS = 4       # of one batch, at most

# Values are of eight bytes; a key is one byte, or null.
cdef struct SimDraft:
    int64_t producer            # -1: not idempotent
    int32_t epoch
    int64_t first_sequence
    uint32_t count
    uint8_t[SIM_BATCH_RECORDS] keys     # 0: null
    uint64_t[SIM_BATCH_RECORDS] values  # 0: null, a tombstone
    bint is_opaque              # it says that its records are compressed

# Replace the bytes of `out`. False: no memory.
cdef bint batch_make(const SimDraft* draft, Vec[uint8_t]* out) noexcept nogil
