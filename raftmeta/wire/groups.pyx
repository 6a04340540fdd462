"""Requests for worker groups: bodies. A list is kept as the bytes that came, and walked again where it is needed."""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memchr, memcmp

from raftmeta.native.containers cimport Vec
from raftmeta.status cimport BAD_FIELD, COMMAND_INVALID, OK
from raftmeta.wire.msgpack cimport (Reader, Writer, read_array_max, read_bin, read_bool, read_done,
                                    read_fail, read_uint, reader_over, write_array, write_bin, write_bool, write_fail,
                                    write_uint, writer_at)

cdef enum:
    ANY_BYTES = 0x7fffffff
    LEAVES_MAX = GROUP_MEMBERS_MAX


cdef inline uint32_t _elements_of(uint8_t verb) noexcept nogil:
    if verb == GROUP_JOIN:
        return 10
    if verb == GROUP_SYNC:
        return 7
    return 2 if verb == GROUP_LEAVE else 1 if verb == GROUP_DELETE else 0

cdef inline void _read_bytes(Reader* reader, Bytes* bytes, uint32_t most) noexcept nogil:
    bytes.data = read_bin(reader, most, &bytes.length)

cdef inline bint _is_key(const Bytes* key) noexcept nogil:
    return 0 < key.length <= GROUP_KEY_BYTES_MAX and memchr(key.data, 0, key.length) == NULL

# Bytes that the first and the second of a pair may have.
cdef inline uint32_t _first_max(uint8_t verb) noexcept nogil:
    return GROUP_PROTOCOL_BYTES_MAX if verb == GROUP_JOIN else GROUP_ID_BYTES_MAX

cdef inline uint32_t _second_max(uint8_t verb) noexcept nogil:
    return GROUP_NAME_BYTES_MAX if verb == GROUP_LEAVE else ANY_BYTES

cdef inline uint32_t _pairs_max(uint8_t verb) noexcept nogil:
    return GROUP_PROTOCOLS_MAX if verb == GROUP_JOIN else LEAVES_MAX

cdef int _order(const Bytes* left, const Bytes* right) noexcept nogil:
    cdef int order = memcmp(left.data, right.data, min(left.length, right.length))
    return order if order != 0 else (left.length > right.length) - (left.length < right.length)

# The members of a sync ascend, so that no member has two assignments, and one walk finds them all.
cdef void _read_pairs(Reader* reader, GroupRequest* request) noexcept nogil:
    cdef const uint8_t* start = reader.at
    cdef uint32_t count = read_array_max(reader, 2 * _pairs_max(request.verb))
    cdef Bytes first, second, before
    cdef uint32_t i
    if count % 2:
        read_fail(reader, BAD_FIELD)
    before.data = NULL
    before.length = 0
    for i in range(count // 2):
        if reader.status != OK:
            return
        _read_bytes(reader, &first, _first_max(request.verb))
        _read_bytes(reader, &second, _second_max(request.verb))
        if reader.status == OK and request.verb == GROUP_SYNC and (
                first.length == 0 or i > 0 and _order(&before, &first) >= 0):
            read_fail(reader, BAD_FIELD)
        before = first
    request.count = count // 2
    request.list.data = start
    request.list.length = <uint32_t>(reader.at - start)

cdef void _read_join(Reader* reader, GroupRequest* request) noexcept nogil:
    _read_bytes(reader, &request.member, GROUP_ID_BYTES_MAX)
    _read_bytes(reader, &request.instance, GROUP_NAME_BYTES_MAX)
    _read_bytes(reader, &request.client, GROUP_NAME_BYTES_MAX)
    _read_bytes(reader, &request.type, GROUP_PROTOCOL_BYTES_MAX)
    _read_pairs(reader, request)
    request.rebalance_ms = <uint32_t>read_uint(reader, GROUP_TIME_MS_MAX)
    request.initial_ms = <uint32_t>read_uint(reader, GROUP_TIME_MS_MAX)
    request.members_max = <uint32_t>read_uint(reader, GROUP_MEMBERS_MAX)
    request.must_know = read_bool(reader)
    if request.list.length > GROUP_METADATA_BYTES_MAX or request.members_max == 0:
        read_fail(reader, BAD_FIELD)

cdef status_t groups_decode(const Bytes* key, const Bytes* data, GroupRequest* request) noexcept nogil:
    cdef Reader reader = reader_over(data.data, data.length)
    cdef uint32_t elements = read_array_max(&reader, 16)
    cdef GroupRequest fresh
    request[0] = fresh = _none()
    request.verb = <uint8_t>read_uint(&reader, 0xff)
    if reader.status == OK and (_elements_of(request.verb) == 0 or not _is_key(key)):
        return COMMAND_INVALID
    if elements != _elements_of(request.verb):
        read_fail(&reader, BAD_FIELD)
    if request.verb == GROUP_JOIN:
        _read_join(&reader, request)
    elif request.verb == GROUP_SYNC:
        request.generation = <uint32_t>read_uint(&reader, GROUP_TIME_MS_MAX)
        _read_bytes(&reader, &request.member, GROUP_ID_BYTES_MAX)
        _read_bytes(&reader, &request.instance, GROUP_NAME_BYTES_MAX)
        _read_bytes(&reader, &request.type, GROUP_PROTOCOL_BYTES_MAX)
        _read_bytes(&reader, &request.protocol, GROUP_PROTOCOL_BYTES_MAX)
        _read_pairs(&reader, request)
    elif request.verb == GROUP_LEAVE:
        _read_pairs(&reader, request)
    return read_done(&reader)

cdef uint8_t groups_verb(const Bytes* data) noexcept nogil:
    cdef Reader reader = reader_over(data.data, data.length)
    read_array_max(&reader, 16)
    return <uint8_t>read_uint(&reader, 0xff)

cdef inline GroupRequest _none() noexcept nogil:
    cdef GroupRequest request
    cdef Bytes nothing
    nothing.data = NULL
    nothing.length = 0
    request.verb = 0
    request.member = request.instance = request.client = request.type = request.protocol = request.list = nothing
    request.count = request.rebalance_ms = request.initial_ms = request.members_max = request.generation = 0
    request.must_know = False
    return request

cdef inline void _write_bytes(Writer* writer, const Bytes* bytes) noexcept nogil:
    write_bin(writer, bytes.data, bytes.length)

cdef void _write_pairs(Writer* writer, const Bytes* pairs, uint32_t count) noexcept nogil:
    cdef uint32_t i
    write_array(writer, 2 * count)
    for i in range(2 * count):
        _write_bytes(writer, &pairs[i])

cdef status_t groups_encode(const GroupRequest* request, const Bytes* pairs, uint32_t count,
                            Vec[uint8_t]* out) noexcept nogil:
    cdef size_t start = out.size
    cdef Writer writer = writer_at(out)
    cdef GroupRequest decoded
    cdef Bytes written, key
    if _elements_of(request.verb) == 0 or count > _pairs_max(request.verb):
        return COMMAND_INVALID
    write_array(&writer, _elements_of(request.verb))
    write_uint(&writer, request.verb)
    if request.verb == GROUP_JOIN:
        _write_bytes(&writer, &request.member)
        _write_bytes(&writer, &request.instance)
        _write_bytes(&writer, &request.client)
        _write_bytes(&writer, &request.type)
        _write_pairs(&writer, pairs, count)
        write_uint(&writer, request.rebalance_ms)
        write_uint(&writer, request.initial_ms)
        write_uint(&writer, request.members_max)
        write_bool(&writer, request.must_know)
    elif request.verb == GROUP_SYNC:
        write_uint(&writer, request.generation)
        _write_bytes(&writer, &request.member)
        _write_bytes(&writer, &request.instance)
        _write_bytes(&writer, &request.type)
        _write_bytes(&writer, &request.protocol)
        _write_pairs(&writer, pairs, count)
    elif request.verb == GROUP_LEAVE:
        _write_pairs(&writer, pairs, count)
    if writer.status == OK:
        written.data = out.data + start
        written.length = <uint32_t>(out.size - start)
        key.data = <const uint8_t*>b"k"
        key.length = 1
        write_fail(&writer, groups_decode(&key, &written, &decoded))
    if writer.status != OK:
        out.size = start
    return writer.status

# `place` counts bytes; the head of the array is passed at the first call.
cdef bint groups_next(const Bytes* list, uint32_t* place, Bytes* first, Bytes* second) noexcept nogil:
    cdef Reader reader = reader_over(list.data + place[0], list.length - place[0])
    if list.length == 0:
        return False
    if place[0] == 0:
        read_array_max(&reader, 2 * GROUP_MEMBERS_MAX)
    if reader.at == reader.end:
        return False
    _read_bytes(&reader, first, ANY_BYTES)
    _read_bytes(&reader, second, ANY_BYTES)
    place[0] = <uint32_t>(reader.at - list.data)
    return reader.status == OK

cdef bint groups_are_protocols(const Bytes* list, uint32_t count) noexcept nogil:
    cdef Reader reader = reader_over(list.data, list.length)
    cdef GroupRequest request = _none()
    request.verb = GROUP_JOIN
    _read_pairs(&reader, &request)
    return read_done(&reader) == OK and request.count == count
