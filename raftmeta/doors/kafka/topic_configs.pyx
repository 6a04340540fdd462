"""Configs of topics at the Kafka door: bodies.

Sources: Apache Kafka 3.9 ConfigHelper.scala (describeConfigs), ConfigAdminManager.scala (preprocess),
ConfigurationControlManager.java, LogConfig.java (which values a config may have).
"""

from libc.stddef cimport size_t
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp, memset, strlen

from raftmeta.doors.desk.rounds cimport round_ask
from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.kafka.audit cimport audit_names_topic
from raftmeta.doors.kafka.codec cimport (KafkaReader, KafkaWriter, get_array, get_bool, get_end, get_int8, get_tags,
                                         get_text, put_array, put_bool, put_int8, put_int16, put_null_text, put_tags,
                                         put_text, put_text_null)
from raftmeta.doors.kafka.protocol cimport (KAFKA_ALTER_CONFIGS, KAFKA_INVALID_CONFIG, KAFKA_INVALID_REQUEST,
                                            KAFKA_INVALID_TOPIC, KAFKA_OK, KAFKA_TOPIC_AUTHORIZATION_FAILED,
                                            KAFKA_UNKNOWN_SERVER_ERROR, KAFKA_UNKNOWN_TOPIC_OR_PARTITION)
from raftmeta.doors.kafka.reply cimport (put_throttle, reply_begin, reply_end, reply_fail, request_pin, request_reader,
                                         task_result)
from raftmeta.doors.kafka.topic_state cimport (topic_allows, topic_config, topic_find, topic_is_name,
                                               topic_may_change, topic_status_code, topics_command)
from raftmeta.machine.rights_state cimport RIGHT_READ
from raftmeta.machine.topic_records cimport TopicRecord
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport OK, status_t
from raftmeta.wire.msgpack cimport Reader, read_array_max, read_int
from raftmeta.wire.topics cimport (TOPIC_CHANGES_MAX, TOPIC_CONFIG_BYTES_MAX, TOPIC_CONFIG_DELETE,
                                   TOPIC_CONFIG_SET, TOPIC_CONFIG_SUBTRACT, TOPIC_ITEMS_MAX, TOPICS_CONFIGS,
                                   TopicChange, TopicItem, TopicsRequest, topics_encode_changes, topics_next_config)

cdef enum:
    RESOURCE_TOPIC = 2
    RESOURCE_BROKER = 4
    SOURCE_TOPIC = 1
    SOURCE_DEFAULT = 5
    TYPE_STRING = 2
    DEFAULTS = 6                    # of KNOWN, which DescribeConfigs tells
    KNOWN_CONFIGS = 9
    TUNE_RESOURCES_MAX = 1000       # of one change: each is compared with all others
    CHANGE_EXTRA_BYTES = 4          # a change as msgpack is at most so many times as long as in its frame
    NUMBER_DIGITS_MAX = 18

cdef enum ConfigType:
    CONFIG_NUMBER
    CONFIG_WORD
    CONFIG_LIST
    CONFIG_LIST_OF_ANY

# A config of Kafka 3.9. words: those that it may have, a space before and behind each.
cdef struct Known:
    const char* name
    const char* fallback
    ConfigType type
    int64_t least
    const char* words

cdef Known[KNOWN_CONFIGS] KNOWN
KNOWN[0] = Known(b"cleanup.policy", b"delete", CONFIG_LIST, 0, b" compact delete ")
KNOWN[1] = Known(b"compression.type", b"producer", CONFIG_WORD, 0, b" gzip lz4 producer snappy uncompressed zstd ")
KNOWN[2] = Known(b"max.message.bytes", b"1048588", CONFIG_NUMBER, 0, b"")
KNOWN[3] = Known(b"min.insync.replicas", b"1", CONFIG_NUMBER, 1, b"")
KNOWN[4] = Known(b"retention.bytes", b"-1", CONFIG_NUMBER, -(1 << 62), b"")
KNOWN[5] = Known(b"retention.ms", b"604800000", CONFIG_NUMBER, -1, b"")
KNOWN[6] = Known(b"delete.retention.ms", b"86400000", CONFIG_NUMBER, 0, b"")
KNOWN[7] = Known(b"follower.replication.throttled.replicas", b"", CONFIG_LIST_OF_ANY, 0, b"")
KNOWN[8] = Known(b"leader.replication.throttled.replicas", b"", CONFIG_LIST_OF_ANY, 0, b"")


cdef inline bint _same(const Bytes* left, const Bytes* right) noexcept nogil:
    return left.length == right.length and (left.length == 0 or memcmp(left.data, right.data, left.length) == 0)


cdef inline Bytes _word(const char* word) noexcept nogil:
    return bytes_of(<const uint8_t*>word, strlen(word))


# --- which values there are -------------------------------------------------------------------------------------------
cdef const Known* _known(const Bytes* name) noexcept nogil:
    cdef Bytes known
    cdef int i
    for i in range(KNOWN_CONFIGS):
        known = _word(KNOWN[i].name)
        if _same(&known, name):
            return &KNOWN[i]
    return NULL


cdef bint _is_number(const Bytes* text, int64_t least) noexcept nogil:
    cdef uint32_t start = 1 if text.length and text.data[0] == c"-" else 0
    cdef int64_t value = 0
    cdef uint32_t i
    if not 0 < text.length - start <= NUMBER_DIGITS_MAX:
        return False
    for i in range(start, text.length):
        if not c"0" <= text.data[i] <= c"9":
            return False
        value = 10 * value + text.data[i] - c"0"
    return (-value if start else value) >= least


cdef bint _is_among(const Bytes* word, const char* words) noexcept nogil:
    cdef const char* at = words
    while at[0] != 0:
        at += 1                     # a space
        if (strlen(at) > word.length and at[word.length] == c" " and memcmp(at, word.data, word.length) == 0
                and word.length):
            return True
        while at[0] != 0 and at[0] != c" ":
            at += 1
    return False


cdef bint _are_among(const Bytes* list, const char* words) noexcept nogil:
    cdef uint32_t start = 0
    cdef uint32_t end
    cdef Bytes word
    while start < list.length:
        end = start
        while end < list.length and list.data[end] != c",":
            end += 1
        word = bytes_of(list.data + start, end - start)
        if not _is_among(&word, words):
            return False
        start = end + 1
    return True


cdef bint topic_config_may_be(const Bytes* name, const Bytes* value) noexcept nogil:
    cdef const Known* known = _known(name)
    if name.length == 0 or name.length > TOPIC_CONFIG_BYTES_MAX or value.length > TOPIC_CONFIG_BYTES_MAX:
        return False
    if known == NULL or known.type == CONFIG_LIST_OF_ANY:
        return True
    if known.type == CONFIG_NUMBER:
        return _is_number(value, known.least)
    return _is_among(value, known.words) if known.type == CONFIG_WORD else _are_among(value, known.words)


# --- DescribeConfigs --------------------------------------------------------------------------------------------------
# Names of one resource go into door.pairs; *has_names: only these are asked for.
cdef int8_t _read_resource(KafkaDoor* door, KafkaReader* reader, Bytes* name, bint* has_names) noexcept nogil:
    cdef int8_t type = get_int8(reader)
    cdef int32_t count
    name[0] = get_text(reader)
    count = get_array(reader)
    has_names[0] = count >= 0
    door.pairs.clear()
    for _ in range(count):
        if not door.pairs.push(get_text(reader)):
            reader.is_bad = True
    get_tags(reader)
    return type


cdef void describe_configs_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef KafkaReader reader = request_reader(request)
    cdef int32_t count = get_array(&reader)
    cdef bint has_names = False
    cdef Bytes name
    for _ in range(count):
        _read_resource(door, &reader, &name, &has_names)
    get_bool(&reader)
    if request.version >= 3:
        get_bool(&reader)
    get_tags(&reader)
    if get_end(&reader):
        request.round = round_ask(&door.desk)
    else:
        reply_fail(door, request)


cdef bint _is_wanted(const KafkaDoor* door, const Bytes* name, bint has_names) noexcept nogil:
    cdef size_t i
    for i in range(door.pairs.size):
        if _same(&door.pairs.data[i], name):
            return True
    return not has_names


cdef void _put_config(KafkaWriter* writer, const Bytes* name, const Bytes* value, bint is_default) noexcept nogil:
    put_text(writer, name)
    put_text_null(writer, value)
    put_bool(writer, False)
    put_int8(writer, SOURCE_DEFAULT if is_default else SOURCE_TOPIC)
    put_bool(writer, False)
    put_array(writer, 0)
    if writer.version >= 3:
        put_int8(writer, TYPE_STRING)
        put_null_text(writer)
    put_tags(writer)


# The topic's own ones, then defaults of the others. writer NULL: they are counted only.
cdef uint32_t _put_topic_configs(KafkaDoor* door, KafkaWriter* writer, const TopicRecord* topic,
                                 bint has_names) noexcept nogil:
    cdef Bytes name, value, unused
    cdef uint32_t place = 0
    cdef uint32_t count = 0
    cdef int i
    while topics_next_config(&topic.configs, &place, &name, &value):
        if _is_wanted(door, &name, has_names):
            count += 1
            if writer != NULL:
                _put_config(writer, &name, &value, False)
    for i in range(DEFAULTS):
        name = _word(KNOWN[i].name)
        value = _word(KNOWN[i].fallback)
        if not topic_config(topic, &name, &unused) and _is_wanted(door, &name, has_names):
            count += 1
            if writer != NULL:
                _put_config(writer, &name, &value, True)
    return count


cdef int16_t _look_at_resource(KafkaDoor* door, KafkaRequest* request, int8_t type, const Bytes* name,
                               TopicRecord* topic) noexcept nogil:
    memset(topic, 0, sizeof(TopicRecord))
    if type == RESOURCE_BROKER:
        return KAFKA_OK
    if type != RESOURCE_TOPIC:
        return KAFKA_INVALID_REQUEST
    if not topic_is_name(name):
        return KAFKA_INVALID_TOPIC
    if not topic_allows(door, request, RIGHT_READ, name):
        return KAFKA_TOPIC_AUTHORIZATION_FAILED
    return KAFKA_OK if topic_find(door, name, topic) else KAFKA_UNKNOWN_TOPIC_OR_PARTITION


cdef void describe_configs_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef KafkaReader reader = request_reader(request)
    cdef KafkaWriter writer
    cdef TopicRecord topic
    cdef bint has_names = False
    cdef int32_t count
    cdef int16_t code
    cdef int8_t type
    cdef Bytes name
    if not request_pin(door, request):
        return
    writer = reply_begin(door, request)
    put_throttle(&writer, 0)
    count = get_array(&reader)
    put_array(&writer, <uint32_t>max(count, 0))
    for _ in range(count):
        type = _read_resource(door, &reader, &name, &has_names)
        code = _look_at_resource(door, request, type, &name, &topic)
        put_int16(&writer, code)
        put_null_text(&writer)
        put_int8(&writer, type)
        put_text(&writer, &name)
        if code == KAFKA_OK and type == RESOURCE_TOPIC:
            put_array(&writer, _put_topic_configs(door, NULL, &topic, has_names))
            _put_topic_configs(door, &writer, &topic, has_names)
        else:
            put_array(&writer, 0)
        put_tags(&writer)
    put_tags(&writer)
    reply_end(door, request, &writer, KAFKA_OK)


# --- AlterConfigs, IncrementalAlterConfigs ----------------------------------------------------------------------------
# A walk over the resources of either request.
cdef struct Change:
    int8_t type
    Bytes name
    int16_t code                    # of what the door refuses itself, else KAFKA_OK


cdef inline bint _is_whole(const KafkaRequest* request) noexcept nogil:
    return request.key == KAFKA_ALTER_CONFIGS


cdef int16_t _judge(TopicChange* change) noexcept nogil:
    cdef const Known* known = _known(&change.name)
    if change.kind > TOPIC_CONFIG_SUBTRACT or (change.kind != TOPIC_CONFIG_DELETE and change.value.data == NULL):
        return KAFKA_INVALID_REQUEST
    if change.name.length == 0 or change.name.length > TOPIC_CONFIG_BYTES_MAX:
        return KAFKA_INVALID_CONFIG
    if change.kind == TOPIC_CONFIG_DELETE:
        change.value.length = 0
        return KAFKA_OK
    if change.kind != TOPIC_CONFIG_SET:
        if known == NULL or (known.type != CONFIG_LIST and known.type != CONFIG_LIST_OF_ANY):
            return KAFKA_INVALID_CONFIG
        change.fallback = _word(known.fallback)
        if change.kind == TOPIC_CONFIG_SUBTRACT:
            return KAFKA_OK if change.value.length <= TOPIC_CONFIG_BYTES_MAX else <int16_t>KAFKA_INVALID_CONFIG
    return KAFKA_OK if topic_config_may_be(&change.name, &change.value) else <int16_t>KAFKA_INVALID_CONFIG


# Put it where its name belongs. False: the name is there already.
cdef bint _insert(Vec[TopicChange]* changes, const TopicChange* change) noexcept nogil:
    cdef size_t i = changes.size
    cdef int order
    changes.push(change[0])         # there is room for all
    while i > 0:
        order = memcmp(changes.data[i - 1].name.data, change.name.data,
                       min(changes.data[i - 1].name.length, change.name.length))
        if order == 0 and changes.data[i - 1].name.length == change.name.length:
            return False
        if order < 0 or (order == 0 and changes.data[i - 1].name.length < change.name.length):
            break
        changes.data[i] = changes.data[i - 1]
        i -= 1
    changes.data[i] = change[0]
    return True


# One resource, and its changes with room for TOPIC_CHANGES_MAX; NULL: they are passed over.
cdef void _read_change(KafkaReader* reader, bint is_whole, Change* found, Vec[TopicChange]* changes) noexcept nogil:
    cdef TopicChange change
    cdef int16_t code
    cdef int32_t count
    found.type = get_int8(reader)
    found.name = get_text(reader)
    found.code = KAFKA_OK
    count = get_array(reader)
    if changes != NULL:
        changes.clear()
    for _ in range(count):
        memset(&change, 0, sizeof(TopicChange))
        change.name = get_text(reader)
        change.kind = TOPIC_CONFIG_SET if is_whole else <uint8_t>get_int8(reader)
        change.value = get_text(reader)
        get_tags(reader)
        if reader.is_bad:
            return
        if changes == NULL or found.code != KAFKA_OK:
            continue
        code = _judge(&change)
        if changes.size >= TOPIC_CHANGES_MAX:
            code = KAFKA_INVALID_CONFIG
        elif code == KAFKA_OK and not _insert(changes, &change):
            code = KAFKA_INVALID_REQUEST
        found.code = code
    get_tags(reader)


# Whether another resource of the request has the same name.
cdef bint _is_named_twice(const Vec[TopicItem]* names, size_t place) noexcept nogil:
    cdef size_t i
    cdef const TopicItem* one = &names.data[place]
    for i in range(names.size):
        if i != place and names.data[i].partition == one.partition and _same(&names.data[i].name, &one.name):
            return True
    return False


cdef int16_t _look_at_change(KafkaDoor* door, KafkaRequest* request, const Change* found) noexcept nogil:
    if found.type != RESOURCE_TOPIC or found.name.length == 0:
        return KAFKA_INVALID_REQUEST        # no other resource has configs that a client may change
    if found.code != KAFKA_OK:
        return found.code
    if not topic_is_name(&found.name):
        return KAFKA_INVALID_TOPIC
    return topic_may_change(door, request, &found.name)


# All resources as they stand in the request. False: it cannot be read, or there is no memory.
cdef bint _read_names(const KafkaRequest* request, Vec[TopicItem]* names, bint* is_trial) noexcept nogil:
    cdef KafkaReader reader = request_reader(request)
    cdef int32_t count = get_array(&reader)
    cdef TopicItem item
    cdef Change found
    memset(&item, 0, sizeof(TopicItem))
    for _ in range(count):
        _read_change(&reader, _is_whole(request), &found, NULL)
        item.name = found.name
        item.partition = <uint32_t>found.type
        if reader.is_bad or not names.push(item):
            return False
    is_trial[0] = get_bool(&reader)
    get_tags(&reader)
    return get_end(&reader)


# A code for each resource in request.texts, and items for those that the machine decides. False: no memory.
cdef bint _read_alter(KafkaDoor* door, KafkaRequest* request, const Vec[TopicItem]* names, Vec[TopicChange]* changes,
                      Vec[uint8_t]* bytes, Vec[TopicItem]* items) noexcept nogil:
    cdef KafkaReader reader = request_reader(request)
    cdef TopicItem item
    cdef Change found
    cdef int16_t code
    cdef size_t start, i
    get_array(&reader)
    # The changes stay where they are: there is room for all of them.
    if (not changes.reserve(TOPIC_CHANGES_MAX)
            or not bytes.reserve(CHANGE_EXTRA_BYTES * <size_t>request.frame_length + CHANGE_EXTRA_BYTES)):
        return False
    for i in range(names.size):
        _read_change(&reader, _is_whole(request), &found, changes)
        code = _look_at_change(door, request, &found)
        if names.size > TUNE_RESOURCES_MAX or _is_named_twice(names, i):
            code = KAFKA_INVALID_REQUEST
        memset(&item, 0, sizeof(TopicItem))
        item.name = found.name
        start = bytes.size
        if code == KAFKA_OK and topics_encode_changes(changes.data, <uint32_t>changes.size, bytes) != OK:
            code = KAFKA_UNKNOWN_SERVER_ERROR
        item.changes = bytes_of(bytes.data + start, bytes.size - start)
        if (not request.texts.append(<const uint8_t*>&code, sizeof(int16_t))
                or (code == KAFKA_OK and not items.push(item))):
            return False
    return True


cdef int16_t _submit_alter(KafkaDoor* door, KafkaRequest* request, const Vec[TopicItem]* items,
                           bint is_trial) noexcept nogil:
    cdef TopicsRequest command
    cdef status_t status = OK
    memset(&command, 0, sizeof(TopicsRequest))
    command.verb = TOPICS_CONFIGS
    command.is_trial = is_trial
    command.is_whole = _is_whole(request)
    topics_command(door, request, &command, items.data, <uint32_t>items.size, 0, &status)
    return topic_status_code(status)


cdef void alter_configs_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef Vec[TopicItem] names
    cdef Vec[TopicItem] items
    cdef Vec[TopicChange] changes
    cdef Vec[uint8_t] bytes
    cdef bint is_trial = False
    cdef int16_t code = KAFKA_OK
    memset(<void*>&names, 0, sizeof(names))
    memset(<void*>&items, 0, sizeof(items))
    memset(<void*>&changes, 0, sizeof(changes))
    memset(<void*>&bytes, 0, sizeof(bytes))
    if (not _read_names(request, &names, &is_trial)
            or not _read_alter(door, request, &names, &changes, &bytes, &items)):
        reply_fail(door, request)
    elif items.size:
        code = _submit_alter(door, request, &items, is_trial)
    names.release()
    items.release()
    changes.release()
    bytes.release()
    if request.tasks == 0 and not request.is_done:
        _answer_alter(door, request, code, NULL)


# results: the machine's codes, one for each item; NULL: `code` is that of all.
cdef void _answer_alter(KafkaDoor* door, KafkaRequest* request, int16_t code, Reader* results) noexcept nogil:
    cdef KafkaReader reader = request_reader(request)
    cdef KafkaWriter writer = reply_begin(door, request)
    cdef int32_t count = get_array(&reader)
    cdef int16_t first = KAFKA_OK
    cdef int16_t told
    cdef Change found
    cdef int32_t i
    put_throttle(&writer, 0)
    put_array(&writer, <uint32_t>max(count, 0))
    for i in range(count):
        _read_change(&reader, _is_whole(request), &found, NULL)
        told = (<int16_t*>request.texts.data)[i]
        if told == KAFKA_OK:
            told = <int16_t>read_int(results) if results != NULL else code
        first = told if first == KAFKA_OK else first
        if found.type == RESOURCE_TOPIC:
            audit_names_topic(door, request, &found.name)
        put_int16(&writer, told)
        put_null_text(&writer)
        put_int8(&writer, found.type)
        put_text(&writer, &found.name)
        put_tags(&writer)
    put_tags(&writer)
    reply_end(door, request, &writer, first)


cdef void alter_configs_answered(KafkaDoor* door, KafkaRequest* request, KafkaTask* task) noexcept nogil:
    cdef Reader results
    cdef int16_t code = topic_status_code(task.base.ticket.status)
    if code == KAFKA_OK and task_result(task, &results):
        read_array_max(&results, TOPIC_ITEMS_MAX)
        _answer_alter(door, request, code, &results)
    else:
        _answer_alter(door, request, code if code != KAFKA_OK else <int16_t>KAFKA_UNKNOWN_SERVER_ERROR, NULL)
