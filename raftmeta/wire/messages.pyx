"""The codec of core messages: one table of fields per type, one reader and one writer that walk it, one check that both
ask. A new type is a new line in the table; an old line never changes within a version.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.native.chunks cimport Slice
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport load32
from raftmeta.raft.record cimport RECORD_HEAD_BYTES, record_bytes, record_check
from raftmeta.raft.types cimport (APPEND, APPEND_RESPONSE, ENTRY_REQUEST, ENTRY_RESPONSE, FEED, FEED_MEMBERSHIP,
                                  FEED_REQUEST, HEARTBEAT, HEARTBEAT_RESPONSE, MEMBERSHIP_PROPOSE, PRE_VOTE,
                                  PRE_VOTE_RESPONSE, PROPOSE, PROPOSE_RESPONSE, READ_INDEX, READ_INDEX_RESPONSE,
                                  SNAPSHOT, SNAPSHOT_RESPONSE, TIMEOUT_NOW, TRANSFER, VOTE, VOTE_RESPONSE, Message,
                                  Record, index_t, term_t)
from raftmeta.status cimport BAD_FIELD, BAD_LENGTH, NO_MEMORY, OK, status_t
from raftmeta.wire.msgpack cimport (PACK_BYTES_MAX, Reader, number_max, pack_array, pack_bool, pack_uint,
                                    read_array_max, read_bool, read_done, read_fail, read_uint, reader_over,
                                    unsigned_max)

cdef extern from *:
    int popcount "__builtin_popcount"(unsigned int bits) nogil

# Fields behind [type, in this order.
cdef enum MessageField:
    FIELD_FLAGS = 1 << 0                # MESSAGE_* bits; unknown ones pass
    FIELD_TERM = 1 << 1                 # at most 2^63 - 1, as all terms and indexes
    FIELD_REJECT = 1 << 2
    FIELD_INDEX = 1 << 3
    FIELD_LOG_TERM = 1 << 4
    FIELD_COMMIT = 1 << 5
    FIELD_HINT = 1 << 6
    FIELD_CONTEXT = 1 << 7              # any 64 bits
    FIELD_FREE_BYTES = 1 << 8           # any 64 bits
    FIELD_COUNT = 1 << 9                # any 32 bits
    FIELD_LEASE = 1 << 10               # lease clock
    # Not in the body: the records behind it.
    RECORDS_ENTRIES = 1 << 16           # `count` records after (index, log_term)
    RECORDS_ENTRY = 1 << 17             # one record at index, or a reject
    RECORDS_PAYLOADS = 1 << 18          # `count` payloads
    RECORDS_OPAQUE = 1 << 19

cdef enum:
    BODY_FIELDS = 0xffff
    ELEMENTS_MAX = 15

# Fields that a type got in version 2.
cdef inline uint32_t _schema_added(uint8_t type) noexcept nogil:
    if type == HEARTBEAT or type == VOTE_RESPONSE:
        return FIELD_LEASE
    return FIELD_TERM if type == READ_INDEX_RESPONSE or type == TRANSFER else 0

# The fields of each type (raft/types MessageType). Types without FIELD_TERM promise nothing. 0: no such type.
cdef inline uint32_t _schema(uint8_t type) noexcept nogil:
    cdef uint32_t requests = FIELD_FLAGS | FIELD_TERM
    cdef uint32_t responses = FIELD_FLAGS | FIELD_TERM | FIELD_REJECT | FIELD_FREE_BYTES
    if type == APPEND:
        return requests | FIELD_INDEX | FIELD_LOG_TERM | FIELD_COMMIT | FIELD_COUNT | RECORDS_ENTRIES
    if type == APPEND_RESPONSE:
        return responses | FIELD_INDEX | FIELD_LOG_TERM | FIELD_HINT
    if type == HEARTBEAT:
        return requests | FIELD_COMMIT | FIELD_CONTEXT | FIELD_LEASE
    if type == HEARTBEAT_RESPONSE:
        return responses | FIELD_INDEX | FIELD_CONTEXT
    if type == PRE_VOTE or type == VOTE:
        return requests | FIELD_INDEX | FIELD_LOG_TERM
    if type == PRE_VOTE_RESPONSE:
        return responses
    if type == VOTE_RESPONSE:
        return responses | FIELD_LEASE
    if type == PROPOSE:
        return FIELD_FLAGS | FIELD_CONTEXT | FIELD_COUNT | RECORDS_PAYLOADS
    if type == PROPOSE_RESPONSE:
        return FIELD_FLAGS | FIELD_REJECT | FIELD_HINT | FIELD_CONTEXT
    if type == READ_INDEX:
        return FIELD_FLAGS | FIELD_CONTEXT
    if type == READ_INDEX_RESPONSE:
        return requests | FIELD_REJECT | FIELD_INDEX | FIELD_CONTEXT
    if type == SNAPSHOT:
        return requests | FIELD_INDEX | FIELD_LOG_TERM
    if type == SNAPSHOT_RESPONSE:
        return responses | FIELD_INDEX
    if type == TRANSFER:
        return requests | FIELD_CONTEXT
    if type == TIMEOUT_NOW:
        return requests
    if type == ENTRY_REQUEST:
        return FIELD_FLAGS | FIELD_INDEX | FIELD_CONTEXT
    if type == ENTRY_RESPONSE:
        return FIELD_FLAGS | FIELD_REJECT | FIELD_INDEX | FIELD_CONTEXT | FIELD_COUNT | RECORDS_ENTRY
    if type == MEMBERSHIP_PROPOSE:
        return FIELD_FLAGS | FIELD_INDEX | FIELD_CONTEXT | RECORDS_OPAQUE
    if type == FEED_REQUEST:
        return FIELD_FLAGS | FIELD_INDEX | FIELD_LOG_TERM | FIELD_HINT | FIELD_CONTEXT
    if type == FEED_MEMBERSHIP:
        return FIELD_FLAGS | FIELD_INDEX | FIELD_HINT | RECORDS_OPAQUE
    if type == FEED:
        return (requests | FIELD_REJECT | FIELD_INDEX | FIELD_LOG_TERM | FIELD_COMMIT | FIELD_HINT | FIELD_CONTEXT
                | FIELD_COUNT | RECORDS_ENTRIES)
    return 0


# --- encode -----------------------------------------------------------------------------------------------------------
cdef status_t message_encode(const Message* message, uint8_t version, Vec[uint8_t]* body) noexcept nogil:
    cdef uint32_t schema = _schema(message.type)
    cdef uint8_t* at
    if not schema or not _is_in_range(message) or not _is_listed(message, schema):
        return BAD_FIELD
    if not body.reserve(body.size + ELEMENTS_MAX * PACK_BYTES_MAX):
        return NO_MEMORY
    if version < FORMAT_MESSAGE_VERSION:
        schema &= ~_schema_added(message.type)
    at = _pack_fields(body.data + body.size, message, schema)
    body.size = <size_t>(at - body.data)
    return OK

cdef inline bint _is_in_range(const Message* message) noexcept nogil:
    return (message.term <= number_max() and message.index <= number_max() and message.log_term <= number_max()
            and message.commit <= number_max() and message.hint <= number_max() and message.lease_ms <= number_max()
            and message.reject <= 1)

# A set field that the type does not carry would be lost on the way.
cdef inline bint _is_listed(const Message* message, uint32_t schema) noexcept nogil:
    cdef bint has_records = (schema & ~<uint32_t>BODY_FIELDS) != 0
    return not (not schema & FIELD_FLAGS and message.flags or not schema & FIELD_TERM and message.term
                or not schema & FIELD_REJECT and message.reject
                or not schema & FIELD_INDEX and message.index or not schema & FIELD_LOG_TERM and message.log_term
                or not schema & FIELD_COMMIT and message.commit or not schema & FIELD_HINT and message.hint
                or not schema & FIELD_CONTEXT and message.context
                or not schema & FIELD_FREE_BYTES and message.free_bytes
                or not schema & FIELD_LEASE and message.lease_ms
                or not schema & FIELD_COUNT and message.count or not has_records and message.records.length)

cdef inline uint8_t* _pack_fields(uint8_t* at, const Message* message, uint32_t schema) noexcept nogil:
    at = pack_array(at, 1 + popcount(schema & BODY_FIELDS))
    at = pack_uint(at, message.type)
    if schema & FIELD_FLAGS:
        at = pack_uint(at, message.flags)
    if schema & FIELD_TERM:
        at = pack_uint(at, message.term)
    if schema & FIELD_REJECT:
        at = pack_bool(at, message.reject)
    if schema & FIELD_INDEX:
        at = pack_uint(at, message.index)
    if schema & FIELD_LOG_TERM:
        at = pack_uint(at, message.log_term)
    if schema & FIELD_COMMIT:
        at = pack_uint(at, message.commit)
    if schema & FIELD_HINT:
        at = pack_uint(at, message.hint)
    if schema & FIELD_CONTEXT:
        at = pack_uint(at, message.context)
    if schema & FIELD_FREE_BYTES:
        at = pack_uint(at, message.free_bytes)
    if schema & FIELD_COUNT:
        at = pack_uint(at, message.count)
    if schema & FIELD_LEASE:
        at = pack_uint(at, message.lease_ms)
    return at


# --- decode -----------------------------------------------------------------------------------------------------------
cdef status_t message_decode(const uint8_t* body, uint32_t length, const Slice* records,
                             Message* message) noexcept nogil:
    cdef Reader reader = reader_over(body, length)
    memset(message, 0, sizeof(Message))
    cdef uint32_t elements = read_array_max(&reader, ELEMENTS_MAX)
    message.type = <uint8_t>read_uint(&reader, 0xff)
    cdef uint32_t schema = _schema(message.type)
    if elements == <uint32_t>popcount(schema & BODY_FIELDS):
        schema &= ~_schema_added(message.type)      # of version 1
    if not schema or elements != <uint32_t>(1 + popcount(schema & BODY_FIELDS)):
        read_fail(&reader, BAD_FIELD)
    _read_fields(&reader, message, schema)
    if read_done(&reader) != OK:
        return reader.status
    if records is not NULL:
        message.records = records[0]
    return _check_records(message, schema)

cdef inline void _read_fields(Reader* reader, Message* message, uint32_t schema) noexcept nogil:
    if schema & FIELD_FLAGS:
        message.flags = <uint8_t>read_uint(reader, 0xff)
    if schema & FIELD_TERM:
        message.term = read_uint(reader, number_max())
    if schema & FIELD_REJECT:
        message.reject = read_bool(reader)
    if schema & FIELD_INDEX:
        message.index = read_uint(reader, number_max())
    if schema & FIELD_LOG_TERM:
        message.log_term = read_uint(reader, number_max())
    if schema & FIELD_COMMIT:
        message.commit = read_uint(reader, number_max())
    if schema & FIELD_HINT:
        message.hint = read_uint(reader, number_max())
    if schema & FIELD_CONTEXT:
        message.context = read_uint(reader, unsigned_max())
    if schema & FIELD_FREE_BYTES:
        message.free_bytes = read_uint(reader, unsigned_max())
    if schema & FIELD_COUNT:
        message.count = <uint32_t>read_uint(reader, ~<uint32_t>0)
    if schema & FIELD_LEASE:
        message.lease_ms = read_uint(reader, number_max())


# --- what stands behind the body --------------------------------------------------------------------------------------
cdef inline status_t _check_records(const Message* message, uint32_t schema) noexcept nogil:
    if schema & RECORDS_ENTRIES:
        return _check_entries(message)
    if schema & RECORDS_ENTRY:
        return _check_entry(message)
    if schema & RECORDS_PAYLOADS:
        return _check_payloads(message)
    if schema & RECORDS_OPAQUE:
        return OK if message.records.length else BAD_LENGTH
    return BAD_LENGTH if message.records.length else OK

# The records of an APPEND, one pass. The checksum of each is verified before any other field of it is believed.
cdef status_t _check_entries(const Message* message) noexcept nogil:
    cdef const uint8_t* at = message.records.data
    cdef uint32_t left = message.records.length
    cdef term_t term = message.log_term
    cdef uint32_t i
    cdef status_t status
    if message.index > number_max() - message.count:
        return BAD_FIELD
    for i in range(message.count):
        status = _check_record(at, left, message.index + 1 + i)
        if status != OK:
            return status
        if (<const Record*>at).term < term or (<const Record*>at).term > message.term:
            return BAD_FIELD
        term = (<const Record*>at).term
        left -= <uint32_t>record_bytes((<const Record*>at).length)
        at += record_bytes((<const Record*>at).length)
    return BAD_LENGTH if left else OK

cdef status_t _check_entry(const Message* message) noexcept nogil:
    cdef status_t status
    if message.reject:
        return BAD_LENGTH if message.count or message.records.length else OK
    if message.count != 1:
        return BAD_FIELD
    status = _check_record(message.records.data, message.records.length, message.index)
    if status == OK and record_bytes((<const Record*>message.records.data).length) != message.records.length:
        return BAD_LENGTH
    return status

cdef inline status_t _check_record(const uint8_t* bytes, uint32_t left, index_t index) noexcept nogil:
    cdef const Record* record = <const Record*>bytes
    cdef status_t status = record_check(bytes, left)
    cdef uint64_t i
    if status != OK:
        return status
    if record.index != index or record.term > number_max() or record.group or record.flags or record.reserved:
        return BAD_FIELD
    for i in range(RECORD_HEAD_BYTES + <uint64_t>record.length, record_bytes(record.length)):
        if bytes[i]:
            return BAD_FIELD
    return OK

cdef status_t _check_payloads(const Message* message) noexcept nogil:
    cdef const uint8_t* at = message.records.data
    cdef uint32_t left = message.records.length
    cdef uint32_t length
    cdef uint32_t _i
    if not message.count:
        return BAD_FIELD
    for _i in range(message.count):
        if left < 4:
            return BAD_LENGTH
        length = load32(at)
        if not length or length > left - 4:
            return BAD_LENGTH
        at += 4 + length
        left -= 4 + length
    return BAD_LENGTH if left else OK
