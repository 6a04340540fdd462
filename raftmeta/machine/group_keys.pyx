"""The keys of a worker group: bodies."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from raftmeta.machine.entry cimport ENTRY_GROUP, ENTRY_MEMBER
from raftmeta.machine.group_offsets cimport offsets_follow
from raftmeta.machine.group_records cimport (GROUP_EMPTY, MemberView, group_length, group_read, group_write,
                                             member_length, member_read, member_write)
from raftmeta.machine.leases cimport leases_find, leases_reserve
from raftmeta.machine.plan cimport Planned, plan_delete, plan_put, plan_room, plan_touch, plan_view, planned_is_live
from raftmeta.machine.state cimport Machine
from raftmeta.native.intrinsics cimport next_random
from raftmeta.status cimport NO_MEMORY, OK, status_t
from raftmeta.wire.commands cimport COMMAND_GROUPS, KeyView
from raftmeta.wire.groups cimport GROUP_INVALID_ID, GROUP_OK
from raftmeta.wire.windows cimport Bytes

cdef enum:
    ID_DIGITS = 32


cdef int group_open(Machine* machine, const Bytes* key, Group* group) noexcept nogil:
    cdef KeyView view
    memset(group, 0, sizeof(Group))
    group.key = key[0]
    if not plan_view(&machine.plan, key, &view):
        return GROUP_OK
    if not view.flags & ENTRY_GROUP or not group_read(&view.value, &group.record):
        return GROUP_INVALID_ID
    group.exists = True
    return GROUP_OK

# Both fences of the plan's keys begin anew where is_new says so: such a key is deleted and made again.
cdef status_t _put(Machine* machine, const Bytes* key, const Bytes* value, uint64_t lease, uint32_t flags,
                   bint is_new) noexcept nogil:
    cdef Planned* planned = NULL
    cdef status_t status = plan_touch(&machine.plan, key, &planned)
    if status != OK:
        return status
    if flags == ENTRY_GROUP:
        machine.plan.groups += 1
        lease = planned.lease
    elif lease != planned.lease and not group_grants(machine):
        status = leases_reserve(&machine.leases, lease, machine.index)
        if status != OK:
            return status
    if is_new and planned_is_live(planned):
        plan_delete(&machine.plan, planned)
    plan_put(&machine.plan, planned, value, lease, <uint16_t>flags)
    return OK

cdef bint group_grants(Machine* machine) noexcept nogil:
    return (machine.command.kind == COMMAND_GROUPS and machine.command.ttl_ms != 0 and machine.command.id != 0
            and leases_find(&machine.leases, machine.command.id) == NULL)

cdef status_t group_store(Machine* machine, Group* group) noexcept nogil:
    cdef Bytes value
    cdef status_t status
    value.length = group_length(&group.record)
    value.data = plan_room(&machine.plan, value.length)
    if value.data == NULL:
        return NO_MEMORY
    group_write(&group.record, <uint8_t*>value.data)
    status = _put(machine, &group.key, &value, 0, ENTRY_GROUP, group.is_new_generation)
    if status != OK:
        return status
    return offsets_follow(machine, &group.key, group.record.meta.state == GROUP_EMPTY)

cdef status_t group_store_member(Machine* machine, const MemberView* member, bint is_new_assignment) noexcept nogil:
    cdef Bytes value
    value.length = member_length(&member.record)
    value.data = plan_room(&machine.plan, value.length)
    if value.data == NULL:
        return NO_MEMORY
    member_write(&member.record, <uint8_t*>value.data)
    return _put(machine, &member.key, &value, member.lease, ENTRY_MEMBER, is_new_assignment)

cdef status_t group_delete_key(Machine* machine, const Bytes* key) noexcept nogil:
    cdef Planned* planned = NULL
    cdef status_t status = plan_touch(&machine.plan, key, &planned)
    if status == OK:
        plan_delete(&machine.plan, planned)
    return status

cdef bint group_key_behind(Machine* machine, const Bytes* group, uint8_t byte, const Bytes* id,
                           Bytes* key) noexcept nogil:
    cdef uint8_t* room = plan_room(&machine.plan, group.length + 1 + id.length)
    if room == NULL:
        return False
    memcpy(room, group.data, group.length)
    room[group.length] = byte
    if id.length:
        memcpy(room + group.length + 1, id.data, id.length)
    key.data = room
    key.length = group.length + 1 + id.length
    return True

cdef bint group_view_member(const Bytes* group, const KeyView* found, MemberView* member) noexcept nogil:
    memset(member, 0, sizeof(MemberView))
    member.key = found.key
    member.id.data = found.key.data + group.length + 1
    member.id.length = found.key.length - group.length - 1
    member.lease = found.lease
    return found.flags & ENTRY_MEMBER != 0 and member_read(&found.value, &member.record)

cdef bint group_new_id(Machine* machine, const Bytes* name, Bytes* id) noexcept nogil:
    cdef uint8_t* room = plan_room(&machine.plan, name.length + 1 + ID_DIGITS)
    cdef uint64_t stream = machine.index
    cdef uint64_t bits = 0
    cdef const char* digits = b"0123456789abcdef"
    cdef uint32_t i
    if room == NULL:
        return False
    if name.length:
        memcpy(room, name.data, name.length)
    room[name.length] = c"-"
    for i in range(ID_DIGITS):
        if i % 16 == 0:
            bits = next_random(&stream)
        room[name.length + 1 + i] = <uint8_t>digits[bits & 15]
        bits >>= 4
    id.data = room
    id.length = name.length + 1 + ID_DIGITS
    return True
