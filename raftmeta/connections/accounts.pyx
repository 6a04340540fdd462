"""Accounts of principals: bodies.

An account is found by a hash of its name or address under a secret of this node's life, so nobody can choose a name
that shares the account of another. It is kept while something holds it or its buckets remember something.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from raftmeta.connections.accounts_state cimport Quotas, account_drop, account_hold
from raftmeta.connections.connections cimport connection_wait
from raftmeta.native.atomics cimport (add_shared, give_way, load_shared, store_release, subtract_shared,
                                      swap_shared)
from raftmeta.native.intrinsics cimport hash64
from raftmeta.status cimport NO_MEMORY, OK, QUOTA_EXCEEDED
from raftmeta.wire.client_messages cimport QUOTA_BYTES, QUOTA_REQUESTS, QUOTA_UNDER_WAY
from raftmeta.wire.commands cimport PRINCIPAL_BYTES_MAX

cdef extern from "<sys/random.h>" nogil:
    ssize_t getrandom(void* into, size_t length, unsigned int flags)

cdef enum:
    TUNE_REFUSALS_PER_S = 1000      # of one account where requests have no rate
    NS_PER_S = 1_000_000_000
    NS_PER_MS = 1_000_000
    TTL_MS_COUNTED_MAX = 0x100_0000_0000    # a lease may be asked for with any number, and is refused later


# --- buckets ----------------------------------------------------------------------------------------------------------
cdef uint64_t bucket_wait_ns(bucket_t bucket, uint64_t per_s, uint64_t burst_ns, uint64_t now_ns) noexcept nogil:
    if per_s == 0 or bucket <= now_ns + burst_ns:
        return 0
    return bucket - now_ns - burst_ns


cdef void bucket_spend(bucket_t* bucket, uint64_t per_s, uint64_t cost, uint64_t now_ns) noexcept nogil:
    cdef uint64_t* word = <uint64_t*>bucket
    cdef uint64_t seen
    if per_s == 0:
        return
    seen = load_shared(word)
    while not swap_shared(word, seen, max(seen, now_ns) + cost * <uint64_t>NS_PER_S // per_s):
        seen = load_shared(word)


# --- whose ------------------------------------------------------------------------------------------------------------
cdef Accounts* accounts_create() noexcept nogil:
    cdef Accounts* accounts = <Accounts*>calloc(1, sizeof(Accounts))
    if accounts != NULL and getrandom(&accounts.secret, sizeof(accounts.secret), 0) != sizeof(accounts.secret):
        free(accounts)
        return NULL
    return accounts


# A thread that is preempted inside holds up other listeners' new connections, and nobody else.
cdef inline void _enter(Accounts* accounts) noexcept nogil:
    while not swap_shared(&accounts.is_entered, <uint32_t>0, <uint32_t>1):
        give_way()


cdef inline void _leave(Accounts* accounts) noexcept nogil:
    store_release(&accounts.is_entered, <uint32_t>0)


cdef Account* _open(Accounts* accounts, uint64_t key, const uint8_t* name, uint32_t name_length) noexcept nogil:
    cdef Account** found = accounts.by_key.insert(key)
    if found == NULL:
        return NULL
    if found[0] == NULL:
        found[0] = <Account*>calloc(1, sizeof(Account))
        if found[0] == NULL:
            accounts.by_key.erase(key)
            return NULL
        found[0].key = key
        found[0].name_length = <uint8_t>min(name_length, <uint32_t>PRINCIPAL_BYTES_MAX)
        memcpy(found[0].name, name, found[0].name_length)
    return found[0]


# Held, with one more connection. Nobody forgets the account before: the accounts are entered.
cdef status_t _join(Accounts* accounts, uint64_t key, const uint8_t* name, uint32_t name_length, uint32_t most,
                    Account** joined) noexcept nogil:
    cdef Account* account = _open(accounts, key, name, name_length)
    if account == NULL:
        return NO_MEMORY
    if most != 0 and load_shared(&account.connections) >= most:
        return QUOTA_EXCEEDED
    account_hold(account)
    add_shared(&account.connections, <uint32_t>1)
    joined[0] = account
    return OK


cdef status_t accounts_attach(Connections* connections, Connection* connection, const uint8_t* name,
                              uint32_t name_length) noexcept nogil:
    cdef Accounts* accounts = connections.accounts
    cdef uint64_t key = hash64(accounts.secret, name, name_length)
    cdef Account* account = NULL
    cdef status_t status
    if name_length == 0:
        key = hash64(~accounts.secret, <const uint8_t*>&connection.address, sizeof(connection.address))
    if connection.account != NULL and connection.account.key == key:
        return OK
    _enter(accounts)
    status = _join(accounts, key, name, name_length, connections.limits.quotas.connections_max, &account)
    _leave(accounts)
    if status != OK:
        connections.counters.over_quota += status == QUOTA_EXCEEDED
        return status
    accounts_detach(connection)
    connection.account = account
    add_shared(&account.part_bytes, <uint64_t>connection.received.size)
    return OK


cdef void accounts_detach(Connection* connection) noexcept nogil:
    cdef Account* account = connection.account
    connection.account = NULL
    if account != NULL:
        subtract_shared(&account.connections, <uint32_t>1)
        subtract_shared(&account.part_bytes, <uint64_t>connection.received.size)
        account_drop(account)


# --- rates ------------------------------------------------------------------------------------------------------------
cdef ClientQuota accounts_spend(Connections* connections, Connection* connection, uint64_t written, bint is_urgent,
                                uint64_t* wait_ns) noexcept nogil:
    cdef const Quotas* quotas = &connections.limits.quotas
    cdef Account* account = connection.account
    cdef uint64_t burst_ns = quotas.burst_ns * (2 if is_urgent else 1)
    wait_ns[0] = bucket_wait_ns(load_shared(&account.requests), quotas.requests_per_s, burst_ns,
                                connections.now_ns)
    if wait_ns[0] != 0:
        return QUOTA_REQUESTS
    if written != 0:
        wait_ns[0] = bucket_wait_ns(load_shared(&account.written), quotas.bytes_per_s, burst_ns, connections.now_ns)
        if wait_ns[0] != 0:
            return QUOTA_BYTES
    if quotas.bytes_max != 0 and load_shared(&account.bytes) >= quotas.bytes_max * (2 if is_urgent else 1):
        wait_ns[0] = NS_PER_MS
        return QUOTA_UNDER_WAY
    bucket_spend(&account.requests, quotas.requests_per_s, 1, connections.now_ns)
    bucket_spend(&account.written, quotas.bytes_per_s, written, connections.now_ns)
    return <ClientQuota>0


cdef void accounts_refused(Connections* connections, Connection* connection) noexcept nogil:
    cdef const Quotas* quotas = &connections.limits.quotas
    cdef Account* account = connection.account
    cdef uint64_t per_s = quotas.requests_per_s or <uint64_t>TUNE_REFUSALS_PER_S
    cdef uint64_t pause_ns = bucket_wait_ns(load_shared(&account.refusals), per_s, quotas.burst_ns,
                                            connections.now_ns)
    connections.counters.over_quota += 1
    bucket_spend(&account.refusals, per_s, 1, connections.now_ns)
    if pause_ns != 0 and connection.paused_ns == 0 and connection_wait(connections, connection):
        connection.paused_ns = connections.now_ns + pause_ns


# --- leases and sessions ----------------------------------------------------------------------------------------------
cdef bint holding_begin(Map64[Holding]* holdings, uint64_t id, Account* account, uint32_t* count, uint64_t ttl_ms,
                        uint64_t now_ns) noexcept nogil:
    cdef Holding* holding = holdings.insert(id)
    if holding == NULL or holding.account != NULL:
        return False
    holding.account = account
    holding.count = count
    holding.ttl_ns = min(ttl_ms, <uint64_t>TTL_MS_COUNTED_MAX) * NS_PER_MS
    holding.until_ns = now_ns + holding.ttl_ns
    account_hold(account)
    return True


cdef void holding_renew(Map64[Holding]* holdings, uint64_t id, uint64_t now_ns) noexcept nogil:
    cdef Holding* holding = holdings.find(id)
    if holding != NULL:
        holding.until_ns = now_ns + holding.ttl_ns


cdef void holding_move(Holding* holding, Account* account, uint32_t* count) noexcept nogil:
    account_hold(account)
    add_shared(count, <uint32_t>1)
    subtract_shared(holding.count, <uint32_t>1)
    account_drop(holding.account)
    holding.account = account
    holding.count = count


cdef void holding_end(Map64[Holding]* holdings, uint64_t id) noexcept nogil:
    cdef Holding* holding = holdings.find(id)
    cdef Account* account
    if holding == NULL:
        return
    account = holding.account
    subtract_shared(holding.count, <uint32_t>1)
    holdings.erase(id)
    account_drop(account)


cdef void holdings_release(Holdings* holdings) noexcept nogil:
    holdings.leases.release()
    holdings.sessions.release()
    holdings.ended.release()


# --- what is over -----------------------------------------------------------------------------------------------------
cdef void _end_old(Holdings* all, Map64[Holding]* holdings, uint64_t now_ns) noexcept nogil:
    cdef size_t position = holdings.next(0)
    cdef size_t i
    all.ended.clear()
    while position < holdings.end():
        if holdings.value_at(position).until_ns <= now_ns:
            all.ended.push(holdings.key_at(position))       # without memory it counts until the next sweep
        position = holdings.next(position + 1)
    for i in range(all.ended.size):
        holding_end(holdings, all.ended.data[i])


# Nobody changes an account without a holder, and while the accounts are entered nobody becomes its first one.
cdef bint _is_forgotten(const Account* account, uint64_t now_ns) noexcept nogil:
    return (load_shared(&account.holders) == 0
            and max(account.requests, account.written, account.refusals) <= now_ns)


cdef void _forget(Accounts* accounts, uint64_t now_ns) noexcept nogil:
    cdef size_t i = accounts.by_key.next(0)
    accounts.forgotten.clear()
    while i < accounts.by_key.end():
        if _is_forgotten(accounts.by_key.value_at(i), now_ns):
            accounts.forgotten.push(accounts.by_key.key_at(i))
        i = accounts.by_key.next(i + 1)
    for i in range(accounts.forgotten.size):
        free(accounts.by_key.find(accounts.forgotten.data[i])[0])
        accounts.by_key.erase(accounts.forgotten.data[i])


cdef void accounts_sweep(Connections* connections) noexcept nogil:
    cdef Holdings* holdings = &connections.holdings
    cdef Accounts* accounts = connections.accounts
    _end_old(holdings, &holdings.leases, connections.now_ns)
    _end_old(holdings, &holdings.sessions, connections.now_ns)
    _enter(accounts)
    _forget(accounts, connections.now_ns)
    connections.counters.accounts = accounts.by_key.size
    _leave(accounts)


cdef void accounts_destroy(Accounts* accounts) noexcept nogil:
    cdef size_t i
    if accounts == NULL:
        return
    i = accounts.by_key.next(0)
    while i < accounts.by_key.end():
        free(accounts.by_key.value_at(i))
        i = accounts.by_key.next(i + 1)
    accounts.by_key.release()
    accounts.forgotten.release()
    free(accounts)
