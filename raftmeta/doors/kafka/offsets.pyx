"""Offsets of groups at the Kafka door: bodies.

A request is read twice: once to ask, and once to answer in its order. In between its handler keeps a code for each
partition: what the door refuses itself, or 0 for those that the machine decides.

Sources: Apache Kafka 3.9 KafkaApis.scala (handleOffsetCommitRequest, handleOffsetFetchRequest, handleOffsetDelete) and
GroupCoordinator.scala.
"""

from libc.stddef cimport size_t
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.doors.desk.rounds cimport round_ask
from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.kafka.access cimport access_change, access_group
from raftmeta.doors.kafka.audit cimport audit_names_group
from raftmeta.doors.kafka.codec cimport (KafkaReader, KafkaWriter, get_array, get_bool, get_end, get_int32, get_int64,
                                         get_tags, get_text, put_array, put_int16, put_int32, put_int64, put_tags,
                                         put_text)
from raftmeta.doors.kafka.group_state cimport group_find, group_key_of, group_member
from raftmeta.doors.kafka.protocol cimport (KAFKA_COORDINATOR_LOAD_IN_PROGRESS, KAFKA_GROUP_AUTHORIZATION_FAILED,
                                            KAFKA_INVALID_GROUP_ID, KAFKA_OFFSET_COMMIT, KAFKA_OK,
                                            KAFKA_STALE_MEMBER_EPOCH, KAFKA_TOPIC_AUTHORIZATION_FAILED,
                                            KAFKA_UNKNOWN_MEMBER_ID,
                                            KAFKA_UNKNOWN_SERVER_ERROR, KAFKA_UNKNOWN_TOPIC_OR_PARTITION)
from raftmeta.doors.kafka.reply cimport (error_of_status, put_throttle, reply_begin, reply_end, reply_fail,
                                         request_pin, request_reader, task_result)
from raftmeta.doors.kafka.topic_state cimport (offset_find, offset_next, offset_walk, topic_allows, topic_is_name,
                                               topics_command)
from raftmeta.machine.consumer_records cimport ConsumerRecord, consumer_read
from raftmeta.machine.group_records cimport GroupRecord, MemberRecord, group_is_consumer
from raftmeta.machine.rights_state cimport RIGHT_READ
from raftmeta.machine.topic_records cimport OffsetKey, OffsetRecord
from raftmeta.machine.tree cimport Cursor
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport OK, OUT_OF_ORDER, status_t
from raftmeta.wire.commands cimport KEY_BYTES_MAX, Bytes
from raftmeta.wire.groups cimport GROUP_ID_BYTES_MAX, GROUP_NAME_BYTES_MAX
from raftmeta.wire.msgpack cimport Reader, read_array_max, read_int
from raftmeta.wire.topics cimport (OFFSET_RETENTION_MS_MAX, OFFSETS_COMMIT, OFFSETS_DELETE, TOPIC_ITEMS_MAX, TopicItem,
                                   TopicsRequest)

cdef enum:
    VERSION_OF_MANY = 8             # of OffsetFetch: it names groups
    EPOCH_NONE = -1
    OFFSET_NONE = -1
    ASKED = 0                       # in the place of a code: the machine says it
    RETENTION_MS = 7 * 24 * 3600 * 1000     # Kafka's default of offsets.retention.minutes


cdef inline int16_t* _codes(KafkaRequest* request) noexcept nogil:
    return <int16_t*>request.texts.data


# A code for each partition of the request. False: no memory.
cdef bint _add_code(KafkaRequest* request, int16_t code) noexcept nogil:
    return request.texts.append(<const uint8_t*>&code, sizeof(int16_t))


# The code that the door gives by itself; ASKED: the machine gives one.
cdef int16_t _look_at_topic(KafkaDoor* door, KafkaRequest* request, const Bytes* name) noexcept nogil:
    if not topic_is_name(name):
        return KAFKA_UNKNOWN_TOPIC_OR_PARTITION
    return ASKED if topic_allows(door, request, RIGHT_READ, name) else KAFKA_TOPIC_AUTHORIZATION_FAILED


# --- OffsetCommit -----------------------------------------------------------------------------------------------------
cdef struct CommitAsked:
    Bytes group
    Bytes member
    Bytes instance
    int32_t generation
    int64_t retention_ms            # -1: the door's
    int32_t topics


# Up to the topics.
cdef void _read_commit(KafkaReader* reader, CommitAsked* asked) noexcept nogil:
    memset(asked, 0, sizeof(CommitAsked))
    asked.group = get_text(reader)
    asked.generation = get_int32(reader)
    asked.member = get_text(reader)
    if reader.version >= 7:
        asked.instance = get_text(reader)
    asked.retention_ms = get_int64(reader) if reader.version <= 4 else -1
    asked.topics = get_array(reader)


cdef void _read_partition(KafkaReader* reader, TopicItem* item, int32_t* partition) noexcept nogil:
    partition[0] = get_int32(reader)
    item.partition = <uint32_t>max(partition[0], 0)
    item.offset = get_int64(reader)
    item.epoch = max(get_int32(reader), <int32_t>EPOCH_NONE) if reader.version >= 6 else <int32_t>EPOCH_NONE
    item.metadata = get_text(reader)
    get_tags(reader)


# Items that the machine decides, and a code for each partition. False: no memory, or the request cannot be read.
cdef bint _read_items(KafkaDoor* door, KafkaRequest* request, KafkaReader* reader, int32_t topics,
                      Vec[TopicItem]* items) noexcept nogil:
    cdef TopicItem item
    cdef int32_t count, partition
    cdef int16_t code
    memset(&item, 0, sizeof(TopicItem))
    request.texts.clear()
    for _ in range(topics):
        item.name = get_text(reader)
        code = _look_at_topic(door, request, &item.name)
        count = get_array(reader)
        for _ in range(count):
            if request.key == KAFKA_OFFSET_COMMIT:
                _read_partition(reader, &item, &partition)
            else:
                partition = get_int32(reader)
                item.partition = <uint32_t>max(partition, 0)
            if reader.is_bad:
                return False
            if not _add_code(request, code if code != ASKED or partition >= 0 else
                             <int16_t>KAFKA_UNKNOWN_TOPIC_OR_PARTITION):
                return False
            if code == ASKED and partition >= 0 and not items.push(item):
                return False
        get_tags(reader)
    get_tags(reader)
    return get_end(reader)


# The sequence of the newest commit of the connection that is not answered yet; 0: there is none. Requests stand in the
# order in which they began.
cdef uint64_t _before(const KafkaRequest* request) noexcept nogil:
    cdef const KafkaRequest* other = request.connection.first
    cdef uint64_t sequence = 0
    while other != NULL and other != request:
        if other.key == KAFKA_OFFSET_COMMIT and other.tasks != 0:
            sequence = other.number
        other = other.next
    return sequence


cdef int16_t _code_of_status(status_t status) noexcept nogil:
    # A new leader took a later commit first: the client asks again, behind the earlier one.
    return KAFKA_COORDINATOR_LOAD_IN_PROGRESS if status == OUT_OF_ORDER else error_of_status(status)


cdef int16_t _submit_commit(KafkaDoor* door, KafkaRequest* request, const CommitAsked* asked, const Bytes* key,
                            const Vec[TopicItem]* items) noexcept nogil:
    cdef TopicsRequest command
    cdef status_t status = OK
    if asked.member.length > GROUP_ID_BYTES_MAX or asked.instance.length > GROUP_NAME_BYTES_MAX:
        return KAFKA_UNKNOWN_MEMBER_ID
    memset(&command, 0, sizeof(TopicsRequest))
    command.verb = OFFSETS_COMMIT
    command.group = key[0]
    command.generation = max(asked.generation, <int32_t>-1)
    command.member = asked.member
    command.instance = asked.instance
    command.retention_ms = <uint64_t>asked.retention_ms if asked.retention_ms >= 0 else <uint64_t>RETENTION_MS
    command.retention_ms = min(command.retention_ms, <uint64_t>OFFSET_RETENTION_MS_MAX)
    if items.size > TOPIC_ITEMS_MAX:
        return KAFKA_UNKNOWN_SERVER_ERROR
    if topics_command(door, request, &command, items.data, <uint32_t>items.size, _before(request), &status):
        request.number = door.desk.command.sequence
        return KAFKA_OK
    return error_of_status(status)


cdef void commit_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX] bytes
    cdef KafkaReader reader = request_reader(request)
    cdef CommitAsked asked
    cdef Vec[TopicItem] items
    cdef Bytes key
    cdef int16_t code
    memset(<void*>&items, 0, sizeof(items))
    _read_commit(&reader, &asked)
    if not _read_items(door, request, &reader, asked.topics, &items):
        items.release()
        reply_fail(door, request)
        return
    key = group_key_of(&asked.group, bytes)
    code = access_change(door, request, &key)
    if code == KAFKA_OK and items.size:
        code = _submit_commit(door, request, &asked, &key, &items)
    items.release()
    if request.tasks == 0:
        _answer_commit(door, request, code, NULL)


# results: of those that the machine decided, in their order; NULL: all are `code`.
cdef void _answer_commit(KafkaDoor* door, KafkaRequest* request, int16_t code, Reader* results) noexcept nogil:
    cdef KafkaReader reader = request_reader(request)
    cdef KafkaWriter writer = reply_begin(door, request)
    cdef CommitAsked asked
    cdef TopicItem item
    cdef Bytes name
    cdef int32_t count, partition
    cdef int16_t told
    cdef int16_t first = code
    cdef uint32_t i = 0
    _read_commit(&reader, &asked)
    put_throttle(&writer, 3)
    put_array(&writer, <uint32_t>max(asked.topics, 0))
    for _ in range(asked.topics):
        name = get_text(&reader)
        count = get_array(&reader)
        put_text(&writer, &name)
        put_array(&writer, <uint32_t>max(count, 0))
        for _ in range(count):
            _read_partition(&reader, &item, &partition)
            told = _told(request, i, code, results)
            first = told if first == KAFKA_OK else first
            put_int32(&writer, partition)
            put_int16(&writer, told)
            put_tags(&writer)
            i += 1
        get_tags(&reader)
        put_tags(&writer)
    put_tags(&writer)
    reply_end(door, request, &writer, first)


cdef int16_t _told(KafkaRequest* request, uint32_t place, int16_t code, Reader* results) noexcept nogil:
    cdef int64_t found
    if _codes(request)[place] != ASKED:
        return _codes(request)[place]
    if results == NULL:
        return code
    found = read_int(results)
    return <int16_t>found if results.status == OK else <int16_t>KAFKA_UNKNOWN_SERVER_ERROR


cdef void commit_answered(KafkaDoor* door, KafkaRequest* request, KafkaTask* task) noexcept nogil:
    cdef Reader results
    cdef int16_t code = _code_of_status(task.base.ticket.status)
    if code == KAFKA_OK and task_result(task, &results):
        read_array_max(&results, TOPIC_ITEMS_MAX)
        _answer_commit(door, request, KAFKA_OK, &results)
    else:
        _answer_commit(door, request, code if code != KAFKA_OK else <int16_t>KAFKA_UNKNOWN_SERVER_ERROR, NULL)


# --- OffsetFetch ------------------------------------------------------------------------------------------------------
cdef void _skip_topics(KafkaReader* reader) noexcept nogil:
    cdef int32_t topics = get_array(reader)
    cdef int32_t count
    for _ in range(topics):
        get_text(reader)
        count = get_array(reader)
        for _ in range(count):
            get_int32(reader)
        get_tags(reader)


# A group that is asked for, and by whom.
cdef struct Asker:
    Bytes group
    Bytes member
    int32_t epoch               # -1: an admin asks


# Up to the topics of one group.
cdef Asker _read_group(KafkaReader* reader) noexcept nogil:
    cdef Asker asker
    asker.group = get_text(reader)
    asker.member = bytes_of(NULL, 0)
    asker.epoch = -1
    if reader.version >= 9:
        asker.member = get_text(reader)
        asker.epoch = get_int32(reader)
    return asker


# ConsumerGroup.validateOffsetFetch; other groups take no notice of who asks.
cdef int16_t _check_asker(KafkaDoor* door, const Bytes* key, const Asker* asker) noexcept nogil:
    cdef ConsumerRecord consumer
    cdef MemberRecord member
    cdef GroupRecord group
    if asker.member.length == 0 and asker.epoch < 0 or not group_find(door, key, &group) or not group_is_consumer(
            &group):
        return KAFKA_OK
    if group_member(door, key, &asker.member, &member) == NULL or not consumer_read(&member.assignment, &consumer):
        return KAFKA_UNKNOWN_MEMBER_ID
    return KAFKA_OK if asker.epoch == consumer.meta.epoch else <int16_t>KAFKA_STALE_MEMBER_EPOCH


cdef bint _is_fetch(const KafkaRequest* request) noexcept nogil:
    cdef KafkaReader reader = request_reader(request)
    cdef int32_t groups = get_array(&reader) if request.version >= VERSION_OF_MANY else 1
    for _ in range(groups):
        _read_group(&reader)
        _skip_topics(&reader)
        if request.version >= VERSION_OF_MANY:
            get_tags(&reader)
    if request.version >= 7:
        get_bool(&reader)
    get_tags(&reader)
    return get_end(&reader)


cdef void fetch_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    if _is_fetch(request):
        request.round = round_ask(&door.desk)
    else:
        reply_fail(door, request)


# offset NULL: there is none.
cdef void _put_offset(KafkaWriter* writer, int32_t partition, const OffsetRecord* offset, int16_t code) noexcept nogil:
    cdef Bytes nothing = bytes_of(NULL, 0)
    put_int32(writer, partition)
    put_int64(writer, offset.meta.offset if offset != NULL else OFFSET_NONE)
    if writer.version >= 5:
        put_int32(writer, offset.meta.epoch if offset != NULL else EPOCH_NONE)
    put_text(writer, &offset.metadata if offset != NULL else &nothing)
    put_int16(writer, code)
    put_tags(writer)


cdef void _put_asked(KafkaDoor* door, KafkaRequest* request, KafkaWriter* writer, KafkaReader* reader, const Bytes* key,
                     int32_t topics, int16_t code) noexcept nogil:
    cdef OffsetRecord offset
    cdef Bytes name
    cdef int32_t count, partition
    cdef int16_t told
    cdef bint is_there
    put_array(writer, <uint32_t>topics)
    for _ in range(topics):
        name = get_text(reader)
        count = get_array(reader)
        put_text(writer, &name)
        put_array(writer, <uint32_t>max(count, 0))
        told = code
        if code == KAFKA_OK and not topic_allows(door, request, RIGHT_READ, &name):
            told = KAFKA_TOPIC_AUTHORIZATION_FAILED
        for _ in range(count):
            partition = get_int32(reader)
            is_there = (told == KAFKA_OK and partition >= 0
                        and offset_find(door, key, &name, <uint32_t>partition, &offset))
            _put_offset(writer, partition, &offset if is_there else NULL, told)
        get_tags(reader)
        put_tags(writer)


# Offsets of one topic stand together. counts: how many, topic by topic.
cdef bint _count(KafkaDoor* door, KafkaRequest* request, const Bytes* key, Vec[uint32_t]* counts) noexcept nogil:
    cdef OffsetRecord offset
    cdef OffsetKey head
    cdef Cursor cursor
    cdef Bytes name = bytes_of(NULL, 0)
    offset_walk(door, key, &head, &cursor)
    while offset_next(door, &head, &cursor, &offset):
        if not _is_same(&name, &offset.name):
            name = offset.name
            if not counts.push(0):
                return False
        counts.data[counts.size - 1] += 1
    return True


cdef inline bint _is_same(const Bytes* left, const Bytes* right) noexcept nogil:
    cdef uint32_t i
    if left.length != right.length:
        return False
    for i in range(left.length):
        if left.data[i] != right.data[i]:
            return False
    return True


cdef void _put_all(KafkaDoor* door, KafkaRequest* request, KafkaWriter* writer, const Bytes* key) noexcept nogil:
    cdef OffsetRecord offset
    cdef OffsetKey head
    cdef Cursor cursor
    cdef Vec[uint32_t] counts
    cdef size_t topic
    cdef uint32_t i
    cdef bint is_there
    memset(<void*>&counts, 0, sizeof(counts))
    if not _count(door, request, key, &counts):
        writer.is_bad = True
    put_array(writer, <uint32_t>counts.size)
    offset_walk(door, key, &head, &cursor)
    for topic in range(counts.size):
        for i in range(counts.data[topic]):
            is_there = offset_next(door, &head, &cursor, &offset)
            writer.is_bad = writer.is_bad or not is_there
            if i == 0:
                put_text(writer, &offset.name)
                put_array(writer, counts.data[topic])
            _put_offset(writer, <int32_t>offset.meta.partition, &offset, KAFKA_OK)
        put_tags(writer)
    counts.release()


cdef int16_t _put_group(KafkaDoor* door, KafkaRequest* request, KafkaWriter* writer, KafkaReader* reader,
                        const Asker* asker) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX] bytes
    cdef Bytes key = group_key_of(&asker.group, bytes)
    cdef int32_t topics = get_array(reader)
    cdef int16_t code = KAFKA_OK
    audit_names_group(door, request, &asker.group)
    if key.length == 0:
        code = KAFKA_INVALID_GROUP_ID
    elif not access_group(door, request, &key, False):
        code = KAFKA_GROUP_AUTHORIZATION_FAILED
    else:
        code = _check_asker(door, &key, asker)
    if topics >= 0:
        _put_asked(door, request, writer, reader, &key, topics, code)
    elif code == KAFKA_OK:
        _put_all(door, request, writer, &key)
    else:
        put_array(writer, 0)
    return code


cdef void fetch_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef KafkaReader reader = request_reader(request)
    cdef KafkaWriter writer
    cdef Asker asker
    cdef int32_t groups
    cdef int16_t code = KAFKA_OK
    if not request_pin(door, request):
        return
    writer = reply_begin(door, request)
    put_throttle(&writer, 3)
    if request.version < VERSION_OF_MANY:
        asker = _read_group(&reader)
        code = _put_group(door, request, &writer, &reader, &asker)
        if request.version >= 2:
            put_int16(&writer, code)
    else:
        groups = get_array(&reader)
        put_array(&writer, <uint32_t>max(groups, 0))
        for _ in range(groups):
            asker = _read_group(&reader)
            put_text(&writer, &asker.group)
            code = _put_group(door, request, &writer, &reader, &asker)
            get_tags(&reader)
            put_int16(&writer, code)
            put_tags(&writer)
    put_tags(&writer)
    reply_end(door, request, &writer, code)


# --- OffsetDelete -----------------------------------------------------------------------------------------------------
cdef void delete_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX] bytes
    cdef KafkaReader reader = request_reader(request)
    cdef Bytes group = get_text(&reader)
    cdef int32_t topics = get_array(&reader)
    cdef TopicsRequest command
    cdef Vec[TopicItem] items
    cdef Bytes key
    cdef int16_t code
    cdef status_t status = OK
    memset(<void*>&items, 0, sizeof(items))
    if not _read_items(door, request, &reader, topics, &items):
        items.release()
        reply_fail(door, request)
        return
    key = group_key_of(&group, bytes)
    code = access_change(door, request, &key)
    memset(&command, 0, sizeof(TopicsRequest))
    command.verb = OFFSETS_DELETE
    command.group = key
    if code == KAFKA_OK and items.size > TOPIC_ITEMS_MAX:
        code = KAFKA_UNKNOWN_SERVER_ERROR
    if code == KAFKA_OK and not topics_command(door, request, &command, items.data, <uint32_t>items.size, 0, &status):
        code = error_of_status(status)
    items.release()
    if request.tasks == 0:
        _answer_delete(door, request, code, NULL)


cdef void _answer_delete(KafkaDoor* door, KafkaRequest* request, int16_t code, Reader* results) noexcept nogil:
    cdef KafkaReader reader = request_reader(request)
    cdef KafkaWriter writer = reply_begin(door, request)
    cdef Bytes name
    cdef int32_t topics, count
    cdef int16_t told
    cdef int16_t first = code
    cdef uint32_t i = 0
    get_text(&reader)
    topics = get_array(&reader) if code == KAFKA_OK else 0
    put_int16(&writer, code)
    put_throttle(&writer, 0)
    put_array(&writer, <uint32_t>max(topics, 0))
    for _ in range(topics):
        name = get_text(&reader)
        count = get_array(&reader)
        put_text(&writer, &name)
        put_array(&writer, <uint32_t>max(count, 0))
        for _ in range(count):
            told = _told(request, i, code, results)
            first = told if first == KAFKA_OK else first
            put_int32(&writer, get_int32(&reader))
            put_int16(&writer, told)
            i += 1
    reply_end(door, request, &writer, first)


cdef void delete_answered(KafkaDoor* door, KafkaRequest* request, KafkaTask* task) noexcept nogil:
    cdef Reader results
    cdef int16_t code = error_of_status(task.base.ticket.status)
    if code == KAFKA_OK and task_result(task, &results):
        read_array_max(&results, 1 + TOPIC_ITEMS_MAX)
        code = <int16_t>read_int(&results)
        _answer_delete(door, request, code, &results)
    else:
        _answer_delete(door, request, code if code != KAFKA_OK else <int16_t>KAFKA_UNKNOWN_SERVER_ERROR, NULL)
