"""The network of one node: one listener, the connections it accepted, one outgoing connection for each peer.

It decides which part an event belongs to, and when to look at time-outs. It never blocks, never looks inside a frame
beyond its envelope, and says nothing on behalf of the engine but HELLO and refusals.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from raftmeta.native.chunks cimport Slice
from raftmeta.net cimport posix
from raftmeta.net.accepted cimport accepted_close, accepted_readable, accepted_take_new, accepted_tick
from raftmeta.net.outgoing cimport (outgoing_drop_revoked, outgoing_event, outgoing_flush, outgoing_nudge,
                                    outgoing_queue, outgoing_release, outgoing_resolved, outgoing_tick,
                                    outgoing_unwant, outgoing_want)
from raftmeta.net.resolver cimport Resolution, resolver_close, resolver_create, resolver_take
from raftmeta.net.stream cimport (Stream, stream_close, stream_close_in_child, stream_init, stream_is_revoked,
                                  stream_reset_at_close)
from raftmeta.net.transport_state cimport (OUTGOING_CONNECTING, TAG_ACCEPTED, TAG_LISTENER, TAG_OUTGOING, Accepted,
                                           Transport, TransportLimits, TransportPort, transport_tag,
                                           transport_wake_at)
from raftmeta.net.unbound cimport unbound_prepare, unbound_release
from raftmeta.raft.types cimport MEMBERS_MAX
from raftmeta.security.tls_state cimport TlsPort
from raftmeta.status cimport NO_MEMORY, OK, status_t

cdef enum:
    TUNE_GRACE_NS = 0           # peers are few: the newest of an address may always be one
    TUNE_BOUND_MAX = 4 * MEMBERS_MAX        # accepted connections that said HELLO: one a peer, and room for changes


cdef bint _listen(Transport* transport) noexcept nogil:
    cdef posix.epoll_event event
    event.events = posix.EPOLLIN
    event.data.u64 = transport_tag(TAG_LISTENER, 0, 0)
    return posix.epoll_ctl(transport.epoll, posix.EPOLL_CTL_ADD, transport.listener, &event) == 0


cdef void transport_clear(Transport* transport) noexcept nogil:
    cdef uint32_t i
    memset(transport, 0, sizeof(Transport))
    transport.listener = -1
    transport.deadline_ns = ~<uint64_t>0
    for i in range(<uint32_t>MEMBERS_MAX):
        stream_init(&transport.outgoing[i].stream)


cdef status_t transport_init(Transport* transport, const TransportPort* port, const TransportLimits* limits, int epoll,
                             int listener, int wake_fd, TlsPort* tls, uint64_t seed) noexcept nogil:
    cdef uint32_t i
    transport.port = port[0]
    transport.tls = tls
    transport.limits = limits[0]
    transport.epoll = epoll
    transport.listener = listener
    transport.random = seed
    transport.accepted = <Accepted*>calloc(limits.unbound_max + TUNE_BOUND_MAX, sizeof(Accepted))
    if transport.accepted == NULL or not unbound_prepare(&transport.unbound, limits.unbound_max,
                                                         (limits.unbound_max + 1) // 2,
                                                         TUNE_GRACE_NS):
        return NO_MEMORY
    transport.accepted_max = limits.unbound_max + TUNE_BOUND_MAX
    for i in range(transport.accepted_max):
        stream_init(&transport.accepted[i].stream)
    transport.resolver = resolver_create(wake_fd)
    if transport.resolver == NULL or (listener >= 0 and not _listen(transport)):
        return NO_MEMORY
    return OK


cdef void transport_want(Transport* transport, uint32_t link, const uint8_t* address, uint8_t length) noexcept nogil:
    outgoing_want(transport, link, address, length)


cdef void transport_unwant(Transport* transport, uint32_t link) noexcept nogil:
    outgoing_unwant(transport, link)


cdef void transport_nudge(Transport* transport, uint32_t link) noexcept nogil:
    outgoing_nudge(transport, link)


cdef void transport_event(Transport* transport, uint64_t tag, uint32_t events, uint64_t now_ns) noexcept nogil:
    cdef uint32_t position = <uint32_t>tag
    cdef int kind = <int>(tag >> 56)
    transport.now_ns = now_ns
    if kind == TAG_LISTENER:
        accepted_take_new(transport)
    elif kind == TAG_ACCEPTED:
        if (transport.accepted[position].stream.fd >= 0
                and tag == transport_tag(TAG_ACCEPTED, transport.accepted[position].generation, position)):
            accepted_readable(transport, position)
    elif kind == TAG_OUTGOING:
        if (transport.outgoing[position].state >= OUTGOING_CONNECTING
                and tag == transport_tag(TAG_OUTGOING, transport.outgoing[position].attempt, position)):
            outgoing_event(transport, position, events)


cdef void transport_resolved(Transport* transport, uint64_t now_ns) noexcept nogil:
    cdef Resolution* answer = resolver_take(transport.resolver)
    cdef Resolution* next
    transport.now_ns = now_ns
    while answer != NULL:
        next = answer.next
        outgoing_resolved(transport, answer)
        free(answer)
        answer = next


cdef void transport_tick(Transport* transport, uint64_t now_ns) noexcept nogil:
    transport.now_ns = now_ns
    transport.deadline_ns = ~<uint64_t>0       # each part asks for its next time again
    if transport.accept_retry_ns != 0:
        if transport.accept_retry_ns <= now_ns:
            transport.accept_retry_ns = 0
            _listen(transport)
        else:
            transport_wake_at(transport, transport.accept_retry_ns)
    accepted_tick(transport)
    outgoing_tick(transport)


cdef void transport_send(void* self, uint32_t link, const uint8_t* head, size_t head_length,
                         const Slice* records) noexcept nogil:
    outgoing_queue(<Transport*>self, link, head, head_length, records)


cdef void transport_flush(Transport* transport) noexcept nogil:
    cdef uint32_t link
    transport.handshake_steps = 0
    for link in range(<uint32_t>MEMBERS_MAX):
        if transport.outgoing[link].is_dirty:
            outgoing_flush(transport, link)


cdef void transport_drop_revoked(Transport* transport, uint64_t now_ns) noexcept nogil:
    cdef uint32_t i
    transport.now_ns = now_ns
    for i in range(transport.accepted_max):
        if transport.accepted[i].is_bound and stream_is_revoked(&transport.accepted[i].stream):
            transport.counters.evicted += 1
            accepted_close(transport, i)
    for i in range(<uint32_t>MEMBERS_MAX):
        outgoing_drop_revoked(transport, i)


cdef void transport_reset(Transport* transport) noexcept nogil:
    cdef uint32_t i
    for i in range(transport.accepted_max):
        stream_reset_at_close(&transport.accepted[i].stream)
    for i in range(<uint32_t>MEMBERS_MAX):
        stream_reset_at_close(&transport.outgoing[i].stream)


cdef void transport_close(Transport* transport) noexcept nogil:
    cdef Stream listener
    cdef uint32_t i
    stream_init(&listener)
    listener.fd = transport.listener
    transport.listener = -1
    stream_close(&listener)
    for i in range(transport.accepted_max):
        accepted_close(transport, i)
    for i in range(<uint32_t>MEMBERS_MAX):
        outgoing_release(transport, i)
    if transport.resolver != NULL:
        resolver_close(transport.resolver)
        transport.resolver = NULL
    free(transport.accepted)
    transport.accepted = NULL
    transport.accepted_max = 0
    unbound_release(&transport.unbound)
    transport.scratch.release()


cdef void transport_close_in_child(Transport* transport) noexcept nogil:
    cdef uint32_t i
    if transport.listener >= 0:
        posix.close(transport.listener)
    for i in range(transport.accepted_max):
        stream_close_in_child(&transport.accepted[i].stream)
    for i in range(<uint32_t>MEMBERS_MAX):
        stream_close_in_child(&transport.outgoing[i].stream)
    if transport.resolver != NULL:
        posix.close(transport.resolver.wake_fd)
