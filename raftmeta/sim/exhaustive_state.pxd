# A small world as data: its bounds, the parts it is made of by number, and the states that wait to be taken.
#
# small_parts    nodes, messages and entries by number; what an action makes of a node, computed once
# exhaustive     states of the whole world: which actions there are, the checks, the search
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Map64, Vec
from raftmeta.raft.types cimport Membership, Message, index_t, term_t
from raftmeta.sim.small_node cimport SMALL_TRACES, SmallBeginning, SmallNode, SmallOutcome
from raftmeta.status cimport status_t

cdef enum:
    SMALL_NODES_MAX = 5
    SMALL_TERMS_MAX = 8         # leaders by term stand in one word
    SMALL_LOG_MAX = 15          # entries of a log, noops and configurations among them

# What may happen so often; the position of its bound.
cdef enum SmallBound:
    BOUND_TIME_OUTS = 0
    BOUND_PROPOSALS = 1
    BOUND_HEARTBEATS = 2
    BOUND_CRASHES = 3
    BOUND_CHANGES = 4
    BOUNDS = 5

cdef struct SmallConfig:
    uint32_t nodes
    Membership founding
    Membership target           # of the change
    SmallBeginning[SMALL_NODES_MAX] beginnings  # exhaustive_create fills in `founding` and what is for all
    uint8_t[SMALL_NODES_MAX] kinds      # equal: roles in both, and logs at the beginning
    bint has_single_appends
    uint8_t[BOUNDS] bounds
    bint has_pre_votes          # else every pre-vote is granted at once
    bint has_heartbeats         # else those that the protocol sends are lost, and BOUND_HEARTBEATS is 0

cdef enum SmallActionKind:
    ACT_BEGIN = 0               # of the first state
    ACT_DELIVER = 1             # number: of the message; of all others that of the node
    ACT_TIME_OUT = 2
    ACT_PERSIST = 3
    ACT_PROPOSE = 4
    ACT_HEARTBEAT = 5
    ACT_CHANGE = 6
    ACT_CRASH = 7               # what was being written is lost
    ACT_CRASH_AFTER_WRITE = 8   # it reached the disk, and nobody was told

# kind << 28 | number
ctypedef uint32_t small_action_t

# A node as it can be, and what the checks of the whole world ask of it.
cdef struct SmallNodeState:
    SmallNode node
    uint8_t role
    uint8_t log_length
    uint8_t durable_length
    uint8_t incoming            # voters in force, bit by position in the world
    uint8_t outgoing
    uint8_t[SMALL_LOG_MAX + 1] configurations       # 1: the entry at this index changes the membership
    term_t term
    term_t durable_term
    index_t committed
    bint is_writing
    uint32_t[SMALL_LOG_MAX + 1] log                 # numbers of its entries, by index
    uint32_t[SMALL_LOG_MAX + 1] durable

# An entry with all before it; number 0: none.
cdef struct SmallEntry:
    uint64_t chain
    term_t term
    index_t index
    uint32_t previous

# What an action makes of a node. is_possible False: it cannot happen to it.
cdef struct SmallStep:
    uint32_t node
    uint32_t violation
    uint32_t sent               # first in Exhaustive.sent
    uint32_t sent_count
    bint is_possible

cdef struct SmallOrigin:
    uint32_t parent
    small_action_t action

# A state as it is taken apart and put together; in a queue it is packed (see _pack).
cdef struct SmallWorld:
    uint32_t[SMALL_NODES_MAX] nodes
    uint8_t[BOUNDS] left
    uint32_t leaders            # 4 bits per term: position + 1 of who led it
    uint32_t committed          # number of the last committed entry
    uint8_t committed_term      # of the leader that committed it
    Vec[uint32_t] messages      # numbers, ascending

cdef struct Exhaustive:
    SmallConfig config
    # --- known: parts by number
    Vec[SmallNodeState] nodes
    Map64[uint32_t] node_numbers        # by digest
    Vec[Message] messages               # each chunk held
    Map64[uint32_t] message_numbers
    Vec[SmallEntry] entries
    Map64[uint32_t] entry_numbers       # by chain hash
    Map64[SmallStep] steps              # by node << 32 | action
    Vec[uint32_t] sent
    # --- states
    Map64[uint8_t] seen                 # by hash
    Vec[SmallOrigin] origins            # by number of the state, in the order in which they were found
    Vec[uint32_t] queue                 # packed states of one distance, and those behind them
    Vec[uint32_t] next
    size_t taken_words                  # of `queue`
    uint32_t taken                      # states
    uint32_t depth                      # distance of those in `queue`
    uint64_t transitions                # states that were met, known ones included
    uint64_t[SMALL_TRACES] traces       # steps of nodes that showed it
    # --- the end
    uint32_t violation                  # SmallViolation
    uint32_t violated_by                # state in which it appeared
    SmallWorld world                    # being taken
    SmallWorld successor
    SmallOutcome outcome
