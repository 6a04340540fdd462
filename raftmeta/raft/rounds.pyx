"""Heartbeat rounds; rounds.pxd says what they prove."""
from libc.stdint cimport uint32_t, uint64_t

from raftmeta.native.buggify cimport BUGGIFY_HEARTBEAT_EXTRA, buggify
from raftmeta.native.marks cimport (MARK_LEASE_CLOCK_ADVANCED, MARK_LEASE_CLOCK_HEARD, MARK_LEASE_CLOCK_OF_A_VOTER,
                                    MARK_MEMBER_FORGOT_THE_MATCH, mark)
from raftmeta.raft.log cimport log_last_term
from raftmeta.raft.outbox cimport message_init, outbox_send
from raftmeta.raft.progress cimport progress_on_heartbeat_answered, progress_on_lost
from raftmeta.raft.quorum cimport quorum_reached
from raftmeta.raft.reads cimport reads_join_round, reads_on_confirmed, reads_want_round
from raftmeta.raft.ready cimport LEADER
from raftmeta.raft.state cimport Core, Round, has_own_commit, in_force, out_of_memory
from raftmeta.raft.types cimport HEARTBEAT, MEMBERS_MAX, Message, term_t
from raftmeta.status cimport BAD_FIELD, OK, status_t

cdef enum:
    TUNE_LEASE_MARGIN_PERCENT = 10      # of the election time-out; clocks may drift 5 % between members
    NS_PER_MS = 1_000_000


cdef void rounds_begin_term(Core* core) noexcept nogil:
    core.rounds.clear()
    core.round_confirmed = core.round
    core.lease_until = 0
    core.lease_is_off = False
    if core.log.last_lease_ms >= _lease_clock_now(core):
        _set_lease_clock(core, core.log.last_lease_ms)
    else:
        _advance_lease_clock(core, core.time_ns)    # a quorum has just elected this member: nobody else leads
    core.lease_term = core.hard.term
    core.lease_told_ms = core.lease_ms
    core.must_heartbeat = True


cdef void rounds_tick(Core* core) noexcept nogil:
    if core.now >= core.heartbeat_tick or buggify(BUGGIFY_HEARTBEAT_EXTRA):
        core.must_heartbeat = True


cdef void rounds_send(Core* core) noexcept nogil:
    cdef Message message
    cdef Round round
    cdef uint32_t i
    if not core.must_heartbeat and not reads_want_round(core):
        return
    core.must_heartbeat = False
    core.round += 1
    core.heartbeat_tick = core.now + core.config.heartbeat_ticks
    round.number = core.round
    round.sent_tick = core.now
    round.sent_ns = core.time_ns
    if not core.rounds.push(round):
        out_of_memory(core)
        return
    if has_own_commit(core):
        reads_join_round(core)
    core.lease_told_ms = max(core.lease_told_ms, core.lease_ms + _lease_step(core, core.time_ns))
    for i in range(in_force(core).count):
        if <int>i == core.position:
            continue
        message_init(core, &message, HEARTBEAT, core.progress[i].id)
        message.context = core.round
        message.lease_ms = core.lease_told_ms
        # Never beyond the entries that the member is known to hold: it takes the number as it stands (paper 5.3).
        message.commit = min(core.progress[i].match, core.log.committed)
        core.progress[i].commit_sent = max(core.progress[i].commit_sent, message.commit)
        outbox_send(core, &message)
    _confirm(core)


cdef status_t rounds_on_heartbeat_response(Core* core, const Message* message, int position) noexcept nogil:
    if message.context > core.round:
        return BAD_FIELD
    progress_on_heartbeat_answered(&core.progress[position], message.context, core.log.last)
    if message.reject:
        mark(MARK_MEMBER_FORGOT_THE_MATCH)
        progress_on_lost(&core.progress[position])
    core.must_replicate = True
    _confirm(core)
    return OK


# Find the last round that a quorum has answered and draw the conclusions.
cdef void _confirm(Core* core) noexcept nogil:
    cdef uint64_t[MEMBERS_MAX] numbers
    cdef uint64_t confirmed, sent_tick = 0, sent_ns = 0
    cdef uint32_t i
    for i in range(in_force(core).count):
        numbers[i] = core.round if <int>i == core.position else core.progress[i].round
    confirmed = quorum_reached(&core.electorate, numbers)
    if confirmed <= core.round_confirmed or confirmed > core.round:
        return
    core.round_confirmed = confirmed
    while core.rounds.size and core.rounds.front().number <= confirmed:
        sent_tick = core.rounds.front().sent_tick
        sent_ns = core.rounds.front().sent_ns
        core.rounds.pop_front()
    if confirmed > core.round_void:
        _advance_leases(core, sent_tick, sent_ns)
        reads_on_confirmed(core, confirmed)


# The advance of the lease clock up to `time_ns`, in milliseconds.
cdef uint64_t _lease_step(const Core* core, uint64_t time_ns) noexcept nogil:
    cdef uint64_t passed_ns = time_ns - min(core.lease_ns, time_ns)
    return min(passed_ns // NS_PER_MS, _lease_step_max(core))


cdef inline uint64_t _lease_step_max(const Core* core) noexcept nogil:
    return <uint64_t>core.config.election_timeout_ticks * core.config.tick_ms


# The clock shows this now.
cdef void _set_lease_clock(Core* core, uint64_t lease_ms) noexcept nogil:
    core.lease_ms = lease_ms
    core.lease_ns = core.time_ns


# The rest of a millisecond counts next time. Time beyond the greatest step never counts.
cdef void _advance_lease_clock(Core* core, uint64_t time_ns) noexcept nogil:
    cdef uint64_t step_ms = _lease_step(core, time_ns)
    core.lease_ms += step_ms
    core.lease_ns = time_ns if step_ms == _lease_step_max(core) else core.lease_ns + step_ms * NS_PER_MS


# Leases in this log were granted only by the clock of the leader whose entry ends the log. So no other clock counts:
#   1. a leader's clock runs on between two entries, and its followers hear that   2. most of them restart and forget it
#   3. one of these leads, goes on from the log, and grants a lease   4. one that did not restart leads. By the clock
#   that it heard in 1, the new lease would be over at once; but now its log ends with an entry of 3.
cdef uint64_t rounds_lease_clock_of(Core* core, term_t term) noexcept nogil:
    return core.lease_ms if core.lease_term == term and log_last_term(&core.log) == term else 0


cdef uint64_t _lease_clock_now(Core* core) noexcept nogil:
    if core.lease_term != log_last_term(&core.log) or core.lease_ms == 0:
        return 0
    return core.lease_ms + _lease_step(core, core.time_ns)


# The last word of the leader counts, as of now: a clock that goes on from an earlier word would drift away from it.
cdef void rounds_hear_lease_clock(Core* core, uint64_t lease_ms) noexcept nogil:
    cdef term_t term = core.hard.term
    if log_last_term(&core.log) == term and lease_ms > rounds_lease_clock_of(core, term):
        mark(MARK_LEASE_CLOCK_HEARD)
        core.lease_term = term
        _set_lease_clock(core, lease_ms)


cdef void rounds_hear_lease_clock_of_voter(Core* core, uint64_t lease_ms) noexcept nogil:
    if lease_ms > _lease_clock_now(core):
        mark(MARK_LEASE_CLOCK_OF_A_VOTER)
        core.lease_term = log_last_term(&core.log)
        _set_lease_clock(core, lease_ms)


# The last entry tells the clock, too. If we were told more, then later, and that goes on. Else the time until now does
# not count (rule 5 of docs/divergence.md "Time"):
#   1. a leader tells its clock   2. it is paused or not confirmed for long, so its clock falls behind what followers
#   add to what they were told   3. by this clock it grants a lease. By theirs, the lease would end early.
cdef void rounds_on_entries(Core* core) noexcept nogil:
    cdef term_t term = log_last_term(&core.log)
    if core.lease_term != term or core.log.last_lease_ms >= core.lease_ms:
        core.lease_term = term
        _set_lease_clock(core, core.log.last_lease_ms)


cdef void _advance_leases(Core* core, uint64_t sent_tick, uint64_t sent_ns) noexcept nogil:
    cdef uint64_t timeout_ticks = core.config.election_timeout_ticks
    cdef uint64_t margin_ticks = timeout_ticks * TUNE_LEASE_MARGIN_PERCENT // 100 + 1
    if _lease_step(core, sent_ns) != 0:
        mark(MARK_LEASE_CLOCK_ADVANCED)
    _advance_lease_clock(core, sent_ns)
    if timeout_ticks > margin_ticks:
        core.lease_until = sent_tick + timeout_ticks - margin_ticks


# The time until now does not count.
cdef void rounds_on_clock_jumped(Core* core) noexcept nogil:
    core.round_void = core.round
    core.lease_until = 0
    core.lease_ns = core.time_ns
    core.must_heartbeat = core.role == LEADER
