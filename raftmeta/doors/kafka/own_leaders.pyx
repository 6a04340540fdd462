"""Who leads a partition of an own log: bodies."""

from libc.stddef cimport size_t
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp, memcpy, memset

from raftmeta.doors.desk.desk cimport desk_find
from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.kafka.brokers cimport broker_id
from raftmeta.doors.kafka.own_state cimport LEADER_KEY_BYTES_MAX, OwnClaim
from raftmeta.doors.kafka.protocol cimport (KAFKA_FENCED_LEADER_EPOCH, KAFKA_NOT_LEADER_OR_FOLLOWER, KAFKA_OK,
                                            KAFKA_UNKNOWN_LEADER_EPOCH)
from raftmeta.doors.kafka.records_topic cimport topic_log_find
from raftmeta.doors.kafka.reply cimport request_command
from raftmeta.machine.entry cimport Entry, entry_value
from raftmeta.status cimport OK, status_t
from raftmeta.wire.commands cimport (COMMAND_KEYS, COMPARE_EQUAL, COMPARE_MOD_REVISION, OP_PUT, Compare, Op, Txn,
                                     command_clear)
from raftmeta.wire.topics cimport TOPIC_ID_BYTES

cdef enum:
    PREFIX_BYTES = 14
    ID_DIGITS = 32
    NUMBER_MAX = 0x7FFFFFFF
    TUNE_CLAIMS_MAX = 256           # of one command

cdef const char* PREFIX = b"kafka-leaders/"
cdef const char* HEXADECIMAL = b"0123456789abcdef"


# --- bytes ------------------------------------------------------------------------------------------------------------
cdef uint32_t _put_number(uint8_t* into, uint32_t number) noexcept nogil:
    cdef uint32_t length = 1
    cdef uint32_t left = number
    cdef uint32_t i
    while left >= 10:
        left //= 10
        length += 1
    for i in range(length):
        into[length - 1 - i] = <uint8_t>(48 + number % 10)
        number //= 10
    return length


# Digits up to a space, which is passed over. -1: there are none.
cdef int32_t _read_number(Bytes* text) noexcept nogil:
    cdef int64_t number = -1
    while text.length and 48 <= text.data[0] <= 57:
        number = 10 * max(number, <int64_t>0) + text.data[0] - 48
        if number > NUMBER_MAX:
            return -1
        text.data += 1
        text.length -= 1
    if text.length == 0 or text.data[0] != 32:
        return -1
    text.data += 1
    text.length -= 1
    return <int32_t>number


cdef void _put_id(uint8_t* into, const uint8_t* id) noexcept nogil:
    cdef int i
    for i in range(TOPIC_ID_BYTES):
        into[2 * i] = <uint8_t>HEXADECIMAL[id[i] >> 4]
        into[2 * i + 1] = <uint8_t>HEXADECIMAL[id[i] & 15]


cdef Bytes _key(uint8_t* into, const Bytes* name, uint32_t partition) noexcept nogil:
    cdef uint32_t length = PREFIX_BYTES
    memcpy(into, PREFIX, PREFIX_BYTES)
    memcpy(into + length, name.data, name.length)
    length += name.length
    into[length] = 47
    length += 1
    return bytes_of(into, length + _put_number(into + length, partition))


# --- who leads --------------------------------------------------------------------------------------------------------
cdef bint _is_known(const KafkaDoor* door, int32_t broker) noexcept nogil:
    cdef size_t i
    for i in range(door.brokers.size):
        if door.brokers.data[i].id == broker:
            return True
    return False


cdef void leader_find(KafkaDoor* door, const Bytes* name, const uint8_t* id, uint32_t partition,
                      OwnLeader* leader) noexcept nogil:
    cdef uint8_t[LEADER_KEY_BYTES_MAX] room
    cdef uint8_t[ID_DIGITS] digits
    cdef Bytes key = _key(room, name, partition)
    cdef const Entry* entry = desk_find(&door.desk, &key)
    cdef int32_t broker
    cdef Bytes value
    memset(leader, 0, sizeof(OwnLeader))
    leader.broker = leader.epoch = -1
    if entry == NULL:
        return
    leader.seen = entry.mod_revision
    value = bytes_of(entry_value(entry), entry.value_length)
    broker = _read_number(&value)
    leader.epoch = _read_number(&value)
    _put_id(digits, id)
    if broker < 0 or leader.epoch < 0 or value.length != ID_DIGITS or memcmp(value.data, digits, ID_DIGITS) != 0:
        return
    leader.broker = broker
    leader.is_here = broker == broker_id(door.desk.status.id)
    leader.is_known = leader.is_here or _is_known(door, broker)


cdef int16_t leader_check(KafkaDoor* door, KafkaRequest* request, const Bytes* name, int32_t partition, int32_t epoch,
                          bint must_write, TopicLog* log, OwnLeader* leader) noexcept nogil:
    cdef int16_t code = topic_log_find(door, request, name, partition, must_write, log)
    if code != KAFKA_OK:
        return code
    leader_find(door, name, log.id, <uint32_t>partition, leader)
    if not leader.is_here:
        return KAFKA_NOT_LEADER_OR_FOLLOWER
    if epoch >= 0 and epoch != leader.epoch:
        return KAFKA_FENCED_LEADER_EPOCH if epoch < leader.epoch else <int16_t>KAFKA_UNKNOWN_LEADER_EPOCH
    return KAFKA_OK


# --- claims -----------------------------------------------------------------------------------------------------------
cdef void leader_note(KafkaDoor* door, const Bytes* name, const uint8_t* id, uint32_t partition,
                      const OwnLeader* leader) noexcept nogil:
    cdef OwnClaim claim
    cdef uint32_t place
    cdef uint32_t i
    if door.own.claims.size >= TUNE_CLAIMS_MAX or door.brokers.size == 0:
        return
    claim.seen = leader.seen
    claim.key_length = _key(claim.key, name, partition).length
    place = partition
    for i in range(name.length):
        place += name.data[i]       # topics of one partition do not all go to the same broker
    claim.value_length = _put_number(claim.value, <uint32_t>door.brokers.data[place % door.brokers.size].id)
    claim.value[claim.value_length] = 32
    claim.value_length += 1
    claim.value_length += _put_number(claim.value + claim.value_length, <uint32_t>(leader.epoch + 1))
    claim.value[claim.value_length] = 32
    claim.value_length += 1
    _put_id(claim.value + claim.value_length, id)
    claim.value_length += ID_DIGITS
    door.own.claims.push(claim)


# All or none: who lost against another node looks again.
cdef bint _encode(KafkaDoor* door) noexcept nogil:
    cdef const OwnClaim* claim
    cdef Compare compare
    cdef Txn root
    cdef Op op
    cdef size_t i
    memset(&root, 0, sizeof(Txn))
    memset(&op, 0, sizeof(Op))
    memset(&compare, 0, sizeof(Compare))
    command_clear(&door.desk.command)
    door.desk.command.kind = COMMAND_KEYS
    compare.target = COMPARE_MOD_REVISION
    compare.result = COMPARE_EQUAL
    op.kind = OP_PUT
    for i in range(door.own.claims.size):
        claim = door.own.claims.data + i
        compare.key = op.key = bytes_of(claim.key, claim.key_length)
        compare.number = claim.seen
        op.value = bytes_of(claim.value, claim.value_length)
        if not door.desk.command.compares.push(compare) or not door.desk.command.ops.push(op):
            return False
    root.compare_count = root.then_count = root.else_first = <uint32_t>door.own.claims.size
    return door.desk.command.txns.push(root)


cdef bint leaders_claim(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef status_t status = OK
    cdef bint is_sent
    if door.own.claims.size == 0:
        return False
    is_sent = _encode(door) and request_command(door, request, 0, False, &status)
    door.own.claims.clear()
    return is_sent
