"""The codec of snapshot messages: one form for all types, since they all name a file."""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memset

from raftmeta.native.containers cimport Vec
from raftmeta.status cimport BAD_FIELD, BAD_LENGTH, OK, status_t
from raftmeta.wire.msgpack cimport (Reader, Writer, number_max, read_array, read_done, read_uint, reader_over,
                                    unsigned_max, write_array, write_uint, writer_at)

cdef enum:
    ELEMENTS = 9


cdef status_t snapshot_message_encode(const SnapshotMessage* message, Vec[uint8_t]* body) noexcept nogil:
    cdef size_t start = body.size
    cdef Writer writer = writer_at(body)
    if _check(message) != OK:
        return BAD_FIELD
    write_array(&writer, ELEMENTS)
    write_uint(&writer, message.type)
    write_uint(&writer, message.file.point.index)
    write_uint(&writer, message.file.point.term)
    write_uint(&writer, message.file.point.chain)
    write_uint(&writer, message.file.size_bytes)
    write_uint(&writer, message.file.hash.low)
    write_uint(&writer, message.file.hash.high)
    write_uint(&writer, message.offset)
    write_uint(&writer, message.length)
    if writer.status != OK:
        body.size = start
    return writer.status


cdef status_t snapshot_message_decode(const uint8_t* body, uint32_t length, uint32_t piece_bytes,
                                      SnapshotMessage* message) noexcept nogil:
    cdef Reader reader = reader_over(body, length)
    cdef status_t status
    memset(message, 0, sizeof(SnapshotMessage))
    read_array(&reader, ELEMENTS)
    message.type = <uint8_t>read_uint(&reader, 0xff)
    message.file.point.index = read_uint(&reader, number_max())
    message.file.point.term = read_uint(&reader, number_max())
    message.file.point.chain = read_uint(&reader, unsigned_max())
    message.file.size_bytes = read_uint(&reader, number_max())
    message.file.hash.low = read_uint(&reader, unsigned_max())
    message.file.hash.high = read_uint(&reader, unsigned_max())
    message.offset = read_uint(&reader, number_max())
    message.length = <uint32_t>read_uint(&reader, SNAPSHOT_PIECE_BYTES_MAX)
    status = read_done(&reader)
    if status != OK:
        return status
    if piece_bytes != (message.length if message.type == SNAPSHOT_PIECE else 0):
        return BAD_LENGTH
    return _check(message)


cdef status_t _check(const SnapshotMessage* message) noexcept nogil:
    if message.type < SNAPSHOT_OFFER or message.type > SNAPSHOT_GONE or not message.file.point.index:
        return BAD_FIELD
    if not message.file.point.term or not message.file.size_bytes or message.length > SNAPSHOT_PIECE_BYTES_MAX:
        return BAD_FIELD
    if message.type == SNAPSHOT_OFFER or message.type == SNAPSHOT_GONE:
        return OK if message.offset == 0 and message.length == 0 else <status_t>BAD_FIELD
    if message.type == SNAPSHOT_PIECE and message.length == 0:
        return BAD_FIELD
    if message.offset > message.file.size_bytes or message.length > message.file.size_bytes - message.offset:
        return BAD_FIELD
    return OK
