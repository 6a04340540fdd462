# The record logs of topics, as the pinned state shows them (docs/kafka-records.md). It decides nothing.
from libc.stdint cimport int16_t, int32_t, uint8_t, uint64_t

from raftmeta.doors.kafka.state cimport KafkaDoor, KafkaRequest
from raftmeta.machine.record_reads cimport RecordLogView
from raftmeta.machine.topic_records cimport OffsetKey
from raftmeta.wire.commands cimport KEY_BYTES_MAX, Bytes
from raftmeta.wire.records cimport RecordsRequest
from raftmeta.wire.topics cimport TOPIC_ID_BYTES

# The log of one partition.
cdef struct TopicLog:
    uint8_t[KEY_BYTES_MAX] room
    Bytes key                       # a window into room: a TopicLog does not move
    OffsetKey topic                 # the key of the topic
    uint64_t topic_since            # its create revision: a fence
    uint8_t[TOPIC_ID_BYTES] id      # of the topic
    RecordsRequest policy           # an append without its batch, as the topic's configs say
    RecordLogView view

# KAFKA_OK; KAFKA_UNKNOWN_TOPIC_OR_PARTITION; KAFKA_TOPIC_AUTHORIZATION_FAILED, which is noted for the audit trail.
# The root is pinned. must_write: the user is going to change the log.
cdef int16_t topic_log_find(KafkaDoor* door, KafkaRequest* request, const Bytes* name, int32_t partition,
                            bint must_write, TopicLog* log) noexcept nogil
# Whether the topic of this log is not there, or has another id by now.
cdef bint topic_log_is_lost(KafkaDoor* door, const Bytes* key) noexcept nogil
# The first bytes of all record logs, and the first key behind them.
cdef Bytes topic_logs_start() noexcept nogil
cdef Bytes topic_logs_end() noexcept nogil
