"""A node of a small world and what it can meet; node.pxd has the rules."""
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta._core cimport (CoreStatus, core_applied, core_campaign, core_change_membership, core_create,
                             core_destroy, core_has_ready, core_persisted, core_propose, core_ready,
                             core_restore_membership, core_restore_records, core_restored, core_set_time, core_status,
                             core_step, core_tick)
from raftmeta.native.chunks cimport Slice, chunk_drop, chunk_hold
from raftmeta.native.intrinsics cimport hash64
from raftmeta.raft.log cimport Log, log_append, log_chain, log_init, log_release, log_slice
from raftmeta.raft.progress cimport Progress
from raftmeta.raft.ready cimport FOLLOWER, LEADER, PRE_CANDIDATE, Ready
from raftmeta.raft.record cimport record_bytes
from raftmeta.raft.state cimport Core, CoreConfig, core_config_init, in_force
from raftmeta.raft.types cimport (APPEND_RESPONSE, ENTRY_NOOP, PRE_VOTE, PRE_VOTE_RESPONSE, VOTE, VOTE_RESPONSE,
                                  HardState, Membership, Message, Record, SnapshotPoint, index_t, member_id_t)
from raftmeta.sim.small.copies cimport core_copy, core_digest, core_settle
from raftmeta.status cimport ALREADY, NO_MEMORY, OK, status_t

cdef enum:
    SMALL_SEED = 1              # of every core: settled cores differ in nothing random
    SMALL_TIMEOUT_TICKS = 2     # the least there is: a time-out costs that many core_tick


# --- life -------------------------------------------------------------------------------------------------------------
cdef Core* _new_core(member_id_t id) noexcept nogil:
    cdef CoreConfig config
    memset(&config, 0, sizeof(config))
    core_config_init(&config, id, SMALL_SEED)
    config.heartbeat_ticks = 1
    config.election_timeout_ticks = SMALL_TIMEOUT_TICKS
    config.log_chunk_bytes = 256
    config.free_bytes_min = 0
    config.append_bytes_max = 1         # an APPEND carries one entry, so that logs meet entry by entry
    config.promotes_learners = False    # the one change of a small world is asked for
    config.checks = True
    cdef Core* core = core_create(&config)
    if core != NULL:
        core_set_time(core, <uint64_t>-1)   # the lease clock stands still: it would tell states apart
    return core


# A core with what the disk holds.
cdef status_t _boot(SmallNode* node, member_id_t id, const SmallBeginning* beginning) noexcept nogil:
    cdef SnapshotPoint point
    cdef status_t status
    cdef size_t i
    memset(&point, 0, sizeof(point))
    node.core = _new_core(id)
    if node.core == NULL:
        return NO_MEMORY
    status = core_restore_membership(node.core, &point, beginning.founding)
    for i in range(node.records.size):
        if status == OK:
            status = core_restore_records(node.core, &node.records.data[i])
    return status if status != OK else core_restored(node.core, &node.hard, 0)


# The records of the beginning, as their leaders made them.
cdef status_t _fill_disk(SmallNode* node, const SmallBeginning* beginning) noexcept nogil:
    cdef Log log
    cdef Slice record
    cdef uint32_t i
    cdef status_t status = OK
    log_init(&log, 256)
    for i in range(beginning.length):
        if status == OK:
            status = log_append(&log, beginning.log_terms[i], ENTRY_NOOP, 0, 0, NULL, 0)
        if status == OK and log_slice(&log, i + 1, i + 1, 1, &record) and node.records.push(record):
            chunk_hold(record.chunk)
        else:
            status = NO_MEMORY
    log_release(&log)
    node.hard.term = beginning.term
    return status


cdef status_t node_create(SmallNode* node, uint32_t position, const SmallBeginning* beginning) noexcept nogil:
    cdef SmallOutcome outcome
    cdef status_t status
    memset(node, 0, sizeof(SmallNode))
    memset(&outcome, 0, sizeof(outcome))
    node.may_crash = beginning.may_crash
    node.may_change = beginning.may_change
    node.forgets = beginning.forgets
    status = _fill_disk(node, beginning)
    if status == OK:
        status = _boot(node, position + 1, beginning)
    if status == OK:
        _run(node, &outcome)
    outcome_clear(&outcome)
    outcome.messages.release()
    return status


cdef status_t node_copy(SmallNode* node, const SmallNode* source) noexcept nogil:
    cdef size_t i
    memset(node, 0, sizeof(SmallNode))
    node.hard = source.hard
    node.may_crash = source.may_crash
    node.may_change = source.may_change
    node.forgets = source.forgets
    if not node.records.append(source.records.data, source.records.size):
        return NO_MEMORY
    for i in range(node.records.size):
        chunk_hold(node.records.data[i].chunk)
    return core_copy(source.core, &node.core)


cdef void node_release(SmallNode* node) noexcept nogil:
    _forget_records(node, 1)
    node.records.release()
    core_destroy(node.core)
    node.core = NULL


cdef void _forget_records(SmallNode* node, index_t first) noexcept nogil:
    while node.records.size and node.records.size >= first:
        chunk_drop(node.records.back().chunk)
        node.records.pop()


cdef uint64_t node_digest(const SmallNode* node, const uint8_t* names) noexcept nogil:
    cdef uint64_t digest = core_digest(node.core, names)
    cdef uint64_t chain = 0
    cdef HardState hard = node.hard
    hard.vote = names[hard.vote]
    if node.records.size:
        chain = (<const Record*>node.records.data[node.records.size - 1].data).chain
    digest = hash64(digest, &hard, sizeof(HardState))
    return hash64(digest, &chain, sizeof(chain))


cdef void outcome_clear(SmallOutcome* outcome) noexcept nogil:
    cdef size_t i
    for i in range(outcome.messages.size):
        chunk_drop(outcome.messages.data[i].records.chunk)
    outcome.messages.clear()
    outcome.violation = 0
    outcome.traces = 0


cdef void _violate(SmallOutcome* outcome, SmallViolation violation) noexcept nogil:
    if outcome.violation == 0:
        outcome.violation = violation


# --- what the core wants ----------------------------------------------------------------------------------------------
# Run it until it wants nothing more. Its entries are applied at once; its write stays under way.
cdef void _run(SmallNode* node, SmallOutcome* outcome) noexcept nogil:
    cdef Ready ready
    cdef status_t status
    cdef uint32_t i
    while core_has_ready(node.core):
        status = core_ready(node.core, &ready)
        if status == OK and ready.apply.first <= ready.apply.last:
            status = core_applied(node.core, ready.apply.last)
        for i in range(ready.trace_count):
            outcome.traces |= <uint64_t>1 << ready.traces[i].type
        for i in range(ready.message_count):
            _check_said(node, &ready.messages[i], outcome)
            if not outcome.messages.push(ready.messages[i]):
                _violate(outcome, SMALL_NO_MEMORY)
                return
            chunk_hold(ready.messages[i].records.chunk)
        if status != OK:
            break
    if node.core.fatal != OK:
        _violate(outcome, SMALL_NO_MEMORY if node.core.fatal == NO_MEMORY else SMALL_STOPPED)
        return
    core_settle(node.core)
    if node.forgets:
        _forget(node)


# Forget fields that matter in no small world: two nodes that differ by them alone will do the same.
cdef void _forget(SmallNode* node) noexcept nogil:
    cdef Progress* progress
    cdef uint32_t i
    for i in range(in_force(node.core).count):
        progress = &node.core.progress[i]
        progress.inflights.clear()              # a window of SMALL_LOG_MAX entries is never full
        progress.inflight_bytes = 0
        progress.commit_sent = 0                # nobody waits for a commit index
        progress.catch_up_index = 0             # no learner is promoted for having caught up
        progress.is_caught_up = False
        if not node.may_change:
            progress.was_heard = False          # asked before a change of membership
    node.core.log.written = node.core.log.staged        # which files are cut; the disk here has none
    if not node.may_crash:
        node.core.hard.committed = node.core.write.hard_state.committed = node.hard.committed = 0


# I5, I6: what a message claims stands on the disk when it leaves (docs/invariants.md).
cdef void _check_said(SmallNode* node, const Message* message, SmallOutcome* outcome) noexcept nogil:
    cdef uint64_t chain = 0
    if message.type == PRE_VOTE or message.type == PRE_VOTE_RESPONSE:
        return
    if node.hard.term < message.term:
        _violate(outcome, SMALL_TERM_NOT_DURABLE)
    if message.type == VOTE or (message.type == VOTE_RESPONSE and not message.reject):
        if node.hard.term != message.term or node.hard.vote != (message.source if message.type == VOTE
                                                                else message.target):
            _violate(outcome, SMALL_TERM_NOT_DURABLE)
    if message.type == APPEND_RESPONSE and not message.reject and message.index != 0:
        if node.records.size < message.index:
            _violate(outcome, SMALL_ACK_NOT_DURABLE)
        elif log_chain(&node.core.log, message.index, &chain):
            if chain != (<const Record*>node.records.data[message.index - 1].data).chain:
                _violate(outcome, SMALL_ACK_NOT_DURABLE)


# I6: a vote that is on the disk stands until its term is over (paper Figure 2 votedFor).
cdef void _check_vote(const HardState* before, const HardState* after, SmallOutcome* outcome) noexcept nogil:
    if after.term == before.term and before.vote != 0 and after.vote != before.vote:
        _violate(outcome, SMALL_TERM_NOT_DURABLE)


# --- what happens -----------------------------------------------------------------------------------------------------
cdef SmallPointers node_look(const SmallNode* node) noexcept nogil:
    cdef CoreStatus status
    cdef SmallPointers pointers
    core_status(node.core, &status)
    pointers.term = status.term
    pointers.committed = status.committed
    return pointers


cdef void node_compare(const SmallNode* node, const SmallPointers* before, SmallOutcome* outcome) noexcept nogil:
    cdef SmallPointers after = node_look(node)
    if after.term < before.term or after.committed < before.committed:
        _violate(outcome, SMALL_NOT_MONOTONIC)


cdef bint _end(SmallNode* node, const SmallPointers* before, SmallOutcome* outcome) noexcept nogil:
    _run(node, outcome)
    node_compare(node, before, outcome)
    return True


cdef bint node_deliver(SmallNode* node, const Message* message, SmallOutcome* outcome) noexcept nogil:
    cdef SmallPointers before = node_look(node)
    core_step(node.core, message)
    return _end(node, &before, outcome)


cdef bint node_time_out(SmallNode* node, bint has_pre_votes, SmallOutcome* outcome) noexcept nogil:
    cdef SmallPointers before = node_look(node)
    cdef uint32_t _i
    if node.core.role == LEADER:
        for _i in range(<uint32_t>SMALL_TIMEOUT_TICKS):
            core_tick(node.core, 0)
        return _end(node, &before, outcome)
    core_campaign(node.core)
    if node.core.role == FOLLOWER:
        return False                # it may not lead
    if not has_pre_votes:
        _grant_pre_votes(node, outcome)
    return _end(node, &before, outcome)


cdef void _grant_pre_votes(SmallNode* node, SmallOutcome* outcome) noexcept nogil:
    cdef Message grant
    cdef Ready ready
    cdef uint32_t i
    core_ready(node.core, &ready)   # the questions themselves are not sent
    for i in range(in_force(node.core).count):
        memset(&grant, 0, sizeof(grant))
        grant.type = PRE_VOTE_RESPONSE
        grant.source = in_force(node.core).members[i].id
        grant.target = node.core.config.id
        grant.term = node.core.hard.term + 1
        if node.core.role == PRE_CANDIDATE and grant.source != grant.target:
            core_step(node.core, &grant)


cdef bint node_heartbeat(SmallNode* node, SmallOutcome* outcome) noexcept nogil:
    cdef SmallPointers before = node_look(node)
    if node.core.role != LEADER:
        return False
    core_tick(node.core, 0)
    return _end(node, &before, outcome)


# The write under way reaches the disk: its records supersede everything from the first of them on.
cdef status_t _write(SmallNode* node, SmallOutcome* outcome) noexcept nogil:
    cdef const Slice* slice
    cdef Slice record
    cdef uint32_t i, at
    if node.core.write.has_hard_state:
        _check_vote(&node.hard, &node.core.write.hard_state, outcome)
        node.hard = node.core.write.hard_state
    if node.core.write.first <= node.core.write.last:
        _forget_records(node, node.core.write.first)
    for i in range(node.core.write.slice_count):
        slice = &node.core.write.slices[i]
        at = 0
        while at < slice.length:
            record.chunk = slice.chunk
            record.data = slice.data + at
            record.length = <uint32_t>record_bytes((<const Record*>record.data).length)
            at += record.length
            if not node.records.push(record):
                return NO_MEMORY
            chunk_hold(record.chunk)
    return OK


cdef bint node_persist(SmallNode* node, SmallOutcome* outcome) noexcept nogil:
    cdef SmallPointers before = node_look(node)
    if node.core.write.id == 0:
        return False
    if _write(node, outcome) != OK:
        _violate(outcome, SMALL_NO_MEMORY)
    core_persisted(node.core, node.core.write.id)
    return _end(node, &before, outcome)


cdef bint node_propose(SmallNode* node, SmallOutcome* outcome) noexcept nogil:
    cdef SmallPointers before = node_look(node)
    cdef uint8_t byte = 1           # the same for all: an entry is told apart by its index, its term and its past
    cdef Slice payload
    payload.chunk = NULL
    payload.data = &byte
    payload.length = 1
    if node.core.role != LEADER or core_propose(node.core, &payload, 1, 0, False, False) != OK:
        return False
    return _end(node, &before, outcome)


cdef bint node_change(SmallNode* node, const Membership* target, const Membership* founding,
                      SmallOutcome* outcome) noexcept nogil:
    cdef SmallPointers before = node_look(node)
    cdef Membership next = target[0]
    cdef status_t status
    next.index = in_force(node.core).index
    if node.core.role != LEADER:
        return False
    status = core_change_membership(node.core, &next, 0)
    if status == ALREADY:
        next = founding[0]
        next.index = in_force(node.core).index
        status = core_change_membership(node.core, &next, 0)
    return status == OK and _end(node, &before, outcome)


cdef bint node_crash(SmallNode* node, const SmallBeginning* beginning, bint keeps_write,
                     SmallOutcome* outcome) noexcept nogil:
    cdef member_id_t id = node.core.config.id
    cdef SmallPointers before
    if keeps_write and (node.core.write.id == 0 or _write(node, outcome) != OK):
        return False
    core_destroy(node.core)
    if _boot(node, id, beginning) != OK:
        _violate(outcome, SMALL_STOPPED)
        return True
    before.term = node.hard.term
    before.committed = 0
    return _end(node, &before, outcome)
