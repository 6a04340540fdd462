# The structs of the ZooKeeper door: connections, what they wait for, and the door's own session with the cluster.
#
# They belong to one native thread. Other threads touch only the end of ZkDoor, and what the Desk names.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from raftmeta.connections.state cimport Connection, ConnectionCounters
from raftmeta.doors.desk.state cimport Desk, DeskTask
from raftmeta.doors.zookeeper.auth cimport ZkAuthSettings, ZkSasl, ZkSaslUser, ZkSpeaker
from raftmeta.doors.zookeeper.codec cimport ZK_PASSWORD_BYTES, ZkConnect
from raftmeta.doors.zookeeper.translate cimport ZkArena
from raftmeta.doors.zookeeper.watch_table cimport ZkWatchList, ZkWatchTable
from raftmeta.native.containers cimport Map64, Vec
from raftmeta.native.threads cimport Published
from raftmeta.raft.types cimport ADDRESS_BYTES_MAX, index_t
from raftmeta.wire.commands cimport KEY_BYTES_MAX

cdef enum:
    ZK_FRAME_BYTES_MAX = (1 << 20) + 1024       # jute.maxbuffer of 1 MiB, and its slack
    TUNE_TASKS_MAX = 1024       # requests of one connection under way; then it is not read on
    TUNE_TASK_BYTES = 4 << 20   # bytes of them
    TUNE_READS_PASSED = 64      # reads of one connection that wait while a write behind them is on its way
    TUNE_OUT_BYTES = 1 << 18    # waiting to be sent: a connection with more is not read on
    TUNE_OUT_BYTES_MAX = 64 << 20       # of events and answers that it does not read: then it is closed
    FORMAT_SESSION_KEY_BYTES = 26       # "-sessions/" and 16 hexadecimal digits, behind the root
    ROOT_BYTES_MAX = 64
    SUPER_DIGEST_BYTES_MAX = 256

cdef struct ZkLimits:
    uint32_t writes_max         # commands under way
    uint32_t tick_ms            # sessions last 2 to 20 of them
    uint32_t words_allowed      # 1 << FourLetterWord
    uint64_t watches_max
    uint32_t outstanding_max
    bint reads_linearizable
    bint has_ttl                # nodes with a time to live may be made
    bint needs_rights

# The purpose of a ticket, behind those of the desk (doors/desk/state TASK_OF_DOOR).
cdef enum ZkTaskKind:
    TASK_WRITE = 16             # of a connection, in its queue
    TASK_READ = 17              # the same, without a ticket: it waits for its turn, or a read round
    TASK_CLOSE = 18             # of its session; in its queue
    TASK_CONNECT = 19           # a step of making or finding a session (ZkConnection.step)
    TASK_KEEP_ALIVE = 20

cdef struct ZkTask:
    DeskTask base               # first
    ZkTask* next                # of its connection, in order of arrival
    uint64_t after              # sequence of the write of its session before it
    uint64_t retry_ns           # AGAIN: not before
    int32_t error               # not 0: what the request is answered with
    uint32_t position           # ... of the operation of a multi that it is of
    uint8_t is_behind_read      # a read before it in its queue was not served when it was submitted

# A write that was carried out while a read before it waits: the position does not reach its revision before that read
# was served.
cdef struct ZkStop:
    uint64_t revision
    uint32_t place              # of the connection
    uint32_t generation

cdef enum ZkConnectStep:
    STEP_BEGIN = 0              # until the door serves
    STEP_GRANT = 1              # a lease for a new session
    STEP_KEY = 2                # its key
    STEP_LOOK = 3               # a read index, to find the key of a session of old
    STEP_CLAIM = 4              # make its key anew
    STEP_RENEW = 5              # renew its lease: from here on it lasts its whole time-out
    STEP_REACH = 6              # wait until this node has seen as much as the client

cdef struct ZkTraffic:
    uint64_t received
    uint64_t sent
    uint64_t latency_sum_ms
    uint64_t latency_count
    uint32_t latency_least_ms
    uint32_t latency_most_ms

cdef struct ZkConnection:
    Connection base             # first; it is unbound until it has a session
    uint8_t step                # ZkConnectStep, while CONNECTING
    uint8_t is_read_only
    uint64_t told_ns            # heard_ns, as a keep-alive of its session told it last
    ZkTask* first               # requests under way, in order
    ZkTask* last
    uint32_t task_count
    uint32_t reads              # of them, not served yet
    uint32_t rounds             # of the reads, those that wait for a read round
    uint32_t held               # writes that wait for reads before them, and were not submitted yet
    uint64_t task_bytes
    ZkConnect connect           # what it asked for
    uint8_t[ZK_PASSWORD_BYTES] password
    uint64_t session            # 0: none
    uint64_t fence              # create revision of the session's key; 0: not made yet
    uint64_t claimed            # the newest one that an event told
    uint32_t timeout_ms
    uint64_t last_sequence      # of its last write
    uint64_t round              # read round that it waits for, while CONNECTING
    ZkSpeaker speaker
    ZkSasl sasl
    ZkWatchList watches
    uint64_t event_mark         # of the last event that it was told
    int64_t since_ms            # wall time of its session
    int64_t answered_ms         # ... of the last answer
    int32_t last_xid
    int32_t last_opcode
    uint64_t last_zxid
    uint32_t last_latency_ms
    ZkTraffic traffic

cdef struct ZkCounters:
    ConnectionCounters base
    uint64_t sessions           # served now
    uint64_t sessions_opened
    uint64_t sessions_moved     # that came here from another connection or node
    uint64_t sessions_expired
    uint64_t requests
    uint64_t writes
    uint64_t reads
    uint64_t sent_again         # writes that overtook the one before them
    uint64_t events
    uint64_t watches
    uint64_t watched_paths
    uint64_t memory

cdef struct ZkTreeSize:
    uint64_t nodes
    uint64_t data_bytes         # of data and paths
    uint64_t ephemerals

# A count of the tree that is made in parts, a part in each turn.
cdef struct ZkCensus:
    bint is_going
    ZkTreeSize size             # so far
    uint32_t key_length
    uint8_t[KEY_BYTES_MAX + 1] key      # the next part begins with the first key that is not below this one

cdef struct ZkDoor:
    Desk desk                   # first
    ZkLimits limits
    uint8_t root_length
    uint8_t[ROOT_BYTES_MAX] root
    uint8_t address_length
    uint8_t[ADDRESS_BYTES_MAX] address
    uint32_t port
    Vec[uint8_t] folder         # of the node
    ZkAuthSettings auth
    uint8_t[SUPER_DIGEST_BYTES_MAX] super_digest
    Vec[uint8_t] sasl_texts
    Vec[ZkSaslUser] sasl_users
    ZkConnection* connections   # those of `desk.base`
    Map64[uint32_t] sessions    # place + 1 of the connection that serves it
    ZkWatchTable table
    Vec[uint32_t] places        # scratch of events
    uint64_t event_number
    Vec[uint64_t] heard         # sessions whose connections closed after a word that no keep-alive has told yet
    uint32_t writes             # under way
    uint32_t writes_behind      # of them, those with is_behind_read
    uint32_t keep_alives        # under way
    uint64_t keep_alive_ns      # when the next one is due
    uint64_t position           # all events up to here were told; reads show the state at this revision
    Vec[ZkStop] stops           # ahead of the position, by revision
    index_t membership_index    # whose change was told
    uint64_t rights_revision    # that the connections were looked at under
    bint is_serving             # sessions can be made
    bint is_minority            # no leader for so long that clients are sent elsewhere
    ZkArena arena
    Vec[uint8_t] body
    ZkTraffic traffic
    ZkTreeSize size             # of the tree, as it was counted last (words.pyx)
    uint64_t counted_ns         # when; 0: never
    ZkCensus census
    ZkCounters counters
    # Shared:
    Published[ZkCounters] published
