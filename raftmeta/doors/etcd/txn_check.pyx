"""Which requests that change keys etcd refuses before it looks at the store: bodies.

A transaction may write a key once on each way through it. Keys written and ranges deleted stand in two lists of the
door; those of a nested transaction are the end of them while it is looked at.
"""

from libc.stddef cimport size_t
from libc.stdint cimport uint32_t
from libc.string cimport memcmp

from raftmeta.doors.etcd.keys cimport KeyRange, key_range
from raftmeta.doors.etcd.protobuf cimport PbReader, pb_next, pb_reader
from raftmeta.doors.etcd.ranges cimport RangeAsked, range_fault, range_read
from raftmeta.doors.etcd.state cimport KeyWritten
from raftmeta.machine.plan cimport compare_bytes
from raftmeta.native.intrinsics cimport hash64

cdef enum:
    OP_RANGE_FIELD = 1              # of RequestOp
    OP_PUT_FIELD = 2
    OP_DELETE_FIELD = 3
    OP_TXN_FIELD = 4
    COMPARE_FIELD = 1               # of TxnRequest
    SUCCESS_FIELD = 2
    FAILURE_FIELD = 3

cdef const char* NO_KEY = b"etcdserver: key is not provided"
cdef const char* TWICE = b"etcdserver: duplicate key given in txn request"
cdef const char* NO_MEMORY_LEFT = b"etcdserver: no memory"


cdef const char* put_fault(const Bytes* asked) noexcept nogil:
    cdef PbReader reader = pb_reader(asked)
    cdef bint has_key = False
    cdef bint has_value = False
    cdef bint has_lease = False
    cdef bint keeps_value = False
    cdef bint keeps_lease = False
    while pb_next(&reader):
        if reader.field == 1:
            has_key = reader.bytes.length != 0
        elif reader.field == 2:
            has_value = reader.bytes.length != 0
        elif reader.field == 3:
            has_lease = reader.number != 0
        elif reader.field == 5:
            keeps_value = reader.number != 0
        elif reader.field == 6:
            keeps_lease = reader.number != 0
    if not has_key:
        return NO_KEY
    if keeps_value and has_value:
        return b"etcdserver: value is provided"
    if keeps_lease and has_lease:
        return b"etcdserver: lease is provided"
    return NULL


cdef const char* _key_fault(const Bytes* message, uint32_t field) noexcept nogil:
    cdef PbReader reader = pb_reader(message)
    cdef bint has_key = False
    while pb_next(&reader):
        if reader.field == field:
            has_key = reader.bytes.length != 0
    if not has_key:
        return NO_KEY
    return NULL


cdef const char* delete_fault(const Bytes* asked) noexcept nogil:
    return _key_fault(asked, 1)


# --- sizes and fields -------------------------------------------------------------------------------------------------
cdef const char* _op_fault(const Bytes* op, int ops_max) noexcept nogil:
    cdef PbReader reader = pb_reader(op)
    cdef RangeAsked asked
    cdef uint32_t field = 0
    cdef Bytes message
    while pb_next(&reader):
        if OP_RANGE_FIELD <= reader.field <= OP_TXN_FIELD:
            field = reader.field        # of a oneof the last one counts
            message = reader.bytes
    if field == OP_RANGE_FIELD:
        range_read(&message, &asked)
        return range_fault(&asked)
    if field == OP_PUT_FIELD:
        return put_fault(&message)
    if field == OP_DELETE_FIELD:
        return delete_fault(&message)
    if field == OP_TXN_FIELD:
        return _sizes_fault(&message, ops_max)
    return b"etcdserver: key not found"


cdef const char* _sizes_fault(const Bytes* txn, int ops_max) noexcept nogil:
    cdef int[FAILURE_FIELD + 1] counts
    cdef PbReader reader = pb_reader(txn)
    cdef const char* fault = NULL
    cdef int most
    counts[COMPARE_FIELD] = counts[SUCCESS_FIELD] = counts[FAILURE_FIELD] = 0
    while pb_next(&reader):
        if COMPARE_FIELD <= reader.field <= FAILURE_FIELD:
            counts[reader.field] += 1
    most = max(counts[COMPARE_FIELD], counts[SUCCESS_FIELD], counts[FAILURE_FIELD])
    if most > ops_max:
        return b"etcdserver: too many operations in txn request"
    reader = pb_reader(txn)
    while fault == NULL and pb_next(&reader):
        if reader.field == COMPARE_FIELD:
            fault = _key_fault(&reader.bytes, 3)
        elif reader.field == SUCCESS_FIELD or reader.field == FAILURE_FIELD:
            fault = _op_fault(&reader.bytes, ops_max - most)
    return fault


# --- keys written twice -----------------------------------------------------------------------------------------------
cdef KeyWritten _written(const Bytes* key) noexcept nogil:
    cdef KeyWritten written
    written.key = key[0]
    written.hash = hash64(0, key.data, key.length)
    return written


cdef bint _is_written(const EtcdDoor* door, const KeyWritten* put, size_t first, size_t end) noexcept nogil:
    cdef const KeyWritten* other
    cdef size_t i
    for i in range(first, end):
        other = &door.written.data[i]
        if (other.hash == put.hash and other.key.length == put.key.length
                and memcmp(other.key.data, put.key.data, put.key.length) == 0):
            return True
    return False


cdef bint _is_deleted(const EtcdDoor* door, const KeyWritten* put, size_t first, size_t end) noexcept nogil:
    cdef KeyRange range_
    cdef size_t i
    for i in range(first, end, 2):
        key_range(&door.deleted.data[i], &door.deleted.data[i + 1], &range_)
        if range_.is_key:
            if compare_bytes(range_.start.data, range_.start.length, put.key.data, put.key.length) == 0:
                return True
        elif (compare_bytes(range_.start.data, range_.start.length, put.key.data, put.key.length) <= 0
              and (range_.end.length == 0 or compare_bytes(put.key.data, put.key.length, range_.end.data,
                                                           range_.end.length) < 0)):
            return True
    return False


# The operation of a list, if it is of this kind. Fields of PutRequest and DeleteRangeRequest agree in the key.
cdef bint _op(const Bytes* op, uint32_t kind, Bytes* message) noexcept nogil:
    cdef PbReader reader = pb_reader(op)
    cdef uint32_t field = 0
    while pb_next(&reader):
        if OP_RANGE_FIELD <= reader.field <= OP_TXN_FIELD:
            field = reader.field
            message[0] = reader.bytes
    return field == kind


cdef Bytes _field(const Bytes* message, uint32_t field) noexcept nogil:
    cdef PbReader reader = pb_reader(message)
    cdef Bytes found
    found.data = NULL
    found.length = 0
    while pb_next(&reader):
        if reader.field == field:
            found = reader.bytes
    return found


cdef const char* _nested_fault(EtcdDoor* door, const Bytes* txn, size_t first, size_t first_deleted) noexcept nogil:
    cdef size_t written = door.written.size
    cdef size_t deleted = door.deleted.size
    cdef size_t i
    cdef const char* fault = _twice(door, txn, SUCCESS_FIELD)
    if fault == NULL:
        fault = _twice(door, txn, FAILURE_FIELD)
    if fault != NULL:
        return fault
    for i in range(written, door.written.size):
        if (_is_written(door, &door.written.data[i], first, written)
                or _is_deleted(door, &door.written.data[i], first_deleted, deleted)):
            return TWICE
    return NULL


# One list of a transaction.
cdef const char* _twice(EtcdDoor* door, const Bytes* txn, uint32_t list) noexcept nogil:
    cdef size_t first = door.written.size
    cdef size_t first_deleted = door.deleted.size
    cdef PbReader reader = pb_reader(txn)
    cdef const char* fault = NULL
    cdef KeyWritten put
    cdef Bytes message
    cdef Bytes key
    while pb_next(&reader):
        if reader.field == list and _op(&reader.bytes, OP_DELETE_FIELD, &message):
            if not door.deleted.push(_field(&message, 1)) or not door.deleted.push(_field(&message, 2)):
                return NO_MEMORY_LEFT
    reader = pb_reader(txn)
    while fault == NULL and pb_next(&reader):
        if reader.field == list and _op(&reader.bytes, OP_TXN_FIELD, &message):
            fault = _nested_fault(door, &message, first, first_deleted)
    reader = pb_reader(txn)
    while fault == NULL and pb_next(&reader):
        if reader.field == list and _op(&reader.bytes, OP_PUT_FIELD, &message):
            key = _field(&message, 1)
            put = _written(&key)
            if (_is_written(door, &put, first, door.written.size)
                    or _is_deleted(door, &put, first_deleted, door.deleted.size)):
                return TWICE
            if not door.written.push(put):
                return NO_MEMORY_LEFT
    return fault


cdef const char* txn_fault(EtcdDoor* door, const Bytes* txn) noexcept nogil:
    cdef const char* fault = _sizes_fault(txn, TXN_OPS_MAX)
    cdef uint32_t list
    for list in range(SUCCESS_FIELD, FAILURE_FIELD + 1):
        door.written.clear()
        door.deleted.clear()
        if fault == NULL:
            fault = _twice(door, txn, list)
    return fault
