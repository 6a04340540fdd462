"""Request: the arguments of a verb, its command, and how it is asked again.

A task asks one by `ask_aio`, a caller that blocks by face/node; no other code repeats one. It is encoded when its
carrier has a session, and the session may end before the command arrives: then it was certainly not executed
(NotReady), and is encoded anew.

A request is not known to the garbage collector, which would look at thousands of puts again and again. It refers to
its caller's arguments, and those never refer to it.
"""

cimport cython
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.bindings.commands cimport (append_op, append_txn, check_encoded, read_result, take_bound, take_fence,
                                         take_key, take_number, take_operation, take_page, take_value)
from raftmeta.bindings.groups cimport group_request, is_join
from raftmeta.bindings.puts cimport append_puts, pairs_of
from raftmeta.bindings.revision cimport Revision, new_revision
from raftmeta.bindings.znodes cimport take_root, znodes_are_urgent, znodes_reply, znodes_request
from raftmeta.native.containers cimport Vec
from raftmeta.wire.commands cimport (COMMAND_COMPACT, COMMAND_GROUPS, COMMAND_LEASE_GRANT, COMMAND_LEASE_REVOKE,
                                     COMMAND_PROCESS_END, COMMAND_RIGHTS, COMMAND_USER, COMMAND_ZNODES, OP_ADD,
                                     OP_CREATE, OP_DELETE, OP_DELETE_RANGE, OP_KEEP_LEASE, OP_KEEP_VALUE,
                                     OP_MUST_EXIST, OP_PUT, OP_UPDATE, OP_WANT_PREVIOUS, Bytes, Command, Op,
                                     command_encode, command_init, command_release)

import operator

from raftmeta.errors import InvalidArgument, NodeRemoved, NotReady, RaftmetaError
from raftmeta.operations import Add, prefix_end
from raftmeta.results import TxnReply

cdef enum:
    LEASE_TTL_S_MAX = 10 * 365 * 86400

cdef uint64_t _NUMBER_MAX = (<uint64_t>1 << 63) - 1
cdef uint64_t _UNSIGNED_MAX = ~<uint64_t>0


# --- arguments --------------------------------------------------------------------------------------------------------
cdef int _take_lease_id(object lease, uint64_t* into) except -1:
    return take_number(lease if type(lease) is int else getattr(lease, "id", lease), "lease", _UNSIGNED_MAX, into)


cdef int _take_lease(object lease, Op* op) except -1:
    if lease is None:
        op.flags |= OP_KEEP_LEASE
        return 0
    return _take_lease_id(lease, &op.lease)


cdef object fence_of(object fence):
    return fence.fence if fence is not None and hasattr(fence, "fence") else fence


cdef int take_revision(object revision, str field, uint64_t* into) except -1:
    return take_number(revision if isinstance(revision, int) else _number_of(revision, field), field, _NUMBER_MAX, into)


cdef object _number_of(object number, str field):
    try:
        return operator.index(number)
    except TypeError:
        raise InvalidArgument(f"{field}: must be an int, not {type(number).__name__}", field=field) from None


cdef uint64_t lease_ttl_ms(object ttl_s) except 0:
    is_number = isinstance(ttl_s, (int, float)) and not isinstance(ttl_s, bool)
    if not is_number or not 0.1 <= ttl_s <= LEASE_TTL_S_MAX:
        raise InvalidArgument(f"ttl_s: must be from 0.1 to {LEASE_TTL_S_MAX} seconds, not {ttl_s!r}", field="ttl_s")
    return <uint64_t>round(ttl_s * 1000)


def range_bounds(start, end, prefix):
    if prefix is None:
        return start, end
    if start or end:
        raise InvalidArgument("prefix: give either prefix or start and end", field="prefix")
    if not isinstance(prefix, (bytes, str)):
        raise InvalidArgument(f"prefix: must be bytes or str, not {type(prefix).__name__}", field="prefix")
    return prefix, prefix_end(prefix)


def watch_bounds(key, end, prefix):
    cdef Bytes window
    if prefix is not None:
        if key is not None or end is not None:
            raise InvalidArgument("prefix: give one of key, key and end, prefix", field="prefix")
        take_bound(prefix, "prefix", &window)
        return _raw(prefix), prefix_end(prefix)
    if key is None:
        raise InvalidArgument('key: give key, key and end, or prefix; prefix="" is every key', field="key")
    if end is None:
        take_key(key, "key", &window)
        return _raw(key), _raw(key) + b"\0"
    take_page(key, "key", &window)
    take_page(end, "end", &window)
    return _raw(key), _raw(end)


def revision_of(revision, str field not None):
    cdef uint64_t number
    take_revision(revision, field, &number)
    return number


def check_ttl(ttl_s):
    return lease_ttl_ms(ttl_s)


def raw_bound(bound, str field not None, *, bint is_page=False):
    cdef Bytes window
    if is_page:
        take_page(bound, field, &window)
    else:
        take_bound(bound, field, &window)
    return _raw(bound)


cdef bytes _raw(object text):
    return text.encode() if isinstance(text, str) else text


# --- requests ---------------------------------------------------------------------------------------------------------
@cython.no_gc
cdef class Request:
    async def ask_aio(self, carrier, timeout_s):
        deadline = carrier._prepare(self, timeout_s)
        answer = None
        try:
            while not self.is_answered:
                if not carrier._has_session():
                    await carrier._session(deadline)
                try:
                    answer = await carrier._carry(self, deadline)
                    self._advance()
                except NotReady as error:
                    if isinstance(error, NodeRemoved) or carrier._is_late(deadline):
                        raise
        except RaftmetaError as error:
            self._fail(error)
            raise
        return answer

    def check(self, uint32_t value_bytes_max):
        self.prepare(value_bytes_max)

    def under(self, prefix):
        self.fence = prefix.fence(self.fence)
        return self

    cdef int prepare(self, uint32_t value_bytes_max) except -1:
        if self.value_bytes_max == value_bytes_max:
            return 0
        if self.fence is not None:
            take_fence(self.fence, &self.taken)
        self.value_bytes_max = value_bytes_max
        return self._take()

    cdef int _take(self) except -1:
        return 0

    cdef int append(self, uint64_t session, uint64_t sequence, uint64_t lowest_unanswered,
                    Vec[uint8_t]* out) except -1:
        raise NotImplementedError

    cdef int _advance(self) except -1:
        self.is_answered = True
        return 0

    cdef int _fail(self, object error) except -1:
        return 0


# One operation of one command: it is encoded without a Command and without an allocation.
@cython.final
@cython.no_gc
cdef class _Operation(Request):
    cdef Op op                  # its windows point into the arguments
    cdef uint8_t kind
    cdef bint wants_previous
    cdef bint must_exist
    cdef object key
    cdef object value           # or the end of a range, or what is added
    cdef object lease
    cdef object expected_revision

    def under(self, prefix):
        self.fence = prefix.fence(self.fence)
        if self.kind == OP_DELETE_RANGE:
            self.key, self.value = prefix.bounds(self.key, self.value)
        else:
            self.key = prefix.key(self.key)
        return self

    cdef int _take(self) except -1:
        cdef Op* op = &self.op
        if self.kind == OP_ADD:
            return take_operation(Add(self.key, self.value), 0, op)
        memset(op, 0, sizeof(Op))
        op.kind = self.kind
        op.flags = OP_WANT_PREVIOUS if self.wants_previous else 0
        if self.kind == OP_DELETE_RANGE:
            take_bound(self.key, "start", &op.key)
            return take_bound(self.value, "end", &op.end)
        take_key(self.key, "key", &op.key)
        if self.kind == OP_DELETE:
            op.flags |= OP_MUST_EXIST if self.must_exist else 0
            return take_revision(self.expected_revision, "expected_revision", &op.expected_revision)
        return self._take_value()

    cdef int _take_value(self) except -1:
        cdef Op* op = &self.op
        if self.value is None and self.kind != OP_CREATE:
            op.flags |= OP_KEEP_VALUE
        else:
            take_value(self.value, "value", self.value_bytes_max, &op.value)
        if self.lease is None and self.kind == OP_CREATE:
            raise InvalidArgument("lease: a key that is created has no lease to keep", field="lease")
        _take_lease(self.lease, op)
        if self.kind == OP_UPDATE:
            take_revision(self.expected_revision, "expected_revision", &op.expected_revision)
        return 0

    cdef int append(self, uint64_t session, uint64_t sequence, uint64_t lowest_unanswered,
                    Vec[uint8_t]* out) except -1:
        return append_op(&self.op, session, sequence, lowest_unanswered, &self.taken, out)


cdef _Operation _operation(uint8_t kind, object key, object value, object fence, bint previous):
    cdef _Operation request = _Operation.__new__(_Operation)
    request.kind = kind
    request.key = key
    request.value = value
    request.fence = fence_of(fence)
    request.is_urgent = request.fence is not None
    request.wants_previous = previous
    request.purpose = PURPOSE_PREVIOUS if previous else PURPOSE_REVISION
    return request


cdef Request put_request(object key, object value, object lease, object fence, bint previous):
    cdef _Operation request = _operation(OP_PUT, key, value, fence, previous)
    request.lease = lease
    return request


def put(key, value, lease=0, fence=None, bint previous=False):
    return put_request(key, value, lease, fence, previous)


def create(key, value, lease=0, fence=None):
    cdef _Operation request = _operation(OP_CREATE, key, value, fence, False)
    request.lease = lease
    return request


def update(key, value, expected_revision=0, lease=0, fence=None, bint previous=False):
    cdef _Operation request = _operation(OP_UPDATE, key, value, fence, previous)
    request.lease = lease
    request.expected_revision = expected_revision
    return request


def delete(key, expected_revision=0, bint must_exist=False, fence=None, bint previous=False):
    cdef _Operation request = _operation(OP_DELETE, key, None, fence, previous)
    request.expected_revision = expected_revision
    request.must_exist = must_exist
    request.is_urgent = True
    return request


def delete_range(start, end, fence=None, bint previous=False):
    cdef _Operation request = _operation(OP_DELETE_RANGE, start, end, fence, previous)
    request.purpose = PURPOSE_PREVIOUS
    request.is_urgent = True
    return request


def add(key, number=1, fence=None):
    cdef _Operation request = _operation(OP_ADD, key, number, fence, False)
    request.purpose = PURPOSE_PREVIOUS
    return request


# Many puts: one command after the other, each of as many items as fit.
@cython.final
@cython.no_gc
cdef class _Puts(Request):
    cdef object items           # a mapping, or pairs; a list of pairs once it is prepared
    cdef object lease
    cdef uint64_t lease_id
    cdef Py_ssize_t first       # of those that are not answered
    cdef Py_ssize_t end         # behind the last that is under way

    def under(self, prefix):
        self.fence = prefix.fence(self.fence)
        self.items = prefix.items(self.items)
        return self

    cdef int _take(self) except -1:
        self.items = pairs_of(self.items, self.value_bytes_max)
        self.is_answered = self.first == len(<list>self.items)
        return _take_lease_id(self.lease, &self.lease_id)

    cdef int append(self, uint64_t session, uint64_t sequence, uint64_t lowest_unanswered,
                    Vec[uint8_t]* out) except -1:
        self.end = append_puts(self.items, self.first, self.lease_id, self.value_bytes_max, session, sequence,
                               lowest_unanswered, &self.taken, out)
        return 0

    cdef int _advance(self) except -1:
        self.first = self.end
        self.is_answered = self.first == len(<list>self.items)
        return 0

    cdef int _fail(self, object error) except -1:
        error.items_done = self.first
        return 0


def put_many(items, lease=0, fence=None):
    cdef _Puts request = _Puts.__new__(_Puts)
    request.items = items
    request.lease = lease
    request.fence = fence_of(fence)
    request.is_urgent = request.fence is not None
    request.purpose = PURPOSE_REVISION
    return request


@cython.final
@cython.no_gc
cdef class _Txn(Request):
    cdef tuple compares
    cdef tuple then
    cdef tuple otherwise

    def under(self, prefix):
        self.fence = prefix.fence(self.fence)
        self.compares = tuple([prefix.compare(each) for each in self.compares])
        self.then = tuple([prefix.operation(each) for each in self.then])
        self.otherwise = tuple([prefix.operation(each) for each in self.otherwise])
        return self

    cdef int append(self, uint64_t session, uint64_t sequence, uint64_t lowest_unanswered,
                    Vec[uint8_t]* out) except -1:
        return append_txn(self.compares, self.then, self.otherwise, self.value_bytes_max, session, sequence,
                          lowest_unanswered, self.fence, out)


def txn(compares=(), then=(), otherwise=(), fence=None):
    cdef _Txn request = _Txn.__new__(_Txn)
    request.compares, request.then, request.otherwise = tuple(compares), tuple(then), tuple(otherwise)
    request.fence = fence_of(fence)
    request.is_urgent = request.fence is not None
    request.runs_python = True
    request.purpose = PURPOSE_TXN
    return request


# A command without keys: of a lease, of a process (its incarnation and boot in the place of id and ttl_ms), of the
# history, of a user machine, of rights.
@cython.final
@cython.no_gc
cdef class _Own(Request):
    cdef uint8_t kind
    cdef uint64_t id
    cdef uint64_t ttl_ms
    cdef bytes name             # of a user machine, and what is called of it; of a user or role, and what becomes of it
    cdef bytes data

    def under(self, prefix):
        self.fence = prefix.fence(self.fence)
        if self.kind == COMMAND_RIGHTS:
            self.data = prefix.rights(self.id, self.data)
        return self

    cdef int _take(self) except -1:
        if self.data is not None and <size_t>len(self.data) > self.value_bytes_max:
            raise InvalidArgument(f"call: {len(self.data)} bytes, at most {self.value_bytes_max}", field="call")
        return 0

    cdef int append(self, uint64_t session, uint64_t sequence, uint64_t lowest_unanswered,
                    Vec[uint8_t]* out) except -1:
        cdef Command command
        command_init(&command)
        command.kind = self.kind
        command.session = session
        command.sequence = sequence
        command.lowest_unanswered = lowest_unanswered
        command.fence = self.taken
        if self.kind == COMMAND_PROCESS_END:
            command.member, command.boot = self.id, self.ttl_ms
        else:
            command.id, command.ttl_ms = self.id, self.ttl_ms
        if self.name is not None:
            take_value(self.name, "name", <uint32_t>len(self.name), &command.name)
            take_value(self.data, "call", self.value_bytes_max, &command.data)
        status = command_encode(&command, out)
        command_release(&command)
        return check_encoded(status)


cdef _Own _own(uint8_t kind, uint8_t purpose):
    cdef _Own request = _Own.__new__(_Own)
    request.kind = kind
    request.purpose = purpose
    request.is_urgent = True
    return request


def compact(revision):
    cdef _Own request = _own(COMMAND_COMPACT, PURPOSE_REVISION)
    take_revision(revision, "revision", &request.id)
    return request


def grant(lease, uint64_t ttl_ms):
    cdef _Own request = _own(COMMAND_LEASE_GRANT, PURPOSE_NUMBER)
    take_number(lease, "id", _UNSIGNED_MAX, &request.id)
    request.ttl_ms = ttl_ms
    return request


def revoke(uint64_t lease):
    cdef _Own request = _own(COMMAND_LEASE_REVOKE, PURPOSE_REVISION)
    request.id = lease
    return request


def end_process(member, boot):
    cdef _Own request = _own(COMMAND_PROCESS_END, PURPOSE_PREVIOUS)     # .result: leases that are left
    take_number(member, "member", _UNSIGNED_MAX, &request.id)
    take_number(boot, "boot", _NUMBER_MAX, &request.ttl_ms)
    if not (request.id and request.ttl_ms):
        raise InvalidArgument(f"member {member} and boot {boot} name no process: Node.status() has them", field="boot")
    return request


def change_rights(uint8_t verb, bytes name not None, bytes data not None):
    cdef _Own request = _own(COMMAND_RIGHTS, PURPOSE_REVISION)
    request.id = verb
    request.name = name
    request.data = data
    return request


def machine_call(bytes machine not None, bytes call not None, fence=None):
    cdef _Own request = _own(COMMAND_USER, PURPOSE_OUTCOME)
    request.name = machine
    request.data = call
    request.fence = fence_of(fence)
    request.is_urgent = request.fence is not None
    return request


# One command, whose operations are encoded when it is prepared.
@cython.final
@cython.no_gc
cdef class _Znodes(Request):
    cdef tuple operations
    cdef tuple identities
    cdef object root
    cdef object lease
    cdef uint64_t owner
    cdef bytes encoded          # what is asked, as in the command
    cdef _Znodes after          # it is applied behind that one, if both are sent in one session; forgotten when sent
    cdef uint64_t session       # in which it was sent last, and with which sequence
    cdef uint64_t sequence

    def under(self, prefix):
        self.fence = prefix.fence(self.fence)
        self.root = prefix.key(self.root)
        return self

    cdef int _take(self) except -1:
        cdef Bytes root
        take_root(self.root, &root)
        _take_lease_id(self.lease, &self.owner)
        self.encoded = znodes_request(self.operations, self.identities, self.value_bytes_max)
        return 0

    cdef int append(self, uint64_t session, uint64_t sequence, uint64_t lowest_unanswered,
                    Vec[uint8_t]* out) except -1:
        cdef Command command
        command_init(&command)
        command.kind = COMMAND_ZNODES
        command.session = session
        command.sequence = sequence
        command.lowest_unanswered = lowest_unanswered
        command.fence = self.taken
        command.id = self.owner
        take_root(self.root, &command.name)
        take_value(self.encoded, "operations", <uint32_t>len(self.encoded), &command.data)
        if self.after is not None and self.after.session == session:
            command.pointer = self.after.sequence
        status = command_encode(&command, out)
        command_release(&command)
        check_encoded(status)
        self.after = None
        self.session = session
        self.sequence = sequence
        return 0


def znodes(operations, lease=0, identities=(), root="zookeeper", fence=None, _Znodes after=None):
    cdef _Znodes request = _Znodes.__new__(_Znodes)
    request.operations = tuple(operations)
    request.identities = tuple(identities)
    request.root = root
    request.lease = lease
    request.fence = fence_of(fence)
    request.after = after
    request.is_urgent = request.fence is not None or znodes_are_urgent(request.operations)
    request.purpose = PURPOSE_ZNODES
    return request


# A request for a worker group, which is encoded when it is prepared.
@cython.final
@cython.no_gc
cdef class _Group(Request):
    cdef tuple asked
    cdef object key
    cdef object lease
    cdef uint64_t lease_id
    cdef bytes encoded

    def under(self, prefix):
        self.key = prefix.key(self.key)
        return self

    cdef int _take(self) except -1:
        cdef Bytes key
        take_key(self.key, "group", &key)
        _take_lease_id(self.lease, &self.lease_id)
        self.encoded = group_request(self.asked)
        return 0

    cdef int append(self, uint64_t session, uint64_t sequence, uint64_t lowest_unanswered,
                    Vec[uint8_t]* out) except -1:
        cdef Command command
        command_init(&command)
        command.kind = COMMAND_GROUPS
        command.session = session
        command.sequence = sequence
        command.lowest_unanswered = lowest_unanswered
        command.id = self.lease_id
        take_key(self.key, "group", &command.name)
        take_value(self.encoded, "group", <uint32_t>len(self.encoded), &command.data)
        status = command_encode(&command, out)
        command_release(&command)
        return check_encoded(status)


def group(key, tuple asked not None, lease=0):
    cdef _Group request = _Group.__new__(_Group)
    request.key = key
    request.asked = asked
    request.lease = lease
    request.is_urgent = not is_join(asked)
    request.purpose = PURPOSE_GROUP
    return request


# --- answers ----------------------------------------------------------------------------------------------------------
def with_result(Revision answer not None, result):
    return new_revision(answer.revision, answer.index, result)


cdef object command_answer(uint8_t purpose, uint64_t revision, uint64_t index, const uint8_t* data, size_t length):
    if purpose == PURPOSE_REVISION:
        return new_revision(revision, index, None)
    if purpose == PURPOSE_ZNODES:
        return znodes_reply(revision, index, data, length)
    body = read_result(data, length)[2]
    if purpose == PURPOSE_NUMBER:
        return body
    if purpose == PURPOSE_GROUP:
        return body, revision
    if purpose == PURPOSE_TXN:
        return TxnReply(body.succeeded, body.results, revision, index)
    return new_revision(revision, index, body if isinstance(body, int) else body.results[0])
