# The consensus core: Raft as a function of its inputs.
#
# One caller at a time, few verbs, no callback, no clock, file, socket, thread or random source. The caller loops:
#
#     core_tick / core_step / core_propose / core_read_index / core_peer_event / ...     what happened
#     core_ready(core, &ready)                                                            what must happen now
#         1. send every ready.messages          (the disk has all that they claim; the core held them until then)
#         2. give ready.write to the disk       (append records, hard state; then core_persisted(write.id))
#         3. apply ready.apply                  (committed records, in order; then core_applied(index))
#         4. serve each of ready.reads when its index is applied
#     core_persisted(core, write id), core_applied(core, index)
#
# The type carries the rule of order: a message is in ready.messages only when stable storage holds all that it claims.
# APPENDs of the leader claim nothing about its own disk, so they leave before its own sync (thesis 10.2.1).
#
# raft/ready.pxd has the shapes inside Ready, raft/state.pxd the state.
#
# Sources: paper = Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm (extended)"; thesis =
# Ongaro, "Consensus: Bridging Theory and Practice". Departures: docs/divergence.md.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from raftmeta.native.chunks cimport Slice
from raftmeta.raft.ready cimport (CANDIDATE, FOLLOWER, LEADER, PRE_CANDIDATE, REFUSED_CANNOT_VOTE, REFUSED_LEADER_ALIVE,
                                  REFUSED_LOG_BEHIND, REFUSED_TERM_OLD, REFUSED_VOTED_ALREADY, STEPPED_DOWN_HIGHER_TERM,
                                  STEPPED_DOWN_NO_QUORUM, STEPPED_DOWN_REMOVED, TRACE_BECAME_CANDIDATE,
                                  TRACE_BECAME_FOLLOWER, TRACE_BECAME_LEADER, TRACE_BECAME_PRE_CANDIDATE,
                                  TRACE_COMMITTED, TRACE_LEADER_LOST, TRACE_MEMBERSHIP, TRACE_PROMOTED,
                                  TRACE_READS_VOID, TRACE_REPAIR, TRACE_SNAPSHOT_NEEDED, TRACE_STEPPED_DOWN,
                                  TRACE_TRANSFER, TRACE_TRANSFER_ABORTED, TRACE_TRUNCATED, TRACE_VOTE_REFUSED, Apply,
                                  LogRead, ProposalRefused, ReadReady, Ready, Role, StepDownReason, Trace, TraceType,
                                  VoteRefusal, Write)
from raftmeta.raft.state cimport FEEDS_MAX, Core, CoreConfig
from raftmeta.raft.types cimport (HardState, Member, Membership, Message, Record, SnapshotPoint, index_t, member_id_t,
                                  term_t)
from raftmeta.status cimport status_t

cdef enum PeerEvent:
    PEER_CONNECTED = 1          # send the peer something at once, forget the back-off
    PEER_UNREACHABLE = 2        # a send failed or the connection broke: stop pipelining and probe (progress.on_lost)
    PEER_REFUSED = 3            # the connection broke AND a reconnect was refused: its process is gone. If it led,
                                # forget it and start a pre-vote after 0..30 ms (not with lease_reads)
    PEER_SNAPSHOT_SENT = 4      # the snapshot stream to it ended well: progress waits for SNAPSHOT_RESPONSE
    PEER_SNAPSHOT_FAILED = 5
    CLOCK_JUMPED = 6            # this node was paused or its clock leapt: void read rounds and the lease interval

cdef struct FedObserver:
    member_id_t id
    index_t index               # its log ended there when it asked last

# The core in numbers: a plain copy, at any time.
cdef struct CoreStatus:
    member_id_t id
    Role role
    term_t term
    member_id_t vote
    member_id_t leader          # 0: not known
    index_t compacted           # the pointers of raft/log: compacted <= snapshotted <= applied <= committed <= last
    index_t snapshotted
    index_t applied
    index_t committed
    index_t persisted           # this member's disk is known to hold entries up to it
    index_t last
    term_t last_term
    uint64_t last_chain
    uint64_t lease_ms           # leader: lease clock as a quorum confirmed it; others: as of the last entry
    bint is_ready_to_read       # leader with an own-term commit, or a follower that knows its leader
    bint is_repairing
    member_id_t transferring    # target of a transfer under way, 0: none
    index_t membership_index
    bint is_member              # the membership in force names it
    bint is_observer
    member_id_t target          # whom it asks for reads and sends proposals; 0: nobody
    member_id_t feeder          # observer: who feeds it, 0: nobody yet
    uint8_t feed_depth          # observer: 1 when a member feeds it, else one more than its feeder's
    uint32_t feed_count         # observers that are fed here, the first places of `feeds`
    FedObserver[FEEDS_MAX] feeds
    bint is_removed             # it was a member; by its own log or by what a peer said it is none any more
    uint32_t broken             # Invariant that failed (raft/invariants.pxd), 0: none; every later verb says so
    uint64_t broken_a           # the two numbers that contradict each other
    uint64_t broken_b

# --- life -------------------------------------------------------------------------------------------------------------
cdef Core* core_create(const CoreConfig* config) noexcept nogil         # NULL: no memory, or a config out of range
cdef void core_destroy(Core* core) noexcept nogil
# Call these before the first tick, in this order: the founding membership, or a snapshot's point and membership; every
# record of the log in order; the hard state. core_restored then checks the whole and starts the core as a follower.
cdef status_t core_restore_membership(Core* core, const SnapshotPoint* point,
                                      const Membership* membership) noexcept nogil
cdef status_t core_restore_records(Core* core, const Slice* records) noexcept nogil
cdef status_t core_restored(Core* core, const HardState* hard_state, index_t applied) noexcept nogil
# Tell of a record that is damaged on this disk. The next record or the batch header gives its chain hash; its bytes are
# lost. The core asks every member and connected peer for the record and writes it again. Until all are repaired the
# core neither votes nor campaigns.
cdef status_t core_restore_damaged(Core* core, index_t index, uint64_t chain) noexcept nogil

# Set the machine's clocks (lease clock, advisory wall time) as a checkpoint or an installed snapshot restored them.
# Records that this member appends as leader never carry less.
cdef status_t core_set_clocks(Core* core, uint64_t lease_ms, uint64_t wall_ms) noexcept nogil

# --- what happened ----------------------------------------------------------------------------------------------------
cdef status_t core_tick(Core* core, uint64_t wall_ms) noexcept nogil
# The time on a clock of this node that never steps back, read just before. Nothing happens. The lease clock needs it
# finer than ticks: tell it behind core_create, and before each message and each proposal. Who never does goes by ticks.
cdef void core_set_time(Core* core, uint64_t time_ns) noexcept nogil
# message and its records are only read during the call; the core copies what it keeps. STALE: ignored, no harm.
# Any other status below 96: the message is refused and counted.
cdef status_t core_step(Core* core, const Message* message) noexcept nogil
# Payloads of ENTRY_COMMANDs, all or none. A leader appends them; a member that knows its leader forwards them
# (PROPOSE).
# NO_LEADER, OVERLOADED (uncommitted bytes at the limit), NO_SPACE (no quorum has room): nothing was done.
# is_urgent: keep-alives, fences, deletes and membership changes, which pass OVERLOADED and NO_SPACE limits.
# context: names a forwarded batch in Ready.refusals (Message.context of PROPOSE and its response).
cdef status_t core_propose(Core* core, const Slice* payloads, uint32_t count, uint64_t context, bint is_urgent,
                           bint is_waiting) noexcept nogil
cdef status_t core_read_index(Core* core, uint64_t context) noexcept nogil      # answered in Ready.reads
cdef status_t core_peer_event(Core* core, PeerEvent event, member_id_t peer) noexcept nogil
cdef status_t core_transfer(Core* core, member_id_t target) noexcept nogil      # 0: the most advanced voter
# Propose `next` by joint consensus: one entry enters, an automatic one leaves. next.index names the membership that the
# change was made from. A member that does not lead forwards it; Ready.refusals tells a refusal under `context`.
# NO_LEADER; NOT_READY: a change is under way, no own-term commit yet, or a new voter is not yet a learner with the
# membership that names it; STALE: another membership is in force; NO_QUORUM: too few of its voters answer; BAD_FIELD:
# it would leave no voter, or drop one of two incarnations that still answers.
cdef status_t core_change_membership(Core* core, const Membership* next, uint64_t context) noexcept nogil
# A peer with a later membership says that it does not name this member. This member believes it while it knows no
# leader, and then does not campaign until a leader speaks to it.
cdef status_t core_told_removed(Core* core) noexcept nogil
cdef status_t core_campaign(Core* core) noexcept nogil                           # tests and demo: election time-out now
cdef status_t core_log_read(Core* core, const LogRead* read, const Slice* records, status_t status) noexcept nogil
# The world installed the snapshot at `point` durably. The core drops the log up to it and replaces the membership; a
# log
# that does not contain the point goes whole, which *begins tells: the next write then comes behind point. STALE: point
# is applied already.
cdef status_t core_snapshot_installed(Core* core, const SnapshotPoint* point, const Membership* membership,
                                      bint* begins) noexcept nogil
# The machine's checkpoint at `index` is durable: records up to `compact_to` <= index may go.
cdef status_t core_compacted(Core* core, index_t snapshotted, index_t compact_to) noexcept nogil
cdef void core_set_free_bytes(Core* core, uint64_t free_bytes) noexcept nogil   # room of this member's log
cdef status_t core_persisted(Core* core, uint64_t write_id) noexcept nogil
cdef status_t core_applied(Core* core, index_t index) noexcept nogil

# --- what must happen -------------------------------------------------------------------------------------------------
cdef bint core_has_ready(const Core* core) noexcept nogil
cdef status_t core_ready(Core* core, Ready* ready) noexcept nogil
cdef void core_status(const Core* core, CoreStatus* status) noexcept nogil
cdef const Membership* core_membership(const Core* core) noexcept nogil
