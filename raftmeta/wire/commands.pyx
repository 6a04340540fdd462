"""The codec of commands and results.

A schema says for each kind which fields follow, as a set of bits; the fields of a set always stand in the order of
their enum. One reader and one writer walk the sets. The _check functions say once which values a field may hold, and
both directions ask them. A new kind is a new line in a schema; an old line never changes.
"""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport clear_struct
from raftmeta.status cimport BAD_FIELD, COMMAND_INVALID, KEY_INVALID, NO_MEMORY, OK, VALUE_TOO_LARGE, status_t
from raftmeta.wire.consumers cimport CONSUMER_JOINS, ConsumerRequest, consumers_decode
from raftmeta.wire.groups cimport GROUP_CONSUMER, GROUP_JOIN, GroupRequest, groups_decode, groups_verb
from raftmeta.wire.topics cimport TopicsRequest, topics_decode
from raftmeta.wire.msgpack cimport (MSGPACK_FIXED_ARRAY, MSGPACK_NIL, PACK_BYTES_MAX, Reader, Writer, number_max,
                                    pack_array, pack_bin, pack_byte, pack_int, pack_uint, read_array, read_array_max,
                                    read_bin, read_done, read_fail, read_int, read_left, read_nil, read_peek,
                                    read_uint, reader_over, unsigned_max, write_array, write_bin, write_bool,
                                    write_fail, write_int, write_nil, write_room, write_uint, write_up_to, writer_at)
from raftmeta.wire.records cimport RecordsRequest, records_decode
from raftmeta.wire.znodes cimport znodes_check, znodes_decode

cdef extern from *:
    int popcount "__builtin_popcount"(unsigned int bits) nogil


cdef enum:
    OP_ELEMENTS = 2                     # kind, flags
    TXN_ELEMENTS = 3                    # compares, then, else
    COMPARE_ELEMENTS = 4                # target, result, key, operand
    COMPARE_OPERANDS = 2                # of COMPARE_OF_ALL: end, operand
    ENVELOPE_ELEMENTS = 5               # kind, session, sequence, lowest_unanswered, fence
    SPOKEN_ELEMENTS = 5                 # COMMAND_SPOKEN, speaker, principal, rights' revision, the command's bytes
    SPOKEN_BYTES_MAX = SPOKEN_ELEMENTS * PACK_BYTES_MAX + PRINCIPAL_BYTES_MAX + PACK_BYTES_MAX


# --- schemas ----------------------------------------------------------------------------------------------------------
# Fields of an operation behind [kind, flags, in this order.
cdef enum OpField:
    OP_FIELD_KEY = 1 << 0               # 1 .. KEY_BYTES_MAX bytes
    OP_FIELD_START = 1 << 1             # the same place in Op, may be empty: from the first key
    OP_FIELD_END = 1 << 2               # may be empty: to the last key
    OP_FIELD_VALUE = 1 << 3
    OP_FIELD_LEASE = 1 << 4
    OP_FIELD_EXPECTED = 1 << 5
    OP_FIELD_LIMIT = 1 << 6
    OP_FIELD_NUMBER = 1 << 7
    OP_FIELD_RESULT_FROM = 1 << 8
    OP_FIELD_TXN = 1 << 9

cdef struct OpSchema:
    uint32_t fields                     # 0: no such operation
    uint32_t elements                   # of its array
    uint8_t flags                       # OpFlags that it knows

cdef inline OpSchema _op_schema_of(uint32_t fields, uint8_t flags) noexcept nogil:
    cdef OpSchema schema
    schema.fields = fields
    schema.elements = OP_ELEMENTS + popcount(fields)
    schema.flags = flags
    return schema

cdef inline OpSchema _op_schema(uint8_t kind) noexcept nogil:
    if kind == OP_PUT:
        return _op_schema_of(OP_FIELD_KEY | OP_FIELD_VALUE | OP_FIELD_LEASE | OP_FIELD_RESULT_FROM,
                             OP_WANT_PREVIOUS | OP_KEEP_LEASE | OP_KEY_FROM_RESULT | OP_KEEP_VALUE)
    if kind == OP_CREATE:
        return _op_schema_of(OP_FIELD_KEY | OP_FIELD_VALUE | OP_FIELD_LEASE | OP_FIELD_RESULT_FROM, OP_KEY_FROM_RESULT)
    if kind == OP_UPDATE:
        return _op_schema_of(OP_FIELD_KEY | OP_FIELD_VALUE | OP_FIELD_LEASE | OP_FIELD_EXPECTED,
                             OP_WANT_PREVIOUS | OP_KEEP_LEASE | OP_KEEP_VALUE)
    if kind == OP_DELETE:
        return _op_schema_of(OP_FIELD_KEY | OP_FIELD_EXPECTED, OP_WANT_PREVIOUS | OP_MUST_EXIST)
    if kind == OP_DELETE_RANGE:
        return _op_schema_of(OP_FIELD_START | OP_FIELD_END, OP_WANT_PREVIOUS)
    if kind == OP_GET:
        return _op_schema_of(OP_FIELD_KEY, 0)
    if kind == OP_RANGE:
        return _op_schema_of(OP_FIELD_START | OP_FIELD_END | OP_FIELD_LIMIT, 0)
    if kind == OP_ADD:
        return _op_schema_of(OP_FIELD_KEY | OP_FIELD_NUMBER, 0)
    if kind == OP_TXN:
        return _op_schema_of(OP_FIELD_TXN, 0)
    return _op_schema_of(0, 0)

# Fields of a command behind [kind, session, sequence, lowest_unanswered, fence, in this order.
cdef enum CommandField:
    COMMAND_FIELD_TXN = 1 << 0
    COMMAND_FIELD_ID = 1 << 1           # any 64 bits
    COMMAND_FIELD_NUMBER = 1 << 2       # the same place in Command, at most 2^63 - 1
    COMMAND_FIELD_TTL = 1 << 3
    COMMAND_FIELD_WINDOW = 1 << 4
    COMMAND_FIELD_NAME = 1 << 5
    COMMAND_FIELD_DATA = 1 << 6
    COMMAND_FIELD_LEASES = 1 << 7       # [lease, ...]
    COMMAND_FIELD_DEADLINES = 1 << 8    # [[lease, deadline_ms], ...]
    COMMAND_FIELD_PLACE = 1 << 9        # pointer, offset, total: of a part of a dump
    COMMAND_FIELD_POINTER = 1 << 10
    COMMAND_FIELD_PROCESS = 1 << 11     # member, boot

cdef struct CommandSchema:
    uint32_t fields                     # 0: no such command
    uint32_t elements                   # of its array

cdef inline CommandSchema _command_schema_of(uint32_t fields) noexcept nogil:
    cdef CommandSchema schema
    schema.fields = fields
    schema.elements = (ENVELOPE_ELEMENTS + popcount(fields) + (2 if fields & COMMAND_FIELD_PLACE else 0)
                       + (1 if fields & COMMAND_FIELD_PROCESS else 0))
    return schema

cdef inline CommandSchema _command_schema(uint8_t kind) noexcept nogil:
    if kind == COMMAND_KEYS:
        return _command_schema_of(COMMAND_FIELD_TXN)
    if kind == COMMAND_LEASE_GRANT:
        return _command_schema_of(COMMAND_FIELD_ID | COMMAND_FIELD_TTL | COMMAND_FIELD_DATA)
    if kind == COMMAND_LEASE_KEEP_ALIVE:
        return _command_schema_of(COMMAND_FIELD_LEASES)
    if kind == COMMAND_LEASE_EXPIRE or kind == COMMAND_SESSION_EXPIRE:
        return _command_schema_of(COMMAND_FIELD_DEADLINES)
    if kind == COMMAND_SESSION_OPEN:
        return _command_schema_of(COMMAND_FIELD_ID | COMMAND_FIELD_TTL | COMMAND_FIELD_WINDOW)
    if kind == COMMAND_LEASE_REVOKE or kind == COMMAND_SESSION_CLOSE:
        return _command_schema_of(COMMAND_FIELD_ID)
    if kind == COMMAND_COMPACT or kind == COMMAND_FEATURE_LEVEL:
        return _command_schema_of(COMMAND_FIELD_NUMBER)
    if kind == COMMAND_USER:
        return _command_schema_of(COMMAND_FIELD_NAME | COMMAND_FIELD_DATA)
    if kind == COMMAND_USER_DUMP:
        return _command_schema_of(COMMAND_FIELD_ID | COMMAND_FIELD_NAME | COMMAND_FIELD_DATA | COMMAND_FIELD_PLACE)
    if kind == COMMAND_RIGHTS:
        return _command_schema_of(COMMAND_FIELD_NUMBER | COMMAND_FIELD_NAME | COMMAND_FIELD_DATA)
    if kind == COMMAND_ZNODES:
        return _command_schema_of(COMMAND_FIELD_ID | COMMAND_FIELD_NAME | COMMAND_FIELD_DATA | COMMAND_FIELD_POINTER)
    if kind == COMMAND_GROUPS:
        return _command_schema_of(COMMAND_FIELD_ID | COMMAND_FIELD_NAME | COMMAND_FIELD_DATA)
    if kind == COMMAND_TOPICS or kind == COMMAND_RECORDS:
        return _command_schema_of(COMMAND_FIELD_NAME | COMMAND_FIELD_DATA | COMMAND_FIELD_POINTER)
    if kind == COMMAND_PROCESS_END:
        return _command_schema_of(COMMAND_FIELD_PROCESS)
    return _command_schema_of(0)

# Fields that some commands of a kind have and some do not: with them.
cdef inline CommandSchema _command_schema_with(uint8_t kind) noexcept nogil:
    cdef CommandSchema schema = _command_schema(kind)
    if kind == COMMAND_GROUPS:
        return _command_schema_of(schema.fields | COMMAND_FIELD_TTL)
    return _command_schema_of(schema.fields | COMMAND_FIELD_PROCESS) if kind == COMMAND_SESSION_OPEN else schema


# --- what fields may hold ---------------------------------------------------------------------------------------------
cdef inline status_t _check_op(const Op* op, OpSchema schema) noexcept nogil:
    cdef uint32_t room = KEY_BYTES_MAX
    if not schema.fields or op.flags & ~schema.flags:
        return COMMAND_INVALID
    if op.flags & OP_KEY_FROM_RESULT:
        room -= NUMBER_DIGITS
    elif op.result_from:
        return COMMAND_INVALID
    if op.key.length > room or op.end.length > KEY_BYTES_MAX or schema.fields & OP_FIELD_KEY and not op.key.length:
        return KEY_INVALID
    if op.flags & OP_KEEP_VALUE and op.value.length or op.flags & OP_KEEP_LEASE and op.lease:
        return COMMAND_INVALID
    return OK

# The reader guarantees these by construction: an operation's missing fields are zero, numbers are in range.
cdef inline status_t _check_unlisted(const Op* op, uint32_t fields) noexcept nogil:
    if op.expected_revision > number_max():
        return BAD_FIELD
    if (not fields & (OP_FIELD_KEY | OP_FIELD_START) and op.key.length or not fields & OP_FIELD_END and op.end.length
            or not fields & OP_FIELD_VALUE and op.value.length or not fields & OP_FIELD_LEASE and op.lease
            or not fields & OP_FIELD_EXPECTED and op.expected_revision or not fields & OP_FIELD_LIMIT and op.limit
            or not fields & OP_FIELD_NUMBER and op.number or not fields & OP_FIELD_TXN and op.txn):
        return COMMAND_INVALID
    return OK

# The number behind a key comes from an addition that stands earlier in the same list.
cdef inline status_t _check_result_from(const Op* list, uint32_t position) noexcept nogil:
    if not list[position].flags & OP_KEY_FROM_RESULT:
        return OK
    if list[position].result_from >= position or list[list[position].result_from].kind != OP_ADD:
        return COMMAND_INVALID
    return OK

cdef inline bint _is_number_target(uint8_t target) noexcept nogil:
    return (target == COMPARE_VERSION or target == COMPARE_CREATE_REVISION or target == COMPARE_MOD_REVISION
            or target == COMPARE_LEASE)

cdef inline bint _is_of_all(const Compare* compare) noexcept nogil:
    return compare.target & COMPARE_OF_ALL != 0 and compare.target != COMPARE_RANGE_EMPTY + COMPARE_OF_ALL

cdef inline uint8_t _target_of(const Compare* compare) noexcept nogil:
    return compare.target & ~<uint8_t>COMPARE_OF_ALL if _is_of_all(compare) else compare.target

cdef status_t _check_compare(const Compare* compare) noexcept nogil:
    cdef uint8_t target = _target_of(compare)
    cdef bint is_of_all = _is_of_all(compare)
    if compare.result < COMPARE_EQUAL or compare.result > COMPARE_GREATER:
        return COMMAND_INVALID
    if target == COMPARE_RANGE_EMPTY:
        # A range is empty or not; a comparison cannot be less.
        if compare.result > COMPARE_NOT_EQUAL or compare.value.length or compare.number:
            return COMMAND_INVALID
        return KEY_INVALID if compare.key.length > KEY_BYTES_MAX or compare.end.length > KEY_BYTES_MAX else OK
    if target == COMPARE_VALUE:
        if compare.number:
            return COMMAND_INVALID
    elif not _is_number_target(target) or compare.value.length:
        return COMMAND_INVALID
    if is_of_all:
        return KEY_INVALID if compare.key.length > KEY_BYTES_MAX or compare.end.length > KEY_BYTES_MAX else OK
    if compare.end.length:
        return COMMAND_INVALID
    return KEY_INVALID if not compare.key.length or compare.key.length > KEY_BYTES_MAX else OK

cdef inline status_t _check_envelope(uint64_t session, uint64_t sequence, uint64_t lowest_unanswered,
                                     const Fence* fence) noexcept nogil:
    if sequence > number_max() or lowest_unanswered > sequence or not session and sequence:
        return BAD_FIELD
    if fence is NULL or not fence.is_present:
        return OK
    if fence.create_revision == 0 or fence.create_revision > number_max():
        return BAD_FIELD
    return KEY_INVALID if not fence.key.length or fence.key.length > KEY_BYTES_MAX else OK

cdef inline bint _may_speak(uint8_t speaker, const Bytes* principal, uint64_t rights_revision) noexcept nogil:
    if speaker == SPEAKER_NODE:
        return principal.length == 0 and rights_revision == 0
    return (speaker == SPEAKER_CLIENT and 1 <= principal.length <= PRINCIPAL_BYTES_MAX
            and rights_revision <= number_max())

cdef status_t _check_command(const Command* command, uint32_t fields) noexcept nogil:
    if fields & COMMAND_FIELD_NUMBER and command.id > number_max() or command.ttl_ms > number_max():
        return BAD_FIELD
    if command.pointer > number_max() or command.offset > number_max() or command.total > number_max():
        return BAD_FIELD
    if (not fields & (COMMAND_FIELD_ID | COMMAND_FIELD_NUMBER) and command.id
            or not fields & COMMAND_FIELD_TTL and command.ttl_ms or not fields & COMMAND_FIELD_WINDOW and command.window
            or not fields & COMMAND_FIELD_NAME and command.name.length
            or not fields & COMMAND_FIELD_DATA and command.data.length
            or not fields & COMMAND_FIELD_TXN and command.txns.size
            or not fields & (COMMAND_FIELD_LEASES | COMMAND_FIELD_DEADLINES) and command.leases.size
            or not fields & (COMMAND_FIELD_PLACE | COMMAND_FIELD_POINTER) and command.pointer
            or not fields & COMMAND_FIELD_PLACE and command.offset | command.total
            or not fields & COMMAND_FIELD_PROCESS and command.member | command.boot):
        return COMMAND_INVALID
    if fields & COMMAND_FIELD_PROCESS and (command.member == 0 or command.boot == 0 or command.boot > number_max()):
        return BAD_FIELD
    if command.kind == COMMAND_GROUPS:
        return _check_group(command, fields)
    if command.kind == COMMAND_TOPICS:
        return _check_topics(command)
    if command.kind == COMMAND_RECORDS:
        return _check_records(command)
    return znodes_check(&command.name, &command.data) if command.kind == COMMAND_ZNODES else OK


# --- life -------------------------------------------------------------------------------------------------------------
cdef void command_init(Command* command) noexcept nogil:
    memset(command, 0, sizeof(Command))

cdef void command_release(Command* command) noexcept nogil:
    command.txns.release()
    command.compares.release()
    command.ops.release()
    command.leases.release()
    command.znodes.release()
    command.identities.release()
    command.znode_keys.release()

# The arenas stand last in Command and keep their memory.
cdef void command_clear(Command* command) noexcept nogil:
    clear_struct(command, <size_t>(<uint8_t*>&command.txns - <uint8_t*>command))
    command.txns.clear()
    command.compares.clear()
    command.ops.clear()
    command.leases.clear()
    command.znodes.clear()
    command.identities.clear()
    command.znode_keys.clear()


# --- decode -----------------------------------------------------------------------------------------------------------
# read_uint and read_array_max, with the short form in line: of a put nearly all are.
cdef inline uint64_t _read_short_uint(Reader* reader, uint64_t most) noexcept nogil:
    cdef uint8_t tag = read_peek(reader)
    if tag > 0x7f or tag > most:
        return read_uint(reader, most)
    reader.at += 1
    return tag

cdef inline uint32_t _read_short_array(Reader* reader, uint32_t most) noexcept nogil:
    cdef uint32_t count = read_peek(reader) ^ <uint32_t>MSGPACK_FIXED_ARRAY
    if count > 0x0f or count > most or count >= read_left(reader):
        return read_array_max(reader, most)
    reader.at += 1
    return count

cdef status_t command_decode(const uint8_t* payload, uint32_t length, Command* command) noexcept nogil:
    cdef Reader reader = reader_over(payload, length)
    cdef Bytes spoken
    command_clear(command)
    if length > COMMAND_BYTES_MAX:
        return VALUE_TOO_LARGE
    cdef uint32_t elements = _read_short_array(&reader, ENVELOPE_ELEMENTS + 16)
    command.kind = <uint8_t>_read_short_uint(&reader, 0xff)
    if command.kind == COMMAND_SPOKEN and elements == SPOKEN_ELEMENTS:
        if _read_spoken(&reader, command, &spoken) != OK:
            return reader.status
        reader = reader_over(spoken.data, spoken.length)
        elements = read_array_max(&reader, ENVELOPE_ELEMENTS + 16)
        command.kind = <uint8_t>read_uint(&reader, 0xff)
    _read_envelope(&reader, command)
    if reader.status != OK:
        return reader.status
    cdef CommandSchema schema = _command_schema(command.kind)
    if not schema.fields:
        return COMMAND_INVALID
    if elements != schema.elements:
        schema = _command_schema_with(command.kind)
    if elements != schema.elements:
        return BAD_FIELD
    if schema.fields & COMMAND_FIELD_TXN:
        _read_root(&reader, command)
    else:
        _read_fields(&reader, command, schema.fields)
    if read_done(&reader) == OK and command.kind == COMMAND_ZNODES:
        return znodes_decode(&command.name, &command.data, &command.is_multi, &command.identities, &command.znodes,
                             &command.znode_keys)
    if reader.status == OK and command.kind == COMMAND_GROUPS:
        return _check_group(command, schema.fields)
    if reader.status == OK and command.kind == COMMAND_TOPICS:
        return _check_topics(command)
    if reader.status == OK and command.kind == COMMAND_RECORDS:
        return _check_records(command)
    return reader.status

cdef status_t _check_topics(const Command* command) noexcept nogil:
    cdef TopicsRequest request
    return topics_decode(&command.name, &command.data, &request)

cdef status_t _check_records(const Command* command) noexcept nogil:
    cdef RecordsRequest request
    return records_decode(&command.name, &command.data, &request)

# A join that grants a lease names none.
cdef status_t _check_group(const Command* command, uint32_t fields) noexcept nogil:
    cdef GroupRequest request
    cdef status_t status
    if groups_verb(&command.data) == GROUP_CONSUMER:
        return _check_consumer(command, fields)
    status = groups_decode(&command.name, &command.data, &request)
    if status != OK or not fields & COMMAND_FIELD_TTL:
        return status
    return OK if request.verb == GROUP_JOIN and command.ttl_ms != 0 and command.id == 0 else BAD_FIELD

# A join always grants the lease of its member, and no other word does.
cdef status_t _check_consumer(const Command* command, uint32_t fields) noexcept nogil:
    cdef ConsumerRequest request
    cdef status_t status = consumers_decode(&command.name, &command.data, &request)
    cdef bint grants = fields & COMMAND_FIELD_TTL != 0 and command.ttl_ms != 0
    if status != OK:
        return status
    return OK if command.id == 0 and grants == (request.epoch == CONSUMER_JOINS) else BAD_FIELD

cdef inline void _read_bytes(Reader* reader, Bytes* bytes) noexcept nogil:
    bytes.data = read_bin(reader, ~<uint32_t>0, &bytes.length)

cdef status_t _read_spoken(Reader* reader, Command* command, Bytes* spoken) noexcept nogil:
    command.speaker = <uint8_t>read_uint(reader, SPEAKER_CLIENT)
    _read_bytes(reader, &command.principal)
    command.rights_revision = read_uint(reader, number_max())
    _read_bytes(reader, spoken)
    if reader.status == OK and not _may_speak(command.speaker, &command.principal, command.rights_revision):
        read_fail(reader, BAD_FIELD)
    return read_done(reader)

# Behind its kind.
cdef void _read_envelope(Reader* reader, Command* command) noexcept nogil:
    cdef status_t status
    command.session = read_uint(reader, unsigned_max())
    command.sequence = read_uint(reader, number_max())
    if reader.status != OK:
        command.session = 0
    command.lowest_unanswered = read_uint(reader, number_max())
    if not read_nil(reader):
        command.fence.is_present = True
        read_array(reader, 2)
        _read_bytes(reader, &command.fence.key)
        command.fence.create_revision = read_uint(reader, number_max())
    if reader.status == OK:
        status = _check_envelope(command.session, command.sequence, command.lowest_unanswered, &command.fence)
        if status != OK:
            read_fail(reader, status)

cdef void _read_fields(Reader* reader, Command* command, uint32_t fields) noexcept nogil:
    if fields & COMMAND_FIELD_ID:
        command.id = read_uint(reader, unsigned_max())
    if fields & COMMAND_FIELD_NUMBER:
        command.id = read_uint(reader, number_max())
    if fields & COMMAND_FIELD_TTL:
        command.ttl_ms = read_uint(reader, number_max())
    if fields & COMMAND_FIELD_WINDOW:
        command.window = <uint32_t>read_uint(reader, ~<uint32_t>0)
    if fields & COMMAND_FIELD_NAME:
        _read_bytes(reader, &command.name)
    if fields & COMMAND_FIELD_DATA:
        _read_bytes(reader, &command.data)
    if fields & (COMMAND_FIELD_LEASES | COMMAND_FIELD_DEADLINES):
        _read_leases(reader, command, (fields & COMMAND_FIELD_DEADLINES) != 0)
    if fields & COMMAND_FIELD_PLACE:
        command.pointer = read_uint(reader, number_max())
        command.offset = read_uint(reader, number_max())
        command.total = read_uint(reader, number_max())
    if fields & COMMAND_FIELD_POINTER:
        command.pointer = read_uint(reader, number_max())
    if fields & COMMAND_FIELD_PROCESS:
        command.member = read_uint(reader, unsigned_max())
        command.boot = read_uint(reader, number_max())
        if command.member == 0 or command.boot == 0:
            read_fail(reader, BAD_FIELD)

cdef void _read_leases(Reader* reader, Command* command, bint has_deadlines) noexcept nogil:
    cdef uint32_t count = read_array_max(reader, LEASES_MAX)
    cdef uint32_t i
    if not command.leases.resize(count):
        read_fail(reader, NO_MEMORY)
        return
    for i in range(count):
        if has_deadlines:
            read_array(reader, 2)
        command.leases.data[i].lease = read_uint(reader, unsigned_max())
        if has_deadlines:
            command.leases.data[i].deadline_ms = read_uint(reader, number_max())

cdef void _read_root(Reader* reader, Command* command) noexcept nogil:
    if command.txns.resize(1):
        _read_txn(reader, command, 0, 1)
    else:
        read_fail(reader, NO_MEMORY)

cdef void _read_txn(Reader* reader, Command* command, uint32_t position, int depth) noexcept nogil:
    cdef uint32_t compares, first, count
    if _read_short_array(reader, TXN_ELEMENTS) != TXN_ELEMENTS:
        read_fail(reader, BAD_FIELD)
    compares = _read_compares(reader, command)
    # The arena may move with each list.
    command.txns.data[position].compare_first = <uint32_t>command.compares.size - compares
    command.txns.data[position].compare_count = compares
    first = <uint32_t>command.ops.size
    count = _read_ops(reader, command, depth)
    command.txns.data[position].then_first = first
    command.txns.data[position].then_count = count
    first = <uint32_t>command.ops.size
    count = _read_ops(reader, command, depth)
    command.txns.data[position].else_first = first
    command.txns.data[position].else_count = count

# The count of one more list of operations or compares. The bytes left and OPS_MAX in all bound it, so the arena can
# grow
# before the elements are read.
cdef inline uint32_t _read_list(Reader* reader, const Command* command) noexcept nogil:
    cdef uint32_t count = _read_short_array(reader, ~<uint32_t>0)
    if command.compares.size + command.ops.size + count > OPS_MAX:
        read_fail(reader, COMMAND_INVALID)
        return 0
    return count

# How many there are, at the end of the arena.
cdef uint32_t _read_compares(Reader* reader, Command* command) noexcept nogil:
    cdef uint32_t first = <uint32_t>command.compares.size
    cdef uint32_t count = _read_list(reader, command)
    cdef uint32_t i
    if not command.compares.resize(first + count):
        read_fail(reader, NO_MEMORY)
        return 0
    for i in range(count):
        _read_compare(reader, command.compares.data + first + i)
        if reader.status != OK:
            break
    return count

cdef void _read_compare(Reader* reader, Compare* compare) noexcept nogil:
    cdef status_t status
    read_array(reader, COMPARE_ELEMENTS)
    compare.target = <uint8_t>read_uint(reader, 0xff)
    compare.result = <uint8_t>read_uint(reader, 0xff)
    _read_bytes(reader, &compare.key)
    if _is_of_all(compare):
        read_array(reader, COMPARE_OPERANDS)
        _read_bytes(reader, &compare.end)
    if _target_of(compare) == COMPARE_VALUE:
        _read_bytes(reader, &compare.value)
    elif compare.target == COMPARE_RANGE_EMPTY:
        _read_bytes(reader, &compare.end)
    elif _is_number_target(_target_of(compare)):
        compare.number = read_uint(reader, unsigned_max())
    else:
        read_fail(reader, COMMAND_INVALID)
    status = _check_compare(compare)
    if status != OK:
        read_fail(reader, status)

# How many there are, from where the arena ended. A list takes its whole place in the arena first: transactions nested
# in it put their lists behind it.
cdef uint32_t _read_ops(Reader* reader, Command* command, int depth) noexcept nogil:
    cdef uint32_t first = <uint32_t>command.ops.size
    cdef uint32_t count = _read_list(reader, command)
    cdef uint32_t i
    cdef status_t status
    if not command.ops.resize(first + count):
        read_fail(reader, NO_MEMORY)
        return 0
    for i in range(count):
        _read_op(reader, command, first + i, depth)
        if reader.status != OK:
            break
        status = _check_result_from(command.ops.data + first, i)
        if status != OK:
            read_fail(reader, status)
    return count

# Read into the zeroed place `position` of the arena, which moves when a nested transaction makes it grow.
cdef inline void _read_op(Reader* reader, Command* command, uint32_t position, int depth) noexcept nogil:
    cdef Op* op = command.ops.data + position
    cdef uint32_t elements = _read_short_array(reader, OP_ELEMENTS + 16)
    cdef OpSchema schema
    cdef status_t status
    op.kind = <uint8_t>_read_short_uint(reader, 0xff)
    op.flags = <uint8_t>_read_short_uint(reader, 0xff)
    schema = _op_schema(op.kind)
    if not schema.fields:
        read_fail(reader, COMMAND_INVALID)
    elif elements != schema.elements:
        read_fail(reader, BAD_FIELD)
    if not schema.fields & OP_FIELD_TXN:
        _read_op_fields(reader, op, schema.fields)
    if reader.status != OK:
        return
    status = _check_op(op, schema)
    if status != OK:
        read_fail(reader, status)
    elif schema.fields & OP_FIELD_TXN:
        _read_nested(reader, command, op, depth)

cdef inline void _read_op_fields(Reader* reader, Op* op, uint32_t fields) noexcept nogil:
    if fields & (OP_FIELD_KEY | OP_FIELD_START):
        _read_bytes(reader, &op.key)
    if fields & OP_FIELD_END:
        _read_bytes(reader, &op.end)
    if fields & OP_FIELD_VALUE:
        _read_bytes(reader, &op.value)
    if fields & OP_FIELD_LEASE:
        op.lease = _read_short_uint(reader, unsigned_max())
    if fields & OP_FIELD_EXPECTED:
        op.expected_revision = read_uint(reader, number_max())
    if fields & OP_FIELD_LIMIT:
        op.limit = <uint32_t>read_uint(reader, ~<uint32_t>0)
    if fields & OP_FIELD_NUMBER:
        op.number = read_int(reader)
    if fields & OP_FIELD_RESULT_FROM:
        op.result_from = <uint16_t>read_uint(reader, 0xffff)

cdef void _read_nested(Reader* reader, Command* command, Op* op, int depth) noexcept nogil:
    if depth == TXN_DEPTH_MAX:
        read_fail(reader, COMMAND_INVALID)
        return
    op.txn = <uint32_t>command.txns.size
    if command.txns.resize(op.txn + 1):
        _read_txn(reader, command, op.txn, depth + 1)
    else:
        read_fail(reader, NO_MEMORY)


# --- encode -----------------------------------------------------------------------------------------------------------
cdef status_t command_encode(const Command* command, Vec[uint8_t]* out) noexcept nogil:
    cdef size_t start = out.size
    cdef Writer writer = writer_at(out)
    cdef CommandSchema schema = _command_schema(command.kind)
    cdef uint32_t operations_left = OPS_MAX
    if command.kind == COMMAND_GROUPS and command.ttl_ms or command.kind == COMMAND_SESSION_OPEN and command.member:
        schema = _command_schema_with(command.kind)
    if command.speaker != SPEAKER_NONE:
        return _encode_spoken(command, out)
    write_fail(&writer, _check_envelope(command.session, command.sequence, command.lowest_unanswered, &command.fence))
    write_fail(&writer, _check_command(command, schema.fields) if schema.fields else <status_t>COMMAND_INVALID)
    _write_envelope(&writer, command, schema)
    if schema.fields & COMMAND_FIELD_TXN:
        _write_txn(&writer, command, 0, 1, &operations_left)
    else:
        _write_fields(&writer, command, schema.fields)
    if out.size - start > COMMAND_BYTES_MAX:
        write_fail(&writer, VALUE_TOO_LARGE)
    if writer.status != OK:
        out.size = start
    return writer.status

cdef status_t _encode_spoken(const Command* command, Vec[uint8_t]* out) noexcept nogil:
    cdef Command silent = command[0]
    cdef Vec[uint8_t] payload
    cdef status_t status
    memset(&payload, 0, sizeof(payload))
    silent.speaker = SPEAKER_NONE
    status = command_encode(&silent, &payload)
    if status == OK:
        status = _pack_spoken(command.speaker, &command.principal, command.rights_revision, payload.data,
                              <uint32_t>payload.size, out)
    payload.release()
    return status

cdef status_t command_speak(const Bytes* principal, uint64_t rights_revision, const uint8_t* payload, uint32_t length,
                            Vec[uint8_t]* out) noexcept nogil:
    return _pack_spoken(SPEAKER_CLIENT, principal, rights_revision, payload, length, out)

cdef status_t _pack_spoken(uint8_t speaker, const Bytes* principal, uint64_t rights_revision, const uint8_t* payload,
                           uint32_t length, Vec[uint8_t]* out) noexcept nogil:
    cdef size_t start = out.size
    cdef uint8_t* at
    if not _may_speak(speaker, principal, rights_revision):
        return BAD_FIELD
    if not out.reserve(start + SPOKEN_BYTES_MAX + length):
        return NO_MEMORY
    at = pack_array(out.data + start, SPOKEN_ELEMENTS)
    at = pack_uint(at, COMMAND_SPOKEN)
    at = pack_uint(at, speaker)
    at = pack_bin(at, principal.data, principal.length)
    at = pack_uint(at, rights_revision)
    at = pack_bin(at, payload, length)
    if <size_t>(at - out.data) - start > COMMAND_BYTES_MAX:
        return VALUE_TOO_LARGE
    out.size = <size_t>(at - out.data)
    return OK

cdef status_t command_encode_op(const Op* op, uint64_t session, uint64_t sequence, uint64_t lowest_unanswered,
                                const Fence* fence, Vec[uint8_t]* out) noexcept nogil:
    cdef size_t start = out.size
    cdef OpSchema schema = _op_schema(op.kind)
    cdef status_t status = _check_envelope(session, sequence, lowest_unanswered, fence)
    cdef uint8_t* at
    if status == OK:
        status = _check_op(op, schema)
    if status == OK:
        status = _check_unlisted(op, schema.fields)
    # The only operation of its list has no earlier one to take a number from, and nothing is nested beside it.
    if status == OK and (op.flags & OP_KEY_FROM_RESULT or op.kind == OP_TXN):
        status = COMMAND_INVALID
    if status != OK:
        return status
    if not out.reserve(start + _envelope_bytes_max(fence) + _op_bytes_max(op) + 4):
        return NO_MEMORY
    at = out.data + start
    at = _pack_envelope(at, COMMAND_KEYS, _command_schema(COMMAND_KEYS), session, sequence, lowest_unanswered, fence)
    at = pack_array(at, 3)
    at = pack_array(at, 0)
    at = pack_array(at, 1)
    at = _pack_op(at, op, schema)
    at = pack_array(at, 0)
    if <size_t>(at - out.data) - start > COMMAND_BYTES_MAX:
        return VALUE_TOO_LARGE
    out.size = <size_t>(at - out.data)
    return OK

cdef inline size_t _envelope_bytes_max(const Fence* fence) noexcept nogil:
    return (ENVELOPE_ELEMENTS + 4) * PACK_BYTES_MAX + (fence.key.length if fence is not NULL else 0)

cdef inline uint8_t* _pack_envelope(uint8_t* at, uint8_t kind, CommandSchema schema, uint64_t session,
                                    uint64_t sequence, uint64_t lowest_unanswered, const Fence* fence) noexcept nogil:
    at = pack_array(at, schema.elements)
    at = pack_uint(at, kind)
    at = pack_uint(at, session)
    at = pack_uint(at, sequence)
    at = pack_uint(at, lowest_unanswered)
    if fence is NULL or not fence.is_present:
        return pack_byte(at, MSGPACK_NIL)
    at = pack_array(at, 2)
    at = pack_bin(at, fence.key.data, fence.key.length)
    return pack_uint(at, fence.create_revision)

cdef void _write_envelope(Writer* writer, const Command* command, CommandSchema schema) noexcept nogil:
    cdef uint8_t* at = write_room(writer, _envelope_bytes_max(&command.fence))
    if at is not NULL:
        write_up_to(writer, _pack_envelope(at, command.kind, schema, command.session, command.sequence,
                                           command.lowest_unanswered, &command.fence))

cdef void _write_fields(Writer* writer, const Command* command, uint32_t fields) noexcept nogil:
    if fields & (COMMAND_FIELD_ID | COMMAND_FIELD_NUMBER):
        write_uint(writer, command.id)
    if fields & COMMAND_FIELD_TTL:
        write_uint(writer, command.ttl_ms)
    if fields & COMMAND_FIELD_WINDOW:
        write_uint(writer, command.window)
    if fields & COMMAND_FIELD_NAME:
        write_bin(writer, command.name.data, command.name.length)
    if fields & COMMAND_FIELD_DATA:
        write_bin(writer, command.data.data, command.data.length)
    if fields & (COMMAND_FIELD_LEASES | COMMAND_FIELD_DEADLINES):
        _write_leases(writer, command, (fields & COMMAND_FIELD_DEADLINES) != 0)
    if fields & COMMAND_FIELD_PLACE:
        write_uint(writer, command.pointer)
        write_uint(writer, command.offset)
        write_uint(writer, command.total)
    if fields & COMMAND_FIELD_POINTER:
        write_uint(writer, command.pointer)
    if fields & COMMAND_FIELD_PROCESS:
        write_uint(writer, command.member)
        write_uint(writer, command.boot)

cdef void _write_leases(Writer* writer, const Command* command, bint has_deadlines) noexcept nogil:
    cdef const LeaseItem* item
    cdef size_t i
    if command.leases.size > LEASES_MAX:
        write_fail(writer, COMMAND_INVALID)
        return
    write_array(writer, <uint32_t>command.leases.size)
    for i in range(command.leases.size):
        item = command.leases.data + i
        if has_deadlines:
            write_array(writer, 2)
        write_uint(writer, item.lease)
        if has_deadlines:
            write_uint(writer, item.deadline_ms)
        if item.deadline_ms > (number_max() if has_deadlines else 0):
            write_fail(writer, BAD_FIELD)

cdef void _write_txn(Writer* writer, const Command* command, uint32_t position, int depth,
                     uint32_t* operations_left) noexcept nogil:
    cdef const Txn* txn
    if depth > TXN_DEPTH_MAX or position >= command.txns.size:
        write_fail(writer, COMMAND_INVALID)
        return
    txn = command.txns.data + position
    write_array(writer, 3)
    _write_compares(writer, command, txn, operations_left)
    _write_ops(writer, command, txn.then_first, txn.then_count, depth, operations_left)
    _write_ops(writer, command, txn.else_first, txn.else_count, depth, operations_left)

# The head of a list [first, first + count) of an arena with `size` elements.
cdef bint _write_list(Writer* writer, uint32_t first, uint32_t count, size_t size,
                      uint32_t* operations_left) noexcept nogil:
    if first > size or count > size - first or count > operations_left[0]:
        write_fail(writer, COMMAND_INVALID)
        return False
    operations_left[0] -= count
    write_array(writer, count)
    return writer.status == OK

cdef void _write_compares(Writer* writer, const Command* command, const Txn* txn,
                          uint32_t* operations_left) noexcept nogil:
    cdef const Compare* compare
    cdef uint32_t i
    if not _write_list(writer, txn.compare_first, txn.compare_count, command.compares.size, operations_left):
        return
    for i in range(txn.compare_count):
        compare = command.compares.data + txn.compare_first + i
        write_fail(writer, _check_compare(compare))
        write_array(writer, COMPARE_ELEMENTS)
        write_uint(writer, compare.target)
        write_uint(writer, compare.result)
        write_bin(writer, compare.key.data, compare.key.length)
        if _is_of_all(compare):
            write_array(writer, COMPARE_OPERANDS)
            write_bin(writer, compare.end.data, compare.end.length)
        if _target_of(compare) == COMPARE_VALUE:
            write_bin(writer, compare.value.data, compare.value.length)
        elif compare.target == COMPARE_RANGE_EMPTY:
            write_bin(writer, compare.end.data, compare.end.length)
        else:
            write_uint(writer, compare.number)

cdef void _write_ops(Writer* writer, const Command* command, uint32_t first, uint32_t count, int depth,
                     uint32_t* operations_left) noexcept nogil:
    cdef const Op* list = command.ops.data + first
    cdef OpSchema schema
    cdef uint32_t i
    if not _write_list(writer, first, count, command.ops.size, operations_left):
        return
    for i in range(count):
        schema = _op_schema(list[i].kind)
        write_fail(writer, _check_op(&list[i], schema))
        write_fail(writer, _check_unlisted(&list[i], schema.fields))
        write_fail(writer, _check_result_from(list, i))
        _write_op(writer, &list[i], schema)
        if schema.fields & OP_FIELD_TXN:
            _write_txn(writer, command, list[i].txn, depth + 1, operations_left)
        if writer.status != OK:
            return

cdef inline size_t _op_bytes_max(const Op* op) noexcept nogil:
    return 12 * PACK_BYTES_MAX + <size_t>op.key.length + op.end.length + op.value.length

cdef void _write_op(Writer* writer, const Op* op, OpSchema schema) noexcept nogil:
    cdef uint8_t* at = write_room(writer, _op_bytes_max(op))
    if at is not NULL:
        write_up_to(writer, _pack_op(at, op, schema))

# Write all but the transaction of an OP_TXN, which follows.
cdef inline uint8_t* _pack_op(uint8_t* at, const Op* op, OpSchema schema) noexcept nogil:
    cdef uint32_t fields = schema.fields
    at = pack_array(at, schema.elements)
    at = pack_uint(at, op.kind)
    at = pack_uint(at, op.flags)
    if fields & (OP_FIELD_KEY | OP_FIELD_START):
        at = pack_bin(at, op.key.data, op.key.length)
    if fields & OP_FIELD_END:
        at = pack_bin(at, op.end.data, op.end.length)
    if fields & OP_FIELD_VALUE:
        at = pack_bin(at, op.value.data, op.value.length)
    if fields & OP_FIELD_LEASE:
        at = pack_uint(at, op.lease)
    if fields & OP_FIELD_EXPECTED:
        at = pack_uint(at, op.expected_revision)
    if fields & OP_FIELD_LIMIT:
        at = pack_uint(at, op.limit)
    if fields & OP_FIELD_NUMBER:
        at = pack_int(at, op.number)
    if fields & OP_FIELD_RESULT_FROM:
        at = pack_uint(at, op.result_from)
    return at


# --- results ----------------------------------------------------------------------------------------------------------
cdef status_t result_begin(Vec[uint8_t]* out, status_t status, uint64_t revision) noexcept nogil:
    cdef Writer writer = writer_at(out)
    write_array(&writer, 3)
    write_int(&writer, status)
    write_uint(&writer, revision)
    return writer.status

cdef status_t result_nil(Vec[uint8_t]* out) noexcept nogil:
    cdef Writer writer = writer_at(out)
    write_nil(&writer)
    return writer.status

cdef status_t result_array(Vec[uint8_t]* out, uint32_t count) noexcept nogil:
    cdef Writer writer = writer_at(out)
    write_array(&writer, count)
    return writer.status

cdef status_t result_bool(Vec[uint8_t]* out, bint value) noexcept nogil:
    cdef Writer writer = writer_at(out)
    write_bool(&writer, value)
    return writer.status

cdef status_t result_number(Vec[uint8_t]* out, int64_t value) noexcept nogil:
    cdef Writer writer = writer_at(out)
    write_int(&writer, value)
    return writer.status

cdef status_t result_unsigned(Vec[uint8_t]* out, uint64_t value) noexcept nogil:
    cdef Writer writer = writer_at(out)
    write_uint(&writer, value)
    return writer.status

cdef status_t result_bytes(Vec[uint8_t]* out, const Bytes* value) noexcept nogil:
    cdef Writer writer = writer_at(out)
    write_bin(&writer, value.data, value.length)
    return writer.status

cdef status_t result_key(Vec[uint8_t]* out, const KeyView* key) noexcept nogil:
    cdef Writer writer = writer_at(out)
    cdef uint8_t* at = write_room(&writer, 9 * PACK_BYTES_MAX + <size_t>key.key.length + key.value.length
                                  + key.extension.length)
    if at is NULL:
        return writer.status
    at = pack_array(at, 8 if key.extension.length else 7)
    at = pack_bin(at, key.key.data, key.key.length)
    at = pack_bin(at, key.value.data, key.value.length)
    at = pack_uint(at, key.create_revision)
    at = pack_uint(at, key.mod_revision)
    at = pack_uint(at, key.version)
    at = pack_uint(at, key.lease)
    at = pack_uint(at, key.flags)
    if key.extension.length:
        at = pack_bin(at, key.extension.data, key.extension.length)
    write_up_to(&writer, at)
    return OK
