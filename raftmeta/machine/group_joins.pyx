"""Joins of a worker group: bodies."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.machine.group_answers cimport ANSWER_DONE, ANSWER_ID_REQUIRED, ANSWER_WAITS, group_answer_join
from raftmeta.machine.group_keys cimport (Group, equal_bytes, group_delete_key, group_key_behind, group_new_id,
                                          group_store, group_store_member, next_generation)
from raftmeta.machine.group_members cimport (group_check_member, group_holder, group_member, group_of_lease, group_scan,
                                             is_pending)
from raftmeta.machine.group_phases cimport group_maybe_complete, group_prepare
from raftmeta.machine.group_records cimport (GROUP_COMPLETING, GROUP_EMPTY, GROUP_HAS_NEW_MEMBER, GROUP_IS_UNIFORM,
                                             GROUP_PREPARING, GROUP_STABLE, MEMBER_PENDING, GroupMeta, MemberView)
from raftmeta.machine.group_votes cimport are_alike, group_elected, group_learn_spoken, group_supports
from raftmeta.machine.leases cimport FORMAT_TTL_MS_MAX, Lease, lease_is_own, leases_choose_id, leases_find
from raftmeta.machine.state cimport LEVEL_OF_UNIFORM_GROUPS, Machine
from raftmeta.native.marks cimport MARK_GROUP_INSTANCE_TAKEN, MARK_GROUP_MEMBER_PENDING, MARK_GROUP_STAYS_STABLE, mark
from raftmeta.status cimport COMMAND_INVALID, LEASE_EXPIRED, NO_MEMORY, NOT_FOUND, OK, status_t
from raftmeta.wire.groups cimport (GROUP_INCONSISTENT_PROTOCOL, GROUP_MAX_SIZE_REACHED, GROUP_MEMBERS_MAX, GROUP_OK,
                                   GROUP_UNKNOWN_MEMBER, GroupRequest, groups_next)
from raftmeta.wire.windows cimport Bytes

# Whom a join names.
cdef struct Joining:
    bint is_there               # its member is one already, pending or not
    bint has_holder             # its instance has a holder
    int code                    # GROUP_OK, or why its id and its instance do not fit
    MemberView me
    MemberView holder


cdef status_t group_join(Machine* machine, Group* group, int* code) noexcept nogil:
    cdef const GroupRequest* request = &machine.group
    cdef Lease* lease = NULL
    cdef Joining joining
    cdef MemberView* me = &joining.me
    cdef status_t status = _check_lease(machine, &lease)
    if status == OK:
        status = _look(machine, group, lease, &joining, code)
    if status == OK and code[0] == GROUP_OK:
        code[0] = _check_join(machine, group, &joining)
    if code[0] != GROUP_OK or status != OK:
        return status
    if machine.command.ttl_ms != 0:
        # A member that is there keeps its lease, whatever time-out it names now.
        machine.command.id = me.lease if joining.is_there else leases_choose_id(&machine.leases, machine.index)
    if not joining.is_there:
        return _come(machine, group, &joining)
    if not is_pending(me):
        return _rejoin(machine, group, me)
    if request.must_know and request.member.length == 0:
        return group_answer_join(machine, group, ANSWER_ID_REQUIRED, &me.id, False)
    group.record.meta.pending -= 1
    return _add(machine, group, me)

# *lease: of the member; NULL: the join grants one.
cdef status_t _check_lease(Machine* machine, Lease** lease) noexcept nogil:
    if machine.command.ttl_ms != 0:
        return OK if machine.command.ttl_ms <= FORMAT_TTL_MS_MAX else COMMAND_INVALID
    lease[0] = leases_find(&machine.leases, machine.command.id)
    return LEASE_EXPIRED if lease[0] == NULL or lease_is_own(lease[0]) else OK

# Find out whom the join names. *code: that it names nobody, or another holder.
cdef status_t _look(Machine* machine, Group* group, Lease* lease, Joining* joining, int* code) noexcept nogil:
    cdef const GroupRequest* request = &machine.group
    cdef status_t status
    memset(joining, 0, sizeof(Joining))
    code[0] = GROUP_OK
    joining.code = GROUP_OK
    if request.member.length != 0 and not group.exists:
        code[0] = GROUP_UNKNOWN_MEMBER
        return OK
    if group.record.meta.state != GROUP_EMPTY:
        status = group_learn_spoken(machine, group)
        if status != OK:
            return status
    status = group_holder(machine, group, &request.instance, &joining.holder)
    joining.has_holder = status == OK
    if status == NO_MEMORY:
        return status
    if request.member.length:
        status = group_check_member(machine, group, &request.member, &request.instance, &joining.me, &joining.code)
        if status == OK:
            status = group_member(machine, group, &request.member, &joining.me)
    elif lease == NULL:
        status = NOT_FOUND
    else:
        # A join that is asked again: its lease holds the member already.
        status = group_of_lease(machine, group, lease, &request.instance, &joining.me)
    joining.is_there = status == OK
    return OK if status == NOT_FOUND else status

# The checks of docs/groups.md that come before the state of the group counts.
cdef int _check_join(Machine* machine, const Group* group, const Joining* joining) noexcept nogil:
    cdef const GroupRequest* request = &machine.group
    cdef const GroupMeta* meta = &group.record.meta
    cdef bint is_new = not joining.is_there and (request.member.length != 0 or not joining.has_holder)
    if is_new and meta.members + meta.pending >= GROUP_MEMBERS_MAX or not _has_room(group, joining, is_new,
                                                                                    request.members_max):
        return GROUP_MAX_SIZE_REACHED
    if not group_supports(machine, group, request):
        return GROUP_INCONSISTENT_PROTOCOL
    if joining.code == GROUP_OK and request.member.length and not is_pending(&joining.me) and (
            meta.state == GROUP_EMPTY):
        return GROUP_UNKNOWN_MEMBER
    return joining.code

# GroupCoordinator.acceptJoiningMember.
cdef bint _has_room(const Group* group, const Joining* joining, bint is_new, uint32_t members_max) noexcept nogil:
    cdef const GroupMeta* meta = &group.record.meta
    cdef const MemberView* me = &joining.me
    if meta.state == GROUP_EMPTY:
        return True
    if meta.state == GROUP_PREPARING:
        return (joining.is_there and not is_pending(me) and me.record.meta.joined == next_generation(group)
                or meta.joined < members_max)
    return not is_new and (not joining.is_there or not is_pending(me)) or meta.members < members_max

# A member that was not there: of an instance that has a holder, a new one, or one that is to come again with its id.
cdef status_t _come(Machine* machine, Group* group, Joining* joining) noexcept nogil:
    cdef const GroupRequest* request = &machine.group
    cdef MemberView member
    cdef status_t status
    memset(&member, 0, sizeof(MemberView))
    member.record.instance = request.instance
    member.record.client = request.client
    if (not group_new_id(machine, &request.instance if request.instance.length else &request.client, &member.id)
            or not group_key_behind(machine, &group.key, 0, &member.id, &member.key)):
        return NO_MEMORY
    if joining.has_holder:
        return _replace(machine, group, &joining.holder, &member)
    if not request.must_know or request.instance.length:
        return _add(machine, group, &member)
    _take_words(machine, &member)
    mark(MARK_GROUP_MEMBER_PENDING)
    member.record.meta.flags = MEMBER_PENDING
    group.record.meta.pending += 1
    status = group_store_member(machine, &member, False)
    if status == OK:
        status = group_store(machine, group)
    return group_answer_join(machine, group, ANSWER_ID_REQUIRED, &member.id, False) if status == OK else status

# The member says this from now on.
cdef void _take_words(Machine* machine, MemberView* member) noexcept nogil:
    cdef const GroupRequest* request = &machine.group
    member.lease = machine.command.id
    member.record.protocols = request.list
    member.record.meta.protocols = request.count
    member.record.meta.rebalance_ms = request.rebalance_ms

# ... it said something else before, and spoke for all members if they were alike.
cdef void _take_words_of(Machine* machine, Group* group, MemberView* member) noexcept nogil:
    if not are_alike(&member.record.protocols, &machine.group.list):
        group.record.meta.flags &= ~<uint8_t>GROUP_IS_UNIFORM
    _take_words(machine, member)

# It has joined for the next generation.
cdef status_t _await(Machine* machine, Group* group, MemberView* member) noexcept nogil:
    if member.record.meta.joined != next_generation(group):
        member.record.meta.joined = next_generation(group)
        group.record.meta.joined += 1
    return group_store_member(machine, member, False)

cdef status_t _end_join(Machine* machine, Group* group, MemberView* member, status_t status) noexcept nogil:
    if status == OK:
        status = _await(machine, group, member)
    if status == OK:
        status = group_maybe_complete(machine, group)
    if status == OK:
        status = group_store(machine, group)
    if status != OK:
        return status
    return group_answer_join(machine, group,
                             ANSWER_WAITS if group.record.meta.state == GROUP_PREPARING else ANSWER_DONE,
                             &member.id, False)

# GroupCoordinator.addMemberAndRebalance.
cdef status_t _add(Machine* machine, Group* group, MemberView* member) noexcept nogil:
    cdef GroupMeta* meta = &group.record.meta
    cdef status_t status
    _take_words(machine, member)
    member.record.meta.flags = 0
    member.record.meta.joined = 0
    member.record.meta.since = machine.plan.revision
    if meta.members == 0:
        group.record.type = machine.group.type
        if machine.feature_level >= LEVEL_OF_UNIFORM_GROUPS:
            meta.flags |= GROUP_IS_UNIFORM
    elif meta.flags & GROUP_IS_UNIFORM and not are_alike(&group.spoken, &machine.group.list):
        meta.flags &= ~<uint8_t>GROUP_IS_UNIFORM
    if group.record.leader.length == 0:
        group.record.leader = member.id
    meta.members += 1
    if meta.state == GROUP_PREPARING and meta.generation == 0:
        meta.flags |= GROUP_HAS_NEW_MEMBER
    status = group_store_member(machine, member, False)
    if status == OK and meta.state != GROUP_PREPARING:
        status = group_prepare(machine, group, machine.group.initial_ms)
    return _end_join(machine, group, member, status)

# A member that is there joins again (GroupCoordinator.doCurrentMemberJoinGroup).
cdef status_t _rejoin(Machine* machine, Group* group, MemberView* member) noexcept nogil:
    cdef uint8_t state = group.record.meta.state
    cdef bint is_same = equal_bytes(&member.record.protocols, &machine.group.list)
    cdef uint64_t lease = member.lease
    cdef status_t status
    _take_words_of(machine, group, member)
    if is_same and (state == GROUP_COMPLETING
                    or state == GROUP_STABLE and not equal_bytes(&member.id, &group.record.leader)):
        status = group_store_member(machine, member, False) if lease != member.lease else OK
        return group_answer_join(machine, group, ANSWER_DONE, &member.id, False) if status == OK else status
    status = group_store_member(machine, member, False)
    if status == OK and state != GROUP_PREPARING:
        status = group_prepare(machine, group, 0)
    return _end_join(machine, group, member, status)

# Another holder of an instance takes the place of the one before (GroupCoordinator.updateStaticMemberAndRebalance).
cdef status_t _replace(Machine* machine, Group* group, MemberView* holder, MemberView* member) noexcept nogil:
    cdef uint8_t state = group.record.meta.state
    cdef bint was_leader = equal_bytes(&holder.id, &group.record.leader)
    cdef Bytes elected
    cdef status_t status
    mark(MARK_GROUP_INSTANCE_TAKEN)
    member.record = holder.record
    _take_words_of(machine, group, member)
    if was_leader:
        group.record.leader = member.id
    status = group_delete_key(machine, &holder.key)
    if status == OK:
        status = group_store_member(machine, member, False)
    if status == OK and state == GROUP_STABLE:
        status = _elect(machine, group, &elected)
        if status == OK and equal_bytes(&elected, &group.record.protocol):
            mark(MARK_GROUP_STAYS_STABLE)
            status = group_store(machine, group)
            return group_answer_join(machine, group, ANSWER_DONE, &member.id, was_leader) if status == OK else status
    if status == OK and state != GROUP_PREPARING:
        status = group_prepare(machine, group, 0)
    return _end_join(machine, group, member, status)

# The votes with what the new holder says. Members that say the same all choose the first of their protocols.
cdef status_t _elect(Machine* machine, Group* group, Bytes* elected) noexcept nogil:
    cdef Bytes metadata
    cdef uint32_t place = 0
    cdef status_t status
    if group.record.meta.flags & GROUP_IS_UNIFORM and groups_next(&machine.group.list, &place, elected, &metadata):
        return OK
    status = group_scan(machine, group)
    if status == OK:
        elected[0] = group_elected(machine)
    return status
