"""The Kafka door's lines of the audit trail: bodies.

A record is made in Desk.payload, which nothing else uses while a request is answered.
"""

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memset

from raftmeta.doors.kafka.codec cimport KafkaReader, get_int32, get_text
from raftmeta.doors.kafka.group_state cimport group_key_of
from raftmeta.doors.kafka.protocol cimport KAFKA_CONSUMER_GROUP_HEARTBEAT, KAFKA_OK
from raftmeta.native.atomics cimport load_shared
from raftmeta.native.threads cimport wall_now_ms
from raftmeta.security.audit_queue cimport (
    AUDIT_ADMINISTRATION, AUDIT_AUTHENTICATE, AUDIT_BY_KAFKA, AUDIT_DENIED, AUDIT_FILLER, AUDIT_GROUP_JOIN,
    AUDIT_GROUP_LEAVE, AUDIT_GROUP_SYNC, AUDIT_LABEL_KEY, AUDIT_PORT_KAFKA, AUDIT_PROOF_CERTIFICATE,
    AUDIT_PROOF_PASSWORD, AUDIT_RANGE, AUDIT_READS, AUDIT_WRITES, AuditClass, AuditItem, AuditRecord, AuditTrail,
    audit_admits, audit_push, audit_push_refusal, audit_wants)
from raftmeta.status cimport AUTHENTICATION_FAILED, GROUP_REFUSED, OK, PERMISSION_DENIED
from raftmeta.wire.consumers cimport CONSUMER_JOINS
from raftmeta.wire.commands cimport KEY_BYTES_MAX, Bytes

cdef enum:
    ROUND = 8


cdef inline AuditRecord* _head(KafkaDoor* door) noexcept nogil:
    return <AuditRecord*>door.desk.payload.data


cdef bint _open(KafkaDoor* door, const KafkaConnection* connection, uint8_t operation) noexcept nogil:
    cdef AuditRecord head
    memset(&head, 0, sizeof(head))
    head.operation = operation
    head.port = AUDIT_PORT_KAFKA
    head.wall_ms = wall_now_ms()
    head.address = connection.base.audit_address
    head.principal_length = connection.name_length
    if connection.is_certified:
        head.certificate_length = connection.name_length
        head.proof = AUDIT_PROOF_CERTIFICATE
    elif connection.name_length:
        head.proof = AUDIT_PROOF_PASSWORD
    door.desk.payload.clear()
    return (door.desk.payload.append(<const uint8_t*>&head, sizeof(head))
            and door.desk.payload.append(connection.name, head.principal_length)
            and door.desk.payload.append(connection.name, head.certificate_length))


# A heartbeat of a consumer may be a join or a leave.
cdef uint8_t _operation(const KafkaRequest* request) noexcept nogil:
    cdef KafkaReader reader = request.body
    cdef int32_t epoch
    if request.key != KAFKA_CONSUMER_GROUP_HEARTBEAT:
        return request.handler.operation
    get_text(&reader)
    get_text(&reader)
    epoch = get_int32(&reader)
    if epoch == CONSUMER_JOINS:
        return AUDIT_GROUP_JOIN
    return AUDIT_GROUP_LEAVE if epoch < 0 else request.handler.operation


# The key of the group that the request names first.
cdef void _append_group(KafkaDoor* door, const KafkaRequest* request, uint8_t operation) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX] bytes
    cdef KafkaReader reader = request.body
    cdef Bytes group = get_text(&reader)
    cdef Bytes key = group_key_of(&group, bytes)
    cdef AuditItem item
    memset(&item, 0, sizeof(item))
    item.operation = operation
    item.label = AUDIT_LABEL_KEY
    item.first_length = <uint16_t>key.length
    _head(door).item_total = 1
    if not door.desk.payload.reserve(door.desk.payload.size + sizeof(item) + key.length):
        return
    door.desk.payload.append(<const uint8_t*>&item, sizeof(item))
    door.desk.payload.append(key.data, key.length)
    _head(door).item_count = 1


cdef void _push(KafkaDoor* door, AuditClass kind, status_t status) noexcept nogil:
    if not door.desk.payload.resize((door.desk.payload.size + ROUND - 1) & ~<size_t>(ROUND - 1)):
        return
    _head(door).size = <uint32_t>door.desk.payload.size
    _head(door).kind = kind
    _head(door).status = status
    audit_push(door.desk.base.audit, AUDIT_BY_KAFKA, _head(door), kind, False)


cdef void audit_answered(KafkaDoor* door, const KafkaConnection* connection,
                         const KafkaRequest* request) noexcept nogil:
    cdef uint8_t operation = _operation(request)
    cdef AuditClass kind = AUDIT_READS if operation == AUDIT_RANGE else AUDIT_WRITES
    if request.is_denied:
        kind = AUDIT_DENIED
    if (door.desk.base.audit == NULL or operation == AUDIT_FILLER or not audit_wants(door.desk.base.audit, kind)
            or not _open(door, connection, operation)):
        return
    if operation in (AUDIT_GROUP_JOIN, AUDIT_GROUP_SYNC, AUDIT_GROUP_LEAVE):
        _append_group(door, request, operation)
    _push(door, kind, PERMISSION_DENIED if request.is_denied else
          OK if request.error == KAFKA_OK else <status_t>GROUP_REFUSED)


cdef bint audit_blocks(const KafkaDoor* door) noexcept nogil:
    cdef AuditTrail* trail = door.desk.base.audit
    return trail != NULL and trail.is_required and trail.writes and load_shared(&trail.is_failing) != 0


cdef void audit_proved(KafkaDoor* door, const KafkaConnection* connection, bint is_proved) noexcept nogil:
    cdef AuditTrail* trail = door.desk.base.audit
    if trail == NULL or (not is_proved and not audit_admits(trail, AUDIT_BY_KAFKA, door.desk.base.now_ns)):
        return
    if _open(door, connection, AUDIT_AUTHENTICATE):
        _push(door, AUDIT_ADMINISTRATION if is_proved else AUDIT_DENIED,
              OK if is_proved else <status_t>AUTHENTICATION_FAILED)


cdef void audit_refused(KafkaDoor* door, const KafkaConnection* connection, status_t status) noexcept nogil:
    if door.desk.base.audit != NULL:
        audit_push_refusal(door.desk.base.audit, AUDIT_BY_KAFKA, AUDIT_PORT_KAFKA, &connection.base.audit_address,
                           status, door.desk.base.now_ns)
