"""Worker groups: bodies.

A request opens its group, looks at what it needs, is refused or not, and then plans. The group itself is changed in a
Group, which is stored once at the end; each function sees the members as the plan has them. The concerns stand in
files of their own: machine/group_keys, group_members, group_votes, group_phases, group_joins, group_syncs,
group_leaves and group_answers. Groups whose assignments the log decides are those of machine/consumer_groups.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.machine.consumer_groups cimport consumer_run
from raftmeta.machine.deadlines cimport deadline_after
from raftmeta.machine.entry cimport ENTRY_GROUP, ENTRY_OFFSETS, entry_key, entry_value
from raftmeta.machine.group_joins cimport group_join
from raftmeta.machine.group_keys cimport Group, group_grants, group_open, group_store, group_view_member, no_bytes
from raftmeta.machine.group_leaves cimport group_delete, group_delete_empty, group_leave
from raftmeta.machine.group_members cimport group_member, is_pending
from raftmeta.machine.group_offsets cimport offsets_head, offsets_timer_ms, offsets_timer_size
from raftmeta.machine.group_phases cimport group_after_removal, group_begin_timer, group_complete, group_remove
from raftmeta.machine.group_records cimport (GROUP_COMPLETING, GROUP_EMPTY, GROUP_HAS_NEW_MEMBER, GROUP_IS_CONSUMER,
                                             GROUP_WAITS_FOR_TIMER, GroupMeta, GroupRecord, MemberView,
                                             group_is_consumer, group_of_member, group_read)
from raftmeta.machine.group_syncs cimport group_sync
from raftmeta.machine.invariants cimport BROKEN_GROUP_LEASE, BROKEN_GROUP_MEMBER
from raftmeta.machine.leases cimport Lease, lease_is_own, leases_choose_id, leases_find, leases_grant
from raftmeta.machine.plan cimport Plan, Planned, is_live, plan_view, planned_is_live
from raftmeta.machine.rights cimport rights_own_lease
from raftmeta.machine.state cimport Machine
from raftmeta.machine.topic_records cimport OffsetsMeta, group_of_offsets
from raftmeta.native.invariants cimport broken
from raftmeta.native.marks cimport (MARK_GROUP_DELAY_EXTENDED, MARK_GROUP_LEADER_DROPPED, MARK_GROUP_MEMBER_WENT_BEFORE,
                                    MARK_GROUP_MEMBER_WENT_WITH_LEASE, MARK_GROUP_REQUEST_REFUSED,
                                    MARK_GROUP_TIMER_ENDS_PHASE, mark)
from raftmeta.status cimport COMMAND_INVALID, GROUP_REFUSED, NO_MEMORY, NOT_FOUND, OK, status_t
from raftmeta.wire.commands cimport CHANGES_MAX, KeyView, result_number
from raftmeta.wire.groups cimport (GROUP_CONSUMER, GROUP_INCONSISTENT_PROTOCOL, GROUP_JOIN, GROUP_LEAVE, GROUP_OK,
                                   GROUP_SYNC, GROUP_UNKNOWN_MEMBER, groups_decode, groups_verb)
from raftmeta.wire.windows cimport Bytes

cdef enum:
    TIMED = ENTRY_GROUP | ENTRY_OFFSETS     # keys with a lease of the machine's while their timer runs


cdef status_t groups_run(Machine* machine) noexcept nogil:
    cdef Group group
    cdef status_t status = OK
    cdef int code = group_open(machine, &machine.command.name, &group)
    if groups_verb(&machine.command.data) == GROUP_CONSUMER:
        status = consumer_run(machine, &group, &code) if code == GROUP_OK else OK
        return _conclude(machine, status, code)
    if groups_decode(&machine.command.name, &machine.command.data, &machine.group) != OK:
        return COMMAND_INVALID
    if code == GROUP_OK:
        if machine.group.verb == GROUP_JOIN:
            status = _join(machine, &group, &code)
        elif machine.group.verb == GROUP_SYNC:
            status = _sync(machine, &group, &code)
        elif machine.group.verb == GROUP_LEAVE:
            status = group_leave(machine, &group)
        else:
            status = group_delete(machine, &group, &code)
    return _conclude(machine, status, code)

# An empty group of either kind becomes one of the other; its generations go on.
cdef status_t _join(Machine* machine, Group* group, int* code) noexcept nogil:
    if group_is_consumer(&group.record):
        if group.record.meta.members:
            code[0] = GROUP_INCONSISTENT_PROTOCOL
            return OK
        group.record.meta.flags &= ~<uint8_t>GROUP_IS_CONSUMER
        group.record.meta.initial_ms = 0
        group.record.protocol = no_bytes()
    return group_join(machine, group, code)

cdef status_t _sync(Machine* machine, Group* group, int* code) noexcept nogil:
    if group_is_consumer(&group.record):
        code[0] = GROUP_UNKNOWN_MEMBER
        return OK
    return group_sync(machine, group, code)

cdef status_t _conclude(Machine* machine, status_t status, int code) noexcept nogil:
    if status != OK or code == GROUP_OK:
        return status
    mark(MARK_GROUP_REQUEST_REFUSED)
    machine.transaction.body.clear()
    return GROUP_REFUSED if result_number(&machine.transaction.body, code) == OK else <status_t>NO_MEMORY

cdef status_t groups_make_empty(Machine* machine, const Bytes* key) noexcept nogil:
    cdef Group group
    memset(&group, 0, sizeof(Group))
    group.key = key[0]
    return group_store(machine, &group)

# As with znodes, the end of one lease must not get stuck.
cdef status_t groups_plan_removed(Machine* machine, const Bytes* key) noexcept nogil:
    cdef Group group
    cdef MemberView member
    cdef KeyView view
    cdef Bytes parent
    cdef bint was_pending
    cdef status_t status
    if not plan_view(&machine.plan, key, &view):
        mark(MARK_GROUP_MEMBER_WENT_BEFORE)
        return OK
    if (not group_of_member(key, &parent) or group_open(machine, &parent, &group) != GROUP_OK or not group.exists
            or not group_view_member(&parent, &view, &member)):
        return broken(&machine.broken, BROKEN_GROUP_MEMBER, machine.plan.revision, 0)
    machine.plan.changes_max = 2 * CHANGES_MAX
    was_pending = is_pending(&member)
    mark(MARK_GROUP_MEMBER_WENT_WITH_LEASE)
    status = group_remove(machine, &group, &member)
    if status == OK:
        status = group_after_removal(machine, &group, was_pending)
    return group_store(machine, &group) if status == OK else status

cdef uint64_t groups_timer_size(const Lease* lease) noexcept nogil:
    cdef GroupRecord record
    cdef Bytes value
    if not lease_is_own(lease) or not lease.first.flags & ENTRY_GROUP:
        return offsets_timer_size(lease)
    value.data = entry_value(lease.first)
    value.length = lease.first.value_length
    return <uint64_t>1 + record.meta.members if group_read(&value, &record) else 1

# In an entry that began the timer anew, by the end of a member, the old one says nothing any more.
cdef status_t groups_timer(Machine* machine, const Lease* lease) noexcept nogil:
    cdef Group group
    cdef GroupMeta* meta = &group.record.meta
    cdef Bytes key
    cdef uint32_t more_ms
    cdef status_t status
    key.data = entry_key(lease.first)
    key.length = lease.first.key_length
    if lease.first.flags & ENTRY_OFFSETS:
        return _offsets_over(machine, &key)
    if group_open(machine, &key, &group) != GROUP_OK or not group.exists:
        return broken(&machine.broken, BROKEN_GROUP_LEASE, lease.due.id, 0)
    if meta.timer_ms == 0 or meta.timer_revision == machine.plan.revision:
        return OK
    machine.plan.changes_max = 2 * CHANGES_MAX
    if meta.state == GROUP_COMPLETING:
        status = _drop_leader(machine, &group)
    elif meta.flags & GROUP_WAITS_FOR_TIMER and meta.flags & GROUP_HAS_NEW_MEMBER and meta.left_ms:
        mark(MARK_GROUP_DELAY_EXTENDED)
        more_ms = min(meta.initial_ms, meta.left_ms)
        meta.left_ms -= more_ms
        meta.flags &= ~<uint8_t>GROUP_HAS_NEW_MEMBER
        group_begin_timer(machine, &group, more_ms)
        status = OK
    else:
        mark(MARK_GROUP_TIMER_ENDS_PHASE)
        status = group_complete(machine, &group)
    return group_store(machine, &group) if status == OK else status

# The offsets have stood for their time since the group lost its last member: both go. An entry that took the head away
# before, or began its timer anew, leaves nothing to do.
cdef status_t _offsets_over(Machine* machine, const Bytes* key) noexcept nogil:
    cdef OffsetsMeta head
    cdef Bytes parent
    if not group_of_offsets(key, &parent):
        return broken(&machine.broken, BROKEN_GROUP_LEASE, machine.plan.revision, 0)
    if (not offsets_head(machine, &parent, &head) or head.timer_revision == 0
            or head.timer_revision == machine.plan.revision):
        return OK
    return _remove_empty(machine, &parent)

cdef status_t _remove_empty(Machine* machine, const Bytes* key) noexcept nogil:
    cdef Group group
    if group_open(machine, key, &group) != GROUP_OK or not group.exists or group.record.meta.state != GROUP_EMPTY:
        return broken(&machine.broken, BROKEN_GROUP_LEASE, machine.plan.revision, group.record.meta.members)
    return group_delete_empty(machine, &group)

# It has not sent the assignments (GroupCoordinator.onExpirePendingSync).
cdef status_t _drop_leader(Machine* machine, Group* group) noexcept nogil:
    cdef MemberView leader
    cdef status_t status = group_member(machine, group, &group.record.leader, &leader)
    if status == OK:
        mark(MARK_GROUP_LEADER_DROPPED)
        status = group_remove(machine, group, &leader)
    return group_after_removal(machine, group, False) if status == OK or status == NOT_FOUND else status

cdef status_t groups_settle(Machine* machine, uint64_t index) noexcept nogil:
    cdef Plan* plan = &machine.plan
    cdef status_t status = _grant_member(machine) if group_grants(machine) else OK
    cdef size_t i
    for i in range(plan.changes.size):
        if status == OK and (plan.changes.data[i].flags & TIMED or is_live(plan.changes.data[i].before) and (
                plan.changes.data[i].before.flags & TIMED)):
            status = _settle(machine, &plan.changes.data[i], index)
    return status

# Before the timers, which choose their leases among those that are left.
cdef status_t _grant_member(Machine* machine) noexcept nogil:
    cdef Bytes nothing = no_bytes()
    cdef uint64_t id = machine.command.id
    cdef status_t status = leases_grant(&machine.leases, id, machine.command.ttl_ms,
                                        deadline_after(machine.lease_ms, machine.command.ttl_ms), &nothing)
    if status == NO_MEMORY:
        return status
    if status != OK:
        return broken(&machine.broken, BROKEN_GROUP_LEASE, id, machine.command.ttl_ms)
    if (machine.rights.table != NULL and machine.speaker.user != NULL
            and not rights_own_lease(&machine.rights, id, machine.speaker.user.number)):
        return NO_MEMORY
    return OK

cdef status_t _settle(Machine* machine, Planned* planned, uint64_t index) noexcept nogil:
    cdef Lease* lease = NULL
    cdef bint is_new = False
    cdef uint64_t timer_ms = _timer_ms(machine, planned, &is_new)
    if is_live(planned.before) and planned.before.lease != 0:
        lease = leases_find(&machine.leases, planned.before.lease)
    if lease != NULL and (timer_ms == 0 or is_new):
        lease.is_ending = True
        if not machine.ending.push(lease):
            return NO_MEMORY
        planned.lease = 0
    return _grant(machine, planned, timer_ms, index) if timer_ms != 0 and is_new else OK

# How long the timer of a planned key runs (0: none), and whether it begins with the plan.
cdef uint64_t _timer_ms(Machine* machine, const Planned* planned, bint* is_new) noexcept nogil:
    cdef GroupRecord record
    if planned.flags & ENTRY_OFFSETS:
        return offsets_timer_ms(planned, is_new)
    if not planned_is_live(planned) or not group_read(&planned.value, &record):
        return 0
    is_new[0] = record.meta.timer_revision == machine.plan.revision
    return record.meta.timer_ms

cdef status_t _grant(Machine* machine, Planned* planned, uint64_t timer_ms, uint64_t index) noexcept nogil:
    cdef Bytes nothing = no_bytes()
    cdef status_t status
    planned.lease = leases_choose_id(&machine.leases, index)
    status = leases_grant(&machine.leases, planned.lease, timer_ms, deadline_after(machine.lease_ms, timer_ms),
                          &nothing)
    if status == OK or status == NO_MEMORY:
        return status
    return broken(&machine.broken, BROKEN_GROUP_LEASE, planned.lease, timer_ms)
