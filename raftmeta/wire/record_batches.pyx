"""Record batches: bodies. Numbers are big-endian; those of records are variable ("zigzag": the sign is the low bit).

    base offset 8, length 4, leader epoch 4, magic 1, checksum 4 | attributes 2, last delta 4, base timestamp 8, max
    timestamp 8, producer 8, epoch 2, base sequence 4, count 4, records      the checksum covers what is behind the bar
"""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from raftmeta.native.intrinsics cimport crc32c

cdef enum:
    AT_LENGTH = 8
    AT_LEADER_EPOCH = 12
    AT_MAGIC = 16
    AT_CHECKSUM = 17
    AT_ATTRIBUTES = 21
    AT_LAST_DELTA = 23
    AT_BASE_TIMESTAMP = 27
    AT_MAX_TIMESTAMP = 35
    AT_PRODUCER = 43
    AT_EPOCH = 51
    AT_BASE_SEQUENCE = 53
    AT_COUNT = 57

cdef enum:
    MAGIC = 2
    COMPRESSION_MASK = 7
    COMPRESSION_MAX = 4         # zstd
    TRANSACTIONAL = 1 << 4
    CONTROL = 1 << 5
    VARINT_BYTES_MAX = 5
    VARLONG_BYTES_MAX = 10


# --- numbers ----------------------------------------------------------------------------------------------------------
cdef inline uint64_t _big(const uint8_t* at, int width) noexcept nogil:
    cdef uint64_t value = 0
    cdef int i
    for i in range(width):
        value = value << 8 | at[i]
    return value

cdef inline void _put_big(uint8_t* at, uint64_t value, int width) noexcept nogil:
    cdef int i
    for i in range(width):
        at[i] = <uint8_t>(value >> (8 * (width - 1 - i)))

# False: cut short, or longer than such a number can be.
cdef inline bint _varint(const Bytes* bytes, uint32_t* place, int most, int64_t* value) noexcept nogil:
    cdef uint64_t raw = 0
    cdef uint8_t byte
    cdef int i
    for i in range(most):
        if place[0] >= bytes.length:
            return False
        byte = bytes.data[place[0]]
        place[0] += 1
        raw |= <uint64_t>(byte & 0x7f) << (7 * i)
        if byte < 0x80:
            value[0] = <int64_t>(raw >> 1) ^ -<int64_t>(raw & 1)
            return most == VARLONG_BYTES_MAX or raw >> 32 == 0
    return False


# --- the header -------------------------------------------------------------------------------------------------------
cdef bint batch_read(const Bytes* batch, BatchHeader* header) noexcept nogil:
    cdef const uint8_t* at = batch.data
    if batch.length < BATCH_HEADER_BYTES:
        return False
    header.base_offset = <int64_t>_big(at, 8)
    header.length = <uint32_t>_big(at + AT_LENGTH, 4) + BATCH_LENGTH_BEGINS
    header.magic = <int8_t>at[AT_MAGIC]
    header.checksum = <uint32_t>_big(at + AT_CHECKSUM, 4)
    header.attributes = <uint16_t>_big(at + AT_ATTRIBUTES, 2)
    header.last_delta = <int32_t>_big(at + AT_LAST_DELTA, 4)
    header.base_timestamp = <int64_t>_big(at + AT_BASE_TIMESTAMP, 8)
    header.max_timestamp = <int64_t>_big(at + AT_MAX_TIMESTAMP, 8)
    header.producer = <int64_t>_big(at + AT_PRODUCER, 8)
    header.epoch = <int16_t>_big(at + AT_EPOCH, 2)
    header.base_sequence = <int32_t>_big(at + AT_BASE_SEQUENCE, 4)
    header.count = <int32_t>_big(at + AT_COUNT, 4)
    return True

cdef bint batch_is_open(const BatchHeader* header) noexcept nogil:
    return header.attributes & COMPRESSION_MASK == 0

cdef inline uint32_t _checksum(const uint8_t* batch, uint32_t length) noexcept nogil:
    return crc32c(0, batch + AT_ATTRIBUTES, length - AT_ATTRIBUTES)

cdef void batch_place(uint8_t* batch, int64_t base_offset) noexcept nogil:
    _put_big(batch, <uint64_t>base_offset, 8)
    _put_big(batch + AT_LEADER_EPOCH, 0, 4)


# --- records ----------------------------------------------------------------------------------------------------------
# A window of a record, whose length stands before it; a length of -1 is null.
cdef inline bint _window(const Bytes* record, uint32_t* place, Bytes* window, bint* is_there) noexcept nogil:
    cdef int64_t length = 0
    if not _varint(record, place, VARINT_BYTES_MAX, &length) or length < -1 or length > record.length - place[0]:
        return False
    is_there[0] = length >= 0
    window.data = record.data + place[0]
    window.length = <uint32_t>max(length, <int64_t>0)
    place[0] += window.length
    return True

cdef bint _headers(const Bytes* record, uint32_t* place) noexcept nogil:
    cdef int64_t count = 0
    cdef bint has_name = False
    cdef bint has_value = False
    cdef Bytes unused
    # Each header has two bytes at least.
    if not _varint(record, place, VARINT_BYTES_MAX, &count) or count < 0 or count > record.length - place[0]:
        return False
    while count > 0:
        if not _window(record, place, &unused, &has_name) or not has_name or not _window(record, place, &unused,
                                                                                         &has_value):
            return False
        count -= 1
    return True

cdef bint batch_next(const Bytes* batch, uint32_t* place, RecordView* record) noexcept nogil:
    cdef int64_t length = 0
    cdef int64_t offset_delta = 0
    cdef uint32_t begins = place[0] if place[0] else BATCH_HEADER_BYTES
    cdef uint32_t at = begins
    cdef uint32_t inner
    cdef Bytes body, unused
    if at >= batch.length or not _varint(batch, &at, VARINT_BYTES_MAX, &length):
        return False
    if length < 1 or length > batch.length - at:
        return False
    body.data = batch.data + at
    body.length = <uint32_t>length
    at += body.length
    record.whole.data = batch.data + begins
    record.whole.length = at - begins
    inner = 1                       # attributes of a record mean nothing
    if (not _varint(&body, &inner, VARLONG_BYTES_MAX, &record.timestamp_delta)
            or not _varint(&body, &inner, VARINT_BYTES_MAX, &offset_delta)
            or not _window(&body, &inner, &record.key, &record.has_key)
            or not _window(&body, &inner, &unused, &record.has_value) or not _headers(&body, &inner)):
        return False
    if inner != body.length:
        return False
    record.offset_delta = <int32_t>offset_delta
    place[0] = at
    return True

# Records whose offsets ascend and stay within the batch; is_whole: without a gap.
cdef bint _are_records(const Bytes* batch, const BatchHeader* header, bint is_whole,
                       bint must_have_keys) noexcept nogil:
    cdef int32_t before = -1
    cdef int32_t count = 0
    cdef uint32_t place = 0
    cdef RecordView record
    while batch_next(batch, &place, &record):
        if record.offset_delta <= before or is_whole and record.offset_delta != before + 1:
            return False
        if must_have_keys and not record.has_key:
            return False
        before = record.offset_delta
        count += 1
    return place == batch.length and count == header.count and before <= header.last_delta


# --- checks -----------------------------------------------------------------------------------------------------------
cdef BatchCode batch_check(const Bytes* batch, bint must_have_keys) noexcept nogil:
    cdef BatchHeader header
    if batch.length > BATCH_BYTES_MAX:
        return BATCH_TOO_LARGE
    if batch.length > AT_MAGIC and batch.data[AT_MAGIC] < MAGIC:
        return BATCH_OLD_FORMAT
    if not batch_read(batch, &header):
        return BATCH_CORRUPT
    if header.magic != MAGIC:
        return BATCH_INVALID
    if header.length != batch.length:
        # Several batches in one request are for older formats only.
        return BATCH_INVALID if BATCH_HEADER_BYTES <= header.length < batch.length else BATCH_CORRUPT
    if header.checksum != _checksum(batch.data, batch.length):
        return BATCH_CORRUPT
    if header.attributes & (TRANSACTIONAL | CONTROL):
        return BATCH_INVALID
    if header.count <= 0 or header.last_delta != header.count - 1:
        return BATCH_INVALID
    if header.producer >= 0 and (header.epoch < 0 or header.base_sequence < 0):
        return BATCH_INVALID
    if not batch_is_open(&header):
        return BATCH_OK if header.attributes & COMPRESSION_MASK <= COMPRESSION_MAX else BATCH_UNKNOWN_COMPRESSION
    return BATCH_OK if _are_records(batch, &header, True, must_have_keys) else BATCH_INVALID

cdef bint batch_is_sound(const Bytes* batch) noexcept nogil:
    cdef BatchHeader header
    if not batch_read(batch, &header) or header.magic != MAGIC or header.length != batch.length:
        return False
    if header.checksum != _checksum(batch.data, batch.length) or header.count <= 0 or header.base_offset < 0:
        return False
    if header.count > <int64_t>header.last_delta + 1:
        return False
    return not batch_is_open(&header) or _are_records(batch, &header, False, False)


# --- records left out -------------------------------------------------------------------------------------------------
cdef int64_t batch_time(const BatchHeader* header, const RecordView* record) noexcept nogil:
    return <int64_t>(<uint64_t>header.base_timestamp + <uint64_t>record.timestamp_delta)

cdef uint32_t batch_without(const Bytes* batch, const int64_t* left_out, uint32_t count, uint8_t* out) noexcept nogil:
    cdef uint32_t length = BATCH_HEADER_BYTES
    cdef uint32_t kept = 0
    cdef uint32_t place = 0
    cdef uint32_t next = 0
    cdef int64_t newest = 0
    cdef BatchHeader header
    cdef RecordView record
    if not batch_read(batch, &header):
        return 0
    while batch_next(batch, &place, &record):
        while next < count and left_out[next] < header.base_offset + record.offset_delta:
            next += 1
        if next < count and left_out[next] == header.base_offset + record.offset_delta:
            continue
        memcpy(out + length, record.whole.data, record.whole.length)
        length += record.whole.length
        if kept == 0 or batch_time(&header, &record) > newest:
            newest = batch_time(&header, &record)
        kept += 1
    if kept == 0:
        return 0
    memcpy(out, batch.data, BATCH_HEADER_BYTES)
    _put_big(out + AT_LENGTH, length - BATCH_LENGTH_BEGINS, 4)
    _put_big(out + AT_MAX_TIMESTAMP, <uint64_t>newest, 8)
    _put_big(out + AT_COUNT, kept, 4)
    _put_big(out + AT_CHECKSUM, _checksum(out, length), 4)
    return length
