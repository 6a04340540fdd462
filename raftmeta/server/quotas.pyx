"""Quotas of one principal, as clients are told of them: bodies."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.connections.accounts cimport (accounts_attach, accounts_refused, accounts_spend, holding_begin,
                                            holding_end, holding_renew)
from raftmeta.connections.accounts_state cimport Holdings, Quotas
from raftmeta.native.atomics cimport add_shared, load_shared, subtract_shared
from raftmeta.server.pending cimport request_answer
from raftmeta.server.state cimport SETTLES_GRANT, SETTLES_REVOKE, SETTLES_SESSION_CLOSE, SETTLES_SESSION_OPEN
from raftmeta.status cimport OK, OUTCOME_UNKNOWN, QUOTA_EXCEEDED
from raftmeta.wire.client_messages cimport (QUOTA_LEASES, QUOTA_SESSIONS, QUOTA_WATCHES, QUOTA_WINDOW,
                                            REQUEST_AUTHENTICATE, REQUEST_CHANGE, REQUEST_COMMAND, REQUEST_MEET,
                                            REQUEST_PING, REQUEST_TRANSFER, REQUEST_UNWATCH, ClientQuota)
from raftmeta.wire.commands cimport (COMMAND_LEASE_GRANT, COMMAND_LEASE_KEEP_ALIVE, COMMAND_LEASE_REVOKE,
                                     COMMAND_SESSION_CLOSE, COMMAND_SESSION_OPEN)
from raftmeta.wire.msgpack cimport (Reader, Writer, number_max, read_array, read_uint, reader_over, write_array,
                                    write_bin, write_uint, writer_at)

cdef enum:
    NS_PER_MS = 1_000_000
    RESULT_ELEMENTS = 3             # docs/formats.md "Results"
    RESULT_STATUS_MAX = 63


cdef status_t quotas_attach(ClientServer* server, ClientConnection* connection) noexcept nogil:
    return accounts_attach(&server.base, &connection.base, connection.principal.name, connection.principal.name_length)


# --- refusals ---------------------------------------------------------------------------------------------------------
# Refuse the request: which quota of whose, and when to try again (0: not by waiting).
cdef bint _refuse(ClientServer* server, ClientConnection* connection, uint64_t id, ClientQuota quota,
                  uint64_t wait_ns) noexcept nogil:
    cdef Writer writer
    accounts_refused(&server.base, &connection.base)
    if id == 0:
        return False        # it waits for no answer
    server.scratch.clear()
    writer = writer_at(&server.scratch)
    write_array(&writer, 3)
    write_uint(&writer, quota)
    write_uint(&writer, (wait_ns + NS_PER_MS - 1) // NS_PER_MS)
    write_bin(&writer, connection.base.account.name, connection.base.account.name_length)
    request_answer(server, connection, id, QUOTA_EXCEEDED, 0, 0, server.scratch.data,
                   server.scratch.size if writer.status == OK else 0)
    return False


cdef bint _spend(ClientServer* server, ClientConnection* connection, uint64_t id, uint64_t written,
                 bint is_urgent) noexcept nogil:
    cdef uint64_t wait_ns = 0
    cdef ClientQuota quota = accounts_spend(&server.base, &connection.base, written, is_urgent, &wait_ns)
    return quota == 0 or _refuse(server, connection, id, quota, wait_ns)


cdef bint quotas_request(ClientServer* server, ClientConnection* connection,
                         const ClientRequest* request) noexcept nogil:
    if request.kind == REQUEST_COMMAND:
        return True
    # Those give back, prove, or are an operator's.
    return _spend(server, connection, request.id, 0,
                  request.kind in (REQUEST_PING, REQUEST_UNWATCH, REQUEST_AUTHENTICATE, REQUEST_TRANSFER,
                                   REQUEST_CHANGE, REQUEST_MEET))


cdef bint quotas_watch(ClientServer* server, ClientConnection* connection, uint64_t id) noexcept nogil:
    cdef uint32_t most = server.base.limits.quotas.watches_max
    return (most == 0 or load_shared(&connection.base.account.watches) < most
            or _refuse(server, connection, id, QUOTA_WATCHES, 0))


# --- commands ---------------------------------------------------------------------------------------------------------
cdef bint quotas_command(ClientServer* server, ClientConnection* connection, uint64_t id, const Command* command,
                         uint32_t length, bint is_urgent) noexcept nogil:
    cdef const Quotas* quotas = &server.base.limits.quotas
    if not _spend(server, connection, id, length, is_urgent):
        return False
    if command.kind == COMMAND_SESSION_OPEN and command.window > server.limits.session_window:
        return _refuse(server, connection, id, QUOTA_WINDOW, 0)
    if (command.kind == COMMAND_SESSION_OPEN and quotas.sessions_max != 0
            and load_shared(&connection.base.account.sessions) >= quotas.sessions_max
            and server.base.holdings.sessions.find(command.id) == NULL):
        return _refuse(server, connection, id, QUOTA_SESSIONS, 0)
    if (command.kind == COMMAND_LEASE_GRANT and quotas.leases_max != 0
            and load_shared(&connection.base.account.leases) >= quotas.leases_max):
        return _refuse(server, connection, id, QUOTA_LEASES, 0)
    return True


# --- what a command takes and gives back ------------------------------------------------------------------------------
# A lease or session is counted when it is asked for. Its answer says whether it is there, and under which id.
cdef void quotas_note(ClientServer* server, ClientConnection* connection, const Command* command,
                      ClientPending* pending) noexcept nogil:
    cdef size_t i
    pending.settled = command.id
    pending.ttl_ms = command.ttl_ms
    if server.base.limits.quotas.leases_max != 0:
        if command.kind == COMMAND_LEASE_GRANT:
            pending.settles = SETTLES_GRANT
            add_shared(&connection.base.account.leases, <uint32_t>1)
        elif command.kind == COMMAND_LEASE_REVOKE:
            pending.settles = SETTLES_REVOKE
        elif command.kind == COMMAND_LEASE_KEEP_ALIVE:
            for i in range(command.leases.size):
                holding_renew(&server.base.holdings.leases, command.leases.data[i].lease, server.base.now_ns)
    if server.base.limits.quotas.sessions_max != 0:
        if command.kind == COMMAND_SESSION_OPEN:
            pending.settles = SETTLES_SESSION_OPEN
            add_shared(&connection.base.account.sessions, <uint32_t>1)
        elif command.kind == COMMAND_SESSION_CLOSE:
            pending.settles = SETTLES_SESSION_CLOSE
        holding_renew(&server.base.holdings.sessions, command.session or command.id, server.base.now_ns)


# The number in the result of a grant: [status, revision, id]; 0: there is none.
cdef uint64_t _id_in(const uint8_t* body, size_t length) noexcept nogil:
    cdef Reader reader = reader_over(body, length)
    cdef uint64_t id
    read_array(&reader, RESULT_ELEMENTS)
    read_uint(&reader, RESULT_STATUS_MAX)
    read_uint(&reader, number_max())
    id = read_uint(&reader, number_max())
    return id if reader.status == OK else 0


cdef void quotas_settle(ClientServer* server, const ClientPending* pending, status_t status, const uint8_t* body,
                        size_t length) noexcept nogil:
    cdef Holdings* holdings = &server.base.holdings
    cdef uint64_t now_ns = server.base.now_ns
    cdef Account* account = pending.account
    cdef uint64_t id = pending.settled
    cdef bint may_be = status == OK or status >= OUTCOME_UNKNOWN
    if pending.settles == SETTLES_GRANT:
        if id == 0 and status == OK:
            id = _id_in(body, length)
        if id == 0:
            holdings.nameless += 1
            id = ~holdings.nameless
        if not may_be or not holding_begin(&holdings.leases, id, account, &account.leases, pending.ttl_ms, now_ns):
            subtract_shared(&account.leases, <uint32_t>1)
    elif pending.settles == SETTLES_SESSION_OPEN:
        if not may_be or not holding_begin(&holdings.sessions, id, account, &account.sessions, pending.ttl_ms,
                                           now_ns):
            subtract_shared(&account.sessions, <uint32_t>1)
    elif pending.settles == SETTLES_REVOKE and status == OK:
        holding_end(&holdings.leases, id)
    elif pending.settles == SETTLES_SESSION_CLOSE and status == OK:
        holding_end(&holdings.sessions, id)
