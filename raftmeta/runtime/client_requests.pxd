# What a client asks and what it is answered.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.runtime.clients_state cimport ClientPending, ClientServer, ClientWatch, Connection, Parts
from raftmeta.runtime.engine_state cimport Submission
from raftmeta.runtime.tickets cimport Ticket
from raftmeta.status cimport status_t
from raftmeta.wire.client_messages cimport ClientRequest

# The body of the first frame. Not OK: refused with it.
cdef status_t requests_hello(ClientServer* server, Connection* connection, const uint8_t* body,
                             uint32_t length) noexcept nogil
# One sound request. Not OK: the connection is closed for it.
cdef status_t requests_take(ClientServer* server, Connection* connection, const ClientRequest* request) noexcept nogil
# A ticket of the mailbox: answer whoever waits for it, or park it until its connection takes more. Takes its two holds
# over.
cdef void requests_done(ClientServer* server, Ticket* ticket) noexcept nogil
# The connection may take more: answers that were parked, as many as fit it and this turn.
cdef void requests_serve_parked(ClientServer* server, Connection* connection) noexcept nogil
# It is closed: nobody hears them.
cdef void requests_drop_parked(ClientServer* server, Connection* connection) noexcept nogil
# Submit SUBMIT_UNWATCH. connection and id: who asked for it; NULL: nobody is answered.
cdef void requests_unwatch(ClientServer* server, Connection* connection, ClientWatch* watch, uint64_t id) noexcept nogil
# An answer to a request; the body is copied.
cdef void request_answer(ClientServer* server, Connection* connection, uint64_t id, status_t status,
                         uint64_t revision, uint64_t index, const uint8_t* body, size_t length) noexcept nogil
# Submit `what` as this kind, of this connection (NULL: nobody is answered), with this payload behind it; the pending
# request is made from its image, with `held` behind it. Either may be NULL. NO_MEMORY: nothing was submitted.
cdef status_t request_submit(ClientServer* server, Connection* connection, uint8_t kind, const ClientPending* image,
                             const Parts* held, const Parts* payload, const Submission* what) noexcept nogil
cdef Parts parts_of(const uint8_t* first, uint32_t first_length, const uint8_t* last,
                    uint32_t last_length) noexcept nogil
# What is urgent has as much room again, and no more: a client decides what it sends.
cdef bint request_is_crowded(const ClientServer* server, bint is_urgent) noexcept nogil
# Names and addresses, as the loop published them last.
cdef void requests_read_members(ClientServer* server) noexcept nogil
cdef void requests_tell_leader(ClientServer* server, Connection* connection) noexcept nogil
# Give everything back that still waits; nobody answers any more.
cdef void requests_release(ClientServer* server) noexcept nogil
