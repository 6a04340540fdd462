"""The etcd door's lines of the audit trail: bodies.

A record is made in EtcdDoor.record, which nothing else uses.
"""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memset

from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.etcd.protobuf cimport PbReader, pb_next, pb_reader
from raftmeta.doors.etcd.state cimport CODE_OK
from raftmeta.native.atomics cimport load_shared
from raftmeta.native.threads cimport wall_now_ms
from raftmeta.security.audit_queue cimport (
    AUDIT_ADMINISTRATION, AUDIT_BY_ETCD, AUDIT_COMPACT, AUDIT_COMPARE, AUDIT_DELETE, AUDIT_DELETE_RANGE, AUDIT_DENIED,
    AUDIT_FILLER, AUDIT_GET, AUDIT_ITEM_BYTES_MAX, AUDIT_ITEMS_MAX, AUDIT_LABEL_KEY, AUDIT_PORT_ETCD,
    AUDIT_PROOF_CERTIFICATE, AUDIT_PUT, AUDIT_RANGE, AUDIT_READS, AUDIT_TRANSACTION, AUDIT_WRITES, AuditClass,
    AuditItem, AuditRecord, AuditTrail, audit_push, audit_wants)
from raftmeta.status cimport AUTHENTICATION_FAILED, COMMAND_INVALID, OK, PERMISSION_DENIED, status_t
from raftmeta.wire.commands cimport KEY_BYTES_MAX

cdef enum:
    ROUND = 8
    # Fields of Compare, TxnRequest and RequestOp.
    COMPARE_KEY = 3
    COMPARE_RANGE_END = 64
    TXN_COMPARE = 1
    REQUEST_RANGE = 1
    REQUEST_PUT = 2
    REQUEST_DELETE = 3
    REQUEST_TXN = 4


cdef bint audit_blocks(const EtcdDoor* door) noexcept nogil:
    cdef AuditTrail* trail = door.desk.base.audit
    return trail != NULL and trail.is_required and trail.writes and load_shared(&trail.is_failing) != 0


cdef inline AuditRecord* _head(EtcdDoor* door) noexcept nogil:
    return <AuditRecord*>door.record.data


cdef bint _open(EtcdDoor* door, const EtcdCall* call) noexcept nogil:
    cdef AuditRecord head
    memset(&head, 0, sizeof(head))
    head.operation = call.handler.operation
    head.port = AUDIT_PORT_ETCD
    head.wall_ms = wall_now_ms()
    head.address = call.connection.base.audit_address
    head.principal_length = head.certificate_length = call.connection.name_length
    if call.connection.is_certified:
        head.proof = AUDIT_PROOF_CERTIFICATE
    head.is_listed = call.handler.operation == AUDIT_TRANSACTION
    door.record.clear()
    return (door.record.append(<const uint8_t*>&head, sizeof(head))
            and door.record.append(call.connection.name, head.principal_length)
            and door.record.append(call.connection.name, head.certificate_length))


# --- keys -------------------------------------------------------------------------------------------------------------
cdef void _append(EtcdDoor* door, uint8_t operation, const Bytes* first, const Bytes* second) noexcept nogil:
    cdef AuditItem item
    cdef size_t length
    memset(&item, 0, sizeof(item))
    item.operation = operation
    item.label = AUDIT_LABEL_KEY
    item.first_length = <uint16_t>min(first.length, <uint32_t>KEY_BYTES_MAX)
    item.has_second = second != NULL
    item.second_length = <uint16_t>min(second.length, <uint32_t>KEY_BYTES_MAX) if second != NULL else 0
    length = sizeof(item) + item.first_length + item.second_length
    _head(door).item_total += 1
    if (_head(door).item_count >= AUDIT_ITEMS_MAX
            or door.record.size - sizeof(AuditRecord) + length > AUDIT_ITEM_BYTES_MAX
            or not door.record.reserve(door.record.size + length)):
        return
    door.record.append(<const uint8_t*>&item, sizeof(item))
    if item.first_length:
        door.record.append(first.data, item.first_length)
    if item.second_length:
        door.record.append(second.data, item.second_length)
    _head(door).item_count += 1


# The key that a message names, or its range. alone: the operation where it names one key.
cdef void _append_keys(EtcdDoor* door, const Bytes* message, uint8_t operation, uint8_t alone, uint32_t key_field,
                       uint32_t end_field) noexcept nogil:
    cdef PbReader reader = pb_reader(message)
    cdef Bytes key = bytes_of(NULL, 0)
    cdef Bytes end = bytes_of(NULL, 0)
    while pb_next(&reader):
        if reader.field == key_field:
            key = reader.bytes
        elif reader.field == end_field:
            end = reader.bytes
    if end.length == 0:
        _append(door, alone, &key, NULL)
        return
    if end.length == 1 and end.data[0] == 0:
        end.length = 0
    _append(door, operation, &key, &end)


cdef void _append_txn(EtcdDoor* door, const Bytes* txn) noexcept nogil:
    cdef PbReader reader = pb_reader(txn)
    cdef PbReader op
    while pb_next(&reader):
        if reader.field == TXN_COMPARE:
            _append_keys(door, &reader.bytes, AUDIT_COMPARE, AUDIT_COMPARE, COMPARE_KEY, COMPARE_RANGE_END)
            continue
        op = pb_reader(&reader.bytes)
        while pb_next(&op):
            if op.field == REQUEST_RANGE:
                _append_keys(door, &op.bytes, AUDIT_RANGE, AUDIT_GET, 1, 2)
            elif op.field == REQUEST_PUT:
                _append_keys(door, &op.bytes, AUDIT_PUT, AUDIT_PUT, 1, 0)
            elif op.field == REQUEST_DELETE:
                _append_keys(door, &op.bytes, AUDIT_DELETE_RANGE, AUDIT_DELETE, 1, 2)
            elif op.field == REQUEST_TXN:
                _append_txn(door, &op.bytes)


cdef void _append_items(EtcdDoor* door, uint8_t operation, const Bytes* message) noexcept nogil:
    if operation == AUDIT_TRANSACTION:
        _append_txn(door, message)
    elif operation == AUDIT_PUT:
        _append_keys(door, message, AUDIT_PUT, AUDIT_PUT, 1, 0)
    elif operation == AUDIT_DELETE_RANGE:
        _append_keys(door, message, AUDIT_DELETE_RANGE, AUDIT_DELETE, 1, 2)
    elif operation == AUDIT_RANGE:
        _append_keys(door, message, AUDIT_RANGE, AUDIT_GET, 1, 2)


# --- the line ---------------------------------------------------------------------------------------------------------
cdef AuditClass _kind_of(uint8_t operation, status_t status) noexcept nogil:
    if status == PERMISSION_DENIED or status == AUTHENTICATION_FAILED:
        return AUDIT_DENIED
    if operation == AUDIT_COMPACT:
        return AUDIT_ADMINISTRATION
    return AUDIT_READS if operation == AUDIT_RANGE else AUDIT_WRITES


cdef void audit_ended(EtcdDoor* door, const EtcdCall* call, const Bytes* message) noexcept nogil:
    cdef uint8_t operation
    cdef status_t status = call.status
    cdef AuditClass kind
    if door.desk.base.audit == NULL or call.handler == NULL or call.handler.operation == AUDIT_FILLER:
        return
    operation = call.handler.operation
    if status == OK and call.code != CODE_OK:
        status = COMMAND_INVALID        # refused for what it says
    kind = _kind_of(operation, status)
    if call.connection == NULL or not audit_wants(door.desk.base.audit, kind) or not _open(door, call):
        return
    _append_items(door, operation, message)
    if not door.record.resize((door.record.size + ROUND - 1) & ~<size_t>(ROUND - 1)):
        return
    _head(door).size = <uint32_t>door.record.size
    _head(door).kind = kind
    _head(door).status = status
    audit_push(door.desk.base.audit, AUDIT_BY_ETCD, _head(door), kind, False)
