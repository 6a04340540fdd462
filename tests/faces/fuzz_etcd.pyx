"""The etcd door behind its transports for fuzzers: every call is carried out by the door's own code and a machine.

There is no thread and no socket. The commands that the door submits are applied at once by a machine that was empty,
and their answers go back to the calls. Every answer must be a message of its method. Watches cannot be opened here.
"""
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset, strlen

from raftmeta.connections.accounts cimport accounts_attach, accounts_create, accounts_destroy, accounts_detach
from raftmeta.connections.state cimport CONNECTION_OPEN
from raftmeta.doors.desk.desk cimport desk_unpin
from raftmeta.doors.desk.state cimport Desk, DeskRules, DeskTask, bytes_of
from raftmeta.doors.desk.tasks cimport sequence_done, task_free, task_of
from raftmeta.doors.etcd.calls cimport (call_close, call_create, call_data, call_half_close, call_open, call_sent,
                                        calls_answered, calls_drop, calls_go, calls_take_told)
from raftmeta.doors.etcd.feeds cimport feeds_answered, feeds_release
from raftmeta.doors.etcd.schema cimport schema_check
from raftmeta.doors.etcd.state cimport (TASK_CALL, TASK_FEED_CLOSE, TASK_FEED_OPEN, EtcdCall, EtcdConnection, EtcdDoor,
                                        EtcdTask)
from raftmeta.doors.etcd.table cimport handler_of
from raftmeta.engine.submission cimport SUBMIT_CLIENT_COMMAND, Submission, submission_payload
from raftmeta.loop.loop cimport READER_ETCD, Loop
from raftmeta.loop.tickets cimport TICKET_DONE, Ticket
from raftmeta.machine.machine cimport (APPLY_FATAL, APPLY_MORE, ApplyOutcome, ApplyResult, Machine, MachineLimits,
                                       machine_apply, machine_create, machine_destroy)
from raftmeta.machine.publish cimport machine_publish
from raftmeta.machine.state cimport FORMAT_FEATURE_LEVEL_MAX
from raftmeta.machine.watch_purse cimport pool_create, pool_drop
from raftmeta.raft.record cimport record_bytes
from raftmeta.raft.types cimport ENTRY_COMMAND, Record
from raftmeta.status cimport INVARIANT_BROKEN, NOT_FOUND, OK, OUTCOME_UNKNOWN, status_t
from raftmeta.wire.commands cimport (COMMAND_SESSION_OPEN, Bytes, command_clear, command_encode, command_init,
                                     command_release)

cdef enum:
    HEAD_BYTES = 4
    FRAME_BYTES = 5
    TURNS_MAX = 8
    TURN_NS = 1_000_000_000
    SESSION = 7
    TTL_MS = 60_000
    WINDOW = 4096
    MEMORY_BYTES = 1 << 28
    STAYS_OPEN = 1
    METHODS = 24

ctypedef const char* word_t

# The fuzzer's inputs name them by their place: new ones stand at the end.
cdef word_t[METHODS] PATHS = [
    b"/etcdserverpb.KV/Range", b"/etcdserverpb.KV/Put", b"/etcdserverpb.KV/DeleteRange", b"/etcdserverpb.KV/Txn",
    b"/etcdserverpb.KV/Compact", b"/etcdserverpb.Watch/Watch", b"/etcdserverpb.Lease/LeaseGrant",
    b"/etcdserverpb.Lease/LeaseRevoke", b"/etcdserverpb.Lease/LeaseKeepAlive",
    b"/etcdserverpb.Lease/LeaseTimeToLive", b"/etcdserverpb.Cluster/MemberRemove",
    b"/etcdserverpb.Maintenance/HashKV", b"/v3lockpb.Lock/Lock", b"/v3lockpb.Lock/Unlock",
    b"/v3electionpb.Election/Campaign", b"/v3electionpb.Election/Proclaim", b"/v3electionpb.Election/Leader",
    b"/v3electionpb.Election/Resign", b"/etcdserverpb.Auth/UserAdd", b"/etcdserverpb.Auth/UserGrantRole",
    b"/etcdserverpb.Auth/RoleAdd", b"/etcdserverpb.Auth/RoleGrantPermission",
    b"/etcdserverpb.Auth/RoleRevokePermission", b"/etcdserverpb.Auth/RoleGet",
]

cdef struct Stage:
    EtcdDoor* door
    EtcdConnection* connection
    Machine* machine
    uint64_t index
    int wrong

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
            stage.wrong = ETCD_STATE
        return OUTCOME_UNKNOWN
    return result.status if machine_publish(stage.machine) == OK else <status_t>OUTCOME_UNKNOWN


cdef void _answered(Desk* desk, DeskTask* task) noexcept nogil:
    if task.kind == TASK_CALL:
        calls_answered(<EtcdDoor*>desk, <EtcdTask*>task)
        return
    if task.kind == TASK_FEED_OPEN or task.kind == TASK_FEED_CLOSE:
        feeds_answered(<EtcdDoor*>desk, <EtcdTask*>task)
    else:
        sequence_done(desk, task)
    task_free(desk, task)


cdef DeskRules RULES
RULES.task_bytes = sizeof(EtcdTask)
RULES.answered = _answered


# Only commands are carried out: there is no engine that knows leases, members or watches.
cdef void _answer(Stage* stage, Submission* submission) noexcept nogil:
    cdef Ticket* ticket = <Ticket*>submission.owner
    cdef ApplyResult result
    memset(&result, 0, sizeof(result))
    desk_unpin(&stage.door.desk)
    ticket.status = NOT_FOUND
    if submission.kind == SUBMIT_CLIENT_COMMAND:
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
    _answered(&stage.door.desk, task_of(&stage.door.desk, ticket))


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
    cdef EtcdDoor* door = stage.door
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
    cdef EtcdDoor* door = <EtcdDoor*>calloc(1, sizeof(EtcdDoor))
    memset(stage, 0, sizeof(Stage))
    memset(&limits, 0, sizeof(limits))
    limits.value_bytes_max = 1 << 20
    limits.session_window = WINDOW
    limits.changes_per_slice = 64
    stage.door = door
    stage.connection = <EtcdConnection*>calloc(1, sizeof(EtcdConnection))
    stage.machine = machine_create(&limits)
    if LOOP == NULL or door == NULL or stage.connection == NULL or stage.machine == NULL:
        return False
    stage.machine.feature_level = FORMAT_FEATURE_LEVEL_MAX
    LOOP.machine = stage.machine
    door.desk.loop = LOOP
    door.desk.reader = READER_ETCD
    door.desk.rules = &RULES
    door.desk.base.items = <uint8_t*>stage.connection
    door.desk.base.item_bytes = sizeof(EtcdConnection)
    door.desk.base.limits.connections_max = 1
    door.desk.base.limits.memory_max = MEMORY_BYTES
    door.desk.base.limits.bytes_under_way_max = MEMORY_BYTES
    door.desk.base.now_ns = TURN_NS
    door.desk.open_ns = 1
    door.desk.status.id = 1
    door.connections = stage.connection
    door.is_serving = True
    door.pool = pool_create(MEMORY_BYTES)
    door.desk.base.accounts = accounts_create()
    stage.connection.base.state = CONNECTION_OPEN
    command_init(&door.desk.command)
    return (door.pool != NULL and door.desk.base.accounts != NULL
            and accounts_attach(&door.desk.base, &stage.connection.base, NULL, 0) == OK and _open_session(stage))


cdef void _close(Stage* stage) noexcept nogil:
    cdef EtcdDoor* door = stage.door
    if door != NULL and stage.connection != NULL:
        calls_drop(door, stage.connection)
        _answer_all(stage)
        if door.desk.base.bytes_under_way != 0 and stage.wrong == 0:
            stage.wrong = ETCD_BYTES
        desk_unpin(&door.desk)
        feeds_release(door)
        accounts_detach(&stage.connection.base)
        if door.desk.base.accounts != NULL:
            accounts_destroy(door.desk.base.accounts)
        if door.pool != NULL:
            pool_drop(door.pool)
        command_release(&door.desk.command)
        door.desk.payload.release()
        door.desk.answered.release()
        door.desk.base.dirty.release()
        door.desk.base.waiting.release()
        door.reply.release()
        door.scratch.release()
        door.record.release()
        door.records.release()
        door.written.release()
        door.deleted.release()
        door.told.release()
    LOOP.machine = NULL
    if stage.machine != NULL:
        machine_destroy(stage.machine)
    free(stage.connection)
    free(door)


# What the transport would send of a call.
cdef void _look(Stage* stage, EtcdCall* call) noexcept nogil:
    cdef const uint8_t* at
    cdef uint64_t length
    cdef Bytes message
    while call.out.size - call.out_offset != 0 and stage.wrong == 0:
        at = call.out.data + call.out_offset
        if call.out.size - call.out_offset < FRAME_BYTES:
            stage.wrong = ETCD_ANSWER
            return
        length = <uint64_t>at[1] << 24 | <uint64_t>at[2] << 16 | <uint64_t>at[3] << 8 | at[4]
        message = bytes_of(at + FRAME_BYTES, length)
        if length > call.out.size - call.out_offset - FRAME_BYTES or not schema_check(call.handler.reply, &message):
            stage.wrong = ETCD_ANSWER
            return
        call_sent(stage.door, call, <uint32_t>(FRAME_BYTES + length))


cdef void _look_at_all(Stage* stage) noexcept nogil:
    cdef EtcdCall* call = stage.connection.calls
    cdef EtcdCall* next
    while calls_take_told(stage.connection) != NULL:
        pass
    while call != NULL and stage.wrong == 0:
        next = call.next
        _look(stage, call)
        if call.is_done:
            call_close(stage.door, call)
        call = next


cdef void _turn(Stage* stage) noexcept nogil:
    stage.door.desk.base.now_ns += <uint64_t>TURN_NS
    stage.door.desk.base.turn_bytes = 0
    calls_go(stage.door, stage.connection)
    desk_unpin(&stage.door.desk)
    _answer_all(stage)
    desk_unpin(&stage.door.desk)
    _look_at_all(stage)


cdef void _call(Stage* stage, uint8_t method, bint stays_open, const uint8_t* message, uint32_t length) noexcept nogil:
    cdef const char* path = PATHS[method % METHODS]
    cdef EtcdCall* call = call_create(stage.door, stage.connection)
    cdef uint8_t[FRAME_BYTES] frame
    cdef int i
    if call == NULL:
        return
    frame[0] = 0
    for i in range(4):
        frame[1 + i] = <uint8_t>(length >> (24 - 8 * i))
    call_open(stage.door, call, handler_of(<const uint8_t*>path, <uint32_t>strlen(path)))
    call_data(stage.door, call, frame, FRAME_BYTES)
    if length:
        call_data(stage.door, call, message, length)
    if not stays_open:
        call_half_close(stage.door, call)


cdef int fuzz_etcd(const uint8_t* data, size_t size) noexcept nogil:
    cdef Stage stage
    cdef uint32_t length
    cdef int turns = 0
    if _open(&stage):
        while size >= HEAD_BYTES and stage.wrong == 0:
            length = min(<uint32_t>data[2] | <uint32_t>data[3] << 8, <uint32_t>(size - HEAD_BYTES))
            _call(&stage, data[0], data[1] & STAYS_OPEN, data + HEAD_BYTES, length)
            data += HEAD_BYTES + length
            size -= HEAD_BYTES + length
            _turn(&stage)
        while turns < TURNS_MAX and stage.connection.calls != NULL and stage.wrong == 0:
            _turn(&stage)
            turns += 1
    _close(&stage)
    return stage.wrong
