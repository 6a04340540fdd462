"""etcd's JSON gateway: bodies."""

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free
from libc.string cimport memchr, memcmp, strlen

from raftmeta.connections.connections cimport (connection_end, connection_fail, connection_next_turn,
                                               connection_prove, connection_touch)
from raftmeta.connections.state cimport CONNECTION_OPEN, bytes_begin, bytes_end
from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.etcd.access cimport access_by_token, access_must_prove
from raftmeta.doors.etcd.calls cimport (call_close, call_create, call_data, call_half_close, call_open, call_sent,
                                        calls_take_told)
from raftmeta.doors.etcd.cluster cimport etcd_version
from raftmeta.doors.etcd.gateway_json cimport json_text, json_to_message, message_to_json
from raftmeta.doors.etcd.state cimport (
    CODE_FAILED_PRECONDITION, CODE_INVALID_ARGUMENT, CODE_NOT_FOUND, CODE_OK, CODE_OUT_OF_RANGE,
    CODE_PERMISSION_DENIED, CODE_RESOURCE_EXHAUSTED, CODE_UNAUTHENTICATED, CODE_UNAVAILABLE, CODE_UNIMPLEMENTED,
    ETCD_MESSAGE_BYTES_MAX, TUNE_OUT_BYTES, EtcdCall, EtcdHandler)
from raftmeta.doors.etcd.table cimport handler_of
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport BAD_FIELD, BAD_LENGTH, INCOMPLETE, OK
from raftmeta.wire.commands cimport Bytes

cdef enum:
    HEAD_BYTES_MAX = 16 * 1024
    PIECES_BYTES_MAX = 1 << 20      # of a stream's requests, what is no whole message yet
    FRAME_BYTES = 5                 # of gRPC
    LINE_BYTES = 256
    CHUNK_LINE_BYTES = 128          # a longer line between chunks is none of an honest client

cdef enum GatewayStep:
    STEP_HEAD = 0                   # the head of a request is awaited
    STEP_PIECES = 1                 # the body of a stream comes
    STEP_ANSWER = 2                 # the request is whole

cdef enum ChunkStep:
    CHUNK_SIZE = 0                  # the line with the length of a chunk is awaited
    CHUNK_BYTES = 1
    CHUNK_END = 2                   # the empty line behind a chunk
    CHUNK_TRAILER = 3               # lines behind the last chunk

# One connection.
cdef struct Gateway:
    EtcdCall* call
    const GatewayPath* path
    uint8_t step                    # GatewayStep
    uint8_t chunk                   # ChunkStep
    bint is_chunked                 # the body of the request
    bint is_kept                    # the connection, behind the answer
    bint is_headed                  # the head of a stream of answers was sent
    bint is_old                     # HTTP/1.0: a stream ends with the connection
    uint64_t left                   # bytes of the body, or of its chunk
    Vec[uint8_t] pieces             # of a body: what is no whole message yet
    uint64_t counted                # bytes of them in Connections.bytes_under_way
    Vec[uint8_t] json               # scratch

# The head of a request.
cdef struct Head:
    Bytes method
    Bytes target
    size_t length                   # bytes of the head
    uint64_t body
    bint is_chunked
    bint is_kept
    bint is_old
    bint wants_word                 # Expect: 100-continue
    Bytes token                     # Authorization

cdef struct GatewayPath:
    const char* path
    const char* call                # of gRPC
    bint is_stream                  # of answers

# Behind "/v3/".
cdef GatewayPath[64] PATHS
cdef int PATH_COUNT = 0


cdef void _path(const char* path, const char* call, bint is_stream=False) noexcept nogil:
    global PATH_COUNT
    PATHS[PATH_COUNT].path = path
    PATHS[PATH_COUNT].call = call
    PATHS[PATH_COUNT].is_stream = is_stream
    PATH_COUNT += 1


cdef void _fill_paths() noexcept nogil:
    _path(b"kv/range", b"/etcdserverpb.KV/Range")
    _path(b"kv/put", b"/etcdserverpb.KV/Put")
    _path(b"kv/deleterange", b"/etcdserverpb.KV/DeleteRange")
    _path(b"kv/txn", b"/etcdserverpb.KV/Txn")
    _path(b"kv/compaction", b"/etcdserverpb.KV/Compact")
    _path(b"watch", b"/etcdserverpb.Watch/Watch", True)
    _path(b"lease/grant", b"/etcdserverpb.Lease/LeaseGrant")
    _path(b"lease/revoke", b"/etcdserverpb.Lease/LeaseRevoke")
    _path(b"kv/lease/revoke", b"/etcdserverpb.Lease/LeaseRevoke")
    _path(b"lease/keepalive", b"/etcdserverpb.Lease/LeaseKeepAlive", True)
    _path(b"lease/timetolive", b"/etcdserverpb.Lease/LeaseTimeToLive")
    _path(b"kv/lease/timetolive", b"/etcdserverpb.Lease/LeaseTimeToLive")
    _path(b"lease/leases", b"/etcdserverpb.Lease/LeaseLeases")
    _path(b"kv/lease/leases", b"/etcdserverpb.Lease/LeaseLeases")
    _path(b"cluster/member/list", b"/etcdserverpb.Cluster/MemberList")
    _path(b"maintenance/alarm", b"/etcdserverpb.Maintenance/Alarm")
    _path(b"maintenance/status", b"/etcdserverpb.Maintenance/Status")
    _path(b"maintenance/defragment", b"/etcdserverpb.Maintenance/Defragment")
    _path(b"maintenance/hash", b"/etcdserverpb.Maintenance/Hash")
    _path(b"maintenance/hashkv", b"/etcdserverpb.Maintenance/HashKV")
    _path(b"maintenance/snapshot", b"/etcdserverpb.Maintenance/Snapshot", True)
    _path(b"maintenance/transfer-leadership", b"/etcdserverpb.Maintenance/MoveLeader")
    _path(b"lock/lock", b"/v3lockpb.Lock/Lock")
    _path(b"lock/unlock", b"/v3lockpb.Lock/Unlock")
    _path(b"election/campaign", b"/v3electionpb.Election/Campaign")
    _path(b"election/proclaim", b"/v3electionpb.Election/Proclaim")
    _path(b"election/leader", b"/v3electionpb.Election/Leader")
    _path(b"election/observe", b"/v3electionpb.Election/Observe", True)
    _path(b"election/resign", b"/v3electionpb.Election/Resign")
    _path(b"cluster/member/add", b"/etcdserverpb.Cluster/MemberAdd")
    _path(b"cluster/member/remove", b"/etcdserverpb.Cluster/MemberRemove")
    _path(b"cluster/member/update", b"/etcdserverpb.Cluster/MemberUpdate")
    _path(b"cluster/member/promote", b"/etcdserverpb.Cluster/MemberPromote")
    _path(b"auth/authenticate", b"/etcdserverpb.Auth/Authenticate")
    _path(b"auth/enable", b"/etcdserverpb.Auth/AuthEnable")
    _path(b"auth/disable", b"/etcdserverpb.Auth/AuthDisable")
    _path(b"auth/status", b"/etcdserverpb.Auth/AuthStatus")
    _path(b"auth/user/add", b"/etcdserverpb.Auth/UserAdd")
    _path(b"auth/user/get", b"/etcdserverpb.Auth/UserGet")
    _path(b"auth/user/list", b"/etcdserverpb.Auth/UserList")
    _path(b"auth/user/delete", b"/etcdserverpb.Auth/UserDelete")
    _path(b"auth/user/changepw", b"/etcdserverpb.Auth/UserChangePassword")
    _path(b"auth/user/grant", b"/etcdserverpb.Auth/UserGrantRole")
    _path(b"auth/user/revoke", b"/etcdserverpb.Auth/UserRevokeRole")
    _path(b"auth/role/add", b"/etcdserverpb.Auth/RoleAdd")
    _path(b"auth/role/get", b"/etcdserverpb.Auth/RoleGet")
    _path(b"auth/role/list", b"/etcdserverpb.Auth/RoleList")
    _path(b"auth/role/delete", b"/etcdserverpb.Auth/RoleDelete")
    _path(b"auth/role/grant", b"/etcdserverpb.Auth/RoleGrantPermission")
    _path(b"auth/role/revoke", b"/etcdserverpb.Auth/RoleRevokePermission")


_fill_paths()


# The status of HTTP for a code of gRPC.
cdef int _status_of(int32_t code) noexcept nogil:
    if code == CODE_OK:
        return 200
    if code == CODE_NOT_FOUND:
        return 404
    if code == CODE_PERMISSION_DENIED:
        return 403
    if code == CODE_RESOURCE_EXHAUSTED:
        return 429
    if code == CODE_UNIMPLEMENTED:
        return 501
    if code == CODE_UNAVAILABLE:
        return 503
    if code == CODE_UNAUTHENTICATED:
        return 401
    return 400 if code in (CODE_INVALID_ARGUMENT, CODE_FAILED_PRECONDITION, CODE_OUT_OF_RANGE) else 500


# --- a connection -----------------------------------------------------------------------------------------------------
cdef bint gateway_open(EtcdConnection* connection) noexcept nogil:
    connection.session = calloc(1, sizeof(Gateway))
    return connection.session != NULL


# Its call went before.
cdef void gateway_close(EtcdDoor* door, EtcdConnection* connection) noexcept nogil:
    cdef Gateway* gateway = <Gateway*>connection.session
    if gateway == NULL:
        return
    gateway.pieces.release()
    _count(door, connection)
    gateway.json.release()
    free(gateway)
    connection.session = NULL


cdef void _count(EtcdDoor* door, EtcdConnection* connection) noexcept nogil:
    cdef Gateway* gateway = <Gateway*>connection.session
    if gateway.pieces.size >= gateway.counted:
        bytes_begin(&door.desk.base, connection.base.account, gateway.pieces.size - gateway.counted)
    else:
        bytes_end(&door.desk.base, connection.base.account, gateway.counted - gateway.pieces.size)
    gateway.counted = gateway.pieces.size


# --- heads ------------------------------------------------------------------------------------------------------------
cdef uint8_t _small(uint8_t letter) noexcept nogil:
    return letter | 0x20 if c'A' <= letter <= c'Z' else letter


# Whether the bytes are this word, whose letters are small.
cdef bint _is_word(const Bytes* bytes, const char* word) noexcept nogil:
    cdef uint32_t i
    if bytes.length != strlen(word):
        return False
    for i in range(bytes.length):
        if _small(bytes.data[i]) != <uint8_t>word[i]:
            return False
    return True


# Whether a list, separated by commas, has the word.
cdef bint _has_word(const Bytes* list, const char* word) noexcept nogil:
    cdef Bytes one
    cdef uint32_t i = 0
    while i < list.length:
        one = bytes_of(list.data + i, 0)
        while i < list.length and list.data[i] != c',':
            i += 1
        one.length = <uint32_t>(list.data + i - one.data)
        i += 1
        _trim(&one)
        if _is_word(&one, word):
            return True
    return False


cdef void _trim(Bytes* bytes) noexcept nogil:
    while bytes.length and (bytes.data[0] == c' ' or bytes.data[0] == c'\t'):
        bytes.data += 1
        bytes.length -= 1
    while bytes.length and (bytes.data[bytes.length - 1] == c' ' or bytes.data[bytes.length - 1] == c'\t'):
        bytes.length -= 1


cdef bint _number(const Bytes* digits, int base, uint64_t* number) noexcept nogil:
    cdef uint32_t i
    cdef uint8_t letter
    cdef int digit
    number[0] = 0
    if digits.length == 0 or digits.length > 16:
        return False
    for i in range(digits.length):
        letter = _small(digits.data[i])
        digit = letter - c'0' if c'0' <= letter <= c'9' else letter - c'a' + 10 if c'a' <= letter <= c'f' else base
        if digit >= base:
            return False
        number[0] = number[0] * <uint64_t>base + <uint64_t>digit
    return True


# The line at `bytes` without its end. False: it is not whole.
cdef bint _line(const uint8_t* bytes, size_t length, Bytes* line, size_t* used) noexcept nogil:
    cdef const uint8_t* end = <const uint8_t*>memchr(bytes, c'\n', length)
    if end == NULL:
        return False
    used[0] = <size_t>(end - bytes) + 1
    line[0] = bytes_of(bytes, <size_t>(end - bytes))
    if line.length and line.data[line.length - 1] == c'\r':
        line.length -= 1
    return True


cdef Bytes _split(Bytes* line, uint8_t at) noexcept nogil:
    cdef Bytes first = bytes_of(line.data, 0)
    while first.length < line.length and line.data[first.length] != at:
        first.length += 1
    line.data += min(first.length + 1, line.length)
    line.length -= min(first.length + 1, line.length)
    return first


cdef bint _field(Head* head, const Bytes* name, const Bytes* value, bint* has_length) noexcept nogil:
    if _is_word(name, b"content-length"):
        # Two lengths, or one beside chunks, are how requests are smuggled (RFC 9112 6.3).
        if has_length[0] or head.is_chunked or not _number(value, 10, &head.body):
            return False
        has_length[0] = True
    elif _is_word(name, b"transfer-encoding"):
        if has_length[0] or head.is_chunked or not _is_word(value, b"chunked"):
            return False
        head.is_chunked = True
    elif _is_word(name, b"connection"):
        head.is_kept = (head.is_kept and not _has_word(value, b"close")) or _has_word(value, b"keep-alive")
    elif _is_word(name, b"authorization"):
        head.token = value[0]
    elif _is_word(name, b"expect"):
        head.wants_word = _is_word(value, b"100-continue")
    return True


# INCOMPLETE; BAD_FIELD; BAD_LENGTH: it is too long.
cdef status_t _read_head(const uint8_t* bytes, size_t length, Head* head) noexcept nogil:
    cdef Bytes line, name
    cdef size_t at = 0
    cdef size_t used = 0
    cdef bint has_length = False
    head.body = 0
    head.is_chunked = head.wants_word = False
    head.token = bytes_of(NULL, 0)
    if not _line(bytes, length, &line, &used):
        return INCOMPLETE if length < HEAD_BYTES_MAX else BAD_LENGTH
    at = used
    head.method = _split(&line, c' ')
    head.target = _split(&line, c' ')
    head.is_old = _is_word(&line, b"http/1.0")
    head.is_kept = not head.is_old
    if head.method.length == 0 or head.target.length == 0 or not (head.is_old or _is_word(&line, b"http/1.1")):
        return BAD_FIELD
    while _line(bytes + at, length - at, &line, &used):
        at += used
        if line.length == 0:
            head.length = at
            return OK
        name = _split(&line, c':')
        _trim(&line)
        if name.length == 0 or at > HEAD_BYTES_MAX or not _field(head, &name, &line, &has_length):
            return BAD_FIELD
    return INCOMPLETE if length < HEAD_BYTES_MAX else BAD_LENGTH


# --- answers ----------------------------------------------------------------------------------------------------------
cdef bint _write(EtcdConnection* connection, const char* text) noexcept nogil:
    return connection.base.out.append(<const uint8_t*>text, strlen(text))


# The body stands in gateway.json.
cdef void _answer(EtcdDoor* door, EtcdConnection* connection, int status) noexcept nogil:
    cdef Gateway* gateway = <Gateway*>connection.session
    cdef char[LINE_BYTES] head
    snprintf(head, sizeof(head), b"HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n%s\r\n",
             status, _reason(status), gateway.json.size, b"" if gateway.is_kept else b"Connection: close\r\n")
    if not _write(connection, head) or not connection.base.out.append(gateway.json.data, gateway.json.size):
        connection_fail(&door.desk.base, &connection.base)
        return
    connection_touch(&door.desk.base, &connection.base)
    door.desk.base.turn_bytes += gateway.json.size
    _next(door, connection)


cdef const char* _reason(int status) noexcept nogil:
    if status == 200:
        return b"OK"
    return b"Not Found" if status == 404 else b"Bad Request" if status == 400 else b"Error"


# The answer is whole: the next request may come.
cdef void _next(EtcdDoor* door, EtcdConnection* connection) noexcept nogil:
    cdef Gateway* gateway = <Gateway*>connection.session
    gateway.step = STEP_HEAD
    gateway.is_headed = False
    gateway.json.clear()
    gateway.pieces.release()
    _count(door, connection)
    if not gateway.is_kept:
        connection_end(&door.desk.base, &connection.base)
    elif connection.base.received.size != 0:
        connection_next_turn(&door.desk.base, &connection.base)


# An error's body, as grpc-gateway writes it. False: no memory.
cdef bint _write_error(Vec[uint8_t]* out, int32_t code, const char* text) noexcept nogil:
    cdef char[LINE_BYTES] start
    if text == NULL:
        text = b""
    snprintf(start, sizeof(start), b"{\"code\":%d,\"message\":", code)
    return (out.append(<const uint8_t*>start, strlen(start)) and json_text(<const uint8_t*>text, strlen(text), out)
            and out.append(<const uint8_t*><const char*>b",\"details\":[]}", 14))


# Of a request that no call was made for.
cdef void _refuse(EtcdDoor* door, EtcdConnection* connection, int32_t code, const char* text) noexcept nogil:
    cdef Gateway* gateway = <Gateway*>connection.session
    gateway.json.clear()
    if not _write_error(&gateway.json, code, text):
        connection_fail(&door.desk.base, &connection.base)
        return
    _answer(door, connection, _status_of(code))


# The next message of the call, as JSON in gateway.json; *length: its frame. False: there is none.
cdef bint _take_answer(Gateway* gateway, uint32_t* length) noexcept nogil:
    cdef EtcdCall* call = gateway.call
    cdef const uint8_t* at = call.out.data + call.out_offset
    cdef Bytes message
    if call.out.size - call.out_offset < FRAME_BYTES:
        return False
    length[0] = <uint32_t>at[1] << 24 | <uint32_t>at[2] << 16 | <uint32_t>at[3] << 8 | at[4]
    message = bytes_of(at + FRAME_BYTES, length[0])
    length[0] += FRAME_BYTES
    gateway.json.clear()
    if message_to_json(call.handler.reply, &message, &gateway.json) != OK:
        call.code = CODE_RESOURCE_EXHAUSTED     # there was no memory
        call.text = b"etcdserver: no memory"
        gateway.json.clear()
    return True


cdef void _finish(EtcdDoor* door, EtcdConnection* connection) noexcept nogil:
    cdef Gateway* gateway = <Gateway*>connection.session
    cdef EtcdCall* call = gateway.call
    cdef uint32_t length = 0
    cdef int32_t code
    if call.code == CODE_OK and _take_answer(gateway, &length):
        call_sent(door, call, length)
    code = call.code
    if code != CODE_OK:
        gateway.json.clear()
        _write_error(&gateway.json, code, call.text)
    gateway.call = NULL
    # A body that was not read to its end is not read any more.
    gateway.is_kept = gateway.is_kept and gateway.step == STEP_ANSWER
    call_close(door, call)
    _answer(door, connection, _status_of(code))


# One line of a stream, as a chunk of its own; HTTP/1.0 knows no chunks. before, behind: around gateway.json.
cdef bint _chunk(EtcdDoor* door, EtcdConnection* connection, const char* before, const char* behind) noexcept nogil:
    cdef Gateway* gateway = <Gateway*>connection.session
    cdef size_t length = strlen(before) + gateway.json.size + strlen(behind)
    cdef char[LINE_BYTES] head
    if not gateway.is_headed:
        gateway.is_headed = True
        gateway.is_kept = gateway.is_kept and not gateway.is_old
        if not _write(connection, b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"):
            return False
        if not _write(connection, b"Connection: close\r\n\r\n" if gateway.is_old
                      else b"Transfer-Encoding: chunked\r\n\r\n"):
            return False
    snprintf(head, sizeof(head), b"%zx\r\n", length)
    door.desk.base.turn_bytes += length
    return ((gateway.is_old or _write(connection, head)) and _write(connection, before)
            and connection.base.out.append(gateway.json.data, gateway.json.size) and _write(connection, behind)
            and (gateway.is_old or _write(connection, b"\r\n")))


# The end of a stream. One that failed before its first answer has the status of its error.
cdef void _finish_stream(EtcdDoor* door, EtcdConnection* connection) noexcept nogil:
    cdef Gateway* gateway = <Gateway*>connection.session
    cdef EtcdCall* call = gateway.call
    cdef int32_t code = call.code
    cdef bint is_sound = True
    gateway.json.clear()
    if code != CODE_OK:
        is_sound = _write_error(&gateway.json, code, call.text)
    gateway.call = NULL
    gateway.is_kept = gateway.is_kept and gateway.step == STEP_ANSWER
    call_close(door, call)
    if is_sound and not gateway.is_headed and code != CODE_OK:
        is_sound = gateway.json.append(<const uint8_t*><const char*>b"}", 1) and _wrap_error(&gateway.json)
        if is_sound:
            _answer(door, connection, _status_of(code))
            return
    if is_sound and (code != CODE_OK or not gateway.is_headed):
        is_sound = _chunk(door, connection, b"{\"error\":" if code != CODE_OK else b"",
                          b"}\n" if code != CODE_OK else b"\n")
    if not is_sound or not (gateway.is_old or _write(connection, b"0\r\n\r\n")):
        connection_fail(&door.desk.base, &connection.base)
        return
    connection_touch(&door.desk.base, &connection.base)
    _next(door, connection)


# {"error": before what stands there.
cdef bint _wrap_error(Vec[uint8_t]* json) noexcept nogil:
    cdef const char* before = b"{\"error\":"
    cdef size_t length = strlen(before)
    cdef size_t i
    if not json.resize(json.size + length):
        return False
    for i in range(json.size - length):
        json.data[json.size - 1 - i] = json.data[json.size - 1 - length - i]
    for i in range(length):
        json.data[i] = <uint8_t>before[i]
    return True


cdef void _send_stream(EtcdDoor* door, EtcdConnection* connection) noexcept nogil:
    cdef Gateway* gateway = <Gateway*>connection.session
    cdef EtcdCall* call = gateway.call
    cdef uint32_t length = 0
    cdef bint has_sent = False
    while connection.base.out.size - connection.base.out_offset < TUNE_OUT_BYTES and _take_answer(gateway, &length):
        if gateway.json.size == 0 or not _chunk(door, connection, b"{\"result\":", b"}\n"):
            connection_fail(&door.desk.base, &connection.base)
            return
        call_sent(door, call, length)
        has_sent = True
    if has_sent:
        connection_touch(&door.desk.base, &connection.base)
    if call.is_done and call.out.size == call.out_offset:
        _finish_stream(door, connection)


cdef void gateway_send(EtcdDoor* door, EtcdConnection* connection) noexcept nogil:
    cdef Gateway* gateway = <Gateway*>connection.session
    while calls_take_told(connection) != NULL:
        pass                        # there is one call, and it is looked at below
    if gateway.call == NULL or connection.base.state != CONNECTION_OPEN:
        return
    if gateway.path.is_stream:
        _send_stream(door, connection)
    elif gateway.call.is_done:
        _finish(door, connection)


# --- bodies -----------------------------------------------------------------------------------------------------------
cdef void _give(EtcdDoor* door, Gateway* gateway, const Vec[uint8_t]* message) noexcept nogil:
    cdef uint8_t[FRAME_BYTES] frame
    cdef int i
    frame[0] = 0
    for i in range(4):
        frame[1 + i] = <uint8_t>(message.size >> (24 - 8 * i))
    call_data(door, gateway.call, frame, FRAME_BYTES)
    if message.size:
        call_data(door, gateway.call, message.data, <uint32_t>message.size)


# A part of the body, without its chunks, to gateway.pieces. INCOMPLETE: more of it must come. OK: it is whole.
cdef status_t _take_body(Gateway* gateway, const uint8_t* bytes, size_t length, size_t* used,
                         size_t most) noexcept nogil:
    cdef Bytes line
    cdef size_t here
    used[0] = 0
    while True:
        if not gateway.is_chunked or gateway.chunk == CHUNK_BYTES:
            here = <size_t>min(gateway.left, <uint64_t>(length - used[0]))
            if gateway.pieces.size + here > most or not gateway.pieces.append(bytes + used[0], here):
                return BAD_LENGTH
            used[0] += here
            gateway.left -= here
            if gateway.left:
                return INCOMPLETE
            if not gateway.is_chunked:
                return OK
            gateway.chunk = CHUNK_END
        if not _line(bytes + used[0], length - used[0], &line, &here):
            return INCOMPLETE if length - used[0] < CHUNK_LINE_BYTES else BAD_LENGTH
        used[0] += here
        if gateway.chunk == CHUNK_END:
            if line.length:
                return BAD_FIELD
            gateway.chunk = CHUNK_SIZE
        elif gateway.chunk == CHUNK_TRAILER:
            if line.length == 0:
                return OK
        else:
            line = _split(&line, c';')          # an extension of the chunk counts for nothing
            if not _number(&line, 16, &gateway.left):
                return BAD_FIELD
            gateway.chunk = CHUNK_BYTES if gateway.left else CHUNK_TRAILER


# Messages of a stream that are whole.
cdef status_t _give_pieces(EtcdDoor* door, Gateway* gateway) noexcept nogil:
    cdef size_t used = 0
    cdef size_t one
    cdef status_t status = OK
    while status == OK and not gateway.call.is_done:
        door.scratch.clear()
        status = json_to_message(gateway.call.handler.request, gateway.pieces.data + used,
                                 gateway.pieces.size - used, &one, &door.scratch)
        if status == OK:
            used += one
            _give_copy(door, gateway)
    gateway.pieces.drop_front(used)
    return OK if status == INCOMPLETE else status


# Handlers use door.scratch, too.
cdef void _give_copy(EtcdDoor* door, Gateway* gateway) noexcept nogil:
    gateway.json.clear()
    if gateway.json.append(door.scratch.data, door.scratch.size):
        _give(door, gateway, &gateway.json)


cdef status_t _take_pieces(EtcdDoor* door, EtcdConnection* connection, const uint8_t* bytes, size_t length,
                           size_t* used) noexcept nogil:
    cdef Gateway* gateway = <Gateway*>connection.session
    cdef size_t most = PIECES_BYTES_MAX if gateway.path.is_stream else ETCD_MESSAGE_BYTES_MAX
    cdef status_t status = _take_body(gateway, bytes, length, used, most)
    cdef status_t given = OK
    if status != OK and status != INCOMPLETE:
        return status
    _count(door, connection)
    if door.desk.base.bytes_under_way > door.desk.base.limits.bytes_under_way_max:
        return BAD_LENGTH
    if gateway.path.is_stream:
        given = _give_pieces(door, gateway)
    elif status == OK:
        given = _give_request(door, gateway)
    if given != OK:
        return given
    if status == INCOMPLETE:
        return OK if used[0] else INCOMPLETE
    gateway.step = STEP_ANSWER
    call_half_close(door, gateway.call)
    return OK


# The one message of a request, which is whole. An empty body is an empty message.
cdef status_t _give_request(EtcdDoor* door, Gateway* gateway) noexcept nogil:
    cdef size_t used = 0
    cdef size_t i
    cdef status_t status
    door.scratch.clear()
    status = json_to_message(gateway.call.handler.request, gateway.pieces.data, gateway.pieces.size, &used,
                             &door.scratch)
    if status != OK:
        for i in range(gateway.pieces.size):
            if gateway.pieces.data[i] > c' ':
                return BAD_FIELD
    _give_copy(door, gateway)
    return OK


# --- requests ---------------------------------------------------------------------------------------------------------
cdef const GatewayPath* _path_of(const Bytes* target) noexcept nogil:
    cdef int i
    if target.length < 4 or memcmp(target.data, b"/v3/", 4) != 0:
        return NULL
    for i in range(PATH_COUNT):
        if (strlen(PATHS[i].path) == target.length - 4
                and memcmp(PATHS[i].path, target.data + 4, target.length - 4) == 0):
            return &PATHS[i]
    return NULL


# Questions by GET, with which programs begin. Patroni sends a body along, which counts for nothing.
cdef void _look(EtcdDoor* door, EtcdConnection* connection, const Bytes* target) noexcept nogil:
    cdef Gateway* gateway = <Gateway*>connection.session
    cdef char[LINE_BYTES] text
    cdef int status = 200
    gateway.json.clear()
    if _is_word(target, b"/version"):
        snprintf(text, sizeof(text), b"{\"etcdserver\":\"%s\",\"etcdcluster\":\"%s\",\"storage\":\"%s\"}",
                 etcd_version(), etcd_version(), etcd_version())
    elif _is_word(target, b"/health"):
        snprintf(text, sizeof(text), b"{\"health\":\"%s\",\"reason\":\"%s\"}", b"true" if door.is_serving else b"false",
                 b"" if door.is_serving else b"RAFT NO LEADER")
        status = 200 if door.is_serving else 503
    else:
        _refuse(door, connection, CODE_NOT_FOUND, b"Not Found")
        return
    if not gateway.json.append(<const uint8_t*>text, strlen(text)):
        connection_fail(&door.desk.base, &connection.base)
        return
    _answer(door, connection, status)


# A call for a request to this path; False: it was answered already.
cdef bint _begin(EtcdDoor* door, EtcdConnection* connection, const Head* head) noexcept nogil:
    cdef Gateway* gateway = <Gateway*>connection.session
    cdef const EtcdHandler* handler = NULL
    gateway.path = _path_of(&head.target)
    if gateway.path != NULL:
        handler = handler_of(<const uint8_t*>gateway.path.call, <uint32_t>strlen(gateway.path.call))
    if _is_word(&head.method, b"get") and not head.is_chunked and gateway.path == NULL:
        _look(door, connection, &head.target)
        return False
    gateway.call = NULL
    if handler == NULL:
        gateway.is_kept = False     # its body is not read
        _refuse(door, connection, CODE_NOT_FOUND, b"Not Found")
        return False
    if not _is_word(&head.method, b"post"):
        gateway.is_kept = False
        _refuse(door, connection, CODE_UNIMPLEMENTED, b"Method Not Allowed")
        return False
    gateway.call = call_create(door, connection)
    if gateway.call == NULL:
        gateway.is_kept = False
        _refuse(door, connection, CODE_RESOURCE_EXHAUSTED, b"etcdserver: too many requests")
        return False
    if head.token.length:
        access_by_token(door, gateway.call, &head.token)
    call_open(door, gateway.call, handler)
    return True


cdef status_t _bad_request(EtcdDoor* door, EtcdConnection* connection, status_t status) noexcept nogil:
    cdef Gateway* gateway = <Gateway*>connection.session
    if gateway.call != NULL:
        call_close(door, gateway.call)
        gateway.call = NULL
    door.desk.base.counters.refused += 1
    gateway.is_kept = False
    if gateway.is_headed:
        connection_end(&door.desk.base, &connection.base)
    else:
        _refuse(door, connection, CODE_INVALID_ARGUMENT,
                b"the request is too large" if status == BAD_LENGTH else b"the request is no JSON of this call")
    return status


# A request whose length is known is taken once it is whole: until then its bytes stay on the connection, which bounds
# them.
cdef status_t _take_request(EtcdDoor* door, EtcdConnection* connection, const Head* head, const uint8_t* bytes,
                            size_t length, size_t* used) noexcept nogil:
    cdef Gateway* gateway = <Gateway*>connection.session
    cdef status_t status
    if length - head.length < head.body:
        return INCOMPLETE
    used[0] = head.length + head.body
    if not _begin(door, connection, head):
        return OK
    gateway.step = STEP_ANSWER
    gateway.pieces.clear()
    status = OK if gateway.pieces.append(bytes + head.length, head.body) else <status_t>BAD_LENGTH
    if status == OK:
        status = _give_request(door, gateway)
    if status != OK:
        return _bad_request(door, connection, status)
    gateway.pieces.release()
    call_half_close(door, gateway.call)
    return OK


cdef status_t _take_head(EtcdDoor* door, EtcdConnection* connection, const uint8_t* bytes, size_t length,
                         size_t* used) noexcept nogil:
    cdef Gateway* gateway = <Gateway*>connection.session
    cdef Head head
    cdef const GatewayPath* path
    cdef status_t status = _read_head(bytes, length, &head)
    if status == INCOMPLETE:
        return INCOMPLETE
    if status != OK or head.body + head.length > ETCD_MESSAGE_BYTES_MAX:
        used[0] = length
        return _bad_request(door, connection, status if status != OK else <status_t>BAD_LENGTH)
    gateway.is_kept = head.is_kept
    gateway.is_old = head.is_old
    gateway.is_chunked = head.is_chunked
    gateway.is_headed = False
    gateway.chunk = CHUNK_SIZE
    gateway.left = head.body
    if connection.base.unbound != 0 and not access_must_prove(door, connection):
        connection_prove(&door.desk.base, &connection.base)
    if head.wants_word and length == head.length and _write(connection, b"HTTP/1.1 100 Continue\r\n\r\n"):
        connection_touch(&door.desk.base, &connection.base)
    path = _path_of(&head.target)
    if not head.is_chunked and (path == NULL or not path.is_stream):
        return _take_request(door, connection, &head, bytes, length, used)
    used[0] = head.length
    if _begin(door, connection, &head):
        gateway.pieces.clear()
        gateway.step = STEP_PIECES
    return OK


cdef status_t gateway_take(EtcdDoor* door, EtcdConnection* connection, const uint8_t* bytes, size_t length,
                           size_t* used) noexcept nogil:
    cdef Gateway* gateway = <Gateway*>connection.session
    cdef status_t status
    used[0] = 0
    if gateway.step == STEP_ANSWER:
        return INCOMPLETE           # it waits until the answer is out
    if gateway.step == STEP_HEAD:
        return _take_head(door, connection, bytes, length, used)
    if gateway.call == NULL:
        return INCOMPLETE           # the connection ends
    status = _take_pieces(door, connection, bytes, length, used)
    if status != OK and status != INCOMPLETE:
        used[0] = length
        return _bad_request(door, connection, status)
    return status
