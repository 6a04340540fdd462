# User machines for clients: the outcome of a command, and a read, from this node's copy.
from libc.stdint cimport uint64_t

from raftmeta.loop.tickets cimport Ticket
from raftmeta.server.state cimport ClientConnection, ClientPending, ClientServer
from raftmeta.status cimport status_t
from raftmeta.wire.client_messages cimport ClientRequest

# MACHINE_READ. Not OK: the connection is closed for it.
cdef status_t machine_read(ClientServer* server, ClientConnection* connection,
                           const ClientRequest* request) noexcept nogil
# A ticket of a MACHINE_READ, or of a command of a machine.
cdef void machine_told(ClientServer* server, ClientConnection* connection, const ClientPending* pending,
                       const Ticket* ticket) noexcept nogil
