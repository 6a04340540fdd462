"""etcd's messages as one table: bodies.

Sources: etcd api/etcdserverpb rpc.proto, api/mvccpb kv.proto, api/authpb auth.proto.
"""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memset

from raftmeta.doors.etcd.protobuf cimport PB_BYTES, PB_VARINT, PbReader, pb_next, pb_reader, pb_varint

cdef EtcdField[SCHEMA_FIELDS_MAX] FIELDS
cdef uint32_t[SCHEMA_MESSAGES_MAX] FIRST        # field of a message
cdef uint32_t[SCHEMA_MESSAGES_MAX] COUNTS
cdef uint32_t COUNT = 0

cdef enum:
    NAMES_VALUES_MAX = 8

ctypedef const char* word_t

cdef word_t[NAMES_MAX * NAMES_VALUES_MAX] NAMES        # a row for each enum


cdef const EtcdField* schema_fields(uint16_t message, uint32_t* count) noexcept nogil:
    count[0] = COUNTS[message]
    return &FIELDS[FIRST[message]]


cdef const EtcdField* schema_field(uint16_t message, uint32_t number) noexcept nogil:
    cdef uint32_t count = 0
    cdef const EtcdField* field = schema_fields(message, &count)
    cdef uint32_t i
    for i in range(count):
        if field[i].number == number:
            return &field[i]
    return NULL


cdef const char* schema_name(uint16_t names, uint32_t value) noexcept nogil:
    if value >= NAMES_VALUES_MAX:
        return NULL
    return NAMES[names * NAMES_VALUES_MAX + value]


# --- the check --------------------------------------------------------------------------------------------------------
# Well-formed UTF-8 (RFC 3629).
cdef bint _is_text(const Bytes* bytes) noexcept nogil:
    cdef size_t i = 0
    cdef uint8_t first
    cdef int more
    cdef int k
    while i < bytes.length:
        first = bytes.data[i]
        i += 1
        if first < 0x80:
            continue
        more = 1 if 0xc2 <= first <= 0xdf else 2 if 0xe0 <= first <= 0xef else 3 if 0xf0 <= first <= 0xf4 else 0
        if more == 0 or i + more > bytes.length:
            return False
        if ((first == 0xe0 and bytes.data[i] < 0xa0) or (first == 0xed and bytes.data[i] > 0x9f)
                or (first == 0xf0 and bytes.data[i] < 0x90) or (first == 0xf4 and bytes.data[i] > 0x8f)):
            return False
        for k in range(more):
            if bytes.data[i + k] & 0xc0 != 0x80:
                return False
        i += more
    return True


# A list of numbers may come packed.
cdef bint _is_packed(const Bytes* bytes) noexcept nogil:
    cdef PbReader reader = pb_reader(bytes)
    while reader.at != reader.end and not reader.is_bad:
        pb_varint(&reader)
    return not reader.is_bad


cdef bint _check_field(const EtcdField* field, const PbReader* reader, int depth) noexcept nogil:
    if field.kind == KIND_MESSAGE:
        return reader.wire == PB_BYTES and _check(field.of, &reader.bytes, depth + 1)
    if field.kind == KIND_BYTES:
        return reader.wire == PB_BYTES
    if field.kind == KIND_STRING:
        return reader.wire == PB_BYTES and _is_text(&reader.bytes)
    return reader.wire == PB_VARINT or (field.is_list and reader.wire == PB_BYTES and _is_packed(&reader.bytes))


cdef bint _check(uint16_t message, const Bytes* bytes, int depth) noexcept nogil:
    cdef PbReader reader = pb_reader(bytes)
    cdef const EtcdField* field
    if depth > SCHEMA_DEPTH_MAX:
        return False
    while pb_next(&reader):
        field = schema_field(message, reader.field)
        if field != NULL and not _check_field(field, &reader, depth):
            return False
    return not reader.is_bad


cdef bint schema_check(uint16_t message, const Bytes* bytes) noexcept nogil:
    return _check(message, bytes, 0)


# --- the table --------------------------------------------------------------------------------------------------------
cdef void _row(uint16_t message, uint16_t number, const char* name, uint8_t kind, uint16_t of=0,
               bint is_list=False) noexcept nogil:
    global COUNT
    cdef EtcdField* field = &FIELDS[COUNT]
    if COUNTS[message] == 0:
        FIRST[message] = COUNT
    field.message = message
    field.number = number
    field.name = name
    field.kind = kind
    field.of = of
    field.is_list = is_list
    COUNTS[message] += 1
    COUNT += 1


# The field of the last row is a key, or a part of one.
cdef void _keyed(uint8_t role) noexcept nogil:
    FIELDS[COUNT - 1].role = role


cdef void _header_only(uint16_t message) noexcept nogil:
    _row(message, 1, b"header", KIND_MESSAGE, MESSAGE_HEADER)


cdef void _fill_kv() noexcept nogil:
    _row(MESSAGE_HEADER, 1, b"cluster_id", KIND_UINT64)
    _row(MESSAGE_HEADER, 2, b"member_id", KIND_UINT64)
    _row(MESSAGE_HEADER, 3, b"revision", KIND_INT64)
    _row(MESSAGE_HEADER, 4, b"raft_term", KIND_UINT64)
    _row(MESSAGE_KEY_VALUE, 1, b"key", KIND_BYTES)
    _keyed(KEY_START)
    _row(MESSAGE_KEY_VALUE, 2, b"create_revision", KIND_INT64)
    _row(MESSAGE_KEY_VALUE, 3, b"mod_revision", KIND_INT64)
    _row(MESSAGE_KEY_VALUE, 4, b"version", KIND_INT64)
    _row(MESSAGE_KEY_VALUE, 5, b"value", KIND_BYTES)
    _row(MESSAGE_KEY_VALUE, 6, b"lease", KIND_INT64)
    _row(MESSAGE_RANGE, 1, b"key", KIND_BYTES)
    _keyed(KEY_START)
    _row(MESSAGE_RANGE, 2, b"range_end", KIND_BYTES)
    _keyed(KEY_END)
    _row(MESSAGE_RANGE, 3, b"limit", KIND_INT64)
    _row(MESSAGE_RANGE, 4, b"revision", KIND_INT64)
    _row(MESSAGE_RANGE, 5, b"sort_order", KIND_ENUM, NAMES_SORT_ORDER)
    _row(MESSAGE_RANGE, 6, b"sort_target", KIND_ENUM, NAMES_SORT_TARGET)
    _row(MESSAGE_RANGE, 7, b"serializable", KIND_BOOL)
    _row(MESSAGE_RANGE, 8, b"keys_only", KIND_BOOL)
    _row(MESSAGE_RANGE, 9, b"count_only", KIND_BOOL)
    _row(MESSAGE_RANGE, 10, b"min_mod_revision", KIND_INT64)
    _row(MESSAGE_RANGE, 11, b"max_mod_revision", KIND_INT64)
    _row(MESSAGE_RANGE, 12, b"min_create_revision", KIND_INT64)
    _row(MESSAGE_RANGE, 13, b"max_create_revision", KIND_INT64)
    _header_only(MESSAGE_RANGE_REPLY)
    _row(MESSAGE_RANGE_REPLY, 2, b"kvs", KIND_MESSAGE, MESSAGE_KEY_VALUE, True)
    _row(MESSAGE_RANGE_REPLY, 3, b"more", KIND_BOOL)
    _row(MESSAGE_RANGE_REPLY, 4, b"count", KIND_INT64)
    _row(MESSAGE_PUT, 1, b"key", KIND_BYTES)
    _keyed(KEY_START)
    _row(MESSAGE_PUT, 2, b"value", KIND_BYTES)
    _row(MESSAGE_PUT, 3, b"lease", KIND_INT64)
    _row(MESSAGE_PUT, 4, b"prev_kv", KIND_BOOL)
    _row(MESSAGE_PUT, 5, b"ignore_value", KIND_BOOL)
    _row(MESSAGE_PUT, 6, b"ignore_lease", KIND_BOOL)
    _header_only(MESSAGE_PUT_REPLY)
    _row(MESSAGE_PUT_REPLY, 2, b"prev_kv", KIND_MESSAGE, MESSAGE_KEY_VALUE)
    _row(MESSAGE_DELETE_RANGE, 1, b"key", KIND_BYTES)
    _keyed(KEY_START)
    _row(MESSAGE_DELETE_RANGE, 2, b"range_end", KIND_BYTES)
    _keyed(KEY_END)
    _row(MESSAGE_DELETE_RANGE, 3, b"prev_kv", KIND_BOOL)
    _header_only(MESSAGE_DELETE_RANGE_REPLY)
    _row(MESSAGE_DELETE_RANGE_REPLY, 2, b"deleted", KIND_INT64)
    _row(MESSAGE_DELETE_RANGE_REPLY, 3, b"prev_kvs", KIND_MESSAGE, MESSAGE_KEY_VALUE, True)


cdef void _fill_txn() noexcept nogil:
    _row(MESSAGE_REQUEST_OP, 1, b"request_range", KIND_MESSAGE, MESSAGE_RANGE)
    _row(MESSAGE_REQUEST_OP, 2, b"request_put", KIND_MESSAGE, MESSAGE_PUT)
    _row(MESSAGE_REQUEST_OP, 3, b"request_delete_range", KIND_MESSAGE, MESSAGE_DELETE_RANGE)
    _row(MESSAGE_REQUEST_OP, 4, b"request_txn", KIND_MESSAGE, MESSAGE_TXN)
    _row(MESSAGE_RESPONSE_OP, 1, b"response_range", KIND_MESSAGE, MESSAGE_RANGE_REPLY)
    _row(MESSAGE_RESPONSE_OP, 2, b"response_put", KIND_MESSAGE, MESSAGE_PUT_REPLY)
    _row(MESSAGE_RESPONSE_OP, 3, b"response_delete_range", KIND_MESSAGE, MESSAGE_DELETE_RANGE_REPLY)
    _row(MESSAGE_RESPONSE_OP, 4, b"response_txn", KIND_MESSAGE, MESSAGE_TXN_REPLY)
    _row(MESSAGE_COMPARE, 1, b"result", KIND_ENUM, NAMES_COMPARE_RESULT)
    _row(MESSAGE_COMPARE, 2, b"target", KIND_ENUM, NAMES_COMPARE_TARGET)
    _row(MESSAGE_COMPARE, 3, b"key", KIND_BYTES)
    _keyed(KEY_START)
    _row(MESSAGE_COMPARE, 4, b"version", KIND_INT64)
    _row(MESSAGE_COMPARE, 5, b"create_revision", KIND_INT64)
    _row(MESSAGE_COMPARE, 6, b"mod_revision", KIND_INT64)
    _row(MESSAGE_COMPARE, 7, b"value", KIND_BYTES)
    _row(MESSAGE_COMPARE, 8, b"lease", KIND_INT64)
    _row(MESSAGE_COMPARE, 64, b"range_end", KIND_BYTES)
    _keyed(KEY_END)
    _row(MESSAGE_TXN, 1, b"compare", KIND_MESSAGE, MESSAGE_COMPARE, True)
    _row(MESSAGE_TXN, 2, b"success", KIND_MESSAGE, MESSAGE_REQUEST_OP, True)
    _row(MESSAGE_TXN, 3, b"failure", KIND_MESSAGE, MESSAGE_REQUEST_OP, True)
    _header_only(MESSAGE_TXN_REPLY)
    _row(MESSAGE_TXN_REPLY, 2, b"succeeded", KIND_BOOL)
    _row(MESSAGE_TXN_REPLY, 3, b"responses", KIND_MESSAGE, MESSAGE_RESPONSE_OP, True)
    _row(MESSAGE_COMPACTION, 1, b"revision", KIND_INT64)
    _row(MESSAGE_COMPACTION, 2, b"physical", KIND_BOOL)
    _header_only(MESSAGE_COMPACTION_REPLY)


cdef void _fill_cluster() noexcept nogil:
    _row(MESSAGE_MEMBER, 1, b"ID", KIND_UINT64)
    _row(MESSAGE_MEMBER, 2, b"name", KIND_STRING)
    _row(MESSAGE_MEMBER, 3, b"peerURLs", KIND_STRING, 0, True)
    _row(MESSAGE_MEMBER, 4, b"clientURLs", KIND_STRING, 0, True)
    _row(MESSAGE_MEMBER, 5, b"isLearner", KIND_BOOL)
    _row(MESSAGE_MEMBER_LIST, 1, b"linearizable", KIND_BOOL)
    _header_only(MESSAGE_MEMBER_LIST_REPLY)
    _row(MESSAGE_MEMBER_LIST_REPLY, 2, b"members", KIND_MESSAGE, MESSAGE_MEMBER, True)
    _header_only(MESSAGE_STATUS_REPLY)
    _row(MESSAGE_STATUS_REPLY, 2, b"version", KIND_STRING)
    _row(MESSAGE_STATUS_REPLY, 3, b"dbSize", KIND_INT64)
    _row(MESSAGE_STATUS_REPLY, 4, b"leader", KIND_UINT64)
    _row(MESSAGE_STATUS_REPLY, 5, b"raftIndex", KIND_UINT64)
    _row(MESSAGE_STATUS_REPLY, 6, b"raftTerm", KIND_UINT64)
    _row(MESSAGE_STATUS_REPLY, 7, b"raftAppliedIndex", KIND_UINT64)
    _row(MESSAGE_STATUS_REPLY, 8, b"errors", KIND_STRING, 0, True)
    _row(MESSAGE_STATUS_REPLY, 9, b"dbSizeInUse", KIND_INT64)
    _row(MESSAGE_STATUS_REPLY, 10, b"isLearner", KIND_BOOL)
    _row(MESSAGE_STATUS_REPLY, 11, b"storageVersion", KIND_STRING)
    _row(MESSAGE_STATUS_REPLY, 12, b"dbSizeQuota", KIND_INT64)
    _row(MESSAGE_ALARM, 1, b"action", KIND_ENUM, NAMES_ALARM_ACTION)
    _row(MESSAGE_ALARM, 2, b"memberID", KIND_UINT64)
    _row(MESSAGE_ALARM, 3, b"alarm", KIND_ENUM, NAMES_ALARM_TYPE)
    _header_only(MESSAGE_ALARM_REPLY)
    _row(MESSAGE_ALARM_REPLY, 2, b"alarms", KIND_MESSAGE, MESSAGE_ALARM_MEMBER, True)
    _row(MESSAGE_ALARM_MEMBER, 1, b"memberID", KIND_UINT64)
    _row(MESSAGE_ALARM_MEMBER, 2, b"alarm", KIND_ENUM, NAMES_ALARM_TYPE)
    _header_only(MESSAGE_DEFRAGMENT_REPLY)
    _header_only(MESSAGE_HASH_REPLY)
    _row(MESSAGE_HASH_REPLY, 2, b"hash", KIND_UINT32)
    _row(MESSAGE_HASH_KV, 1, b"revision", KIND_INT64)
    _header_only(MESSAGE_HASH_KV_REPLY)
    _row(MESSAGE_HASH_KV_REPLY, 2, b"hash", KIND_UINT32)
    _row(MESSAGE_HASH_KV_REPLY, 3, b"compact_revision", KIND_INT64)
    _row(MESSAGE_HASH_KV_REPLY, 4, b"hash_revision", KIND_INT64)
    _row(MESSAGE_MOVE_LEADER, 1, b"targetID", KIND_UINT64)
    _header_only(MESSAGE_MOVE_LEADER_REPLY)


cdef void _fill_watch() noexcept nogil:
    _row(MESSAGE_EVENT, 1, b"type", KIND_ENUM, NAMES_EVENT)
    _row(MESSAGE_EVENT, 2, b"kv", KIND_MESSAGE, MESSAGE_KEY_VALUE)
    _row(MESSAGE_EVENT, 3, b"prev_kv", KIND_MESSAGE, MESSAGE_KEY_VALUE)
    _row(MESSAGE_WATCH, 1, b"create_request", KIND_MESSAGE, MESSAGE_WATCH_CREATE)
    _row(MESSAGE_WATCH, 2, b"cancel_request", KIND_MESSAGE, MESSAGE_WATCH_CANCEL)
    _row(MESSAGE_WATCH, 3, b"progress_request", KIND_MESSAGE, MESSAGE_WATCH_PROGRESS)
    _row(MESSAGE_WATCH_CREATE, 1, b"key", KIND_BYTES)
    _keyed(KEY_FIRST)
    _row(MESSAGE_WATCH_CREATE, 2, b"range_end", KIND_BYTES)
    _keyed(KEY_END)
    _row(MESSAGE_WATCH_CREATE, 3, b"start_revision", KIND_INT64)
    _row(MESSAGE_WATCH_CREATE, 4, b"progress_notify", KIND_BOOL)
    _row(MESSAGE_WATCH_CREATE, 5, b"filters", KIND_ENUM, NAMES_FILTER, True)
    _row(MESSAGE_WATCH_CREATE, 6, b"prev_kv", KIND_BOOL)
    _row(MESSAGE_WATCH_CREATE, 7, b"watch_id", KIND_INT64)
    _row(MESSAGE_WATCH_CREATE, 8, b"fragment", KIND_BOOL)
    _row(MESSAGE_WATCH_CANCEL, 1, b"watch_id", KIND_INT64)
    _header_only(MESSAGE_WATCH_REPLY)
    _row(MESSAGE_WATCH_REPLY, 2, b"watch_id", KIND_INT64)
    _row(MESSAGE_WATCH_REPLY, 3, b"created", KIND_BOOL)
    _row(MESSAGE_WATCH_REPLY, 4, b"canceled", KIND_BOOL)
    _row(MESSAGE_WATCH_REPLY, 5, b"compact_revision", KIND_INT64)
    _row(MESSAGE_WATCH_REPLY, 6, b"cancel_reason", KIND_STRING)
    _row(MESSAGE_WATCH_REPLY, 7, b"fragment", KIND_BOOL)
    _row(MESSAGE_WATCH_REPLY, 11, b"events", KIND_MESSAGE, MESSAGE_EVENT, True)


cdef void _fill_leases() noexcept nogil:
    _row(MESSAGE_LEASE_GRANT, 1, b"TTL", KIND_INT64)
    _row(MESSAGE_LEASE_GRANT, 2, b"ID", KIND_INT64)
    _header_only(MESSAGE_LEASE_GRANT_REPLY)
    _row(MESSAGE_LEASE_GRANT_REPLY, 2, b"ID", KIND_INT64)
    _row(MESSAGE_LEASE_GRANT_REPLY, 3, b"TTL", KIND_INT64)
    _row(MESSAGE_LEASE_GRANT_REPLY, 4, b"error", KIND_STRING)
    _row(MESSAGE_LEASE_REVOKE, 1, b"ID", KIND_INT64)
    _header_only(MESSAGE_LEASE_REVOKE_REPLY)
    _row(MESSAGE_LEASE_KEEP_ALIVE, 1, b"ID", KIND_INT64)
    _header_only(MESSAGE_LEASE_KEEP_ALIVE_REPLY)
    _row(MESSAGE_LEASE_KEEP_ALIVE_REPLY, 2, b"ID", KIND_INT64)
    _row(MESSAGE_LEASE_KEEP_ALIVE_REPLY, 3, b"TTL", KIND_INT64)
    _row(MESSAGE_LEASE_TIME_TO_LIVE, 1, b"ID", KIND_INT64)
    _row(MESSAGE_LEASE_TIME_TO_LIVE, 2, b"keys", KIND_BOOL)
    _header_only(MESSAGE_LEASE_TIME_TO_LIVE_REPLY)
    _row(MESSAGE_LEASE_TIME_TO_LIVE_REPLY, 2, b"ID", KIND_INT64)
    _row(MESSAGE_LEASE_TIME_TO_LIVE_REPLY, 3, b"TTL", KIND_INT64)
    _row(MESSAGE_LEASE_TIME_TO_LIVE_REPLY, 4, b"grantedTTL", KIND_INT64)
    _row(MESSAGE_LEASE_TIME_TO_LIVE_REPLY, 5, b"keys", KIND_BYTES, 0, True)
    _keyed(KEY_OF_LIST)
    _header_only(MESSAGE_LEASE_LEASES_REPLY)
    _row(MESSAGE_LEASE_LEASES_REPLY, 2, b"leases", KIND_MESSAGE, MESSAGE_LEASE_STATUS, True)
    _row(MESSAGE_LEASE_STATUS, 1, b"ID", KIND_INT64)


cdef void _fill_locks() noexcept nogil:
    _row(MESSAGE_LOCK, 1, b"name", KIND_BYTES)
    _keyed(KEY_NAME)
    _row(MESSAGE_LOCK, 2, b"lease", KIND_INT64)
    _header_only(MESSAGE_LOCK_REPLY)
    _row(MESSAGE_LOCK_REPLY, 2, b"key", KIND_BYTES)
    _keyed(KEY_START)
    _row(MESSAGE_UNLOCK, 1, b"key", KIND_BYTES)
    _keyed(KEY_START)
    _header_only(MESSAGE_UNLOCK_REPLY)
    _row(MESSAGE_LEADER_KEY, 1, b"name", KIND_BYTES)
    _keyed(KEY_NAME)
    _row(MESSAGE_LEADER_KEY, 2, b"key", KIND_BYTES)
    _keyed(KEY_START)
    _row(MESSAGE_LEADER_KEY, 3, b"rev", KIND_INT64)
    _row(MESSAGE_LEADER_KEY, 4, b"lease", KIND_INT64)
    _row(MESSAGE_CAMPAIGN, 1, b"name", KIND_BYTES)
    _keyed(KEY_NAME)
    _row(MESSAGE_CAMPAIGN, 2, b"lease", KIND_INT64)
    _row(MESSAGE_CAMPAIGN, 3, b"value", KIND_BYTES)
    _header_only(MESSAGE_CAMPAIGN_REPLY)
    _row(MESSAGE_CAMPAIGN_REPLY, 2, b"leader", KIND_MESSAGE, MESSAGE_LEADER_KEY)
    _row(MESSAGE_PROCLAIM, 1, b"leader", KIND_MESSAGE, MESSAGE_LEADER_KEY)
    _row(MESSAGE_PROCLAIM, 2, b"value", KIND_BYTES)
    _header_only(MESSAGE_PROCLAIM_REPLY)
    _row(MESSAGE_LEADER, 1, b"name", KIND_BYTES)
    _keyed(KEY_NAME)
    _header_only(MESSAGE_LEADER_REPLY)
    _row(MESSAGE_LEADER_REPLY, 2, b"kv", KIND_MESSAGE, MESSAGE_KEY_VALUE)
    _row(MESSAGE_RESIGN, 1, b"leader", KIND_MESSAGE, MESSAGE_LEADER_KEY)
    _header_only(MESSAGE_RESIGN_REPLY)


cdef void _fill_members() noexcept nogil:
    _row(MESSAGE_MEMBER_ADD, 1, b"peerURLs", KIND_STRING, 0, True)
    _row(MESSAGE_MEMBER_ADD, 2, b"isLearner", KIND_BOOL)
    _row(MESSAGE_MEMBER_REMOVE, 1, b"ID", KIND_UINT64)
    _row(MESSAGE_MEMBER_UPDATE, 1, b"ID", KIND_UINT64)
    _row(MESSAGE_MEMBER_UPDATE, 2, b"peerURLs", KIND_STRING, 0, True)
    _row(MESSAGE_MEMBER_PROMOTE, 1, b"ID", KIND_UINT64)
    _header_only(MESSAGE_MEMBERS_REPLY)
    _row(MESSAGE_MEMBERS_REPLY, 2, b"members", KIND_MESSAGE, MESSAGE_MEMBER, True)


cdef void _fill_snapshot() noexcept nogil:
    _header_only(MESSAGE_SNAPSHOT_REPLY)
    _row(MESSAGE_SNAPSHOT_REPLY, 2, b"remaining_bytes", KIND_UINT64)
    _row(MESSAGE_SNAPSHOT_REPLY, 3, b"blob", KIND_BYTES)
    _row(MESSAGE_SNAPSHOT_REPLY, 4, b"version", KIND_STRING)


cdef void _fill_auth() noexcept nogil:
    _header_only(MESSAGE_HEADER_ALONE)
    _row(MESSAGE_PERMISSION, 1, b"permType", KIND_ENUM, NAMES_PERMISSION)
    _row(MESSAGE_PERMISSION, 2, b"key", KIND_BYTES)
    _keyed(KEY_FIRST)
    _row(MESSAGE_PERMISSION, 3, b"range_end", KIND_BYTES)
    _keyed(KEY_END)
    _row(MESSAGE_USER_ADD_OPTIONS, 1, b"no_password", KIND_BOOL)
    _header_only(MESSAGE_AUTH_STATUS_REPLY)
    _row(MESSAGE_AUTH_STATUS_REPLY, 2, b"enabled", KIND_BOOL)
    _row(MESSAGE_AUTH_STATUS_REPLY, 3, b"authRevision", KIND_UINT64)
    _row(MESSAGE_AUTHENTICATE, 1, b"name", KIND_STRING)
    _row(MESSAGE_AUTHENTICATE, 2, b"password", KIND_STRING)
    _header_only(MESSAGE_AUTHENTICATE_REPLY)
    _row(MESSAGE_AUTHENTICATE_REPLY, 2, b"token", KIND_STRING)
    _row(MESSAGE_USER_ADD, 1, b"name", KIND_STRING)
    _row(MESSAGE_USER_ADD, 2, b"password", KIND_STRING)
    _row(MESSAGE_USER_ADD, 3, b"options", KIND_MESSAGE, MESSAGE_USER_ADD_OPTIONS)
    _row(MESSAGE_USER_ADD, 4, b"hashedPassword", KIND_STRING)
    _row(MESSAGE_USER_GET, 1, b"name", KIND_STRING)
    _header_only(MESSAGE_USER_GET_REPLY)
    _row(MESSAGE_USER_GET_REPLY, 2, b"roles", KIND_STRING, 0, True)
    _header_only(MESSAGE_USER_LIST_REPLY)
    _row(MESSAGE_USER_LIST_REPLY, 2, b"users", KIND_STRING, 0, True)
    _row(MESSAGE_USER_DELETE, 1, b"name", KIND_STRING)
    _row(MESSAGE_USER_CHANGE_PASSWORD, 1, b"name", KIND_STRING)
    _row(MESSAGE_USER_CHANGE_PASSWORD, 2, b"password", KIND_STRING)
    _row(MESSAGE_USER_CHANGE_PASSWORD, 3, b"hashedPassword", KIND_STRING)
    _row(MESSAGE_USER_GRANT, 1, b"user", KIND_STRING)
    _row(MESSAGE_USER_GRANT, 2, b"role", KIND_STRING)
    _row(MESSAGE_USER_REVOKE, 1, b"name", KIND_STRING)
    _row(MESSAGE_USER_REVOKE, 2, b"role", KIND_STRING)
    _row(MESSAGE_ROLE_ADD, 1, b"name", KIND_STRING)
    _row(MESSAGE_ROLE_GET, 1, b"role", KIND_STRING)
    _header_only(MESSAGE_ROLE_GET_REPLY)
    _row(MESSAGE_ROLE_GET_REPLY, 2, b"perm", KIND_MESSAGE, MESSAGE_PERMISSION, True)
    _header_only(MESSAGE_ROLE_LIST_REPLY)
    _row(MESSAGE_ROLE_LIST_REPLY, 2, b"roles", KIND_STRING, 0, True)
    _row(MESSAGE_ROLE_DELETE, 1, b"role", KIND_STRING)
    _row(MESSAGE_ROLE_GRANT, 1, b"name", KIND_STRING)
    _row(MESSAGE_ROLE_GRANT, 2, b"perm", KIND_MESSAGE, MESSAGE_PERMISSION)
    _row(MESSAGE_ROLE_REVOKE, 1, b"role", KIND_STRING)
    _row(MESSAGE_ROLE_REVOKE, 2, b"key", KIND_BYTES)
    _keyed(KEY_FIRST)
    _row(MESSAGE_ROLE_REVOKE, 3, b"range_end", KIND_BYTES)
    _keyed(KEY_END)


cdef void _name(uint16_t names, uint32_t value, const char* name) noexcept nogil:
    NAMES[names * NAMES_VALUES_MAX + value] = name


cdef void _fill_names() noexcept nogil:
    _name(NAMES_SORT_ORDER, 0, b"NONE")
    _name(NAMES_SORT_ORDER, 1, b"ASCEND")
    _name(NAMES_SORT_ORDER, 2, b"DESCEND")
    _name(NAMES_SORT_TARGET, 0, b"KEY")
    _name(NAMES_SORT_TARGET, 1, b"VERSION")
    _name(NAMES_SORT_TARGET, 2, b"CREATE")
    _name(NAMES_SORT_TARGET, 3, b"MOD")
    _name(NAMES_SORT_TARGET, 4, b"VALUE")
    _name(NAMES_COMPARE_RESULT, 0, b"EQUAL")
    _name(NAMES_COMPARE_RESULT, 1, b"GREATER")
    _name(NAMES_COMPARE_RESULT, 2, b"LESS")
    _name(NAMES_COMPARE_RESULT, 3, b"NOT_EQUAL")
    _name(NAMES_COMPARE_TARGET, 0, b"VERSION")
    _name(NAMES_COMPARE_TARGET, 1, b"CREATE")
    _name(NAMES_COMPARE_TARGET, 2, b"MOD")
    _name(NAMES_COMPARE_TARGET, 3, b"VALUE")
    _name(NAMES_COMPARE_TARGET, 4, b"LEASE")
    _name(NAMES_ALARM_TYPE, 0, b"NONE")
    _name(NAMES_ALARM_TYPE, 1, b"NOSPACE")
    _name(NAMES_ALARM_TYPE, 2, b"CORRUPT")
    _name(NAMES_ALARM_ACTION, 0, b"GET")
    _name(NAMES_ALARM_ACTION, 1, b"ACTIVATE")
    _name(NAMES_ALARM_ACTION, 2, b"DEACTIVATE")
    _name(NAMES_EVENT, 0, b"PUT")
    _name(NAMES_EVENT, 1, b"DELETE")
    _name(NAMES_FILTER, 0, b"NOPUT")
    _name(NAMES_FILTER, 1, b"NODELETE")
    _name(NAMES_PERMISSION, 0, b"READ")
    _name(NAMES_PERMISSION, 1, b"WRITE")
    _name(NAMES_PERMISSION, 2, b"READWRITE")


memset(&FIRST, 0, sizeof(FIRST))
memset(&COUNTS, 0, sizeof(COUNTS))
memset(&NAMES, 0, sizeof(NAMES))
_fill_kv()
_fill_txn()
_fill_cluster()
_fill_watch()
_fill_leases()
_fill_locks()
_fill_members()
_fill_auth()
_fill_snapshot()
_fill_names()
