"""Range: bodies.

Source: etcd server/etcdserver/txn range.go (the order of options), mvcc/kvstore_txn.go (which revisions may be read).
"""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport qsort
from libc.string cimport memset

from raftmeta.connections.state cimport TUNE_TURN_BYTES
from raftmeta.doors.desk.rounds cimport round_ask
from raftmeta.doors.etcd.calls cimport (call_answer, call_end, call_fail, call_header, call_message, call_pin,
                                        call_reply, call_rest, call_wait, revision_told)
from raftmeta.doors.etcd.keys cimport key_range, key_range_allows, key_record_of, key_value_put
from raftmeta.doors.etcd.protobuf cimport PbReader, pb_next, pb_put_uint, pb_reader
from raftmeta.doors.etcd.schema cimport NAMES_SORT_ORDER, NAMES_SORT_TARGET, schema_name
from raftmeta.doors.etcd.state cimport CODE_INVALID_ARGUMENT
from raftmeta.machine.entry cimport ENTRY_TOMBSTONE, Entry, entry_at_pinned, entry_key
from raftmeta.machine.plan cimport compare_bytes
from raftmeta.machine.rights_state cimport RIGHT_READ
from raftmeta.machine.tree cimport Cursor, cursor_next, cursor_seek, root_find, root_revision
from raftmeta.native.atomics cimport load_acquire
from raftmeta.status cimport COMPACTED, FUTURE_REVISION, OK, status_t
from raftmeta.wire.commands cimport KEY_BYTES_MAX

cdef enum:
    ORDER_NONE = 0
    ORDER_ASCEND = 1
    ORDER_DESCEND = 2
    TARGET_KEY = 0
    TARGET_VERSION = 1
    TARGET_CREATE = 2
    TARGET_MOD = 3
    TARGET_VALUE = 4


cdef void range_read(const Bytes* message, RangeAsked* asked) noexcept nogil:
    cdef PbReader reader = pb_reader(message)
    memset(asked, 0, sizeof(RangeAsked))
    while pb_next(&reader):
        if reader.field == 1:
            asked.key = reader.bytes
        elif reader.field == 2:
            asked.range_end = reader.bytes
        elif reader.field == 3:
            asked.limit = <int64_t>reader.number
        elif reader.field == 4:
            asked.revision = <int64_t>reader.number
        elif reader.field == 5:
            asked.order = <uint32_t>reader.number
        elif reader.field == 6:
            asked.target = <uint32_t>reader.number
        elif reader.field == 7:
            asked.is_serializable = reader.number != 0
        elif reader.field == 8:
            asked.keys_only = reader.number != 0
        elif reader.field == 9:
            asked.count_only = reader.number != 0
        elif reader.field == 10:
            asked.min_mod = <int64_t>reader.number
        elif reader.field == 11:
            asked.max_mod = <int64_t>reader.number
        elif reader.field == 12:
            asked.min_create = <int64_t>reader.number
        elif reader.field == 13:
            asked.max_create = <int64_t>reader.number
    key_range(&asked.key, &asked.range_end, &asked.range)


# --- the records ------------------------------------------------------------------------------------------------------
cdef inline bint _is_filtered(const RangeAsked* asked) noexcept nogil:
    return asked.min_mod != 0 or asked.max_mod != 0 or asked.min_create != 0 or asked.max_create != 0


cdef inline bint _is_sorted(const RangeAsked* asked) noexcept nogil:
    return asked.target != TARGET_KEY or asked.order == ORDER_DESCEND


cdef bint _passes(const RangeAsked* asked, const KeyRecord* record) noexcept nogil:
    cdef int64_t mod = <int64_t>revision_told(record.mod_revision)
    cdef int64_t create = <int64_t>revision_told(record.create_revision)
    return not ((asked.max_mod != 0 and mod > asked.max_mod) or (asked.min_mod != 0 and mod < asked.min_mod)
                or (asked.max_create != 0 and create > asked.max_create)
                or (asked.min_create != 0 and create < asked.min_create))


cdef inline const Entry* _live(const Entry* entry, uint64_t revision) noexcept nogil:
    entry = entry_at_pinned(entry, revision)
    if entry == NULL or entry.flags & ENTRY_TOMBSTONE:
        return NULL
    return entry


cdef bint range_collect(EtcdDoor* door, const RangeAsked* asked, uint64_t revision, Vec[KeyRecord]* records,
                        uint64_t* count) noexcept nogil:
    cdef Cursor cursor
    cdef const Entry* entry
    cdef KeyRecord record
    cdef bint wants_all = _is_filtered(asked) or _is_sorted(asked) or asked.limit <= 0
    count[0] = 0
    if asked.range.is_empty:
        return True
    if asked.range.is_key:
        entry = _live(root_find(door.desk.pinned, asked.key.data, <uint16_t>asked.key.length), revision)
        count[0] = entry != NULL
        if entry == NULL or asked.count_only:
            return True
        key_record_of(entry, &record)
        return records.push(record)
    # No key is longer than that: those that begin like a longer start stand before it, but for the one that equals its
    # beginning.
    cursor_seek(&cursor, door.desk.pinned, asked.key.data, <uint16_t>min(asked.key.length, <uint32_t>KEY_BYTES_MAX))
    while cursor.entry != NULL:
        if (asked.range.end.length and compare_bytes(entry_key(cursor.entry), cursor.entry.key_length,
                                                     asked.range.end.data, asked.range.end.length) >= 0):
            return True
        entry = _live(cursor.entry, revision)
        cursor_next(&cursor)
        if entry == NULL or (asked.key.length > KEY_BYTES_MAX and compare_bytes(
                entry_key(entry), entry.key_length, asked.key.data, asked.key.length) < 0):
            continue
        count[0] += 1
        if asked.count_only or not (wants_all or count[0] <= <uint64_t>asked.limit + 1):
            continue
        key_record_of(entry, &record)
        if not records.push(record):
            return False
    return True


# --- order ------------------------------------------------------------------------------------------------------------
cdef inline int _order(uint64_t left, uint64_t right) noexcept nogil:
    return (left > right) - (left < right)


# Records of equal targets stay in the order of keys.
cdef inline int _by_key(const KeyRecord* left, const KeyRecord* right) noexcept nogil:
    return compare_bytes(left.key.data, left.key.length, right.key.data, right.key.length)


cdef int _by_version(const void* left, const void* right) noexcept nogil:
    cdef int order = _order((<const KeyRecord*>left).version, (<const KeyRecord*>right).version)
    return order or _by_key(<const KeyRecord*>left, <const KeyRecord*>right)


cdef int _by_create(const void* left, const void* right) noexcept nogil:
    cdef int order = _order((<const KeyRecord*>left).create_revision, (<const KeyRecord*>right).create_revision)
    return order or _by_key(<const KeyRecord*>left, <const KeyRecord*>right)


cdef int _by_mod(const void* left, const void* right) noexcept nogil:
    cdef int order = _order((<const KeyRecord*>left).mod_revision, (<const KeyRecord*>right).mod_revision)
    return order or _by_key(<const KeyRecord*>left, <const KeyRecord*>right)


cdef int _by_value(const void* left, const void* right) noexcept nogil:
    cdef const Bytes* one = &(<const KeyRecord*>left).value
    cdef const Bytes* other = &(<const KeyRecord*>right).value
    cdef int order = compare_bytes(one.data, one.length, other.data, other.length)
    return order or _by_key(<const KeyRecord*>left, <const KeyRecord*>right)


cdef bint _is_tie(const RangeAsked* asked, const KeyRecord* left, const KeyRecord* right) noexcept nogil:
    if asked.target == TARGET_VERSION:
        return left.version == right.version
    if asked.target == TARGET_CREATE:
        return left.create_revision == right.create_revision
    if asked.target == TARGET_MOD:
        return left.mod_revision == right.mod_revision
    return asked.target == TARGET_VALUE and compare_bytes(left.value.data, left.value.length, right.value.data,
                                                          right.value.length) == 0


cdef void _reverse(Vec[KeyRecord]* records, size_t first, size_t end) noexcept nogil:
    cdef KeyRecord other
    while first + 1 < end:
        end -= 1
        other = records.data[first]
        records.data[first] = records.data[end]
        records.data[end] = other
        first += 1


cdef void _sort(const RangeAsked* asked, Vec[KeyRecord]* records) noexcept nogil:
    cdef size_t first = 0
    cdef size_t end
    if asked.target == TARGET_VERSION:
        qsort(records.data, records.size, sizeof(KeyRecord), _by_version)
    elif asked.target == TARGET_CREATE:
        qsort(records.data, records.size, sizeof(KeyRecord), _by_create)
    elif asked.target == TARGET_MOD:
        qsort(records.data, records.size, sizeof(KeyRecord), _by_mod)
    elif asked.target == TARGET_VALUE:
        qsort(records.data, records.size, sizeof(KeyRecord), _by_value)
    if asked.order != ORDER_DESCEND:
        return
    _reverse(records, 0, records.size)
    while first < records.size:         # those with equal targets are in the order of keys again
        end = first + 1
        while end < records.size and _is_tie(asked, &records.data[first], &records.data[end]):
            end += 1
        _reverse(records, first, end)
        first = end


# --- the answer -------------------------------------------------------------------------------------------------------
cdef bint range_put(Vec[uint8_t]* out, const RangeAsked* asked, Vec[KeyRecord]* records, uint64_t count) noexcept nogil:
    cdef size_t kept = 0
    cdef size_t most
    cdef size_t i
    cdef bint more = False
    if asked.count_only:
        return pb_put_uint(out, 4, count)
    if _is_filtered(asked):
        for i in range(records.size):
            if _passes(asked, &records.data[i]):
                records.data[kept] = records.data[i]
                kept += 1
        records.resize(kept)
    if _is_sorted(asked):
        _sort(asked, records)
    most = records.size
    if asked.limit > 0 and <uint64_t>asked.limit < most:
        most = <size_t>asked.limit
        more = True
    for i in range(most):
        if not key_value_put(out, 2, &records.data[i], not asked.keys_only):
            return False
    return pb_put_uint(out, 3, more) and pb_put_uint(out, 4, count)


cdef status_t range_revision(EtcdDoor* door, const RangeAsked* asked, uint64_t newest,
                             uint64_t* revision) noexcept nogil:
    revision[0] = newest
    if asked.revision <= 0:
        return OK
    if <uint64_t>asked.revision > revision_told(newest):
        return FUTURE_REVISION
    revision[0] = <uint64_t>asked.revision - 1
    return COMPACTED if load_acquire(&door.desk.machine.readers_floor) > revision[0] else OK


cdef const char* range_fault(const RangeAsked* asked) noexcept nogil:
    if asked.key.length == 0:
        return b"etcdserver: key is not provided"
    if schema_name(NAMES_SORT_ORDER, asked.order) == NULL or schema_name(NAMES_SORT_TARGET, asked.target) == NULL:
        return b"etcdserver: invalid sort option"
    return NULL


cdef void _answer(EtcdDoor* door, EtcdCall* call, const RangeAsked* asked) noexcept nogil:
    cdef Vec[uint8_t]* out = call_reply(door)
    cdef Vec[KeyRecord]* records = &door.records
    cdef uint64_t revision = 0
    cdef uint64_t count = 0
    cdef status_t status = range_revision(door, asked, root_revision(door.desk.pinned), &revision)
    if status != OK:
        call_fail(door, call, status)
        return
    records.clear()
    call_answer(door, call, call_header(door, out, root_revision(door.desk.pinned))
                and range_collect(door, asked, revision, records, &count)
                and range_put(out, asked, records, count))


cdef void range_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil:
    cdef RangeAsked asked
    cdef const char* fault
    range_read(message, &asked)
    fault = range_fault(&asked)
    if fault != NULL:
        call_end(door, call, CODE_INVALID_ARGUMENT, fault)
        return
    if not key_range_allows(door, call, RIGHT_READ, &asked.range):
        return
    if not asked.is_serializable:
        call.round = round_ask(&door.desk)
    range_go(door, call)


cdef void range_go(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    cdef RangeAsked asked
    cdef Bytes message
    if door.desk.base.turn_bytes >= <uint64_t>TUNE_TURN_BYTES or not call_pin(door, call):
        call_wait(door, call)
        return
    call_rest(call)
    message = call_message(call)
    range_read(&message, &asked)
    _answer(door, call, &asked)
