"""The codec of the messages beside a feed."""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcpy, memset

from raftmeta.native.text cimport text_is_plain
from raftmeta.status cimport BAD_FIELD, NO_MEMORY, OK
from raftmeta.wire.msgpack cimport (Reader, Writer, number_max, read_array, read_array_max, read_bin, read_done,
                                    read_fail, read_uint, reader_over, unsigned_max, write_array, write_bin,
                                    write_uint, writer_at)

cdef enum:
    FEEDER_ELEMENTS = 3
    OBSERVED_ELEMENTS = 5


cdef status_t feeders_encode(const Feeder* feeders, uint32_t count, Vec[uint8_t]* body) noexcept nogil:
    cdef size_t start = body.size
    cdef Writer writer = writer_at(body)
    cdef uint32_t i
    if count > FEEDERS_MAX:
        return BAD_FIELD
    write_array(&writer, count)
    for i in range(count):
        write_array(&writer, FEEDER_ELEMENTS)
        write_uint(&writer, feeders[i].id)
        write_bin(&writer, feeders[i].name, feeders[i].name_length)
        write_bin(&writer, feeders[i].address, feeders[i].address_length)
    if writer.status != OK:
        body.size = start
    return writer.status


cdef status_t observers_encode(const Observed* observers, uint32_t count, Vec[uint8_t]* body) noexcept nogil:
    cdef size_t start = body.size
    cdef Writer writer = writer_at(body)
    cdef uint32_t i
    if count > OBSERVERS_MAX:
        return BAD_FIELD
    write_array(&writer, count)
    for i in range(count):
        write_array(&writer, OBSERVED_ELEMENTS)
        write_uint(&writer, observers[i].id)
        write_uint(&writer, observers[i].feeder)
        write_uint(&writer, observers[i].last)
        write_uint(&writer, observers[i].lag)
        write_bin(&writer, observers[i].name, observers[i].name_length)
    if writer.status != OK:
        body.size = start
    return writer.status


# A piece of text of 1 to `most` bytes; returns its length.
cdef uint8_t _read_text(Reader* reader, uint8_t* into, uint32_t most) noexcept nogil:
    cdef uint32_t length
    cdef const uint8_t* at = read_bin(reader, most, &length)
    if at == NULL or length == 0 or not text_is_plain(at, length):
        read_fail(reader, BAD_FIELD)
        return 0
    memcpy(into, at, length)
    return <uint8_t>length


cdef status_t feeders_decode(const uint8_t* body, uint32_t length, Feeder* feeders, uint32_t* count) noexcept nogil:
    cdef Reader reader = reader_over(body, length)
    cdef uint32_t i
    count[0] = read_array_max(&reader, FEEDERS_MAX)
    for i in range(count[0]):
        memset(&feeders[i], 0, sizeof(Feeder))
        read_array(&reader, FEEDER_ELEMENTS)
        feeders[i].id = read_uint(&reader, unsigned_max())
        feeders[i].name_length = _read_text(&reader, feeders[i].name, NAME_BYTES_MAX)
        feeders[i].address_length = _read_text(&reader, feeders[i].address, ADDRESS_BYTES_MAX)
        if feeders[i].id == 0:
            read_fail(&reader, BAD_FIELD)
    return read_done(&reader)


cdef status_t observers_decode(const uint8_t* body, uint32_t length, Vec[Observed]* observers) noexcept nogil:
    cdef Reader reader = reader_over(body, length)
    cdef size_t start = observers.size
    cdef uint32_t count = read_array_max(&reader, OBSERVERS_MAX)
    cdef Observed one
    cdef uint32_t _i
    if not observers.reserve(start + count):
        return NO_MEMORY
    for _i in range(count):
        memset(&one, 0, sizeof(Observed))
        read_array(&reader, OBSERVED_ELEMENTS)
        one.id = read_uint(&reader, unsigned_max())
        one.feeder = read_uint(&reader, unsigned_max())
        one.last = read_uint(&reader, number_max())
        one.lag = read_uint(&reader, number_max())
        one.name_length = _read_text(&reader, one.name, NAME_BYTES_MAX)
        if one.id == 0 or one.feeder == 0:
            read_fail(&reader, BAD_FIELD)
        observers.push(one)
    if read_done(&reader) != OK:
        observers.size = start
    return reader.status
