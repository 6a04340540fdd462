# The words of four letters that operators and kazoo send instead of a connect request, and the text they get. Pure.
#
# The door gathers numbers and lists; this module only writes. Text and order of lines are those of ZooKeeper 3.9.5,
# because programs parse them (kazoo: `envi`, exporters: `mntr`, scripts: `srvr`, `stat`, `ruok`, `isro`).
# Source: apache/zookeeper 3.9.5, server/command/*.java, ZooKeeperServer.dumpMonitorValues, dumpConf.
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Vec
from raftmeta.status cimport status_t
from raftmeta.wire.commands cimport Bytes

cdef enum:
    WORD_BYTES = 4

cdef enum FourLetterWord:
    WORD_NONE = 0
    WORD_RUOK = 1
    WORD_SRVR = 2
    WORD_STAT = 3
    WORD_MNTR = 4
    WORD_CONF = 5
    WORD_CONS = 6
    WORD_ENVI = 7
    WORD_ISRO = 8
    WORD_WCHS = 9
    WORD_WCHC = 10
    WORD_WCHP = 11
    WORD_DUMP = 12
    WORD_DIRS = 13
    WORD_OTHER = 14             # one that a ZooKeeper knows besides: crst, srst, gtmk, stmk, hash, icfg, lead, orst,
                                # obsr, sysp; never allowed, for it changes a server or shows what ours does not have

cdef enum ZkMode:
    MODE_LEADER = 0
    MODE_FOLLOWER = 1
    MODE_OBSERVER = 2
    MODE_READ_ONLY = 3
    MODE_STANDALONE = 4

cdef struct ZkConnectionView:
    Bytes address               # ip:port
    uint64_t session            # 0: none yet
    uint32_t queued             # requests under way
    uint64_t received
    uint64_t sent
    int32_t timeout_ms
    int64_t established_ms      # wall time
    int32_t last_xid
    uint64_t last_zxid
    int64_t last_response_ms    # wall time
    uint32_t last_latency_ms
    uint32_t least_latency_ms
    uint64_t sum_latency_ms
    uint32_t most_latency_ms
    const char* last_request    # of the last answer, as zk_short_name has it; NULL: none yet

cdef struct ZkSessionView:
    uint64_t session
    int64_t expires_ms          # from now

# An ephemeral (dump) or a watch (wchc, wchp). Sorted by what the word groups by.
cdef struct ZkPathView:
    uint64_t session
    Bytes path

cdef struct ZkServerView:
    uint8_t mode                # ZkMode
    bint is_ready               # False: all words but ruok, isro and envi are told that it serves nobody
    int64_t wall_ms             # now
    uint64_t zxid
    uint64_t received           # requests since the door opened
    uint64_t sent
    uint32_t outstanding
    uint32_t least_latency_ms
    uint64_t sum_latency_ms
    uint64_t count_latency
    uint32_t most_latency_ms
    uint64_t node_count
    uint64_t data_bytes
    uint64_t ephemeral_count
    uint64_t session_count
    uint64_t watch_count        # pairs of a watcher and a path
    uint32_t watcher_count      # connections that watch something
    uint32_t watched_paths
    uint32_t follower_count     # of a leader: peers that have caught up
    uint32_t voter_count
    uint64_t uptime_ms
    uint32_t open_descriptors
    uint32_t descriptors_max
    Bytes address               # host:port that the door listens on
    Bytes host                  # host name
    Bytes folder                # the node's folder
    uint64_t folder_bytes       # of snapshots; of the log
    uint64_t log_bytes
    uint32_t port
    uint32_t tick_ms
    uint32_t timeout_least_ms
    uint32_t timeout_most_ms
    uint32_t connections_max
    uint64_t server_id          # its place among the members, from 1
    const ZkConnectionView* connections
    uint32_t connection_count
    const ZkSessionView* sessions
    uint32_t sessions_listed
    const ZkPathView* paths     # dump: ephemerals by session; wchc: watches by session; wchp: watches by path
    uint32_t path_count

# The word that a connection begins with; WORD_NONE: these four bytes are the length of a frame.
cdef FourLetterWord four_letter_find(const uint8_t* bytes) noexcept nogil
# The words of a setting, as a set of bits (1 << FourLetterWord): names with commas between, or '*' for all, and blanks
# around. False: one is no word.
cdef bint four_letter_allowed(const uint8_t* text, size_t length, uint32_t* into) noexcept nogil
# The four letters by which `cons` shows a request: CREA, GETD, PING; NA if there are none.
cdef const char* zk_short_name(int32_t opcode) noexcept nogil
# Append the whole answer; the connection closes behind it. A word that is not allowed is answered so.
cdef status_t four_letter_answer(FourLetterWord word, uint32_t allowed, const ZkServerView* view,
                                 Vec[uint8_t]* out) noexcept nogil
