"""The protocols of a worker group: bodies."""
from libc.stdint cimport uint8_t, uint32_t

from raftmeta.machine.group_keys cimport Group, equal_bytes, no_bytes
from raftmeta.machine.group_members cimport group_member, group_scan, is_pending
from raftmeta.machine.group_records cimport GROUP_EMPTY, GROUP_IS_UNIFORM, MemberView
from raftmeta.machine.state cimport LEVEL_OF_UNIFORM_GROUPS, Machine
from raftmeta.status cimport NOT_FOUND, OK, status_t
from raftmeta.wire.groups cimport GROUP_PROTOCOLS_MAX, GroupRequest, groups_next
from raftmeta.wire.windows cimport Bytes


cdef bint _has_protocol(const Bytes* list, const Bytes* name) noexcept nogil:
    cdef Bytes found, metadata
    cdef uint32_t place = 0
    while groups_next(list, &place, &found, &metadata):
        if equal_bytes(&found, name):
            return True
    return False

cdef bint _all_have(Machine* machine, const Bytes* name) noexcept nogil:
    cdef size_t i
    for i in range(machine.members.size):
        if (not is_pending(&machine.members.data[i]) and not machine.members.data[i].is_gone
                and not _has_protocol(&machine.members.data[i].record.protocols, name)):
            return False
    return True

cdef bint group_supports(Machine* machine, const Group* group, const GroupRequest* request) noexcept nogil:
    cdef Bytes name, metadata
    cdef uint32_t place = 0
    if group.record.meta.state == GROUP_EMPTY:
        return request.type.length != 0 and request.count != 0
    if not equal_bytes(&group.record.type, &request.type):
        return False
    while groups_next(&request.list, &place, &name, &metadata):
        if _has_protocol(&group.spoken, &name) if group.spoken.length else _all_have(machine, &name):
            return True
    return False

cdef status_t group_learn_spoken(Machine* machine, Group* group) noexcept nogil:
    cdef const MemberView* first
    cdef MemberView leader
    cdef status_t status
    if group.record.meta.flags & GROUP_IS_UNIFORM and group.record.leader.length:
        status = group_member(machine, group, &group.record.leader, &leader)
        if status == OK:
            group.spoken = leader.record.protocols
        if status != NOT_FOUND:
            return status
    status = group_scan(machine, group)
    if status == OK:
        group_judge_uniform(machine, group)
        first = _first(machine)
        if group.record.meta.flags & GROUP_IS_UNIFORM and first != NULL:
            group.spoken = first.record.protocols
    return status

cdef void group_judge_uniform(Machine* machine, Group* group) noexcept nogil:
    cdef const MemberView* first = _first(machine)
    cdef const MemberView* member
    cdef size_t i
    group.record.meta.flags &= ~<uint8_t>GROUP_IS_UNIFORM
    if first == NULL or machine.feature_level < LEVEL_OF_UNIFORM_GROUPS:
        return
    for i in range(machine.members.size):
        member = &machine.members.data[i]
        if not is_pending(member) and not member.is_gone and not are_alike(&member.record.protocols,
                                                                           &first.record.protocols):
            return
    group.record.meta.flags |= GROUP_IS_UNIFORM

cdef bint are_alike(const Bytes* left, const Bytes* right) noexcept nogil:
    cdef Bytes left_name, right_name, metadata
    cdef uint32_t left_place = 0
    cdef uint32_t right_place = 0
    cdef bint has_left, has_right
    while True:
        has_left = groups_next(left, &left_place, &left_name, &metadata)
        has_right = groups_next(right, &right_place, &right_name, &metadata)
        if not has_left or not has_right:
            return has_left == has_right
        if not equal_bytes(&left_name, &right_name):
            return False

cdef MemberView* _first(Machine* machine) noexcept nogil:
    cdef size_t i
    for i in range(machine.members.size):
        if not is_pending(&machine.members.data[i]) and not machine.members.data[i].is_gone:
            return &machine.members.data[i]
    return NULL

cdef Bytes group_elected(Machine* machine) noexcept nogil:
    cdef Bytes[GROUP_PROTOCOLS_MAX] names
    cdef uint32_t[GROUP_PROTOCOLS_MAX] votes
    cdef uint32_t count = 0
    cdef uint32_t best = 0
    cdef uint32_t place = 0
    cdef const MemberView* first = _first(machine)
    cdef Bytes name, metadata
    cdef size_t i
    while (first != NULL and count < GROUP_PROTOCOLS_MAX
           and groups_next(&first.record.protocols, &place, &name, &metadata)):
        if _all_have(machine, &name):
            names[count] = name
            votes[count] = 0
            count += 1
    for i in range(machine.members.size):
        if not is_pending(&machine.members.data[i]) and not machine.members.data[i].is_gone:
            _vote(&machine.members.data[i].record.protocols, names, votes, count)
    for i in range(1, count):
        if votes[i] > votes[best]:
            best = <uint32_t>i
    return names[best] if count else no_bytes()

cdef void _vote(const Bytes* list, const Bytes* names, uint32_t* votes, uint32_t count) noexcept nogil:
    cdef Bytes name, metadata
    cdef uint32_t place = 0
    cdef uint32_t i
    while groups_next(list, &place, &name, &metadata):
        for i in range(count):
            if equal_bytes(&names[i], &name):
                votes[i] += 1
                return
