"""A node as a user machine's copy and its callers see it: commands and dumps out, what is applied in.

It decides nothing: bytes go to the engine and come back. raftmeta/user_machines/copy knows what they mean.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from raftmeta._core cimport LEADER
from raftmeta.bindings.commands cimport take_fence
from raftmeta.bindings.verbs cimport fence_of
from raftmeta.engine.state cimport (EVENT_USER_DIVERGED, EVENT_USER_FAILED, EVENT_USER_STOPPED, EVENT_USER_UNDUMPED)
from raftmeta.engine.submission cimport (AWAIT_READY, AWAIT_USERS, SUBMIT_READ, SUBMIT_USER_ANSWER, SUBMIT_USER_EVENT,
                                         SUBMIT_USER_FETCH, SUBMIT_USER_JOIN, SUBMIT_USER_LAST, SUBMIT_USER_LEAVE,
                                         Submission, submission_create, submission_payload)
from raftmeta.engine.user_fetches cimport ASK_OUTCOME, UserAsk, UserFetch, UserNews
from raftmeta.face.answers cimport (PURPOSE_BYTES, PURPOSE_NOTHING, PURPOSE_NUMBER, PURPOSE_READ, deadline_after,
                                    raise_unless_ok)
from raftmeta.face.mailbox cimport MailboxFace
from raftmeta.face.node cimport Node
from raftmeta.loop.loop cimport Loop, loop_ring, loop_submit
from raftmeta.loop.loop cimport NodeStatus as StatusBlock
from raftmeta.loop.tickets cimport Mailbox, Ticket
from raftmeta.machine.state cimport LEVEL_OF_USER_MACHINES
from raftmeta.machine.user_machines cimport UserCommand, user_command_bytes
from raftmeta.native.atomics cimport load_acquire
from raftmeta.native.threads cimport boot_now_ns
from raftmeta.status cimport OK, OUTCOME_UNKNOWN, status_t
from raftmeta.wire.commands cimport (COMMAND_USER, COMMAND_USER_DUMP, Command, Fence, command_encode, command_init,
                                     command_release)

from raftmeta.errors import InvalidArgument, NotReady, OutcomeTimeout, ReadyTimeout, Withdrawn
from raftmeta.user_machines.copy import Ask, CommandRecord, News

FAILED = EVENT_USER_FAILED
DIVERGED = EVENT_USER_DIVERGED
STOPPED = EVENT_USER_STOPPED
UNDUMPED = EVENT_USER_UNDUMPED

cdef uint64_t NEVER = ~<uint64_t>0


def deadline_of(timeout_s):
    return deadline_after(timeout_s)


def seconds_left(uint64_t deadline_ns):
    cdef uint64_t now_ns = boot_now_ns()
    if deadline_ns == NEVER:
        return None
    return (deadline_ns - now_ns) / 1e9 if now_ns < deadline_ns else 0.0


cdef Submission* _submission(uint8_t kind, bytes name, const void* head, size_t head_length) except NULL:
    cdef size_t length = head_length + <size_t>PyBytes_GET_SIZE(name)
    cdef Submission* submission = submission_create(kind, length)
    cdef uint8_t* payload = submission_payload(submission)
    if submission == NULL:
        raise MemoryError
    if head_length != 0:
        memcpy(payload, head, head_length)
    memcpy(payload + head_length, PyBytes_AS_STRING(name), <size_t>PyBytes_GET_SIZE(name))
    return submission


cdef list _commands(const uint8_t* at, const uint8_t* end):
    cdef const UserCommand* head
    cdef list found = []
    while at < end:
        head = <const UserCommand*>at
        found.append(CommandRecord(head.index, head.session, head.sequence, head.lowest_unanswered, head.wall_ms,
                                   PyBytes_FromStringAndSize(<const char*>at + sizeof(UserCommand), head.length)))
        at += user_command_bytes(head.length)
    return found


cdef list _asks(const uint8_t* at, const uint8_t* end):
    cdef const UserAsk* head
    cdef list found = []
    while at < end:
        head = <const UserAsk*>at
        at += sizeof(UserAsk)
        found.append(Ask(head.id, head.kind == ASK_OUTCOME, head.index,
                         PyBytes_FromStringAndSize(<const char*>at, <Py_ssize_t>head.length)))
        at += head.length
    return found


cdef object _news(bytes body):
    cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(body)
    cdef const UserNews* head = <const UserNews*>data
    cdef size_t rest = sizeof(UserNews) + head.ask_bytes
    cdef list asks = _asks(data + sizeof(UserNews), data + rest)
    cdef list commands = []
    part = b""
    if head.gives_dump:
        part = body[rest:]
    else:
        commands = _commands(data + rest, data + PyBytes_GET_SIZE(body))
    return News(bool(head.gives_dump), head.last, head.point, bool(head.is_late), head.dump_index,
                head.dump_digest, head.dump_total, head.offset, part, commands, asks)


cdef class UserPort:
    def __init__(self, Node node not None, str name not None, uint32_t place):
        self.node = node
        self.name = name.encode()
        self.place = place
        if not 1 <= len(self.name) <= 64:
            raise InvalidArgument(f"name: must be 1 to 64 bytes of UTF-8, not {len(self.name)}", field="name")

    # --- the copy's thread --------------------------------------------------------------------------------------------
    def await_cluster(self):
        self.node.running()
        submission = _submission(AWAIT_READY, b"", NULL, 0)
        self.node.finish(self.node._send(submission, PURPOSE_NOTHING, NULL), PURPOSE_NOTHING, NEVER)

    def fetch(self, uint64_t after, uint64_t dump_seen, uint64_t offset):
        cdef UserFetch fetch
        fetch.after = after
        fetch.dump_seen = dump_seen
        fetch.offset = offset
        self.node.running()
        submission = _submission(SUBMIT_USER_FETCH, self.name, &fetch, sizeof(UserFetch))
        return _news(self.node.finish(self.node._send(submission, PURPOSE_BYTES, NULL), PURPOSE_BYTES, NEVER))

    # Tell the loop something, without waiting.
    cdef int _post(self, Submission* submission) except -1:
        cdef Loop* loop = self.node.loop
        loop_submit(loop, submission)
        loop_ring(loop)
        return 0

    def join(self):
        self.node.running()
        self._post(_submission(SUBMIT_USER_JOIN, self.name, NULL, 0))

    def leave(self):
        self.node.running()
        self._post(_submission(SUBMIT_USER_LEAVE, self.name, NULL, 0))

    def answer(self, uint64_t ask, bytes outcome):
        cdef Submission* submission
        self.node.running()
        submission = _submission(SUBMIT_USER_ANSWER, b"" if outcome is None else outcome, NULL, 0)
        submission.arguments.user_answer.ask = ask
        submission.arguments.user_answer.status = OUTCOME_UNKNOWN if outcome is None else OK
        self._post(submission)

    def send_part(self, uint64_t digest, bytes part not None, uint64_t pointer, uint64_t offset, uint64_t total,
                  timeout_s=5.0):
        cdef Command command
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        self.node.await_session(deadline_ns)
        command_init(&command)
        command.kind = COMMAND_USER_DUMP
        command.id = digest
        command.pointer = pointer
        command.offset = offset
        command.total = total
        return self.node.finish(self._submit(&command, part, NEVER, NULL), PURPOSE_NUMBER, deadline_ns)

    def tell(self, uint64_t event, uint64_t index):
        cdef Submission* submission
        self.node.running()
        submission = _submission(SUBMIT_USER_EVENT, self.name, NULL, 0)
        submission.arguments.user_event.type = <uint8_t>event
        submission.arguments.user_event.a = index
        submission.arguments.user_event.c = self.place
        self.node.finish(self.node._send(submission, PURPOSE_NOTHING, NULL), PURPOSE_NOTHING, NEVER)

    def is_leader(self):
        cdef StatusBlock block
        self.node.read_status(&block)
        return block.core.role == LEADER

    def check(self):
        self.node.started()

    def value_bytes_max(self):
        return self.node.value_bytes_max

    # --- callers ------------------------------------------------------------------------------------------------------
    # The rest of the envelope, under the next sequence, in one go under the GIL.
    cdef Ticket* _submit(self, Command* command, bytes data, uint64_t lowest, Mailbox* mailbox) except NULL:
        cdef Node node = self.node
        cdef Loop* loop = node.running()
        cdef status_t status
        node._check_room(command.fence.is_present)
        command.session = node.encoded_session = node._session_now()
        command.sequence = loop.next_sequence
        command.lowest_unanswered = min(load_acquire(&loop.lowest_unanswered), lowest)
        command.name.data = <const uint8_t*>PyBytes_AS_STRING(self.name)
        command.name.length = <uint32_t>PyBytes_GET_SIZE(self.name)
        command.data.data = <const uint8_t*>PyBytes_AS_STRING(data)
        command.data.length = <uint32_t>PyBytes_GET_SIZE(data)
        node.scratch.clear()
        status = command_encode(command, &node.scratch)
        command_release(command)
        raise_unless_ok(status)
        return node._send_command(PURPOSE_NUMBER, command.fence.is_present, mailbox)

    cdef Ticket* _submit_call(self, bytes data, object fence, dict waiting, uint64_t* sequence,
                              Mailbox* mailbox) except NULL:
        cdef Command command
        cdef Fence taken
        cdef Ticket* ticket
        if <size_t>PyBytes_GET_SIZE(data) > self.node.value_bytes_max:
            raise InvalidArgument(f"call: {len(data)} bytes, at most {self.node.value_bytes_max}", field="call")
        fence = fence_of(fence)
        take_fence(fence, &taken)
        command_init(&command)
        command.kind = COMMAND_USER
        command.fence = taken
        ticket = self._submit(&command, data, next(iter(waiting), NEVER), mailbox)
        sequence[0] = self.node.loop.next_sequence - 1
        waiting[sequence[0]] = None
        return ticket

    def call(self, bytes data not None, fence, dict waiting not None, uint64_t deadline_ns):
        cdef uint64_t sequence = 0
        self._await_users(deadline_ns)
        while True:
            self.node.await_session(deadline_ns)
            ticket = self._submit_call(data, fence, waiting, &sequence, NULL)
            try:
                return sequence, self.node.finish(ticket, PURPOSE_NUMBER, deadline_ns)
            except OutcomeTimeout as error:
                error.ticket = (sequence, error.ticket)     # it may be answered yet, so its result is not seen
                raise
            except NotReady:
                # The session ended between encoding and arrival: certainly not executed, so it may be encoded anew.
                waiting.pop(sequence, None)
                if boot_now_ns() >= deadline_ns:
                    raise
            except BaseException:
                waiting.pop(sequence, None)
                raise

    def has_users(self):
        cdef StatusBlock block
        self.node.read_status(&block)
        return block.machine.feature_level >= LEVEL_OF_USER_MACHINES

    cdef int _await_users(self, uint64_t deadline_ns) except -1:
        if self.has_users():
            return 0
        try:
            self.node.finish(self.node.submit_wish(AWAIT_USERS, 0, PURPOSE_NOTHING, NULL), PURPOSE_NOTHING,
                             deadline_ns)
        except Withdrawn:
            raise level_error() from None
        return 0

    def read_round(self, uint64_t deadline_ns):
        self.node.await_session(deadline_ns)
        self.node.finish(self.node.submit_wish(SUBMIT_READ, 0, PURPOSE_READ, NULL), PURPOSE_READ, deadline_ns)
        return self.last()

    def last(self):
        self.node.running()
        submission = _submission(SUBMIT_USER_LAST, self.name, NULL, 0)
        body = self.node.finish(self.node._send(submission, PURPOSE_BYTES, NULL), PURPOSE_BYTES, NEVER)
        return int.from_bytes(body, "little")

    # --- callers on an event loop -------------------------------------------------------------------------------------
    def submit_call(self, MailboxFace face not None, bytes data not None, fence, dict waiting not None,
                    uint64_t deadline_ns):
        cdef uint64_t sequence = 0
        face.bind()
        ticket = self._submit_call(data, fence, waiting, &sequence, face.mailbox)
        return sequence, face.call_of(ticket, deadline_ns)

    def submit_session(self, MailboxFace face not None, uint64_t deadline_ns):
        return face.wish(AWAIT_READY, 0, PURPOSE_NOTHING, deadline_ns)

    def has_session(self):
        return self.node.has_session()

    def not_ready(self, kind):
        return self.node.not_ready(kind, "the node is not ready")

    def submit_await(self, MailboxFace face not None, uint64_t deadline_ns):
        return face.wish(AWAIT_USERS, 0, PURPOSE_NOTHING, deadline_ns)

    def submit_read(self, MailboxFace face not None, uint64_t deadline_ns):
        return face.wish(SUBMIT_READ, 0, PURPOSE_READ, deadline_ns)

    def submit_last(self, MailboxFace face not None):
        self.node.running()
        face.bind()
        submission = _submission(SUBMIT_USER_LAST, self.name, NULL, 0)
        return face.call_of(self.node._send(submission, PURPOSE_BYTES, face.mailbox), NEVER)


def level_error():
    return ReadyTimeout("not every member supports user machines, or some were not heard yet (feature level 2)")
