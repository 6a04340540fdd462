"""Requests of Kafka's clients: bodies.

Source: Apache Kafka 3.9 RequestHeader and SocketServer.scala (a connection is muted while a request of it is carried
out).
"""

from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from raftmeta.connections.accounts_state cimport account_drop, account_hold
from raftmeta.connections.connections cimport (connection_end, connection_fail, connection_next_turn, connection_touch,
                                               connection_wait)
from raftmeta.connections.state cimport CONNECTION_OPEN, TUNE_TURN_BYTES, bytes_begin, bytes_end
from raftmeta.doors.desk.state cimport DeskTask
from raftmeta.doors.desk.tasks cimport desk_session_lost, sequence_done, task_free
from raftmeta.doors.kafka.audit cimport audit_answered
from raftmeta.doors.kafka.codec cimport get_int16, get_int32, get_tags, get_text
from raftmeta.doors.kafka.own_asks cimport own_release
from raftmeta.doors.kafka.protocol cimport KAFKA_API_VERSIONS
from raftmeta.doors.kafka.state cimport (KAFKA_BEFORE_PROOF, KAFKA_OWN, KAFKA_TOGETHER, TASK_REQUEST, TUNE_OUT_BYTES,
                                         TUNE_REQUESTS_MAX, TUNE_REQUEST_BYTES, KafkaReader, KafkaRequest)
from raftmeta.doors.kafka.table cimport handler_of, handler_of_unknown
from raftmeta.status cimport BAD_FIELD, NO_MEMORY, OK, SESSION_UNKNOWN


# --- one request ------------------------------------------------------------------------------------------------------
# The head of a request: key, version, correlation id, and behind them the client's name, which has the old form in all
# versions.
cdef bint _read_head(const KafkaDoor* door, KafkaRequest* request, const uint8_t* frame,
                     uint32_t length) noexcept nogil:
    cdef KafkaReader* reader = &request.body
    reader.at = frame
    reader.end = frame + length
    reader.is_flexible = False
    reader.is_bad = False
    request.key = get_int16(reader)
    request.version = reader.version = get_int16(reader)
    request.correlation = get_int32(reader)
    request.handler = handler_of(request.key, request.version, door.own != NULL)
    if request.handler == NULL and request.key == KAFKA_API_VERSIONS and not reader.is_bad:
        request.handler = handler_of_unknown()
        return True
    request.client = get_text(reader)
    if request.handler == NULL or reader.is_bad:
        return False
    reader.is_flexible = request.version >= request.handler.flexible
    get_tags(reader)
    return not reader.is_bad


cdef void _free(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    bytes_end(&door.desk.base, request.account, sizeof(KafkaRequest) + request.frame_length)
    account_drop(request.account)
    if request.handler.traits & KAFKA_OWN:
        own_release(request)
    request.texts.release()
    request.names.release()
    request.answer.release()
    free(request)


# --- taking -----------------------------------------------------------------------------------------------------------
cdef status_t requests_take(KafkaDoor* door, KafkaConnection* connection, const uint8_t* frame,
                            uint32_t length) noexcept nogil:
    cdef KafkaRequest* request = <KafkaRequest*>calloc(1, sizeof(KafkaRequest) + length)
    cdef uint8_t* copy
    if request == NULL:
        return NO_MEMORY
    copy = <uint8_t*>request + sizeof(KafkaRequest)
    memcpy(copy, frame, length)
    if not _read_head(door, request, copy, length):
        door.counters.unsupported += request.handler == NULL
        free(request)
        return BAD_FIELD
    request.connection = connection
    request.operation = request.handler.operation
    request.account = connection.base.account
    request.frame_length = length
    request.begun_ns = door.desk.base.now_ns
    account_hold(request.account)
    bytes_begin(&door.desk.base, request.account, sizeof(KafkaRequest) + length)
    if connection.last != NULL:
        connection.last.next = request
    else:
        connection.first = request
    connection.last = request
    if connection.unbegun == NULL:
        connection.unbegun = request
    connection.request_count += 1
    connection.request_bytes += length
    door.counters.requests += 1
    requests_go(door, connection)
    return OK


cdef bint requests_have_room(const KafkaDoor* door, const KafkaConnection* connection) noexcept nogil:
    return (connection.base.paused_ns == 0 and connection.request_count < TUNE_REQUESTS_MAX
            and connection.request_bytes < TUNE_REQUEST_BYTES
            and door.desk.base.bytes_under_way < door.desk.base.limits.bytes_under_way_max
            and connection.base.out.size - connection.base.out_offset < TUNE_OUT_BYTES
            and door.desk.base.answer_bytes < door.desk.base.limits.memory_max)


# --- the queue --------------------------------------------------------------------------------------------------------
# Requests begin in their order: the first one, and those behind it as long as all of them may run together.
cdef void _begin(KafkaDoor* door, KafkaConnection* connection) noexcept nogil:
    cdef KafkaRequest* request
    while connection.unbegun != NULL:
        request = connection.unbegun
        if request != connection.first and not (request.handler.traits & KAFKA_TOGETHER
                                                and connection.first.handler.traits & KAFKA_TOGETHER):
            return
        if not request.handler.traits & KAFKA_BEFORE_PROOF and not door.is_serving:
            if door.is_lonely:
                connection_fail(&door.desk.base, &connection.base)      # its client finds another node
            else:
                connection_wait(&door.desk.base, &connection.base)
            return
        connection.unbegun = request.next
        request.is_begun = True
        request.handler.begin(door, request)
        if connection.base.state != CONNECTION_OPEN:
            return


# The answer of the first request goes out.
cdef void _pop(KafkaDoor* door, KafkaConnection* connection) noexcept nogil:
    cdef KafkaRequest* request = connection.first
    connection.first = request.next
    if connection.first == NULL:
        connection.last = NULL
    connection.request_count -= 1
    connection.request_bytes -= request.frame_length
    if request.answer.size and not connection.base.out.append(request.answer.data, request.answer.size):
        connection_fail(&door.desk.base, &connection.base)
    door.desk.base.turn_bytes += request.answer.size
    audit_answered(door, connection, request)
    _free(door, request)
    connection_touch(&door.desk.base, &connection.base)
    if connection.base.has_ended:
        connection_end(&door.desk.base, &connection.base)       # it failed to prove a user


cdef void requests_go(KafkaDoor* door, KafkaConnection* connection) noexcept nogil:
    cdef KafkaRequest* request
    while connection.base.state == CONNECTION_OPEN and connection.first != NULL:
        if connection.base.out.size - connection.base.out_offset >= TUNE_OUT_BYTES:
            return              # it goes on when its socket has taken more
        if door.desk.base.turn_bytes >= TUNE_TURN_BYTES:
            connection_next_turn(&door.desk.base, &connection.base)
            return
        _begin(door, connection)
        if connection.base.state != CONNECTION_OPEN:
            return
        request = connection.first
        if request.is_begun and not request.is_done and request.handler.go != NULL:
            request.handler.go(door, request)
        if not request.is_done:
            if request.is_begun and request.handler.go != NULL:
                connection_wait(&door.desk.base, &connection.base)
            return
        if connection.base.state == CONNECTION_OPEN:
            _pop(door, connection)


cdef void requests_answered(KafkaDoor* door, KafkaTask* task) noexcept nogil:
    cdef KafkaRequest* request = task.request
    cdef KafkaConnection* connection
    sequence_done(&door.desk, &task.base)
    if task.base.ticket.status == SESSION_UNKNOWN and task.base.session == door.desk.session:
        desk_session_lost(&door.desk)
    request.tasks -= 1
    connection = request.connection
    if connection == NULL:
        if request.tasks == 0:
            _free(door, request)
    else:
        if not request.is_done:
            request.handler.answered(door, request, task)
        requests_go(door, connection)
    task_free(&door.desk, &task.base)


# --- the end ----------------------------------------------------------------------------------------------------------
cdef void requests_drop(KafkaDoor* door, KafkaConnection* connection) noexcept nogil:
    cdef KafkaRequest* request
    while connection.first != NULL:
        request = connection.first
        connection.first = request.next
        request.next = NULL
        request.connection = NULL
        if request.tasks == 0:
            _free(door, request)        # else when its last ticket is back
    connection.last = connection.unbegun = NULL
    connection.request_count = 0
    connection.request_bytes = 0


cdef void requests_release(KafkaDoor* door) noexcept nogil:
    cdef DeskTask* task = door.desk.out
    cdef KafkaRequest* request
    while task != NULL:
        if task.kind == TASK_REQUEST:
            request = (<KafkaTask*>task).request
            request.tasks -= 1
            if request.tasks == 0:
                _free(door, request)
        task = task.next_out
