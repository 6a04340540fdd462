"""The codec of state marks."""
from libc.stdint cimport uint8_t, uint32_t

from raftmeta.status cimport BAD_FIELD, OK
from raftmeta.wire.msgpack cimport (Reader, Writer, number_max, read_array, read_done, read_uint, reader_over,
                                    unsigned_max, write_array, write_uint, writer_at)

cdef enum:
    ELEMENTS = 3


cdef status_t state_mark_encode(const StateMark* mark, Vec[uint8_t]* body) noexcept nogil:
    cdef size_t start = body.size
    cdef Writer writer = writer_at(body)
    if mark.index == 0:
        return BAD_FIELD
    write_array(&writer, ELEMENTS)
    write_uint(&writer, mark.index)
    write_uint(&writer, mark.hash.low)
    write_uint(&writer, mark.hash.high)
    if writer.status != OK:
        body.size = start
    return writer.status


cdef status_t state_mark_decode(const uint8_t* body, uint32_t length, StateMark* mark) noexcept nogil:
    cdef Reader reader = reader_over(body, length)
    cdef status_t status
    read_array(&reader, ELEMENTS)
    mark.index = read_uint(&reader, number_max())
    mark.hash.low = read_uint(&reader, unsigned_max())
    mark.hash.high = read_uint(&reader, unsigned_max())
    status = read_done(&reader)
    return BAD_FIELD if status == OK and mark.index == 0 else status
