"""Users at a door: bodies."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from raftmeta.connections.connections cimport connection_fail
from raftmeta.connections.state cimport CONNECTION_OPEN, connection_in
from raftmeta.loop.loop cimport loop_enter, loop_leave
from raftmeta.machine.rights cimport rights_drop, rights_hold
from raftmeta.machine.rights_state cimport RIGHT_ADMIN
from raftmeta.machine.rights_table cimport rights_allow, table_user
from raftmeta.machine.state cimport Machine
from raftmeta.security.identity cimport ROLE_CLIENT
from raftmeta.security.tls_state cimport TlsSession


# The machine of this turn may be pinned already; then it is the one to ask.
cdef RightsTable* users_hold(Desk* desk) noexcept nogil:
    cdef Machine* machine
    cdef RightsTable* table
    if desk.machine != NULL:
        return rights_hold(&desk.machine.rights)
    machine = loop_enter(desk.loop, desk.reader)
    table = rights_hold(&machine.rights) if machine != NULL else NULL
    loop_leave(desk.loop, desk.reader)
    return table


cdef void users_by_certificate(const Connection* connection, Speaker* speaker) noexcept nogil:
    cdef const TlsSession* tls = connection.stream.tls
    if tls == NULL or not tls.is_ready or tls.identity.role != ROLE_CLIENT:
        return
    speaker.name_length = tls.identity.name_length
    memcpy(speaker.name, tls.identity.name, tls.identity.name_length)
    speaker.is_certified = True


cdef const TableUser* users_find(const RightsTable* table, const Speaker* speaker) noexcept nogil:
    cdef const TableUser* user
    if speaker.name_length == 0:
        return NULL
    user = table_user(table, speaker.name, speaker.name_length)
    if user == NULL or user.secret.flags != 0:
        return NULL
    return user if speaker.is_certified or speaker.since >= user.since else NULL


cdef bint _has(const TableUser* user, uint8_t right, const Bytes* start, const Bytes* end) noexcept nogil:
    if start == NULL:
        return user.rights & (right | RIGHT_ADMIN) != 0
    return rights_allow(user, right, start, end, False)


cdef bint users_may(const TableUser* user, uint8_t rights, const Bytes* start, const Bytes* end) noexcept nogil:
    cdef int position = 0
    if user == NULL:
        return False
    while rights >> position:
        if rights >> position & 1 and not _has(user, <uint8_t>(1 << position), start, end):
            return False
        position += 1
    return True


cdef bint users_speaker_may(Desk* desk, bint needs_rights, const Speaker* speaker, uint8_t rights, const Bytes* start,
                            const Bytes* end) noexcept nogil:
    cdef RightsTable* table = users_hold(desk)
    cdef bint may = not needs_rights
    if table != NULL:
        if table.is_enabled:
            may = users_may(users_find(table, speaker), rights, start, end)
        rights_drop(table)
    return may


cdef bint users_must_prove(Desk* desk, bint needs_rights, const Speaker* speaker) noexcept nogil:
    cdef RightsTable* table = users_hold(desk)
    cdef bint must = needs_rights
    if table != NULL:
        if table.is_enabled:
            must = users_find(table, speaker) == NULL
        rights_drop(table)
    return must


cdef void users_look(Desk* desk, const Speaker* (*speaker_of)(const Connection* connection) noexcept nogil,
                     uint64_t* seen) noexcept nogil:
    cdef RightsTable* table = users_hold(desk)
    cdef Connection* connection
    cdef const Speaker* speaker
    cdef uint32_t place
    if table == NULL:
        return
    if table.revision != seen[0] and table.is_enabled:
        for place in range(desk.base.limits.connections_max):
            connection = connection_in(&desk.base, place)
            if connection.state != CONNECTION_OPEN or connection.unbound != 0:
                continue
            speaker = speaker_of(connection)
            if speaker != NULL and users_find(table, speaker) == NULL:
                connection_fail(&desk.base, connection)
    seen[0] = table.revision
    rights_drop(table)
