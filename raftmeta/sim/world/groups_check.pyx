"""Worker groups by the committed log: bodies.

_judge sees one entry: the command, what the machine answered, and the keys of each group before and behind it.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from raftmeta.machine.group_records cimport GROUP_COMPLETING, GROUP_EMPTY, GROUP_PREPARING, GROUP_STABLE
from raftmeta.machine.machine cimport (APPLY_DONE, APPLY_MORE, ApplyOutcome, ApplyResult, MachineLimits, MachineStatus,
                                       machine_apply, machine_create, machine_destroy, machine_lease, machine_publish,
                                       machine_status)
from raftmeta.machine.state cimport Machine
from raftmeta.raft.types cimport ENTRY_COMMAND, Record
from raftmeta.sim.world.entries cimport entries_find
from raftmeta.sim.world.groups_state cimport (SIM_GROUP_CLIENTS, SIM_GROUP_KEYS, SIM_GROUP_RESOURCES, SIM_GROUPS,
                                              SIM_MEMBER_ID_MAX, SimGroups, SimGroupTruth, SimGroupView, SimMember)
from raftmeta.sim.world.groups_view cimport (group_deadlines, group_look, group_of_key, id_bytes, id_is,
                                             id_keep, instance_of, resources_of, view_holder, view_member)
from raftmeta.sim.world.topics_check cimport topics_are_due, topics_before, topics_look, topics_take
from raftmeta.sim.world.world_state cimport (VIOLATION_FATAL, VIOLATION_GROUP_ASSIGNMENT, VIOLATION_GROUP_GENERATION,
                                             VIOLATION_GROUP_LEADER, VIOLATION_GROUP_MEMBER, VIOLATION_GROUP_OWNER,
                                             VIOLATION_GROUP_REQUEST, VIOLATION_JOIN_LEASE, VIOLATION_NO_MEMORY,
                                             VIOLATION_STATE_HASH, violate)
from raftmeta.status cimport GROUP_REFUSED, OK
from raftmeta.wire.commands cimport (COMMAND_GROUPS, COMMAND_KEYS, COMMAND_LEASE_EXPIRE, COMMAND_LEASE_REVOKE, Bytes,
                                     Command, command_decode, command_init, command_release)
from raftmeta.wire.groups cimport (GROUP_DELETE, GROUP_FENCED_INSTANCE, GROUP_ILLEGAL_GENERATION, GROUP_JOIN,
                                   GROUP_LEAVE, GROUP_OK, GROUP_REBALANCE_IN_PROGRESS, GROUP_SYNC,
                                   GROUP_UNKNOWN_MEMBER, GroupRequest, groups_decode, groups_next)
from raftmeta.wire.msgpack cimport Reader, read_array, read_bin, read_int, read_uint, reader_over, unsigned_max

cdef enum:
    LOOKED_OF = 8               # topics of a node are looked at after one entry of so many; its state hash after each

ctypedef const ApplyResult* Result


# --- the request ------------------------------------------------------------------------------------------------------
# The request of this entry for this group; its verb, or 0. *is_done: the machine took it.
cdef uint8_t _verb(SimGroups* groups, uint32_t group, Result result, bint* is_done) noexcept nogil:
    cdef const Command* command = &groups.command
    cdef Bytes id
    is_done[0] = False
    if command.kind != COMMAND_GROUPS or result.is_duplicate or group_of_key(&command.name, &id) != group:
        return 0
    if groups_decode(&command.name, &command.data, &groups.request) != OK:
        return 0
    is_done[0] = result.status == OK
    return groups.request.verb


# The holder of the instance that a request names is somebody else, or nobody.
cdef int _expected_holder(SimGroupView* before, const Bytes* id, const Bytes* instance) noexcept nogil:
    cdef SimMember* holder
    if not before.exists:
        return GROUP_UNKNOWN_MEMBER
    if instance.length:
        holder = view_holder(before, instance_of(instance))
        if holder == NULL:
            return GROUP_UNKNOWN_MEMBER
        if not id_is(&holder.id, id):
            return GROUP_FENCED_INSTANCE
    return GROUP_OK if view_member(before, id) != NULL else GROUP_UNKNOWN_MEMBER


# docs/groups.md "Checks", for a sync that names neither type nor protocol.
cdef int _expected_sync(SimGroupView* before, const GroupRequest* request) noexcept nogil:
    cdef int code = _expected_holder(before, &request.member, &request.instance)
    if code != GROUP_OK:
        return code
    if view_member(before, &request.member).is_pending:
        return GROUP_UNKNOWN_MEMBER
    if request.generation != before.generation:
        return GROUP_ILLEGAL_GENERATION
    if before.state == GROUP_EMPTY:
        return GROUP_UNKNOWN_MEMBER
    return GROUP_REBALANCE_IN_PROGRESS if before.state == GROUP_PREPARING else GROUP_OK


# The code of a refusal, or the first one of the answer to a leave.
cdef int _code_of(Result result, bint is_leave) noexcept nogil:
    cdef Reader reader = reader_over(result.body, result.length)
    read_array(&reader, 3)
    read_uint(&reader, unsigned_max())
    read_uint(&reader, unsigned_max())
    if is_leave:
        read_array(&reader, 1)
    return <int>read_int(&reader)


# I36. Clients leave one at a time.
cdef void groups_judge_request(World* world, SimGroups* groups, SimGroupView* before, uint8_t verb,
                               const ApplyResult* result) noexcept nogil:
    cdef const GroupRequest* request = &groups.request
    cdef Bytes id, instance
    cdef uint32_t place = 0
    cdef int code = _code_of(result, False) if result.status == GROUP_REFUSED else <int>GROUP_OK
    cdef int expected = code
    world.counts.groups_refused += result.status == GROUP_REFUSED
    world.counts.group_requests += result.status == OK
    if result.status != OK and result.changed != 0:
        violate(world, VIOLATION_GROUP_REQUEST, 0, groups.index, before.generation)
    if result.status != OK and result.status != GROUP_REFUSED:
        return
    if verb == GROUP_SYNC:
        expected = _expected_sync(before, request)
    elif verb == GROUP_JOIN and result.status == OK and request.member.length:
        expected = _expected_holder(before, &request.member, &request.instance)
    elif verb == GROUP_LEAVE and groups_next(&request.list, &place, &id, &instance) and id.length:
        code = _code_of(result, True)
        expected = _expected_holder(before, &id, &instance)
    if code != expected:
        violate(world, VIOLATION_GROUP_REQUEST, 0, groups.index, <uint64_t>expected)


# --- generations and leaders ------------------------------------------------------------------------------------------
# I35. may_end: the entry may end an empty group.
cdef void _judge_generation(World* world, SimGroups* groups, SimGroupView* before, SimGroupView* after,
                            SimGroupTruth* truth, bint may_end) noexcept nogil:
    if not after.exists:
        if before.exists and not (may_end and before.state == GROUP_EMPTY):
            violate(world, VIOLATION_GROUP_GENERATION, 0, before.generation, before.fence)
        world.counts.groups_deleted += before.exists
        return
    if before.exists and after.generation < before.generation:
        violate(world, VIOLATION_GROUP_GENERATION, 0, after.generation, after.fence)
    if before.exists and after.generation == before.generation:
        if after.fence != before.fence or (before.state <= <uint32_t>GROUP_PREPARING
                                           and after.state > <uint32_t>GROUP_PREPARING):
            violate(world, VIOLATION_GROUP_GENERATION, 0, after.generation, after.fence)
        return
    if after.fence <= truth.newest_fence:
        violate(world, VIOLATION_GROUP_GENERATION, 0, after.generation, after.fence)
    truth.newest_fence = after.fence
    world.counts.group_generations += 1


# I34: of a generation whose join phase is over.
cdef void _judge_leader(World* world, SimGroups* groups, SimGroupView* before, SimGroupView* after,
                        bint is_join, bint is_sync) noexcept nogil:
    cdef Bytes leader = id_bytes(&after.leader)
    cdef Bytes former = id_bytes(&before.leader)
    cdef SimMember* now = view_member(after, &leader)
    cdef SimMember* then
    if not after.exists or after.state < <uint32_t>GROUP_COMPLETING:
        return
    if now == NULL or now.is_pending:
        violate(world, VIOLATION_GROUP_LEADER, 0, after.generation, groups.index)
        return
    if before.exists and before.generation == after.generation and not id_is(&before.leader, &leader):
        then = view_member(before, &former)
        if not is_join or then == NULL or then.instance == 0 or then.instance != now.instance:
            violate(world, VIOLATION_GROUP_LEADER, 0, after.generation, groups.index)
    if after.state == GROUP_STABLE and before.state != GROUP_STABLE:
        world.counts.groups_stable += 1
        if not is_sync or before.state != GROUP_COMPLETING or not id_is(&before.leader, &groups.request.member):
            violate(world, VIOLATION_GROUP_LEADER, 0, after.generation, groups.index)


# --- members ----------------------------------------------------------------------------------------------------------
# This entry ends the lease, at the deadline that it had, which the lease clock has reached.
cdef bint _ends(SimGroups* groups, uint64_t lease, uint64_t deadline_ms) noexcept nogil:
    cdef size_t i
    for i in range(groups.command.leases.size):
        if lease != 0 and groups.command.leases.data[i].lease == lease:
            return deadline_ms != 0 and deadline_ms <= groups.lease_ms
    return False


cdef bint _left(SimGroups* groups, const SimMember* member) noexcept nogil:
    cdef Bytes id, instance
    cdef uint32_t place = 0
    while groups_next(&groups.request.list, &place, &id, &instance):
        if id_is(&member.id, &id) or (id.length == 0 and instance_of(&instance) == member.instance):
            return True
    return False


# I38: why it went. is_ended: its group went, as it was asked to, or with its offsets.
cdef void _judge_end(World* world, SimGroups* groups, SimGroupView* before, const SimMember* member,
                     uint8_t verb, bint is_ended, Result result) noexcept nogil:
    cdef const Command* command = &groups.command
    cdef Bytes id = id_bytes(&member.id)
    if verb == GROUP_LEAVE and _left(groups, member):
        return
    if is_ended and member.is_pending and before.state == GROUP_EMPTY:
        return
    if verb == GROUP_JOIN and member.instance != 0 and instance_of(&groups.request.instance) == member.instance:
        world.counts.group_replaced += 1
        return
    if command.kind == COMMAND_LEASE_REVOKE and result.status == OK and command.id == member.lease:
        world.counts.group_members_ended += 1
        return
    if command.kind == COMMAND_LEASE_EXPIRE and _ends(groups, member.lease, member.deadline_ms):
        world.counts.group_members_ended += 1
        return
    if command.kind == COMMAND_LEASE_EXPIRE and _ends(groups, before.lease, before.deadline_ms):
        world.counts.group_members_left += 1
        if before.state == GROUP_COMPLETING and id_is(&before.leader, &id):
            return
        if (before.state == GROUP_PREPARING and member.instance == 0 and not member.is_pending
                and member.joined != before.generation + 1):
            return
    violate(world, VIOLATION_GROUP_MEMBER, 0, groups.index, member.lease)


cdef void _judge_members(World* world, SimGroups* groups, SimGroupView* before, SimGroupView* after, uint8_t verb,
                         bint may_end, Result result) noexcept nogil:
    cdef uint32_t i
    cdef Bytes id
    for i in range(before.count):
        id = id_bytes(&before.members[i].id)
        if view_member(after, &id) == NULL:
            _judge_end(world, groups, before, &before.members[i], verb, may_end and not after.exists, result)
        elif view_member(after, &id).lease != before.members[i].lease and not before.members[i].is_pending:
            violate(world, VIOLATION_JOIN_LEASE, 0, groups.index, before.members[i].lease)


# I51. The lease that a join of a new member grants is made in the same entry, with the time to live that it names, for
# this member alone. A member that is there keeps its own.
cdef void _judge_join(World* world, SimGroups* groups, SimGroupView* before, SimGroupView* after,
                      Result result) noexcept nogil:
    cdef const Command* command = &groups.command
    cdef Reader reader = reader_over(result.body, result.length)
    cdef uint64_t ttl_ms, deadline_ms
    cdef uint32_t keys
    cdef SimMember* member
    cdef Bytes id
    read_array(&reader, 3)
    read_uint(&reader, unsigned_max())
    read_uint(&reader, unsigned_max())
    read_array(&reader, 6)
    read_uint(&reader, unsigned_max())
    id.data = read_bin(&reader, SIM_MEMBER_ID_MAX, &id.length)
    member = view_member(after, &id)
    if member == NULL or command.ttl_ms == 0:
        return
    if view_member(before, &id) != NULL:
        if member.lease != view_member(before, &id).lease:
            violate(world, VIOLATION_JOIN_LEASE, 0, groups.index, member.lease)
        return
    world.counts.group_leases += 1
    if (machine_lease(groups.machine, member.lease, &ttl_ms, &deadline_ms, &keys) != OK or keys != 1
            or ttl_ms != command.ttl_ms or deadline_ms != groups.lease_ms + ttl_ms):
        violate(world, VIOLATION_JOIN_LEASE, 0, groups.index, member.lease)


# I51: a join that is refused grants nothing.
cdef void _judge_leases(World* world, SimGroups* groups, uint8_t verb, Result result) noexcept nogil:
    cdef MachineStatus status
    if verb == 0 or result.status != GROUP_REFUSED:
        return
    machine_status(groups.machine, &status)
    if status.leases != groups.leases:
        violate(world, VIOLATION_JOIN_LEASE, 0, groups.index, groups.leases)


# --- resources --------------------------------------------------------------------------------------------------------
# The sync of a leader says whose each resource is.
cdef void _assign(SimGroups* groups, SimGroupView* before, SimGroupTruth* truth) noexcept nogil:
    cdef Bytes id, assignment
    cdef uint32_t place = 0
    cdef uint32_t resource
    memset(&truth.owners, 0, sizeof(truth.owners))
    truth.generation = groups.request.generation
    while groups_next(&groups.request.list, &place, &id, &assignment):
        for resource in range(SIM_GROUP_RESOURCES):
            if resources_of(&assignment) >> resource & 1 and view_member(before, &id) != NULL and (
                    not view_member(before, &id).is_pending):
                id_keep(&truth.owners[resource], &id)


# A resource of a member that went is its successor's, if the group stayed stable; else it is nobody's.
cdef void _disown(SimGroupView* before, SimGroupView* after, SimGroupTruth* truth) noexcept nogil:
    cdef uint32_t resource
    cdef Bytes owner
    cdef SimMember* former
    cdef SimMember* heir
    for resource in range(SIM_GROUP_RESOURCES):
        owner = id_bytes(&truth.owners[resource])
        if owner.length == 0 or view_member(after, &owner) != NULL:
            continue
        former = view_member(before, &owner)
        heir = view_holder(after, former.instance) if former != NULL else NULL
        if heir != NULL and before.state == GROUP_STABLE and after.state == GROUP_STABLE:
            truth.owners[resource] = heir.id
        else:
            truth.owners[resource].length = 0


# I37: an accepted write of a member, of the assignment that it believes in.
cdef void _judge_write(World* world, SimGroups* groups, Result result) noexcept nogil:
    cdef const Command* command = &groups.command
    cdef SimGroupTruth* truth
    cdef uint64_t generation
    cdef uint32_t resource
    cdef Bytes id
    cdef uint32_t group = group_of_key(&command.fence.key, &id)
    if (command.kind != COMMAND_KEYS or not command.fence.is_present or group >= <uint32_t>SIM_GROUPS
            or result.is_duplicate or command.ops.size != 1):
        return
    if result.status != OK:
        world.counts.group_writes_fenced += 1
        return
    truth = &groups.truths[group]
    resource = command.ops.data[0].key.data[command.ops.data[0].key.length - 1] - c"0"
    generation = (<const uint64_t*>command.ops.data[0].value.data)[0]
    world.counts.group_writes += 1
    if not id_is(&truth.owners[resource], &id) or generation != truth.generation:
        violate(world, VIOLATION_GROUP_OWNER, 0, groups.index, resource)


# --- a group by itself ------------------------------------------------------------------------------------------------
# I34, I38 and I39 of what one machine shows; truth: NULL, or whose the resources are.
cdef void _look(World* world, uint32_t node, Machine* machine, SimGroupView* view,
                const SimGroupTruth* truth) noexcept nogil:
    cdef SimMember* member
    cdef Bytes leader = id_bytes(&view.leader)
    cdef uint64_t ttl_ms, deadline_ms
    cdef uint32_t i, resource, keys
    if not view.is_sound or (view.exists and view.state >= <uint32_t>GROUP_COMPLETING
                             and view_member(view, &leader) == NULL):
        violate(world, VIOLATION_GROUP_LEADER, node, view.generation, view.count)
    for i in range(view.count):
        member = &view.members[i]
        if machine_lease(machine, member.lease, &ttl_ms, &deadline_ms, &keys) != OK:
            violate(world, VIOLATION_GROUP_MEMBER, node, view.generation, member.lease)
        if member.instance != 0 and view_holder(view, member.instance) != member:
            violate(world, VIOLATION_GROUP_ASSIGNMENT, node, view.generation, view.count)
        if view.state != GROUP_STABLE or member.is_pending:
            continue
        if member.assigned != view.generation:
            violate(world, VIOLATION_GROUP_ASSIGNMENT, node, view.generation, member.assigned)
        for resource in range(SIM_GROUP_RESOURCES):
            leader = id_bytes(&member.id)
            if (member.resources >> resource & 1) != id_is(&truth.owners[resource], &leader):
                violate(world, VIOLATION_GROUP_ASSIGNMENT, node, view.generation, resource)


# --- the log ----------------------------------------------------------------------------------------------------------
cdef void _judge_group(World* world, SimGroups* groups, uint32_t group, Result result) noexcept nogil:
    cdef SimGroupView* before = &groups.before
    cdef SimGroupView* after = &groups.views[group]
    cdef SimGroupTruth* truth = &groups.truths[group]
    cdef bint is_done = False
    cdef bint may_end
    cdef uint8_t verb = _verb(groups, group, result, &is_done)
    before[0] = after[0]
    if verb != 0:
        groups_judge_request(world, groups, before, verb, result)
    if result.changed == 0:
        _judge_leases(world, groups, verb, result)
        return
    if not is_done:
        verb = 0
    group_look(groups.machine, group, after)
    if groups.command.kind == COMMAND_LEASE_EXPIRE and before.exists:
        world.counts.group_timers += _ends(groups, before.lease, before.deadline_ms)
    may_end = verb == GROUP_DELETE or (groups.command.kind == COMMAND_LEASE_EXPIRE
                                       and topics_are_due(world, group, groups.lease_ms))
    _judge_generation(world, groups, before, after, truth, may_end)
    _judge_leader(world, groups, before, after, verb == GROUP_JOIN, verb == GROUP_SYNC)
    _judge_members(world, groups, before, after, verb, may_end, result)
    if verb == GROUP_JOIN:
        _judge_join(world, groups, before, after, result)
    if verb == GROUP_SYNC and after.state == GROUP_STABLE and before.state != GROUP_STABLE:
        _assign(groups, before, truth)
    else:
        _disown(before, after, truth)
    _look(world, 0, groups.machine, after, truth)


cdef bint _begin(SimGroups* groups, SimNode* node) noexcept nogil:
    cdef MachineLimits limits = node.engine.config.machine
    if groups.machine == NULL:
        limits.pieces = NULL
        groups.machine = machine_create(&limits)
    return groups.machine != NULL


cdef void groups_begin(World* world) noexcept nogil:
    cdef SimGroups* groups = <SimGroups*>calloc(1, sizeof(SimGroups))
    if groups == NULL:
        violate(world, VIOLATION_NO_MEMORY, 0, 0, 0)
        return
    command_init(&groups.command)
    groups.count = SIM_GROUP_KEYS if world.config.has_topics else SIM_GROUPS
    world.groups = groups


cdef void groups_take(World* world, SimNode* node, index_t index, uint64_t chain) noexcept nogil:
    cdef SimGroups* groups = <SimGroups*>world.groups
    cdef const Record* record = entries_find(world, chain)
    cdef ApplyOutcome outcome = APPLY_MORE
    cdef ApplyResult result
    cdef MachineStatus status
    cdef uint32_t group
    if groups == NULL or groups.is_lost:
        return
    if index != groups.index + 1 or record == NULL or not _begin(groups, node):
        groups.is_lost = True       # every committed record was on a disk before
        world.counts.groups_lost += 1
        return
    groups.index = index
    groups.lease_ms = max(groups.lease_ms, record.lease_ms)
    groups.command.kind = 0
    if record.type == ENTRY_COMMAND:
        command_decode(<const uint8_t*>record + sizeof(Record), record.length, &groups.command)
    if world.topics != NULL:
        topics_before(world, groups)
    machine_status(groups.machine, &status)
    groups.leases = status.leases
    if groups.command.kind == COMMAND_LEASE_EXPIRE:
        for group in range(groups.count):
            group_deadlines(groups.machine, &groups.views[group])
    while outcome == APPLY_MORE:
        outcome = machine_apply(groups.machine, record, &result)
    if outcome != APPLY_DONE or machine_publish(groups.machine) != OK:
        violate(world, VIOLATION_FATAL, node.number, 17, index)
        groups.is_lost = True
        return
    for group in range(groups.count):
        _judge_group(world, groups, group, &result)
    _judge_write(world, groups, &result)
    if world.topics != NULL:
        topics_take(world, groups, &result)
    machine_status(groups.machine, &status)
    groups.state_hash = status.state_hash.low


cdef void groups_check(World* world, SimNode* node) noexcept nogil:
    cdef SimGroups* groups = <SimGroups*>world.groups
    cdef MachineStatus status
    cdef uint32_t group
    if (groups == NULL or groups.is_lost or node.engine.applying.applied != groups.index
            or node.engine.applying.published != groups.index):
        return
    machine_status(node.engine.machine, &status)
    if status.state_hash.low != groups.state_hash:
        violate(world, VIOLATION_STATE_HASH, node.number, groups.index, status.revision)
    for group in range(groups.count):
        group_look(node.engine.machine, group, &groups.seen)
        _look(world, node.number, node.engine.machine, &groups.seen, &groups.truths[group])
    world.counts.group_checks += 1
    if world.topics != NULL and groups.index % LOOKED_OF == 0:
        topics_look(world, node.number, node.engine.machine)


cdef void groups_release(World* world) noexcept nogil:
    cdef SimGroups* groups = <SimGroups*>world.groups
    cdef uint32_t i
    if groups == NULL:
        return
    if groups.machine != NULL:
        machine_destroy(groups.machine)
    for i in range(SIM_GROUP_CLIENTS):
        groups.clients[i].payload.release()
    command_release(&groups.command)
    groups.scratch.release()
    free(groups)
    world.groups = NULL
