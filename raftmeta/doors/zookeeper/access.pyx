"""Who may use the ZooKeeper door: bodies."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from raftmeta.connections.connections cimport connection_fail
from raftmeta.connections.state cimport CONNECTION_OPEN
from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.zookeeper.auth cimport speaker_identities
from raftmeta.doors.zookeeper.state cimport ROOT_BYTES_MAX
from raftmeta.doors.zookeeper.texts cimport text_is
from raftmeta.loop.loop cimport READER_DOORS, loop_enter, loop_leave
from raftmeta.machine.rights cimport rights_drop, rights_hold
from raftmeta.machine.rights_state cimport (RIGHT_LEASE, RIGHT_READ, RIGHT_WATCH, RIGHT_WRITE, RightsTable, TableUser)
from raftmeta.machine.rights_table cimport rights_allow, table_user
from raftmeta.machine.state cimport Machine
from raftmeta.net.stream cimport stream_is_secured
from raftmeta.security.identity cimport ROLE_CLIENT
from raftmeta.security.tls_state cimport TlsSession
from raftmeta.status cimport OK
from raftmeta.wire.commands cimport Bytes
from raftmeta.wire.znodes cimport Identity


cdef Bytes access_principal(ZkDoor* door, const ZkConnection* connection, bint* is_certified) noexcept nogil:
    cdef const Identity* identity
    cdef size_t i
    is_certified[0] = stream_is_secured(&connection.base.stream)
    if is_certified[0]:
        return bytes_of(connection.base.stream.tls.identity.name, connection.base.stream.tls.identity.name_length)
    if speaker_identities(&connection.speaker, &door.arena.identities) != OK:
        door.arena.identities.clear()
    for i in range(door.arena.identities.size):
        identity = &door.arena.identities.data[i]
        if text_is(&identity.scheme, b"digest") or text_is(&identity.scheme, b"sasl"):
            return identity.id
    return bytes_of(NULL, 0)


# The machine of this turn may be pinned already (reads.pyx); then it is the one to ask.
cdef RightsTable* _table(ZkDoor* door) noexcept nogil:
    cdef Machine* machine
    cdef RightsTable* table
    if door.desk.machine != NULL:
        return rights_hold(&door.desk.machine.rights)
    machine = loop_enter(door.desk.loop, READER_DOORS)
    table = rights_hold(&machine.rights) if machine != NULL else NULL
    loop_leave(door.desk.loop, READER_DOORS)
    return table


cdef bint _has_all(const ZkDoor* door, const TableUser* user) noexcept nogil:
    cdef uint8_t[ROOT_BYTES_MAX + 1] low
    cdef uint8_t[ROOT_BYTES_MAX + 1] high
    cdef uint8_t[4] needed
    cdef Bytes start, end
    cdef int i
    memcpy(low, door.root, door.root_length)
    memcpy(high, door.root, door.root_length)
    low[door.root_length] = c'/'
    high[door.root_length] = c'/' + 1
    start = bytes_of(low, door.root_length + 1)
    end = bytes_of(high, door.root_length + 1)
    needed[0] = RIGHT_READ
    needed[1] = RIGHT_WRITE
    needed[2] = RIGHT_WATCH
    needed[3] = RIGHT_LEASE
    for i in range(4):
        if not rights_allow(user, needed[i], &start, &end, False):
            return False
    return True


cdef const TableUser* _user_of(const RightsTable* table, const ZkConnection* connection) noexcept nogil:
    cdef const TlsSession* tls = connection.base.stream.tls
    cdef const TableUser* user
    if tls == NULL or not tls.is_ready or tls.identity.role != ROLE_CLIENT:
        return NULL
    user = table_user(table, tls.identity.name, tls.identity.name_length)
    return user if user != NULL and user.secret.flags == 0 else NULL


cdef bint access_allows(ZkDoor* door, const ZkConnection* connection) noexcept nogil:
    cdef RightsTable* table = _table(door)
    cdef const TableUser* user
    cdef bint may = not door.limits.needs_rights
    if table == NULL:
        return may
    if table.is_enabled:
        user = _user_of(table, connection)
        may = user != NULL and _has_all(door, user)
    rights_drop(table)
    return may


cdef void access_look(ZkDoor* door) noexcept nogil:
    cdef RightsTable* table = _table(door)
    cdef uint64_t revision = 0
    cdef uint32_t place
    if table != NULL:
        revision = table.revision
        rights_drop(table)
    if revision == door.rights_revision:
        return
    door.rights_revision = revision
    for place in range(door.desk.base.limits.connections_max):
        if door.connections[place].base.state == CONNECTION_OPEN and not access_allows(door, &door.connections[place]):
            connection_fail(&door.desk.base, &door.connections[place].base)
