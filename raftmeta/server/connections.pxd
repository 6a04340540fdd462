# Connections of clients: bytes come in and whole requests go up; what server/output appended goes out.
from raftmeta.server.state cimport ClientServer, Connection

cdef void connections_accept(ClientServer* server, int listener) noexcept nogil
cdef void connection_readable(ClientServer* server, Connection* connection) noexcept nogil
cdef void connection_writable(ClientServer* server, Connection* connection) noexcept nogil
# This node was removed: everybody is told, and goes on elsewhere.
cdef void connections_remove(ClientServer* server) noexcept nogil
# Close those whose certificate is revoked now.
cdef void connections_drop_revoked(ClientServer* server) noexcept nogil
cdef void connection_close(ClientServer* server, Connection* connection) noexcept nogil
# Close those that hold the most while all of them together hold too much.
cdef void connections_relieve(ClientServer* server) noexcept nogil
# It may have room again: take the requests that wait, and go on reading.
cdef void connection_resume(ClientServer* server, Connection* connection) noexcept nogil
# Everything appended before the call, one write for each connection; what that lets others append waits for the next.
cdef void connections_flush(ClientServer* server) noexcept nogil
# Close those that did not prove in time who they are.
cdef void connections_expire(ClientServer* server) noexcept nogil
# Go on with those that were over their quotas.
cdef void connections_wake(ClientServer* server) noexcept nogil
# Ages: silent, not reading.
cdef void connections_sweep(ClientServer* server) noexcept nogil
