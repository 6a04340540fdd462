# The state of one member: paper Figure 2 "State", and what the departures of docs/divergence.md add to it.
#
# Only _core.pyx and the modules of raft/ look inside; the world sees CoreStatus and Ready. One concern per module:
#     outbox         when a message may leave                  membership_change  members in force, changes, promotion
#     election       roles, terms, votes, time-outs            rounds             heartbeats, quorum contact, leases
#     replication    appends, acknowledgements, commit         transfer           leadership handed over
#     proposals      appended, forwarded, refused              repair             damaged records
#     reads          ReadIndex                                 log, progress, quorum, record: leaves
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.chunks cimport Slice
from raftmeta.native.containers cimport Ring, Vec
from raftmeta.native.invariants cimport keep_broken
from raftmeta.raft.invariants cimport Invariant
from raftmeta.raft.log cimport Log, log_append
from raftmeta.raft.progress cimport Progress
from raftmeta.raft.quorum cimport Electorate
from raftmeta.raft.ready cimport LEADER, LogRead, ProposalRefused, ReadReady, Role, Trace, Write
from raftmeta.raft.types cimport (MEMBERS_MAX, HardState, Membership, Message, index_t, member_id_t, member_mask_t,
                                  term_t)
from raftmeta.status cimport HISTORY_LOST, INVARIANT_BROKEN, NO_MEMORY, status_t

cdef enum:
    FEEDS_MAX = 8               # observers that one node feeds: three steps below a member stand 8 + 64 + 512 of them
    FEED_DEPTH_MAX = 8          # observers in a row below a member; a circle of feeders ends when it is reached
    RELAYS_MAX = 128            # forwarded batches of observers whose refusal can still be passed on

cdef struct CoreConfig:
    member_id_t id                      # this member's incarnation
    uint64_t seed                       # of time-outs, jitter and contexts; another one for each boot
    uint32_t tick_ms                    # time that one core_tick stands for
    uint32_t heartbeat_ticks            # 1 or more
    uint32_t election_timeout_ticks     # the minimum, more than heartbeat_ticks; drawn anew from [this, 2 x this)
    uint32_t append_bytes_max           # records of one APPEND; one record may be longer
    uint32_t log_chunk_bytes            # arena of records, 256 KiB to 1 MiB
    uint64_t inflight_bytes_max         # unanswered APPENDs of one member
    uint64_t uncommitted_bytes_max      # leader: above it proposals are OVERLOADED
    uint64_t log_memory_bytes_max       # records that are applied and persisted leave memory above it
    uint64_t free_bytes_min             # a member with less room has no space for growth
    bint lease_reads                    # reads without a round while a quorum cannot elect another (thesis 6.4.1)
    bint campaigns_early                # campaign before the time-out, with all voters, while no leader was heard
    bint promotes_learners              # the leader proposes learners that have caught up as voters
    bint checks                         # check dear invariants too
    bint is_observer                    # holds no place in the membership: never votes, never leads (docs/observers.md)
    uint32_t feeds_max                  # observers that this node feeds, at most FEEDS_MAX; tests have smaller trees

cdef inline void core_config_init(CoreConfig* config, member_id_t id, uint64_t seed) noexcept nogil:
    # Defaults for a local network; paper 5.6: broadcast time << election time-out << time between failures.
    config.id = id
    config.seed = seed
    config.tick_ms = 10
    config.heartbeat_ticks = 5
    config.election_timeout_ticks = 50
    config.append_bytes_max = 256 * 1024
    config.log_chunk_bytes = 1024 * 1024
    config.inflight_bytes_max = 4 * 1024 * 1024
    config.uncommitted_bytes_max = 64 * 1024 * 1024
    config.log_memory_bytes_max = 64 * 1024 * 1024
    config.free_bytes_min = 16 * 1024 * 1024
    config.lease_reads = False
    config.campaigns_early = True
    config.promotes_learners = True
    config.checks = False
    config.is_observer = False
    config.feeds_max = FEEDS_MAX

# A message that waits for the disk.
cdef struct HeldMessage:
    uint64_t write_id           # leaves when this write is persisted
    Message message

cdef struct PendingRead:
    uint64_t context
    member_id_t source          # leader: who asked; 0: a caller here
    index_t index               # leader: commit index when its round began
    uint64_t round              # leader: heartbeat round; follower: number of the READ_INDEX; 0: none yet

cdef struct Round:
    uint64_t number
    uint64_t sent_tick
    uint64_t sent_ns

cdef struct EntryWanted:
    member_id_t source
    index_t index
    uint64_t chain

# An observer that asks here for what is committed.
cdef struct Feed:
    member_id_t id              # 0: a free place
    index_t index               # its log ends there, as of its last request
    uint64_t number             # of that request
    bint is_asking              # that request has no answer yet
    bint is_log_read            # its records are being read from the log file
    uint64_t heard_tick
    uint64_t due_tick           # an answer leaves then, if there is news or not
    uint64_t offered_tick       # a snapshot was offered to it then; 0: never
    member_id_t leader_told
    term_t term_told

# A batch of an observer that was forwarded under another context.
cdef struct Relay:
    uint64_t context            # 0: a free place
    member_id_t source
    uint64_t source_context

# A node that did not feed this observer.
cdef struct Shunned:
    member_id_t id
    uint64_t until_tick

cdef struct Core:
    CoreConfig config
    uint64_t random             # state of the seeded stream
    uint64_t now                # ticks since start
    uint64_t time_ns            # as of the last tick or core_set_time; it may be late, and is never early
    uint64_t wall_ms            # as of the last tick, never steps back
    bint is_started
    status_t fatal              # not OK: every verb answers it from now on (NO_MEMORY, INVARIANT_BROKEN, HISTORY_LOST)
    uint32_t broken             # Invariant
    uint64_t broken_a
    uint64_t broken_b

    # --- on the disk, or on its way there
    HardState hard
    bint is_hard_dirty          # term or vote changed since the last write was given out
    Write write                 # under way; id 0: none
    index_t write_last          # write.last, lowered when later records superseded some
    Vec[Slice] write_slices
    uint64_t write_id_last      # of the last write given out
    Vec[index_t] repaired       # mended in memory, not yet written again
    Log log

    # --- role
    Role role
    member_id_t leader          # 0: not known
    uint64_t leader_heard_tick
    uint64_t election_tick      # when to campaign
    index_t matched             # last index known to be equal to the log of this term's leader
    member_mask_t votes_granted
    member_mask_t votes_refused
    bint is_transfer_campaign   # this candidacy was ordered by TIMEOUT_NOW
    bint is_early_campaign      # these pre-votes were asked for before the time-out: all voters must grant them
    bint was_led                # a leader was heard, or this member led, since it started: it asks early no more
    uint64_t early_tick         # when to ask before the time-out; 0: never
    bint was_named              # a membership of its own log or snapshot named this member: it may vote
    bint was_told_removed       # a peer said so, since a leader last spoke to it
    uint64_t waiting_until      # callers wait here for what was forwarded

    # --- members
    Vec[Membership] memberships     # in index order; the last is in force, the first is committed
    Electorate electorate           # of the one in force
    member_mask_t learners
    int position                    # of this member, -1: not a member
    Progress[MEMBERS_MAX] progress  # by position

    # --- leader
    index_t term_first          # its first entry (ENTRY_NOOP): only from here on commit is by count
    bint must_replicate         # APPENDs or commit indexes may be due
    bint must_heartbeat         # a round is due
    uint64_t heartbeat_tick     # when the next one is due
    uint64_t round              # last round begun; never used twice
    uint64_t round_confirmed
    Ring[Round] rounds          # begun, not confirmed
    uint64_t round_void         # rounds up to it prove nothing for reads (a clock jumped)
    uint64_t lease_until        # lease reads may be served before this tick
    bint lease_is_off           # until the end of the term: a transfer was tried
    member_id_t transferring
    uint64_t transfer_tick      # when the leader gives the transfer up
    bint is_timeout_now_sent
    uint64_t free_bytes         # room of this member's own log

    # --- lease clock, of this leader or as a leader told it (docs/divergence.md "Time")
    uint64_t lease_ms           # 0: nothing is known yet
    term_t lease_term           # that leader's; other members believe it while their logs end with its entries
    uint64_t lease_ns           # when the clock showed lease_ms: a confirmed round was sent, or when this was told
    uint64_t lease_told_ms      # leader: the most that a round has told; an entry never carries less

    # --- reads
    Ring[PendingRead] reads
    uint64_t read_number        # last READ_INDEX sent
    uint64_t read_tick          # when to ask again for waiting reads
    uint64_t repair_tick        # when to ask again for damaged records
    Vec[member_id_t] connected          # peers whose link is up, members or not, as repair asks them
    Vec[EntryWanted] entries_wanted     # requests of members that repair; the log file is being read for them
    Vec[Slice] fetched          # records for apply that came from the log file: at most one slice
    index_t fetched_last
    bint is_fetching

    # --- feeds (raft/feeds): who asks here
    Feed[FEEDS_MAX] feeds
    uint32_t feed_count
    bint must_feed              # answers may be due
    Relay[RELAYS_MAX] relays
    uint64_t relay_count        # batches relayed so far

    # --- feeds, observer: whom it asks
    member_id_t feeder          # 0: nobody yet
    uint64_t feed_number        # of the last request
    bint is_feed_open           # it has no answer yet
    uint64_t feed_tick          # when to ask next
    uint64_t feed_heard_tick    # when its feeder was of use last
    uint8_t feed_depth          # 0: a member, or not fed yet; 1: a member feeds it; else one more than its feeder's
    member_id_t feed_leader     # last leader that it was told of
    Shunned[MEMBERS_MAX] shunned

    # --- for Ready; arrays are reused
    Vec[Message] outbox
    Vec[Message] sent           # given out by the last core_ready, held until the next
    Vec[HeldMessage] held
    Vec[Slice] apply_slices
    index_t applying            # last index given out to apply
    Vec[ReadReady] reads_ready
    Vec[ReadReady] reads_given
    Vec[ProposalRefused] refusals
    Vec[ProposalRefused] refusals_given
    Vec[LogRead] log_reads
    Vec[LogRead] log_reads_given
    Vec[member_id_t] snapshots
    Vec[member_id_t] snapshots_given
    Vec[Trace] traces
    Vec[Trace] traces_given
    Vec[uint8_t] scratch        # encoding of memberships
    Role ready_role             # soft state as of the last Ready
    member_id_t ready_leader
    index_t ready_membership

# Remember the first belief that was wrong; the core does nothing any more (docs/invariants.md).
cdef inline status_t broken(Core* core, Invariant what, uint64_t a, uint64_t b) noexcept nogil:
    keep_broken(&core.broken, &core.broken_a, &core.broken_b, what, a, b)
    core.fatal = INVARIANT_BROKEN
    return INVARIANT_BROKEN

# A belief is wrong because a disk went back in time, this one or another voter's (docs/divergence.md "Lost history").
cdef inline status_t history_lost(Core* core, Invariant what, uint64_t a, uint64_t b) noexcept nogil:
    broken(core, what, a, b)
    core.fatal = HISTORY_LOST
    return HISTORY_LOST

# Growth failed somewhere below: the verb under way and all later ones end with NO_MEMORY.
cdef inline void out_of_memory(Core* core) noexcept nogil:
    core.fatal = NO_MEMORY

cdef inline member_mask_t own_bit(Core* core) noexcept nogil:
    return <member_mask_t>1 << core.position if core.position >= 0 else 0

cdef inline Membership* in_force(Core* core) noexcept nogil:
    return &core.memberships.back()

# Was it a member, and is it none any more, by its own log or by what a peer said?
cdef inline bint is_removed(Core* core) noexcept nogil:
    if core.config.is_observer:
        return False            # it holds no place that it could lose
    if core.was_told_removed or not core.was_named:
        return core.was_told_removed
    return core.position < 0 and core.role != LEADER and in_force(core).index <= core.log.committed

# Is that observer fed here? Then its requests go on from here as this node's own do.
cdef inline bint is_fed(const Core* core, member_id_t id) noexcept nogil:
    cdef int i
    for i in range(FEEDS_MAX if core.feed_count else 0):
        if core.feeds[i].id == id:
            return True
    return False

# Whom a node that does not lead asks for reads, and sends proposals: its leader, or its feeder. 0: nobody.
cdef inline member_id_t forward_target(const Core* core) noexcept nogil:
    if core.config.is_observer and core.leader != 0:
        return core.feeder
    return core.leader

cdef inline bint is_repairing(Core* core) noexcept nogil:
    return core.log.damages.size > 0 or core.repaired.size > 0 or (core.write.id != 0 and core.write.repairs)

# Own-term commit: from here on the leader knows what is committed (paper 8, thesis 6.4).
cdef inline bint has_own_commit(Core* core) noexcept nogil:
    return core.role == LEADER and core.log.committed >= core.term_first

# An entry carries the lease clock as it stands, also for the time that no quorum has confirmed yet: a lease in it must
# not be charged for time before it was granted. It never carries less than a round has told (raft/rounds, rule 5).
cdef inline uint64_t lease_stamp_ms(const Core* core) noexcept nogil:
    cdef uint64_t passed_ms = (core.time_ns - min(core.lease_ns, core.time_ns)) // 1_000_000
    return max(core.lease_ms + passed_ms, core.lease_told_ms, core.log.last_lease_ms)

# The leader appends an entry and stamps both clocks, which never step back in the log.
cdef inline status_t append_entry(Core* core, uint8_t type, const uint8_t* payload, uint32_t length) noexcept nogil:
    cdef status_t status = log_append(&core.log, core.hard.term, type, max(core.wall_ms, core.log.last_wall_ms),
                                      lease_stamp_ms(core), payload, length)
    if status == NO_MEMORY:
        out_of_memory(core)
    core.must_replicate = True
    return status
