"""Consumer groups: bodies.

Sources: KIP-848; Apache Kafka 4.x, the classes GroupMetadataManager (consumerGroupHeartbeat, consumerGroupLeave) and
CurrentAssignmentBuilder of its package org.apache.kafka.coordinator.group.
"""
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.string cimport memset

from raftmeta.machine.consumer_records cimport (CONSUMER_STABLE, CONSUMER_UNRELEASED, CONSUMER_UNREVOKED,
                                                ConsumerRecord, consumer_read, consumer_words)
from raftmeta.machine.consumer_shares cimport (Share, shares_find, shares_length, shares_merge, shares_read,
                                               shares_split, shares_write)
from raftmeta.machine.consumer_targets cimport consumer_put, consumer_retarget, consumer_seen_now
from raftmeta.machine.group_keys cimport (Group, equal_bytes, group_delete_key, group_key_behind, group_new_id,
                                          group_store, group_store_member, no_bytes)
from raftmeta.machine.group_members cimport group_scan
from raftmeta.machine.group_phases cimport group_after_removal, group_next_epoch, group_remove
from raftmeta.machine.group_records cimport (GROUP_EMPTY, GROUP_IS_CONSUMER, MEMBER_IS_CONSUMER, MemberView,
                                             group_is_consumer, group_target)
from raftmeta.machine.invariants cimport BROKEN_GROUP_MEMBER
from raftmeta.machine.leases cimport FORMAT_TTL_MS_MAX, Lease, leases_choose_id, leases_find, leases_renew
from raftmeta.machine.plan cimport compare_bytes, plan_room
from raftmeta.machine.state cimport Machine
from raftmeta.native.containers cimport Vec
from raftmeta.native.invariants cimport broken
from raftmeta.status cimport COMMAND_INVALID, NO_MEMORY, OK, status_t
from raftmeta.wire.commands cimport CHANGES_MAX, result_array, result_bool, result_bytes, result_number
from raftmeta.wire.consumers cimport (CONSUMER_FENCED_EPOCH, CONSUMER_HAS_ASSIGNOR, CONSUMER_HAS_OWNED,
                                      CONSUMER_HAS_REBALANCE, CONSUMER_HAS_SUBSCRIPTION, CONSUMER_JOINS,
                                      CONSUMER_PAUSES, CONSUMER_UNRELEASED_INSTANCE, CONSUMER_WANTS_ASSIGNMENT,
                                      ConsumerRequest, consumers_decode)
from raftmeta.wire.groups cimport (GROUP_FENCED_INSTANCE, GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED,
                                   GROUP_MEMBERS_MAX, GROUP_OK, GROUP_UNKNOWN_MEMBER)
from raftmeta.wire.msgpack cimport Writer, write_array, write_bin, writer_at
from raftmeta.wire.windows cimport Bytes

cdef enum:
    ANSWER_ELEMENTS = 5
    TYPE_BYTES = 8
    NOWHERE = -1

cdef const char* TYPE = b"consumer"

# A word of a member under way. Its record stands in machine.members.
cdef struct Word:
    ConsumerRequest asked
    size_t at                   # its member, in machine.members
    bint is_new                 # ... was not there
    bint must_store_group
    MemberView before           # the member as it was

# The sets that one step of a member deals with.
cdef struct Step:
    Vec[Share] target
    Vec[Share] assigned
    Vec[Share] owned            # that it says it still has
    Vec[Share] kept             # assigned, and of the target
    Vec[Share] revoked          # assigned, and not of the target
    Vec[Share] awaited          # of the target, and not assigned
    Vec[Share] free             # of them those that no other member has
    Vec[Share] result
    Vec[uint8_t] is_held        # for each awaited one


cdef status_t consumer_run(Machine* machine, Group* group, int* code) noexcept nogil:
    cdef Word word
    cdef status_t status
    memset(&word, 0, sizeof(Word))
    if (consumers_decode(&machine.command.name, &machine.command.data, &word.asked) != OK
            or machine.command.ttl_ms > FORMAT_TTL_MS_MAX):
        return COMMAND_INVALID
    if not group_is_consumer(&group.record) and (group.record.meta.state != GROUP_EMPTY
                                                 or word.asked.epoch != CONSUMER_JOINS):
        code[0] = GROUP_ID_NOT_FOUND
        return OK
    machine.plan.changes_max = 2 * CHANGES_MAX
    status = group_scan(machine, group)
    if status == OK and not group_is_consumer(&group.record):
        status = _convert(machine, group)
    if status != OK:
        return status
    return _leave(machine, group, &word, code) if word.asked.epoch < 0 else _beat(machine, group, &word, code)

# A group without members becomes a consumer group. Members that are pending were never told that they are members.
cdef status_t _convert(Machine* machine, Group* group) noexcept nogil:
    cdef status_t status = OK
    cdef size_t i
    for i in range(machine.members.size):
        if status == OK:
            status = group_remove(machine, group, &machine.members.data[i])
    machine.members.clear()
    group.record.meta.flags = GROUP_IS_CONSUMER
    group.record.meta.initial_ms = 0
    group.record.type.data = <const uint8_t*>TYPE
    group.record.type.length = TYPE_BYTES
    group.record.protocol = group.record.leader = no_bytes()
    return status

cdef status_t _answer(Machine* machine, int code, const Bytes* id, int32_t epoch, const Bytes* assigned) noexcept nogil:
    cdef Vec[uint8_t]* body = &machine.transaction.body
    cdef Bytes nothing = no_bytes()
    if (result_array(body, ANSWER_ELEMENTS) != OK or result_number(body, code) != OK or result_bytes(body, id) != OK
            or result_number(body, epoch) != OK or result_bool(body, assigned != NULL) != OK
            or result_bytes(body, assigned if assigned != NULL else &nothing) != OK):
        return NO_MEMORY
    return OK


# --- who speaks -------------------------------------------------------------------------------------------------------
cdef int _of_id(const Machine* machine, const Bytes* id) noexcept nogil:
    cdef int i
    for i in range(<int>machine.members.size):
        if equal_bytes(&machine.members.data[i].id, id):
            return i
    return NOWHERE

cdef int _of_instance(const Machine* machine, const Bytes* instance) noexcept nogil:
    cdef int i
    for i in range(<int>machine.members.size):
        if instance.length and equal_bytes(&machine.members.data[i].record.instance, instance):
            return i
    return NOWHERE

# Whether a member may come with this epoch: its own, or the one before while it has nothing that is not its own. Then
# the answer that told it the newer one was lost (GroupMetadataManager.throwIfConsumerGroupMemberEpochIsInvalid).
cdef int _check_epoch(const ConsumerRequest* asked, const ConsumerRecord* me, status_t* status) noexcept nogil:
    cdef Step step
    cdef bint is_subset
    if asked.epoch == me.meta.epoch:
        return GROUP_OK
    if asked.epoch > me.meta.epoch or asked.epoch != me.meta.previous or not asked.has & CONSUMER_HAS_OWNED:
        return CONSUMER_FENCED_EPOCH
    memset(<void*>&step, 0, sizeof(Step))
    if not (shares_read(&asked.owned, &step.owned) and shares_read(&me.assigned, &step.assigned)
            and shares_split(&step.owned, &step.assigned, &step.kept, &step.revoked)):
        status[0] = NO_MEMORY
    is_subset = step.revoked.size == 0
    _release(&step)
    return <int>GROUP_OK if is_subset else <int>CONSUMER_FENCED_EPOCH

# word.at, or why the word is refused. A new member gets its place.
cdef int _find(Machine* machine, Group* group, Word* word, status_t* status) noexcept nogil:
    cdef const ConsumerRequest* asked = &word.asked
    cdef bint is_join = asked.epoch == CONSUMER_JOINS
    cdef ConsumerRecord me
    cdef int holder = _of_instance(machine, &asked.instance)
    cdef int at = _of_id(machine, &asked.member) if holder == NOWHERE else holder
    if holder == NOWHERE and asked.instance.length and not is_join:
        return GROUP_UNKNOWN_MEMBER
    if at == NOWHERE:
        if not is_join:
            return GROUP_UNKNOWN_MEMBER
        if group.record.meta.members >= min(asked.members_max, <uint32_t>GROUP_MEMBERS_MAX):
            return GROUP_MAX_SIZE_REACHED
        status[0] = _come(machine, group, word)
        return GROUP_OK
    if not consumer_read(&machine.members.data[at].record.assignment, &me):
        status[0] = broken(&machine.broken, BROKEN_GROUP_MEMBER, machine.plan.revision, <size_t>at)
        return GROUP_OK
    word.at = <size_t>at
    word.before = machine.members.data[at]
    if holder != NOWHERE and is_join and me.meta.epoch == CONSUMER_PAUSES:
        status[0] = _resume(machine, group, word, &me)
        return GROUP_OK
    if not equal_bytes(&machine.members.data[at].id, &asked.member):
        return <int>CONSUMER_UNRELEASED_INSTANCE if is_join else <int>GROUP_FENCED_INSTANCE
    if is_join:
        machine.command.id = word.before.lease
    return _check_epoch(asked, &me, status)

# Put the member where it belongs in machine.members, which is in order of ids.
cdef bint _seat(Machine* machine, Word* word, const MemberView* member) noexcept nogil:
    cdef size_t i = machine.members.size
    cdef const Bytes* id
    if not machine.members.push(member[0]):
        return False
    while i > 0:
        id = &machine.members.data[i - 1].id
        if compare_bytes(id.data, id.length, member.id.data, member.id.length) < 0:
            break
        machine.members.data[i] = machine.members.data[i - 1]
        i -= 1
    machine.members.data[i] = member[0]
    word.at = i
    return True

cdef bint _name(Machine* machine, const Group* group, const Word* word, MemberView* member) noexcept nogil:
    member.id = word.asked.member
    if member.id.length == 0 and not group_new_id(machine, &word.asked.client, &member.id):
        return False
    return group_key_behind(machine, &group.key, 0, &member.id, &member.key)

# A new member.
cdef status_t _come(Machine* machine, Group* group, Word* word) noexcept nogil:
    cdef ConsumerRecord nothing
    cdef MemberView member
    memset(&nothing, 0, sizeof(ConsumerRecord))
    memset(&member, 0, sizeof(MemberView))
    member.record.meta.flags = MEMBER_IS_CONSUMER
    member.record.meta.since = machine.plan.revision
    member.record.instance = word.asked.instance
    machine.command.id = member.lease = leases_choose_id(&machine.leases, machine.index)
    word.is_new = True
    word.must_store_group = True
    group.record.meta.members += 1
    group_next_epoch(group)
    if (not _name(machine, group, word, &member) or not consumer_put(machine, &member, &nothing)
            or not _seat(machine, word, &member)):
        return NO_MEMORY
    return OK

# A static member is back, mostly under another id: it has what it had, and a lease of its own.
cdef status_t _resume(Machine* machine, Group* group, Word* word, ConsumerRecord* me) noexcept nogil:
    cdef MemberView member = word.before
    cdef size_t i
    cdef status_t status = group_delete_key(machine, &member.key)
    if status != OK:
        return status
    for i in range(word.at + 1, machine.members.size):
        machine.members.data[i - 1] = machine.members.data[i]
    machine.members.pop()
    me.meta.epoch = me.meta.previous = CONSUMER_JOINS
    machine.command.id = member.lease = leases_choose_id(&machine.leases, machine.index)
    word.is_new = True
    word.must_store_group = True
    if (not _name(machine, group, word, &member) or not consumer_put(machine, &member, me)
            or not _seat(machine, word, &member)):
        return NO_MEMORY
    return OK


# --- a heartbeat ------------------------------------------------------------------------------------------------------
cdef status_t _beat(Machine* machine, Group* group, Word* word, int* code) noexcept nogil:
    cdef MemberView* member
    cdef ConsumerRecord me
    cdef bint is_over = False
    cdef status_t status = OK
    code[0] = _find(machine, group, word, &status)
    if status != OK or code[0] != GROUP_OK:
        return status
    if not _take_words(machine, group, word):
        return NO_MEMORY
    if group_target(&group.record) != group.record.meta.generation:
        word.must_store_group = True
        status = consumer_retarget(machine, group, &word.asked.root, word.at)
    if status == OK:
        status = _step(machine, group, word, &is_over)
    member = &machine.members.data[word.at]
    if status == OK and is_over:
        return _expel(machine, group, member)
    if status != OK or not consumer_read(&member.record.assignment, &me):
        return status if status != OK else <status_t>NO_MEMORY
    status = _store(machine, group, word)
    _renew(machine, member)
    return _tell(machine, word, member, &me) if status == OK else status

# It says this from now on. Another subscription, and other topics than its target knew, begin another epoch.
cdef bint _take_words(Machine* machine, Group* group, Word* word) noexcept nogil:
    cdef const ConsumerRequest* asked = &word.asked
    cdef MemberView* member = &machine.members.data[word.at]
    cdef Bytes assignor, subscription
    cdef ConsumerRecord me
    cdef bint is_new_word = asked.has & CONSUMER_HAS_SUBSCRIPTION != 0
    consumer_words(&member.record.protocols, &assignor, &subscription)
    is_new_word = is_new_word and not equal_bytes(&subscription, &asked.subscription)
    if is_new_word:
        subscription = asked.subscription
    if asked.has & CONSUMER_HAS_ASSIGNOR:
        assignor = asked.assignor
    if asked.has & CONSUMER_HAS_REBALANCE:
        member.record.meta.rebalance_ms = asked.rebalance_ms
    member.record.client = asked.client
    if not _put_words(machine, member, &assignor, &subscription) or not consumer_read(&member.record.assignment, &me):
        return False
    if not word.must_store_group or word.before.key.length:
        is_new_word = is_new_word or consumer_seen_now(machine, &asked.root, &subscription) != me.meta.seen
        if is_new_word:
            group_next_epoch(group)
            word.must_store_group = True
    return True

# The list of one protocol, as joins of other groups have it.
cdef bint _put_words(Machine* machine, MemberView* member, const Bytes* assignor,
                     const Bytes* subscription) noexcept nogil:
    cdef Vec[uint8_t] list
    cdef Writer writer
    cdef uint8_t* room
    cdef size_t i
    memset(<void*>&list, 0, sizeof(list))
    writer = writer_at(&list)
    write_array(&writer, 2)
    write_bin(&writer, assignor.data, assignor.length)
    write_bin(&writer, subscription.data, subscription.length)
    room = plan_room(&machine.plan, <uint32_t>list.size) if writer.status == OK else NULL
    if room != NULL:
        for i in range(list.size):
            room[i] = list.data[i]
        member.record.protocols.data = room
        member.record.protocols.length = <uint32_t>list.size
        member.record.meta.protocols = 1
    list.release()
    return room != NULL

cdef bint _is_same(const MemberView* left, const MemberView* right) noexcept nogil:
    return (equal_bytes(&left.record.assignment, &right.record.assignment)
            and equal_bytes(&left.record.protocols, &right.record.protocols)
            and equal_bytes(&left.record.client, &right.record.client)
            and left.record.meta.rebalance_ms == right.record.meta.rebalance_ms)

# Only changes are written. The fence of a member ends with each epoch of it.
cdef status_t _store(Machine* machine, Group* group, const Word* word) noexcept nogil:
    cdef const MemberView* member = &machine.members.data[word.at]
    cdef ConsumerRecord before, me
    cdef bint is_new_epoch = False
    cdef status_t status = OK
    if not word.is_new and consumer_read(&word.before.record.assignment, &before) and consumer_read(
            &member.record.assignment, &me):
        is_new_epoch = before.meta.epoch != me.meta.epoch
    if word.is_new or not _is_same(member, &word.before):
        status = group_store_member(machine, member, is_new_epoch)
    return group_store(machine, group) if status == OK and word.must_store_group else status

cdef void _renew(Machine* machine, const MemberView* member) noexcept nogil:
    cdef Lease* lease = leases_find(&machine.leases, member.lease)
    if lease != NULL:
        leases_renew(&machine.leases, lease, machine.lease_ms)

# Its assignment is told if it changed, if the member asks for it, and if an answer before this one was lost.
cdef status_t _tell(Machine* machine, const Word* word, const MemberView* member,
                    const ConsumerRecord* me) noexcept nogil:
    cdef ConsumerRecord before
    cdef bint is_told = (word.is_new or word.asked.has & CONSUMER_WANTS_ASSIGNMENT != 0
                         or not consumer_read(&word.before.record.assignment, &before)
                         or before.meta.epoch != word.asked.epoch or not equal_bytes(&before.assigned, &me.assigned))
    return _answer(machine, GROUP_OK, &member.id, me.meta.epoch, &me.assigned if is_told else NULL)


# --- a member goes to its target --------------------------------------------------------------------------------------
cdef void _release(Step* step) noexcept nogil:
    step.target.release()
    step.assigned.release()
    step.owned.release()
    step.kept.release()
    step.revoked.release()
    step.awaited.release()
    step.free.release()
    step.result.release()
    step.is_held.release()

# CurrentAssignmentBuilder.build and computeNextAssignment. is_over: it did not give back in time.
cdef status_t _step(Machine* machine, const Group* group, const Word* word, bint* is_over) noexcept nogil:
    cdef MemberView* member = &machine.members.data[word.at]
    cdef ConsumerRecord me
    cdef Step step
    cdef bint has_memory
    if not consumer_read(&member.record.assignment, &me):
        return broken(&machine.broken, BROKEN_GROUP_MEMBER, machine.plan.revision, word.at)
    if me.meta.state == CONSUMER_STABLE and me.meta.epoch == <int32_t>group_target(&group.record):
        return OK
    memset(<void*>&step, 0, sizeof(Step))
    has_memory = _go(machine, group, word, &me, &step, is_over)
    _release(&step)
    return OK if has_memory else <status_t>NO_MEMORY

# Whether the member still has, or may have, one of these.
cdef bint _owns(const Word* word, const Step* step, const Vec[Share]* shares) noexcept nogil:
    cdef size_t i, place
    if not word.asked.has & CONSUMER_HAS_OWNED:
        return True
    for i in range(step.owned.size):
        if shares_find(shares, &step.owned.data[i], &place):
            return True
    return False

cdef bint _go(Machine* machine, const Group* group, const Word* word, ConsumerRecord* me, Step* step,
              bint* is_over) noexcept nogil:
    cdef MemberView* member = &machine.members.data[word.at]
    if not shares_read(&word.asked.owned, &step.owned) or not shares_read(&me.revoking, &step.revoked):
        return False
    if me.meta.state == CONSUMER_UNREVOKED and _owns(word, step, &step.revoked):
        is_over[0] = machine.lease_ms - me.meta.since_ms >= member.record.meta.rebalance_ms
        return True
    step.revoked.clear()
    if (not shares_read(&me.target, &step.target) or not shares_read(&me.assigned, &step.assigned)
            or not shares_split(&step.assigned, &step.target, &step.kept, &step.revoked)):
        return False
    if step.revoked.size and _owns(word, step, &step.revoked):
        me.meta.state = CONSUMER_UNREVOKED
        me.meta.since_ms = machine.lease_ms
        return (_put_list(machine, &step.kept, &me.assigned) and _put_list(machine, &step.revoked, &me.revoking)
                and consumer_put(machine, member, me))
    step.result.clear()
    if (not shares_split(&step.target, &step.assigned, &step.result, &step.awaited)
            or not _find_free(machine, word.at, step)):
        return False
    step.result.clear()
    if not shares_merge(&step.kept, &step.free, &step.result):
        return False
    me.meta.state = CONSUMER_UNRELEASED if step.free.size < step.awaited.size else CONSUMER_STABLE
    if me.meta.epoch != <int32_t>group_target(&group.record):
        me.meta.previous = me.meta.epoch
        me.meta.epoch = <int32_t>group_target(&group.record)
    me.meta.since_ms = 0
    me.revoking.length = 0
    return _put_list(machine, &step.result, &me.assigned) and consumer_put(machine, member, me)

cdef bint _put_list(Machine* machine, const Vec[Share]* shares, Bytes* list) noexcept nogil:
    list.length = shares_length(shares.data, shares.size)
    list.data = plan_room(&machine.plan, list.length)
    if list.data == NULL:
        return False
    shares_write(shares.data, shares.size, <uint8_t*>list.data)
    return True

cdef bint _mark_held(Step* step, const Bytes* list, Vec[Share]* scratch) noexcept nogil:
    cdef size_t i, place
    scratch.clear()
    if not shares_read(list, scratch):
        return False
    for i in range(scratch.size):
        if shares_find(&step.awaited, &scratch.data[i], &place):
            step.is_held.data[place] = 1
    return True

# Those of step.awaited that nobody else has, and nobody else is to give back.
cdef bint _find_free(Machine* machine, size_t at, Step* step) noexcept nogil:
    cdef ConsumerRecord other
    cdef size_t i
    if step.awaited.size == 0:
        return True
    if not step.is_held.resize(step.awaited.size):
        return False
    memset(step.is_held.data, 0, step.is_held.size)
    for i in range(machine.members.size):
        if i == at or not consumer_read(&machine.members.data[i].record.assignment, &other):
            continue
        if not _mark_held(step, &other.assigned, &step.result) or not _mark_held(step, &other.revoking, &step.result):
            return False
    for i in range(step.awaited.size):
        if not step.is_held.data[i] and not step.free.push(step.awaited.data[i]):
            return False
    return True


# --- a member goes ----------------------------------------------------------------------------------------------------
cdef status_t _remove(Machine* machine, Group* group, MemberView* member) noexcept nogil:
    cdef status_t status = group_remove(machine, group, member)
    if status == OK:
        status = group_after_removal(machine, group, False)
    return group_store(machine, group) if status == OK else status

# It did not give back within its rebalance time-out, and others wait.
cdef status_t _expel(Machine* machine, Group* group, MemberView* member) noexcept nogil:
    cdef status_t status = _remove(machine, group, member)
    return _answer(machine, GROUP_UNKNOWN_MEMBER, &member.id, 0, NULL) if status == OK else status

cdef status_t _leave(Machine* machine, Group* group, const Word* word, int* code) noexcept nogil:
    cdef const ConsumerRequest* asked = &word.asked
    cdef int at = _of_instance(machine, &asked.instance) if asked.instance.length else _of_id(machine, &asked.member)
    cdef MemberView* member
    cdef status_t status
    if at == NOWHERE:
        code[0] = GROUP_UNKNOWN_MEMBER
        return OK
    member = &machine.members.data[at]
    if not equal_bytes(&member.id, &asked.member):
        code[0] = GROUP_FENCED_INSTANCE
        return OK
    status = _pause(machine, member) if asked.epoch == CONSUMER_PAUSES else _remove(machine, group, member)
    return _answer(machine, GROUP_OK, &member.id, asked.epoch, NULL) if status == OK else status

# It keeps its partitions until its lease ends. A member that closes has given back the others.
cdef status_t _pause(Machine* machine, MemberView* member) noexcept nogil:
    cdef ConsumerRecord me
    if not consumer_read(&member.record.assignment, &me):
        return broken(&machine.broken, BROKEN_GROUP_MEMBER, machine.plan.revision, 0)
    me.meta.previous = me.meta.epoch
    me.meta.epoch = CONSUMER_PAUSES
    me.meta.since_ms = 0
    me.revoking.length = 0
    if me.meta.state == CONSUMER_UNREVOKED:
        me.meta.state = CONSUMER_STABLE
    return group_store_member(machine, member, True) if consumer_put(machine, member, &me) else <status_t>NO_MEMORY
