"""Bytes of ZooKeeper's client protocol: bodies of codec.pxd."""
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from raftmeta.doors.zookeeper.protocol cimport (ZK_BAD_ARGUMENTS, ZK_ERROR, ZK_FIELDS_MAX, ZK_FIELD_ACL, ZK_FIELD_DATA,
                                                ZK_FIELD_DATA_WATCHES, ZK_FIELD_END, ZK_FIELD_FLAGS, ZK_FIELD_MODE,
                                                ZK_FIELD_OPERATIONS, ZK_FIELD_PATH, ZK_FIELD_RECURSIVE_WATCHES,
                                                ZK_FIELD_SCHEME, ZK_FIELD_TEXT, ZK_FIELD_TTL, ZK_FIELD_VERSION,
                                                ZK_FIELD_WATCH, ZK_FIELD_ZXID, ZK_IN_MULTI, ZK_IN_MULTI_READ,
                                                ZK_IS_WRITE, ZK_MARSHALLING_ERROR, ZK_UNIMPLEMENTED, ZK_XID_EVENT,
                                                zk_row)
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport BAD_LENGTH, INCOMPLETE, NO_MEMORY, OK, status_t
from raftmeta.wire.commands cimport Bytes
from raftmeta.wire.znodes cimport ZnodeStat

cdef enum:
    HEADER_BYTES = 8                    # of a request: xid, opcode
    REPLY_HEADER_BYTES = 16             # xid, zxid, error
    REPLY_BYTES = ZK_LENGTH_BYTES + REPLY_HEADER_BYTES
    STRING_BYTES_MIN = 4                # its length
    ACL_BYTES_MIN = 12                  # permissions, two strings
    OPERATION_BYTES_MIN = 9             # type, done, error


# --- reading ----------------------------------------------------------------------------------------------------------
# A walk over foreign bytes. The first failure sticks: every later read gives 0 and no progress.
cdef struct Jute:
    const uint8_t* at
    const uint8_t* end
    bint has_failed


cdef inline Jute _jute(const uint8_t* bytes, size_t length) noexcept nogil:
    cdef Jute jute
    jute.at = bytes
    jute.end = bytes + length
    jute.has_failed = False
    return jute


cdef inline uint64_t _read_big(Jute* jute, int width) noexcept nogil:
    cdef uint64_t value = 0
    cdef int i
    if jute.end - jute.at < width:
        jute.has_failed = True
        jute.at = jute.end
        return 0
    for i in range(width):
        value = value << 8 | jute.at[i]
    jute.at += width
    return value


cdef inline int32_t _read_int(Jute* jute) noexcept nogil:
    return <int32_t>_read_big(jute, 4)


# A ustring or a buffer. *is_null: its length is -1.
cdef inline Bytes _read_bytes(Jute* jute, bint* is_null) noexcept nogil:
    cdef int32_t length = _read_int(jute)
    cdef Bytes window
    window.data = jute.at
    window.length = 0
    is_null[0] = length == -1
    if length == -1 or jute.has_failed:
        return window
    if length < 0 or length > jute.end - jute.at:
        jute.has_failed = True
        jute.at = jute.end
        return window
    window.length = <uint32_t>length
    jute.at += length
    return window


cdef inline Bytes _read_string(Jute* jute) noexcept nogil:
    cdef bint is_null
    return _read_bytes(jute, &is_null)


# The count of a vector whose elements have so many bytes or more. A vector that is null has none.
cdef inline uint32_t _read_count(Jute* jute, int element_bytes_min) noexcept nogil:
    cdef int32_t count = _read_int(jute)
    if count == -1:
        return 0
    if count < 0 or count > (jute.end - jute.at) // element_bytes_min:
        jute.has_failed = True
        jute.at = jute.end
        return 0
    return <uint32_t>count


cdef inline void _close_window(ZkStrings* strings, const Jute* jute) noexcept nogil:
    strings.bytes.length = <uint32_t>(jute.at - strings.bytes.data)
    if jute.has_failed:
        strings.count = 0


cdef void _read_strings(Jute* jute, ZkStrings* into) noexcept nogil:
    cdef uint32_t _place
    into.count = _read_count(jute, STRING_BYTES_MIN)
    into.bytes.data = jute.at
    for _place in range(into.count):
        _read_string(jute)
    _close_window(into, jute)


cdef inline void _read_acl(Jute* jute, ZkAcl* into) noexcept nogil:
    into.perms = _read_int(jute)
    into.scheme = _read_string(jute)
    into.id = _read_string(jute)


cdef void _read_acls(Jute* jute, ZkStrings* into) noexcept nogil:
    cdef ZkAcl entry
    cdef uint32_t _place
    into.count = _read_count(jute, ACL_BYTES_MIN)
    into.bytes.data = jute.at
    for _place in range(into.count):
        _read_acl(jute, &entry)
    _close_window(into, jute)


# The fields of a row but operations, which do not nest.
cdef void _read_field(Jute* jute, uint8_t field, ZkRequest* into) noexcept nogil:
    if field == ZK_FIELD_PATH:
        into.path = _read_string(jute)
    elif field == ZK_FIELD_DATA:
        into.data = _read_bytes(jute, &into.is_data_null)
    elif field == ZK_FIELD_ACL:
        _read_acls(jute, &into.acl)
    elif field == ZK_FIELD_FLAGS:
        into.flags = _read_int(jute)
    elif field == ZK_FIELD_TTL:
        into.ttl_ms = <int64_t>_read_big(jute, 8)
    elif field == ZK_FIELD_VERSION:
        into.version = _read_int(jute)
    elif field == ZK_FIELD_WATCH:
        into.is_watching = _read_big(jute, 1) != 0
    elif field == ZK_FIELD_MODE:
        into.mode = _read_int(jute)
    elif field == ZK_FIELD_ZXID:
        into.zxid = _read_big(jute, 8)
    elif field == ZK_FIELD_SCHEME:
        into.scheme = _read_string(jute)
    elif field == ZK_FIELD_TEXT:
        into.texts[into.text_count] = _read_string(jute)
        into.text_count += 1
    elif field >= ZK_FIELD_DATA_WATCHES and field <= ZK_FIELD_RECURSIVE_WATCHES:
        _read_strings(jute, &into.watches[field - ZK_FIELD_DATA_WATCHES])


cdef void _read_fields(Jute* jute, ZkRequest* into) noexcept nogil:
    cdef int i
    for i in range(ZK_FIELDS_MAX):
        if into.row.fields[i] == ZK_FIELD_END:
            return
        if into.row.fields[i] == ZK_FIELD_OPERATIONS:
            _read_operations(jute, into)
        else:
            _read_field(jute, into.row.fields[i], into)


# The head of the next operation and its fields. False: the end, or a failure.
cdef bint _read_operation(Jute* jute, ZkRequest* into) noexcept nogil:
    cdef int32_t opcode = _read_int(jute)
    cdef bint is_done = _read_big(jute, 1) != 0
    _read_int(jute)
    if is_done or jute.has_failed:
        return False
    memset(into, 0, sizeof(ZkRequest))
    into.opcode = opcode
    into.row = zk_row(opcode)
    if into.row == NULL or not into.row.traits & (ZK_IN_MULTI | ZK_IN_MULTI_READ):
        jute.has_failed = True
        return False
    _read_fields(jute, into)
    return not jute.has_failed


# Once to the end, so that zk_operation_next finds what was found here.
cdef void _read_operations(Jute* jute, ZkRequest* into) noexcept nogil:
    cdef uint8_t trait = ZK_IN_MULTI if into.row.traits & ZK_IS_WRITE else ZK_IN_MULTI_READ
    cdef ZkRequest operation
    into.operations.bytes.data = jute.at
    while _read_operation(jute, &operation):
        if not operation.row.traits & trait:
            jute.has_failed = True
            break
        into.operations.count += 1
        if into.operations.count > ZK_OPERATIONS_MAX:
            into.error = ZK_BAD_ARGUMENTS
            jute.at = jute.end
            break
    _close_window(&into.operations, jute)


cdef bint zk_string_next(ZkStrings* strings, Bytes* into) noexcept nogil:
    cdef Jute jute = _jute(strings.bytes.data, strings.bytes.length)
    if strings.count == 0:
        return False
    into[0] = _read_string(&jute)
    _step(strings, &jute)
    return True


cdef bint zk_acl_next(ZkStrings* entries, ZkAcl* into) noexcept nogil:
    cdef Jute jute = _jute(entries.bytes.data, entries.bytes.length)
    if entries.count == 0:
        return False
    _read_acl(&jute, into)
    _step(entries, &jute)
    return True


cdef bint zk_operation_next(ZkStrings* operations, ZkRequest* into) noexcept nogil:
    cdef Jute jute = _jute(operations.bytes.data, operations.bytes.length)
    if operations.count == 0 or not _read_operation(&jute, into):
        return False
    _step(operations, &jute)
    return True


cdef inline void _step(ZkStrings* strings, const Jute* jute) noexcept nogil:
    strings.count -= 1
    strings.bytes.length -= <uint32_t>(jute.at - strings.bytes.data)
    strings.bytes.data = jute.at


# --- frames and requests ----------------------------------------------------------------------------------------------
cdef status_t zk_frame_look(const uint8_t* bytes, size_t length, uint32_t most, size_t* total) noexcept nogil:
    cdef Jute jute = _jute(bytes, ZK_LENGTH_BYTES)
    cdef uint32_t body_length
    total[0] = ZK_LENGTH_BYTES
    if length < ZK_LENGTH_BYTES:
        return INCOMPLETE
    body_length = <uint32_t>_read_big(&jute, 4)     # a negative length is a great one
    if body_length == 0 or body_length > most:
        return BAD_LENGTH
    total[0] = ZK_LENGTH_BYTES + <size_t>body_length
    return OK if length >= total[0] else INCOMPLETE


cdef status_t zk_connect_decode(const uint8_t* body, uint32_t length, ZkConnect* into) noexcept nogil:
    cdef Jute jute = _jute(body, length)
    memset(into, 0, sizeof(ZkConnect))
    into.protocol_version = _read_int(&jute)
    into.zxid = _read_big(&jute, 8)
    into.timeout_ms = _read_int(&jute)
    into.session = _read_big(&jute, 8)
    into.password = _read_string(&jute)
    if not jute.has_failed and jute.at != jute.end:
        into.has_read_only = True
        into.is_read_only = _read_big(&jute, 1) != 0
    return BAD_LENGTH if jute.has_failed else OK


cdef status_t zk_request_decode(const uint8_t* body, uint32_t length, ZkRequest* into) noexcept nogil:
    cdef Jute jute = _jute(body, length)
    memset(into, 0, sizeof(ZkRequest))
    if length < HEADER_BYTES:
        return BAD_LENGTH
    into.xid = _read_int(&jute)
    into.opcode = _read_int(&jute)
    into.row = zk_row(into.opcode)
    if into.row == NULL:
        into.error = ZK_UNIMPLEMENTED
        return OK
    _read_fields(&jute, into)
    # Bytes that are left over are no error: ZooKeeper reads the fields that it knows.
    if jute.has_failed:
        into.error = ZK_MARSHALLING_ERROR
    return OK


# --- writing ----------------------------------------------------------------------------------------------------------
cdef inline uint8_t* _put_big(uint8_t* at, uint64_t value, int width) noexcept nogil:
    cdef int i
    for i in range(width):
        at[i] = <uint8_t>(value >> (8 * (width - 1 - i)))
    return at + width


# Room for `length` more bytes, which are then part of `out`. NULL: no memory.
cdef inline uint8_t* _room(Vec[uint8_t]* out, size_t length) noexcept nogil:
    if not out.reserve(out.size + length):
        return NULL
    out.size += length
    return out.data + out.size - length


cdef status_t zk_write_int(Vec[uint8_t]* out, int32_t value) noexcept nogil:
    cdef uint8_t* at = _room(out, 4)
    if at == NULL:
        return NO_MEMORY
    _put_big(at, <uint32_t>value, 4)
    return OK


cdef status_t zk_write_bytes(Vec[uint8_t]* out, const uint8_t* bytes, uint32_t length) noexcept nogil:
    cdef uint8_t* at = _room(out, ZK_LENGTH_BYTES + <size_t>length)
    if at == NULL:
        return NO_MEMORY
    at = _put_big(at, length, 4)
    if length:
        memcpy(at, bytes, length)
    return OK


cdef status_t zk_write_null(Vec[uint8_t]* out) noexcept nogil:
    return zk_write_int(out, -1)


# ZooKeeper shows the sessions of ephemerals only. The marks of containers and of nodes with a time to live have the
# highest bit set, which no session has (DataNode.getClientEphemeralOwner of 3.9).
cdef inline uint64_t _shown_owner(uint64_t owner) noexcept nogil:
    return 0 if owner >> 63 else owner


cdef status_t zk_write_stat(Vec[uint8_t]* out, const ZnodeStat* stat) noexcept nogil:
    cdef uint8_t* at = _room(out, ZK_STAT_BYTES)
    if at == NULL:
        return NO_MEMORY
    at = _put_big(at, stat.czxid, 8)
    at = _put_big(at, stat.mzxid, 8)
    at = _put_big(at, stat.ctime_ms, 8)
    at = _put_big(at, stat.mtime_ms, 8)
    at = _put_big(at, <uint32_t>stat.version, 4)
    at = _put_big(at, <uint32_t>stat.cversion, 4)
    at = _put_big(at, <uint32_t>stat.aversion, 4)
    at = _put_big(at, _shown_owner(stat.owner), 8)
    at = _put_big(at, <uint32_t>stat.data_length, 4)
    at = _put_big(at, <uint32_t>stat.children, 4)
    _put_big(at, stat.pzxid, 8)
    return OK


cdef status_t zk_vector_begin(Vec[uint8_t]* out, size_t* at) noexcept nogil:
    at[0] = out.size
    return zk_write_int(out, 0)


cdef void zk_vector_end(Vec[uint8_t]* out, size_t at, uint32_t count) noexcept nogil:
    _put_big(out.data + at, count, 4)


cdef status_t _write_result(Vec[uint8_t]* out, int32_t opcode, bint is_done, int32_t error) noexcept nogil:
    cdef uint8_t* at = _room(out, OPERATION_BYTES_MIN)
    if at == NULL:
        return NO_MEMORY
    at = _put_big(at, <uint32_t>opcode, 4)
    at = _put_big(at, is_done, 1)
    _put_big(at, <uint32_t>error, 4)
    return OK


cdef status_t zk_result_head(Vec[uint8_t]* out, int32_t opcode) noexcept nogil:
    return _write_result(out, opcode, False, 0)


# The error stands twice: in the head, and as the body.
cdef status_t zk_result_error(Vec[uint8_t]* out, int32_t error) noexcept nogil:
    if _write_result(out, ZK_ERROR, False, error) != OK:
        return NO_MEMORY
    return zk_write_int(out, error)


cdef status_t zk_results_end(Vec[uint8_t]* out) noexcept nogil:
    return _write_result(out, ZK_ERROR, True, -1)


# --- whole frames -----------------------------------------------------------------------------------------------------
cdef status_t zk_reply_begin(Vec[uint8_t]* out, size_t* start) noexcept nogil:
    start[0] = out.size
    return OK if _room(out, REPLY_BYTES) != NULL else NO_MEMORY


cdef void zk_reply_end(Vec[uint8_t]* out, size_t start, int32_t xid, uint64_t zxid, int32_t error) noexcept nogil:
    if error:
        out.size = start + REPLY_BYTES
    zk_reply_end_whole(out, start, xid, zxid, error)


cdef void zk_reply_end_whole(Vec[uint8_t]* out, size_t start, int32_t xid, uint64_t zxid, int32_t error) noexcept nogil:
    cdef uint8_t* at
    at = _put_big(out.data + start, out.size - start - ZK_LENGTH_BYTES, 4)
    at = _put_big(at, <uint32_t>xid, 4)
    at = _put_big(at, zxid, 8)
    _put_big(at, <uint32_t>error, 4)


cdef void zk_reply_drop(Vec[uint8_t]* out, size_t start) noexcept nogil:
    out.size = start


cdef status_t zk_reply(Vec[uint8_t]* out, int32_t xid, uint64_t zxid, int32_t error) noexcept nogil:
    cdef size_t start
    if zk_reply_begin(out, &start) != OK:
        return NO_MEMORY
    zk_reply_end(out, start, xid, zxid, error)
    return OK


cdef status_t zk_event(Vec[uint8_t]* out, uint64_t zxid, int32_t type, int32_t state,
                       const uint8_t* path, uint32_t path_length) noexcept nogil:
    cdef size_t start
    if (zk_reply_begin(out, &start) != OK or zk_write_int(out, type) != OK or zk_write_int(out, state) != OK
            or zk_write_bytes(out, path, path_length) != OK):
        zk_reply_drop(out, start)
        return NO_MEMORY
    zk_reply_end(out, start, ZK_XID_EVENT, zxid, 0)
    return OK


cdef status_t zk_connected_encode(const ZkConnect* connect, int32_t timeout_ms, uint64_t session,
                                  const uint8_t* password, bint is_read_only, Vec[uint8_t]* out) noexcept nogil:
    cdef size_t length = 4 + 4 + 8 + ZK_LENGTH_BYTES + ZK_PASSWORD_BYTES + (1 if connect.has_read_only else 0)
    cdef uint8_t* at = _room(out, ZK_LENGTH_BYTES + length)
    if at == NULL:
        return NO_MEMORY
    at = _put_big(at, length, 4)
    at = _put_big(at, 0, 4)                         # protocol version
    at = _put_big(at, <uint32_t>timeout_ms, 4)
    at = _put_big(at, session, 8)
    at = _put_big(at, ZK_PASSWORD_BYTES, 4)
    memcpy(at, password, ZK_PASSWORD_BYTES)
    if connect.has_read_only:
        _put_big(at + ZK_PASSWORD_BYTES, 1 if is_read_only else 0, 1)
    return OK
