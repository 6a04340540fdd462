# The engine of one node as one struct: core, machine, log jobs, callers' tickets, peers. No Python object, no thread of
# its own, no system call: loop/loop drives it in production, raftmeta/sim in simulation, by the same functions.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta._core cimport CoreStatus, Role
from raftmeta.engine.disk_jobs cimport DiskJob
from raftmeta.engine.divergence cimport Divergence
from raftmeta.engine.invariants cimport Promises
from raftmeta.engine.snapshots.checkpoint cimport CheckpointPort
from raftmeta.engine.snapshots.state cimport Snapshots
from raftmeta.machine.machine cimport MachineLimits
from raftmeta.machine.state cimport Machine
from raftmeta.machine.watch_state cimport Hub, Watch, WatchPurse
from raftmeta.native.chunks cimport Slice
from raftmeta.native.containers cimport Map64, Ring, Vec
from raftmeta.ports cimport BesidePort, ClockPort, DiskPort, NetworkPort, RandomPort
from raftmeta.raft.genesis cimport Genesis, GenesisRecord
from raftmeta.raft.state cimport Core, CoreConfig
from raftmeta.raft.types cimport (ADDRESS_BYTES_MAX, MEMBERS_MAX, NAME_BYTES_MAX, Membership, index_t, member_id_t,
                                  term_t)
from raftmeta.status cimport status_t
from raftmeta.wire.commands cimport Command
from raftmeta.wire.frame cimport ClusterId
from raftmeta.wire.hello cimport Hello
from raftmeta.wire.snapshot_messages cimport SnapshotFile

cdef enum:
    TICKS_PER_TURN_MAX = 5      # made up for at once after a late turn; messages that wait are read in between

cdef struct EngineConfig:
    uint8_t name_length
    uint8_t cluster_name_length
    uint8_t address_length
    uint8_t[NAME_BYTES_MAX] name
    uint8_t[NAME_BYTES_MAX] cluster_name
    uint8_t[ADDRESS_BYTES_MAX] address      # advertised "host:port"
    CoreConfig core                         # id is filled from the identity at boot
    MachineLimits machine
    uint32_t tick_ms
    uint32_t segment_bytes
    uint64_t wal_bytes_max
    uint64_t reserve_bytes
    uint64_t history_bytes_max
    uint64_t session_ttl_ms
    uint32_t session_window                 # results kept for this node's session
    uint32_t outstanding_max                # commands of this node that wait for their result; <= session_window
    uint64_t watch_queue_bytes_max
    uint64_t apply_slice_ns                 # at most this long between two looks at the network
    uint64_t host_watchdog_ns               # own leases are kept only while the host was seen so lately; 0: always
    uint32_t propose_bytes_max              # payload bytes handed to the core at once
    uint64_t snapshot_log_bytes             # a point comes when so many bytes of records,
    uint64_t snapshot_entries               #   or so many entries were applied since the last one
    uint32_t snapshot_chunk_bytes           # of a sealed file; what one step of it costs, and one piece of a transfer

# A caller's command or wish on its way through the engine; malloc'ed by the caller, freed by the engine with free().
cdef enum SubmissionKind:
    SUBMIT_COMMAND = 1          # payload: command envelope with this node's session and `sequence`
    SUBMIT_READ = 2             # complete when a linearizable read may be served from the published state
    SUBMIT_WATCH = 3            # payload: key bytes then end bytes; number: start revision; handle: told by
                                # CallerPort.woken; done() gives the 8 bytes of the Watch* as body
    SUBMIT_UNWATCH = 4          # handle: the Watch*, freed by the engine; its consumer has stopped taking
    SUBMIT_KEEP_LEASE = 5       # start native keep-alives of lease `number` with ttl `ttl_ms`, told through handle
    SUBMIT_DROP_LEASE = 6       # stop them
    SUBMIT_TRANSFER = 7         # leadership to member `number`, 0: any
    SUBMIT_MEMBERSHIP = 8       # payload: encoded Membership to change to; number: index of the one it was made from
    SUBMIT_CAMPAIGN = 9         # tests and demo
    SUBMIT_USER_FETCH = 12      # payload: a UserFetch and a machine's name (engine/user_fetches); body: UserNews ...
    SUBMIT_USER_LAST = 13       # payload: a machine's name; body: the index of its last command
    SUBMIT_USER_EVENT = 14      # number: EngineEventType; session, sequence, ttl_ms: its a, b, c
    SUBMIT_CLIENT_COMMAND = 10  # payload: command envelope of a client's own session, proposed as given; `session` and
                                # `sequence` as its answer will name them: (id, 0) for a SESSION_OPEN
    SUBMIT_MEET = 11            # payload: name then address, key_length: of the name; keep a connection to it for a
                                # while, although no membership names it: to learn its incarnation

cdef struct Submission:
    Submission* next            # the lock-free queue's link
    void* owner                 # ticket; NULL: nobody waits
    void* handle
    uint8_t kind
    uint8_t is_urgent           # keep-alives, fences, deletes, configuration: never Overloaded
    uint32_t length             # payload bytes behind the struct
    uint32_t key_length         # SUBMIT_WATCH
    uint32_t filter             # SUBMIT_WATCH
    WatchPurse* purse           # SUBMIT_WATCH of a client; valid until it was answered
    uint64_t sequence           # SUBMIT_COMMAND: from 1, ascending by 1 in the order of submission; goes on when the
                                # session changes
    uint64_t session            # SUBMIT_COMMAND, SUBMIT_CLIENT_COMMAND: the session it was encoded for
    uint64_t number
    uint64_t ttl_ms

# How the engine speaks to whoever waits. `owner` is Submission.owner. All calls on the engine's thread.
cdef struct CallerPort:
    void* self
    # Before a command is proposed for the first time: false if its caller withdrew it (it then counts as not executed,
    # and the engine forgets it). After true the caller can no longer withdraw.
    bint (*claim)(void* self, void* owner) noexcept nogil
    # The end of a ticket, exactly once per submission with an owner. body: encoded result, NULL without one.
    void (*done)(void* self, void* owner, status_t status, uint64_t revision, index_t index, const uint8_t* body,
                 uint32_t length) noexcept nogil
    # A watch has items to take; handle as given in SUBMIT_WATCH.
    void (*woken)(void* self, void* handle) noexcept nogil
    # A kept lease: valid until `until_ns` on ClockPort (0: lost, revoked or expired). handle as given in
    # SUBMIT_KEEP_LEASE.
    void (*lease_kept)(void* self, void* handle, uint64_t until_ns) noexcept nogil
    # One wake-up per engine turn and not per ticket: everything told since the last flush may be looked at.
    void (*flush)(void* self) noexcept nogil
    # Since the last flush, has every read of another thread that was under way then ended?
    bint (*readers_left)(void* self) noexcept nogil
    # For logs, events() and metrics: fixed words, see EngineEventType.
    void (*event)(void* self, uint8_t type, uint64_t a, uint64_t b, uint64_t c) noexcept nogil

# Where blocking work goes: to the write thread, or to a simulated disk's schedule. Jobs are done in order.
cdef struct DiskJobPort:
    void* self
    void (*submit)(void* self, DiskJob* job) noexcept nogil     # comes back by engine_job_done

# A peer by name: the outgoing connection to it and what its HELLO said. Position = `link` of NetworkPort.
cdef struct Link:
    uint8_t name_length
    uint8_t address_length
    uint8_t[NAME_BYTES_MAX] name
    uint8_t[ADDRESS_BYTES_MAX] address
    bint is_used                # false: free place in the table
    bint is_self
    bint is_up                  # HELLO exchanged on the outgoing connection
    bint is_initial             # named when the node was made: an initial member
    bint is_wanted              # named initially or in the membership: the network keeps trying
    uint64_t met_until          # as is, before this tick: SUBMIT_MEET, or it speaks and no log here names it yet
    bint was_asked              # its connection's HELLO left here since the membership in force came into force
    bint is_fresh               # it is up, and its HELLO answered one of these: `id` lives later than that membership
    bint must_reopen            # close it and connect anew: its HELLO is older than the membership in force
    bint is_told                # address is what `id` said in its HELLO; a membership's is older
    member_id_t id              # incarnation by its last HELLO; 0: none yet
    uint64_t boot
    bint is_boot_claimed        # a connection to us said so, and no answer to a HELLO of ours has said it yet
    bint was_claim_asked        # a HELLO of ours left since that
    uint64_t doubted_until      # a boot that contradicts the connection does not reopen it before this tick
    uint8_t version             # of messages to it, as of that HELLO
    uint8_t genesis_state
    uint64_t sequence           # frames sent on this connection
    uint64_t asked              # context of the newest entry that this boot of it asked for; 0: none yet
    bint was_refused            # the last reconnect was refused
    uint8_t refusal             # status of the last HELLO between us and this name that was not welcome, at either side
    uint64_t refused_tick       # when that was
    uint64_t bytes_in           # of whole frames, over all connections of this name
    uint64_t bytes_out
    uint32_t feature_level_max  # by its last HELLO; 0: none yet
    index_t lent                # a snapshot was offered to it, 0: none
    uint64_t lent_tick          # when it last said that it wants it
    uint32_t pieces_open        # being read for it
    SnapshotFile given          # it got this file from here, to the end; point.index 0: none

# A connection that a peer opened to us: it only brings frames.
cdef struct Inbound:
    bint is_bound
    member_id_t peer
    uint64_t peer_boot
    uint32_t link               # of the peer by name
    bint was_member             # it said that it is part of the cluster, not that it waits to join
    index_t membership          # index of the membership it had in force when it said HELLO

# A keep-alive of the engine under way: its payload's hash tells it in the log (it has no sequence of its own).
cdef struct KeepAlive:
    uint64_t hash
    uint64_t sent_ns

# An answer that waits until its state is published; the body stands in Engine.answer_bytes.
cdef struct Answer:
    uint64_t session            # 0: this node's own
    uint64_t sequence
    status_t status
    uint64_t revision
    index_t index
    size_t offset
    uint32_t length

# A membership change that a caller here asked for and another member leads: no answer means that it shows in the log.
cdef struct AskedChange:
    void* owner
    uint64_t context            # names it in a refusal
    index_t made_from           # membership in force when it was asked for
    uint64_t tick

cdef enum OutstandingState:
    OUTSTANDING_QUEUED = 1      # not proposed since the last leader change
    OUTSTANDING_PROPOSED = 2    # handed to the core; may be in the log
    OUTSTANDING_DONE = 3        # answered; waits for those before it

cdef struct Outstanding:
    Submission* submission
    uint8_t state
    uint8_t was_claimed
    uint32_t proposals          # times it was handed to a leader that may have appended it
    uint64_t context            # of the batch it was last proposed in
    uint64_t proposed_tick
    uint64_t name               # clients: hash of (session, sequence), never 0
    uint64_t earlier            # clients: number of an earlier command of the same hash, 0: none

# Commands that wait for their result, in the order of their submission.
cdef struct CommandQueue:
    Ring[Outstanding] commands
    uint64_t base               # number of the front one, from 1; of this node's own commands, its sequence
    size_t next_queued          # position from which QUEUED ones may stand
    bint has_refused            # or before it, one that the core refused and that may be in the log

cdef struct ReadRound:
    uint64_t context            # it was last asked for under; 0: void, to be asked again
    uint64_t first_context      # and first: an answer to it counts, too
    member_id_t leader          # whom it asks,
    term_t term
    uint64_t since_ns           #   since when; for too long, and its readers are told NO_LEADER
    bint is_answered
    index_t index
    uint32_t count              # owners at the front of Engine.readers that belong to this round
    uint64_t asked_tick

cdef struct KeptLease:
    void* handle
    uint64_t ttl_ms
    uint64_t since_ns           # when keeping began
    uint64_t until_ns

cdef enum:
    BLOCKED_RETRY_TICKS = 20    # a write that found no room is tried again, and room is looked for

cdef struct PendingJob:
    DiskJob* job

# What CallerPort.event tells.
cdef enum EngineEventType:
    EVENT_TRACE = 1                 # a core Trace: a = TraceType | term << 8, b, c
    EVENT_FOUNDED = 2               # the cluster was founded or found: a, b = cluster id
    EVENT_READY = 3                 # leader known, caught up, session open
    EVENT_LINK_UP = 4               # a = link, b = member id
    EVENT_LINK_DOWN = 5             # a = link, b = was refused
    EVENT_PEER_REFUSED = 6          # a = status: HELLO or frame that was refused, b = link
    EVENT_LOG_OPENED = 7            # a = WalState, b = last index, c = dropped bytes
    EVENT_SESSION_LOST = 8          # this node's session expired; commands under way have unknown outcome
    EVENT_FATAL = 9                 # a = status; of a disk that failed: b = errno, c = which call (storage/disk)
    EVENT_LEASES_EXPIRED = 10       # a = how many
    EVENT_COMPACTED = 11            # a = history floor
    EVENT_JOINED = 12               # this blank folder belongs to a living cluster: a, b = cluster id, c = incarnation
    EVENT_HOST_STALLED = 14         # the host's Python made no progress for a = ms: its leases are kept no longer
    EVENT_HOST_RESUMED = 15         # it does again: leases that are still there are kept on
    EVENT_QUORUM_LOST = 13          # too many voters lost their disks: a = links that did (a bit each), b = how many,
                                    # c = of how many voters
    EVENT_REMOVED = 16              # this node is no member any more: a = index of the last membership it knows
    EVENT_NAMED = 17                # the membership names this node for the first time, or again: a = its index
    EVENT_DISK_WAITS = 18           # no descriptor left: the log waits to open a file; a = errno
    EVENT_DISK_RESUMED = 19         # it has one
    EVENT_SNAPSHOT_DUE = 31         # a = index of the point, b = low half of the state hash
    EVENT_SNAPSHOT_TAKEN = 32       # a = index, b = bytes, c = low half of the file's hash; 0, 0: a checkpoint
    EVENT_SNAPSHOT_FAILED = 33      # a = index, b = status: not taken, or not received
    EVENT_SNAPSHOT_OFFERED = 34     # a = index, b = link
    EVENT_SNAPSHOT_INSTALLED = 35   # a = index, b = the index applied before
    EVENT_SNAPSHOT_LOADED = 36      # a = index, at boot
    EVENT_SNAPSHOT_DAMAGED = 37     # a = index of a sealed file that cannot be used, 0: the checkpoint; b = status
    EVENT_LOG_COMPACTED = 38        # a = index up to which the log may go
    EVENT_STATE_DIVERGED = 30       # a = index, b = 1: this node is wrong, c = what another's state hash ends with
    # Of a copy of a user machine: a = index of a command, c = which machine, by its place on this node.
    EVENT_USER_FAILED = 20          # the command raised: nothing of it stays
    EVENT_USER_DIVERGED = 21        # its state at the dump of that index is not that of the dump, which it now takes
    EVENT_USER_STOPPED = 22         # it cannot go on
    EVENT_USER_UNDUMPED = 23        # its state could not be dumped
    EVENT_LEVEL_RISES = 24          # the leader proposes a = feature level

# What a boot that failed was reading.
cdef enum BootPart:
    BOOT_OTHER = 0
    BOOT_IDENTITY = 1           # the identity file
    BOOT_LOG = 2                # segments and mark
    BOOT_STATE = 3              # copies of the state

cdef enum EngineState:
    ENGINE_GENESIS = 1          # no cluster yet, or not yet part of it
    ENGINE_RUNNING = 2
    ENGINE_STOPPED = 3          # fatal or closed: nothing leaves any more

cdef struct EngineCounters:
    uint64_t frames_refused
    uint64_t frames_received
    uint64_t frames_sent
    uint64_t entries_applied
    uint64_t apply_time_ns      # spent in slices
    uint64_t apply_time_ns_max  # in one slice
    uint64_t proposals          # commands of callers handed to a leader, repetitions included
    uint64_t proposals_repeated
    uint64_t commands_completed
    uint64_t commit_gap_ns_max  # longest time in which own commands waited and none was answered
    uint64_t writes
    uint64_t write_bytes        # records in them
    uint64_t reads_served
    uint64_t elections          # this node stood for
    uint64_t leader_changes     # this node learned of
    uint64_t leases_expired
    uint64_t states_compared    # points at which this node told its state hash
    uint64_t state_differences  # points at which another member's was not the same
    uint64_t snapshots_taken
    uint64_t snapshots_installed
    uint64_t snapshot_bytes_sent
    uint64_t snapshot_bytes_received

cdef struct Engine:
    EngineConfig config
    ClockPort clock
    RandomPort random
    NetworkPort network
    BesidePort beside           # boot only; optional
    DiskPort disk               # boot only; afterwards the disk belongs to the jobs
    DiskJobPort jobs
    CallerPort callers
    CheckpointPort checkpoints  # optional: set before engine_boot

    Promises promises           # beliefs about those behind the ports
    EngineState state
    status_t fatal              # why ENGINE_STOPPED, OK when closed
    BootPart boot_part          # for people, where the boot failed
    member_id_t id
    uint64_t boot
    ClusterId cluster
    Genesis genesis

    Core* core                  # NULL until founded
    Machine* machine
    Hub* hub
    CoreStatus core_status      # as of the last turn
    Divergence divergence       # its interval: set before engine_boot
    uint64_t now_ns
    uint64_t next_tick_ns
    uint64_t answered_ns        # when a command of this node was answered last, or began to wait for that
    uint64_t answered_count     # commands_completed at that time; all bits set: none waits
    uint64_t host_ns            # shared: when the host's Python was seen last, by the clock port
    bint host_is_stalled
    uint64_t ticks

    Link[MEMBERS_MAX] links
    bint was_removed            # as of the last turn
    bint was_member
    Vec[AskedChange] asked_changes
    uint64_t membership_count   # how often another membership came into force
    uint64_t membership_seen    # membership_count of the one that the links follow
    uint32_t lost_links         # voters by name that lost their disks and were not taken back yet, a bit for each link
    uint32_t lost_count         # how many those are
    uint32_t voter_count        # of how many
    uint64_t identity_tick      # the genesis record found no room: not asked again before this tick
    index_t membership_logged   # index of the membership that the log was told
    uint32_t log_jobs_under_way     # writes and beginnings of the log that the write thread has
    Ring[PendingJob] blocked    # those that found no room, in order; tried again every BLOCKED_RETRY_TICKS
    uint64_t blocked_tick
    uint64_t free_bytes         # room of the log, as of the last job done
    uint64_t log_bytes          # what it holds, as is
    uint64_t log_epoch          # counts the logs that began anew behind an installed snapshot
    bint was_ready
    Snapshots snapshots
    Vec[uint8_t] body           # scratch for encoding

    # committed records waiting for apply, in order
    Ring[Slice] to_apply
    uint32_t apply_offset       # in to_apply's front slice
    index_t apply_queued        # last index in to_apply
    index_t applied
    index_t published           # as `applied`, but readers can see it
    bint apply_is_partial       # machine said APPLY_MORE for the record at apply_offset
    bint must_publish
    Vec[Answer] answers         # of applied entries, not yet given to their callers
    Vec[uint8_t] answer_bytes

    # this node's session and its commands
    uint64_t session            # 0: none open. Read by callers' threads (aligned, atomic by the machine), as is
                                # own.base: the lowest sequence not answered
    uint64_t session_opening    # id in the SESSION_OPEN under way
    uint64_t session_tick       # of the last SESSION_OPEN
    uint64_t next_batch
    Vec[Slice] payloads         # scratch of callers_propose
    CommandQueue own
    # commands of clients of this node, each in the client's own session
    CommandQueue clients
    Map64[uint64_t] clients_by_name         # hash of (session, sequence): number of the newest one with it
    member_id_t proposed_to     # leader and term at the last proposal: a change means propose again
    term_t proposed_term

    Vec[void*] readers_waiting  # not yet in a round
    Ring[void*] readers         # owners of the rounds, in order
    Ring[ReadRound] read_rounds
    uint64_t next_read_context

    Map64[KeptLease] kept_leases
    Ring[KeepAlive] keep_alives     # sent and not seen applied, oldest first
    uint64_t keep_alive_tick    # of the last one sent
    Command scratch             # for commands of the engine itself
    Vec[uint8_t] own_payload    # its encoding
    index_t expiry_proposed     # applied must reach it before expiry is proposed again
    index_t compaction_proposed
    index_t level_proposed
    Vec[Submission*] user_fetches       # that wait for something to come
    term_t housekeeping_term
    Vec[uint64_t] due
    Vec[uint64_t] due_deadlines

    EngineCounters counters
