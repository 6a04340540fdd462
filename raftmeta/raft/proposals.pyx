"""Proposals; proposals.pxd has the rules."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from raftmeta.native.chunks cimport Chunk, Slice, chunk_create
from raftmeta.native.intrinsics cimport load32
from raftmeta.native.marks cimport (MARK_PROPOSAL_REFUSED, MARK_PROPOSED_WHILE_TRANSFERRING, MARK_REFUSAL_CAME_BACK,
                                    MARK_URGENT_PROPOSED, mark)
from raftmeta.raft.log cimport log_bytes_between, log_truncate
from raftmeta.raft.membership_change cimport is_member
from raftmeta.raft.outbox cimport message_init, outbox_send
from raftmeta.raft.quorum cimport quorum_has
from raftmeta.raft.ready cimport LEADER, ProposalRefused
from raftmeta.raft.record cimport RECORD_BYTES_MAX
from raftmeta.raft.state cimport (RELAYS_MAX, Core, Relay, append_entry, forward_target, in_force, is_fed,
                                  out_of_memory, own_bit)
from raftmeta.raft.types cimport (ENTRY_COMMAND, MESSAGE_URGENT, MESSAGE_WAITING, PROPOSE, PROPOSE_RESPONSE, Message,
                                  index_t, member_mask_t)
from raftmeta.status cimport (ALREADY, BAD_FIELD, BAD_LENGTH, NO_LEADER, NO_MEMORY, NO_QUORUM, NO_SPACE, NOT_READY, OK,
                              OVERLOADED, STALE, status_t)


# --- leader -----------------------------------------------------------------------------------------------------------
cdef status_t _refusal(Core* core, bint is_urgent) noexcept nogil:
    if core.role != LEADER:
        return NO_LEADER
    if core.transferring != 0:
        mark(MARK_PROPOSED_WHILE_TRANSFERRING)
        return NOT_READY
    if is_urgent:
        mark(MARK_URGENT_PROPOSED)
        return OK
    if log_bytes_between(&core.log, core.log.committed, core.log.last) >= core.config.uncommitted_bytes_max:
        return OVERLOADED
    return OK if _has_space(core) else NO_SPACE


cdef bint _has_space(Core* core) noexcept nogil:
    cdef member_mask_t roomy = own_bit(core)
    cdef uint32_t i
    if core.free_bytes < core.config.free_bytes_min:
        return False
    for i in range(in_force(core).count):
        if core.progress[i].free_bytes >= core.config.free_bytes_min:
            roomy |= <member_mask_t>1 << i
    return quorum_has(&core.electorate, roomy)


cdef status_t proposals_append(Core* core, const Slice* payloads, uint32_t count, bint is_urgent) noexcept nogil:
    cdef index_t old_last = core.log.last
    cdef uint32_t i
    cdef status_t status = _refusal(core, is_urgent)
    for i in range(count if status == OK else 0):
        status = append_entry(core, ENTRY_COMMAND, payloads[i].data, payloads[i].length)
        if status != OK:
            log_truncate(&core.log, old_last + 1)       # all or none
            break
    return status


cdef status_t proposals_on_message(Core* core, const Message* message) noexcept nogil:
    cdef status_t status = _check_payloads(message)
    if status != OK:
        return status
    if core.role != LEADER and core.leader != 0 and is_fed(core, message.source):
        _relay(core, message)
        return OK
    if is_member(core, message.source) or is_fed(core, message.source):
        status = _append_message(core, message)
    else:
        status = NO_LEADER
    if status != OK:
        mark(MARK_PROPOSAL_REFUSED)
        _refuse(core, message, status)
    return OK


# `count` payloads, each u32 length + bytes, and nothing else.
cdef status_t _check_payloads(const Message* message) noexcept nogil:
    cdef uint64_t at = 0
    cdef uint32_t _i
    for _i in range(message.count):
        if at + 4 > message.records.length:
            return BAD_LENGTH
        at += 4 + <uint64_t>load32(message.records.data + at)
    return OK if at == message.records.length else BAD_LENGTH


cdef status_t _append_message(Core* core, const Message* message) noexcept nogil:
    cdef index_t old_last = core.log.last
    cdef uint8_t* at = message.records.data
    cdef uint32_t _i, length
    cdef status_t status = _refusal(core, (message.flags & MESSAGE_URGENT) != 0)
    for _i in range(message.count if status == OK else 0):
        length = load32(at)
        status = append_entry(core, ENTRY_COMMAND, at + 4, length)
        if status != OK:
            log_truncate(&core.log, old_last + 1)
            break
        at += 4 + <uint64_t>length
    return status


cdef void _refuse(Core* core, const Message* message, status_t status) noexcept nogil:
    cdef Message response
    message_init(core, &response, PROPOSE_RESPONSE, message.source)
    response.term = 0
    response.reject = True
    response.context = message.context
    response.hint = status
    outbox_send(core, &response)


# --- observers --------------------------------------------------------------------------------------------------------
# A batch of an observer goes on to the leader under a context of this node's own. Those are far above the contexts of
# this node's callers, and none is used twice. Nobody waits for a batch of context 0, so it keeps that.
cdef void _relay(Core* core, const Message* request) noexcept nogil:
    cdef Message message = request[0]
    cdef Relay* relay
    message_init(core, &message, PROPOSE, forward_target(core))
    message.term = 0
    message.flags = request.flags
    message.count = request.count
    if request.context != 0:
        relay = &core.relays[core.relay_count % RELAYS_MAX]
        core.relay_count += 1
        relay.context = relay_context(core.relay_count)
        relay.source = request.source
        relay.source_context = request.context
        message.context = relay.context
    if request.flags & MESSAGE_WAITING:
        core.waiting_until = core.now + core.config.election_timeout_ticks
    if not _copy_payloads(core, &request.records, &message.records):
        return
    outbox_send(core, &message)


cdef inline uint64_t relay_context(uint64_t count) noexcept nogil:
    return (<uint64_t>1 << 62) + count


# A frame's chunk would be held as a whole for these bytes, and a simulated one has none.
cdef bint _copy_payloads(Core* core, const Slice* payloads, Slice* copy) noexcept nogil:
    cdef Chunk* chunk = chunk_create(payloads.length)
    if chunk == NULL:
        out_of_memory(core)
        return False
    if payloads.length:
        memcpy(chunk.bytes(), payloads.data, payloads.length)
    chunk.used = payloads.length
    copy.chunk = chunk
    copy.data = chunk.bytes()
    copy.length = payloads.length
    return True


# The refusal of a relayed batch belongs to the observer that proposed it.
cdef status_t _pass_refusal_on(Core* core, const Message* message) noexcept nogil:
    cdef Message response
    cdef uint64_t count = message.context - relay_context(0)
    cdef Relay* relay = &core.relays[(count - 1) % RELAYS_MAX]
    if relay.context != message.context:
        return STALE            # so many came later that it is not known whose this was; it asks again
    relay.context = 0
    message_init(core, &response, PROPOSE_RESPONSE, relay.source)
    response.term = 0
    response.reject = True
    response.context = relay.source_context
    response.hint = message.hint
    outbox_send(core, &response)
    return OK


# --- others -----------------------------------------------------------------------------------------------------------
cdef status_t proposals_forward(Core* core, const Slice* payloads, uint32_t count, uint64_t context, bint is_urgent,
                                bint is_waiting) noexcept nogil:
    cdef Message message
    cdef Chunk* chunk
    cdef uint64_t total = 0
    cdef uint32_t i
    for i in range(count):
        total += 4 + <uint64_t>payloads[i].length
    if total > RECORD_BYTES_MAX:
        return BAD_LENGTH
    chunk = chunk_create(<uint32_t>total)
    if chunk == NULL:
        out_of_memory(core)
        return NO_MEMORY
    for i in range(count):
        memcpy(chunk.bytes() + chunk.used, &payloads[i].length, 4)
        if payloads[i].length:
            memcpy(chunk.bytes() + chunk.used + 4, payloads[i].data, payloads[i].length)
        chunk.used += 4 + payloads[i].length
    message_init(core, &message, PROPOSE, forward_target(core))
    message.term = 0
    message.context = context
    message.count = count
    message.records.chunk = chunk
    message.records.data = chunk.bytes()
    message.records.length = chunk.used
    message.flags = (MESSAGE_URGENT if is_urgent else 0) | (MESSAGE_WAITING if is_waiting else 0)
    if is_waiting:
        core.waiting_until = core.now + core.config.election_timeout_ticks
    outbox_send(core, &message)
    return OK


cdef status_t proposals_on_response(Core* core, const Message* message) noexcept nogil:
    cdef ProposalRefused refused
    if not message.reject:
        return STALE
    if message.context > relay_context(0):
        return _pass_refusal_on(core, message)
    refused.context = message.context
    # Pass on only refusals that are known: a caller must be able to trust "certainly not appended".
    refused.status = <status_t>message.hint
    if refused.status not in (NO_LEADER, NOT_READY, OVERLOADED, NO_SPACE, NO_QUORUM, ALREADY, BAD_FIELD, BAD_LENGTH,
                              STALE):
        return BAD_FIELD
    mark(MARK_REFUSAL_CAME_BACK)
    if not core.refusals.push(refused):
        out_of_memory(core)
        return NO_MEMORY
    return OK
