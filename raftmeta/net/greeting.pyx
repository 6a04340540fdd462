"""The first frames of a connection: HELLO in both directions, or a refusal.

It decides nothing: the engine says whether a HELLO is welcome. It never waits: a fresh connection takes a frame of this
size at once, and a connection that does not is closed.
"""

from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcpy, memset

from raftmeta.native.chunks cimport Slice
from raftmeta.native.containers cimport Vec
from raftmeta.net.stream cimport Stream, stream_write
from raftmeta.net.transport_state cimport NO_LINK
from raftmeta.status cimport BAD_FIELD, OK, status_t
from raftmeta.wire.frame cimport (FRAME_HEADER_BYTES, FRAME_HELLO, FRAME_REFUSED, FrameHeader, FrameIdentity, FrameType,
                                  frame_encode)
from raftmeta.wire.hello cimport hello_decode, hello_encode, refused_decode, refused_encode


# Send `scratch` as one frame. It has room for the header in front of the body.
cdef bint _send(Stream* stream, Vec[uint8_t]* scratch, const Hello* own, FrameType type) noexcept nogil:
    cdef FrameIdentity identity
    cdef Slice whole
    memset(&identity, 0, sizeof(FrameIdentity))
    identity.cluster = own.cluster
    identity.self = own.id
    frame_encode(<FrameHeader*>scratch.data, type, &identity, own.boot, 1, scratch.data + FRAME_HEADER_BYTES,
                 <uint32_t>(scratch.size - FRAME_HEADER_BYTES), NULL, 0)
    whole.chunk = NULL
    whole.data = scratch.data
    whole.length = <uint32_t>scratch.size
    return stream_write(stream, &whole, 1, 0) == <ssize_t>whole.length


cdef bint greeting_send_hello(Transport* transport, Stream* stream, uint32_t link) noexcept nogil:
    cdef Hello own
    transport.port.own_hello(transport.port.self, link, &own)
    transport.scratch.clear()
    if not transport.scratch.resize(FRAME_HEADER_BYTES) or hello_encode(&own, &transport.scratch) != OK:
        return False
    return _send(stream, &transport.scratch, &own, FRAME_HELLO)


cdef bint greeting_send_refusal(Transport* transport, Stream* stream, status_t reason) noexcept nogil:
    cdef Hello own
    transport.port.own_hello(transport.port.self, NO_LINK, &own)
    transport.scratch.clear()
    if (not transport.scratch.resize(FRAME_HEADER_BYTES)
            or refused_encode(reason, NULL, 0, &transport.scratch) != OK):
        return False
    return _send(stream, &transport.scratch, &own, FRAME_REFUSED)


cdef status_t greeting_read_hello(const uint8_t* frame, Hello* hello) noexcept nogil:
    cdef FrameHeader header
    memcpy(&header, frame, FRAME_HEADER_BYTES)
    if header.type != FRAME_HELLO or header.sequence != 1:
        return BAD_FIELD
    return hello_decode(frame + FRAME_HEADER_BYTES, header.body_length, hello)


cdef status_t greeting_read_reply(const uint8_t* frame, Hello* hello, bint* was_refused) noexcept nogil:
    cdef FrameHeader header
    cdef const uint8_t* text
    cdef uint32_t text_length
    cdef status_t reason
    cdef status_t status
    was_refused[0] = False
    memcpy(&header, frame, FRAME_HEADER_BYTES)
    if header.type != FRAME_REFUSED:
        return greeting_read_hello(frame, hello)
    status = refused_decode(frame + FRAME_HEADER_BYTES, header.body_length, &reason, &text, &text_length)
    was_refused[0] = status == OK and reason != OK
    return reason if was_refused[0] else BAD_FIELD
