# Requests of clients that are under way: how one is handed to the loop, and how it is answered.
#
# This module knows no kind of request. server/requests has the table of kinds, and their modules use this one.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.engine.submission cimport Submission
from raftmeta.server.state cimport ClientConnection, ClientPending, ClientServer, Parts
from raftmeta.status cimport status_t

# An answer to a request; the body is copied.
cdef void request_answer(ClientServer* server, ClientConnection* connection, uint64_t id, status_t status,
                         uint64_t revision, uint64_t index, const uint8_t* body, size_t length) noexcept nogil
# Submit `what`, its kind and arguments, of this connection (NULL: nobody is answered), with this payload behind it; the
# pending request is made from its image, with `held` behind it. Either may be NULL. NO_MEMORY: nothing was submitted.
cdef status_t request_submit(ClientServer* server, ClientConnection* connection, const ClientPending* image,
                             const Parts* held, const Parts* payload, const Submission* what) noexcept nogil
# The kind, and no arguments yet.
cdef Submission submission_of(uint8_t kind) noexcept nogil
cdef Parts parts_of(const uint8_t* first, uint32_t first_length, const uint8_t* last,
                    uint32_t last_length) noexcept nogil
# Urgent requests have as much room again, and no more: a client decides what it sends.
cdef bint request_is_crowded(const ClientServer* server, bint is_urgent) noexcept nogil
