"""The Kafka door's lines of the audit trail: bodies.

A record is made in Desk.payload, which nothing else uses while a request is answered.
"""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy, memset, strlen

from raftmeta.doors.kafka.codec cimport KafkaReader, get_text
from raftmeta.doors.kafka.group_state cimport group_key_of
from raftmeta.doors.kafka.protocol cimport (KAFKA_OK, KAFKA_TOPIC_ALREADY_EXISTS, KAFKA_UNKNOWN_TOPIC_ID,
                                            KAFKA_UNKNOWN_TOPIC_OR_PARTITION)
from raftmeta.native.atomics cimport load_shared
from raftmeta.native.containers cimport Vec
from raftmeta.native.threads cimport wall_now_ms
from raftmeta.security.audit_queue cimport (
    AUDIT_ADMINISTRATION, AUDIT_AUTHENTICATE, AUDIT_BY_KAFKA, AUDIT_DENIED, AUDIT_FILLER, AUDIT_GET, AUDIT_GROUP_JOIN,
    AUDIT_GROUP_LEAVE, AUDIT_GROUP_SYNC, AUDIT_ITEM_BYTES_MAX, AUDIT_ITEMS_MAX, AUDIT_LABEL_KEY, AUDIT_OFFSET_COMMIT,
    AUDIT_OFFSET_DELETE, AUDIT_PORT_KAFKA, AUDIT_PROOF_CERTIFICATE, AUDIT_PROOF_PASSWORD, AUDIT_RANGE, AUDIT_READS,
    AUDIT_WRITES, AuditClass, AuditItem, AuditRecord, AuditTrail,
    audit_admits, audit_push, audit_push_refusal, audit_wants)
from raftmeta.status cimport (AUTHENTICATION_FAILED, GROUP_REFUSED, KEY_EXISTS, KEY_MISSING, OK,
                              PERMISSION_DENIED)
from raftmeta.wire.commands cimport KEY_BYTES_MAX
from raftmeta.wire.topics cimport TOPIC_NAME_BYTES_MAX

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


# --- keys -------------------------------------------------------------------------------------------------------------
# A name that is too long for a key is cut.
cdef void _name(const KafkaDoor* door, KafkaRequest* request, const char* root, const Bytes* name,
                const char* end) noexcept nogil:
    cdef Vec[uint8_t]* names = &request.names
    cdef size_t start = names.size
    cdef uint16_t length
    if door.desk.base.audit == NULL or request.operation == AUDIT_FILLER:
        return
    request.name_count += 1
    length = <uint16_t>(strlen(root) + min(name.length, <uint32_t>TOPIC_NAME_BYTES_MAX) + strlen(end))
    if (request.name_count > AUDIT_ITEMS_MAX or start + sizeof(length) + length > AUDIT_ITEM_BYTES_MAX
            or not names.reserve(start + sizeof(length) + length)):
        return
    names.append(<const uint8_t*>&length, sizeof(length))
    names.append(<const uint8_t*>root, strlen(root))
    names.append(name.data, min(name.length, <uint32_t>TOPIC_NAME_BYTES_MAX))
    names.append(<const uint8_t*>end, strlen(end))


cdef void audit_names_group(const KafkaDoor* door, KafkaRequest* request, const Bytes* name) noexcept nogil:
    _name(door, request, b"groups/", name, b"")


cdef void audit_names_topic(const KafkaDoor* door, KafkaRequest* request, const Bytes* name) noexcept nogil:
    _name(door, request, b"kafka-topics/", name, b"")


cdef void audit_names_log(const KafkaDoor* door, KafkaRequest* request, const Bytes* name) noexcept nogil:
    _name(door, request, b"kafka-logs/", name, b"/")


cdef void _append_key(KafkaDoor* door, uint8_t operation, const uint8_t* key, uint32_t length) noexcept nogil:
    cdef AuditItem item
    memset(&item, 0, sizeof(item))
    item.operation = operation
    item.label = AUDIT_LABEL_KEY
    item.first_length = <uint16_t>length
    if not door.desk.payload.reserve(door.desk.payload.size + sizeof(item) + length):
        return
    door.desk.payload.append(<const uint8_t*>&item, sizeof(item))
    door.desk.payload.append(key, length)
    _head(door).item_count += 1


# The key of the group that the request names first.
cdef void _append_group(KafkaDoor* door, const KafkaRequest* request) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX] bytes
    cdef KafkaReader reader = request.body
    cdef Bytes group = get_text(&reader)
    cdef Bytes key = group_key_of(&group, bytes)
    _head(door).item_total = 1
    _append_key(door, request.operation, key.data, key.length)


cdef void _append_names(KafkaDoor* door, const KafkaRequest* request) noexcept nogil:
    cdef size_t at = 0
    cdef uint16_t length
    _head(door).item_total = request.name_count
    _head(door).is_listed = request.name_count > 1
    while at < request.names.size:
        memcpy(&length, request.names.data + at, sizeof(length))
        _append_key(door, request.operation, request.names.data + at + sizeof(length), length)
        at += sizeof(length) + length


cdef inline bint _is_of_group(uint8_t operation) noexcept nogil:
    return operation in (AUDIT_GROUP_JOIN, AUDIT_GROUP_SYNC, AUDIT_GROUP_LEAVE, AUDIT_OFFSET_COMMIT,
                         AUDIT_OFFSET_DELETE)


# --- lines ------------------------------------------------------------------------------------------------------------
cdef void _push(KafkaDoor* door, AuditClass kind, status_t status) noexcept nogil:
    if not door.desk.payload.resize((door.desk.payload.size + ROUND - 1) & ~<size_t>(ROUND - 1)):
        return
    _head(door).size = <uint32_t>door.desk.payload.size
    _head(door).kind = kind
    _head(door).status = status
    audit_push(door.desk.base.audit, AUDIT_BY_KAFKA, _head(door), kind, False)


cdef status_t _status_of(const KafkaRequest* request) noexcept nogil:
    if request.is_denied:
        return PERMISSION_DENIED
    if request.error == KAFKA_OK:
        return OK
    if request.error == KAFKA_TOPIC_ALREADY_EXISTS:
        return KEY_EXISTS
    if request.error == KAFKA_UNKNOWN_TOPIC_OR_PARTITION or request.error == KAFKA_UNKNOWN_TOPIC_ID:
        return KEY_MISSING
    return GROUP_REFUSED


cdef void audit_answered(KafkaDoor* door, const KafkaConnection* connection,
                         const KafkaRequest* request) noexcept nogil:
    cdef uint8_t operation = request.operation
    cdef AuditClass kind = AUDIT_READS if operation == AUDIT_RANGE or operation == AUDIT_GET else AUDIT_WRITES
    if request.is_denied:
        kind = AUDIT_DENIED
    if (door.desk.base.audit == NULL or operation == AUDIT_FILLER or not audit_wants(door.desk.base.audit, kind)
            or not _open(door, connection, operation)):
        return
    if _is_of_group(operation):
        _append_group(door, request)
    else:
        _append_names(door, request)
    _push(door, kind, _status_of(request))


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
