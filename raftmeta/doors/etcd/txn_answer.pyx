"""The answer of etcd to a command of keys: bodies."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.etcd.calls cimport revision_told
from raftmeta.doors.etcd.keys cimport KeyRange, key_range, key_record, key_value_put
from raftmeta.doors.etcd.protobuf cimport PbReader, pb_begin, pb_end, pb_next, pb_put_uint, pb_reader
from raftmeta.doors.etcd.ranges cimport RangeAsked, range_collect, range_put, range_read
from raftmeta.doors.etcd.state cimport KeyRecord
from raftmeta.status cimport OK
from raftmeta.wire.commands cimport CHANGES_MAX, OPS_MAX
from raftmeta.wire.msgpack cimport read_array, read_array_max, read_bool, read_uint

cdef enum:
    REQUEST_RANGE = 1               # of RequestOp, and of ResponseOp
    REQUEST_PUT = 2
    REQUEST_DELETE = 3
    REQUEST_TXN = 4
    TXN_SUCCESS = 2
    TXN_FAILURE = 3
    HEADER = 1


# --- single operations ------------------------------------------------------------------------------------------------
cdef bint _put_result(Vec[uint8_t]* out, Reader* reader) noexcept nogil:
    cdef KeyRecord record
    if not key_record(reader, &record):
        return reader.status == OK
    return key_value_put(out, 2, &record, True)


cdef struct DeleteAsked:
    KeyRange range
    bint with_previous


cdef void _read_delete(const Bytes* message, DeleteAsked* asked) noexcept nogil:
    cdef PbReader reader = pb_reader(message)
    cdef Bytes key = bytes_of(NULL, 0)
    cdef Bytes range_end = bytes_of(NULL, 0)
    asked.with_previous = False
    while pb_next(&reader):
        if reader.field == 1:
            key = reader.bytes
        elif reader.field == 2:
            range_end = reader.bytes
        elif reader.field == 3:
            asked.with_previous = reader.number != 0
    key_range(&key, &range_end, &asked.range)


# How many keys were deleted, into *deleted.
cdef bint _delete_result(Vec[uint8_t]* out, const Bytes* message, Reader* reader, uint64_t* deleted) noexcept nogil:
    cdef DeleteAsked asked
    cdef KeyRecord record
    cdef uint32_t records = 0
    _read_delete(message, &asked)
    deleted[0] = 0
    if asked.range.is_empty:
        key_record(reader, &record)
        return reader.status == OK
    if not asked.with_previous:
        deleted[0] = read_uint(reader, CHANGES_MAX)
        return reader.status == OK and pb_put_uint(out, 2, deleted[0])
    if asked.range.is_key:
        if not key_record(reader, &record):
            return reader.status == OK
        deleted[0] = 1
        return pb_put_uint(out, 2, 1) and key_value_put(out, 3, &record, True)
    read_array(reader, 2)
    deleted[0] = read_uint(reader, CHANGES_MAX)
    records = read_array_max(reader, CHANGES_MAX)
    if reader.status != OK or not pb_put_uint(out, 2, deleted[0]):
        return False
    for _ in range(records):
        if not key_record(reader, &record) or not key_value_put(out, 3, &record, True):
            return False
    return True


cdef bint _range_result(EtcdDoor* door, Vec[uint8_t]* out, const Bytes* message, Reader* reader) noexcept nogil:
    cdef RangeAsked asked
    cdef KeyRecord record
    cdef uint32_t records = 0
    cdef uint64_t count = 0
    range_read(message, &asked)
    door.records.clear()
    if asked.revision > 0 or asked.range.is_empty:
        key_record(reader, &record)
        if (asked.revision > 0 and (door.desk.pinned == NULL or not range_collect(
                door, &asked, <uint64_t>asked.revision - 1, &door.records, &count))):
            return False
        return reader.status == OK and range_put(out, &asked, &door.records, count)
    if asked.range.is_key:
        if key_record(reader, &record) and not door.records.push(record):
            return False
        return reader.status == OK and range_put(out, &asked, &door.records, door.records.size)
    read_array(reader, 2)
    records = read_array_max(reader, CHANGES_MAX)
    for _ in range(records):
        if not key_record(reader, &record) or not door.records.push(record):
            return False
    read_bool(reader)
    return reader.status == OK and range_put(out, &asked, &door.records, records)


# --- transactions -----------------------------------------------------------------------------------------------------
# A transaction while its answer is made. Each operation answers with the revision that it sees: that of before the
# transaction until something has changed (etcd server/storage/mvcc kvstore_txn.go).
cdef struct Making:
    EtcdDoor* door
    uint64_t begin
    uint64_t revision
    bint has_changed
    bint has_begun                  # an operation has answered with `begin`


cdef bint _op_header(Making* making, Vec[uint8_t]* out) noexcept nogil:
    cdef size_t start = pb_begin(out, HEADER)
    cdef uint64_t revision = making.revision if making.has_changed else making.begin
    making.has_begun = making.has_begun or not making.has_changed
    return start != 0 and pb_put_uint(out, 3, revision_told(revision)) and pb_end(out, start)


cdef uint32_t _inner(const Bytes* op, Bytes* inner) noexcept nogil:
    cdef PbReader reader = pb_reader(op)
    cdef uint32_t field = 0
    while pb_next(&reader):
        if REQUEST_RANGE <= reader.field <= REQUEST_TXN:
            field = reader.field
            inner[0] = reader.bytes
    return field


cdef bint _op(Making* making, Vec[uint8_t]* out, const Bytes* op, Reader* reader) noexcept nogil:
    cdef Bytes inner = bytes_of(NULL, 0)
    cdef uint32_t field = _inner(op, &inner)
    cdef uint64_t deleted = 0
    cdef size_t whole = pb_begin(out, 3)
    cdef size_t start = pb_begin(out, field)
    cdef bint is_made
    if start == 0 or whole == 0:
        return False
    if field == REQUEST_TXN:
        is_made = _nested(making, out, &inner, reader)
    elif field == REQUEST_RANGE:
        is_made = _op_header(making, out) and _range_result(making.door, out, &inner, reader)
    elif field == REQUEST_PUT:
        making.has_changed = True
        is_made = _op_header(making, out) and _put_result(out, reader)
    else:
        is_made = _delete_result(out, &inner, reader, &deleted)
        making.has_changed = making.has_changed or deleted != 0
        is_made = is_made and _op_header(making, out)       # behind: it depends on what was deleted
    return is_made and pb_end(out, start) and pb_end(out, whole)


cdef bint _fields(Making* making, Vec[uint8_t]* out, const Bytes* txn, Reader* reader) noexcept nogil:
    cdef PbReader fields = pb_reader(txn)
    cdef bint has_succeeded
    cdef uint32_t left
    read_array(reader, 2)
    has_succeeded = read_bool(reader)
    left = read_array_max(reader, OPS_MAX)
    if reader.status != OK or not pb_put_uint(out, 2, has_succeeded):
        return False
    while left and pb_next(&fields):
        if fields.field == <uint32_t>(TXN_SUCCESS if has_succeeded else TXN_FAILURE):
            left -= 1
            if not _op(making, out, &fields.bytes, reader):
                return False
    return left == 0


cdef bint _nested(Making* making, Vec[uint8_t]* out, const Bytes* txn, Reader* reader) noexcept nogil:
    cdef size_t start = pb_begin(out, HEADER)
    return start != 0 and pb_end(out, start) and _fields(making, out, txn, reader)


cdef bint answer_needs_state(const Bytes* txn) noexcept nogil:
    cdef PbReader reader = pb_reader(txn)
    cdef Bytes inner = bytes_of(NULL, 0)
    cdef RangeAsked asked
    cdef uint32_t field
    while pb_next(&reader):
        if reader.field != TXN_SUCCESS and reader.field != TXN_FAILURE:
            continue
        field = _inner(&reader.bytes, &inner)
        if field == REQUEST_RANGE:
            range_read(&inner, &asked)
            if asked.revision > 0:
                return True
        elif field == REQUEST_TXN and answer_needs_state(&inner):
            return True
    return False


# A single operation is a transaction of its own: [succeeded, [result]].
cdef bint _alone(Reader* reader) noexcept nogil:
    read_array(reader, 2)
    read_bool(reader)
    read_array(reader, 1)
    return reader.status == OK


cdef bint answer_put(Vec[uint8_t]* out, Reader* reader) noexcept nogil:
    return _alone(reader) and _put_result(out, reader)


cdef bint answer_delete(Vec[uint8_t]* out, const Bytes* asked, Reader* reader) noexcept nogil:
    cdef uint64_t deleted = 0
    return _alone(reader) and _delete_result(out, asked, reader, &deleted)


cdef bint answer_txn(EtcdDoor* door, Vec[uint8_t]* out, const Bytes* txn, Reader* reader,
                     uint64_t revision) noexcept nogil:
    cdef Reader again = reader[0]
    cdef size_t size = out.size
    cdef Making making
    making.door = door
    making.begin = making.revision = revision
    making.has_changed = making.has_begun = False
    if not _fields(&making, out, txn, reader):
        return False
    if not making.has_begun or not making.has_changed:
        return True
    # Whether it changes anything is known at its end: what stands before the first change is a revision older.
    making.begin = revision - 1
    making.has_changed = False
    reader[0] = again
    return out.resize(size) and _fields(&making, out, txn, reader)
