"""The phases of a worker group: bodies."""
from libc.stdint cimport uint8_t, uint32_t

from raftmeta.machine.group_keys cimport Group, equal_bytes, group_delete_key, next_generation, no_bytes
from raftmeta.machine.group_members cimport group_scan, is_pending
from raftmeta.machine.group_records cimport (GROUP_COMPLETING, GROUP_EMPTY, GROUP_IS_UNIFORM, GROUP_PREPARING,
                                             GROUP_STABLE, GROUP_WAITS_FOR_TIMER, GroupMeta, MemberView,
                                             group_is_consumer)
from raftmeta.machine.group_votes cimport group_elected, group_judge_uniform
from raftmeta.machine.invariants cimport BROKEN_GROUP_MEMBER
from raftmeta.machine.state cimport Machine
from raftmeta.native.invariants cimport broken
from raftmeta.native.marks cimport MARK_GROUP_STATIC_MEMBERS_AWAITED, mark
from raftmeta.status cimport OK, status_t


cdef void group_begin_timer(Machine* machine, Group* group, uint32_t timer_ms) noexcept nogil:
    group.record.meta.timer_ms = max(timer_ms, <uint32_t>1)
    group.record.meta.timer_revision = machine.plan.revision

# The longest of its members' time-outs; machine.members is up to date.
cdef uint32_t _rebalance_ms(Machine* machine) noexcept nogil:
    cdef uint32_t longest = 0
    cdef size_t i
    for i in range(machine.members.size):
        if not is_pending(&machine.members.data[i]) and not machine.members.data[i].is_gone:
            longest = max(longest, machine.members.data[i].record.meta.rebalance_ms)
    return longest

cdef status_t group_prepare(Machine* machine, Group* group, uint32_t initial_ms) noexcept nogil:
    cdef GroupMeta* meta = &group.record.meta
    cdef status_t status = group_scan(machine, group)
    cdef uint32_t rebalance_ms = _rebalance_ms(machine)
    if status != OK:
        return status
    meta.joined = 0
    meta.flags &= GROUP_IS_UNIFORM
    meta.initial_ms = 0
    meta.left_ms = 0
    if meta.state == GROUP_EMPTY and initial_ms != 0:
        meta.flags |= GROUP_WAITS_FOR_TIMER
        meta.initial_ms = initial_ms
        meta.left_ms = rebalance_ms - min(initial_ms, rebalance_ms)
        rebalance_ms = initial_ms
    meta.state = GROUP_PREPARING
    group_begin_timer(machine, group, rebalance_ms)
    return OK

cdef status_t group_maybe_complete(Machine* machine, Group* group) noexcept nogil:
    cdef const GroupMeta* meta = &group.record.meta
    if (meta.state != GROUP_PREPARING or meta.flags & GROUP_WAITS_FOR_TIMER or meta.joined != meta.members
            or meta.pending != 0):
        return OK
    return group_complete(machine, group)

cdef status_t group_complete(Machine* machine, Group* group) noexcept nogil:
    cdef GroupMeta* meta = &group.record.meta
    cdef const MemberView* oldest = NULL
    cdef MemberView* member
    cdef bint has_leader = False
    cdef status_t status = group_scan(machine, group)
    cdef size_t i
    for i in range(machine.members.size):
        member = &machine.members.data[i]
        if status != OK or is_pending(member):
            continue
        if member.record.meta.joined != next_generation(group):
            if member.record.instance.length == 0:
                status = group_remove(machine, group, member)
            continue
        has_leader = has_leader or equal_bytes(&member.id, &group.record.leader)
        if oldest == NULL or member.record.meta.since < oldest.record.meta.since:
            oldest = member
    if status != OK:
        return status
    if oldest == NULL and meta.members != 0:
        mark(MARK_GROUP_STATIC_MEMBERS_AWAITED)
        meta.flags &= GROUP_IS_UNIFORM
        group_begin_timer(machine, group, _rebalance_ms(machine))
        return OK
    if not has_leader:
        group.record.leader = oldest.id if oldest != NULL else no_bytes()
    _begin_generation(machine, group)
    return OK

cdef void _begin_generation(Machine* machine, Group* group) noexcept nogil:
    cdef GroupMeta* meta = &group.record.meta
    meta.generation += 1
    meta.joined = 0
    group_judge_uniform(machine, group)
    meta.flags &= GROUP_IS_UNIFORM
    meta.initial_ms = 0
    meta.left_ms = 0
    group.is_new_generation = True
    if meta.members == 0:
        meta.state = GROUP_EMPTY
        meta.timer_ms = 0
        group.record.protocol = no_bytes()
        return
    meta.state = GROUP_COMPLETING
    group.record.protocol = group_elected(machine)
    group_begin_timer(machine, group, _rebalance_ms(machine))

cdef status_t group_remove(Machine* machine, Group* group, MemberView* member) noexcept nogil:
    cdef GroupMeta* meta = &group.record.meta
    if is_pending(member):
        if meta.pending == 0:
            return broken(&machine.broken, BROKEN_GROUP_MEMBER, meta.pending, meta.members)
        meta.pending -= 1
    else:
        if meta.members == 0:
            return broken(&machine.broken, BROKEN_GROUP_MEMBER, meta.pending, meta.members)
        meta.members -= 1
        if meta.members == 0:
            meta.flags &= ~<uint8_t>GROUP_IS_UNIFORM
        if meta.state == GROUP_PREPARING and member.record.meta.joined == next_generation(group):
            meta.joined -= 1
    if equal_bytes(&member.id, &group.record.leader):
        group.record.leader = no_bytes()
    member.is_gone = True
    return group_delete_key(machine, &member.key)

cdef status_t group_after_removal(Machine* machine, Group* group, bint was_pending) noexcept nogil:
    cdef uint8_t state = group.record.meta.state
    cdef status_t status = OK
    if group_is_consumer(&group.record):
        group_next_epoch(group)
        return OK
    if not was_pending and (state == GROUP_COMPLETING or state == GROUP_STABLE):
        status = group_prepare(machine, group, 0)
    return group_maybe_complete(machine, group) if status == OK else status
