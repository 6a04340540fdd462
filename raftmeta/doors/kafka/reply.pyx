"""The answers of the Kafka door: bodies.

It decides which error stands for a status. It must never look into a request.
"""

from libc.stdint cimport int16_t, int64_t, uint8_t, uint32_t, uint64_t

from raftmeta.connections.connections cimport connection_fail
from raftmeta.connections.state cimport Connection
from raftmeta.doors.desk.desk cimport desk_pin_newest
from raftmeta.doors.desk.rounds cimport round_is_done
from raftmeta.doors.desk.state cimport DeskTask
from raftmeta.doors.desk.tasks cimport command_submit
from raftmeta.doors.kafka.codec cimport KAFKA_LENGTH_BYTES, put_int32, put_tags
from raftmeta.doors.kafka.protocol cimport (KAFKA_API_VERSIONS, KAFKA_COORDINATOR_LOAD_IN_PROGRESS,
                                            KAFKA_COORDINATOR_NOT_AVAILABLE, KAFKA_GROUP_AUTHORIZATION_FAILED,
                                            KAFKA_OK, KAFKA_UNKNOWN_MEMBER_ID, KAFKA_UNKNOWN_SERVER_ERROR)
from raftmeta.doors.kafka.state cimport TASK_REQUEST
from raftmeta.status cimport (COMMAND_INVALID, GROUP_REFUSED, KEY_INVALID, LEASE_EXPIRED, NO_SPACE, OK, OVERLOADED,
                              PERMISSION_DENIED, TOO_MANY_CHANGES, VALUE_TOO_LARGE)
from raftmeta.wire.msgpack cimport number_max, read_array_max, read_int, read_uint, reader_over

cdef enum:
    RESULT_ELEMENTS = 3         # docs/formats.md "Results"
    RESULT_STATUS_MAX = 63


cdef KafkaWriter reply_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef KafkaWriter writer
    request.answer.clear()
    writer.out = &request.answer
    writer.version = request.version
    writer.is_bad = False
    # The head of an answer to ApiVersions has no tagged fields in any version (KIP-511).
    writer.is_flexible = request.version >= request.handler.flexible and request.key != KAFKA_API_VERSIONS
    put_int32(&writer, 0)
    put_int32(&writer, request.correlation)
    put_tags(&writer)
    writer.is_flexible = request.version >= request.handler.flexible
    return writer


cdef void reply_end(KafkaDoor* door, KafkaRequest* request, KafkaWriter* writer, int16_t error) noexcept nogil:
    cdef uint32_t length = <uint32_t>(request.answer.size - KAFKA_LENGTH_BYTES)
    cdef int i
    if writer.is_bad:
        reply_fail(door, request)
        return
    for i in range(KAFKA_LENGTH_BYTES):
        request.answer.data[i] = <uint8_t>(length >> (24 - 8 * i))
    request.error = error
    request.is_done = True


cdef void reply_fail(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    door.desk.base.counters.refused += 1
    request.answer.clear()
    request.is_done = True
    if request.connection != NULL:
        connection_fail(&door.desk.base, &request.connection.base)


cdef void put_throttle(KafkaWriter* writer, int16_t since) noexcept nogil:
    if writer.version >= since:
        put_int32(writer, 0)


cdef KafkaReader request_reader(const KafkaRequest* request) noexcept nogil:
    return request.body


cdef bint request_command(KafkaDoor* door, KafkaRequest* request, uint32_t part, bint is_urgent,
                          status_t* status) noexcept nogil:
    cdef DeskTask* made = NULL
    cdef Connection* connection = &request.connection.base if request.connection != NULL else NULL
    status[0] = command_submit(&door.desk, connection, TASK_REQUEST, NULL, is_urgent, &made)
    if status[0] != OK:
        return False
    (<KafkaTask*>made).request = request
    (<KafkaTask*>made).part = part
    request.tasks += 1
    return True


cdef int16_t error_of_status(status_t status) noexcept nogil:
    if status == OK:
        return KAFKA_OK
    if status == PERMISSION_DENIED:
        return KAFKA_GROUP_AUTHORIZATION_FAILED
    if status == LEASE_EXPIRED:
        return KAFKA_UNKNOWN_MEMBER_ID
    if status == OVERLOADED or status == NO_SPACE:
        return KAFKA_COORDINATOR_LOAD_IN_PROGRESS
    if status in (VALUE_TOO_LARGE, TOO_MANY_CHANGES, KEY_INVALID, COMMAND_INVALID):
        return KAFKA_UNKNOWN_SERVER_ERROR
    return KAFKA_COORDINATOR_NOT_AVAILABLE


cdef bint task_result(const KafkaTask* task, Reader* reader) noexcept nogil:
    reader[0] = reader_over(task.base.ticket.body, task.base.ticket.length)
    if task.base.ticket.length == 0 or read_array_max(reader, RESULT_ELEMENTS) != RESULT_ELEMENTS:
        return False
    read_uint(reader, RESULT_STATUS_MAX)
    read_uint(reader, number_max())
    return reader.status == OK


cdef int16_t task_error(const KafkaTask* task) noexcept nogil:
    cdef Reader reader
    cdef int64_t code
    if task.base.ticket.status == GROUP_REFUSED and task_result(task, &reader):
        code = read_int(&reader)
        return <int16_t>code if reader.status == OK else <int16_t>KAFKA_UNKNOWN_SERVER_ERROR
    return error_of_status(task.base.ticket.status)


# A root may be older than the answer of the loop only for a moment.
cdef bint request_pin(KafkaDoor* door, const KafkaRequest* request) noexcept nogil:
    cdef uint64_t revision = desk_pin_newest(&door.desk)
    if door.desk.pinned == NULL or revision < request.revision:
        door.desk.has_pause = True
        return False
    if request.round != 0 and request.round <= door.desk.round_done and revision < door.desk.round_position:
        door.desk.has_pause = True
    return request.round == 0 or round_is_done(&door.desk, request.round, revision)
