"""The ZooKeeper door's lines of the audit trail: bodies.

It decides which word of the trail a request of ZooKeeper has, and who is named. A record is made in ZkDoor.payload,
which nothing else uses while a request is answered.
"""

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.zookeeper.access cimport access_principal
from raftmeta.doors.zookeeper.codec cimport ZK_LENGTH_BYTES, ZkStrings, zk_operation_next
from raftmeta.doors.zookeeper.protocol cimport (ZK_ADD_WATCH, ZK_AUTH_FAILED, ZK_BAD_VERSION, ZK_CHECK, ZK_CREATE,
                                                ZK_CREATE2, ZK_CREATE_CONTAINER, ZK_CREATE_TTL, ZK_DELETE, ZK_ERROR,
                                                ZK_EXISTS, ZK_GET_ACL, ZK_GET_ALL_CHILDREN_NUMBER, ZK_GET_CHILDREN,
                                                ZK_GET_CHILDREN2, ZK_GET_DATA, ZK_GET_EPHEMERALS, ZK_MULTI,
                                                ZK_MULTI_READ, ZK_NODE_EXISTS, ZK_NO_AUTH, ZK_NO_NODE, ZK_OK,
                                                ZK_QUOTA_EXCEEDED, ZK_RECONFIG, ZK_REMOVE_WATCHES,
                                                ZK_RUNTIME_INCONSISTENCY, ZK_SESSION_EXPIRED, ZK_SESSION_MOVED,
                                                ZK_SET_ACL, ZK_SET_DATA, ZK_SET_WATCHES, ZK_SET_WATCHES2, ZK_THROTTLED)
from raftmeta.native.atomics cimport load_shared
from raftmeta.native.threads cimport wall_now_ms
from raftmeta.security.audit_queue cimport (
    AUDIT_ADMINISTRATION, AUDIT_AUTHENTICATE, AUDIT_BY_DOORS, AUDIT_COMPARE, AUDIT_CREATE, AUDIT_DELETE, AUDIT_DENIED,
    AUDIT_FILLER, AUDIT_GET, AUDIT_ITEM_BYTES_MAX, AUDIT_ITEMS_MAX, AUDIT_LABEL_KEY, AUDIT_LABEL_LEASE,
    AUDIT_MEMBER_CHANGE, AUDIT_PORT_ZOOKEEPER, AUDIT_PROOF_CERTIFICATE, AUDIT_PROOF_PASSWORD, AUDIT_RANGE, AUDIT_READS,
    AUDIT_TRANSACTION, AUDIT_UNWATCH, AUDIT_UPDATE, AUDIT_WATCH, AUDIT_WRITES, AuditClass, AuditItem,
    AuditLabel, AuditRecord, AuditTrail, audit_admits, audit_push, audit_push_refusal, audit_wants)
from raftmeta.status cimport (AUTHENTICATION_FAILED, COMPARE_FAILED, FENCED, KEY_EXISTS, KEY_MISSING, LEASE_EXPIRED, OK,
                              OUTCOME_UNKNOWN, PERMISSION_DENIED, QUOTA_EXCEEDED, ZNODE_REFUSED)
from raftmeta.wire.commands cimport KEY_BYTES_MAX, Bytes

cdef enum:
    ROUND = 8
    NAME_BYTES_MAX = 255
    ZXID_AT = ZK_LENGTH_BYTES + 4       # in a reply: length, xid, zxid, error, body
    ERROR_AT = ZXID_AT + 8
    BODY_AT = ERROR_AT + 4
    FAILED_BYTES = 13                   # a result of a multi that failed: type, end, error, error


# --- words ------------------------------------------------------------------------------------------------------------
# AUDIT_FILLER: nobody wants to know.
cdef uint8_t _operation_of(int32_t opcode) noexcept nogil:
    if opcode in (ZK_CREATE, ZK_CREATE2, ZK_CREATE_CONTAINER, ZK_CREATE_TTL):
        return AUDIT_CREATE
    if opcode == ZK_DELETE:
        return AUDIT_DELETE
    if opcode == ZK_SET_DATA or opcode == ZK_SET_ACL:
        return AUDIT_UPDATE
    if opcode == ZK_CHECK:
        return AUDIT_COMPARE
    if opcode == ZK_MULTI:
        return AUDIT_TRANSACTION
    if opcode == ZK_RECONFIG:
        return AUDIT_MEMBER_CHANGE
    if opcode in (ZK_GET_DATA, ZK_EXISTS, ZK_GET_ACL):
        return AUDIT_GET
    if opcode in (ZK_GET_CHILDREN, ZK_GET_CHILDREN2, ZK_GET_ALL_CHILDREN_NUMBER, ZK_GET_EPHEMERALS, ZK_MULTI_READ):
        return AUDIT_RANGE
    if opcode in (ZK_ADD_WATCH, ZK_SET_WATCHES, ZK_SET_WATCHES2):
        return AUDIT_WATCH
    return AUDIT_UNWATCH if opcode == ZK_REMOVE_WATCHES else <uint8_t>AUDIT_FILLER


cdef AuditClass _class_of(uint8_t operation) noexcept nogil:
    if operation == AUDIT_MEMBER_CHANGE:
        return AUDIT_ADMINISTRATION
    return AUDIT_READS if operation in (AUDIT_GET, AUDIT_RANGE, AUDIT_WATCH, AUDIT_UNWATCH) else AUDIT_WRITES


cdef status_t _status_of(int32_t error) noexcept nogil:
    if error == ZK_OK:
        return OK
    if error == ZK_NO_AUTH:
        return PERMISSION_DENIED
    if error == ZK_AUTH_FAILED:
        return AUTHENTICATION_FAILED
    if error == ZK_NO_NODE:
        return KEY_MISSING
    if error == ZK_NODE_EXISTS:
        return KEY_EXISTS
    if error == ZK_BAD_VERSION:
        return COMPARE_FAILED
    if error == ZK_SESSION_EXPIRED:
        return LEASE_EXPIRED
    if error == ZK_QUOTA_EXCEEDED or error == ZK_THROTTLED:
        return QUOTA_EXCEEDED
    return FENCED if error == ZK_SESSION_MOVED else ZNODE_REFUSED


cdef uint64_t _big(const uint8_t* at, int width) noexcept nogil:
    cdef uint64_t value = 0
    cdef int i
    for i in range(width):
        value = value << 8 | at[i]
    return value


# The error that the client is told. A multi tells that of the operation that failed.
cdef int32_t _error_of(const uint8_t* reply, size_t length, int32_t opcode) noexcept nogil:
    cdef int32_t error = <int32_t>_big(reply + ERROR_AT, 4)
    cdef size_t at = BODY_AT
    if error != ZK_OK or opcode != ZK_MULTI:
        return error
    while at + FAILED_BYTES <= length and <int32_t>_big(reply + at, 4) == ZK_ERROR and reply[at + 4] == 0:
        error = <int32_t>_big(reply + at + 5, 4)
        if error != ZK_OK and error != ZK_RUNTIME_INCONSISTENCY:
            return error
        at += FAILED_BYTES
    return ZK_OK


# --- a record ---------------------------------------------------------------------------------------------------------
cdef inline AuditRecord* _head(ZkDoor* door) noexcept nogil:
    return <AuditRecord*>door.desk.payload.data


# Of an identity of digest the name alone: what is behind the colon stands for a password.
cdef Bytes _principal(ZkDoor* door, const ZkConnection* connection, AuditRecord* head) noexcept nogil:
    cdef bint is_certified
    cdef Bytes name = access_principal(door, connection, &is_certified)
    cdef uint32_t length = 0
    if is_certified:
        head.certificate_length = <uint8_t>name.length
        head.proof = AUDIT_PROOF_CERTIFICATE
        return name
    while length < name.length and name.data[length] != c":" and length < NAME_BYTES_MAX:
        length += 1
    if name.length != 0:
        head.proof = AUDIT_PROOF_PASSWORD
    return bytes_of(name.data, length)


cdef bint _open(ZkDoor* door, const ZkConnection* connection, uint8_t operation) noexcept nogil:
    cdef AuditRecord head
    cdef Bytes principal
    memset(&head, 0, sizeof(head))
    head.operation = operation
    head.port = AUDIT_PORT_ZOOKEEPER
    head.wall_ms = wall_now_ms()
    head.address = connection.base.audit_address
    principal = _principal(door, connection, &head)
    head.principal_length = <uint8_t>principal.length
    door.desk.payload.clear()
    return (door.desk.payload.append(<const uint8_t*>&head, sizeof(head))
            and door.desk.payload.append(principal.data, principal.length)
            and door.desk.payload.append(principal.data, head.certificate_length))


# One more of the record's items: a path, or the number of a session.
cdef void _append(ZkDoor* door, uint8_t operation, AuditLabel label, uint64_t number, const Bytes* path) noexcept nogil:
    cdef AuditItem item
    cdef uint32_t length = 0
    _head(door).item_total += 1
    memset(&item, 0, sizeof(item))
    if path != NULL:
        length = min(path.length, <uint32_t>(KEY_BYTES_MAX - door.root_length))
        item.first_length = <uint16_t>(door.root_length + length)
    item.operation = operation
    item.label = label
    item.number = number
    if (_head(door).item_count >= AUDIT_ITEMS_MAX
            or door.desk.payload.size - sizeof(AuditRecord) + sizeof(item) + item.first_length > AUDIT_ITEM_BYTES_MAX
            or not door.desk.payload.reserve(door.desk.payload.size + sizeof(item) + item.first_length)):
        return
    door.desk.payload.append(<const uint8_t*>&item, sizeof(item))
    if path != NULL:
        door.desk.payload.append(door.root, door.root_length)
        door.desk.payload.append(path.data, length)
    _head(door).item_count += 1


cdef void _push(ZkDoor* door, AuditClass kind, status_t status, uint64_t revision) noexcept nogil:
    if not door.desk.payload.resize((door.desk.payload.size + ROUND - 1) & ~<size_t>(ROUND - 1)):
        return
    _head(door).size = <uint32_t>door.desk.payload.size
    _head(door).kind = kind
    _head(door).status = status
    _head(door).revision = revision
    audit_push(door.desk.base.audit, AUDIT_BY_DOORS, _head(door), kind, False)


# --- what happens -----------------------------------------------------------------------------------------------------
cdef void _append_paths(ZkDoor* door, const ZkRequest* request, uint8_t operation) noexcept nogil:
    cdef ZkStrings left = request.operations
    cdef ZkRequest one
    if request.opcode != ZK_MULTI and request.opcode != ZK_MULTI_READ:
        if request.path.length != 0:
            _append(door, operation, AUDIT_LABEL_KEY, 0, &request.path)
        return
    _head(door).is_listed = True
    while zk_operation_next(&left, &one):
        _append(door, _operation_of(one.opcode), AUDIT_LABEL_KEY, 0, &one.path)


cdef void audit_answered(ZkDoor* door, const ZkConnection* connection, const ZkRequest* request,
                         size_t reply) noexcept nogil:
    cdef const AuditTrail* trail = door.desk.base.audit
    cdef uint8_t operation
    cdef AuditClass kind
    cdef int32_t error = request.error
    cdef uint64_t zxid = 0
    if trail == NULL or request.row == NULL:
        return
    operation = _operation_of(request.opcode)
    # The events that setWatches tells stand in front of its answer, which is never an error of its own.
    if request.opcode not in (ZK_SET_WATCHES, ZK_SET_WATCHES2) and connection.base.out.size - reply >= BODY_AT:
        error = _error_of(connection.base.out.data + reply, connection.base.out.size - reply, request.opcode)
        zxid = _big(connection.base.out.data + reply + ZXID_AT, 8)
    kind = AUDIT_DENIED if error == ZK_NO_AUTH else _class_of(operation)
    if operation == AUDIT_FILLER or not audit_wants(trail, kind) or not _open(door, connection, operation):
        return
    _append_paths(door, request, operation)
    _push(door, kind, _status_of(error), zxid if _class_of(operation) != AUDIT_READS else 0)


cdef void audit_left(ZkDoor* door, const ZkConnection* connection, const ZkRequest* request) noexcept nogil:
    cdef uint8_t operation = _operation_of(request.opcode)
    cdef AuditClass kind = _class_of(operation)
    if (operation == AUDIT_FILLER or not audit_wants(door.desk.base.audit, kind)
            or not _open(door, connection, operation)):
        return
    _append_paths(door, request, operation)
    _push(door, kind, OUTCOME_UNKNOWN, 0)


cdef bint audit_blocks(const ZkDoor* door) noexcept nogil:
    cdef AuditTrail* trail = door.desk.base.audit
    return trail != NULL and trail.is_required and trail.writes and load_shared(&trail.is_failing) != 0


cdef void audit_proved(ZkDoor* door, const ZkConnection* connection, int32_t error) noexcept nogil:
    cdef AuditTrail* trail = door.desk.base.audit
    if trail == NULL or (error != ZK_OK and not audit_admits(trail, AUDIT_BY_DOORS, door.desk.base.now_ns)):
        return
    if _open(door, connection, AUDIT_AUTHENTICATE):
        _push(door, AUDIT_ADMINISTRATION if error == ZK_OK else AUDIT_DENIED,
              OK if error == ZK_OK else AUTHENTICATION_FAILED, 0)


cdef void audit_session(ZkDoor* door, const ZkConnection* connection, uint8_t operation) noexcept nogil:
    cdef AuditTrail* trail = door.desk.base.audit
    if trail == NULL or not audit_wants(trail, AUDIT_WRITES) or not _open(door, connection, operation):
        return
    _append(door, operation, AUDIT_LABEL_LEASE, connection.session, NULL)
    _push(door, AUDIT_WRITES, OK, 0)


cdef void audit_refused(ZkDoor* door, const ZkConnection* connection, status_t status) noexcept nogil:
    if door.desk.base.audit != NULL:
        audit_push_refusal(door.desk.base.audit, AUDIT_BY_DOORS, AUDIT_PORT_ZOOKEEPER, &connection.base.audit_address,
                           status, door.desk.base.now_ns)
