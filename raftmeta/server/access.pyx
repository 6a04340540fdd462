"""The questions that the principal of a connection may ask of this node: bodies.

A table is held for one question and dropped.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.loop.loop cimport READER_CLIENTS, loop_enter, loop_leave
from raftmeta.machine.plan cimport compare_bytes
from raftmeta.machine.rights cimport rights_drop, rights_hold, rights_token_name
from raftmeta.machine.rights_show cimport PAGE_SELF, PAGE_USERS
from raftmeta.machine.rights_state cimport (RIGHT_ADMIN, RIGHT_LEASE, RIGHT_MEMBER, RIGHT_READ, RIGHT_SNAPSHOT,
                                            RIGHT_WATCH, TOKEN_NAME_BYTES, RightsTable, TableRole, TableToken,
                                            TableUser)
from raftmeta.machine.rights_table cimport rights_allow, table_token, table_user
from raftmeta.machine.state cimport Machine
from raftmeta.status cimport AUTHENTICATION_FAILED, OK, PERMISSION_DENIED
from raftmeta.wire.client_messages cimport (REQUEST_AUTHENTICATE, REQUEST_CHANGE, REQUEST_COMMAND, REQUEST_FLIGHT,
                                            REQUEST_GET, REQUEST_GROUPS, REQUEST_LEASES, REQUEST_MACHINE_READ,
                                            REQUEST_MEET, REQUEST_PIECE, REQUEST_PING, REQUEST_RANGE, REQUEST_RIGHTS,
                                            REQUEST_SNAPSHOT, REQUEST_TRANSFER, REQUEST_UNWATCH, REQUEST_WATCH)
from raftmeta.wire.commands cimport command_speak


# --- who asks ---------------------------------------------------------------------------------------------------------
cdef RightsTable* access_hold(ClientServer* server) noexcept nogil:
    cdef Machine* machine = loop_enter(server.loop, READER_CLIENTS)
    cdef RightsTable* table = rights_hold(&machine.rights) if machine != NULL else NULL
    loop_leave(server.loop, READER_CLIENTS)
    return table


# The user that the connection proved to be; NULL: none that still counts.
cdef const TableUser* _user_of(const RightsTable* table, const ClientConnection* connection) noexcept nogil:
    cdef const TableUser* user
    cdef const TableToken* token
    if connection.principal.name_length == 0:
        return NULL
    user = table_user(table, connection.principal.name, connection.principal.name_length)
    if connection.principal.token != 0:
        token = table_token(table, connection.principal.token)
        if token == NULL or token.user != user or token.since > connection.principal.rights_revision:
            return NULL
        return user
    if user != NULL and user.since > connection.principal.rights_revision:
        return NULL
    return user


cdef uint64_t access_revision(ClientServer* server) noexcept nogil:
    cdef RightsTable* table = access_hold(server)
    cdef uint64_t revision = 0
    if table != NULL:
        revision = table.revision
        rights_drop(table)
    return revision


cdef bint access_has_proved(ClientServer* server, const ClientConnection* connection) noexcept nogil:
    cdef RightsTable* table = access_hold(server)
    cdef bint has_proved = not (server.limits.needs_rights or (table != NULL and table.is_enabled))
    if table != NULL:
        has_proved = has_proved or _user_of(table, connection) != NULL
        rights_drop(table)
    return has_proved


# --- keys -------------------------------------------------------------------------------------------------------------
# While rights are off.
cdef inline status_t _unguarded(const ClientServer* server) noexcept nogil:
    return <status_t>AUTHENTICATION_FAILED if server.limits.needs_rights else OK


# start NULL: over any range at all.
cdef bint _has(const TableUser* user, uint8_t right, const Bytes* start, const Bytes* end, bint is_key) noexcept nogil:
    if start == NULL:
        return (user.rights & (right | RIGHT_ADMIN)) != 0
    return rights_allow(user, right, start, end, is_key)


cdef status_t _may(ClientServer* server, const ClientConnection* connection, uint8_t rights, const Bytes* start,
                   const Bytes* end, bint is_key) noexcept nogil:
    cdef RightsTable* table = access_hold(server)
    cdef const TableUser* user
    cdef status_t status = OK
    cdef int position = 0
    if table == NULL:
        return _unguarded(server)
    if not table.is_enabled:
        status = _unguarded(server)
    else:
        user = _user_of(table, connection)
        status = OK if user != NULL else <status_t>AUTHENTICATION_FAILED
        if user != NULL and user.secret.flags != 0:     # it must choose a password, or a name, before all else
            status = PERMISSION_DENIED
        while status == OK and rights >> position:
            if rights >> position & 1 and not _has(user, <uint8_t>(1 << position), start, end, is_key):
                status = PERMISSION_DENIED
            position += 1
    rights_drop(table)
    if status != OK:
        server.counters.denied += 1
    return status


cdef Bytes _window(const uint8_t* data, size_t length) noexcept nogil:
    cdef Bytes window
    window.data = data
    window.length = <uint32_t>length
    return window


cdef status_t access_of_request(ClientServer* server, const ClientConnection* connection,
                                const ClientRequest* request) noexcept nogil:
    if request.kind in (REQUEST_COMMAND, REQUEST_AUTHENTICATE, REQUEST_PING, REQUEST_UNWATCH):
        return OK               # a command is decided at apply
    if request.kind == REQUEST_GET or request.kind == REQUEST_MACHINE_READ:
        return _may(server, connection, RIGHT_READ, &request.key, NULL, True)
    if request.kind == REQUEST_RANGE or request.kind == REQUEST_GROUPS:     # a group tells something of each key in it
        return _may(server, connection, RIGHT_READ, &request.key, &request.end, False)
    if request.kind == REQUEST_WATCH:
        return _may(server, connection, RIGHT_READ | RIGHT_WATCH, &request.key, &request.end, False)
    if request.kind == REQUEST_SNAPSHOT or request.kind == REQUEST_PIECE:
        return _may(server, connection, RIGHT_SNAPSHOT, NULL, NULL, False)
    if request.kind in (REQUEST_TRANSFER, REQUEST_CHANGE, REQUEST_MEET):
        return _may(server, connection, RIGHT_MEMBER, NULL, NULL, False)
    if request.kind == REQUEST_FLIGHT:      # stacks of the host's Python are in it
        return _may(server, connection, RIGHT_ADMIN, NULL, NULL, False)
    if request.kind == REQUEST_RIGHTS:
        return access_of_listing(server, connection, request.flags, &request.key, request.limit)
    if request.kind == REQUEST_LEASES:
        return _may(server, connection, RIGHT_LEASE, NULL, NULL, False)
    return _may(server, connection, 0, NULL, NULL, False)      # anybody who proved to be somebody


cdef status_t access_of_pending(ClientServer* server, const ClientConnection* connection, const ClientPending* pending,
                                const uint8_t* bytes) noexcept nogil:
    cdef ClientRequest request
    if pending.kind == REQUEST_WATCH:
        return OK               # access_of_watch looks at each of its items
    memset(&request, 0, sizeof(ClientRequest))
    # A GET is held as the range up to its successor.
    request.kind = REQUEST_RANGE if pending.kind == REQUEST_GET else pending.kind
    request.key = _window(bytes, pending.key_length)
    request.end = _window(bytes + pending.key_length,
                          pending.length - pending.key_length - pending.delimiter_length)
    return access_of_request(server, connection, &request)


# Whether the page is about the user alone, or about one role that it has.
cdef bint _is_own_page(const RightsTable* table, const TableUser* user, uint8_t page, const Bytes* name,
                       uint32_t limit) noexcept nogil:
    cdef const TableRole* role
    cdef uint32_t i
    if limit != 1:
        return False
    if page == PAGE_USERS:
        return compare_bytes(user.name, user.name_length, name.data, name.length) == 0
    for i in range(user.role_count):
        role = &table.roles.data[user.roles[i]]
        if compare_bytes(role.name, role.name_length, name.data, name.length) == 0:
            return True
    return False


cdef status_t access_of_listing(ClientServer* server, const ClientConnection* connection, uint8_t page,
                                const Bytes* name, uint32_t limit) noexcept nogil:
    cdef RightsTable* table
    cdef const TableUser* user
    cdef bint is_own = False
    if page == PAGE_SELF:
        return _may(server, connection, 0, NULL, NULL, False)
    table = access_hold(server)
    if table != NULL:
        user = _user_of(table, connection) if table.is_enabled else NULL
        is_own = user != NULL and user.secret.flags == 0 and _is_own_page(table, user, page, name, limit)
        rights_drop(table)
    return OK if is_own else _may(server, connection, RIGHT_ADMIN, NULL, NULL, False)


cdef bint access_of_watch(ClientServer* server, const ClientConnection* connection, ClientWatch* watch) noexcept nogil:
    cdef uint64_t revision = access_revision(server)
    cdef Bytes start = _window(watch.bounds.data, watch.start_length)
    cdef Bytes end = _window(watch.bounds.data + watch.start_length, watch.bounds.size - watch.start_length)
    if revision == watch.rights_revision:
        return True
    if _may(server, connection, RIGHT_READ | RIGHT_WATCH, &start, &end, False) != OK:
        return False
    watch.rights_revision = revision
    return True


cdef bint access_to_all(ClientServer* server, const ClientConnection* connection) noexcept nogil:
    cdef Bytes none = _window(NULL, 0)
    return _may(server, connection, RIGHT_READ, &none, &none, False) == OK


# --- commands and leases ----------------------------------------------------------------------------------------------
cdef status_t access_speak(ClientServer* server, const ClientConnection* connection, Bytes* payload,
                           Vec[uint8_t]* out) noexcept nogil:
    cdef RightsTable* table = access_hold(server)
    cdef Bytes name = _window(connection.principal.name, connection.principal.name_length)
    cdef uint8_t[TOKEN_NAME_BYTES] token
    cdef bint is_enabled
    cdef status_t status
    if table == NULL:
        return _unguarded(server)
    is_enabled = table.is_enabled
    rights_drop(table)
    if not is_enabled and server.limits.needs_rights:
        return AUTHENTICATION_FAILED
    if name.length == 0:
        return <status_t>AUTHENTICATION_FAILED if is_enabled else OK
    if connection.principal.token != 0:
        rights_token_name(connection.principal.token, token)
        name = _window(token, TOKEN_NAME_BYTES)
    out.clear()
    status = command_speak(&name, connection.principal.rights_revision, payload.data, payload.length, out)
    payload[0] = _window(out.data, out.size)
    return status


cdef bint access_is_guarded(ClientServer* server) noexcept nogil:
    cdef RightsTable* table = access_hold(server)
    cdef bint is_enabled = False
    if table != NULL:
        is_enabled = table.is_enabled
        rights_drop(table)
    return is_enabled


cdef void access_owner(ClientServer* server, const ClientConnection* connection, uint64_t* owner) noexcept nogil:
    cdef RightsTable* table = access_hold(server)
    cdef const TableUser* user
    owner[0] = 0
    if table == NULL:
        return
    if table.is_enabled:
        user = _user_of(table, connection)
        if user != NULL and not user.rights & RIGHT_ADMIN:
            owner[0] = user.number
    rights_drop(table)
