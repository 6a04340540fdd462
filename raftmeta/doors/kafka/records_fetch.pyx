"""Fetch at the Kafka door: bodies. Sources: Apache Kafka 3.9 KafkaApis.scala (handleFetchRequest), DelayedFetch.scala,
FetchManager in FetchSession.scala.

A fetch that asks for many bytes at least is answered as soon as there is one batch.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.doors.desk.rounds cimport round_ask
from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.kafka.audit cimport audit_names_log
from raftmeta.doors.kafka.codec cimport (KafkaReader, KafkaWriter, get_array, get_end, get_int8, get_int32, get_int64,
                                         get_tags, get_text, get_uuid, put_array, put_bytes, put_int16, put_int32,
                                         put_int64, put_null_array, put_tags, put_text, put_uuid)
from raftmeta.doors.kafka.protocol cimport (KAFKA_FETCH_SESSION_ID_NOT_FOUND, KAFKA_OFFSET_OUT_OF_RANGE, KAFKA_OK,
                                            KAFKA_UNKNOWN_SERVER_ERROR, KAFKA_UNKNOWN_TOPIC_ID)
from raftmeta.doors.kafka.records_topic cimport TopicLog, topic_log_find
from raftmeta.doors.kafka.reply cimport put_throttle, reply_begin, reply_end, reply_fail, request_pin, request_reader
from raftmeta.doors.kafka.topic_state cimport topic_find_id
from raftmeta.machine.record_reads cimport record_log_fetch
from raftmeta.machine.topic_records cimport TopicRecord
from raftmeta.status cimport OK
from raftmeta.wire.commands cimport Bytes

cdef enum:
    VERSION_OF_IDS = 13             # topics are told by their ids
    TUNE_FETCH_BYTES = 1 << 20      # of one answer: what is left is asked for by the next request
    NS_PER_MS = 1_000_000


cdef void fetch_walk(const KafkaRequest* request, FetchWalk* walk) noexcept nogil:
    memset(walk, 0, sizeof(FetchWalk))
    walk.reader = request_reader(request)
    if request.version < 15:
        get_int32(&walk.reader)
    walk.wait_ms = get_int32(&walk.reader)
    get_int32(&walk.reader)
    walk.bytes_max = get_int32(&walk.reader)
    get_int8(&walk.reader)
    if request.version >= 7:
        walk.session = get_int32(&walk.reader)
        get_int32(&walk.reader)
    walk.topics = get_array(&walk.reader)


cdef bint fetch_next_topic(FetchWalk* walk) noexcept nogil:
    if walk.topics <= 0 or walk.reader.is_bad:
        return False
    walk.topics -= 1
    if walk.reader.version >= VERSION_OF_IDS:
        walk.id = get_uuid(&walk.reader)
        walk.name = bytes_of(NULL, 0)
    else:
        walk.name = get_text(&walk.reader)
    walk.partitions = get_array(&walk.reader)
    return True


cdef bint fetch_next_partition(FetchWalk* walk) noexcept nogil:
    cdef KafkaReader* reader = &walk.reader
    if walk.partitions <= 0 or reader.is_bad:
        get_tags(reader)
        return False
    walk.partitions -= 1
    walk.partition = get_int32(reader)
    walk.epoch = get_int32(reader) if reader.version >= 9 else -1
    walk.offset = get_int64(reader)
    if reader.version >= 12:
        get_int32(reader)
    if reader.version >= 5:
        get_int64(reader)
    walk.partition_bytes_max = get_int32(reader)
    get_tags(reader)
    return True


cdef bint fetch_is_whole(const KafkaRequest* request) noexcept nogil:
    cdef FetchWalk walk
    cdef KafkaReader* reader = &walk.reader
    cdef int32_t count
    fetch_walk(request, &walk)
    while fetch_next_topic(&walk):
        while fetch_next_partition(&walk):
            pass
    if request.version >= 7:
        count = get_array(reader)
        while count > 0 and not reader.is_bad:
            if request.version >= VERSION_OF_IDS:
                get_uuid(reader)
            else:
                get_text(reader)
            for _ in range(get_array(reader)):
                get_int32(reader)
            get_tags(reader)
            count -= 1
    if request.version >= 11:
        get_text(reader)
    get_tags(reader)
    return get_end(reader)


# --- may it be answered? ----------------------------------------------------------------------------------------------
cdef enum Look:
    LOOK_EMPTY = 0                  # there is nothing new
    LOOK_READY = 1                  # records, or an error
    LOOK_AHEAD = 2                  # an offset, or a topic, that this node has not reached


cdef bint fetch_next_named(KafkaDoor* door, FetchWalk* walk) noexcept nogil:
    cdef TopicRecord topic
    if not fetch_next_topic(walk):
        return False
    if walk.id != NULL and not topic_find_id(door, walk.id, &walk.name, &topic):
        walk.name = bytes_of(NULL, 0)
    return True


cdef bint fetch_is_unknown_id(const FetchWalk* walk) noexcept nogil:
    return walk.id != NULL and walk.name.length == 0


cdef Look _look_at(KafkaDoor* door, KafkaRequest* request, const FetchWalk* walk) noexcept nogil:
    cdef TopicLog log
    if fetch_is_unknown_id(walk):
        return LOOK_AHEAD
    if topic_log_find(door, request, &walk.name, walk.partition, False, &log) != KAFKA_OK or walk.offset < 0:
        return LOOK_READY
    if <uint64_t>walk.offset > log.view.next:
        return LOOK_AHEAD
    return LOOK_READY if <uint64_t>walk.offset != log.view.next else LOOK_EMPTY


cdef Look _look(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef Look found = LOOK_EMPTY
    cdef FetchWalk walk
    fetch_walk(request, &walk)
    while fetch_next_named(door, &walk):
        while fetch_next_partition(&walk):
            found = max(found, _look_at(door, request, &walk))
    return found


# --- the answer -------------------------------------------------------------------------------------------------------
# Records go into door.request. Those that a user may not read are not there.
cdef int16_t _take(KafkaDoor* door, KafkaRequest* request, const FetchWalk* walk, uint32_t _part, uint64_t left,
                   bint must_have_one, TopicLog* log) noexcept nogil:
    cdef uint64_t most = min(<uint64_t>max(walk.partition_bytes_max, 0), left)
    cdef int16_t code = KAFKA_UNKNOWN_TOPIC_ID
    if not fetch_is_unknown_id(walk):
        code = topic_log_find(door, request, &walk.name, walk.partition, False, log)
    door.request.clear()
    if code != KAFKA_OK:
        log.view.next = log.view.start = <uint64_t>-1
        return code
    if walk.offset < 0 or not log.view.start <= <uint64_t>walk.offset <= log.view.next:
        return KAFKA_OFFSET_OUT_OF_RANGE
    if record_log_fetch(door.desk.pinned, &log.key, <uint64_t>walk.offset, <uint32_t>most, must_have_one,
                        &door.request) != OK:
        return KAFKA_UNKNOWN_SERVER_ERROR
    return KAFKA_OK


cdef void _put_partition(KafkaDoor* door, KafkaWriter* writer, int32_t partition, int16_t code,
                         const TopicLog* log) noexcept nogil:
    cdef Bytes records = bytes_of(door.request.data, door.request.size)
    put_int32(writer, partition)
    put_int16(writer, code)
    put_int64(writer, <int64_t>log.view.next)
    put_int64(writer, <int64_t>log.view.next)       # there are no transactions
    if writer.version >= 5:
        put_int64(writer, <int64_t>log.view.start)
    put_null_array(writer)
    if writer.version >= 11:
        put_int32(writer, -1)
    put_bytes(writer, &records)
    put_tags(writer)


cdef void fetch_answer(KafkaDoor* door, KafkaRequest* request, fetch_take take) noexcept nogil:
    cdef KafkaWriter writer = reply_begin(door, request)
    cdef uint64_t left
    cdef uint32_t part = 0
    cdef bint is_first = True
    cdef int16_t error = KAFKA_OK
    cdef int16_t code
    cdef FetchWalk walk
    cdef TopicLog log
    fetch_walk(request, &walk)
    left = <uint64_t>min(max(walk.bytes_max, 0), <int32_t>TUNE_FETCH_BYTES)
    put_throttle(&writer, 1)
    if request.version >= 7:
        put_int16(&writer, KAFKA_OK)
        put_int32(&writer, 0)
    put_array(&writer, <uint32_t>max(walk.topics, 0))
    while fetch_next_named(door, &walk):
        if walk.id != NULL:
            put_uuid(&writer, walk.id)
        else:
            put_text(&writer, &walk.name)
        if walk.name.length:
            audit_names_log(door, request, &walk.name)
        put_array(&writer, <uint32_t>max(walk.partitions, 0))
        while fetch_next_partition(&walk):
            code = take(door, request, &walk, part, left, is_first, &log)
            part += 1
            _put_partition(door, &writer, walk.partition, code, &log)
            left -= min(left, <uint64_t>door.request.size)
            is_first = is_first and door.request.size == 0
            error = code if code != KAFKA_OK else error
        put_tags(&writer)
    put_tags(&writer)
    reply_end(door, request, &writer, error)


cdef void fetch_refuse_session(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef KafkaWriter writer = reply_begin(door, request)
    put_throttle(&writer, 1)
    put_int16(&writer, KAFKA_FETCH_SESSION_ID_NOT_FOUND)
    put_int32(&writer, 0)
    put_array(&writer, 0)
    put_tags(&writer)
    reply_end(door, request, &writer, KAFKA_FETCH_SESSION_ID_NOT_FOUND)


# --- a request --------------------------------------------------------------------------------------------------------
cdef void records_fetch_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef FetchWalk walk
    if not fetch_is_whole(request):
        reply_fail(door, request)
        return
    fetch_walk(request, &walk)
    if walk.session != 0:
        fetch_refuse_session(door, request)
        return
    request.deadline_ns = request.begun_ns + <uint64_t>max(walk.wait_ms, 0) * NS_PER_MS
    records_fetch_go(door, request)


cdef void records_fetch_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef Look found
    if not request_pin(door, request):
        return
    found = _look(door, request)
    if found == LOOK_AHEAD and request.round == 0:
        request.round = round_ask(&door.desk)
        return
    if found == LOOK_EMPTY and door.desk.base.now_ns < request.deadline_ns:
        door.counters.waiting += 1
        return
    fetch_answer(door, request, _take)
