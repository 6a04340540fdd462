"""ListOffsets of topics whose records the host keeps: bodies. Source: Apache Kafka 3.9 ListOffsetsRequest.java."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint32_t
from libc.string cimport memset

from raftmeta.doors.kafka.codec cimport (KafkaReader, KafkaWriter, get_array, get_end, get_int8, get_int32, get_int64,
                                         get_tags, get_text, put_array, put_int16, put_int32, put_int64, put_tags,
                                         put_text)
from raftmeta.doors.kafka.own_asks cimport (OwnSlot, own_add_slot, own_ask, own_code, own_is_settled, own_slot)
from raftmeta.doors.kafka.own_leaders cimport OwnLeader, leader_check
from raftmeta.doors.kafka.own_state cimport OWN_LIST
from raftmeta.doors.kafka.protocol cimport KAFKA_OK, KAFKA_UNKNOWN_SERVER_ERROR
from raftmeta.doors.kafka.records_topic cimport TopicLog
from raftmeta.doors.kafka.reply cimport put_throttle, reply_begin, reply_end, reply_fail, request_pin, request_reader
from raftmeta.wire.commands cimport Bytes

cdef enum:
    STEP_NEW = 0
    STEP_ASKED = 1

# A walk over the partitions of a request.
cdef struct ListWalk:
    KafkaReader reader
    int32_t topics
    int32_t partitions
    Bytes name
    int32_t partition
    int32_t epoch
    int64_t timestamp


cdef void _walk(const KafkaRequest* request, ListWalk* walk) noexcept nogil:
    memset(walk, 0, sizeof(ListWalk))
    walk.reader = request_reader(request)
    get_int32(&walk.reader)
    if request.version >= 2:
        get_int8(&walk.reader)
    walk.topics = get_array(&walk.reader)


cdef bint _next_topic(ListWalk* walk) noexcept nogil:
    if walk.topics <= 0 or walk.reader.is_bad:
        return False
    walk.topics -= 1
    walk.name = get_text(&walk.reader)
    walk.partitions = get_array(&walk.reader)
    return True


cdef bint _next_partition(ListWalk* walk) noexcept nogil:
    if walk.partitions <= 0 or walk.reader.is_bad:
        get_tags(&walk.reader)
        return False
    walk.partitions -= 1
    walk.partition = get_int32(&walk.reader)
    walk.epoch = get_int32(&walk.reader) if walk.reader.version >= 4 else -1
    walk.timestamp = get_int64(&walk.reader)
    get_tags(&walk.reader)
    return True


cdef void own_list_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef ListWalk walk
    _walk(request, &walk)
    while _next_topic(&walk):
        while _next_partition(&walk):
            if not own_add_slot(request):
                walk.reader.is_bad = True
    get_tags(&walk.reader)
    if not get_end(&walk.reader):
        reply_fail(door, request)
        return
    request.deadline_ns = request.begun_ns + door.own.timeout_ns
    own_list_go(door, request)


cdef int16_t _ask(KafkaDoor* door, KafkaRequest* request, OwnSlot* slot, const ListWalk* walk) noexcept nogil:
    cdef OwnLeader leader
    cdef TopicLog log
    cdef int16_t code = leader_check(door, request, &walk.name, walk.partition, walk.epoch, False, &log, &leader)
    if code != KAFKA_OK:
        return code
    slot.epoch = leader.epoch
    slot.ask = own_ask(door, request, OWN_LIST, &walk.name, walk.partition, leader.epoch, walk.timestamp, 0, NULL)
    return KAFKA_OK if slot.ask != NULL else <int16_t>KAFKA_UNKNOWN_SERVER_ERROR


cdef void _ask_host(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef ListWalk walk
    cdef uint32_t part = 0
    _walk(request, &walk)
    while _next_topic(&walk):
        while _next_partition(&walk):
            own_slot(request, part).code = _ask(door, request, own_slot(request, part), &walk)
            part += 1


cdef void _put(KafkaWriter* writer, int32_t partition, const OwnSlot* slot) noexcept nogil:
    cdef int16_t code = own_code(slot)
    cdef bint is_found = code == KAFKA_OK and slot.ask != NULL and slot.ask.offset >= 0
    put_int32(writer, partition)
    put_int16(writer, code)
    put_int64(writer, slot.ask.timestamp if is_found else -1)
    put_int64(writer, slot.ask.offset if is_found else -1)
    if writer.version >= 4:
        put_int32(writer, slot.epoch if is_found else -1)
    put_tags(writer)


cdef void own_list_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef int16_t error = KAFKA_OK
    cdef KafkaWriter writer
    cdef uint32_t part = 0
    cdef ListWalk walk
    if request.step == STEP_NEW:
        if not request_pin(door, request):
            return
        _ask_host(door, request)
        request.step = STEP_ASKED
    if not own_is_settled(door, request, request.deadline_ns):
        door.counters.waiting += 1
        return
    writer = reply_begin(door, request)
    _walk(request, &walk)
    put_throttle(&writer, 2)
    put_array(&writer, <uint32_t>max(walk.topics, 0))
    while _next_topic(&walk):
        put_text(&writer, &walk.name)
        put_array(&writer, <uint32_t>max(walk.partitions, 0))
        while _next_partition(&walk):
            error = own_code(own_slot(request, part)) if error == KAFKA_OK else error
            _put(&writer, walk.partition, own_slot(request, part))
            part += 1
        put_tags(&writer)
    put_tags(&writer)
    reply_end(door, request, &writer, error)
