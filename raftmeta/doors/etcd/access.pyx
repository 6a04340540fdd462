"""Who speaks on a connection of the etcd door: bodies."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from raftmeta.connections.connections cimport connection_fail
from raftmeta.connections.state cimport CONNECTION_OPEN
from raftmeta.doors.etcd.calls cimport call_end
from raftmeta.doors.etcd.state cimport CODE_INVALID_ARGUMENT, CODE_PERMISSION_DENIED
from raftmeta.loop.loop cimport READER_ETCD, loop_enter, loop_leave
from raftmeta.machine.rights cimport rights_drop, rights_hold
from raftmeta.machine.rights_state cimport RIGHT_ADMIN, RightsTable, TableUser
from raftmeta.machine.rights_table cimport rights_allow, table_user
from raftmeta.machine.state cimport Machine
from raftmeta.security.identity cimport ROLE_CLIENT
from raftmeta.security.tls_state cimport TlsSession
from raftmeta.status cimport AUTHENTICATION_FAILED, PERMISSION_DENIED, status_t


# The users of now, held; NULL: there never were any. The machine of this turn may be pinned already; then it is the one
# to ask.
cdef RightsTable* _table(EtcdDoor* door) noexcept nogil:
    cdef Machine* machine
    cdef RightsTable* table
    if door.desk.machine != NULL:
        return rights_hold(&door.desk.machine.rights)
    machine = loop_enter(door.desk.loop, READER_ETCD)
    table = rights_hold(&machine.rights) if machine != NULL else NULL
    loop_leave(door.desk.loop, READER_ETCD)
    return table


cdef void access_by_certificate(EtcdConnection* connection) noexcept nogil:
    cdef const TlsSession* tls = connection.base.stream.tls
    if tls == NULL or not tls.is_ready or tls.identity.role != ROLE_CLIENT:
        return
    connection.name_length = tls.identity.name_length
    memcpy(connection.name, tls.identity.name, tls.identity.name_length)
    connection.is_certified = True


cdef const TableUser* _user_of(const RightsTable* table, const EtcdConnection* connection) noexcept nogil:
    cdef const TableUser* user
    if not connection.is_certified:
        return NULL
    user = table_user(table, connection.name, connection.name_length)
    return user if user != NULL and user.secret.flags == 0 else NULL


cdef bint access_must_prove(EtcdDoor* door, const EtcdConnection* connection) noexcept nogil:
    cdef RightsTable* table = _table(door)
    cdef bint must = door.limits.needs_rights
    if table != NULL:
        if table.is_enabled:
            must = _user_of(table, connection) == NULL
        rights_drop(table)
    return must


cdef bint _has(const TableUser* user, uint8_t right, const Bytes* start, const Bytes* end) noexcept nogil:
    if start == NULL:
        return user.rights & (right | RIGHT_ADMIN) != 0
    return rights_allow(user, right, start, end, False)


cdef bint _refuse(EtcdDoor* door, EtcdCall* call, bint is_known) noexcept nogil:
    door.counters.denied += 1
    call.status = PERMISSION_DENIED if is_known else <status_t>AUTHENTICATION_FAILED
    if is_known:
        call_end(door, call, CODE_PERMISSION_DENIED, b"etcdserver: permission denied")
    else:
        call_end(door, call, CODE_INVALID_ARGUMENT, b"etcdserver: user name is empty")
    return False


cdef bint access_allows(EtcdDoor* door, EtcdCall* call, uint8_t rights, const Bytes* start,
                        const Bytes* end) noexcept nogil:
    cdef RightsTable* table
    cdef const TableUser* user
    cdef bint is_known
    cdef bint may = True
    cdef int position = 0
    if call.connection == NULL:
        return False
    table = _table(door)
    if table == NULL:
        return True if not door.limits.needs_rights else _refuse(door, call, False)
    if not table.is_enabled:
        rights_drop(table)
        return True if not door.limits.needs_rights else _refuse(door, call, False)
    user = _user_of(table, call.connection)
    is_known = user != NULL
    may = is_known
    while may and rights >> position:
        if rights >> position & 1:
            may = _has(user, <uint8_t>(1 << position), start, end)
        position += 1
    rights_drop(table)
    return True if may else _refuse(door, call, is_known)


cdef bint access_may(EtcdDoor* door, const EtcdConnection* connection, uint8_t rights, const Bytes* start,
                     const Bytes* end) noexcept nogil:
    cdef RightsTable* table = _table(door)
    cdef const TableUser* user
    cdef bint may = not door.limits.needs_rights
    cdef int position = 0
    if table == NULL:
        return may
    if table.is_enabled:
        user = _user_of(table, connection)
        may = user != NULL
        while may and rights >> position:
            if rights >> position & 1:
                may = _has(user, <uint8_t>(1 << position), start, end)
            position += 1
    rights_drop(table)
    return may


cdef void access_look(EtcdDoor* door) noexcept nogil:
    cdef RightsTable* table = _table(door)
    cdef const EtcdConnection* connection
    cdef uint64_t revision
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
