"""The envelope of everything that two nodes send. Leaves without memory of their own: bytes in, a status out."""
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from raftmeta.native.intrinsics cimport crc32c
from raftmeta.status cimport (BAD_CHECKSUM, BAD_FIELD, BAD_LENGTH, BAD_MAGIC, BAD_VERSION, FOREIGN_CLUSTER,
                              FOREIGN_NODE, INCOMPLETE, NOT_READY, OK, OLD_BOOT, status_t)

cdef enum:
    CRC_FROM = 8                # magic and crc itself are not covered
    HEADER_CRC_FROM = 8
    HEADER_CRC_TO = 92

cdef inline uint32_t _header_crc(const uint8_t* bytes) noexcept nogil:
    return crc32c(0, bytes + HEADER_CRC_FROM, HEADER_CRC_TO - HEADER_CRC_FROM)

cdef inline bint _may_carry_records(uint8_t type) noexcept nogil:
    return type == FRAME_MESSAGE or type == FRAME_SNAPSHOT


cdef void frame_encode(FrameHeader* header, FrameType type, const FrameIdentity* identity, uint64_t self_boot,
                       uint64_t sequence, const uint8_t* body, uint32_t body_length, const uint8_t* records,
                       uint32_t records_length) noexcept nogil:
    cdef uint32_t crc
    memset(header, 0, sizeof(FrameHeader))
    header.magic = FORMAT_FRAME_MAGIC
    header.version = FORMAT_FRAME_VERSION
    header.type = <uint8_t>type
    header.body_length = body_length
    header.records_length = records_length
    header.cluster_low = identity.cluster.low
    header.cluster_high = identity.cluster.high
    header.source = identity.self
    header.target = identity.peer
    header.source_boot = self_boot
    header.sequence = sequence
    header.target_boot = identity.peer_boot
    header.header_crc = _header_crc(<const uint8_t*>header)
    crc = crc32c(0, <const uint8_t*>header + CRC_FROM, FRAME_HEADER_BYTES - CRC_FROM)
    crc = crc32c(crc, body, body_length)
    header.crc = crc32c(crc, records, records_length)


cdef status_t frame_decode(const uint8_t* bytes, size_t length, uint32_t body_bytes_max, size_t* total) noexcept nogil:
    cdef FrameHeader header
    cdef status_t status
    total[0] = FRAME_HEADER_BYTES
    status = _check_beginning(bytes, length)
    if status != OK or length < FRAME_HEADER_BYTES:
        return status if status != OK else INCOMPLETE
    memcpy(&header, bytes, FRAME_HEADER_BYTES)
    status = _check_header(&header, body_bytes_max)
    if status != OK:
        return status
    total[0] = FRAME_HEADER_BYTES + <size_t>header.body_length + header.records_length
    if length < total[0]:
        return INCOMPLETE
    if header.crc != crc32c(0, bytes + CRC_FROM, total[0] - CRC_FROM):
        return BAD_CHECKSUM
    return OK

# The first bytes show a sender of another protocol: do not wait for more.
cdef status_t _check_beginning(const uint8_t* bytes, size_t length) noexcept nogil:
    cdef uint32_t magic = FORMAT_FRAME_MAGIC
    cdef size_t i
    for i in range(4 if length > 4 else length):
        if bytes[i] != (<const uint8_t*>&magic)[i]:
            return BAD_MAGIC
    if length > 8 and bytes[8] != FORMAT_FRAME_VERSION:
        return BAD_VERSION
    return OK

# The header has a checksum of its own, so that nobody waits for a damaged length.
cdef status_t _check_header(const FrameHeader* header, uint32_t body_bytes_max) noexcept nogil:
    if header.header_crc != _header_crc(<const uint8_t*>header):
        return BAD_CHECKSUM
    if <uint64_t>header.body_length + header.records_length > body_bytes_max:
        return BAD_LENGTH
    if header.type < FRAME_HELLO or header.type > FRAME_OBSERVERS:
        return BAD_FIELD
    if header.records_length and not _may_carry_records(header.type):
        return BAD_FIELD
    if header.flags or header.group or header.reserved0 or header.reserved1:
        return BAD_FIELD
    if header.sequence == 0:
        return BAD_FIELD
    return OK


cdef status_t frame_check_identity(const FrameHeader* header, const FrameIdentity* identity) noexcept nogil:
    cdef bint is_same_cluster = (header.cluster_low == identity.cluster.low
                                 and header.cluster_high == identity.cluster.high)
    cdef bint is_founding = ((header.cluster_low | header.cluster_high) == 0
                             or (identity.cluster.low | identity.cluster.high) == 0)
    if not is_same_cluster and not is_founding:
        return FOREIGN_CLUSTER
    if header.source != identity.peer or header.target != identity.self:
        return FOREIGN_NODE
    if header.source_boot < identity.peer_boot:
        return OLD_BOOT
    # A connection belongs to one life of a node; the next life opens its own.
    if header.source_boot > identity.peer_boot:
        return FOREIGN_NODE
    if not is_same_cluster and (header.type == FRAME_MESSAGE or header.type == FRAME_SNAPSHOT):
        return NOT_READY
    return OK
