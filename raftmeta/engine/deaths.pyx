"""Processes that are gone: bodies.

It must never take silence for a proof, nor a word of another member for its own sight: a leader that still reaches the
process, or is still reached by it, ends nothing. An entry that ends a process stays right however late it is applied,
because a process that is gone never comes back: its folder is opened under another boot number.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from raftmeta._core cimport LEADER, core_membership
from raftmeta.engine.housekeeping cimport housekeeping_begin, housekeeping_propose
from raftmeta.engine.sending cimport link_of_member, send_death
from raftmeta.engine.state cimport EVENT_PROCESS_ENDED, Death
from raftmeta.machine.machine cimport machine_process_is_known
from raftmeta.machine.state cimport LEVEL_OF_PROCESSES
from raftmeta.native.marks cimport (MARK_PROCESS_ENDED_BY_SUCCESSOR, MARK_PROCESS_GONE_UNCONFIRMED,
                                    MARK_PROCESS_SEEN_GONE, mark)
from raftmeta.raft.types cimport MEMBERS_MAX, VOTER_INCOMING, Member, Membership
from raftmeta.status cimport OK
from raftmeta.wire.commands cimport COMMAND_PROCESS_END

cdef enum:
    WORD_TIMEOUTS = 2           # election time-outs for which the words of others count; they are repeated sooner


# --- what this node sees ----------------------------------------------------------------------------------------------
cdef void deaths_answered(Link* link, member_id_t id, uint64_t boot) noexcept nogil:
    link.death.id = id
    link.death.boot = boot
    link.death.was_refused = False
    link.death.told_by = 0


cdef void deaths_refused(Link* link) noexcept nogil:
    link.death.was_refused = True


cdef void deaths_speaks(Engine* engine, Inbound* inbound) noexcept nogil:
    engine.links.inbound_count += 1
    inbound.number = engine.links.inbound_count
    engine.links.table[inbound.link].death.inbound = inbound.number


# A later connection of that name may be open by now.
cdef void deaths_hung_up(Engine* engine, Inbound* inbound) noexcept nogil:
    cdef Link* link = &engine.links.table[inbound.link]
    if inbound.is_bound and link.death.inbound == inbound.number:
        link.death.inbound = 0


cdef bint _is_gone(const Link* link) noexcept nogil:
    return (link.is_used and not link.is_self and not link.is_up and link.death.id != 0 and link.death.was_refused
            and link.death.inbound == 0)


# --- what others see --------------------------------------------------------------------------------------------------
cdef void deaths_heard(Engine* engine, const Inbound* inbound, const uint8_t* body) noexcept nogil:
    cdef uint64_t[2] told
    cdef Death* death
    cdef int i
    memcpy(told, body, DEATH_BYTES)
    for i in range(MEMBERS_MAX):
        death = &engine.links.table[i].death
        if not engine.links.table[i].is_used or death.id != told[0] or death.boot != told[1]:
            continue
        if engine.ticks >= death.told_until:
            death.told_by = 0
            death.told_until = engine.ticks + WORD_TIMEOUTS * engine.config.core.election_timeout_ticks
        death.told_by |= <uint32_t>1 << inbound.link


# Whether a majority of the voters found it gone, this leader among them, and never one alone: something between two
# hosts may refuse in the name of one. Of others only those count that answer at their addresses, as anybody may claim
# to be one on a connection to this node.
cdef bint _is_agreed(Engine* engine, const Death* death) noexcept nogil:
    cdef const Membership* membership = core_membership(engine.core)
    cdef uint32_t heard = death.told_by if engine.ticks < death.told_until else 0
    cdef const Member* member
    cdef uint32_t voters = 0
    cdef uint32_t agreed = 0
    cdef int i, place
    if membership.is_joint:
        return False
    for i in range(membership.count):
        member = &membership.members[i]
        if not member.roles & VOTER_INCOMING:
            continue
        voters += 1
        place = link_of_member(&engine.links, member.id)
        if member.id == engine.id:
            agreed += 1
        elif (place >= 0 and heard >> place & 1 and engine.links.table[place].is_up
                and not engine.links.table[place].is_boot_claimed):
            agreed += 1
    return agreed > 1 and 2 * agreed > voters


# --- what follows -----------------------------------------------------------------------------------------------------
cdef status_t _end(Engine* engine, member_id_t id, uint64_t boot) noexcept nogil:
    housekeeping_begin(engine, COMMAND_PROCESS_END)
    engine.scratch.member = id
    engine.scratch.boot = boot
    cdef status_t status = housekeeping_propose(engine)
    if status == OK:
        engine.duties.process_term = engine.core_status.term
        engine.duties.process_proposed = engine.core_status.last + 1
        engine.callers.event(engine.callers.self, EVENT_PROCESS_ENDED, id, boot, 0)
    return status


cdef void _tell(Engine* engine, Death* death) noexcept nogil:
    cdef int leader = link_of_member(&engine.links, engine.core_status.leader)
    if leader < 0 or (death.told_leader == engine.core_status.leader
                      and engine.ticks - death.told_tick < engine.config.core.heartbeat_ticks):
        return
    death.told_leader = engine.core_status.leader
    death.told_tick = engine.ticks
    send_death(engine, leader, death.id, death.boot)


# Nothing is proposed again before the last proposal of this term was applied.
cdef status_t _lead(Engine* engine, Death* death) noexcept nogil:
    if (not engine.core_status.is_ready_to_read or engine.duties.process_term == engine.core_status.term
            and engine.applying.applied < engine.duties.process_proposed):
        return OK
    if not _is_agreed(engine, death):
        mark(MARK_PROCESS_GONE_UNCONFIRMED)
        return OK
    return _end(engine, death.id, death.boot)


# A follower's proposal may be lost on its way, and an election time-out is enough for one that is not.
cdef status_t _end_former_lives(Engine* engine) noexcept nogil:
    if (engine.boot <= 1 or engine.ticks < engine.duties.successor_tick
            or not machine_process_is_known(engine.machine, engine.id, engine.boot - 1)):
        return OK
    mark(MARK_PROCESS_ENDED_BY_SUCCESSOR)
    engine.duties.successor_tick = engine.ticks + engine.config.core.election_timeout_ticks
    return _end(engine, engine.id, engine.boot - 1)


cdef status_t deaths_tick(Engine* engine) noexcept nogil:
    cdef status_t status
    cdef Link* link
    cdef int i
    if engine.core_status.leader == 0 or engine.machine.feature_level < LEVEL_OF_PROCESSES:
        return OK
    status = _end_former_lives(engine)
    for i in range(MEMBERS_MAX):
        link = &engine.links.table[i]
        if not _is_gone(link) or not machine_process_is_known(engine.machine, link.death.id, link.death.boot):
            continue
        if engine.core_status.role == LEADER:
            status = _lead(engine, &link.death)
        else:
            mark(MARK_PROCESS_SEEN_GONE)
            _tell(engine, &link.death)
    return status
