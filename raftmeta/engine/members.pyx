"""Membership as one node sees it.

It decides when a caller has waited long enough for a leader that says nothing, and that a node which was removed
takes no more operations. It must never make a membership (raftmeta/members/plans does), or judge one
(raft/membership_change does).

A change is not finished when its caller is told OK: it was appended, or handed to the leader. It shows in the
membership in force, and counts when that is committed; face/members waits for it.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free

from raftmeta._core cimport LEADER, ProposalRefused, core_change_membership, core_membership
from raftmeta.engine.callers cimport callers_leap, callers_next_batch, callers_removed
from raftmeta.engine.links cimport link_of_name
from raftmeta.engine.peers cimport peers_meet
from raftmeta.engine.sending cimport send_pings
from raftmeta.engine.state cimport EVENT_NAMED, EVENT_REMOVED, AskedChange, Engine
from raftmeta.engine.submission cimport Submission, submission_payload
from raftmeta.machine.watches cimport WATCH_REMOVED, hub_close
from raftmeta.native.text cimport text_is_plain
from raftmeta.raft.membership cimport membership_decode
from raftmeta.raft.types cimport Membership
from raftmeta.status cimport BAD_FIELD, NO_MEMORY, OK, OUTCOME_UNKNOWN, OVERLOADED, is_fatal, status_t


cdef void _answer(Engine* engine, void* owner, status_t status) noexcept nogil:
    if owner != NULL:
        engine.callers.done(engine.callers.self, owner, status, 0, engine.applying.applied, NULL, 0)


# --- changes ----------------------------------------------------------------------------------------------------------
cdef status_t _await_leader(Engine* engine, void* owner, uint64_t context) noexcept nogil:
    cdef AskedChange asked
    asked.owner = owner
    asked.context = context
    asked.made_from = core_membership(engine.core).index
    asked.tick = engine.ticks
    return OK if engine.standing.asked_changes.push(asked) else NO_MEMORY


cdef status_t members_change(Engine* engine, Submission* submission) noexcept nogil:
    cdef Membership next
    cdef void* owner = submission.owner
    cdef bint is_leader = engine.core_status.role == LEADER
    cdef uint64_t context = 0
    cdef status_t status = membership_decode(submission_payload(submission), submission.length, &next)
    next.index = submission.arguments.membership.made_from
    free(submission)
    if status == OK:
        context = callers_next_batch(&engine.calls)     # refusals of commands and of changes are told apart by it
        status = core_change_membership(engine.core, &next, context)
    if status == OK and not is_leader:
        status = _await_leader(engine, owner, context)
        if status == OK:
            return OK
    _answer(engine, owner, status)
    return status if is_fatal(status) else OK


cdef void _end_change(Engine* engine, size_t position, status_t status) noexcept nogil:
    cdef void* owner = engine.standing.asked_changes.data[position].owner
    engine.standing.asked_changes.data[position] = engine.standing.asked_changes.back()
    engine.standing.asked_changes.pop()
    _answer(engine, owner, status)


cdef void members_refused(Engine* engine, const ProposalRefused* refusal) noexcept nogil:
    cdef size_t i
    for i in range(engine.standing.asked_changes.size):
        if engine.standing.asked_changes.data[i].context == refusal.context:
            _end_change(engine, i, refusal.status)
            return


cdef void _look_at_changes(Engine* engine) noexcept nogil:
    cdef size_t i = engine.standing.asked_changes.size
    cdef AskedChange* asked
    while i != 0:
        i -= 1
        asked = &engine.standing.asked_changes.data[i]
        if asked.made_from != core_membership(engine.core).index:
            _end_change(engine, i, OK)
        elif engine.ticks - asked.tick >= engine.config.core.election_timeout_ticks:
            callers_leap(&engine.calls)
            _end_change(engine, i, OUTCOME_UNKNOWN)


cdef void members_stop(Engine* engine) noexcept nogil:
    while engine.standing.asked_changes.size != 0:
        _end_change(engine, 0, OUTCOME_UNKNOWN)


# --- this node itself -------------------------------------------------------------------------------------------------
cdef void members_look(Engine* engine) noexcept nogil:
    # One who was told that it is removed, and whose log still names it, is none.
    cdef bint is_member = engine.core_status.is_member and not engine.core_status.is_removed
    if engine.standing.asked_changes.size != 0:
        _look_at_changes(engine)
    if engine.core_status.is_removed and not engine.standing.was_removed:
        engine.callers.event(engine.callers.self, EVENT_REMOVED, engine.core_status.membership_index, 0, 0)
        if engine.hub != NULL:
            hub_close(engine.hub, WATCH_REMOVED)
    if is_member and not engine.standing.was_member:
        engine.callers.event(engine.callers.self, EVENT_NAMED, engine.core_status.membership_index, 0, 0)
    engine.standing.was_member = is_member
    engine.standing.was_removed = engine.core_status.is_removed
    if engine.standing.was_removed:
        callers_removed(engine)


# Without a leader a learner says nothing and hears nothing, and would never learn that it was removed.
cdef void members_tick(Engine* engine) noexcept nogil:
    if (engine.core_status.leader == 0 and engine.standing.was_member and not engine.standing.was_removed
            and engine.ticks % engine.config.core.election_timeout_ticks == 0):
        send_pings(engine)


# --- others -----------------------------------------------------------------------------------------------------------
cdef void members_meet(Engine* engine, Submission* submission) noexcept nogil:
    cdef const uint8_t* name = submission_payload(submission)
    cdef uint32_t length = submission.arguments.meet.name_length
    cdef status_t status = BAD_FIELD
    cdef int place
    if text_is_plain(name, submission.length):
        place = link_of_name(&engine.links, name, <uint8_t>length, name + length,
                             <uint8_t>(submission.length - length))
        status = OK if place >= 0 else OVERLOADED
        if place >= 0:
            peers_meet(engine, place)
    _answer(engine, submission.owner, status)
    free(submission)


cdef void members_release(Standing* standing) noexcept nogil:
    standing.asked_changes.release()
