"""Worker groups: bodies.

A request opens its group (_open), looks at what it needs, is refused or not, and then plans. The group itself is
changed in a Group, which is stored once at the end; each function sees the members as the plan has them.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from raftmeta.machine.deadlines cimport deadline_after
from raftmeta.machine.entry cimport ENTRY_GROUP, ENTRY_MEMBER, ENTRY_OFFSETS, entry_key, entry_value
from raftmeta.machine.group_offsets cimport (offsets_follow, offsets_forget, offsets_head, offsets_timer_ms,
                                             offsets_timer_size)
from raftmeta.machine.group_records cimport (GROUP_COMPLETING, GROUP_EMPTY, GROUP_HAS_NEW_MEMBER, GROUP_PREPARING,
                                             GROUP_STABLE, GROUP_WAITS_FOR_TIMER, MEMBER_PENDING, GroupMeta,
                                             GroupRecord, MemberView, group_length, group_of_member,
                                             group_read, group_write, member_length, member_read, member_write)
from raftmeta.machine.invariants cimport BROKEN_GROUP_LEASE, BROKEN_GROUP_MEMBER
from raftmeta.machine.leases cimport (FORMAT_TTL_MS_MAX, Lease, lease_is_own, leases_choose_id, leases_find,
                                      leases_grant, leases_reserve)
from raftmeta.machine.plan cimport (Plan, Planned, is_live, plan_delete, plan_put, plan_range, plan_room, plan_touch,
                                    plan_view, planned_is_live)
from raftmeta.machine.rights cimport rights_own_lease
from raftmeta.machine.topic_records cimport OffsetsMeta, group_of_offsets
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport next_random
from raftmeta.native.invariants cimport broken
from raftmeta.native.marks cimport (MARK_GROUP_DELAY_EXTENDED, MARK_GROUP_INSTANCE_TAKEN, MARK_GROUP_LEADER_DROPPED,
                                    MARK_GROUP_MEMBER_PENDING, MARK_GROUP_MEMBER_WENT_BEFORE,
                                    MARK_GROUP_MEMBER_WENT_WITH_LEASE, MARK_GROUP_REQUEST_REFUSED, MARK_GROUP_STABLE,
                                    MARK_GROUP_STATIC_MEMBERS_AWAITED, MARK_GROUP_STAYS_STABLE,
                                    MARK_GROUP_TIMER_ENDS_PHASE, mark)
from raftmeta.status cimport COMMAND_INVALID, GROUP_REFUSED, LEASE_EXPIRED, NO_MEMORY, OK
from raftmeta.wire.commands cimport (CHANGES_MAX, COMMAND_GROUPS, KeyView, result_array, result_bool, result_bytes,
                                     result_number, result_unsigned)
from raftmeta.wire.groups cimport (GROUP_FENCED_INSTANCE, GROUP_ID_NOT_FOUND, GROUP_ILLEGAL_GENERATION,
                                   GROUP_INCONSISTENT_PROTOCOL, GROUP_INVALID_ID, GROUP_JOIN, GROUP_LEAVE,
                                   GROUP_MAX_SIZE_REACHED, GROUP_MEMBERS_MAX, GROUP_NON_EMPTY, GROUP_OK,
                                   GROUP_PROTOCOLS_MAX, GROUP_REBALANCE_IN_PROGRESS, GROUP_SYNC,
                                   GROUP_UNKNOWN_MEMBER, GroupRequest, groups_decode,
                                   groups_next)

cdef enum:
    ID_DIGITS = 32
    TIMED = ENTRY_GROUP | ENTRY_OFFSETS     # keys with a lease of the machine's while their timer runs

# FORMAT_: the first element of the answer to a join and to a sync.
cdef enum:
    ANSWER_WAITS = 1            # for the end of the phase
    ANSWER_DONE = 2
    ANSWER_ID_REQUIRED = 3      # join once more, with this id

# The group of a request, as the request leaves it.
cdef struct Group:
    Bytes key
    bint exists
    bint is_new_generation
    GroupRecord record


cdef inline bint _equal(const Bytes* left, const Bytes* right) noexcept nogil:
    return left.length == right.length and (left.length == 0 or memcmp(left.data, right.data, left.length) == 0)

cdef inline Bytes _nothing() noexcept nogil:
    cdef Bytes nothing
    nothing.data = NULL
    nothing.length = 0
    return nothing


# --- the keys of a group ----------------------------------------------------------------------------------------------
# GROUP_OK, or GROUP_INVALID_ID: another key stands there.
cdef int _open(Machine* machine, const Bytes* key, Group* group) noexcept nogil:
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
    elif lease != planned.lease and not _grants(machine):
        status = leases_reserve(&machine.leases, lease, machine.index)
        if status != OK:
            return status
    if is_new and planned_is_live(planned):
        plan_delete(&machine.plan, planned)
    plan_put(&machine.plan, planned, value, lease, <uint16_t>flags)
    return OK

# The join under way grants the lease that its member gets.
cdef inline bint _grants(Machine* machine) noexcept nogil:
    return (machine.command.kind == COMMAND_GROUPS and machine.command.ttl_ms != 0 and machine.command.id != 0
            and leases_find(&machine.leases, machine.command.id) == NULL)

cdef status_t _store(Machine* machine, Group* group) noexcept nogil:
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

cdef status_t _store_member(Machine* machine, const MemberView* member, bint is_new_assignment) noexcept nogil:
    cdef Bytes value
    value.length = member_length(&member.record)
    value.data = plan_room(&machine.plan, value.length)
    if value.data == NULL:
        return NO_MEMORY
    member_write(&member.record, <uint8_t*>value.data)
    return _put(machine, &member.key, &value, member.lease, ENTRY_MEMBER, is_new_assignment)

cdef status_t _delete_key(Machine* machine, const Bytes* key) noexcept nogil:
    cdef Planned* planned = NULL
    cdef status_t status = plan_touch(&machine.plan, key, &planned)
    if status == OK:
        plan_delete(&machine.plan, planned)
    return status

# The key of a group, one byte, and a member's id.
cdef bint _behind(Machine* machine, const Bytes* group, uint8_t byte, const Bytes* id, Bytes* key) noexcept nogil:
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

cdef bint _view_of(const Bytes* group, const KeyView* found, MemberView* member) noexcept nogil:
    memset(member, 0, sizeof(MemberView))
    member.key = found.key
    member.id.data = found.key.data + group.length + 1
    member.id.length = found.key.length - group.length - 1
    member.lease = found.lease
    return found.flags & ENTRY_MEMBER != 0 and member_read(&found.value, &member.record)

# All members of the group, pending ones too, into machine.members in order of ids.
cdef status_t _scan(Machine* machine, const Group* group) noexcept nogil:
    cdef Vec[KeyView]* views = &machine.transaction.views
    cdef Bytes nothing = _nothing()
    cdef Bytes start, end
    cdef MemberView member
    cdef uint32_t count
    cdef status_t status
    cdef size_t i
    views.clear()
    machine.members.clear()
    if not _behind(machine, &group.key, 0, &nothing, &start) or not _behind(machine, &group.key, 1, &nothing, &end):
        return NO_MEMORY
    status = plan_range(&machine.plan, &start, &end, ~<uint32_t>0, ~<uint32_t>0, views, &count)
    for i in range(views.size):
        if status == OK and _view_of(&group.key, &views.data[i], &member) and not machine.members.push(member):
            status = NO_MEMORY
    views.clear()
    return status

cdef inline bint _is_pending(const MemberView* member) noexcept nogil:
    return member.record.meta.flags & MEMBER_PENDING != 0

cdef MemberView* _member(Machine* machine, const Bytes* id) noexcept nogil:
    cdef size_t i
    for i in range(machine.members.size):
        if _equal(&machine.members.data[i].id, id):
            return &machine.members.data[i]
    return NULL

cdef MemberView* _holder(Machine* machine, const Bytes* instance) noexcept nogil:
    cdef size_t i
    for i in range(machine.members.size if instance.length else 0):
        if _equal(&machine.members.data[i].record.instance, instance):
            return &machine.members.data[i]
    return NULL

# Who holds this id, and this instance if one is named (GroupCoordinator.validateCurrentMember).
cdef int _check_member(Machine* machine, const Bytes* id, const Bytes* instance, MemberView** member) noexcept nogil:
    cdef MemberView* holder
    if instance.length:
        holder = _holder(machine, instance)
        if holder == NULL:
            return GROUP_UNKNOWN_MEMBER
        if not _equal(&holder.id, id):
            return GROUP_FENCED_INSTANCE
    member[0] = _member(machine, id)
    return GROUP_UNKNOWN_MEMBER if member[0] == NULL else GROUP_OK


# --- protocols --------------------------------------------------------------------------------------------------------
cdef bint _has_protocol(const Bytes* list, const Bytes* name) noexcept nogil:
    cdef Bytes found, metadata
    cdef uint32_t place = 0
    while groups_next(list, &place, &found, &metadata):
        if _equal(&found, name):
            return True
    return False

cdef bint _all_have(Machine* machine, const Bytes* name) noexcept nogil:
    cdef size_t i
    for i in range(machine.members.size):
        if (not _is_pending(&machine.members.data[i]) and not machine.members.data[i].is_gone
                and not _has_protocol(&machine.members.data[i].record.protocols, name)):
            return False
    return True

# GroupMetadata.supportsProtocols.
cdef bint _supports(Machine* machine, const Group* group, const GroupRequest* request) noexcept nogil:
    cdef Bytes name, metadata
    cdef uint32_t place = 0
    if group.record.meta.state == GROUP_EMPTY:
        return request.type.length != 0 and request.count != 0
    if not _equal(&group.record.type, &request.type):
        return False
    while groups_next(&request.list, &place, &name, &metadata):
        if _all_have(machine, &name):
            return True
    return False

cdef MemberView* _first(Machine* machine) noexcept nogil:
    cdef size_t i
    for i in range(machine.members.size):
        if not _is_pending(&machine.members.data[i]) and not machine.members.data[i].is_gone:
            return &machine.members.data[i]
    return NULL

# The votes of the members in machine.members (GroupMetadata.selectProtocol); empty: there is no candidate.
cdef Bytes _elected(Machine* machine) noexcept nogil:
    cdef Bytes[GROUP_PROTOCOLS_MAX] names
    cdef uint32_t[GROUP_PROTOCOLS_MAX] votes
    cdef uint32_t count = 0
    cdef uint32_t best = 0
    cdef uint32_t place = 0
    cdef const MemberView* first = _first(machine)
    cdef Bytes name, metadata
    cdef size_t i
    while (first != NULL and count < GROUP_PROTOCOLS_MAX
           and groups_next(&first.record.protocols, &place, &name, &metadata)):
        if _all_have(machine, &name):
            names[count] = name
            votes[count] = 0
            count += 1
    for i in range(machine.members.size):
        if not _is_pending(&machine.members.data[i]) and not machine.members.data[i].is_gone:
            _vote(&machine.members.data[i].record.protocols, names, votes, count)
    for i in range(1, count):
        if votes[i] > votes[best]:
            best = <uint32_t>i
    return names[best] if count else _nothing()

cdef void _vote(const Bytes* list, const Bytes* names, uint32_t* votes, uint32_t count) noexcept nogil:
    cdef Bytes name, metadata
    cdef uint32_t place = 0
    cdef uint32_t i
    while groups_next(list, &place, &name, &metadata):
        for i in range(count):
            if _equal(&names[i], &name):
                votes[i] += 1
                return


# --- phases -----------------------------------------------------------------------------------------------------------
cdef inline uint32_t _next_generation(const Group* group) noexcept nogil:
    return group.record.meta.generation + 1

cdef inline void _begin_timer(Machine* machine, Group* group, uint32_t timer_ms) noexcept nogil:
    group.record.meta.timer_ms = max(timer_ms, <uint32_t>1)
    group.record.meta.timer_revision = machine.plan.revision

# The longest of its members' time-outs; machine.members is up to date.
cdef uint32_t _rebalance_ms(Machine* machine) noexcept nogil:
    cdef uint32_t longest = 0
    cdef size_t i
    for i in range(machine.members.size):
        if not _is_pending(&machine.members.data[i]) and not machine.members.data[i].is_gone:
            longest = max(longest, machine.members.data[i].record.meta.rebalance_ms)
    return longest

# GroupCoordinator.prepareRebalance. initial_ms: of the join that finds the group empty.
cdef status_t _prepare(Machine* machine, Group* group, uint32_t initial_ms) noexcept nogil:
    cdef GroupMeta* meta = &group.record.meta
    cdef status_t status = _scan(machine, group)
    cdef uint32_t rebalance_ms = _rebalance_ms(machine)
    if status != OK:
        return status
    meta.joined = 0
    meta.flags = 0
    meta.initial_ms = 0
    meta.left_ms = 0
    if meta.state == GROUP_EMPTY and initial_ms != 0:
        meta.flags = GROUP_WAITS_FOR_TIMER
        meta.initial_ms = initial_ms
        meta.left_ms = rebalance_ms - min(initial_ms, rebalance_ms)
        rebalance_ms = initial_ms
    meta.state = GROUP_PREPARING
    _begin_timer(machine, group, rebalance_ms)
    return OK

# DelayedJoin: all have joined, and nobody is awaited.
cdef status_t _maybe_complete(Machine* machine, Group* group) noexcept nogil:
    cdef const GroupMeta* meta = &group.record.meta
    if (meta.state != GROUP_PREPARING or meta.flags & GROUP_WAITS_FOR_TIMER or meta.joined != meta.members
            or meta.pending != 0):
        return OK
    return _complete(machine, group)

# GroupCoordinator.onCompleteJoin.
cdef status_t _complete(Machine* machine, Group* group) noexcept nogil:
    cdef GroupMeta* meta = &group.record.meta
    cdef const MemberView* oldest = NULL
    cdef MemberView* member
    cdef bint has_leader = False
    cdef status_t status = _scan(machine, group)
    cdef size_t i
    for i in range(machine.members.size):
        member = &machine.members.data[i]
        if status != OK or _is_pending(member):
            continue
        if member.record.meta.joined != _next_generation(group):
            if member.record.instance.length == 0:
                status = _remove(machine, group, member)
            continue
        has_leader = has_leader or _equal(&member.id, &group.record.leader)
        if oldest == NULL or member.record.meta.since < oldest.record.meta.since:
            oldest = member
    if status != OK:
        return status
    if oldest == NULL and meta.members != 0:
        mark(MARK_GROUP_STATIC_MEMBERS_AWAITED)
        meta.flags = 0
        _begin_timer(machine, group, _rebalance_ms(machine))
        return OK
    if not has_leader:
        group.record.leader = oldest.id if oldest != NULL else _nothing()
    _begin_generation(machine, group)
    return OK

cdef void _begin_generation(Machine* machine, Group* group) noexcept nogil:
    cdef GroupMeta* meta = &group.record.meta
    meta.generation += 1
    meta.joined = 0
    meta.flags = 0
    meta.initial_ms = 0
    meta.left_ms = 0
    group.is_new_generation = True
    if meta.members == 0:
        meta.state = GROUP_EMPTY
        meta.timer_ms = 0
        group.record.protocol = _nothing()
        return
    meta.state = GROUP_COMPLETING
    group.record.protocol = _elected(machine)
    _begin_timer(machine, group, _rebalance_ms(machine))

# The member goes; nothing follows from it yet.
cdef status_t _remove(Machine* machine, Group* group, MemberView* member) noexcept nogil:
    cdef GroupMeta* meta = &group.record.meta
    if _is_pending(member):
        if meta.pending == 0:
            return broken(&machine.broken, BROKEN_GROUP_MEMBER, meta.pending, meta.members)
        meta.pending -= 1
    else:
        if meta.members == 0:
            return broken(&machine.broken, BROKEN_GROUP_MEMBER, meta.pending, meta.members)
        meta.members -= 1
        if meta.state == GROUP_PREPARING and member.record.meta.joined == _next_generation(group):
            meta.joined -= 1
    if _equal(&member.id, &group.record.leader):
        group.record.leader = _nothing()
    member.is_gone = True
    return _delete_key(machine, &member.key)

# GroupCoordinator.removeMemberAndUpdateGroup, removePendingMemberAndUpdateGroup.
cdef status_t _after_removal(Machine* machine, Group* group, bint was_pending) noexcept nogil:
    cdef uint8_t state = group.record.meta.state
    cdef status_t status = OK
    if not was_pending and (state == GROUP_COMPLETING or state == GROUP_STABLE):
        status = _prepare(machine, group, 0)
    return _maybe_complete(machine, group) if status == OK else status


# --- join -------------------------------------------------------------------------------------------------------------
cdef int _begin_join(Machine* machine, Group* group, MemberView** me, status_t* status) noexcept nogil:
    cdef const GroupRequest* request = &machine.group
    cdef bint is_new
    cdef int code = GROUP_OK
    me[0] = NULL
    if request.member.length != 0 and not group.exists:
        return GROUP_UNKNOWN_MEMBER
    status[0] = _scan(machine, group)
    if status[0] != OK:
        return GROUP_OK
    me[0] = _member(machine, &request.member) if request.member.length else _of_lease(machine)
    is_new = me[0] == NULL and (request.member.length or _holder(machine, &request.instance) == NULL)
    if is_new and machine.members.size >= GROUP_MEMBERS_MAX or not _has_room(group, me[0], is_new,
                                                                             request.members_max):
        return GROUP_MAX_SIZE_REACHED
    if not _supports(machine, group, request):
        return GROUP_INCONSISTENT_PROTOCOL
    if request.member.length:
        code = _check_member(machine, &request.member, &request.instance, me)
    if code == GROUP_OK and request.member.length and not _is_pending(me[0]) and (
            group.record.meta.state == GROUP_EMPTY):
        code = GROUP_UNKNOWN_MEMBER
    return code

# A join without an id that is asked again: its lease holds the member already.
cdef MemberView* _of_lease(Machine* machine) noexcept nogil:
    cdef MemberView* member
    cdef size_t i
    for i in range(machine.members.size):
        member = &machine.members.data[i]
        if member.lease == machine.command.id and _equal(&member.record.instance, &machine.group.instance):
            return member
    return NULL

# GroupCoordinator.acceptJoiningMember.
cdef bint _has_room(const Group* group, const MemberView* me, bint is_new, uint32_t members_max) noexcept nogil:
    cdef const GroupMeta* meta = &group.record.meta
    if meta.state == GROUP_EMPTY:
        return True
    if meta.state == GROUP_PREPARING:
        return (me != NULL and not _is_pending(me) and me.record.meta.joined == _next_generation(group)
                or meta.joined < members_max)
    return not is_new and (me == NULL or not _is_pending(me)) or meta.members < members_max

# *code: why it is refused.
cdef status_t _join(Machine* machine, Group* group, int* code) noexcept nogil:
    cdef const GroupRequest* request = &machine.group
    cdef MemberView* me = NULL
    cdef MemberView* holder
    cdef MemberView member
    cdef status_t status = _check_lease(machine)
    if status != OK:
        return status
    code[0] = _begin_join(machine, group, &me, &status)
    if code[0] != GROUP_OK or status != OK:
        return status
    if machine.command.ttl_ms != 0:
        # A member that is there keeps its lease, whatever time-out it names now.
        machine.command.id = me.lease if me != NULL else leases_choose_id(&machine.leases, machine.index)
    if me != NULL:
        member = me[0]
        if not _is_pending(me):
            return _rejoin(machine, group, &member)
        if request.must_know and request.member.length == 0:
            return _answer_join(machine, group, ANSWER_ID_REQUIRED, &member.id, False)
        group.record.meta.pending -= 1
        return _add(machine, group, &member)
    memset(&member, 0, sizeof(MemberView))
    member.record.instance = request.instance
    member.record.client = request.client
    if not _new_id(machine, &member.id) or not _behind(machine, &group.key, 0, &member.id, &member.key):
        return NO_MEMORY
    holder = _holder(machine, &request.instance)
    if holder != NULL:
        return _replace(machine, group, holder, &member)
    if not request.must_know or request.instance.length:
        return _add(machine, group, &member)
    _take_words(machine, &member)
    mark(MARK_GROUP_MEMBER_PENDING)
    member.record.meta.flags = MEMBER_PENDING
    group.record.meta.pending += 1
    status = _store_member(machine, &member, False)
    if status == OK:
        status = _store(machine, group)
    return _answer_join(machine, group, ANSWER_ID_REQUIRED, &member.id, False) if status == OK else status

cdef status_t _check_lease(Machine* machine) noexcept nogil:
    cdef const Lease* lease
    if machine.command.ttl_ms != 0:
        return OK if machine.command.ttl_ms <= FORMAT_TTL_MS_MAX else COMMAND_INVALID
    lease = leases_find(&machine.leases, machine.command.id)
    return LEASE_EXPIRED if lease == NULL or lease_is_own(lease) else OK

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
    if member.record.meta.joined != _next_generation(group):
        member.record.meta.joined = _next_generation(group)
        group.record.meta.joined += 1
    return _store_member(machine, member, False)

cdef status_t _end_join(Machine* machine, Group* group, MemberView* member, status_t status) noexcept nogil:
    if status == OK:
        status = _await(machine, group, member)
    if status == OK:
        status = _maybe_complete(machine, group)
    if status == OK:
        status = _store(machine, group)
    if status != OK:
        return status
    return _answer_join(machine, group, ANSWER_WAITS if group.record.meta.state == GROUP_PREPARING else ANSWER_DONE,
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
    status = _store_member(machine, member, False)
    if status == OK and meta.state != GROUP_PREPARING:
        status = _prepare(machine, group, machine.group.initial_ms)
    return _end_join(machine, group, member, status)

# A member that is there joins again (GroupCoordinator.doCurrentMemberJoinGroup).
cdef status_t _rejoin(Machine* machine, Group* group, MemberView* member) noexcept nogil:
    cdef uint8_t state = group.record.meta.state
    cdef bint is_same = _equal(&member.record.protocols, &machine.group.list)
    cdef uint64_t lease = member.lease
    cdef status_t status
    _take_words(machine, member)
    if is_same and (state == GROUP_COMPLETING
                    or state == GROUP_STABLE and not _equal(&member.id, &group.record.leader)):
        status = _store_member(machine, member, False) if lease != member.lease else OK
        return _answer_join(machine, group, ANSWER_DONE, &member.id, False) if status == OK else status
    status = _store_member(machine, member, False)
    if status == OK and state != GROUP_PREPARING:
        status = _prepare(machine, group, 0)
    return _end_join(machine, group, member, status)

# Another holder of an instance takes the place of the one before (GroupCoordinator.updateStaticMemberAndRebalance).
cdef status_t _replace(Machine* machine, Group* group, MemberView* holder, MemberView* member) noexcept nogil:
    cdef uint8_t state = group.record.meta.state
    cdef bint was_leader = _equal(&holder.id, &group.record.leader)
    cdef status_t status
    mark(MARK_GROUP_INSTANCE_TAKEN)
    member.record = holder.record
    _take_words(machine, member)
    if was_leader:
        group.record.leader = member.id
    status = _delete_key(machine, &holder.key)
    if status == OK:
        status = _store_member(machine, member, False)
    if status == OK and state == GROUP_STABLE:
        holder[0] = member[0]           # the votes with what the new one says
        if _stays(machine, group):
            mark(MARK_GROUP_STAYS_STABLE)
            status = _store(machine, group)
            return _answer_join(machine, group, ANSWER_DONE, &member.id, was_leader) if status == OK else status
    if status == OK and state != GROUP_PREPARING:
        status = _prepare(machine, group, 0)
    return _end_join(machine, group, member, status)

cdef bint _stays(Machine* machine, const Group* group) noexcept nogil:
    cdef Bytes elected = _elected(machine)
    return _equal(&elected, &group.record.protocol)

# [what follows, id, generation, leader, protocol, whether the leader is to assign nothing]. Who waits does so for this
# generation.
cdef status_t _answer_join(Machine* machine, const Group* group, uint32_t what, const Bytes* id,
                           bint skips) noexcept nogil:
    cdef Vec[uint8_t]* body = &machine.transaction.body
    cdef Bytes nothing = _nothing()
    cdef bint is_done = what == ANSWER_DONE
    if (result_array(body, 6) != OK or result_unsigned(body, what) != OK or result_bytes(body, id) != OK
            or result_unsigned(body, group.record.meta.generation if is_done else _next_generation(group)) != OK
            or result_bytes(body, &group.record.leader if is_done else &nothing) != OK
            or result_bytes(body, &group.record.protocol if is_done else &nothing) != OK
            or result_bool(body, skips) != OK):
        return NO_MEMORY
    return OK


# --- sync, leave, delete ----------------------------------------------------------------------------------------------
# GroupCoordinator.validateSyncGroup, doSyncGroup.
cdef status_t _sync(Machine* machine, Group* group, int* code) noexcept nogil:
    cdef const GroupRequest* request = &machine.group
    cdef const GroupMeta* meta = &group.record.meta
    cdef MemberView* me = NULL
    cdef status_t status = OK
    code[0] = GROUP_UNKNOWN_MEMBER
    if group.exists:
        status = _scan(machine, group)
        if status != OK:
            return status
        code[0] = _check_member(machine, &request.member, &request.instance, &me)
    if code[0] == GROUP_OK and _is_pending(me):
        code[0] = GROUP_UNKNOWN_MEMBER
    if code[0] == GROUP_OK:
        code[0] = _check_sync(group, request)
    if code[0] != GROUP_OK:
        return OK
    if meta.state == GROUP_COMPLETING and _equal(&me.id, &group.record.leader):
        status = _assign(machine, group)
    return _answer_sync(machine, group, me) if status == OK else status

cdef int _check_sync(const Group* group, const GroupRequest* request) noexcept nogil:
    if request.generation != group.record.meta.generation:
        return GROUP_ILLEGAL_GENERATION
    if (request.type.length and not _equal(&request.type, &group.record.type)
            or request.protocol.length and not _equal(&request.protocol, &group.record.protocol)):
        return GROUP_INCONSISTENT_PROTOCOL
    if group.record.meta.state == GROUP_EMPTY:
        return GROUP_UNKNOWN_MEMBER
    return GROUP_REBALANCE_IN_PROGRESS if group.record.meta.state == GROUP_PREPARING else GROUP_OK

# Each member gets what the list has for it. Both are in order of ids.
cdef status_t _assign(Machine* machine, Group* group) noexcept nogil:
    cdef Bytes id = _nothing()
    cdef Bytes assignment = _nothing()
    cdef uint32_t place = 0
    cdef bint is_there = groups_next(&machine.group.list, &place, &id, &assignment)
    cdef MemberView* member
    cdef status_t status = OK
    cdef size_t i
    for i in range(machine.members.size):
        member = &machine.members.data[i]
        if _is_pending(member):
            continue
        while is_there and _is_before(&id, &member.id):
            is_there = groups_next(&machine.group.list, &place, &id, &assignment)
        member.record.assignment = assignment if is_there and _equal(&id, &member.id) else _nothing()
        member.record.meta.assigned = group.record.meta.generation
        status = _store_member(machine, member, True)
        if status != OK:
            return status
    mark(MARK_GROUP_STABLE)
    group.record.meta.state = GROUP_STABLE
    group.record.meta.timer_ms = 0
    return _store(machine, group)

cdef inline bint _is_before(const Bytes* left, const Bytes* right) noexcept nogil:
    cdef int order = memcmp(left.data, right.data, min(left.length, right.length))
    return order < 0 or order == 0 and left.length < right.length

# [what follows, generation, assignment]
cdef status_t _answer_sync(Machine* machine, const Group* group, const MemberView* me) noexcept nogil:
    cdef Vec[uint8_t]* body = &machine.transaction.body
    cdef bint is_done = group.record.meta.state == GROUP_STABLE
    cdef Bytes assignment = me.record.assignment
    if not is_done or me.record.meta.assigned != group.record.meta.generation:
        assignment = _nothing()
    if (result_array(body, 3) != OK or result_unsigned(body, ANSWER_DONE if is_done else ANSWER_WAITS) != OK
            or result_unsigned(body, group.record.meta.generation) != OK or result_bytes(body, &assignment) != OK):
        return NO_MEMORY
    return OK

# GroupCoordinator.handleLeaveGroup: the answer has a code for each.
cdef status_t _leave(Machine* machine, Group* group) noexcept nogil:
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
    return _store(machine, group) if status == OK and has_changed else status

cdef int _leave_one(Machine* machine, Group* group, const Bytes* id, const Bytes* instance,
                    status_t* status) noexcept nogil:
    cdef MemberView* member = NULL
    cdef bint was_pending
    cdef int code = GROUP_OK
    if not group.exists:
        return GROUP_UNKNOWN_MEMBER
    status[0] = _scan(machine, group)
    if status[0] != OK:
        return GROUP_OK
    if id.length == 0 and instance.length:
        member = _holder(machine, instance)
        code = GROUP_UNKNOWN_MEMBER if member == NULL else GROUP_OK
    else:
        code = _check_member(machine, id, instance, &member)
    if code != GROUP_OK:
        return code
    was_pending = _is_pending(member)
    status[0] = _remove(machine, group, member)
    if status[0] == OK:
        status[0] = _after_removal(machine, group, was_pending)
    return GROUP_OK

# GroupCoordinator.handleDeleteGroups. Pending members of an empty group go with it.
cdef status_t _delete(Machine* machine, Group* group, int* code) noexcept nogil:
    if not group.exists:
        code[0] = GROUP_ID_NOT_FOUND
        return OK
    if group.record.meta.state != GROUP_EMPTY:
        code[0] = GROUP_NON_EMPTY
        return OK
    return _delete_empty(machine, group)

cdef status_t _delete_empty(Machine* machine, const Group* group) noexcept nogil:
    cdef status_t status = _scan(machine, group)
    cdef size_t i
    machine.plan.changes_max = 2 * CHANGES_MAX
    for i in range(machine.members.size):
        if status == OK:
            status = _delete_key(machine, &machine.members.data[i].key)
    if status == OK:
        status = offsets_forget(machine, &group.key)
    machine.plan.groups += 1
    return _delete_key(machine, &group.key) if status == OK else status


# --- for the offsets of a group ---------------------------------------------------------------------------------------
cdef status_t groups_make_empty(Machine* machine, const Bytes* key) noexcept nogil:
    cdef Group group
    memset(&group, 0, sizeof(Group))
    group.key = key[0]
    return _store(machine, &group)

cdef status_t groups_remove_empty(Machine* machine, const Bytes* key) noexcept nogil:
    cdef Group group
    if _open(machine, key, &group) != GROUP_OK or not group.exists or group.record.meta.state != GROUP_EMPTY:
        return broken(&machine.broken, BROKEN_GROUP_LEASE, machine.plan.revision, group.record.meta.members)
    return _delete_empty(machine, &group)


# --- a request --------------------------------------------------------------------------------------------------------
cdef status_t groups_run(Machine* machine) noexcept nogil:
    cdef Group group
    cdef status_t status = OK
    cdef int code = _open(machine, &machine.command.name, &group)
    if groups_decode(&machine.command.name, &machine.command.data, &machine.group) != OK:
        return COMMAND_INVALID
    if code == GROUP_OK:
        if machine.group.verb == GROUP_JOIN:
            status = _join(machine, &group, &code)
        elif machine.group.verb == GROUP_SYNC:
            status = _sync(machine, &group, &code)
        elif machine.group.verb == GROUP_LEAVE:
            status = _leave(machine, &group)
        else:
            status = _delete(machine, &group, &code)
    if status != OK or code == GROUP_OK:
        return status
    mark(MARK_GROUP_REQUEST_REFUSED)
    machine.transaction.body.clear()
    return GROUP_REFUSED if result_number(&machine.transaction.body, code) == OK else <status_t>NO_MEMORY


# --- leases -----------------------------------------------------------------------------------------------------------
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
    if (not group_of_member(key, &parent) or _open(machine, &parent, &group) != GROUP_OK or not group.exists
            or not _view_of(&parent, &view, &member)):
        return broken(&machine.broken, BROKEN_GROUP_MEMBER, machine.plan.revision, 0)
    machine.plan.changes_max = 2 * CHANGES_MAX
    was_pending = _is_pending(&member)
    mark(MARK_GROUP_MEMBER_WENT_WITH_LEASE)
    status = _remove(machine, &group, &member)
    if status == OK:
        status = _after_removal(machine, &group, was_pending)
    return _store(machine, &group) if status == OK else status

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
    if _open(machine, &key, &group) != GROUP_OK or not group.exists:
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
        meta.flags = GROUP_WAITS_FOR_TIMER
        _begin_timer(machine, &group, more_ms)
        status = OK
    else:
        mark(MARK_GROUP_TIMER_ENDS_PHASE)
        status = _complete(machine, &group)
    return _store(machine, &group) if status == OK else status

# The offsets have stood for their time since the group lost its last member: both go. An entry that took the head away
# before, or began its timer anew, leaves nothing to do.
cdef status_t _offsets_over(Machine* machine, const Bytes* key) noexcept nogil:
    cdef OffsetsMeta head
    cdef Group group
    cdef Bytes parent
    if not group_of_offsets(key, &parent):
        return broken(&machine.broken, BROKEN_GROUP_LEASE, machine.plan.revision, 0)
    if (not offsets_head(machine, &parent, &head) or head.timer_revision == 0
            or head.timer_revision == machine.plan.revision):
        return OK
    return groups_remove_empty(machine, &parent)

# It has not sent the assignments (GroupCoordinator.onExpirePendingSync).
cdef status_t _drop_leader(Machine* machine, Group* group) noexcept nogil:
    cdef status_t status = _scan(machine, group)
    cdef MemberView* leader = _member(machine, &group.record.leader)
    if status == OK and leader != NULL:
        mark(MARK_GROUP_LEADER_DROPPED)
        status = _remove(machine, group, leader)
    return _after_removal(machine, group, False) if status == OK else status

cdef status_t groups_settle(Machine* machine, uint64_t index) noexcept nogil:
    cdef Plan* plan = &machine.plan
    cdef status_t status = _grant_member(machine) if _grants(machine) else OK
    cdef size_t i
    for i in range(plan.changes.size):
        if status == OK and (plan.changes.data[i].flags & TIMED or is_live(plan.changes.data[i].before) and (
                plan.changes.data[i].before.flags & TIMED)):
            status = _settle(machine, &plan.changes.data[i], index)
    return status

# Before the timers, which choose their leases among those that are left.
cdef status_t _grant_member(Machine* machine) noexcept nogil:
    cdef Bytes nothing = _nothing()
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
    cdef Bytes nothing = _nothing()
    cdef status_t status
    planned.lease = leases_choose_id(&machine.leases, index)
    status = leases_grant(&machine.leases, planned.lease, timer_ms, deadline_after(machine.lease_ms, timer_ms),
                          &nothing)
    if status == OK or status == NO_MEMORY:
        return status
    return broken(&machine.broken, BROKEN_GROUP_LEASE, planned.lease, timer_ms)
