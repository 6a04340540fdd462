"""Bodies of commands.pxd.

A single operation is encoded from an Op on the stack, without a Command and without an allocation. A result is read
by the shapes of docs/formats.md "Results", which tell themselves apart: seven elements that begin with a bin are a
key record, two that begin with a boolean a transaction, two that begin with a number a range.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.native.containers cimport Vec
from raftmeta.status cimport BAD_FIELD, NO_MEMORY, OK, VALUE_TOO_LARGE, status_t
from raftmeta.wire cimport commands as wire
from raftmeta.wire.commands cimport (COMMAND_BYTES_MAX, COMMAND_KEYS, COMPARE_EQUAL, COMPARE_GREATER, COMPARE_LEASE,
                                     COMPARE_NOT_EQUAL, COMPARE_RANGE_EMPTY, COMPARE_VALUE, COMPARE_VERSION,
                                     KEY_BYTES_MAX, NUMBER_DIGITS, OP_ADD, OP_CREATE, OP_DELETE, OP_DELETE_RANGE,
                                     OP_GET, OP_KEEP_LEASE, OP_KEEP_VALUE, OP_KEY_FROM_RESULT, OP_MUST_EXIST, OP_PUT,
                                     OP_RANGE, OP_TXN, OP_UPDATE, OP_WANT_PREVIOUS, OPS_MAX, TXN_DEPTH_MAX, Bytes,
                                     Command, Op)
from raftmeta.wire.msgpack cimport (MSGPACK_ARRAY16, MSGPACK_ARRAY32, MSGPACK_BIN8, MSGPACK_BIN32, MSGPACK_FALSE,
                                    MSGPACK_FIXED_ARRAY, MSGPACK_INT8, MSGPACK_INT64, MSGPACK_NEGATIVE_FIXED,
                                    MSGPACK_TRUE, Reader, number_max, read_array, read_array_max, read_bin, read_bool,
                                    read_fail, read_int, read_left, read_nil, read_peek, read_uint, reader_over,
                                    unsigned_max)

from raftmeta import operations
from raftmeta.errors import InvalidArgument, InvariantBroken

cdef enum:
    KEY_RECORD_ELEMENTS = 7     # key, value, create, mod, version, lease, flags; of a znode its extension behind
    ZNODE_META_BYTES = 64       # at the end of the extension, behind a list of rights
    RESULT_DEPTH_MAX = 2 * TXN_DEPTH_MAX + 4    # nested transactions and their lists, a range and its records

cdef object _Put = operations.Put
cdef object _Create = operations.Create
cdef object _Update = operations.Update
cdef object _Delete = operations.Delete
cdef object _DeleteRange = operations.DeleteRange
cdef object _Get = operations.Get
cdef object _Range = operations.Range
cdef object _Add = operations.Add
cdef object _Txn = operations.Txn
cdef object _Compare = operations.Compare
cdef object _RangeEmpty = operations.RangeEmpty
cdef object _Fence = operations.Fence
cdef object _KeyRecord = operations.KeyRecord
cdef object _RangeResult = operations.RangeResult
cdef object _TxnResult = operations.TxnResult


# --- arguments --------------------------------------------------------------------------------------------------------
cdef object _invalid(str field, str what):
    return InvalidArgument(f"{field}: {what}", field=field)

cdef int _take_bytes(object value, str field, Bytes* into) except -1:
    cdef Py_ssize_t length
    if isinstance(value, bytes):
        into.data = <const uint8_t*>PyBytes_AS_STRING(value)
        length = PyBytes_GET_SIZE(value)
    elif isinstance(value, str):
        try:
            # The text is kept in the str itself and lives as long.
            into.data = <const uint8_t*>PyUnicode_AsUTF8AndSize(value, &length)
        except UnicodeEncodeError as error:
            raise _invalid(field, "has no UTF-8 form") from error
    else:
        raise _invalid(field, f"must be bytes or str, not {type(value).__name__}")
    if length > 0x7fffffff:
        raise _invalid(field, f"has {length} bytes")
    into.length = <uint32_t>length
    return 0

cdef int take_bound(object bound, str field, Bytes* into) except -1:
    _take_bytes(bound, field, into)
    if into.length > KEY_BYTES_MAX:
        raise _invalid(field, f"has {into.length} bytes, at most {KEY_BYTES_MAX} are allowed")
    return 0

cdef int take_page(object bound, str field, Bytes* into) except -1:
    _take_bytes(bound, field, into)
    if into.length == KEY_BYTES_MAX + 1 and into.data[KEY_BYTES_MAX] == 0:
        return 0
    return take_bound(bound, field, into)

cdef int take_key(object key, str field, Bytes* into) except -1:
    take_bound(key, field, into)
    if into.length == 0:
        raise _invalid(field, "is empty")
    return 0

cdef int take_value(object value, str field, uint32_t most, Bytes* into) except -1:
    _take_bytes(value, field, into)
    if into.length > most:
        raise _invalid(field, f"has {into.length} bytes, at most {most} are allowed")
    return 0

cdef int take_number(object number, str field, uint64_t most, uint64_t* into) except -1:
    if not isinstance(number, int) or isinstance(number, bool):
        raise _invalid(field, f"must be an int, not {type(number).__name__}")
    try:
        into[0] = number
    except OverflowError:
        raise _invalid(field, f"is {number}, must be 0 to {most}") from None
    if into[0] > most:
        raise _invalid(field, f"is {number}, must be 0 to {most}")
    return 0

cdef int _take_signed(object number, str field, int64_t* into) except -1:
    if not isinstance(number, int) or isinstance(number, bool):
        raise _invalid(field, f"must be an int, not {type(number).__name__}")
    try:
        into[0] = number
    except OverflowError:
        raise _invalid(field, f"is {number}, must be a signed 64-bit number") from None
    return 0

cdef int take_fence(object fence, wire.Fence* into) except -1:
    memset(into, 0, sizeof(wire.Fence))
    if fence is None:
        return 0
    if type(fence) is not _Fence:
        raise _invalid("fence", f"must be a Fence, not {type(fence).__name__}")
    take_key(fence.key, "fence.key", &into.key)
    take_number(fence.create_revision, "fence.create_revision", number_max(), &into.create_revision)
    if into.create_revision == 0:
        raise _invalid("fence.create_revision", "is 0: no key has it")
    into.is_present = True
    return 0


# --- operations -------------------------------------------------------------------------------------------------------
cdef int take_operation(object operation, uint32_t value_bytes_max, Op* into) except -1:
    kind = type(operation)
    memset(into, 0, sizeof(Op))
    if kind is _Put:
        into.kind = OP_PUT
        _take_write(operation, value_bytes_max, into)
        _take_number_from(operation.number_from, into)
    elif kind is _Create:
        into.kind = OP_CREATE
        take_key(operation.key, "key", &into.key)
        take_value(operation.value, "value", value_bytes_max, &into.value)
        take_number(operation.lease, "lease", unsigned_max(), &into.lease)
        _take_number_from(operation.number_from, into)
    elif kind is _Update:
        into.kind = OP_UPDATE
        _take_write(operation, value_bytes_max, into)
        take_number(operation.expected_revision, "expected_revision", number_max(), &into.expected_revision)
    elif kind is _Delete:
        into.kind = OP_DELETE
        take_key(operation.key, "key", &into.key)
        take_number(operation.expected_revision, "expected_revision", number_max(), &into.expected_revision)
        _take_flag(operation.must_exist, "must_exist", OP_MUST_EXIST, into)
        _take_flag(operation.previous, "previous", OP_WANT_PREVIOUS, into)
    elif kind is _Get:
        into.kind = OP_GET
        take_key(operation.key, "key", &into.key)
    elif kind is _Add:
        into.kind = OP_ADD
        take_key(operation.key, "key", &into.key)
        _take_signed(operation.number, "number", &into.number)
    else:
        _take_range_operation(operation, kind, into)
    return 0

cdef int _take_range_operation(object operation, object kind, Op* into) except -1:
    cdef uint64_t limit
    if kind is not _Range and kind is not _DeleteRange:
        raise _invalid("operation", f"{kind.__name__} is not an operation")
    take_bound(operation.start, "start", &into.key)
    take_bound(operation.end, "end", &into.end)
    if kind is _Range:
        into.kind = OP_RANGE
        take_number(operation.limit, "limit", ~<uint32_t>0, &limit)
        into.limit = <uint32_t>limit
    else:
        into.kind = OP_DELETE_RANGE
        _take_flag(operation.previous, "previous", OP_WANT_PREVIOUS, into)
    return 0

# The fields that Put and Update have in common: None leaves the value or the lease as it is.
cdef int _take_write(object operation, uint32_t value_bytes_max, Op* into) except -1:
    take_key(operation.key, "key", &into.key)
    if operation.value is None:
        into.flags |= OP_KEEP_VALUE
    else:
        take_value(operation.value, "value", value_bytes_max, &into.value)
    if operation.lease is None:
        into.flags |= OP_KEEP_LEASE
    else:
        take_number(operation.lease, "lease", unsigned_max(), &into.lease)
    _take_flag(operation.previous, "previous", OP_WANT_PREVIOUS, into)
    return 0

cdef int _take_flag(object value, str field, uint8_t flag, Op* into) except -1:
    if value is True:
        into.flags |= flag
    elif value is not False:
        raise _invalid(field, f"must be a bool, not {type(value).__name__}")
    return 0

cdef int _take_number_from(object position, Op* into) except -1:
    cdef uint64_t number
    if position is None:
        return 0
    take_number(position, "number_from", 0xffff, &number)
    if into.key.length > KEY_BYTES_MAX - NUMBER_DIGITS:
        raise _invalid("key", f"has {into.key.length} bytes and no room for the {NUMBER_DIGITS} digits of number_from")
    into.result_from = <uint16_t>number
    into.flags |= OP_KEY_FROM_RESULT
    return 0


# --- transactions -----------------------------------------------------------------------------------------------------
# `held` keeps what the windows of the command point into, also when a list came from a generator.
cdef int _take_txn(object txn, uint32_t value_bytes_max, Command* command, uint32_t position, int depth,
                   list held) except -1:
    cdef wire.Txn taken
    if depth > TXN_DEPTH_MAX:
        raise _invalid("operation", f"transactions nest more than {TXN_DEPTH_MAX} deep")
    memset(&taken, 0, sizeof(taken))
    _take_compares(txn.compares, command, &taken.compare_first, &taken.compare_count, held)
    _take_list(txn.then, "then", value_bytes_max, command, &taken.then_first, &taken.then_count, depth, held)
    _take_list(txn.otherwise, "otherwise", value_bytes_max, command, &taken.else_first, &taken.else_count, depth, held)
    command.txns.data[position] = taken
    return 0

cdef tuple _held_tuple(object values, str field, const Command* command, list held):
    try:
        taken = tuple(values)
    except TypeError:
        raise _invalid(field, f"must be a sequence, not {type(values).__name__}") from None
    if command.compares.size + command.ops.size + len(taken) > OPS_MAX:
        raise _invalid(field, f"a transaction has at most {OPS_MAX} operations and compares")
    held.append(taken)
    return taken

cdef int _take_list(object values, str field, uint32_t value_bytes_max, Command* command, uint32_t* first,
                    uint32_t* count, int depth, list held) except -1:
    cdef tuple taken = _held_tuple(values, field, command, held)
    cdef Py_ssize_t i
    cdef Op op
    first[0] = <uint32_t>command.ops.size
    count[0] = <uint32_t>len(taken)
    if not command.ops.resize(first[0] + count[0]):
        raise MemoryError
    for i in range(len(taken)):
        try:
            if type(taken[i]) is _Txn:
                memset(&op, 0, sizeof(Op))
                op.kind = OP_TXN
                op.txn = _take_nested(taken[i], value_bytes_max, command, depth, held)
            else:
                take_operation(taken[i], value_bytes_max, &op)
                _check_number_from(&op, command.ops.data + first[0], i)
        except InvalidArgument as error:
            raise _invalid_at(f"{field}[{i}]", error) from None
        command.ops.data[first[0] + i] = op
    return 0

cdef uint32_t _take_nested(object txn, uint32_t value_bytes_max, Command* command, int depth, list held) except? 0:
    cdef uint32_t position = <uint32_t>command.txns.size
    if not command.txns.resize(position + 1):
        raise MemoryError
    _take_txn(txn, value_bytes_max, command, position, depth + 1, held)
    return position

cdef int _check_number_from(const Op* op, const Op* earlier, Py_ssize_t count) except -1:
    if op.flags & OP_KEY_FROM_RESULT and (op.result_from >= count or earlier[op.result_from].kind != OP_ADD):
        raise _invalid("number_from", f"is {op.result_from}, must be the position of an Add earlier in the same list")
    return 0

cdef object _invalid_at(str where, object error):
    return InvalidArgument(f"{where}.{error}", field=f"{where}.{error.field}")

cdef int _take_compares(object values, Command* command, uint32_t* first, uint32_t* count, list held) except -1:
    cdef tuple taken = _held_tuple(values, "compares", command, held)
    cdef Py_ssize_t i
    first[0] = <uint32_t>command.compares.size
    count[0] = <uint32_t>len(taken)
    if not command.compares.resize(first[0] + count[0]):
        raise MemoryError
    for i in range(len(taken)):
        try:
            _take_compare(taken[i], command.compares.data + first[0] + i)
        except InvalidArgument as error:
            raise _invalid_at(f"compares[{i}]", error) from None
    return 0

cdef int _take_compare(object compare, wire.Compare* into) except -1:
    kind = type(compare)
    if kind is _RangeEmpty:
        into.target = COMPARE_RANGE_EMPTY
        take_bound(compare.start, "start", &into.key)
        take_bound(compare.end, "end", &into.end)
        if not isinstance(compare.is_empty, bool):
            raise _invalid("is_empty", f"must be a bool, not {type(compare.is_empty).__name__}")
        into.result = COMPARE_EQUAL if compare.is_empty else COMPARE_NOT_EQUAL
        return 0
    if kind is not _Compare:
        raise _invalid("compare", f"{kind.__name__} is not a compare")
    into.target = _take_choice(compare.target, "target", COMPARE_VERSION, COMPARE_LEASE)
    into.result = _take_choice(compare.result, "result", COMPARE_EQUAL, COMPARE_GREATER)
    take_key(compare.key, "key", &into.key)
    if into.target == COMPARE_VALUE:
        take_value(compare.operand, "operand", 0x7fffffff, &into.value)
    else:
        take_number(compare.operand, "operand", unsigned_max(), &into.number)
    return 0

cdef uint8_t _take_choice(object number, str field, uint8_t least, uint8_t most) except 0:
    cdef uint64_t value
    take_number(number, field, most, &value)
    if value < least:
        raise _invalid(field, f"is {number}, must be {least} to {most}")
    return <uint8_t>value


# --- whole commands ---------------------------------------------------------------------------------------------------
cdef int check_encoded(status_t status) except -1:
    if status == NO_MEMORY:
        raise MemoryError
    if status == VALUE_TOO_LARGE:
        raise _invalid("operation", f"takes more than {COMMAND_BYTES_MAX} bytes")
    if status != OK:
        raise _invalid("operation", f"refused with status {status}")
    return 0

cdef int append_op(const Op* op, uint64_t session, uint64_t sequence, uint64_t lowest_unanswered,
                   const wire.Fence* fence, Vec[uint8_t]* out) except -1:
    return check_encoded(wire.command_encode_op(op, session, sequence, lowest_unanswered, fence, out))

cdef int append_txn(object compares, object then, object otherwise, uint32_t value_bytes_max, uint64_t session,
                    uint64_t sequence, uint64_t lowest_unanswered, object fence, Vec[uint8_t]* out) except -1:
    cdef Command command
    cdef list held = []
    wire.command_init(&command)
    command.kind = COMMAND_KEYS
    command.session = session
    command.sequence = sequence
    command.lowest_unanswered = lowest_unanswered
    try:
        take_fence(fence, &command.fence)
        if not command.txns.resize(1):
            raise MemoryError
        _take_txn(_Txn(compares, then, otherwise), value_bytes_max, &command, 0, 1, held)
        return check_encoded(wire.command_encode(&command, out))
    finally:
        wire.command_release(&command)


# --- results ----------------------------------------------------------------------------------------------------------
cdef int _check_read(const Reader* reader) except -1:
    if reader.status != OK:
        raise InvariantBroken(f"a result cannot be read (status {reader.status})")
    return 0

cdef bytes _read_bytes(Reader* reader):
    cdef uint32_t length
    cdef const uint8_t* data = read_bin(reader, ~<uint32_t>0, &length)
    _check_read(reader)
    return PyBytes_FromStringAndSize(<const char*>data, length)

cdef object _read_number(Reader* reader):
    cdef uint8_t tag = read_peek(reader)
    if tag >= MSGPACK_NEGATIVE_FIXED or MSGPACK_INT8 <= tag <= MSGPACK_INT64:
        return read_int(reader)
    return read_uint(reader, unsigned_max())

cdef inline bint _is_bin(uint8_t tag) noexcept nogil:
    return MSGPACK_BIN8 <= tag <= MSGPACK_BIN32

cdef inline bint _is_bool(uint8_t tag) noexcept nogil:
    return tag == MSGPACK_FALSE or tag == MSGPACK_TRUE

cdef inline bint _is_array(uint8_t tag) noexcept nogil:
    return (tag & 0xf0) == MSGPACK_FIXED_ARRAY or tag == MSGPACK_ARRAY16 or tag == MSGPACK_ARRAY32

cdef object _read_value(Reader* reader, int depth):
    cdef uint8_t tag = read_peek(reader)
    if read_nil(reader):
        return None
    if _is_bin(tag):
        return _read_bytes(reader)
    if _is_bool(tag):
        return read_bool(reader)
    if _is_array(tag):
        return _read_array(reader, depth)
    value = _read_number(reader)
    _check_read(reader)
    return value

cdef object _read_array(Reader* reader, int depth):
    cdef uint32_t count = read_array_max(reader, ~<uint32_t>0)
    cdef uint8_t tag = read_peek(reader)
    cdef list values
    if depth == RESULT_DEPTH_MAX:
        read_fail(reader, BAD_FIELD)
    _check_read(reader)
    if _is_bin(tag) and KEY_RECORD_ELEMENTS <= count <= KEY_RECORD_ELEMENTS + 1:
        return _read_key_record(reader) if count == KEY_RECORD_ELEMENTS else _read_znode_record(reader)
    values = [_read_value(reader, depth + 1) for _ in range(count)]
    if count == 2 and isinstance(values[1], list):
        if _is_bool(tag):
            return _TxnResult(values[0], values[1])
        if isinstance(values[0], int):
            return _RangeResult(values[0], values[1])
    if count == 2 and isinstance(values[0], list) and isinstance(values[1], bool):
        return _RangeResult(len(values[0]), values[0], values[1])
    return values

cdef object _read_key_record(Reader* reader):
    record = tuple.__new__(_KeyRecord, (
        _read_bytes(reader), _read_bytes(reader), read_uint(reader, unsigned_max()), read_uint(reader, unsigned_max()),
        read_uint(reader, unsigned_max()), read_uint(reader, unsigned_max())))
    read_uint(reader, ~<uint32_t>0)     # flags: how the machine keeps the value, nothing for callers
    _check_read(reader)
    return record

cdef object _read_znode_record(Reader* reader):
    fields = tuple(_read_key_record(reader))
    extension = _read_bytes(reader)
    if len(extension) < ZNODE_META_BYTES:
        read_fail(reader, BAD_FIELD)
    _check_read(reader)
    rights = extension[:-ZNODE_META_BYTES]
    acl = read_values(<const uint8_t*><const char*>rights, <size_t>len(rights))
    return operations.znode_record(fields, extension, acl[0] if acl else [])

cdef tuple read_result(const uint8_t* data, size_t length):
    cdef Reader reader = reader_over(data, length)
    read_array(&reader, 3)
    cdef uint64_t status = read_uint(&reader, 0xff)
    cdef uint64_t revision = read_uint(&reader, number_max())
    _check_read(&reader)
    body = _read_value(&reader, 0)
    if read_left(&reader):
        raise InvariantBroken(f"{read_left(&reader)} bytes are left behind a result")
    return status, revision, body

cdef list read_values(const uint8_t* data, size_t length):
    cdef Reader reader = reader_over(data, length)
    cdef list values = []
    while read_left(&reader):
        values.append(_read_value(&reader, 0))
    return values
