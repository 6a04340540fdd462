"""Offsets of record logs at the Kafka door: bodies. Sources: Apache Kafka 3.9 ListOffsetsRequest.java,
UnifiedLog.scala (fetchOffsetByTimestamp), KIP-320 (OffsetForLeaderEpoch).
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint64_t

from raftmeta.doors.desk.rounds cimport round_ask
from raftmeta.doors.kafka.codec cimport (KafkaReader, KafkaWriter, get_array, get_end, get_int8, get_int32, get_int64,
                                         get_tags, get_text, put_array, put_int16, put_int32, put_int64, put_tags,
                                         put_text)
from raftmeta.doors.kafka.protocol cimport KAFKA_OK, KAFKA_UNKNOWN_LEADER_EPOCH
from raftmeta.doors.kafka.records_topic cimport TopicLog, topic_log_find
from raftmeta.doors.kafka.reply cimport put_throttle, reply_begin, reply_end, reply_fail, request_pin, request_reader
from raftmeta.machine.record_reads cimport record_log_at_time, record_log_latest
from raftmeta.wire.commands cimport Bytes

cdef enum:
    AT_END = -1                     # timestamps that mean a place (ListOffsetsRequest)
    AT_START = -2
    AT_LATEST = -3
    AT_LOCAL_START = -4
    LEADER_EPOCH = 0


# --- ListOffsets ------------------------------------------------------------------------------------------------------
# The head of the request: the topics follow.
cdef KafkaReader _topics(const KafkaRequest* request) noexcept nogil:
    cdef KafkaReader reader = request_reader(request)
    get_int32(&reader)
    if request.version >= 2:
        get_int8(&reader)
    return reader


cdef bint _is_whole(const KafkaRequest* request) noexcept nogil:
    cdef KafkaReader reader = _topics(request)
    cdef int32_t topics = get_array(&reader)
    cdef int32_t partitions
    while topics > 0 and not reader.is_bad:
        get_text(&reader)
        partitions = get_array(&reader)
        while partitions > 0 and not reader.is_bad:
            get_int32(&reader)
            if request.version >= 4:
                get_int32(&reader)
            get_int64(&reader)
            get_tags(&reader)
            partitions -= 1
        get_tags(&reader)
        topics -= 1
    if request.version >= 10:
        get_int32(&reader)
    get_tags(&reader)
    return get_end(&reader)


# -1 and -1 where there is no such record.
cdef void _find(KafkaDoor* door, const TopicLog* log, int64_t timestamp, int64_t* offset,
                int64_t* found) noexcept nogil:
    cdef uint64_t place = 0
    cdef int64_t stamp = -1
    cdef bint is_found = True
    if timestamp == AT_END:
        place = log.view.next
    elif timestamp == AT_START or timestamp == AT_LOCAL_START:
        place = log.view.start
    elif timestamp == AT_LATEST:
        is_found = record_log_latest(door.desk.pinned, &log.key, &place, &stamp)
    else:
        is_found = timestamp >= 0 and record_log_at_time(door.desk.pinned, &log.key, timestamp, &place, &stamp)
    offset[0] = <int64_t>place if is_found else -1
    found[0] = stamp if is_found else -1


cdef int16_t _list_one(KafkaDoor* door, KafkaRequest* request, KafkaReader* reader, KafkaWriter* writer,
                       const Bytes* name) noexcept nogil:
    cdef int32_t partition = get_int32(reader)
    cdef int64_t offset = -1
    cdef int64_t found = -1
    cdef int64_t timestamp
    cdef TopicLog log
    cdef int16_t code
    if request.version >= 4:
        get_int32(reader)
    timestamp = get_int64(reader)
    get_tags(reader)
    code = topic_log_find(door, request, name, partition, False, &log)
    if code == KAFKA_OK:
        _find(door, &log, timestamp, &offset, &found)
    put_int32(writer, partition)
    put_int16(writer, code)
    put_int64(writer, found)
    put_int64(writer, offset)
    if request.version >= 4:
        put_int32(writer, LEADER_EPOCH if offset >= 0 else -1)
    put_tags(writer)
    return code


cdef void list_offsets_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    if not _is_whole(request):
        reply_fail(door, request)
        return
    request.round = round_ask(&door.desk)


cdef void list_offsets_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef KafkaReader reader = _topics(request)
    cdef KafkaWriter writer
    cdef int32_t topics, partitions
    cdef int16_t error = KAFKA_OK
    cdef int16_t code
    cdef Bytes name
    if not request_pin(door, request):
        return
    writer = reply_begin(door, request)
    topics = max(get_array(&reader), 0)
    put_throttle(&writer, 2)
    put_array(&writer, topics)
    while topics > 0:
        name = get_text(&reader)
        partitions = max(get_array(&reader), 0)
        put_text(&writer, &name)
        put_array(&writer, partitions)
        while partitions > 0:
            code = _list_one(door, request, &reader, &writer, &name)
            error = code if code != KAFKA_OK else error
            partitions -= 1
        get_tags(&reader)
        put_tags(&writer)
        topics -= 1
    put_tags(&writer)
    reply_end(door, request, &writer, error)


# --- OffsetForLeaderEpoch ---------------------------------------------------------------------------------------------
cdef KafkaReader _epochs(const KafkaRequest* request) noexcept nogil:
    cdef KafkaReader reader = request_reader(request)
    if request.version >= 3:
        get_int32(&reader)
    return reader


cdef void leader_epoch_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef KafkaReader reader = _epochs(request)
    cdef int32_t topics = get_array(&reader)
    cdef int32_t partitions
    while topics > 0 and not reader.is_bad:
        get_text(&reader)
        partitions = get_array(&reader)
        while partitions > 0 and not reader.is_bad:
            get_int32(&reader)
            get_int32(&reader)
            get_int32(&reader)
            get_tags(&reader)
            partitions -= 1
        get_tags(&reader)
        topics -= 1
    get_tags(&reader)
    if not get_end(&reader):
        reply_fail(door, request)
        return
    request.round = round_ask(&door.desk)


# There is one epoch: the end of a log is its end.
cdef int16_t _end_one(KafkaDoor* door, KafkaRequest* request, KafkaReader* reader, KafkaWriter* writer,
                      const Bytes* name) noexcept nogil:
    cdef int32_t partition = get_int32(reader)
    cdef int32_t current = get_int32(reader)
    cdef int32_t epoch = get_int32(reader)
    cdef TopicLog log
    cdef int16_t code
    get_tags(reader)
    code = topic_log_find(door, request, name, partition, False, &log)
    if code == KAFKA_OK and current > LEADER_EPOCH:
        code = KAFKA_UNKNOWN_LEADER_EPOCH
    put_int16(writer, code)
    put_int32(writer, partition)
    if code == KAFKA_OK and epoch == LEADER_EPOCH:
        put_int32(writer, LEADER_EPOCH)
        put_int64(writer, <int64_t>log.view.next)
    else:
        put_int32(writer, -1)
        put_int64(writer, -1)
    put_tags(writer)
    return code


cdef void leader_epoch_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef KafkaReader reader = _epochs(request)
    cdef KafkaWriter writer
    cdef int32_t topics, partitions
    cdef int16_t error = KAFKA_OK
    cdef int16_t code
    cdef Bytes name
    if not request_pin(door, request):
        return
    writer = reply_begin(door, request)
    topics = max(get_array(&reader), 0)
    put_throttle(&writer, 2)
    put_array(&writer, topics)
    while topics > 0:
        name = get_text(&reader)
        partitions = max(get_array(&reader), 0)
        put_text(&writer, &name)
        put_array(&writer, partitions)
        while partitions > 0:
            code = _end_one(door, request, &reader, &writer, &name)
            error = code if code != KAFKA_OK else error
            partitions -= 1
        get_tags(&reader)
        put_tags(&writer)
        topics -= 1
    put_tags(&writer)
    reply_end(door, request, &writer, error)
