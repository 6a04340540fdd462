# The shapes inside Ready, by which the core speaks to the world. The first page of _core.pxd tells their use and order.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.chunks cimport Slice
from raftmeta.raft.types cimport HardState, Message, index_t, member_id_t, term_t
from raftmeta.status cimport status_t

cdef enum Role:
    FOLLOWER = 1
    PRE_CANDIDATE = 2
    CANDIDATE = 3
    LEADER = 4

# The next task of the disk: one write at a time, in order of id. All of it becomes durable together or not at all.
cdef struct Write:
    uint64_t id                 # 0: nothing to write. An id and not an index: an index can be written twice with
                                # different terms, and completing the first must not vouch for the second
    bint has_hard_state
    HardState hard_state
    index_t first               # records of [first, last]; first > last: none. The write supersedes all records that
    index_t last                #   were written before at or above `first`
    const Slice* slices         # their bytes, contiguous records, in order; the core holds them until persisted(id)
    uint32_t slice_count
    bint truncates              # first is at or below the last index written before
    bint repairs                # first = last is a mended record: replace it alone and keep all above it

# Committed records [first, last] to apply, in order; `slices` are their bytes (contiguous records).
cdef struct Apply:
    index_t first
    index_t last                # first > last: none
    const Slice* slices         # the core holds them until core_applied(last); the next range comes after that
    uint32_t slice_count

cdef struct ReadReady:
    uint64_t context            # as given to core_read_index
    index_t index               # serve when applied >= index
    status_t status             # OK, or NO_LEADER: nothing was promised, ask again

# Proposals of this member that the leader refused (PROPOSE_RESPONSE), by the context given to core_propose. That leader
# certainly did not append them. The refusal comes at once, so a follower's caller gets Overloaded in one round trip.
cdef struct ProposalRefused:
    uint64_t context
    status_t status             # OVERLOADED, NO_SPACE, NOT_READY, NO_LEADER

# Records that left memory and that a slow peer (or the machine) needs from the log file. Answer with core_log_read.
cdef struct LogRead:
    member_id_t peer            # 0: for apply
    index_t first
    uint32_t bytes_max

# Decisions of the core, for logs, metrics, tests and the simulator; never needed for correctness.
cdef enum TraceType:
    TRACE_BECAME_FOLLOWER = 1
    TRACE_BECAME_PRE_CANDIDATE = 2
    TRACE_BECAME_CANDIDATE = 3
    TRACE_BECAME_LEADER = 4
    TRACE_COMMITTED = 5         # a = committed
    TRACE_TRUNCATED = 6         # a = first index removed, b = the last one before
    TRACE_MEMBERSHIP = 7        # a = index of the membership now in force
    TRACE_VOTE_REFUSED = 8      # a = candidate, b = reason
    TRACE_TRANSFER = 9          # a = target
    TRACE_SNAPSHOT_NEEDED = 10  # a = peer
    TRACE_STEPPED_DOWN = 11     # a = StepDownReason
    TRACE_REPAIR = 12           # a = index repaired, b = member that gave it
    TRACE_TRANSFER_ABORTED = 13     # a = target
    TRACE_PROMOTED = 14         # a = learner that became voter
    TRACE_LEADER_LOST = 15      # a = leader whose process is gone (PEER_REFUSED)
    TRACE_READS_VOID = 16       # a = number of reads that were voided

cdef enum StepDownReason:
    STEPPED_DOWN_NO_QUORUM = 1      # check-quorum: no majority answered for an election time-out
    STEPPED_DOWN_HIGHER_TERM = 2
    STEPPED_DOWN_REMOVED = 3        # the membership without it is committed (thesis 4.2.2)

# Why a vote or pre-vote was refused.
cdef enum VoteRefusal:
    REFUSED_LEADER_ALIVE = 1        # a leader spoke within the minimum election time-out (thesis 4.2.3)
    REFUSED_LOG_BEHIND = 2          # the candidate's log is older than ours (paper 5.4.1)
    REFUSED_VOTED_ALREADY = 3
    REFUSED_TERM_OLD = 4
    REFUSED_CANNOT_VOTE = 5         # this member's log is damaged, or no membership of its own ever named it

cdef struct Trace:
    uint8_t type
    term_t term
    uint64_t a
    uint64_t b

cdef struct Ready:
    const Message* messages     # send now, in any order; valid until the next core call
    uint32_t message_count
    Write write
    Apply apply
    const ReadReady* reads
    uint32_t read_count
    const ProposalRefused* refusals
    uint32_t refusal_count
    const LogRead* log_reads
    uint32_t log_read_count
    const member_id_t* snapshots        # members to send our snapshot to: those that need a compacted entry of the
                                        # leader, or any that repair such an entry
    uint32_t snapshot_count
    const Trace* traces
    uint32_t trace_count
    bint soft_state_changed     # role, leader or membership differ from the last Ready
