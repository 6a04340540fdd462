"""Connections that somebody opened to us: bytes in, whole and sound frames up.

It decides when a connection has said too much, too little or nonsense. It never answers such a connection, except an
unwelcome HELLO with the reason. It never reads more of one than a turn can bear, and never allocates for a length that
was only claimed before HELLO.

Bytes are read into a chunk. Frames are windows in it, handed up without a copy. A window that the engine holds keeps
the chunk. Its bytes are never written again: reading goes on behind them or in a new chunk.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove

from raftmeta.native.chunks cimport Chunk, Slice, chunk_create, chunk_drop
from raftmeta.net cimport posix
from raftmeta.net.greeting cimport greeting_read_hello, greeting_send_hello, greeting_send_refusal
from raftmeta.net.stream cimport (STREAM_WOULD_BLOCK, Stream, stream_accept, stream_close, stream_init, stream_is_of,
                                  stream_is_secured, stream_read, stream_refusal, stream_room_min, stream_secure)
from raftmeta.net.transport_state cimport (NO_LINK, TAG_ACCEPTED, Accepted, transport_tag,
                                           transport_wake_at)
from raftmeta.security.audit_queue cimport AUDIT_BY_LOOP, AUDIT_PORT_PEERS, audit_address_of, audit_push_refusal
from raftmeta.net.unbound cimport UNBOUND_NONE, Unbound, address_of_socket, unbound_add, unbound_look, unbound_remove
from raftmeta.security.tls_state cimport TLS_NAME
from raftmeta.status cimport INCOMPLETE, NODE_CLOSED, NO_MEMORY, OK, OVERLOADED, STALE, status_t
from raftmeta.wire.frame cimport FRAME_BODY_BYTES_MAX, FRAME_HEADER_BYTES, FRAME_HELLO_BYTES_MAX, frame_decode
from raftmeta.wire.hello cimport Hello

cdef enum:
    TUNE_CHUNK_BYTES = 256 * 1024
    TUNE_CHUNK_BYTES_UNBOUND = 8 * 1024     # before HELLO; more than one HELLO frame
    TUNE_READS_PER_TURN = 4                 # then other connections and the timers get their turn
    TUNE_ACCEPTS_PER_TURN = 16
    TUNE_HANDSHAKE_STEPS_PER_TURN = 2       # of half a millisecond: so long links of peers wait for strangers
    ACCEPT_PAUSE_NS = 100_000_000           # without descriptors


# --- new ones ---------------------------------------------------------------------------------------------------------
# A place for one from this address, after another one has given way if need be; -1: there is none for it.
cdef int _free_place(Transport* transport, uint64_t address) noexcept nogil:
    cdef uint32_t gives_way, place
    if unbound_look(&transport.unbound, address, transport.now_ns, &gives_way) != OK:
        return -1
    if gives_way != UNBOUND_NONE:       # a flood of silent connections must not lock peers out
        transport.counters.evicted += 1
        accepted_close(transport, transport.unbound.entries[gives_way].place)
    for place in range(transport.accepted_max):
        if transport.accepted[place].stream.fd < 0:
            return place
    return -1


cdef bint _register(Transport* transport, uint32_t place) noexcept nogil:
    cdef posix.epoll_event event
    event.events = posix.EPOLLIN
    event.data.u64 = transport_tag(TAG_ACCEPTED, transport.accepted[place].generation, place)
    return posix.epoll_ctl(transport.epoll, posix.EPOLL_CTL_ADD, transport.accepted[place].stream.fd, &event) == 0


cdef void _place(Transport* transport, Stream* stream) noexcept nogil:
    cdef uint64_t address = address_of_socket(stream.fd)
    cdef int place = _free_place(transport, address)
    cdef Accepted* at
    if place < 0:
        transport.counters.evicted += 1
        stream_close(stream)
        return
    at = &transport.accepted[place]
    at.stream = stream[0]
    at.generation += 1
    at.is_bound = False
    at.peer = 0
    at.begin = at.end = 0
    at.wanted = FRAME_HEADER_BYTES
    if transport.audit != NULL:
        audit_address_of(at.stream.fd, &at.address)
    at.unbound = unbound_add(&transport.unbound, address, place, transport.now_ns)
    transport.counters.accepted += 1
    transport_wake_at(transport, transport.now_ns + transport.limits.hello_timeout_ns)
    if at.unbound == UNBOUND_NONE:
        accepted_close(transport, place)
    elif transport.tls.context != NULL and not stream_secure(&at.stream, transport.tls, NULL):
        accepted_close(transport, place)
    elif not _register(transport, place):
        accepted_close(transport, place)


cdef void accepted_take_new(Transport* transport) noexcept nogil:
    cdef Stream stream
    cdef status_t status
    cdef int _turn
    for _turn in range(TUNE_ACCEPTS_PER_TURN):
        stream_init(&stream)
        status = stream_accept(&stream, transport.listener)
        if status == OK:
            _place(transport, &stream)
        elif status == OVERLOADED:
            # epoll would report the listener ready for ever: take it out until descriptors may be free again.
            posix.epoll_ctl(transport.epoll, posix.EPOLL_CTL_DEL, transport.listener, NULL)
            transport.accept_retry_ns = transport.now_ns + ACCEPT_PAUSE_NS
            transport_wake_at(transport, transport.accept_retry_ns)
            return
        elif status == INCOMPLETE:
            return


# --- their bytes ------------------------------------------------------------------------------------------------------
cdef bint _move_to_new_chunk(Accepted* at, uint32_t capacity) noexcept nogil:
    cdef Chunk* fresh = chunk_create(capacity)
    if fresh == NULL:
        return False
    if at.chunk != NULL:
        memcpy(fresh.bytes(), at.chunk.bytes() + at.begin, at.end - at.begin)
        chunk_drop(at.chunk)
    at.chunk = fresh
    at.end -= at.begin
    at.begin = 0
    return True


# Room behind `end` for the rest of the frame that begins at `begin`, and for a read that leaves nothing behind.
cdef bint _make_room(Accepted* at) noexcept nogil:
    cdef uint32_t capacity = TUNE_CHUNK_BYTES if at.is_bound else TUNE_CHUNK_BYTES_UNBOUND
    cdef uint32_t wanted = max(at.wanted, at.end - at.begin + stream_room_min(&at.stream))
    if at.chunk != NULL and at.chunk.holders == 1 and at.begin == at.end:
        at.begin = at.end = 0
    if at.chunk != NULL and at.chunk.capacity >= capacity and at.chunk.capacity - at.begin >= wanted:
        return True
    if at.chunk != NULL and at.chunk.holders == 1 and at.chunk.capacity >= wanted:
        memmove(at.chunk.bytes(), at.chunk.bytes() + at.begin, at.end - at.begin)
        at.end -= at.begin
        at.begin = 0
        return True
    return _move_to_new_chunk(at, max(capacity, wanted))


# A peer has one connection to us: an older one is left over from a broken one.
cdef void _close_older_of(Transport* transport, uint32_t place) noexcept nogil:
    cdef uint32_t other
    for other in range(transport.accepted_max):
        if other != place and transport.accepted[other].is_bound:
            if transport.accepted[other].peer == transport.accepted[place].peer:
                accepted_close(transport, other)


cdef void _tell_refusal(Transport* transport, const Accepted* at, status_t status) noexcept nogil:
    transport.port.refused(transport.port.self, status, NO_LINK)
    audit_push_refusal(transport.audit, AUDIT_BY_LOOP, AUDIT_PORT_PEERS, &at.address, status, transport.now_ns)


cdef status_t _greet(Transport* transport, uint32_t place, const uint8_t* frame) noexcept nogil:
    cdef Accepted* at = &transport.accepted[place]
    cdef Hello hello
    cdef status_t status = greeting_read_hello(frame, &hello)
    if status != OK:
        _tell_refusal(transport, at, status)
        return status
    if not stream_is_of(&at.stream, hello.name, hello.name_length):
        _tell_refusal(transport, at, TLS_NAME)
        greeting_send_refusal(transport, &at.stream, TLS_NAME)
        return TLS_NAME
    status = transport.port.hello(transport.port.self, place, &hello)
    if status != OK:
        audit_push_refusal(transport.audit, AUDIT_BY_LOOP, AUDIT_PORT_PEERS, &at.address, status, transport.now_ns)
        greeting_send_refusal(transport, &at.stream, status)
        return status
    _release(transport, at)
    at.is_bound = True
    at.peer = hello.id
    _close_older_of(transport, place)
    return OK if greeting_send_hello(transport, &at.stream, NO_LINK) else STALE


cdef status_t _take_frames(Transport* transport, uint32_t place) noexcept nogil:
    cdef Accepted* at = &transport.accepted[place]
    cdef Slice frame
    cdef size_t total
    cdef status_t status
    at.wanted = FRAME_HEADER_BYTES
    while at.begin < at.end:
        frame.chunk = at.chunk
        frame.data = at.chunk.bytes() + at.begin
        status = frame_decode(frame.data, at.end - at.begin,
                              FRAME_BODY_BYTES_MAX if at.is_bound else FRAME_HELLO_BYTES_MAX, &total)
        if status == INCOMPLETE:
            at.wanted = <uint32_t>total
            return OK
        if status != OK:
            _tell_refusal(transport, at, status)
            return status
        frame.length = <uint32_t>total
        at.begin += frame.length
        if at.is_bound:
            status = transport.port.frame(transport.port.self, place, &frame)
        else:
            status = _greet(transport, place, frame.data)
        if status != OK:
            return status
    return OK


cdef void accepted_readable(Transport* transport, uint32_t place) noexcept nogil:
    cdef Accepted* at = &transport.accepted[place]
    cdef ssize_t got
    cdef uint32_t room
    cdef status_t status
    cdef int _turn
    if at.stream.tls != NULL and not stream_is_secured(&at.stream):
        if transport.handshake_steps >= TUNE_HANDSHAKE_STEPS_PER_TURN:
            return          # epoll tells again in the next turn: links of peers have theirs before
        transport.handshake_steps += 1
    for _turn in range(TUNE_READS_PER_TURN):
        if not _make_room(at):
            accepted_close(transport, place)        # the peer connects again when there is memory
            return
        room = at.chunk.capacity - at.end
        got = stream_read(&at.stream, at.chunk.bytes() + at.end, room)
        if got == STREAM_WOULD_BLOCK:
            return
        if got <= 0:
            status = stream_refusal(&at.stream)
            if status != OK:
                transport.counters.refused += 1
                _tell_refusal(transport, at, status)
            accepted_close(transport, place)
            return
        at.end += <uint32_t>got
        at.chunk.used = at.end
        transport.counters.bytes_in += <uint64_t>got
        status = _take_frames(transport, place)
        if status != OK:
            if status != STALE and status != NODE_CLOSED and status != NO_MEMORY:
                transport.counters.refused += 1
            accepted_close(transport, place)
            return
        if <uint32_t>got < room:
            return


# --- the end ----------------------------------------------------------------------------------------------------------
cdef void _release(Transport* transport, Accepted* at) noexcept nogil:
    if at.unbound != UNBOUND_NONE:
        unbound_remove(&transport.unbound, at.unbound)
        at.unbound = UNBOUND_NONE


cdef void accepted_close(Transport* transport, uint32_t place) noexcept nogil:
    cdef Accepted* at = &transport.accepted[place]
    if at.stream.fd < 0:
        return
    stream_close(&at.stream)        # this also takes it out of epoll
    _release(transport, at)
    if at.is_bound:
        transport.port.hung_up(transport.port.self, place)
    at.is_bound = False
    chunk_drop(at.chunk)
    at.chunk = NULL


cdef void accepted_tick(Transport* transport) noexcept nogil:
    cdef Unbound* unbound = &transport.unbound
    cdef uint64_t deadline_ns
    while unbound.first != UNBOUND_NONE:
        deadline_ns = unbound.entries[unbound.first].since_ns + transport.limits.hello_timeout_ns
        if deadline_ns > transport.now_ns:
            transport_wake_at(transport, deadline_ns)
            return
        transport.counters.evicted += 1
        accepted_close(transport, unbound.entries[unbound.first].place)
