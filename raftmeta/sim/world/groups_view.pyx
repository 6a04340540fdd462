"""A worker group as keys show it: bodies."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from raftmeta.machine.entry cimport ENTRY_GROUP, ENTRY_MEMBER, ENTRY_OFFSET, ENTRY_OFFSETS, entry_value
from raftmeta.machine.group_records cimport MEMBER_PENDING, GroupRecord, MemberRecord, group_read, member_read
from raftmeta.machine.machine cimport machine_lease
from raftmeta.machine.plan cimport is_live
from raftmeta.machine.tree cimport Cursor, Entry, cursor_next, cursor_seek, entry_key, tree_enter, tree_leave
from raftmeta.sim.world.groups_state cimport (SIM_GROUP_KEYS, SIM_GROUP_MEMBERS, SIM_GROUP_RESOURCES,
                                              SIM_MEMBER_ID_MAX)
from raftmeta.status cimport OK

cdef enum:
    KEY_BYTES = 7


cdef Bytes group_key(uint32_t group) noexcept nogil:
    cdef Bytes key
    cdef const char* name = b"group-a"
    if group != 0:
        name = b"group-b" if group == 1 else b"group-c"
    key.data = <const uint8_t*>name
    key.length = KEY_BYTES
    return key


cdef uint32_t group_of_key(const Bytes* key, Bytes* id) noexcept nogil:
    cdef uint32_t group
    id.data = NULL
    id.length = 0
    for group in range(SIM_GROUP_KEYS):
        if key.length < <uint32_t>KEY_BYTES or memcmp(key.data, group_key(group).data, KEY_BYTES) != 0:
            continue
        if key.length > <uint32_t>KEY_BYTES:
            id.data = key.data + KEY_BYTES + 1
            id.length = key.length - KEY_BYTES - 1
        return group
    return SIM_GROUP_KEYS


cdef Bytes id_bytes(const SimMemberId* id) noexcept nogil:
    cdef Bytes bytes
    bytes.data = &id.bytes[0]
    bytes.length = id.length
    return bytes


cdef void id_keep(SimMemberId* id, const Bytes* bytes) noexcept nogil:
    id.length = min(bytes.length, <uint32_t>SIM_MEMBER_ID_MAX)
    if id.length:
        memcpy(id.bytes, bytes.data, id.length)


cdef bint id_is(const SimMemberId* id, const Bytes* bytes) noexcept nogil:
    return id.length == bytes.length and id.length != 0 and memcmp(id.bytes, bytes.data, id.length) == 0


cdef uint32_t resources_of(const Bytes* assignment) noexcept nogil:
    cdef uint32_t resources = 0
    cdef uint32_t i
    for i in range(assignment.length):
        if c"0" <= assignment.data[i] < c"0" + SIM_GROUP_RESOURCES:
            resources |= <uint32_t>1 << assignment.data[i] - c"0"
    return resources


cdef uint8_t instance_of(const Bytes* instance) noexcept nogil:
    return instance.data[instance.length - 1] if instance.length else <uint8_t>0


cdef SimMember* view_member(SimGroupView* view, const Bytes* id) noexcept nogil:
    cdef uint32_t i
    for i in range(view.count):
        if id_is(&view.members[i].id, id):
            return &view.members[i]
    return NULL


cdef SimMember* view_holder(SimGroupView* view, uint8_t instance) noexcept nogil:
    cdef uint32_t i
    for i in range(view.count):
        if instance != 0 and view.members[i].instance == instance:
            return &view.members[i]
    return NULL


cdef void _look_at_group(const Entry* entry, SimGroupView* view) noexcept nogil:
    cdef GroupRecord record
    cdef Bytes value
    value.data = entry_value(entry)
    value.length = entry.value_length
    if not entry.flags & ENTRY_GROUP or not group_read(&value, &record):
        view.is_sound = False
        return
    view.exists = True
    view.state = record.meta.state
    view.generation = record.meta.generation
    view.fence = entry.create_revision
    view.lease = entry.lease
    id_keep(&view.leader, &record.leader)


cdef void _look_at_member(const Entry* entry, SimGroupView* view) noexcept nogil:
    cdef MemberRecord record
    cdef SimMember* member = &view.members[view.count]
    cdef Bytes value
    value.data = entry_value(entry)
    value.length = entry.value_length
    if not entry.flags & ENTRY_MEMBER or not member_read(&value, &record) or view.count == SIM_GROUP_MEMBERS - 1:
        view.is_sound = False
        return
    value.data = entry_key(entry) + KEY_BYTES + 1
    value.length = entry.key_length - KEY_BYTES - 1
    id_keep(&member.id, &value)
    member.lease = entry.lease
    member.fence = entry.create_revision
    member.joined = record.meta.joined
    member.assigned = record.meta.assigned
    member.resources = resources_of(&record.assignment)
    member.is_pending = record.meta.flags & MEMBER_PENDING != 0
    member.instance = instance_of(&record.instance)
    view.count += 1


cdef void group_look(Machine* machine, uint32_t group, SimGroupView* view) noexcept nogil:
    cdef Bytes key = group_key(group)
    cdef Cursor cursor
    memset(view, 0, sizeof(SimGroupView))
    view.is_sound = True
    cursor_seek(&cursor, tree_enter(machine.tree), key.data, <uint16_t>key.length)
    while cursor.entry != NULL and cursor.entry.key_length >= KEY_BYTES and (
            memcmp(entry_key(cursor.entry), key.data, KEY_BYTES) == 0):
        if not is_live(cursor.entry) or cursor.entry.flags & (ENTRY_OFFSET | ENTRY_OFFSETS):
            pass
        elif cursor.entry.key_length == KEY_BYTES:
            _look_at_group(cursor.entry, view)
        else:
            _look_at_member(cursor.entry, view)
        cursor_next(&cursor)
    tree_leave(machine.tree)
    if view.count and not view.exists:
        view.is_sound = False


cdef uint64_t _deadline(Machine* machine, uint64_t lease) noexcept nogil:
    cdef uint64_t ttl_ms, deadline_ms
    cdef uint32_t keys
    if lease == 0 or machine_lease(machine, lease, &ttl_ms, &deadline_ms, &keys) != OK:
        return 0
    return deadline_ms


cdef void group_deadlines(Machine* machine, SimGroupView* view) noexcept nogil:
    cdef uint32_t i
    view.deadline_ms = _deadline(machine, view.lease)
    for i in range(view.count):
        view.members[i].deadline_ms = _deadline(machine, view.members[i].lease)
