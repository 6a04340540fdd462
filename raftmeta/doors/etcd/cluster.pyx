"""The Cluster and Maintenance services: bodies.

Source: etcd server/etcdserver/api/v3rpc maintenance.go and member.go.
"""

from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from raftmeta.doors.desk.desk cimport desk_pin_newest
from raftmeta.doors.desk.rounds cimport round_ask
from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.desk.tasks cimport submission_of
from raftmeta.doors.etcd.access cimport access_allows
from raftmeta.doors.etcd.calls cimport (call_answer, call_ask, call_end, call_fail, call_header, call_pin, call_reply,
                                        call_wait, no_revision, revision_told)
from raftmeta.doors.etcd.prefix cimport prefix_has
from raftmeta.doors.etcd.protobuf cimport (PbReader, pb_begin, pb_end, pb_next, pb_put_bytes, pb_put_element,
                                           pb_put_int, pb_put_uint, pb_reader)
from raftmeta.doors.etcd.state cimport CODE_FAILED_PRECONDITION, CODE_UNAVAILABLE
from raftmeta.engine.submission cimport SUBMIT_TRANSFER, Submission
from raftmeta.machine.entry cimport ENTRY_TOMBSTONE, Entry, entry_at_pinned, entry_key
from raftmeta.machine.rights_state cimport RIGHT_ADMIN, RIGHT_MEMBER
from raftmeta.machine.tree cimport Cursor, cursor_next, cursor_seek, root_revision
from raftmeta.native.atomics cimport load_acquire
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport crc32c
from raftmeta.raft.types cimport LEARNER, Member
from raftmeta.status cimport COMPACTED, FUTURE_REVISION, NO_LEADER, NO_MEMORY, OK

cdef const char* STORAGE_VERSION = b"3.6.0"

cdef enum:
    VERSION_LENGTH = 5


# --- Cluster ----------------------------------------------------------------------------------------------------------
cdef bint _put_url(Vec[uint8_t]* out, uint32_t field, Vec[uint8_t]* scratch, const uint8_t* address,
                   uint32_t length) noexcept nogil:
    cdef Bytes url
    scratch.clear()
    if not scratch.append(<const uint8_t*>b"http://", 7) or not scratch.append(address, length):
        return False
    url = bytes_of(scratch.data, scratch.size)
    return pb_put_element(out, field, &url)


cdef bint _put_member(EtcdDoor* door, Vec[uint8_t]* out, const Member* member) noexcept nogil:
    cdef size_t start = pb_begin(out, 2)
    cdef Bytes name = bytes_of(member.name, member.name_length)
    if (start == 0 or not pb_put_uint(out, 1, member.id) or not pb_put_bytes(out, 2, &name)
            or not _put_url(out, 3, &door.scratch, member.address, member.address_length)):
        return False
    if member.id == door.desk.status.id and not _put_url(out, 4, &door.scratch, door.client_address,
                                                         door.client_address_length):
        return False
    return pb_put_uint(out, 5, (member.roles & LEARNER) != 0) and pb_end(out, start)


# All members, as the field 2 of a reply.
cdef bint put_members(EtcdDoor* door, Vec[uint8_t]* out) noexcept nogil:
    cdef uint32_t i
    for i in range(door.desk.membership.count):
        if not _put_member(door, out, &door.desk.membership.members[i]):
            return False
    return True


cdef void member_list_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil:
    cdef PbReader reader = pb_reader(message)
    cdef bint is_linearizable = False
    while pb_next(&reader):
        if reader.field == 1:
            is_linearizable = reader.number != 0
    if not access_allows(door, call, 0, NULL, NULL):
        return
    if is_linearizable:
        call.round = round_ask(&door.desk)
    member_list_go(door, call)


cdef void member_list_go(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    cdef Vec[uint8_t]* out = call_reply(door)
    if call_pin(door, call):
        call_answer(door, call, call_header(door, out, no_revision()) and put_members(door, out))
    else:
        call_wait(door, call)


# --- Maintenance ------------------------------------------------------------------------------------------------------
cdef bint _is_learner(const EtcdDoor* door) noexcept nogil:
    cdef uint32_t i
    for i in range(door.desk.membership.count):
        if door.desk.membership.members[i].id == door.desk.status.id:
            return door.desk.membership.members[i].roles & LEARNER != 0
    return False


cdef void status_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil:
    cdef Vec[uint8_t]* out = call_reply(door)
    cdef Bytes version = bytes_of(<const uint8_t*>etcd_version(), VERSION_LENGTH)
    cdef Bytes storage = bytes_of(<const uint8_t*>STORAGE_VERSION, VERSION_LENGTH)
    cdef Bytes no_leader = bytes_of(<const uint8_t*>b"etcdserver: no leader", 21)
    if not access_allows(door, call, 0, NULL, NULL):
        return
    call_answer(door, call, call_header(door, out, door.desk.status.machine.revision)
                and pb_put_bytes(out, 2, &version)
                and pb_put_uint(out, 3, door.desk.status.machine.state_bytes)
                and pb_put_uint(out, 4, door.desk.status.core.leader)
                and pb_put_uint(out, 5, door.desk.status.core.committed)
                and pb_put_uint(out, 6, door.desk.status.core.term)
                and pb_put_uint(out, 7, door.desk.status.core.applied)
                and (door.desk.status.core.leader != 0 or pb_put_element(out, 8, &no_leader))
                and pb_put_uint(out, 9, door.desk.status.machine.state_bytes)
                and pb_put_uint(out, 10, _is_learner(door))
                and pb_put_bytes(out, 11, &storage))


# This store raises no alarms: a full disk refuses what grows until there is room, by itself.
cdef void alarm_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil:
    cdef Vec[uint8_t]* out = call_reply(door)
    if access_allows(door, call, 0, NULL, NULL):
        call_answer(door, call, call_header(door, out, door.desk.status.machine.revision))


# Memory is given back as it becomes free, and the log by checkpoints: there is nothing to do.
cdef void defragment_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil:
    cdef Vec[uint8_t]* out = call_reply(door)
    if access_allows(door, call, RIGHT_ADMIN, NULL, NULL):
        call_answer(door, call, call_header(door, out, door.desk.status.machine.revision))


cdef bint _is_seen(const EtcdDoor* door, const Entry* entry) noexcept nogil:
    cdef Bytes key = bytes_of(entry_key(entry), entry.key_length)
    return prefix_has(&door.limits, &key)


# Over all keys as they were at a revision: the same on each member.
cdef uint32_t _hash_at(EtcdDoor* door, uint64_t revision) noexcept nogil:
    cdef uint32_t hash = 0
    cdef Cursor cursor
    cdef const Entry* entry
    cursor_seek(&cursor, door.desk.pinned, door.limits.prefix, <uint16_t>door.limits.prefix_length)
    while cursor.entry != NULL and _is_seen(door, cursor.entry):
        entry = entry_at_pinned(cursor.entry, revision)
        if entry != NULL and not entry.flags & ENTRY_TOMBSTONE:
            # The numbers of the version, and behind the struct the key and the value.
            hash = crc32c(hash, &entry.create_revision, sizeof(uint64_t) * 4)
            hash = crc32c(hash, entry_key(entry), <size_t>entry.key_length + entry.value_length)
        cursor_next(&cursor)
    return hash


cdef void hash_kv_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil:
    cdef PbReader reader = pb_reader(message)
    cdef Vec[uint8_t]* out = call_reply(door)
    cdef int64_t asked = 0
    cdef uint64_t revision = desk_pin_newest(&door.desk)
    while pb_next(&reader):
        if reader.field == 1:
            asked = <int64_t>reader.number
    if not access_allows(door, call, RIGHT_ADMIN, NULL, NULL):
        return
    if door.desk.pinned == NULL:
        call_fail(door, call, NO_LEADER)
        return
    if asked > 0 and <uint64_t>asked > revision_told(revision):
        call_fail(door, call, FUTURE_REVISION)
        return
    if asked > 0:
        revision = <uint64_t>asked - 1
    if load_acquire(&door.desk.machine.readers_floor) > revision:
        call_fail(door, call, COMPACTED)
        return
    call_answer(door, call, call_header(door, out, root_revision(door.desk.pinned))
                and pb_put_uint(out, 2, _hash_at(door, revision))
                and pb_put_int(out, 3, _compacted(door)) and pb_put_uint(out, 4, revision_told(revision)))


# The floor as etcd tells it: -1 before the first Compact.
cdef int64_t _compacted(const EtcdDoor* door) noexcept nogil:
    cdef uint64_t floor = door.desk.status.machine.compacted
    return <int64_t>revision_told(floor) if floor else -1


cdef void hash_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil:
    cdef Vec[uint8_t]* out = call_reply(door)
    cdef uint64_t revision = desk_pin_newest(&door.desk)
    if not access_allows(door, call, RIGHT_ADMIN, NULL, NULL):
        return
    if door.desk.pinned == NULL:
        call_fail(door, call, NO_LEADER)
        return
    call_answer(door, call, call_header(door, out, revision) and pb_put_uint(out, 2, _hash_at(door, revision)))


# --- MoveLeader -------------------------------------------------------------------------------------------------------
cdef bint _is_voter(const EtcdDoor* door, uint64_t id) noexcept nogil:
    cdef uint32_t i
    for i in range(door.desk.membership.count):
        if door.desk.membership.members[i].id == id:
            return door.desk.membership.members[i].roles & LEARNER == 0
    return False


cdef void move_leader_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil:
    cdef PbReader reader = pb_reader(message)
    cdef Submission what = submission_of(SUBMIT_TRANSFER)
    cdef uint64_t target = 0
    while pb_next(&reader):
        if reader.field == 1:
            target = reader.number
    if not access_allows(door, call, RIGHT_MEMBER, NULL, NULL):
        return
    if door.desk.status.core.leader != door.desk.status.id:
        call_end(door, call, CODE_FAILED_PRECONDITION, b"etcdserver: not leader")
        return
    if not _is_voter(door, target):
        call_end(door, call, CODE_FAILED_PRECONDITION, b"etcdserver: bad leader transferee")
        return
    what.arguments.transfer.target = target
    if not call_ask(door, call, 0, &what):
        call_fail(door, call, NO_MEMORY)


cdef void move_leader_answered(EtcdDoor* door, EtcdCall* call, EtcdTask* task) noexcept nogil:
    cdef Vec[uint8_t]* out = call_reply(door)
    if task.base.ticket.status != OK:
        call_end(door, call, CODE_UNAVAILABLE,
                 b"etcdserver: request timed out, possibly due to previous leader failure")
        return
    call_answer(door, call, call_header(door, out, door.desk.status.machine.revision))
