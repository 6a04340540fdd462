"""ReadIndex; reads.pxd has the rules."""
from libc.stdint cimport uint64_t

from raftmeta.native.marks cimport (MARK_READS_VOID, MARK_READ_ANSWER_LATE, MARK_READ_BY_SOLE_VOTER,
                                    MARK_READ_FORWARDED, MARK_READ_JOINED_ROUND, mark)
from raftmeta.raft.outbox cimport answer_read, message_init, outbox_send, trace
from raftmeta.raft.quorum cimport quorum_has
from raftmeta.raft.ready cimport FOLLOWER, LEADER, TRACE_READS_VOID
from raftmeta.raft.state cimport (Core, PendingRead, forward_target, has_own_commit, is_fed, out_of_memory,
                                  own_bit)
from raftmeta.raft.types cimport READ_INDEX, Message, member_id_t
from raftmeta.status cimport NO_LEADER, NO_MEMORY, OK, STALE, status_t


cdef status_t reads_ask(Core* core, member_id_t source, uint64_t context) noexcept nogil:
    cdef PendingRead read
    # A node that does not lead asks further for its observers, as for its own callers.
    if core.leader == 0 or (source != 0 and core.role != LEADER and not is_fed(core, source)):
        return NO_LEADER
    if has_own_commit(core) and _answers_at_once(core):
        mark(MARK_READ_BY_SOLE_VOTER)
        answer_read(core, source, context, core.log.committed, OK)
        return OK
    read.context = context
    read.source = source
    read.index = 0
    read.round = 0
    if not core.reads.push(read):
        out_of_memory(core)
        return NO_MEMORY
    return OK


cdef bint _answers_at_once(Core* core) noexcept nogil:
    # Nobody else can be elected: this leader is the only voter, or it holds a lease (thesis 6.4.1).
    if quorum_has(&core.electorate, own_bit(core)):
        return True
    return (core.config.lease_reads and not core.lease_is_off and core.transferring == 0
            and core.now < core.lease_until)


cdef void reads_join_round(Core* core) noexcept nogil:
    cdef size_t i = core.reads.size
    cdef PendingRead* read
    while i > 0:
        i -= 1
        read = &core.reads.at(i)
        if read.round != 0:
            return                  # reads stand in order of arrival: all before it joined earlier rounds
        mark(MARK_READ_JOINED_ROUND)
        read.round = core.round
        read.index = core.log.committed


cdef void reads_on_confirmed(Core* core, uint64_t round) noexcept nogil:
    cdef PendingRead read
    while core.reads.size:
        read = core.reads.front()
        if read.round == 0 or read.round > round:
            return
        core.reads.pop_front()
        answer_read(core, read.source, read.context, read.index, OK)


cdef void reads_void(Core* core) noexcept nogil:
    cdef PendingRead read
    if core.reads.size:
        mark(MARK_READS_VOID)
        trace(core, TRACE_READS_VOID, core.reads.size, 0)
    while core.reads.size:
        read = core.reads.front()
        core.reads.pop_front()
        answer_read(core, read.source, read.context, 0, NO_LEADER)


cdef void reads_on_clock_jumped(Core* core) noexcept nogil:
    cdef size_t i
    for i in range(core.reads.size):
        (&core.reads.at(i)).round = 0


cdef bint reads_want_round(Core* core) noexcept nogil:
    return core.reads.size > 0 and core.reads.back().round == 0 and has_own_commit(core)


cdef bint reads_are_due(Core* core) noexcept nogil:
    if core.role != FOLLOWER or core.leader == 0 or core.reads.size == 0:
        return False
    return core.reads.back().round == 0 or core.now >= core.read_tick


cdef void reads_forward(Core* core) noexcept nogil:
    cdef Message message
    cdef size_t i
    if not reads_are_due(core):
        return
    core.read_number += 1
    core.read_tick = core.now + core.config.heartbeat_ticks
    for i in range(core.reads.size):
        if core.reads.at(i).round == 0:
            (&core.reads.at(i)).round = core.read_number
    mark(MARK_READ_FORWARDED)
    message_init(core, &message, READ_INDEX, forward_target(core))
    message.term = 0
    message.context = core.read_number
    outbox_send(core, &message)


cdef status_t reads_on_response(Core* core, const Message* message) noexcept nogil:
    cdef PendingRead read
    if message.context > core.read_number:
        mark(MARK_READ_ANSWER_LATE)
        return STALE
    # The answer to a later question also answers all earlier ones.
    while core.reads.size and core.reads.front().round != 0 and core.reads.front().round <= message.context:
        read = core.reads.front()
        core.reads.pop_front()
        answer_read(core, read.source, read.context, message.index, NO_LEADER if message.reject else OK)
    return OK
