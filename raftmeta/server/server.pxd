# Clients of a node: one native thread accepts them, submits their requests to the loop and brings the answers back.
#
# Order of life: clients_create, clients_start after the loop has started; clients_stop before the loop is stopped;
# clients_destroy after it has.
from libc.stdint cimport uint8_t, uint64_t

from raftmeta.connections.accounts_state cimport Accounts
from raftmeta.connections.state cimport ConnectionLimits
from raftmeta.loop.loop cimport Loop
from raftmeta.server.state cimport ClientCounters, ClientLimits, ClientServer
from raftmeta.status cimport status_t

# Takes the listeners over, also when it fails (NULL: no memory or no descriptor); -1: none. accounts: of the
# node. address: where clients reach this node; version: of the package; both are told to them.
cdef ClientServer* clients_create(Loop* loop, Accounts* accounts, const ConnectionLimits* common,
                                  const ClientLimits* limits, int listener, int local_listener, const uint8_t* address,
                                  uint8_t address_length, const uint8_t* version,
                                  uint8_t version_length) noexcept nogil
cdef status_t clients_start(ClientServer* server) noexcept nogil
# Every connection is closed, nothing is submitted any more. False: the thread did not end in time.
cdef bint clients_stop(ClientServer* server, uint64_t timeout_ns) noexcept nogil
cdef void clients_destroy(ClientServer* server) noexcept nogil
cdef void clients_counters(const ClientServer* server, ClientCounters* counters) noexcept nogil
# In a fork child, where there is no thread: only descriptors.
cdef void clients_close_in_child(ClientServer* server) noexcept nogil
