"""Listeners of one node whose threads meet in its accounts; accounts.pyi is the manual."""

from __future__ import annotations

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from raftmeta.connections.accounts cimport (accounts_attach, accounts_create, accounts_destroy, accounts_detach,
                                            accounts_spend, accounts_sweep, holding_begin, holding_end, holding_move,
                                            holding_renew, holdings_release)
from raftmeta.connections.accounts_state cimport Account, Accounts, Holding, account_drop, account_hold
from raftmeta.connections.state cimport Connection, Connections, bytes_begin, bytes_end
from raftmeta.native.atomics cimport add_shared, load_shared, subtract_shared
from raftmeta.native.intrinsics cimport next_random
from raftmeta.status cimport OK

cdef enum:
    PLACES = 16                 # of connections, requests and leases of each listener
    BYTES = 100                 # of a request
    STEP_NS = 1_000_000         # of the clock in each round
    TTL_MS = 20

cdef class NodeAccounts:
    cdef Accounts* accounts

    def __cinit__(self):
        self.accounts = accounts_create()
        if self.accounts == NULL:
            raise MemoryError

    def __dealloc__(self):
        accounts_destroy(self.accounts)

    def used(self):
        cdef size_t i = self.accounts.by_key.next(0)
        cdef Account* account
        found = []
        while i < self.accounts.by_key.end():
            account = self.accounts.by_key.value_at(i)
            found.append({"holders": account.holders, "connections": account.connections, "watches": account.watches,
                          "leases": account.leases, "bytes": account.bytes, "requests_ns": account.requests})
            i = self.accounts.by_key.next(i + 1)
        return found


cdef class Listener:
    cdef NodeAccounts node
    cdef Connections* connections
    cdef Connection[PLACES] items
    cdef Account* asking[PLACES]        # accounts of requests under way
    cdef uint64_t random
    cdef uint64_t spent
    cdef uint32_t most                  # connections of one account that were seen

    def __cinit__(self, NodeAccounts node, uint64_t seed, uint32_t connections_max, uint64_t requests_per_s):
        self.node = node
        self.random = seed
        self.connections = <Connections*>calloc(1, sizeof(Connections))
        if self.connections == NULL:
            raise MemoryError
        self.connections.accounts = node.accounts
        self.connections.limits.quotas.connections_max = connections_max
        self.connections.limits.quotas.leases_max = PLACES
        self.connections.limits.quotas.requests_per_s = requests_per_s
        self.connections.limits.quotas.burst_ns = <uint64_t>1 << 62

    def __dealloc__(self):
        holdings_release(&self.connections.holdings)
        free(self.connections)

    cdef void _attach(self, Connection* connection, uint32_t names) noexcept nogil:
        cdef uint8_t name = <uint8_t>(next_random(&self.random) % names)
        if accounts_attach(self.connections, connection, &name, name != 0) == OK:
            self.most = max(self.most, load_shared(&connection.account.connections))

    cdef void _ask(self, Account** asking, Connection* connection) noexcept nogil:
        cdef uint64_t wait_ns = 0
        if asking[0] != NULL:
            bytes_end(self.connections, asking[0], BYTES)
            subtract_shared(&asking[0].watches, <uint32_t>1)
            account_drop(asking[0])
            asking[0] = NULL
        elif connection.account != NULL and accounts_spend(self.connections, connection, BYTES, False, &wait_ns) == 0:
            self.spent += 1
            asking[0] = connection.account
            account_hold(asking[0])
            add_shared(&asking[0].watches, <uint32_t>1)
            bytes_begin(self.connections, asking[0], BYTES)

    cdef void _lease(self, uint64_t id, Account* account, uint32_t choice) noexcept nogil:
        cdef Holding* holding = self.connections.holdings.leases.find(id)
        if holding == NULL:
            if account != NULL and holding_begin(&self.connections.holdings.leases, id, account, &account.leases,
                                                 TTL_MS, self.connections.now_ns):
                add_shared(&account.leases, <uint32_t>1)
        elif choice == 0:
            holding_end(&self.connections.holdings.leases, id)
        elif choice == 1 and account != NULL:
            holding_move(holding, account, &account.leases)
        else:
            holding_renew(&self.connections.holdings.leases, id, self.connections.now_ns)

    cdef void _act(self, uint32_t names) noexcept nogil:
        cdef uint64_t draw = next_random(&self.random)
        cdef Connection* connection = &self.items[draw >> 8 & (PLACES - 1)]
        cdef uint32_t choice = <uint32_t>draw & 15
        self.connections.now_ns += STEP_NS
        if choice < 3:
            self._attach(connection, names)
        elif choice < 5:
            accounts_detach(connection)
        elif choice < 10:
            self._ask(&self.asking[draw >> 16 & (PLACES - 1)], connection)
        elif choice < 15:
            self._lease(1 + (draw >> 24 & (PLACES - 1)), connection.account, <uint32_t>(draw >> 32) & 3)
        else:
            accounts_sweep(self.connections)

    def run(self, uint64_t rounds, uint32_t names):
        cdef uint64_t _round
        with nogil:
            for _round in range(rounds):
                self._act(names)

    def ask_only(self, uint64_t rounds):
        cdef uint64_t _round
        cdef uint64_t wait_ns = 0
        cdef uint8_t name = 1
        if accounts_attach(self.connections, &self.items[0], &name, 1) != OK:
            raise AssertionError("no room for one connection")
        with nogil:
            for _round in range(rounds):
                if accounts_spend(self.connections, &self.items[0], 0, False, &wait_ns) == 0:
                    self.spent += 1

    def give_back(self):
        cdef int i
        for i in range(PLACES):
            accounts_detach(&self.items[i])
            if self.asking[i] != NULL:
                self._ask(&self.asking[i], &self.items[i])
            holding_end(&self.connections.holdings.leases, 1 + i)

    def sweep(self, uint64_t later_ns):
        self.connections.now_ns += later_ns
        accounts_sweep(self.connections)
        return self.connections.counters.accounts

    def seen(self):
        return {"spent": self.spent, "most": self.most}
