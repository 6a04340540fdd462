"""Record batches as a producer of a world writes them: bodies.

All numbers of a record are small, so that each takes one byte: twice its value, or one for -1.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from raftmeta.native.intrinsics cimport crc32c
from raftmeta.wire.record_batches cimport BATCH_HEADER_BYTES, BATCH_LENGTH_BEGINS

cdef enum:
    AT_LENGTH = 8
    AT_MAGIC = 16
    AT_CHECKSUM = 17
    AT_ATTRIBUTES = 21          # the checksum covers all from here on
    AT_LAST_DELTA = 23
    AT_PRODUCER = 43
    AT_EPOCH = 51
    AT_FIRST_SEQUENCE = 53
    AT_COUNT = 57
    MAGIC = 2
    GZIP = 1
    NULL_LENGTH = 1
    RECORD_BYTES_MAX = 16


cdef void _put_big(uint8_t* at, uint64_t number, uint32_t width) noexcept nogil:
    cdef uint32_t i
    for i in range(width):
        at[i] = <uint8_t>(number >> 8 * (width - 1 - i))


# Returns where the next one begins.
cdef uint8_t* _put_record(uint8_t* begins, uint32_t delta, uint8_t key, uint64_t value) noexcept nogil:
    cdef uint8_t* at = begins + 1
    at[0] = 0                   # attributes
    at[1] = 0                   # timestamp, as a difference
    at[2] = <uint8_t>(2 * delta)
    at[3] = 2 if key else NULL_LENGTH
    at += 4
    if key:
        at[0] = key
        at += 1
    at[0] = 2 * sizeof(uint64_t) if value else NULL_LENGTH
    at += 1
    if value:
        memcpy(at, &value, sizeof(uint64_t))
        at += sizeof(uint64_t)
    at[0] = 0                   # headers
    begins[0] = <uint8_t>(2 * (at - begins))
    return at + 1


cdef bint batch_make(const SimDraft* draft, Vec[uint8_t]* out) noexcept nogil:
    cdef uint8_t* at
    cdef uint32_t i, length
    out.clear()
    if not out.resize(BATCH_HEADER_BYTES + SIM_BATCH_RECORDS * RECORD_BYTES_MAX):
        return False
    memset(out.data, 0, BATCH_HEADER_BYTES)
    at = out.data + BATCH_HEADER_BYTES
    for i in range(draft.count):
        at = _put_record(at, i, draft.keys[i], draft.values[i])
    length = <uint32_t>(at - out.data)
    out.size = length
    at = out.data
    _put_big(at + AT_LENGTH, length - BATCH_LENGTH_BEGINS, 4)
    at[AT_MAGIC] = MAGIC
    _put_big(at + AT_ATTRIBUTES, GZIP if draft.is_opaque else 0, 2)
    _put_big(at + AT_LAST_DELTA, draft.count - 1, 4)
    _put_big(at + AT_PRODUCER, <uint64_t>draft.producer, 8)
    _put_big(at + AT_EPOCH, <uint64_t>draft.epoch, 2)
    _put_big(at + AT_FIRST_SEQUENCE, <uint64_t>draft.first_sequence, 4)
    _put_big(at + AT_COUNT, draft.count, 4)
    _put_big(at + AT_CHECKSUM, crc32c(0, at + AT_ATTRIBUTES, length - AT_ATTRIBUTES), 4)
    return True
