"""The members of a worker group: bodies."""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp, memcpy

from raftmeta.machine.entry cimport ENTRY_MEMBER, Entry, entry_key
from raftmeta.machine.group_keys cimport Group, equal_bytes, group_key_behind, group_view_member, no_bytes
from raftmeta.machine.group_records cimport MemberView
from raftmeta.machine.leases cimport Lease, leases_keys
from raftmeta.machine.plan cimport plan_range, plan_room, plan_view
from raftmeta.machine.state cimport Machine
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport NO_MEMORY, NOT_FOUND, OK, status_t
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

cdef status_t group_member(Machine* machine, const Group* group, const Bytes* id, MemberView* member) noexcept nogil:
    cdef KeyView view
    cdef Bytes key
    if not group_key_behind(machine, &group.key, 0, id, &key):
        return NO_MEMORY
    if not plan_view(&machine.plan, &key, &view) or not group_view_member(&group.key, &view, member):
        return NOT_FOUND
    return OK

# Ids of static members begin with the instance and '-', and '.' is the next byte: no other member need be looked at.
cdef status_t group_holder(Machine* machine, const Group* group, const Bytes* instance,
                           MemberView* member) noexcept nogil:
    cdef Vec[KeyView]* views = &machine.transaction.views
    cdef Bytes start, end
    cdef uint32_t count
    cdef status_t status
    cdef size_t i
    if instance.length == 0:
        return NOT_FOUND
    if not _instance_key(machine, group, instance, c"-", &start) or not _instance_key(machine, group, instance, c".",
                                                                                      &end):
        return NO_MEMORY
    views.clear()
    status = plan_range(&machine.plan, &start, &end, ~<uint32_t>0, ~<uint32_t>0, views, &count)
    if status == OK:
        status = NOT_FOUND
    for i in range(views.size):
        if status == NOT_FOUND and group_view_member(&group.key, &views.data[i], member) and equal_bytes(
                &member.record.instance, instance):
            status = OK
    views.clear()
    return status

cdef bint _instance_key(Machine* machine, const Group* group, const Bytes* instance, uint8_t byte,
                        Bytes* key) noexcept nogil:
    cdef uint8_t* room = plan_room(&machine.plan, group.key.length + 1 + instance.length + 1)
    if room == NULL:
        return False
    memcpy(room, group.key.data, group.key.length)
    room[group.key.length] = 0
    memcpy(room + group.key.length + 1, instance.data, instance.length)
    room[group.key.length + 1 + instance.length] = byte
    key.data = room
    key.length = group.key.length + 1 + instance.length + 1
    return True

# The keys of the lease come in key order. A lease with more keys than the group has members holds much else.
cdef status_t group_of_lease(Machine* machine, const Group* group, Lease* lease, const Bytes* instance,
                             MemberView* member) noexcept nogil:
    cdef status_t status
    cdef size_t i
    if lease.key_count > group.record.meta.members + group.record.meta.pending:
        status = group_scan(machine, group)
        for i in range(machine.members.size if status == OK else 0):
            member[0] = machine.members.data[i]
            if member.lease == lease.due.id and equal_bytes(&member.record.instance, instance):
                return OK
        return NOT_FOUND if status == OK else status
    machine.entries.clear()
    if not leases_keys(&machine.leases, lease, &machine.entries):
        return NO_MEMORY
    for i in range(machine.entries.size):
        if _is_behind(group, machine.entries.data[i]):
            status = _member_of_entry(machine, group, machine.entries.data[i], member)
            if status == OK and equal_bytes(&member.record.instance, instance):
                return OK
            if status == NO_MEMORY:
                return status
    return NOT_FOUND

cdef inline bint _is_behind(const Group* group, const Entry* entry) noexcept nogil:
    return (entry.flags & ENTRY_MEMBER != 0 and entry.key_length > group.key.length
            and entry_key(entry)[group.key.length] == 0
            and memcmp(entry_key(entry), group.key.data, group.key.length) == 0)

cdef status_t _member_of_entry(Machine* machine, const Group* group, const Entry* entry,
                               MemberView* member) noexcept nogil:
    cdef Bytes id
    id.data = entry_key(entry) + group.key.length + 1
    id.length = entry.key_length - group.key.length - 1
    return group_member(machine, group, &id, member)

cdef status_t group_check_member(Machine* machine, const Group* group, const Bytes* id, const Bytes* instance,
                                 MemberView* member, int* code) noexcept nogil:
    cdef status_t status
    code[0] = GROUP_UNKNOWN_MEMBER
    if instance.length:
        status = group_holder(machine, group, instance, member)
        if status != OK:
            return OK if status == NOT_FOUND else status
        if not equal_bytes(&member.id, id):
            code[0] = GROUP_FENCED_INSTANCE
            return OK
    status = group_member(machine, group, id, member)
    if status == OK:
        code[0] = GROUP_OK
    return OK if status == NOT_FOUND else status
