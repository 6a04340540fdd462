"""A request that changes keys as one command of the log: bodies.

A place that etcd fills without the machine (a Range at a past revision, a range that cannot hold a key) is a read of
one key in the command, whose result nobody looks at.
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.doors.desk.desk cimport desk_pin_newest
from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.etcd.keys cimport KeyRange, key_range, key_range_allows
from raftmeta.doors.etcd.protobuf cimport PbReader, pb_next, pb_reader
from raftmeta.doors.etcd.ranges cimport RangeAsked, range_read, range_revision
from raftmeta.machine.rights_state cimport RIGHT_READ, RIGHT_WRITE
from raftmeta.machine.state cimport LEVEL_OF_RANGE_COMPARES
from raftmeta.status cimport COMMAND_INVALID, KEY_INVALID, NO_MEMORY, NOT_READY, OK, PERMISSION_DENIED
from raftmeta.wire.commands cimport (COMMAND_KEYS, COMPARE_CREATE_REVISION, COMPARE_EQUAL, COMPARE_GREATER,
                                     COMPARE_LEASE, COMPARE_LESS, COMPARE_MOD_REVISION, COMPARE_NOT_EQUAL,
                                     COMPARE_OF_ALL, COMPARE_RANGE_EMPTY, COMPARE_VALUE, COMPARE_VERSION, KEY_BYTES_MAX,
                                     OP_DELETE,
                                     OP_DELETE_RANGE, OP_GET, OP_KEEP_LEASE, OP_KEEP_VALUE, OP_PUT, OP_RANGE, OP_TXN,
                                     OP_UPDATE, OP_WANT_PREVIOUS, Command, Compare, Op, Txn, command_clear)
from raftmeta.wire.msgpack cimport number_max

cdef enum:
    # Fields of RequestOp and of TxnRequest.
    REQUEST_RANGE = 1
    REQUEST_PUT = 2
    REQUEST_DELETE = 3
    REQUEST_TXN = 4
    TXN_COMPARE = 1
    TXN_SUCCESS = 2
    TXN_FAILURE = 3
    # etcd's enums.
    RESULT_EQUAL = 0
    RESULT_GREATER = 1
    RESULT_LESS = 2
    RESULT_NOT_EQUAL = 3
    TARGET_VERSION = 0
    TARGET_CREATE = 1
    TARGET_MOD = 2
    TARGET_VALUE = 3
    TARGET_LEASE = 4


# --- single operations ------------------------------------------------------------------------------------------------
cdef status_t _put(EtcdDoor* door, EtcdCall* call, const Bytes* message, Op* op) noexcept nogil:
    cdef PbReader reader = pb_reader(message)
    cdef Bytes nothing = bytes_of(NULL, 0)
    cdef KeyRange range_
    op.kind = OP_PUT
    while pb_next(&reader):
        if reader.field == 1:
            op.key = reader.bytes
        elif reader.field == 2:
            op.value = reader.bytes
        elif reader.field == 3:
            op.lease = reader.number
        elif reader.field == 4 and reader.number:
            op.flags |= OP_WANT_PREVIOUS
        elif reader.field == 5 and reader.number:
            op.flags |= OP_KEEP_VALUE
        elif reader.field == 6 and reader.number:
            op.flags |= OP_KEEP_LEASE
            op.kind = OP_UPDATE         # refused where there is no key, as in etcd
    if op.key.length > KEY_BYTES_MAX:
        return KEY_INVALID
    key_range(&op.key, &nothing, &range_)
    if not key_range_allows(door, call, RIGHT_WRITE | (RIGHT_READ if op.flags & OP_WANT_PREVIOUS else 0), &range_):
        return PERMISSION_DENIED
    return OK


# A read whose result nobody looks at.
cdef void _nothing(Op* op, const Bytes* key) noexcept nogil:
    op.kind = OP_GET
    op.flags = 0
    op.key = bytes_of(key.data, min(key.length, <uint32_t>KEY_BYTES_MAX))
    op.end = bytes_of(NULL, 0)


# The machine's bounds of a range. A bound that is longer than any key is refused, as a key is.
cdef status_t _bounds(const KeyRange* range_, Op* op) noexcept nogil:
    if range_.start.length > KEY_BYTES_MAX or range_.end.length > KEY_BYTES_MAX:
        return KEY_INVALID
    op.key = range_.start
    op.end = range_.end
    return OK


cdef status_t _delete(EtcdDoor* door, EtcdCall* call, const Bytes* message, Op* op) noexcept nogil:
    cdef PbReader reader = pb_reader(message)
    cdef Bytes key = bytes_of(NULL, 0)
    cdef Bytes range_end = bytes_of(NULL, 0)
    cdef KeyRange range_
    while pb_next(&reader):
        if reader.field == 1:
            key = reader.bytes
        elif reader.field == 2:
            range_end = reader.bytes
        elif reader.field == 3 and reader.number:
            op.flags |= OP_WANT_PREVIOUS
    key_range(&key, &range_end, &range_)
    if not key_range_allows(door, call, RIGHT_WRITE | (RIGHT_READ if op.flags & OP_WANT_PREVIOUS else 0), &range_):
        return PERMISSION_DENIED
    if range_.is_empty:
        _nothing(op, &key)
        return OK
    op.kind = OP_DELETE if range_.is_key else OP_DELETE_RANGE
    return _bounds(&range_, op)


cdef status_t _range(EtcdDoor* door, EtcdCall* call, const Bytes* message, Op* op) noexcept nogil:
    cdef RangeAsked asked
    cdef uint64_t revision
    cdef uint64_t newest
    range_read(message, &asked)
    if not key_range_allows(door, call, RIGHT_READ, &asked.range):
        return PERMISSION_DENIED
    if asked.revision > 0:
        newest = desk_pin_newest(&door.desk)
        _nothing(op, &asked.key)
        return range_revision(door, &asked, newest, &revision) if door.desk.pinned != NULL else <status_t>NOT_READY
    if asked.range.is_empty:
        _nothing(op, &asked.key)
        return OK
    op.kind = OP_GET if asked.range.is_key else OP_RANGE
    return _bounds(&asked.range, op)


# --- compares ---------------------------------------------------------------------------------------------------------
cdef struct CompareAsked:
    uint32_t result
    uint32_t target
    Bytes key
    Bytes range_end
    Bytes value
    int64_t number


cdef void _read_compare(const Bytes* message, CompareAsked* asked) noexcept nogil:
    cdef PbReader reader = pb_reader(message)
    cdef uint32_t given = 0
    memset(asked, 0, sizeof(CompareAsked))
    while pb_next(&reader):
        if reader.field == 1:
            asked.result = <uint32_t>reader.number
        elif reader.field == 2:
            asked.target = <uint32_t>reader.number
        elif reader.field == 3:
            asked.key = reader.bytes
        elif 4 <= reader.field <= 8:    # a oneof, in the order of targets
            given = reader.field - 4
            asked.value = reader.bytes
            asked.number = <int64_t>reader.number
        elif reader.field == 64:
            asked.range_end = reader.bytes
    if given != asked.target:
        asked.value = bytes_of(NULL, 0)
        asked.number = 0


# A revision of etcd is the node's and one; that of a key that is not there is 0 on both sides. No key has revision 1.
cdef void _revision(Compare* compare, int64_t number) noexcept nogil:
    if number > 1 or (number == 1 and compare.result == COMPARE_LESS):
        compare.number = <uint64_t>number - (number > 1)
    elif number == 1:
        compare.number = 0 if compare.result == COMPARE_GREATER else number_max()
    _negative(compare, number)


# Nothing of a key is below 0.
cdef void _negative(Compare* compare, int64_t number) noexcept nogil:
    if number >= 0:
        return
    compare.number = 0
    if compare.result == COMPARE_EQUAL:
        compare.number = number_max()
    elif compare.result == COMPARE_GREATER or compare.result == COMPARE_NOT_EQUAL:
        compare.result = COMPARE_NOT_EQUAL
        compare.number = number_max()


# Each version and revision is above 0, so comparing those of all keys with 0 tells whether there is a key. The machine
# knows that at any level, and without looking at all keys.
cdef bint _asks_for_any(const CompareAsked* asked, const KeyRange* range_) noexcept nogil:
    return (asked.target in (TARGET_VERSION, TARGET_CREATE, TARGET_MOD) and asked.number == 0
            and asked.result != RESULT_LESS and not range_.is_empty)


cdef status_t _range_compare(EtcdDoor* door, const CompareAsked* asked, const KeyRange* range_,
                             Compare* compare) noexcept nogil:
    if range_.start.length > KEY_BYTES_MAX or range_.end.length > KEY_BYTES_MAX:
        return KEY_INVALID
    compare.key = range_.start
    compare.end = range_.end
    if _asks_for_any(asked, range_):
        compare.target = COMPARE_RANGE_EMPTY
        compare.result = COMPARE_EQUAL if asked.result == RESULT_EQUAL else COMPARE_NOT_EQUAL
        return OK
    if door.desk.status.machine.feature_level < LEVEL_OF_RANGE_COMPARES:
        return COMMAND_INVALID
    _target(asked, compare)
    compare.target |= COMPARE_OF_ALL
    return OK


cdef status_t _compare(EtcdDoor* door, EtcdCall* call, const Bytes* message, Compare* compare) noexcept nogil:
    cdef CompareAsked asked
    cdef KeyRange range_
    _read_compare(message, &asked)
    memset(compare, 0, sizeof(Compare))
    if asked.result > RESULT_NOT_EQUAL or asked.target > TARGET_LEASE:
        return COMMAND_INVALID
    key_range(&asked.key, &asked.range_end, &range_)
    if not key_range_allows(door, call, RIGHT_READ, &range_):
        return PERMISSION_DENIED
    compare.result = (COMPARE_EQUAL if asked.result == RESULT_EQUAL else COMPARE_GREATER
                      if asked.result == RESULT_GREATER else COMPARE_LESS
                      if asked.result == RESULT_LESS else COMPARE_NOT_EQUAL)
    if not range_.is_key:
        return _range_compare(door, &asked, &range_, compare)
    if asked.key.length > KEY_BYTES_MAX:
        return KEY_INVALID
    compare.key = asked.key
    _target(&asked, compare)
    return OK


cdef void _target(const CompareAsked* asked, Compare* compare) noexcept nogil:
    if asked.target == TARGET_VALUE:
        compare.target = COMPARE_VALUE
        compare.value = asked.value
        return
    compare.number = <uint64_t>asked.number
    if asked.target == TARGET_LEASE:
        compare.target = COMPARE_LEASE
        _negative(compare, asked.number)
    elif asked.target == TARGET_VERSION:
        compare.target = COMPARE_VERSION
        _negative(compare, asked.number)
    else:
        compare.target = COMPARE_CREATE_REVISION if asked.target == TARGET_CREATE else COMPARE_MOD_REVISION
        _revision(compare, asked.number)


# --- transactions -----------------------------------------------------------------------------------------------------
cdef uint32_t _count(const Bytes* txn, uint32_t list) noexcept nogil:
    cdef PbReader reader = pb_reader(txn)
    cdef uint32_t count = 0
    while pb_next(&reader):
        count += reader.field == list
    return count


# The arenas grow while nested transactions are read, so nothing points into them.
cdef status_t _op(EtcdDoor* door, EtcdCall* call, const Bytes* message, uint32_t position) noexcept nogil:
    cdef PbReader reader = pb_reader(message)
    cdef uint32_t field = 0
    cdef Bytes inner = bytes_of(NULL, 0)
    cdef Op op
    cdef status_t status = COMMAND_INVALID
    memset(&op, 0, sizeof(Op))
    while pb_next(&reader):
        if REQUEST_RANGE <= reader.field <= REQUEST_TXN:
            field = reader.field
            inner = reader.bytes
    if field == REQUEST_RANGE:
        status = _range(door, call, &inner, &op)
    elif field == REQUEST_PUT:
        status = _put(door, call, &inner, &op)
    elif field == REQUEST_DELETE:
        status = _delete(door, call, &inner, &op)
    elif field == REQUEST_TXN:
        op.kind = OP_TXN
        op.txn = <uint32_t>door.desk.command.txns.size
        status = _txn(door, call, &inner)
    door.desk.command.ops.data[position] = op
    return status


cdef status_t _list(EtcdDoor* door, EtcdCall* call, const Bytes* txn, uint32_t list, uint32_t first) noexcept nogil:
    cdef PbReader reader = pb_reader(txn)
    cdef status_t status = OK
    cdef uint32_t position = first
    while status == OK and pb_next(&reader):
        if reader.field == list:
            status = _op(door, call, &reader.bytes, position)
            position += 1
    return status


cdef status_t _txn(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil:
    cdef Command* command = &door.desk.command
    cdef PbReader reader = pb_reader(message)
    cdef Compare compare
    cdef Txn txn
    cdef status_t status = OK
    memset(&txn, 0, sizeof(Txn))
    txn.compare_first = <uint32_t>command.compares.size
    while status == OK and pb_next(&reader):
        if reader.field == TXN_COMPARE:
            status = _compare(door, call, &reader.bytes, &compare)
            if status == OK and not command.compares.push(compare):
                status = NO_MEMORY
            txn.compare_count += 1
    txn.then_count = _count(message, TXN_SUCCESS)
    txn.else_count = _count(message, TXN_FAILURE)
    txn.then_first = <uint32_t>command.ops.size
    txn.else_first = txn.then_first + txn.then_count
    if status != OK:
        return status
    if not command.txns.push(txn) or not command.ops.resize(txn.else_first + txn.else_count):
        return NO_MEMORY
    status = _list(door, call, message, TXN_SUCCESS, txn.then_first)
    return _list(door, call, message, TXN_FAILURE, txn.else_first) if status == OK else status


cdef status_t encode_txn(EtcdDoor* door, EtcdCall* call, const Bytes* txn) noexcept nogil:
    command_clear(&door.desk.command)
    door.desk.command.kind = COMMAND_KEYS
    return _txn(door, call, txn)


# A transaction of one operation.
cdef Op* _alone(EtcdDoor* door) noexcept nogil:
    cdef Txn txn
    memset(&txn, 0, sizeof(Txn))
    txn.then_count = 1
    command_clear(&door.desk.command)
    door.desk.command.kind = COMMAND_KEYS
    if not door.desk.command.txns.push(txn) or not door.desk.command.ops.resize(1):
        return NULL
    memset(door.desk.command.ops.data, 0, sizeof(Op))
    return door.desk.command.ops.data


cdef status_t encode_put(EtcdDoor* door, EtcdCall* call, const Bytes* asked) noexcept nogil:
    cdef Op* op = _alone(door)
    return _put(door, call, asked, op) if op != NULL else <status_t>NO_MEMORY


cdef status_t encode_delete(EtcdDoor* door, EtcdCall* call, const Bytes* asked) noexcept nogil:
    cdef Op* op = _alone(door)
    return _delete(door, call, asked, op) if op != NULL else <status_t>NO_MEMORY
