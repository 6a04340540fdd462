"""The etcd door behind its transports for fuzzers: every call is carried out by the door's own code and a machine.

There is no thread and no socket. The commands that the door submits are applied at once by a machine that was empty,
and their answers go back to the calls. Every answer must be a message of its method. Watches cannot be opened here.
"""
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset, strlen

from raftmeta.connections.accounts cimport accounts_attach, accounts_create, accounts_destroy, accounts_detach
from raftmeta.connections.state cimport CONNECTION_OPEN
from raftmeta.doors.desk.state cimport Desk, DeskRules, DeskTask, bytes_of
from raftmeta.doors.desk.tasks cimport sequence_done, task_free
from raftmeta.doors.etcd.calls cimport (call_close, call_create, call_data, call_half_close, call_open, call_sent,
                                        calls_answered, calls_drop, calls_go, calls_take_told)
from raftmeta.doors.etcd.feeds cimport feeds_answered, feeds_release
from raftmeta.doors.etcd.schema cimport schema_check
from raftmeta.doors.etcd.state cimport (TASK_CALL, TASK_FEED_CLOSE, TASK_FEED_OPEN, EtcdCall, EtcdConnection, EtcdDoor,
                                        EtcdTask)
from raftmeta.doors.etcd.table cimport handler_of
from raftmeta.loop.loop cimport READER_ETCD
from raftmeta.machine.watch_purse cimport pool_create, pool_drop
from raftmeta.status cimport OK
from raftmeta.wire.commands cimport Bytes
from tests.faces.behind_door cimport Behind, behind_answer, behind_begin, behind_close, behind_open

cdef enum:
    HEAD_BYTES = 4
    FRAME_BYTES = 5
    TURNS_MAX = 8
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
    Behind behind
    int wrong


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


cdef bint _open(Stage* stage) noexcept nogil:
    cdef EtcdDoor* door = <EtcdDoor*>calloc(1, sizeof(EtcdDoor))
    memset(stage, 0, sizeof(Stage))
    stage.door = door
    stage.connection = <EtcdConnection*>calloc(1, sizeof(EtcdConnection))
    if door == NULL or stage.connection == NULL:
        return False
    door.desk.base.items = <uint8_t*>stage.connection
    door.desk.base.item_bytes = sizeof(EtcdConnection)
    door.desk.base.limits.memory_max = MEMORY_BYTES
    door.desk.base.limits.bytes_under_way_max = MEMORY_BYTES
    door.desk.base.accounts = accounts_create()
    door.desk.open_ns = 1
    door.desk.status.id = 1
    door.connections = stage.connection
    door.is_serving = True
    door.pool = pool_create(MEMORY_BYTES)
    stage.connection.base.state = CONNECTION_OPEN
    return (behind_open(&stage.behind, &door.desk, READER_ETCD, &RULES) and door.pool != NULL
            and door.desk.base.accounts != NULL
            and accounts_attach(&door.desk.base, &stage.connection.base, NULL, 0) == OK)


cdef void _answer_all(Stage* stage) noexcept nogil:
    behind_answer(&stage.behind)
    if stage.behind.is_broken:
        stage.wrong = ETCD_STATE


cdef void _close(Stage* stage) noexcept nogil:
    cdef EtcdDoor* door = stage.door
    if stage.behind.desk != NULL:
        calls_drop(door, stage.connection)
        _answer_all(stage)
        if door.desk.base.bytes_under_way != 0 and stage.wrong == 0:
            stage.wrong = ETCD_BYTES
        feeds_release(door)
        accounts_detach(&stage.connection.base)
        if door.desk.base.accounts != NULL:
            accounts_destroy(door.desk.base.accounts)
        if door.pool != NULL:
            pool_drop(door.pool)
        door.reply.release()
        door.scratch.release()
        door.record.release()
        door.records.release()
        door.written.release()
        door.deleted.release()
        door.told.release()
    behind_close(&stage.behind)
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
    behind_begin(&stage.behind)
    calls_go(stage.door, stage.connection)
    _answer_all(stage)
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
