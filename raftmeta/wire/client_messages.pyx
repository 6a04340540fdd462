# The codec of the client protocol: bodies of client_messages.pxd.
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcpy, memset

from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport crc32c, load32
from raftmeta.status cimport BAD_CHECKSUM, BAD_FIELD, BAD_LENGTH, INCOMPLETE, NO_MEMORY, OK, status_t
from raftmeta.wire.commands cimport COMMAND_BYTES_MAX, KEY_BYTES_MAX, Bytes
from raftmeta.wire.msgpack cimport (Reader, Writer, number_max, read_array, read_array_max, read_bin, read_done,
                                    read_fail, read_uint, reader_over, unsigned_max, write_array, write_bin, write_uint,
                                    writer_at)

cdef enum:
    MESSAGE_ELEMENTS = 6
    REQUEST_ELEMENTS_MAX = 7
    STATUS_MAX = 127
    READ_FLAGS_ALL = READ_LOCAL | READ_KEYS_ONLY | READ_COUNT_ONLY
    FILTER_ALL = 15             # machine/watches WatchFilter
    NAME_BYTES_MAX = 64


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
    total[0] = CLIENT_HEADER_BYTES + <size_t> body_length
    if length < total[0]:
        return INCOMPLETE
    return OK if load32(bytes + 4) == _checksum(bytes, body_length) else BAD_CHECKSUM


cdef status_t client_frame_begin(Vec[uint8_t]* out, size_t* start) noexcept nogil:
    start[0] = out.size
    return OK if out.resize(out.size + CLIENT_HEADER_BYTES) else NO_MEMORY


cdef void client_frame_end(Vec[uint8_t]* out, size_t start) noexcept nogil:
    cdef uint32_t length = <uint32_t> (out.size - start - CLIENT_HEADER_BYTES)
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
cdef inline uint32_t _elements(uint8_t kind) noexcept nogil:
    """Of a request, kind and id counted; 0: there is no such request."""
    if kind == REQUEST_COMMAND or kind == REQUEST_UNWATCH or kind == REQUEST_TRANSFER:
        return 3
    if kind == REQUEST_GET:
        return 5
    if kind == REQUEST_RANGE:
        return 7
    if kind == REQUEST_WATCH:
        return 6
    return 2 if kind == REQUEST_STATUS or kind == REQUEST_PING else 0


cdef status_t client_request_encode(const ClientRequest* request, Vec[uint8_t]* out) noexcept nogil:
    cdef Writer writer = writer_at(out)
    cdef uint8_t kind = request.kind
    cdef size_t start
    if client_frame_begin(out, &start) != OK:
        return NO_MEMORY
    write_array(&writer, _elements(kind))
    write_uint(&writer, kind)
    write_uint(&writer, request.id)
    if kind == REQUEST_GET or kind == REQUEST_RANGE or kind == REQUEST_WATCH:
        write_uint(&writer, request.flags)
        write_uint(&writer, request.number)
    elif kind == REQUEST_UNWATCH:
        write_uint(&writer, request.number)
    if kind == REQUEST_RANGE:
        write_uint(&writer, request.limit)
    if kind != REQUEST_UNWATCH and _elements(kind) > 2:
        write_bin(&writer, request.key.data, request.key.length)
    if kind == REQUEST_RANGE or kind == REQUEST_WATCH:
        write_bin(&writer, request.end.data, request.end.length)
    return _end(out, start, writer.status)


cdef void _read_bytes(Reader* reader, uint32_t least, uint32_t most, Bytes* into) noexcept nogil:
    into.data = read_bin(reader, most, &into.length)
    if into.length < least:
        read_fail(reader, BAD_FIELD)


cdef status_t client_request_decode(const uint8_t* body, uint32_t length, ClientRequest* request) noexcept nogil:
    cdef Reader reader = reader_over(body, length)
    cdef uint32_t elements = read_array_max(&reader, REQUEST_ELEMENTS_MAX)
    memset(request, 0, sizeof(ClientRequest))
    request.kind = <uint8_t> read_uint(&reader, 0xff)
    request.id = read_uint(&reader, unsigned_max())
    if elements < 2 or elements != _elements(request.kind):
        read_fail(&reader, BAD_FIELD)
    if request.kind == REQUEST_COMMAND:
        _read_bytes(&reader, 1, COMMAND_BYTES_MAX, &request.key)
    elif request.kind == REQUEST_TRANSFER:
        _read_bytes(&reader, 0, NAME_BYTES_MAX, &request.key)
    elif request.kind == REQUEST_UNWATCH:
        request.number = read_uint(&reader, unsigned_max())
    elif request.kind == REQUEST_GET:
        request.flags = <uint8_t> read_uint(&reader, READ_LOCAL)
        request.number = read_uint(&reader, number_max())
        _read_bytes(&reader, 1, KEY_BYTES_MAX, &request.key)
    elif request.kind == REQUEST_RANGE or request.kind == REQUEST_WATCH:
        request.flags = <uint8_t> read_uint(&reader, READ_FLAGS_ALL if request.kind == REQUEST_RANGE else FILTER_ALL)
        request.number = read_uint(&reader, number_max())
        if request.kind == REQUEST_RANGE:
            request.limit = <uint32_t> read_uint(&reader, ~<uint32_t> 0)
        _read_bytes(&reader, 0, KEY_BYTES_MAX + 1, &request.key)
        _read_bytes(&reader, 0, KEY_BYTES_MAX + 1, &request.end)
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
    write_uint(&writer, <uint32_t> message.status)
    write_uint(&writer, message.revision)
    write_uint(&writer, message.index)
    write_bin(&writer, message.body.data, message.body.length)
    return _end(out, start, writer.status)


cdef status_t client_message_decode(const uint8_t* body, uint32_t length, ClientMessage* message) noexcept nogil:
    cdef Reader reader = reader_over(body, length)
    memset(message, 0, sizeof(ClientMessage))
    read_array(&reader, MESSAGE_ELEMENTS)
    message.kind = <uint8_t> read_uint(&reader, 0xff)
    message.id = read_uint(&reader, unsigned_max())
    message.status = <status_t> read_uint(&reader, STATUS_MAX)
    message.revision = read_uint(&reader, number_max())
    message.index = read_uint(&reader, number_max())
    _read_bytes(&reader, 0, ~<uint32_t> 0, &message.body)
    if not CLIENT_ANSWER <= message.kind <= CLIENT_REFUSED:
        read_fail(&reader, BAD_FIELD)
    return read_done(&reader)
