# A small world as data: its bounds, the parts it is made of by number, and the states that wait to be taken.
#
# parts    nodes, messages and entries by number; what an action makes of a node, computed once
# checks   what must hold between the nodes
# states   states that were met: which are one, and which cover others
# exhaustive     which actions there are, the checks of the whole world, the search
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Map64, Vec
from raftmeta.raft.types cimport Membership, Message, index_t, term_t
from raftmeta.sim.small.node cimport SMALL_TRACES, SmallBeginning, SmallNode, SmallOutcome
from raftmeta.status cimport status_t

cdef enum:
    SMALL_NODES_MAX = 5
    SMALL_TERMS_MAX = 8         # leaders by term stand in one word
    SMALL_LOG_MAX = 15          # entries of a log, noops and memberships among them
    BITS_PER_TERM = 4           # of SmallWorld.leaders, and of each bound in a packed state

# Actions with a bound on how often they happen; the position of the bound.
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
    uint8_t[BOUNDS] bounds
    bint has_pre_votes          # else every pre-vote is granted at once
    bint has_heartbeats         # else those that the protocol sends are lost, and BOUND_HEARTBEATS is 0
    bint has_slow_disks         # other things happen while a node writes; else a write ends, or its node dies, first
    bint is_plain               # none of the reductions of docs/faults.md "Every history of a small world"

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
    uint8_t[SMALL_LOG_MAX + 1] memberships          # 1: the entry at this index changes the membership
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

# The node after an action. is_possible False: the action cannot happen to it.
cdef struct SmallStep:
    uint32_t node
    uint32_t violation
    uint32_t sent               # first in Exhaustive.sent
    uint32_t sent_count
    uint32_t broken             # Invariant of raft/invariants that stopped the node, when it did
    bint is_possible

# Names for the nodes, by id (0: nobody keeps its own).
cdef struct SmallNaming:
    uint8_t[SMALL_NODES_MAX + 1] names
    uint32_t inverse            # naming that takes it back

# A state that was met; packed in Exhaustive.words (raftmeta/sim/small/states).
cdef struct SmallState:
    uint64_t at
    uint64_t signature          # bit (message modulo 64) of each message
    uint32_t parent             # state and action by which it was met first
    small_action_t action
    uint32_t alike              # another of its shape, number + 1; 0: none
    uint8_t naming              # under which its messages stand
    bint is_covered

# A state as it is taken apart and put together.
cdef struct SmallWorld:
    uint32_t[SMALL_NODES_MAX] nodes
    uint8_t[BOUNDS] left
    uint32_t leaders            # 4 bits per term: position + 1 of who led it
    uint32_t committed          # number of the last committed entry
    uint8_t committed_term      # of the leader that committed it
    Vec[uint32_t] messages      # numbers, each once

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
    Vec[SmallNaming] namings            # the first leaves each node its own name
    Vec[uint64_t] node_digests          # of each node under each naming
    Vec[uint32_t] message_names         # ... of each message: the number that it has then
    # --- states
    Vec[SmallState] states              # in the order in which they were met, so by distance
    Vec[uint32_t] words
    Map64[uint32_t] shapes              # by hash: number + 1 of the last state of this shape
    uint32_t covered                    # states that another one covers that was met later
    uint32_t turned                     # states there were when this distance began
    uint32_t taken                      # states, covered ones left out included
    uint32_t depth                      # distance of those that are taken now
    uint64_t transitions                # states that were met, known ones included
    uint64_t[SMALL_TRACES] traces       # steps of nodes that showed it
    # --- the end
    uint32_t violation                  # SmallViolation
    uint32_t violated_by                # state in which it appeared
    uint32_t broken                     # Invariant of raft/invariants, when a node stopped itself
    SmallWorld world                    # being taken
    SmallWorld successor
    Vec[uint32_t] named                 # messages of a state that is being packed
    Vec[uint32_t] answered              # messages of the successor that were answered and left their node as it was
    size_t answered_before              # messages that the state before had
    SmallOutcome outcome
