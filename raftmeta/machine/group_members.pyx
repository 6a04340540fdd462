"""The members of a worker group: bodies."""
from libc.stdint cimport uint32_t

from raftmeta.machine.group_keys cimport Group, equal_bytes, group_key_behind, group_view_member, no_bytes
from raftmeta.machine.group_records cimport MemberView
from raftmeta.machine.plan cimport plan_range
from raftmeta.machine.state cimport Machine
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport NO_MEMORY, OK, status_t
from raftmeta.wire.commands cimport KeyView
from raftmeta.wire.groups cimport GROUP_FENCED_INSTANCE, GROUP_OK, GROUP_UNKNOWN_MEMBER
from raftmeta.wire.windows cimport Bytes


cdef status_t group_scan(Machine* machine, const Group* group) noexcept nogil:
    cdef Vec[KeyView]* views = &machine.transaction.views
    cdef Bytes nothing = no_bytes()
    cdef Bytes start, end
    cdef MemberView member
    cdef uint32_t count
    cdef status_t status
    cdef size_t i
    views.clear()
    machine.members.clear()
    if (not group_key_behind(machine, &group.key, 0, &nothing, &start)
            or not group_key_behind(machine, &group.key, 1, &nothing, &end)):
        return NO_MEMORY
    status = plan_range(&machine.plan, &start, &end, ~<uint32_t>0, ~<uint32_t>0, views, &count)
    for i in range(views.size):
        if status == OK and group_view_member(&group.key, &views.data[i], &member) and not machine.members.push(member):
            status = NO_MEMORY
    views.clear()
    return status

cdef MemberView* group_member(Machine* machine, const Bytes* id) noexcept nogil:
    cdef size_t i
    for i in range(machine.members.size):
        if equal_bytes(&machine.members.data[i].id, id):
            return &machine.members.data[i]
    return NULL

cdef MemberView* group_holder(Machine* machine, const Bytes* instance) noexcept nogil:
    cdef size_t i
    for i in range(machine.members.size if instance.length else 0):
        if equal_bytes(&machine.members.data[i].record.instance, instance):
            return &machine.members.data[i]
    return NULL

cdef int group_check_member(Machine* machine, const Bytes* id, const Bytes* instance,
                            MemberView** member) noexcept nogil:
    cdef MemberView* holder
    if instance.length:
        holder = group_holder(machine, instance)
        if holder == NULL:
            return GROUP_UNKNOWN_MEMBER
        if not equal_bytes(&holder.id, id):
            return GROUP_FENCED_INSTANCE
    member[0] = group_member(machine, id)
    return GROUP_UNKNOWN_MEMBER if member[0] == NULL else GROUP_OK
