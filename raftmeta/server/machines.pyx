"""User machines of clients.

    command     into the log -> index of its entry -> the outcome that this node's copy has for it
    read        a read round, unless it is local -> the method, run by the copy that has caught up with that

It decides nothing: both are answered with the bytes that the copy gives. It must never know what a machine
is; a copy runs on a Python thread of its own (face/user_machine), and is asked through the loop.
"""

from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memset

from raftmeta.engine.submission cimport SUBMIT_READ, SUBMIT_USER_ASK, Submission
from raftmeta.engine.user_fetches cimport ASK_LOCAL_READ, ASK_OUTCOME, ASK_READ
from raftmeta.server.pending cimport parts_of, request_answer, request_is_crowded, request_submit, submission_of
from raftmeta.server.state cimport Parts
from raftmeta.status cimport BAD_FIELD, OK, OUTCOME_UNKNOWN, OVERLOADED
from raftmeta.wire.client_messages cimport READ_LOCAL, REQUEST_COMMAND
from raftmeta.wire.msgpack cimport Reader, number_max, read_array, read_uint, reader_over

cdef enum:
    AWAITS_LOG = 0              # the command, or the read round
    AWAITS_COPY = 1

cdef enum:
    RESULT_ELEMENTS = 3         # docs/formats.md "Results"
    RESULT_STATUS_MAX = 63


cdef void _ask(ClientServer* server, ClientConnection* connection, const ClientPending* before, uint8_t ask,
               uint64_t index, const Parts* payload) noexcept nogil:
    cdef ClientPending pending = before[0]
    cdef Submission what = submission_of(SUBMIT_USER_ASK)
    cdef Parts name = parts_of(payload.first.data, payload.first.length, NULL, 0)
    pending.phase = AWAITS_COPY
    what.arguments.user_ask.ask = ask
    what.arguments.user_ask.index = index
    what.arguments.user_ask.name_length = name.first.length
    if request_submit(server, connection, &pending, &name, payload, &what) != OK:
        # A command is in the log: that its outcome was not asked for does not undo it.
        request_answer(server, connection, before.id,
                       OUTCOME_UNKNOWN if before.kind == REQUEST_COMMAND else OVERLOADED, 0, 0, NULL, 0)


# The index in the result of a command of a machine; 0: there is none.
cdef uint64_t _entry_of(const Ticket* ticket) noexcept nogil:
    cdef Reader reader = reader_over(ticket.body, ticket.length)
    cdef uint64_t index
    read_array(&reader, RESULT_ELEMENTS)
    read_uint(&reader, RESULT_STATUS_MAX)
    read_uint(&reader, number_max())
    index = read_uint(&reader, number_max())
    return index if reader.status == OK else 0


cdef void machine_told(ClientServer* server, ClientConnection* connection, const ClientPending* pending,
                       const Ticket* ticket) noexcept nogil:
    cdef const uint8_t* name = <const uint8_t*>pending + sizeof(ClientPending)
    cdef Parts asked = parts_of(name, pending.key_length, name + pending.key_length,
                                pending.length - pending.key_length)
    cdef uint64_t index
    if ticket.status != OK or pending.phase == AWAITS_COPY:
        request_answer(server, connection, pending.id, ticket.status, ticket.revision, ticket.index, ticket.body,
                       ticket.length)
    elif pending.kind != REQUEST_COMMAND:
        _ask(server, connection, pending, ASK_READ, 0, &asked)
    else:
        index = _entry_of(ticket)
        if index != 0:
            _ask(server, connection, pending, ASK_OUTCOME, index, &asked)
        else:
            request_answer(server, connection, pending.id, BAD_FIELD, 0, 0, NULL, 0)


cdef status_t machine_read(ClientServer* server, ClientConnection* connection,
                           const ClientRequest* request) noexcept nogil:
    cdef ClientPending pending
    cdef Submission what = submission_of(SUBMIT_READ)
    cdef Parts asked = parts_of(request.key.data, request.key.length, request.end.data, request.end.length)
    memset(&pending, 0, sizeof(ClientPending))
    pending.kind = request.kind
    pending.id = request.id
    if request_is_crowded(server, False):
        request_answer(server, connection, request.id, OVERLOADED, 0, 0, NULL, 0)
    elif request.flags & READ_LOCAL:
        _ask(server, connection, &pending, ASK_LOCAL_READ, 0, &asked)
    elif request_submit(server, connection, &pending, &asked, NULL, &what) != OK:
        request_answer(server, connection, request.id, OVERLOADED, 0, 0, NULL, 0)
    return OK
