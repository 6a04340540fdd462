"""The oldest records of topics go: bodies.

Sources: Apache Kafka 3.9 KafkaApis.scala (handleDeleteRecordsRequest), Partition.scala (deleteRecordsOnLeader),
KIP-107.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.doors.kafka.audit cimport audit_blocks, audit_names_log
from raftmeta.doors.kafka.codec cimport (KafkaReader, KafkaWriter, get_array, get_end, get_int32, get_int64, get_tags,
                                         get_text, put_array, put_int16, put_int32, put_int64, put_tags, put_text)
from raftmeta.doors.kafka.protocol cimport (KAFKA_OFFSET_OUT_OF_RANGE, KAFKA_OK, KAFKA_POLICY_VIOLATION,
                                            KAFKA_REQUEST_TIMED_OUT, KAFKA_UNKNOWN_SERVER_ERROR)
from raftmeta.doors.kafka.records cimport records_command, records_status_code
from raftmeta.doors.kafka.records_topic cimport TopicLog, topic_log_find
from raftmeta.doors.kafka.reply cimport (put_throttle, reply_begin, reply_end, reply_fail, request_pin, request_reader,
                                         task_result)
from raftmeta.status cimport OK
from raftmeta.wire.commands cimport Bytes
from raftmeta.wire.msgpack cimport Reader, number_max, read_array_max, read_uint
from raftmeta.wire.records cimport RECORDS_DELETE, RECORDS_TO_END, RECORDS_TRIM, RecordsRequest

cdef enum:
    STEP_NEW = 0
    STEP_ASKED = 1
    TO_END = -1                     # the offset that means the end of the log
    CODE_MAX = 0x7FFF
    ANSWER_ELEMENTS = 3             # [code, number, start]

# The outcome of one partition. Outcomes stand in KafkaRequest.texts, in the order of the request.
cdef struct Trimmed:
    int16_t code
    int64_t start

# A walk over the partitions of the request.
cdef struct TrimWalk:
    KafkaReader reader
    int32_t topics                  # left, without the one of `name`
    int32_t partitions              # left of it
    Bytes name
    int32_t partition
    int64_t offset


cdef void _walk(const KafkaRequest* request, TrimWalk* walk) noexcept nogil:
    memset(walk, 0, sizeof(TrimWalk))
    walk.reader = request_reader(request)
    walk.topics = get_array(&walk.reader)


# The next topic. False: there is none.
cdef bint _next_topic(TrimWalk* walk) noexcept nogil:
    if walk.topics <= 0 or walk.reader.is_bad:
        return False
    walk.topics -= 1
    walk.name = get_text(&walk.reader)
    walk.partitions = get_array(&walk.reader)
    return True


# The next partition of the topic. False: there is none; the topic is over.
cdef bint _next_partition(TrimWalk* walk) noexcept nogil:
    if walk.partitions <= 0 or walk.reader.is_bad:
        get_tags(&walk.reader)
        return False
    walk.partitions -= 1
    walk.partition = get_int32(&walk.reader)
    walk.offset = get_int64(&walk.reader)
    get_tags(&walk.reader)
    return True


cdef inline Trimmed* _trimmed(KafkaRequest* request, uint32_t part) noexcept nogil:
    return &(<Trimmed*>request.texts.data)[part]


# Room for each partition. False: the request cannot be read, or there is no memory.
cdef bint _prepare(KafkaRequest* request) noexcept nogil:
    cdef TrimWalk walk
    cdef Trimmed none
    memset(&none, 0, sizeof(Trimmed))
    none.start = -1
    _walk(request, &walk)
    while _next_topic(&walk):
        while _next_partition(&walk):
            if not request.texts.append(<const uint8_t*>&none, sizeof(Trimmed)):
                return False
    get_int32(&walk.reader)
    get_tags(&walk.reader)
    return get_end(&walk.reader)


cdef int16_t _submit(KafkaDoor* door, KafkaRequest* request, uint32_t part, const TrimWalk* walk) noexcept nogil:
    cdef RecordsRequest trim
    cdef TopicLog log
    cdef int16_t code = topic_log_find(door, request, &walk.name, walk.partition, True, &log)
    if code != KAFKA_OK:
        return code
    if not log.policy.flags & RECORDS_DELETE:
        return KAFKA_POLICY_VIOLATION       # a compacted log keeps the last record of each key
    if walk.offset < TO_END:
        return KAFKA_OFFSET_OUT_OF_RANGE
    if audit_blocks(door):
        return KAFKA_REQUEST_TIMED_OUT
    memset(&trim, 0, sizeof(RecordsRequest))
    trim.verb = RECORDS_TRIM
    trim.offset = RECORDS_TO_END if walk.offset == TO_END else <uint64_t>walk.offset
    return records_command(door, request, part, &log, &trim)


cdef void delete_records_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    request.texts.clear()
    if not _prepare(request):
        reply_fail(door, request)
        return
    delete_records_go(door, request)


cdef void delete_records_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef TrimWalk walk
    cdef uint32_t part = 0
    if request.step != STEP_NEW or not request_pin(door, request):
        return
    request.step = STEP_ASKED
    _walk(request, &walk)
    while _next_topic(&walk):
        while _next_partition(&walk):
            _trimmed(request, part).code = _submit(door, request, part, &walk)
            part += 1
    if request.tasks == 0:
        _answer(door, request)


cdef void delete_records_answered(KafkaDoor* door, KafkaRequest* request, KafkaTask* task) noexcept nogil:
    cdef Trimmed* trimmed = _trimmed(request, task.part)
    cdef Reader reader
    if task.base.ticket.status != OK:
        trimmed.code = records_status_code(task.base.ticket.status)
    elif not task_result(task, &reader) or read_array_max(&reader, ANSWER_ELEMENTS) != ANSWER_ELEMENTS:
        trimmed.code = KAFKA_UNKNOWN_SERVER_ERROR
    else:
        trimmed.code = <int16_t>read_uint(&reader, CODE_MAX)
        read_uint(&reader, number_max())
        trimmed.start = <int64_t>read_uint(&reader, number_max()) if trimmed.code == KAFKA_OK else -1
    if request.tasks == 0:
        _answer(door, request)


cdef void _answer(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef KafkaWriter writer = reply_begin(door, request)
    cdef TrimWalk walk
    cdef uint32_t part = 0
    cdef int16_t error = KAFKA_OK
    _walk(request, &walk)
    put_throttle(&writer, 0)
    put_array(&writer, <uint32_t>max(walk.topics, 0))
    while _next_topic(&walk):
        audit_names_log(door, request, &walk.name)
        put_text(&writer, &walk.name)
        put_array(&writer, <uint32_t>max(walk.partitions, 0))
        while _next_partition(&walk):
            put_int32(&writer, walk.partition)
            put_int64(&writer, _trimmed(request, part).start)
            put_int16(&writer, _trimmed(request, part).code)
            put_tags(&writer)
            if _trimmed(request, part).code != KAFKA_OK:
                error = _trimmed(request, part).code
            part += 1
        put_tags(&writer)
    put_tags(&writer)
    reply_end(door, request, &writer, error)
