"""The loop and the machine behind a door, for fuzzers of whole doors."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from raftmeta.doors.desk.desk cimport desk_unpin
from raftmeta.doors.desk.state cimport Desk, DeskRules
from raftmeta.doors.desk.tasks cimport task_of
from raftmeta.engine.submission cimport SUBMIT_CLIENT_COMMAND, Submission, submission_payload
from raftmeta.loop.loop cimport Loop, LoopReader
from raftmeta.loop.tickets cimport TICKET_DONE, Ticket
from raftmeta.machine.machine cimport (APPLY_FATAL, APPLY_MORE, ApplyOutcome, ApplyResult, MachineLimits, machine_apply,
                                       machine_create, machine_destroy)
from raftmeta.machine.publish cimport machine_publish
from raftmeta.machine.state cimport FORMAT_FEATURE_LEVEL_MAX
from raftmeta.raft.record cimport record_bytes
from raftmeta.raft.types cimport ENTRY_COMMAND, Record
from raftmeta.status cimport INVARIANT_BROKEN, NOT_FOUND, OK, OUTCOME_UNKNOWN, status_t
from raftmeta.wire.commands cimport COMMAND_SESSION_OPEN, command_clear, command_encode, command_init, command_release

cdef enum:
    TURN_NS = 1_000_000_000
    SESSION = 7
    TTL_MS = 60_000
    WINDOW = 4096

# The door looks at two fields of it, and hands submissions over.
cdef Loop* LOOP = <Loop*>calloc(1, sizeof(Loop))


# One entry. OUTCOME_UNKNOWN: the machine takes no more of them.
cdef status_t _apply(Behind* behind, const uint8_t* payload, uint32_t length, ApplyResult* result) noexcept nogil:
    cdef Record* record = <Record*>calloc(1, record_bytes(length))
    cdef ApplyOutcome outcome = APPLY_MORE
    if record == NULL:
        return OUTCOME_UNKNOWN
    behind.index += 1
    record.length = length
    record.index = behind.index
    record.term = 1
    record.wall_ms = record.lease_ms = behind.index * 1000
    record.type = ENTRY_COMMAND
    memcpy(<uint8_t*>record + sizeof(Record), payload, length)
    while outcome == APPLY_MORE:
        outcome = machine_apply(behind.machine, record, result)
    free(record)
    if outcome == APPLY_FATAL:
        if result.status == INVARIANT_BROKEN:
            behind.is_broken = True
        return OUTCOME_UNKNOWN
    return result.status if machine_publish(behind.machine) == OK else <status_t>OUTCOME_UNKNOWN


cdef bint _open_session(Behind* behind) noexcept nogil:
    cdef Desk* desk = behind.desk
    cdef ApplyResult result
    command_clear(&desk.command)
    desk.command.kind = COMMAND_SESSION_OPEN
    desk.command.id = SESSION
    desk.command.ttl_ms = TTL_MS
    desk.command.window = WINDOW
    desk.payload.clear()
    if command_encode(&desk.command, &desk.payload) != OK:
        return False
    desk.session = SESSION
    desk.next_sequence = desk.lowest = 1
    return _apply(behind, desk.payload.data, <uint32_t>desk.payload.size, &result) == OK


cdef bint behind_open(Behind* behind, Desk* desk, LoopReader reader, const DeskRules* rules) noexcept nogil:
    cdef MachineLimits limits
    memset(&limits, 0, sizeof(limits))
    limits.value_bytes_max = 1 << 20
    limits.session_window = WINDOW
    limits.changes_per_slice = 64
    memset(behind, 0, sizeof(Behind))
    behind.desk = desk
    behind.machine = machine_create(&limits)
    if LOOP == NULL or behind.machine == NULL:
        return False
    behind.machine.feature_level = FORMAT_FEATURE_LEVEL_MAX
    LOOP.machine = behind.machine
    desk.loop = LOOP
    desk.reader = reader
    desk.rules = rules
    desk.base.limits.connections_max = 1
    desk.base.now_ns = TURN_NS
    command_init(&desk.command)
    return _open_session(behind)


cdef void behind_begin(Behind* behind) noexcept nogil:
    behind.desk.base.now_ns += <uint64_t>TURN_NS
    behind.desk.base.turn_bytes = 0


# Only commands are carried out: there is no engine that knows leases, members or watches.
cdef void _answer(Behind* behind, Submission* submission) noexcept nogil:
    cdef Ticket* ticket = <Ticket*>submission.owner
    cdef ApplyResult result
    memset(&result, 0, sizeof(result))
    desk_unpin(behind.desk)
    ticket.status = NOT_FOUND
    if submission.kind == SUBMIT_CLIENT_COMMAND:
        ticket.status = _apply(behind, submission_payload(submission), submission.length, &result)
    ticket.revision = result.revision
    ticket.index = behind.index
    if result.length and ticket.status != OUTCOME_UNKNOWN:
        ticket.body = <uint8_t*>malloc(result.length)
        if ticket.body != NULL:
            memcpy(ticket.body, result.body, result.length)
            ticket.length = result.length
    ticket.state = TICKET_DONE
    free(submission)
    behind.desk.rules.answered(behind.desk, task_of(behind.desk, ticket))


cdef void behind_answer(Behind* behind) noexcept nogil:
    cdef Submission* submission
    cdef Submission* next
    desk_unpin(behind.desk)
    submission = LOOP.submissions.take()
    while submission != NULL:
        next = submission.next
        _answer(behind, submission)
        submission = next
    if behind.desk.wants_round:
        behind.desk.wants_round = False
        behind.desk.round += 1
        behind.desk.round_done = behind.desk.round
    desk_unpin(behind.desk)


cdef void behind_close(Behind* behind) noexcept nogil:
    if behind.desk != NULL:
        command_release(&behind.desk.command)
        behind.desk.payload.release()
        behind.desk.answered.release()
        behind.desk.base.dirty.release()
        behind.desk.base.waiting.release()
    if LOOP != NULL:
        LOOP.machine = NULL
    if behind.machine != NULL:
        machine_destroy(behind.machine)
