"""Elections; election.pxd draws the roles."""
from libc.stdint cimport uint32_t

from raftmeta.native.buggify cimport BUGGIFY_ELECTION_WITHOUT_JITTER, BUGGIFY_PRE_VOTE_GIVEN_UP, buggify
from raftmeta.native.intrinsics cimport next_random
from raftmeta.native.marks cimport (MARK_CAMPAIGN_BY_TRANSFER, MARK_CAMPAIGN_FORBIDDEN, MARK_CANDIDATE,
                                    MARK_CHECK_QUORUM_FAILED, MARK_EARLY_CAMPAIGN,
                                    MARK_EARLY_CAMPAIGN_INSTEAD, MARK_ELECTION_LOST, MARK_LEADER_MET_HIGHER_TERM,
                                    MARK_LEADER_REFUSED_CONNECTION, MARK_OWN_VOTE_DURABLE, MARK_PRE_CANDIDATE,
                                    MARK_TIMEOUT_NOW_LATE, MARK_VOTE_OF_HIGHER_TERM_IGNORED,
                                    MARK_VOTE_REFUSED_CANNOT_VOTE, MARK_VOTE_REFUSED_LEADER_ALIVE,
                                    MARK_VOTE_REFUSED_LOG_BEHIND, MARK_VOTE_REFUSED_TERM_OLD,
                                    MARK_VOTE_REFUSED_VOTED_ALREADY, MARK_VOTE_RESPONSE_LATE, mark)
from raftmeta.raft.invariants cimport (BROKEN_LEADER_APPENDED_TO, BROKEN_LEADER_NOT_DURABLE, BROKEN_TERM_FELL,
                                       BROKEN_TWO_LEADERS, BROKEN_VOTED_TWICE)
from raftmeta.raft.log cimport log_is_up_to_date, log_last_term
from raftmeta.raft.membership cimport membership_position
from raftmeta.raft.outbox cimport (is_hard_state_durable, message_init, outbox_drop_held, outbox_send, response_init,
                                   trace)
from raftmeta.raft.progress cimport progress_init
from raftmeta.raft.quorum cimport VOTE_LOST, VOTE_PENDING, VOTE_WON, VoteResult, quorum_has, quorum_votes
from raftmeta.raft.reads cimport reads_void
from raftmeta.raft.ready cimport (CANDIDATE, FOLLOWER, LEADER, PRE_CANDIDATE, REFUSED_CANNOT_VOTE, REFUSED_LEADER_ALIVE,
                                  REFUSED_LOG_BEHIND, REFUSED_TERM_OLD, REFUSED_VOTED_ALREADY,
                                  STEPPED_DOWN_HIGHER_TERM, STEPPED_DOWN_NO_QUORUM, TRACE_BECAME_CANDIDATE,
                                  TRACE_BECAME_FOLLOWER, TRACE_BECAME_LEADER, TRACE_BECAME_PRE_CANDIDATE,
                                  TRACE_LEADER_LOST, TRACE_STEPPED_DOWN, TRACE_VOTE_REFUSED, StepDownReason)
from raftmeta.raft.rounds cimport rounds_begin_term, rounds_hear_lease_clock_of_voter, rounds_lease_clock_of
from raftmeta.raft.state cimport Core, append_entry, broken, in_force, is_repairing, own_bit
from raftmeta.raft.types cimport (ENTRY_NOOP, MESSAGE_TRANSFER, PRE_VOTE, PRE_VOTE_RESPONSE, VOTE, VOTE_RESPONSE,
                                  VOTER_INCOMING, VOTER_OUTGOING,
                                  Message, MessageType, member_id_t, member_mask_t, term_t)
from raftmeta.status cimport OK, STALE, status_t

cdef enum:
    TUNE_JITTER_MS = 30     # members that learn at once that nobody leads do not all campaign in the same moment


# --- roles ------------------------------------------------------------------------------------------------------------
cdef void become_follower(Core* core, term_t term, member_id_t leader) noexcept nogil:
    cdef bint is_new = core.role != FOLLOWER or term != core.hard.term or leader != core.leader
    if term < core.hard.term:
        broken(core, BROKEN_TERM_FELL, core.hard.term, term)
        return
    if term > core.hard.term:
        if core.role == LEADER:
            mark(MARK_LEADER_MET_HIGHER_TERM)
            trace(core, TRACE_STEPPED_DOWN, STEPPED_DOWN_HIGHER_TERM, term)
        _enter_term(core, term, 0)
    if leader != 0 or core.role != FOLLOWER and not core.is_early_campaign:
        # A higher term alone does not reset it: a candidate that cannot win must not keep a better one waiting (paper
        # 5.2).
        reset_election_timer(core)
    core.role = FOLLOWER
    core.leader = leader
    if leader != 0:
        core.was_told_removed = False       # a leader speaks only to members
    core.is_transfer_campaign = core.is_early_campaign = False
    core.transferring = 0
    core.votes_granted = core.votes_refused = 0
    if is_new:
        reads_void(core)
        trace(core, TRACE_BECAME_FOLLOWER, leader, 0)


cdef void step_down(Core* core, term_t term, StepDownReason reason) noexcept nogil:
    trace(core, TRACE_STEPPED_DOWN, reason, 0)
    become_follower(core, term, 0)


# Begin a new term with this vote. Messages of the old term that wait for the disk are dropped.
cdef void _enter_term(Core* core, term_t term, member_id_t vote) noexcept nogil:
    core.hard.term = term
    core.hard.vote = vote
    core.is_hard_dirty = True
    core.matched = 0
    outbox_drop_held(core)


cdef void reset_election_timer(Core* core) noexcept nogil:
    # The time-out is drawn anew each time, so that a split vote is not repeated (paper 5.2).
    cdef uint32_t minimum = core.config.election_timeout_ticks
    core.election_tick = core.now + minimum + next_random(&core.random) % minimum
    if buggify(BUGGIFY_ELECTION_WITHOUT_JITTER):
        core.election_tick = core.now + minimum


# A voter of any known membership, so also one that the membership in force drops, until that is committed (thesis
# 4.2.2, Figure 4.6). Otherwise:
#   1. a leader of two demotes itself: the joint entry is committed, the leaving entry is on its own disk only
#   2. both restart; the other one still needs the first one's vote, and the first one refuses: its log is longer
#   3. only the first one can be elected, by the other's vote: its own does not count in the electorate that it left.
cdef bint _is_voter(Core* core) noexcept nogil:
    cdef int position
    cdef size_t i
    for i in range(core.memberships.size):
        position = membership_position(&core.memberships.data[i], core.config.id)
        if position >= 0 and core.memberships.data[i].members[position].roles & (VOTER_INCOMING | VOTER_OUTGOING):
            return True
    return False


cdef bint _can_lead(Core* core) noexcept nogil:
    return core.was_named and not core.was_told_removed and not is_repairing(core) and _is_voter(core)


cdef void campaign(Core* core, bint is_transfer) noexcept nogil:
    if not _can_lead(core):
        mark(MARK_CAMPAIGN_FORBIDDEN)
        # A learner, a removed or a damaged member forgets a silent leader but disturbs nobody.
        become_follower(core, core.hard.term, 0)
        reset_election_timer(core)
        return
    core.is_transfer_campaign = is_transfer
    core.is_early_campaign = False
    reads_void(core)
    if is_transfer:
        mark(MARK_CAMPAIGN_BY_TRANSFER)
        _become_candidate(core)
        return
    reset_election_timer(core)
    _become_pre_candidate(core)


cdef void _become_pre_candidate(Core* core) noexcept nogil:
    cdef member_id_t silent = core.leader
    core.role = PRE_CANDIDATE
    core.leader = 0
    core.votes_granted = own_bit(core)      # it would vote for itself; a pre-vote makes nothing durable
    core.votes_refused = 0
    mark(MARK_PRE_CANDIDATE)
    trace(core, TRACE_BECAME_PRE_CANDIDATE, silent, core.is_early_campaign)
    _request_votes(core, PRE_VOTE)
    _count_votes(core)


cdef void _become_candidate(Core* core) noexcept nogil:
    core.leader = 0
    core.is_early_campaign = False
    core.early_tick = 0
    _enter_term(core, core.hard.term + 1, core.config.id)
    core.role = CANDIDATE
    # Its own vote counts when it is durable, like every other vote (election_on_persisted).
    core.votes_granted = core.votes_refused = 0
    reset_election_timer(core)
    mark(MARK_CANDIDATE)
    trace(core, TRACE_BECAME_CANDIDATE, 0, 0)
    _request_votes(core, VOTE)


cdef void _request_votes(Core* core, MessageType type) noexcept nogil:
    cdef member_mask_t voters = core.electorate.incoming | core.electorate.outgoing
    cdef Message message
    cdef uint32_t i
    for i in range(in_force(core).count):
        if not (voters >> i) & 1 or <int>i == core.position:
            continue
        message_init(core, &message, type, in_force(core).members[i].id)
        if type == PRE_VOTE:
            message.term += 1
        if core.is_transfer_campaign:
            message.flags = MESSAGE_TRANSFER
        message.index = core.log.last
        message.log_term = log_last_term(&core.log)
        outbox_send(core, &message)


cdef void _count_votes(Core* core) noexcept nogil:
    cdef VoteResult result = quorum_votes(&core.electorate, core.votes_granted, core.votes_refused)
    if core.is_early_campaign:
        result = _votes_of_all(core)
    if result == VOTE_LOST:
        mark(MARK_ELECTION_LOST)
        become_follower(core, core.hard.term, 0)
    elif result == VOTE_WON and core.role == PRE_CANDIDATE:
        _become_candidate(core)
    elif result == VOTE_WON and core.role == CANDIDATE:
        _become_leader(core)


cdef VoteResult _votes_of_all(Core* core) noexcept nogil:
    cdef member_mask_t voters = core.electorate.incoming | core.electorate.outgoing
    if core.votes_refused & voters:
        return VOTE_LOST
    return VOTE_WON if core.votes_granted & voters == voters else VOTE_PENDING


cdef void _become_leader(Core* core) noexcept nogil:
    cdef uint32_t i
    if not is_hard_state_durable(core):
        broken(core, BROKEN_LEADER_NOT_DURABLE, core.hard.term, core.write_id_last)
        return
    core.role = LEADER
    core.leader = core.config.id
    core.was_led = True
    core.is_transfer_campaign = False
    for i in range(in_force(core).count):
        progress_init(&core.progress[i], in_force(core).members[i].id, core.log.last, core.now)
    if core.position >= 0:
        core.progress[core.position].match = core.log.persisted
    rounds_begin_term(core)
    trace(core, TRACE_BECAME_LEADER, core.log.last, 0)
    core.term_first = core.log.last + 1
    # An entry of its own term lets it find out what is committed (paper 8, thesis 6.4).
    append_entry(core, ENTRY_NOOP, NULL, 0)


cdef status_t hear_leader(Core* core, member_id_t leader) noexcept nogil:
    # At most one leader is elected in a term (paper 5.2 Election Safety): a second one means that a vote was forgotten.
    if core.role == LEADER:
        return broken(core, BROKEN_LEADER_APPENDED_TO, core.hard.term, leader)
    if core.role == FOLLOWER and core.leader != 0 and core.leader != leader:
        return broken(core, BROKEN_TWO_LEADERS, core.leader, leader)
    if core.role != FOLLOWER or core.leader != leader:
        become_follower(core, core.hard.term, leader)
    else:
        reset_election_timer(core)
    core.leader_heard_tick = core.now
    core.was_led = True
    return OK


# --- time -------------------------------------------------------------------------------------------------------------
cdef void election_tick(Core* core) noexcept nogil:
    if core.role == LEADER:
        # Check-quorum (thesis 6.2): a leader cut off from a majority stops within one election time-out.
        if not quorum_has(&core.electorate, heard_members(core)):
            mark(MARK_CHECK_QUORUM_FAILED)
            step_down(core, core.hard.term, STEPPED_DOWN_NO_QUORUM)
    elif core.now >= core.election_tick or _waits_for_nobody(core):
        campaign(core, False)
    elif core.early_tick != 0 and core.now >= core.early_tick:
        _campaign_early(core)
    elif core.role == PRE_CANDIDATE and buggify(BUGGIFY_PRE_VOTE_GIVEN_UP):
        become_follower(core, core.hard.term, 0)


# A sole voter needs no vote but its own (paper 5.2): no other candidate exists whose time-out it must let pass. While
# it
# hears a leader, it waits: that leader is about to leave and still tells others so. With lease reads it waits, too: a
# lease may hold until its time is over.
cdef bint _waits_for_nobody(Core* core) noexcept nogil:
    return (core.role == FOLLOWER and core.leader == 0 and not core.config.lease_reads and _can_lead(core)
            and core.electorate.incoming | core.electorate.outgoing == own_bit(core))


# As far as this member can know, nobody has led since it started: it has no leader whose time-out it must let pass
# (docs/divergence.md "Elections"). A candidacy by the ordinary rule needs fewer votes, so it goes on.
cdef bint _may_ask_early(Core* core) noexcept nogil:
    return (core.config.campaigns_early and not core.was_led and not core.config.lease_reads and _can_lead(core)
            and (core.role == FOLLOWER or core.is_early_campaign))


cdef void _ask_early(Core* core) noexcept nogil:
    if _may_ask_early(core):
        core.early_tick = core.now + 1 + next_random(&core.random) % _jitter_ticks(core)


cdef void _campaign_early(Core* core) noexcept nogil:
    core.early_tick = 0
    if not _may_ask_early(core):
        return
    mark(MARK_EARLY_CAMPAIGN)
    core.is_early_campaign = True
    _become_pre_candidate(core)


cdef void election_on_connected(Core* core) noexcept nogil:
    cdef member_mask_t missing = (core.electorate.incoming | core.electorate.outgoing) & ~own_bit(core)
    cdef int position
    cdef size_t i
    for i in range(core.connected.size):
        position = membership_position(in_force(core), core.connected.data[i])
        if position >= 0:
            missing &= ~(<member_mask_t>1 << position)
    if missing == 0:
        _ask_early(core)


cdef member_mask_t heard_members(Core* core) noexcept nogil:
    cdef member_mask_t heard = own_bit(core)
    cdef uint32_t i
    for i in range(in_force(core).count):
        if core.now - core.progress[i].heard_tick < core.config.election_timeout_ticks:
            heard |= <member_mask_t>1 << i
    return heard


cdef uint32_t _jitter_ticks(Core* core) noexcept nogil:
    return TUNE_JITTER_MS // core.config.tick_ms + 1


cdef void election_on_refused(Core* core, member_id_t member) noexcept nogil:
    # A lease holds until its time is over, even when the process that held it is gone.
    if core.role != FOLLOWER or core.leader != member or member == 0 or core.config.lease_reads:
        return
    mark(MARK_LEADER_REFUSED_CONNECTION)
    trace(core, TRACE_LEADER_LOST, member, 0)
    become_follower(core, core.hard.term, 0)
    core.election_tick = core.now + next_random(&core.random) % _jitter_ticks(core)


# --- votes ------------------------------------------------------------------------------------------------------------
cdef bint _hears_leader(Core* core) noexcept nogil:
    if core.role == LEADER:
        return True                 # check-quorum ends this when no quorum answers any more
    # A restart forgets a leader that was heard just before and may still read under its lease (thesis 6.4.1).
    if core.config.lease_reads and core.now < core.config.election_timeout_ticks:
        return True
    return core.leader != 0 and core.now - core.leader_heard_tick < core.config.election_timeout_ticks


# The reason not to vote for the sender; 0: none. Members of other memberships are judged alike (thesis 4.1).
cdef uint32_t _refusal(Core* core, const Message* message) noexcept nogil:
    if message.term < core.hard.term:
        mark(MARK_VOTE_REFUSED_TERM_OLD)
        return REFUSED_TERM_OLD
    if not message.flags & MESSAGE_TRANSFER and _hears_leader(core):
        mark(MARK_VOTE_REFUSED_LEADER_ALIVE)
        return REFUSED_LEADER_ALIVE
    if message.term == core.hard.term and (core.leader != 0 or core.hard.vote not in (0, message.source)):
        mark(MARK_VOTE_REFUSED_VOTED_ALREADY)
        return REFUSED_VOTED_ALREADY
    if not core.was_named or is_repairing(core):
        mark(MARK_VOTE_REFUSED_CANNOT_VOTE)
        return REFUSED_CANNOT_VOTE
    if not log_is_up_to_date(&core.log, message.index, message.log_term):
        mark(MARK_VOTE_REFUSED_LOG_BEHIND)
        return REFUSED_LOG_BEHIND
    return 0


cdef status_t election_on_request(Core* core, const Message* message) noexcept nogil:
    cdef Message response
    cdef uint32_t refusal = _refusal(core, message)
    cdef bint is_pre_vote = message.type == PRE_VOTE
    if refusal:
        trace(core, TRACE_VOTE_REFUSED, message.source, refusal)
    if is_pre_vote:
        _on_pre_vote(core, refusal)
    # A refusal because a leader is alive keeps the term. Otherwise one cut-off member would depose it (thesis 4.2.3).
    if refusal == REFUSED_LEADER_ALIVE and not is_pre_vote and message.term > core.hard.term:
        mark(MARK_VOTE_OF_HIGHER_TERM_IGNORED)
        return STALE
    if message.term > core.hard.term and not is_pre_vote:
        become_follower(core, message.term, 0)
    if not is_pre_vote and not refusal:
        _vote_for(core, message.source)
    if refusal and core.hard.term == 0:
        return OK                   # a member without a term has nothing to tell by a refusal
    response_init(core, &response, PRE_VOTE_RESPONSE if is_pre_vote else VOTE_RESPONSE, message.source)
    response.reject = refusal != 0
    if is_pre_vote and not refusal:
        # The answer names the term that the candidate would have: a pre-vote changes nothing here. A refusal names our
        # term, so
        # that the longest log on a lower term learns the higher one and wins with its next attempt.
        response.term = message.term
    if not is_pre_vote and not refusal:
        response.lease_ms = rounds_lease_clock_of(core, message.log_term)
    outbox_send(core, &response)
    return OK


# The sender has heard no leader either.
cdef void _on_pre_vote(Core* core, uint32_t refusal) noexcept nogil:
    if not refusal:
        core.early_tick = 0             # its log is no older than ours: let it go first
    elif refusal != REFUSED_LEADER_ALIVE and core.early_tick == 0 and _may_ask_early(core):
        mark(MARK_EARLY_CAMPAIGN_INSTEAD)
        _ask_early(core)


cdef void _vote_for(Core* core, member_id_t candidate) noexcept nogil:
    if core.hard.vote != 0 and core.hard.vote != candidate:
        broken(core, BROKEN_VOTED_TWICE, core.hard.vote, candidate)
        return
    if core.hard.vote != candidate:
        core.hard.vote = candidate
        core.is_hard_dirty = True
    reset_election_timer(core)


cdef status_t election_on_response(Core* core, const Message* message) noexcept nogil:
    cdef bint is_pre_vote = message.type == PRE_VOTE_RESPONSE
    cdef int position = membership_position(in_force(core), message.source)
    cdef term_t expected = core.hard.term
    if is_pre_vote and not message.reject:
        expected += 1
    if core.role != (PRE_CANDIDATE if is_pre_vote else CANDIDATE) or message.term != expected or position < 0:
        mark(MARK_VOTE_RESPONSE_LATE)
        return STALE
    if message.reject:
        core.votes_refused |= (<member_mask_t>1 << position) & ~core.votes_granted
    else:
        core.votes_granted |= (<member_mask_t>1 << position) & ~core.votes_refused
        rounds_hear_lease_clock_of_voter(core, message.lease_ms)
    _count_votes(core)
    return OK


cdef void election_on_persisted(Core* core) noexcept nogil:
    if core.role == CANDIDATE and is_hard_state_durable(core) and not core.votes_granted & own_bit(core):
        mark(MARK_OWN_VOTE_DURABLE)
        core.votes_granted |= own_bit(core)
        _count_votes(core)


cdef status_t election_on_timeout_now(Core* core, const Message* message) noexcept nogil:
    # Only the leader that this member follows may order it: a late order must not start an election (thesis 3.10).
    if core.role != FOLLOWER or core.leader != message.source:
        mark(MARK_TIMEOUT_NOW_LATE)
        return STALE
    campaign(core, True)
    return OK
