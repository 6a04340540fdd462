# Keys and records as etcd's messages name them: ranges, KeyValue, revisions.
from libc.stdint cimport uint8_t, uint32_t

from raftmeta.doors.etcd.state cimport EtcdCall, EtcdDoor, KeyRecord
from raftmeta.machine.entry cimport Entry
from raftmeta.native.containers cimport Vec
from raftmeta.wire.commands cimport Bytes
from raftmeta.wire.msgpack cimport Reader

# A range of keys, or one key. A bound may be longer than any key.
cdef struct KeyRange:
    Bytes start
    Bytes end                   # empty: that of the keyspace
    bint is_key                 # the one key `start`
    bint is_empty               # it cannot hold any key

# range_end empty: one key; a single zero byte: all from key on. The bytes of key and range_end must stay.
cdef void key_range(const Bytes* key, const Bytes* range_end, KeyRange* range) noexcept nogil
# Whether the call's user has these rights over the range. False: the call was ended.
cdef bint key_range_allows(EtcdDoor* door, EtcdCall* call, uint8_t rights, const KeyRange* range) noexcept nogil

# The next record of a result; nil is none. False: there is none.
cdef bint key_record(Reader* reader, KeyRecord* record) noexcept nogil
# A version of a key. Its bytes are those of the entry.
cdef void key_record_of(const Entry* entry, KeyRecord* record) noexcept nogil
# A KeyValue: how many bytes it has, and these; alone, and as the field of a message. False: no memory.
cdef uint32_t key_value_length(const KeyRecord* record, bint with_value) noexcept nogil
cdef bint key_value_fields(Vec[uint8_t]* out, const KeyRecord* record, bint with_value) noexcept nogil
cdef bint key_value_put(Vec[uint8_t]* out, uint32_t field, const KeyRecord* record, bint with_value) noexcept nogil
