"""Keys below a prefix: bodies.

A range of a client is the same range below the prefix; its end "all keys from here on" becomes the end of the prefix.
"""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t
from libc.string cimport memcmp

from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.etcd.protobuf cimport (PB_BYTES, PbReader, pb_begin, pb_end, pb_next, pb_put_element,
                                           pb_put_varint, pb_reader)
from raftmeta.doors.etcd.schema cimport (KEY_END, KEY_FIRST, KEY_NAME, KEY_NONE, KEY_OF_LIST, KIND_MESSAGE,
                                         MESSAGE_PERMISSION, EtcdField, schema_field, schema_fields)

cdef enum:
    PERMISSION_KEY = 2


cdef bint prefix_has(const EtcdLimits* limits, const Bytes* key) noexcept nogil:
    return (key.length >= limits.prefix_length
            and memcmp(key.data, limits.prefix, limits.prefix_length) == 0)


cdef inline bint _is_to_the_last(const Bytes* end) noexcept nogil:
    return end.length == 1 and end.data[0] == 0


# The first key behind all keys with the prefix: its last byte and one. The prefix is text, which has no byte 0xff.
cdef bint _is_end_of_prefix(const EtcdLimits* limits, const Bytes* end) noexcept nogil:
    cdef uint32_t last = limits.prefix_length - 1
    return (end.length == limits.prefix_length and memcmp(end.data, limits.prefix, last) == 0
            and end.data[last] == limits.prefix[last] + 1)


# --- requests ---------------------------------------------------------------------------------------------------------
cdef bint _put_below(const EtcdLimits* limits, uint32_t field, const Bytes* key, Vec[uint8_t]* out) noexcept nogil:
    return (pb_put_varint(out, <size_t>field << 3 | PB_BYTES)
            and pb_put_varint(out, <size_t>limits.prefix_length + key.length)
            and out.append(limits.prefix, limits.prefix_length)
            and (key.length == 0 or out.append(key.data, key.length)))


cdef bint _put_end(const EtcdLimits* limits, uint32_t field, const Bytes* end, Vec[uint8_t]* out) noexcept nogil:
    cdef Bytes nothing = bytes_of(NULL, 0)
    if end.length == 0:
        return pb_put_element(out, field, end)
    if not _is_to_the_last(end):
        return _put_below(limits, field, end, out)
    if not _put_below(limits, field, &nothing, out):
        return False
    out.data[out.size - 1] += 1
    return True


# An empty key is refused, or stands for the first of all.
cdef bint _put_key(const EtcdLimits* limits, const EtcdField* field, const Bytes* key,
                   Vec[uint8_t]* out) noexcept nogil:
    cdef uint8_t zero = 0
    cdef Bytes first = bytes_of(&zero, 1)
    if field.role == KEY_END:
        return _put_end(limits, field.number, key, out)
    if key.length == 0 and field.role == KEY_FIRST:
        return _put_below(limits, field.number, &first, out)
    if key.length == 0 and field.role != KEY_NAME:
        return pb_put_element(out, field.number, key)
    return _put_below(limits, field.number, key, out)


# Fields that the message does not have, and that say something by that.
cdef bint _put_missing(const EtcdLimits* limits, uint16_t message, const Bytes* bytes,
                       Vec[uint8_t]* out) noexcept nogil:
    cdef uint32_t count = 0
    cdef const EtcdField* fields = schema_fields(message, &count)
    cdef Bytes nothing = bytes_of(NULL, 0)
    cdef uint32_t i
    for i in range(count):
        if (fields[i].role == KEY_FIRST or fields[i].role == KEY_NAME) and not _has(bytes, fields[i].number):
            if not _put_key(limits, &fields[i], &nothing, out):
                return False
    return True


cdef bint _has(const Bytes* bytes, uint32_t number) noexcept nogil:
    cdef PbReader reader = pb_reader(bytes)
    while pb_next(&reader):
        if reader.field == number:
            return True
    return False


cdef bint prefix_put(const EtcdLimits* limits, uint16_t message, const Bytes* bytes,
                     Vec[uint8_t]* out) noexcept nogil:
    cdef PbReader reader = pb_reader(bytes)
    cdef const uint8_t* begun = reader.at
    cdef const EtcdField* field
    cdef size_t start
    while pb_next(&reader):
        field = schema_field(message, reader.field)
        if field != NULL and field.kind == KIND_MESSAGE:
            start = pb_begin(out, reader.field)
            if start == 0 or not prefix_put(limits, field.of, &reader.bytes, out) or not pb_end(out, start):
                return False
        elif field != NULL and field.role != KEY_NONE:
            if not _put_key(limits, field, &reader.bytes, out):
                return False
        elif not out.append(begun, <size_t>(reader.at - begun)):
            return False
        begun = reader.at
    return _put_missing(limits, message, bytes, out)


# --- answers ----------------------------------------------------------------------------------------------------------
# A permission over keys without the prefix is none of these clients'.
cdef bint _is_hidden(const EtcdLimits* limits, const EtcdField* field, const Bytes* bytes) noexcept nogil:
    cdef PbReader reader = pb_reader(bytes)
    if field.role == KEY_OF_LIST:
        return not prefix_has(limits, bytes)
    if field.kind != KIND_MESSAGE or field.of != MESSAGE_PERMISSION:
        return False
    while pb_next(&reader):
        if reader.field == PERMISSION_KEY:
            return not prefix_has(limits, &reader.bytes)
    return False


cdef bint _take_key(const EtcdLimits* limits, const EtcdField* field, const Bytes* key,
                    Vec[uint8_t]* out) noexcept nogil:
    cdef uint8_t zero = 0
    cdef Bytes shown = key[0]
    if field.role == KEY_END and _is_end_of_prefix(limits, key):
        shown = bytes_of(&zero, 1)
    elif prefix_has(limits, key):
        shown = bytes_of(key.data + limits.prefix_length, key.length - limits.prefix_length)
    return pb_put_element(out, field.number, &shown)


cdef bint prefix_take(const EtcdLimits* limits, uint16_t message, const Bytes* bytes,
                      Vec[uint8_t]* out) noexcept nogil:
    cdef PbReader reader = pb_reader(bytes)
    cdef const uint8_t* begun = reader.at
    cdef const EtcdField* field
    cdef size_t start
    while pb_next(&reader):
        field = schema_field(message, reader.field)
        if field != NULL and _is_hidden(limits, field, &reader.bytes):
            pass
        elif field != NULL and field.kind == KIND_MESSAGE:
            start = pb_begin(out, reader.field)
            if start == 0 or not prefix_take(limits, field.of, &reader.bytes, out) or not pb_end(out, start):
                return False
        elif field != NULL and field.role != KEY_NONE:
            if not _take_key(limits, field, &reader.bytes, out):
                return False
        elif not out.append(begun, <size_t>(reader.at - begun)):
            return False
        begun = reader.at
    return True
