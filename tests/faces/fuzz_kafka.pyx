"""The whole Kafka door for fuzzers: every request is carried out, by the door's own code and a machine of its own.

There is no thread and no socket. The commands that the door submits are applied at once by a machine that was empty,
and their answers go back to the requests. Time passes between turns, so a request that waits is answered in the end.
"""
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from raftmeta.connections.state cimport CONNECTION_CLOSING, CONNECTION_OPEN
from raftmeta.doors.desk.state cimport Desk, DeskRules, DeskTask
from raftmeta.doors.kafka.codec cimport KAFKA_LENGTH_BYTES
from raftmeta.doors.kafka.requests cimport requests_answered, requests_drop, requests_go, requests_take
from raftmeta.doors.kafka.sasl cimport sasl_prepare, sasl_release
from raftmeta.doors.kafka.state cimport KafkaConnection, KafkaDoor, KafkaTask
from raftmeta.loop.loop cimport READER_KAFKA
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport OK
from tests.faces.behind_door cimport Behind, behind_answer, behind_begin, behind_close, behind_open

cdef enum:
    FRAME_BYTES_MAX = 1 << 20
    VALUE_BYTES_MAX = 1 << 20
    TURNS_MAX = 64
    TTL_MS = 60_000
    MEMBERS_MAX = 10

cdef struct Stage:
    KafkaDoor* door
    KafkaConnection* connection
    Behind behind
    int wrong


cdef void _answered(Desk* desk, DeskTask* task) noexcept nogil:
    requests_answered(<KafkaDoor*>desk, <KafkaTask*>task)


cdef DeskRules RULES
RULES.task_bytes = sizeof(KafkaTask)
RULES.answered = _answered


cdef bint _open(Stage* stage) noexcept nogil:
    cdef KafkaDoor* door = <KafkaDoor*>calloc(1, sizeof(KafkaDoor))
    memset(stage, 0, sizeof(Stage))
    stage.door = door
    stage.connection = <KafkaConnection*>calloc(1, sizeof(KafkaConnection))
    if door == NULL or stage.connection == NULL:
        return False
    door.desk.base.items = <uint8_t*>stage.connection
    door.desk.base.item_bytes = sizeof(KafkaConnection)
    door.limits.session_min_ms = 1
    door.limits.session_max_ms = TTL_MS
    door.limits.members_max = MEMBERS_MAX
    door.limits.value_bytes_max = VALUE_BYTES_MAX
    door.connections = stage.connection
    door.is_serving = True
    stage.connection.base.state = CONNECTION_OPEN
    return behind_open(&stage.behind, &door.desk, READER_KAFKA, &RULES) and sasl_prepare(door)


cdef void _answer_all(Stage* stage) noexcept nogil:
    behind_answer(&stage.behind)
    if stage.behind.is_broken:
        stage.wrong = KAFKA_STATE


cdef void _close(Stage* stage) noexcept nogil:
    cdef KafkaDoor* door = stage.door
    if stage.behind.desk != NULL:
        requests_drop(door, stage.connection)
        _answer_all(stage)
        if door.desk.base.bytes_under_way != 0 and stage.wrong == 0:
            stage.wrong = KAFKA_BYTES
        sasl_release(stage.connection)
        stage.connection.base.out.release()
        door.brokers.release()
        door.kept.release()
        door.pairs.release()
        door.request.release()
        door.topic_places.release()
        door.topic_names.release()
    behind_close(&stage.behind)
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
    behind_begin(&stage.behind)
    requests_go(stage.door, stage.connection)
    _answer_all(stage)
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
