"""Bodies of groups.pxd."""
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memset

from raftmeta.bindings.commands cimport check_encoded, take_value
from raftmeta.native.containers cimport Vec
from raftmeta.wire.commands cimport COMMAND_BYTES_MAX
from raftmeta.wire.groups cimport (GROUP_JOIN, GROUP_LEAVE, GROUP_SYNC, GroupRequest, groups_encode, groups_next)
from raftmeta.wire.windows cimport Bytes


cdef bint is_join(tuple asked):
    return asked[0] == GROUP_JOIN

cdef int _take(bytes value, Bytes* into) except -1:
    return take_value(value, "group", COMMAND_BYTES_MAX, into)

cdef int _take_pairs(list pairs, Vec[Bytes]* into) except -1:
    cdef Bytes window
    for pair in pairs:
        for half in pair:
            _take(half, &window)
            if not into.push(window):
                raise MemoryError
    return 0

cdef int _take_request(tuple asked, GroupRequest* request, Vec[Bytes]* pairs) except -1:
    request.verb = asked[0]
    if request.verb == GROUP_JOIN:
        (_, member, instance, client, kind, listed, request.rebalance_ms, request.initial_ms, request.members_max,
         request.must_know) = asked
        _take(member, &request.member)
        _take(instance, &request.instance)
        _take(client, &request.client)
        _take(kind, &request.type)
        return _take_pairs(listed, pairs)
    if request.verb == GROUP_SYNC:
        _, request.generation, member, instance, kind, protocol, listed = asked
        _take(member, &request.member)
        _take(instance, &request.instance)
        _take(kind, &request.type)
        _take(protocol, &request.protocol)
        return _take_pairs(listed, pairs)
    if request.verb == GROUP_LEAVE:
        return _take_pairs(asked[1], pairs)
    return 0

cdef bytes group_request(tuple asked):
    cdef GroupRequest request
    cdef Vec[Bytes] pairs
    cdef Vec[uint8_t] out
    memset(<void*>&request, 0, sizeof(request))
    memset(<void*>&pairs, 0, sizeof(pairs))
    memset(<void*>&out, 0, sizeof(out))
    try:
        _take_request(asked, &request, &pairs)
        check_encoded(groups_encode(&request, pairs.data, <uint32_t>(pairs.size // 2), &out))
        return PyBytes_FromStringAndSize(<const char*>out.data, <Py_ssize_t>out.size)
    finally:
        pairs.release()
        out.release()


def group_pairs(bytes data not None):
    cdef Bytes listed, first, second
    cdef uint32_t place = 0
    cdef list pairs = []
    _take(data, &listed)
    while groups_next(&listed, &place, &first, &second):
        pairs.append((PyBytes_FromStringAndSize(<const char*>first.data, first.length),
                      PyBytes_FromStringAndSize(<const char*>second.data, second.length)))
    return pairs
