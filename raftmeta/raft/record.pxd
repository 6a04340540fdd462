# A record: how an entry becomes bytes, how its bytes are proved sound, and the hash that chains it to all before it.
#
# Pure leaves, inline because they run once per entry. They do not know what a term means; raft/log decides what stays.
#
# FORMAT_: chain_hash and the crc may never change for existing data (docs/formats.md "Record" has test vectors).
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from raftmeta.native.intrinsics cimport crc32c, hash64
from raftmeta.raft.types cimport FORMAT_RECORD_ALIGNMENT, FORMAT_RECORD_VERSION, Record, index_t, term_t
from raftmeta.status cimport BAD_CHECKSUM, BAD_FIELD, BAD_LENGTH, BAD_VERSION, OK, status_t

cdef enum:
    RECORD_HEAD_BYTES = 64
    RECORD_CRC_FROM = 4         # the crc covers bytes [4, 64 + length)
    RECORD_CHAIN_FROM = 32      # the chain covers [32, 64 + length): clocks, group, type, version, flags, payload
    RECORD_BYTES_MAX = 1 << 30  # a length above it is nonsense, whatever its checksum says

ctypedef Record* RecordPtr

# Bytes of a record with `length` payload bytes: header, payload, zeros up to the alignment.
cdef inline uint64_t record_bytes(uint32_t length) noexcept nogil:
    cdef uint64_t last = FORMAT_RECORD_ALIGNMENT - 1
    return (<uint64_t>RECORD_HEAD_BYTES + length + last) & ~last

cdef inline uint8_t* record_payload(const Record* record) noexcept nogil:
    return <uint8_t*>record + RECORD_HEAD_BYTES

# The chain hash of `record` after an entry whose chain hash is `previous` (0 before the first entry). It covers all
# that
# replicas must agree on: the past through `previous`, the term, and bytes [32, 64 + length) of the record.
cdef inline uint64_t chain_hash(uint64_t previous, const Record* record) noexcept nogil:
    cdef term_t term = record.term
    return hash64(hash64(previous, &term, sizeof(term)), <const uint8_t*>record + RECORD_CHAIN_FROM,
                  RECORD_HEAD_BYTES - RECORD_CHAIN_FROM + <size_t>record.length)

# Fill chain and crc of a record that has its other fields and its payload.
cdef inline void record_seal(Record* record, uint64_t previous_chain) noexcept nogil:
    record.chain = chain_hash(previous_chain, record)
    record.crc = crc32c(0, <uint8_t*>record + RECORD_CRC_FROM,
                        RECORD_HEAD_BYTES - RECORD_CRC_FROM + <size_t>record.length)

# Do the `length` bytes at `bytes` begin with one whole, undamaged record? Its place in a log is not judged.
cdef inline status_t record_check(const uint8_t* bytes, uint64_t length) noexcept nogil:
    cdef const Record* record = <const Record*>bytes
    if length < RECORD_HEAD_BYTES:
        return BAD_LENGTH
    if record.length > RECORD_BYTES_MAX or record_bytes(record.length) > length:
        return BAD_LENGTH
    if record.crc != crc32c(0, bytes + RECORD_CRC_FROM, RECORD_HEAD_BYTES - RECORD_CRC_FROM + <size_t>record.length):
        return BAD_CHECKSUM
    if record.version != FORMAT_RECORD_VERSION:
        return BAD_VERSION
    if record.index == 0 or record.term == 0:
        return BAD_FIELD
    return OK
