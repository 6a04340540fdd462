"""Connections of clients.

It decides how much one connection may have unread, and when it is closed. It must never wait for a
connection, take memory for a length that was only claimed, or look into a request.

Bounds of a connection's memory: `received` holds at most one frame that is not whole and one read behind it, since
nothing more is read while requests wait there. server/output bounds `out`. Results of commands that are ready when it
is full are parked. Events wait in the queues of watches, which its purse bounds (machine/watch_purse). When all
connections together hold more than half of client_memory_bytes_max in answers, those that hold the most are closed:
they do not read, or others would hold more.

Strangers: until a connection has proved who is there, it has hello_timeout_ns in all, frames of CLIENT_HELLO_BYTES_MAX,
and a place in ClientServer.unbound. The proof is HELLO behind a certificate. Where rights are on, the certificate must
be a user's, or a password or token follows. Longer frames of one that still owes its proof are thrown away unread, and
answered so.

Turns: what one turn makes is bounded, and a connection that has more to do comes again behind all others.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.machine.watch_purse cimport purse_drop
from raftmeta.native.chunks cimport Slice
from raftmeta.native.memory cimport give_back_memory
from raftmeta.net cimport posix
from raftmeta.net.stream cimport (STREAM_WOULD_BLOCK, Stream, stream_accept, stream_close, stream_init,
                                  stream_is_revoked, stream_is_secured, stream_read, stream_refusal, stream_secure,
                                  stream_write)
from raftmeta.net.unbound cimport (ADDRESS_LOCAL, UNBOUND_NONE, address_of_socket, unbound_add, unbound_look,
                                   unbound_remove)
from raftmeta.server.access cimport access_has_proved
from raftmeta.server.audit cimport audit_accept, audit_refuse, audit_turn_away
from raftmeta.server.authentication cimport (authentication_by_certificate, authentication_is_near,
                                             authentication_release)
from raftmeta.server.output cimport (connection_count, connection_has_room, connection_next_turn, connection_refuse,
                                     connection_send, place_of)
from raftmeta.server.pending cimport request_answer
from raftmeta.server.quotas cimport (quotas_allow_unfinished, quotas_attach, quotas_detach, quotas_request,
                                     quotas_sweep)
from raftmeta.server.requests cimport (requests_drop_parked, requests_hello, requests_serve_parked, requests_take,
                                       requests_tell_leader)
from raftmeta.server.second_look cimport second_look_begin, second_look_end, second_look_verdict
from raftmeta.server.snapshots cimport snapshot_close
from raftmeta.server.state cimport (CONNECTION_CLOSING, CONNECTION_FREE, CONNECTION_GREETING, CONNECTION_OPEN,
                                    LOOK_ASKED, LOOK_DONE, LOOK_NONE, TUNE_TURN_BYTES, bytes_begin, bytes_end)
from raftmeta.server.watches cimport watches_abandon, watches_resume
from raftmeta.status cimport (AUTHENTICATION_FAILED, BAD_LENGTH, BAD_VERSION, FOREIGN_CLUSTER, INCOMPLETE, OK,
                              OVERLOADED, QUOTA_EXCEEDED, REMOVED, STALE, status_t)
from raftmeta.wire.client_messages cimport (CLIENT_BODY_BYTES_MAX, CLIENT_HEADER_BYTES, CLIENT_HELLO_BYTES_MAX,
                                            CLIENT_PING, REQUEST_KIND_MAX, ClientMessage, ClientRequest,
                                            client_frame_decode, client_request_decode)
from raftmeta.wire.msgpack cimport Reader, number_max, read_array_max, read_uint, reader_over

cdef enum:
    TUNE_READ_BYTES = 1 << 18       # read at once; the size of ClientServer.buffer
    TUNE_ACCEPTS_PER_TURN = 64
    TUNE_HANDSHAKE_STEPS_PER_TURN = 4       # of half a millisecond: so long others wait for strangers
    TUNE_KEPT_BYTES = 1 << 12       # buffers of an idle connection that are larger are given back
    ACCEPT_PAUSE_NS = 100_000_000   # without descriptors
    REQUEST_ELEMENTS_MAX = 15       # of any request: one byte of msgpack says how many
    PREFIX_BYTES = 16               # of a request: enough for its kind and id
    TUNE_GIVE_BACK_BYTES = 1 << 24  # that went since the most that there was: freed memory is given to the system

cdef const char* TOLD_NO_MEMORY = b"no memory is left for another client"
cdef const char* TOLD_QUOTA = b"as many connections of this client's name or address are open as may be"
cdef const char* TOLD_REMOVED = b"this node was removed from the cluster: go on with one of its members"


# --- open and close ---------------------------------------------------------------------------------------------------
cdef bint _watch_descriptor(ClientServer* server, Connection* connection, int verb) noexcept nogil:
    cdef posix.epoll_event event
    event.events = ((posix.EPOLLIN if connection.is_reading else 0)
                    | (posix.EPOLLOUT if connection.is_blocked else 0))
    event.data.u64 = <uint64_t>(connection.generation & <uint32_t>0xFFFFFF) << 32 | place_of(server, connection)
    return posix.epoll_ctl(server.epoll, verb, connection.stream.fd, &event) == 0


# Whether this socket may become a connection; another one may have given way to it.
cdef bint _is_let_in(ClientServer* server, int descriptor, uint64_t address) noexcept nogil:
    cdef uint32_t gives_way
    if (<uint64_t>descriptor >= server.descriptors_max
            or unbound_look(&server.unbound, address, server.now_ns, &gives_way) != OK):
        return False
    if gives_way != UNBOUND_NONE:
        server.counters.evicted += 1
        connection_close(server, &server.connections[server.unbound.entries[gives_way].place])
    return server.free.size != 0


cdef void _begin(ClientServer* server, Stream* stream, bint is_local, uint64_t address) noexcept nogil:
    cdef Connection* connection = &server.connections[server.free.back()]
    server.free.pop()
    connection.stream = stream[0]
    connection.state = CONNECTION_GREETING
    connection.is_reading = True
    connection.is_near = authentication_is_near(connection, is_local)
    audit_accept(server, connection, is_local)
    connection.heard_ns = connection.sent_ns = server.now_ns
    connection.address = address
    connection.unbound = unbound_add(&server.unbound, address, place_of(server, connection), server.now_ns)
    server.counters.connections += 1
    if (connection.unbound == UNBOUND_NONE
            or (server.tls.context != NULL and not is_local
                and not stream_secure(&connection.stream, &server.tls, NULL))
            or not _watch_descriptor(server, connection, posix.EPOLL_CTL_ADD)):
        connection_close(server, connection)


cdef void connections_accept(ClientServer* server, int listener) noexcept nogil:
    cdef Stream stream
    cdef uint64_t address
    cdef int status
    cdef bint is_local = listener == server.local_listener
    for _ in range(TUNE_ACCEPTS_PER_TURN):
        status = stream_accept(&stream, listener)
        if status == STALE:
            continue
        if status == OVERLOADED:
            server.accept_ns = server.now_ns + ACCEPT_PAUSE_NS
        if status != OK:
            return
        server.counters.accepted += 1
        address = <uint64_t>ADDRESS_LOCAL if is_local else address_of_socket(stream.fd)
        if _is_let_in(server, stream.fd, address):
            _begin(server, &stream, is_local, address)
        else:
            server.counters.turned_away += 1
            audit_turn_away(server, stream.fd)
            stream_close(&stream)


# It has proved who it is, or is closed.
cdef void _leave_unbound(ClientServer* server, Connection* connection) noexcept nogil:
    if connection.unbound != UNBOUND_NONE:
        unbound_remove(&server.unbound, connection.unbound)
        connection.unbound = UNBOUND_NONE


cdef void connection_close(ClientServer* server, Connection* connection) noexcept nogil:
    cdef uint32_t generation = connection.generation
    if connection.state == CONNECTION_FREE:
        return
    watches_abandon(server, connection)
    requests_drop_parked(server, connection)
    snapshot_close(connection)
    authentication_release(connection)
    stream_close(&connection.stream)
    _leave_unbound(server, connection)
    server.bytes_under_way -= connection.received.size
    quotas_detach(server, connection)
    server.answer_bytes -= connection.counted
    connection.received.release()
    connection.out.release()
    purse_drop(connection.purse)
    memset(connection, 0, sizeof(Connection))
    connection.generation = generation + 1
    stream_init(&connection.stream)
    server.free.push(place_of(server, connection))      # there is room: each place stands in it once
    server.counters.connections -= 1


# --- bytes in ---------------------------------------------------------------------------------------------------------
cdef const char* _why(status_t status) noexcept nogil:
    if status == REMOVED:
        return TOLD_REMOVED
    return b"this node is of another cluster" if status == FOREIGN_CLUSTER else b"this is no HELLO of a client"


cdef bint _greet(ClientServer* server, Connection* connection, const uint8_t* body, uint32_t length) noexcept nogil:
    cdef status_t status = requests_hello(server, connection, body, length)
    if status != OK:
        server.counters.refused += 1
        connection_refuse(server, connection, status, _why(status))
        return False
    authentication_by_certificate(connection)
    status = quotas_attach(server, connection)
    if status != OK:
        connection.out.clear()      # no HELLO of ours before
        connection_refuse(server, connection, status, TOLD_QUOTA if status == QUOTA_EXCEEDED else TOLD_NO_MEMORY)
        return False
    if access_has_proved(server, connection):
        _leave_unbound(server, connection)
    connection.state = CONNECTION_OPEN
    requests_tell_leader(server, connection)
    return True


# False: the connection is closed, or about to be. A request that waits for a second look is taken again.
cdef bint _take_frame(ClientServer* server, Connection* connection, const uint8_t* body,
                      uint32_t length) noexcept nogil:
    cdef ClientRequest request
    cdef int status
    if connection.state == CONNECTION_GREETING:
        return _greet(server, connection, body, length)
    status = client_request_decode(body, length, &request)
    if status == BAD_VERSION:
        if quotas_request(server, connection, &request):
            request_answer(server, connection, request.id, status, 0, 0, NULL, 0)
        return True
    if status == OK:
        server.counters.requests += connection.look == LOOK_NONE
        status = requests_take(server, connection, &request)
    if status != OK:
        server.counters.refused += 1
        connection_refuse(server, connection, status, b"a request that cannot be read")
        return False
    if connection.unbound != UNBOUND_NONE and access_has_proved(server, connection):
        _leave_unbound(server, connection)
    return True


# The frame at `bytes` is too long for one who has not proved its password. Its id is not covered by a checksum yet, and
# only an answer depends on it. INCOMPLETE: the beginning is not there.
cdef status_t _skip_frame(ClientServer* server, Connection* connection, const uint8_t* bytes, size_t length,
                          size_t total) noexcept nogil:
    cdef Reader reader
    cdef uint64_t id
    if length < CLIENT_HEADER_BYTES + PREFIX_BYTES:
        return INCOMPLETE
    reader = reader_over(bytes + CLIENT_HEADER_BYTES, length - CLIENT_HEADER_BYTES)
    read_array_max(&reader, REQUEST_ELEMENTS_MAX)
    read_uint(&reader, REQUEST_KIND_MAX)
    id = read_uint(&reader, number_max())
    if reader.status != OK:
        return BAD_LENGTH
    request_answer(server, connection, id, second_look_verdict(server, connection, AUTHENTICATION_FAILED), 0, 0, NULL,
                   0)
    second_look_end(connection)
    connection.skipped = total
    return OK


# The next frame at `bytes`: OK, INCOMPLETE, or what is wrong with it.
cdef status_t _look_at_frame(ClientServer* server, Connection* connection, const uint8_t* bytes, size_t length,
                             size_t* total) noexcept nogil:
    cdef status_t status
    if connection.unbound == UNBOUND_NONE:
        return client_frame_decode(bytes, length, CLIENT_BODY_BYTES_MAX, total)
    status = client_frame_decode(bytes, length, CLIENT_HELLO_BYTES_MAX, total)
    if status != BAD_LENGTH or connection.state == CONNECTION_GREETING:
        return status
    status = client_frame_decode(bytes, length, CLIENT_BODY_BYTES_MAX, total)
    if status == BAD_LENGTH:
        return status
    if connection.principal.name_length != 0 and second_look_begin(server, connection):
        return INCOMPLETE       # the name in its certificate may be a user's by now
    return _skip_frame(server, connection, bytes, length, total[0])


# Requests at the beginning of bytes while there is room; the bytes that they took.
cdef size_t _take_frames(ClientServer* server, Connection* connection, const uint8_t* bytes, size_t length,
                         bint* is_over) noexcept nogil:
    cdef size_t used = 0
    cdef size_t total = 0
    cdef int status
    is_over[0] = False
    while used < length and connection_has_room(server, connection):
        if server.turn_bytes >= TUNE_TURN_BYTES:
            connection_next_turn(server, connection)
            break
        if connection.skipped == 0:
            status = _look_at_frame(server, connection, bytes + used, length - used, &total)
            if status == INCOMPLETE:
                break
            if status != OK:
                server.counters.refused += 1
                connection_refuse(server, connection, status, b"this is no frame of the client protocol")
        if connection.skipped != 0:
            total = min(<size_t>connection.skipped, length - used)
            connection.skipped -= total
        elif status != OK or not _take_frame(server, connection, bytes + used + CLIENT_HEADER_BYTES,
                                             <uint32_t>(total - CLIENT_HEADER_BYTES)):
            is_over[0] = True
            break
        if connection.look == LOOK_ASKED:
            break
        used += total
    return used


cdef void _set_reading(ClientServer* server, Connection* connection) noexcept nogil:
    cdef bint is_reading = (connection.state != CONNECTION_CLOSING and not connection.waits_for_turn
                            and connection_has_room(server, connection))
    if connection.is_reading != is_reading:
        connection.is_reading = is_reading
        if not _watch_descriptor(server, connection, posix.EPOLL_CTL_MOD):
            connection_close(server, connection)


# Keep what is no whole request yet. False: too much of that waits, from all clients, and this one goes.
#
# Whole requests fill bytes_under_way_max and, if urgent, as much again: parts of others have room beyond that.
cdef bint _keep(ClientServer* server, Connection* connection, const uint8_t* bytes, size_t length) noexcept nogil:
    if connection.received.size + length > CLIENT_HELLO_BYTES_MAX:
        if server.bytes_under_way + length > 3 * server.limits.bytes_under_way_max:
            server.counters.overloaded += 1
            connection_refuse(server, connection, OVERLOADED, b"too many bytes of unfinished requests")
            return False
        if not quotas_allow_unfinished(server, connection.account, length):
            server.counters.over_quota += 1
            connection_refuse(server, connection, QUOTA_EXCEEDED, b"too many bytes of unfinished requests")
            return False
    if not connection.received.append(bytes, length):
        connection_close(server, connection)
        return False
    bytes_begin(server, connection.account, length)
    return True


cdef void connection_readable(ClientServer* server, Connection* connection) noexcept nogil:
    cdef ssize_t got
    cdef size_t used
    cdef bint is_over
    if connection.stream.tls != NULL and not stream_is_secured(&connection.stream):
        if server.handshake_steps >= TUNE_HANDSHAKE_STEPS_PER_TURN:
            return          # epoll tells again in the next turn
        server.handshake_steps += 1
    got = stream_read(&connection.stream, server.buffer, TUNE_READ_BYTES)
    if got == STREAM_WOULD_BLOCK:
        return
    if got <= 0:
        if stream_refusal(&connection.stream) != OK:
            server.counters.refused += 1
            server.has_note = False
            audit_refuse(server, connection, stream_refusal(&connection.stream))
        connection_close(server, connection)
        return
    connection.heard_ns = server.now_ns
    connection.pinged_ns = 0
    if connection.state == CONNECTION_CLOSING:
        return
    if connection.received.size != 0:
        if _keep(server, connection, server.buffer, <size_t>got):
            connection_resume(server, connection)
        return
    used = _take_frames(server, connection, server.buffer, <size_t>got, &is_over)
    if is_over:
        return
    if used == <size_t>got or _keep(server, connection, server.buffer + used, <size_t>got - used):
        _set_reading(server, connection)


cdef void connection_resume(ClientServer* server, Connection* connection) noexcept nogil:
    cdef size_t used
    cdef bint is_over = False
    if connection.state == CONNECTION_CLOSING:
        return
    if connection.look == LOOK_DONE and connection.unbound != UNBOUND_NONE and access_has_proved(server, connection):
        _leave_unbound(server, connection)
        second_look_end(connection)     # a user's request is taken as any other
    if connection.received.size != 0 and connection_has_room(server, connection):
        used = _take_frames(server, connection, connection.received.data, connection.received.size, &is_over)
        if is_over:
            return
        connection.received.drop_front(used)
        bytes_end(server, connection.account, used)
        if connection.received.size == 0 and connection.received.capacity > TUNE_KEPT_BYTES:
            connection.received.release()
    _set_reading(server, connection)


# --- bytes out --------------------------------------------------------------------------------------------------------
cdef void connections_remove(ClientServer* server) noexcept nogil:
    cdef uint32_t place
    for place in range(server.limits.connections_max):
        if server.connections[place].state == CONNECTION_OPEN:
            connection_refuse(server, &server.connections[place], REMOVED, TOLD_REMOVED)


cdef void connections_drop_revoked(ClientServer* server) noexcept nogil:
    cdef uint32_t place
    for place in range(server.limits.connections_max):
        if server.connections[place].state != CONNECTION_FREE and stream_is_revoked(&server.connections[place].stream):
            server.counters.evicted += 1
            connection_close(server, &server.connections[place])


cdef void _flush(ClientServer* server, Connection* connection) noexcept nogil:
    cdef Slice part
    cdef ssize_t sent = 0
    cdef bint was_blocked = connection.is_blocked
    part.chunk = NULL
    part.data = connection.out.data
    part.length = <uint32_t>connection.out.size
    if connection.out_offset < connection.out.size:
        sent = stream_write(&connection.stream, &part, 1, <uint32_t>connection.out_offset)
        if sent < 0 and sent != STREAM_WOULD_BLOCK:
            connection_close(server, connection)
            return
        if sent > 0:
            connection.out_offset += <size_t>sent
            connection.sent_ns = server.now_ns
    connection.is_blocked = connection.out_offset < connection.out.size
    if not connection.is_blocked:
        connection.out.clear()
        connection.out_offset = 0
        if connection.out.capacity > TUNE_KEPT_BYTES:
            connection.out.release()
            connection_count(server, connection)
        if connection.state == CONNECTION_CLOSING:
            connection_close(server, connection)
            return
    elif not was_blocked:
        connection.sent_ns = server.now_ns      # from here on it must read
    if connection.is_blocked != was_blocked and not _watch_descriptor(server, connection, posix.EPOLL_CTL_MOD):
        connection_close(server, connection)


cdef void connection_writable(ClientServer* server, Connection* connection) noexcept nogil:
    cdef uint32_t generation = connection.generation
    _flush(server, connection)
    if connection.generation != generation:
        return
    connection.waits_for_turn = False
    requests_serve_parked(server, connection)
    if connection_has_room(server, connection):
        watches_resume(server, connection)
        connection_resume(server, connection)


cdef void connections_flush(ClientServer* server) noexcept nogil:
    cdef size_t count = server.dirty.size
    cdef size_t i
    cdef Connection* connection
    for i in range(count):      # one that has room again, or was served, stands behind them now
        connection = &server.connections[server.dirty.data[i]]
        if not connection.is_dirty:
            continue
        connection.is_dirty = False
        if connection.is_blocked:
            continue
        connection_writable(server, connection)
    server.dirty.drop_front(count)


# --- quotas and strangers ---------------------------------------------------------------------------------------------
cdef void connections_wake(ClientServer* server) noexcept nogil:
    cdef size_t i = 0
    cdef Connection* connection
    while i < server.paused.size:
        connection = &server.connections[server.paused.data[i]]
        if connection.paused_ns > server.now_ns:
            i += 1
            continue
        server.paused.data[i] = server.paused.back()
        server.paused.pop()
        if connection.paused_ns != 0:       # else another connection has its place
            connection.paused_ns = 0
            connection_next_turn(server, connection)


cdef void connections_expire(ClientServer* server) noexcept nogil:
    cdef uint32_t first
    while server.unbound.first != UNBOUND_NONE:
        first = server.unbound.first
        if server.now_ns - server.unbound.entries[first].since_ns < server.limits.hello_timeout_ns:
            return
        server.counters.evicted += 1
        connection_close(server, &server.connections[server.unbound.entries[first].place])


# --- memory -----------------------------------------------------------------------------------------------------------
cdef void connections_relieve(ClientServer* server) noexcept nogil:
    cdef Connection* most
    cdef uint32_t place
    while server.answer_bytes > server.limits.memory_max // 2:
        most = &server.connections[0]
        for place in range(server.limits.connections_max):
            if server.connections[place].counted > most.counted:
                most = &server.connections[place]
        if most.counted == 0:
            return
        server.counters.evicted += 1
        connection_close(server, most)


cdef void _give_back(ClientServer* server) noexcept nogil:
    cdef uint64_t held = server.counters.memory
    if server.memory_high < held:
        server.memory_high = held
    if server.memory_high - held >= TUNE_GIVE_BACK_BYTES and held <= server.memory_high // 2:
        give_back_memory()
        server.memory_high = held


# --- ages -------------------------------------------------------------------------------------------------------------
cdef bint _is_overdue(const ClientServer* server, const Connection* connection) noexcept nogil:
    if connection.is_blocked and server.now_ns - connection.sent_ns > server.limits.idle_ns:
        return True     # it does not read
    # One that is not read on may have answered: its bytes wait in the socket.
    return (connection.is_reading and connection.pinged_ns != 0
            and server.now_ns - connection.pinged_ns > server.limits.idle_ns)


cdef void connections_sweep(ClientServer* server) noexcept nogil:
    cdef ClientMessage ping
    cdef Connection* connection
    cdef uint32_t place
    memset(&ping, 0, sizeof(ClientMessage))
    ping.kind = CLIENT_PING
    _give_back(server)
    quotas_sweep(server)
    for place in range(server.limits.connections_max):
        connection = &server.connections[place]
        if connection.state == CONNECTION_FREE:
            continue
        if _is_overdue(server, connection):
            server.counters.evicted += 1
            connection_close(server, connection)
        elif (connection.state == CONNECTION_OPEN and connection.pinged_ns == 0
                and server.now_ns - connection.heard_ns > server.limits.idle_ns):
            connection.pinged_ns = server.now_ns
            connection_send(server, connection, &ping)
