"""The first questions of a client: bodies."""

from libc.stddef cimport size_t
from libc.stdint cimport int8_t, int16_t, int32_t, uint8_t, uint32_t, uint64_t

from raftmeta.doors.desk.rounds cimport round_ask
from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.kafka.brokers cimport broker_id, brokers_list
from raftmeta.doors.kafka.codec cimport (KafkaReader, get_array, get_bool, get_end, get_int8, get_tags, get_text,
                                         get_uuid, put_array, put_int8, put_int16, put_int32,
                                         put_null_text, put_tags, put_text, put_text_null)
from raftmeta.doors.kafka.own_leaders cimport leaders_claim
from raftmeta.doors.kafka.protocol cimport KAFKA_INVALID_GROUP_ID, KAFKA_INVALID_REQUEST, KAFKA_OK
from raftmeta.doors.kafka.reply cimport (put_throttle, reply_begin, reply_end, reply_fail, request_pin,
                                         request_reader)
from raftmeta.doors.kafka.state cimport KafkaBroker
from raftmeta.doors.kafka.topics cimport put_topics, topics_are_there
from raftmeta.wire.commands cimport Bytes

cdef enum:
    NOT_ASKED = -2147483648         # authorized operations
    CLUSTER_DIGITS = 32
    KEY_OF_GROUP = 0                # FindCoordinator: what is coordinated
    KEY_OF_TRANSACTION = 1
    ENDPOINT_BROKERS = 1            # DescribeCluster
    CLAIMS_MAX = 64                 # of one Metadata

cdef const char* HEXADECIMAL = b"0123456789abcdef"


# The cluster's id as text; `into` has CLUSTER_DIGITS bytes.
cdef Bytes _cluster(const KafkaDoor* door, uint8_t* into) noexcept nogil:
    cdef uint64_t half
    cdef int i
    for i in range(CLUSTER_DIGITS):
        half = door.desk.status.cluster_high if i < 16 else door.desk.status.cluster_low
        into[i] = <uint8_t>HEXADECIMAL[half >> (60 - 4 * (i % 16)) & 15]
    return bytes_of(into, CLUSTER_DIGITS)


cdef void _put_broker(KafkaWriter* writer, const KafkaBroker* broker) noexcept nogil:
    cdef Bytes host = bytes_of(broker.host, broker.host_length)
    put_int32(writer, broker.id)
    put_text(writer, &host)
    put_int32(writer, broker.port)


# --- Metadata ---------------------------------------------------------------------------------------------------------
# Topics by name or by id, in the order of the request. False: the request cannot be read.
cdef bint _read_metadata(const KafkaRequest* request, KafkaReader* topics, int32_t* count,
                         bint* may_make) noexcept nogil:
    cdef KafkaReader reader = request_reader(request)
    count[0] = get_array(&reader)
    topics[0] = reader
    for _ in range(count[0]):
        if request.version >= 10:
            get_uuid(&reader)
        get_text(&reader)
        get_tags(&reader)
    may_make[0] = get_bool(&reader) if request.version >= 4 else True
    if 8 <= request.version <= 10:
        get_bool(&reader)
    if request.version >= 8:
        get_bool(&reader)
    get_tags(&reader)
    # librdkafka 2.16 asks for all topics with three bytes too many, and Kafka does not look behind the fields.
    return not reader.is_bad


# A node that has just started has applied little of its log. A consumer that is told by it that a topic is gone, or has
# fewer partitions, begins a rebalance: so the leader is asked first how far the log goes.
cdef void metadata_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    request.round = round_ask(&door.desk)


# Partitions that nobody leads get a leader first, some hundred at once. A claim that another node was faster with is
# looked at again; the client asks again for what is left after many.
cdef bint _claims(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    if request.number >= CLAIMS_MAX or not leaders_claim(door, request):
        door.own.claims.clear()
        return False
    request.number += 1
    request.answer.clear()
    return True


cdef void metadata_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef uint8_t[CLUSTER_DIGITS] digits
    cdef KafkaWriter writer
    cdef KafkaReader topics
    cdef Bytes cluster
    cdef int32_t count
    cdef bint may_make = False
    cdef size_t k
    if request.tasks != 0 or not request_pin(door, request):
        return
    if not _read_metadata(request, &topics, &count, &may_make) or not brokers_list(door):
        reply_fail(door, request)
        return
    if not topics_are_there(door, request, &topics, count, may_make):
        return
    writer = reply_begin(door, request)
    put_throttle(&writer, 3)
    put_array(&writer, <uint32_t>door.brokers.size)
    for k in range(door.brokers.size):
        _put_broker(&writer, &door.brokers.data[k])
        if request.version >= 1:
            put_null_text(&writer)
        put_tags(&writer)
    if request.version >= 2:
        cluster = _cluster(door, digits)
        put_text_null(&writer, &cluster)
    if request.version >= 1:
        put_int32(&writer, door.self.id)        # any node carries out what a controller is asked
    put_topics(door, request, &writer, &topics, count)
    if door.own != NULL and _claims(door, request):
        return
    if 8 <= request.version <= 10:
        put_int32(&writer, NOT_ASKED)
    if request.version >= 13:
        put_int16(&writer, KAFKA_OK)
    put_tags(&writer)
    reply_end(door, request, &writer, request.code)


# --- FindCoordinator --------------------------------------------------------------------------------------------------
cdef int16_t _code_of(const Bytes* key, int8_t type) noexcept nogil:
    if type != KEY_OF_GROUP and type != KEY_OF_TRANSACTION:
        return KAFKA_INVALID_REQUEST
    return KAFKA_INVALID_GROUP_ID if type == KEY_OF_GROUP and key.length == 0 else <int16_t>KAFKA_OK


cdef void _put_self(KafkaDoor* door, KafkaWriter* writer, int16_t code) noexcept nogil:
    cdef KafkaBroker nobody
    nobody.id = -1
    nobody.port = -1
    nobody.host_length = 0
    _put_broker(writer, &door.self if code == KAFKA_OK else &nobody)


# Many keys since version 4.
cdef void _find_many(KafkaDoor* door, KafkaRequest* request, KafkaReader* keys, int32_t count,
                     int8_t type) noexcept nogil:
    cdef KafkaWriter writer = reply_begin(door, request)
    cdef Bytes key
    cdef int16_t code
    put_throttle(&writer, 1)
    put_array(&writer, <uint32_t>max(count, 0))
    for _ in range(count):
        key = get_text(keys)
        code = _code_of(&key, type)
        put_text(&writer, &key)
        _put_self(door, &writer, code)
        put_int16(&writer, code)
        put_null_text(&writer)
        put_tags(&writer)
    put_tags(&writer)
    reply_end(door, request, &writer, KAFKA_OK)


cdef void _find_one(KafkaDoor* door, KafkaRequest* request, const Bytes* key, int8_t type) noexcept nogil:
    cdef KafkaWriter writer = reply_begin(door, request)
    cdef int16_t code = _code_of(key, type)
    put_throttle(&writer, 1)
    put_int16(&writer, code)
    if request.version >= 1:
        put_null_text(&writer)
    _put_self(door, &writer, code)
    put_tags(&writer)
    reply_end(door, request, &writer, code)


cdef void coordinator_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef KafkaReader reader = request_reader(request)
    cdef KafkaReader keys
    cdef Bytes key
    cdef int8_t type = KEY_OF_GROUP
    cdef int32_t count = 0
    if request.version < 4:
        key = get_text(&reader)
    if request.version >= 1:
        type = get_int8(&reader)
    if request.version >= 4:
        count = get_array(&reader)
        keys = reader
        for _ in range(count):
            get_text(&reader)
    get_tags(&reader)
    if not get_end(&reader):
        reply_fail(door, request)
        return
    door.self.id = broker_id(door.desk.status.id)
    if request.version >= 4:
        _find_many(door, request, &keys, count, type)
    else:
        _find_one(door, request, &key, type)


# --- DescribeCluster --------------------------------------------------------------------------------------------------
cdef bint _read_describe(const KafkaRequest* request) noexcept nogil:
    cdef KafkaReader reader = request_reader(request)
    get_bool(&reader)
    if request.version >= 1:
        get_int8(&reader)
    get_tags(&reader)
    return get_end(&reader)


cdef void describe_cluster_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    describe_cluster_go(door, request)


cdef void describe_cluster_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef uint8_t[CLUSTER_DIGITS] digits
    cdef KafkaWriter writer
    cdef Bytes cluster
    cdef size_t k
    if not request_pin(door, request):
        return
    if not _read_describe(request) or not brokers_list(door):
        reply_fail(door, request)
        return
    cluster = _cluster(door, digits)
    writer = reply_begin(door, request)
    put_throttle(&writer, 0)
    put_int16(&writer, KAFKA_OK)
    put_null_text(&writer)
    if request.version >= 1:
        put_int8(&writer, ENDPOINT_BROKERS)
    put_text(&writer, &cluster)
    put_int32(&writer, door.self.id)
    put_array(&writer, <uint32_t>door.brokers.size)
    for k in range(door.brokers.size):
        _put_broker(&writer, &door.brokers.data[k])
        put_null_text(&writer)
        put_tags(&writer)
    put_int32(&writer, NOT_ASKED)
    put_tags(&writer)
    reply_end(door, request, &writer, KAFKA_OK)
