"""Offsets of record logs at the Kafka door: bodies. Sources: Apache Kafka 3.9 ListOffsetsRequest.java,
UnifiedLog.scala (fetchOffsetByTimestamp), KIP-320 (OffsetForLeaderEpoch).
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint64_t

from raftmeta.doors.desk.rounds cimport round_ask
from raftmeta.doors.kafka.codec cimport (KafkaReader, KafkaWriter, get_array, get_end, get_int8, get_int32, get_int64,
                                         get_tags, get_text, put_array, put_int16, put_int32, put_int64, put_tags,
                                         put_text)
from raftmeta.doors.kafka.protocol cimport KAFKA_OK, KAFKA_UNKNOWN_LEADER_EPOCH, KAFKA_UNSUPPORTED_VERSION
from raftmeta.doors.kafka.records_topic cimport TopicLog, topic_log_find
from raftmeta.doors.kafka.reply cimport put_throttle, reply_begin, reply_end, reply_fail, request_pin, request_reader
from raftmeta.machine.record_reads cimport record_log_at_time, record_log_latest
from raftmeta.wire.commands cimport Bytes

cdef enum:
    AT_END = -1                     # timestamps that mean a place (ListOffsetsRequest)
    AT_START = -2
    AT_LATEST = -3
    AT_LOCAL_START = -4
    AT_REMOTE_END = -5              # of tiered storage, which there is not: no record
    LEADER_EPOCH = 0


# --- the walk ---------------------------------------------------------------------------------------------------------
# What a request asks of one partition.
cdef struct Asked:
    int32_t partition
    int32_t epoch                   # of the leader, as the client knows it
    int64_t place                   # a timestamp, or the epoch whose end is wanted

ctypedef void (*read_one)(KafkaReader* reader, Asked* asked) noexcept nogil
# The code of the partition, whose fields were written.
ctypedef int16_t (*answer_one)(KafkaDoor* door, KafkaRequest* request, const Bytes* name, const Asked* asked,
                               KafkaWriter* writer) noexcept nogil


# All topics and partitions from the reader on.
cdef void _pass_over(KafkaReader* reader, read_one read) noexcept nogil:
    cdef int32_t topics = get_array(reader)
    cdef int32_t partitions
    cdef Asked asked
    while topics > 0 and not reader.is_bad:
        get_text(reader)
        partitions = get_array(reader)
        while partitions > 0 and not reader.is_bad:
            read(reader, &asked)
            partitions -= 1
        get_tags(reader)
        topics -= 1


# reader: at the topics of a request that was looked through.
cdef void _answer(KafkaDoor* door, KafkaRequest* request, KafkaReader reader, read_one read,
                  answer_one answer) noexcept nogil:
    cdef KafkaWriter writer
    cdef int32_t topics, partitions
    cdef int16_t error = KAFKA_OK
    cdef int16_t code
    cdef Asked asked
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
            read(&reader, &asked)
            code = answer(door, request, &name, &asked, &writer)
            error = code if code != KAFKA_OK else error
            partitions -= 1
        get_tags(&reader)
        put_tags(&writer)
        topics -= 1
    put_tags(&writer)
    reply_end(door, request, &writer, error)


# --- ListOffsets ------------------------------------------------------------------------------------------------------
# The head of the request: the topics follow.
cdef KafkaReader _lists(const KafkaRequest* request) noexcept nogil:
    cdef KafkaReader reader = request_reader(request)
    get_int32(&reader)
    if request.version >= 2:
        get_int8(&reader)
    return reader


cdef void _read_list(KafkaReader* reader, Asked* asked) noexcept nogil:
    asked.partition = get_int32(reader)
    asked.epoch = get_int32(reader) if reader.version >= 4 else -1
    asked.place = get_int64(reader)
    get_tags(reader)


# KafkaApis, isListOffsetsTimestampUnsupported.
cdef bint _is_known(int64_t timestamp, int16_t version) noexcept nogil:
    if timestamp == AT_LATEST:
        return version >= 7
    if timestamp == AT_LOCAL_START:
        return version >= 8
    if timestamp == AT_REMOTE_END:
        return version >= 9
    return timestamp >= AT_START


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


cdef int16_t _answer_list(KafkaDoor* door, KafkaRequest* request, const Bytes* name, const Asked* asked,
                          KafkaWriter* writer) noexcept nogil:
    cdef int64_t offset = -1
    cdef int64_t found = -1
    cdef TopicLog log
    cdef int16_t code = topic_log_find(door, request, name, asked.partition, False, &log)
    if code == KAFKA_OK and not _is_known(asked.place, request.version):
        code = KAFKA_UNSUPPORTED_VERSION
    if code == KAFKA_OK:
        _find(door, &log, asked.place, &offset, &found)
    put_int32(writer, asked.partition)
    put_int16(writer, code)
    put_int64(writer, found)
    put_int64(writer, offset)
    if request.version >= 4:
        put_int32(writer, LEADER_EPOCH if offset >= 0 else -1)
    put_tags(writer)
    return code


cdef void list_offsets_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef KafkaReader reader = _lists(request)
    _pass_over(&reader, _read_list)
    get_tags(&reader)
    if get_end(&reader):
        request.round = round_ask(&door.desk)
    else:
        reply_fail(door, request)


cdef void list_offsets_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    _answer(door, request, _lists(request), _read_list, _answer_list)


# --- OffsetForLeaderEpoch ---------------------------------------------------------------------------------------------
cdef KafkaReader _epochs(const KafkaRequest* request) noexcept nogil:
    cdef KafkaReader reader = request_reader(request)
    if request.version >= 3:
        get_int32(&reader)
    return reader


cdef void _read_epoch(KafkaReader* reader, Asked* asked) noexcept nogil:
    asked.partition = get_int32(reader)
    asked.epoch = get_int32(reader)
    asked.place = get_int32(reader)
    get_tags(reader)


# There is one epoch: the end of a log is its end.
cdef int16_t _answer_epoch(KafkaDoor* door, KafkaRequest* request, const Bytes* name, const Asked* asked,
                           KafkaWriter* writer) noexcept nogil:
    cdef TopicLog log
    cdef int16_t code = topic_log_find(door, request, name, asked.partition, False, &log)
    if code == KAFKA_OK and asked.epoch > LEADER_EPOCH:
        code = KAFKA_UNKNOWN_LEADER_EPOCH
    put_int16(writer, code)
    put_int32(writer, asked.partition)
    if code == KAFKA_OK and asked.place == LEADER_EPOCH:
        put_int32(writer, LEADER_EPOCH)
        put_int64(writer, <int64_t>log.view.next)
    else:
        put_int32(writer, -1)
        put_int64(writer, -1)
    put_tags(writer)
    return code


cdef void leader_epoch_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef KafkaReader reader = _epochs(request)
    _pass_over(&reader, _read_epoch)
    get_tags(&reader)
    if get_end(&reader):
        request.round = round_ask(&door.desk)
    else:
        reply_fail(door, request)


cdef void leader_epoch_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    _answer(door, request, _epochs(request), _read_epoch, _answer_epoch)
