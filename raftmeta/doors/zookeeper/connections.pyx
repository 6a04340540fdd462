"""Connections of ZooKeeper clients: the rules of ZooKeeper's protocol for connections from outside.

It decides what the first bytes of a connection are, and who is there. It must never touch a socket, or look into a
request.

Strangers: a connection without a session has a first frame of ZK_CONNECT_BYTES_MAX. A word of four letters is answered,
and the connection ends.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.connections.accounts cimport accounts_detach
from raftmeta.connections.connections cimport connection_end, connection_fail
from raftmeta.connections.state cimport (CONNECTION_CONNECTING, CONNECTION_GREETING, CONNECTION_OPEN, Connection,
                                         ConnectionRules, Connections)
from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.zookeeper.audit cimport audit_refused
from raftmeta.doors.zookeeper.auth cimport speaker_add_ip, speaker_add_x509, speaker_init, speaker_release
from raftmeta.doors.zookeeper.codec cimport (ZK_CONNECT_BYTES_MAX, ZK_LENGTH_BYTES, ZkConnect, zk_connect_decode,
                                             zk_frame_look)
from raftmeta.doors.zookeeper.four_letter cimport WORD_BYTES, WORD_NONE, FourLetterWord, four_letter_find
from raftmeta.doors.zookeeper.output cimport connection_appended, connection_has_room
from raftmeta.doors.zookeeper.quotas cimport quotas_attach
from raftmeta.doors.zookeeper.requests cimport requests_drop, requests_go, requests_take
from raftmeta.doors.zookeeper.sessions cimport sessions_connect, sessions_go, sessions_leave
from raftmeta.doors.zookeeper.state cimport ZK_FRAME_BYTES_MAX, ZkConnection
from raftmeta.doors.zookeeper.watch_table cimport watch_table_drop
from raftmeta.doors.zookeeper.words cimport word_answer
from raftmeta.net cimport posix
from raftmeta.net.posix cimport sockaddr, sockaddr_storage, socklen_t
from raftmeta.net.stream cimport stream_is_secured
from raftmeta.security.tls cimport tls_subject
from raftmeta.status cimport BAD_LENGTH, INCOMPLETE, OK, QUOTA_EXCEEDED, status_t
from raftmeta.wire.commands cimport Bytes

cdef extern from "<sys/socket.h>" nogil:
    int getpeername(int fd, sockaddr* address, socklen_t* length)

cdef enum:
    SUBJECT_BYTES_MAX = 512         # of a client's certificate
    NS_PER_MS = 1_000_000


# --- open and close ---------------------------------------------------------------------------------------------------
cdef void _add_ip(ZkConnection* connection) noexcept nogil:
    cdef sockaddr_storage storage
    cdef const uint8_t* bytes = <const uint8_t*>&storage
    cdef socklen_t length = sizeof(sockaddr_storage)
    memset(&storage, 0, sizeof(storage))
    if getpeername(connection.base.stream.fd, <sockaddr*>&storage, &length) != 0:
        return
    if storage.ss_family == posix.AF_INET:          # sockaddr_in: family, port, address
        speaker_add_ip(&connection.speaker, bytes + 4, 4)
    elif storage.ss_family == posix.AF_INET6:       # sockaddr_in6: family, port, flow, address
        speaker_add_ip(&connection.speaker, bytes + 8, 16)


cdef void _add_subject(ZkConnection* connection) noexcept nogil:
    cdef uint8_t[SUBJECT_BYTES_MAX] bytes
    cdef Bytes subject
    if not stream_is_secured(&connection.base.stream):
        return
    subject = bytes_of(bytes, tls_subject(connection.base.stream.tls, bytes, SUBJECT_BYTES_MAX))
    if subject.length != 0:
        speaker_add_x509(&connection.speaker, &subject)


cdef void _opened(Connections* connections, Connection* base) noexcept nogil:
    cdef ZkConnection* connection = <ZkConnection*>base
    speaker_init(&connection.speaker)
    _add_ip(connection)


cdef void _closed(Connections* connections, Connection* base) noexcept nogil:
    cdef ZkDoor* door = <ZkDoor*>connections
    cdef ZkConnection* connection = <ZkConnection*>base
    if connection.session != 0:
        sessions_leave(door, connection)
    watch_table_drop(&door.table, &connection.watches)
    requests_drop(door, connection)
    speaker_release(&connection.speaker)
    accounts_detach(base)


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
        connection.base.has_ended = True
        word_answer(door, connection, word, &connection.base.out)
        connection_appended(door, connection)
        connection_end(&door.desk.base, &connection.base)
        return OK
    status = zk_frame_look(bytes, length, ZK_CONNECT_BYTES_MAX, used)
    if status != OK:
        if status == INCOMPLETE:
            used[0] = 0
        return status
    status = zk_connect_decode(bytes + ZK_LENGTH_BYTES, <uint32_t>(used[0] - ZK_LENGTH_BYTES), &connect)
    if status == OK:
        _add_subject(connection)
        if quotas_attach(door, connection) == OK:
            sessions_connect(door, connection, &connect)
        else:
            audit_refused(door, connection, QUOTA_EXCEEDED)
            connection_fail(&door.desk.base, &connection.base)
    return status


# The next frame at bytes.
cdef status_t _look(ZkDoor* door, ZkConnection* connection, const uint8_t* bytes, size_t length,
                    size_t* used) noexcept nogil:
    cdef status_t status
    if connection.base.state == CONNECTION_GREETING:
        return _greet(door, connection, bytes, length, used)
    status = zk_frame_look(bytes, length, ZK_FRAME_BYTES_MAX, used)
    if status == OK and used[0] == ZK_LENGTH_BYTES:
        return BAD_LENGTH
    if status == OK:
        status = requests_take(door, connection, bytes + ZK_LENGTH_BYTES, <uint32_t>(used[0] - ZK_LENGTH_BYTES))
    return status


cdef status_t _take(Connections* connections, Connection* base, const uint8_t* bytes, size_t length,
                    size_t* used) noexcept nogil:
    cdef status_t status = _look(<ZkDoor*>connections, <ZkConnection*>base, bytes, length, used)
    if status != OK and status != INCOMPLETE:
        _refuse(connections, base, status)
    return status


cdef bint _has_room(const Connections* connections, const Connection* base) noexcept nogil:
    return connection_has_room(<const ZkDoor*>connections, <const ZkConnection*>base)


cdef void _go(Connections* connections, Connection* base) noexcept nogil:
    if base.state == CONNECTION_CONNECTING:
        sessions_go(<ZkDoor*>connections, <ZkConnection*>base)
    else:
        requests_go(<ZkDoor*>connections, <ZkConnection*>base)


# --- who has to go ----------------------------------------------------------------------------------------------------
# ZooKeeper's protocol has no word for it.
cdef void _refuse(Connections* connections, Connection* base, status_t status) noexcept nogil:
    connections.counters.refused += 1
    connection_fail(connections, base)


# Nothing else notices the silence of a session that no lease stands for.
cdef bint _is_overdue(Connections* connections, Connection* base) noexcept nogil:
    cdef const ZkConnection* connection = <const ZkConnection*>base
    return (base.state == CONNECTION_OPEN and connection.is_read_only
            and connections.now_ns - base.heard_ns > <uint64_t>connection.timeout_ms * NS_PER_MS)


cdef ConnectionRules RULES
RULES.opened = _opened
RULES.take = _take
RULES.has_room = _has_room
RULES.go = _go
RULES.refuse = _refuse
RULES.is_overdue = _is_overdue
RULES.closed = _closed
RULES.is_room_common = True


cdef const ConnectionRules* zookeeper_rules() noexcept nogil:
    return &RULES


cdef void connections_fail_all(ZkDoor* door, bint with_read_only, bint with_others) noexcept nogil:
    cdef ZkConnection* connection
    cdef uint32_t place
    for place in range(door.desk.base.limits.connections_max):
        connection = &door.connections[place]
        if connection.base.state not in (CONNECTION_OPEN, CONNECTION_CONNECTING):
            continue
        if with_read_only if connection.is_read_only else with_others:
            connection_fail(&door.desk.base, &connection.base)
