# Requests about the cluster: status, members, the steps of a membership change, leadership.
from libc.stdint cimport uint64_t

from raftmeta.server.state cimport ClientConnection, ClientServer
from raftmeta.status cimport status_t
from raftmeta.wire.client_messages cimport ClientRequest

# STATUS, MEMBERS, CHANGE, MEET or TRANSFER. Not OK: the connection is closed for it.
cdef status_t members_take(ClientServer* server, ClientConnection* connection,
                           const ClientRequest* request) noexcept nogil
# Answer a MEMBERS: who belongs to the cluster and whom this node is connected to, as of now.
cdef void members_answer(ClientServer* server, ClientConnection* connection, uint64_t id) noexcept nogil
# Names and addresses, as the loop published them last.
cdef void members_read(ClientServer* server) noexcept nogil
# Does this node serve? It knows a leader, and has applied what opened its own session.
cdef bint members_is_ready(ClientServer* server) noexcept nogil
