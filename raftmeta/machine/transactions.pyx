"""Transactions: bodies.

A frame is a list of operations under way; a nested transaction puts a frame on top, so that evaluation can pause
between any two operations. Compares of a nested transaction see what was written before it (etcd evaluates all
compares first, and refuses a key written twice; here order decides). A refusal discards plan and result, so a
failing operation may leave its planned change half made.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from raftmeta.machine.entry cimport ENTRY_COUNTER, ENTRY_GUARDED, ENTRY_RECORDS, ENTRY_ZNODE
from raftmeta.machine.leases cimport leases_reserve
from raftmeta.machine.plan cimport (Planned, compare_bytes, plan_delete, plan_put, plan_range, plan_touch, plan_view,
                                    planned_is_live, planned_view)
from raftmeta.native.intrinsics cimport big64
from raftmeta.native.marks cimport MARK_ZNODE_WRITE_REFUSED, mark
from raftmeta.status cimport (COMMAND_INVALID, COMPARE_FAILED, GROUP_WRITE, KEY_EXISTS, KEY_MISSING, NO_MEMORY,
                              NOT_A_NUMBER, NUMBER_OVERFLOW, OK, RECORDS_WRITE, TOO_MANY_CHANGES, VALUE_TOO_LARGE,
                              ZNODE_WRITE)
from raftmeta.wire.commands cimport (CHANGES_MAX, COMPARE_CREATE_REVISION, COMPARE_EQUAL, COMPARE_LESS,
                                     COMPARE_MOD_REVISION, COMPARE_NOT_EQUAL, COMPARE_OF_ALL, COMPARE_RANGE_EMPTY,
                                     COMPARE_VALUE, COMPARE_VERSION, NUMBER_DIGITS, OP_ADD, OP_CREATE, OP_DELETE,
                                     OP_DELETE_RANGE, OP_GET, OP_KEEP_LEASE, OP_KEEP_VALUE, OP_KEY_FROM_RESULT,
                                     OP_MUST_EXIST, OP_PUT, OP_RANGE, OP_TXN, OP_UPDATE, OP_WANT_PREVIOUS, Bytes,
                                     Compare, Op, Txn,
                                     result_array, result_bool, result_key, result_nil, result_number, result_unsigned)

cdef enum:
    COUNTER_BYTES = 8


cdef void transaction_release(Transaction* transaction) noexcept nogil:
    transaction.body.release()
    transaction.numbers.release()
    transaction.views.release()

cdef status_t transaction_begin(Transaction* transaction, const Command* command, Plan* plan, Leases* leases,
                                uint32_t value_bytes_max, uint64_t index) noexcept nogil:
    transaction.command = command
    transaction.plan = plan
    transaction.leases = leases
    transaction.value_bytes_max = value_bytes_max
    transaction.index = index
    transaction.body.clear()
    transaction.depth = 0
    transaction.refused = 0
    transaction.compared = 0
    if not _reserve(transaction):
        return NO_MEMORY
    return _enter(transaction, 0)

# Keys and counters that the transaction makes up stand in plan.scratch, which must not move while they are pointed to.
cdef bint _reserve(Transaction* transaction) noexcept nogil:
    cdef const Command* command = transaction.command
    cdef size_t bytes = 0
    cdef size_t i
    for i in range(command.ops.size):
        if command.ops.data[i].kind == OP_ADD:
            bytes += COUNTER_BYTES
        if command.ops.data[i].flags & OP_KEY_FROM_RESULT:
            bytes += command.ops.data[i].key.length + NUMBER_DIGITS
    if bytes == 0:
        return True
    return transaction.plan.scratch.reserve(bytes) and transaction.numbers.resize(command.ops.size)

cdef status_t transaction_step(Transaction* transaction, uint32_t keys_max, bint* done) noexcept nogil:
    cdef uint32_t keys = 0
    cdef TxnFrame* frame
    cdef uint32_t position
    cdef status_t status
    done[0] = False
    while transaction.depth > 0:
        frame = &transaction.frames[transaction.depth - 1]
        if frame.next == frame.end:
            transaction.depth -= 1
            continue
        if keys >= keys_max:
            return OK
        position = frame.next
        frame.next += 1
        transaction.views.clear()
        status = _run(transaction, &transaction.command.ops.data[position], position, frame.first)
        if status == OK and transaction.body.size > FORMAT_RESULT_BYTES_MAX:
            status = VALUE_TOO_LARGE
        if status != OK:
            transaction.refused = position
            return status
        keys += 1 + <uint32_t>transaction.views.size
    done[0] = True
    return OK


# --- compares ---------------------------------------------------------------------------------------------------------
# Evaluate the compares of a transaction and put the list they choose on top.
cdef status_t _enter(Transaction* transaction, uint32_t position) noexcept nogil:
    cdef const Txn* txn = &transaction.command.txns.data[position]
    cdef TxnFrame* frame = &transaction.frames[transaction.depth]
    cdef bint succeeded = True
    cdef status_t status
    cdef uint32_t i
    for i in range(txn.compare_count):
        status = _compare(transaction, &transaction.command.compares.data[txn.compare_first + i], &succeeded)
        if status != OK:
            return status
        if not succeeded:
            break
    frame.first = txn.then_first if succeeded else txn.else_first
    frame.next = frame.first
    frame.end = frame.first + (txn.then_count if succeeded else txn.else_count)
    transaction.depth += 1
    if (result_array(&transaction.body, 2) != OK or result_bool(&transaction.body, succeeded) != OK
            or result_array(&transaction.body, frame.end - frame.first) != OK):
        return NO_MEMORY
    return OK

cdef status_t _compare(Transaction* transaction, const Compare* compare, bint* holds) noexcept nogil:
    cdef KeyView view
    cdef bint exists
    if compare.target == COMPARE_RANGE_EMPTY:
        return _compare_range(transaction, compare, holds)
    if compare.target & COMPARE_OF_ALL:
        return _compare_all(transaction, compare, holds)
    exists = plan_view(transaction.plan, &compare.key, &view)
    holds[0] = _view_agrees(compare, &view if exists else NULL)
    return OK

# view NULL: there is no such key. Of its value nothing can be said (as in etcd): its version is 0.
cdef bint _view_agrees(const Compare* compare, const KeyView* view) noexcept nogil:
    cdef uint8_t target = compare.target & ~<uint8_t>COMPARE_OF_ALL
    if target == COMPARE_VALUE:
        return view != NULL and _agrees(compare.result, compare_bytes(
            view.value.data, view.value.length, compare.value.data, compare.value.length))
    return _agrees(compare.result, _order(_number_of(target, view) if view != NULL else 0, compare.number))

# Source: etcd server/etcdserver/txn txn.go applyCompare. All compares of an entry together look at CHANGES_MAX keys,
# because nothing pauses between them.
cdef status_t _compare_all(Transaction* transaction, const Compare* compare, bint* holds) noexcept nogil:
    cdef uint32_t left = CHANGES_MAX - transaction.compared
    cdef uint32_t count = 0
    cdef status_t status
    cdef size_t i
    transaction.views.clear()
    status = plan_range(transaction.plan, &compare.key, &compare.end, left, left + 1, &transaction.views, &count)
    if status == OK and count > left:
        status = TOO_MANY_CHANGES
    transaction.compared += <uint32_t>transaction.views.size
    holds[0] = status == OK and (count != 0 or _view_agrees(compare, NULL))
    for i in range(transaction.views.size):
        holds[0] = holds[0] and _view_agrees(compare, &transaction.views.data[i])
    return status

cdef status_t _compare_range(Transaction* transaction, const Compare* compare, bint* holds) noexcept nogil:
    cdef uint32_t count
    cdef status_t status = plan_range(transaction.plan, &compare.key, &compare.end, 0, 1, &transaction.views, &count)
    holds[0] = (count == 0) == (compare.result == COMPARE_EQUAL)
    return status

cdef inline uint64_t _number_of(uint8_t target, const KeyView* view) noexcept nogil:
    if target == COMPARE_VERSION:
        return view.version
    if target == COMPARE_CREATE_REVISION:
        return view.create_revision
    if target == COMPARE_MOD_REVISION:
        return view.mod_revision
    return view.lease

cdef inline int _order(uint64_t left, uint64_t right) noexcept nogil:
    return (left > right) - (left < right)

cdef inline bint _agrees(uint8_t wanted, int order) noexcept nogil:
    if wanted == COMPARE_EQUAL:
        return order == 0
    if wanted == COMPARE_NOT_EQUAL:
        return order != 0
    return order < 0 if wanted == COMPARE_LESS else order > 0


# --- operations -------------------------------------------------------------------------------------------------------
cdef status_t _run(Transaction* transaction, const Op* op, uint32_t position, uint32_t first) noexcept nogil:
    if op.kind == OP_PUT or op.kind == OP_CREATE or op.kind == OP_UPDATE:
        return _put(transaction, op, first)
    if op.kind == OP_GET:
        return _get(transaction, op)
    if op.kind == OP_DELETE:
        return _delete(transaction, op)
    if op.kind == OP_ADD:
        return _add(transaction, op, position)
    if op.kind == OP_RANGE:
        return _range(transaction, op)
    if op.kind == OP_DELETE_RANGE:
        return _delete_range(transaction, op)
    if op.kind == OP_TXN:
        return _enter(transaction, op.txn)
    return COMMAND_INVALID

cdef status_t _put(Transaction* transaction, const Op* op, uint32_t first) noexcept nogil:
    cdef Bytes key = op.key
    cdef Planned* planned = NULL
    cdef uint64_t lease
    cdef status_t status = OK
    if op.value.length > transaction.value_bytes_max:
        return VALUE_TOO_LARGE
    if op.flags & OP_KEY_FROM_RESULT:
        status = _key_from_result(transaction, op, first, &key)
    if status == OK:
        status = plan_touch(transaction.plan, &key, &planned)
    if status == OK:
        status = _may_put(op, planned)
    if status != OK:
        return status
    lease = planned.lease if op.flags & OP_KEEP_LEASE else op.lease
    if lease != 0 and lease != planned.lease:
        status = leases_reserve(transaction.leases, lease, transaction.index)
        if status != OK:
            return status
    status = _previous(transaction, op, planned)
    if op.flags & OP_KEEP_VALUE:
        plan_put(transaction.plan, planned, &planned.value, lease, planned.flags)
    else:
        plan_put(transaction.plan, planned, &op.value, lease, 0)
    return status

cdef inline status_t _guarded(uint32_t flags) noexcept nogil:
    if flags & ENTRY_ZNODE:
        mark(MARK_ZNODE_WRITE_REFUSED)
        return ZNODE_WRITE
    return RECORDS_WRITE if flags & ENTRY_RECORDS else GROUP_WRITE

cdef inline status_t _may_put(const Op* op, const Planned* planned) noexcept nogil:
    if not planned_is_live(planned):
        return KEY_MISSING if op.kind == OP_UPDATE or op.flags & OP_KEEP_VALUE else OK
    if op.kind == OP_CREATE:
        return KEY_EXISTS
    if planned.flags & ENTRY_GUARDED:
        return _guarded(planned.flags)
    if op.expected_revision != 0 and op.expected_revision != planned.mod_revision:
        return COMPARE_FAILED
    return OK

# The result of a put: the record before it on request, else nil.
cdef inline status_t _previous(Transaction* transaction, const Op* op, const Planned* planned) noexcept nogil:
    cdef KeyView view
    if not op.flags & OP_WANT_PREVIOUS or not planned_is_live(planned):
        return result_nil(&transaction.body)
    planned_view(planned, &view)
    return result_key(&transaction.body, &view)

# The key with the number of an earlier addition behind it, in as many digits as keep the order of numbers.
cdef status_t _key_from_result(Transaction* transaction, const Op* op, uint32_t first, Bytes* key) noexcept nogil:
    cdef Vec[uint8_t]* scratch = &transaction.plan.scratch
    cdef int64_t number = transaction.numbers.data[first + op.result_from]
    cdef uint8_t* digits
    cdef int i
    if number < 0:
        return NUMBER_OVERFLOW      # digits have no order below zero
    key.data = scratch.data + scratch.size
    key.length = op.key.length + NUMBER_DIGITS
    memcpy(scratch.data + scratch.size, op.key.data, op.key.length)
    digits = scratch.data + scratch.size + op.key.length
    for i in range(NUMBER_DIGITS - 1, -1, -1):
        digits[i] = <uint8_t>(48 + number % 10)
        number //= 10
    scratch.size += key.length
    return OK

cdef status_t _get(Transaction* transaction, const Op* op) noexcept nogil:
    cdef KeyView view
    if not plan_view(transaction.plan, &op.key, &view):
        return result_nil(&transaction.body)
    return result_key(&transaction.body, &view)

# How many keys were deleted; the record instead (nil: there was none), if asked for. Only what is there is touched: the
# change records stand in the order of the first write.
cdef status_t _delete(Transaction* transaction, const Op* op) noexcept nogil:
    cdef Vec[uint8_t]* body = &transaction.body
    cdef Planned* planned = NULL
    cdef KeyView view
    cdef bint exists = plan_view(transaction.plan, &op.key, &view)
    cdef status_t status
    if not exists and op.flags & OP_MUST_EXIST:
        return KEY_MISSING
    if exists and view.flags & ENTRY_GUARDED:
        return _guarded(view.flags)
    if op.expected_revision != 0 and (not exists or op.expected_revision != view.mod_revision):
        return COMPARE_FAILED
    if not op.flags & OP_WANT_PREVIOUS:
        status = result_unsigned(body, exists)
    else:
        status = result_key(body, &view) if exists else result_nil(body)
    if status == OK and exists:
        status = plan_touch(transaction.plan, &op.key, &planned)
        if status == OK:
            plan_delete(transaction.plan, planned)
    return status

cdef status_t _add(Transaction* transaction, const Op* op, uint32_t position) noexcept nogil:
    cdef Planned* planned = NULL
    cdef int64_t number = 0
    cdef Bytes value
    cdef status_t status = plan_touch(transaction.plan, &op.key, &planned)
    if status != OK:
        return status
    if planned_is_live(planned):
        if planned.flags & ENTRY_GUARDED:
            return _guarded(planned.flags)
        if not planned.flags & ENTRY_COUNTER:
            return NOT_A_NUMBER
        number = <int64_t>big64(planned.value.data)
    if not _add_checked(&number, op.number):
        return NUMBER_OVERFLOW
    transaction.numbers.data[position] = number
    _counter_value(transaction, number, &value)
    plan_put(transaction.plan, planned, &value, planned.lease, ENTRY_COUNTER)
    return result_number(&transaction.body, number)

cdef extern from *:
    bint overflows "__builtin_add_overflow"(int64_t left, int64_t right, int64_t* total) nogil

cdef inline bint _add_checked(int64_t* number, int64_t amount) noexcept nogil:
    return not overflows(number[0], amount, number)

cdef void _counter_value(Transaction* transaction, int64_t number, Bytes* value) noexcept nogil:
    cdef Vec[uint8_t]* scratch = &transaction.plan.scratch
    cdef uint64_t big = big64(&number)
    memcpy(scratch.data + scratch.size, &big, COUNTER_BYTES)
    value.data = scratch.data + scratch.size
    value.length = COUNTER_BYTES
    scratch.size += COUNTER_BYTES

# [records, more]. Nothing is looked at beyond the limit but whether there is more; without one the answer must be
# whole.
cdef status_t _range(Transaction* transaction, const Op* op) noexcept nogil:
    cdef uint32_t count
    cdef uint32_t most = min(op.limit, <uint32_t>CHANGES_MAX) if op.limit else CHANGES_MAX
    cdef status_t status = plan_range(transaction.plan, &op.key, &op.end, most, most + 1, &transaction.views, &count)
    if status == OK and count > most and most != op.limit:
        status = TOO_MANY_CHANGES
    if status == OK:
        status = result_array(&transaction.body, 2)
    if status == OK:
        status = _records(transaction)
    return result_bool(&transaction.body, count > most) if status == OK else status

# How many; with [count, records] of what was there, if asked for.
cdef status_t _delete_range(Transaction* transaction, const Op* op) noexcept nogil:
    cdef Planned* planned = NULL
    cdef uint32_t count
    cdef size_t i
    cdef status_t status = plan_range(transaction.plan, &op.key, &op.end, CHANGES_MAX, CHANGES_MAX + 1,
                                      &transaction.views, &count)
    if status == OK and count > CHANGES_MAX:
        status = TOO_MANY_CHANGES
    if status == OK and op.flags & OP_WANT_PREVIOUS:
        status = result_array(&transaction.body, 2)
    if status == OK:
        status = result_unsigned(&transaction.body, count)
    if status == OK and op.flags & OP_WANT_PREVIOUS:
        status = _records(transaction)
    for i in range(transaction.views.size):
        if status == OK and transaction.views.data[i].flags & ENTRY_GUARDED:
            status = _guarded(transaction.views.data[i].flags)
        if status == OK:
            status = plan_touch(transaction.plan, &transaction.views.data[i].key, &planned)
        if status != OK:
            return status
        plan_delete(transaction.plan, planned)
    return status

cdef status_t _records(Transaction* transaction) noexcept nogil:
    cdef Vec[uint8_t]* body = &transaction.body
    cdef uint32_t records = <uint32_t>transaction.views.size
    cdef uint32_t i
    if result_array(body, records) != OK:
        return NO_MEMORY
    for i in range(records):
        if body.size > FORMAT_RESULT_BYTES_MAX:
            return VALUE_TOO_LARGE
        if result_key(body, &transaction.views.data[i]) != OK:
            return NO_MEMORY
    return OK
