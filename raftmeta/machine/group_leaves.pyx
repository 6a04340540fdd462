"""Members that leave, groups that are deleted: bodies."""
from libc.stdint cimport uint32_t

from raftmeta.machine.group_keys cimport Group, group_delete_key, group_store
from raftmeta.machine.group_members cimport group_check_member, group_holder, group_scan, is_pending
from raftmeta.machine.group_offsets cimport offsets_forget
from raftmeta.machine.group_phases cimport group_after_removal, group_remove
from raftmeta.machine.group_records cimport GROUP_EMPTY, MemberView
from raftmeta.machine.state cimport Machine
from raftmeta.status cimport NOT_FOUND, OK, status_t
from raftmeta.wire.commands cimport CHANGES_MAX, result_array, result_number
from raftmeta.wire.groups cimport GROUP_ID_NOT_FOUND, GROUP_NON_EMPTY, GROUP_OK, GROUP_UNKNOWN_MEMBER, groups_next
from raftmeta.wire.windows cimport Bytes


cdef status_t group_leave(Machine* machine, Group* group) noexcept nogil:
    cdef Bytes id, instance
    cdef uint32_t place = 0
    cdef bint has_changed = False
    cdef int code
    cdef status_t status = result_array(&machine.transaction.body, machine.group.count)
    while status == OK and groups_next(&machine.group.list, &place, &id, &instance):
        code = _leave_one(machine, group, &id, &instance, &status)
        has_changed = has_changed or code == GROUP_OK
        if status == OK:
            status = result_number(&machine.transaction.body, code)
    return group_store(machine, group) if status == OK and has_changed else status

cdef int _leave_one(Machine* machine, Group* group, const Bytes* id, const Bytes* instance,
                    status_t* status) noexcept nogil:
    cdef MemberView member
    cdef bint was_pending
    cdef int code = GROUP_OK
    if not group.exists:
        return GROUP_UNKNOWN_MEMBER
    if id.length == 0 and instance.length:
        status[0] = group_holder(machine, group, instance, &member)
        if status[0] == NOT_FOUND:
            status[0] = OK
            code = GROUP_UNKNOWN_MEMBER
    else:
        status[0] = group_check_member(machine, group, id, instance, &member, &code)
    if code != GROUP_OK or status[0] != OK:
        return code
    was_pending = is_pending(&member)
    status[0] = group_remove(machine, group, &member)
    if status[0] == OK:
        status[0] = group_after_removal(machine, group, was_pending)
    return GROUP_OK

cdef status_t group_delete(Machine* machine, Group* group, int* code) noexcept nogil:
    if not group.exists:
        code[0] = GROUP_ID_NOT_FOUND
        return OK
    if group.record.meta.state != GROUP_EMPTY:
        code[0] = GROUP_NON_EMPTY
        return OK
    return group_delete_empty(machine, group)

cdef status_t group_delete_empty(Machine* machine, const Group* group) noexcept nogil:
    cdef status_t status = group_scan(machine, group)
    cdef size_t i
    machine.plan.changes_max = 2 * CHANGES_MAX
    for i in range(machine.members.size):
        if status == OK:
            status = group_delete_key(machine, &machine.members.data[i].key)
    if status == OK:
        status = offsets_forget(machine, &group.key)
    machine.plan.groups += 1
    return group_delete_key(machine, &group.key) if status == OK else status
