"""Leases: bodies."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from raftmeta.doors.desk.rounds cimport round_ask
from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.desk.tasks cimport submission_of
from raftmeta.doors.etcd.access cimport access_allows, access_may
from raftmeta.doors.etcd.calls cimport (call_answer, call_ask, call_command, call_end, call_fail, call_header, call_pin,
                                        call_reply, call_rest, call_send, call_wait, task_result)
from raftmeta.doors.etcd.protobuf cimport (PbReader, pb_begin, pb_end, pb_next, pb_put_element, pb_put_int, pb_put_uint,
                                           pb_reader)
from raftmeta.doors.etcd.state cimport CODE_OK, CODE_OUT_OF_RANGE
from raftmeta.engine.submission cimport SUBMIT_LIST_LEASES, SUBMIT_SHOW_LEASE, Submission
from raftmeta.machine.rights_state cimport RIGHT_LEASE, RIGHT_READ, RIGHT_WRITE
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport LEASE_EXPIRED, NOT_FOUND, OK, OVERLOADED, status_t
from raftmeta.wire.commands cimport (COMMAND_LEASE_GRANT, COMMAND_LEASE_KEEP_ALIVE, COMMAND_LEASE_REVOKE, KEY_BYTES_MAX,
                                     LeaseItem, command_clear)
from raftmeta.wire.msgpack cimport (Reader, number_max, read_array_max, read_bin, read_bool, read_left, read_uint,
                                    reader_over, unsigned_max)

cdef enum:
    TTL_S_MIN = 2                   # etcd's with its own default election timeout
    TTL_S_MAX = 1_000_000_000       # etcd allows nine times as much; the lease clock ends before that (31 years)
    ETCD_TTL_S_MAX = 9_000_000_000
    MS_PER_S = 1000
    LEASES_IN_ONE = 1               # of a keep-alive
    ELEMENTS_MAX = 0x7FFFFFFF
    LEASE_ELEMENTS = 4              # of a page: [id, ttl, remaining, note], the elements one after another
    NOTE_BYTES_MAX = 1 << 16


cdef int64_t _number_of(const Bytes* message, uint64_t field) noexcept nogil:
    cdef PbReader reader = pb_reader(message)
    cdef int64_t number = 0
    while pb_next(&reader):
        if reader.field == field:
            number = <int64_t>reader.number
    return number


cdef inline uint64_t _seconds(uint64_t ms) noexcept nogil:
    return (ms + MS_PER_S - 1) // MS_PER_S


cdef void _command(EtcdDoor* door, EtcdCall* call, bint is_urgent) noexcept nogil:
    cdef status_t status = OK
    if not call_command(door, call, 0, is_urgent, &status):
        call_fail(door, call, status)


cdef uint64_t _id_of(const Bytes* message) noexcept nogil:
    return <uint64_t>_number_of(message, 1)


# --- grant ------------------------------------------------------------------------------------------------------------
cdef void lease_grant_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil:
    cdef int64_t ttl_s = _number_of(message, 1)
    if ttl_s > ETCD_TTL_S_MAX:
        call_end(door, call, CODE_OUT_OF_RANGE, b"etcdserver: too large lease TTL")
        return
    if not access_allows(door, call, RIGHT_LEASE, NULL, NULL):
        return
    command_clear(&door.desk.command)
    door.desk.command.kind = COMMAND_LEASE_GRANT
    door.desk.command.id = <uint64_t>_number_of(message, 2)
    call.number = <uint64_t>min(max(ttl_s, <int64_t>TTL_S_MIN), <int64_t>TTL_S_MAX)
    door.desk.command.ttl_ms = call.number * MS_PER_S
    _command(door, call, False)


cdef void lease_grant_answered(EtcdDoor* door, EtcdCall* call, EtcdTask* task) noexcept nogil:
    cdef Reader reader
    cdef uint64_t id = 0
    cdef Vec[uint8_t]* out
    if task.base.ticket.status == OK and task_result(task, &reader):
        id = read_uint(&reader, unsigned_max())
    if id == 0:
        call_fail(door, call, task.base.ticket.status)
        return
    out = call_reply(door)
    call_answer(door, call, call_header(door, out, task.base.ticket.revision) and pb_put_uint(out, 2, id)
                and pb_put_uint(out, 3, call.number))


# --- revoke -----------------------------------------------------------------------------------------------------------
# To revoke a lease is to delete its keys: while rights are on, the loop is asked first which ones these are. A key that
# is attached between the two goes, too; its writer gave it to the lease of another.
cdef void lease_revoke_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil:
    cdef Bytes nothing = bytes_of(NULL, 0)      # from the first key to the last
    if not access_allows(door, call, RIGHT_LEASE, NULL, NULL):
        return
    call.number = _id_of(message)
    call.step = 0
    if access_may(door, call, RIGHT_WRITE, &nothing, &nothing):
        _revoke(door, call)
        return
    call.round = round_ask(&door.desk)
    call_wait(door, call)


cdef void lease_revoke_go(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    _ask_for_keys(door, call)


cdef void _revoke(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    command_clear(&door.desk.command)
    door.desk.command.kind = COMMAND_LEASE_REVOKE
    door.desk.command.id = call.number
    call.step = 1
    _command(door, call, True)


# Whether the call's user has this right over every key of a lease, as SUBMIT_SHOW_LEASE tells them. False: the call was
# ended.
cdef bint _may_all(EtcdDoor* door, EtcdCall* call, uint8_t right, Reader reader) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX + 1] room
    cdef Bytes key, end
    cdef uint32_t count = read_array_max(&reader, ELEMENTS_MAX)
    cdef uint32_t _i
    for _i in range(count):
        key.data = read_bin(&reader, KEY_BYTES_MAX, &key.length)
        if reader.status != OK:
            break
        memcpy(room, key.data, key.length)
        room[key.length] = 0
        end.data = room
        end.length = key.length + 1
        if not access_allows(door, call, right, &key, &end):
            return False
    return True


# The keys of its lease are known.
cdef void _revoke_shown(EtcdDoor* door, EtcdCall* call, EtcdTask* task) noexcept nogil:
    cdef Reader reader = reader_over(task.base.ticket.body, task.base.ticket.length)
    if task.base.ticket.status != OK:
        call_fail(door, call, LEASE_EXPIRED if task.base.ticket.status == NOT_FOUND else task.base.ticket.status)
        return
    read_uint(&reader, number_max())
    read_uint(&reader, number_max())
    if _may_all(door, call, RIGHT_WRITE, reader):
        _revoke(door, call)


cdef void lease_revoke_answered(EtcdDoor* door, EtcdCall* call, EtcdTask* task) noexcept nogil:
    if call.step == 0:
        _revoke_shown(door, call, task)
        return
    if task.base.ticket.status != OK:
        call_fail(door, call, task.base.ticket.status)
        return
    call_answer(door, call, call_header(door, call_reply(door), task.base.ticket.revision))


# --- keep alive -------------------------------------------------------------------------------------------------------
# Answers come in the order of the log, which is that of the messages. flags: the client sends no more.
cdef void lease_keep_alive_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil:
    cdef LeaseItem item
    if not access_allows(door, call, RIGHT_LEASE, NULL, NULL):
        return
    item.lease = _id_of(message)
    item.deadline_ms = 0
    if item.lease == 0:
        _kept(door, call, 0, door.desk.status.machine.revision, 0)
        return
    command_clear(&door.desk.command)
    door.desk.command.kind = COMMAND_LEASE_KEEP_ALIVE
    if not door.desk.command.leases.push(item) or not call.kept.append(<const uint8_t*>&item.lease, sizeof(uint64_t)):
        call_fail(door, call, OVERLOADED)
        return
    _command(door, call, True)


# One that is gone has no time to live.
cdef void _kept(EtcdDoor* door, EtcdCall* call, uint64_t lease, uint64_t revision, uint64_t ttl_ms) noexcept nogil:
    cdef Vec[uint8_t]* out = call_reply(door)
    call_send(door, call, call_header(door, out, revision) and pb_put_uint(out, 2, lease)
              and pb_put_uint(out, 3, _seconds(ttl_ms)))


cdef void lease_keep_alive_answered(EtcdDoor* door, EtcdCall* call, EtcdTask* task) noexcept nogil:
    cdef Reader reader
    cdef uint64_t ttl_ms
    cdef uint64_t lease = (<const uint64_t*>call.kept.data)[0]
    call.kept.drop_front(sizeof(uint64_t))
    if (task.base.ticket.status != OK or not task_result(task, &reader)
            or read_array_max(&reader, LEASES_IN_ONE) != LEASES_IN_ONE):
        call_fail(door, call, task.base.ticket.status)
        return
    ttl_ms = read_uint(&reader, number_max())
    _kept(door, call, lease, task.base.ticket.revision, ttl_ms)
    if call.flags and call.tasks == 0:
        call_end(door, call, CODE_OK, NULL)


cdef void lease_keep_alive_half_closed(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    call.flags = 1
    if call.tasks == 0:
        call_end(door, call, CODE_OK, NULL)


# --- time to live, and all leases -------------------------------------------------------------------------------------
# Behind a read round the loop is asked: leases stand in no tree.
cdef void _ask_behind_round(EtcdDoor* door, EtcdCall* call, const Submission* what) noexcept nogil:
    if not call_pin(door, call):
        return
    call_rest(call)
    if not call_ask(door, call, 0, what):
        call_fail(door, call, OVERLOADED)


cdef void lease_show_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil:
    if not access_allows(door, call, RIGHT_LEASE, NULL, NULL):
        return
    call.number = _id_of(message)
    call.flags = _number_of(message, 2) != 0
    call.round = round_ask(&door.desk)
    call_wait(door, call)


cdef void lease_show_go(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    _ask_for_keys(door, call)


cdef void _ask_for_keys(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    cdef Submission what = submission_of(SUBMIT_SHOW_LEASE)
    what.arguments.list_leases.least = call.number
    _ask_behind_round(door, call, &what)


cdef bint _put_keys(Vec[uint8_t]* out, Reader* reader) noexcept nogil:
    cdef uint32_t count = read_array_max(reader, ELEMENTS_MAX)
    cdef Bytes key
    cdef uint32_t _i
    for _i in range(count):
        key.data = read_bin(reader, KEY_BYTES_MAX, &key.length)
        if not pb_put_element(out, 5, &key):
            return False
    return True


# One that is gone, or never was, has -1.
cdef void lease_show_answered(EtcdDoor* door, EtcdCall* call, EtcdTask* task) noexcept nogil:
    cdef Vec[uint8_t]* out = call_reply(door)
    cdef Reader reader
    cdef uint64_t ttl_ms, left_ms
    cdef bint is_made = call_header(door, out, task.base.ticket.revision) and pb_put_uint(out, 2, call.number)
    if task.base.ticket.status == NOT_FOUND:
        call_answer(door, call, is_made and pb_put_int(out, 3, -1))
        return
    if task.base.ticket.status != OK:
        call_fail(door, call, task.base.ticket.status)
        return
    reader = reader_over(task.base.ticket.body, task.base.ticket.length)
    ttl_ms = read_uint(&reader, number_max())
    left_ms = read_uint(&reader, number_max())
    if call.flags and not _may_all(door, call, RIGHT_READ, reader):
        return
    is_made = is_made and pb_put_uint(out, 3, left_ms // MS_PER_S) and pb_put_uint(out, 4, _seconds(ttl_ms))
    call_answer(door, call, is_made and (not call.flags or _put_keys(out, &reader)))


cdef void lease_list_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil:
    if not access_allows(door, call, RIGHT_LEASE, NULL, NULL):
        return
    call.number = 0
    call.round = round_ask(&door.desk)
    call_wait(door, call)


cdef void lease_list_go(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    cdef Submission what = submission_of(SUBMIT_LIST_LEASES)
    what.arguments.list_leases.least = call.number
    _ask_behind_round(door, call, &what)


# A page. call.kept has the leases so far, call.number the next id.
cdef void lease_list_answered(EtcdDoor* door, EtcdCall* call, EtcdTask* task) noexcept nogil:
    cdef Reader reader
    cdef Vec[uint8_t]* out
    cdef uint64_t id = 0
    cdef uint32_t length
    cdef size_t start
    cdef bint has_more
    if task.base.ticket.status != OK:
        call_fail(door, call, task.base.ticket.status)
        return
    reader = reader_over(task.base.ticket.body, task.base.ticket.length)
    has_more = read_bool(&reader)
    while read_left(&reader) and reader.status == OK:
        read_array_max(&reader, LEASE_ELEMENTS)
        id = read_uint(&reader, unsigned_max())
        read_uint(&reader, number_max())
        read_uint(&reader, number_max())
        read_bin(&reader, NOTE_BYTES_MAX, &length)
        start = pb_begin(&call.kept, 2)
        if start == 0 or not pb_put_uint(&call.kept, 1, id) or not pb_end(&call.kept, start):
            call_fail(door, call, OVERLOADED)
            return
    if has_more and id != unsigned_max():
        call.number = id + 1
        call_wait(door, call)
        return
    out = call_reply(door)
    call_answer(door, call, call_header(door, out, task.base.ticket.revision)
                and (call.kept.size == 0 or out.append(call.kept.data, call.kept.size)))
