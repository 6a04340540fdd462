"""Syncs of a worker group: bodies."""
from libc.stdint cimport uint32_t
from libc.string cimport memcmp

from raftmeta.machine.group_answers cimport group_answer_sync
from raftmeta.machine.group_keys cimport Group, equal_bytes, group_store, group_store_member, no_bytes
from raftmeta.machine.group_members cimport group_check_member, group_member, group_scan, is_pending
from raftmeta.machine.group_records cimport (GROUP_COMPLETING, GROUP_EMPTY, GROUP_PREPARING, GROUP_STABLE, GroupMeta,
                                             MemberView)
from raftmeta.machine.state cimport Machine
from raftmeta.native.marks cimport MARK_GROUP_STABLE, mark
from raftmeta.status cimport OK, status_t
from raftmeta.wire.groups cimport (GROUP_ILLEGAL_GENERATION, GROUP_INCONSISTENT_PROTOCOL, GROUP_OK,
                                   GROUP_REBALANCE_IN_PROGRESS, GROUP_UNKNOWN_MEMBER, GroupRequest, groups_next)
from raftmeta.wire.windows cimport Bytes


cdef status_t group_sync(Machine* machine, Group* group, int* code) noexcept nogil:
    cdef const GroupRequest* request = &machine.group
    cdef const GroupMeta* meta = &group.record.meta
    cdef MemberView me
    cdef status_t status = OK
    code[0] = GROUP_UNKNOWN_MEMBER
    if group.exists:
        status = group_check_member(machine, group, &request.member, &request.instance, &me, code)
    if status != OK:
        return status
    if code[0] == GROUP_OK and is_pending(&me):
        code[0] = GROUP_UNKNOWN_MEMBER
    if code[0] == GROUP_OK:
        code[0] = _check_sync(group, request)
    if code[0] != GROUP_OK:
        return OK
    if meta.state == GROUP_COMPLETING and equal_bytes(&me.id, &group.record.leader):
        status = _assign(machine, group)
        if status == OK:
            status = group_member(machine, group, &request.member, &me)
    return group_answer_sync(machine, group, &me) if status == OK else status

cdef int _check_sync(const Group* group, const GroupRequest* request) noexcept nogil:
    if request.generation != group.record.meta.generation:
        return GROUP_ILLEGAL_GENERATION
    if (request.type.length and not equal_bytes(&request.type, &group.record.type)
            or request.protocol.length and not equal_bytes(&request.protocol, &group.record.protocol)):
        return GROUP_INCONSISTENT_PROTOCOL
    if group.record.meta.state == GROUP_EMPTY:
        return GROUP_UNKNOWN_MEMBER
    return GROUP_REBALANCE_IN_PROGRESS if group.record.meta.state == GROUP_PREPARING else GROUP_OK

# Each member gets what the list has for it. Both are in order of ids.
cdef status_t _assign(Machine* machine, Group* group) noexcept nogil:
    cdef Bytes id = no_bytes()
    cdef Bytes assignment = no_bytes()
    cdef uint32_t place = 0
    cdef bint is_there = groups_next(&machine.group.list, &place, &id, &assignment)
    cdef MemberView* member
    cdef status_t status = group_scan(machine, group)
    cdef size_t i
    if status != OK:
        return status
    for i in range(machine.members.size):
        member = &machine.members.data[i]
        if is_pending(member):
            continue
        while is_there and _is_before(&id, &member.id):
            is_there = groups_next(&machine.group.list, &place, &id, &assignment)
        member.record.assignment = assignment if is_there and equal_bytes(&id, &member.id) else no_bytes()
        member.record.meta.assigned = group.record.meta.generation
        status = group_store_member(machine, member, True)
        if status != OK:
            return status
    mark(MARK_GROUP_STABLE)
    group.record.meta.state = GROUP_STABLE
    group.record.meta.timer_ms = 0
    return group_store(machine, group)

cdef inline bint _is_before(const Bytes* left, const Bytes* right) noexcept nogil:
    cdef int order = memcmp(left.data, right.data, min(left.length, right.length))
    return order < 0 or order == 0 and left.length < right.length
