"""Which requests the Kafka door knows: bodies."""

from libc.stdint cimport int16_t, uint8_t, uint32_t
from libc.string cimport memset

from raftmeta.doors.kafka.cluster cimport (coordinator_begin, describe_cluster_begin, describe_cluster_go,
                                           metadata_begin, metadata_go)
from raftmeta.doors.kafka.codec cimport (KafkaReader, KafkaWriter, get_end, get_int32, get_tags, get_text, put_array,
                                         put_int16, put_tags)
from raftmeta.doors.kafka.consumer_groups cimport (consumer_beat_answered, consumer_beat_begin, consumer_beat_go,
                                                   consumer_describe_begin, consumer_describe_go)
from raftmeta.doors.kafka.group_lists cimport (delete_groups_answered, delete_groups_begin, describe_groups_begin,
                                               describe_groups_go, list_groups_begin, list_groups_go)
from raftmeta.doors.kafka.groups cimport (heartbeat_begin, heartbeat_go, join_answered, join_begin, join_go,
                                          leave_answered, leave_begin, sync_answered, sync_begin, sync_go)
from raftmeta.doors.kafka.offsets cimport (commit_answered, commit_begin, delete_answered, delete_begin, fetch_begin,
                                           fetch_go)
from raftmeta.doors.kafka.own_lists cimport own_list_begin, own_list_go
from raftmeta.doors.kafka.own_logs cimport own_fetch_begin, own_fetch_go, own_produce_begin, own_produce_go
from raftmeta.doors.kafka.protocol cimport (KAFKA_ALTER_CONFIGS, KAFKA_API_VERSIONS, KAFKA_CONSUMER_GROUP_DESCRIBE,
                                            KAFKA_CONSUMER_GROUP_HEARTBEAT, KAFKA_CREATE_PARTITIONS,
                                            KAFKA_CREATE_TOPICS, KAFKA_DELETE_GROUPS, KAFKA_DELETE_RECORDS,
                                            KAFKA_DELETE_TOPICS, KAFKA_DESCRIBE_CLUSTER, KAFKA_DESCRIBE_CONFIGS,
                                            KAFKA_DESCRIBE_GROUPS, KAFKA_FETCH, KAFKA_FIND_COORDINATOR, KAFKA_HEARTBEAT,
                                            KAFKA_INCREMENTAL_ALTER_CONFIGS, KAFKA_INIT_PRODUCER_ID, KAFKA_JOIN_GROUP,
                                            KAFKA_LEAVE_GROUP, KAFKA_LIST_GROUPS, KAFKA_LIST_OFFSETS, KAFKA_METADATA,
                                            KAFKA_OFFSET_COMMIT, KAFKA_OFFSET_DELETE, KAFKA_OFFSET_FETCH,
                                            KAFKA_OFFSET_FOR_LEADER_EPOCH, KAFKA_OK, KAFKA_PRODUCE,
                                            KAFKA_SASL_AUTHENTICATE, KAFKA_SASL_HANDSHAKE, KAFKA_SYNC_GROUP,
                                            KAFKA_UNSUPPORTED_VERSION)
from raftmeta.doors.kafka.records cimport (init_producer_answered, init_producer_begin, produce_answered,
                                           produce_begin, produce_go)
from raftmeta.doors.kafka.records_delete cimport (delete_records_answered, delete_records_begin,
                                                  delete_records_go)
from raftmeta.doors.kafka.records_fetch cimport records_fetch_begin, records_fetch_go
from raftmeta.doors.kafka.records_offsets cimport (leader_epoch_begin, leader_epoch_go, list_offsets_begin,
                                                   list_offsets_go)
from raftmeta.doors.kafka.reply cimport put_throttle, reply_begin, reply_end, reply_fail, request_reader
from raftmeta.doors.kafka.sasl cimport authenticate_begin, authenticate_go, handshake_begin
from raftmeta.doors.kafka.state cimport (KAFKA_BEFORE_PROOF, KAFKA_OWN, KAFKA_TOGETHER, KafkaDoor, KafkaRequest,
                                         KafkaTask)
from raftmeta.doors.kafka.topic_configs cimport (alter_configs_answered, alter_configs_begin, describe_configs_begin,
                                                 describe_configs_go)
from raftmeta.doors.kafka.topic_partitions cimport partitions_answered, partitions_begin
from raftmeta.doors.kafka.topics cimport (create_answered, create_begin, remove_answered, remove_begin, remove_go,
                                          topics_made)
from raftmeta.security.audit_queue cimport (AUDIT_FILLER, AUDIT_GROUP_DELETE, AUDIT_GROUP_JOIN, AUDIT_GROUP_LEAVE,
                                            AUDIT_GROUP_SYNC, AUDIT_OFFSET_COMMIT, AUDIT_OFFSET_DELETE, AUDIT_RANGE,
                                            AUDIT_RECORDS_APPEND, AUDIT_RECORDS_DELETE, AUDIT_TOPIC_CONFIGURE,
                                            AUDIT_TOPIC_CREATE, AUDIT_TOPIC_DELETE, AUDIT_TOPIC_EXTEND)

cdef enum:
    NEVER = 0x7FFF                  # no version is flexible

ctypedef void (*handler_begin)(KafkaDoor* door, KafkaRequest* request) noexcept nogil
ctypedef void (*handler_answered)(KafkaDoor* door, KafkaRequest* request, KafkaTask* task) noexcept nogil

cdef KafkaHandler[KAFKA_HANDLERS_MAX] TABLE
cdef uint32_t COUNT = 0
cdef KafkaHandler UNKNOWN


# Whether a row holds for such a door. A row of a door with own logs stands before the one that it replaces.
cdef inline bint _holds(const KafkaHandler* row, bint has_own) noexcept nogil:
    if row.key == KAFKA_OFFSET_FOR_LEADER_EPOCH:
        return not has_own          # only the host could know where an epoch of its log ended
    return has_own or not row.traits & KAFKA_OWN


cdef const KafkaHandler* handler_of(int16_t key, int16_t version, bint has_own) noexcept nogil:
    cdef uint32_t i
    for i in range(COUNT):
        if TABLE[i].key == key and _holds(&TABLE[i], has_own):
            return &TABLE[i] if TABLE[i].first <= version <= TABLE[i].last else NULL
    return NULL


cdef const KafkaHandler* handler_of_unknown() noexcept nogil:
    return &UNKNOWN


# --- ApiVersions ------------------------------------------------------------------------------------------------------
cdef inline bint _is_told(uint32_t i, bint has_own) noexcept nogil:
    return handler_of(TABLE[i].key, TABLE[i].first, has_own) == &TABLE[i]


cdef void _answer(KafkaDoor* door, KafkaRequest* request, int16_t code) noexcept nogil:
    cdef KafkaWriter writer = reply_begin(door, request)
    cdef bint has_own = door.own != NULL
    cdef uint32_t count = 0
    cdef uint32_t i
    for i in range(COUNT):
        count += _is_told(i, has_own)
    put_int16(&writer, code)
    put_array(&writer, count)
    for i in range(COUNT):
        if not _is_told(i, has_own):
            continue
        put_int16(&writer, TABLE[i].key)
        put_int16(&writer, TABLE[i].first)
        put_int16(&writer, TABLE[i].last)
        put_tags(&writer)
    put_throttle(&writer, 1)
    put_tags(&writer)
    reply_end(door, request, &writer, code)


cdef void _versions_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef KafkaReader reader = request_reader(request)
    if request.version >= 3:
        get_text(&reader)
        get_text(&reader)
    if request.version >= 5:
        get_text(&reader)
        get_int32(&reader)
    get_tags(&reader)
    if get_end(&reader):
        _answer(door, request, KAFKA_OK)
    else:
        reply_fail(door, request)


cdef void _unknown_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    request.version = 0
    door.counters.unsupported += 1
    _answer(door, request, KAFKA_UNSUPPORTED_VERSION)


# --- the table --------------------------------------------------------------------------------------------------------
cdef void _row(int16_t key, int16_t first, int16_t last, int16_t flexible, uint8_t traits, uint8_t operation,
               handler_begin begin, handler_begin go, handler_answered answered) noexcept nogil:
    global COUNT
    cdef KafkaHandler* handler = &TABLE[COUNT]
    handler.key = key
    handler.first = first
    handler.last = last
    handler.flexible = flexible
    handler.traits = traits
    handler.operation = operation
    handler.begin = begin
    handler.go = go
    handler.answered = answered
    COUNT += 1


cdef void _fill() noexcept nogil:
    _row(KAFKA_PRODUCE, 3, 13, 9, KAFKA_OWN, AUDIT_RECORDS_APPEND, own_produce_begin, own_produce_go, NULL)
    _row(KAFKA_FETCH, 4, 18, 12, KAFKA_OWN, AUDIT_RANGE, own_fetch_begin, own_fetch_go, NULL)
    _row(KAFKA_LIST_OFFSETS, 1, 9, 6, KAFKA_OWN, AUDIT_FILLER, own_list_begin, own_list_go, NULL)
    _row(KAFKA_PRODUCE, 3, 13, 9, 0, AUDIT_RECORDS_APPEND, produce_begin, produce_go, produce_answered)
    _row(KAFKA_FETCH, 4, 18, 12, 0, AUDIT_RANGE, records_fetch_begin, records_fetch_go, NULL)
    _row(KAFKA_LIST_OFFSETS, 1, 9, 6, 0, AUDIT_FILLER, list_offsets_begin, list_offsets_go, NULL)
    _row(KAFKA_METADATA, 0, 13, 9, 0, AUDIT_FILLER, metadata_begin, metadata_go, topics_made)
    _row(KAFKA_OFFSET_COMMIT, 2, 9, 8, KAFKA_TOGETHER, AUDIT_OFFSET_COMMIT, commit_begin, NULL,
         commit_answered)
    _row(KAFKA_OFFSET_FETCH, 1, 9, 6, 0, AUDIT_RANGE, fetch_begin, fetch_go, NULL)
    _row(KAFKA_FIND_COORDINATOR, 0, 6, 3, 0, AUDIT_FILLER, coordinator_begin, NULL, NULL)
    _row(KAFKA_JOIN_GROUP, 0, 9, 6, 0, AUDIT_GROUP_JOIN, join_begin, join_go, join_answered)
    _row(KAFKA_HEARTBEAT, 0, 4, 4, KAFKA_TOGETHER, AUDIT_FILLER, heartbeat_begin, heartbeat_go, NULL)
    _row(KAFKA_LEAVE_GROUP, 0, 5, 4, 0, AUDIT_GROUP_LEAVE, leave_begin, NULL, leave_answered)
    _row(KAFKA_SYNC_GROUP, 0, 5, 4, 0, AUDIT_GROUP_SYNC, sync_begin, sync_go, sync_answered)
    _row(KAFKA_DESCRIBE_GROUPS, 0, 5, 5, 0, AUDIT_RANGE, describe_groups_begin, describe_groups_go, NULL)
    _row(KAFKA_LIST_GROUPS, 0, 5, 3, 0, AUDIT_RANGE, list_groups_begin, list_groups_go, NULL)
    _row(KAFKA_SASL_HANDSHAKE, 1, 1, NEVER, KAFKA_BEFORE_PROOF, AUDIT_FILLER, handshake_begin, NULL, NULL)
    _row(KAFKA_API_VERSIONS, 0, 4, 3, KAFKA_BEFORE_PROOF, AUDIT_FILLER, _versions_begin, NULL, NULL)
    _row(KAFKA_CREATE_TOPICS, 2, 7, 5, 0, AUDIT_TOPIC_CREATE, create_begin, NULL, create_answered)
    _row(KAFKA_DELETE_TOPICS, 1, 6, 4, 0, AUDIT_TOPIC_DELETE, remove_begin, remove_go, remove_answered)
    _row(KAFKA_DELETE_RECORDS, 0, 2, 2, 0, AUDIT_RECORDS_DELETE, delete_records_begin, delete_records_go,
         delete_records_answered)
    _row(KAFKA_CREATE_PARTITIONS, 0, 3, 2, 0, AUDIT_TOPIC_EXTEND, partitions_begin, NULL, partitions_answered)
    _row(KAFKA_DESCRIBE_CONFIGS, 1, 4, 4, 0, AUDIT_FILLER, describe_configs_begin, describe_configs_go, NULL)
    _row(KAFKA_ALTER_CONFIGS, 0, 2, 2, 0, AUDIT_TOPIC_CONFIGURE, alter_configs_begin, NULL, alter_configs_answered)
    _row(KAFKA_INCREMENTAL_ALTER_CONFIGS, 0, 1, 1, 0, AUDIT_TOPIC_CONFIGURE, alter_configs_begin, NULL,
         alter_configs_answered)
    _row(KAFKA_SASL_AUTHENTICATE, 0, 2, 2, KAFKA_BEFORE_PROOF, AUDIT_FILLER, authenticate_begin, authenticate_go,
         NULL)
    _row(KAFKA_INIT_PRODUCER_ID, 0, 5, 2, 0, AUDIT_FILLER, init_producer_begin, NULL, init_producer_answered)
    _row(KAFKA_OFFSET_FOR_LEADER_EPOCH, 2, 4, 4, 0, AUDIT_FILLER, leader_epoch_begin, leader_epoch_go, NULL)
    _row(KAFKA_DELETE_GROUPS, 0, 2, 2, 0, AUDIT_GROUP_DELETE, delete_groups_begin, NULL, delete_groups_answered)
    _row(KAFKA_OFFSET_DELETE, 0, 0, NEVER, 0, AUDIT_OFFSET_DELETE, delete_begin, NULL, delete_answered)
    _row(KAFKA_DESCRIBE_CLUSTER, 0, 1, 0, 0, AUDIT_FILLER, describe_cluster_begin, describe_cluster_go, NULL)
    _row(KAFKA_CONSUMER_GROUP_HEARTBEAT, 0, 1, 0, 0, AUDIT_FILLER, consumer_beat_begin, consumer_beat_go,
         consumer_beat_answered)
    _row(KAFKA_CONSUMER_GROUP_DESCRIBE, 0, 1, 0, 0, AUDIT_RANGE, consumer_describe_begin, consumer_describe_go, NULL)


memset(&UNKNOWN, 0, sizeof(UNKNOWN))
UNKNOWN.key = KAFKA_API_VERSIONS
UNKNOWN.flexible = NEVER
UNKNOWN.traits = KAFKA_BEFORE_PROOF
UNKNOWN.operation = AUDIT_FILLER
UNKNOWN.begin = _unknown_begin
_fill()
