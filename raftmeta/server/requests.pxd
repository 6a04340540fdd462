# The requests of clients and their answers.
from libc.stdint cimport uint8_t, uint32_t

from raftmeta.loop.tickets cimport Ticket
from raftmeta.server.state cimport ClientConnection, ClientServer
from raftmeta.status cimport status_t
from raftmeta.wire.client_messages cimport ClientRequest

# The body of the first frame. Not OK: refused with it.
cdef status_t requests_hello(ClientServer* server, ClientConnection* connection, const uint8_t* body,
                             uint32_t length) noexcept nogil
# One sound request. Not OK: the connection is closed for it.
cdef status_t requests_take(ClientServer* server, ClientConnection* connection,
                            const ClientRequest* request) noexcept nogil
# A ticket of the mailbox: answer whoever waits for it, or park it until its connection takes more. Takes its two holds
# over. The connection that was answered and may have room for more of its requests; NULL: none.
cdef ClientConnection* requests_done(ClientServer* server, Ticket* ticket) noexcept nogil
# The connection may take more: answers that were parked, as many as fit it and this turn.
cdef void requests_serve_parked(ClientServer* server, ClientConnection* connection) noexcept nogil
# It is closed: nobody hears them.
cdef void requests_drop_parked(ClientServer* server, ClientConnection* connection) noexcept nogil
cdef void requests_tell_leader(ClientServer* server, ClientConnection* connection) noexcept nogil
# Give everything back that still waits; nobody answers any more.
cdef void requests_release(ClientServer* server) noexcept nogil
