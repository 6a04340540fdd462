"""Pages of users and roles for clients: bodies."""

from libc.stdint cimport uint8_t
from libc.string cimport memset

from raftmeta.engine.submission cimport SUBMIT_READ, Submission
from raftmeta.machine.rights cimport rights_drop
from raftmeta.machine.rights_show cimport RightsPage, rights_show
from raftmeta.machine.rights_state cimport RightsTable
from raftmeta.server.access cimport access_hold, access_of_listing
from raftmeta.server.output cimport connection_share
from raftmeta.server.pending cimport parts_of, request_answer, request_is_crowded, request_submit, submission_of
from raftmeta.server.state cimport Parts
from raftmeta.status cimport OK, OVERLOADED
from raftmeta.wire.client_messages cimport REQUEST_RIGHTS
from raftmeta.wire.commands cimport Bytes

cdef enum:
    TUNE_PAGE_BYTES = 1 << 20       # a page ends with the item that reaches it


cdef status_t listing_take(ClientServer* server, ClientConnection* connection,
                           const ClientRequest* request) noexcept nogil:
    cdef ClientPending pending
    cdef Submission what = submission_of(SUBMIT_READ)
    cdef Parts held = parts_of(request.key.data, request.key.length, NULL, 0)
    memset(&pending, 0, sizeof(ClientPending))
    pending.kind = REQUEST_RIGHTS
    pending.id = request.id
    pending.flags = request.flags
    pending.limit = request.limit
    if (request_is_crowded(server, False)
            or request_submit(server, connection, &pending, &held, NULL, &what) != OK):
        request_answer(server, connection, request.id, OVERLOADED, 0, 0, NULL, 0)
    return OK


cdef void listing_answer(ClientServer* server, ClientConnection* connection,
                         const ClientPending* pending) noexcept nogil:
    cdef RightsTable* table
    cdef Bytes first, asking
    cdef status_t status
    first.data = <const uint8_t*>pending + sizeof(ClientPending)
    first.length = pending.length
    asking.data = connection.principal.name
    asking.length = connection.principal.name_length
    # The right may have gone with a change that the page would show.
    status = access_of_listing(server, connection, pending.flags, &first, pending.limit)
    server.scratch.clear()
    if status == OK:
        table = access_hold(server)
        status = rights_show(table, <RightsPage>pending.flags, &asking, &first, pending.limit,
                             <unsigned int>connection_share(server, TUNE_PAGE_BYTES), &server.scratch)
        if table != NULL:
            rights_drop(table)
        if status != OK:
            status = OVERLOADED         # no memory: it may be asked again
    request_answer(server, connection, pending.id, status, server.status.machine.revision, 0, server.scratch.data,
                   server.scratch.size if status == OK else 0)
