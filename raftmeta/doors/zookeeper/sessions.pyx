"""ZooKeeper sessions: bodies.

Sources: ZooKeeper 3.9 ZooKeeperServer.java processConnectRequest, reopenSession, revalidateSession; what unmodified
clients rely on.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from raftmeta.connections.accounts cimport holding_renew
from raftmeta.connections.connections cimport (connection_end, connection_fail, connection_next_turn, connection_prove,
                                               connection_wait)
from raftmeta.connections.state cimport CONNECTION_CONNECTING, CONNECTION_OPEN
from raftmeta.doors.desk.desk cimport desk_pin
from raftmeta.doors.desk.rounds cimport round_ask, round_is_done
from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.desk.tasks cimport command_submit, random_bytes
from raftmeta.doors.zookeeper.access cimport access_allows
from raftmeta.doors.zookeeper.audit cimport audit_refused, audit_session
from raftmeta.doors.zookeeper.codec cimport ZK_PASSWORD_BYTES, zk_connected_encode
from raftmeta.doors.zookeeper.output cimport connection_appended
from raftmeta.doors.zookeeper.quotas cimport quotas_grant, quotas_session_ended
from raftmeta.doors.zookeeper.session_keys cimport (FORMAT_SESSION_VALUE_BYTES, SessionValue, session_enter,
                                                    session_find, session_is_password, session_key, session_leave,
                                                    session_value)
from raftmeta.doors.zookeeper.state cimport (STEP_BEGIN, STEP_CLAIM, STEP_GRANT, STEP_KEY, STEP_LOOK, STEP_REACH,
                                             STEP_RENEW, TASK_CONNECT, TASK_KEEP_ALIVE)
from raftmeta.native.threads cimport wall_now_ms
from raftmeta.security.audit_queue cimport AUDIT_SESSION_OPEN
from raftmeta.status cimport ID_CONFLICT, LEASE_EXPIRED, OK, PERMISSION_DENIED, QUOTA_EXCEEDED, status_t
from raftmeta.wire.commands cimport (COMMAND_KEYS, COMMAND_LEASE_GRANT, COMMAND_LEASE_KEEP_ALIVE,
                                     COMPARE_CREATE_REVISION, COMPARE_EQUAL, KEY_BYTES_MAX, LEASES_MAX, OP_CREATE,
                                     OP_DELETE, Bytes, Compare, LeaseItem, Op, Txn, command_clear)
from raftmeta.wire.msgpack cimport (Reader, number_max, read_array, read_array_max, read_bool, read_uint,
                                    reader_over)

cdef enum:
    TICKS_MIN = 2               # ZooKeeper's minSessionTimeout and maxSessionTimeout, in ticks
    TICKS_MAX = 20
    KEEP_ALIVES_PER_TICK = 4
    RESULT_ELEMENTS = 3         # docs/formats.md "Results"
    RESULT_STATUS_MAX = 63

cdef const char* NOTE = b"zookeeper session"


# --- the answer -------------------------------------------------------------------------------------------------------
cdef void _answer(ZkDoor* door, ZkConnection* connection) noexcept nogil:
    if zk_connected_encode(&connection.connect, <int32_t>connection.timeout_ms, connection.session,
                           connection.password, connection.is_read_only, &connection.base.out) != OK:
        connection_fail(&door.desk.base, &connection.base)
        return
    connection.base.state = CONNECTION_OPEN
    connection.told_ns = 0
    connection.since_ms = <int64_t>wall_now_ms()
    audit_session(door, connection, AUDIT_SESSION_OPEN)
    connection_prove(&door.desk.base, &connection.base)
    connection_appended(door, connection)
    connection_next_turn(&door.desk.base, &connection.base)      # what the client has sent behind its connect request


# The session is gone, or its password is wrong: nobody is told which.
cdef void _say_ended(ZkDoor* door, ZkConnection* connection) noexcept nogil:
    memset(connection.password, 0, ZK_PASSWORD_BYTES)
    connection.session = 0
    if zk_connected_encode(&connection.connect, 0, 0, connection.password, False, &connection.base.out) != OK:
        connection_fail(&door.desk.base, &connection.base)
        return
    connection_appended(door, connection)
    connection_end(&door.desk.base, &connection.base)


# --- steps ------------------------------------------------------------------------------------------------------------
cdef void _submit(ZkDoor* door, ZkConnection* connection, uint8_t step) noexcept nogil:
    connection.step = step
    if command_submit(&door.desk, &connection.base, TASK_CONNECT, NULL, True, NULL) != OK:
        connection_fail(&door.desk.base, &connection.base)


# Only sessions of the cluster have this bit in their number. Nothing hangs on others: a minority made them up.
cdef inline uint64_t _mark_of_cluster() noexcept nogil:
    return <uint64_t>1 << 62


cdef void _grant(ZkDoor* door, ZkConnection* connection) noexcept nogil:
    if not random_bytes(&connection.session, sizeof(uint64_t)) or not random_bytes(connection.password,
                                                                                   ZK_PASSWORD_BYTES):
        connection_fail(&door.desk.base, &connection.base)
        return
    # Clients read it as a signed number, and some of them take a negative one for an error.
    connection.session &= ~(<uint64_t>1 << 63)
    connection.session |= _mark_of_cluster()    # never 0, and never as small as a number that a person chose
    if not quotas_grant(door, connection, connection.timeout_ms + <uint32_t>door.limits.tick_ms):
        audit_refused(door, connection, QUOTA_EXCEEDED)
        connection_fail(&door.desk.base, &connection.base)
        return
    command_clear(&door.desk.command)
    door.desk.command.kind = COMMAND_LEASE_GRANT
    door.desk.command.id = connection.session
    # A tick more than the client was told, as ZooKeeper rounds up. Without it a session could end early: 1. a
    # keep-alive goes; 2. the client speaks; 3. its connection, or this node, is gone before the next keep-alive goes;
    # 4. the time-out is counted from step 1.
    door.desk.command.ttl_ms = connection.timeout_ms + <uint32_t>door.limits.tick_ms
    door.desk.command.data = bytes_of(<const uint8_t*>NOTE, 17)
    _submit(door, connection, STEP_GRANT)


# The key of its session: made, or made anew if it still has this create revision.
cdef void _make_key(ZkDoor* door, ZkConnection* connection, uint64_t seen) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX] bytes
    cdef SessionValue value
    cdef Bytes key = bytes_of(bytes, session_key(door, connection.session, bytes))
    cdef Compare compare
    cdef Txn txn
    cdef Op op
    cdef bint has_room = True
    session_value(connection.password, connection.timeout_ms, &value)
    command_clear(&door.desk.command)
    door.desk.command.kind = COMMAND_KEYS
    memset(&txn, 0, sizeof(Txn))
    memset(&op, 0, sizeof(Op))
    op.key = key
    if seen != 0:
        memset(&compare, 0, sizeof(Compare))
        compare.target = COMPARE_CREATE_REVISION
        compare.result = COMPARE_EQUAL
        compare.key = key
        compare.number = seen
        txn.compare_count = 1
        op.kind = OP_DELETE
        has_room = door.desk.command.compares.push(compare) and door.desk.command.ops.push(op)
    op.kind = OP_CREATE
    op.value = bytes_of(<const uint8_t*>&value, FORMAT_SESSION_VALUE_BYTES)
    op.lease = connection.session
    txn.then_count = 2 if seen != 0 else 1
    txn.else_first = txn.then_count
    if not has_room or not door.desk.command.ops.push(op) or not door.desk.command.txns.push(txn):
        connection_fail(&door.desk.base, &connection.base)
        return
    _submit(door, connection, STEP_CLAIM if seen != 0 else STEP_KEY)


# A connection that breaks may have been the end of a long silence: the lease could end right behind the answer.
cdef void _renew(ZkDoor* door, ZkConnection* connection) noexcept nogil:
    cdef LeaseItem item
    command_clear(&door.desk.command)
    door.desk.command.kind = COMMAND_LEASE_KEEP_ALIVE
    memset(&item, 0, sizeof(LeaseItem))
    item.lease = connection.session
    if door.desk.command.leases.push(item):
        _submit(door, connection, STEP_RENEW)
    else:
        connection_fail(&door.desk.base, &connection.base)


cdef void _look(ZkDoor* door, ZkConnection* connection) noexcept nogil:
    cdef SessionValue value
    cdef uint64_t create_revision = 0
    if not round_is_done(&door.desk, connection.round, door.position) or not desk_pin(&door.desk, door.position):
        connection_wait(&door.desk.base, &connection.base)
        return
    if (not session_find(door, connection.session, &value, &create_revision)
            or not session_is_password(&value, connection.password)):
        _say_ended(door, connection)
        return
    connection.timeout_ms = value.timeout_ms
    if session_enter(door, connection):
        _make_key(door, connection, create_revision)
    else:
        connection_fail(&door.desk.base, &connection.base)


# A client that has seen more than this node waits until this node has seen as much; one that has seen more than the
# cluster comes from another one.
cdef void _reach(ZkDoor* door, ZkConnection* connection) noexcept nogil:
    if door.position < connection.connect.zxid or door.position < connection.fence:
        if connection.round == 0:
            connection.round = round_ask(&door.desk)
        elif round_is_done(&door.desk, connection.round, door.position) and door.position >= connection.fence:
            door.desk.base.counters.refused += 1
            connection_fail(&door.desk.base, &connection.base)
            return
        connection_wait(&door.desk.base, &connection.base)
        return
    if connection.claimed > connection.fence:
        connection_fail(&door.desk.base, &connection.base)       # yet another connection has it by now
        return
    _answer(door, connection)


# The cluster has no leader that this node knows of: what a client that is content with it may have. A session of the
# cluster is shown as this node knows it. ZooKeeper turns it away here ("Refusing global session reconnection").
cdef void _serve_read_only(ZkDoor* door, ZkConnection* connection) noexcept nogil:
    cdef SessionValue value
    cdef uint64_t create_revision = 0
    cdef bint is_welcome = door.position >= connection.connect.zxid     # never shown less than it saw elsewhere
    if is_welcome and connection.session & _mark_of_cluster():
        if not desk_pin(&door.desk, door.position):
            connection_wait(&door.desk.base, &connection.base)
            return
        is_welcome = (session_find(door, connection.session, &value, &create_revision)
                      and session_is_password(&value, connection.password))
        if is_welcome:
            connection.timeout_ms = value.timeout_ms
    elif is_welcome and connection.session == 0:
        is_welcome = (random_bytes(&connection.session, sizeof(uint64_t))
                      and random_bytes(connection.password, ZK_PASSWORD_BYTES))
        connection.session = connection.session & (_mark_of_cluster() - 1) | 1
    if not is_welcome:
        door.desk.base.counters.refused += 1
        connection_fail(&door.desk.base, &connection.base)       # its client tries another node
        return
    connection.is_read_only = True
    _answer(door, connection)


cdef void _begin(ZkDoor* door, ZkConnection* connection) noexcept nogil:
    if door.is_minority:
        if connection.connect.is_read_only and door.desk.watch != NULL and access_allows(door, connection):
            _serve_read_only(door, connection)
        else:
            connection_fail(&door.desk.base, &connection.base)   # its client tries another node
        return
    if door.is_serving and not access_allows(door, connection):
        door.desk.base.counters.refused += 1
        audit_refused(door, connection, PERMISSION_DENIED)
        connection_fail(&door.desk.base, &connection.base)
        return
    if not door.is_serving:
        connection_wait(&door.desk.base, &connection.base)
        return
    if connection.session == 0:
        _grant(door, connection)
        return
    connection.step = STEP_LOOK
    connection.round = round_ask(&door.desk)
    connection_wait(&door.desk.base, &connection.base)


cdef void sessions_go(ZkDoor* door, ZkConnection* connection) noexcept nogil:
    if connection.step == STEP_BEGIN:
        _begin(door, connection)
    elif connection.step == STEP_LOOK:
        _look(door, connection)
    elif connection.step == STEP_REACH:
        _reach(door, connection)


cdef void sessions_connect(ZkDoor* door, ZkConnection* connection, const ZkConnect* connect) noexcept nogil:
    cdef int32_t least = <int32_t>(TICKS_MIN * door.limits.tick_ms)
    cdef int32_t most = <int32_t>(TICKS_MAX * door.limits.tick_ms)
    connection.connect = connect[0]
    connection.base.state = CONNECTION_CONNECTING
    connection.step = STEP_BEGIN
    connection.timeout_ms = <uint32_t>min(max(connect.timeout_ms, least), most)
    connection.session = connect.session
    memset(connection.password, 0, ZK_PASSWORD_BYTES)
    if connect.password.length == ZK_PASSWORD_BYTES:
        memcpy(connection.password, connect.password.data, ZK_PASSWORD_BYTES)
    connection.connect.password = bytes_of(NULL, 0)     # the frame goes away
    sessions_go(door, connection)


# --- answers of the loop ----------------------------------------------------------------------------------------------
# Whether a transaction took its first branch.
cdef bint _has_succeeded(const ZkTask* task) noexcept nogil:
    cdef Reader reader = reader_over(task.base.ticket.body, task.base.ticket.length)
    cdef bint succeeded
    read_array_max(&reader, RESULT_ELEMENTS)
    read_uint(&reader, RESULT_STATUS_MAX)
    read_uint(&reader, number_max())
    read_array_max(&reader, 2)
    succeeded = read_bool(&reader)
    return reader.status == OK and succeeded


cdef void _claimed(ZkDoor* door, ZkConnection* connection, const ZkTask* task) noexcept nogil:
    if not _has_succeeded(task):            # another connection was faster, or the session has ended meanwhile
        connection.step = STEP_LOOK
        connection.round = round_ask(&door.desk)
        connection_wait(&door.desk.base, &connection.base)
        return
    connection.fence = task.base.ticket.revision
    door.counters.sessions_moved += connection.step == STEP_CLAIM
    door.counters.sessions_opened += connection.step == STEP_KEY
    if connection.step == STEP_CLAIM:
        _renew(door, connection)
        return
    connection.step = STEP_REACH
    sessions_go(door, connection)


# The result has the time to live of each lease, and 0 of one that is gone.
cdef void _renewed(ZkDoor* door, ZkConnection* connection, const ZkTask* task) noexcept nogil:
    cdef Reader reader = reader_over(task.base.ticket.body, task.base.ticket.length)
    cdef uint64_t ttl_ms
    read_array_max(&reader, RESULT_ELEMENTS)
    read_uint(&reader, RESULT_STATUS_MAX)
    read_uint(&reader, number_max())
    read_array(&reader, 1)
    ttl_ms = read_uint(&reader, number_max())
    if reader.status != OK:
        connection_fail(&door.desk.base, &connection.base)
    elif ttl_ms == 0:
        _say_ended(door, connection)
    else:
        connection.step = STEP_REACH
        sessions_go(door, connection)


cdef void sessions_done(ZkDoor* door, ZkConnection* connection, const ZkTask* task) noexcept nogil:
    cdef status_t status = task.base.ticket.status
    if connection.base.state != CONNECTION_CONNECTING:
        return
    if status == ID_CONFLICT and connection.step == STEP_GRANT:
        quotas_session_ended(door, connection.session)
        _grant(door, connection)
    elif status == LEASE_EXPIRED and connection.step == STEP_CLAIM:
        _say_ended(door, connection)
    elif status != OK:
        connection_fail(&door.desk.base, &connection.base)
    elif connection.step == STEP_RENEW:
        _renewed(door, connection, task)
    elif connection.step != STEP_GRANT:
        _claimed(door, connection, task)
    elif session_enter(door, connection):
        _make_key(door, connection, 0)
    else:
        connection_fail(&door.desk.base, &connection.base)


# --- keep-alives ------------------------------------------------------------------------------------------------------
cdef status_t _send(ZkDoor* door) noexcept nogil:
    cdef status_t status = command_submit(&door.desk, NULL, TASK_KEEP_ALIVE, NULL, True, NULL)
    door.keep_alives += status == OK
    return status


# One more session in the command, which is sent when it is full. False: it could not be sent.
cdef bint _add(ZkDoor* door, uint64_t session) noexcept nogil:
    cdef LeaseItem item
    memset(&item, 0, sizeof(LeaseItem))
    item.lease = session
    if not door.desk.command.leases.push(item):
        return False
    holding_renew(&door.desk.base.holdings.leases, session, door.desk.base.now_ns)
    if door.desk.command.leases.size == LEASES_MAX:
        if _send(door) != OK:
            return False
        door.desk.command.leases.clear()
    return True


# Since its session was kept alive last.
cdef inline bint _is_heard(const ZkConnection* connection) noexcept nogil:
    return connection.base.heard_ns != connection.told_ns


cdef bint _add_all(ZkDoor* door) noexcept nogil:
    cdef ZkConnection* connection
    cdef uint32_t place
    cdef size_t i
    for i in range(door.heard.size):
        if not _add(door, door.heard.data[i]):
            return False
    for place in range(door.desk.base.limits.connections_max):
        connection = &door.connections[place]
        if connection.base.state != CONNECTION_OPEN or not _is_heard(connection) or connection.is_read_only:
            continue
        if not _add(door, connection.session):
            return False
        connection.told_ns = connection.base.heard_ns
    return True


cdef void sessions_keep_alive(ZkDoor* door) noexcept nogil:
    if door.is_minority:
        door.heard.clear()          # words that are old by the time there is a leader again
    if door.desk.base.now_ns < door.keep_alive_ns or door.keep_alives != 0 or door.desk.session == 0:
        return
    door.keep_alive_ns = door.desk.base.now_ns + <uint64_t>door.limits.tick_ms * 1_000_000 // KEEP_ALIVES_PER_TICK
    command_clear(&door.desk.command)
    door.desk.command.kind = COMMAND_LEASE_KEEP_ALIVE
    if _add_all(door) and door.desk.command.leases.size != 0:
        _send(door)
    door.heard.clear()


cdef void sessions_leave(ZkDoor* door, ZkConnection* connection) noexcept nogil:
    # Only a connection with a fence has proved that the session is its own. Without memory the word does not count.
    if connection.fence != 0 and _is_heard(connection) and not connection.base.has_ended:
        door.heard.push(connection.session)
    session_leave(door, connection)
