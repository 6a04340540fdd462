"""The bytes of a log segment: headers, batches, and the search for records in damaged ones.

It decides whether bytes are a sound header, batch or record of one segment. It must never read a file,
follow the stream from batch to batch, or trust a length that no checksum covers.
Format: docs/formats.md "Segment, batch and mark".
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport crc32c, load32
from raftmeta.raft.record cimport RECORD_HEAD_BYTES, record_bytes, record_check
from raftmeta.raft.types cimport FORMAT_RECORD_ALIGNMENT, Record, index_t
from raftmeta.status cimport CORRUPT, NEWER_FORMAT, NO_MEMORY, OK, status_t
from raftmeta.storage.segment cimport (FORMAT_BATCH_MAGIC, FORMAT_SEGMENT_MAGIC, FORMAT_SEGMENT_VERSION,
                                       FORMAT_SEGMENT_VERSION_ENCRYPTED, HEADER_SEARCH_BYTES,
                                       SEGMENT_HEADER_COPIES, SEGMENT_IS_ENCRYPTED, BatchHeader, SegmentHeader,
                                       SegmentKey)

cdef enum:
    CRC_BEGIN = 8                   # of every header: magic and crc themselves are not covered
    ALIGNMENT_BYTES_MIN = 512       # copies of a segment header are looked for at multiples of it


cdef uint64_t align_up(uint64_t value, uint64_t alignment) noexcept nogil:
    return (value + alignment - 1) // alignment * alignment


# --- records ----------------------------------------------------------------------------------------------------------
cdef status_t record_verify(const uint8_t* bytes, uint64_t length) noexcept nogil:
    cdef uint64_t end, at
    cdef status_t status = record_check(bytes, length)
    if status != OK:
        return status
    at = RECORD_HEAD_BYTES + <uint64_t>(<const Record*>bytes).length
    end = record_bytes((<const Record*>bytes).length)
    while at < end:
        if bytes[at] != 0:
            return CORRUPT
        at += 1
    return OK


cdef uint64_t record_search(const uint8_t* bytes, uint64_t begin, uint64_t end, index_t index,
                            uint64_t chain) noexcept nogil:
    cdef const Record* record
    while begin + RECORD_HEAD_BYTES <= end:
        record = <const Record*>(bytes + begin)
        if record.index == index and record.chain == chain and record_verify(bytes + begin, end - begin) == OK:
            return begin
        begin += FORMAT_RECORD_ALIGNMENT
    return end


# --- segment headers --------------------------------------------------------------------------------------------------
cdef bint _append_padding(Vec[uint8_t]* out, size_t begin, uint64_t alignment) noexcept nogil:
    return out.resize(begin + align_up(out.size - begin, alignment))


cdef uint64_t _key_id_bytes(const SegmentHeader* header) noexcept nogil:
    return sizeof(uint64_t) if header.flags & SEGMENT_IS_ENCRYPTED else 0


cdef uint64_t segment_key_id(const SegmentHeader* header, const uint8_t* membership) noexcept nogil:
    cdef uint64_t key_id = 0
    memcpy(&key_id, membership + header.membership_length, _key_id_bytes(header))
    return key_id


cdef status_t segment_header_encode(SegmentHeader* header, const uint8_t* membership, uint64_t key_id,
                                    Vec[uint8_t]* out) noexcept nogil:
    cdef uint64_t key_id_bytes
    cdef size_t begin
    cdef int _
    header.magic = FORMAT_SEGMENT_MAGIC
    header.version = FORMAT_SEGMENT_VERSION
    header.flags &= ~SEGMENT_IS_ENCRYPTED
    if key_id != 0:
        header.version = FORMAT_SEGMENT_VERSION_ENCRYPTED
        header.flags |= SEGMENT_IS_ENCRYPTED
    key_id_bytes = _key_id_bytes(header)
    header.reserved = 0
    header.header_bytes = <uint32_t>(sizeof(SegmentHeader) + header.membership_length + key_id_bytes)
    header.crc = crc32c(0, <const uint8_t*>header + CRC_BEGIN, sizeof(SegmentHeader) - CRC_BEGIN)
    header.crc = crc32c(header.crc, membership, header.membership_length)
    header.crc = crc32c(header.crc, <const uint8_t*>&key_id, key_id_bytes)
    for _ in range(SEGMENT_HEADER_COPIES):
        begin = out.size
        if not (out.append(<const uint8_t*>header, sizeof(SegmentHeader))
                and out.append(membership, header.membership_length)
                and out.append(<const uint8_t*>&key_id, key_id_bytes)
                and _append_padding(out, begin, header.alignment_bytes)):
            return NO_MEMORY
    return OK


cdef status_t _segment_header_at(const uint8_t* bytes, uint64_t length, SegmentHeader* header) noexcept nogil:
    cdef uint32_t header_bytes
    if length < sizeof(SegmentHeader) or load32(bytes) != FORMAT_SEGMENT_MAGIC:
        return CORRUPT
    memcpy(header, bytes, sizeof(SegmentHeader))
    header_bytes = header.header_bytes
    if header_bytes < CRC_BEGIN or header_bytes > length:
        return CORRUPT
    if crc32c(0, bytes + CRC_BEGIN, header_bytes - CRC_BEGIN) != header.crc:
        return CORRUPT
    # A later version may have other fields behind the checksum; only this one is read further.
    if header.version > FORMAT_SEGMENT_VERSION_ENCRYPTED:
        return NEWER_FORMAT
    if ((header.version == FORMAT_SEGMENT_VERSION_ENCRYPTED) != (_key_id_bytes(header) != 0)
            or header_bytes != sizeof(SegmentHeader) + <uint64_t>header.membership_length + _key_id_bytes(header)):
        return CORRUPT
    return OK


cdef status_t segment_header_decode(const uint8_t* bytes, uint64_t length, SegmentHeader* header,
                                    const uint8_t** membership, uint64_t* begin) noexcept nogil:
    cdef uint64_t offset = 0
    cdef uint64_t search_end = min(length, <uint64_t>HEADER_SEARCH_BYTES)
    cdef status_t status
    while offset < search_end:
        status = _segment_header_at(bytes + offset, length - offset, header)
        if status == OK:
            membership[0] = bytes + offset + sizeof(SegmentHeader)
            begin[0] = SEGMENT_HEADER_COPIES * align_up(header.header_bytes, header.alignment_bytes)
            return OK
        if status == NEWER_FORMAT:
            return status
        offset += ALIGNMENT_BYTES_MIN
    return CORRUPT


# --- batches ----------------------------------------------------------------------------------------------------------
cdef status_t batch_header_encode(BatchHeader* header, const uint64_t* chains, const uint64_t* previous_chains,
                                  uint32_t alignment_bytes, Vec[uint8_t]* out) noexcept nogil:
    cdef size_t own_bytes = header.batch.count * sizeof(uint64_t)
    cdef size_t previous_bytes = header.previous.count * sizeof(uint64_t)
    header.magic = FORMAT_BATCH_MAGIC
    header.version = FORMAT_SEGMENT_VERSION
    header.reserved0 = 0
    header.reserved1 = 0
    header.header_bytes = <uint32_t>(sizeof(BatchHeader) + own_bytes + previous_bytes)
    header.length = align_up(header.header_bytes + header.records_bytes, alignment_bytes)
    header.crc = crc32c(0, <const uint8_t*>header + CRC_BEGIN, sizeof(BatchHeader) - CRC_BEGIN)
    header.crc = crc32c(header.crc, chains, own_bytes)
    header.crc = crc32c(header.crc, previous_chains, previous_bytes)
    if not (out.append(<const uint8_t*>header, sizeof(BatchHeader))
            and out.append(<const uint8_t*>chains, own_bytes)
            and out.append(<const uint8_t*>previous_chains, previous_bytes)):
        return NO_MEMORY
    return OK


cdef status_t batch_header_decode(const uint8_t* bytes, uint64_t length, uint64_t offset, const SegmentKey* key,
                                  BatchHeader* header) noexcept nogil:
    cdef uint32_t header_bytes
    if offset + sizeof(BatchHeader) > length or load32(bytes + offset) != FORMAT_BATCH_MAGIC:
        return CORRUPT
    memcpy(header, bytes + offset, sizeof(BatchHeader))
    header_bytes = header.header_bytes
    if header_bytes < CRC_BEGIN or header_bytes > length - offset:
        return CORRUPT
    if crc32c(0, bytes + offset + CRC_BEGIN, header_bytes - CRC_BEGIN) != header.crc:
        return CORRUPT
    if header.version > FORMAT_SEGMENT_VERSION:
        return NEWER_FORMAT
    # Sound, but is it of this life of the file and in its place? A recycled file is full of other sound batches.
    if (header.segment != key.number or header.uuid_low != key.uuid_low or header.uuid_high != key.uuid_high
            or header.offset != offset or header.length % key.alignment_bytes != 0
            or header.length < header_bytes + header.records_bytes
            or header_bytes != sizeof(BatchHeader) + (<uint64_t>header.batch.count + header.previous.count) * 8):
        return CORRUPT
    return OK


cdef const uint64_t* batch_chains(const uint8_t* batch) noexcept nogil:
    return <const uint64_t*>(batch + sizeof(BatchHeader))


cdef const uint64_t* batch_previous_chains(const uint8_t* batch, const BatchHeader* header) noexcept nogil:
    return batch_chains(batch) + header.batch.count
