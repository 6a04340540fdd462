"""Requests for record logs: bodies."""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memchr, memset

from raftmeta.native.containers cimport Vec
from raftmeta.status cimport BAD_FIELD, COMMAND_INVALID, OK
from raftmeta.wire.msgpack cimport (Reader, Writer, number_max, read_array_max, read_bin, read_done, read_fail,
                                    read_uint, reader_over, write_array, write_bin, write_fail, write_uint, writer_at)
from raftmeta.wire.record_batches cimport BATCH_BYTES_MAX, BATCH_OK, batch_check

cdef enum:
    FLAGS_MAX = RECORDS_COMPACT | RECORDS_DELETE


cdef inline uint32_t _elements_of(uint8_t verb) noexcept nogil:
    if verb == RECORDS_APPEND:
        return 7
    return 2 if verb == RECORDS_TRIM else 1 if verb == RECORDS_DROP else 0

cdef bint _is_key(const Bytes* key) noexcept nogil:
    return 0 < key.length <= RECORD_LOG_KEY_BYTES_MAX and memchr(key.data, 0, key.length) == NULL

cdef void _read_append(Reader* reader, RecordsRequest* request) noexcept nogil:
    request.flags = <uint8_t>read_uint(reader, FLAGS_MAX)
    request.retention_ms = read_uint(reader, number_max())
    request.bytes_max = read_uint(reader, number_max())
    request.records_max = read_uint(reader, number_max())
    request.tombstone_ms = read_uint(reader, number_max())
    request.batch.data = read_bin(reader, BATCH_BYTES_MAX, &request.batch.length)

cdef status_t records_decode(const Bytes* key, const Bytes* data, RecordsRequest* request) noexcept nogil:
    cdef Reader reader = reader_over(data.data, data.length)
    cdef uint32_t elements = read_array_max(&reader, 16)
    memset(request, 0, sizeof(RecordsRequest))
    request.verb = <uint8_t>read_uint(&reader, 0xff)
    if reader.status == OK and (_elements_of(request.verb) == 0 or not _is_key(key)):
        return COMMAND_INVALID
    if elements != _elements_of(request.verb):
        read_fail(&reader, BAD_FIELD)
    if request.verb == RECORDS_APPEND:
        _read_append(&reader, request)
    elif request.verb == RECORDS_TRIM:
        request.offset = read_uint(&reader, number_max())
    if read_done(&reader) == OK and request.verb == RECORDS_APPEND and (
            batch_check(&request.batch, request.flags & RECORDS_COMPACT != 0) != BATCH_OK):
        return COMMAND_INVALID
    return reader.status

cdef status_t records_encode(const Bytes* key, const RecordsRequest* request, Vec[uint8_t]* out) noexcept nogil:
    cdef size_t start = out.size
    cdef Writer writer = writer_at(out)
    cdef RecordsRequest decoded
    cdef Bytes written
    if _elements_of(request.verb) == 0:
        return COMMAND_INVALID
    write_array(&writer, _elements_of(request.verb))
    write_uint(&writer, request.verb)
    if request.verb == RECORDS_APPEND:
        write_uint(&writer, request.flags)
        write_uint(&writer, request.retention_ms)
        write_uint(&writer, request.bytes_max)
        write_uint(&writer, request.records_max)
        write_uint(&writer, request.tombstone_ms)
        write_bin(&writer, request.batch.data, request.batch.length)
    elif request.verb == RECORDS_TRIM:
        write_uint(&writer, request.offset)
    if writer.status == OK:
        written.data = out.data + start
        written.length = <uint32_t>(out.size - start)
        write_fail(&writer, records_decode(key, &written, &decoded))
    if writer.status != OK:
        out.size = start
    return writer.status
