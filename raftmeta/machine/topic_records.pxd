# The values of topics, and of the offsets of a group (docs/formats.md "Topics and offsets").
#
# This module knows how they are laid out as bytes, and how their keys are named. It decides nothing about them:
# machine/topics, machine/offsets and machine/group_offsets do.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from raftmeta.wire.windows cimport KEY_BYTES_MAX, Bytes

# FORMAT_: the value of a topic begins with this. Its configs follow, as wire/topics has them.
cdef packed struct TopicMeta:
    uint8_t[16] id              # a topic that is made again under its name has another
    uint32_t partitions
    uint32_t configs_length

# FORMAT_: the value of an offset begins with this. The name of the topic and the metadata follow.
cdef packed struct OffsetMeta:
    uint8_t[16] topic           # its id when the offset was committed
    int64_t offset
    int32_t epoch               # of the leader; -1: none
    uint32_t partition
    uint16_t name_length
    uint16_t metadata_length

# FORMAT_: the value of the head of a group's offsets.
cdef packed struct OffsetsMeta:
    uint64_t retention_ms       # that the last commit named; 0: for ever
    uint64_t timer_revision     # that began the timer of the offsets; 0: none runs
    uint32_t count              # keys of offsets
    uint32_t zero

cdef struct TopicRecord:
    TopicMeta meta
    Bytes configs

cdef struct OffsetRecord:
    OffsetMeta meta
    Bytes name
    Bytes metadata

# Room for any key below; `bytes` is a window into it, which does not outlive the struct.
cdef struct OffsetKey:
    uint8_t[KEY_BYTES_MAX] room
    Bytes bytes

# Windows point into value. False: the bytes are no value of a topic (of an offset, of a head).
cdef bint topic_read(const Bytes* value, TopicRecord* topic) noexcept nogil
cdef bint offset_read(const Bytes* value, OffsetRecord* offset) noexcept nogil
cdef bint offsets_read(const Bytes* value, OffsetsMeta* head) noexcept nogil
cdef uint32_t topic_length(const TopicRecord* topic) noexcept nogil
cdef uint32_t offset_length(const OffsetRecord* offset) noexcept nogil
# Write so many bytes; the lengths in meta are those of the windows.
cdef void topic_write(const TopicRecord* topic, uint8_t* at) noexcept nogil
cdef void offset_write(const OffsetRecord* offset, uint8_t* at) noexcept nogil
# Whether the bytes are such a value with such a lease, as a dump brings them.
cdef bint topic_is_sound(const uint8_t* value, uint32_t length, uint64_t lease) noexcept nogil
cdef bint offset_is_sound(const uint8_t* value, uint32_t length, uint64_t lease) noexcept nogil
cdef bint offsets_is_sound(const uint8_t* value, uint32_t length, uint64_t lease) noexcept nogil

# The key of a topic is the root and its name. The head of a group's offsets is the key of the group and the bytes 1
# and 0. An offset is that, the name of the topic, a zero byte, and the partition in four bytes, the greatest first.
# No member of a group has such a key: its id ends with 32 hexadecimal digits.
# False: the key would be too long.
cdef bint topic_key(const Bytes* root, const Bytes* name, OffsetKey* key) noexcept nogil
cdef bint offsets_key(const Bytes* group, OffsetKey* key) noexcept nogil
cdef bint offset_key(const Bytes* group, const Bytes* name, uint32_t partition, OffsetKey* key) noexcept nogil
# The group's part of the key of a head. False: it is no such key.
cdef bint group_of_offsets(const Bytes* key, Bytes* group) noexcept nogil
