"""The offsets of a group as keys: bodies."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from raftmeta.machine.entry cimport ENTRY_OFFSET, ENTRY_OFFSETS, entry_value
from raftmeta.machine.leases cimport lease_is_own
from raftmeta.machine.plan cimport (plan_delete, plan_put, plan_range, plan_room, plan_touch, plan_view,
                                    planned_is_live)
from raftmeta.machine.topic_records cimport OffsetKey, offsets_key, offsets_read
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport NO_MEMORY, OK
from raftmeta.wire.commands cimport KeyView


cdef bint offsets_head(Machine* machine, const Bytes* group, OffsetsMeta* head) noexcept nogil:
    cdef OffsetKey key
    cdef KeyView view
    memset(head, 0, sizeof(OffsetsMeta))
    return (offsets_key(group, &key) and plan_view(&machine.plan, &key.bytes, &view)
            and view.flags & ENTRY_OFFSETS and offsets_read(&view.value, head))

# The key where it stays until the entry is done.
cdef bint _stay(Machine* machine, const OffsetKey* key, Bytes* stays) noexcept nogil:
    cdef uint8_t* room = plan_room(&machine.plan, key.bytes.length)
    if room == NULL:
        return False
    memcpy(room, &key.room[0], key.bytes.length)
    stays.data = room
    stays.length = key.bytes.length
    return True

cdef status_t offsets_store(Machine* machine, const Bytes* group, OffsetsMeta* head, bint is_empty,
                            bint must_begin) noexcept nogil:
    cdef Planned* planned = NULL
    cdef OffsetKey key
    cdef Bytes stays, value
    cdef status_t status
    if not is_empty or head.retention_ms == 0:
        head.timer_revision = 0
    elif must_begin or head.timer_revision == 0:
        head.timer_revision = machine.plan.revision
    offsets_key(group, &key)
    value.length = sizeof(OffsetsMeta)
    value.data = plan_room(&machine.plan, value.length)
    if value.data == NULL or not _stay(machine, &key, &stays):
        return NO_MEMORY
    memcpy(<uint8_t*>value.data, head, sizeof(OffsetsMeta))
    status = plan_touch(&machine.plan, &stays, &planned)
    if status == OK:
        machine.plan.groups += 1
        plan_put(&machine.plan, planned, &value, planned.lease, ENTRY_OFFSETS)
    return status

cdef status_t offsets_follow(Machine* machine, const Bytes* group, bint is_empty) noexcept nogil:
    cdef OffsetsMeta head
    if not offsets_head(machine, group, &head) or is_empty == (head.timer_revision != 0):
        return OK
    if is_empty and head.retention_ms == 0:
        return OK
    return offsets_store(machine, group, &head, is_empty, False)

cdef status_t offsets_forget(Machine* machine, const Bytes* group) noexcept nogil:
    cdef Vec[KeyView]* views = &machine.transaction.views
    cdef Planned* planned = NULL
    cdef OffsetKey start, end
    cdef OffsetsMeta head
    cdef uint32_t count
    cdef status_t status
    cdef size_t i
    if not offsets_head(machine, group, &head):
        return OK
    views.clear()
    offsets_key(group, &start)
    offsets_key(group, &end)
    end.room[end.bytes.length - 1] = 1
    status = plan_range(&machine.plan, &start.bytes, &end.bytes, ~<uint32_t>0, ~<uint32_t>0, views, &count)
    for i in range(views.size):
        # Members of a group whose name ends with the byte 1 stand here, too.
        if status == OK and views.data[i].flags & (ENTRY_OFFSET | ENTRY_OFFSETS):
            status = plan_touch(&machine.plan, &views.data[i].key, &planned)
            if status == OK:
                plan_delete(&machine.plan, planned)
    machine.plan.groups += 1
    views.clear()
    return status

cdef uint64_t offsets_timer_size(const Lease* lease) noexcept nogil:
    cdef OffsetsMeta head
    cdef Bytes value
    if not lease_is_own(lease) or not lease.first.flags & ENTRY_OFFSETS:
        return 0
    value.data = entry_value(lease.first)
    value.length = lease.first.value_length
    return <uint64_t>2 + head.count if offsets_read(&value, &head) else 2

cdef uint64_t offsets_timer_ms(const Planned* planned, bint* is_new) noexcept nogil:
    cdef OffsetsMeta head
    is_new[0] = False
    if (not planned_is_live(planned) or not planned.flags & ENTRY_OFFSETS or not offsets_read(&planned.value, &head)
            or head.timer_revision == 0):
        return 0
    is_new[0] = head.timer_revision == planned.mod_revision
    return head.retention_ms
