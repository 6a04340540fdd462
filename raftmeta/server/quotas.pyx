"""Quotas of one principal on this node: bodies.

An account is found by a hash of its name or address under a secret of this node's life, so nobody can choose a name
that shares the account of another. It is kept while something holds it or its buckets remember something.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from raftmeta.connections.accounts_state cimport ClientQuotas, Holding, account_drop, account_hold, bucket_t
from raftmeta.connections.connections cimport connection_wait
from raftmeta.native.containers cimport Map64
from raftmeta.native.intrinsics cimport hash64
from raftmeta.server.pending cimport request_answer
from raftmeta.server.state cimport SETTLES_GRANT, SETTLES_REVOKE, SETTLES_SESSION_CLOSE, SETTLES_SESSION_OPEN
from raftmeta.status cimport NO_MEMORY, OK, OUTCOME_UNKNOWN, QUOTA_EXCEEDED
from raftmeta.wire.client_messages cimport (QUOTA_BYTES, QUOTA_LEASES, QUOTA_REQUESTS,
                                            QUOTA_SESSIONS, QUOTA_UNDER_WAY, QUOTA_WATCHES, QUOTA_WINDOW,
                                            REQUEST_AUTHENTICATE, REQUEST_CHANGE, REQUEST_COMMAND, REQUEST_MEET,
                                            REQUEST_PING, REQUEST_TRANSFER, REQUEST_UNWATCH, ClientQuota)
from raftmeta.wire.commands cimport (COMMAND_LEASE_GRANT, COMMAND_LEASE_KEEP_ALIVE, COMMAND_LEASE_REVOKE,
                                     COMMAND_SESSION_CLOSE, COMMAND_SESSION_OPEN)
from raftmeta.wire.msgpack cimport (Reader, Writer, number_max, read_array, read_uint, reader_over, write_array,
                                    write_bin, write_uint, writer_at)

cdef enum:
    TUNE_REFUSALS_PER_S = 1000      # of one account where requests have no rate
    NS_PER_S = 1_000_000_000
    NS_PER_MS = 1_000_000
    RESULT_ELEMENTS = 3             # docs/formats.md "Results"
    RESULT_STATUS_MAX = 63
    TTL_MS_COUNTED_MAX = 0x100_0000_0000    # a lease may be asked for with any number, and is refused later


# --- buckets ----------------------------------------------------------------------------------------------------------
cdef uint64_t bucket_wait_ns(bucket_t bucket, uint64_t per_s, uint64_t burst_ns, uint64_t now_ns) noexcept nogil:
    if per_s == 0 or bucket <= now_ns + burst_ns:
        return 0
    return bucket - now_ns - burst_ns


cdef void bucket_spend(bucket_t* bucket, uint64_t per_s, uint64_t cost, uint64_t now_ns) noexcept nogil:
    if per_s != 0:
        bucket[0] = max(bucket[0], now_ns) + cost * <uint64_t>NS_PER_S // per_s


# --- accounts ---------------------------------------------------------------------------------------------------------
cdef uint64_t _key_of(const ClientServer* server, const ClientConnection* connection) noexcept nogil:
    cdef uint64_t secret
    memcpy(&secret, server.disguise, sizeof(secret))
    if connection.principal.name_length != 0:
        return hash64(secret, connection.principal.name, connection.principal.name_length)
    return hash64(~secret, <const uint8_t*>&connection.base.address, sizeof(connection.base.address))


cdef Account* _open(ClientServer* server, uint64_t key, const ClientConnection* connection) noexcept nogil:
    cdef Account** found = server.accounts.insert(key)
    if found == NULL:
        return NULL
    if found[0] == NULL:
        found[0] = <Account*>calloc(1, sizeof(Account))
        if found[0] == NULL:
            server.accounts.erase(key)
            return NULL
        found[0].key = key
        found[0].name_length = connection.principal.name_length
        memcpy(found[0].name, connection.principal.name, connection.principal.name_length)
    return found[0]


cdef status_t quotas_attach(ClientServer* server, ClientConnection* connection) noexcept nogil:
    cdef uint64_t key = _key_of(server, connection)
    cdef Account* account
    if connection.base.account != NULL and connection.base.account.key == key:
        return OK
    account = _open(server, key, connection)
    if account == NULL:
        return NO_MEMORY
    if server.limits.quotas.connections_max != 0 and account.connections >= server.limits.quotas.connections_max:
        server.counters.over_quota += 1
        return QUOTA_EXCEEDED
    quotas_detach(server, connection)
    connection.base.account = account
    account_hold(account)
    account.connections += 1
    account.part_bytes += connection.base.received.size
    return OK


cdef void quotas_detach(ClientServer* server, ClientConnection* connection) noexcept nogil:
    cdef Account* account = connection.base.account
    connection.base.account = NULL
    if account != NULL:
        account.connections -= 1
        account.part_bytes -= connection.base.received.size
        account_drop(account)


# --- refusals ---------------------------------------------------------------------------------------------------------
# Refuse the request: which quota of whose, and when to try again (0: not by waiting).
cdef bint _refuse(ClientServer* server, ClientConnection* connection, uint64_t id, ClientQuota quota,
                  uint64_t wait_ns) noexcept nogil:
    cdef Account* account = connection.base.account
    cdef uint64_t per_s = server.limits.quotas.requests_per_s or <uint64_t>TUNE_REFUSALS_PER_S
    cdef uint64_t pause_ns = bucket_wait_ns(account.refusals, per_s, server.limits.quotas.burst_ns, server.base.now_ns)
    cdef Writer writer
    server.counters.over_quota += 1
    bucket_spend(&account.refusals, per_s, 1, server.base.now_ns)
    if pause_ns != 0 and connection.base.paused_ns == 0 and connection_wait(&server.base, &connection.base):
        connection.base.paused_ns = server.base.now_ns + pause_ns
    if id == 0:
        return False        # it waits for no answer
    server.scratch.clear()
    writer = writer_at(&server.scratch)
    write_array(&writer, 3)
    write_uint(&writer, quota)
    write_uint(&writer, (wait_ns + NS_PER_MS - 1) // NS_PER_MS)
    write_bin(&writer, account.name, account.name_length)
    request_answer(server, connection, id, QUOTA_EXCEEDED, 0, 0, server.scratch.data,
                   server.scratch.size if writer.status == OK else 0)
    return False


# --- rates ------------------------------------------------------------------------------------------------------------
cdef bint _spend(ClientServer* server, ClientConnection* connection, uint64_t id, uint64_t written,
                 bint is_urgent) noexcept nogil:
    cdef const ClientQuotas* quotas = &server.limits.quotas
    cdef Account* account = connection.base.account
    cdef uint64_t burst_ns = quotas.burst_ns * (2 if is_urgent else 1)
    cdef uint64_t wait_ns = bucket_wait_ns(account.requests, quotas.requests_per_s, burst_ns, server.base.now_ns)
    if wait_ns != 0:
        return _refuse(server, connection, id, QUOTA_REQUESTS, wait_ns)
    if written != 0:
        wait_ns = bucket_wait_ns(account.written, quotas.bytes_per_s, burst_ns, server.base.now_ns)
        if wait_ns != 0:
            return _refuse(server, connection, id, QUOTA_BYTES, wait_ns)
    if quotas.bytes_max != 0 and account.bytes >= quotas.bytes_max * (2 if is_urgent else 1):
        return _refuse(server, connection, id, QUOTA_UNDER_WAY, NS_PER_MS)
    bucket_spend(&account.requests, quotas.requests_per_s, 1, server.base.now_ns)
    bucket_spend(&account.written, quotas.bytes_per_s, written, server.base.now_ns)
    return True


cdef bint quotas_request(ClientServer* server, ClientConnection* connection,
                         const ClientRequest* request) noexcept nogil:
    if request.kind == REQUEST_COMMAND:
        return True
    # Those give back, prove, or are an operator's.
    return _spend(server, connection, request.id, 0,
                  request.kind in (REQUEST_PING, REQUEST_UNWATCH, REQUEST_AUTHENTICATE, REQUEST_TRANSFER,
                                   REQUEST_CHANGE, REQUEST_MEET))


cdef bint quotas_watch(ClientServer* server, ClientConnection* connection, uint64_t id) noexcept nogil:
    cdef uint32_t most = server.limits.quotas.watches_max
    return (most == 0 or connection.base.account.watches < most
            or _refuse(server, connection, id, QUOTA_WATCHES, 0))


# --- leases and sessions ----------------------------------------------------------------------------------------------
cdef uint64_t _ttl_ns(uint64_t ttl_ms) noexcept nogil:
    return min(ttl_ms, <uint64_t>TTL_MS_COUNTED_MAX) * NS_PER_MS


cdef void _renew(ClientServer* server, Map64[Holding]* holdings, uint64_t id) noexcept nogil:
    cdef Holding* holding = holdings.find(id)
    if holding != NULL:
        holding.until_ns = server.base.now_ns + holding.ttl_ns


cdef bint _hold(ClientServer* server, Map64[Holding]* holdings, uint64_t id, Account* account,
                uint64_t ttl_ms) noexcept nogil:
    cdef Holding* holding = holdings.insert(id)
    if holding == NULL or holding.account != NULL:
        return False
    holding.account = account
    holding.ttl_ns = _ttl_ns(ttl_ms)
    holding.until_ns = server.base.now_ns + holding.ttl_ns
    account_hold(account)
    return True


# The account that held it; NULL: nobody did.
cdef Account* _let_go(Map64[Holding]* holdings, uint64_t id) noexcept nogil:
    cdef Holding* holding = holdings.find(id)
    cdef Account* account
    if holding == NULL:
        return NULL
    account = holding.account
    holdings.erase(id)
    account_drop(account)
    return account


cdef void _let_lease_go(ClientServer* server, uint64_t id) noexcept nogil:
    cdef Account* account = _let_go(&server.leases, id)
    if account != NULL:
        account.leases -= 1


cdef void _let_session_go(ClientServer* server, uint64_t id) noexcept nogil:
    cdef Account* account = _let_go(&server.sessions, id)
    if account != NULL:
        account.sessions -= 1


cdef bint quotas_command(ClientServer* server, ClientConnection* connection, uint64_t id, const Command* command,
                         uint32_t length, bint is_urgent) noexcept nogil:
    cdef const ClientQuotas* quotas = &server.limits.quotas
    if not _spend(server, connection, id, length, is_urgent):
        return False
    if command.kind == COMMAND_SESSION_OPEN and command.window > server.limits.session_window:
        return _refuse(server, connection, id, QUOTA_WINDOW, 0)
    if (command.kind == COMMAND_SESSION_OPEN and quotas.sessions_max != 0
            and connection.base.account.sessions >= quotas.sessions_max and server.sessions.find(command.id) == NULL):
        return _refuse(server, connection, id, QUOTA_SESSIONS, 0)
    if (command.kind == COMMAND_LEASE_GRANT and quotas.leases_max != 0
            and connection.base.account.leases >= quotas.leases_max):
        return _refuse(server, connection, id, QUOTA_LEASES, 0)
    return True


# --- what a command takes and gives back ------------------------------------------------------------------------------
# A lease or session is counted when it is asked for. Its answer says whether it is there, and under which id.
cdef void quotas_note(ClientServer* server, ClientConnection* connection, const Command* command,
                      ClientPending* pending) noexcept nogil:
    cdef size_t i
    pending.settled = command.id
    pending.ttl_ms = command.ttl_ms
    if server.limits.quotas.leases_max != 0:
        if command.kind == COMMAND_LEASE_GRANT:
            pending.settles = SETTLES_GRANT
            connection.base.account.leases += 1
        elif command.kind == COMMAND_LEASE_REVOKE:
            pending.settles = SETTLES_REVOKE
        elif command.kind == COMMAND_LEASE_KEEP_ALIVE:
            for i in range(command.leases.size):
                _renew(server, &server.leases, command.leases.data[i].lease)
    if server.limits.quotas.sessions_max != 0:
        if command.kind == COMMAND_SESSION_OPEN:
            pending.settles = SETTLES_SESSION_OPEN
            connection.base.account.sessions += 1
        elif command.kind == COMMAND_SESSION_CLOSE:
            pending.settles = SETTLES_SESSION_CLOSE
        _renew(server, &server.sessions, command.session or command.id)


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
    cdef Account* account = pending.account
    cdef uint64_t id = pending.settled
    cdef bint may_be = status == OK or status >= OUTCOME_UNKNOWN
    if pending.settles == SETTLES_GRANT:
        if id == 0 and status == OK:
            id = _id_in(body, length)
        if id == 0:
            server.nameless += 1
            id = ~server.nameless
        if not may_be or not _hold(server, &server.leases, id, account, pending.ttl_ms):
            account.leases -= 1
    elif pending.settles == SETTLES_SESSION_OPEN:
        if not may_be or not _hold(server, &server.sessions, id, account, pending.ttl_ms):
            account.sessions -= 1
    elif pending.settles == SETTLES_REVOKE and status == OK:
        _let_lease_go(server, id)
    elif pending.settles == SETTLES_SESSION_CLOSE and status == OK:
        _let_session_go(server, id)


# --- what is over -----------------------------------------------------------------------------------------------------
cdef void _collect_ended(ClientServer* server, Map64[Holding]* holdings) noexcept nogil:
    cdef size_t position = holdings.next(0)
    server.ended.clear()
    while position < holdings.end():
        if holdings.value_at(position).until_ns <= server.base.now_ns:
            server.ended.push(holdings.key_at(position))    # without memory it counts until the next sweep
        position = holdings.next(position + 1)


cdef bint _is_forgotten(const ClientServer* server, const Account* account) noexcept nogil:
    return account.holders == 0 and max(account.requests, account.written, account.refusals) <= server.base.now_ns


cdef void quotas_sweep(ClientServer* server) noexcept nogil:
    cdef size_t i
    _collect_ended(server, &server.leases)
    for i in range(server.ended.size):
        _let_lease_go(server, server.ended.data[i])
    _collect_ended(server, &server.sessions)
    for i in range(server.ended.size):
        _let_session_go(server, server.ended.data[i])
    server.ended.clear()
    i = server.accounts.next(0)
    while i < server.accounts.end():
        if _is_forgotten(server, server.accounts.value_at(i)):
            server.ended.push(server.accounts.key_at(i))
        i = server.accounts.next(i + 1)
    for i in range(server.ended.size):
        free(server.accounts.find(server.ended.data[i])[0])
        server.accounts.erase(server.ended.data[i])
    server.counters.accounts = server.accounts.size


cdef void quotas_release(ClientServer* server) noexcept nogil:
    cdef size_t i = server.accounts.next(0)
    while i < server.accounts.end():
        free(server.accounts.value_at(i))
        i = server.accounts.next(i + 1)
    server.accounts.release()
    server.leases.release()
    server.sessions.release()
    server.ended.release()
