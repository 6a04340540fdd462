"""Calls of the etcd door: bodies.

It decides which code and words stand for a status, when a message is whole, and what a call may hold. It must never
look into a message, nor know a transport.

Sources: gRPC over HTTP2 (grpc/doc PROTOCOL-HTTP2) for the framing of messages, etcd api/v3rpc/rpctypes error.go for
codes and words.
"""

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from raftmeta.connections.accounts cimport accounts_refused, accounts_spend
from raftmeta.connections.accounts_state cimport account_drop, account_hold
from raftmeta.connections.connections cimport connection_count, connection_wait
from raftmeta.connections.state cimport Connection, bytes_begin, bytes_end
from raftmeta.doors.desk.desk cimport desk_pin_newest
from raftmeta.doors.desk.rounds cimport round_is_done
from raftmeta.doors.desk.state cimport DeskTask, bytes_of
from raftmeta.doors.desk.tasks cimport (command_submit, desk_session_lost, sequence_done, task_create, task_free,
                                        task_submit)
from raftmeta.doors.etcd.audit cimport audit_blocks, audit_ended
from raftmeta.doors.etcd.prefix cimport prefix_put, prefix_take
from raftmeta.doors.etcd.protobuf cimport pb_begin, pb_end, pb_put_uint
from raftmeta.doors.etcd.schema cimport schema_check
from raftmeta.doors.etcd.state cimport (CODE_FAILED_PRECONDITION, CODE_INTERNAL, CODE_INVALID_ARGUMENT, CODE_NOT_FOUND,
                                        CODE_OK, CODE_OUT_OF_RANGE, CODE_PERMISSION_DENIED, CODE_RESOURCE_EXHAUSTED,
                                        CODE_UNAVAILABLE, CODE_UNIMPLEMENTED, ETCD_ALWAYS, ETCD_CALLS_MAX,
                                        ETCD_CHANGES, ETCD_MESSAGE_BYTES_MAX, ETCD_STREAM, TASK_CALL, TUNE_CALLS_BYTES,
                                        TUNE_OUT_BYTES)
from raftmeta.status cimport (COMMAND_INVALID, COMPACTED, FUTURE_REVISION, GROUP_WRITE, ID_CONFLICT, KEY_INVALID,
                              KEY_MISSING, LEASE_EXPIRED, NOT_READY, NO_SPACE, OK, OVERLOADED, PERMISSION_DENIED,
                              QUOTA_EXCEEDED, RECORDS_WRITE, SESSION_UNKNOWN, TOO_MANY_CHANGES, VALUE_TOO_LARGE,
                              ZNODE_WRITE)
from raftmeta.wire.msgpack cimport number_max, read_array_max, read_uint, reader_over

cdef enum:
    FRAME_BYTES = 5                 # of gRPC: whether it is compressed, and the length
    RESULT_ELEMENTS = 3             # docs/formats.md "Results"
    RESULT_STATUS_MAX = 63
    TUNE_KEPT_BYTES = 1 << 12
    REQUEST_NS = 7_000_000_000      # etcd: 5 s and two elections
    UNSAID_NS = 60_000_000_000      # so long a request may take to arrive


# --- answers ----------------------------------------------------------------------------------------------------------
# The transport looks at it at the end of the turn's work.
cdef void _tell(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    cdef EtcdConnection* connection = call.connection
    if connection == NULL or call.is_told:
        return
    call.is_told = True
    call.next_told = connection.told
    connection.told = call
    if not connection.is_told and door.told.push(connection.base.place):
        connection.is_told = True


cdef EtcdCall* calls_take_told(EtcdConnection* connection) noexcept nogil:
    cdef EtcdCall* call = connection.told
    if call != NULL:
        connection.told = call.next_told
        call.is_told = False
    return call


cdef Vec[uint8_t]* call_reply(EtcdDoor* door) noexcept nogil:
    door.reply.clear()
    return &door.reply


cdef bint call_header(EtcdDoor* door, Vec[uint8_t]* out, uint64_t revision) noexcept nogil:
    cdef size_t start = pb_begin(out, 1)
    return (start != 0 and pb_put_uint(out, 1, door.desk.status.cluster_low)
            and pb_put_uint(out, 2, door.desk.status.id) and pb_put_uint(out, 3, revision_told(revision))
            and pb_put_uint(out, 4, door.desk.status.core.term) and pb_end(out, start))


cdef void _put_head(uint8_t* head, uint32_t length) noexcept nogil:
    cdef int i
    head[0] = 0
    for i in range(4):
        head[1 + i] = <uint8_t>(length >> (24 - 8 * i))


# door.reply as the client sees it. False: no memory.
cdef bint _without_prefix(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    cdef Bytes reply = bytes_of(door.reply.data, door.reply.size)
    cdef Vec[uint8_t] shown
    cdef bint is_made
    memset(&shown, 0, sizeof(shown))
    is_made = prefix_take(&door.limits, call.handler.reply, &reply, &shown)
    door.reply.clear()
    is_made = is_made and (shown.size == 0 or door.reply.append(shown.data, shown.size))
    shown.release()
    return is_made


cdef void call_send(EtcdDoor* door, EtcdCall* call, bint is_made) noexcept nogil:
    cdef uint8_t[FRAME_BYTES] head
    cdef uint32_t length
    if call.connection == NULL or call.is_done:
        return
    if door.limits.prefix_length and is_made and not _without_prefix(door, call):
        is_made = False
    length = <uint32_t>door.reply.size
    _put_head(head, length)
    if door.reply.size > door.desk.base.limits.memory_max:
        call_end(door, call, CODE_RESOURCE_EXHAUSTED, b"etcdserver: the answer is too large")
        return
    if not is_made or not call.out.append(head, FRAME_BYTES) or (length and not call.out.append(door.reply.data,
                                                                                                length)):
        call_end(door, call, CODE_RESOURCE_EXHAUSTED, b"etcdserver: no memory")
        return
    call.connection.base.parked_bytes += FRAME_BYTES + length
    connection_count(&door.desk.base, &call.connection.base)
    door.desk.base.turn_bytes += length
    _tell(door, call)


cdef void call_sent(EtcdDoor* door, EtcdCall* call, uint32_t length) noexcept nogil:
    call.out_offset += length
    call.connection.base.parked_bytes -= length
    if call.out_offset == call.out.size:
        call.out.clear()
        call.out_offset = 0
        if call.out.capacity > TUNE_KEPT_BYTES:
            call.out.release()


cdef void call_end(EtcdDoor* door, EtcdCall* call, int32_t code, const char* text) noexcept nogil:
    cdef Bytes message
    if call.is_done:
        return
    call.is_done = True
    call.code = code
    call.text = text
    message = call_message(call)
    audit_ended(door, call, &message)
    door.counters.failed += code != CODE_OK
    call_rest(call)
    _tell(door, call)


cdef void call_answer(EtcdDoor* door, EtcdCall* call, bint is_made) noexcept nogil:
    call_send(door, call, is_made)
    call_end(door, call, CODE_OK, NULL)


cdef void call_fail(EtcdDoor* door, EtcdCall* call, status_t status) noexcept nogil:
    call.status = status
    if status == KEY_MISSING:
        call_end(door, call, CODE_INVALID_ARGUMENT, b"etcdserver: key not found")
    elif status == LEASE_EXPIRED:
        call_end(door, call, CODE_NOT_FOUND, b"etcdserver: requested lease not found")
    elif status == ID_CONFLICT:
        call_end(door, call, CODE_FAILED_PRECONDITION, b"etcdserver: lease already exists")
    elif status == COMPACTED:
        call_end(door, call, CODE_OUT_OF_RANGE, b"etcdserver: mvcc: required revision has been compacted")
    elif status == FUTURE_REVISION:
        call_end(door, call, CODE_OUT_OF_RANGE, b"etcdserver: mvcc: required revision is a future revision")
    elif status in (VALUE_TOO_LARGE, KEY_INVALID, TOO_MANY_CHANGES):
        call_end(door, call, CODE_INVALID_ARGUMENT, b"etcdserver: request is too large")
    elif status in (OVERLOADED, QUOTA_EXCEEDED):
        call_end(door, call, CODE_RESOURCE_EXHAUSTED, b"etcdserver: too many requests")
    elif status == NO_SPACE:
        call_end(door, call, CODE_RESOURCE_EXHAUSTED, b"etcdserver: mvcc: database space exceeded")
    elif status in (PERMISSION_DENIED, ZNODE_WRITE, GROUP_WRITE, RECORDS_WRITE):
        call_end(door, call, CODE_PERMISSION_DENIED, b"etcdserver: permission denied")
    elif status == COMMAND_INVALID:
        call_end(door, call, CODE_INVALID_ARGUMENT, b"etcdserver: the store cannot carry this out")
    else:
        call_end(door, call, CODE_UNAVAILABLE, b"etcdserver: request timed out")


# --- waiting ----------------------------------------------------------------------------------------------------------
cdef void call_wait(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    cdef EtcdConnection* connection = call.connection
    if connection == NULL or call.is_done:
        return
    connection_wait(&door.desk.base, &connection.base)
    if call.waits:
        return
    call.waits = True
    call.previous_waiting = NULL
    call.next_waiting = connection.waiting
    if connection.waiting != NULL:
        connection.waiting.previous_waiting = call
    connection.waiting = call


cdef void call_rest(EtcdCall* call) noexcept nogil:
    if not call.waits:
        return
    call.waits = False
    if call.previous_waiting != NULL:
        call.previous_waiting.next_waiting = call.next_waiting
    else:
        call.connection.waiting = call.next_waiting
    if call.next_waiting != NULL:
        call.next_waiting.previous_waiting = call.previous_waiting


# The loop has told that there is no leader: clients try another member.
cdef void _go(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    if call.handler == NULL:
        return
    if not call.handler.traits & ETCD_ALWAYS and door.is_lonely and not call.handler.traits & ETCD_STREAM:
        call_end(door, call, CODE_UNAVAILABLE, b"etcdserver: no leader")
    elif call.is_held:
        if door.is_serving and not door.desk.is_opening and door.desk.open_ns != 0:
            call.is_held = False
            call_rest(call)
            _take(door, call)
    elif call.handler.go != NULL:
        call.handler.go(door, call)


cdef void calls_go(EtcdDoor* door, EtcdConnection* connection) noexcept nogil:
    cdef EtcdCall* call = connection.waiting
    cdef EtcdCall* next
    while call != NULL:
        next = call.next_waiting
        _go(door, call)
        call = next
    if connection.waiting != NULL:
        connection_wait(&door.desk.base, &connection.base)


cdef void calls_expire(EtcdDoor* door, EtcdConnection* connection) noexcept nogil:
    cdef EtcdCall* call = connection.calls
    while call != NULL:
        if call.handler == NULL or call.handler.traits & ETCD_STREAM or call.is_done:
            pass
        elif (door.desk.base.now_ns - call.begun_ns > <uint64_t>REQUEST_NS
              and (call.has_message or door.desk.base.now_ns - call.begun_ns > <uint64_t>UNSAID_NS)):
            call_end(door, call, CODE_UNAVAILABLE, b"etcdserver: request timed out")
        call = call.next


# --- what a call asks -------------------------------------------------------------------------------------------------
cdef bint call_command(EtcdDoor* door, EtcdCall* call, uint32_t part, bint is_urgent, status_t* status) noexcept nogil:
    cdef DeskTask* made = NULL
    cdef Connection* connection = &call.connection.base if call.connection != NULL else NULL
    status[0] = command_submit(&door.desk, connection, TASK_CALL, NULL, is_urgent, &made)
    if status[0] != OK:
        return False
    (<EtcdTask*>made).call = call
    (<EtcdTask*>made).part = part
    call.tasks += 1
    return True


cdef bint call_ask(EtcdDoor* door, EtcdCall* call, uint32_t part, const Submission* what) noexcept nogil:
    cdef Bytes nothing = bytes_of(NULL, 0)
    cdef Connection* connection = &call.connection.base if call.connection != NULL else NULL
    cdef DeskTask* task = task_create(&door.desk, connection, TASK_CALL, &nothing, &nothing)
    if task == NULL:
        return False
    if task_submit(&door.desk, task, what) != OK:
        task_free(&door.desk, task)
        return False
    (<EtcdTask*>task).call = call
    (<EtcdTask*>task).part = part
    call.tasks += 1
    return True


cdef bint task_result(const EtcdTask* task, Reader* reader) noexcept nogil:
    reader[0] = reader_over(task.base.ticket.body, task.base.ticket.length)
    if task.base.ticket.length == 0 or read_array_max(reader, RESULT_ELEMENTS) != RESULT_ELEMENTS:
        return False
    read_uint(reader, RESULT_STATUS_MAX)
    read_uint(reader, number_max())
    return reader.status == OK


# A root may be older than the answer of the loop only for a moment.
cdef bint call_pin(EtcdDoor* door, const EtcdCall* call) noexcept nogil:
    cdef uint64_t revision = desk_pin_newest(&door.desk)
    if door.desk.pinned == NULL or revision < call.revision:
        door.desk.has_pause = True
        return False
    if call.round != 0 and call.round <= door.desk.round_done and revision < door.desk.round_position:
        door.desk.has_pause = True
    return call.round == 0 or round_is_done(&door.desk, call.round, revision)


# The desk's session is from before the cluster had rights, and its commands pass for nobody's: it is renewed at once,
# as the node's own, and the request begins anew. Nothing of it was carried out.
cdef void _hold(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    if not door.desk.is_opening:
        door.desk.open_ns = 0
    call.is_held = True
    call_wait(door, call)


cdef void calls_answered(EtcdDoor* door, EtcdTask* task) noexcept nogil:
    cdef EtcdCall* call = task.call
    if task.base.sequence != 0:
        sequence_done(&door.desk, &task.base)
        if task.base.ticket.status == SESSION_UNKNOWN and task.base.session == door.desk.session:
            desk_session_lost(&door.desk)
    call.tasks -= 1
    if call.connection == NULL:
        if call.tasks == 0:
            _free(door, call)
    elif call.is_done or call.handler.answered == NULL:
        pass
    elif (task.base.ticket.status == NOT_READY and task.base.sequence != 0 and call.has_message
          and call.tasks == 0):
        _hold(door, call)
    else:
        call.handler.answered(door, call, task)
    task_free(&door.desk, &task.base)


# --- taking messages --------------------------------------------------------------------------------------------------
cdef Bytes call_message(const EtcdCall* call) noexcept nogil:
    if not call.has_message:
        return bytes_of(NULL, 0)
    return bytes_of(call.received.data + FRAME_BYTES, _length_of(call.received.data))


cdef uint32_t _length_of(const uint8_t* head) noexcept nogil:
    return <uint32_t>head[1] << 24 | <uint32_t>head[2] << 16 | <uint32_t>head[3] << 8 | head[4]


# The bytes that the call holds of its requests.
cdef void _count(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    cdef uint64_t bytes = sizeof(EtcdCall) + call.received.size
    if call.connection != NULL:
        call.connection.call_bytes = call.connection.call_bytes - call.counted + bytes
    if bytes >= call.counted:
        bytes_begin(&door.desk.base, call.account, bytes - call.counted)
    else:
        bytes_end(&door.desk.base, call.account, call.counted - bytes)
    call.counted = bytes


# Refused before its handler sees it; False: it is not.
cdef bint _is_refused(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil:
    cdef uint64_t wait_ns = 0
    if not schema_check(call.handler.request, message):
        call_end(door, call, CODE_INTERNAL, b"grpc: error unmarshalling request")
        return True
    if accounts_spend(&door.desk.base, &call.connection.base, message.length, False, &wait_ns) != 0:
        accounts_refused(&door.desk.base, &call.connection.base)
        call_end(door, call, CODE_RESOURCE_EXHAUSTED, b"etcdserver: too many requests")
        return True
    if call.handler.traits & ETCD_CHANGES and audit_blocks(door):
        call.status = NO_SPACE
        call_end(door, call, CODE_UNAVAILABLE, b"etcdserver: the audit trail cannot be written")
        return True
    return False


# The message with the node's keys. That of a call with only one takes the place of what came.
cdef bint _with_prefix(EtcdDoor* door, EtcdCall* call, Bytes* message) noexcept nogil:
    cdef uint8_t[FRAME_BYTES] head
    door.keyed.clear()
    if not prefix_put(&door.limits, call.handler.request, message, &door.keyed):
        return False
    if call.handler.traits & ETCD_STREAM:
        message[0] = bytes_of(door.keyed.data, door.keyed.size)
        return True
    call.has_prefix = True
    call.received.clear()
    _put_head(head, <uint32_t>door.keyed.size)
    if not call.received.append(head, FRAME_BYTES) or (door.keyed.size and not call.received.append(
            door.keyed.data, door.keyed.size)):
        return False
    message[0] = call_message(call)
    return True


cdef void _give(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil:
    cdef Bytes own = message[0]
    if _is_refused(door, call, message):
        return
    if door.limits.prefix_length and not (call.has_prefix or _with_prefix(door, call, &own)):
        call_end(door, call, CODE_RESOURCE_EXHAUSTED, b"etcdserver: no memory")
        return
    call.handler.message(door, call, &own)


# Whole messages go to the handler. That of a call with only one stays where it is.
cdef void _take(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    cdef size_t used = 0
    cdef const uint8_t* head
    cdef uint32_t length
    cdef Bytes message
    while not call.is_done and call.received.size - used >= FRAME_BYTES:
        head = call.received.data + used
        length = _length_of(head)
        if head[0] != 0:
            call_end(door, call, CODE_UNIMPLEMENTED, b"grpc: this server reads no compressed messages")
            return
        if length > <uint32_t>ETCD_MESSAGE_BYTES_MAX:
            call_end(door, call, CODE_RESOURCE_EXHAUSTED, b"grpc: received message larger than max")
            return
        if call.received.size - used < FRAME_BYTES + <size_t>length:
            break
        message = bytes_of(head + FRAME_BYTES, length)
        if call.handler.traits & ETCD_STREAM:
            _give(door, call, &message)
            used += FRAME_BYTES + <size_t>length
        elif call.received.size != FRAME_BYTES + <size_t>length:
            call_end(door, call, CODE_INTERNAL, b"grpc: more than one message in a unary call")
            return
        elif not call.is_half_closed:
            return
        else:
            call.has_message = True
            _give(door, call, &message)
            return
    if used:
        call.received.drop_front(used)
    if call.is_half_closed and not call.is_done:
        if call.received.size or not call.handler.traits & ETCD_STREAM:
            call_end(door, call, CODE_INTERNAL, b"grpc: the call ended within a message")
        elif call.handler.half_closed != NULL:
            call.handler.half_closed(door, call)
        else:
            call_end(door, call, CODE_OK, NULL)


cdef void call_data(EtcdDoor* door, EtcdCall* call, const uint8_t* bytes, uint32_t length) noexcept nogil:
    if call.is_done or call.is_half_closed:
        return
    if (call.connection.call_bytes + length > <uint64_t>TUNE_CALLS_BYTES
            or door.desk.base.bytes_under_way + length > door.desk.base.limits.bytes_under_way_max
            or not call.received.append(bytes, length)):
        call_end(door, call, CODE_RESOURCE_EXHAUSTED, b"etcdserver: too many requests")
        return
    if not call.is_held:
        _take(door, call)
    _count(door, call)


cdef void call_half_close(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    if call.is_half_closed:
        return
    call.is_half_closed = True
    if not call.is_done and not call.is_held:
        _take(door, call)
        _count(door, call)


# --- beginning and end ------------------------------------------------------------------------------------------------
cdef EtcdCall* call_create(EtcdDoor* door, EtcdConnection* connection) noexcept nogil:
    cdef EtcdCall* call
    if connection.call_count >= ETCD_CALLS_MAX:
        return NULL
    call = <EtcdCall*>calloc(1, sizeof(EtcdCall))
    if call == NULL:
        return NULL
    call.connection = connection
    call.account = connection.base.account
    if connection.speaker.is_certified:
        call.speaker = connection.speaker
    account_hold(call.account)
    call.begun_ns = door.desk.base.now_ns
    call.next = connection.calls
    if connection.calls != NULL:
        connection.calls.previous = call
    connection.calls = call
    connection.call_count += 1
    door.counters.calls += 1
    _count(door, call)
    return call


cdef void call_open(EtcdDoor* door, EtcdCall* call, const EtcdHandler* handler) noexcept nogil:
    call.handler = handler
    if handler == NULL:
        door.counters.unimplemented += 1
        call_end(door, call, CODE_UNIMPLEMENTED, b"unknown method")
    elif not handler.traits & ETCD_ALWAYS and not door.is_serving:
        call.is_held = True
        call_wait(door, call)


cdef void _free(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    bytes_end(&door.desk.base, call.account, call.counted)
    account_drop(call.account)
    call.received.release()
    call.out.release()
    call.kept.release()
    free(call)


cdef void _untell(EtcdCall* call) noexcept nogil:
    cdef EtcdCall** at = &call.connection.told
    while at[0] != call:
        at = &at[0].next_told
    at[0] = call.next_told
    call.is_told = False


cdef void call_close(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    cdef EtcdConnection* connection = call.connection
    call_rest(call)
    if call.is_told:
        _untell(call)
    if call.handler != NULL and call.handler.closed != NULL:
        call.handler.closed(door, call)
    if call.previous != NULL:
        call.previous.next = call.next
    else:
        connection.calls = call.next
    if call.next != NULL:
        call.next.previous = call.previous
    connection.call_count -= 1
    connection.call_bytes -= call.counted
    connection.base.parked_bytes -= call.out.size - call.out_offset
    call.connection = NULL
    if call.tasks == 0:
        _free(door, call)


cdef bint calls_have_room(const EtcdDoor* door, const EtcdConnection* connection) noexcept nogil:
    return (connection.base.out.size - connection.base.out_offset < TUNE_OUT_BYTES
            and door.desk.base.bytes_under_way < door.desk.base.limits.bytes_under_way_max
            and door.desk.base.answer_bytes < door.desk.base.limits.memory_max)


cdef void calls_drop(EtcdDoor* door, EtcdConnection* connection) noexcept nogil:
    while connection.calls != NULL:
        call_close(door, connection.calls)


cdef void calls_release(EtcdDoor* door) noexcept nogil:
    cdef DeskTask* task = door.desk.out
    cdef EtcdCall* call
    while task != NULL:
        if task.kind == TASK_CALL:
            call = (<EtcdTask*>task).call
            call.tasks -= 1
            if call.tasks == 0 and call.connection == NULL:
                _free(door, call)
        task = task.next_out
