# Our connections to peers, one for each: they only send.
from libc.stdint cimport uint8_t, uint32_t

from raftmeta.native.chunks cimport Slice
from raftmeta.net.resolver cimport Resolution
from raftmeta.net.transport_state cimport Transport

cdef void outgoing_want(Transport* transport, uint32_t link, const uint8_t* text, uint8_t length) noexcept nogil
cdef void outgoing_unwant(Transport* transport, uint32_t link) noexcept nogil
cdef void outgoing_nudge(Transport* transport, uint32_t link) noexcept nogil
cdef void outgoing_event(Transport* transport, uint32_t link, uint32_t events) noexcept nogil
cdef void outgoing_resolved(Transport* transport, const Resolution* answer) noexcept nogil
cdef void outgoing_tick(Transport* transport) noexcept nogil
cdef void outgoing_queue(Transport* transport, uint32_t link, const uint8_t* head, size_t head_length,
                         const Slice* records) noexcept nogil
cdef void outgoing_flush(Transport* transport, uint32_t link) noexcept nogil
# Close it if the certificate of the other side is revoked now.
cdef void outgoing_drop_revoked(Transport* transport, uint32_t link) noexcept nogil
cdef void outgoing_release(Transport* transport, uint32_t link) noexcept nogil
