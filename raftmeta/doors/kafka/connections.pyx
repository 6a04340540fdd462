"""Connections of Kafka's clients: the rules of Kafka's protocol for connections from outside.

It decides how large a frame may be, and who has to prove a user first. It must never touch a socket, or look behind the
head of a request.

A quota of requests that is used up delays the connection, as Kafka's do: nothing of it is read until later.
"""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.connections.accounts cimport accounts_attach, accounts_detach, accounts_spend
from raftmeta.connections.connections cimport connection_fail, connection_prove, connection_wait
from raftmeta.connections.state cimport (CONNECTION_CONNECTING, CONNECTION_GREETING, CONNECTION_OPEN, Connection,
                                         ConnectionRules, Connections)
from raftmeta.doors.kafka.access cimport access_by_certificate, access_must_prove
from raftmeta.doors.kafka.audit cimport audit_refused
from raftmeta.doors.kafka.codec cimport KAFKA_LENGTH_BYTES
from raftmeta.doors.kafka.requests cimport requests_drop, requests_go, requests_have_room, requests_take
from raftmeta.doors.kafka.sasl cimport sasl_allows, sasl_release
from raftmeta.doors.kafka.state cimport KAFKA_FIRST_FRAME_BYTES_MAX, KAFKA_FRAME_BYTES_MAX, KafkaConnection
from raftmeta.status cimport AUTHENTICATION_FAILED, BAD_LENGTH, INCOMPLETE, OK, QUOTA_EXCEEDED, status_t

cdef enum:
    IDLE_NS = 600_000_000_000       # Kafka's connections.max.idle.ms
    HEAD_BYTES = 8                  # key, version, correlation id


cdef void _opened(Connections* connections, Connection* base) noexcept nogil:
    pass


cdef void _closed(Connections* connections, Connection* base) noexcept nogil:
    requests_drop(<KafkaDoor*>connections, <KafkaConnection*>base)
    sasl_release(<KafkaConnection*>base)
    accounts_detach(base)


# The first frame of a connection: who is at the other end is known as well as it can be without SASL.
cdef bint _greet(KafkaDoor* door, KafkaConnection* connection) noexcept nogil:
    cdef status_t status
    access_by_certificate(connection)
    status = accounts_attach(&door.desk.base, &connection.base, connection.name, connection.name_length)
    if status != OK:
        audit_refused(door, connection, status)
        connection_fail(&door.desk.base, &connection.base)
        return False
    connection.base.state = CONNECTION_OPEN
    if not access_must_prove(door, connection):
        connection_prove(&door.desk.base, &connection.base)
    return True


# Over its quota: it is read again later. False: it is not.
cdef bint _waits(KafkaDoor* door, KafkaConnection* connection, uint32_t length) noexcept nogil:
    cdef uint64_t wait_ns = 0
    if accounts_spend(&door.desk.base, &connection.base, length, False, &wait_ns) == 0:
        return False
    if connection.base.paused_ns == 0 and connection_wait(&door.desk.base, &connection.base):
        door.desk.base.counters.over_quota += 1
        connection.base.paused_ns = door.desk.base.now_ns + wait_ns
    return True


cdef status_t _look(KafkaDoor* door, KafkaConnection* connection, const uint8_t* bytes, size_t length,
                    size_t* used) noexcept nogil:
    cdef uint32_t most = KAFKA_FRAME_BYTES_MAX if connection.base.unbound == 0 else KAFKA_FIRST_FRAME_BYTES_MAX
    cdef uint32_t size = 0
    cdef int i
    used[0] = 0
    if length < KAFKA_LENGTH_BYTES:
        return INCOMPLETE
    for i in range(KAFKA_LENGTH_BYTES):
        size = size << 8 | bytes[i]
    if size > most:
        return BAD_LENGTH
    if length < KAFKA_LENGTH_BYTES + <size_t>size:
        return INCOMPLETE
    if connection.base.state == CONNECTION_GREETING and not _greet(door, connection):
        return QUOTA_EXCEEDED
    if _waits(door, connection, size):
        return INCOMPLETE
    if not sasl_allows(door, connection, bytes + KAFKA_LENGTH_BYTES, size):
        audit_refused(door, connection, AUTHENTICATION_FAILED)
        return AUTHENTICATION_FAILED
    used[0] = KAFKA_LENGTH_BYTES + size
    return requests_take(door, connection, bytes + KAFKA_LENGTH_BYTES, size)


cdef status_t _take(Connections* connections, Connection* base, const uint8_t* bytes, size_t length,
                    size_t* used) noexcept nogil:
    cdef status_t status = _look(<KafkaDoor*>connections, <KafkaConnection*>base, bytes, length, used)
    if status != OK and status != INCOMPLETE:
        _refuse(connections, base, status)
    return status


cdef bint _has_room(const Connections* connections, const Connection* base) noexcept nogil:
    return requests_have_room(<const KafkaDoor*>connections, <const KafkaConnection*>base)


cdef void _go(Connections* connections, Connection* base) noexcept nogil:
    requests_go(<KafkaDoor*>connections, <KafkaConnection*>base)


# Kafka's protocol has no word for it.
cdef void _refuse(Connections* connections, Connection* base, status_t status) noexcept nogil:
    connections.counters.refused += 1
    connection_fail(connections, base)


cdef bint _is_overdue(Connections* connections, Connection* base) noexcept nogil:
    return (base.state == CONNECTION_OPEN and (<const KafkaConnection*>base).first == NULL
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


cdef const ConnectionRules* kafka_rules() noexcept nogil:
    return &RULES


cdef void connections_fail_all(KafkaDoor* door) noexcept nogil:
    cdef uint32_t place
    for place in range(door.desk.base.limits.connections_max):
        if door.connections[place].base.state in (CONNECTION_OPEN, CONNECTION_CONNECTING):
            connection_fail(&door.desk.base, &door.connections[place].base)
