# One node of a small world: a production core and a disk that is three facts, both plain enough to be copied.
#
# It decides what a node can meet (a message, a time-out, a heartbeat, a finished write, a proposal, a change, a crash)
# by the core's own verbs, and checks what one node alone can do wrong: a message that claims more than the disk holds
# (I5, I6), a pointer that steps back (I9), a core that stops itself. It never knows the other nodes:
# raftmeta/sim/small/exhaustive joins them.
#
# Its clock is the one of core_settle: at every moment each node may vote, and none campaigns unless it is told to.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.chunks cimport Slice
from raftmeta.native.containers cimport Vec
from raftmeta.raft.state cimport Core
from raftmeta.raft.types cimport HardState, Membership, Message, index_t, term_t
from raftmeta.status cimport status_t

cdef enum:
    SMALL_TRACES = 17           # marks: trace types of raft/ready by number
    SMALL_BEGINNING_MAX = 4     # entries

# Numbers as in docs/invariants.md.
cdef enum SmallViolation:
    SMALL_TWO_LEADERS = 1
    SMALL_LOG_MATCHING = 2
    SMALL_LEADER_INCOMPLETE = 3
    SMALL_STATE_MACHINE = 4
    SMALL_ACK_NOT_DURABLE = 5
    SMALL_TERM_NOT_DURABLE = 6
    SMALL_COMMIT_NOT_DURABLE = 7
    SMALL_NOT_MONOTONIC = 9
    SMALL_MEMBERSHIP = 10
    SMALL_STOPPED = 100         # the core stopped itself: an invariant of raft/invariants.pxd
    SMALL_NO_MEMORY = 101

# Where a node begins: in an empty log, or in one that earlier leaders left on its disk.
cdef struct SmallBeginning:
    const Membership* founding
    uint8_t length
    uint8_t[SMALL_BEGINNING_MAX] log_terms      # of entries 1, 2, ...: each the noop of a leader
    term_t term                 # durable, and nobody was voted for in it
    bint may_crash              # some node of the world may
    bint may_change             # its membership may
    bint forgets                # what a core keeps for what no small world has is not told apart

cdef struct SmallNode:
    Core* core
    HardState hard              # what the disk holds
    Vec[Slice] records          # ... of entries 1, 2, ...; each chunk held
    bint may_crash              # of SmallBeginning
    bint may_change
    bint forgets

# The effects of an action beside the node itself.
cdef struct SmallOutcome:
    Vec[Message] messages       # sent; each chunk held
    uint32_t violation          # SmallViolation, 0: none
    uint64_t traces             # bit per TraceType that was seen

# Pointers that no action may step back; a crash may, but for what the disk vouches for.
cdef struct SmallPointers:
    term_t term
    index_t committed

cdef status_t node_create(SmallNode* node, uint32_t position, const SmallBeginning* beginning) noexcept nogil
cdef status_t node_copy(SmallNode* node, const SmallNode* source) noexcept nogil
cdef void node_release(SmallNode* node) noexcept nogil
# Its digest if each member i had the name names[i]; names[0] is 0.
cdef uint64_t node_digest(const SmallNode* node, const uint8_t* names) noexcept nogil
cdef void outcome_clear(SmallOutcome* outcome) noexcept nogil
cdef SmallPointers node_look(const SmallNode* node) noexcept nogil
# I9: after an action.
cdef void node_compare(const SmallNode* node, const SmallPointers* before, SmallOutcome* outcome) noexcept nogil

# --- what happens -----------------------------------------------------------------------------------------------------
# Each ends with a settled core at rest. False: it cannot happen to this node.
cdef bint node_deliver(SmallNode* node, const Message* message, SmallOutcome* outcome) noexcept nogil
# A leader hears nobody for an election time-out and steps down; any other member campaigns. has_pre_votes: with a
# pre-vote that the others answer; otherwise they grant it at once, which allows more elections than any world has.
cdef bint node_time_out(SmallNode* node, bint has_pre_votes, SmallOutcome* outcome) noexcept nogil
cdef bint node_heartbeat(SmallNode* node, SmallOutcome* outcome) noexcept nogil
cdef bint node_persist(SmallNode* node, SmallOutcome* outcome) noexcept nogil
cdef bint node_propose(SmallNode* node, SmallOutcome* outcome) noexcept nogil
# To the target, and from there back to the founding members.
cdef bint node_change(SmallNode* node, const Membership* target, const Membership* founding,
                      SmallOutcome* outcome) noexcept nogil
# The process dies and returns. keeps_write: what was under way reached the disk, and nobody was told.
cdef bint node_crash(SmallNode* node, const SmallBeginning* beginning, bint keeps_write,
                     SmallOutcome* outcome) noexcept nogil
