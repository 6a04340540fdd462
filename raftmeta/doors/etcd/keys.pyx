"""Keys and records as etcd's messages name them: bodies."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.etcd.access cimport access_allows
from raftmeta.doors.etcd.calls cimport revision_told
from raftmeta.doors.etcd.protobuf cimport (PB_BYTES, pb_put_bytes, pb_put_uint, pb_put_varint, pb_varint_length)
from raftmeta.machine.entry cimport entry_data_length, entry_key, entry_value
from raftmeta.machine.plan cimport compare_bytes
from raftmeta.wire.commands cimport KEY_BYTES_MAX
from raftmeta.wire.msgpack cimport (number_max, read_array_max, read_bin, read_nil, read_uint, unsigned_max)

cdef enum:
    RECORD_ELEMENTS = 7         # [key, value, create, mod, version, lease, flags], of a znode with an extension
    VALUE_BYTES_MAX = 0x7FFFFFFF
    FLAGS_MAX = 0xFFFFFFFF


cdef void key_range(const Bytes* key, const Bytes* range_end, KeyRange* range) noexcept nogil:
    range.start = key[0]
    range.end = range_end[0]
    range.is_key = range_end.length == 0
    if range.is_key:
        range.is_empty = key.length > KEY_BYTES_MAX
        return
    range.is_empty = False
    if range_end.length == 1 and range_end.data[0] == 0:
        range.end = bytes_of(NULL, 0)
    elif compare_bytes(key.data, key.length, range_end.data, range_end.length) >= 0:
        range.is_empty = True


cdef bint key_range_allows(EtcdDoor* door, EtcdCall* call, uint8_t rights, const KeyRange* range) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX + 1] room
    cdef Bytes end
    if range.is_empty:
        return access_allows(door, call, rights, NULL, NULL)
    if not range.is_key:
        return access_allows(door, call, rights, &range.start, &range.end)
    memcpy(room, range.start.data, range.start.length)
    room[range.start.length] = 0
    end = bytes_of(room, range.start.length + 1)
    return access_allows(door, call, rights, &range.start, &end)


cdef void key_record_of(const Entry* entry, KeyRecord* record) noexcept nogil:
    record.key = bytes_of(entry_key(entry), entry.key_length)
    record.value = bytes_of(entry_value(entry), entry_data_length(entry))
    record.create_revision = entry.create_revision
    record.mod_revision = entry.mod_revision
    record.version = entry.version
    record.lease = entry.lease


cdef bint key_record(Reader* reader, KeyRecord* record) noexcept nogil:
    cdef uint32_t elements
    cdef uint32_t length = 0
    if read_nil(reader):
        return False
    elements = read_array_max(reader, RECORD_ELEMENTS + 1)
    record.key.data = read_bin(reader, KEY_BYTES_MAX, &record.key.length)
    record.value.data = read_bin(reader, VALUE_BYTES_MAX, &record.value.length)
    record.create_revision = read_uint(reader, number_max())
    record.mod_revision = read_uint(reader, number_max())
    record.version = read_uint(reader, number_max())
    record.lease = read_uint(reader, unsigned_max())
    read_uint(reader, FLAGS_MAX)
    if elements > RECORD_ELEMENTS:
        read_bin(reader, VALUE_BYTES_MAX, &length)
    return reader.status == 0


cdef inline uint32_t _uint_length(uint64_t value) noexcept nogil:
    return 1 + pb_varint_length(value) if value else 0


cdef inline uint32_t _bytes_length(const Bytes* value) noexcept nogil:
    return 1 + pb_varint_length(value.length) + value.length if value.length else 0


cdef uint32_t key_value_length(const KeyRecord* record, bint with_value) noexcept nogil:
    return (_bytes_length(&record.key) + _uint_length(revision_told(record.create_revision))
            + _uint_length(revision_told(record.mod_revision)) + _uint_length(record.version)
            + _uint_length(record.lease) + (_bytes_length(&record.value) if with_value else 0))


cdef bint key_value_fields(Vec[uint8_t]* out, const KeyRecord* record, bint with_value) noexcept nogil:
    return (pb_put_bytes(out, 1, &record.key) and pb_put_uint(out, 2, revision_told(record.create_revision))
            and pb_put_uint(out, 3, revision_told(record.mod_revision)) and pb_put_uint(out, 4, record.version)
            and (not with_value or pb_put_bytes(out, 5, &record.value)) and pb_put_uint(out, 6, record.lease))


cdef bint key_value_put(Vec[uint8_t]* out, uint32_t field, const KeyRecord* record, bint with_value) noexcept nogil:
    return (pb_put_varint(out, <uint64_t>field << 3 | PB_BYTES)
            and pb_put_varint(out, key_value_length(record, with_value)) and key_value_fields(out, record, with_value))
