"""The codec of the client protocol: bodies of client_messages.pxd."""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcpy, memset

from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport crc32c, load32
from raftmeta.raft.membership cimport MEMBERSHIP_BYTES_MAX
from raftmeta.raft.types cimport ADDRESS_BYTES_MAX, NAME_BYTES_MAX
from raftmeta.status cimport (BAD_CHECKSUM, BAD_FIELD, BAD_LENGTH, INCOMPLETE, NO_MEMORY, OK, BAD_VERSION,
                              status_t)
from raftmeta.wire.commands cimport COMMAND_BYTES_MAX, KEY_BYTES_MAX, PRINCIPAL_BYTES_MAX, Bytes
from raftmeta.wire.msgpack cimport (Reader, Writer, number_max, read_array, read_array_max, read_bin, read_done,
                                    read_fail, read_uint, reader_over, unsigned_max, write_array, write_bin, write_uint,
                                    writer_at)

cdef enum:
    MESSAGE_ELEMENTS = 6
    REQUEST_ELEMENTS_MAX = 15           # more than any has: a request of a later version is answered, not refused
    STATUS_MAX = 127
    READ_FLAGS_ALL = READ_LOCAL | READ_KEYS_ONLY | READ_COUNT_ONLY
    FILTER_ALL = 15             # machine/watches WatchFilter
    PAGES_MAX = 2               # machine/rights_show RightsPage
    RECORDER_PARTS_MAX = 3      # flight/ring FlightPart

cdef enum RequestFields:
    HAS_FLAGS = 1
    HAS_NUMBER = 2
    HAS_LIMIT = 4
    HAS_KEY = 8
    HAS_END = 16
    HAS_SKIP = 32
    HAS_DELIMITER = 64


# --- frames -----------------------------------------------------------------------------------------------------------
cdef inline uint32_t _checksum(const uint8_t* frame, uint32_t length) noexcept nogil:
    return crc32c(crc32c(0, frame, 4), frame + CLIENT_HEADER_BYTES, length)


cdef status_t client_frame_decode(const uint8_t* bytes, size_t length, uint32_t body_bytes_max,
                                  size_t* total) noexcept nogil:
    cdef uint32_t body_length
    total[0] = CLIENT_HEADER_BYTES
    if length < 4:
        return INCOMPLETE
    body_length = load32(bytes)
    if body_length == 0 or body_length > body_bytes_max:
        return BAD_LENGTH
    total[0] = CLIENT_HEADER_BYTES + <size_t>body_length
    if length < total[0]:
        return INCOMPLETE
    return OK if load32(bytes + 4) == _checksum(bytes, body_length) else BAD_CHECKSUM


cdef status_t client_frame_begin(Vec[uint8_t]* out, size_t* start) noexcept nogil:
    start[0] = out.size
    return OK if out.resize(out.size + CLIENT_HEADER_BYTES) else NO_MEMORY


cdef void client_frame_end(Vec[uint8_t]* out, size_t start) noexcept nogil:
    cdef uint32_t length = <uint32_t>(out.size - start - CLIENT_HEADER_BYTES)
    cdef uint32_t checksum
    memcpy(out.data + start, &length, 4)
    checksum = _checksum(out.data + start, length)
    memcpy(out.data + start + 4, &checksum, 4)


cdef status_t _end(Vec[uint8_t]* out, size_t start, status_t status) noexcept nogil:
    if status == OK:
        client_frame_end(out, start)
    else:
        out.size = start
    return status


# --- requests ---------------------------------------------------------------------------------------------------------
# The fields behind kind and id, as a set of bits; on the wire they stand in the order of their bits.
cdef inline uint8_t _fields_of(uint8_t kind) noexcept nogil:
    if kind == REQUEST_COMMAND or kind == REQUEST_TRANSFER:
        return HAS_KEY
    if kind == REQUEST_GET:
        return HAS_FLAGS | HAS_NUMBER | HAS_KEY
    if kind == REQUEST_RANGE:
        return HAS_FLAGS | HAS_NUMBER | HAS_LIMIT | HAS_KEY | HAS_END
    if kind == REQUEST_GROUPS:
        return HAS_FLAGS | HAS_NUMBER | HAS_LIMIT | HAS_KEY | HAS_END | HAS_SKIP | HAS_DELIMITER
    if kind == REQUEST_WATCH:
        return HAS_FLAGS | HAS_NUMBER | HAS_KEY | HAS_END
    if kind == REQUEST_UNWATCH or kind == REQUEST_LEASES:
        return HAS_NUMBER
    if kind == REQUEST_MEMBERS:
        return HAS_FLAGS
    if kind == REQUEST_CHANGE:
        return HAS_NUMBER | HAS_KEY
    if kind == REQUEST_PIECE:
        return HAS_NUMBER | HAS_LIMIT
    if kind == REQUEST_MACHINE_READ:
        return HAS_FLAGS | HAS_KEY | HAS_END
    if kind == REQUEST_AUTHENTICATE:
        return HAS_FLAGS | HAS_KEY | HAS_END
    if kind == REQUEST_RIGHTS:
        return HAS_FLAGS | HAS_LIMIT | HAS_KEY
    if kind == REQUEST_FLIGHT:
        return HAS_FLAGS | HAS_NUMBER | HAS_LIMIT
    return HAS_KEY | HAS_END if kind == REQUEST_MEET else 0


# Elements of a request, with kind and id.
cdef inline uint32_t _elements(uint8_t fields) noexcept nogil:
    cdef uint32_t count = 2
    while fields:
        count += fields & 1
        fields >>= 1
    return count


cdef status_t client_request_encode(const ClientRequest* request, Vec[uint8_t]* out) noexcept nogil:
    cdef Writer writer = writer_at(out)
    cdef uint8_t fields = _fields_of(request.kind)
    cdef size_t start
    if client_frame_begin(out, &start) != OK:
        return NO_MEMORY
    write_array(&writer, _elements(fields))
    write_uint(&writer, request.kind)
    write_uint(&writer, request.id)
    if fields & HAS_FLAGS:
        write_uint(&writer, request.flags)
    if fields & HAS_NUMBER:
        write_uint(&writer, request.number)
    if fields & HAS_LIMIT:
        write_uint(&writer, request.limit)
    if fields & HAS_KEY:
        write_bin(&writer, request.key.data, request.key.length)
    if fields & HAS_END:
        write_bin(&writer, request.end.data, request.end.length)
    if fields & HAS_SKIP:
        write_uint(&writer, request.skip)
    if fields & HAS_DELIMITER:
        write_bin(&writer, request.delimiter.data, request.delimiter.length)
    return _end(out, start, writer.status)


cdef inline bint _is_range(uint8_t kind) noexcept nogil:
    return kind == REQUEST_RANGE or kind == REQUEST_GROUPS


cdef inline uint64_t _flags_max(uint8_t kind) noexcept nogil:
    if _is_range(kind):
        return READ_FLAGS_ALL
    if kind == REQUEST_AUTHENTICATE:
        return AUTHENTICATE_PROVES
    if kind == REQUEST_RIGHTS:
        return PAGES_MAX
    if kind == REQUEST_FLIGHT:
        return RECORDER_PARTS_MAX
    return FILTER_ALL if kind == REQUEST_WATCH else READ_LOCAL


cdef inline uint32_t _key_bytes_min(uint8_t kind) noexcept nogil:
    return 0 if _is_range(kind) or kind in (REQUEST_WATCH, REQUEST_TRANSFER, REQUEST_RIGHTS) else 1


cdef inline uint32_t _key_bytes_max(uint8_t kind) noexcept nogil:
    if kind == REQUEST_COMMAND:
        return COMMAND_BYTES_MAX
    if kind == REQUEST_CHANGE:
        return MEMBERSHIP_BYTES_MAX
    if _is_range(kind) or kind == REQUEST_WATCH:
        return KEY_BYTES_MAX + 1        # also the successor of the longest key
    if kind == REQUEST_AUTHENTICATE:
        return NONCE_BYTES_MAX
    if kind == REQUEST_RIGHTS:
        return PRINCIPAL_BYTES_MAX + 1  # also the successor of the longest name
    return KEY_BYTES_MAX if kind == REQUEST_GET else NAME_BYTES_MAX


cdef inline uint32_t _end_bytes_max(uint8_t kind) noexcept nogil:
    if kind == REQUEST_MACHINE_READ:
        return COMMAND_BYTES_MAX
    if kind == REQUEST_AUTHENTICATE:
        return NONCE_BYTES_MAX
    return ADDRESS_BYTES_MAX if kind == REQUEST_MEET else KEY_BYTES_MAX + 1


cdef void _read_bytes(Reader* reader, uint32_t least, uint32_t most, Bytes* into) noexcept nogil:
    into.data = read_bin(reader, most, &into.length)
    if into.length < least:
        read_fail(reader, BAD_FIELD)


cdef status_t client_request_decode(const uint8_t* body, uint32_t length, ClientRequest* request) noexcept nogil:
    cdef Reader reader = reader_over(body, length)
    cdef uint32_t elements = read_array_max(&reader, REQUEST_ELEMENTS_MAX)
    cdef uint8_t kind, fields
    memset(request, 0, sizeof(ClientRequest))
    request.kind = kind = <uint8_t>read_uint(&reader, 0xff)
    request.id = read_uint(&reader, unsigned_max())
    fields = _fields_of(kind)
    if reader.status == OK and elements >= 2 and kind > REQUEST_KIND_MAX:
        return BAD_VERSION
    if kind == 0 or elements != _elements(fields):
        read_fail(&reader, BAD_FIELD)
    if fields & HAS_FLAGS:
        request.flags = <uint8_t>read_uint(&reader, _flags_max(kind))
    if fields & HAS_NUMBER:
        request.number = read_uint(&reader, unsigned_max() if kind == REQUEST_UNWATCH or kind == REQUEST_LEASES
                                   else number_max())
    if fields & HAS_LIMIT:
        request.limit = <uint32_t>read_uint(&reader, CLIENT_PIECE_BYTES_MAX if kind == REQUEST_PIECE
                                            else ~<uint32_t>0)
    if fields & HAS_KEY:
        _read_bytes(&reader, _key_bytes_min(kind), _key_bytes_max(kind), &request.key)
    if fields & HAS_END:
        _read_bytes(&reader, 0, _end_bytes_max(kind), &request.end)
    if fields & HAS_SKIP:
        request.skip = <uint32_t>read_uint(&reader, KEY_BYTES_MAX)
    if fields & HAS_DELIMITER:
        _read_bytes(&reader, 1, KEY_BYTES_MAX, &request.delimiter)
    return read_done(&reader)


# --- messages ---------------------------------------------------------------------------------------------------------
cdef status_t client_message_encode(const ClientMessage* message, Vec[uint8_t]* out) noexcept nogil:
    cdef Writer writer = writer_at(out)
    cdef size_t start
    if client_frame_begin(out, &start) != OK:
        return NO_MEMORY
    write_array(&writer, MESSAGE_ELEMENTS)
    write_uint(&writer, message.kind)
    write_uint(&writer, message.id)
    write_uint(&writer, <uint32_t>message.status)
    write_uint(&writer, message.revision)
    write_uint(&writer, message.index)
    write_bin(&writer, message.body.data, message.body.length)
    return _end(out, start, writer.status)


cdef status_t client_message_decode(const uint8_t* body, uint32_t length, ClientMessage* message) noexcept nogil:
    cdef Reader reader = reader_over(body, length)
    memset(message, 0, sizeof(ClientMessage))
    read_array(&reader, MESSAGE_ELEMENTS)
    message.kind = <uint8_t>read_uint(&reader, 0xff)
    message.id = read_uint(&reader, unsigned_max())
    message.status = <status_t>read_uint(&reader, STATUS_MAX)
    message.revision = read_uint(&reader, number_max())
    message.index = read_uint(&reader, number_max())
    _read_bytes(&reader, 0, ~<uint32_t>0, &message.body)
    if not CLIENT_ANSWER <= message.kind <= CLIENT_REFUSED:
        read_fail(&reader, BAD_FIELD)
    return read_done(&reader)
