"""Words of the members of consumer groups: bodies."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memchr, memcmp, memset

from raftmeta.native.containers cimport Vec
from raftmeta.status cimport BAD_FIELD, COMMAND_INVALID, OK
from raftmeta.wire.groups cimport (GROUP_CONSUMER, GROUP_ID_BYTES_MAX, GROUP_KEY_BYTES_MAX, GROUP_MEMBERS_MAX,
                                   GROUP_METADATA_BYTES_MAX, GROUP_NAME_BYTES_MAX, GROUP_PROTOCOL_BYTES_MAX,
                                   GROUP_TIME_MS_MAX)
from raftmeta.wire.msgpack cimport (Reader, Writer, read_array, read_bin, read_done, read_fail, read_int, read_uint,
                                    reader_over, write_array, write_bin, write_fail, write_int, write_uint, writer_at)
from raftmeta.wire.topics cimport TOPIC_NAME_BYTES_MAX, TOPIC_ROOT_BYTES_MAX

cdef enum:
    ELEMENTS = 12
    HAS_MAX = 31
    LIST_BYTES_MAX = CONSUMER_PARTITIONS_MAX * 24   # each partition of a topic of its own


cdef inline void _read_bytes(Reader* reader, Bytes* bytes, uint32_t most) noexcept nogil:
    bytes.data = read_bin(reader, most, &bytes.length)

cdef inline bint _has_zero(const Bytes* bytes) noexcept nogil:
    return bytes.length != 0 and memchr(bytes.data, 0, bytes.length) != NULL

cdef bint _is_sound(const ConsumerRequest* request) noexcept nogil:
    if _has_zero(&request.member) or request.epoch < CONSUMER_PAUSES or request.members_max == 0:
        return False
    if request.member.length == 0 and request.epoch != CONSUMER_JOINS:
        return False
    if request.epoch == CONSUMER_PAUSES and request.instance.length == 0:
        return False
    if request.epoch == CONSUMER_JOINS and not request.has & CONSUMER_HAS_SUBSCRIPTION:
        return False
    if request.has & CONSUMER_HAS_SUBSCRIPTION and not subscription_is_sound(&request.subscription):
        return False
    return partitions_are_sound(&request.owned)

cdef status_t consumers_decode(const Bytes* key, const Bytes* data, ConsumerRequest* request) noexcept nogil:
    cdef Reader reader = reader_over(data.data, data.length)
    cdef int64_t epoch
    memset(request, 0, sizeof(ConsumerRequest))
    read_array(&reader, ELEMENTS)
    if read_uint(&reader, 0xff) != GROUP_CONSUMER or not 0 < key.length <= GROUP_KEY_BYTES_MAX or _has_zero(key):
        return COMMAND_INVALID
    _read_bytes(&reader, &request.member, GROUP_ID_BYTES_MAX)
    _read_bytes(&reader, &request.instance, GROUP_NAME_BYTES_MAX)
    _read_bytes(&reader, &request.client, GROUP_NAME_BYTES_MAX)
    _read_bytes(&reader, &request.root, TOPIC_ROOT_BYTES_MAX)
    _read_bytes(&reader, &request.subscription, GROUP_METADATA_BYTES_MAX)
    _read_bytes(&reader, &request.assignor, GROUP_PROTOCOL_BYTES_MAX)
    _read_bytes(&reader, &request.owned, LIST_BYTES_MAX)
    epoch = read_int(&reader)
    request.rebalance_ms = <uint32_t>read_uint(&reader, GROUP_TIME_MS_MAX)
    request.members_max = <uint32_t>read_uint(&reader, GROUP_MEMBERS_MAX)
    request.has = <uint8_t>read_uint(&reader, HAS_MAX)
    request.epoch = <int32_t>epoch
    if reader.status == OK and (request.epoch != epoch or not _is_sound(request)):
        read_fail(&reader, BAD_FIELD)
    return read_done(&reader)

cdef status_t consumers_encode(const ConsumerRequest* request, Vec[uint8_t]* out) noexcept nogil:
    cdef size_t start = out.size
    cdef Writer writer = writer_at(out)
    cdef ConsumerRequest decoded
    cdef Bytes written, key
    write_array(&writer, ELEMENTS)
    write_uint(&writer, GROUP_CONSUMER)
    write_bin(&writer, request.member.data, request.member.length)
    write_bin(&writer, request.instance.data, request.instance.length)
    write_bin(&writer, request.client.data, request.client.length)
    write_bin(&writer, request.root.data, request.root.length)
    write_bin(&writer, request.subscription.data, request.subscription.length)
    write_bin(&writer, request.assignor.data, request.assignor.length)
    write_bin(&writer, request.owned.data, request.owned.length)
    write_int(&writer, request.epoch)
    write_uint(&writer, request.rebalance_ms)
    write_uint(&writer, request.members_max)
    write_uint(&writer, request.has)
    if writer.status == OK:
        written.data = out.data + start
        written.length = <uint32_t>(out.size - start)
        key.data = <const uint8_t*>b"k"
        key.length = 1
        write_fail(&writer, consumers_decode(&key, &written, &decoded))
    if writer.status != OK:
        out.size = start
    return writer.status


# --- lists ------------------------------------------------------------------------------------------------------------
cdef bint partitions_next(const Bytes* list, uint32_t* place, PartitionsOf* found) noexcept nogil:
    cdef PartitionsOf head
    if list.length - place[0] < TOPIC_UUID_BYTES + 4:
        return False
    found.topic = list.data + place[0]
    head.partitions = found.topic + TOPIC_UUID_BYTES
    found.count = partition_at(&head, 0)
    found.partitions = head.partitions + 4
    place[0] += TOPIC_UUID_BYTES + 4
    if found.count > (list.length - place[0]) // 4:
        return False
    place[0] += 4 * found.count
    return True

cdef bint partitions_are_sound(const Bytes* list) noexcept nogil:
    cdef const uint8_t* before = NULL
    cdef PartitionsOf found
    cdef uint32_t place = 0
    cdef uint32_t i
    while partitions_next(list, &place, &found):
        if before != NULL and memcmp(before, found.topic, TOPIC_UUID_BYTES) >= 0 or found.count == 0:
            return False
        for i in range(1, found.count):
            if partition_at(&found, i - 1) >= partition_at(&found, i):
                return False
        before = found.topic
    return place == list.length

cdef bint subscription_next(const Bytes* subscription, uint32_t* place, Bytes* name) noexcept nogil:
    cdef const uint8_t* at
    if place[0] == 0:
        place[0] = CONSUMER_SUBSCRIPTION_BYTES
    if subscription.length < 2 or place[0] > subscription.length - 2:
        return False
    at = subscription.data + place[0]
    name.length = <uint32_t>at[0] << 8 | at[1]
    if name.length > subscription.length - place[0] - 2:
        return False
    name.data = at + 2
    place[0] += 2 + name.length
    return True

cdef bint _is_before(const Bytes* left, const Bytes* right) noexcept nogil:
    cdef int order = memcmp(left.data, right.data, min(left.length, right.length))
    return order < 0 or order == 0 and left.length < right.length

cdef bint subscription_is_sound(const Bytes* subscription) noexcept nogil:
    cdef const uint8_t* at = subscription.data
    cdef uint32_t place = 0
    cdef uint32_t count = 0
    cdef Bytes before, name
    if subscription.length < CONSUMER_SUBSCRIPTION_BYTES or at[0] != 0 or at[1] != 0:
        return False
    before.data = NULL
    before.length = 0
    while subscription_next(subscription, &place, &name):
        if name.length == 0 or name.length > TOPIC_NAME_BYTES_MAX or count > 0 and not _is_before(&before, &name):
            return False
        before = name
        count += 1
    if count == 0:
        place = CONSUMER_SUBSCRIPTION_BYTES
    return (place == subscription.length and count <= CONSUMER_TOPICS_MAX
            and (<uint32_t>at[2] << 24 | <uint32_t>at[3] << 16 | <uint32_t>at[4] << 8 | at[5]) == count)
