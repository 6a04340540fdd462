"""Connections of ZooKeeper clients.

It decides how much one connection may have unread, and when it is closed. It must never wait for a connection, take
memory for a length that was only claimed, or look into a request.

Bounds of a connection's memory: `received` holds at most one frame that is not whole and one read behind it, since
nothing more is read while requests wait there. output.pyx bounds `out`, requests under way and all of them together.

Strangers: a connection without a session has hello_timeout_ns in all, a first frame of ZK_CONNECT_BYTES_MAX, and a
place in ZkDoor.unbound. A word of four letters is answered, and the connection ends.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.doors.zookeeper.audit cimport audit_refused
from raftmeta.doors.zookeeper.auth cimport speaker_add_ip, speaker_add_x509, speaker_init, speaker_release
from raftmeta.doors.zookeeper.codec cimport (ZK_CONNECT_BYTES_MAX, ZK_LENGTH_BYTES, ZkConnect, zk_connect_decode,
                                             zk_frame_look)
from raftmeta.doors.zookeeper.four_letter cimport WORD_BYTES, WORD_NONE, FourLetterWord, four_letter_find
from raftmeta.doors.zookeeper.output cimport (connection_count, connection_end, connection_fail, connection_has_room,
                                              connection_next_turn, connection_touch)
from raftmeta.doors.zookeeper.requests cimport requests_drop, requests_go, requests_take
from raftmeta.doors.zookeeper.rounds cimport wait_in_line
from raftmeta.doors.zookeeper.sessions cimport sessions_connect, sessions_go, sessions_leave
from raftmeta.doors.zookeeper.state cimport (TUNE_TURN_BYTES, ZK_CLOSING, ZK_CONNECTING, ZK_FRAME_BYTES_MAX, ZK_FREE,
                                             ZK_GREETING, ZK_OPEN, bytes_of, place_of)
from raftmeta.doors.zookeeper.watch_table cimport watch_table_drop
from raftmeta.doors.zookeeper.words cimport word_answer
from raftmeta.native.chunks cimport Slice
from raftmeta.net cimport posix
from raftmeta.net.posix cimport sockaddr, sockaddr_storage, socklen_t
from raftmeta.net.stream cimport (STREAM_WOULD_BLOCK, Stream, stream_accept, stream_close, stream_init,
                                  stream_is_revoked, stream_is_secured, stream_read, stream_refusal, stream_secure,
                                  stream_write)
from raftmeta.net.unbound cimport (UNBOUND_NONE, address_of_socket, unbound_add, unbound_look, unbound_remove)
from raftmeta.security.tls cimport tls_subject
from raftmeta.status cimport BAD_LENGTH, INCOMPLETE, OK, OVERLOADED, STALE, status_t
from raftmeta.wire.commands cimport Bytes

cdef extern from "<sys/socket.h>" nogil:
    int getpeername(int fd, sockaddr* address, socklen_t* length)

cdef enum:
    TUNE_READ_BYTES = 1 << 18       # read at once; the size of ZkDoor.buffer
    TUNE_ACCEPTS_PER_TURN = 64
    TUNE_HANDSHAKE_STEPS_PER_TURN = 4
    TUNE_KEPT_BYTES = 1 << 12       # buffers of an idle connection that are larger are given back
    ACCEPT_PAUSE_NS = 100_000_000   # without descriptors
    SUBJECT_BYTES_MAX = 512         # of a client's certificate
    UNREAD_NS = 30_000_000_000      # so long a client may leave what it was sent
    PRESSED_NS = 1_000_000_000      # ... and a frame half said, while it takes others the room


# --- open and close ---------------------------------------------------------------------------------------------------
cdef bint _watch_descriptor(ZkDoor* door, ZkConnection* connection, int verb) noexcept nogil:
    cdef posix.epoll_event event
    event.events = ((posix.EPOLLIN if connection.is_reading else 0)
                    | (posix.EPOLLOUT if connection.is_blocked else 0))
    event.data.u64 = <uint64_t>(connection.generation & <uint32_t>0xFFFFFF) << 32 | place_of(door, connection)
    return posix.epoll_ctl(door.epoll, verb, connection.stream.fd, &event) == 0


# Whether this socket may become a connection; another one may have given way to it.
cdef bint _is_let_in(ZkDoor* door, int descriptor, uint64_t address) noexcept nogil:
    cdef uint32_t gives_way
    if (<uint64_t>descriptor >= door.descriptors_max
            or unbound_look(&door.unbound, address, door.now_ns, &gives_way) != OK):
        return False
    if gives_way != UNBOUND_NONE:
        door.counters.evicted += 1
        connection_close(door, &door.connections[door.unbound.entries[gives_way].place])
    return door.free.size != 0


cdef void _add_ip(ZkConnection* connection) noexcept nogil:
    cdef sockaddr_storage storage
    cdef const uint8_t* bytes = <const uint8_t*>&storage
    cdef socklen_t length = sizeof(sockaddr_storage)
    memset(&storage, 0, sizeof(storage))
    if getpeername(connection.stream.fd, <sockaddr*>&storage, &length) != 0:
        return
    if storage.ss_family == posix.AF_INET:          # sockaddr_in: family, port, address
        speaker_add_ip(&connection.speaker, bytes + 4, 4)
    elif storage.ss_family == posix.AF_INET6:       # sockaddr_in6: family, port, flow, address
        speaker_add_ip(&connection.speaker, bytes + 8, 16)


cdef void _add_subject(ZkConnection* connection) noexcept nogil:
    cdef uint8_t[SUBJECT_BYTES_MAX] bytes
    cdef Bytes subject
    if not stream_is_secured(&connection.stream):
        return
    subject = bytes_of(bytes, tls_subject(connection.stream.tls, bytes, SUBJECT_BYTES_MAX))
    if subject.length != 0:
        speaker_add_x509(&connection.speaker, &subject)


cdef void _begin(ZkDoor* door, Stream* stream, uint64_t address) noexcept nogil:
    cdef ZkConnection* connection = &door.connections[door.free.back()]
    door.free.pop()
    connection.stream = stream[0]
    connection.state = ZK_GREETING
    connection.is_reading = True
    connection.heard_ns = connection.sent_ns = door.now_ns
    connection.address = address
    speaker_init(&connection.speaker)
    _add_ip(connection)
    connection.unbound = unbound_add(&door.unbound, address, place_of(door, connection), door.now_ns)
    door.counters.connections += 1
    if (connection.unbound == UNBOUND_NONE
            or (door.tls.context != NULL and not stream_secure(&connection.stream, &door.tls, NULL))
            or not _watch_descriptor(door, connection, posix.EPOLL_CTL_ADD)):
        connection_close(door, connection)


cdef void connections_accept(ZkDoor* door) noexcept nogil:
    cdef Stream stream
    cdef uint64_t address
    cdef int status
    for _ in range(TUNE_ACCEPTS_PER_TURN):
        status = stream_accept(&stream, door.listener)
        if status == STALE:
            continue
        if status == OVERLOADED:
            door.accept_ns = door.now_ns + ACCEPT_PAUSE_NS
        if status != OK:
            return
        door.counters.accepted += 1
        address = address_of_socket(stream.fd)
        if _is_let_in(door, stream.fd, address):
            _begin(door, &stream, address)
        else:
            door.counters.turned_away += 1
            stream_close(&stream)


cdef void connection_close(ZkDoor* door, ZkConnection* connection) noexcept nogil:
    cdef uint32_t generation = connection.generation
    if connection.state == ZK_FREE:
        return
    if connection.session != 0:
        sessions_leave(door, connection)
    watch_table_drop(&door.table, &connection.watches)
    requests_drop(door, connection)
    stream_close(&connection.stream)
    if connection.unbound != UNBOUND_NONE:
        unbound_remove(&door.unbound, connection.unbound)
    door.part_bytes -= connection.received.size
    door.answer_bytes -= connection.counted
    connection.received.release()
    connection.out.release()
    speaker_release(&connection.speaker)
    memset(connection, 0, sizeof(ZkConnection))
    connection.generation = generation + 1
    stream_init(&connection.stream)
    door.free.push(place_of(door, connection))      # there is room: each place stands in it once
    door.counters.connections -= 1


# --- bytes in ---------------------------------------------------------------------------------------------------------
# The first bytes: a word of four letters, or a connect request. *used: bytes taken of them; 0: more are needed.
# BAD_LENGTH: neither.
cdef status_t _greet(ZkDoor* door, ZkConnection* connection, const uint8_t* bytes, size_t length,
                     size_t* used) noexcept nogil:
    cdef FourLetterWord word
    cdef ZkConnect connect
    cdef status_t status
    used[0] = 0
    if length < WORD_BYTES:
        return INCOMPLETE
    word = four_letter_find(bytes)
    if word != WORD_NONE:
        used[0] = length
        connection.has_ended = True
        word_answer(door, connection, word, &connection.out)
        connection_touch(door, connection)
        connection_end(door, connection)
        return OK
    status = zk_frame_look(bytes, length, ZK_CONNECT_BYTES_MAX, used)
    if status != OK:
        if status == INCOMPLETE:
            used[0] = 0
        return status
    status = zk_connect_decode(bytes + ZK_LENGTH_BYTES, <uint32_t>(used[0] - ZK_LENGTH_BYTES), &connect)
    if status == OK:
        _add_subject(connection)
        sessions_connect(door, connection, &connect)
    return status


# The next frame at bytes.
cdef status_t _take(ZkDoor* door, ZkConnection* connection, const uint8_t* bytes, size_t length,
                    size_t* used) noexcept nogil:
    cdef status_t status
    if connection.state == ZK_GREETING:
        return _greet(door, connection, bytes, length, used)
    status = zk_frame_look(bytes, length, ZK_FRAME_BYTES_MAX, used)
    if status == OK and used[0] == ZK_LENGTH_BYTES:
        return BAD_LENGTH
    if status == OK:
        status = requests_take(door, connection, bytes + ZK_LENGTH_BYTES, <uint32_t>(used[0] - ZK_LENGTH_BYTES))
    return status


# Requests at the beginning of bytes while there is room; the bytes that they took.
cdef size_t _take_frames(ZkDoor* door, ZkConnection* connection, const uint8_t* bytes, size_t length) noexcept nogil:
    cdef size_t used = 0
    cdef size_t total = 0
    cdef status_t status
    while (used < length and connection.state in (ZK_GREETING, ZK_OPEN) and not connection.has_ended
            and connection_has_room(door, connection)):
        if door.turn_bytes >= TUNE_TURN_BYTES:
            connection_next_turn(door, connection)
            break
        status = _take(door, connection, bytes + used, length - used, &total)
        if status == INCOMPLETE:
            break
        if status != OK:
            door.counters.refused += 1
            connection_fail(door, connection)
            break
        used += total
    return used


cdef void _set_reading(ZkDoor* door, ZkConnection* connection) noexcept nogil:
    # One that ends is read on, so that its client's last bytes do not become a reset that takes our answer along.
    cdef bint is_reading = (connection.state == ZK_CLOSING or connection.has_ended
                            or (connection.received.size < ZK_FRAME_BYTES_MAX and not connection.waits_for_turn
                                and connection_has_room(door, connection)))
    if connection.is_reading != is_reading:
        connection.is_reading = is_reading
        if not _watch_descriptor(door, connection, posix.EPOLL_CTL_MOD):
            connection_fail(door, connection)
    if not is_reading and connection.state == ZK_OPEN and not connection.waits_for_turn:
        wait_in_line(door, connection)      # others may have to make room for it


cdef bint _keep(ZkDoor* door, ZkConnection* connection, const uint8_t* bytes, size_t length) noexcept nogil:
    if connection.received.size == 0:
        connection.part_ns = door.now_ns
    if (door.part_bytes + length > door.limits.bytes_under_way_max
            or not connection.received.append(bytes, length)):
        door.counters.refused += 1
        connection_fail(door, connection)
        return False
    door.part_bytes += length
    return True


cdef void connection_readable(ZkDoor* door, ZkConnection* connection) noexcept nogil:
    cdef ssize_t got
    cdef size_t used
    if connection.stream.tls != NULL and not stream_is_secured(&connection.stream):
        if door.handshake_steps >= TUNE_HANDSHAKE_STEPS_PER_TURN:
            return          # epoll tells again in the next turn
        door.handshake_steps += 1
    got = stream_read(&connection.stream, door.buffer, TUNE_READ_BYTES)
    if got == STREAM_WOULD_BLOCK:
        return
    if got <= 0:
        if stream_refusal(&connection.stream) != OK:
            audit_refused(door, connection, stream_refusal(&connection.stream))
        connection_close(door, connection)
        return
    connection.heard_ns = door.now_ns
    connection.is_heard = True
    if connection.state == ZK_CLOSING or connection.has_ended:
        return
    if connection.received.size != 0:
        if _keep(door, connection, door.buffer, <size_t>got):
            connection_resume(door, connection)
        return
    used = _take_frames(door, connection, door.buffer, <size_t>got)
    if connection.state == ZK_CLOSING or connection.has_ended:
        return
    if used == <size_t>got or _keep(door, connection, door.buffer + used, <size_t>got - used):
        _set_reading(door, connection)


cdef void connection_resume(ZkDoor* door, ZkConnection* connection) noexcept nogil:
    cdef size_t used
    if connection.state == ZK_CLOSING or connection.has_ended:
        return
    if connection.received.size != 0:
        used = _take_frames(door, connection, connection.received.data, connection.received.size)
        connection.received.drop_front(used)
        door.part_bytes -= used
        if used != 0:
            connection.part_ns = door.now_ns
        if connection.received.size == 0 and connection.received.capacity > TUNE_KEPT_BYTES:
            connection.received.release()
    _set_reading(door, connection)


# --- bytes out --------------------------------------------------------------------------------------------------------
cdef void _flush(ZkDoor* door, ZkConnection* connection) noexcept nogil:
    cdef Slice part
    cdef ssize_t sent = 0
    cdef bint was_blocked = connection.is_blocked
    part.chunk = NULL
    part.data = connection.out.data
    part.length = <uint32_t>connection.out.size
    if connection.out_offset < connection.out.size:
        sent = stream_write(&connection.stream, &part, 1, <uint32_t>connection.out_offset)
        if sent < 0 and sent != STREAM_WOULD_BLOCK:
            connection_close(door, connection)
            return
        if sent > 0:
            connection.out_offset += <size_t>sent
            connection.sent_ns = door.now_ns
    connection.is_blocked = connection.out_offset < connection.out.size
    if not connection.is_blocked:
        connection.out.clear()
        connection.out_offset = 0
        if connection.out.capacity > TUNE_KEPT_BYTES:
            connection.out.release()
            connection_count(door, connection)
        if connection.state == ZK_CLOSING:
            connection_close(door, connection)
            return
    elif not was_blocked:
        connection.sent_ns = door.now_ns        # from here on it must read
    if connection.is_blocked != was_blocked and not _watch_descriptor(door, connection, posix.EPOLL_CTL_MOD):
        connection_close(door, connection)


cdef void connection_writable(ZkDoor* door, ZkConnection* connection) noexcept nogil:
    cdef uint32_t generation = connection.generation
    _flush(door, connection)
    if connection.generation != generation:
        return
    connection.waits_for_turn = False
    requests_go(door, connection)
    connection_resume(door, connection)


cdef void connections_flush(ZkDoor* door) noexcept nogil:
    cdef size_t count = door.dirty.size
    cdef size_t i
    cdef ZkConnection* connection
    for i in range(count):      # one that has more to send, or more to do, stands behind them now
        connection = &door.connections[door.dirty.data[i]]
        if not connection.is_dirty:
            continue
        connection.is_dirty = False
        if not connection.is_blocked:
            connection_writable(door, connection)
    door.dirty.drop_front(count)


# --- those that wait --------------------------------------------------------------------------------------------------
cdef void connections_wake(ZkDoor* door) noexcept nogil:
    cdef size_t count = door.waiting.size
    cdef size_t i
    cdef ZkConnection* connection
    door.has_pause = False
    for i in range(count):
        connection = &door.connections[door.waiting.data[i]]
        if not connection.is_waiting:
            continue                # another connection has its place
        connection.is_waiting = False
        if connection.state == ZK_CONNECTING:
            sessions_go(door, connection)
        elif connection.state == ZK_OPEN:
            requests_go(door, connection)
            connection_resume(door, connection)
    door.waiting.drop_front(count)


cdef void connections_expire(ZkDoor* door) noexcept nogil:
    cdef uint32_t first
    while door.unbound.first != UNBOUND_NONE:
        first = door.unbound.first
        if door.now_ns - door.unbound.entries[first].since_ns < door.limits.hello_timeout_ns:
            return
        door.counters.evicted += 1
        connection_close(door, &door.connections[door.unbound.entries[first].place])


cdef void connections_drop_revoked(ZkDoor* door) noexcept nogil:
    cdef uint32_t place
    for place in range(door.limits.connections_max):
        if door.connections[place].state != ZK_FREE and stream_is_revoked(&door.connections[place].stream):
            door.counters.evicted += 1
            connection_close(door, &door.connections[place])


# Others have to wait for room, or soon must.
cdef bint _is_pressed(const ZkDoor* door) noexcept nogil:
    return (door.bytes_under_way >= door.limits.bytes_under_way_max
            or door.part_bytes >= door.limits.bytes_under_way_max // 2
            or door.answer_bytes >= door.limits.memory_max)


cdef bint _is_overdue(const ZkDoor* door, const ZkConnection* connection, bint is_pressed) noexcept nogil:
    if connection.is_blocked and door.now_ns - connection.sent_ns > <uint64_t>(PRESSED_NS if is_pressed else UNREAD_NS):
        return True     # it does not read
    if (is_pressed and connection.is_reading and connection.received.size != 0
            and door.now_ns - connection.part_ns > <uint64_t>PRESSED_NS):
        return True     # it does not say the rest of a frame
    # Nothing else notices the silence of a session that no lease stands for.
    return (connection.state == ZK_OPEN and connection.is_read_only
            and door.now_ns - connection.heard_ns > <uint64_t>connection.timeout_ms * 1_000_000)


cdef void connections_sweep(ZkDoor* door) noexcept nogil:
    cdef bint is_pressed = _is_pressed(door)
    cdef uint32_t place
    for place in range(door.limits.connections_max):
        if door.connections[place].state != ZK_FREE and _is_overdue(door, &door.connections[place], is_pressed):
            door.counters.evicted += 1
            connection_close(door, &door.connections[place])


cdef void connections_fail_all(ZkDoor* door, bint with_read_only, bint with_others) noexcept nogil:
    cdef ZkConnection* connection
    cdef uint32_t place
    for place in range(door.limits.connections_max):
        connection = &door.connections[place]
        if connection.state not in (ZK_OPEN, ZK_CONNECTING):
            continue
        if with_read_only if connection.is_read_only else with_others:
            connection_fail(door, connection)
