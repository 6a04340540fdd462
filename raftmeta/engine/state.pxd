# The engine of one node as one struct: core, machine, log jobs, callers' tickets, peers. No Python object, no thread of
# its own, no system call: loop/loop drives it in production, raftmeta/sim in simulation, by the same functions.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta._core cimport CoreStatus, Role
from raftmeta.engine.disk_jobs cimport DiskJob
from raftmeta.engine.divergence cimport Divergence
from raftmeta.engine.invariants cimport Promises
from raftmeta.engine.snapshots.checkpoint cimport CheckpointPort
from raftmeta.engine.snapshots.state cimport Snapshots
from raftmeta.engine.submission cimport Submission
from raftmeta.machine.machine cimport MachineLimits
from raftmeta.machine.state cimport Machine
from raftmeta.machine.watch_state cimport Hub
from raftmeta.native.chunks cimport Slice
from raftmeta.native.containers cimport Map64, Ring, Vec
from raftmeta.ports cimport BesidePort, ClockPort, DiskPort, NetworkPort, RandomPort
from raftmeta.raft.genesis cimport Genesis, GenesisRecord
from raftmeta.raft.state cimport Core, CoreConfig
from raftmeta.raft.types cimport (ADDRESS_BYTES_MAX, MEMBERS_MAX, NAME_BYTES_MAX, Membership, index_t, member_id_t,
                                  term_t)
from raftmeta.status cimport status_t
from raftmeta.wire.commands cimport Command
from raftmeta.wire.feed_messages cimport Observed
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
    bint names_process                      # own leases end with this process, when it is provably gone
    uint64_t host_watchdog_ns               # own leases are kept only while the host was seen so lately; 0: always
    uint32_t propose_bytes_max              # payload bytes handed to the core at once
    uint64_t snapshot_log_bytes             # a point comes when so many bytes of records,
    uint64_t snapshot_entries               #   or so many entries were applied since the last one
    uint32_t snapshot_chunk_bytes           # of a sealed file; what one step of it costs, and one piece of a transfer

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
cdef enum:
    ASKED_RUNS = 8
    ASKED_STEP_MAX = 1 << 16        # contexts between two requests of one run

# Contexts of requests for entries that were looked at: all from low to high count as such.
cdef struct AskedRun:
    uint64_t low
    uint64_t high               # 0: none

# Whether the process is gone that answered last at a link's address (engine/deaths).
cdef struct Death:
    member_id_t id              # 0: nobody has answered there yet
    uint64_t boot
    bint was_refused            # since then, that address refused a connection
    uint64_t inbound            # number of the connection by which that name speaks to this node; 0: none
    uint32_t told_by            # other members that found it gone, a bit for each link,
    uint64_t told_until         # as is, before this tick
    member_id_t told_leader     # this node told that leader so last,
    uint64_t told_tick          # then

cdef struct Link:
    uint64_t tenancy            # counts the names that had this place in the table
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
    bint is_observer            # by its last HELLO it holds no place in the membership
    uint64_t sequence           # frames sent on this connection
    AskedRun[ASKED_RUNS] asked  # by this boot of it (engine/peers)
    uint8_t asked_next          # the run that the next one takes the place of
    bint was_refused            # the last reconnect was refused
    uint8_t refusal             # status of the last HELLO between us and this name that was not welcome, at either side
    uint64_t refused_tick       # when that was
    uint64_t bytes_in           # of whole frames, over all connections of this name
    uint64_t bytes_out
    uint32_t feature_level_max  # by its last HELLO; 0: none yet
    index_t lent                # a snapshot was offered to it, 0: none
    uint64_t lent_tick          # when it last said that it wants it
    uint32_t pieces_open        # being read for it
    Death death
    SnapshotFile given          # it got this file from here, to the end; point.index 0: none

# A connection that a peer opened to us: it only brings frames.
cdef struct Inbound:
    bint is_bound
    member_id_t peer
    uint64_t peer_boot
    uint32_t link               # of the peer by name,
    uint64_t tenancy            # as long as that name has the place (Link)
    bint was_member             # it said that it is part of the cluster, not that it waits to join
    index_t membership          # index of the membership it had in force when it said HELLO
    uint64_t number             # of this connection, in the order of their HELLOs

# A keep-alive of the engine under way: its payload's hash tells it in the log (it has no sequence of its own).
cdef struct KeepAlive:
    uint64_t hash               # 0: answered
    uint64_t sent_ns
    uint32_t part               # of so many parts of the kept leases
    uint32_t parts

# An answer that waits until its state is published; the body stands in Calls.answer_bytes.
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
    bint has_refused            # or before it, one that the core refused and that may be in the log,
    bint was_sent_back          # or one that a leader refused in this tick

cdef struct ReadRound:
    uint64_t context            # it was last asked for under; 0: void, to be asked again
    uint64_t first_context      # and first: an answer to it counts, too
    member_id_t leader          # whom it asks: CoreStatus.target,
    term_t term
    uint64_t since_ns           #   since when; for too long, and its readers are told NO_LEADER
    bint is_answered
    index_t index
    uint32_t count              # owners at the front of Reads.owners that belong to this round
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

# The events of CallerPort.event, with the names of their three numbers a, b, c; 0: the event has no such number.
cdef enum EngineEventType:
    EVENT_TRACE = 1                 # of the core: TraceType | term << 8, and two numbers by its type
    EVENT_FOUNDED = 2               # the cluster was founded or found: cluster id low, high, 0
    EVENT_JOINED = 3                # this blank folder belongs to a living cluster: cluster id low, high, incarnation
    EVENT_LOG_OPENED = 4            # WalState, last index, dropped bytes
    EVENT_READY = 5                 # caught up, and a session is open: leader, term, 0
    EVENT_NAMED = 6                 # the membership names this node for the first time, or again: its index, 0, 0
    EVENT_REMOVED = 7               # this node is no member any more: index of the last membership it knows, 0, 0
    EVENT_SESSION_LOST = 8          # this node's session expired; commands under way have unknown outcome: 0, 0, 0
    EVENT_FATAL = 9                 # status, the entry that cannot be applied or 0, 0; of a disk that failed: status,
                                    # errno, which call (storage/disk)
    # Others
    EVENT_LINK_UP = 10              # link, member id, 0
    EVENT_LINK_DOWN = 11            # link, was refused, 0
    EVENT_PEER_REFUSED = 12         # a HELLO or a frame: status, link, type of the frame (0: HELLO)
    EVENT_QUORUM_LOST = 13          # too many voters lost their disks: links that did (a bit each), how many, voters
    # This host
    EVENT_HOST_STALLED = 14         # Python made no progress, and its leases are kept no longer: for how many ms, 0, 0
    EVENT_HOST_RESUMED = 15         # it does again: leases that are still there are kept on: 0, 0, 0
    EVENT_DISK_WAITS = 16           # no descriptor left: the log waits to open a file: errno, 0, 0
    EVENT_DISK_RESUMED = 17         # it has one: 0, 0, 0
    # The state
    EVENT_LEASES_EXPIRED = 18       # how many, 0, 0
    EVENT_COMPACTED = 19            # history floor, 0, 0
    EVENT_LEVEL_RISES = 20          # the leader proposes: feature level, 0, 0
    EVENT_STATE_DIVERGED = 21       # index, 1: this node is wrong, what another's state hash ends with
    # A copy of a user machine; which machine: by its place on this node
    EVENT_USER_FAILED = 22          # the command raised, and nothing of it stays: its index, 0, which machine
    EVENT_USER_DIVERGED = 23        # it takes the dump instead of its state: index of the dump, 0, which machine
    EVENT_USER_STOPPED = 24         # it cannot go on: index, 0, which machine
    EVENT_USER_UNDUMPED = 25        # its state could not be dumped: index, 0, which machine
    # Snapshots
    EVENT_SNAPSHOT_DUE = 26         # index of the point, low half of the state hash, 0
    EVENT_SNAPSHOT_TAKEN = 27       # index, bytes, low half of the file's hash; of a checkpoint: index, 0, 0
    EVENT_SNAPSHOT_FAILED = 28      # not taken, or not received: index, status, 0
    EVENT_SNAPSHOT_OFFERED = 29     # index, link, 0
    EVENT_SNAPSHOT_INSTALLED = 30   # index, index applied before, 0
    EVENT_SNAPSHOT_LOADED = 31      # at boot: index, 0, 0
    EVENT_SNAPSHOT_DAMAGED = 32     # a sealed file that cannot be used: index (0: the checkpoint), status, 0
    EVENT_LOG_COMPACTED = 33        # index up to which the log may go, 0, 0
    EVENT_PROCESS_ENDED = 34        # this node proposes: member, boot up to which its processes are gone, 0

# The part that a boot was reading when it failed.
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

# --- the parts of the engine, each with the module that owns it -------------------------------------------------------
# engine/callers: commands that wait for their result, and results that wait until they can be read.
cdef struct Calls:
    CommandQueue own            # this node's. own.base, the lowest sequence not answered: read by callers' threads
                                # (aligned, atomic by the machine)
    CommandQueue clients        # those of clients of this node, each in the client's own session
    Map64[uint64_t] clients_by_name         # hash of (session, sequence): number of the newest one with it
    uint64_t next_batch         # refusals of commands and of changes of members are told apart by it
    Vec[Slice] payloads         # scratch of callers_propose
    member_id_t proposed_to     # leader and term at the last proposal, of an observer its feeder and the term: a change
    term_t proposed_term        #   means propose again
    Vec[Answer] answers         # of applied entries, not yet given to their callers
    Vec[uint8_t] answer_bytes
    uint64_t answered_ns        # when a command of this node was answered last, or began to wait for that
    uint64_t answered_count     # commands_completed at that time; all bits set: none waits

# engine/callers: linearizable reads.
cdef struct Reads:
    Vec[void*] waiting          # owners, not yet in a round
    Ring[void*] owners          # of the rounds, in order
    Ring[ReadRound] rounds
    uint64_t next_context

# engine/applier: committed records on their way into the machine, in order.
cdef struct Applying:
    Ring[Slice] records         # that wait
    uint32_t offset             # in the front slice
    index_t queued              # last index in `records`
    index_t applied
    index_t published           # as `applied`, but readers can see it
    index_t unapplied           # the entry that cannot be applied, so that the node stops; 0: none
    bint is_partial             # machine said APPLY_MORE for the record at `offset`
    bint must_publish

# engine/housekeeping: this node's session.
cdef struct OwnSession:
    uint64_t id                 # 0: none open. Read by callers' threads (aligned, atomic by the machine)
    uint64_t opening            # id in the SESSION_OPEN under way
    uint64_t opening_tick       # of the last SESSION_OPEN

# engine/housekeeping: leases that this node keeps alive.
cdef struct OwnLeases:
    Map64[KeptLease] kept
    Ring[KeepAlive] keep_alives     # sent and not seen applied, oldest first
    uint64_t keep_alive_tick    # of the last one sent
    uint64_t host_ns            # shared: when the host's Python was seen last, by the clock port
    bint host_is_stalled

# engine/housekeeping: what this node proposes when it leads.
cdef struct Duties:
    Vec[uint8_t] payload        # of the command proposed last
    index_t expiry_proposed     # applied must reach it before expiry is proposed again
    index_t compaction_proposed
    index_t level_proposed
    term_t term                 # in which these were proposed
    index_t process_proposed    # the end of a process, as expiry_proposed,
    term_t process_term         # in this term
    uint64_t successor_tick     # the end of this node's former lives is not proposed again before this tick
    Vec[uint64_t] due
    Vec[uint64_t] due_deadlines

# engine/peers: who is at the other end of a connection.
cdef struct Links:
    Link[MEMBERS_MAX] table
    uint64_t inbound_count      # connections of peers that said HELLO so far
    uint64_t membership_count   # how often another membership came into force
    uint64_t membership_seen    # membership_count of the one that the links follow
    uint32_t lost               # voters by name that lost their disks and were not taken back yet, a bit for each link
    uint32_t lost_count         # how many those are
    uint32_t voter_count        # of how many

# engine/feeding: observers that follow the log through those that this node feeds.
cdef struct Feeding:
    Vec[Observed] below         # as they told, at most OBSERVERS_MAX
    uint64_t changes            # how often `below` became another

# engine/members: whether this node is a member, and changes that its callers asked for.
cdef struct Standing:
    bint was_removed            # as of the last turn
    bint was_member
    Vec[AskedChange] asked_changes

# engine/log_jobs: the log's jobs, and room on its disk.
cdef struct Room:
    uint32_t jobs_under_way     # writes and beginnings of the log that the write thread has
    Ring[PendingJob] blocked    # those that found no room, in order; tried again every BLOCKED_RETRY_TICKS
    uint64_t blocked_tick
    uint64_t free_bytes         # as of the last job done
    uint64_t log_bytes          # what the log holds, as of the last job done
    uint64_t log_epoch          # counts the logs that began anew behind an installed snapshot
    index_t membership_logged   # index of the membership that the log was told

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
    uint64_t identity_tick      # the genesis record found no room: not asked again before this tick
    bint was_ready

    Core* core                  # NULL until founded
    Machine* machine
    Hub* hub
    CoreStatus core_status      # as of the last turn
    uint64_t now_ns
    uint64_t next_tick_ns
    uint64_t ticks

    Calls calls
    Reads reads
    Applying applying
    OwnSession session
    OwnLeases leases
    Duties duties
    Links links
    Feeding feeding
    Standing standing
    Room room
    Snapshots snapshots
    Divergence divergence       # its interval: set before engine_boot
    Vec[Submission*] user_fetches       # engine/user_fetches: those that wait for something to come

    Vec[uint8_t] body           # scratch for encoding
    Command scratch             # for commands of the engine itself, and to look into others'
    EngineCounters counters
