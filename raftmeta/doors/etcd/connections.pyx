"""Connections of etcd's clients: bodies.

It decides by the first bytes which transport a connection speaks. It must never touch a socket, or look into a message.
"""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp

from raftmeta.connections.accounts cimport accounts_attach, accounts_detach
from raftmeta.connections.connections cimport connection_end, connection_fail
from raftmeta.connections.state cimport (CONNECTION_GREETING, CONNECTION_OPEN,
                                         Connection, ConnectionRules, Connections)
from raftmeta.doors.desk.users cimport users_by_certificate
from raftmeta.doors.etcd.calls cimport calls_drop, calls_expire, calls_go, calls_have_room
from raftmeta.doors.etcd.gateway cimport gateway_close, gateway_open, gateway_send, gateway_take
from raftmeta.doors.etcd.http2 cimport http2_close, http2_open, http2_send, http2_take
from raftmeta.doors.etcd.state cimport TRANSPORT_HTTP1, TRANSPORT_HTTP2, EtcdConnection
from raftmeta.security.audit_queue cimport AUDIT_BY_ETCD, AUDIT_PORT_ETCD, audit_push_refusal
from raftmeta.status cimport BAD_MAGIC, INCOMPLETE, NO_MEMORY, OK, status_t

cdef enum:
    IDLE_NS = 3_600_000_000_000     # so long a connection without a call may say nothing
    PREFACE_BYTES = 4

cdef const char* PREFACE = b"PRI "      # RFC 9113 3.4; no method of HTTP/1 begins so


cdef void _opened(Connections* connections, Connection* base) noexcept nogil:
    pass


cdef void _closed(Connections* connections, Connection* base) noexcept nogil:
    cdef EtcdConnection* connection = <EtcdConnection*>base
    calls_drop(<EtcdDoor*>connections, connection)
    if connection.transport == TRANSPORT_HTTP2:
        http2_close(connection)
    elif connection.transport == TRANSPORT_HTTP1:
        gateway_close(<EtcdDoor*>connections, connection)
    accounts_detach(base)


cdef void _refuse(Connections* connections, Connection* base, status_t status) noexcept nogil:
    connections.counters.refused += 1
    if connections.audit != NULL:
        audit_push_refusal(connections.audit, AUDIT_BY_ETCD, AUDIT_PORT_ETCD, &base.audit_address, status,
                           connections.now_ns)
    connection_fail(connections, base)


# The first bytes of a connection: who is at the other end is known as well as it can be, and what it speaks.
cdef status_t _greet(EtcdDoor* door, EtcdConnection* connection, const uint8_t* bytes, size_t length) noexcept nogil:
    cdef status_t status
    cdef bint is_http2 = memcmp(bytes, PREFACE, min(length, <size_t>PREFACE_BYTES)) == 0
    if not is_http2 and not c'A' <= bytes[0] <= c'Z':
        return BAD_MAGIC
    if is_http2 and length < PREFACE_BYTES:
        return INCOMPLETE
    users_by_certificate(&connection.base, &connection.speaker)
    status = accounts_attach(&door.desk.base, &connection.base, connection.speaker.name,
                             connection.speaker.name_length)
    if status != OK:
        return status
    connection.transport = TRANSPORT_HTTP2 if is_http2 else TRANSPORT_HTTP1
    connection.base.state = CONNECTION_OPEN
    return OK if (http2_open(door, connection) if is_http2 else gateway_open(connection)) else <status_t>NO_MEMORY


cdef status_t _take(Connections* connections, Connection* base, const uint8_t* bytes, size_t length,
                    size_t* used) noexcept nogil:
    cdef EtcdDoor* door = <EtcdDoor*>connections
    cdef EtcdConnection* connection = <EtcdConnection*>base
    cdef status_t status
    used[0] = 0
    if base.state == CONNECTION_GREETING:
        status = _greet(door, connection, bytes, length)
        if status != OK:
            if status != INCOMPLETE:
                _refuse(connections, base, status)
            return status
    if connection.transport == TRANSPORT_HTTP1:
        return gateway_take(door, connection, bytes, length, used)
    used[0] = length
    if not http2_take(door, connection, bytes, length):
        connections.counters.refused += 1
        connection_end(connections, base)
    return OK


cdef bint _has_room(const Connections* connections, const Connection* base) noexcept nogil:
    return calls_have_room(<const EtcdDoor*>connections, <const EtcdConnection*>base)


cdef void _send(EtcdDoor* door, EtcdConnection* connection) noexcept nogil:
    if connection.transport == TRANSPORT_HTTP1:
        gateway_send(door, connection)
    elif connection.base.state == CONNECTION_OPEN and not http2_send(door, connection):
        connection_end(&door.desk.base, &connection.base)


cdef void _go(Connections* connections, Connection* base) noexcept nogil:
    if base.state != CONNECTION_OPEN:
        return
    calls_go(<EtcdDoor*>connections, <EtcdConnection*>base)
    _send(<EtcdDoor*>connections, <EtcdConnection*>base)


cdef bint _is_overdue(Connections* connections, Connection* base) noexcept nogil:
    return (base.state == CONNECTION_OPEN and (<const EtcdConnection*>base).calls == NULL
            and connections.now_ns - base.heard_ns > <uint64_t>IDLE_NS)


cdef ConnectionRules RULES
RULES.opened = _opened
RULES.take = _take
RULES.has_room = _has_room
RULES.go = _go
RULES.refuse = _refuse
RULES.is_overdue = _is_overdue
RULES.closed = _closed
RULES.is_room_common = True


cdef const ConnectionRules* etcd_rules() noexcept nogil:
    return &RULES


cdef void connections_tell(EtcdDoor* door) noexcept nogil:
    cdef EtcdConnection* connection
    cdef size_t i
    for i in range(door.told.size):
        connection = &door.connections[door.told.data[i]]
        if connection.is_told:
            connection.is_told = False
            _send(door, connection)
    door.told.clear()


cdef void connections_expire_calls(EtcdDoor* door) noexcept nogil:
    cdef uint32_t place
    for place in range(door.desk.base.limits.connections_max):
        if door.connections[place].base.state == CONNECTION_OPEN:
            calls_expire(door, &door.connections[place])
