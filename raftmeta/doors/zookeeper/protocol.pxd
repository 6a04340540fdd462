# ZooKeeper's client protocol as data: numbers, and one row for each request (protocol.hpp). The codec decodes by these
# rows, and docs/zookeeper-requests.md is checked against them.
#
# Source: apache/zookeeper 3.9.5: zookeeper.jute, ZooDefs.java, KeeperException.java, Watcher.java, CreateMode.java,
# AddWatchMode.java, FinalRequestProcessor.java.
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint8_t

cdef enum ZkOpcode:
    ZK_CLOSE_SESSION = -11
    ZK_ERROR = -1               # a result in the body of a multi
    ZK_CREATE = 1
    ZK_DELETE = 2
    ZK_EXISTS = 3
    ZK_GET_DATA = 4
    ZK_SET_DATA = 5
    ZK_GET_ACL = 6
    ZK_SET_ACL = 7
    ZK_GET_CHILDREN = 8
    ZK_SYNC = 9
    ZK_PING = 11
    ZK_GET_CHILDREN2 = 12
    ZK_CHECK = 13
    ZK_MULTI = 14
    ZK_CREATE2 = 15
    ZK_RECONFIG = 16
    ZK_CHECK_WATCHES = 17
    ZK_REMOVE_WATCHES = 18
    ZK_CREATE_CONTAINER = 19
    ZK_CREATE_TTL = 21
    ZK_MULTI_READ = 22
    ZK_AUTH = 100
    ZK_SET_WATCHES = 101
    ZK_SASL = 102
    ZK_GET_EPHEMERALS = 103
    ZK_GET_ALL_CHILDREN_NUMBER = 104
    ZK_SET_WATCHES2 = 105
    ZK_ADD_WATCH = 106
    ZK_WHO_AM_I = 107

# In the header of a message that answers no request with a number of its own.
cdef enum:
    ZK_XID_EVENT = -1
    ZK_XID_PING = -2
    ZK_XID_AUTH = -4
    ZK_XID_SET_WATCHES = -8

cdef enum ZkError:
    ZK_OK = 0
    ZK_SYSTEM_ERROR = -1
    ZK_RUNTIME_INCONSISTENCY = -2       # of what stands behind the operation of a multi that failed
    ZK_CONNECTION_LOSS = -4
    ZK_MARSHALLING_ERROR = -5
    ZK_UNIMPLEMENTED = -6
    ZK_OPERATION_TIMEOUT = -7
    ZK_BAD_ARGUMENTS = -8
    ZK_NO_NODE = -101
    ZK_NO_AUTH = -102
    ZK_BAD_VERSION = -103
    ZK_NO_CHILDREN_FOR_EPHEMERALS = -108
    ZK_NODE_EXISTS = -110
    ZK_NOT_EMPTY = -111
    ZK_SESSION_EXPIRED = -112
    ZK_INVALID_ACL = -114
    ZK_AUTH_FAILED = -115
    ZK_SESSION_MOVED = -118
    ZK_NOT_READ_ONLY = -119             # a write in a read-only session
    ZK_NO_WATCHER = -121
    ZK_RECONFIG_DISABLED = -123
    ZK_QUOTA_EXCEEDED = -125
    ZK_THROTTLED = -127

cdef enum ZkPermission:
    ZK_READ = 1
    ZK_WRITE = 2
    ZK_CREATE_CHILD = 4
    ZK_DELETE_CHILD = 8
    ZK_ADMIN = 16
    ZK_ALL = 31

# CreateMode: the number in `flags`.
cdef enum ZkCreateMode:
    ZK_PERSISTENT = 0
    ZK_EPHEMERAL = 1
    ZK_PERSISTENT_SEQUENTIAL = 2
    ZK_EPHEMERAL_SEQUENTIAL = 3
    ZK_CONTAINER = 4
    ZK_PERSISTENT_TTL = 5
    ZK_PERSISTENT_SEQUENTIAL_TTL = 6

cdef enum ZkEventType:
    ZK_EVENT_NONE = -1
    ZK_EVENT_CREATED = 1
    ZK_EVENT_DELETED = 2
    ZK_EVENT_DATA_CHANGED = 3
    ZK_EVENT_CHILDREN_CHANGED = 4
    ZK_EVENT_DATA_WATCH_REMOVED = 5
    ZK_EVENT_CHILD_WATCH_REMOVED = 6
    ZK_EVENT_PERSISTENT_WATCH_REMOVED = 7

cdef enum ZkState:
    ZK_STATE_DISCONNECTED = 0
    ZK_STATE_CONNECTED = 3
    ZK_STATE_AUTH_FAILED = 4
    ZK_STATE_CONNECTED_READ_ONLY = 5
    ZK_STATE_SASL_AUTHENTICATED = 6
    ZK_STATE_EXPIRED = -112

# `mode` of ZK_ADD_WATCH.
cdef enum ZkAddWatchMode:
    ZK_WATCH_PERSISTENT = 0
    ZK_WATCH_PERSISTENT_RECURSIVE = 1

# `mode` of ZK_CHECK_WATCHES and ZK_REMOVE_WATCHES.
cdef enum ZkWatcherType:
    ZK_WATCHER_CHILDREN = 1
    ZK_WATCHER_DATA = 2
    ZK_WATCHER_ANY = 3
    ZK_WATCHER_PERSISTENT = 4
    ZK_WATCHER_PERSISTENT_RECURSIVE = 5

cdef extern from "../doors/zookeeper/protocol.hpp" namespace "raftmeta" nogil:
    cdef enum ZkField "raftmeta::ZkField":
        ZK_FIELD_END
        ZK_FIELD_PATH
        ZK_FIELD_DATA
        ZK_FIELD_ACL
        ZK_FIELD_FLAGS
        ZK_FIELD_TTL
        ZK_FIELD_VERSION
        ZK_FIELD_WATCH
        ZK_FIELD_MODE
        ZK_FIELD_ZXID
        ZK_FIELD_DATA_WATCHES
        ZK_FIELD_EXIST_WATCHES
        ZK_FIELD_CHILD_WATCHES
        ZK_FIELD_PERSISTENT_WATCHES
        ZK_FIELD_RECURSIVE_WATCHES
        ZK_FIELD_SCHEME
        ZK_FIELD_TEXT
        ZK_FIELD_OPERATIONS

    cdef enum ZkAnswer "raftmeta::ZkAnswer":
        ZK_ANSWER_NOTHING
        ZK_ANSWER_PATH
        ZK_ANSWER_PATH_STAT
        ZK_ANSWER_STAT
        ZK_ANSWER_DATA_STAT
        ZK_ANSWER_ACL_STAT
        ZK_ANSWER_CHILDREN
        ZK_ANSWER_CHILDREN_STAT
        ZK_ANSWER_NUMBER
        ZK_ANSWER_ERROR
        ZK_ANSWER_TOKEN
        ZK_ANSWER_CLIENTS
        ZK_ANSWER_RESULTS

    cdef enum ZkTrait "raftmeta::ZkTrait":
        ZK_IS_WRITE
        ZK_IS_READ
        ZK_IS_WATCH
        ZK_IS_SPEAKER
        ZK_IS_SESSION
        ZK_IN_MULTI
        ZK_IN_MULTI_READ

    enum: ZK_FIELDS_MAX

    cdef struct ZkRow:
        int32_t opcode
        const char* name
        uint8_t[7] fields
        uint8_t answer              # ZkAnswer
        uint8_t traits              # ZkTrait
        const char* since

    # NULL: there is no such request, or no client sends it.
    const ZkRow* zk_row(int32_t opcode)
    # The rows in the order of the page; NULL behind the last.
    const ZkRow* zk_row_at(size_t position)
