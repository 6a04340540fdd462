# The network of one node, driven by its loop: one thread calls all of this, nothing blocks.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.chunks cimport Slice
from raftmeta.net.transport_state cimport Transport, TransportLimits, TransportPort
from raftmeta.security.tls_state cimport TlsPort
from raftmeta.status cimport status_t

# Call it before anything else, transport_close included: nothing is open.
cdef void transport_clear(Transport* transport) noexcept nogil
# `epoll` and `tls` stay the caller's; `listener` (bound, listening, non-blocking; -1: none) becomes the transport's. A
# resolved name rings wake_fd: call transport_resolved then. NO_MEMORY.
cdef status_t transport_init(Transport* transport, const TransportPort* port, const TransportLimits* limits, int epoll,
                             int listener, int wake_fd, TlsPort* tls, uint64_t seed) noexcept nogil
# Keep a connection to the peer at this "host:port", or give it up. Call again when the address may have changed.
cdef void transport_want(Transport* transport, uint32_t link, const uint8_t* address, uint8_t length) noexcept nogil
cdef void transport_unwant(Transport* transport, uint32_t link) noexcept nogil
# That peer has just shown up: try at once instead of at the end of the pause.
cdef void transport_nudge(Transport* transport, uint32_t link) noexcept nogil
# Handle an event of epoll that carries the transport's tag. Bounded work.
cdef void transport_event(Transport* transport, uint64_t tag, uint32_t events, uint64_t now_ns) noexcept nogil
cdef void transport_resolved(Transport* transport, uint64_t now_ns) noexcept nogil
# Handle time-outs and reconnects that are due; call it when deadline_ns has passed.
cdef void transport_tick(Transport* transport, uint64_t now_ns) noexcept nogil
# NetworkPort.send of ports.pxd; self is the Transport.
cdef void transport_send(void* self, uint32_t link, const uint8_t* head, size_t head_length,
                         const Slice* records) noexcept nogil
# Write what was queued since the last flush, as far as the sockets take it.
cdef void transport_flush(Transport* transport) noexcept nogil
# Call it when other certificates came into force: connections whose certificate is revoked now are closed, no others.
cdef void transport_drop_revoked(Transport* transport, uint64_t now_ns) noexcept nogil
# Call it before transport_close: connections end with a reset and throw away what their sockets still hold.
cdef void transport_reset(Transport* transport) noexcept nogil
# Close everything. transport_close_in_child only closes descriptors: a fork child has no right to more.
cdef void transport_close(Transport* transport) noexcept nogil
cdef void transport_close_in_child(Transport* transport) noexcept nogil
