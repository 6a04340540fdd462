"""Who speaks in a call of the etcd door: bodies.

Source: etcd server/auth store.go AuthInfoFromCtx, AuthInfoFromTLS, isOpPermitted.
"""

from libc.stdint cimport uint8_t

from raftmeta.connections.accounts cimport accounts_attach
from raftmeta.connections.connections cimport connection_prove
from raftmeta.connections.state cimport Connection
from raftmeta.doors.desk.users cimport (Speaker, users_find, users_hold, users_look, users_may, users_must_prove,
                                        users_speaker_may)
from raftmeta.doors.etcd.calls cimport call_end
from raftmeta.doors.etcd.state cimport CODE_INVALID_ARGUMENT, CODE_PERMISSION_DENIED, CODE_UNAUTHENTICATED
from raftmeta.doors.etcd.tokens cimport token_read
from raftmeta.machine.rights cimport rights_drop
from raftmeta.machine.rights_state cimport RightsTable, TableUser
from raftmeta.status cimport AUTHENTICATION_FAILED, OK, PERMISSION_DENIED, status_t


cdef bint access_must_prove(EtcdDoor* door, const EtcdConnection* connection) noexcept nogil:
    return users_must_prove(&door.desk, door.limits.needs_rights, &connection.speaker)


# --- tokens -----------------------------------------------------------------------------------------------------------
cdef bint _is_good(EtcdDoor* door, EtcdCall* call, const RightsTable* table, const Bytes* token) noexcept nogil:
    return (table.has_seed and token_read(table.seed, token, door.desk.status.machine.lease_ms, &call.speaker)
            and users_find(table, &call.speaker) != NULL)


# A connection without a certificate belongs to the user of its first token: it is no stranger any more, and counts for
# that user. One for which the user has no room stays a stranger.
cdef void access_by_token(EtcdDoor* door, EtcdCall* call, const Bytes* token) noexcept nogil:
    cdef EtcdConnection* connection = call.connection
    cdef RightsTable* table = users_hold(&door.desk)
    if table == NULL:
        return
    call.is_token_bad = table.is_enabled and not _is_good(door, call, table, token)
    if (table.is_enabled and not call.is_token_bad and connection.speaker.name_length == 0
            and accounts_attach(&door.desk.base, &connection.base, call.speaker.name,
                                call.speaker.name_length) == OK):
        connection.speaker = call.speaker
        if connection.base.unbound != 0:
            connection_prove(&door.desk.base, &connection.base)
    rights_drop(table)


# --- calls ------------------------------------------------------------------------------------------------------------
cdef bint _refuse(EtcdDoor* door, EtcdCall* call, bint is_known) noexcept nogil:
    door.counters.denied += 1
    call.status = PERMISSION_DENIED if is_known else <status_t>AUTHENTICATION_FAILED
    if call.is_token_bad:
        call_end(door, call, CODE_UNAUTHENTICATED, b"etcdserver: invalid auth token")
    elif is_known:
        call_end(door, call, CODE_PERMISSION_DENIED, b"etcdserver: permission denied")
    else:
        call_end(door, call, CODE_INVALID_ARGUMENT, b"etcdserver: user name is empty")
    return False


cdef bint access_allows(EtcdDoor* door, EtcdCall* call, uint8_t rights, const Bytes* start,
                        const Bytes* end) noexcept nogil:
    cdef RightsTable* table
    cdef const TableUser* user = NULL
    cdef bint may = not door.limits.needs_rights
    if call.connection == NULL:
        return False
    table = users_hold(&door.desk)
    if table != NULL:
        if table.is_enabled:
            user = users_find(table, &call.speaker) if not call.is_token_bad else NULL
            may = users_may(user, rights, start, end)
        rights_drop(table)
    return True if may else _refuse(door, call, user != NULL)


cdef bint access_may(EtcdDoor* door, const EtcdCall* call, uint8_t rights, const Bytes* start,
                     const Bytes* end) noexcept nogil:
    return (not call.is_token_bad
            and users_speaker_may(&door.desk, door.limits.needs_rights, &call.speaker, rights, start, end))


# One on which nobody proved anything stays: its calls are refused, and the client that turned rights on hears so.
cdef const Speaker* _speaker_of(const Connection* connection) noexcept nogil:
    cdef const EtcdConnection* etcd = <const EtcdConnection*>connection
    return &etcd.speaker if etcd.speaker.name_length else NULL


cdef void access_look(EtcdDoor* door) noexcept nogil:
    users_look(&door.desk, _speaker_of, &door.rights_revision)
