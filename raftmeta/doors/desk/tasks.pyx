"""Questions of a door to the loop: bodies.

It decides which commands have which sequence, and when the desk's session is opened or renewed. It never looks into a
request or a result, and never waits.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from raftmeta.connections.accounts_state cimport account_drop, account_hold
from raftmeta.connections.state cimport NOWHERE, bytes_begin, bytes_end
from raftmeta.doors.desk.state cimport STAGE_DONE, STAGE_UNDER_WAY, STAGE_WAITS, TASK_OPEN, bytes_of, task_payload
from raftmeta.doors.desk.users cimport users_hold
from raftmeta.engine.submission cimport SUBMIT_CLIENT_COMMAND, submission_create, submission_payload
from raftmeta.loop.loop cimport loop_submit
from raftmeta.loop.tickets cimport ticket_create, ticket_drop
from raftmeta.machine.rights cimport rights_drop
from raftmeta.machine.rights_state cimport RightsTable
from raftmeta.machine.state cimport LEVEL_OF_RIGHTS
from raftmeta.status cimport NO_MEMORY, OK, OVERLOADED, SESSION_UNKNOWN
from raftmeta.wire.commands cimport (COMMAND_SESSION_OPEN, SPEAKER_NODE, SPEAKER_NONE, command_clear, command_encode)

cdef extern from "<sys/random.h>" nogil:
    ssize_t getrandom(void* into, size_t length, unsigned int flags)

cdef enum:
    RENEWALS_PER_TTL = 4        # of the desk's session, while nothing else renews it
    TUNE_OPEN_AGAIN_NS = 500_000_000


cdef bint random_bytes(void* into, size_t length) noexcept nogil:
    return getrandom(into, length, 0) == <ssize_t>length


# --- tasks ------------------------------------------------------------------------------------------------------------
cdef DeskTask* task_create(Desk* desk, Connection* connection, uint8_t kind, const Bytes* frame,
                           const Bytes* payload) noexcept nogil:
    cdef size_t head = desk.rules.task_bytes
    cdef DeskTask* task = <DeskTask*>calloc(1, head + frame.length + payload.length)
    if task == NULL:
        return NULL
    task.kind = kind
    task.stage = STAGE_WAITS
    task.begun_ns = desk.base.now_ns
    task.place = connection.place if connection != NULL else <uint32_t>NOWHERE
    task.generation = connection.generation if connection != NULL else 0
    task.frame_length = frame.length
    task.payload_length = payload.length
    if frame.length:
        memcpy(<uint8_t*>task + head, frame.data, frame.length)
    if payload.length:
        memcpy(<uint8_t*>task + head + frame.length, payload.data, payload.length)
    task.account = connection.account if connection != NULL else NULL
    account_hold(task.account)
    bytes_begin(&desk.base, task.account, head + frame.length + payload.length)
    return task


cdef void task_drop_ticket(DeskTask* task) noexcept nogil:
    if task.ticket != NULL:
        ticket_drop(task.ticket)        # the engine's hold, then the desk's
        ticket_drop(task.ticket)
    task.ticket = NULL


cdef void task_free(Desk* desk, DeskTask* task) noexcept nogil:
    task_drop_ticket(task)
    bytes_end(&desk.base, task.account, desk.rules.task_bytes + task.frame_length + task.payload_length)
    account_drop(task.account)
    free(task)


cdef Submission submission_of(uint8_t kind) noexcept nogil:
    cdef Submission what
    memset(&what, 0, sizeof(Submission))
    what.kind = kind
    return what


cdef status_t task_submit(Desk* desk, DeskTask* task, const Submission* what) noexcept nogil:
    cdef Submission* submission = submission_create(what.kind, task.payload_length)
    cdef Ticket* ticket = ticket_create(desk.mailbox, True)
    if submission == NULL or ticket == NULL:
        free(submission)
        if ticket != NULL:
            ticket_drop(ticket)
            ticket_drop(ticket)
        return NO_MEMORY
    submission.arguments = what.arguments
    submission.owner = ticket
    if task.payload_length:
        memcpy(submission_payload(submission), task_payload(desk, task), task.payload_length)
    ticket.is_of_client = True
    ticket.waiter = task
    if desk.rules.sent != NULL:
        desk.rules.sent(desk, task)
    task.stage = STAGE_UNDER_WAY
    task.previous_out = NULL
    task.next_out = desk.out
    if desk.out != NULL:
        desk.out.previous_out = task
    desk.out = task
    loop_submit(desk.loop, submission)
    desk.has_submitted = True
    return OK


cdef status_t task_submit_command(Desk* desk, DeskTask* task) noexcept nogil:
    cdef Submission what = submission_of(SUBMIT_CLIENT_COMMAND)
    what.arguments.command.session = task.session
    what.arguments.command.sequence = task.sequence
    what.arguments.command.is_urgent = task.is_urgent
    return task_submit(desk, task, &what)


cdef DeskTask* task_ask(Desk* desk, uint8_t kind, const Submission* what) noexcept nogil:
    cdef Bytes nothing = bytes_of(NULL, 0)
    cdef DeskTask* task = task_create(desk, NULL, kind, &nothing, &nothing)
    if task != NULL and task_submit(desk, task, what) != OK:
        task_free(desk, task)
        return NULL
    return task


cdef DeskTask* task_of(Desk* desk, Ticket* ticket) noexcept nogil:
    cdef DeskTask* task = <DeskTask*>ticket.waiter
    ticket.waiter = NULL
    if task.previous_out != NULL:
        task.previous_out.next_out = task.next_out
    else:
        desk.out = task.next_out
    if task.next_out != NULL:
        task.next_out.previous_out = task.previous_out
    if desk.rules.returned != NULL:
        desk.rules.returned(desk, task)
    task.ticket = ticket
    task.stage = STAGE_DONE
    return task


cdef void tasks_release(Desk* desk) noexcept nogil:
    cdef DeskTask* task
    while desk.out != NULL:
        task = desk.out
        desk.out = task.next_out
        task_free(desk, task)
    desk.answered.release()


# --- the desk's session -----------------------------------------------------------------------------------------------
# The next sequence; 0: no memory.
cdef uint64_t _take_sequence(Desk* desk) noexcept nogil:
    if not desk.answered.push(0):
        return 0
    desk.next_sequence += 1
    return desk.next_sequence - 1


cdef void sequence_done(Desk* desk, const DeskTask* task) noexcept nogil:
    if task.sequence == 0 or task.session != desk.session or task.sequence < desk.lowest:
        return
    (&desk.answered.at(task.sequence - desk.lowest))[0] = 1
    while desk.answered.size and desk.answered.front():
        desk.answered.pop_front()
        desk.lowest += 1


cdef status_t command_submit(Desk* desk, Connection* connection, uint8_t kind, const Bytes* frame, bint is_urgent,
                             DeskTask** made) noexcept nogil:
    cdef uint64_t sequence = _take_sequence(desk)
    cdef Bytes nothing = bytes_of(NULL, 0)
    cdef Bytes payload
    cdef DeskTask* task = NULL
    cdef status_t status = NO_MEMORY
    if sequence == 0:
        return NO_MEMORY
    desk.command.session = desk.session
    desk.command.sequence = sequence
    desk.command.lowest_unanswered = desk.lowest
    desk.payload.clear()
    status = command_encode(&desk.command, &desk.payload)
    if status == OK:
        payload = bytes_of(desk.payload.data, desk.payload.size)
        task = task_create(desk, connection, kind, frame if frame != NULL else &nothing, &payload)
        status = OK if task != NULL else NO_MEMORY
    if status == OK:
        task.session = desk.session
        task.sequence = sequence
        task.is_urgent = is_urgent
        status = task_submit_command(desk, task)
    if status == OK:
        if made != NULL:
            made[0] = task
        return OK
    _give_back(desk, sequence)
    if task != NULL:
        task_free(desk, task)
    return status


# A sequence that no command got: it was the newest one.
cdef void _give_back(Desk* desk, uint64_t sequence) noexcept nogil:
    desk.answered.pop_back()
    desk.next_sequence = sequence


# A session from before rights were configured has no owner, and while they are on nothing is done in it
# (machine/rights_decide). So it is renewed in the turn that sees them first, before any command of that turn.
cdef void _see_rights(Desk* desk) noexcept nogil:
    cdef RightsTable* table = users_hold(desk)
    if table != NULL:
        rights_drop(table)
        desk.has_rights = True
        desk.open_ns = 0


cdef void desk_session_tend(Desk* desk) noexcept nogil:
    cdef Submission what = submission_of(SUBMIT_CLIENT_COMMAND)
    cdef Bytes nothing = bytes_of(NULL, 0)
    cdef Bytes payload
    cdef DeskTask* task
    cdef uint64_t pause_ns = TUNE_OPEN_AGAIN_NS
    if not desk.has_rights:
        _see_rights(desk)
    if desk.session != 0:
        pause_ns = desk.desk_limits.session_ttl_ms * 1_000_000 // RENEWALS_PER_TTL
    if desk.is_opening or (desk.open_ns != 0 and desk.base.now_ns - desk.open_ns < pause_ns):
        return
    desk.open_ns = desk.base.now_ns
    if desk.session == 0 and desk.opening == 0:
        if not random_bytes(&desk.opening, sizeof(desk.opening)):
            desk.opening = 0
            return
        desk.opening |= <uint64_t>1 << 63
    command_clear(&desk.command)
    desk.command.kind = COMMAND_SESSION_OPEN
    desk.command.id = desk.session if desk.session != 0 else desk.opening
    desk.command.ttl_ms = desk.desk_limits.session_ttl_ms
    desk.command.window = desk.desk_limits.session_window
    desk.command.speaker = SPEAKER_NODE if desk.status.machine.feature_level >= LEVEL_OF_RIGHTS else SPEAKER_NONE
    desk.payload.clear()
    if command_encode(&desk.command, &desk.payload) != OK:
        return
    payload = bytes_of(desk.payload.data, desk.payload.size)
    task = task_create(desk, NULL, TASK_OPEN, &nothing, &payload)
    if task == NULL:
        return
    task.session = desk.command.id
    what.arguments.command.session = desk.command.id
    what.arguments.command.is_urgent = True
    if task_submit(desk, task, &what) != OK:
        task_free(desk, task)
        return
    desk.is_opening = True


cdef bint desk_session_opened(Desk* desk, const DeskTask* task) noexcept nogil:
    desk.is_opening = False
    if task.ticket.status == OK and desk.session == 0 and task.session == desk.opening:
        desk.session = desk.opening
        desk.opening = 0
        desk.next_sequence = desk.lowest = 1
        desk.answered.clear()
        return True
    if task.ticket.status == OK or task.ticket.status == OVERLOADED:
        return True
    if task.ticket.status == SESSION_UNKNOWN:
        if desk.session == task.session:
            return False
        desk.opening = 0
    return True


cdef void desk_session_lost(Desk* desk) noexcept nogil:
    desk.session = 0
    desk.opening = 0
    desk.open_ns = 0
    desk.answered.clear()
