"""The protocols of a worker group: bodies."""
from libc.stdint cimport uint32_t

from raftmeta.machine.group_keys cimport Group, equal_bytes, no_bytes
from raftmeta.machine.group_members cimport is_pending
from raftmeta.machine.group_records cimport GROUP_EMPTY, MemberView
from raftmeta.machine.state cimport Machine
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
        if _all_have(machine, &name):
            return True
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
