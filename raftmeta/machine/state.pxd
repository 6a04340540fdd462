# The replicated machine as a struct. Only raftmeta/machine looks inside; all others hold a Machine*.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.machine.group_records cimport MemberView
from raftmeta.machine.history cimport History
from raftmeta.machine.leases cimport Lease, Leases
from raftmeta.machine.plan cimport Plan
from raftmeta.machine.processes cimport Processes
from raftmeta.machine.rights_decide cimport SpeakerOf
from raftmeta.machine.rights_state cimport Denial, Rights
from raftmeta.machine.sessions cimport Session, Sessions
from raftmeta.machine.transactions cimport Transaction
from raftmeta.machine.tree cimport Entry
from raftmeta.machine.tree_state cimport Tree
from raftmeta.machine.user_machines cimport UserMachines
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport Hash128
from raftmeta.native.invariants cimport Broken
from raftmeta.native.pieces cimport PieceStore
from raftmeta.raft.types cimport index_t
from raftmeta.wire.commands cimport Command
from raftmeta.wire.groups cimport GroupRequest

cdef enum:
    FORMAT_FEATURE_LEVEL_MAX = 7    # highest level this build can apply
    LEVEL_OF_USER_MACHINES = 2
    LEVEL_OF_RIGHTS = 3
    LEVEL_OF_ZNODES = 4
    LEVEL_OF_GROUPS = 5
    LEVEL_OF_UNIFORM_GROUPS = 6     # a group knows that its members speak the same protocols
    LEVEL_OF_JOIN_LEASES = 6    # a join may grant the lease of its member
    LEVEL_OF_TOPICS = 6
    LEVEL_OF_RECORDS = 6
    LEVEL_OF_CONSUMER_GROUPS = 7
    LEVEL_OF_RANGE_COMPARES = 7     # COMPARE_OF_ALL
    LEVEL_OF_PROCESSES = 7      # leases end with the process that keeps them

cdef enum:
    FORMAT_VALUE_BYTES_MAX = 4 << 20        # the largest that Config.value_bytes_max may be
    FORMAT_SESSION_WINDOW_MAX = 1_000_000   # as is

cdef enum:
    SKIPPED_MAX = 16                # entries of one node that are passed over

# An entry that an operator told the node to pass over, because no node can apply it (docs/decisions/skip.md).
cdef struct SkippedEntry:
    index_t index
    uint64_t chain                  # of its record: the entry, and all before it

cdef struct MachineLimits:
    uint32_t value_bytes_max        # results depend on these two: in production they are the formats' own, whatever a
    uint32_t session_window         # node's Config says, which decides only what its own callers may ask for
    uint32_t changes_per_slice      # apply gives APPLY_MORE after that many key changes of one entry
    PieceStore* pieces              # where memory for the state lies ready; NULL: nowhere
    uint32_t skipped_count
    SkippedEntry[SKIPPED_MAX] skipped

# How far the entry under way is.
cdef enum Phase:
    PHASE_IDLE = 0
    PHASE_EVALUATE = 1              # its transaction; nothing is changed yet
    PHASE_MAKE = 2                  # its changes are being put into the tree
    PHASE_ZNODES = 3                # its request for znodes is evaluated; nothing is changed yet

# A request for znodes under way (znodes.pyx).
cdef struct ZnodesRun:
    uint64_t index                  # of the entry
    uint64_t wall_ms
    uint32_t next                   # operation

cdef struct LoadState:
    uint32_t kind                   # of the last record loaded
    uint32_t changes_left           # of the revision under way
    uint64_t revision               # under way
    Session* session                # of the results under way
    uint64_t number                 # least id or sequence that may come next
    Hash128 state_hash              # that the state must have at the end
    uint64_t hash                   # of the records so far
    bint is_difference              # what is being loaded changes what was loaded before it ...
    uint64_t since_revision         # ... which ended with this revision
    uint64_t floor                  # that the history has at the end
    bint has_leased                 # a version that was loaded has a lease

cdef struct Machine:
    MachineLimits limits
    Tree* tree
    History history
    Leases leases
    Sessions sessions
    UserMachines users
    Rights rights
    Processes processes
    index_t applied
    uint64_t revision
    uint64_t compacted
    uint64_t lease_ms
    uint32_t feature_level

    # The entry under way.
    Phase phase
    Command command
    SpeakerOf speaker               # of it, while rights are configured
    Denial denial                   # why the last entry was refused, if it was
    Transaction transaction
    Plan plan
    ZnodesRun run
    Vec[Lease*] ending              # leases that go with the plan
    Vec[Entry*] entries             # keys of a lease that ends
    Vec[uint64_t] left_behind       # sessions or leases of a process that is gone
    Vec[uint8_t] result             # encoded, of the last entry

    # Between the applying thread and others; see reads.pyx and trim.pyx.
    uint64_t readers_floor          # `compacted` as readers must take it, raised before anything below it goes
    uint64_t dumps                  # under way: what they show is kept (history_keep)
    uint64_t changes_unpublished    # since the last publish; paces trimming

    LoadState load
    Broken broken                   # the first belief that proved wrong; those of the tree are kept there

    # Of a request for a worker group (groups.pyx).
    uint64_t index                  # of the entry under way
    GroupRequest group
    Vec[MemberView] members         # of the group, as the entry sees them
