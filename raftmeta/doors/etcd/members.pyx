"""Changes of members at the etcd door: bodies.

Each turn looks at the membership as it is, and asks for what is missing:

    MemberRemove     it leads: hand over     it is there: ask for the members without it     it is gone: answer
    MemberPromote    it has no vote: ask for the members with its vote                       it has one: answer

A membership that changed in the meantime is looked at anew, for the loop refuses a change that was made from an
earlier one.

Sources: etcd server/etcdserver/api/v3rpc member.go; server/etcdserver server.go RemoveMember, PromoteMember.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.doors.desk.rounds cimport round_ask
from raftmeta.doors.desk.state cimport DeskTask, bytes_of
from raftmeta.doors.desk.tasks cimport submission_of, task_create, task_free, task_submit
from raftmeta.doors.etcd.access cimport access_allows
from raftmeta.doors.etcd.calls cimport (call_answer, call_ask, call_end, call_fail, call_header, call_message, call_pin,
                                        call_reply, call_rest, call_wait, no_revision)
from raftmeta.doors.etcd.cluster cimport put_members
from raftmeta.doors.etcd.protobuf cimport PbReader, pb_next, pb_reader
from raftmeta.doors.etcd.schema cimport MESSAGE_MEMBER_PROMOTE, MESSAGE_MEMBER_REMOVE, MESSAGE_MEMBER_UPDATE
from raftmeta.doors.etcd.state cimport (CODE_FAILED_PRECONDITION, CODE_NOT_FOUND, CODE_UNAVAILABLE,
                                        CODE_UNIMPLEMENTED, TASK_CALL)
from raftmeta.engine.submission cimport SUBMIT_MEMBERSHIP, SUBMIT_TRANSFER, Submission
from raftmeta.machine.rights_state cimport RIGHT_MEMBER
from raftmeta.native.containers cimport Vec
from raftmeta.raft.membership cimport membership_encode, membership_position
from raftmeta.raft.types cimport LEARNER, STANDBY, VOTER_INCOMING, Membership
from raftmeta.status cimport NOT_READY, NO_MEMORY, OK

cdef enum Part:
    PART_CHANGE = 0
    PART_HAND_OVER = 1


cdef uint64_t _id(const Bytes* message) noexcept nogil:
    cdef PbReader reader = pb_reader(message)
    cdef uint64_t id = 0
    while pb_next(&reader):
        if reader.field == 1:
            id = reader.number
    return id


cdef bint _is_settled(const EtcdDoor* door) noexcept nogil:
    return not door.desk.membership.is_joint and door.desk.membership.index <= door.desk.status.core.committed


cdef uint32_t _voters(const Membership* membership) noexcept nogil:
    cdef uint32_t count = 0
    cdef uint32_t i
    for i in range(membership.count):
        count += membership.members[i].roles & LEARNER == 0
    return count


# --- asking -----------------------------------------------------------------------------------------------------------
# As call_ask, with the membership to change to.
cdef void _ask_members(EtcdDoor* door, EtcdCall* call, const Membership* target) noexcept nogil:
    cdef Submission what = submission_of(SUBMIT_MEMBERSHIP)
    cdef Bytes nothing = bytes_of(NULL, 0)
    cdef Bytes payload
    cdef DeskTask* task
    door.scratch.clear()
    if membership_encode(target, &door.scratch) != OK:
        call_fail(door, call, NO_MEMORY)
        return
    what.arguments.membership.made_from = door.desk.membership.index
    payload = bytes_of(door.scratch.data, door.scratch.size)
    task = task_create(&door.desk, &call.connection.base, TASK_CALL, &nothing, &payload)
    if task != NULL and task_submit(&door.desk, task, &what) != OK:
        task_free(&door.desk, task)
        task = NULL
    if task == NULL:
        call_fail(door, call, NO_MEMORY)
        return
    (<EtcdTask*>task).call = call
    (<EtcdTask*>task).part = PART_CHANGE
    call.tasks += 1


cdef void _hand_over(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    cdef Submission what = submission_of(SUBMIT_TRANSFER)
    if door.desk.status.core.leader != door.desk.status.id:
        call_end(door, call, CODE_UNAVAILABLE,
                 b"etcdserver: the member leads: ask it to hand over, or to remove itself")
    elif not call_ask(door, call, PART_HAND_OVER, &what):
        call_fail(door, call, NO_MEMORY)


# --- the steps --------------------------------------------------------------------------------------------------------
cdef void _answer(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    cdef Vec[uint8_t]* out = call_reply(door)
    call_answer(door, call, call_header(door, out, no_revision()) and put_members(door, out))


cdef void _remove(EtcdDoor* door, EtcdCall* call, int position) noexcept nogil:
    cdef Membership target = door.desk.membership
    cdef uint32_t i
    if position < 0:
        _answer(door, call)
        return
    if target.members[position].roles & LEARNER == 0 and _voters(&target) == 1:
        call_end(door, call, CODE_FAILED_PRECONDITION,
                 b"etcdserver: re-configuration failed due to not enough started members")
        return
    if target.members[position].id == door.desk.status.core.leader:
        _hand_over(door, call)
        return
    for i in range(<uint32_t>position + 1, target.count):
        target.members[i - 1] = target.members[i]
    target.count -= 1
    _ask_members(door, call, &target)


cdef void _promote(EtcdDoor* door, EtcdCall* call, int position) noexcept nogil:
    cdef Membership target = door.desk.membership
    if position < 0:
        call_end(door, call, CODE_NOT_FOUND, b"etcdserver: member not found")
    elif target.members[position].roles & LEARNER == 0:
        _answer(door, call)
    else:
        target.members[position].roles &= ~<uint32_t>(LEARNER | STANDBY)
        target.members[position].roles |= VOTER_INCOMING
        _ask_members(door, call, &target)


# An address that the member has already is none to change.
cdef void _update(EtcdDoor* door, EtcdCall* call, int position, const Bytes* message) noexcept nogil:
    cdef PbReader reader = pb_reader(message)
    cdef bint is_same = True
    cdef uint32_t i, skipped
    while pb_next(&reader):
        if reader.field != 2:
            continue
        skipped = 0
        for i in range(reader.bytes.length):
            if reader.bytes.data[i] == c"/":
                skipped = i + 1
        is_same = is_same and reader.bytes.length - skipped == door.desk.membership.members[position].address_length
        for i in range(min(<uint32_t>door.desk.membership.members[position].address_length,
                           reader.bytes.length - skipped)):
            is_same = is_same and reader.bytes.data[skipped + i] == door.desk.membership.members[position].address[i]
    if is_same:
        _answer(door, call)
    else:
        call_end(door, call, CODE_UNIMPLEMENTED,
                 b"etcdserver: a member of raftmeta tells its address itself: restart it with another `advertise`")


cdef void _step(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    cdef Bytes message = call_message(call)
    cdef int position
    if not _is_settled(door):
        call_wait(door, call)
        door.desk.has_pause = True
        return
    position = membership_position(&door.desk.membership, call.number)
    call_rest(call)
    if call.step == 0 and position < 0:
        call_end(door, call, CODE_NOT_FOUND, b"etcdserver: member not found")
        return
    if (call.step == 0 and call.handler.request == MESSAGE_MEMBER_PROMOTE
            and door.desk.membership.members[position].roles & LEARNER == 0):
        call_end(door, call, CODE_FAILED_PRECONDITION, b"etcdserver: can only promote a learner member")
        return
    call.step = 1                   # what is missing from now on, this call has done
    if call.handler.request == MESSAGE_MEMBER_REMOVE:
        _remove(door, call, position)
    elif call.handler.request == MESSAGE_MEMBER_UPDATE:
        _update(door, call, position, &message)
    else:
        _promote(door, call, position)


cdef void member_add_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil:
    if access_allows(door, call, RIGHT_MEMBER, NULL, NULL):
        call_end(door, call, CODE_UNIMPLEMENTED,
                 b"etcdserver: a node of raftmeta joins by its name: use `raftmeta member add`")


cdef void member_change_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil:
    if not access_allows(door, call, RIGHT_MEMBER, NULL, NULL):
        return
    call.number = _id(message)
    call.round = round_ask(&door.desk)
    call_wait(door, call)


cdef void member_change_go(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    if call_pin(door, call):
        _step(door, call)


# The membership of a later turn tells what is left to do, whatever the loop says. The call ends when its time is over.
cdef void member_change_answered(EtcdDoor* door, EtcdCall* call, EtcdTask* task) noexcept nogil:
    if (task.part == PART_CHANGE and task.base.ticket.status == NOT_READY
            and call.handler.request == MESSAGE_MEMBER_PROMOTE):
        call_end(door, call, CODE_FAILED_PRECONDITION,
                 b"etcdserver: can only promote a learner member which is in sync with leader")
        return
    call_wait(door, call)
    door.desk.has_pause = True
