"""The record logs of topics: bodies.

A log has the key kafka-logs/NAME/ID/PARTITION. So rights are granted by the name of a topic, and a topic that is made
again has a new log.
"""

from libc.stddef cimport size_t
from libc.stdint cimport int16_t, int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy, memset

from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.kafka.access cimport access_allows
from raftmeta.doors.kafka.protocol cimport (KAFKA_OK, KAFKA_TOPIC_AUTHORIZATION_FAILED,
                                            KAFKA_UNKNOWN_TOPIC_OR_PARTITION)
from raftmeta.doors.kafka.topic_state cimport topic_entry, topic_find
from raftmeta.machine.entry cimport Entry
from raftmeta.machine.record_reads cimport record_log_view
from raftmeta.machine.rights_state cimport RIGHT_READ, RIGHT_WRITE
from raftmeta.machine.topic_records cimport TopicRecord
from raftmeta.wire.records cimport RECORDS_APPEND, RECORDS_COMPACT, RECORDS_DELETE
from raftmeta.wire.topics cimport TOPIC_ID_BYTES, TOPIC_NAME_BYTES_MAX, topics_next_config

cdef enum:
    LOGS_BYTES = 11                 # of the roots below
    RETENTION_MS = 604_800_000      # Kafka's defaults of retention.ms and delete.retention.ms
    TOMBSTONE_MS = 86_400_000

cdef const char* LOGS = b"kafka-logs/"
cdef const char* LOGS_END = b"kafka-logs0"
cdef const char* HEXADECIMAL = b"0123456789abcdef"


cdef Bytes topic_logs_start() noexcept nogil:
    return bytes_of(<const uint8_t*>LOGS, LOGS_BYTES)


cdef Bytes topic_logs_end() noexcept nogil:
    return bytes_of(<const uint8_t*>LOGS_END, LOGS_BYTES)


# --- the key ----------------------------------------------------------------------------------------------------------
cdef void _append(TopicLog* log, const uint8_t* bytes, uint32_t length) noexcept nogil:
    memcpy(log.room + log.key.length, bytes, length)
    log.key.length += length


cdef void _append_byte(TopicLog* log, uint8_t byte) noexcept nogil:
    _append(log, &byte, 1)


cdef void _make_key(TopicLog* log, const Bytes* name, const uint8_t* id, uint32_t partition) noexcept nogil:
    cdef uint32_t power = 1
    cdef int i
    log.key = bytes_of(log.room, 0)
    _append(log, <const uint8_t*>LOGS, LOGS_BYTES)
    _append(log, name.data, name.length)
    _append_byte(log, 47)
    for i in range(TOPIC_ID_BYTES):
        _append_byte(log, <uint8_t>HEXADECIMAL[id[i] >> 4])
        _append_byte(log, <uint8_t>HEXADECIMAL[id[i] & 15])
    _append_byte(log, 47)
    while partition // power >= 10:
        power *= 10
    while power:
        _append_byte(log, <uint8_t>(48 + partition // power % 10))
        power //= 10


# --- what its configs say ---------------------------------------------------------------------------------------------
cdef bint _is(const Bytes* bytes, const char* word, uint32_t length) noexcept nogil:
    return bytes.length == length and memcmp(bytes.data, word, length) == 0


# Digits; *number stays as it is where there are others, or too many. -1 and other negative numbers: 0, no limit.
cdef void _read_number(const Bytes* text, uint64_t* number) noexcept nogil:
    cdef uint64_t value = 0
    cdef uint32_t i
    if text.length and text.data[0] == 45:
        number[0] = 0
        return
    if text.length == 0 or text.length > 18:
        return
    for i in range(text.length):
        if not 48 <= text.data[i] <= 57:
            return
        value = 10 * value + text.data[i] - 48
    number[0] = value


cdef bint _has_word(const Bytes* list, const char* word, uint32_t length) noexcept nogil:
    cdef uint32_t i
    for i in range(list.length):
        if list.length - i >= length and memcmp(list.data + i, word, length) == 0:
            return True
    return False


cdef void _read_policy(const Bytes* configs, RecordsRequest* policy) noexcept nogil:
    cdef Bytes name, value
    cdef uint32_t place = 0
    memset(policy, 0, sizeof(RecordsRequest))
    policy.verb = RECORDS_APPEND
    policy.flags = RECORDS_DELETE
    policy.retention_ms = RETENTION_MS
    policy.tombstone_ms = TOMBSTONE_MS
    while topics_next_config(configs, &place, &name, &value):
        if _is(&name, b"cleanup.policy", 14):
            policy.flags = ((RECORDS_COMPACT if _has_word(&value, b"compact", 7) else 0)
                            | (RECORDS_DELETE if _has_word(&value, b"delete", 6) else 0))
        elif _is(&name, b"retention.ms", 12):
            _read_number(&value, &policy.retention_ms)
        elif _is(&name, b"retention.bytes", 15):
            _read_number(&value, &policy.bytes_max)
        elif _is(&name, b"delete.retention.ms", 19):
            _read_number(&value, &policy.tombstone_ms)


# --- the log ----------------------------------------------------------------------------------------------------------
# The user needs its rights over all logs of the topic's name.
cdef bint _may(KafkaDoor* door, KafkaRequest* request, const Bytes* name, bint must_write) noexcept nogil:
    cdef uint8_t[LOGS_BYTES + TOPIC_NAME_BYTES_MAX + 1] low
    cdef uint8_t[LOGS_BYTES + TOPIC_NAME_BYTES_MAX + 1] high
    cdef Bytes start = bytes_of(low, LOGS_BYTES + name.length + 1)
    cdef Bytes end = bytes_of(high, LOGS_BYTES + name.length + 1)
    memcpy(low, LOGS, LOGS_BYTES)
    memcpy(&low[0] + LOGS_BYTES, name.data, name.length)
    low[LOGS_BYTES + name.length] = 47
    memcpy(high, low, LOGS_BYTES + name.length)
    high[LOGS_BYTES + name.length] = 48
    if request.connection != NULL and access_allows(door, request.connection,
                                                    RIGHT_READ | RIGHT_WRITE if must_write else RIGHT_READ,
                                                    &start, &end):
        return True
    request.is_denied = True
    return False


cdef int16_t topic_log_find(KafkaDoor* door, KafkaRequest* request, const Bytes* name, int32_t partition,
                            bint must_write, TopicLog* log) noexcept nogil:
    cdef const Entry* entry
    cdef TopicRecord topic
    if name.length == 0 or name.length > TOPIC_NAME_BYTES_MAX or partition < 0:
        return KAFKA_UNKNOWN_TOPIC_OR_PARTITION
    if not _may(door, request, name, must_write):
        return KAFKA_TOPIC_AUTHORIZATION_FAILED
    entry = topic_entry(door, name, &log.topic, &topic)
    if entry == NULL or <uint32_t>partition >= topic.meta.partitions:
        return KAFKA_UNKNOWN_TOPIC_OR_PARTITION
    log.topic_since = entry.create_revision
    memcpy(log.id, topic.meta.id, TOPIC_ID_BYTES)
    _make_key(log, name, topic.meta.id, <uint32_t>partition)
    _read_policy(&topic.configs, &log.policy)
    record_log_view(door.desk.pinned, &log.key, &log.view)
    return KAFKA_OK


cdef bint topic_log_is_lost(KafkaDoor* door, const Bytes* key) noexcept nogil:
    cdef const uint8_t* end = <const uint8_t*>memchr(key.data + LOGS_BYTES, 47, key.length - LOGS_BYTES)
    cdef TopicRecord topic
    cdef TopicLog log
    cdef Bytes name
    if end == NULL:
        return False                # no log of a topic
    name = bytes_of(key.data + LOGS_BYTES, <size_t>(end - key.data) - LOGS_BYTES)
    if name.length == 0 or name.length > TOPIC_NAME_BYTES_MAX:
        return False
    if not topic_find(door, &name, &topic):
        return True
    _make_key(&log, &name, topic.meta.id, 0)
    log.key.length -= 1             # without the number of the partition
    return key.length <= log.key.length or memcmp(key.data, log.key.data, log.key.length) != 0
