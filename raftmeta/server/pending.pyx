"""Requests of clients on their way: answers out, submissions to the loop.

It decides when too much is under way. It must never look into a request, or wait for one.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from raftmeta.connections.accounts_state cimport account_hold
from raftmeta.connections.state cimport NOWHERE, bytes_begin
from raftmeta.engine.submission cimport Submission, submission_create, submission_payload
from raftmeta.loop.loop cimport loop_submit
from raftmeta.loop.tickets cimport Ticket, ticket_create, ticket_drop
from raftmeta.server.audit cimport audit_answer, audit_carry, audit_note_bytes
from raftmeta.server.output cimport connection_send
from raftmeta.server.state cimport ClientPending, Parts
from raftmeta.status cimport NO_MEMORY, OK, OVERLOADED, status_t
from raftmeta.wire.client_messages cimport CLIENT_ANSWER, REQUEST_COMMAND, ClientMessage


# --- answers ----------------------------------------------------------------------------------------------------------
cdef void request_answer(ClientServer* server, ClientConnection* connection, uint64_t id, status_t status,
                         uint64_t revision, uint64_t index, const uint8_t* body, size_t length) noexcept nogil:
    cdef ClientMessage message
    message.kind = CLIENT_ANSWER
    message.id = id
    message.status = status
    message.revision = revision
    message.index = index
    message.body.data = body
    message.body.length = <uint32_t>length
    server.counters.overloaded += status == OVERLOADED
    audit_answer(server, id, status, revision, index)
    connection_send(server, connection, &message)


# --- submitting -------------------------------------------------------------------------------------------------------
cdef Parts parts_of(const uint8_t* first, uint32_t first_length, const uint8_t* last,
                    uint32_t last_length) noexcept nogil:
    cdef Parts parts
    parts.first.data = first
    parts.first.length = first_length
    parts.last.data = last
    parts.last.length = last_length
    return parts


cdef uint32_t _put(uint8_t* at, const Parts* parts) noexcept nogil:
    if parts.first.length != 0:
        memcpy(at, parts.first.data, parts.first.length)
    if parts.last.length != 0:
        memcpy(at + parts.first.length, parts.last.data, parts.last.length)
    return parts.first.length + parts.last.length


cdef Submission submission_of(uint8_t kind) noexcept nogil:
    cdef Submission what
    memset(&what, 0, sizeof(Submission))
    what.kind = kind
    return what


cdef status_t request_submit(ClientServer* server, ClientConnection* connection, const ClientPending* image,
                             const Parts* held, const Parts* payload, const Submission* what) noexcept nogil:
    cdef Parts kept = held[0] if held != NULL else parts_of(NULL, 0, NULL, 0)
    cdef Parts sent = payload[0] if payload != NULL else parts_of(NULL, 0, NULL, 0)
    cdef size_t kept_length = <size_t>kept.first.length + kept.last.length
    cdef size_t sent_length = <size_t>sent.first.length + sent.last.length
    cdef size_t note_length = audit_note_bytes(server, connection, image.id)
    cdef ClientPending* pending = <ClientPending*>calloc(1, sizeof(ClientPending) + kept_length + note_length)
    cdef Submission* submission = submission_create(what.kind, sent_length)
    cdef Ticket* ticket = ticket_create(server.mailbox, True)
    if pending == NULL or submission == NULL or ticket == NULL:
        free(pending)
        free(submission)
        if ticket != NULL:
            ticket_drop(ticket)
            ticket_drop(ticket)
        return NO_MEMORY
    pending[0] = image[0]
    pending.key_length = kept.first.length
    pending.length = _put(<uint8_t*>pending + sizeof(ClientPending), &kept)
    pending.note_length = <uint32_t>note_length
    audit_carry(server, pending)
    submission.arguments = what.arguments
    submission.owner = ticket
    _put(submission_payload(submission), &sent)
    pending.place = connection.base.place if connection != NULL else <uint32_t>NOWHERE
    pending.generation = connection.base.generation if connection != NULL else 0
    ticket.is_of_client = True
    ticket.waiter = pending
    ticket.previous_waiting = NULL
    ticket.next_waiting = server.waiting
    if server.waiting != NULL:
        server.waiting.previous_waiting = ticket
    server.waiting = ticket
    pending.bytes = sizeof(ClientPending) + kept_length + note_length + sent_length
    pending.account = connection.base.account if connection != NULL else NULL
    account_hold(pending.account)
    bytes_begin(&server.base, pending.account, pending.bytes)
    if connection != NULL:
        connection.under_way += 1
        if pending.kind != REQUEST_COMMAND:
            connection.read_bytes += pending.bytes
    loop_submit(server.loop, submission)
    server.has_submitted = True
    return OK


cdef bint request_is_crowded(const ClientServer* server, bint is_urgent) noexcept nogil:
    return server.base.bytes_under_way >= server.base.limits.bytes_under_way_max * (2 if is_urgent else 1)
