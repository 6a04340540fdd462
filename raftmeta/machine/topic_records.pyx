"""The values of topics and offsets: bodies."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from raftmeta.wire.topics cimport (OFFSET_METADATA_BYTES_MAX, OFFSET_RETENTION_MS_MAX, TOPIC_NAME_BYTES_MAX,
                                   TOPIC_PARTITIONS_MAX, topics_are_configs)

cdef enum:
    HEAD_BYTES = 2              # behind the key of the group: 1, 0
    PARTITION_BYTES = 5         # behind the name: 0, and the number


# Windows one behind the other; False: there are not so many bytes.
cdef inline bint _take(const Bytes* value, uint32_t* place, uint32_t length, Bytes* window) noexcept nogil:
    if length > value.length - place[0]:
        return False
    window.data = value.data + place[0]
    window.length = length
    place[0] += length
    return True

cdef bint topic_read(const Bytes* value, TopicRecord* topic) noexcept nogil:
    cdef uint32_t place = sizeof(TopicMeta)
    if value.length < sizeof(TopicMeta):
        return False
    memcpy(&topic.meta, value.data, sizeof(TopicMeta))
    return _take(value, &place, topic.meta.configs_length, &topic.configs) and place == value.length

cdef bint offset_read(const Bytes* value, OffsetRecord* offset) noexcept nogil:
    cdef uint32_t place = sizeof(OffsetMeta)
    if value.length < sizeof(OffsetMeta):
        return False
    memcpy(&offset.meta, value.data, sizeof(OffsetMeta))
    return (_take(value, &place, offset.meta.name_length, &offset.name)
            and _take(value, &place, offset.meta.metadata_length, &offset.metadata) and place == value.length)

cdef bint offsets_read(const Bytes* value, OffsetsMeta* head) noexcept nogil:
    if value.length != sizeof(OffsetsMeta):
        return False
    memcpy(head, value.data, sizeof(OffsetsMeta))
    return True

cdef uint32_t topic_length(const TopicRecord* topic) noexcept nogil:
    return <uint32_t>sizeof(TopicMeta) + topic.configs.length

cdef uint32_t offset_length(const OffsetRecord* offset) noexcept nogil:
    return <uint32_t>sizeof(OffsetMeta) + offset.name.length + offset.metadata.length

cdef inline uint8_t* _put(uint8_t* at, const Bytes* window) noexcept nogil:
    if window.length:
        memcpy(at, window.data, window.length)
    return at + window.length

cdef void topic_write(const TopicRecord* topic, uint8_t* at) noexcept nogil:
    cdef TopicMeta meta = topic.meta
    meta.configs_length = topic.configs.length
    memcpy(at, &meta, sizeof(TopicMeta))
    _put(at + sizeof(TopicMeta), &topic.configs)

cdef void offset_write(const OffsetRecord* offset, uint8_t* at) noexcept nogil:
    cdef OffsetMeta meta = offset.meta
    meta.name_length = <uint16_t>offset.name.length
    meta.metadata_length = <uint16_t>offset.metadata.length
    memcpy(at, &meta, sizeof(OffsetMeta))
    _put(_put(at + sizeof(OffsetMeta), &offset.name), &offset.metadata)


# --- what a dump brings -----------------------------------------------------------------------------------------------
cdef inline Bytes _window(const uint8_t* value, uint32_t length) noexcept nogil:
    cdef Bytes window
    window.data = value
    window.length = length
    return window

cdef bint topic_is_sound(const uint8_t* value, uint32_t length, uint64_t lease) noexcept nogil:
    cdef Bytes window = _window(value, length)
    cdef TopicRecord topic
    return (lease == 0 and topic_read(&window, &topic) and 0 < topic.meta.partitions <= TOPIC_PARTITIONS_MAX
            and topics_are_configs(&topic.configs))

cdef bint offset_is_sound(const uint8_t* value, uint32_t length, uint64_t lease) noexcept nogil:
    cdef Bytes window = _window(value, length)
    cdef OffsetRecord offset
    return (lease == 0 and offset_read(&window, &offset) and 0 < offset.name.length <= TOPIC_NAME_BYTES_MAX
            and offset.metadata.length <= OFFSET_METADATA_BYTES_MAX and offset.meta.epoch >= -1)

# A timer runs exactly while the head has a lease.
cdef bint offsets_is_sound(const uint8_t* value, uint32_t length, uint64_t lease) noexcept nogil:
    cdef Bytes window = _window(value, length)
    cdef OffsetsMeta head
    if not offsets_read(&window, &head) or head.zero or head.retention_ms > OFFSET_RETENTION_MS_MAX:
        return False
    return (head.timer_revision != 0) == (lease != 0) and (lease == 0 or head.retention_ms != 0)


# --- keys -------------------------------------------------------------------------------------------------------------
cdef bint topic_key(const Bytes* root, const Bytes* name, OffsetKey* key) noexcept nogil:
    if root.length + name.length > KEY_BYTES_MAX:
        return False
    _put(_put(&key.room[0], root), name)
    key.bytes.data = &key.room[0]
    key.bytes.length = root.length + name.length
    return True

cdef bint offsets_key(const Bytes* group, OffsetKey* key) noexcept nogil:
    cdef uint8_t* at
    if group.length + HEAD_BYTES > KEY_BYTES_MAX:
        return False
    at = _put(&key.room[0], group)
    at[0] = 1
    at[1] = 0
    key.bytes.data = &key.room[0]
    key.bytes.length = group.length + HEAD_BYTES
    return True

cdef bint offset_key(const Bytes* group, const Bytes* name, uint32_t partition, OffsetKey* key) noexcept nogil:
    cdef uint8_t* at
    if group.length + HEAD_BYTES + name.length + PARTITION_BYTES > KEY_BYTES_MAX or not offsets_key(group, key):
        return False
    at = _put(&key.room[0] + key.bytes.length, name)
    at[0] = 0
    at[1] = <uint8_t>(partition >> 24)
    at[2] = <uint8_t>(partition >> 16)
    at[3] = <uint8_t>(partition >> 8)
    at[4] = <uint8_t>partition
    key.bytes.length += name.length + PARTITION_BYTES
    return True

cdef bint group_of_offsets(const Bytes* key, Bytes* group) noexcept nogil:
    if key.length <= HEAD_BYTES or key.data[key.length - 2] != 1 or key.data[key.length - 1] != 0:
        return False
    group.data = key.data
    group.length = key.length - HEAD_BYTES
    return True
