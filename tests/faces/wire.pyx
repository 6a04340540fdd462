"""The codecs as Python functions over dicts and tuples, for tests and tools; the engine itself never touches them.

Structs appear as dicts with the field names of the headers; the arenas of a Command as lists of tuples in the order
of the struct's fields. Statuses are numbers of raftmeta/status.pxd and are returned, never raised.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from raftmeta.native.chunks cimport Slice
from raftmeta.native.containers cimport Vec
from raftmeta.raft.genesis cimport GenesisMessage
from raftmeta.raft.membership cimport membership_decode, membership_encode
from raftmeta.raft.types cimport ADDRESS_BYTES_MAX, NAME_BYTES_MAX, Message
from raftmeta.status cimport BAD_FIELD, OK, status_t
from raftmeta.wire cimport commands, feed_messages, frame, genesis_messages, hello, messages, msgpack, snapshot_messages

cdef enum:
    UNPACK_DEPTH_MAX = 32


# --- between Python objects and structs -------------------------------------------------------------------------------
cdef bytes _taken(Vec[uint8_t]* out):
    taken = PyBytes_FromStringAndSize(<char*>out.data, <Py_ssize_t>out.size)
    out.release()
    return taken

cdef const uint8_t* _start(const uint8_t[::1] view) noexcept:
    return &view[0] if view.shape[0] else NULL

cdef commands.Bytes _window(bytes value):
    cdef commands.Bytes window
    window.data = <const uint8_t*>PyBytes_AS_STRING(value)
    window.length = <uint32_t>PyBytes_GET_SIZE(value)
    return window

cdef bytes _shown(const commands.Bytes* window):
    return PyBytes_FromStringAndSize(<const char*>window.data, window.length)

cdef uint8_t _fill_text(uint8_t* into, bytes text, uint8_t most) except? 0:
    if len(text) > most:
        raise ValueError(f"text of {len(text)} bytes, the struct holds {most}")
    memcpy(into, PyBytes_AS_STRING(text), len(text))
    return <uint8_t>len(text)


# --- msgpack ----------------------------------------------------------------------------------------------------------
cdef int _write_value(msgpack.Writer* writer, object value) except -1:
    if value is None:
        msgpack.write_nil(writer)
    elif isinstance(value, bool):
        msgpack.write_bool(writer, value)
    elif isinstance(value, int):
        if value >= 0:
            msgpack.write_uint(writer, value)
        else:
            msgpack.write_int(writer, value)
    elif isinstance(value, bytes):
        msgpack.write_bin(writer, <const uint8_t*>PyBytes_AS_STRING(value), <uint32_t>len(value))
    else:
        msgpack.write_array(writer, <uint32_t>len(value))
        for element in value:
            _write_value(writer, element)
    return 0

cdef object _read_value(msgpack.Reader* reader, int depth):
    cdef uint8_t tag = msgpack.read_peek(reader)
    cdef commands.Bytes window
    if msgpack.read_nil(reader):
        return None
    if tag == msgpack.MSGPACK_FALSE or tag == msgpack.MSGPACK_TRUE:
        return bool(msgpack.read_bool(reader))
    if msgpack.MSGPACK_BIN8 <= tag <= msgpack.MSGPACK_BIN32:
        window.data = msgpack.read_bin(reader, ~<uint32_t>0, &window.length)
        return _shown(&window)
    if tag & 0xf0 == msgpack.MSGPACK_FIXED_ARRAY or tag == msgpack.MSGPACK_ARRAY16 or tag == msgpack.MSGPACK_ARRAY32:
        if depth == UNPACK_DEPTH_MAX:
            msgpack.read_fail(reader, BAD_FIELD)
        return [_read_value(reader, depth + 1) for _ in range(msgpack.read_array_max(reader, ~<uint32_t>0))]
    if tag >= msgpack.MSGPACK_NEGATIVE_FIXED or msgpack.MSGPACK_INT8 <= tag <= msgpack.MSGPACK_INT64:
        return msgpack.read_int(reader)
    return msgpack.read_uint(reader, msgpack.unsigned_max())


def pack(value):
    cdef Vec[uint8_t] out
    memset(&out, 0, sizeof(out))
    cdef msgpack.Writer writer = msgpack.writer_at(&out)
    _write_value(&writer, value)
    return _taken(&out)


def unpack(const uint8_t[::1] data):
    cdef msgpack.Reader reader = msgpack.reader_over(_start(data), data.shape[0])
    value = _read_value(&reader, 0)
    cdef status_t status = msgpack.read_done(&reader)
    return status, value if status == OK else None


# --- frames -----------------------------------------------------------------------------------------------------------
cdef int _fill_identity(object fields, frame.FrameIdentity* identity) except -1:
    memset(identity, 0, sizeof(frame.FrameIdentity))
    identity.cluster.low, identity.cluster.high = fields["cluster"]
    identity.peer = fields["peer"]
    identity.self = fields["self"]
    identity.peer_boot = fields.get("peer_boot", 0)
    return 0


def frame_encode(int type, identity, *, uint64_t self_boot, uint64_t sequence, bytes body=b"", bytes records=b""):
    cdef frame.FrameHeader header
    cdef frame.FrameIdentity taken
    _fill_identity(identity, &taken)
    frame.frame_encode(&header, <frame.FrameType>type, &taken, self_boot, sequence,
                       <const uint8_t*>PyBytes_AS_STRING(body), <uint32_t>len(body),
                       <const uint8_t*>PyBytes_AS_STRING(records), <uint32_t>len(records))
    return (<char*>&header)[:sizeof(header)] + body + records


def frame_decode(const uint8_t[::1] data, *, uint32_t body_bytes_max=frame.FRAME_BODY_BYTES_MAX):
    cdef size_t total = 0
    cdef status_t status = frame.frame_decode(_start(data), data.shape[0], body_bytes_max, &total)
    return status, total


def frame_check_identity(const uint8_t[::1] header, identity):
    cdef frame.FrameIdentity taken
    if header.shape[0] < <Py_ssize_t>sizeof(frame.FrameHeader):
        raise ValueError("less than a header")
    _fill_identity(identity, &taken)
    return frame.frame_check_identity(<const frame.FrameHeader*>_start(header), &taken)


# --- HELLO and the refusal of a connection ----------------------------------------------------------------------------
cdef int _fill_hello(object fields, hello.Hello* into) except -1:
    memset(into, 0, sizeof(hello.Hello))
    into.purpose = fields["purpose"]
    into.version_min = fields["version_min"]
    into.version_max = fields["version_max"]
    into.genesis_state = fields["genesis_state"]
    into.cluster.low, into.cluster.high = fields["cluster"]
    into.id = fields["id"]
    into.boot = fields["boot"]
    into.feature_level_max = fields["feature_level_max"]
    into.name_length = _fill_text(into.name, fields["name"], NAME_BYTES_MAX)
    into.cluster_name_length = _fill_text(into.cluster_name, fields["cluster_name"], NAME_BYTES_MAX)
    into.address_length = _fill_text(into.address, fields["address"], ADDRESS_BYTES_MAX)
    into.membership = fields["membership"]
    return 0


def hello_encode(fields):
    cdef Vec[uint8_t] out
    cdef hello.Hello taken
    memset(&out, 0, sizeof(out))
    _fill_hello(fields, &taken)
    cdef status_t status = hello.hello_encode(&taken, &out)
    return status, _taken(&out)


def hello_decode(const uint8_t[::1] data):
    cdef hello.Hello found
    cdef status_t status = hello.hello_decode(_start(data), <uint32_t>data.shape[0], &found)
    if status != OK:
        return status, None
    return status, {
        "purpose": found.purpose, "version_min": found.version_min, "version_max": found.version_max,
        "genesis_state": found.genesis_state, "cluster": (found.cluster.low, found.cluster.high), "id": found.id,
        "boot": found.boot, "feature_level_max": found.feature_level_max,
        "name": (<char*>found.name)[:found.name_length],
        "cluster_name": (<char*>found.cluster_name)[:found.cluster_name_length],
        "address": (<char*>found.address)[:found.address_length], "membership": found.membership,
    }


def hello_negotiate(own, peer):
    cdef hello.Hello first
    cdef hello.Hello second
    cdef uint8_t version = 0
    first.version_min, first.version_max = own
    second.version_min, second.version_max = peer
    cdef status_t status = hello.hello_negotiate(&first, &second, &version)
    return status, version


def refused_encode(int status, bytes text):
    cdef Vec[uint8_t] out
    memset(&out, 0, sizeof(out))
    cdef status_t encoded = hello.refused_encode(status, <const uint8_t*>PyBytes_AS_STRING(text), <uint32_t>len(text),
                                                 &out)
    return encoded, _taken(&out)


def refused_decode(const uint8_t[::1] data):
    cdef status_t found = OK
    cdef commands.Bytes text
    cdef status_t status = hello.refused_decode(_start(data), <uint32_t>data.shape[0], &found, &text.data, &text.length)
    return status, (found, _shown(&text)) if status == OK else None


# --- messages ---------------------------------------------------------------------------------------------------------
def message_encode(fields, bytes records=b"", *, uint8_t version=messages.FORMAT_MESSAGE_VERSION):
    cdef Vec[uint8_t] out
    cdef Message message
    memset(&out, 0, sizeof(out))
    memset(&message, 0, sizeof(message))
    message.type = fields["type"]
    message.flags = fields.get("flags", 0)
    message.term = fields.get("term", 0)
    message.reject = fields.get("reject", 0)
    message.index = fields.get("index", 0)
    message.log_term = fields.get("log_term", 0)
    message.commit = fields.get("commit", 0)
    message.hint = fields.get("hint", 0)
    message.context = fields.get("context", 0)
    message.free_bytes = fields.get("free_bytes", 0)
    message.lease_ms = fields.get("lease_ms", 0)
    message.count = fields.get("count", 0)
    message.records.length = <uint32_t>len(records)
    cdef status_t status = messages.message_encode(&message, version, &out)
    return status, _taken(&out)


def message_decode(const uint8_t[::1] body, const uint8_t[::1] records=b""):
    cdef Message message
    cdef Slice behind
    memset(&behind, 0, sizeof(behind))
    behind.data = <uint8_t*>_start(records)
    behind.length = <uint32_t>records.shape[0]
    cdef status_t status = messages.message_decode(_start(body), <uint32_t>body.shape[0], &behind, &message)
    if status != OK:
        return status, None
    return status, {
        "type": message.type, "flags": message.flags, "term": message.term, "reject": message.reject,
        "index": message.index, "log_term": message.log_term, "commit": message.commit, "hint": message.hint,
        "context": message.context, "free_bytes": message.free_bytes, "count": message.count,
        "lease_ms": message.lease_ms,
    }


def genesis_message_encode(fields, membership):
    cdef Vec[uint8_t] out
    cdef GenesisMessage message
    memset(&out, 0, sizeof(out))
    memset(&message, 0, sizeof(message))
    message.type = fields["type"]
    message.cluster_low, message.cluster_high = fields["cluster"]
    message.source = fields["source"]
    message.target = fields["target"]
    if membership is not None and membership_decode(<const uint8_t*>PyBytes_AS_STRING(membership),
                                                    <uint32_t>len(membership), &message.membership) != OK:
        raise ValueError("not a membership")
    cdef status_t status = genesis_messages.genesis_message_encode(&message, &out)
    return status, _taken(&out)


def genesis_message_decode(const uint8_t[::1] body):
    cdef Vec[uint8_t] out
    cdef GenesisMessage found
    cdef bytes membership = None
    cdef status_t status = genesis_messages.genesis_message_decode(_start(body), <uint32_t>body.shape[0], &found)
    if status != OK:
        return status, None, None
    if found.membership.count:
        memset(&out, 0, sizeof(out))
        status = membership_encode(&found.membership, &out)
        membership = _taken(&out)
    return status, {
        "type": found.type, "cluster": (found.cluster_low, found.cluster_high), "source": found.source,
        "target": found.target,
    }, membership


# --- snapshot messages ------------------------------------------------------------------------------------------------
def snapshot_message_encode(fields):
    cdef Vec[uint8_t] out
    cdef snapshot_messages.SnapshotMessage message
    memset(&out, 0, sizeof(out))
    memset(&message, 0, sizeof(message))
    message.type = fields["type"]
    message.file.point.index, message.file.point.term, message.file.point.chain = fields["point"]
    message.file.size_bytes = fields["size_bytes"]
    message.file.hash.low, message.file.hash.high = fields["hash"]
    message.offset = fields["offset"]
    message.length = fields["length"]
    cdef status_t status = snapshot_messages.snapshot_message_encode(&message, &out)
    return status, _taken(&out)


def snapshot_message_decode(const uint8_t[::1] body, uint32_t piece_bytes):
    cdef snapshot_messages.SnapshotMessage found
    cdef status_t status = snapshot_messages.snapshot_message_decode(_start(body), <uint32_t>body.shape[0],
                                                                     piece_bytes, &found)
    if status != OK:
        return status, None
    return status, {
        "type": found.type, "point": (found.file.point.index, found.file.point.term, found.file.point.chain),
        "size_bytes": found.file.size_bytes, "hash": (found.file.hash.low, found.file.hash.high),
        "offset": found.offset, "length": found.length,
    }


# --- commands ---------------------------------------------------------------------------------------------------------
cdef int _fill_op(object fields, commands.Op* into) except -1:
    kind, flags, result_from, limit, txn, key, end, value, lease, expected_revision, number = fields
    memset(into, 0, sizeof(commands.Op))
    into.kind = kind
    into.flags = flags
    into.result_from = result_from
    into.limit = limit
    into.txn = txn
    into.key = _window(key)
    into.end = _window(end)
    into.value = _window(value)
    into.lease = lease
    into.expected_revision = expected_revision
    into.number = number
    return 0

cdef tuple _shown_op(const commands.Op* op):
    return (op.kind, op.flags, op.result_from, op.limit, op.txn, _shown(&op.key), _shown(&op.end), _shown(&op.value),
            op.lease, op.expected_revision, op.number)

cdef int _fill_compare(object fields, commands.Compare* into) except -1:
    into.target, into.result, key, end, value, into.number = fields
    into.key = _window(key)
    into.end = _window(end)
    into.value = _window(value)
    return 0

cdef tuple _shown_compare(const commands.Compare* compare):
    return (compare.target, compare.result, _shown(&compare.key), _shown(&compare.end), _shown(&compare.value),
            compare.number)

cdef int _fill_fence(object fields, commands.Fence* into) except -1:
    memset(into, 0, sizeof(commands.Fence))
    if fields is not None:
        into.is_present = True
        key, into.create_revision = fields
        into.key = _window(key)
    return 0

# The objects that the windows of the command point into belong to `fields`.
cdef int _fill_command(dict fields, commands.Command* into) except -1:
    cdef Py_ssize_t i
    into.kind = fields["kind"]
    into.session = fields.get("session", 0)
    into.sequence = fields.get("sequence", 0)
    into.lowest_unanswered = fields.get("lowest_unanswered", 0)
    _fill_fence(fields.get("fence"), &into.fence)
    into.id = fields.get("id", 0)
    into.ttl_ms = fields.get("ttl_ms", 0)
    into.window = fields.get("window", 0)
    into.name = _window(fields.get("name", b""))
    into.data = _window(fields.get("data", b""))
    into.pointer = fields.get("pointer", 0)
    into.member = fields.get("member", 0)
    into.boot = fields.get("boot", 0)
    into.offset = fields.get("offset", 0)
    into.total = fields.get("total", 0)
    into.speaker = fields.get("speaker", 0)
    into.principal = _window(fields.get("principal", b""))
    into.rights_revision = fields.get("rights_revision", 0)
    if not (into.txns.resize(len(fields.get("txns", ()))) and into.compares.resize(len(fields.get("compares", ())))
            and into.ops.resize(len(fields.get("ops", ()))) and into.leases.resize(len(fields.get("leases", ())))):
        raise MemoryError
    for i, txn in enumerate(fields.get("txns", ())):
        (into.txns.data[i].compare_first, into.txns.data[i].compare_count, into.txns.data[i].then_first,
         into.txns.data[i].then_count, into.txns.data[i].else_first, into.txns.data[i].else_count) = txn
    for i, compare in enumerate(fields.get("compares", ())):
        _fill_compare(compare, into.compares.data + i)
    for i, op in enumerate(fields.get("ops", ())):
        _fill_op(op, into.ops.data + i)
    for i, item in enumerate(fields.get("leases", ())):
        into.leases.data[i].lease, into.leases.data[i].deadline_ms = item
    return 0

cdef dict _shown_command(const commands.Command* command):
    cdef size_t i
    fence = (_shown(&command.fence.key), command.fence.create_revision) if command.fence.is_present else None
    return {
        "kind": command.kind, "session": command.session, "sequence": command.sequence,
        "lowest_unanswered": command.lowest_unanswered, "fence": fence, "id": command.id, "ttl_ms": command.ttl_ms,
        "window": command.window, "name": _shown(&command.name), "data": _shown(&command.data),
        "pointer": command.pointer, "offset": command.offset, "total": command.total,
        "member": command.member, "boot": command.boot,
        "speaker": command.speaker, "principal": _shown(&command.principal), "rights_revision": command.rights_revision,
        "txns": [(command.txns.data[i].compare_first, command.txns.data[i].compare_count,
                  command.txns.data[i].then_first, command.txns.data[i].then_count,
                  command.txns.data[i].else_first, command.txns.data[i].else_count)
                 for i in range(command.txns.size)],
        "compares": [_shown_compare(&command.compares.data[i]) for i in range(command.compares.size)],
        "ops": [_shown_op(&command.ops.data[i]) for i in range(command.ops.size)],
        "leases": [(command.leases.data[i].lease, command.leases.data[i].deadline_ms)
                   for i in range(command.leases.size)],
    }


def command_encode(dict fields, *, bytes prefix=b""):
    cdef Vec[uint8_t] out
    cdef commands.Command command
    cdef status_t status = BAD_FIELD
    memset(&out, 0, sizeof(out))
    commands.command_init(&command)
    try:
        if not out.append(<const uint8_t*>PyBytes_AS_STRING(prefix), len(prefix)):
            raise MemoryError
        _fill_command(fields, &command)
        status = commands.command_encode(&command, &out)
    finally:
        commands.command_release(&command)
        encoded = _taken(&out)
    return status, encoded


def command_encode_op(op, *, uint64_t session=0, uint64_t sequence=0, uint64_t lowest_unanswered=0, fence=None):
    cdef Vec[uint8_t] out
    cdef commands.Op taken
    cdef commands.Fence proof
    memset(&out, 0, sizeof(out))
    _fill_op(op, &taken)
    _fill_fence(fence, &proof)
    cdef status_t status = commands.command_encode_op(&taken, session, sequence, lowest_unanswered, &proof, &out)
    return status, _taken(&out)


def command_speak(bytes principal, uint64_t rights_revision, bytes payload):
    cdef Vec[uint8_t] out
    cdef commands.Bytes name = _window(principal)
    memset(&out, 0, sizeof(out))
    cdef status_t status = commands.command_speak(&name, rights_revision, <const uint8_t*>PyBytes_AS_STRING(payload),
                                                  <uint32_t>len(payload), &out)
    return status, _taken(&out)


cdef class CommandDecoder:
    cdef commands.Command command

    def __cinit__(self):
        commands.command_init(&self.command)

    def __dealloc__(self):
        commands.command_release(&self.command)

    def decode(self, const uint8_t[::1] payload):
        cdef status_t status = commands.command_decode(_start(payload), <uint32_t>payload.shape[0], &self.command)
        if status != OK:
            return status, {"session": self.command.session, "sequence": self.command.sequence}
        return status, _shown_command(&self.command)

    @property
    def arena_bytes(self):
        return (self.command.txns.capacity * sizeof(commands.Txn) + self.command.ops.capacity * sizeof(commands.Op)
                + self.command.compares.capacity * sizeof(commands.Compare)
                + self.command.leases.capacity * sizeof(commands.LeaseItem))


# --- results ----------------------------------------------------------------------------------------------------------
cdef int _write_key(Vec[uint8_t]* out, object fields) except -1:
    cdef commands.KeyView view
    key, value, view.create_revision, view.mod_revision, view.version, view.lease, view.flags = fields[:7]
    view.extension = _window(fields[7] if len(fields) > 7 else b"")
    view.key = _window(key)
    view.value = _window(value)
    return commands.result_key(out, &view)

cdef int _write_part(Vec[uint8_t]* out, str what, tuple fields) except -1:
    cdef commands.Bytes window
    if what == "begin":
        return commands.result_begin(out, fields[0], fields[1])
    if what == "nil":
        return commands.result_nil(out)
    if what == "array":
        return commands.result_array(out, fields[0])
    if what == "bool":
        return commands.result_bool(out, fields[0])
    if what == "number":
        return commands.result_number(out, fields[0])
    if what == "unsigned":
        return commands.result_unsigned(out, fields[0])
    if what == "bytes":
        window = _window(fields[0])
        return commands.result_bytes(out, &window)
    if what == "key":
        return _write_key(out, fields)
    raise ValueError(what)


def result_write(parts):
    cdef Vec[uint8_t] out
    memset(&out, 0, sizeof(out))
    try:
        for what, *fields in parts:
            if _write_part(&out, what, tuple(fields)) != OK:
                raise MemoryError
    finally:
        written = _taken(&out)
    return written


# --- messages beside a feed -------------------------------------------------------------------------------------------
def feeders_encode(feeders):
    cdef feed_messages.Feeder[feed_messages.FEEDERS_MAX + 1] named
    cdef Vec[uint8_t] out
    memset(&out, 0, sizeof(out))
    memset(named, 0, sizeof(named))
    for i, (id, name, address) in enumerate(feeders):
        named[i].id = id
        named[i].name_length = len(name)
        named[i].address_length = len(address)
        for at, byte in enumerate(name):
            named[i].name[at] = byte
        for at, byte in enumerate(address):
            named[i].address[at] = byte
    cdef status_t status = feed_messages.feeders_encode(named, <uint32_t>len(feeders), &out)
    return status, _taken(&out)


def feeders_decode(const uint8_t[::1] body):
    cdef feed_messages.Feeder[feed_messages.FEEDERS_MAX] named
    cdef uint32_t count, i
    cdef status_t status = feed_messages.feeders_decode(_start(body), <uint32_t>body.shape[0], named, &count)
    if status != OK:
        return status, None
    return status, [(named[i].id, named[i].name[:named[i].name_length], named[i].address[:named[i].address_length])
                    for i in range(count)]


def observers_encode(observers):
    cdef Vec[feed_messages.Observed] told
    cdef feed_messages.Observed one
    cdef Vec[uint8_t] out
    memset(&out, 0, sizeof(out))
    memset(<void*>&told, 0, sizeof(told))
    for id, feeder, last, lag, name in observers:
        memset(&one, 0, sizeof(one))
        one.id, one.feeder, one.last, one.lag = id, feeder, last, lag
        one.name_length = len(name)
        for at, byte in enumerate(name):
            one.name[at] = byte
        if not told.push(one):
            raise MemoryError
    cdef status_t status = feed_messages.observers_encode(told.data, <uint32_t>told.size, &out)
    told.release()
    return status, _taken(&out)


def observers_decode(const uint8_t[::1] body):
    cdef Vec[feed_messages.Observed] told
    cdef size_t i
    memset(<void*>&told, 0, sizeof(told))
    cdef status_t status = feed_messages.observers_decode(_start(body), <uint32_t>body.shape[0], &told)
    found = [(told.data[i].id, told.data[i].feeder, told.data[i].last, told.data[i].lag,
              told.data[i].name[:told.data[i].name_length]) for i in range(told.size)]
    told.release()
    return status, found if status == OK else None
