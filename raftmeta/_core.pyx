"""The consensus core: its verbs, each role's answer to each message, the making of a Ready. _core.pxd is the manual.

Every verb reads alike: refuse when the core has stopped, do one thing in one module of raft/, check the invariants.
Only core_ready decides what must leave, so that all that happened between two calls shares one APPEND, one heartbeat
round and one write.

    message of this term   FOLLOWER          PRE_CANDIDATE     CANDIDATE         LEADER
    APPEND                 take records      follow, take      follow, take      impossible (asserted)
    HEARTBEAT              answer            follow, answer    follow, answer    impossible (asserted)
    SNAPSHOT               wait for chunks   follow, wait      follow, wait      impossible (asserted)
    APPEND_RESPONSE        stale             stale             stale             progress, commit
    HEARTBEAT_RESPONSE     stale             stale             stale             round, progress
    SNAPSHOT_RESPONSE      stale             stale             stale             progress
    PRE_VOTE               judge             judge             judge             refuse
    VOTE                   judge             judge             refuse            refuse
    PRE_VOTE_RESPONSE      stale             count             stale             stale
    VOTE_RESPONSE          stale             stale             count             stale
    TIMEOUT_NOW            campaign at once  stale             stale             stale
    READ_INDEX_RESPONSE    commit, tell      stale             stale             stale
    TRANSFER               ignore            ignore            ignore            hand over
    FEED                   stale             stale             stale             stale

    message without term   a member that does not lead               LEADER
    PROPOSE                refuse: NO_LEADER                         append or refuse
    PROPOSE_RESPONSE       tell the caller                           tell the caller
    READ_INDEX             refuse: NO_LEADER                         join the next round
    MEMBERSHIP_PROPOSE     refuse: NO_LEADER                         change or refuse
    ENTRY_REQUEST          give the record                           give the record
    ENTRY_RESPONSE         mend                                      mend (never damaged itself: stale)
    FEED_REQUEST           of a member: stale                        of a member: stale
    FEED_MEMBERSHIP        stale                                     stale

    A FEED_REQUEST of an observer is answered by any member and by an observer that is fed itself. An observer takes
    only FEED and FEED_MEMBERSHIP, and requests and answers without a promise (raft/feeds). PROPOSE and READ_INDEX of
    an observer that is fed here go on to the leader.

    A higher term is followed first (paper 5.1), but not for PRE_VOTE, a granted PRE_VOTE_RESPONSE, or a VOTE while a
    leader is heard. A leader's or candidate's message of a lower term is answered with ours; any other is stale.
"""
from libc.stdint cimport INT64_MAX, UINT64_MAX, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from raftmeta.native.buggify cimport BUGGIFY_LOG_LEFT_ON_DISK, BUGGIFY_MEMORY_DROPPED, buggify
from raftmeta.native.chunks cimport Slice, chunk_drop, chunk_hold
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport next_random
from raftmeta.native.marks cimport (MARK_LEADER_OF_THE_PAST, MARK_MESSAGE_OF_OLD_TERM, MARK_PROPOSED_WITHOUT_LEADER,
                                    MARK_READ_ANSWER_LATE, MARK_READ_ASKED_OF_NO_LEADER, MARK_REPAIR_WRITTEN,
                                    MARK_SNAPSHOT_STREAM_BROKE, MARK_SNAPSHOT_TRANSFER_FAILED, MARK_TRANSFER_FORWARDED,
                                    mark)
from raftmeta.raft.election cimport (become_follower, campaign, election_on_connected, election_on_persisted,
                                     election_on_refused, election_on_request, election_on_response,
                                     election_on_timeout_now, election_tick, reset_election_timer)
from raftmeta.raft.feeds cimport (feeds_may_take, feeds_on_feed, feeds_on_link, feeds_on_log_read,
                                  feeds_on_membership, feeds_on_request, feeds_serve, feeds_tick)
from raftmeta.raft.install cimport forget_entries, install
from raftmeta.raft.invariants cimport (BROKEN_APPLIED_BACKWARDS, BROKEN_LEADER_UNKNOWN_TO_ITSELF,
                                       BROKEN_MATCH_BEYOND_LAST, BROKEN_MATCH_NOT_BELOW_NEXT, BROKEN_PLACES,
                                       BROKEN_WRITE_UNKNOWN, Invariant)
from raftmeta.raft.log cimport (log_append_damaged, log_append_records, log_begin, log_check, log_check_records,
                                log_compact, log_first_damaged, log_init, log_last_term, log_release,
                                log_release_memory, log_slices, log_tick)
from raftmeta.raft.membership cimport membership_position
from raftmeta.raft.membership_change cimport (is_member, membership_begin_change, membership_forward_change,
                                              membership_on_committed, membership_on_propose, membership_set,
                                              membership_tick)
from raftmeta.raft.outbox cimport (message_init, outbox_drop_held, outbox_drop_sent, outbox_on_persisted, outbox_send,
                                   response_init)
from raftmeta.raft.progress cimport (SNAPSHOT_WAIT, Progress, progress_on_lost, progress_on_snapshot_over,
                                     progress_release)
from raftmeta.raft.proposals cimport (proposals_append, proposals_forward, proposals_on_message,
                                      proposals_on_response)
from raftmeta.raft.reads cimport (reads_are_due, reads_ask, reads_forward, reads_on_clock_jumped, reads_on_response,
                                  reads_want_round)
from raftmeta.raft.ready cimport FOLLOWER, LEADER, Apply, LogRead, ProposalRefused, ReadReady, Ready, Trace, Write
from raftmeta.raft.record cimport RECORD_HEAD_BYTES, record_bytes
from raftmeta.raft.repair cimport (repair_on_link, repair_on_log_read, repair_on_request, repair_on_response,
                                   repair_tick)
from raftmeta.raft.replication cimport (acknowledgeable, commit_to, replicate, replication_on_append,
                                        replication_on_append_response, replication_on_heartbeat,
                                        replication_on_log_read, replication_on_persisted, replication_on_snapshot,
                                        replication_on_snapshot_response, take_memberships)
from raftmeta.raft.rounds cimport (rounds_on_clock_jumped, rounds_on_entries, rounds_on_heartbeat_response, rounds_send,
                                   rounds_tick)
from raftmeta.raft.state cimport (FEEDS_MAX, Core, CoreConfig, broken, forward_target, has_own_commit, in_force, is_fed,
                                  is_removed, is_repairing, out_of_memory)
from raftmeta.raft.transfer cimport transfer_begin, transfer_tick
from raftmeta.raft.types cimport (APPEND, APPEND_RESPONSE, ENTRY_REQUEST, ENTRY_RESPONSE, FEED, FEED_MEMBERSHIP,
                                  FEED_REQUEST, HEARTBEAT, HEARTBEAT_RESPONSE, MEMBERSHIP_PROPOSE, MESSAGE_WAITING,
                                  PRE_VOTE, PRE_VOTE_RESPONSE, PROPOSE, PROPOSE_RESPONSE, READ_INDEX,
                                  READ_INDEX_RESPONSE, SNAPSHOT, TIMEOUT_NOW, TRANSFER, VOTE, VOTE_RESPONSE, HardState,
                                  Membership, Message, Record, SnapshotPoint, index_t, member_id_t, term_t)
from raftmeta.status cimport (BAD_FIELD, FOREIGN_NODE, NO_LEADER, NO_MEMORY, NOT_FOUND, NOT_READY, OK, STALE,
                              status_t)

cdef enum:
    TERM_JUMP_MAX = 1 << 30     # above ours: no history of elections gets there, only a broken sender does
    LEASE_MS_JUMP_MAX = 4_398_046_511_104   # milliseconds (139 years) above the clock of our log; as is


# --- life -------------------------------------------------------------------------------------------------------------
cdef Core* core_create(const CoreConfig* config) noexcept nogil:
    cdef Core* core
    if not _is_sound(config):
        return NULL
    core = <Core*>calloc(1, sizeof(Core))
    if core == NULL:
        return NULL
    core.config = config[0]
    core.random = config.seed
    core.role = core.ready_role = FOLLOWER
    core.position = -1
    core.free_bytes = UINT64_MAX
    # Contexts of reads start anywhere: a late answer to an earlier life of this process matches none of this one.
    core.read_number = next_random(&core.random) >> 2
    log_init(&core.log, config.log_chunk_bytes)
    return core


cdef bint _is_sound(const CoreConfig* config) noexcept nogil:
    return (config.id != 0 and config.tick_ms > 0 and config.heartbeat_ticks > 0
            and config.election_timeout_ticks > config.heartbeat_ticks and config.append_bytes_max > 0
            and config.inflight_bytes_max > 0 and config.log_chunk_bytes >= RECORD_HEAD_BYTES)


cdef void core_destroy(Core* core) noexcept nogil:
    cdef size_t i
    if core == NULL:
        return
    outbox_drop_held(core)
    outbox_drop_sent(core)
    for i in range(core.outbox.size):
        chunk_drop(core.outbox.data[i].records.chunk)
    _drop_slices(&core.write_slices)
    _drop_slices(&core.apply_slices)
    _drop_slices(&core.fetched)
    for i in range(sizeof(core.progress) // sizeof(Progress)):
        progress_release(&core.progress[i])
    log_release(&core.log)
    _release_arrays(core)
    free(core)


cdef void _release_arrays(Core* core) noexcept nogil:
    core.write_slices.release()
    core.repaired.release()
    core.memberships.release()
    core.rounds.release()
    core.reads.release()
    core.connected.release()
    core.entries_wanted.release()
    core.fetched.release()
    core.outbox.release()
    core.sent.release()
    core.held.release()
    core.apply_slices.release()
    core.reads_ready.release()
    core.reads_given.release()
    core.refusals.release()
    core.refusals_given.release()
    core.log_reads.release()
    core.log_reads_given.release()
    core.snapshots.release()
    core.snapshots_given.release()
    core.traces.release()
    core.traces_given.release()
    core.scratch.release()


cdef void _drop_slices(Vec[Slice]* slices) noexcept nogil:
    cdef size_t i
    for i in range(slices.size):
        chunk_drop(slices.data[i].chunk)
    slices.clear()


cdef status_t core_restore_membership(Core* core, const SnapshotPoint* point,
                                      const Membership* membership) noexcept nogil:
    if core.is_started or core.log.last != 0:
        return NOT_READY
    log_begin(&core.log, point)
    core.applying = point.index
    return membership_set(core, membership)


cdef status_t core_restore_records(Core* core, const Slice* records) noexcept nogil:
    cdef index_t first = core.log.last + 1
    cdef uint32_t count = _count_records(records)
    # The chain of a snapshot's point is known, except for an empty snapshot given by hand.
    cdef bint is_chain_known = core.log.last_chain != 0 or core.log.last == 0
    cdef status_t status
    if core.is_started or core.memberships.size == 0:
        return NOT_READY
    status = log_check_records(records.data, records.length, count, core.log.last, log_last_term(&core.log),
                               core.log.last_chain, is_chain_known, INT64_MAX)
    if status == OK:
        status = log_append_records(&core.log, records, count, records.chunk != NULL)
    return status if status != OK else take_memberships(core, first)


# Split whole records by their own lengths; log_check_records finds what is wrong with them.
cdef uint32_t _count_records(const Slice* records) noexcept nogil:
    cdef uint64_t at = 0
    cdef uint32_t count = 0
    while at + RECORD_HEAD_BYTES <= records.length:
        at += record_bytes((<const Record*>(records.data + at)).length)
        count += 1
    return count


cdef status_t core_restore_damaged(Core* core, index_t index, uint64_t chain) noexcept nogil:
    if core.is_started or core.memberships.size == 0:
        return NOT_READY
    return log_append_damaged(&core.log, index, chain)


cdef status_t core_restored(Core* core, const HardState* hard_state, index_t applied) noexcept nogil:
    if core.is_started or core.memberships.size == 0:
        return NOT_READY
    core.hard = hard_state[0]
    if core.hard.term < core.log.compacted_term:
        # A snapshot of a later term was installed before the hard state followed: no vote of that term left this
        # member.
        _adopt_term(core, core.log.compacted_term)
    if core.hard.term < log_last_term(&core.log) or applied > core.log.last or applied < core.log.compacted:
        return BAD_FIELD
    core.log.applied = core.applying = applied
    # The commit index on disk is a hint (decisions/README.md "Consensus"): the log decides how much of it is believed.
    core.log.committed = max(min(hard_state.committed, core.log.last), applied)
    core.log.persisted = core.log.staged = core.log.written = core.log.last
    core.is_started = True
    rounds_on_entries(core)
    _forget_damage(core)
    membership_on_committed(core)
    reset_election_timer(core)
    log_release_memory(&core.log, min(core.log.committed, log_first_damaged(&core.log) - 1),
                       0 if buggify(BUGGIFY_LOG_LEFT_ON_DISK) else core.config.log_memory_bytes_max)
    return _end(core, OK)


cdef void _adopt_term(Core* core, term_t term) noexcept nogil:
    core.hard.term = term
    core.hard.vote = 0
    core.is_hard_dirty = True


# The restored checkpoint holds these entries, so they need no mending: the log begins behind it.
cdef void _forget_damage(Core* core) noexcept nogil:
    cdef index_t forgotten = 0
    cdef size_t i
    for i in range(core.log.damages.size):
        if core.log.damages.data[i].index <= core.log.applied:
            forgotten = core.log.damages.data[i].index
    if forgotten:
        core.log.snapshotted = core.log.applied
        log_compact(&core.log, forgotten)


cdef status_t core_set_clocks(Core* core, uint64_t lease_ms, uint64_t wall_ms) noexcept nogil:
    core.log.offset_lease_ms = max(core.log.offset_lease_ms, lease_ms)
    core.log.last_lease_ms = max(core.log.last_lease_ms, lease_ms)
    if core.is_started:
        rounds_on_entries(core)
    core.wall_ms = max(core.wall_ms, wall_ms)
    return OK


# --- what happened ----------------------------------------------------------------------------------------------------
cdef status_t _begin(Core* core) noexcept nogil:
    if core.fatal != OK:
        return core.fatal
    return OK if core.is_started else NOT_READY


# Every verb ends here: a belief that proved wrong, or memory that ran out, stops the core.
cdef status_t _end(Core* core, status_t status) noexcept nogil:
    if core.fatal == OK:
        _check_invariants(core, False)
    return core.fatal if core.fatal != OK else status


cdef void core_set_time(Core* core, uint64_t time_ns) noexcept nogil:
    core.time_ns = max(core.time_ns, time_ns)


cdef status_t core_tick(Core* core, uint64_t wall_ms) noexcept nogil:
    cdef status_t status = _begin(core)
    if status != OK:
        return status
    core.now += 1
    core_set_time(core, core.now * core.config.tick_ms * 1_000_000)
    core.wall_ms = max(core.wall_ms, wall_ms)
    log_tick(&core.log)
    if not core.config.is_observer:
        election_tick(core)
    feeds_tick(core)
    if core.role == LEADER:
        rounds_tick(core)
        transfer_tick(core)
        membership_tick(core)
    repair_tick(core)
    if core.config.checks and core.fatal == OK:
        _check_invariants(core, True)
    return _end(core, OK)


cdef status_t core_step(Core* core, const Message* message) noexcept nogil:
    cdef status_t status = _begin(core)
    if status != OK:
        return status
    status = _check_message(core, message)
    if status == OK:
        if not feeds_may_take(core, message.type):
            status = STALE
        elif message.term == 0:
            status = _step_without_term(core, message)
        elif message.type == FEED:
            status = feeds_on_feed(core, message)
        elif message.type == VOTE or message.type == PRE_VOTE:
            status = election_on_request(core, message)
        elif message.term < core.hard.term:
            mark(MARK_MESSAGE_OF_OLD_TERM)
            status = _step_old_term(core, message)
        else:
            _follow_term(core, message)
            status = _step(core, message)
    return _end(core, status)


cdef bint _has_term(uint8_t type) noexcept nogil:
    return type not in (PROPOSE, PROPOSE_RESPONSE, READ_INDEX, ENTRY_REQUEST, ENTRY_RESPONSE, MEMBERSHIP_PROPOSE,
                        FEED_REQUEST, FEED_MEMBERSHIP)


# Input from outside is never asserted: a message that makes no sense is refused and changes nothing.
cdef status_t _check_message(Core* core, const Message* message) noexcept nogil:
    if message.target != core.config.id or message.source == core.config.id or message.source == 0:
        return FOREIGN_NODE
    if message.type < APPEND or message.type > FEED_MEMBERSHIP or _has_term(message.type) != (message.term != 0):
        return BAD_FIELD
    if message.index > <uint64_t>INT64_MAX - message.count or message.term > core.hard.term + TERM_JUMP_MAX:
        return BAD_FIELD
    # The lease clock never goes back: one false word would end all leases, of all time to come.
    return BAD_FIELD if message.lease_ms > core.log.last_lease_ms + <uint64_t>LEASE_MS_JUMP_MAX else <status_t>OK


cdef bint _is_of_leader(uint8_t type) noexcept nogil:
    return type == APPEND or type == HEARTBEAT or type == SNAPSHOT


cdef void _follow_term(Core* core, const Message* message) noexcept nogil:
    if message.term == core.hard.term or (message.type == PRE_VOTE_RESPONSE and not message.reject):
        return
    become_follower(core, message.term, message.source if _is_of_leader(message.type) else 0)


# A leader of the past must learn that it is deposed. Otherwise a member on a higher term could never follow it again.
cdef status_t _step_old_term(Core* core, const Message* message) noexcept nogil:
    cdef Message response
    if not _is_of_leader(message.type):
        return STALE
    mark(MARK_LEADER_OF_THE_PAST)
    response_init(core, &response, APPEND_RESPONSE, message.source)
    response.reject = True
    response.index = message.index
    outbox_send(core, &response)
    return STALE


cdef status_t _step(Core* core, const Message* message) noexcept nogil:
    if message.type == APPEND:
        return replication_on_append(core, message)
    if message.type == HEARTBEAT:
        return replication_on_heartbeat(core, message)
    if message.type == SNAPSHOT:
        return replication_on_snapshot(core, message)
    if message.type == PRE_VOTE_RESPONSE or message.type == VOTE_RESPONSE:
        return election_on_response(core, message)
    if message.type == TIMEOUT_NOW:
        return election_on_timeout_now(core, message)
    if message.type == READ_INDEX_RESPONSE:
        return _on_read_index_response(core, message)
    if message.type == TRANSFER:
        return _on_transfer(core, message)
    return _step_leader(core, message)


# Answers to a leader.
cdef status_t _step_leader(Core* core, const Message* message) noexcept nogil:
    cdef int position = membership_position(in_force(core), message.source)
    cdef Progress* progress
    if core.role != LEADER or position < 0:
        return STALE
    progress = &core.progress[position]
    progress.heard_tick = core.now
    progress.was_heard = True
    progress.free_bytes = message.free_bytes
    if message.flags & MESSAGE_WAITING:
        _expect_waiting(core, progress)
    if message.type == APPEND_RESPONSE:
        return replication_on_append_response(core, message, position)
    if message.type == HEARTBEAT_RESPONSE:
        return rounds_on_heartbeat_response(core, message, position)
    return replication_on_snapshot_response(core, message, position)


cdef void _expect_waiting(Core* core, Progress* progress) noexcept nogil:
    progress.waiting_until = core.now + core.config.election_timeout_ticks
    core.must_replicate = True


cdef status_t _step_without_term(Core* core, const Message* message) noexcept nogil:
    cdef int position = membership_position(in_force(core), message.source)
    if message.type == PROPOSE:
        if position >= 0 and message.flags & MESSAGE_WAITING:
            _expect_waiting(core, &core.progress[position])
        return proposals_on_message(core, message)
    if message.type == PROPOSE_RESPONSE:
        return proposals_on_response(core, message)
    if message.type == READ_INDEX:
        if position >= 0:
            _expect_waiting(core, &core.progress[position])
        return _on_read_index(core, message)
    if message.type == MEMBERSHIP_PROPOSE:
        return membership_on_propose(core, message)
    if message.type == FEED_REQUEST:
        return feeds_on_request(core, message)
    if message.type == FEED_MEMBERSHIP:
        return feeds_on_membership(core, message)
    return repair_on_request(core, message) if message.type == ENTRY_REQUEST else repair_on_response(core, message)


cdef status_t _on_read_index(Core* core, const Message* message) noexcept nogil:
    cdef Message response
    cdef status_t status = NO_LEADER
    if is_member(core, message.source) or is_fed(core, message.source):
        status = reads_ask(core, message.source, message.context)
    if status == NO_LEADER:
        mark(MARK_READ_ASKED_OF_NO_LEADER)
        message_init(core, &response, READ_INDEX_RESPONSE, message.source)
        response.context = message.context
        response.reject = True
        outbox_send(core, &response)
        return OK
    return status


cdef status_t _on_read_index_response(Core* core, const Message* message) noexcept nogil:
    if core.role != FOLLOWER or forward_target(core) != message.source:
        mark(MARK_READ_ANSWER_LATE)
        return STALE
    # The read index is committed, so a member that follows this leader commits up to it before the next heartbeat.
    # `matched` holds only in this leader's term, so the answer names its term (docs/divergence.md "Reads"):
    #   1. a leader of term 5 replicates 238 to a member, and is deposed   2. it drops its tail and leads term 7
    #   3. the member, still in term 5, asks it for a read and hears of 263   4. the member would commit its own 238.
    # An observer's `matched` is its feeder's log, so it waits for the feed.
    if not message.reject and not core.config.is_observer:
        commit_to(core, min(message.index, core.matched))
    return reads_on_response(core, message)


# A TRANSFER of this term; in an earlier term the member asked another leader, and must not depose this one.
cdef status_t _on_transfer(Core* core, const Message* message) noexcept nogil:
    if not is_member(core, message.source):
        return STALE
    return OK if transfer_begin(core, message.context) == OK else STALE


cdef status_t core_propose(Core* core, const Slice* payloads, uint32_t count, uint64_t context, bint is_urgent,
                           bint is_waiting) noexcept nogil:
    cdef status_t status = _begin(core)
    if status != OK:
        return status
    if core.role == LEADER:
        status = proposals_append(core, payloads, count, is_urgent)
    elif core.leader == 0:
        mark(MARK_PROPOSED_WITHOUT_LEADER)
        status = NO_LEADER
    else:
        status = proposals_forward(core, payloads, count, context, is_urgent, is_waiting)
    return _end(core, status)


cdef status_t core_read_index(Core* core, uint64_t context) noexcept nogil:
    cdef status_t status = _begin(core)
    return status if status != OK else _end(core, reads_ask(core, 0, context))


cdef status_t core_peer_event(Core* core, PeerEvent event, member_id_t peer) noexcept nogil:
    cdef status_t status = _begin(core)
    cdef int position
    if status != OK:
        return status
    if event in (PEER_CONNECTED, PEER_UNREACHABLE, PEER_REFUSED):
        repair_on_link(core, peer, event == PEER_CONNECTED)
        feeds_on_link(core, peer, event == PEER_CONNECTED, event == PEER_REFUSED)
    if event == CLOCK_JUMPED:
        rounds_on_clock_jumped(core)
        reads_on_clock_jumped(core)
    elif core.config.is_observer:
        core.read_tick = core.now
    elif event == PEER_REFUSED:
        election_on_refused(core, peer)
    elif event == PEER_CONNECTED and core.role != LEADER:
        core.read_tick = core.now
        election_on_connected(core)
    position = membership_position(in_force(core), peer)
    if core.role == LEADER and position >= 0:
        _on_link(core, &core.progress[position], event)
    return _end(core, OK)


# A leader's link to a member changed.
cdef void _on_link(Core* core, Progress* progress, PeerEvent event) noexcept nogil:
    core.must_replicate = True
    if event == PEER_CONNECTED:
        if progress.state == SNAPSHOT_WAIT:
            mark(MARK_SNAPSHOT_STREAM_BROKE)
            progress_on_snapshot_over(progress, 0)      # its stream broke with the connection
        # The peer may be another process. It does not know that its log is ours until an APPEND shows it, and until
        # then it
        # takes no commit index from heartbeats.
        progress_on_lost(progress)
        progress.is_probe_sent = False
        core.must_heartbeat = True
    elif event == PEER_UNREACHABLE or event == PEER_REFUSED:
        progress_on_lost(progress)
        progress.was_heard = False      # a membership change does not count on it until it answers again
    elif event == PEER_SNAPSHOT_FAILED:
        mark(MARK_SNAPSHOT_TRANSFER_FAILED)
        progress_on_snapshot_over(progress, 0)


cdef status_t core_transfer(Core* core, member_id_t target) noexcept nogil:
    cdef Message message
    cdef status_t status = _begin(core)
    if status == OK and core.config.is_observer:
        status = NOT_READY
    if status != OK:
        return status
    if core.role == LEADER:
        return _end(core, transfer_begin(core, target))
    if core.leader == 0:
        return NO_LEADER
    mark(MARK_TRANSFER_FORWARDED)
    message_init(core, &message, TRANSFER, core.leader)
    message.context = target
    outbox_send(core, &message)
    return _end(core, OK)


cdef status_t core_change_membership(Core* core, const Membership* next, uint64_t context) noexcept nogil:
    cdef status_t status = _begin(core)
    if status == OK and core.config.is_observer:
        status = NOT_READY
    if status != OK:
        return status
    status = (membership_begin_change(core, next) if core.role == LEADER
              else membership_forward_change(core, next, context))
    return _end(core, status)


cdef status_t core_told_removed(Core* core) noexcept nogil:
    cdef status_t status = _begin(core)
    if status != OK:
        return status
    if core.leader == 0 and core.was_named and not core.was_told_removed and not core.config.is_observer:
        core.was_told_removed = True
        become_follower(core, core.hard.term, 0)
    return _end(core, OK)


cdef status_t core_campaign(Core* core) noexcept nogil:
    cdef status_t status = _begin(core)
    if status == OK and core.role != LEADER and not core.config.is_observer:
        campaign(core, False)
    return status if status != OK else _end(core, OK)


cdef status_t core_log_read(Core* core, const LogRead* read, const Slice* records, status_t status) noexcept nogil:
    cdef status_t begun = _begin(core)
    if begun != OK:
        return begun
    if read.peer == 0:
        return _end(core, _on_fetched(core, read, records, status))
    if repair_on_log_read(core, read, records, status) == OK:
        return _end(core, OK)
    begun = feeds_on_log_read(core, read, records, status)
    if begun != NOT_FOUND:
        return _end(core, begun)
    return _end(core, replication_on_log_read(core, read, records, status))


cdef status_t core_snapshot_installed(Core* core, const SnapshotPoint* point, const Membership* membership,
                                      bint* begins) noexcept nogil:
    cdef status_t status = _begin(core)
    begins[0] = False
    if status != OK:
        return status
    if point.index <= core.log.applied:
        return STALE
    status = install(core, point, membership, begins)
    _drop_slices(&core.apply_slices)
    _drop_slices(&core.fetched)
    core.is_fetching = False
    return _end(core, status)


cdef status_t core_compacted(Core* core, index_t snapshotted, index_t compact_to) noexcept nogil:
    cdef status_t status = _begin(core)
    if status != OK:
        return status
    if snapshotted > core.log.applied or compact_to > snapshotted:
        return BAD_FIELD
    core.log.snapshotted = max(core.log.snapshotted, snapshotted)
    forget_entries(core, compact_to)
    return _end(core, OK)


cdef void core_set_free_bytes(Core* core, uint64_t free_bytes) noexcept nogil:
    core.free_bytes = free_bytes


cdef status_t core_persisted(Core* core, uint64_t write_id) noexcept nogil:
    cdef status_t status = _begin(core)
    if status != OK:
        return status
    if write_id > core.write_id_last:
        return broken(core, BROKEN_WRITE_UNKNOWN, write_id, core.write_id_last)
    if write_id != core.write.id or write_id == 0:
        return STALE
    core.write.id = 0
    core.write.repairs = False
    _drop_slices(&core.write_slices)
    replication_on_persisted(core)
    outbox_on_persisted(core, write_id)
    election_on_persisted(core)
    return _end(core, OK)


cdef status_t core_applied(Core* core, index_t index) noexcept nogil:
    cdef status_t status = _begin(core)
    if status != OK:
        return status
    if index < core.log.applied or index > core.applying:
        return broken(core, BROKEN_APPLIED_BACKWARDS, index, core.applying)
    core.log.applied = index
    if index == core.applying:
        _drop_slices(&core.apply_slices)
        _drop_slices(&core.fetched)
    log_release_memory(&core.log, index, 0 if buggify(BUGGIFY_MEMORY_DROPPED) else core.config.log_memory_bytes_max)
    return _end(core, OK)


# --- what must happen -------------------------------------------------------------------------------------------------
cdef bint core_has_ready(const Core* constant) noexcept nogil:
    cdef Core* core = <Core*>constant
    if core.fatal != OK or not core.is_started:
        return False
    if core.outbox.size or core.reads_ready.size or core.refusals.size or core.log_reads.size or core.snapshots.size:
        return True
    if core.must_feed or core.traces.size or _is_soft_state_changed(core) or reads_are_due(core):
        return True
    if core.role == LEADER and (core.must_replicate or core.must_heartbeat or reads_want_round(core)):
        return True
    return (core.write.id == 0 and _must_write(core)) or _may_apply(core)


cdef status_t core_ready(Core* core, Ready* ready) noexcept nogil:
    cdef status_t status = _begin(core)
    memset(ready, 0, sizeof(Ready))
    if status != OK:
        return status
    outbox_drop_sent(core)
    if core.role == LEADER:
        replicate(core)
        rounds_send(core)
    if core.must_feed or (core.feed_count != 0 and _is_soft_state_changed(core)):
        feeds_serve(core)
    reads_forward(core)
    _give_write(core, &ready.write)
    _give_apply(core, &ready.apply)
    _give_arrays(core, ready)
    ready.soft_state_changed = _is_soft_state_changed(core)
    core.ready_role = core.role
    core.ready_leader = core.leader
    core.ready_membership = in_force(core).index
    return _end(core, OK)


cdef bint _is_soft_state_changed(Core* core) noexcept nogil:
    return (core.role != core.ready_role or core.leader != core.ready_leader
            or in_force(core).index != core.ready_membership)


# Give out what was collected. Its array and the one given out before change places, so neither is allocated again.
cdef void _give_arrays(Core* core, Ready* ready) noexcept nogil:
    cdef Vec[Message] messages = core.sent
    cdef Vec[ReadReady] reads = core.reads_given
    cdef Vec[ProposalRefused] refusals = core.refusals_given
    cdef Vec[LogRead] log_reads = core.log_reads_given
    cdef Vec[member_id_t] snapshots = core.snapshots_given
    cdef Vec[Trace] traces = core.traces_given
    core.sent = core.outbox
    core.outbox = messages
    core.reads_given = core.reads_ready
    core.reads_ready = reads
    core.reads_ready.clear()
    core.refusals_given = core.refusals
    core.refusals = refusals
    core.refusals.clear()
    core.log_reads_given = core.log_reads
    core.log_reads = log_reads
    core.log_reads.clear()
    core.snapshots_given = core.snapshots
    core.snapshots = snapshots
    core.snapshots.clear()
    core.traces_given = core.traces
    core.traces = traces
    core.traces.clear()
    ready.messages = core.sent.data
    ready.message_count = <uint32_t>core.sent.size
    ready.reads = core.reads_given.data
    ready.read_count = <uint32_t>core.reads_given.size
    ready.refusals = core.refusals_given.data
    ready.refusal_count = <uint32_t>core.refusals_given.size
    ready.log_reads = core.log_reads_given.data
    ready.log_read_count = <uint32_t>core.log_reads_given.size
    ready.snapshots = core.snapshots_given.data
    ready.snapshot_count = <uint32_t>core.snapshots_given.size
    ready.traces = core.traces_given.data
    ready.trace_count = <uint32_t>core.traces_given.size


cdef bint _must_write(Core* core) noexcept nogil:
    return core.is_hard_dirty or core.log.staged < core.log.last or core.repaired.size > 0


# A damaged record must neither be written nor applied: a caller that asks for one took it for sound.
cdef void _give_slices(Core* core, index_t first, index_t last, Vec[Slice]* slices) noexcept nogil:
    cdef status_t status = log_slices(&core.log, first, last, slices)
    if status == NO_MEMORY:
        out_of_memory(core)
    elif status != OK:
        broken(core, BROKEN_PLACES, first, last)


# One write at a time: changes that come meanwhile share the next one (group commit).
cdef void _give_write(Core* core, Write* write) noexcept nogil:
    if core.write.id != 0 or not _must_write(core):
        write.first = 1
        return
    memset(&core.write, 0, sizeof(Write))
    core.write.id = core.write_id_last + 1
    core.write.first = core.log.staged + 1
    core.write.last = core.log.last
    if core.repaired.size:
        mark(MARK_REPAIR_WRITTEN)
        core.write.repairs = True
        core.write.first = core.write.last = core.repaired.back()
        core.repaired.pop()
    core.write.truncates = core.write.first <= min(core.write.last, core.log.written) and not core.write.repairs
    _give_slices(core, core.write.first, core.write.last, &core.write_slices)
    core.write.slices = core.write_slices.data
    core.write.slice_count = <uint32_t>core.write_slices.size
    core.write.has_hard_state = core.is_hard_dirty
    core.write.hard_state = core.hard
    core.is_hard_dirty = False
    core.write_last = 0
    if not core.write.repairs and core.write.first <= core.write.last:
        core.write_last = core.log.staged = core.log.written = core.write.last
    # The hint names only entries that are on the disk with it: a repair goes ahead of entries that supersede others.
    core.write.hard_state.committed = min(core.log.committed, core.log.staged)
    core.write_id_last = core.write.id
    write[0] = core.write


# The last index that may be applied: committed, and on this disk, so that a checkpoint never runs ahead of the log.
cdef index_t _apply_limit(Core* core) noexcept nogil:
    return acknowledgeable(core, min(core.log.committed, core.log.persisted))


cdef bint _may_apply(Core* core) noexcept nogil:
    if core.applying != core.log.applied or core.applying >= _apply_limit(core):
        return False
    return core.applying >= core.log.offset or core.fetched.size > 0 or not core.is_fetching


cdef void _give_apply(Core* core, Apply* apply) noexcept nogil:
    apply.first = 1
    if not _may_apply(core):
        return
    if core.applying >= core.log.offset:
        apply.first = core.applying + 1
        apply.last = _apply_limit(core)
        _give_slices(core, apply.first, apply.last, &core.apply_slices)
    elif core.fetched.size:
        apply.first = core.applying + 1
        apply.last = core.fetched_last
        if not core.apply_slices.append(core.fetched.data, core.fetched.size):
            out_of_memory(core)
        core.fetched.clear()            # this drops the hold on its chunk
    else:
        _fetch(core)
        return
    apply.slices = core.apply_slices.data
    apply.slice_count = <uint32_t>core.apply_slices.size
    core.applying = apply.last


# The next records to apply are not in memory: read them from the log file.
cdef void _fetch(Core* core) noexcept nogil:
    cdef LogRead read
    read.peer = 0
    read.first = core.applying + 1
    read.bytes_max = core.config.append_bytes_max
    core.is_fetching = True
    if not core.log_reads.push(read):
        out_of_memory(core)


cdef status_t _on_fetched(Core* core, const LogRead* read, const Slice* records, status_t status) noexcept nogil:
    cdef Slice fetched
    cdef const Record* record
    cdef uint32_t _i
    if not core.is_fetching or read.first != core.applying + 1:
        return STALE
    core.is_fetching = False
    if status != OK:
        return status
    fetched = records[0]
    fetched.length = 0
    core.fetched_last = core.applying
    # Only what may be applied: the file may hold more.
    for _i in range(_count_records(records)):
        record = <const Record*>(records.data + fetched.length)
        if record.index > _apply_limit(core):
            break
        fetched.length += <uint32_t>record_bytes(record.length)
        core.fetched_last = record.index
    status = log_check_records(fetched.data, fetched.length, <uint32_t>(core.fetched_last - core.applying),
                               core.applying, 0, 0, False, core.hard.term)
    if status != OK or fetched.length == 0:
        return status
    if not core.fetched.push(fetched):
        out_of_memory(core)
        return NO_MEMORY
    chunk_hold(fetched.chunk)
    return OK


# --- views and invariants ---------------------------------------------------------------------------------------------
cdef void core_status(const Core* constant, CoreStatus* status) noexcept nogil:
    cdef Core* core = <Core*>constant
    status.id = core.config.id
    status.role = core.role
    status.term = core.hard.term
    status.vote = core.hard.vote
    status.leader = core.leader
    status.compacted = core.log.compacted
    status.snapshotted = core.log.snapshotted
    status.applied = core.log.applied
    status.committed = core.log.committed
    status.persisted = core.log.persisted
    status.last = core.log.last
    status.last_term = log_last_term(&core.log)
    status.last_chain = core.log.last_chain
    status.lease_ms = core.lease_ms if core.role == LEADER else core.log.last_lease_ms
    status.is_ready_to_read = has_own_commit(core) if core.role == LEADER else core.leader != 0
    status.is_repairing = is_repairing(core)
    status.transferring = core.transferring if core.role == LEADER else 0
    status.membership_index = in_force(core).index if core.memberships.size else 0
    status.is_member = core.position >= 0
    status.is_removed = is_removed(core)
    _show_feeds(core, status)
    status.broken = core.broken
    status.broken_a = core.broken_a
    status.broken_b = core.broken_b


cdef void _show_feeds(const Core* core, CoreStatus* status) noexcept nogil:
    cdef int i
    status.is_observer = core.config.is_observer
    status.target = forward_target(core)
    status.feeder = core.feeder
    status.feed_depth = core.feed_depth
    status.feed_count = 0
    for i in range(FEEDS_MAX if core.feed_count else 0):
        if core.feeds[i].id != 0:
            status.feeds[status.feed_count].id = core.feeds[i].id
            status.feeds[status.feed_count].index = core.feeds[i].index
            status.feed_count += 1


cdef const Membership* core_membership(const Core* constant) noexcept nogil:
    cdef Core* core = <Core*>constant
    return in_force(core) if core.memberships.size else NULL


cdef void _check_invariants(Core* core, bint dear) noexcept nogil:
    cdef uint64_t a = 0, b = 0
    cdef uint32_t what = log_check(&core.log, dear, &a, &b)
    if what:
        broken(core, <Invariant>what, a, b)
    if (core.role == LEADER) != (core.leader == core.config.id):
        broken(core, BROKEN_LEADER_UNKNOWN_TO_ITSELF, core.role, core.leader)
    if core.role == LEADER:
        _check_progress(core)


cdef void _check_progress(Core* core) noexcept nogil:
    cdef Progress* progress
    cdef uint32_t i
    for i in range(in_force(core).count):
        progress = &core.progress[i]
        if progress.match >= progress.next and <int>i != core.position:
            broken(core, BROKEN_MATCH_NOT_BELOW_NEXT, progress.match, progress.next)
        if progress.match > core.log.last:
            broken(core, BROKEN_MATCH_BEYOND_LAST, progress.match, core.log.last)
