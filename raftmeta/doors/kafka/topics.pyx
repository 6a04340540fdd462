"""Topics at the Kafka door: bodies.

Sources: Apache Kafka 3.9 KafkaApis.scala (handleTopicMetadataRequest), ControllerApis.scala (createTopics,
deleteTopics) and ConfigHelper.scala.
"""

from libc.stddef cimport size_t
from libc.stdint cimport int16_t, int32_t, uint8_t, uint32_t
from libc.string cimport memcmp, memset

from raftmeta.doors.desk.rounds cimport round_ask
from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.desk.tasks cimport random_bytes
from raftmeta.doors.kafka.audit cimport audit_blocks, audit_names_topic
from raftmeta.doors.kafka.codec cimport (get_array, get_bool, get_end, get_int16, get_int32, get_tags, get_text,
                                         get_uuid, put_array, put_bool, put_int8, put_int16, put_int32,
                                         put_null_text, put_tags, put_text, put_text_null, put_uuid)
from raftmeta.doors.kafka.own_leaders cimport OwnLeader, leader_find, leader_note
from raftmeta.doors.kafka.protocol cimport (KAFKA_INVALID_CONFIG, KAFKA_INVALID_PARTITIONS,
                                            KAFKA_INVALID_REPLICATION_FACTOR, KAFKA_INVALID_REQUEST,
                                            KAFKA_INVALID_TOPIC, KAFKA_LEADER_NOT_AVAILABLE, KAFKA_OK,
                                            KAFKA_TOPIC_AUTHORIZATION_FAILED, KAFKA_UNKNOWN_SERVER_ERROR,
                                            KAFKA_UNKNOWN_TOPIC_ID, KAFKA_UNKNOWN_TOPIC_OR_PARTITION)
from raftmeta.doors.kafka.reply cimport (put_throttle, reply_begin, reply_end, reply_fail, request_pin, request_reader,
                                         task_result)
from raftmeta.doors.kafka.topic_configs cimport topic_config_may_be
from raftmeta.doors.kafka.topic_state cimport (topic_allows, topic_find, topic_find_id, topic_is_name,
                                               topic_may_change, topic_next, topic_status_code, topic_walk,
                                               topics_command)
from raftmeta.machine.rights_state cimport RIGHT_READ, RIGHT_WRITE
from raftmeta.machine.topic_records cimport TopicRecord
from raftmeta.machine.tree cimport Cursor
from raftmeta.native.containers cimport Vec
from raftmeta.security.audit_queue cimport AUDIT_FILLER, AUDIT_TOPIC_CREATE
from raftmeta.status cimport OK, status_t
from raftmeta.wire.commands cimport Bytes
from raftmeta.wire.msgpack cimport Reader, read_array_max, read_bin, read_int, read_uint
from raftmeta.wire.topics cimport (TOPIC_CONFIGS_MAX, TOPIC_ID_BYTES, TOPIC_ITEMS_MAX,
                                   TOPIC_PARTITIONS_MAX, TOPICS_CREATE, TOPICS_DELETE, TopicItem, TopicsRequest,
                                   topics_encode_configs, topics_next_config)

cdef enum:
    NOT_ASKED = -2147483648         # authorized operations
    PARTITIONS_DEFAULT = 1
    RESULT_ELEMENTS = 4             # machine/topics, of a create
    ANYTHING = 0x7FFFFFFF
    # Steps of a request.
    STEP_LOOKS = 0
    STEP_ASKED = 1
    STEP_MADE = 2
    SOURCE_TOPIC = 1                # of a config


cdef inline bint _same(const Bytes* left, const Bytes* right) noexcept nogil:
    return left.length == right.length and (left.length == 0 or memcmp(left.data, right.data, left.length) == 0)


cdef inline int16_t* _codes(KafkaRequest* request) noexcept nogil:
    return <int16_t*>request.texts.data


# 16 bytes for each item, which get an id each. False: the system gives none, or no memory.
cdef bint _give_ids(Vec[TopicItem]* items, Vec[uint8_t]* ids) noexcept nogil:
    cdef size_t i
    if not ids.resize(items.size * TOPIC_ID_BYTES) or not random_bytes(ids.data, ids.size):
        return False
    for i in range(items.size):
        items.data[i].id = bytes_of(ids.data + i * TOPIC_ID_BYTES, TOPIC_ID_BYTES)
    return True


# Submit a create of these. KAFKA_OK, or why not.
cdef int16_t _submit_create(KafkaDoor* door, KafkaRequest* request, Vec[TopicItem]* items,
                            bint is_trial) noexcept nogil:
    cdef TopicsRequest command
    cdef Vec[uint8_t] ids
    cdef status_t status = OK
    memset(<void*>&ids, 0, sizeof(ids))
    memset(&command, 0, sizeof(TopicsRequest))
    command.verb = TOPICS_CREATE
    command.is_trial = is_trial
    if items.size > TOPIC_ITEMS_MAX or not _give_ids(items, &ids):
        ids.release()
        return KAFKA_UNKNOWN_SERVER_ERROR
    topics_command(door, request, &command, items.data, <uint32_t>items.size, 0, &status)
    ids.release()
    return topic_status_code(status)


# --- Metadata ---------------------------------------------------------------------------------------------------------
cdef Bytes _read_topic(KafkaReader* reader, const uint8_t** id) noexcept nogil:
    cdef Bytes name
    id[0] = get_uuid(reader) if reader.version >= 10 else NULL
    name = get_text(reader)
    get_tags(reader)
    return name


cdef bint topics_are_there(KafkaDoor* door, KafkaRequest* request, const KafkaReader* topics, int32_t count,
                           bint may_make) noexcept nogil:
    cdef uint8_t[3] no_configs
    cdef KafkaReader reader = topics[0]
    cdef const uint8_t* id = NULL
    cdef Vec[TopicItem] items
    cdef TopicRecord topic
    cdef TopicItem item
    if request.step == STEP_ASKED:
        return False
    if not may_make or request.step == STEP_MADE or audit_blocks(door):
        return True
    memset(<void*>&items, 0, sizeof(items))
    memset(&item, 0, sizeof(TopicItem))
    no_configs[0] = 0x90
    item.partitions = PARTITIONS_DEFAULT
    item.configs = bytes_of(no_configs, 1)
    request.operation = AUDIT_TOPIC_CREATE
    for _ in range(count):
        item.name = _read_topic(&reader, &id)
        if (topic_is_name(&item.name) and not topic_find(door, &item.name, &topic)
                and topic_allows(door, request, RIGHT_READ | RIGHT_WRITE, &item.name) and items.push(item)):
            audit_names_topic(door, request, &item.name)
    request.is_denied = False           # what may not be made is told as not there
    request.step = STEP_MADE
    if items.size == 0:
        request.operation = AUDIT_FILLER
    if items.size and _submit_create(door, request, &items, False) == KAFKA_OK:
        request.step = STEP_ASKED
    items.release()
    return request.step == STEP_MADE


cdef void topics_made(KafkaDoor* door, KafkaRequest* request, KafkaTask* task) noexcept nogil:
    if task.base.ticket.status == OK:
        request.revision = task.base.ticket.revision
    else:
        request.code = topic_status_code(task.base.ticket.status)   # for the audit trail
    request.step = STEP_MADE


# Every node leads the logs of raftmeta, for ever. A log of the host has one leader; where there is none, that is noted.
cdef void _find_leader(KafkaDoor* door, const Bytes* name, const uint8_t* id, uint32_t partition,
                       OwnLeader* leader) noexcept nogil:
    if door.own == NULL:
        memset(leader, 0, sizeof(OwnLeader))
        leader.broker = door.self.id
        leader.is_here = leader.is_known = True
        return
    leader_find(door, name, id, partition, leader)
    if leader.broker < 0:
        leader_note(door, name, id, partition, leader)


cdef void _put_brokers(KafkaWriter* writer, int32_t broker, bint has_one) noexcept nogil:
    put_array(writer, has_one)
    if has_one:
        put_int32(writer, broker)


cdef void _put_topic(KafkaDoor* door, KafkaWriter* writer, int16_t code, const Bytes* name, const uint8_t* id,
                     uint32_t partitions) noexcept nogil:
    cdef OwnLeader leader
    cdef bint is_there
    cdef uint32_t i
    put_int16(writer, code)
    if writer.version >= 12:
        put_text_null(writer, name)
    else:
        put_text(writer, name)
    if writer.version >= 10:
        put_uuid(writer, id)
    if writer.version >= 1:
        put_bool(writer, False)
    put_array(writer, partitions)
    for i in range(partitions):
        _find_leader(door, name, id, i, &leader)
        is_there = leader.broker >= 0 and leader.is_known
        put_int16(writer, KAFKA_OK if is_there else KAFKA_LEADER_NOT_AVAILABLE)
        put_int32(writer, <int32_t>i)
        put_int32(writer, leader.broker if is_there else -1)
        if writer.version >= 7:
            put_int32(writer, leader.epoch)
        _put_brokers(writer, leader.broker, leader.broker >= 0)
        _put_brokers(writer, leader.broker, is_there)
        if writer.version >= 5:
            _put_brokers(writer, leader.broker, leader.broker >= 0 and not is_there)
        put_tags(writer)
    if writer.version >= 8:
        put_int32(writer, NOT_ASKED)
    put_tags(writer)


cdef void _put_asked(KafkaDoor* door, KafkaRequest* request, KafkaWriter* writer, KafkaReader* reader) noexcept nogil:
    cdef const uint8_t* id = NULL
    cdef Bytes name = _read_topic(reader, &id)
    cdef bint by_id = name.data == NULL
    cdef TopicRecord topic
    cdef bint is_there
    if by_id:
        is_there = topic_find_id(door, id, &name, &topic)
    else:
        is_there = topic_find(door, &name, &topic)
    if is_there and topic_allows(door, request, RIGHT_READ, &name):
        _put_topic(door, writer, KAFKA_OK, &name, &topic.meta.id[0], topic.meta.partitions)
    elif by_id:
        name.data = NULL
        name.length = 0
        _put_topic(door, writer, KAFKA_UNKNOWN_TOPIC_ID, &name, id, 0)
    elif not topic_is_name(&name):
        _put_topic(door, writer, KAFKA_INVALID_TOPIC, &name, NULL, 0)
    elif not topic_allows(door, request, RIGHT_READ, &name):
        _put_topic(door, writer, KAFKA_TOPIC_AUTHORIZATION_FAILED, &name, NULL, 0)
    else:
        _put_topic(door, writer, KAFKA_UNKNOWN_TOPIC_OR_PARTITION, &name, NULL, 0)


# All that may be seen. writer NULL: they are counted only.
cdef uint32_t _put_all(KafkaDoor* door, KafkaRequest* request, KafkaWriter* writer) noexcept nogil:
    cdef TopicRecord topic
    cdef Cursor cursor
    cdef Bytes name
    cdef uint32_t count = 0
    topic_walk(door, &cursor)
    while topic_next(&cursor, &name, &topic):
        if not topic_allows(door, request, RIGHT_READ, &name):
            continue
        count += 1
        if writer != NULL:
            _put_topic(door, writer, KAFKA_OK, &name, &topic.meta.id[0], topic.meta.partitions)
    request.is_denied = False
    return count


cdef void put_topics(KafkaDoor* door, KafkaRequest* request, KafkaWriter* writer, const KafkaReader* topics,
                     int32_t count) noexcept nogil:
    cdef KafkaReader reader = topics[0]
    if count < 0 or (count == 0 and request.version == 0):
        put_array(writer, _put_all(door, request, NULL))
        _put_all(door, request, writer)
        return
    put_array(writer, <uint32_t>count)
    for _ in range(count):
        _put_asked(door, request, writer, &reader)


# --- CreateTopics -----------------------------------------------------------------------------------------------------
# Sort pairs by their names; False: a name comes twice. There are at most TOPIC_CONFIGS_MAX.
cdef bint _sort(Vec[Bytes]* pairs) noexcept nogil:
    cdef size_t i, j
    cdef Bytes name, value
    for i in range(2, pairs.size, 2):
        name = pairs.data[i]
        value = pairs.data[i + 1]
        j = i
        while j > 0 and _is_before(&name, &pairs.data[j - 2]):
            pairs.data[j] = pairs.data[j - 2]
            pairs.data[j + 1] = pairs.data[j - 1]
            j -= 2
        pairs.data[j] = name
        pairs.data[j + 1] = value
        if j > 0 and _same(&name, &pairs.data[j - 2]):
            return False
    return True


cdef inline bint _is_before(const Bytes* left, const Bytes* right) noexcept nogil:
    cdef int order = memcmp(left.data, right.data, min(left.length, right.length))
    return order < 0 or (order == 0 and left.length < right.length)


# One topic of the request, and its configs in door.pairs. The code of what the door refuses itself, else KAFKA_OK.
cdef int16_t _read_new(KafkaDoor* door, KafkaReader* reader, TopicItem* item) noexcept nogil:
    cdef int32_t partitions, replicas, assigned, count
    cdef int16_t code = KAFKA_OK
    cdef Bytes name, value
    item.name = get_text(reader)
    partitions = get_int32(reader)
    replicas = get_int16(reader)
    assigned = get_array(reader)
    for _ in range(assigned):
        get_int32(reader)
        count = get_array(reader)
        for _ in range(count):
            get_int32(reader)
        get_tags(reader)
    count = get_array(reader)
    door.pairs.clear()
    for _ in range(count):
        name = get_text(reader)
        value = get_text(reader)
        get_tags(reader)
        if value.data == NULL or not topic_config_may_be(&name, &value):
            code = KAFKA_INVALID_CONFIG
        elif not door.pairs.push(name) or not door.pairs.push(value):
            reader.is_bad = True
    get_tags(reader)
    if door.pairs.size > 2 * TOPIC_CONFIGS_MAX or not _sort(&door.pairs):
        code = KAFKA_INVALID_CONFIG
    if assigned > 0 and (partitions != -1 or replicas != -1):
        code = KAFKA_INVALID_REQUEST
    elif replicas != -1 and replicas < 1:
        code = KAFKA_INVALID_REPLICATION_FACTOR
    item.partitions = assigned if assigned > 0 else PARTITIONS_DEFAULT if partitions == -1 else partitions
    if item.partitions < 1 or item.partitions > TOPIC_PARTITIONS_MAX:
        code = KAFKA_INVALID_PARTITIONS
    return code if topic_is_name(&item.name) else <int16_t>KAFKA_INVALID_TOPIC


# Items to be made, with a code for each topic of the request. `configs` has room for all. False: as for reply_fail.
cdef bint _read_create(KafkaDoor* door, KafkaRequest* request, Vec[TopicItem]* items, Vec[uint8_t]* configs,
                       bint* is_trial) noexcept nogil:
    cdef KafkaReader reader = request_reader(request)
    cdef int32_t topics = get_array(&reader)
    cdef TopicItem item
    cdef size_t start
    cdef int16_t code
    if not configs.reserve(4 * <size_t>request.frame_length + 64):
        return False
    for _ in range(topics):
        memset(&item, 0, sizeof(TopicItem))
        code = _read_new(door, &reader, &item)
        start = configs.size
        if code == KAFKA_OK and topics_encode_configs(door.pairs.data, <uint32_t>(door.pairs.size // 2), configs) != OK:
            code = KAFKA_INVALID_CONFIG
        if code == KAFKA_OK:
            code = topic_may_change(door, request, &item.name)
        item.configs = bytes_of(configs.data + start, configs.size - start)
        if (reader.is_bad or not request.texts.append(<const uint8_t*>&code, sizeof(int16_t))
                or (code == KAFKA_OK and not items.push(item))):
            return False
    get_int32(&reader)
    is_trial[0] = get_bool(&reader)
    get_tags(&reader)
    return get_end(&reader)


cdef void create_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef Vec[TopicItem] items
    cdef Vec[uint8_t] configs
    cdef bint is_trial = False
    cdef int16_t code = KAFKA_OK
    memset(<void*>&items, 0, sizeof(items))
    memset(<void*>&configs, 0, sizeof(configs))
    if not _read_create(door, request, &items, &configs, &is_trial):
        reply_fail(door, request)
    elif items.size:
        code = _submit_create(door, request, &items, is_trial)
    items.release()
    configs.release()
    if request.tasks == 0 and not request.is_done:
        _answer_create(door, request, code, NULL)


cdef void _put_configs(KafkaWriter* writer, const Bytes* configs) noexcept nogil:
    cdef Bytes name, value
    cdef uint32_t place = 0
    cdef uint32_t count = 0
    while topics_next_config(configs, &place, &name, &value):
        count += 1
    put_array(writer, count)
    place = 0
    while topics_next_config(configs, &place, &name, &value):
        put_text(writer, &name)
        put_text_null(writer, &value)
        put_bool(writer, False)
        put_int8(writer, SOURCE_TOPIC)
        put_bool(writer, False)
        put_tags(writer)


# The machine's answer for one topic: its code.
cdef int16_t _read_made(Reader* results, Bytes* id, int32_t* partitions, Bytes* configs) noexcept nogil:
    cdef int16_t code
    if read_array_max(results, RESULT_ELEMENTS) != RESULT_ELEMENTS:
        return KAFKA_UNKNOWN_SERVER_ERROR
    code = <int16_t>read_int(results)
    id.data = read_bin(results, TOPIC_ID_BYTES, &id.length)
    partitions[0] = <int32_t>read_uint(results, TOPIC_PARTITIONS_MAX)
    configs.data = read_bin(results, ANYTHING, &configs.length)
    return code if results.status == OK and id.length == TOPIC_ID_BYTES else <int16_t>KAFKA_UNKNOWN_SERVER_ERROR


cdef void _answer_create(KafkaDoor* door, KafkaRequest* request, int16_t code, Reader* results) noexcept nogil:
    cdef KafkaReader reader = request_reader(request)
    cdef KafkaWriter writer = reply_begin(door, request)
    cdef int32_t topics = get_array(&reader)
    cdef Bytes nothing = bytes_of(NULL, 0)
    cdef Bytes id, configs
    cdef int32_t partitions, i
    cdef TopicItem item
    cdef int16_t first = KAFKA_OK
    cdef int16_t told
    put_throttle(&writer, 2)
    put_array(&writer, <uint32_t>max(topics, 0))
    for i in range(topics):
        _read_new(door, &reader, &item)
        audit_names_topic(door, request, &item.name)
        id = configs = nothing
        partitions = -1
        told = _codes(request)[i]
        if told == KAFKA_OK:
            told = _read_made(results, &id, &partitions, &configs) if results != NULL else code
        first = told if first == KAFKA_OK else first
        put_text(&writer, &item.name)
        if request.version >= 7:
            put_uuid(&writer, id.data if told == KAFKA_OK else NULL)
        put_int16(&writer, told)
        put_null_text(&writer)
        if request.version >= 5:
            put_int32(&writer, partitions if told == KAFKA_OK else -1)
            put_int16(&writer, 1 if told == KAFKA_OK else -1)
            _put_configs(&writer, &configs if told == KAFKA_OK else &nothing)
        put_tags(&writer)
    put_tags(&writer)
    reply_end(door, request, &writer, first)


cdef void create_answered(KafkaDoor* door, KafkaRequest* request, KafkaTask* task) noexcept nogil:
    cdef Reader results
    cdef int16_t code = topic_status_code(task.base.ticket.status)
    if code == KAFKA_OK and task_result(task, &results):
        read_array_max(&results, TOPIC_ITEMS_MAX)
        _answer_create(door, request, code, &results)
    else:
        _answer_create(door, request, code if code != KAFKA_OK else <int16_t>KAFKA_UNKNOWN_SERVER_ERROR, NULL)


# --- DeleteTopics -----------------------------------------------------------------------------------------------------
# One topic of the request: by its name, or since version 6 by its id.
cdef Bytes _read_gone(KafkaReader* reader, const uint8_t** id) noexcept nogil:
    cdef Bytes name = get_text(reader)
    id[0] = NULL
    if reader.version >= 6:
        id[0] = get_uuid(reader)
        get_tags(reader)
    return name


cdef void remove_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef KafkaReader reader = request_reader(request)
    cdef int32_t topics = get_array(&reader)
    cdef const uint8_t* id = NULL
    for _ in range(topics):
        _read_gone(&reader, &id)
    get_int32(&reader)
    get_tags(&reader)
    if get_end(&reader):
        request.round = round_ask(&door.desk)       # names of ids are looked up
    else:
        reply_fail(door, request)


cdef int16_t _look_at_gone(KafkaDoor* door, KafkaRequest* request, KafkaReader* reader, TopicItem* item) noexcept nogil:
    cdef const uint8_t* id = NULL
    cdef TopicRecord topic
    memset(item, 0, sizeof(TopicItem))
    item.name = _read_gone(reader, &id)
    if item.name.data == NULL:
        if not topic_find_id(door, id, &item.name, &topic):
            return KAFKA_UNKNOWN_TOPIC_ID
        item.id = bytes_of(id, TOPIC_ID_BYTES)
    elif not topic_is_name(&item.name):
        return KAFKA_UNKNOWN_TOPIC_OR_PARTITION
    audit_names_topic(door, request, &item.name)
    return topic_may_change(door, request, &item.name)


cdef void remove_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef KafkaReader reader = request_reader(request)
    cdef TopicsRequest command
    cdef Vec[TopicItem] items
    cdef TopicItem item
    cdef int32_t topics = get_array(&reader)
    cdef int16_t code = KAFKA_OK
    cdef int16_t told
    cdef status_t status = OK
    if request.step == STEP_ASKED or not request_pin(door, request):
        return
    memset(<void*>&items, 0, sizeof(items))
    memset(&command, 0, sizeof(TopicsRequest))
    command.verb = TOPICS_DELETE
    request.texts.clear()
    for _ in range(topics):
        told = _look_at_gone(door, request, &reader, &item)
        if (not request.texts.append(<const uint8_t*>&told, sizeof(int16_t))
                or (told == KAFKA_OK and not items.push(item))):
            items.release()
            reply_fail(door, request)
            return
    if items.size > TOPIC_ITEMS_MAX:
        code = KAFKA_UNKNOWN_SERVER_ERROR
    elif items.size:
        topics_command(door, request, &command, items.data, <uint32_t>items.size, 0, &status)
        code = topic_status_code(status)
    items.release()
    request.step = STEP_ASKED
    if request.tasks == 0:
        _answer_remove(door, request, code, NULL)


cdef void _answer_remove(KafkaDoor* door, KafkaRequest* request, int16_t code, Reader* results) noexcept nogil:
    cdef KafkaReader reader = request_reader(request)
    cdef KafkaWriter writer = reply_begin(door, request)
    cdef int32_t topics = get_array(&reader)
    cdef const uint8_t* id = NULL
    cdef Bytes name
    cdef int32_t i
    cdef int16_t first = KAFKA_OK
    cdef int16_t told
    put_throttle(&writer, 1)
    put_array(&writer, <uint32_t>max(topics, 0))
    for i in range(topics):
        name = _read_gone(&reader, &id)
        told = _codes(request)[i]
        if told == KAFKA_OK and results != NULL:
            told = <int16_t>read_int(results)
        elif told == KAFKA_OK:
            told = code
        first = told if first == KAFKA_OK else first
        if request.version >= 6:
            put_text_null(&writer, &name)
            put_uuid(&writer, id)
        else:
            put_text(&writer, &name)
        put_int16(&writer, told)
        if request.version >= 5:
            put_null_text(&writer)
        put_tags(&writer)
    put_tags(&writer)
    reply_end(door, request, &writer, first)


cdef void remove_answered(KafkaDoor* door, KafkaRequest* request, KafkaTask* task) noexcept nogil:
    cdef Reader results
    cdef int16_t code = topic_status_code(task.base.ticket.status)
    if code == KAFKA_OK and task_result(task, &results):
        read_array_max(&results, TOPIC_ITEMS_MAX)
        _answer_remove(door, request, code, &results)
    else:
        _answer_remove(door, request, code if code != KAFKA_OK else <int16_t>KAFKA_UNKNOWN_SERVER_ERROR, NULL)
