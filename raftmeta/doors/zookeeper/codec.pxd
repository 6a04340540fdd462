# Bytes of ZooKeeper's client protocol: frames, requests, answers, events (jute, big-endian). Pure.
#
# It decides whether bytes are a request, and never what a request may do. Nothing is allocated for a length that was
# only claimed: strings, buffers and vectors of a request are windows into the frame. Every vector of a decoded request
# was walked once to its end, so the cursors below need no check by their callers.
#
# The order of a connection: one frame that is a ZkConnect, or one word of four letters (four_letter); then requests.
# Source: apache/zookeeper 3.9.5: zookeeper.jute, BinaryInputArchive.java, MultiOperationRecord.java, MultiResponse.java
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from raftmeta.doors.zookeeper.protocol cimport ZkRow
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport status_t
from raftmeta.wire.commands cimport Bytes
from raftmeta.wire.znodes cimport ZnodeStat

cdef enum:
    ZK_LENGTH_BYTES = 4                 # before each frame
    ZK_PASSWORD_BYTES = 16
    ZK_CONNECT_BYTES_MAX = 256          # of the first frame
    ZK_STAT_BYTES = 68
    ZK_SCHEME_BYTES_MAX = 64            # of a scheme in a list of rights
    ZK_OPERATIONS_MAX = 10_000          # of one multi

# The first frame. The reply is of the same kind: with its last byte only if the request had that byte.
cdef struct ZkConnect:
    int32_t protocol_version
    uint64_t zxid                       # the last one the client saw
    int32_t timeout_ms
    uint64_t session                    # 0: a new one
    Bytes password
    bint has_read_only                  # 45 bytes, not 44
    bint is_read_only                   # a read-only session is welcome

# vector<ustring>, still encoded; `data` points behind the count.
cdef struct ZkStrings:
    uint32_t count
    Bytes bytes

# Fields that a request does not have are zero.
cdef struct ZkRequest:
    int32_t xid
    int32_t opcode                      # ZkOpcode
    const ZkRow* row                    # NULL: with error ZK_UNIMPLEMENTED
    int32_t error                       # ZkError. Not 0: answer this and nothing else (the body was no request)
    Bytes path
    Bytes data                          # of AUTH and SASL: the token
    bint is_data_null
    ZkStrings acl                       # entries of vector<ACL>, walked by zk_acl_next; none: count 0
    int32_t flags                       # ZkCreateMode, not yet checked
    int64_t ttl_ms
    int32_t version
    bint is_watching
    int32_t mode                        # ZkAddWatchMode or ZkWatcherType, not yet checked
    uint64_t zxid                       # of SET_WATCHES
    ZkStrings[5] watches                # data, exist, child, persistent, persistent recursive
    Bytes scheme
    Bytes[3] texts                      # of RECONFIG: servers that join, that leave, or all of them
    uint32_t text_count
    ZkStrings operations                # of MULTI and MULTI_READ, walked by zk_operation_next

cdef struct ZkAcl:
    int32_t perms
    Bytes scheme
    Bytes id

# Look at the first bytes of a connection or of the next frame. OK: a frame of *total bytes, its length included, is
# there. INCOMPLETE: *total bytes are needed. BAD_LENGTH: close the connection (negative, or beyond most).
cdef status_t zk_frame_look(const uint8_t* bytes, size_t length, uint32_t most, size_t* total) noexcept nogil
# `body` is a frame without its length. BAD_LENGTH, BAD_FIELD: close the connection.
cdef status_t zk_connect_decode(const uint8_t* body, uint32_t length, ZkConnect* into) noexcept nogil
# BAD_LENGTH: it has no header; close the connection. OK: see ZkRequest.error. With ZK_UNIMPLEMENTED the connection
# closes behind the answer, as ZooKeeper closes it.
cdef status_t zk_request_decode(const uint8_t* body, uint32_t length, ZkRequest* into) noexcept nogil

# --- walking through a decoded request --------------------------------------------------------------------------------
# Take the next element; False: there is none.
cdef bint zk_string_next(ZkStrings* strings, Bytes* into) noexcept nogil
cdef bint zk_acl_next(ZkStrings* entries, ZkAcl* into) noexcept nogil
# The fields of one operation of a multi; xid is 0, row and opcode are those of the operation.
cdef bint zk_operation_next(ZkStrings* operations, ZkRequest* into) noexcept nogil

# --- answers ----------------------------------------------------------------------------------------------------------
# All of them append to `out`. NO_MEMORY: `out` has as many bytes as before, if the function writes a whole frame; a
# part that failed is taken back by zk_reply_drop.
# password: ZK_PASSWORD_BYTES. session 0, timeout_ms 0: the session has ended.
cdef status_t zk_connected_encode(const ZkConnect* connect, int32_t timeout_ms, uint64_t session,
                                  const uint8_t* password, bint is_read_only, Vec[uint8_t]* out) noexcept nogil
# Room for length and header at the end of `out`; append the body, then end or drop the reply from `start`.
cdef status_t zk_reply_begin(Vec[uint8_t]* out, size_t* start) noexcept nogil
# error not 0: the body is taken away.
cdef void zk_reply_end(Vec[uint8_t]* out, size_t start, int32_t xid, uint64_t zxid, int32_t error) noexcept nogil
# As zk_reply_end, and the body stays: what failed has one, too.
cdef void zk_reply_end_whole(Vec[uint8_t]* out, size_t start, int32_t xid, uint64_t zxid, int32_t error) noexcept nogil
cdef void zk_reply_drop(Vec[uint8_t]* out, size_t start) noexcept nogil
# A whole reply without a body.
cdef status_t zk_reply(Vec[uint8_t]* out, int32_t xid, uint64_t zxid, int32_t error) noexcept nogil
# A whole WatcherEvent, with the zxid of the change in its header.
cdef status_t zk_event(Vec[uint8_t]* out, uint64_t zxid, int32_t type, int32_t state,
                       const uint8_t* path, uint32_t path_length) noexcept nogil

# Parts of a body.
cdef status_t zk_write_int(Vec[uint8_t]* out, int32_t value) noexcept nogil
# A ustring or a buffer.
cdef status_t zk_write_bytes(Vec[uint8_t]* out, const uint8_t* bytes, uint32_t length) noexcept nogil
# A buffer that is null: length -1.
cdef status_t zk_write_null(Vec[uint8_t]* out) noexcept nogil
cdef status_t zk_write_stat(Vec[uint8_t]* out, const ZnodeStat* stat) noexcept nogil
# A vector whose count is known later: begin, append the elements, end with their count.
cdef status_t zk_vector_begin(Vec[uint8_t]* out, size_t* at) noexcept nogil
cdef void zk_vector_end(Vec[uint8_t]* out, size_t at, uint32_t count) noexcept nogil
# The body of a multi or multiRead: for each operation a head and its body, or an error; then the end. opcode:
# ZK_CREATE2 of every create that tells a stat.
cdef status_t zk_result_head(Vec[uint8_t]* out, int32_t opcode) noexcept nogil
cdef status_t zk_result_error(Vec[uint8_t]* out, int32_t error) noexcept nogil
cdef status_t zk_results_end(Vec[uint8_t]* out) noexcept nogil
