"""Sets of partitions: bodies."""
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp, memcpy

from raftmeta.native.containers cimport Vec
from raftmeta.wire.consumers cimport TOPIC_UUID_BYTES, PartitionsOf, partition_at, partitions_next


cdef inline int _order(const Share* left, const Share* right) noexcept nogil:
    cdef int order = memcmp(left.topic, right.topic, TOPIC_UUID_BYTES)
    return order if order != 0 else (left.partition > right.partition) - (left.partition < right.partition)

cdef bint shares_read(const Bytes* list, Vec[Share]* shares) noexcept nogil:
    cdef PartitionsOf found
    cdef Share share
    cdef uint32_t place = 0
    cdef uint32_t i
    while partitions_next(list, &place, &found):
        memcpy(share.topic, found.topic, TOPIC_UUID_BYTES)
        for i in range(found.count):
            share.partition = partition_at(&found, i)
            if not shares.push(share):
                return False
    return True

cdef inline bint _begins_topic(const Share* shares, size_t i) noexcept nogil:
    return i == 0 or memcmp(shares[i - 1].topic, shares[i].topic, TOPIC_UUID_BYTES) != 0

cdef uint32_t shares_length(const Share* shares, size_t count) noexcept nogil:
    cdef uint32_t length = 0
    cdef size_t i
    for i in range(count):
        length += 4 + (TOPIC_UUID_BYTES + 4 if _begins_topic(shares, i) else 0)
    return length

cdef inline void _put_number(uint8_t* at, uint32_t number) noexcept nogil:
    cdef int i
    for i in range(4):
        at[i] = <uint8_t>(number >> (8 * i))

cdef void shares_write(const Share* shares, size_t count, uint8_t* at) noexcept nogil:
    cdef uint8_t* head = at
    cdef uint32_t many = 0
    cdef size_t i
    for i in range(count):
        if _begins_topic(shares, i):
            memcpy(at, shares[i].topic, TOPIC_UUID_BYTES)
            head = at + TOPIC_UUID_BYTES
            at = head + 4
            many = 0
        many += 1
        _put_number(head, many)
        _put_number(at, shares[i].partition)
        at += 4

cdef bint shares_find(const Vec[Share]* shares, const Share* share, size_t* place) noexcept nogil:
    cdef size_t low = 0
    cdef size_t high = shares.size
    cdef size_t middle
    while low < high:
        middle = (low + high) // 2
        if _order(&shares.data[middle], share) < 0:
            low = middle + 1
        else:
            high = middle
    place[0] = low
    return low < shares.size and _order(&shares.data[low], share) == 0

cdef bint shares_split(const Vec[Share]* shares, const Vec[Share]* others, Vec[Share]* both,
                       Vec[Share]* rest) noexcept nogil:
    cdef size_t other = 0
    cdef size_t i
    cdef bint is_kept
    for i in range(shares.size):
        while other < others.size and _order(&others.data[other], &shares.data[i]) < 0:
            other += 1
        if other < others.size and _order(&others.data[other], &shares.data[i]) == 0:
            is_kept = both.push(shares.data[i])
        else:
            is_kept = rest.push(shares.data[i])
        if not is_kept:
            return False
    return True

cdef bint shares_merge(const Vec[Share]* left, const Vec[Share]* right, Vec[Share]* merged) noexcept nogil:
    cdef size_t i = 0
    cdef size_t j = 0
    cdef bint is_kept
    while i < left.size or j < right.size:
        if j == right.size or i < left.size and _order(&left.data[i], &right.data[j]) < 0:
            is_kept = merged.push(left.data[i])
            i += 1
        else:
            is_kept = merged.push(right.data[j])
            j += 1
        if not is_kept:
            return False
    return True


# --- any order --------------------------------------------------------------------------------------------------------
cdef void _sift(Share* shares, size_t at, size_t count) noexcept nogil:
    cdef size_t child
    cdef Share moved
    while 2 * at + 1 < count:
        child = 2 * at + 1
        if child + 1 < count and _order(&shares[child], &shares[child + 1]) < 0:
            child += 1
        if _order(&shares[at], &shares[child]) >= 0:
            return
        moved = shares[at]
        shares[at] = shares[child]
        shares[child] = moved
        at = child

cdef void shares_sort(Vec[Share]* shares) noexcept nogil:
    cdef size_t count = shares.size
    cdef size_t kept = 0
    cdef size_t i
    cdef Share last
    for i in range(count // 2):
        _sift(shares.data, count // 2 - 1 - i, count)
    while count > 1:
        count -= 1
        last = shares.data[count]
        shares.data[count] = shares.data[0]
        shares.data[0] = last
        _sift(shares.data, 0, count)
    for i in range(shares.size):
        if kept == 0 or _order(&shares.data[kept - 1], &shares.data[i]) != 0:
            shares.data[kept] = shares.data[i]
            kept += 1
    shares.resize(kept)
