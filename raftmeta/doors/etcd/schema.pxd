# etcd's messages as one table: each field with its name, number and kind (etcd api/etcdserverpb rpc.proto, api/mvccpb
# kv.proto, server/etcdserver/api/v3lock and v3election).
#
# The table checks every request before its handler sees it, tells the JSON gateway the names, and prefix.pxd the keys.
# A new method needs its messages here: a line in EtcdMessage, and one for each field in _fill (schema.pyx).
from libc.stdint cimport uint8_t, uint16_t, uint32_t

from raftmeta.wire.commands cimport Bytes

cdef enum:
    SCHEMA_DEPTH_MAX = 32           # of messages in messages
    SCHEMA_FIELDS_MAX = 512
    SCHEMA_MESSAGES_MAX = 128

cdef enum EtcdKind:
    KIND_BOOL = 1
    KIND_INT32 = 2                  # enums, too
    KIND_UINT32 = 3
    KIND_INT64 = 4
    KIND_UINT64 = 5
    KIND_BYTES = 6
    KIND_STRING = 7
    KIND_MESSAGE = 8
    KIND_ENUM = 9

cdef enum EtcdMessage:
    MESSAGE_NONE = 0
    MESSAGE_HEADER
    MESSAGE_KEY_VALUE
    MESSAGE_RANGE
    MESSAGE_RANGE_REPLY
    MESSAGE_PUT
    MESSAGE_PUT_REPLY
    MESSAGE_DELETE_RANGE
    MESSAGE_DELETE_RANGE_REPLY
    MESSAGE_REQUEST_OP
    MESSAGE_RESPONSE_OP
    MESSAGE_COMPARE
    MESSAGE_TXN
    MESSAGE_TXN_REPLY
    MESSAGE_COMPACTION
    MESSAGE_COMPACTION_REPLY
    MESSAGE_MEMBER
    MESSAGE_MEMBER_LIST
    MESSAGE_MEMBER_LIST_REPLY
    MESSAGE_STATUS
    MESSAGE_STATUS_REPLY
    MESSAGE_ALARM
    MESSAGE_ALARM_REPLY
    MESSAGE_ALARM_MEMBER
    MESSAGE_DEFRAGMENT
    MESSAGE_DEFRAGMENT_REPLY
    MESSAGE_HASH
    MESSAGE_HASH_REPLY
    MESSAGE_HASH_KV
    MESSAGE_HASH_KV_REPLY
    MESSAGE_MOVE_LEADER
    MESSAGE_MOVE_LEADER_REPLY
    MESSAGE_EVENT
    MESSAGE_WATCH
    MESSAGE_WATCH_CREATE
    MESSAGE_WATCH_CANCEL
    MESSAGE_WATCH_PROGRESS
    MESSAGE_WATCH_REPLY
    MESSAGE_LEASE_GRANT
    MESSAGE_LEASE_GRANT_REPLY
    MESSAGE_LEASE_REVOKE
    MESSAGE_LEASE_REVOKE_REPLY
    MESSAGE_LEASE_KEEP_ALIVE
    MESSAGE_LEASE_KEEP_ALIVE_REPLY
    MESSAGE_LEASE_TIME_TO_LIVE
    MESSAGE_LEASE_TIME_TO_LIVE_REPLY
    MESSAGE_LEASE_LEASES
    MESSAGE_LEASE_LEASES_REPLY
    MESSAGE_LEASE_STATUS
    MESSAGE_LOCK
    MESSAGE_LOCK_REPLY
    MESSAGE_UNLOCK
    MESSAGE_UNLOCK_REPLY
    MESSAGE_LEADER_KEY
    MESSAGE_CAMPAIGN
    MESSAGE_CAMPAIGN_REPLY
    MESSAGE_PROCLAIM
    MESSAGE_PROCLAIM_REPLY
    MESSAGE_LEADER
    MESSAGE_LEADER_REPLY
    MESSAGE_RESIGN
    MESSAGE_RESIGN_REPLY
    MESSAGE_HEADER_ALONE            # a reply that has nothing but a header
    MESSAGE_MEMBERS_REPLY           # of the changes of members
    MESSAGE_MEMBER_ADD
    MESSAGE_MEMBER_REMOVE
    MESSAGE_MEMBER_UPDATE
    MESSAGE_MEMBER_PROMOTE
    MESSAGE_PERMISSION
    MESSAGE_USER_ADD_OPTIONS
    MESSAGE_AUTH_ENABLE
    MESSAGE_AUTH_DISABLE
    MESSAGE_AUTH_STATUS
    MESSAGE_AUTH_STATUS_REPLY
    MESSAGE_AUTHENTICATE
    MESSAGE_AUTHENTICATE_REPLY
    MESSAGE_USER_ADD
    MESSAGE_USER_GET
    MESSAGE_USER_GET_REPLY
    MESSAGE_USER_LIST
    MESSAGE_USER_LIST_REPLY
    MESSAGE_USER_DELETE
    MESSAGE_USER_CHANGE_PASSWORD
    MESSAGE_USER_GRANT
    MESSAGE_USER_REVOKE
    MESSAGE_ROLE_ADD
    MESSAGE_ROLE_GET
    MESSAGE_ROLE_GET_REPLY
    MESSAGE_ROLE_LIST
    MESSAGE_ROLE_LIST_REPLY
    MESSAGE_ROLE_DELETE
    MESSAGE_ROLE_GRANT
    MESSAGE_ROLE_REVOKE
    MESSAGE_SNAPSHOT
    MESSAGE_SNAPSHOT_REPLY

# The names of an enum's values, in order from 0.
cdef enum EtcdNames:
    NAMES_NONE = 0
    NAMES_SORT_ORDER
    NAMES_SORT_TARGET
    NAMES_COMPARE_RESULT
    NAMES_COMPARE_TARGET
    NAMES_ALARM_TYPE
    NAMES_ALARM_ACTION
    NAMES_EVENT
    NAMES_FILTER
    NAMES_PERMISSION
    NAMES_MAX

# The part of a key that a field is, for doors that have a prefix (prefix.pxd).
cdef enum EtcdKeyRole:
    KEY_NONE = 0
    KEY_START                       # a key, or the first of a range
    KEY_FIRST                       # ... where an empty one is the first key of all
    KEY_END                         # the end of such a range
    KEY_NAME                        # the beginning of a key, which may be empty
    KEY_OF_LIST                     # one of a list: those without the prefix are left out

cdef struct EtcdField:
    uint16_t message                # EtcdMessage that it is of
    uint16_t number
    uint8_t kind                    # EtcdKind
    uint8_t is_list
    uint16_t of                     # KIND_MESSAGE: EtcdMessage; KIND_ENUM: EtcdNames
    uint8_t role                    # EtcdKeyRole
    const char* name                # as the gateway writes it

# The fields of a message stand in a row, in the order of their numbers.
cdef const EtcdField* schema_fields(uint16_t message, uint32_t* count) noexcept nogil
# NULL: the message has no field of this number.
cdef const EtcdField* schema_field(uint16_t message, uint32_t number) noexcept nogil
# The name of an enum's value; NULL: it has none.
cdef const char* schema_name(uint16_t names, uint32_t value) noexcept nogil
# Whether the bytes are such a message: every known field has the wire type of its kind, strings are UTF-8, and messages
# in it are such, too. Fields that nobody knows are passed over.
cdef bint schema_check(uint16_t message, const Bytes* bytes) noexcept nogil
