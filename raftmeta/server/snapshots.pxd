# Backups that clients fetch: the node opens a sealed file for one connection and gives it piece by piece.
from libc.stdint cimport uint64_t

from raftmeta.loop.tickets cimport Ticket
from raftmeta.server.state cimport ClientConnection, ClientPending, ClientServer
from raftmeta.status cimport status_t
from raftmeta.wire.client_messages cimport ClientRequest

# SNAPSHOT or PIECE. Not OK: the connection is closed for it.
cdef status_t snapshots_take(ClientServer* server, ClientConnection* connection,
                             const ClientRequest* request) noexcept nogil
# A ticket of a SNAPSHOT: the read round is done, or there is a file.
cdef void snapshot_found(ClientServer* server, ClientConnection* connection, const ClientPending* pending,
                         const Ticket* ticket) noexcept nogil
cdef void snapshot_close(ClientConnection* connection) noexcept nogil
