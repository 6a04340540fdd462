"""Connections from outside: bodies."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.connections.state cimport (CONNECTION_CLOSING, CONNECTION_CONNECTING, CONNECTION_FREE,
                                         CONNECTION_GREETING, CONNECTION_OPEN, TUNE_READ_BYTES, TUNE_TURN_BYTES,
                                         connection_in)
from raftmeta.native.atomics cimport add_shared, load_shared, subtract_shared
from raftmeta.native.chunks cimport Slice
from raftmeta.net cimport posix
from raftmeta.net.stream cimport (STREAM_WOULD_BLOCK, Stream, stream_accept, stream_close, stream_init,
                                  stream_is_revoked, stream_is_secured, stream_read, stream_refusal, stream_secure,
                                  stream_write)
from raftmeta.net.unbound cimport (ADDRESS_LOCAL, UNBOUND_NONE, address_of_socket, unbound_add, unbound_look,
                                   unbound_remove)
from raftmeta.security.audit_queue cimport AuditAddress, audit_address_of, audit_push_refusal
from raftmeta.status cimport OK, OVERLOADED, QUOTA_EXCEEDED, STALE, status_t

cdef enum:
    TUNE_ACCEPTS_PER_TURN = 64
    TUNE_HANDSHAKE_STEPS_PER_TURN = 4       # of half a millisecond: so long others wait for strangers
    TUNE_KEPT_BYTES = 1 << 12       # buffers of an idle connection that are larger are given back
    TUNE_SMALL_BYTES = 1 << 12      # so much of a frame is kept whatever others left unfinished
    ACCEPT_PAUSE_NS = 100_000_000   # without descriptors
    PRESSED_NS = 1_000_000_000      # so long a frame may be half said while such frames take others the room


# --- open and close ---------------------------------------------------------------------------------------------------
cdef bint _watch_descriptor(Connections* connections, Connection* connection, int verb) noexcept nogil:
    cdef posix.epoll_event event
    event.events = ((posix.EPOLLIN if connection.is_reading else 0)
                    | (posix.EPOLLOUT if connection.is_blocked else 0))
    event.data.u64 = <uint64_t>(connection.generation & <uint32_t>0xFFFFFF) << 32 | connection.place
    return posix.epoll_ctl(connections.epoll, verb, connection.stream.fd, &event) == 0


cdef void _audit(Connections* connections, const AuditAddress* address, status_t status) noexcept nogil:
    if connections.audit != NULL:
        audit_push_refusal(connections.audit, connections.audit_by, connections.audit_port, address, status,
                           connections.now_ns)


# Whether this socket may become a connection; another one may have given way to it.
cdef bint _is_let_in(Connections* connections, int descriptor, uint64_t address) noexcept nogil:
    cdef uint32_t gives_way
    if (<uint64_t>descriptor >= connections.descriptors_max
            or unbound_look(&connections.unbound, address, connections.now_ns, &gives_way) != OK):
        return False
    if gives_way != UNBOUND_NONE:
        connections.counters.evicted += 1
        connection_close(connections, connection_in(connections, connections.unbound.entries[gives_way].place))
    return connections.free.size != 0


cdef void _begin(Connections* connections, Stream* stream, bint is_local, uint64_t address) noexcept nogil:
    cdef uint32_t place = connections.free.back()
    cdef Connection* connection = connection_in(connections, place)
    connections.free.pop()
    connection.place = place
    connection.stream = stream[0]
    connection.state = CONNECTION_GREETING
    connection.is_local = is_local
    connection.is_reading = True
    connection.heard_ns = connection.sent_ns = connections.now_ns
    connection.address = address
    if connections.audit != NULL:
        audit_address_of(stream.fd, &connection.audit_address)
    connection.unbound = unbound_add(&connections.unbound, address, place, connections.now_ns)
    connections.counters.connections += 1
    connections.rules.opened(connections, connection)
    if (connection.unbound == UNBOUND_NONE
            or (connections.tls.context != NULL and not is_local
                and not stream_secure(&connection.stream, &connections.tls, NULL))
            or not _watch_descriptor(connections, connection, posix.EPOLL_CTL_ADD)):
        connection_close(connections, connection)


cdef void _turn_away(Connections* connections, Stream* stream) noexcept nogil:
    cdef AuditAddress address
    connections.counters.turned_away += 1
    if connections.audit != NULL:
        audit_address_of(stream.fd, &address)
        _audit(connections, &address, OVERLOADED)
    stream_close(stream)


cdef void connections_accept(Connections* connections, int listener) noexcept nogil:
    cdef Stream stream
    cdef uint64_t address
    cdef status_t status
    cdef bint is_local = listener == connections.local_listener
    for _ in range(TUNE_ACCEPTS_PER_TURN):
        status = stream_accept(&stream, listener)
        if status == STALE:
            continue
        if status == OVERLOADED:
            connections.accept_ns = connections.now_ns + ACCEPT_PAUSE_NS
        if status != OK:
            return
        connections.counters.accepted += 1
        address = <uint64_t>ADDRESS_LOCAL if is_local else address_of_socket(stream.fd)
        if _is_let_in(connections, stream.fd, address):
            _begin(connections, &stream, is_local, address)
        else:
            _turn_away(connections, &stream)


cdef void connection_prove(Connections* connections, Connection* connection) noexcept nogil:
    if connection.unbound != UNBOUND_NONE:
        unbound_remove(&connections.unbound, connection.unbound)
        connection.unbound = UNBOUND_NONE


cdef void connection_close(Connections* connections, Connection* connection) noexcept nogil:
    cdef uint32_t generation = connection.generation
    cdef uint32_t place = connection.place
    if connection.state == CONNECTION_FREE:
        return
    connections.rules.closed(connections, connection)
    stream_close(&connection.stream)
    connection_prove(connections, connection)       # its place among strangers is free
    connections.part_bytes -= connection.received.size
    connections.answer_bytes -= connection.counted
    connection.received.release()
    connection.out.release()
    memset(connection, 0, connections.item_bytes)
    connection.generation = generation + 1
    stream_init(&connection.stream)
    connections.free.push(place)        # there is room: each place stands in it once
    connections.counters.connections -= 1


# --- turns ------------------------------------------------------------------------------------------------------------
cdef void _mark_dirty(Connections* connections, Connection* connection) noexcept nogil:
    if not connection.is_dirty and connections.dirty.push(connection.place):
        connection.is_dirty = True


cdef void connection_count(Connections* connections, Connection* connection) noexcept nogil:
    cdef uint64_t bytes = connection.out.capacity + connection.parked_bytes
    connections.answer_bytes += bytes - connection.counted
    connection.counted = bytes


cdef void connection_touch(Connections* connections, Connection* connection) noexcept nogil:
    connection_count(connections, connection)
    _mark_dirty(connections, connection)


cdef void connection_next_turn(Connections* connections, Connection* connection) noexcept nogil:
    connection.waits_for_turn = True
    _mark_dirty(connections, connection)


cdef bint connection_wait(Connections* connections, Connection* connection) noexcept nogil:
    if not connection.is_waiting:
        connection.is_waiting = connections.waiting.push(connection.place)
    return connection.is_waiting


cdef void connection_end(Connections* connections, Connection* connection) noexcept nogil:
    if connection.state == CONNECTION_FREE:
        return
    connection.state = CONNECTION_CLOSING
    _mark_dirty(connections, connection)


cdef void connection_fail(Connections* connections, Connection* connection) noexcept nogil:
    if connection.state == CONNECTION_FREE:
        return
    connection.out.clear()
    connection.out_offset = 0
    connection.is_blocked = False       # what the socket has taken is gone; what it has not, nobody waits for
    connection_end(connections, connection)


# --- bytes in ---------------------------------------------------------------------------------------------------------
cdef bint _has_gone(const Connection* connection) noexcept nogil:
    return connection.state == CONNECTION_FREE or connection.state == CONNECTION_CLOSING or connection.has_ended


# Frames at the beginning of bytes while there is room; the bytes that they took.
cdef size_t _take_frames(Connections* connections, Connection* connection, const uint8_t* bytes,
                         size_t length) noexcept nogil:
    cdef size_t used = 0
    cdef size_t total
    while (used < length and (connection.state == CONNECTION_OPEN or connection.state == CONNECTION_GREETING)
            and not connection.has_ended and connections.rules.has_room(connections, connection)):
        if connections.turn_bytes >= TUNE_TURN_BYTES:
            connection_next_turn(connections, connection)
            break
        total = 0
        if connections.rules.take(connections, connection, bytes + used, length - used, &total) != OK:
            break
        used += total
    return used


cdef void _set_reading(Connections* connections, Connection* connection) noexcept nogil:
    # One that ends is read on, so that its client's last bytes do not become a reset that takes our answer along.
    cdef bint is_reading = (_has_gone(connection)
                            or (connection.received.size < connections.limits.frame_bytes_max
                                and not connection.waits_for_turn
                                and connections.rules.has_room(connections, connection)))
    if connection.is_reading != is_reading:
        connection.is_reading = is_reading
        if not _watch_descriptor(connections, connection, posix.EPOLL_CTL_MOD):
            connection_fail(connections, connection)
    # One that is blocked is looked at when its socket takes bytes. Nothing else tells the others of room.
    if (connections.rules.is_room_common and not is_reading and not connection.waits_for_turn
            and (connection.received.size != 0 or not connection.is_blocked)):
        connection_wait(connections, connection)


# Whether so many more bytes of what is no whole frame yet may be kept.
cdef status_t _room_for(const Connections* connections, const Connection* connection, size_t length) noexcept nogil:
    if connection.received.size + length <= TUNE_SMALL_BYTES:
        return OK
    if connections.part_bytes + length > connections.limits.part_bytes_max:
        return OVERLOADED
    if (connection.account != NULL and connections.limits.quotas.bytes_max != 0
            and load_shared(&connection.account.part_bytes) + length > (
                connections.limits.quotas.bytes_max + TUNE_READ_BYTES + connections.limits.frame_bytes_max)):
        return QUOTA_EXCEEDED       # one frame, and what was read behind it, always has room
    return OK


# False: there is no room for it, and the connection ends.
cdef bint _keep(Connections* connections, Connection* connection, const uint8_t* bytes, size_t length) noexcept nogil:
    cdef status_t status = _room_for(connections, connection, length)
    if connection.received.size == 0:
        connection.part_ns = connections.now_ns
    if status != OK:
        connections.rules.refuse(connections, connection, status)
        return False
    if not connection.received.append(bytes, length):
        connection_fail(connections, connection)
        return False
    connections.part_bytes += length
    if connection.account != NULL:
        add_shared(&connection.account.part_bytes, <uint64_t>length)
    return True


cdef void connection_readable(Connections* connections, Connection* connection) noexcept nogil:
    cdef ssize_t got
    cdef size_t used
    if connection.stream.tls != NULL and not stream_is_secured(&connection.stream):
        if connections.handshake_steps >= TUNE_HANDSHAKE_STEPS_PER_TURN:
            return          # epoll tells again in the next turn
        connections.handshake_steps += 1
    got = stream_read(&connection.stream, connections.buffer, TUNE_READ_BYTES)
    if got == STREAM_WOULD_BLOCK:
        return
    if got <= 0:
        if stream_refusal(&connection.stream) != OK:
            connections.counters.refused += 1
            _audit(connections, &connection.audit_address, stream_refusal(&connection.stream))
        connection_close(connections, connection)
        return
    connection.heard_ns = connections.now_ns
    if _has_gone(connection):
        return
    if connection.received.size != 0:
        if _keep(connections, connection, connections.buffer, <size_t>got):
            connection_resume(connections, connection)
        return
    used = _take_frames(connections, connection, connections.buffer, <size_t>got)
    if _has_gone(connection):
        return
    if used == <size_t>got or _keep(connections, connection, connections.buffer + used, <size_t>got - used):
        _set_reading(connections, connection)


cdef void connection_resume(Connections* connections, Connection* connection) noexcept nogil:
    cdef size_t used
    if _has_gone(connection):
        return
    if connection.received.size != 0:
        used = _take_frames(connections, connection, connection.received.data, connection.received.size)
        connection.received.drop_front(used)
        connections.part_bytes -= used
        if connection.account != NULL:
            subtract_shared(&connection.account.part_bytes, <uint64_t>used)
        if used != 0:
            connection.part_ns = connections.now_ns
        if connection.received.size == 0 and connection.received.capacity > TUNE_KEPT_BYTES:
            connection.received.release()
    _set_reading(connections, connection)


# --- bytes out --------------------------------------------------------------------------------------------------------
cdef void _flush(Connections* connections, Connection* connection) noexcept nogil:
    cdef Slice part
    cdef ssize_t sent = 0
    cdef bint was_blocked = connection.is_blocked
    part.chunk = NULL
    part.data = connection.out.data
    part.length = <uint32_t>connection.out.size
    if connection.out_offset < connection.out.size:
        sent = stream_write(&connection.stream, &part, 1, <uint32_t>connection.out_offset)
        if sent < 0 and sent != STREAM_WOULD_BLOCK:
            connection_close(connections, connection)
            return
        if sent > 0:
            connection.out_offset += <size_t>sent
            connection.sent_ns = connections.now_ns
    connection.is_blocked = connection.out_offset < connection.out.size
    if not connection.is_blocked:
        connection.out.clear()
        connection.out_offset = 0
        if connection.out.capacity > TUNE_KEPT_BYTES:
            connection.out.release()
            connection_count(connections, connection)
        if connection.state == CONNECTION_CLOSING:
            connection_close(connections, connection)
            return
    elif not was_blocked:
        connection.sent_ns = connections.now_ns     # from here on it must read
    if connection.is_blocked != was_blocked and not _watch_descriptor(connections, connection, posix.EPOLL_CTL_MOD):
        connection_close(connections, connection)


cdef void connection_writable(Connections* connections, Connection* connection) noexcept nogil:
    cdef uint32_t generation = connection.generation
    _flush(connections, connection)
    if connection.generation != generation:
        return
    connection.waits_for_turn = False
    connections.rules.go(connections, connection)
    connection_resume(connections, connection)


cdef void connections_flush(Connections* connections) noexcept nogil:
    cdef size_t count = connections.dirty.size
    cdef size_t i
    cdef Connection* connection
    for i in range(count):      # one that has more to send, or more to do, stands behind them now
        connection = connection_in(connections, connections.dirty.data[i])
        if not connection.is_dirty:
            continue
        connection.is_dirty = False
        if not connection.is_blocked:
            connection_writable(connections, connection)
    connections.dirty.drop_front(count)


cdef void connections_wake(Connections* connections) noexcept nogil:
    cdef size_t count = connections.waiting.size
    cdef size_t i
    cdef Connection* connection
    for i in range(count):
        connection = connection_in(connections, connections.waiting.data[i])
        if not connection.is_waiting:
            continue                # another connection has its place
        connection.is_waiting = False
        if connection.paused_ns > connections.now_ns:
            connection_wait(connections, connection)
            continue
        connection.paused_ns = 0
        if connection.state == CONNECTION_CONNECTING or connection.state == CONNECTION_OPEN:
            connections.rules.go(connections, connection)
        connection_resume(connections, connection)
    connections.waiting.drop_front(count)


# --- who has to go ----------------------------------------------------------------------------------------------------
cdef void _evict(Connections* connections, Connection* connection) noexcept nogil:
    connections.counters.evicted += 1
    connection_close(connections, connection)


cdef void connections_expire(Connections* connections) noexcept nogil:
    cdef uint32_t first
    while connections.unbound.first != UNBOUND_NONE:
        first = connections.unbound.first
        if connections.now_ns - connections.unbound.entries[first].since_ns < connections.limits.hello_timeout_ns:
            return
        _evict(connections, connection_in(connections, connections.unbound.entries[first].place))


cdef void connections_drop_revoked(Connections* connections) noexcept nogil:
    cdef Connection* connection
    cdef uint32_t place
    for place in range(connections.limits.connections_max):
        connection = connection_in(connections, place)
        if connection.state != CONNECTION_FREE and stream_is_revoked(&connection.stream):
            _evict(connections, connection)


cdef void connections_relieve(Connections* connections, uint64_t most) noexcept nogil:
    cdef Connection* connection
    cdef Connection* largest
    cdef uint32_t place
    while connections.answer_bytes > most:
        largest = connection_in(connections, 0)
        for place in range(connections.limits.connections_max):
            connection = connection_in(connections, place)
            if connection.counted > largest.counted:
                largest = connection
        if largest.counted == 0:
            return
        _evict(connections, largest)


# Others have to wait for room, or soon must: for that of half frames, and for any.
cdef bint _are_parts_pressed(const Connections* connections) noexcept nogil:
    return connections.part_bytes >= connections.limits.part_bytes_max // 2


cdef bint connections_are_pressed(const Connections* connections) noexcept nogil:
    return (_are_parts_pressed(connections) or connections.bytes_under_way >= connections.limits.bytes_under_way_max
            or connections.answer_bytes >= connections.limits.memory_max)


cdef void connections_sweep(Connections* connections) noexcept nogil:
    cdef uint64_t unread_ns = (connections.limits.unread_pressed_ns if connections_are_pressed(connections)
                               else connections.limits.unread_ns)
    cdef bint are_parts_pressed = _are_parts_pressed(connections)
    cdef Connection* connection
    cdef uint32_t place
    for place in range(connections.limits.connections_max):
        connection = connection_in(connections, place)
        if connection.state == CONNECTION_FREE:
            continue
        if ((connection.is_blocked and connections.now_ns - connection.sent_ns > unread_ns)     # it does not read
                or (are_parts_pressed and connection.is_reading and connection.received.size != 0
                    and connections.now_ns - connection.part_ns > <uint64_t>PRESSED_NS)
                or connections.rules.is_overdue(connections, connection)):
            _evict(connections, connection)
