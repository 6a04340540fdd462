"""Leadership transfer; transfer.pxd has the rules."""
from libc.stdint cimport uint32_t

from raftmeta.native.buggify cimport BUGGIFY_TRANSFER_GIVEN_UP, buggify
from raftmeta.native.marks cimport (MARK_TRANSFER_TARGET_READY, MARK_TRANSFER_TIMED_OUT, MARK_TRANSFER_TO_NOBODY,
                                    MARK_TRANSFER_TWICE, mark)
from raftmeta.raft.membership cimport membership_position
from raftmeta.raft.outbox cimport message_init, outbox_send, trace
from raftmeta.raft.progress cimport Progress
from raftmeta.raft.quorum cimport quorum_has
from raftmeta.raft.ready cimport LEADER, TRACE_TRANSFER, TRACE_TRANSFER_ABORTED
from raftmeta.raft.state cimport Core, in_force, own_bit
from raftmeta.raft.types cimport HEARTBEAT, TIMEOUT_NOW, Message, member_id_t, member_mask_t
from raftmeta.status cimport ALREADY, BAD_FIELD, NO_LEADER, NOT_READY, OK, status_t


cdef status_t transfer_begin(Core* core, member_id_t target) noexcept nogil:
    cdef int position
    if core.role != LEADER:
        return NO_LEADER
    if core.transferring != 0:
        mark(MARK_TRANSFER_TWICE)
        return ALREADY
    position = membership_position(in_force(core), target) if target != 0 else _most_advanced(core, _other_voters(core))
    if position < 0:
        mark(MARK_TRANSFER_TO_NOBODY)
        return BAD_FIELD if target != 0 else NOT_READY
    if not (_other_voters(core) >> position) & 1:
        return BAD_FIELD
    core.lease_is_off = True
    core.transferring = core.progress[position].id
    core.transfer_tick = core.now + core.config.election_timeout_ticks
    core.is_timeout_now_sent = False
    core.must_replicate = True
    trace(core, TRACE_TRANSFER, core.transferring, 0)
    transfer_advance(core)
    return OK


cdef member_mask_t _other_voters(Core* core) noexcept nogil:
    cdef member_mask_t voters = core.electorate.incoming
    return voters & ~(<member_mask_t>1 << core.position) if core.position >= 0 else voters


# Position of the candidate with the longest log, of several the one heard last; -1: there are none.
cdef int _most_advanced(Core* core, member_mask_t candidates) noexcept nogil:
    cdef int best = -1
    cdef uint32_t i
    cdef Progress* progress
    for i in range(in_force(core).count):
        if not (candidates >> i) & 1:
            continue
        progress = &core.progress[i]
        if best < 0 or progress.match > core.progress[best].match or (
                progress.match == core.progress[best].match and progress.heard_tick > core.progress[best].heard_tick):
            best = <int>i
    return best


cdef void transfer_advance(Core* core) noexcept nogil:
    cdef int position
    if core.transferring == 0 or core.is_timeout_now_sent:
        return
    position = membership_position(in_force(core), core.transferring)
    if position >= 0 and core.progress[position].match == core.log.last:
        mark(MARK_TRANSFER_TARGET_READY)
        core.is_timeout_now_sent = True
        _send_timeout_now(core, core.transferring)


cdef void _send_timeout_now(Core* core, member_id_t target) noexcept nogil:
    cdef Message message
    message_init(core, &message, TIMEOUT_NOW, target)
    outbox_send(core, &message)


cdef void transfer_tick(Core* core) noexcept nogil:
    if core.transferring != 0 and (core.now >= core.transfer_tick or buggify(BUGGIFY_TRANSFER_GIVEN_UP)):
        mark(MARK_TRANSFER_TIMED_OUT)
        trace(core, TRACE_TRANSFER_ABORTED, core.transferring, 0)
        core.transferring = 0
    elif core.role == LEADER and core.now % core.config.election_timeout_ticks == 0:
        _leave_to_one_with_room(core)


# A leader whose disk is full refuses growth (raft/proposals). When a quorum of the others has room, one of them leads
# better (decisions/README.md "Full disk").
cdef void _leave_to_one_with_room(Core* core) noexcept nogil:
    cdef member_mask_t roomy = 0
    cdef uint32_t i
    cdef int position
    if core.transferring != 0 or core.free_bytes >= core.config.free_bytes_min:
        return
    for i in range(in_force(core).count):
        if core.progress[i].free_bytes >= core.config.free_bytes_min:
            roomy |= <member_mask_t>1 << i
    position = _most_advanced(core, _other_voters(core) & roomy)
    if position >= 0 and quorum_has(&core.electorate, roomy & ~own_bit(core)):
        transfer_begin(core, core.progress[position].id)


cdef void transfer_farewell(Core* core) noexcept nogil:
    cdef Message message
    cdef uint32_t i
    cdef int position = _most_advanced(core, _other_voters(core))
    for i in range(in_force(core).count):
        message_init(core, &message, HEARTBEAT, core.progress[i].id)
        message.commit = min(core.progress[i].match, core.log.committed)
        if message.target != core.config.id:
            outbox_send(core, &message)
    if position >= 0:
        _send_timeout_now(core, core.progress[position].id)
