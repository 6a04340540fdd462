"""Joins of a worker group: bodies."""
from libc.stdint cimport uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy, memset

from raftmeta.machine.group_answers cimport ANSWER_DONE, ANSWER_ID_REQUIRED, ANSWER_WAITS, group_answer_join
from raftmeta.machine.group_keys cimport (Group, equal_bytes, group_delete_key, group_key_behind, group_store,
                                          group_store_member, next_generation)
from raftmeta.machine.group_members cimport group_check_member, group_holder, group_member, group_scan, is_pending
from raftmeta.machine.group_phases cimport group_maybe_complete, group_prepare
from raftmeta.machine.group_records cimport (GROUP_COMPLETING, GROUP_EMPTY, GROUP_HAS_NEW_MEMBER, GROUP_PREPARING,
                                             GROUP_STABLE, MEMBER_PENDING, GroupMeta, MemberView)
from raftmeta.machine.group_votes cimport group_elected, group_supports
from raftmeta.machine.leases cimport Lease, lease_is_own, leases_find
from raftmeta.machine.plan cimport plan_room
from raftmeta.machine.state cimport Machine
from raftmeta.native.intrinsics cimport next_random
from raftmeta.native.marks cimport MARK_GROUP_INSTANCE_TAKEN, MARK_GROUP_MEMBER_PENDING, MARK_GROUP_STAYS_STABLE, mark
from raftmeta.status cimport LEASE_EXPIRED, NO_MEMORY, OK, status_t
from raftmeta.wire.groups cimport (GROUP_INCONSISTENT_PROTOCOL, GROUP_MAX_SIZE_REACHED, GROUP_MEMBERS_MAX, GROUP_OK,
                                   GROUP_UNKNOWN_MEMBER, GroupRequest)
from raftmeta.wire.windows cimport Bytes

cdef enum:
    ID_DIGITS = 32


cdef status_t group_join(Machine* machine, Group* group, int* code) noexcept nogil:
    cdef const GroupRequest* request = &machine.group
    cdef const Lease* lease = leases_find(&machine.leases, machine.command.id)
    cdef MemberView* me = NULL
    cdef MemberView* holder
    cdef MemberView member
    cdef status_t status = OK
    if lease == NULL or lease_is_own(lease):
        return LEASE_EXPIRED
    code[0] = _begin_join(machine, group, &me, &status)
    if code[0] != GROUP_OK or status != OK:
        return status
    if me != NULL:
        member = me[0]
        if not is_pending(me):
            return _rejoin(machine, group, &member)
        if request.must_know and request.member.length == 0:
            return group_answer_join(machine, group, ANSWER_ID_REQUIRED, &member.id, False)
        group.record.meta.pending -= 1
        return _add(machine, group, &member)
    memset(&member, 0, sizeof(MemberView))
    member.record.instance = request.instance
    member.record.client = request.client
    if not _new_id(machine, &member.id) or not group_key_behind(machine, &group.key, 0, &member.id, &member.key):
        return NO_MEMORY
    holder = group_holder(machine, &request.instance)
    if holder != NULL:
        return _replace(machine, group, holder, &member)
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

cdef int _begin_join(Machine* machine, Group* group, MemberView** me, status_t* status) noexcept nogil:
    cdef const GroupRequest* request = &machine.group
    cdef bint is_new
    cdef int code = GROUP_OK
    me[0] = NULL
    if request.member.length != 0 and not group.exists:
        return GROUP_UNKNOWN_MEMBER
    status[0] = group_scan(machine, group)
    if status[0] != OK:
        return GROUP_OK
    me[0] = group_member(machine, &request.member) if request.member.length else _of_lease(machine)
    is_new = me[0] == NULL and (request.member.length or group_holder(machine, &request.instance) == NULL)
    if is_new and machine.members.size >= GROUP_MEMBERS_MAX or not _has_room(group, me[0], is_new,
                                                                             request.members_max):
        return GROUP_MAX_SIZE_REACHED
    if not group_supports(machine, group, request):
        return GROUP_INCONSISTENT_PROTOCOL
    if request.member.length:
        code = group_check_member(machine, &request.member, &request.instance, me)
    if code == GROUP_OK and request.member.length and not is_pending(me[0]) and (
            group.record.meta.state == GROUP_EMPTY):
        code = GROUP_UNKNOWN_MEMBER
    return code

# A join without an id that is asked again: its lease holds the member already.
cdef MemberView* _of_lease(Machine* machine) noexcept nogil:
    cdef MemberView* member
    cdef size_t i
    for i in range(machine.members.size):
        member = &machine.members.data[i]
        if member.lease == machine.command.id and equal_bytes(&member.record.instance, &machine.group.instance):
            return member
    return NULL

# GroupCoordinator.acceptJoiningMember.
cdef bint _has_room(const Group* group, const MemberView* me, bint is_new, uint32_t members_max) noexcept nogil:
    cdef const GroupMeta* meta = &group.record.meta
    if meta.state == GROUP_EMPTY:
        return True
    if meta.state == GROUP_PREPARING:
        return (me != NULL and not is_pending(me) and me.record.meta.joined == next_generation(group)
                or meta.joined < members_max)
    return not is_new and (me == NULL or not is_pending(me)) or meta.members < members_max

# The member says this from now on.
cdef void _take_words(Machine* machine, MemberView* member) noexcept nogil:
    cdef const GroupRequest* request = &machine.group
    member.lease = machine.command.id
    member.record.protocols = request.list
    member.record.meta.protocols = request.count
    member.record.meta.rebalance_ms = request.rebalance_ms

# The name, '-', and digits that nobody can know before.
cdef bint _new_id(Machine* machine, Bytes* id) noexcept nogil:
    cdef const GroupRequest* request = &machine.group
    cdef const Bytes* name = &request.instance if request.instance.length else &request.client
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
    _take_words(machine, member)
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
    cdef status_t status
    mark(MARK_GROUP_INSTANCE_TAKEN)
    member.record = holder.record
    _take_words(machine, member)
    if was_leader:
        group.record.leader = member.id
    status = group_delete_key(machine, &holder.key)
    if status == OK:
        status = group_store_member(machine, member, False)
    if status == OK and state == GROUP_STABLE:
        holder[0] = member[0]           # the votes with what the new one says
        if _stays(machine, group):
            mark(MARK_GROUP_STAYS_STABLE)
            status = group_store(machine, group)
            return group_answer_join(machine, group, ANSWER_DONE, &member.id, was_leader) if status == OK else status
    if status == OK and state != GROUP_PREPARING:
        status = group_prepare(machine, group, 0)
    return _end_join(machine, group, member, status)

cdef bint _stays(Machine* machine, const Group* group) noexcept nogil:
    cdef Bytes elected = group_elected(machine)
    return equal_bytes(&elected, &group.record.protocol)
