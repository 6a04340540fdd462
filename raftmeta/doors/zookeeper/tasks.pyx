"""Questions of the ZooKeeper door to the loop: bodies.

It decides which commands have which sequence, and when the door's session is opened or renewed. It never looks into a
request or a result, and never waits.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from raftmeta.connections.accounts_state cimport account_drop, account_hold
from raftmeta.connections.state cimport NOWHERE, bytes_begin, bytes_end
from raftmeta.doors.zookeeper.state cimport (STAGE_DONE, STAGE_UNDER_WAY, STAGE_WAITS, TASK_OPEN, TASK_WRITE, bytes_of,
                                             task_payload)
from raftmeta.engine.submission cimport (SUBMIT_CLIENT_COMMAND, submission_create, submission_payload)
from raftmeta.loop.loop cimport loop_submit
from raftmeta.loop.tickets cimport ticket_create, ticket_drop
from raftmeta.machine.state cimport LEVEL_OF_RIGHTS
from raftmeta.status cimport NO_MEMORY, OK, OVERLOADED, SESSION_UNKNOWN
from raftmeta.wire.commands cimport (COMMAND_SESSION_OPEN, SPEAKER_NODE, SPEAKER_NONE, command_clear, command_encode)

cdef extern from "<sys/random.h>" nogil:
    ssize_t getrandom(void* into, size_t length, unsigned int flags)

cdef enum:
    RENEWALS_PER_TTL = 4        # of the door's session, while nothing else renews it
    TUNE_OPEN_AGAIN_NS = 500_000_000


cdef bint random_bytes(void* into, size_t length) noexcept nogil:
    return getrandom(into, length, 0) == <ssize_t>length


# --- tasks ------------------------------------------------------------------------------------------------------------
cdef ZkTask* task_create(ZkDoor* door, ZkConnection* connection, uint8_t kind, const Bytes* frame,
                         const Bytes* payload) noexcept nogil:
    cdef ZkTask* task = <ZkTask*>calloc(1, sizeof(ZkTask) + <size_t>frame.length + payload.length)
    if task == NULL:
        return NULL
    task.kind = kind
    task.stage = STAGE_WAITS
    task.begun_ns = door.base.now_ns
    task.place = connection.base.place if connection != NULL else <uint32_t>NOWHERE
    task.generation = connection.base.generation if connection != NULL else 0
    task.frame_length = frame.length
    task.payload_length = payload.length
    if frame.length:
        memcpy(<uint8_t*>task + sizeof(ZkTask), frame.data, frame.length)
    if payload.length:
        memcpy(<uint8_t*>task + sizeof(ZkTask) + frame.length, payload.data, payload.length)
    task.account = connection.base.account if connection != NULL else NULL
    account_hold(task.account)
    bytes_begin(&door.base, task.account, sizeof(ZkTask) + frame.length + payload.length)
    return task


cdef void task_drop_ticket(ZkTask* task) noexcept nogil:
    if task.ticket != NULL:
        ticket_drop(task.ticket)        # the engine's hold, then the door's
        ticket_drop(task.ticket)
    task.ticket = NULL


cdef void task_free(ZkDoor* door, ZkTask* task) noexcept nogil:
    task_drop_ticket(task)
    bytes_end(&door.base, task.account, sizeof(ZkTask) + task.frame_length + task.payload_length)
    account_drop(task.account)
    free(task)


cdef Submission submission_of(uint8_t kind) noexcept nogil:
    cdef Submission what
    memset(&what, 0, sizeof(Submission))
    what.kind = kind
    return what


cdef status_t task_submit(ZkDoor* door, ZkTask* task, const Submission* what) noexcept nogil:
    cdef Submission* submission = submission_create(what.kind, task.payload_length)
    cdef Ticket* ticket = ticket_create(door.mailbox, True)
    if submission == NULL or ticket == NULL:
        free(submission)
        if ticket != NULL:
            ticket_drop(ticket)
            ticket_drop(ticket)
        return NO_MEMORY
    submission.arguments = what.arguments
    submission.owner = ticket
    if task.payload_length:
        memcpy(submission_payload(submission), task_payload(task), task.payload_length)
    ticket.is_of_client = True
    ticket.waiter = task
    task.stage = STAGE_UNDER_WAY
    task.previous_out = NULL
    task.next_out = door.out
    if door.out != NULL:
        door.out.previous_out = task
    door.out = task
    door.writes += task.kind == TASK_WRITE
    door.writes_behind += task.is_behind_read
    loop_submit(door.loop, submission)
    door.has_submitted = True
    return OK


cdef status_t task_submit_command(ZkDoor* door, ZkTask* task) noexcept nogil:
    cdef Submission what = submission_of(SUBMIT_CLIENT_COMMAND)
    what.arguments.command.session = task.session
    what.arguments.command.sequence = task.sequence
    what.arguments.command.is_urgent = task.is_urgent
    return task_submit(door, task, &what)


cdef ZkTask* task_of(ZkDoor* door, Ticket* ticket) noexcept nogil:
    cdef ZkTask* task = <ZkTask*>ticket.waiter
    ticket.waiter = NULL
    if task.previous_out != NULL:
        task.previous_out.next_out = task.next_out
    else:
        door.out = task.next_out
    if task.next_out != NULL:
        task.next_out.previous_out = task.previous_out
    door.writes -= task.kind == TASK_WRITE
    door.writes_behind -= task.is_behind_read
    task.ticket = ticket
    task.stage = STAGE_DONE
    return task


cdef void tasks_release(ZkDoor* door) noexcept nogil:
    cdef ZkTask* task
    while door.out != NULL:
        task = door.out
        door.out = task.next_out
        task_free(door, task)
    door.answered.release()


# --- the door's session -----------------------------------------------------------------------------------------------
# The next sequence; 0: no memory.
cdef uint64_t _take_sequence(ZkDoor* door) noexcept nogil:
    if not door.answered.push(0):
        return 0
    door.next_sequence += 1
    return door.next_sequence - 1


cdef void sequence_done(ZkDoor* door, const ZkTask* task) noexcept nogil:
    if task.sequence == 0 or task.session != door.session or task.sequence < door.lowest:
        return
    (&door.answered.at(task.sequence - door.lowest))[0] = 1
    while door.answered.size and door.answered.front():
        door.answered.pop_front()
        door.lowest += 1


cdef status_t command_submit(ZkDoor* door, ZkConnection* connection, uint8_t kind, const Bytes* frame,
                             bint is_urgent, ZkTask** made) noexcept nogil:
    cdef uint64_t sequence = _take_sequence(door)
    cdef Bytes nothing = bytes_of(NULL, 0)
    cdef Bytes payload
    cdef ZkTask* task = NULL
    cdef status_t status = NO_MEMORY
    if sequence == 0:
        return NO_MEMORY
    door.command.session = door.session
    door.command.sequence = sequence
    door.command.lowest_unanswered = door.lowest
    door.payload.clear()
    status = command_encode(&door.command, &door.payload)
    if status == OK:
        payload = bytes_of(door.payload.data, door.payload.size)
        task = task_create(door, connection, kind, frame if frame != NULL else &nothing, &payload)
        status = OK if task != NULL else NO_MEMORY
    if status == OK:
        task.session = door.session
        task.sequence = sequence
        task.is_urgent = is_urgent
        task.is_behind_read = kind == TASK_WRITE and connection.reads != 0
        status = task_submit_command(door, task)
    if status == OK:
        if made != NULL:
            made[0] = task
        return OK
    _give_back(door, sequence)
    if task != NULL:
        task_free(door, task)
    return status


# A sequence that no command got: it was the newest one.
cdef void _give_back(ZkDoor* door, uint64_t sequence) noexcept nogil:
    door.answered.pop_back()
    door.next_sequence = sequence


cdef void door_session_tend(ZkDoor* door) noexcept nogil:
    cdef Submission what = submission_of(SUBMIT_CLIENT_COMMAND)
    cdef Bytes nothing = bytes_of(NULL, 0)
    cdef Bytes payload
    cdef ZkTask* task
    cdef uint64_t pause_ns = TUNE_OPEN_AGAIN_NS
    if door.session != 0:
        pause_ns = door.limits.session_ttl_ms * 1_000_000 // RENEWALS_PER_TTL
    if door.is_opening or (door.open_ns != 0 and door.base.now_ns - door.open_ns < pause_ns):
        return
    door.open_ns = door.base.now_ns
    if door.session == 0 and door.opening == 0:
        if not random_bytes(&door.opening, sizeof(door.opening)):
            door.opening = 0
            return
        door.opening |= <uint64_t>1 << 63
    command_clear(&door.command)
    door.command.kind = COMMAND_SESSION_OPEN
    door.command.id = door.session if door.session != 0 else door.opening
    door.command.ttl_ms = door.limits.session_ttl_ms
    door.command.window = door.limits.session_window
    door.command.speaker = SPEAKER_NODE if door.status.machine.feature_level >= LEVEL_OF_RIGHTS else SPEAKER_NONE
    door.payload.clear()
    if command_encode(&door.command, &door.payload) != OK:
        return
    payload = bytes_of(door.payload.data, door.payload.size)
    task = task_create(door, NULL, TASK_OPEN, &nothing, &payload)
    if task == NULL:
        return
    task.session = door.command.id
    what.arguments.command.session = door.command.id
    what.arguments.command.is_urgent = True
    if task_submit(door, task, &what) != OK:
        task_free(door, task)
        return
    door.is_opening = True


cdef bint door_session_opened(ZkDoor* door, const ZkTask* task) noexcept nogil:
    door.is_opening = False
    if task.ticket.status == OK and door.session == 0 and task.session == door.opening:
        door.session = door.opening
        door.opening = 0
        door.next_sequence = door.lowest = 1
        door.answered.clear()
        return True
    if task.ticket.status == OK or task.ticket.status == OVERLOADED:
        return True
    if task.ticket.status == SESSION_UNKNOWN:
        if door.session == task.session:
            return False
        door.opening = 0
    return True


cdef void door_session_lost(ZkDoor* door) noexcept nogil:
    door.session = 0
    door.opening = 0
    door.open_ns = 0
    door.answered.clear()
