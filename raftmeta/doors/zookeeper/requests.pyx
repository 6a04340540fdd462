"""Requests of ZooKeeper clients: bodies.

Order, in steps: 1. a session's writes are submitted as they come, and each names the one before it; 2. a leader
changes, and the second of two comes into the log first; 3. the machine answers OUT_OF_ORDER and keeps nothing; 4. the
door sends the second again, under the same number, when the first is answered.

Reads between writes, in steps: 1. a client sends a write, a read and a write, and both writes are submitted; 2. both
are carried out, at revisions r and s; 3. the tickets come before the door tells the event of s (ZkDoor.posted), and
the second one leaves a ZkStop; 4. the position goes to s - 1, where the read is served, and then on. So ZooKeeper does
it, too (CommitProcessor.java of 3.9), whose state stops where our position does.

A write that may or may not have been carried out closes its connection: ZooKeeper's clients know that as a lost
connection, and their session lives on.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from raftmeta.connections.connections cimport connection_end, connection_fail, connection_next_turn, connection_wait
from raftmeta.connections.state cimport CONNECTION_OPEN, TUNE_TURN_BYTES, connection_at
from raftmeta.doors.desk.desk cimport desk_pin
from raftmeta.doors.desk.rounds cimport round_ask, round_is_done
from raftmeta.doors.desk.state cimport (STAGE_AGAIN, STAGE_DONE, STAGE_UNDER_WAY, STAGE_WAITS, DeskTask, bytes_of,
                                        task_frame)
from raftmeta.doors.desk.tasks cimport (command_submit, desk_session_lost, random_bytes, sequence_done, task_create,
                                        task_drop_ticket, task_free, task_submit_command)
from raftmeta.doors.zookeeper.audit cimport audit_answered, audit_blocks, audit_left, audit_proved, audit_session
from raftmeta.doors.zookeeper.auth cimport SASL_DONE, SASL_NONCE_BYTES, sasl_step, speaker_auth
from raftmeta.doors.zookeeper.codec cimport (ZkRequest, zk_reply, zk_reply_begin, zk_reply_end,
                                             zk_reply_end_whole, zk_request_decode, zk_write_bytes,
                                             zk_write_int, zk_write_null)
from raftmeta.doors.zookeeper.output cimport connection_appended, connection_is_full, connection_may_answer
from raftmeta.doors.zookeeper.protocol cimport (ZK_ADD_WATCH, ZK_ANSWER_ERROR, ZK_AUTH, ZK_BAD_ARGUMENTS,
                                                ZK_CHECK_WATCHES, ZK_CLOSE_SESSION, ZK_DELETE, ZK_IS_READ, ZK_IS_WRITE,
                                                ZK_MARSHALLING_ERROR, ZK_NOT_READ_ONLY, ZK_NO_WATCHER, ZK_OK, ZK_PING,
                                                ZK_QUOTA_EXCEEDED, ZK_REMOVE_WATCHES, ZK_SASL, ZK_SESSION_MOVED,
                                                ZK_SET_WATCHES, ZK_SET_WATCHES2, ZK_SYNC, ZK_SYSTEM_ERROR, ZK_THROTTLED,
                                                ZK_UNIMPLEMENTED, ZK_WATCHER_ANY, ZK_WATCHER_CHILDREN, ZK_WATCHER_DATA,
                                                ZK_WATCHER_PERSISTENT, ZK_WATCHER_PERSISTENT_RECURSIVE,
                                                ZK_WATCH_PERSISTENT, ZK_WATCH_PERSISTENT_RECURSIVE, ZK_WHO_AM_I,
                                                ZK_XID_AUTH)
from raftmeta.doors.zookeeper.quotas cimport quotas_attach, quotas_request, quotas_watch
from raftmeta.doors.zookeeper.reads cimport reads_serve, reads_set_watches
from raftmeta.doors.zookeeper.session_keys cimport session_key
from raftmeta.doors.zookeeper.state cimport (TASK_CLOSE, TASK_READ, TASK_WRITE, TUNE_READS_PASSED, ZkStop, ZkTraffic)
from raftmeta.doors.zookeeper.translate cimport (zk_command_make, zk_reply_refused, zk_reply_result,
                                                 zk_who_am_i_body)
from raftmeta.doors.zookeeper.watch_table cimport (HEARS_ALWAYS, HEARS_ANY, HEARS_BELOW, HEARS_CHILDREN, HEARS_DATA,
                                                   watch_table_add, watch_table_modes, watch_table_remove)
from raftmeta.native.threads cimport wall_now_ms
from raftmeta.security.audit_queue cimport AUDIT_SESSION_CLOSE
from raftmeta.status cimport (BAD_LENGTH, FENCED, KEY_INVALID, LEASE_EXPIRED, OK, OUT_OF_ORDER, OVERLOADED,
                              SESSION_UNKNOWN, VALUE_TOO_LARGE)
from raftmeta.wire.commands cimport COMMAND_LEASE_REVOKE, KEY_BYTES_MAX, Bytes, command_clear

cdef enum:
    TUNE_AGAIN_NS = 5_000_000   # an overloaded node is asked again after so long
    NS_PER_MS = 1_000_000


# --- answers ----------------------------------------------------------------------------------------------------------
cdef inline void _measure(ZkTraffic* traffic, uint32_t latency_ms) noexcept nogil:
    traffic.sent += 1
    traffic.latency_sum_ms += latency_ms
    if traffic.latency_count == 0 or latency_ms < traffic.latency_least_ms:
        traffic.latency_least_ms = latency_ms
    traffic.latency_count += 1
    traffic.latency_most_ms = max(traffic.latency_most_ms, latency_ms)


# The answer to a request stands in `out`, behind `before` bytes.
cdef void _answered(ZkDoor* door, ZkConnection* connection, const ZkRequest* request, uint64_t begun_ns,
                    size_t before) noexcept nogil:
    cdef uint32_t latency_ms = <uint32_t>((door.desk.base.now_ns - begun_ns) // NS_PER_MS)
    connection.last_latency_ms = latency_ms
    connection.last_zxid = door.position
    connection.answered_ms = <int64_t>wall_now_ms()
    if request.opcode != ZK_PING:
        connection.last_xid = request.xid
        connection.last_opcode = request.opcode
    _measure(&connection.traffic, latency_ms)
    _measure(&door.traffic, latency_ms)
    door.desk.base.turn_bytes += connection.base.out.size - before
    audit_answered(door, connection, request, before)
    connection_appended(door, connection)


cdef bint _refuse(ZkDoor* door, ZkConnection* connection, const ZkRequest* request, int32_t error,
                  uint32_t position) noexcept nogil:
    if (request.row != NULL and request.error == ZK_OK and request.row.traits & ZK_IS_WRITE
            and error != ZK_THROTTLED):         # which is of the whole request
        return zk_reply_refused(request, door.position, error, position, &connection.base.out) == OK
    return zk_reply(&connection.base.out, request.xid, door.position, error) == OK


# --- who speaks -------------------------------------------------------------------------------------------------------
# Answered at once, in front of what waits, as ZooKeeper does: the next request speaks with the new name.
cdef void _auth(ZkDoor* door, ZkConnection* connection, const ZkRequest* request) noexcept nogil:
    cdef int32_t error = speaker_auth(&connection.speaker, &door.auth, &request.scheme, &request.data)
    audit_proved(door, connection, error)
    if error == ZK_OK and quotas_attach(door, connection) != OK:
        error = ZK_QUOTA_EXCEEDED
    if zk_reply(&connection.base.out, ZK_XID_AUTH, 0, error) != OK:
        connection_fail(&door.desk.base, &connection.base)
        return
    connection_appended(door, connection)
    if error != ZK_OK:
        connection.base.has_ended = True
        connection_end(&door.desk.base, &connection.base)


cdef void _sasl(ZkDoor* door, ZkConnection* connection, const ZkRequest* request) noexcept nogil:
    cdef uint8_t[SASL_NONCE_BYTES] random
    cdef size_t start
    cdef int32_t error = ZK_OK
    cdef bint has_users = door.auth.user_count != 0     # without any, ZooKeeper says nothing, and proves nobody
    door.body.clear()
    if has_users:
        error = ZK_SYSTEM_ERROR
        if random_bytes(random, SASL_NONCE_BYTES):
            error = sasl_step(&connection.sasl, &connection.speaker, &door.auth, &request.data, random, &door.body)
    if error == ZK_OK and connection.sasl.state == SASL_DONE and quotas_attach(door, connection) != OK:
        error = ZK_QUOTA_EXCEEDED
    if zk_reply_begin(&connection.base.out, &start) != OK or (
            zk_write_bytes(&connection.base.out, door.body.data, <uint32_t>door.body.size)
            if has_users and error == ZK_OK else zk_write_null(&connection.base.out)) != OK:
        connection_fail(&door.desk.base, &connection.base)
        return
    zk_reply_end_whole(&connection.base.out, start, request.xid, 0, error)
    if error != ZK_OK or connection.sasl.state == SASL_DONE:
        audit_proved(door, connection, error)
    connection_appended(door, connection)
    if error != ZK_OK:
        connection.base.has_ended = True
        connection_end(&door.desk.base, &connection.base)


# --- watches ----------------------------------------------------------------------------------------------------------
cdef int32_t _add_watch(ZkDoor* door, ZkConnection* connection, const ZkRequest* request) noexcept nogil:
    cdef uint8_t mode = HEARS_ALWAYS if request.mode == ZK_WATCH_PERSISTENT else HEARS_BELOW
    if request.mode != ZK_WATCH_PERSISTENT and request.mode != ZK_WATCH_PERSISTENT_RECURSIVE:
        return ZK_MARSHALLING_ERROR
    if watch_table_add(&door.table, &connection.watches, connection.base.place, &request.path, mode) != OK:
        return ZK_SYSTEM_ERROR
    return ZK_OK


cdef inline uint8_t _modes_of(int32_t type) noexcept nogil:
    if type == ZK_WATCHER_CHILDREN:
        return HEARS_CHILDREN
    if type == ZK_WATCHER_DATA:
        return HEARS_DATA
    if type == ZK_WATCHER_PERSISTENT:
        return HEARS_ALWAYS
    if type == ZK_WATCHER_PERSISTENT_RECURSIVE:
        return HEARS_BELOW
    return HEARS_ANY if type == ZK_WATCHER_ANY else 0


cdef int32_t _look_for_watch(ZkDoor* door, ZkConnection* connection, const ZkRequest* request) noexcept nogil:
    cdef uint8_t modes = _modes_of(request.mode)
    if modes == 0:
        return ZK_MARSHALLING_ERROR
    if not watch_table_modes(&door.table, connection.base.place, &request.path) & modes:
        return ZK_NO_WATCHER
    if request.opcode == ZK_REMOVE_WATCHES:
        watch_table_remove(&door.table, connection.base.place, &request.path, modes)
    return ZK_OK


# --- reads ------------------------------------------------------------------------------------------------------------
# Append the body of everything that is no write. The state is pinned.
cdef int32_t _body(ZkDoor* door, ZkConnection* connection, const ZkRequest* request) noexcept nogil:
    cdef int32_t opcode = request.opcode
    cdef int32_t error
    if opcode == ZK_PING:
        return ZK_OK
    if opcode == ZK_SYNC:
        if zk_write_bytes(&connection.base.out, request.path.data, request.path.length) != OK:
            return ZK_SYSTEM_ERROR
        return ZK_OK
    if opcode in (ZK_ADD_WATCH, ZK_CHECK_WATCHES, ZK_REMOVE_WATCHES):
        error = (_add_watch(door, connection, request) if opcode == ZK_ADD_WATCH
                 else _look_for_watch(door, connection, request))
        if error == ZK_OK and request.row.answer == ZK_ANSWER_ERROR and zk_write_int(&connection.base.out, 0) != OK:
            return ZK_SYSTEM_ERROR
        return error
    if opcode == ZK_WHO_AM_I:
        return ZK_OK if zk_who_am_i_body(&connection.speaker, &connection.base.out) == OK else ZK_SYSTEM_ERROR
    return reads_serve(door, connection, request, &connection.base.out)


# False: the state cannot be read in this turn.
cdef bint _serve(ZkDoor* door, ZkConnection* connection, const ZkRequest* request, uint64_t begun_ns) noexcept nogil:
    cdef size_t before = connection.base.out.size
    cdef size_t start
    cdef int32_t error = request.error
    cdef bint is_unknown
    if not desk_pin(&door.desk, door.position):
        return False
    if error == ZK_OK and not quotas_watch(door, connection, request):
        error = ZK_QUOTA_EXCEEDED
        if request.opcode in (ZK_SET_WATCHES, ZK_SET_WATCHES2):
            connection_fail(&door.desk.base, &connection.base)
            return True
    if error == ZK_OK and request.opcode in (ZK_SET_WATCHES, ZK_SET_WATCHES2):
        error = reads_set_watches(door, connection, request)        # its events go before its answer
    if zk_reply_begin(&connection.base.out, &start) != OK:
        connection_fail(&door.desk.base, &connection.base)
        return True
    if error == ZK_OK and request.opcode not in (ZK_SET_WATCHES, ZK_SET_WATCHES2):
        error = _body(door, connection, request)
    is_unknown = error == ZK_UNIMPLEMENTED      # such a one never came to the tree, and ends the connection
    zk_reply_end(&connection.base.out, start, request.xid, ~<uint64_t>0 if is_unknown else door.position, error)
    door.counters.reads += 1
    _answered(door, connection, request, begun_ns, before)
    if is_unknown:
        connection.base.has_ended = True
        connection_end(&door.desk.base, &connection.base)
    return True


# --- writes -----------------------------------------------------------------------------------------------------------
cdef void _fence(ZkDoor* door, const ZkConnection* connection, uint8_t* key) noexcept nogil:
    door.desk.command.fence.is_present = True
    door.desk.command.fence.key = bytes_of(key, session_key(door, connection.session, key))
    door.desk.command.fence.create_revision = connection.fence


cdef inline void _count(ZkConnection* connection, const ZkTask* task, int by) noexcept nogil:
    if task.base.kind == TASK_READ:
        connection.reads += by
        connection.rounds += by if task.base.round != 0 else 0


cdef void _queue(ZkConnection* connection, ZkTask* task) noexcept nogil:
    if connection.last != NULL:
        connection.last.next = task
    else:
        connection.first = task
    connection.last = task
    _count(connection, task, 1)
    connection.task_count += 1
    connection.task_bytes += task.base.frame_length + task.base.payload_length


# A task without a command, with this error if it has one already. NULL: the connection has failed.
cdef ZkTask* _task_of_read(ZkDoor* door, ZkConnection* connection, const Bytes* frame, uint8_t kind, uint64_t round,
                           int32_t error, uint32_t position) noexcept nogil:
    cdef Bytes nothing = bytes_of(NULL, 0)
    cdef ZkTask* task = <ZkTask*>task_create(&door.desk, &connection.base, kind, frame, &nothing)
    if task == NULL:
        connection_fail(&door.desk.base, &connection.base)
        return NULL
    task.base.round = round
    task.error = error
    task.position = position
    return task


# A request that is no command is served in its turn.
cdef void _queue_read(ZkDoor* door, ZkConnection* connection, const Bytes* frame, uint8_t kind,
                      uint64_t round) noexcept nogil:
    cdef ZkTask* task = _task_of_read(door, connection, frame, kind, round, ZK_OK, 0)
    if task != NULL:
        _queue(connection, task)
        requests_go(door, connection)


# The task of a write, submitted; or one that only tells its error. NULL: the connection has failed.
cdef ZkTask* _make_write(ZkDoor* door, ZkConnection* connection, const ZkRequest* request,
                         const Bytes* frame) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX] key
    cdef Bytes root = bytes_of(door.root, door.root_length)
    cdef ZkTask* task = NULL
    cdef uint32_t position = 0
    cdef int32_t error = ZK_NOT_READ_ONLY
    cdef status_t status = OK
    if not connection.is_read_only:
        command_clear(&door.desk.command)
        error = zk_command_make(request, &connection.speaker, connection.session, &root, door.limits.has_ttl,
                                &door.arena, &door.desk.command, &position)
    if error == ZK_OK and audit_blocks(door):
        error = ZK_SYSTEM_ERROR
    if error == ZK_OK:
        _fence(door, connection, key)
        door.desk.command.pointer = connection.last_sequence if connection.last_sequence >= door.desk.lowest else 0
        status = command_submit(&door.desk, &connection.base, TASK_WRITE, frame, request.opcode == ZK_DELETE,
                                <DeskTask**>&task)
        if status == VALUE_TOO_LARGE or status == KEY_INVALID:
            error = ZK_BAD_ARGUMENTS
    if error != ZK_OK:
        return _task_of_read(door, connection, frame, TASK_READ, 0, error, position)
    if status != OK:
        connection_fail(&door.desk.base, &connection.base)
        return NULL
    door.counters.writes += 1
    connection.last_sequence = task.base.sequence
    return task


# A write behind a read that needs a read round is held back until that read was served: the round may end at a revision
# that shows the write. So is one behind many reads, whose answers are all made when the position stops.
cdef void _write(ZkDoor* door, ZkConnection* connection, const ZkRequest* request, const Bytes* frame) noexcept nogil:
    cdef ZkTask* task
    if connection.rounds != 0 or connection.held != 0 or connection.reads >= TUNE_READS_PASSED:
        task = _task_of_read(door, connection, frame, TASK_WRITE, 0, ZK_OK, 0)
        if task != NULL:
            connection.held += 1
            _queue(connection, task)
        return
    task = _make_write(door, connection, request, frame)
    if task != NULL:
        _queue(connection, task)
        requests_go(door, connection)


# Submit the writes that were held back, up to the next read that needs a round, or up to many reads.
cdef void _release(ZkDoor* door, ZkConnection* connection) noexcept nogil:
    cdef ZkTask** at = &connection.first
    cdef ZkTask* held
    cdef ZkTask* task
    cdef ZkRequest request
    cdef Bytes frame
    cdef uint32_t passed = 0
    while at[0] != NULL and connection.held != 0:
        held = at[0]
        if held.base.kind != TASK_WRITE:
            passed += 1
            if held.base.round != 0 or passed >= TUNE_READS_PASSED:
                return
        elif held.base.stage == STAGE_WAITS:
            frame = bytes_of(task_frame(&door.desk, &held.base), held.base.frame_length)
            if zk_request_decode(frame.data, frame.length, &request) != OK:
                connection_fail(&door.desk.base, &connection.base)
                return
            task = _make_write(door, connection, &request, &frame)
            if task == NULL:
                return
            task.base.begun_ns = held.base.begun_ns
            task.next = held.next
            at[0] = task
            if connection.last == held:
                connection.last = task
            connection.held -= 1
            _count(connection, task, 1)
            connection.task_bytes += task.base.payload_length
            task_free(&door.desk, &held.base)
        at = &at[0].next


# False: not yet.
cdef bint _answer_write(ZkDoor* door, ZkConnection* connection, ZkTask* task) noexcept nogil:
    cdef size_t before = connection.base.out.size
    cdef ZkRequest request
    cdef uint64_t revision = 0
    cdef status_t status = task.base.ticket.status
    if task.base.ticket.revision > door.position:
        return False
    if zk_request_decode(task_frame(&door.desk, &task.base), task.base.frame_length, &request) != OK:
        connection_fail(&door.desk.base, &connection.base)
        return True
    if status == FENCED:
        # Its client has come back by another connection.
        if _refuse(door, connection, &request, ZK_SESSION_MOVED, 0):
            connection_appended(door, connection)
        connection.base.has_ended = True
        connection_end(&door.desk.base, &connection.base)
        return True
    if task.base.ticket.length == 0 or zk_reply_result(&request, task.base.ticket.body, task.base.ticket.length,
                                                       door.position, &revision, &connection.base.out) != OK:
        # Nobody knows whether it was carried out, or it certainly was not.
        connection_fail(&door.desk.base, &connection.base)
        return True
    _answered(door, connection, &request, task.base.begun_ns, before)
    return True


# --- the end of a session ---------------------------------------------------------------------------------------------
# True: it was answered, or the connection is closed.
cdef bint _close(ZkDoor* door, ZkConnection* connection, ZkTask* task) noexcept nogil:
    cdef ZkRequest request
    if connection.is_read_only or (task.base.stage == STAGE_DONE
                                   and task.base.ticket.status in (OK, LEASE_EXPIRED, FENCED)):
        if task.base.stage == STAGE_DONE and task.base.ticket.revision > door.position:
            return False
        if zk_request_decode(task_frame(&door.desk, &task.base), task.base.frame_length, &request) == OK:
            zk_reply(&connection.base.out, request.xid, door.position, ZK_OK)
        audit_session(door, connection, AUDIT_SESSION_CLOSE)
        connection_appended(door, connection)
        connection_end(&door.desk.base, &connection.base)
        return True
    if task.base.stage == STAGE_DONE:
        connection_fail(&door.desk.base, &connection.base)
        return True
    return False


cdef void _submit_close(ZkDoor* door, ZkConnection* connection, ZkTask* task) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX] key
    cdef Bytes frame = bytes_of(task_frame(&door.desk, &task.base), task.base.frame_length)
    cdef ZkTask* sent = NULL
    command_clear(&door.desk.command)
    door.desk.command.kind = COMMAND_LEASE_REVOKE
    door.desk.command.id = connection.session
    _fence(door, connection, key)
    if command_submit(&door.desk, &connection.base, TASK_CLOSE, &frame, True, <DeskTask**>&sent) != OK:
        connection_fail(&door.desk.base, &connection.base)
        return
    # The task with the command takes the place of the one that waited, which is the last: nothing is read behind it.
    connection.first = connection.last = sent
    connection.task_bytes += sent.base.payload_length
    task_free(&door.desk, &task.base)


# --- the queue --------------------------------------------------------------------------------------------------------
cdef void _send_again(ZkDoor* door, ZkConnection* connection, ZkTask* task) noexcept nogil:
    if door.desk.base.now_ns < task.retry_ns:
        door.desk.has_pause = True
        connection_wait(&door.desk.base, &connection.base)
    elif task_submit_command(&door.desk, &task.base) != OK:
        connection_fail(&door.desk.base, &connection.base)


# The first request: True if it was answered.
cdef bint _go(ZkDoor* door, ZkConnection* connection, ZkTask* task) noexcept nogil:
    cdef ZkRequest request
    cdef size_t before
    if task.base.kind == TASK_WRITE:
        if task.base.stage == STAGE_WAITS:
            return False            # it could not be submitted: the connection has failed
        if task.base.stage == STAGE_AGAIN:
            _send_again(door, connection, task)
            return False
        if task.base.stage != STAGE_DONE:
            return False
        if _answer_write(door, connection, task):
            return True
        connection_wait(&door.desk.base, &connection.base)
        return False
    if task.base.kind == TASK_CLOSE:
        if _close(door, connection, task):
            return True
        if task.base.stage == STAGE_WAITS:
            _submit_close(door, connection, task)
        elif task.base.stage == STAGE_DONE:
            connection_wait(&door.desk.base, &connection.base)
        return False
    if task.base.round != 0 and not round_is_done(&door.desk, task.base.round, door.position):
        connection_wait(&door.desk.base, &connection.base)
        return False
    if zk_request_decode(task_frame(&door.desk, &task.base), task.base.frame_length, &request) != OK:
        connection_fail(&door.desk.base, &connection.base)
        return True
    if task.error != ZK_OK:
        before = connection.base.out.size
        if _refuse(door, connection, &request, task.error, task.position):
            _answered(door, connection, &request, task.base.begun_ns, before)
        else:
            connection_fail(&door.desk.base, &connection.base)
        return True
    if _serve(door, connection, &request, task.base.begun_ns):
        return True
    connection_wait(&door.desk.base, &connection.base)
    return False


# The first request was answered.
cdef void _pop(ZkDoor* door, ZkConnection* connection) noexcept nogil:
    cdef ZkTask* task = connection.first
    connection.first = task.next
    if connection.first == NULL:
        connection.last = NULL
    _count(connection, task, -1)
    connection.task_count -= 1
    connection.task_bytes -= task.base.frame_length + task.base.payload_length
    task_free(&door.desk, &task.base)


cdef void requests_before(ZkDoor* door, ZkConnection* connection, uint64_t revision) noexcept nogil:
    cdef ZkTask* task
    while connection.base.state == CONNECTION_OPEN and connection.first != NULL:
        task = connection.first
        if task.base.kind == TASK_WRITE and (task.base.stage != STAGE_DONE or task.base.ticket.revision >= revision):
            return
        if not _go(door, connection, task):
            connection_fail(&door.desk.base, &connection.base)       # history no longer shows what the read must show
            return
        _pop(door, connection)


cdef void requests_go(ZkDoor* door, ZkConnection* connection) noexcept nogil:
    cdef ZkTask* task
    while connection.base.state == CONNECTION_OPEN and connection.first != NULL:
        if not connection_may_answer(door, connection):
            if not connection_is_full(connection):
                connection_wait(&door.desk.base, &connection.base)      # others hold the room, and have to give it
            return              # it goes on when its socket has taken more
        if door.desk.base.turn_bytes >= TUNE_TURN_BYTES:
            connection_next_turn(&door.desk.base, &connection.base)
            return
        if connection.held != 0:
            _release(door, connection)
        task = connection.first
        if not _go(door, connection, task):
            return
        _pop(door, connection)


# Tickets come in the order of their revisions, but for those of writes that are sent again.
cdef bint _add_stop(ZkDoor* door, const ZkTask* task) noexcept nogil:
    cdef ZkStop stop
    cdef size_t at = door.stops.size
    stop.revision = task.base.ticket.revision
    stop.place = task.base.place
    stop.generation = task.base.generation
    if not door.stops.push(stop):
        return False
    while at > 0 and door.stops.data[at - 1].revision > stop.revision:
        door.stops.data[at] = door.stops.data[at - 1]
        at -= 1
    door.stops.data[at] = stop
    return True


cdef void requests_done(ZkDoor* door, ZkTask* task) noexcept nogil:
    cdef ZkConnection* connection = <ZkConnection*>connection_at(&door.desk.base, task.base.place, task.base.generation)
    cdef status_t status = task.base.ticket.status
    if status == SESSION_UNKNOWN and task.base.session == door.desk.session:
        desk_session_lost(&door.desk)
    if connection == NULL or connection.base.state != CONNECTION_OPEN:
        sequence_done(&door.desk, &task.base)
        if connection == NULL:
            task_free(&door.desk, &task.base)
        return
    if task.is_behind_read and task.base.ticket.revision > door.position and not _add_stop(door, task):
        connection_fail(&door.desk.base, &connection.base)
        return
    if task.base.kind == TASK_WRITE and (status == OUT_OF_ORDER or status == OVERLOADED):
        door.counters.sent_again += 1
        task.base.stage = STAGE_AGAIN
        task.retry_ns = door.desk.base.now_ns + TUNE_AGAIN_NS if status == OVERLOADED else 0
        task_drop_ticket(&task.base)
    else:
        sequence_done(&door.desk, &task.base)
    requests_go(door, connection)


cdef void requests_drop(ZkDoor* door, ZkConnection* connection) noexcept nogil:
    cdef ZkTask* task
    cdef ZkRequest request
    while connection.first != NULL:
        task = connection.first
        connection.first = task.next
        task.next = NULL
        if (door.desk.base.audit != NULL and task.base.kind == TASK_WRITE
                and task.base.stage in (STAGE_UNDER_WAY, STAGE_DONE)
                and zk_request_decode(task_frame(&door.desk, &task.base), task.base.frame_length, &request) == OK):
            audit_left(door, connection, &request)
        if task.base.stage == STAGE_UNDER_WAY:
            continue            # it is freed when its ticket is back
        sequence_done(&door.desk, &task.base)
        task_free(&door.desk, &task.base)
    connection.last = NULL
    connection.reads = connection.rounds = connection.held = 0
    connection.task_count = 0
    connection.task_bytes = 0


# --- taking -----------------------------------------------------------------------------------------------------------
# It is told so in its turn, and nothing else is done.
cdef void _throttle(ZkDoor* door, ZkConnection* connection, const ZkRequest* request,
                    const Bytes* frame) noexcept nogil:
    cdef ZkTask* task
    if request.opcode in (ZK_SET_WATCHES, ZK_SET_WATCHES2):
        connection_fail(&door.desk.base, &connection.base)
        return
    task = _task_of_read(door, connection, frame, TASK_READ, 0, ZK_THROTTLED, 0)
    if task != NULL:
        _queue(connection, task)
        requests_go(door, connection)


cdef status_t requests_take(ZkDoor* door, ZkConnection* connection, const uint8_t* body,
                            uint32_t length) noexcept nogil:
    cdef ZkRequest request
    cdef Bytes frame = bytes_of(body, length)
    cdef uint64_t round = 0
    cdef status_t status = zk_request_decode(body, length, &request)
    if status != OK:
        return status
    connection.traffic.received += 1
    door.traffic.received += 1
    door.counters.requests += 1
    if request.error != ZK_OK and request.opcode in (ZK_AUTH, ZK_SASL):
        return BAD_LENGTH
    if quotas_request(door, connection, &request, length) != ZK_OK:
        _throttle(door, connection, &request, &frame)
        return OK
    if request.error == ZK_OK and request.opcode == ZK_AUTH:
        _auth(door, connection, &request)
        return OK
    if request.error == ZK_OK and request.opcode == ZK_SASL:
        _sasl(door, connection, &request)
        return OK
    if request.error == ZK_OK and request.row.traits & ZK_IS_WRITE:
        _write(door, connection, &request, &frame)
        return OK
    if request.opcode == ZK_CLOSE_SESSION:
        connection.base.has_ended = True
        _queue_read(door, connection, &frame, TASK_CLOSE, 0)
        return OK
    if not connection.is_read_only and request.error == ZK_OK and (
            request.opcode == ZK_SYNC or (door.limits.reads_linearizable and request.row.traits & ZK_IS_READ)):
        round = round_ask(&door.desk)
    if round == 0 and connection.first == NULL and _serve(door, connection, &request, door.desk.base.now_ns):
        return OK
    _queue_read(door, connection, &frame, TASK_READ, round)
    return OK
