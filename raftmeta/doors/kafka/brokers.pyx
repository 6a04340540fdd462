"""Brokers as Kafka's clients see them: bodies."""

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from raftmeta.doors.desk.desk cimport desk_find, desk_pin_newest
from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.desk.tasks cimport command_submit, random_bytes
from raftmeta.doors.kafka.state cimport HOST_BYTES_MAX, TASK_BROKER, KafkaBroker
from raftmeta.machine.entry cimport ENTRY_TOMBSTONE, Entry, entry_key, entry_value
from raftmeta.machine.tree cimport Cursor, cursor_next, cursor_seek
from raftmeta.raft.types cimport MEMBERS_MAX
from raftmeta.status cimport OK
from raftmeta.wire.commands cimport (COMMAND_KEYS, COMMAND_LEASE_GRANT, OP_PUT, Bytes, Op, Txn, command_clear)

cdef enum:
    PREFIX_BYTES = 14
    DIGITS = 16
    KEY_BYTES = PREFIX_BYTES + DIGITS
    PORT_DIGITS_MAX = 5
    ADDRESS_BYTES = HOST_BYTES_MAX + 1 + PORT_DIGITS_MAX
    TUNE_LOOK_NS = 1_000_000_000
    STEP_NONE = 0
    STEP_GRANT = 1              # the lease is asked for
    STEP_PUT = 2                # the key is
    STEP_KNOWN = 3

# FORMAT_.
cdef const char* PREFIX = b"kafka-brokers/"
cdef const char* HEXADECIMAL = b"0123456789abcdef"
cdef const char* NOTE = b"kafka broker"


cdef int32_t broker_id(uint64_t member) noexcept nogil:
    return <int32_t>((member ^ member >> 32) & <uint64_t>0x7FFFFFFF)


# --- this node's ------------------------------------------------------------------------------------------------------
cdef Bytes _key(const KafkaDoor* door, uint8_t* into) noexcept nogil:
    cdef int i
    memcpy(into, PREFIX, PREFIX_BYTES)
    for i in range(DIGITS):
        into[PREFIX_BYTES + i] = <uint8_t>HEXADECIMAL[door.desk.status.id >> (60 - 4 * i) & 15]
    return bytes_of(into, KEY_BYTES)


cdef Bytes _address(const KafkaDoor* door, uint8_t* into) noexcept nogil:
    cdef uint8_t[PORT_DIGITS_MAX] digits
    cdef uint32_t length = door.self.host_length
    cdef uint32_t port = <uint32_t>door.self.port
    cdef int count = 0
    memcpy(into, door.self.host, length)
    into[length] = c":"
    length += 1
    while count == 0 or port:
        digits[count] = <uint8_t>(c"0" + port % 10)
        port //= 10
        count += 1
    while count:
        count -= 1
        into[length] = digits[count]
        length += 1
    return bytes_of(into, length)


cdef void _submit(KafkaDoor* door, uint8_t step) noexcept nogil:
    door.broker_step = step if command_submit(&door.desk, NULL, TASK_BROKER, NULL, True, NULL) == OK else STEP_NONE


cdef void _grant(KafkaDoor* door) noexcept nogil:
    if not random_bytes(&door.broker_lease, sizeof(uint64_t)):
        return
    door.broker_lease |= <uint64_t>1 << 63
    command_clear(&door.desk.command)
    door.desk.command.kind = COMMAND_LEASE_GRANT
    door.desk.command.id = door.broker_lease
    door.desk.command.ttl_ms = door.desk.desk_limits.session_ttl_ms
    door.desk.command.data = bytes_of(<const uint8_t*>NOTE, 12)
    _submit(door, STEP_GRANT)


cdef void _put(KafkaDoor* door) noexcept nogil:
    cdef uint8_t[KEY_BYTES] key
    cdef uint8_t[ADDRESS_BYTES] address
    cdef Txn txn
    cdef Op op
    command_clear(&door.desk.command)
    door.desk.command.kind = COMMAND_KEYS
    memset(&txn, 0, sizeof(Txn))
    memset(&op, 0, sizeof(Op))
    txn.then_count = 1
    txn.else_first = 1
    op.kind = OP_PUT
    op.key = _key(door, key)
    op.value = _address(door, address)
    op.lease = door.broker_lease
    if door.desk.command.ops.push(op) and door.desk.command.txns.push(txn):
        _submit(door, STEP_PUT)
    else:
        door.broker_step = STEP_NONE


# Once in a while: the lease may have ended while this node was away.
cdef bint _is_known(KafkaDoor* door) noexcept nogil:
    cdef uint8_t[KEY_BYTES] bytes
    cdef Bytes key = _key(door, bytes)
    cdef const Entry* entry
    if desk_pin_newest(&door.desk) == 0:
        return True
    entry = desk_find(&door.desk, &key)
    return entry != NULL and entry.lease == door.broker_lease


cdef void brokers_tend(KafkaDoor* door) noexcept nogil:
    if not door.is_serving or door.desk.base.now_ns < door.broker_ns:
        return
    if door.broker_step == STEP_KNOWN and not _is_known(door):
        door.broker_step = STEP_NONE
    if door.broker_step == STEP_NONE:
        _grant(door)
    door.broker_ns = door.desk.base.now_ns + TUNE_LOOK_NS


cdef void brokers_answered(KafkaDoor* door, const KafkaTask* task) noexcept nogil:
    if task.base.ticket.status != OK:
        door.broker_step = STEP_NONE
    elif door.broker_step == STEP_GRANT:
        _put(door)
    elif door.broker_step == STEP_PUT:
        door.broker_step = STEP_KNOWN


# --- all --------------------------------------------------------------------------------------------------------------
cdef bint _read(const Entry* entry, KafkaBroker* into) noexcept nogil:
    cdef const uint8_t* key = entry_key(entry)
    cdef const uint8_t* value = entry_value(entry)
    cdef uint32_t colon = entry.value_length
    cdef uint64_t member = 0
    cdef int digit
    cdef uint32_t i
    if entry.key_length != KEY_BYTES:
        return False
    for i in range(PREFIX_BYTES, KEY_BYTES):
        digit = key[i] - c"0" if key[i] <= c"9" else key[i] - c"a" + 10
        if digit < 0 or digit > 15:
            return False
        member = member << 4 | <uint64_t>digit
    while colon and value[colon - 1] != c":":
        colon -= 1
    if colon < 2 or colon - 1 > HOST_BYTES_MAX or entry.value_length - colon > PORT_DIGITS_MAX:
        return False
    into.id = broker_id(member)
    into.host_length = <uint8_t>(colon - 1)
    memcpy(into.host, value, colon - 1)
    into.port = 0
    for i in range(colon, entry.value_length):
        if value[i] < c"0" or value[i] > c"9":
            return False
        into.port = 10 * into.port + value[i] - c"0"
    return True


# One that stands at the same place is another life of it, whose lease has not ended yet.
cdef bint _is_told(const KafkaDoor* door, const KafkaBroker* broker) noexcept nogil:
    cdef const KafkaBroker* other
    cdef size_t i
    for i in range(door.brokers.size):
        other = door.brokers.data + i
        if other.id == broker.id or (other.port == broker.port and other.host_length == broker.host_length
                                     and memcmp(other.host, broker.host, broker.host_length) == 0):
            return True
    return False


cdef bint brokers_list(KafkaDoor* door) noexcept nogil:
    cdef KafkaBroker broker
    cdef Cursor cursor
    door.brokers.clear()
    door.self.id = broker_id(door.desk.status.id)
    if not door.brokers.push(door.self):
        return False
    cursor_seek(&cursor, door.desk.pinned, <const uint8_t*>PREFIX, PREFIX_BYTES)
    while (cursor.entry != NULL and cursor.entry.key_length >= PREFIX_BYTES and door.brokers.size < 2 * MEMBERS_MAX
           and memcmp(entry_key(cursor.entry), PREFIX, PREFIX_BYTES) == 0):
        if (not cursor.entry.flags & ENTRY_TOMBSTONE and _read(cursor.entry, &broker)
                and not _is_told(door, &broker) and not door.brokers.push(broker)):
            return False
        cursor_next(&cursor)
    return True
