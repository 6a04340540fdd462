# What a client asks and what it is answered.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.runtime.clients_state cimport ClientServer, ClientWatch, Connection
from raftmeta.runtime.tickets cimport Ticket
from raftmeta.status cimport status_t
from raftmeta.wire.client_messages cimport ClientRequest

# The body of the first frame. Not OK: refused with it.
cdef status_t requests_hello(ClientServer* server, Connection* connection, const uint8_t* body,
                             uint32_t length) noexcept nogil
# One sound request. Not OK: the connection is closed for it.
cdef status_t requests_take(ClientServer* server, Connection* connection, const ClientRequest* request) noexcept nogil
# A ticket of the mailbox: answer whoever waits for it. Takes its two holds over.
cdef void requests_done(ClientServer* server, Ticket* ticket) noexcept nogil
# Submit SUBMIT_UNWATCH. connection and id: who asked for it; NULL: nobody is answered.
cdef void requests_unwatch(ClientServer* server, Connection* connection, ClientWatch* watch, uint64_t id) noexcept nogil
# Names and addresses, as the loop published them last.
cdef void requests_read_members(ClientServer* server) noexcept nogil
cdef void requests_tell_leader(ClientServer* server, Connection* connection) noexcept nogil
# Give everything back that still waits; nobody answers any more.
cdef void requests_release(ClientServer* server) noexcept nogil
