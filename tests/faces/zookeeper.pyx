"""The protocol of the ZooKeeper door as Python functions, for tests; the door itself never touches them.

Requests and connects are dicts with the field names of the headers, and the vectors of a request are lists. Errors are
ZooKeeper's codes, statuses numbers of raftmeta/status.pxd.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from raftmeta.doors.zookeeper cimport auth, codec, four_letter
from raftmeta.doors.zookeeper.protocol cimport ZK_FIELD_END, ZK_FIELDS_MAX, ZkRow, zk_row_at
from raftmeta.native cimport old_digests
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport OK
from raftmeta.wire.commands cimport Bytes
from raftmeta.wire.znodes cimport Identity

WATCHES = ("data", "exist", "child", "persistent", "recursive")


# --- between Python objects and structs -------------------------------------------------------------------------------
cdef bytes _taken(Vec[uint8_t]* out):
    taken = PyBytes_FromStringAndSize(<char*>out.data, <Py_ssize_t>out.size)
    out.release()
    return taken

cdef Vec[uint8_t] _empty() noexcept:
    cdef Vec[uint8_t] out
    memset(<void*>&out, 0, sizeof(out))
    return out

cdef const uint8_t* _start(const uint8_t[::1] view) noexcept:
    return &view[0] if view.shape[0] else NULL

cdef Bytes _window(bytes value):
    cdef Bytes window
    window.data = <const uint8_t*>PyBytes_AS_STRING(value)
    window.length = <uint32_t>PyBytes_GET_SIZE(value)
    return window

cdef bytes _shown(const Bytes* window):
    return PyBytes_FromStringAndSize(<const char*>window.data, window.length)

cdef list _strings(codec.ZkStrings strings):
    cdef Bytes one
    found = []
    while codec.zk_string_next(&strings, &one):
        found.append(_shown(&one))
    return found

cdef list _acls(codec.ZkStrings entries):
    cdef codec.ZkAcl one
    found = []
    while codec.zk_acl_next(&entries, &one):
        found.append((one.perms, _shown(&one.scheme), _shown(&one.id)))
    return found

cdef list _operations(codec.ZkStrings operations):
    cdef codec.ZkRequest one
    found = []
    while codec.zk_operation_next(&operations, &one):
        found.append(_request(&one))
    return found

cdef dict _request(const codec.ZkRequest* one):
    return {
        "xid": one.xid, "opcode": one.opcode, "error": one.error,
        "name": None if one.row == NULL else one.row.name.decode(),
        "path": _shown(&one.path), "data": None if one.is_data_null else _shown(&one.data), "acl": _acls(one.acl),
        "flags": one.flags, "ttl_ms": one.ttl_ms, "version": one.version, "is_watching": bool(one.is_watching),
        "mode": one.mode, "zxid": one.zxid, "scheme": _shown(&one.scheme),
        "watches": {name: _strings(one.watches[i]) for i, name in enumerate(WATCHES)},
        "operations": _operations(one.operations),
    }


# --- the table, the codec ---------------------------------------------------------------------------------------------
def rows():
    cdef const ZkRow* row
    cdef size_t position = 0
    found = []
    while zk_row_at(position) != NULL:
        row = zk_row_at(position)
        fields = [row.fields[i] for i in range(ZK_FIELDS_MAX) if row.fields[i] != ZK_FIELD_END]
        found.append((row.opcode, row.name.decode(), fields, row.answer, row.traits, row.since.decode()))
        position += 1
    return found


def frame_look(const uint8_t[::1] data, uint32_t most):
    cdef size_t total = 0
    status = codec.zk_frame_look(_start(data), <size_t>data.shape[0], most, &total)
    return status, total


def connect_decode(const uint8_t[::1] body):
    cdef codec.ZkConnect found
    status = codec.zk_connect_decode(_start(body), <uint32_t>body.shape[0], &found)
    if status != OK:
        return status, None
    return status, {
        "protocol_version": found.protocol_version, "zxid": found.zxid, "timeout_ms": found.timeout_ms,
        "session": found.session, "password": _shown(&found.password), "has_read_only": bool(found.has_read_only),
        "is_read_only": bool(found.is_read_only),
    }


def connected_encode(int32_t timeout_ms, uint64_t session, bytes password, is_read_only, *, has_read_only=True):
    cdef codec.ZkConnect connect
    cdef Vec[uint8_t] out = _empty()
    if len(password) != codec.ZK_PASSWORD_BYTES:
        raise ValueError(f"a password of {len(password)} bytes")
    memset(&connect, 0, sizeof(connect))
    connect.has_read_only = has_read_only
    if codec.zk_connected_encode(&connect, timeout_ms, session, <const uint8_t*>password, is_read_only, &out) != OK:
        raise MemoryError
    return _taken(&out)


def request_decode(const uint8_t[::1] body):
    cdef codec.ZkRequest found
    status = codec.zk_request_decode(_start(body), <uint32_t>body.shape[0], &found)
    return status, _request(&found) if status == OK else None


def reply(int32_t xid, uint64_t zxid, int32_t error):
    cdef Vec[uint8_t] out = _empty()
    if codec.zk_reply(&out, xid, zxid, error) != OK:
        raise MemoryError
    return _taken(&out)


def event(uint64_t zxid, int32_t kind, int32_t state, bytes path):
    cdef Vec[uint8_t] out = _empty()
    if codec.zk_event(&out, zxid, kind, state, <const uint8_t*>path, <uint32_t>len(path)) != OK:
        raise MemoryError
    return _taken(&out)


# --- who speaks -------------------------------------------------------------------------------------------------------
def md5(bytes data):
    cdef uint8_t[16] hash
    old_digests.md5(<const uint8_t*>data, len(data), hash)
    return hash[:16]


def sha1(bytes data):
    cdef uint8_t[20] hash
    old_digests.sha1(<const uint8_t*>data, len(data), hash)
    return hash[:20]


def digest_of(bytes user_and_password):
    cdef Bytes window = _window(user_and_password)
    cdef Vec[uint8_t] out = _empty()
    if auth.digest_of(&window, &out) != OK:
        raise MemoryError
    return _taken(&out)


def id_is_valid(bytes scheme, bytes id):
    cdef Bytes one = _window(scheme)
    cdef Bytes other = _window(id)
    return bool(auth.auth_id_is_valid(&one, &other))


cdef class Speaker:
    def __cinit__(self, *, bytes super_digest=b"", dict users=None):
        auth.speaker_init(&self.speaker)
        memset(&self.sasl, 0, sizeof(self.sasl))
        self._kept = (super_digest, list((users or {}).items()))
        self.users = <auth.ZkSaslUser*>calloc(len(self._kept[1]) + 1, sizeof(auth.ZkSaslUser))
        if self.users == NULL:
            raise MemoryError
        for i, (name, password) in enumerate(self._kept[1]):
            self.users[i].name = _window(name)
            self.users[i].password = _window(password)
        self.settings.super_digest = _window(super_digest)
        self.settings.users = self.users
        self.settings.user_count = <uint32_t>len(self._kept[1])

    def __dealloc__(self):
        auth.speaker_release(&self.speaker)
        free(self.users)

    def add(self, bytes scheme, bytes id):
        cdef Bytes one = _window(scheme)
        cdef Bytes other = _window(id)
        return auth.speaker_add(&self.speaker, &one, &other)

    def add_ip(self, bytes address):
        return auth.speaker_add_ip(&self.speaker, <const uint8_t*>address, <uint32_t>len(address))

    def add_x509(self, bytes subject):
        cdef Bytes window = _window(subject)
        return auth.speaker_add_x509(&self.speaker, &window)

    def auth(self, bytes scheme, bytes token):
        cdef Bytes one = _window(scheme)
        cdef Bytes other = _window(token)
        return auth.speaker_auth(&self.speaker, &self.settings, &one, &other)

    def sasl_step(self, const uint8_t[::1] token, bytes random):
        cdef Bytes window
        cdef Vec[uint8_t] out = _empty()
        window.data = _start(token)
        window.length = <uint32_t>token.shape[0]
        if len(random) != auth.SASL_NONCE_BYTES:
            raise ValueError(f"{len(random)} random bytes")
        error = auth.sasl_step(&self.sasl, &self.speaker, &self.settings, &window, <const uint8_t*>random, &out)
        return error, self.sasl.state, _taken(&out)

    @property
    def identities(self):
        cdef Vec[Identity] found
        memset(<void*>&found, 0, sizeof(found))
        if auth.speaker_identities(&self.speaker, &found) != OK:
            raise MemoryError
        shown = [(_shown(&found.data[i].scheme), _shown(&found.data[i].id)) for i in range(found.size)]
        found.release()
        return shown


# --- words of four letters --------------------------------------------------------------------------------------------
def word_find(bytes word):
    if len(word) != four_letter.WORD_BYTES:
        raise ValueError(f"a word of {len(word)} bytes")
    return four_letter.four_letter_find(<const uint8_t*>word)


def words_allowed(bytes setting):
    cdef uint32_t allowed = 0
    if not four_letter.four_letter_allowed(<const uint8_t*>setting, len(setting), &allowed):
        return None
    return allowed


def short_name(int32_t opcode):
    return four_letter.zk_short_name(opcode).decode()


cdef four_letter.ZkConnectionView _connection(dict one):
    cdef four_letter.ZkConnectionView view
    memset(&view, 0, sizeof(view))
    view.address = _window(one["address"])
    view.session = one["session"]
    view.queued = one["queued"]
    view.received = one["received"]
    view.sent = one["sent"]
    view.timeout_ms = one["timeout_ms"]
    view.established_ms = one["established_ms"]
    view.last_xid = one["last_xid"]
    view.last_zxid = one["last_zxid"]
    view.last_response_ms = one["last_response_ms"]
    view.last_latency_ms = one["last_latency_ms"]
    view.least_latency_ms = one["least_latency_ms"]
    view.sum_latency_ms = one["sum_latency_ms"]
    view.most_latency_ms = one["most_latency_ms"]
    view.last_request = four_letter.zk_short_name(one["last_opcode"])
    return view


cdef _fill_numbers(four_letter.ZkServerView* view, dict one):
    view.mode = one["mode"]
    view.is_ready = one["is_ready"]
    view.wall_ms = one["wall_ms"]
    view.zxid = one["zxid"]
    view.received = one["received"]
    view.sent = one["sent"]
    view.outstanding = one["outstanding"]
    view.least_latency_ms = one["least_latency_ms"]
    view.sum_latency_ms = one["sum_latency_ms"]
    view.count_latency = one["count_latency"]
    view.most_latency_ms = one["most_latency_ms"]
    view.node_count = one["node_count"]
    view.data_bytes = one["data_bytes"]
    view.ephemeral_count = one["ephemeral_count"]
    view.session_count = one["session_count"]
    view.watch_count = one["watch_count"]
    view.watcher_count = one["watcher_count"]
    view.watched_paths = one["watched_paths"]
    view.follower_count = one["follower_count"]
    view.voter_count = one["voter_count"]
    view.uptime_ms = one["uptime_ms"]
    view.open_descriptors = one["open_descriptors"]
    view.descriptors_max = one["descriptors_max"]
    view.folder_bytes = one["folder_bytes"]
    view.log_bytes = one["log_bytes"]
    view.port = one["port"]
    view.tick_ms = one["tick_ms"]
    view.timeout_least_ms = one["timeout_least_ms"]
    view.timeout_most_ms = one["timeout_most_ms"]
    view.connections_max = one["connections_max"]
    view.server_id = one["server_id"]


def word_answer(int word, uint32_t allowed, dict server):
    cdef four_letter.ZkServerView view
    cdef Vec[four_letter.ZkConnectionView] connections
    cdef Vec[four_letter.ZkSessionView] sessions
    cdef Vec[four_letter.ZkPathView] paths
    cdef four_letter.ZkSessionView session
    cdef four_letter.ZkPathView path
    cdef Vec[uint8_t] out = _empty()
    memset(&view, 0, sizeof(view))
    memset(<void*>&connections, 0, sizeof(connections))
    memset(<void*>&sessions, 0, sizeof(sessions))
    memset(<void*>&paths, 0, sizeof(paths))
    _fill_numbers(&view, server)
    view.address, view.host, view.folder = (_window(server[name]) for name in ("address", "host", "folder"))
    for one in server["connections"]:
        connections.push(_connection(one))
    for session.session, session.expires_ms in server["sessions"]:
        sessions.push(session)
    for owner, name in server["paths"]:
        path.session = owner
        path.path = _window(name)
        paths.push(path)
    view.connections, view.connection_count = connections.data, <uint32_t>connections.size
    view.sessions, view.sessions_listed = sessions.data, <uint32_t>sessions.size
    view.paths, view.path_count = paths.data, <uint32_t>paths.size
    status = four_letter.four_letter_answer(<four_letter.FourLetterWord>word, allowed, &view, &out)
    connections.release()
    sessions.release()
    paths.release()
    if status != OK:
        raise MemoryError
    return _taken(&out)
