"""Records at the Kafka door: bodies.

Sources: Apache Kafka 3.9 KafkaApis.scala (handleProduceRequest, handleInitProducerIdRequest), ReplicaManager.scala,
TransactionCoordinator.scala (an id without a transactional id is always a new one).
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memset

from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.kafka.audit cimport audit_blocks, audit_names_log
from raftmeta.doors.kafka.codec cimport (KafkaReader, KafkaWriter, get_array, get_bytes, get_end, get_int16, get_int32,
                                         get_tags, get_text, get_uuid, put_array, put_int16, put_int32, put_int64,
                                         put_null_text, put_tags, put_text, put_uuid)
from raftmeta.doors.kafka.protocol cimport (KAFKA_COORDINATOR_NOT_AVAILABLE, KAFKA_INVALID_REQUEST,
                                            KAFKA_INVALID_REQUIRED_ACKS, KAFKA_OK, KAFKA_REQUEST_TIMED_OUT,
                                            KAFKA_TOPIC_AUTHORIZATION_FAILED, KAFKA_UNKNOWN_SERVER_ERROR,
                                            KAFKA_UNKNOWN_TOPIC_ID, KAFKA_UNKNOWN_TOPIC_OR_PARTITION)
from raftmeta.doors.kafka.records_topic cimport TopicLog, topic_log_find
from raftmeta.doors.kafka.reply cimport (put_throttle, reply_begin, reply_end, reply_fail, request_command,
                                         request_pin, request_reader, task_error, task_result)
from raftmeta.doors.kafka.topic_state cimport topic_find_id
from raftmeta.machine.topic_records cimport TopicRecord
from raftmeta.status cimport COMMAND_INVALID, FENCED, OK, PERMISSION_DENIED, status_t
from raftmeta.wire.commands cimport (COMMAND_KEYS, COMMAND_RECORDS, OP_ADD, Bytes, Op, Txn, command_clear)
from raftmeta.wire.msgpack cimport Reader, number_max, read_array_max, read_bool, read_int, read_uint
from raftmeta.wire.record_batches cimport batch_check
from raftmeta.wire.records cimport RECORDS_COMPACT, RecordsRequest, records_encode

cdef enum:
    STEP_NEW = 0
    STEP_ASKED = 1
    VERSION_OF_IDS = 13             # of Produce: topics are told by their ids
    CODE_MAX = 0x7FFF
    ANSWER_ELEMENTS = 3             # [code, offset, start]
    IDS_BYTES = 12

# The counter of producers' ids.
cdef const char* IDS = b"producer-ids"


# --- commands ---------------------------------------------------------------------------------------------------------
cdef int16_t records_status_code(status_t status) noexcept nogil:
    if status == FENCED:
        return KAFKA_UNKNOWN_TOPIC_OR_PARTITION
    if status == PERMISSION_DENIED:
        return KAFKA_TOPIC_AUTHORIZATION_FAILED
    return KAFKA_UNKNOWN_SERVER_ERROR if status == COMMAND_INVALID else KAFKA_REQUEST_TIMED_OUT


cdef int16_t records_command(KafkaDoor* door, KafkaRequest* request, uint32_t part, const TopicLog* log,
                             const RecordsRequest* asked) noexcept nogil:
    cdef status_t status
    door.request.clear()
    status = records_encode(&log.key, asked, &door.request)
    if status == OK:
        command_clear(&door.desk.command)
        door.desk.command.kind = COMMAND_RECORDS
        door.desk.command.name = log.key
        door.desk.command.data = bytes_of(door.request.data, door.request.size)
        door.desk.command.fence.is_present = True
        door.desk.command.fence.key = log.topic.bytes
        door.desk.command.fence.create_revision = log.topic_since
        if request_command(door, request, part, False, &status):
            return KAFKA_OK
    return records_status_code(status)


# --- Produce ----------------------------------------------------------------------------------------------------------
cdef void produce_walk(const KafkaRequest* request, ProduceWalk* walk) noexcept nogil:
    memset(walk, 0, sizeof(ProduceWalk))
    walk.reader = request_reader(request)
    get_text(&walk.reader)
    walk.acks = get_int16(&walk.reader)
    walk.timeout_ms = get_int32(&walk.reader)
    walk.topics = get_array(&walk.reader)


cdef bint produce_next_topic(ProduceWalk* walk) noexcept nogil:
    if walk.topics <= 0 or walk.reader.is_bad:
        return False
    walk.topics -= 1
    if walk.reader.version >= VERSION_OF_IDS:
        walk.id = get_uuid(&walk.reader)
        walk.name = bytes_of(NULL, 0)
    else:
        walk.name = get_text(&walk.reader)
    walk.partitions = get_array(&walk.reader)
    return True


cdef bint produce_next_named(KafkaDoor* door, ProduceWalk* walk) noexcept nogil:
    cdef TopicRecord topic
    if not produce_next_topic(walk):
        return False
    if walk.id != NULL and not topic_find_id(door, walk.id, &walk.name, &topic):
        walk.name = bytes_of(NULL, 0)
    return True


cdef bint produce_next_partition(ProduceWalk* walk) noexcept nogil:
    if walk.partitions <= 0 or walk.reader.is_bad:
        get_tags(&walk.reader)
        return False
    walk.partitions -= 1
    walk.partition = get_int32(&walk.reader)
    walk.batch = get_bytes(&walk.reader)
    get_tags(&walk.reader)
    return True


cdef inline Produced* _produced(KafkaRequest* request, uint32_t part) noexcept nogil:
    return &(<Produced*>request.texts.data)[part]


# Room for each partition. False: the request cannot be read, or there is no memory.
cdef bint _prepare(KafkaRequest* request) noexcept nogil:
    cdef ProduceWalk walk
    cdef Produced none
    memset(&none, 0, sizeof(Produced))
    none.offset = none.start = -1
    produce_walk(request, &walk)
    while produce_next_topic(&walk):
        while produce_next_partition(&walk):
            if not request.texts.append(<const uint8_t*>&none, sizeof(Produced)):
                return False
    get_tags(&walk.reader)
    return get_end(&walk.reader)


cdef int16_t _submit(KafkaDoor* door, KafkaRequest* request, uint32_t part, const ProduceWalk* walk) noexcept nogil:
    cdef RecordsRequest append
    cdef TopicLog log
    cdef int16_t code
    if walk.acks < -1 or walk.acks > 1:
        return KAFKA_INVALID_REQUIRED_ACKS
    if walk.id != NULL and walk.name.length == 0:
        return KAFKA_UNKNOWN_TOPIC_ID
    code = topic_log_find(door, request, &walk.name, walk.partition, True, &log)
    if code != KAFKA_OK:
        return code
    append = log.policy
    append.batch = walk.batch
    code = <int16_t>batch_check(&append.batch, append.flags & RECORDS_COMPACT != 0)
    if code != KAFKA_OK:
        return code
    if audit_blocks(door):
        return KAFKA_REQUEST_TIMED_OUT
    return records_command(door, request, part, &log, &append)


cdef void produce_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    request.texts.clear()
    if not _prepare(request):
        reply_fail(door, request)
        return
    produce_go(door, request)


cdef void produce_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef ProduceWalk walk
    cdef uint32_t part = 0
    if request.step != STEP_NEW or not request_pin(door, request):
        return
    request.step = STEP_ASKED
    produce_walk(request, &walk)
    while produce_next_named(door, &walk):
        if walk.name.length:
            audit_names_log(door, request, &walk.name)
        while produce_next_partition(&walk):
            _produced(request, part).code = _submit(door, request, part, &walk)
            part += 1
    if request.tasks == 0:
        produce_answer(door, request)


cdef void produce_answered(KafkaDoor* door, KafkaRequest* request, KafkaTask* task) noexcept nogil:
    cdef Produced* produced = _produced(request, task.part)
    cdef Reader reader
    if task.base.ticket.status != OK:
        produced.code = records_status_code(task.base.ticket.status)
    elif not task_result(task, &reader) or read_array_max(&reader, ANSWER_ELEMENTS) != ANSWER_ELEMENTS:
        produced.code = KAFKA_UNKNOWN_SERVER_ERROR
    else:
        produced.code = <int16_t>read_uint(&reader, CODE_MAX)
        produced.offset = <int64_t>read_uint(&reader, number_max())
        produced.start = <int64_t>read_uint(&reader, number_max())
        if produced.code != KAFKA_OK:
            produced.offset = -1
    if request.tasks == 0:
        produce_answer(door, request)


cdef void produce_answer(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef KafkaWriter writer
    cdef ProduceWalk walk
    cdef uint32_t part = 0
    cdef int16_t error = KAFKA_OK
    produce_walk(request, &walk)
    writer = reply_begin(door, request)
    put_array(&writer, <uint32_t>max(walk.topics, 0))
    while produce_next_topic(&walk):
        if walk.id != NULL:
            put_uuid(&writer, walk.id)
        else:
            put_text(&writer, &walk.name)
        put_array(&writer, <uint32_t>max(walk.partitions, 0))
        while produce_next_partition(&walk):
            _put_produced(&writer, walk.partition, _produced(request, part))
            if _produced(request, part).code != KAFKA_OK:
                error = _produced(request, part).code
            part += 1
        put_tags(&writer)
    put_throttle(&writer, 1)
    put_tags(&writer)
    reply_end(door, request, &writer, error)
    if walk.acks == 0:
        request.answer.clear()


cdef void _put_produced(KafkaWriter* writer, int32_t partition, const Produced* produced) noexcept nogil:
    put_int32(writer, partition)
    put_int16(writer, produced.code)
    put_int64(writer, produced.offset)
    put_int64(writer, -1)           # the time that its producer gave
    if writer.version >= 5:
        put_int64(writer, produced.start)
    if writer.version >= 8:
        put_array(writer, 0)
        put_null_text(writer)
    put_tags(writer)


# --- InitProducerId ---------------------------------------------------------------------------------------------------
cdef void _answer_id(KafkaDoor* door, KafkaRequest* request, int16_t code, int64_t id) noexcept nogil:
    cdef KafkaWriter writer = reply_begin(door, request)
    put_throttle(&writer, 0)
    put_int16(&writer, code)
    put_int64(&writer, id)
    put_int16(&writer, 0 if code == KAFKA_OK else -1)
    put_tags(&writer)
    reply_end(door, request, &writer, code)


cdef void init_producer_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef KafkaReader reader = request_reader(request)
    cdef Bytes transaction = get_text(&reader)
    cdef status_t status = OK
    cdef Txn root
    cdef Op op
    get_int32(&reader)
    if request.version >= 3:
        _skip_producer(&reader)
    get_tags(&reader)
    if not get_end(&reader):
        reply_fail(door, request)
        return
    if transaction.data != NULL:    # there are no transactions
        _answer_id(door, request, KAFKA_INVALID_REQUEST, -1)
        return
    memset(&root, 0, sizeof(Txn))
    memset(&op, 0, sizeof(Op))
    root.then_count = 1
    root.else_first = 1
    op.kind = OP_ADD
    op.key = bytes_of(<const uint8_t*>IDS, IDS_BYTES)
    op.number = 1
    command_clear(&door.desk.command)
    door.desk.command.kind = COMMAND_KEYS
    if (not door.desk.command.txns.push(root) or not door.desk.command.ops.push(op)
            or not request_command(door, request, 0, False, &status)):
        _answer_id(door, request, KAFKA_COORDINATOR_NOT_AVAILABLE, -1)


# The producer and epoch that it had.
cdef inline void _skip_producer(KafkaReader* reader) noexcept nogil:
    get_int32(reader)
    get_int32(reader)
    get_int16(reader)


# [succeeded, [number]]
cdef void init_producer_answered(KafkaDoor* door, KafkaRequest* request, KafkaTask* task) noexcept nogil:
    cdef int16_t code = task_error(task)
    cdef int64_t id = -1
    cdef Reader reader
    if code == KAFKA_OK and task_result(task, &reader):
        read_array_max(&reader, 2)
        read_bool(&reader)
        read_array_max(&reader, 1)
        id = read_int(&reader)
        if reader.status != OK:
            code = KAFKA_UNKNOWN_SERVER_ERROR
    _answer_id(door, request, code, id)
