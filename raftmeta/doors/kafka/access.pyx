"""Who speaks on a connection of the Kafka door: bodies."""

from libc.stdint cimport int16_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from raftmeta.connections.connections cimport connection_fail
from raftmeta.connections.state cimport CONNECTION_OPEN
from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.desk.users cimport users_hold, users_may
from raftmeta.doors.kafka.audit cimport audit_blocks
from raftmeta.doors.kafka.protocol cimport (KAFKA_COORDINATOR_NOT_AVAILABLE, KAFKA_GROUP_AUTHORIZATION_FAILED,
                                            KAFKA_INVALID_GROUP_ID, KAFKA_OK)
from raftmeta.machine.rights cimport rights_drop
from raftmeta.machine.rights_state cimport RIGHT_READ, RIGHT_WRITE, RightsTable, TableUser
from raftmeta.machine.rights_table cimport table_user
from raftmeta.security.identity cimport ROLE_CLIENT
from raftmeta.security.tls_state cimport TlsSession
from raftmeta.wire.commands cimport KEY_BYTES_MAX


cdef RightsTable* access_table(KafkaDoor* door) noexcept nogil:
    return users_hold(&door.desk)


cdef void access_by_certificate(KafkaConnection* connection) noexcept nogil:
    cdef const TlsSession* tls = connection.base.stream.tls
    if tls == NULL or not tls.is_ready or tls.identity.role != ROLE_CLIENT:
        return
    connection.name_length = tls.identity.name_length
    memcpy(connection.name, tls.identity.name, tls.identity.name_length)
    connection.is_certified = True


# A password that was changed since proves nobody any more. No change of rights makes a certificate old.
cdef const TableUser* _user_of(const RightsTable* table, const KafkaConnection* connection) noexcept nogil:
    cdef const TableUser* user
    if connection.name_length == 0:
        return NULL
    user = table_user(table, connection.name, connection.name_length)
    if user == NULL or user.secret.flags != 0:
        return NULL
    return user if connection.is_certified or connection.rights_since >= user.since else NULL


cdef bint access_must_prove(KafkaDoor* door, const KafkaConnection* connection) noexcept nogil:
    cdef RightsTable* table = access_table(door)
    cdef bint must = door.limits.needs_rights
    if table != NULL:
        if table.is_enabled:
            must = _user_of(table, connection) == NULL
        rights_drop(table)
    return must


cdef bint access_allows(KafkaDoor* door, const KafkaConnection* connection, uint8_t rights, const Bytes* start,
                        const Bytes* end) noexcept nogil:
    cdef RightsTable* table = access_table(door)
    cdef bint may = not door.limits.needs_rights
    if table == NULL:
        return may
    if table.is_enabled:
        may = users_may(_user_of(table, connection), rights, start, end)
    rights_drop(table)
    return may


cdef bint access_group(KafkaDoor* door, KafkaRequest* request, const Bytes* key, bint is_change) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX + 1] high
    cdef uint8_t rights = RIGHT_READ | RIGHT_WRITE if is_change else RIGHT_READ
    cdef Bytes end
    memcpy(high, key.data, key.length)
    high[key.length] = 1                # the members' keys are the group's, a zero byte, and their ids
    end = bytes_of(high, key.length + 1)
    if request.connection != NULL and access_allows(door, request.connection, rights, key, &end):
        return True
    request.is_denied = True
    return False


cdef int16_t access_change(KafkaDoor* door, KafkaRequest* request, const Bytes* key) noexcept nogil:
    if key.length == 0:
        return KAFKA_INVALID_GROUP_ID
    if not access_group(door, request, key, True):
        return KAFKA_GROUP_AUTHORIZATION_FAILED
    return KAFKA_COORDINATOR_NOT_AVAILABLE if audit_blocks(door) else <int16_t>KAFKA_OK


cdef void access_look(KafkaDoor* door) noexcept nogil:
    cdef RightsTable* table = access_table(door)
    cdef const KafkaConnection* connection
    cdef uint64_t revision = 0
    cdef uint32_t place
    if table == NULL:
        return
    revision = table.revision
    if revision != door.rights_revision and table.is_enabled:
        for place in range(door.desk.base.limits.connections_max):
            connection = &door.connections[place]
            if (connection.base.state == CONNECTION_OPEN and connection.base.unbound == 0
                    and _user_of(table, connection) == NULL):
                connection_fail(&door.desk.base, &door.connections[place].base)
    door.rights_revision = revision
    rights_drop(table)
