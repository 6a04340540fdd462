"""The whole Kafka door for fuzzers: every request is carried out, by the door's own code and a machine of its own.

There is no thread and no socket. The commands that the door submits are applied at once by a machine that was empty,
and their answers go back to the requests. Time passes between turns, so a request that waits is answered in the end.
"""
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from raftmeta.connections.state cimport CONNECTION_CLOSING, CONNECTION_OPEN
from raftmeta.doors.desk.desk cimport desk_unpin
from raftmeta.doors.desk.state cimport DeskRules
from raftmeta.doors.desk.tasks cimport task_of
from raftmeta.doors.kafka.codec cimport KAFKA_LENGTH_BYTES
from raftmeta.doors.kafka.requests cimport requests_answered, requests_drop, requests_go, requests_take
from raftmeta.doors.kafka.sasl cimport sasl_prepare, sasl_release
from raftmeta.doors.kafka.state cimport KafkaConnection, KafkaDoor, KafkaTask
from raftmeta.engine.submission cimport Submission, submission_payload
from raftmeta.loop.loop cimport READER_KAFKA, Loop
from raftmeta.loop.tickets cimport TICKET_DONE, Ticket
from raftmeta.machine.machine cimport (APPLY_FATAL, APPLY_MORE, ApplyOutcome, ApplyResult, Machine, MachineLimits,
                                       machine_apply, machine_create, machine_destroy)
from raftmeta.machine.publish cimport machine_publish
from raftmeta.machine.state cimport FORMAT_FEATURE_LEVEL_MAX
from raftmeta.native.containers cimport Vec
from raftmeta.raft.record cimport record_bytes
from raftmeta.raft.types cimport ENTRY_COMMAND, Record
from raftmeta.status cimport INVARIANT_BROKEN, OK, OUTCOME_UNKNOWN, status_t
from raftmeta.wire.commands cimport COMMAND_SESSION_OPEN, command_clear, command_encode, command_init, command_release

cdef enum:
    FRAME_BYTES_MAX = 1 << 20
    TURNS_MAX = 64
    TURN_NS = 1_000_000_000
    SESSION = 7
    TTL_MS = 60_000
    WINDOW = 4096
    MEMBERS_MAX = 10

cdef struct Stage:
    KafkaDoor* door
    KafkaConnection* connection
    Machine* machine
    uint64_t index
    int wrong

cdef DeskRules RULES
RULES.task_bytes = sizeof(KafkaTask)

# The door looks at two fields of it, and hands submissions over.
cdef Loop* LOOP = <Loop*>calloc(1, sizeof(Loop))


# --- the loop's part --------------------------------------------------------------------------------------------------
# One entry. OUTCOME_UNKNOWN: the machine takes no more of them.
cdef status_t _apply(Stage* stage, const uint8_t* payload, uint32_t length, ApplyResult* result) noexcept nogil:
    cdef Record* record = <Record*>calloc(1, record_bytes(length))
    cdef ApplyOutcome outcome = APPLY_MORE
    if record == NULL:
        return OUTCOME_UNKNOWN
    stage.index += 1
    record.length = length
    record.index = stage.index
    record.term = 1
    record.wall_ms = record.lease_ms = stage.index * 1000
    record.type = ENTRY_COMMAND
    memcpy(<uint8_t*>record + sizeof(Record), payload, length)
    while outcome == APPLY_MORE:
        outcome = machine_apply(stage.machine, record, result)
    free(record)
    if outcome == APPLY_FATAL:
        if result.status == INVARIANT_BROKEN:
            stage.wrong = KAFKA_STATE
        return OUTCOME_UNKNOWN
    return result.status if machine_publish(stage.machine) == OK else <status_t>OUTCOME_UNKNOWN


cdef void _answer(Stage* stage, Submission* submission) noexcept nogil:
    cdef Ticket* ticket = <Ticket*>submission.owner
    cdef ApplyResult result
    memset(&result, 0, sizeof(result))
    desk_unpin(&stage.door.desk)
    ticket.status = _apply(stage, submission_payload(submission), submission.length, &result)
    ticket.revision = result.revision
    ticket.index = stage.index
    if result.length and ticket.status != OUTCOME_UNKNOWN:
        ticket.body = <uint8_t*>malloc(result.length)
        if ticket.body != NULL:
            memcpy(ticket.body, result.body, result.length)
            ticket.length = result.length
    ticket.state = TICKET_DONE
    free(submission)
    requests_answered(stage.door, <KafkaTask*>task_of(&stage.door.desk, ticket))


cdef void _answer_all(Stage* stage) noexcept nogil:
    cdef Submission* submission = LOOP.submissions.take()
    cdef Submission* next
    while submission != NULL:
        next = submission.next
        _answer(stage, submission)
        submission = next
    if stage.door.desk.wants_round:
        stage.door.desk.wants_round = False
        stage.door.desk.round += 1
        stage.door.desk.round_done = stage.door.desk.round


# --- the door ---------------------------------------------------------------------------------------------------------
cdef bint _open_session(Stage* stage) noexcept nogil:
    cdef KafkaDoor* door = stage.door
    cdef ApplyResult result
    command_clear(&door.desk.command)
    door.desk.command.kind = COMMAND_SESSION_OPEN
    door.desk.command.id = SESSION
    door.desk.command.ttl_ms = TTL_MS
    door.desk.command.window = WINDOW
    door.desk.payload.clear()
    if command_encode(&door.desk.command, &door.desk.payload) != OK:
        return False
    door.desk.session = SESSION
    door.desk.next_sequence = door.desk.lowest = 1
    return _apply(stage, door.desk.payload.data, <uint32_t>door.desk.payload.size, &result) == OK


cdef bint _open(Stage* stage) noexcept nogil:
    cdef MachineLimits limits
    cdef KafkaDoor* door = <KafkaDoor*>calloc(1, sizeof(KafkaDoor))
    memset(stage, 0, sizeof(Stage))
    memset(&limits, 0, sizeof(limits))
    limits.value_bytes_max = 1 << 20
    limits.session_window = WINDOW
    limits.changes_per_slice = 64
    stage.door = door
    stage.connection = <KafkaConnection*>calloc(1, sizeof(KafkaConnection))
    stage.machine = machine_create(&limits)
    if LOOP == NULL or door == NULL or stage.connection == NULL or stage.machine == NULL:
        return False
    stage.machine.feature_level = FORMAT_FEATURE_LEVEL_MAX
    LOOP.machine = stage.machine
    door.desk.loop = LOOP
    door.desk.reader = READER_KAFKA
    door.desk.rules = &RULES
    door.desk.base.items = <uint8_t*>stage.connection
    door.desk.base.item_bytes = sizeof(KafkaConnection)
    door.desk.base.limits.connections_max = 1
    door.desk.base.now_ns = TURN_NS
    door.limits.session_min_ms = 1
    door.limits.session_max_ms = TTL_MS
    door.limits.members_max = MEMBERS_MAX
    door.limits.value_bytes_max = limits.value_bytes_max
    door.connections = stage.connection
    door.is_serving = True
    stage.connection.base.state = CONNECTION_OPEN
    command_init(&door.desk.command)
    return sasl_prepare(door) and _open_session(stage)


cdef void _close(Stage* stage) noexcept nogil:
    cdef KafkaDoor* door = stage.door
    if door != NULL and stage.connection != NULL:
        requests_drop(door, stage.connection)
        _answer_all(stage)
        if door.desk.base.bytes_under_way != 0 and stage.wrong == 0:
            stage.wrong = KAFKA_BYTES
        desk_unpin(&door.desk)
        sasl_release(stage.connection)
        stage.connection.base.out.release()
        command_release(&door.desk.command)
        door.desk.payload.release()
        door.desk.answered.release()
        door.desk.base.dirty.release()
        door.desk.base.waiting.release()
        door.brokers.release()
        door.kept.release()
        door.pairs.release()
        door.request.release()
        door.topic_places.release()
        door.topic_names.release()
    LOOP.machine = NULL
    if stage.machine != NULL:
        machine_destroy(stage.machine)
    free(stage.connection)
    free(door)


# Each answer is a frame.
cdef void _look(Stage* stage) noexcept nogil:
    cdef Vec[uint8_t]* out = &stage.connection.base.out
    cdef uint64_t length
    cdef size_t at = 0
    cdef int i
    while at < out.size and stage.wrong == 0:
        length = 0
        for i in range(KAFKA_LENGTH_BYTES):
            length = length << 8 | out.data[at + i] if at + i < out.size else out.size
        at += KAFKA_LENGTH_BYTES + length
    if at != out.size and stage.wrong == 0:
        stage.wrong = KAFKA_ANSWER
    out.clear()


cdef void _turn(Stage* stage) noexcept nogil:
    stage.door.desk.base.now_ns += <uint64_t>TURN_NS
    stage.door.desk.base.turn_bytes = 0
    requests_go(stage.door, stage.connection)
    desk_unpin(&stage.door.desk)
    _answer_all(stage)
    desk_unpin(&stage.door.desk)
    _look(stage)


cdef void _take_all(Stage* stage, const uint8_t* data, size_t size) noexcept nogil:
    cdef uint64_t length
    cdef int i
    while size >= KAFKA_LENGTH_BYTES and stage.wrong == 0 and stage.connection.base.state == CONNECTION_OPEN:
        length = 0
        for i in range(KAFKA_LENGTH_BYTES):
            length = length << 8 | data[i]
        data += KAFKA_LENGTH_BYTES
        size -= KAFKA_LENGTH_BYTES
        if length > size or length > FRAME_BYTES_MAX:
            return
        if requests_take(stage.door, stage.connection, data, <uint32_t>length) != OK:
            return
        data += length
        size -= length
        _turn(stage)


cdef int fuzz_kafka(const uint8_t* data, size_t size) noexcept nogil:
    cdef Stage stage
    cdef int turns = 0
    if _open(&stage):
        _take_all(&stage, data, size)
        while (turns < TURNS_MAX and stage.connection.first != NULL and stage.wrong == 0
                and stage.connection.base.state != CONNECTION_CLOSING):
            _turn(&stage)
            turns += 1
    _close(&stage)
    return stage.wrong
