# One node as a heap block and its native threads: everything that a handle needs, and nothing of Python.
#
#     loop thread     epoll: sockets, submissions, finished disk jobs, time -> the engine, one turn at a time
#     write thread    the log (loop/write_thread)
#     opening thread  reads the log while loop_open loads the checkpoint, and ends with it
#     memory thread   the next piece of memory for the state (native/pieces)
#     flight thread   carries what the others recorded to a file (flight/ring)
#     callers         any thread: encode, submit, wait on a ticket; read the published state of the machine
#
# Order of life: loop_create, settings into loop.engine.config and loop_add_peer, loop_open (folder, identity, log),
# loop_start; loop_submit, for commands of this node under the GIL; loop_stop, loop_destroy.
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from raftmeta._core cimport CoreStatus
from raftmeta.engine.disk_jobs cimport DiskJob
from raftmeta.engine.state cimport Engine, EngineCounters, Inbound
from raftmeta.engine.submission cimport Submission
from raftmeta.loop.event_log cimport EventLog
from raftmeta.loop.faults cimport Faults
from raftmeta.loop.recorder cimport Recorder
from raftmeta.loop.tickets cimport Ticket, Wakeups
from raftmeta.loop.write_thread cimport WriteThread
from raftmeta.machine.machine cimport MachineStatus
from raftmeta.machine.state cimport Machine
from raftmeta.native.containers cimport Vec
from raftmeta.native.pieces cimport PieceStore
from raftmeta.native.threads cimport Handoff, Published, pthread_t
from raftmeta.net.transport_state cimport Transport, TransportLimits
from raftmeta.ports cimport beside_work
from raftmeta.raft.genesis cimport TOLD_NAMES_BYTES_MAX
from raftmeta.raft.types cimport MEMBERS_MAX, NAME_BYTES_MAX, Membership, index_t, member_id_t
from raftmeta.security.tls_state cimport TlsCounters, TlsPort
from raftmeta.status cimport status_t
from raftmeta.storage.disk cimport RealDisk
from raftmeta.storage.identity cimport Identity
from raftmeta.storage.wal_state cimport Wal
from raftmeta.wire.feed_messages cimport OBSERVERS_MAX, Observed

# Threads that read the state; at each moment one of each kind.
cdef enum LoopReader:
    READER_HOST = 0                 # a caller, which holds the GIL
    READER_CLIENTS = 1              # the thread that serves clients
    READER_DOORS = 2                # the thread of the ZooKeeper door
    READER_KAFKA = 3                # the thread of the Kafka door
    READER_ETCD = 4                 # the thread of the etcd door
    LOOP_READERS = 5

# Somebody waits for something that engine/submission has among the awaited kinds.
cdef struct Awaiting:
    Ticket* ticket
    uint8_t kind                    # SubmissionKind
    index_t other_than              # AWAIT_MEMBERSHIP
    index_t index                   # applied when it was asked

# The status that callers see without asking the loop; replaced at the end of each turn in which it changed.
cdef struct NodeStatus:
    uint64_t engine_state           # EngineState
    uint64_t fatal                  # status that stopped the engine, 0: none
    index_t unapplied               # the entry that cannot be applied, if that stopped it; 0: none
    member_id_t id
    uint64_t boot
    uint64_t session
    uint64_t cluster_low
    uint64_t cluster_high
    uint64_t turns
    uint64_t frames_dropped
    uint64_t connections_accepted
    uint64_t connections_refused
    uint64_t connections_evicted
    uint64_t bytes_in
    uint64_t bytes_out
    uint64_t log_bytes
    uint64_t log_free_bytes
    uint64_t watches
    uint64_t watch_queue_bytes
    uint32_t lost_links             # Links, as is
    uint32_t lost_count
    uint32_t voter_count
    int64_t certificate_expires_s   # of this node's certificate, since 1970; 0: no TLS
    TlsCounters tls                 # of the peers' port
    CoreStatus core
    MachineStatus machine
    EngineCounters counters

cdef struct LinkStatus:
    member_id_t id                  # incarnation by its last HELLO; 0: none yet
    uint64_t boot
    uint64_t bytes_in
    uint64_t bytes_out
    uint8_t name_length             # 0: free place
    uint8_t is_self
    uint8_t is_up
    uint8_t was_refused
    uint8_t refusal                 # status; 0: none lately
    uint8_t padding
    uint16_t told_length            # raft/genesis GenesisPeer, as is
    uint8_t[NAME_BYTES_MAX] name
    uint8_t[TOLD_NAMES_BYTES_MAX] told

cdef struct LinkTable:
    LinkStatus[MEMBERS_MAX] links

# Observers that follow the log through those that this node feeds (engine/feeding).
cdef struct ObserverTable:
    uint32_t count
    Observed[OBSERVERS_MAX] observers

# Work beside the opening thread's.
cdef struct Beside:
    beside_work work
    void* argument
    pthread_t thread
    bint is_running

cdef struct Loop:
    Engine engine
    Beside beside
    Transport transport
    Faults faults                   # of the network, on purpose; none but in tests
    TransportLimits transport_limits
    TlsPort tls                     # of the peers' port
    uint32_t expiry_told_days       # the last of 30, 7, 1 and 0 days that was told of the certificate in force
    Inbound* inbounds               # by place in transport.accepted
    RealDisk disk
    Wal* wal
    Identity* identity
    PieceStore pieces               # for the state's memory, with a thread of its own
    WriteThread writer
    Handoff[DiskJob] jobs_done
    Handoff[Submission] submissions
    Submission* submitted           # taken out of it, and still to be looked at

    pthread_t thread
    bint is_running
    int epoll
    int wake_fd
    int listener                    # until the transport has it; -1: none
    uint32_t is_asleep              # shared: the loop waits, or is about to; whoever adds work then writes wake_fd
    uint32_t is_closing             # shared
    uint32_t is_aborted             # shared: closing as if the process had been killed
    uint64_t random                 # state of the random stream

    Wakeups wakeups                 # the loop thread's own, as is
    Vec[Awaiting] awaiting
    uint64_t links_checked_ns
    bint links_changed
    uint64_t membership_seen    # Links.membership_seen of what `membership` shows
    uint64_t turns
    uint32_t disk_waits_for         # RealDisk.waits_for as it was told
    uint64_t[LOOP_READERS] reading_flushed      # `reading` when the last turn ended

    # Shared with callers, as of the end of the last turn: what they need to encode, and to read the published state.
    uint64_t session                # 0: none open
    uint64_t lowest_unanswered      # sequence
    Machine* machine                # NULL until the cluster is founded
    uint32_t state                  # EngineState
    uint32_t is_removed             # this node is no member any more
    status_t fatal                  # why it is ENGINE_STOPPED
    uint32_t broken             # the belief that is broken (engine/promises), and its two facts
    uint64_t broken_a
    uint64_t broken_b
    index_t unapplied           # the entry that cannot be applied, if that stopped it; 0: none
    uint32_t must_restart_maxima    # shared: a reader asked that the longest times be measured anew
    uint64_t[LOOP_READERS] reading  # shared, by reader: odd while it reads the state of `machine`
    uint32_t in_flight              # shared: the host's submissions with an owner that are not answered
    uint64_t next_sequence          # of the next command; callers' side
    Published[NodeStatus] status
    Published[LinkTable] links
    Published[Membership] membership
    Published[ObserverTable] observers
    uint64_t observers_seen     # engine.feeding.changes of the table that is published
    EventLog* event_log
    Recorder recorder

cdef Loop* loop_create(uint64_t seed) noexcept nogil            # NULL: no memory or no descriptors
cdef status_t loop_add_peer(Loop* loop, const uint8_t* name, uint8_t name_length, const uint8_t* address,
                            uint8_t address_length, bint is_self) noexcept nogil
# Lock the folder, read identity and log. Blocks. IN_USE (*holder: its pid), NOT_FOUND (its parent), or as engine_boot.
cdef status_t loop_open(Loop* loop, const char* path, uint64_t* holder) noexcept nogil
# listener becomes the loop's, also when this fails: NO_MEMORY.
cdef status_t loop_start(Loop* loop, int listener) noexcept nogil
# Takes the submission over. Those who submit commands of this node exclude one another, so that sequences arrive in
# order; all others submit from any thread. The loop may sleep on until it is rung: once for all submitted before.
cdef void loop_submit(Loop* loop, Submission* submission) noexcept nogil
cdef void loop_ring(void* loop) noexcept nogil
# Everybody who waits is answered, both threads end. False: the disk does not answer; the block must be left alone.
cdef bint loop_stop(Loop* loop, uint64_t timeout_ns) noexcept nogil
# Before loop_stop: end as a killed process would. Queued frames and jobs are neither sent nor written, connections are
# reset, no file is synced. Callers are still told what became of their operations: they live in this process.
cdef void loop_abort(Loop* loop) noexcept nogil
cdef void loop_destroy(Loop* loop) noexcept nogil
# The state to read, until loop_leave; NULL: none yet. A snapshot that is installed takes its place, and it is destroyed
# when no reader can be in it any more: so `machine` is read in no other way.
cdef Machine* loop_enter(Loop* loop, LoopReader reader) noexcept nogil
cdef void loop_leave(Loop* loop, LoopReader reader) noexcept nogil
# In a fork child, where there are no threads: only descriptors.
cdef void loop_close_in_child(Loop* loop) noexcept nogil
