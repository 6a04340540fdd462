"""The etcd door's lines of the audit trail: bodies.

A record is made in EtcdDoor.record, which nothing else uses.
"""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.etcd.protobuf cimport PbReader, pb_next, pb_reader
from raftmeta.doors.etcd.schema cimport MESSAGE_LEADER, MESSAGE_PROCLAIM, MESSAGE_RESIGN, MESSAGE_UNLOCK
from raftmeta.doors.etcd.state cimport CODE_OK
from raftmeta.native.atomics cimport load_shared
from raftmeta.native.threads cimport wall_now_ms
from raftmeta.security.audit_queue cimport (
    AUDIT_ADMINISTRATION, AUDIT_AUTH_BIND, AUDIT_AUTH_ENABLE, AUDIT_AUTH_GRANT, AUDIT_AUTH_REVOKE, AUDIT_AUTH_SHOW,
    AUDIT_AUTH_UNBIND, AUDIT_AUTHENTICATE, AUDIT_BY_ETCD, AUDIT_COMPACT, AUDIT_COMPARE, AUDIT_CREATE, AUDIT_DELETE,
    AUDIT_DELETE_RANGE, AUDIT_DENIED, AUDIT_LABEL_LEASE, AUDIT_LABEL_NAME, AUDIT_LABEL_ROLE, AUDIT_LEASE_GRANT,
    AUDIT_LEASE_LIST, AUDIT_LEASE_REVOKE,
    AUDIT_FILLER, AUDIT_GET, AUDIT_ITEM_BYTES_MAX, AUDIT_ITEMS_MAX, AUDIT_LABEL_KEY, AUDIT_PORT_ETCD,
    AUDIT_PROOF_CERTIFICATE, AUDIT_PROOF_PASSWORD, AUDIT_PUT, AUDIT_RANGE, AUDIT_READS, AUDIT_TRANSACTION, AUDIT_UPDATE,
    AUDIT_WATCH, AUDIT_WRITES, AuditClass,
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


cdef bint _open(EtcdDoor* door, const EtcdCall* call, uint8_t operation) noexcept nogil:
    cdef AuditRecord head
    memset(&head, 0, sizeof(head))
    head.operation = operation
    head.port = AUDIT_PORT_ETCD
    head.wall_ms = wall_now_ms()
    head.address = call.connection.base.audit_address
    head.principal_length = call.speaker.name_length
    if call.speaker.is_certified:
        head.certificate_length = call.speaker.name_length
        head.proof = AUDIT_PROOF_CERTIFICATE
    elif call.speaker.name_length:
        head.proof = AUDIT_PROOF_PASSWORD
    head.is_listed = operation == AUDIT_TRANSACTION
    door.record.clear()
    return (door.record.append(<const uint8_t*>&head, sizeof(head))
            and door.record.append(call.speaker.name, head.principal_length)
            and door.record.append(call.speaker.name, head.certificate_length))


# --- keys -------------------------------------------------------------------------------------------------------------
cdef void _append(EtcdDoor* door, uint8_t operation, const Bytes* first, const Bytes* second) noexcept nogil:
    _append_as(door, operation, first, second, AUDIT_LABEL_KEY, 0)


cdef void _append_as(EtcdDoor* door, uint8_t operation, const Bytes* first, const Bytes* second, uint8_t label,
                     uint64_t number) noexcept nogil:
    cdef AuditItem item
    cdef size_t length
    memset(&item, 0, sizeof(item))
    item.operation = operation
    item.label = label
    item.number = number
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


cdef Bytes _bytes_in(const Bytes* message, uint32_t field) noexcept nogil:
    cdef PbReader reader = pb_reader(message)
    cdef Bytes found = bytes_of(NULL, 0)
    while pb_next(&reader):
        if reader.field == field:
            found = reader.bytes
    return found


# A lease or a member by its id, which stands in this field; one that the door has yet to choose is not told.
cdef void _append_number(EtcdDoor* door, uint8_t operation, const Bytes* message, uint32_t field) noexcept nogil:
    cdef PbReader reader = pb_reader(message)
    cdef Bytes nothing = bytes_of(NULL, 0)
    while pb_next(&reader):
        if reader.field == field and reader.number != 0:
            _append_as(door, operation, &nothing, NULL, AUDIT_LABEL_LEASE, reader.number)


# The user or role that the message names first; then its role, or its permission.
cdef void _append_auth(EtcdDoor* door, uint8_t operation, const Bytes* message) noexcept nogil:
    cdef Bytes name = _bytes_in(message, 1)
    cdef Bytes second = _bytes_in(message, 2)
    if name.length:
        _append_as(door, operation, &name, NULL, AUDIT_LABEL_NAME, 0)
    if operation == AUDIT_AUTH_BIND or operation == AUDIT_AUTH_UNBIND:
        _append_as(door, operation, &second, NULL, AUDIT_LABEL_ROLE, 0)
    elif operation == AUDIT_AUTH_GRANT:
        _append_keys(door, &second, operation, operation, 2, 3)
    elif operation == AUDIT_AUTH_REVOKE:
        _append_keys(door, message, operation, operation, 2, 3)


# Locks and elections: the key that stands in a queue, or is in the LeaderKey of the message.
cdef void _append_queued(EtcdDoor* door, const EtcdCall* call, const Bytes* message) noexcept nogil:
    cdef uint16_t method = call.handler.request
    cdef Bytes key = bytes_of(call.kept.data, call.part)
    if method == MESSAGE_RESIGN or method == MESSAGE_PROCLAIM:
        key = _bytes_in(message, 1)
        key = _bytes_in(&key, 2)
    elif method == MESSAGE_UNLOCK or method == MESSAGE_LEADER:
        key = _bytes_in(message, 1)
    _append(door, call.handler.operation, &key, NULL)


cdef void _append_items(EtcdDoor* door, const EtcdCall* call, const Bytes* message) noexcept nogil:
    cdef uint8_t operation = call.handler.operation
    if operation in (AUDIT_CREATE, AUDIT_DELETE, AUDIT_UPDATE, AUDIT_GET):
        _append_queued(door, call, message)
    elif operation == AUDIT_LEASE_GRANT:
        _append_number(door, operation, message, 2)
    elif operation == AUDIT_LEASE_REVOKE or operation == AUDIT_LEASE_LIST:
        _append_number(door, operation, message, 1)
    elif AUDIT_AUTH_ENABLE <= operation <= AUDIT_AUTH_SHOW or operation == AUDIT_AUTHENTICATE:
        _append_auth(door, operation, message)
    elif operation == AUDIT_TRANSACTION:
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
    if AUDIT_COMPACT <= operation <= AUDIT_AUTHENTICATE:      # and what stands between them
        return AUDIT_ADMINISTRATION
    if operation in (AUDIT_RANGE, AUDIT_GET, AUDIT_WATCH, AUDIT_LEASE_LIST):
        return AUDIT_READS
    return AUDIT_WRITES


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
    if call.connection == NULL or not audit_wants(door.desk.base.audit, kind) or not _open(door, call, operation):
        return
    _append_items(door, call, message)
    _push(door, kind, status)


cdef void _push(EtcdDoor* door, AuditClass kind, status_t status) noexcept nogil:
    if not door.record.resize((door.record.size + ROUND - 1) & ~<size_t>(ROUND - 1)):
        return
    _head(door).size = <uint32_t>door.record.size
    _head(door).kind = kind
    _head(door).status = status
    audit_push(door.desk.base.audit, AUDIT_BY_ETCD, _head(door), kind, False)


cdef void audit_watch(EtcdDoor* door, const EtcdCall* call, const Bytes* start, const Bytes* end, bint is_key,
                      bint is_allowed) noexcept nogil:
    cdef AuditClass kind = AUDIT_READS if is_allowed else AUDIT_DENIED
    if door.desk.base.audit == NULL or call.connection == NULL or not audit_wants(door.desk.base.audit, kind):
        return
    if _open(door, call, AUDIT_WATCH):
        if is_key:
            _append(door, AUDIT_WATCH, start, NULL)
        else:
            _append(door, AUDIT_WATCH, start, end)
        _push(door, kind, OK if is_allowed else <status_t>PERMISSION_DENIED)
