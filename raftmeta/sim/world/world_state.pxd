# A whole cluster in one struct: nodes that run the production engine, over simulated clocks, disks and network.
#
# world      the loop: takes the next event, hands it to the node it is for, checks, schedules what follows
# liveness   the end: everything heals, and progress must follow (I22)
# faults     what strikes, whom, for how long; atlas: where disks may fail so that it can be survived
# operator   changes of membership
# network    frames on their way, faults on them, connections
# nodes      one node's life: boot, crash, restart, its disk's schedule
# checkpoints  the checkpoint port's simulated side
# workload   clients on the nodes, and what they may see (I13, I14, I15)
# rests      quiet hours, in which no client does anything
# user_copies  copies of a user machine and the commands that it is given (I11, I14)
# clients    clients of other processes, with sessions, retries and fences (I14, I18b); calls: what all of them wait for
# watches    what watches show, over resumptions (I15, I16)
# leases     leases that clients keep, and when they may end (I17)
# read_proofs    reads, and the rounds that prove them (I13); memberships   memberships against the log (I10)
# principals clients with names, passwords and tokens, and what becomes of their commands; rights_model   what they may,
#            tokens_model   with which tokens (I26)
# doors      clients that ask for znodes; znodes_model   what ZooKeeper's rules (znodes_rules) make of the log, and must
#            answer (I28, I30, I31, I33); znodes_check   nodes beside it, znodes beside one another (I27, I29, I32)
# group_clients    members of worker groups; groups_check   what the log may make of their groups (I34-I39, I51)
# topic_clients    clients that produce, make topics and commit offsets; topics_check   the log beside topics_model
#            (I49, I50) and records_model (I45-I48), and nodes beside both
# entries    every record that any disk has, for these models
# witness    what clients saw, from values and times alone (I24)
# points     where snapshots are due (I11)
# truth      what is true for the whole cluster: the committed log, leaders by term (I1-I7, I9, I10)
# swarm      which faults a seed has; buggify: which points of production code do the rare thing
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from raftmeta.engine.disk_jobs cimport DiskJob
from raftmeta.engine.job_order cimport BackgroundJobs
from raftmeta.engine.snapshots.checkpoint cimport CheckpointHead
from raftmeta.engine.state cimport Engine, Inbound
from raftmeta.machine.dump cimport Dump, DumpBase
from raftmeta.machine.state cimport Machine
from raftmeta.native.buggify cimport BUGGIFY_POINTS
from raftmeta.native.chunks cimport Chunk, Slice
from raftmeta.native.containers cimport Map64, Ring, Vec
from raftmeta.raft.types cimport MEMBERS_MAX, HardState, index_t, member_id_t, member_mask_t, term_t
from raftmeta.sim.world.disk cimport SimDisk
from raftmeta.sim.world.events cimport SimEvents
from raftmeta.sim.world.znodes_state cimport SIM_DOORS, SimDoor, SimZnodesModel
from raftmeta.status cimport status_t
from raftmeta.security.cipher cimport KeyRing
from raftmeta.storage.identity cimport Identity
from raftmeta.storage.wal_state cimport Wal
from raftmeta.wire.commands cimport Command

cdef enum:
    SIM_NODES_MAX = 7
    SIM_BEGIN_NS = 1_000_000_000    # the world's clock begins here: 0 means never
    SIM_KEYS = 16               # keys of the workload; half of them counters
    SIM_WATCHES = 2             # watches of one node
    SIM_LEASES = 16             # of all nodes, those of dead keepers included
    SIM_CLIENTS = 3             # of other processes
    SIM_CLIENT_WINDOW = 8       # commands of one of them under way, at most
    SIM_OLD_FRAMES = 64         # kept to be sent once more, long after
    SIM_USERS = 4               # with rights: the first is the admin; each has a client of its own
    SIM_ROLES = 3
    SIM_RIGHTS_KEYS = 8         # keys of these clients; no other client touches them
    SIM_RIGHTS_LEASES = 256     # that they ever ask for
    SIM_RIGHTS_SESSIONS = 256   # the same
    SIM_TOKENS = 32             # of these clients at a time

# Everything that may go wrong, with its rate. Probabilities in millionths, times in microseconds.
cdef struct SimFaultRates:
    uint32_t drop_ppm           # of frames (docs/faults.md)
    uint32_t duplicate_ppm
    uint32_t corrupt_ppm        # of frames: a bit of them is flipped on the way (N6)
    uint32_t reorder_ppm        # of frames that may be overtaken; others keep the order of their connection
    uint32_t delay_ppm          # of frames that take up to delay_us instead of latency_us, and are overtaken
    uint32_t delay_us
    uint32_t latency_us         # upper bound of the usual delay
    uint32_t partition_ppm      # of fault events: a partition of any shape (N1-N4)
    uint32_t crash_ppm          # a crash of one node: half of them power cuts (P1, D1)
    uint32_t crash_all_ppm      # of all at once
    uint32_t cut_at_sync_ppm    # power fails at a coming sync or write of one node (P2, D2)
    uint32_t disk_error_ppm     # a call of a node's disk fails: EIO (D5, D6)
    uint32_t pause_ppm          # a node does nothing for a while (P3)
    uint32_t drift_ppm          # no chance: how much faster or slower than time itself a node's clock may run (P6)
    uint32_t wall_ppm           # a node's wall clock leaps by up to an hour (P5)
    uint32_t transfer_ppm       # leadership is handed over (R2)
    uint32_t wipe_ppm           # a member comes back with an empty disk (M6)
    uint32_t flip_ppm           # a bit of a member's log is flipped while it is down (D3)
    uint32_t rot_ppm            # a bit of a sealed file flips under the running node that holds it (D3)
    uint32_t misdirect_ppm      # a write lands elsewhere or nowhere and reports success (D4)
    uint32_t full_ppm           # a disk takes no new sector for a while (D7)
    uint32_t replay_ppm         # frames of long ago, of dead connections too, arrive once more (N8)
    uint32_t isolate_ppm        # the leader is cut off with a minority, longer than an election takes (N3, R3)
    uint32_t membership_ppm     # the operator changes the membership (M1-M4)
    uint32_t fault_gap_us       # mean time between fault events
    uint32_t down_us            # mean time until a crashed node returns
    uint32_t disk_us            # upper bound of a usual sync
    uint32_t slow_disk_ppm      # of syncs that take 100 times as long (D9)
    uint32_t client_gap_us      # mean time between two client calls on a node
    uint32_t hang_ppm           # the Python of a node's process stands still for a while; its threads go on (P4)
    uint32_t put_back_ppm       # a folder is copied, or put back to the copy made before (only in ruin)

# The kinds of fault events, in the order in which one strike draws them.
cdef enum:
    FAULT_PARTITION = 0
    FAULT_ISOLATE
    FAULT_REPLAY
    FAULT_CRASH
    FAULT_CRASH_ALL
    FAULT_PAUSE
    FAULT_WALL
    FAULT_CUT_AT_SYNC
    FAULT_WIPE
    FAULT_FLIP
    FAULT_MISDIRECT
    FAULT_DISK_ERROR
    FAULT_FULL
    FAULT_TRANSFER
    FAULT_MEMBERSHIP
    # These have no rate: only a tape asks for them.
    FAULT_HEAL                  # networks, pauses and disks: what was is over
    FAULT_CALLS                 # all clients call at once
    # Kinds that were added later stand behind them: each kind keeps its stream, and tapes their histories.
    FAULT_ROT
    FAULT_HANG
    FAULT_PUT_BACK
    FAULT_KINDS = 20

# One entry of the tape: at which strike, of which kind.
cdef struct SimDecision:
    uint32_t strike
    uint32_t kind               # FAULT_...

# One line of the story that a diagram tells (raftmeta/sim/world/story).
cdef enum SimNoteKind:
    NOTE_FRAME = 1              # node sent a message to other: a = its type, b = term, c = index
    NOTE_FAULT = 2              # a = FAULT_...
    NOTE_DOWN = 3
    NOTE_UP = 4
    NOTE_ROLE = 5               # a = Role, b = term
    NOTE_COMMIT = 6             # a = index, b = term

cdef struct SimNote:
    uint64_t time_ns
    uint64_t event              # number of the event in which it happened
    uint32_t what               # SimNoteKind
    uint32_t node
    uint32_t other
    uint64_t a
    uint64_t b
    uint64_t c

# A node before the event, as the story knew it.
cdef struct SimSeen:
    bint is_up
    uint32_t role
    uint64_t term
    uint64_t committed

cdef struct SimConfig:
    uint64_t seed
    uint32_t nodes              # 1 .. SIM_NODES_MAX
    uint32_t observers          # so many of them, the last ones, hold no place in the membership
    uint32_t feeds_max          # observers that one node feeds; 0: as many as everywhere
    uint32_t seeds              # nodes, the first ones, that an observer knows from its beginning; 0: all
    uint32_t segment_bytes
    uint32_t sector_bytes
    uint64_t history_bytes_max
    uint32_t session_ttl_ms
    uint32_t lease_ttl_ms
    uint32_t snapshot_entries   # between two points; 0: none is ever taken
    uint32_t snapshot_chunk_bytes
    uint32_t tick_ms            # 10, or a slower cluster; what faults last is stretched with it
    uint32_t election_timeout_ticks     # short, and leaders come and go
    uint32_t append_bytes_max   # of one APPEND: small, and a tail arrives in parts (paper Figure 8)
    bint has_checkpoints        # nodes keep their own copies behind the checkpoint port, not in sealed files
    uint32_t background_us      # the longest wait of a job of the background beyond its turn; 0: all jobs are done as
                                # they came, which production does not (tapes of that time)
    uint32_t turn_us            # the least time between two turns of a node's loop, on a machine that is too busy
    bint campaigns_early        # members ask before their time-out; in tapes of old nobody leads for longer
    bint encrypts               # files of all nodes are encrypted, with one key
    bint is_ruin                # disks fail without regard to what can be survived (raftmeta/sim/world/atlas)
    uint32_t rest_us            # the longest quiet hour; 0: clients never pause
    uint32_t busy_us            # mean time between two of them
    bint lease_reads            # leaders serve reads by their lease (thesis 6.4.1)
    uint64_t log_memory_bytes   # of records that are applied and stay in memory; 0: all
    uint64_t snapshot_log_bytes     # between two points, beside snapshot_entries; 0: as many as there are
    uint64_t free_bytes_min     # a log with less room takes no growth, and its leader hands over; 0: nobody minds
    uint32_t host_watchdog_ms   # leases of a process whose Python stands still for longer are let go; 0: none
    uint32_t client_window      # commands that a client of another process has under way, up to SIM_CLIENT_WINDOW;
                                # 1: one after the other, which tapes of old need
    uint32_t session_window     # results kept for a node's own session, and commands that may wait in it; 0: 256, 128
    bint ends_silently          # of processes that end half tell nobody: connections to them look open for longer
    bint has_users              # clients give commands to a user machine, too
    bint has_rights             # rights are turned on, and principals come and go (raftmeta/sim/world/principals)
    bint has_znodes             # doors ask for znodes (raftmeta/sim/world/doors)
    bint has_groups             # clients are members of worker groups (raftmeta/sim/world/group_clients)
    bint has_topics             # clients have topics, offsets and record logs (raftmeta/sim/world/topic_clients)
    uint32_t old_level          # feature level of most nodes before they are upgraded; 0: all begin with the highest
    uint32_t upgrade_ms         # when that is; others hear of it once they connect anew
    bint has_processes          # sessions and leases of nodes end with their process; something may reject (network)
    uint32_t user_large_ppm     # of these commands: some of them make a dump due
    bint checks                 # dear invariants of the core too: every record at every step
    SimFaultRates faults
    uint32_t[BUGGIFY_POINTS] buggify_ppm        # of the times at which a point is asked (raftmeta/sim/world/buggify)

# The words of a frame, if it is a message, that the proofs of reads must know when it arrives.
cdef struct SimSaid:
    uint32_t type               # MessageType; 0: no message
    bint is_refusal
    member_id_t member          # who says it
    term_t term
    uint64_t context

# A frame on its way.
cdef struct SimFrame:
    Chunk* chunk                # head and records in one piece
    uint32_t source
    uint64_t source_life
    bint is_replay              # of long ago: it comes as if the present connection had brought it
    bint is_corrupt             # a bit is not what was sent
    SimSaid said

cdef struct SimOldFrame:
    Chunk* chunk                # NULL: none
    SimSaid said
    uint32_t source
    uint32_t target

# The calls of the workload's clients, and where they stand.
cdef enum SimCallKind:
    CALL_PUT = 1
    CALL_ADD = 2
    CALL_READ = 3
    CALL_DELETE = 4
    CALL_GRANT = 5
    CALL_USER = 7               # a command for the user machine
    CALL_USER_DUMP = 8          # a part of its dump
    CALL_CLIENT = 6             # a sending of a SimClient: key is its number, session and number name the command
    CALL_PRINCIPAL = 9          # the same of a SimPrincipal
    CALL_DOOR = 10              # ... and of a SimDoor
    CALL_GROUP = 11             # ... and of a SimGroupClient
    CALL_TOPIC = 12             # ... and of a SimTopicClient

cdef struct SimCall:
    SimCall* next_free
    uint32_t node
    uint64_t life
    uint8_t kind
    uint8_t key
    uint64_t number             # unique value of a put
    uint64_t session
    index_t floor_index         # I13: entries acknowledged to anybody before this call began
    uint64_t floor_revision
    uint64_t called             # I24: number of the event, from 1
    uint64_t called_ns
    int64_t floor_number        # what the counter had answered by then

# One command of a client of another process, from its first sending until the client needs its place.
cdef struct SimCommand:
    uint64_t sequence           # 0: it opens the session
    Vec[uint8_t] payload        # empty: no command
    uint8_t wish
    bint is_answered
    uint64_t answer_hash
    int64_t floor               # the greatest number that its counter had answered before the first sending
    uint64_t token              # under which it guards

# A client of another process (raftmeta/sim/world/clients).
cdef struct SimClient:
    uint64_t silent_until_ns
    uint64_t session            # 0: none
    uint64_t sequence           # of its newest command
    uint64_t told_answered      # every sequence below it was said to be answered: its result may be gone
    SimCommand[SIM_CLIENT_WINDOW] commands      # sequence s stands at s modulo the window
    bint is_draining            # it begins no other command before all are answered
    int64_t known               # its counter stood there, certainly, when nothing of it was under way
    uint32_t issued             # counts that were begun since
    uint32_t unsure             # of these: their sessions were lost before they were answered
    int64_t highest             # number answered
    uint64_t token              # create revision of the lock, as it believes

# One watch of the workload and what its consumer saw.
cdef struct SimWatch:
    void* watch                 # Watch*; NULL: none now
    uint64_t next_revision      # I15: the least revision that may come next
    bint is_pending             # asked for, not there yet
    bint has_items
    bint must_close             # it said LAGGED or COMPACTED: resume with a new one

# A user machine's state on one node, in the place of a Python object (raftmeta/sim/world/user_copies).
cdef struct SimImage:
    uint64_t state              # chain of the commands that ran
    uint64_t count

cdef struct SimCopy:
    index_t pointer             # the last command that ran, or the dump that it began with
    SimImage image
    bint is_fetching            # until it has done what it was given
    Vec[uint8_t] news           # that
    index_t dump_seen
    Vec[uint8_t] loading        # of a dump that it is being given
    index_t made_pointer        # where it last made a dump; 0: nowhere
    SimImage made
    bint is_sending             # a part of it

# The lease that a node's client keeps, and how long it may believe so.
cdef struct SimLease:
    uint64_t id                 # 0: none
    uint64_t until_ns           # as lease_kept said
    bint is_asked               # a grant is under way

# A lease as the replicated state shows it (I17).
cdef struct SimLeaseTruth:
    uint64_t id                 # 0: free place
    uint32_t keeper             # node,
    uint64_t keeper_id          # its incarnation
    uint64_t keeper_boot        # and boot number when it was granted
    index_t seen_index          # it stood in the state after this entry,
    uint64_t deadline_ms        # with this deadline on the lease clock
    uint64_t renewed_ns         # when that was seen first

# An entry that ended processes, and a session that told whose process opened it (I60, I61).
cdef struct SimEndedProcess:
    uint64_t member
    uint64_t boot               # and all before it
    index_t index

cdef struct SimNamedSession:
    uint64_t session
    uint64_t member
    uint64_t boot
    index_t ended               # entry that ended its process; 0: none

# The newest answer to a round that a leader has from a member (I13).
cdef struct SimHeard:
    member_id_t member          # 0: none
    term_t term
    uint64_t sent_ns            # when that round was sent first

# A membership of the committed log (I10).
cdef struct SimMembership:
    index_t index
    uint64_t hash

# The content that a node's disk certainly has (I5, I6): read from the simulated disk, not from the log's word.
cdef struct SimDurable:
    Vec[uint64_t] chains        # chain hash of entry i at position i; 0: none
    Vec[uint64_t] terms
    Vec[index_t] damaged        # in order: what its log could not read when it came back and nothing has replaced since
    HardState hard
    index_t filed               # a sealed file has the state after this entry, whatever becomes of the log
    bint is_whole               # nothing of the log waited for a sync when last looked; else later writes do not count

# The checkpoint in a node's folder (raftmeta/sim/world/checkpoints): committed first, then what is under way.
cdef struct SimCheckpoint:
    CheckpointHead head
    Vec[uint8_t] membership
    Vec[uint8_t] records        # of the base and its differences, chunk behind chunk
    Vec[uint32_t] chunks        # their lengths; none: there is no checkpoint
    uint32_t differences
    uint32_t damaged_chunk
    size_t next_chunk           # of the load under way
    size_t next_offset
    Machine* machine            # of this life; NULL: none yet
    DumpBase base               # pinned in it
    Dump* dump                  # being taken; NULL: none
    bint is_difference
    bint is_committed           # and nobody was told yet
    CheckpointHead fresh_head
    Vec[uint8_t] fresh_membership
    Vec[uint8_t] fresh
    Vec[uint32_t] fresh_chunks

cdef struct SimNode:
    World* world
    uint32_t number
    member_id_t id              # of its incarnation, once booted
    bint is_up
    bint is_cut                 # power fails now: crash at the end of the event
    uint64_t life               # counts boots and crashes
    bint has_halted             # in ruin: its folder cannot be run, for good
    uint64_t paused_until_ns
    uint64_t hung_until_ns      # its Python stands still
    uint64_t host_seen_ns       # when it was last seen to go on
    uint64_t wake_ns            # of the scheduled SIM_WAKE, 0: none
    uint64_t turn_ns            # when its last turn was: what comes later waits for SimConfig.turn_us
    Engine* engine
    SimDisk* disk
    SimCheckpoint checkpoint
    Wal* wal
    Identity* identity
    uint64_t random             # RandomPort
    uint64_t boot_ns            # when its clock read clock_base_ns, and how fast it has been since
    uint64_t clock_base_ns
    int64_t clock_ppm
    int64_t wall_offset_ms
    uint64_t failures_seen      # calls of the disk that failed in earlier lives
    DiskJob* jobs_first         # queued
    DiskJob* jobs_last
    DiskJob* jobs_done          # done, not told yet
    bint jobs_scheduled
    BackgroundJobs background   # set aside (engine/job_order)
    bint is_background_next     # a batch was done since the last step of the background
    bint is_wait_drawn          # for its first job,
    uint64_t background_ns      # which is not done before
    Inbound[SIM_NODES_MAX] inbound
    uint64_t[SIM_NODES_MAX] inbound_life        # life of the peer that opened it
    bint[SIM_NODES_MAX] connects                # a SIM_CONNECT is scheduled
    uint64_t links_looked_ns                    # when it last looked whom its engine wants to reach
    uint64_t[SIM_NODES_MAX] arrivals_ns         # of the last frame to each node that keeps its order
    # seen so far in this life (I9)
    index_t applied
    index_t committed
    term_t term
    uint64_t memberships_seen   # hash of what names those that were compared (I10)
    index_t point_taken         # a snapshot that it began before the world knew the entry as committed; 0: none
    index_t membership_checked      # index of the one at its commit index that was last compared; 0: none (I10)
    Vec[uint64_t] rounds_sent   # by number: when a round was sent first in this life (I13)
    SimHeard[MEMBERS_MAX] heard
    uint64_t proven_ns          # reads that were asked until then may be served
    uint64_t floor_seen         # of the history, after the last turn (I15)
    # what it vouched for, over its lives (I8)
    index_t acked_index
    uint64_t acked_chain
    term_t acked_term
    SimDurable durable
    # what its wiped predecessor had promised: the fault came after the promise (I7)
    member_id_t former_id
    SimDurable former
    bint is_suspect             # wiped or damaged in suspect_life, and not yet a whole voter again
    uint64_t suspect_life
    index_t rotten_index        # a bit of its sealed file there flipped, and the file may not be gone yet; 0: none
    bint was_damaged            # this incarnation's files, by its disk
    # a folder that is put back (I25)
    Vec[uint64_t] known         # chain hash of each entry that it knows as committed, over its lives; 0: not known
    SimDisk* copy_disk          # of its folder, to be put back; NULL: none
    index_t copy_known          # committed by that copy
    # workload
    uint64_t next_sequence
    uint32_t calls_open
    uint64_t session_seen
    SimWatch[SIM_WATCHES] watches
    SimLease lease
    SimCopy copy

# The times at which clients saw one value of a register (I24).
cdef struct SimSight:
    uint64_t first_return       # somebody was done with it then, before anybody else
    uint64_t last_call          # the last one who saw it, or wrote it, called then
    uint64_t limit              # who calls later must not see it: another value was certainly there before

cdef struct SimRegister:
    Vec[SimSight] sights        # in the order of first_return
    Map64[uint32_t] places      # value -> its sight, from 1
    Map64[uint64_t] calls       # value -> when it was written; all ones: certainly never

# --- rights (I26) -----------------------------------------------------------------------------------------------------
# A user by docs/security.md, with its roles and rights, as of one place in the log. No user gets the number of another.
cdef struct SimUser:
    uint64_t number             # 0: there is no such user
    uint64_t since              # change of rights that gave it its password
    uint64_t password
    uint32_t roles              # set of bits

cdef struct SimRole:
    bint exists
    uint8_t[(SIM_RIGHTS_KEYS + 1) * (SIM_RIGHTS_KEYS + 1)] grants   # rights by first key and end of a range

cdef struct SimRightsSession:
    uint64_t id                 # 0: free
    uint64_t owner              # number of a user; 0: nobody
    uint64_t floor              # results below it may be forgotten
    uint64_t done               # the last sequence whose result it keeps

cdef struct SimRightsLease:
    uint64_t id                 # 0: free
    uint64_t owner

cdef struct SimRightsKey:
    uint64_t value              # 0: the key does not exist
    uint64_t lease

cdef struct SimToken:
    uint64_t id                 # 0: free
    uint64_t user               # number
    uint64_t since              # change of rights that made it
    uint64_t deadline_ms        # on the lease clock

cdef struct SimRightsModel:
    index_t index               # of the last entry that was taken
    uint64_t lease_ms           # the lease clock there
    bint is_lost                # an entry could not be read: nothing is checked any more
    uint64_t changes            # of rights
    uint64_t next_number
    bint is_enabled
    SimUser[SIM_USERS] users
    SimUser founder             # without roles; it may make an admin, once
    SimToken[SIM_TOKENS] tokens
    bint has_client             # the user of all other clients
    SimRole[SIM_ROLES] roles
    SimRightsKey[SIM_RIGHTS_KEYS] keys
    SimRightsSession[SIM_RIGHTS_SESSIONS] sessions
    SimRightsLease[SIM_RIGHTS_LEASES] leases
    Command command             # scratch

cdef enum SimProof:
    PROOF_PASSWORD = 0
    PROOF_TOKEN = 1
    PROOF_FOUNDER = 2           # the one-time token of the founding

# Of the admin: it lets a node make the founder, and becomes an admin anew as that.
cdef enum SimFounding:
    FOUNDING_NONE = 0
    FOUNDING_ASKED = 1          # for the founder's token
    FOUNDING_SPEAKS = 2         # as the founder, in a session of the founder
    FOUNDING_CLAIMED = 3

# A client with a name and a password, which has one command under way.
cdef struct SimPrincipal:
    uint64_t session            # 0: none
    uint64_t sequence
    uint64_t password           # that it proves
    uint64_t proven             # change of rights under which it proved that; 0: it proves again
    uint64_t lease              # the last that it asked for; 0: none
    uint64_t token              # the same
    SimProof proof              # how it speaks
    uint64_t speaks             # by this token
    SimFounding founding
    bint is_answered
    bint opens                  # its command opens the session
    uint32_t step               # of the admin: so much is set up
    Vec[uint8_t] payload

# Every record that any disk has (raftmeta/sim/world/entries).
cdef struct SimEntries:
    Map64[uint64_t] places      # chain hash -> where the record stands, from 1
    Vec[uint8_t] bytes

# The committed log as the whole cluster agrees on it.
cdef struct SimTruth:
    Vec[uint64_t] chains        # by index; 0 at position 0
    Vec[uint64_t] terms
    Vec[uint64_t] committed_in  # term of the member that first knew the entry to be committed
    Vec[uint64_t] state_hashes  # low half of the state hash after index (I20); 0: not seen yet
    Vec[uint64_t] revisions     # after index
    index_t committed           # greatest index committed anywhere
    Map64[uint32_t] leaders     # term -> node + 1
    Map64[uint64_t] votes       # hash of incarnation and term -> candidate
    index_t acked_index         # greatest index acknowledged to a client
    uint64_t acked_revision
    SimRegister[SIM_KEYS] registers
    Map64[uint64_t] user_states     # index of a command -> state of the user machine after it
    Map64[uint64_t] user_commands   # number of a command -> index at which it ran; all ones: certainly nowhere
    uint64_t[SIM_KEYS] adds_submitted
    uint64_t[SIM_KEYS] adds_acked
    int64_t[SIM_KEYS] add_highest
    Map64[uint64_t] numbers     # (number, key) of acknowledged adds
    Map64[uint64_t] files       # index of a point -> hash of its sealed file: the same bytes on all nodes (I11)
    index_t answered_index      # greatest index of a command that a client was told to be done (I12)
    Vec[uint8_t] is_quiet       # by revision: it changed the key of the quiet watch
    Vec[uint64_t] event_hashes  # by revision: hash of the changes of that revision (I15)
    SimLeaseTruth[SIM_LEASES] leases
    Vec[SimEndedProcess] ended
    Vec[SimNamedSession] named
    uint64_t guarded_revision   # the newest accepted guarded write that was answered, and its token
    uint64_t guarded_token
    index_t membership_index    # of the newest committed membership
    index_t change_index        # of the newest membership that any node put in force before it was committed,
    term_t change_term          # and the highest term in which a node did so (raftmeta/sim/world/atlas)
    Map64[uint64_t] memberships         # chain hash of an entry with a membership -> hash of its bytes
    Vec[SimMembership] committed_memberships
    Map64[uint64_t] record_bytes        # chain hash of a record -> its bytes in the log
    Vec[index_t] points         # of the entry at index i + 1: the last point up to it (I11)
    uint64_t bytes_since_point  # of records, behind the newest of them
    bint has_other_points       # a node made a file between two of them, and who loads it counts from there
    Map64[uint64_t] questions   # hash of incarnation and context of a READ_INDEX -> when it was sent first (I13)

cdef enum SimViolation:
    NO_VIOLATION = 0
    VIOLATION_TWO_LEADERS = 1           # I1
    VIOLATION_LOG_MATCHING = 2          # I2
    VIOLATION_LEADER_INCOMPLETE = 3     # I3
    VIOLATION_STATE_MACHINE = 4         # I4
    VIOLATION_ACK_NOT_DURABLE = 5       # I5
    VIOLATION_TERM_NOT_DURABLE = 6      # I6
    VIOLATION_COMMIT_NOT_DURABLE = 7    # I7
    VIOLATION_RECOVERY = 8              # I8
    VIOLATION_NOT_MONOTONIC = 9         # I9
    VIOLATION_MEMBERSHIP = 10           # I10
    VIOLATION_STATE_HASH = 11           # I11, I20
    VIOLATION_SNAPSHOT = 12             # I11: sealed files of one point differ, or the points of a node from the log's
    VIOLATION_STALE_READ = 13           # I13
    VIOLATION_NOT_COMMITTED = 21        # I12: a client was told OK for what nobody has committed
    VIOLATION_UNBOUNDED = 20            # I21: a queue is longer than its cap
    VIOLATION_IDENTITY = 24             # I18: a frame for another incarnation was taken
    VIOLATION_NOT_ONCE = 14             # I14
    VIOLATION_WATCH = 15                # I15
    VIOLATION_PROGRESS_MARK = 16        # I16
    VIOLATION_LEASE = 17                # I17
    VIOLATION_FENCE = 18                # I18b
    VIOLATION_CORRUPT_TAKEN = 19        # I19: a frame that is not what was sent was taken
    VIOLATION_LIVENESS = 22             # I22
    VIOLATION_HISTORY = 25              # I24: what clients saw is no history of registers
    VIOLATION_UNPROVEN_READ = 26        # I13: a = when the read was asked, b = what is proven until when
    VIOLATION_OUTCOME_LOST = 27         # I14: nobody knows how a command ended, though its session lives
    VIOLATION_RIGHTS = 29               # I26: a = key or user, b = what the node has or believes
    VIOLATION_CUT_SILENTLY = 28         # I25: a node committed another entry than the one it knew as committed
    VIOLATION_ZNODE_COUNTERS = 30       # I27: a = what it has, b = what is there
    VIOLATION_ZNODE_SEQUENCE = 31       # I28
    VIOLATION_ZNODE_EPHEMERAL = 32      # I29: a = the lease
    VIOLATION_ZNODE_ZXID = 33           # I30
    VIOLATION_ZNODE_ORDER = 34          # I31: a, b = sequences
    VIOLATION_ZNODE_ORPHAN = 35         # I32: a = its czxid
    VIOLATION_ZNODE_MODEL = 36          # I33
    VIOLATION_GROUP_LEADER = 37         # I34: a = generation, b = index of the entry
    VIOLATION_GROUP_GENERATION = 38     # I35: a = generation, b = its fence
    VIOLATION_GROUP_REQUEST = 39        # I36: a = index, b = generation of the group
    VIOLATION_GROUP_OWNER = 40          # I37: a = index, b = the resource
    VIOLATION_GROUP_MEMBER = 41         # I38: a = index, b = lease of the member
    VIOLATION_GROUP_ASSIGNMENT = 42     # I39: a = generation, b = members
    VIOLATION_RECORD_OFFSETS = 43       # I45: a = index, or the log; b = the offset that it should be
    VIOLATION_RECORD_KEPT = 44          # I46: a = the log, b = the offset
    VIOLATION_RECORD_TWICE = 45         # I47: a = index, b = the code that it should be
    VIOLATION_RECORD_COMPACTED = 46     # I48: a = the log, b = the offset
    VIOLATION_TOPIC = 47                # I49: a = index, or the topic; b = the code that it should be
    VIOLATION_OFFSET = 48               # I50: a = index, or the group; b = the code, or the offset
    VIOLATION_JOIN_LEASE = 49           # I51: a = index, b = the lease
    VIOLATION_ENDED_ALIVE = 60          # I60: a = index of the entry, b = the node that runs
    VIOLATION_ENDED_ACTS = 61           # I61: a = session, b = index of the entry
    VIOLATION_FATAL = 100               # a node stopped itself: a = status, b = what the core believed
    VIOLATION_NO_MEMORY = 101

cdef struct SimCounts:
    uint64_t events
    uint64_t frames
    uint64_t dropped
    uint64_t duplicated
    uint64_t corrupted
    uint64_t reordered          # frames that were let out of their order
    uint64_t crashes
    uint64_t power_cuts
    uint64_t partitions
    uint64_t isolations
    uint64_t pauses
    uint64_t transfers
    uint64_t elections
    uint64_t acknowledged
    uint64_t unknown
    uint64_t refused
    uint64_t sendings           # of clients of other processes: commands and their repetitions
    uint64_t client_commands    # answered
    uint64_t client_sessions_lost
    uint64_t guarded            # writes under a fence that were accepted
    uint64_t hangs
    uint64_t hand_overs         # of a leader whose log has no room
    uint64_t full_leaders       # times that a leader noticed that its disk was filled, after all had healed
    uint64_t points             # of nodes, held against those of the log
    uint64_t leases_let_go      # because their host stood still
    uint64_t windows            # client commands begun while another one of the client was under way
    uint64_t rests
    uint64_t user_calls         # of a user machine, answered
    uint64_t user_commands      # run, on all copies
    uint64_t user_loads         # of a dump
    uint64_t principal_commands     # answered
    uint64_t principals_denied  # of these
    uint64_t principals_unknown     # sendings that were not believed
    uint64_t rights_changes     # committed
    uint64_t tokens_made
    uint64_t tokens_ended
    uint64_t tokens_expired     # of these: by their time
    uint64_t token_commands     # of principals by tokens, answered
    uint64_t founders_claimed
    uint64_t rights_checks      # of a node's keys and rights against the model
    uint64_t door_sendings      # commands of doors and their repetitions
    uint64_t door_out_of_order  # of these: answered that they came too early
    uint64_t znode_answers      # held against the model
    uint64_t znodes_refused     # requests that ZooKeeper's rules refuse
    uint64_t znodes_out_of_order    # entries with requests that came too early
    uint64_t znode_writes_refused   # native writes of znodes
    uint64_t znode_owners_ended     # leases of owners, by time or revoked
    uint64_t znodes_timed_out   # TTL nodes and containers that went
    uint64_t znodes_containers_ended    # of these: containers
    uint64_t znodes_renewed     # TTL nodes that stayed, as they had children
    uint64_t znode_checks       # of a node's whole tree against the model
    uint64_t znode_reads        # of a stat and of children
    uint64_t znodes_lost        # entries that the model did not take: nothing is checked any more
    uint64_t group_sendings     # commands of members of worker groups and their repetitions
    uint64_t group_requests     # accepted
    uint64_t groups_refused     # requests that the machine refused
    uint64_t group_generations  # begun
    uint64_t groups_stable      # times that a leader made a group stable
    uint64_t group_timers       # phases of groups that ended by their timer, or went on after it
    uint64_t group_members_ended        # members that went with their lease
    uint64_t group_members_left         # behind by their group: they did not join, or did not assign
    uint64_t group_replaced     # members whose instance got another holder
    uint64_t groups_deleted
    uint64_t group_writes       # under the fence of an assignment, accepted
    uint64_t group_writes_fenced    # ... refused
    uint64_t group_checks       # of a node's groups beside one another
    uint64_t groups_lost        # entries that the check did not take: nothing is checked any more
    uint64_t group_leases       # of members, that their joins granted
    uint64_t topic_sendings     # commands of clients of topics and their repetitions
    uint64_t topics_made        # topics made, extended or deleted
    uint64_t topics_refused     # ... refused
    uint64_t offsets_committed
    uint64_t offsets_refused    # commits of one partition that the machine refused
    uint64_t offsets_deleted
    uint64_t offsets_timed_out  # groups that ended with the time of their offsets
    uint64_t records_appended   # batches
    uint64_t records_repeated   # batches that their log had already
    uint64_t records_refused    # batches that the machine refused
    uint64_t records_fenced     # batches for a topic that had gone
    uint64_t records_replaced   # records that a later one of their key took out
    uint64_t tombstones_ended
    uint64_t records_swept      # batches beyond a limit, or before the start of their log
    uint64_t records_trimmed    # starts of logs that a request moved
    uint64_t records_dropped    # logs
    uint64_t topic_answers      # held against the model
    uint64_t topic_checks       # of a node's topics, offsets and logs beside the model
    uint64_t reads
    uint64_t reads_refused
    uint64_t watch_events
    uint64_t progress_marks
    uint64_t truncations
    uint64_t wipes
    uint64_t flips
    uint64_t misdirections
    uint64_t rotten_files
    uint64_t damaged            # boots that found damaged records
    uint64_t renewals           # boots that found the log lost and began as another incarnation
    uint64_t disk_errors        # that stopped a node
    uint64_t halts              # in ruin
    uint64_t put_backs          # of folders to older copies
    uint64_t histories_lost     # nodes that stopped as what they knew as committed, or acknowledged, was gone
    uint64_t wall_jumps
    uint64_t full_disks
    uint64_t refused_writes     # that found no room
    uint64_t overtaken          # batches of jobs that were done before a job of the background which had come before
    uint64_t replays
    uint64_t memberships        # committed changes
    uint64_t changes            # asked for by the operator
    uint64_t changes_lost       # of these: on their way when a disk failed
    uint64_t compactions        # of the history
    uint64_t leases_granted
    uint64_t leases_expired
    uint64_t leases_freed       # before their time, as their process is gone
    uint64_t processes_ended    # entries that ended processes
    uint64_t lease_renewals
    uint64_t snapshots          # taken
    uint64_t checkpoints        # taken, whole and differences
    uint64_t checkpoints_failed
    uint64_t snapshots_failed   # given up, by the taker or the receiver
    uint64_t installs
    uint64_t loads              # boots from a sealed file
    uint64_t log_compactions
    uint64_t cores              # majorities that were healed alone first
    uint64_t damaged_files      # sealed files that a boot could not use

cdef struct World:
    SimConfig config
    uint64_t now_ns
    SimEvents events
    uint64_t random_network     # one stream per purpose: a fault more does not shift the others
    uint64_t random_disk
    KeyRing* keys               # of all nodes' files; NULL: they are plain
    uint64_t random_faults
    uint64_t random_workload
    bint has_buggify            # any rate of a point is not 0
    uint64_t[BUGGIFY_POINTS] buggify_random
    uint64_t[BUGGIFY_POINTS] buggify_fired      # how often
    uint64_t random_rests
    uint64_t random_background
    uint64_t random_users
    uint64_t random_rights
    uint64_t random_znodes
    uint64_t random_groups
    uint64_t random_topics
    SimNode[SIM_NODES_MAX] nodes
    member_mask_t[SIM_NODES_MAX] hears      # node i receives from the nodes in hears[i]
    SimTruth truth
    SimCounts counts
    bint faults_are_on
    uint64_t operator_ns        # when a change of membership was last asked for; 0: never
    bint clients_are_on
    uint64_t rest_until_ns      # no client does anything before
    uint32_t strikes            # fault events so far
    Vec[SimDecision] tape       # what struck
    bint has_script             # then these strike, and nothing else does
    Vec[SimDecision] script     # in order of strike and kind
    size_t script_next
    bint story_is_on
    Ring[SimNote] story
    SimSeen[SIM_NODES_MAX] seen
    uint32_t violation          # SimViolation
    uint32_t violation_node
    uint64_t violation_a
    uint64_t violation_b
    uint64_t trace_hash         # of every event handled: the same seed gives the same hash
    SimOldFrame[SIM_OLD_FRAMES] old_frames
    SimSaid said                # by the frame that is just sent
    Command command             # scratch of the workload
    SimClient[SIM_CLIENTS] clients
    SimPrincipal[SIM_USERS] principals
    SimRightsModel rights
    SimDoor[SIM_DOORS] doors
    SimZnodesModel znodes
    void* groups                # SimGroups*, of raftmeta/sim/world/groups_state; NULL: there are none
    void* topics                # SimTopics*, of raftmeta/sim/world/topics_state; NULL: there are none
    SimEntries entries
    SimCall* free_calls
    Vec[void*] call_blocks
    Vec[uint8_t] scratch
    Vec[uint8_t] items          # taken from a watch

cdef inline void violate(World* world, SimViolation what, uint32_t node, uint64_t a, uint64_t b) noexcept nogil:
    # A folder that was put back may take with it whatever was promised to others (docs/operations.md).
    if world.counts.put_backs != 0 and what != VIOLATION_CUT_SILENTLY and what != VIOLATION_NO_MEMORY:
        return
    # The first one counts; the run ends after the event in which it was seen.
    if world.violation == NO_VIOLATION:
        world.violation = what
        world.violation_node = node
        world.violation_a = a
        world.violation_b = b

# Observers are the last nodes; the others found the cluster.
cdef inline uint32_t member_count(const World* world) noexcept nogil:
    return world.config.nodes - world.config.observers
