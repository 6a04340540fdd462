# A world with znodes keeps these beside its nodes: the model's tree, leases and sessions, and the doors that ask.
#
# A revision of the model is the index of the entry that makes it: the model takes only some of the log's entries, and
# cannot count revisions. A node's first word says which revision an index made, and every later word must agree.
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Map64, Vec
from raftmeta.raft.types cimport index_t
from raftmeta.status cimport status_t
from raftmeta.wire.commands cimport Command

cdef enum:
    SIM_DOORS = 2               # clients of other processes that ask for znodes
    SIM_OWNERS = 3              # sessions of each door, as its own clients have them
    SIM_DOOR_WINDOW = 8         # commands of a door under way
    SIM_DOOR_SESSIONS = 64      # of all doors, one after the other
    SIM_DOOR_OPS = 4            # of one request
    SIM_ZNODE_ROOTS = 2
    SIM_ZNODE_KEY_MAX = 64
    SIM_ZNODE_LIST_MAX = 32     # bytes of a list of rights

# Kinds of znodes, as docs/formats.md numbers them.
cdef enum:
    SIM_PERSISTENT = 0
    SIM_EPHEMERAL = 1
    SIM_CONTAINER = 2
    SIM_TTL = 3

# A znode by ZooKeeper's rules, after the entry `SimZnodesModel.index`.
cdef struct SimZnode:
    uint8_t[SIM_ZNODE_KEY_MAX] key      # root and path
    uint32_t length
    index_t czxid               # the entry that made it,
    index_t mzxid               # ... that last changed its data,
    index_t pzxid               # ... its children,
    index_t touched             # ... any of these, or its rights
    uint64_t ctime_ms
    uint64_t mtime_ms
    int32_t version
    int32_t aversion
    uint32_t creates            # children ever
    uint32_t children           # now
    uint64_t owner              # of an ephemeral: a lease
    uint64_t ttl_ms
    uint64_t deadline_ms        # of a lease of its own; 0: it has none
    uint64_t lease              # ... its id; 0: no node has shown it yet
    uint64_t data
    uint32_t data_length        # 0 or 8
    uint8_t kind
    bint is_sequential
    bint is_founded             # it came with its tree: its czxid is told as 0
    bint is_null
    uint32_t list_length        # rights; 0: everybody may do everything
    uint8_t[SIM_ZNODE_LIST_MAX] list

# A key below a root that is no znode.
cdef struct SimPlainKey:
    uint8_t[SIM_ZNODE_KEY_MAX] key
    uint32_t length

cdef struct SimOwnerLease:
    uint64_t id
    uint64_t ttl_ms
    uint64_t deadline_ms

# Which revision the entry at index made; 0: nobody has said it yet.
cdef struct SimZxid:
    index_t index
    uint64_t revision

cdef struct SimDoorSession:
    uint64_t id                 # 0: free
    bint is_open
    uint64_t floor              # sequences below it are answered
    Vec[uint64_t] done          # ... from it on: those that were executed

# One answer to an operation: the znode as it was behind it.
cdef struct SimZnodeAnswer:
    uint8_t kind                # of the operation
    bint is_sequential
    index_t parent              # czxid of the parent, of a create
    SimZnode node

cdef struct SimZnodesModel:
    index_t index               # of the last entry that was taken
    index_t checked             # nodes agreed there, whole
    index_t changed             # the last entry that changed anything of this
    bint is_lost                # an entry could not be read: nothing is checked any more
    uint64_t lease_ms
    Vec[SimZnode] nodes
    Vec[SimZnode] before        # of the request under way, which may be refused in its middle
    Vec[SimPlainKey] plain
    Vec[SimOwnerLease] leases
    Vec[uint64_t] ended         # leases of znodes that must be gone
    Vec[SimZxid] zxids          # ascending
    Map64[index_t] numbers      # hash of a parent, its czxid and a number -> the entry that gave it to a child
    Vec[SimZnodeAnswer] answers     # of the request under way
    SimDoorSession[SIM_DOOR_SESSIONS] sessions
    uint64_t refused_session    # the command that came too early in the last entry; 0: none did
    uint64_t refused_sequence
    Command command             # scratch
    Vec[uint8_t] scratch

cdef enum SimDoorWish:
    DOOR_OPEN = 1
    DOOR_LEASE                  # grant or revoke
    DOOR_NATIVE                 # a write of keys that may be znodes
    DOOR_ZNODES

# A command of a door, from its first sending until its place is needed.
cdef struct SimDoorCommand:
    uint64_t sequence           # 0: it opens the session
    Vec[uint8_t] payload        # empty: no command
    uint8_t wish                # SimDoorWish
    uint32_t door               # whose it is,
    uint32_t owner              # ... and which of its owners asks
    bint is_answered            # as a node says,
    status_t status
    uint64_t revision
    Vec[uint8_t] answer
    bint is_judged              # as the model says
    status_t judged
    uint32_t position           # of the operation that is refused
    int32_t code
    index_t index
    bint is_change              # it made a revision
    Vec[SimZnodeAnswer] expected

# A session as a client of the door has it.
cdef struct SimDoorOwner:
    uint64_t lease              # 0: none
    uint64_t last               # sequence of its newest request in the door's session; 0: none
    uint64_t silent_until_ns    # its client is cut off: nobody keeps the lease

cdef struct SimDoor:
    uint64_t session            # 0: none
    uint64_t sequence
    uint64_t told_answered
    SimDoorCommand[SIM_DOOR_WINDOW] commands
    SimDoorOwner[SIM_OWNERS] owners
