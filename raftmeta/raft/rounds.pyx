# Heartbeat rounds; rounds.pxd tells what they prove.
from libc.stdint cimport uint32_t, uint64_t

from raftmeta.native.buggify cimport BUGGIFY_HEARTBEAT_EXTRA, buggify
from raftmeta.native.marks cimport MARK_LEASE_CLOCK_ADVANCED, MARK_MEMBER_FORGOT_THE_MATCH, mark
from raftmeta.raft.outbox cimport message_init, outbox_send
from raftmeta.raft.progress cimport progress_on_heartbeat_answered, progress_on_lost
from raftmeta.raft.quorum cimport quorum_reached
from raftmeta.raft.reads cimport reads_join_round, reads_on_confirmed, reads_want_round
from raftmeta.raft.ready cimport LEADER
from raftmeta.raft.state cimport Core, Round, has_own_commit, in_force, out_of_memory
from raftmeta.raft.types cimport HEARTBEAT, MEMBERS_MAX, Message
from raftmeta.status cimport BAD_FIELD, OK, status_t

cdef enum:
    TUNE_LEASE_MARGIN_PERCENT = 10      # of the election time-out; clocks may drift 5 % between members


cdef void rounds_begin_term(Core* core) noexcept nogil:
    core.rounds.clear()
    core.round_confirmed = core.round
    core.lease_until = 0
    core.lease_is_off = False
    core.lease_is_running = False
    # Not where an earlier lead of this member left it: 1. it led, and its clock ran on between two entries. 2. Another
    # led, went on from the log, and granted a lease. 3. This one leads again: by its own clock that lease is over.
    core.lease_ms = core.log.last_lease_ms
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
    if not core.rounds.push(round):
        out_of_memory(core)
        return
    if has_own_commit(core):
        reads_join_round(core)
    for i in range(in_force(core).count):
        if <int>i == core.position:
            continue
        message_init(core, &message, HEARTBEAT, core.progress[i].id)
        message.context = core.round
        # Never beyond what the member is known to hold: it takes the number as it stands (paper 5.3).
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
    cdef uint64_t confirmed, sent_tick = 0
    cdef uint32_t i
    for i in range(in_force(core).count):
        numbers[i] = core.round if <int>i == core.position else core.progress[i].round
    confirmed = quorum_reached(&core.electorate, numbers)
    if confirmed <= core.round_confirmed or confirmed > core.round:
        return
    core.round_confirmed = confirmed
    while core.rounds.size and core.rounds.front().number <= confirmed:
        sent_tick = core.rounds.front().sent_tick
        core.rounds.pop_front()
    if confirmed > core.round_void:
        _advance_leases(core, sent_tick)
        reads_on_confirmed(core, confirmed)


cdef void _advance_leases(Core* core, uint64_t sent_tick) noexcept nogil:
    cdef uint64_t timeout_ticks = core.config.election_timeout_ticks
    cdef uint64_t margin_ticks = timeout_ticks * TUNE_LEASE_MARGIN_PERCENT // 100 + 1
    if core.lease_is_running and sent_tick > core.lease_tick:
        mark(MARK_LEASE_CLOCK_ADVANCED)
        core.lease_ms += min(sent_tick - core.lease_tick, timeout_ticks) * core.config.tick_ms
    core.lease_is_running = True
    core.lease_tick = sent_tick
    if timeout_ticks > margin_ticks:
        core.lease_until = sent_tick + timeout_ticks - margin_ticks


cdef void rounds_on_clock_jumped(Core* core) noexcept nogil:
    core.round_void = core.round
    core.lease_until = 0
    core.lease_is_running = False
    core.must_heartbeat = core.role == LEADER
