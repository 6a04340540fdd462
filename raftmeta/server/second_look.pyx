"""A refusal for users or rights is said only by a node that knows the newest of them: bodies."""

from libc.string cimport memset

from raftmeta.engine.submission cimport SUBMIT_READ, Submission
from raftmeta.server.members cimport members_is_ready
from raftmeta.server.pending cimport request_submit, submission_of
from raftmeta.server.state cimport LOOK_ASKED, LOOK_DONE, LOOK_NONE, PENDING_LOOK, ClientPending
from raftmeta.status cimport AUTHENTICATION_FAILED, NOT_READY, OK


cdef bint second_look_begin(ClientServer* server, ClientConnection* connection) noexcept nogil:
    cdef ClientPending pending
    cdef Submission what = submission_of(SUBMIT_READ)
    if connection.look != LOOK_NONE or not members_is_ready(server):
        return False
    memset(&pending, 0, sizeof(ClientPending))
    pending.kind = PENDING_LOOK
    pending.id = ~server.audit_id       # the request keeps its note: it will be noted when it is taken again
    if request_submit(server, connection, &pending, NULL, NULL, &what) != OK:
        return False
    server.has_note = False
    connection.look = LOOK_ASKED
    return True


cdef void second_look_done(ClientConnection* connection, const Ticket* ticket) noexcept nogil:
    connection.look = LOOK_DONE
    connection.look_status = ticket.status


cdef void second_look_end(ClientConnection* connection) noexcept nogil:
    if connection.look == LOOK_DONE:
        connection.look = LOOK_NONE
        connection.look_status = OK


cdef status_t second_look_verdict(ClientServer* server, const ClientConnection* connection,
                                  status_t status) noexcept nogil:
    if connection.look_status != OK:
        return connection.look_status
    # Without a second look this node may not know the user yet.
    if status == AUTHENTICATION_FAILED and connection.look == LOOK_NONE and connection.principal.name_length != 0:
        return NOT_READY
    return status
