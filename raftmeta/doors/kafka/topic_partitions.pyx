"""More partitions of topics at the Kafka door: bodies.

Sources: Apache Kafka 3.9 ControllerApis.scala and ReplicationControlManager.java (createPartitions).
"""

from libc.stdint cimport int16_t, int32_t, uint8_t, uint32_t
from libc.string cimport memset

from raftmeta.doors.kafka.audit cimport audit_names_topic
from raftmeta.doors.kafka.codec cimport (KafkaReader, KafkaWriter, get_array, get_bool, get_end, get_int32, get_tags,
                                         get_text, put_array, put_int16, put_null_text, put_tags, put_text)
from raftmeta.doors.kafka.protocol cimport KAFKA_OK, KAFKA_UNKNOWN_SERVER_ERROR, KAFKA_UNKNOWN_TOPIC_OR_PARTITION
from raftmeta.doors.kafka.reply cimport (put_throttle, reply_begin, reply_end, reply_fail, request_reader,
                                         task_result)
from raftmeta.doors.kafka.topic_state cimport topic_is_name, topic_may_change, topic_status_code, topics_command
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport OK, status_t
from raftmeta.wire.msgpack cimport Reader, read_array_max, read_int
from raftmeta.wire.topics cimport TOPIC_ITEMS_MAX, TOPICS_PARTITIONS, TopicItem, TopicsRequest


cdef void _read_topic(KafkaReader* reader, TopicItem* item) noexcept nogil:
    cdef int32_t assigned, replicas
    memset(item, 0, sizeof(TopicItem))
    item.name = get_text(reader)
    item.partitions = get_int32(reader)
    assigned = get_array(reader)
    while assigned > 0 and not reader.is_bad:
        replicas = get_array(reader)
        while replicas > 0 and not reader.is_bad:
            get_int32(reader)
            replicas -= 1
        get_tags(reader)
        assigned -= 1
    get_tags(reader)


cdef int16_t _look_at(KafkaDoor* door, KafkaRequest* request, const TopicItem* item) noexcept nogil:
    if not topic_is_name(&item.name):
        return KAFKA_UNKNOWN_TOPIC_OR_PARTITION
    return topic_may_change(door, request, &item.name)


# Items for the machine, and a code for each topic of the request. False: it cannot be read, or there is no memory.
cdef bint _read(KafkaDoor* door, KafkaRequest* request, Vec[TopicItem]* items, bint* is_trial) noexcept nogil:
    cdef KafkaReader reader = request_reader(request)
    cdef int32_t topics = get_array(&reader)
    cdef TopicItem item
    cdef int16_t code
    for _ in range(topics):
        _read_topic(&reader, &item)
        if reader.is_bad:
            return False
        code = _look_at(door, request, &item)
        if (not request.texts.append(<const uint8_t*>&code, sizeof(int16_t))
                or (code == KAFKA_OK and not items.push(item))):
            return False
    get_int32(&reader)
    is_trial[0] = get_bool(&reader)
    get_tags(&reader)
    return get_end(&reader)


cdef void partitions_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef TopicsRequest command
    cdef Vec[TopicItem] items
    cdef bint is_trial = False
    cdef int16_t code = KAFKA_OK
    cdef status_t status = OK
    memset(<void*>&items, 0, sizeof(items))
    memset(&command, 0, sizeof(TopicsRequest))
    command.verb = TOPICS_PARTITIONS
    if not _read(door, request, &items, &is_trial):
        reply_fail(door, request)
    elif items.size > TOPIC_ITEMS_MAX:
        code = KAFKA_UNKNOWN_SERVER_ERROR
    elif items.size:
        command.is_trial = is_trial
        topics_command(door, request, &command, items.data, <uint32_t>items.size, 0, &status)
        code = topic_status_code(status)
    items.release()
    if request.tasks == 0 and not request.is_done:
        _answer(door, request, code, NULL)


# results: the machine's codes, one for each item; NULL: `code` is that of all.
cdef void _answer(KafkaDoor* door, KafkaRequest* request, int16_t code, Reader* results) noexcept nogil:
    cdef KafkaReader reader = request_reader(request)
    cdef KafkaWriter writer = reply_begin(door, request)
    cdef int32_t topics = get_array(&reader)
    cdef int16_t first = KAFKA_OK
    cdef int16_t told
    cdef TopicItem item
    cdef int32_t i
    put_throttle(&writer, 0)
    put_array(&writer, <uint32_t>max(topics, 0))
    for i in range(topics):
        _read_topic(&reader, &item)
        audit_names_topic(door, request, &item.name)
        told = (<int16_t*>request.texts.data)[i]
        if told == KAFKA_OK:
            told = <int16_t>read_int(results) if results != NULL else code
        first = told if first == KAFKA_OK else first
        put_text(&writer, &item.name)
        put_int16(&writer, told)
        put_null_text(&writer)
        put_tags(&writer)
    put_tags(&writer)
    reply_end(door, request, &writer, first)


cdef void partitions_answered(KafkaDoor* door, KafkaRequest* request, KafkaTask* task) noexcept nogil:
    cdef Reader results
    cdef int16_t code = topic_status_code(task.base.ticket.status)
    if code == KAFKA_OK and task_result(task, &results):
        read_array_max(&results, TOPIC_ITEMS_MAX)
        _answer(door, request, code, &results)
    else:
        _answer(door, request, code if code != KAFKA_OK else <int16_t>KAFKA_UNKNOWN_SERVER_ERROR, NULL)
