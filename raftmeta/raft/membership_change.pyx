"""Memberships in force and their changes; membership_change.pxd has the rules."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from raftmeta.native.chunks cimport Chunk, chunk_create
from raftmeta.native.marks cimport (MARK_CHANGE_OF_OLD_MEMBERSHIP, MARK_CHANGE_WHILE_CHANGING,
                                    MARK_CHANGE_WITHOUT_QUORUM, MARK_CHANGE_WITH_UNREADY_VOTER,
                                    MARK_INCARNATION_SWAPPED, MARK_JOINT_LEFT, MARK_LEADER_REMOVED_ITSELF,
                                    MARK_LEARNER_PROMOTED, MARK_MEMBERSHIP_TRUNCATED, MARK_STRANGER_REFUSED, mark)
from raftmeta.raft.election cimport heard_members, step_down
from raftmeta.raft.invariants cimport BROKEN_MEMBERSHIP
from raftmeta.raft.membership cimport (membership_decode, membership_encode, membership_enter_joint,
                                       membership_is_plain_text, membership_learners, membership_leave_joint,
                                       membership_position, membership_swap, membership_voters_incoming,
                                       membership_voters_outgoing)
from raftmeta.raft.outbox cimport message_init, outbox_send, trace
from raftmeta.raft.progress cimport Progress, progress_init, progress_on_tick, progress_release
from raftmeta.raft.quorum cimport quorum_count
from raftmeta.raft.ready cimport (LEADER, STEPPED_DOWN_REMOVED, TRACE_MEMBERSHIP, TRACE_PROMOTED,
                                  TRACE_TRANSFER_ABORTED)
from raftmeta.raft.state cimport Core, append_entry, broken, has_own_commit, in_force, out_of_memory, own_bit
from raftmeta.raft.transfer cimport transfer_farewell
from raftmeta.raft.types cimport (ENTRY_MEMBERSHIP, MEMBERS_MAX, MEMBERSHIP_PROPOSE, PROPOSE_RESPONSE,
                                  STANDBY, VOTER_INCOMING, Member, Membership, Message, index_t, member_id_t,
                                  member_mask_t)
from raftmeta.status cimport BAD_FIELD, NO_LEADER, NO_MEMORY, NO_QUORUM, NOT_READY, OK, STALE, status_t


# --- in force ---------------------------------------------------------------------------------------------------------
cdef status_t membership_take(Core* core, index_t index, const uint8_t* payload, uint32_t length) noexcept nogil:
    cdef Membership membership
    cdef Membership moved
    cdef size_t i
    cdef status_t status = membership_decode(payload, length, &membership)
    if status != OK:
        return status
    membership.index = index
    # A repaired record may bring one that the committed one in front replaced long ago.
    if core.memberships.size != 0 and index < core.memberships.data[0].index:
        return OK
    if not core.memberships.push(membership):
        out_of_memory(core)
        return NO_MEMORY
    # Or it may bring one that lies between known ones.
    i = core.memberships.size - 1
    while i > 0 and core.memberships.data[i - 1].index > index:
        moved = core.memberships.data[i - 1]
        core.memberships.data[i - 1] = core.memberships.data[i]
        core.memberships.data[i] = moved
        i -= 1
    _put_in_force(core)
    return OK


cdef status_t membership_set(Core* core, const Membership* membership) noexcept nogil:
    core.memberships.clear()
    if not core.memberships.push(membership[0]):
        out_of_memory(core)
        return NO_MEMORY
    _put_in_force(core)
    return OK


cdef void membership_on_truncated(Core* core, index_t first) noexcept nogil:
    if in_force(core).index < first:
        return
    while core.memberships.size > 1 and in_force(core).index >= first:
        mark(MARK_MEMBERSHIP_TRUNCATED)
        core.memberships.pop()
    _put_in_force(core)


# May this sender ask something of the cluster here? A sender that is no member gets no log, and so never sees the
# result.
cdef bint is_member(Core* core, member_id_t id) noexcept nogil:
    if membership_position(in_force(core), id) >= 0:
        return True
    mark(MARK_STRANGER_REFUSED)
    return False


# Positions, sets and progress follow the membership in force.
cdef void _put_in_force(Core* core) noexcept nogil:
    cdef Membership* membership = in_force(core)
    core.electorate.incoming = membership_voters_incoming(membership)
    core.electorate.outgoing = membership_voters_outgoing(membership)
    core.learners = membership_learners(membership)
    core.position = membership_position(membership, core.config.id)
    # A blank member was never named and does not vote. It votes before it knows that its naming is committed: see
    # _adds_unready_voter.
    core.was_named = core.was_named or core.position >= 0
    _move_progress(core, membership)
    if core.transferring != 0 and membership_position(membership, core.transferring) < 0:
        trace(core, TRACE_TRANSFER_ABORTED, core.transferring, 0)
        core.transferring = 0
    if core.is_started:
        trace(core, TRACE_MEMBERSHIP, membership.index, membership.count)


# A member's progress moves with it to its new position; a new member starts with none.
cdef void _move_progress(Core* core, const Membership* membership) noexcept nogil:
    cdef Progress[MEMBERS_MAX] known
    cdef uint32_t i, j
    memcpy(known, core.progress, sizeof(known))
    memset(core.progress, 0, sizeof(core.progress))
    for i in range(membership.count):
        for j in range(<uint32_t>MEMBERS_MAX):
            if known[j].id == membership.members[i].id:
                core.progress[i] = known[j]
                memset(&known[j], 0, sizeof(Progress))
                break
        else:
            progress_init(&core.progress[i], membership.members[i].id, core.log.last, core.now)
    for j in range(<uint32_t>MEMBERS_MAX):
        progress_release(&known[j])


cdef void membership_on_committed(Core* core) noexcept nogil:
    # The next committed membership replaces the committed one in front, which is never taken back.
    while core.memberships.size > 1 and core.memberships.data[1].index <= core.log.committed:
        core.memberships.drop_front(1)
    if core.role != LEADER or in_force(core).index > core.log.committed or not has_own_commit(core):
        return
    if in_force(core).is_joint:
        mark(MARK_JOINT_LEFT)
        _leave_joint(core)
    elif not own_bit(core) & core.electorate.incoming:
        mark(MARK_LEADER_REMOVED_ITSELF)
        transfer_farewell(core)
        step_down(core, core.hard.term, STEPPED_DOWN_REMOVED)


cdef void _leave_joint(Core* core) noexcept nogil:
    cdef Membership target
    if membership_leave_joint(in_force(core), &target) != OK:
        broken(core, BROKEN_MEMBERSHIP, in_force(core).index, in_force(core).count)
        return
    _append(core, &target)


# --- change -----------------------------------------------------------------------------------------------------------
cdef status_t _append(Core* core, const Membership* membership) noexcept nogil:
    cdef status_t status
    core.scratch.clear()
    status = membership_encode(membership, &core.scratch)
    if status != OK:
        return status
    status = append_entry(core, ENTRY_MEMBERSHIP, core.scratch.data, <uint32_t>core.scratch.size)
    if status != OK:
        return status
    return membership_take(core, core.log.last, core.scratch.data, <uint32_t>core.scratch.size)


cdef status_t membership_begin_change(Core* core, const Membership* next) noexcept nogil:
    cdef Membership joint
    cdef status_t status
    if core.role != LEADER:
        return NO_LEADER
    # Two changes at once could have disjoint majorities. Before its own-term commit a leader cannot know that an
    # earlier
    # change is committed (thesis 4.1).
    if not _may_change(core):
        mark(MARK_CHANGE_WHILE_CHANGING)
        return NOT_READY
    if next.index != in_force(core).index:
        mark(MARK_CHANGE_OF_OLD_MEMBERSHIP)
        return STALE        # made from another membership: it would take back what was changed since
    if not membership_is_plain_text(next, in_force(core)):
        return BAD_FIELD
    status = membership_enter_joint(in_force(core), next, &joint)
    if status != OK:
        return status
    if _adds_unready_voter(core, next):
        mark(MARK_CHANGE_WITH_UNREADY_VOTER)
        return NOT_READY
    if _drops_one_that_answers(core, next):
        return BAD_FIELD
    if _lacks_quorum(core, next):
        mark(MARK_CHANGE_WITHOUT_QUORUM)
        return NO_QUORUM
    return _append(core, &joint)


cdef bint _may_change(Core* core) noexcept nogil:
    return (has_own_commit(core) and core.transferring == 0 and not in_force(core).is_joint
            and in_force(core).index <= core.log.committed)


# A new voter is a learner first, with the committed membership that names it on its disk (thesis 4.2.1). Otherwise:
#   1. a joint membership is appended that needs the vote of a blank member   2. the leader dies before that member
#   hears of it   3. the blank member votes for nobody, and without it nobody can ever be elected.
cdef bint _adds_unready_voter(Core* core, const Membership* next) noexcept nogil:
    cdef uint32_t i
    cdef int position
    for i in range(next.count):
        if not next.members[i].roles & VOTER_INCOMING:
            continue
        position = membership_position(in_force(core), next.members[i].id)
        if position < 0:
            return True
        if (core.learners >> position) & 1 and core.progress[position].match < in_force(core).index:
            return True
    return False


# A name passes to another incarnation only when the old one is silent: its disk may still hold its promises.
cdef bint _drops_one_that_answers(Core* core, const Membership* next) noexcept nogil:
    cdef member_mask_t heard = heard_members(core)
    cdef Member* member
    cdef uint32_t i
    for i in range(in_force(core).count):
        member = &in_force(core).members[i]
        if not (heard >> i) & 1 or not core.progress[i].was_heard or membership_position(next, member.id) >= 0:
            continue
        if _has_name(next, member):
            return True
    return False


# Are the voters that answer no majority of the new electorate? It could then decide nothing, nor take the change back.
cdef bint _lacks_quorum(Core* core, const Membership* next) noexcept nogil:
    cdef member_mask_t heard = heard_members(core)
    cdef uint32_t i, voters = 0, answering = 0
    cdef int position
    for i in range(next.count):
        if next.members[i].roles & VOTER_INCOMING:
            position = membership_position(in_force(core), next.members[i].id)
            voters += 1
            if position == core.position or (position >= 0 and (heard >> position) & 1
                                             and core.progress[position].was_heard):
                answering += 1
    return 2 * answering <= voters


cdef bint _is_same_name(const Member* one, const Member* other) noexcept nogil:
    return one.name_length == other.name_length and memcmp(one.name, other.name, one.name_length) == 0


cdef bint _has_name(const Membership* membership, const Member* wanted) noexcept nogil:
    cdef uint32_t i
    for i in range(membership.count):
        if _is_same_name(&membership.members[i], wanted):
            return True
    return False


cdef bint _has_voter_of_name(const Membership* membership, const Member* wanted) noexcept nogil:
    cdef uint32_t i
    for i in range(membership.count):
        if membership.members[i].roles & VOTER_INCOMING and _is_same_name(&membership.members[i], wanted):
            return True
    return False


cdef status_t membership_forward_change(Core* core, const Membership* next, uint64_t context) noexcept nogil:
    cdef Message message
    cdef Chunk* chunk
    cdef status_t status
    if core.leader == 0:
        return NO_LEADER
    core.scratch.clear()
    status = membership_encode(next, &core.scratch)
    if status != OK:
        return status
    chunk = chunk_create(<uint32_t>core.scratch.size)
    if chunk == NULL:
        out_of_memory(core)
        return NO_MEMORY
    chunk.used = chunk.capacity
    memcpy(chunk.bytes(), core.scratch.data, chunk.used)
    message_init(core, &message, MEMBERSHIP_PROPOSE, core.leader)
    message.term = 0
    message.index = next.index
    message.context = context
    message.records.chunk = chunk
    message.records.data = chunk.bytes()
    message.records.length = chunk.used
    outbox_send(core, &message)
    return OK


cdef status_t membership_on_propose(Core* core, const Message* message) noexcept nogil:
    cdef Membership next
    cdef Message response
    cdef status_t status = membership_decode(message.records.data, message.records.length, &next)
    next.index = message.index
    if status == OK:
        status = membership_begin_change(core, &next) if is_member(core, message.source) else NO_LEADER
    if status != OK:
        message_init(core, &response, PROPOSE_RESPONSE, message.source)
        response.term = 0
        response.reject = True
        response.context = message.context
        response.hint = status
        outbox_send(core, &response)
    return OK


# --- learners ---------------------------------------------------------------------------------------------------------
cdef void membership_tick(Core* core) noexcept nogil:
    cdef uint32_t i
    for i in range(in_force(core).count):
        if (core.learners >> i) & 1:
            progress_on_tick(&core.progress[i], core.log.last, core.now, core.config.election_timeout_ticks)
    if core.learners and core.config.promotes_learners and _may_change(core):
        if not _swap_incarnation(core):
            _promote(core)


# A wiped node came back as a learner. Once it has caught up it takes the vote of its silent old self, one node at a
# time.
cdef bint _swap_incarnation(Core* core) noexcept nogil:
    cdef Membership target
    cdef uint32_t i
    for i in range(in_force(core).count):
        if not _is_promotable(core, i) or membership_swap(in_force(core), core.progress[i].id, &target) != OK:
            continue
        target.index = in_force(core).index
        if membership_begin_change(core, &target) == OK:
            mark(MARK_INCARNATION_SWAPPED)
            trace(core, TRACE_PROMOTED, core.progress[i].id, 0)
            return True
    return False


cdef bint _is_promotable(Core* core, uint32_t position) noexcept nogil:
    return ((core.learners >> position) & 1 and not in_force(core).members[position].roles & STANDBY
            and core.progress[position].is_caught_up and (heard_members(core) >> position) & 1)


# The number of voters grows only to an odd one, so from an odd one by two (1 -> 2 would halve the failures survived).
# The
# voters that answer, without the last one promoted, must be a majority of the new electorate: it survives one loss.
cdef void _promote(Core* core) noexcept nogil:
    cdef Membership target = in_force(core)[0]
    cdef uint32_t voters = quorum_count(core.electorate.incoming)
    cdef uint32_t heard = quorum_count(core.electorate.incoming & heard_members(core))
    cdef uint32_t wanted = 2 if voters % 2 else 1
    cdef uint32_t i, promoted = 0
    cdef member_id_t[2] chosen
    for i in range(target.count):
        if promoted < wanted and _is_promotable(core, i) and not _has_voter_of_name(&target, &target.members[i]):
            target.members[i].roles = VOTER_INCOMING
            chosen[promoted] = target.members[i].id
            promoted += 1
    if promoted < wanted or heard + promoted <= (voters + promoted) // 2 + 1:
        return
    if membership_begin_change(core, &target) == OK:
        for i in range(promoted):
            mark(MARK_LEARNER_PROMOTED)
            trace(core, TRACE_PROMOTED, chosen[i], 0)
