# Sets of partitions: sorted, and without doubles. It decides nothing.
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t

from raftmeta.native.containers cimport Vec
from raftmeta.wire.windows cimport Bytes

cdef struct Share:
    uint8_t[16] topic           # TOPIC_UUID_BYTES
    uint32_t partition

# Append the partitions of a list (wire/consumers), which ascend. False: no memory.
cdef bint shares_read(const Bytes* list, Vec[Share]* shares) noexcept nogil
# The list's bytes of `count` ascending shares.
cdef uint32_t shares_length(const Share* shares, size_t count) noexcept nogil
cdef void shares_write(const Share* shares, size_t count, uint8_t* at) noexcept nogil
# Sort shares that came in any order, and leave doubles out.
cdef void shares_sort(Vec[Share]* shares) noexcept nogil
# The place of a share. False: it is none of them.
cdef bint shares_find(const Vec[Share]* shares, const Share* share, size_t* place) noexcept nogil
# Append those of `shares` that are in `others` to `both`, and the rest to `rest`. False: no memory.
cdef bint shares_split(const Vec[Share]* shares, const Vec[Share]* others, Vec[Share]* both,
                       Vec[Share]* rest) noexcept nogil
# *merged: all of two sets without a common share. False: no memory.
cdef bint shares_merge(const Vec[Share]* left, const Vec[Share]* right, Vec[Share]* merged) noexcept nogil
