"""The client protocol from Python: requests as frames, a stream of bytes as messages, answers as values.

It decides whether an argument is one, before anything is sent, and what an answer looks like in Python. It never opens
a connection and never decides whether to send again.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from raftmeta.bindings.commands cimport read_values, take_bound, take_key, take_number, take_page
from raftmeta.bindings.revision cimport new_revision
from raftmeta.bindings.verbs cimport (PURPOSE_BYTES, PURPOSE_GROUP, PURPOSE_NOTHING, PURPOSE_NUMBER, PURPOSE_OUTCOME,
                                      PURPOSE_RANGE, PURPOSE_RECORD, PURPOSE_REVISION, PURPOSE_VALUES, PURPOSE_ZNODES,
                                      Request, command_answer, take_revision)
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport INCOMPLETE, NO_MEMORY, OK, status_t
from raftmeta.wire.client_messages cimport (AUTHENTICATE_PROVES, CLIENT_ANSWER, CLIENT_EVENTS, CLIENT_HEADER_BYTES,
                                            CLIENT_LEADER, CLIENT_MESSAGE_BYTES_MAX, CLIENT_PING, CLIENT_REFUSED,
                                            FORMAT_CLIENT_VERSION, READ_COUNT_ONLY, READ_KEYS_ONLY, READ_LOCAL,
                                            REQUEST_AUTHENTICATE, REQUEST_CHANGE, REQUEST_COMMAND, REQUEST_FLIGHT,
                                            REQUEST_GET, REQUEST_GROUPS, REQUEST_LEASES, REQUEST_MACHINE_READ,
                                            REQUEST_MEET, REQUEST_MEMBERS, REQUEST_PIECE, REQUEST_PING, REQUEST_RANGE,
                                            REQUEST_RIGHTS, REQUEST_SNAPSHOT, REQUEST_STATUS, REQUEST_TRANSFER,
                                            REQUEST_UNWATCH, REQUEST_WATCH, ClientMessage, ClientRequest,
                                            client_frame_begin, client_frame_decode, client_frame_end,
                                            client_message_decode, client_request_encode)
from raftmeta.wire.commands cimport (COMMAND_LEASE_KEEP_ALIVE, COMMAND_SESSION_CLOSE, COMMAND_SESSION_OPEN,
                                     KEY_BYTES_MAX, LEASES_MAX, Bytes, Command, LeaseItem, command_encode,
                                     command_init, command_release)
from raftmeta.wire.hello cimport HELLO_CLIENT, Hello, hello_decode, hello_encode

from collections import namedtuple

from raftmeta.errors import InvalidArgument
from raftmeta.common.text import shown

# The kind of a request, which is the kind of its answer.
NOTHING = PURPOSE_NOTHING
NUMBER = PURPOSE_NUMBER
RECORD = PURPOSE_RECORD
RANGE = PURPOSE_RANGE
VALUES = PURPOSE_VALUES
BYTES = PURPOSE_BYTES
OUTCOME = PURPOSE_OUTCOME

ANSWER = CLIENT_ANSWER
EVENTS = CLIENT_EVENTS
PING = CLIENT_PING
LEADER = CLIENT_LEADER
REFUSED = CLIENT_REFUSED

AUTHENTICATE_ID = 0xFFFFFFFFFFFFFFFF       # of every authenticate_frame; no other request has it

ServerHello = namedtuple("ServerHello", "name address cluster cluster_id")

cdef uint64_t _NUMBER_MAX = (<uint64_t>1 << 63) - 1
cdef uint64_t _UNSIGNED_MAX = ~<uint64_t>0


cdef int _check(status_t status) except -1:
    if status == NO_MEMORY:
        raise MemoryError
    if status != OK:
        raise InvalidArgument(f"the request cannot be sent (status {status})")
    return 0


cdef bytes _bytes_of(const Vec[uint8_t]* out):
    return PyBytes_FromStringAndSize(<const char*>out.data, <Py_ssize_t>out.size)


# --- requests ---------------------------------------------------------------------------------------------------------
@cython.final
cdef class RequestEncoder:
    cdef public uint64_t session
    cdef public uint64_t sequence               # of the next command
    cdef public uint64_t lowest_unanswered
    cdef public uint64_t id                     # of the last frame
    cdef public uint32_t value_bytes_max
    cdef Vec[uint8_t] frame
    cdef Vec[uint8_t] payload

    def __init__(self, uint32_t value_bytes_max):
        self.value_bytes_max = value_bytes_max
        self.sequence = self.lowest_unanswered = 1

    def __dealloc__(self):
        self.frame.release()
        self.payload.release()

    cdef bytes _encode(self, ClientRequest* request, uint8_t kind):
        request.kind = kind
        request.id = self.id + 1
        self.frame.clear()
        _check(client_request_encode(request, &self.frame))
        self.id += 1
        return _bytes_of(&self.frame)

    cdef bytes _payload_frame(self):
        cdef ClientRequest request
        memset(&request, 0, sizeof(ClientRequest))
        request.key.data = self.payload.data
        request.key.length = <uint32_t>self.payload.size
        return self._encode(&request, REQUEST_COMMAND)

    def command(self, Request request not None):
        request.prepare(self.value_bytes_max)
        self.payload.clear()
        request.append(self.session, self.sequence, self.lowest_unanswered, &self.payload)
        frame = self._payload_frame()
        self.sequence += 1
        return frame

    # A command of the channel itself: of its session, and of the leases that it keeps.
    cdef bytes _own_frame(self, uint8_t kind, object id, object ttl_ms, uint32_t window, object leases):
        cdef Command command
        cdef LeaseItem item
        command_init(&command)
        try:
            command.kind = kind
            if kind != COMMAND_SESSION_OPEN:
                command.session = self.session
                command.sequence = self.sequence
                command.lowest_unanswered = self.lowest_unanswered
            take_number(id, "id", _UNSIGNED_MAX, &command.id)
            take_number(ttl_ms, "ttl_ms", _NUMBER_MAX, &command.ttl_ms)
            command.window = window
            memset(&item, 0, sizeof(LeaseItem))
            for lease in leases:
                take_number(lease, "leases", _UNSIGNED_MAX, &item.lease)
                if command.leases.size == LEASES_MAX or not command.leases.push(item):
                    raise InvalidArgument(f"leases: more than {LEASES_MAX}", field="leases")
            self.payload.clear()
            _check(command_encode(&command, &self.payload))
        finally:
            command_release(&command)
        frame = self._payload_frame()
        self.sequence += kind != COMMAND_SESSION_OPEN
        return frame

    def keep_alive(self, leases):
        return self._own_frame(COMMAND_LEASE_KEEP_ALIVE, 0, 0, 0, leases)

    def open_session(self, session, ttl_ms, uint32_t window):
        return self._own_frame(COMMAND_SESSION_OPEN, session, ttl_ms, window, ())

    def close_session(self):
        return self._own_frame(COMMAND_SESSION_CLOSE, self.session, 0, 0, ())

    def get(self, key, revision, bint local):
        cdef ClientRequest request
        memset(&request, 0, sizeof(ClientRequest))
        take_key(key, "key", &request.key)
        take_revision(revision, "revision", &request.number)
        request.flags = READ_LOCAL if local else 0
        return self._encode(&request, REQUEST_GET)

    def range(self, start, end, revision, limit, bint local, bint keys_only, bint count_only, delimiter=b"",
              skip=0):
        cdef ClientRequest request
        cdef uint64_t most
        memset(&request, 0, sizeof(ClientRequest))
        take_page(start, "start", &request.key)
        take_page(end, "end", &request.end)
        take_number(revision, "revision", _NUMBER_MAX, &request.number)
        take_number(limit, "limit", ~<uint32_t>0, &most)
        request.limit = <uint32_t>most
        request.flags = ((READ_LOCAL if local else 0) | (READ_KEYS_ONLY if keys_only else 0)
                         | (READ_COUNT_ONLY if count_only else 0))
        take_bound(delimiter, "delimiter", &request.delimiter)
        take_number(skip, "skip", KEY_BYTES_MAX, &most)     # as client_request_decode has it
        request.skip = <uint32_t>most
        return self._encode(&request, REQUEST_GROUPS if request.delimiter.length else REQUEST_RANGE)

    def watch(self, bytes start not None, bytes end not None, revision, uint8_t filter):
        cdef ClientRequest request
        memset(&request, 0, sizeof(ClientRequest))
        take_page(start, "start", &request.key)
        take_page(end, "end", &request.end)
        take_number(revision, "start_revision", _NUMBER_MAX, &request.number)
        request.flags = filter
        return self._encode(&request, REQUEST_WATCH)

    def unwatch(self, uint64_t watch):
        cdef ClientRequest request
        memset(&request, 0, sizeof(ClientRequest))
        request.number = watch
        return self._encode(&request, REQUEST_UNWATCH)

    def status(self):
        cdef ClientRequest request
        memset(&request, 0, sizeof(ClientRequest))
        return self._encode(&request, REQUEST_STATUS)

    def ping(self, *, bint is_answer=False):
        cdef ClientRequest request
        memset(&request, 0, sizeof(ClientRequest))
        if not is_answer:
            return self._encode(&request, REQUEST_PING)
        request.kind = REQUEST_PING
        self.frame.clear()
        _check(client_request_encode(&request, &self.frame))
        return _bytes_of(&self.frame)

    def transfer(self, str name not None):
        cdef ClientRequest request
        cdef bytes raw = name.encode()
        memset(&request, 0, sizeof(ClientRequest))
        request.key = _window(raw)
        return self._encode(&request, REQUEST_TRANSFER)

    def members(self, *, bint local):
        cdef ClientRequest request
        memset(&request, 0, sizeof(ClientRequest))
        request.flags = READ_LOCAL if local else 0
        return self._encode(&request, REQUEST_MEMBERS)

    def change(self, uint64_t made_from, bytes membership not None):
        cdef ClientRequest request
        memset(&request, 0, sizeof(ClientRequest))
        request.number = made_from
        request.key = _window(membership)
        return self._encode(&request, REQUEST_CHANGE)

    def meet(self, str name not None, str address not None):
        cdef ClientRequest request
        cdef bytes raw_name = name.encode()
        cdef bytes raw_address = address.encode()
        memset(&request, 0, sizeof(ClientRequest))
        request.key = _window(raw_name)
        request.end = _window(raw_address)
        return self._encode(&request, REQUEST_MEET)

    def leases(self, uint64_t least):
        cdef ClientRequest request
        memset(&request, 0, sizeof(ClientRequest))
        request.number = least
        return self._encode(&request, REQUEST_LEASES)

    def rights(self, uint8_t page, bytes first not None, uint32_t limit):
        cdef ClientRequest request
        memset(&request, 0, sizeof(ClientRequest))
        request.flags = page
        request.limit = limit
        request.key = _window(first)
        return self._encode(&request, REQUEST_RIGHTS)

    def flight(self, uint8_t part, uint64_t first, uint32_t limit):
        cdef ClientRequest request
        memset(&request, 0, sizeof(ClientRequest))
        request.flags = part
        request.number = first
        request.limit = limit
        return self._encode(&request, REQUEST_FLIGHT)

    def snapshot(self):
        cdef ClientRequest request
        memset(&request, 0, sizeof(ClientRequest))
        return self._encode(&request, REQUEST_SNAPSHOT)

    def piece(self, uint64_t offset, uint32_t length):
        cdef ClientRequest request
        memset(&request, 0, sizeof(ClientRequest))
        request.number = offset
        request.limit = length
        return self._encode(&request, REQUEST_PIECE)

    def machine_read(self, bytes machine not None, bytes call not None, *, bint local):
        cdef ClientRequest request
        memset(&request, 0, sizeof(ClientRequest))
        request.flags = READ_LOCAL if local else 0
        request.key = _window(machine)
        request.end = _window(call)
        return self._encode(&request, REQUEST_MACHINE_READ)


cdef Bytes _window(bytes raw):
    cdef Bytes window
    window.data = <const uint8_t*>PyBytes_AS_STRING(raw)
    window.length = <uint32_t>PyBytes_GET_SIZE(raw)
    return window


def hello_frame(str cluster not None, str name not None):
    cdef Vec[uint8_t] out
    cdef Hello hello
    cdef size_t start
    cdef bytes raw_cluster = cluster.encode()
    cdef bytes raw_name = name.encode()
    memset(&out, 0, sizeof(out))
    memset(&hello, 0, sizeof(Hello))
    if not 1 <= len(raw_cluster) <= sizeof(hello.cluster_name):
        raise InvalidArgument(f"cluster: must be 1 to {sizeof(hello.cluster_name)} bytes", field="cluster")
    if len(raw_name) > sizeof(hello.name):
        raise InvalidArgument(f"name: must be at most {sizeof(hello.name)} bytes", field="name")
    hello.purpose = HELLO_CLIENT
    hello.version_min = hello.version_max = FORMAT_CLIENT_VERSION
    hello.cluster_name_length = <uint8_t>len(raw_cluster)
    memcpy(hello.cluster_name, PyBytes_AS_STRING(raw_cluster), len(raw_cluster))
    hello.name_length = <uint8_t>len(raw_name)
    memcpy(hello.name, PyBytes_AS_STRING(raw_name), len(raw_name))
    try:
        _check(client_frame_begin(&out, &start))
        _check(hello_encode(&hello, &out))
        client_frame_end(&out, start)
        return _bytes_of(&out)
    finally:
        out.release()


def authenticate_frame(bytes first not None, bytes second not None, *, bint proves):
    cdef Vec[uint8_t] out
    cdef ClientRequest request
    memset(&out, 0, sizeof(out))
    memset(&request, 0, sizeof(ClientRequest))
    request.kind = REQUEST_AUTHENTICATE
    request.id = _UNSIGNED_MAX
    request.flags = AUTHENTICATE_PROVES if proves else 0
    request.key = _window(first)
    request.end = _window(second)
    try:
        _check(client_request_encode(&request, &out))
        return _bytes_of(&out)
    finally:
        out.release()


# --- messages ---------------------------------------------------------------------------------------------------------
@cython.final
cdef class MessageDecoder:
    cdef readonly object hello
    cdef Vec[uint8_t] rest              # bytes of a frame that is not whole yet

    def __dealloc__(self):
        self.rest.release()

    def feed(self, bytes data not None):
        cdef const uint8_t* at = <const uint8_t*>PyBytes_AS_STRING(data)
        cdef size_t length = <size_t>PyBytes_GET_SIZE(data)
        cdef size_t used
        cdef list messages = []
        if self.rest.size == 0:
            used = self._take(at, length, messages)
            if used != length and not self.rest.append(at + used, length - used):
                raise MemoryError
            return messages
        if not self.rest.append(at, length):
            raise MemoryError
        used = self._take(self.rest.data, self.rest.size, messages)
        self.rest.drop_front(used)
        if self.rest.size == 0:
            self.rest.release()         # of one long message; the next ones are short
        return messages

    # Whole frames at the beginning of [at, at + length); returns the bytes that they take.
    cdef size_t _take(self, const uint8_t* at, size_t length, list messages) except? 0:
        cdef size_t used = 0
        cdef size_t total = 0
        cdef status_t status
        while used != length:
            status = client_frame_decode(at + used, length - used, CLIENT_MESSAGE_BYTES_MAX, &total)
            if status == INCOMPLETE:
                break
            if status != OK:
                raise ConnectionError(f"the node sent what is no frame (status {status})")
            self._take_body(at + used + CLIENT_HEADER_BYTES, <uint32_t>(total - CLIENT_HEADER_BYTES), messages)
            used += total
        return used

    cdef int _take_body(self, const uint8_t* body, uint32_t length, list messages) except -1:
        cdef ClientMessage message
        if client_message_decode(body, length, &message) == OK:
            messages.append((message.kind, message.id, message.status, message.revision, message.index,
                             PyBytes_FromStringAndSize(<const char*>message.body.data, message.body.length)))
        elif self.hello is None:
            self.hello = _server_hello(body, length)
        else:
            raise ConnectionError("the node sent a message that cannot be read")
        return 0


cdef object _server_hello(const uint8_t* body, uint32_t length):
    cdef Hello hello
    if hello_decode(body, length, &hello) != OK:
        raise ConnectionError("what answers there is no node of raftmeta")
    if not hello.version_min <= FORMAT_CLIENT_VERSION <= hello.version_max:
        raise ConnectionError("the node speaks another version of the client protocol")
    return ServerHello(shown((<char*>hello.name)[:hello.name_length]),
                       shown((<char*>hello.address)[:hello.address_length]),
                       shown((<char*>hello.cluster_name)[:hello.cluster_name_length]),
                       int(hello.cluster.high) << 64 | int(hello.cluster.low))


def answer_value(int purpose, uint64_t revision, uint64_t index, bytes body not None):
    cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(body)
    cdef size_t length = <size_t>PyBytes_GET_SIZE(body)
    if purpose == PURPOSE_REVISION:         # the most frequent one
        return new_revision(revision, index, None)
    if purpose == PURPOSE_NOTHING:
        return None
    if purpose == PURPOSE_BYTES or purpose == PURPOSE_OUTCOME:
        return body
    if purpose < PURPOSE_RECORD or purpose == PURPOSE_ZNODES or purpose == PURPOSE_GROUP:
        return command_answer(<uint8_t>purpose, revision, index, data, length)
    values = read_values(data, length)
    if purpose == PURPOSE_RECORD:
        return values[0] if values else None
    if purpose == PURPOSE_RANGE:
        return values[0], values[1], values[2:], revision
    return values
