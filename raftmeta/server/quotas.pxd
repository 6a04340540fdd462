# Quotas of one principal (connections/accounts), as clients are told of them: a request that is over one is answered.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.connections.accounts_state cimport Account
from raftmeta.server.state cimport ClientConnection, ClientPending, ClientServer
from raftmeta.status cimport status_t
from raftmeta.wire.client_messages cimport ClientRequest
from raftmeta.wire.commands cimport Command

# The account of who is at the other end, now that this is known better (accounts_attach).
cdef status_t quotas_attach(ClientServer* server, ClientConnection* connection) noexcept nogil
# Whether the request may be taken; a command is only looked at by quotas_command. False: it was answered.
cdef bint quotas_request(ClientServer* server, ClientConnection* connection,
                         const ClientRequest* request) noexcept nogil
# Whether the decoded command of this many bytes may be proposed. False: it was answered.
cdef bint quotas_command(ClientServer* server, ClientConnection* connection, uint64_t id, const Command* command,
                         uint32_t length, bint is_urgent) noexcept nogil
# It is about to be submitted: note in `pending` what it may take or give back, which quotas_settle completes with its
# answer, once pending.account is set.
cdef void quotas_note(ClientServer* server, ClientConnection* connection, const Command* command,
                      ClientPending* pending) noexcept nogil
cdef void quotas_settle(ClientServer* server, const ClientPending* pending, status_t status, const uint8_t* body,
                        size_t length) noexcept nogil
# Whether one more watch may be opened. False: it was answered.
cdef bint quotas_watch(ClientServer* server, ClientConnection* connection, uint64_t id) noexcept nogil
