"""The codec of the client protocol as Python functions, for tests and tools; the server itself never touches them."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memset

from raftmeta.native.containers cimport Vec
from raftmeta.status cimport status_t
from raftmeta.wire cimport client_messages
from raftmeta.wire.commands cimport Bytes

CLIENT_HEADER_BYTES = client_messages.CLIENT_HEADER_BYTES
CLIENT_HELLO_BYTES_MAX = client_messages.CLIENT_HELLO_BYTES_MAX
CLIENT_BODY_BYTES_MAX = client_messages.CLIENT_BODY_BYTES_MAX


cdef const uint8_t* _start(const uint8_t[::1] view) noexcept:
    return &view[0] if view.shape[0] else NULL


cdef Bytes _window(bytes value):
    cdef Bytes window
    window.data = <const uint8_t*>PyBytes_AS_STRING(value)
    window.length = <uint32_t>PyBytes_GET_SIZE(value)
    return window


cdef bytes _shown(const Bytes* window):
    return PyBytes_FromStringAndSize(<const char*>window.data, window.length)


cdef tuple _taken(status_t status, Vec[uint8_t]* out):
    taken = PyBytes_FromStringAndSize(<char*>out.data, <Py_ssize_t>out.size)
    out.release()
    return status, taken


def client_frame_decode(const uint8_t[::1] data not None, uint32_t body_bytes_max):
    cdef size_t total = 0
    cdef status_t status = client_messages.client_frame_decode(_start(data), <size_t>data.shape[0], body_bytes_max,
                                                               &total)
    return status, total


def client_request_encode(dict fields not None):
    cdef client_messages.ClientRequest request
    cdef Vec[uint8_t] out
    memset(&out, 0, sizeof(out))
    memset(&request, 0, sizeof(request))
    request.kind = fields["kind"]
    request.flags = fields["flags"]
    request.id = fields["id"]
    request.number = fields["number"]
    request.limit = fields["limit"]
    request.key = _window(fields["key"])
    request.end = _window(fields["end"])
    request.skip = fields["skip"]
    request.delimiter = _window(fields["delimiter"])
    return _taken(client_messages.client_request_encode(&request, &out), &out)


def client_request_decode(const uint8_t[::1] body not None):
    cdef client_messages.ClientRequest request
    cdef status_t status = client_messages.client_request_decode(_start(body), <uint32_t>body.shape[0], &request)
    if status != 0:
        return status, None
    return status, {"kind": request.kind, "flags": request.flags, "id": request.id, "number": request.number,
                    "limit": request.limit, "key": _shown(&request.key), "end": _shown(&request.end),
                    "skip": request.skip, "delimiter": _shown(&request.delimiter)}


def client_message_encode(tuple message not None):
    cdef client_messages.ClientMessage taken
    cdef Vec[uint8_t] out
    memset(&out, 0, sizeof(out))
    taken.kind, taken.id, taken.status, taken.revision, taken.index = message[:5]
    taken.body = _window(message[5])
    return _taken(client_messages.client_message_encode(&taken, &out), &out)


def client_message_decode(const uint8_t[::1] body not None):
    cdef client_messages.ClientMessage message
    cdef status_t status = client_messages.client_message_decode(_start(body), <uint32_t>body.shape[0], &message)
    if status != 0:
        return status, None
    return status, (message.kind, message.id, message.status, message.revision, message.index, _shown(&message.body))
