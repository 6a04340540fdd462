# The structs of a desk: every door asks its node through one, whatever protocol its clients speak.
#
# A door's own struct begins with a Desk, and its own struct of a task with a DeskTask. So a pointer to one is a pointer
# to the other. A desk belongs to the thread of its door. Other threads touch only the WatchSignal, which the loop
# writes to until the unwatch is answered, and what Connections (connections/state) names.
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.connections.accounts_state cimport Account
from raftmeta.connections.state cimport Connections
from raftmeta.loop.loop cimport Loop, LoopReader, NodeStatus
from raftmeta.loop.tickets cimport Mailbox, Ticket, WatchSignal
from raftmeta.machine.state cimport Machine
from raftmeta.machine.tree_state cimport Root
from raftmeta.machine.watch_state cimport Watch
from raftmeta.native.containers cimport Ring, Vec
from raftmeta.raft.types cimport Membership, index_t
from raftmeta.wire.commands cimport Bytes, Command

# The purpose of a ticket. A door's own purposes begin at TASK_OF_DOOR.
cdef enum DeskTaskKind:
    TASK_NONE = 0
    TASK_OPEN = 1               # the desk's own session
    TASK_ROUND = 2              # a read index for many
    TASK_WATCH = 3
    TASK_UNWATCH = 4
    TASK_OF_DOOR = 16

cdef enum DeskTaskStage:
    STAGE_WAITS = 0
    STAGE_UNDER_WAY = 1         # its ticket is out
    STAGE_AGAIN = 2             # to be sent again
    STAGE_DONE = 3              # its ticket is back

# The door's own fields, then the frame, and then the command as it was sent, follow the struct.
cdef struct DeskTask:
    DeskTask* previous_out      # of all with a ticket (Desk.out)
    DeskTask* next_out
    Ticket* ticket              # once DONE
    Account* account            # that its bytes are counted in; held; NULL: nobody's
    uint64_t session            # the desk's, that its command was encoded for; 0: none
    uint64_t sequence           # of its command; 0: none
    uint64_t round              # read round that it waits for; 0: none
    uint64_t begun_ns
    uint32_t place
    uint32_t generation         # of the connection: its place may have another one by now
    uint32_t frame_length
    uint32_t payload_length
    uint8_t kind
    uint8_t stage
    uint8_t is_urgent

# The door's part.
cdef struct DeskRules:
    size_t task_bytes           # of the door's own struct of a task
    # Its ticket goes out, and is back. NULL: the door does not count them.
    void (*sent)(Desk* desk, DeskTask* task) noexcept nogil
    void (*returned)(Desk* desk, DeskTask* task) noexcept nogil
    # A task of the door's own kinds is DONE. The door frees it, and tells sequence_done.
    void (*answered)(Desk* desk, DeskTask* task) noexcept nogil
    # A watch of the door's own has items; not the desk's. It is told again once there are more than are there now.
    # NULL: the door has none.
    void (*woken)(Desk* desk, WatchSignal* signal) noexcept nogil

cdef struct DeskLimits:
    uint64_t session_ttl_ms     # of the desk's own session
    uint32_t session_window

cdef struct Desk:
    Connections base            # first
    const DeskRules* rules
    Loop* loop
    LoopReader reader
    DeskLimits desk_limits
    Mailbox* mailbox
    uint64_t started_ns
    bint has_submitted
    # The desk's own session with the cluster.
    uint64_t session            # 0: none yet
    uint64_t opening            # id of the one that is being opened; 0: none
    uint64_t open_ns            # when it was asked for last
    bint is_opening             # that is under way
    bint has_rights             # rights are configured, and the session is renewed for it
    uint64_t next_sequence
    uint64_t lowest             # unanswered sequence
    Ring[uint8_t] answered      # from `lowest` on
    DeskTask* out               # tasks with a ticket
    bint has_pause              # one that waits does so for a moment of the clock
    # Changes.
    WatchSignal signal
    Watch* watch                # NULL: none
    bint is_watching            # SUBMIT_WATCH is under way
    bint is_unwatching          # SUBMIT_UNWATCH is under way
    uint64_t resume             # revision to begin the next watch with; 0: the newest
    uint64_t posted             # tickets of all results up to here were posted before this turn's mail was taken
    # Read rounds.
    uint64_t round              # the newest one that was asked for
    uint64_t round_done
    uint64_t round_position     # that must be reached before reads of the rounds done are served
    bint wants_round            # somebody waits for the next one
    # As the loop published it.
    NodeStatus status
    Membership membership
    index_t membership_index
    uint64_t leader_ns          # when a leader was known last
    # The state, while it is pinned in this turn.
    Machine* machine
    const Root* pinned
    Command command             # scratch
    Vec[uint8_t] payload        # scratch

cdef inline Bytes bytes_of(const uint8_t* data, size_t length) noexcept nogil:
    cdef Bytes bytes
    bytes.data = data
    bytes.length = <uint32_t>length
    return bytes

cdef inline const uint8_t* task_frame(const Desk* desk, const DeskTask* task) noexcept nogil:
    return <const uint8_t*>task + desk.rules.task_bytes

cdef inline const uint8_t* task_payload(const Desk* desk, const DeskTask* task) noexcept nogil:
    return <const uint8_t*>task + desk.rules.task_bytes + task.frame_length
