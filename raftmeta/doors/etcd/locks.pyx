"""Locks and elections of etcd: bodies.

Why two never hold a lock: keys of one name have different create revisions. A caller is answered when a state behind a
read round shows its own key, and no key of the name with a lesser create revision. Such a key cannot appear later.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free
from libc.string cimport memset, strlen

from raftmeta.doors.desk.desk cimport desk_find
from raftmeta.doors.desk.rounds cimport round_ask
from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.desk.tasks cimport command_submit
from raftmeta.doors.etcd.access cimport access_allows
from raftmeta.doors.etcd.calls cimport (call_answer, call_command, call_end, call_fail, call_header, call_pin,
                                        call_reply, call_rest, call_send, call_wait, revision_told, task_result)
from raftmeta.doors.etcd.feeds cimport feed_again, feed_create, feed_drop
from raftmeta.doors.etcd.keys cimport key_record, key_value_put
from raftmeta.doors.etcd.protobuf cimport (PbReader, pb_begin, pb_end, pb_next, pb_put_bytes, pb_put_uint, pb_reader)
from raftmeta.doors.etcd.state cimport (CODE_INVALID_ARGUMENT, CODE_NOT_FOUND, CODE_UNKNOWN, FEED_FAILED, FEED_OPEN,
                                        TASK_LOOSE, EtcdFeed, KeyRecord)
from raftmeta.machine.entry cimport (ENTRY_TOMBSTONE, Entry, entry_data_length, entry_key, entry_value)
from raftmeta.machine.plan cimport compare_bytes
from raftmeta.machine.rights_state cimport RIGHT_LEASE, RIGHT_READ, RIGHT_WATCH, RIGHT_WRITE
from raftmeta.machine.tree cimport Cursor, cursor_next, cursor_seek, root_revision
from raftmeta.machine.watches cimport (WATCH_CLOSED, WATCH_EVENTS, WATCH_NO_PUT, WATCH_PROGRESS_MARK, WATCH_REMOVED,
                                       WatchView, watch_look, watch_pass)
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport LEASE_EXPIRED, OK, OVERLOADED, status_t
from raftmeta.wire.commands cimport (COMMAND_KEYS, COMMAND_LEASE_GRANT, COMPARE_CREATE_REVISION, COMPARE_EQUAL,
                                     KEY_BYTES_MAX, OP_DELETE, OP_GET, OP_PUT, Compare, Op, Txn, command_clear)
from raftmeta.wire.msgpack cimport Reader, read_array_max, read_bool, read_uint, unsigned_max

cdef enum:
    SESSION_TTL_MS = 60_000         # of a lease that a request does not name
    HEX_BYTES = 20                  # a lease in a key
    ELEMENTS_MAX = 16

cdef enum QueueStep:
    STEP_GRANT = 0
    STEP_JOIN = 1
    STEP_PROCLAIM = 2               # a campaign that goes on, with another value
    STEP_WAIT = 3                   # somebody is before it
    STEP_LOOK = 4                   # behind a read round it is seen who is first

# EtcdCall.data of one that waits, or that observes. The bytes stand in EtcdCall.kept: prefix, rest of the key, value.
cdef struct Queue:
    EtcdFeed* feed
    uint64_t lease
    uint64_t created                # create revision of its key; of one that observes: of the leader's
    uint64_t told                   # of one that observes: mod revision of the leader that was told last
    uint32_t prefix_length          # the name with a slash
    uint32_t key_length
    uint32_t value_length
    bint is_campaign
    bint has_joined

# The fields of requests. LeaderKey has the same fields as others, one message deeper.
cdef struct Asked:
    Bytes name
    Bytes key
    Bytes value
    uint64_t lease
    uint64_t revision               # of the node
    bint has_leader


# --- keys -------------------------------------------------------------------------------------------------------------
cdef Queue* _queue(const EtcdCall* call) noexcept nogil:
    return <Queue*>call.data


cdef Bytes _prefix(const EtcdCall* call) noexcept nogil:
    return bytes_of(call.kept.data, _queue(call).prefix_length)


cdef Bytes _key(const EtcdCall* call) noexcept nogil:
    return bytes_of(call.kept.data, _queue(call).key_length)


cdef Bytes _value(const EtcdCall* call) noexcept nogil:
    return bytes_of(call.kept.data + _queue(call).key_length, _queue(call).value_length)


# The name and a slash, as EtcdCall.kept begins. False: the call was ended.
cdef bint _keep_name(EtcdDoor* door, EtcdCall* call, const Bytes* name) noexcept nogil:
    cdef Queue* queue
    if name.length + 1 + HEX_BYTES > KEY_BYTES_MAX:
        call_end(door, call, CODE_INVALID_ARGUMENT, b"etcdserver: request is too large")
        return False
    queue = <Queue*>calloc(1, sizeof(Queue))
    call.data = queue
    if queue == NULL or not call.kept.append(name.data, name.length) or not call.kept.push(c'/'):
        call_fail(door, call, OVERLOADED)
        return False
    queue.prefix_length = call.part = <uint32_t>call.kept.size      # the audit trail tells so much of it
    return True


# Behind the prefix all keys of the name end with this one, because a slash comes before a zero.
cdef Bytes _prefix_end(const Bytes* prefix, uint8_t* room) noexcept nogil:
    cdef uint32_t i
    for i in range(prefix.length):
        room[i] = prefix.data[i]
    room[prefix.length - 1] += 1
    return bytes_of(room, prefix.length)


cdef bint _may(EtcdDoor* door, EtcdCall* call, uint8_t rights) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX] room
    cdef Bytes prefix = _prefix(call)
    cdef Bytes end = _prefix_end(&prefix, room)
    return access_allows(door, call, rights, &prefix, &end)


cdef bint _may_change(EtcdDoor* door, EtcdCall* call, const Bytes* key) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX + 1] room
    cdef Bytes end
    cdef uint32_t i
    if key.length == 0 or key.length > KEY_BYTES_MAX:
        call_end(door, call, CODE_INVALID_ARGUMENT, b"etcdserver: key is not provided")
        return False
    for i in range(key.length):
        room[i] = key.data[i]
    room[key.length] = 0
    end = bytes_of(room, key.length + 1)
    return access_allows(door, call, RIGHT_WRITE, key, &end)


# --- requests ---------------------------------------------------------------------------------------------------------
cdef uint64_t _revision_of(uint64_t told) noexcept nogil:
    return told - 1 if told else 0


cdef void _read_leader(const Bytes* message, Asked* asked) noexcept nogil:
    cdef PbReader reader = pb_reader(message)
    asked.has_leader = True
    while pb_next(&reader):
        if reader.field == 1:
            asked.name = reader.bytes
        elif reader.field == 2:
            asked.key = reader.bytes
        elif reader.field == 3:
            asked.revision = _revision_of(reader.number)
        elif reader.field == 4:
            asked.lease = reader.number


# Lock, Campaign and Leader: name, lease, value.
cdef void _read_named(const Bytes* message, Asked* asked) noexcept nogil:
    cdef PbReader reader = pb_reader(message)
    memset(asked, 0, sizeof(Asked))
    while pb_next(&reader):
        if reader.field == 1:
            asked.name = reader.bytes
        elif reader.field == 2:
            asked.lease = reader.number
        elif reader.field == 3:
            asked.value = reader.bytes


# Proclaim and Resign: a LeaderKey, a value.
cdef void _read_led(const Bytes* message, Asked* asked) noexcept nogil:
    cdef PbReader reader = pb_reader(message)
    memset(asked, 0, sizeof(Asked))
    while pb_next(&reader):
        if reader.field == 1:
            _read_leader(&reader.bytes, asked)
        elif reader.field == 2:
            asked.value = reader.bytes


# --- commands ---------------------------------------------------------------------------------------------------------
cdef Op _op(uint8_t kind, const Bytes* key) noexcept nogil:
    cdef Op op
    memset(&op, 0, sizeof(Op))
    op.kind = kind
    op.key = key[0]
    return op


# One change, if the key has this create revision; else `otherwise`, if it is not NULL. False: no memory.
cdef bint _prepare(EtcdDoor* door, const Bytes* key, uint64_t created, const Op* change,
                   const Op* otherwise) noexcept nogil:
    cdef Txn txn
    cdef Compare compare
    memset(&txn, 0, sizeof(Txn))
    memset(&compare, 0, sizeof(Compare))
    command_clear(&door.desk.command)
    door.desk.command.kind = COMMAND_KEYS
    compare.target = COMPARE_CREATE_REVISION
    compare.result = COMPARE_EQUAL
    compare.key = key[0]
    compare.number = created
    txn.compare_count = 1
    txn.then_count = 1
    txn.else_first = 1
    txn.else_count = 1 if otherwise != NULL else 0
    return (door.desk.command.txns.push(txn) and door.desk.command.compares.push(compare)
            and door.desk.command.ops.push(change[0])
            and (otherwise == NULL or door.desk.command.ops.push(otherwise[0])))


cdef void _submit(EtcdDoor* door, EtcdCall* call, bint is_prepared) noexcept nogil:
    cdef status_t status = OVERLOADED
    if not is_prepared or not call_command(door, call, 0, False, &status):
        call_fail(door, call, status)


cdef void _grant(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    call.step = STEP_GRANT
    command_clear(&door.desk.command)
    door.desk.command.kind = COMMAND_LEASE_GRANT
    door.desk.command.ttl_ms = SESSION_TTL_MS
    _submit(door, call, True)


# Its key is made, or it had one before.
cdef void _join(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    cdef Bytes key = _key(call)
    cdef Op put = _op(OP_PUT, &key)
    cdef Op get = _op(OP_GET, &key)
    call.step = STEP_JOIN
    put.value = _value(call)
    put.lease = _queue(call).lease
    _submit(door, call, _prepare(door, &key, 0, &put, &get))


cdef void _change_value(EtcdDoor* door, EtcdCall* call, const Bytes* key, const Bytes* value, uint64_t lease,
                        uint64_t created) noexcept nogil:
    cdef Op put = _op(OP_PUT, key)
    put.value = value[0]
    put.lease = lease
    _submit(door, call, _prepare(door, key, created, &put, NULL))


# --- who waits --------------------------------------------------------------------------------------------------------
# The rest of the key is the lease as etcd writes it, in hexadecimal digits.
cdef bint _keep_key(EtcdCall* call, const Bytes* value) noexcept nogil:
    cdef char[HEX_BYTES + 1] text
    cdef int64_t lease = <int64_t>_queue(call).lease
    cdef uint64_t size = _queue(call).lease if lease >= 0 else ~_queue(call).lease + 1
    snprintf(text, sizeof(text), b"%s%lx", b"-" if lease < 0 else b"", <unsigned long>size)
    if not call.kept.append(<const uint8_t*>text, strlen(text)):
        return False
    _queue(call).key_length = call.part = <uint32_t>call.kept.size
    _queue(call).value_length = value.length
    return value.length == 0 or call.kept.append(value.data, value.length)


cdef void _queue_up(EtcdDoor* door, EtcdCall* call, const Bytes* message, bint is_campaign) noexcept nogil:
    cdef Asked asked
    cdef Queue* queue
    if call.data != NULL:
        return                      # one request is all there may be
    _read_named(message, &asked)
    if not _keep_name(door, call, &asked.name):
        return
    queue = _queue(call)
    queue.is_campaign = is_campaign
    queue.lease = asked.lease
    if not _may(door, call, RIGHT_READ | RIGHT_WRITE) or not access_allows(door, call, RIGHT_LEASE, NULL, NULL):
        return
    if queue.lease == 0:
        # The value waits where the key will stand.
        queue.value_length = asked.value.length if is_campaign else 0
        if queue.value_length and not call.kept.append(asked.value.data, asked.value.length):
            call_fail(door, call, OVERLOADED)
            return
        _grant(door, call)
        return
    if not is_campaign:
        asked.value.length = 0
    if not _keep_key(call, &asked.value):
        call_fail(door, call, OVERLOADED)
        return
    _join(door, call)


cdef void lock_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil:
    _queue_up(door, call, message, False)


cdef void campaign_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil:
    _queue_up(door, call, message, True)


cdef void _granted(EtcdDoor* door, EtcdCall* call, Reader* reader) noexcept nogil:
    cdef Queue* queue = _queue(call)
    cdef Vec[uint8_t] value
    cdef Bytes bytes
    cdef bint is_kept
    memset(&value, 0, sizeof(value))
    queue.lease = read_uint(reader, unsigned_max())
    is_kept = value.append(call.kept.data + queue.prefix_length, queue.value_length)
    call.kept.size = queue.prefix_length
    bytes = bytes_of(value.data, <uint32_t>value.size)
    is_kept = is_kept and _keep_key(call, &bytes)
    value.release()
    if not is_kept:
        call_fail(door, call, OVERLOADED)
        return
    _join(door, call)


# Its key stands: from now on it waits behind those that were made before.
cdef void _wait(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    call.step = STEP_LOOK
    call.round = round_ask(&door.desk)
    call_wait(door, call)


cdef void _joined(EtcdDoor* door, EtcdCall* call, EtcdTask* task, Reader* reader) noexcept nogil:
    cdef Queue* queue = _queue(call)
    cdef KeyRecord record
    cdef Bytes key, value
    cdef bint is_new
    read_array_max(reader, ELEMENTS_MAX)
    is_new = read_bool(reader)
    read_array_max(reader, ELEMENTS_MAX)
    queue.created = task.base.ticket.revision
    queue.has_joined = True
    call.revision = task.base.ticket.revision
    if is_new:
        _wait(door, call)
        return
    if not key_record(reader, &record):
        call_fail(door, call, OVERLOADED)
        return
    queue.created = record.create_revision
    value = _value(call)
    if queue.is_campaign and compare_bytes(record.value.data, record.value.length, value.data, value.length) != 0:
        key = _key(call)
        call.step = STEP_PROCLAIM
        _change_value(door, call, &key, &value, queue.lease, queue.created)
        return
    _wait(door, call)


cdef void queue_answered(EtcdDoor* door, EtcdCall* call, EtcdTask* task) noexcept nogil:
    cdef Reader reader
    if task.base.ticket.status == LEASE_EXPIRED:
        # etcd's services for locks are clients of its own: an error of theirs has no code.
        call.status = LEASE_EXPIRED
        call_end(door, call, CODE_UNKNOWN, b"etcdserver: requested lease not found")
    elif task.base.ticket.status != OK or not task_result(task, &reader):
        call_fail(door, call, task.base.ticket.status)
    elif call.step == STEP_GRANT:
        _granted(door, call, &reader)
    elif call.step == STEP_JOIN:
        _joined(door, call, task, &reader)
    else:
        call.revision = task.base.ticket.revision
        _wait(door, call)


# --- who is first -----------------------------------------------------------------------------------------------------
# The entry of the prefix with the greatest create revision below this one, or, with `is_first`, the least. NULL: none.
cdef const Entry* _entry_before(EtcdDoor* door, const Bytes* prefix, uint64_t created, bint is_first) noexcept nogil:
    cdef const Entry* found = NULL
    cdef Cursor cursor
    cursor_seek(&cursor, door.desk.pinned, prefix.data, <uint16_t>prefix.length)
    while (cursor.entry != NULL and cursor.entry.key_length >= prefix.length
           and compare_bytes(entry_key(cursor.entry), prefix.length, prefix.data, prefix.length) == 0):
        if (not cursor.entry.flags & ENTRY_TOMBSTONE and cursor.entry.create_revision < created
                and (found == NULL or (found.create_revision > cursor.entry.create_revision) == is_first)):
            found = cursor.entry
        cursor_next(&cursor)
    return found


cdef void _woken(EtcdDoor* door, void* owner) noexcept nogil:
    call_wait(door, <EtcdCall*>owner)


cdef void _answer_first(EtcdDoor* door, EtcdCall* call, uint64_t revision) noexcept nogil:
    cdef Queue* queue = _queue(call)
    cdef Vec[uint8_t]* out = call_reply(door)
    cdef Bytes key = _key(call)
    cdef Bytes name = bytes_of(call.kept.data, queue.prefix_length - 1)
    cdef bint is_made = call_header(door, out, revision)
    cdef size_t start
    queue.has_joined = False        # from here on the key is the client's
    if not queue.is_campaign:
        call_answer(door, call, is_made and pb_put_bytes(out, 2, &key))
        return
    start = pb_begin(out, 2)
    call_answer(door, call, is_made and start != 0 and pb_put_bytes(out, 1, &name) and pb_put_bytes(out, 2, &key)
                and pb_put_uint(out, 3, revision_told(queue.created)) and pb_put_uint(out, 4, queue.lease)
                and pb_end(out, start))


cdef void _look(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    cdef Queue* queue = _queue(call)
    cdef uint8_t[KEY_BYTES_MAX + 1] room
    cdef Bytes prefix = _prefix(call)
    cdef Bytes key = _key(call)
    cdef const Entry* entry
    cdef Bytes end
    cdef uint32_t i
    if not call_pin(door, call):
        return
    entry = desk_find(&door.desk, &key)
    if entry == NULL or entry.create_revision != queue.created:
        if queue.is_campaign:
            call_end(door, call, CODE_NOT_FOUND, b"etcdserver: requested lease not found")
        else:
            call_end(door, call, CODE_UNKNOWN, b"mutex: session is expired")
        return
    entry = _entry_before(door, &prefix, queue.created, False)
    if entry == NULL:
        _answer_first(door, call, root_revision(door.desk.pinned))
        return
    key = bytes_of(entry_key(entry), entry.key_length)
    for i in range(key.length):
        room[i] = key.data[i]
    room[key.length] = 0
    end = bytes_of(room, key.length + 1)
    call.step = STEP_WAIT
    call_rest(call)
    feed_drop(door, queue.feed)
    queue.feed = feed_create(door, &key, &end, root_revision(door.desk.pinned) + 1, WATCH_NO_PUT, NULL, call, _woken)
    if queue.feed == NULL:
        call_fail(door, call, OVERLOADED)


cdef void queue_go(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    cdef Queue* queue = _queue(call)
    cdef WatchView view
    if queue == NULL or (call.step != STEP_LOOK and call.step != STEP_WAIT):
        call_rest(call)
        return
    if call.step == STEP_LOOK:
        _look(door, call)
        return
    call_rest(call)
    if queue.feed.state == FEED_FAILED:
        call_fail(door, call, OVERLOADED)
    elif queue.feed.state == FEED_OPEN and watch_look(queue.feed.watch, &view):
        # The one before has gone, or nothing is known of it any more.
        feed_drop(door, queue.feed)
        queue.feed = NULL
        _wait(door, call)


cdef void queue_half_closed(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    pass


# A client that leaves while it waits takes its key along, as etcd's does.
cdef void queue_closed(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    cdef Queue* queue = _queue(call)
    cdef Bytes key
    cdef Op delete
    if queue == NULL:
        return
    feed_drop(door, queue.feed)
    if queue.has_joined:
        key = _key(call)
        delete = _op(OP_DELETE, &key)
        if _prepare(door, &key, queue.created, &delete, NULL):
            command_submit(&door.desk, NULL, TASK_LOOSE, NULL, True, NULL)
    free(queue)
    call.data = NULL


# --- the rest of them -------------------------------------------------------------------------------------------------
cdef void unlock_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil:
    cdef PbReader reader = pb_reader(message)
    cdef Bytes key = bytes_of(NULL, 0)
    cdef Op delete
    cdef Txn txn
    while pb_next(&reader):
        if reader.field == 1:
            key = reader.bytes
    if not _may_change(door, call, &key):
        return
    delete = _op(OP_DELETE, &key)
    memset(&txn, 0, sizeof(Txn))
    txn.then_count = 1
    txn.else_first = 1
    command_clear(&door.desk.command)
    door.desk.command.kind = COMMAND_KEYS
    _submit(door, call, door.desk.command.txns.push(txn) and door.desk.command.ops.push(delete))


cdef bint _read_leading(EtcdDoor* door, EtcdCall* call, const Bytes* message, Asked* asked) noexcept nogil:
    _read_led(message, asked)
    if not asked.has_leader:
        call_end(door, call, CODE_UNKNOWN, b"\"leader\" field must be provided")
        return False
    return _may_change(door, call, &asked.key)


cdef void proclaim_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil:
    cdef Asked asked
    if _read_leading(door, call, message, &asked):
        _change_value(door, call, &asked.key, &asked.value, asked.lease, asked.revision)


cdef void resign_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil:
    cdef Asked asked
    cdef Op delete
    if _read_leading(door, call, message, &asked):
        delete = _op(OP_DELETE, &asked.key)
        _submit(door, call, _prepare(door, &asked.key, asked.revision, &delete, NULL))


cdef void plain_answered(EtcdDoor* door, EtcdCall* call, EtcdTask* task) noexcept nogil:
    if task.base.ticket.status != OK:
        call_fail(door, call, task.base.ticket.status)
        return
    call_answer(door, call, call_header(door, call_reply(door), task.base.ticket.revision))


cdef void proclaim_answered(EtcdDoor* door, EtcdCall* call, EtcdTask* task) noexcept nogil:
    cdef Reader reader
    if task.base.ticket.status == OK and task_result(task, &reader):
        read_array_max(&reader, ELEMENTS_MAX)
        if not read_bool(&reader):
            call_end(door, call, CODE_UNKNOWN, b"election: not leader")
            return
    plain_answered(door, call, task)


# --- who leads --------------------------------------------------------------------------------------------------------
cdef void leader_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil:
    cdef Asked asked
    _read_named(message, &asked)
    if not call.kept.append(asked.name.data, asked.name.length) or not call.kept.push(c'/'):
        call_fail(door, call, OVERLOADED)
        return
    if call.kept.size > KEY_BYTES_MAX:
        call_end(door, call, CODE_UNKNOWN, b"election: no leader")
        return
    if not _may_read(door, call, RIGHT_READ):
        return
    call.round = round_ask(&door.desk)
    call_wait(door, call)


cdef bint _may_read(EtcdDoor* door, EtcdCall* call, uint8_t rights) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX] room
    cdef Bytes prefix = bytes_of(call.kept.data, <uint32_t>call.kept.size)
    cdef Bytes end = _prefix_end(&prefix, room)
    return access_allows(door, call, rights, &prefix, &end)


cdef const Entry* _leader(EtcdDoor* door, const EtcdCall* call) noexcept nogil:
    cdef Bytes prefix = bytes_of(call.kept.data, <uint32_t>call.kept.size)
    return _entry_before(door, &prefix, unsigned_max(), True)


cdef bint _put_leader(EtcdDoor* door, const Entry* entry) noexcept nogil:
    cdef Vec[uint8_t]* out = call_reply(door)
    cdef KeyRecord record
    record.key = bytes_of(entry_key(entry), entry.key_length)
    record.value = bytes_of(entry_value(entry), entry_data_length(entry))
    record.create_revision = entry.create_revision
    record.mod_revision = entry.mod_revision
    record.version = entry.version
    record.lease = entry.lease
    return call_header(door, out, root_revision(door.desk.pinned)) and key_value_put(out, 2, &record, True)


cdef void leader_go(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    cdef const Entry* entry
    if not call_pin(door, call):
        return
    entry = _leader(door, call)
    if entry == NULL:
        call_end(door, call, CODE_UNKNOWN, b"election: no leader")
        return
    call_answer(door, call, _put_leader(door, entry))


cdef void observe_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX] room
    cdef Asked asked
    cdef Bytes prefix, end
    if call.data != NULL:
        return
    _read_named(message, &asked)
    if not _keep_name(door, call, &asked.name) or not _may(door, call, RIGHT_READ | RIGHT_WATCH):
        return
    prefix = _prefix(call)
    end = _prefix_end(&prefix, room)
    call.revision = door.desk.status.machine.revision
    _queue(call).feed = feed_create(door, &prefix, &end, call.revision + 1, 0, NULL, call, _woken)
    if _queue(call).feed == NULL:
        call_fail(door, call, OVERLOADED)
        return
    call_wait(door, call)


# Take what the feed has: the state tells who leads. False: the call has ended.
cdef bint _drain(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    cdef EtcdFeed* feed = _queue(call).feed
    cdef WatchView view
    feed.has_items = False
    while feed.state == FEED_OPEN and watch_look(feed.watch, &view):
        if view.kind == WATCH_EVENTS or view.kind == WATCH_PROGRESS_MARK:
            watch_pass(feed.watch, &view)
        elif view.kind == WATCH_CLOSED or view.kind == WATCH_REMOVED:
            call_fail(door, call, OVERLOADED)
            return False
        else:
            call.revision = door.desk.status.machine.revision
            if not feed_again(door, feed, call.revision + 1):
                call_fail(door, call, OVERLOADED)
                return False
    if feed.state == FEED_FAILED:
        call_fail(door, call, OVERLOADED)
        return False
    return True


# The leader, and each value of it, unless the next one has come by then.
cdef void observe_go(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    cdef Queue* queue = _queue(call)
    cdef const Entry* entry
    if queue == NULL or queue.feed == NULL:
        call_rest(call)
        return
    if not _drain(door, call) or not call_pin(door, call):
        return
    call_rest(call)
    entry = _leader(door, call)
    if entry != NULL and (entry.mod_revision != queue.told or entry.create_revision != queue.created):
        queue.told = entry.mod_revision
        queue.created = entry.create_revision
        call_send(door, call, _put_leader(door, entry))


cdef void observe_closed(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    cdef Queue* queue = _queue(call)
    if queue != NULL:
        feed_drop(door, queue.feed)
        free(queue)
        call.data = NULL
