# The watches of the ZooKeeper clients of this node: which connection waits for a change of which path, and how.
#
# It decides who is told of an event. It never sends one, reads a znode or judges rights. A pair of a connection and a
# path has one ZkWatch, whose modes are bits: setting a watch twice is one watch, as in ZooKeeper (WatchManager).
#
#     one-shot      HEARS_DATA, HEARS_CHILDREN: gone with the first event that hits it
#     lasting       HEARS_ALWAYS, HEARS_BELOW (also of nodes below, never of lists of children)
#
# Invariants: a ZkWatch has at least one mode; a ZkWatched has at least one ZkWatch; count = modes that are set.
# Sources: ZooKeeper 3.9 server/watch/WatchManager.java, server/DataTree.java (addWatch, containsWatcher, removeWatch).
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Map64, Vec
from raftmeta.status cimport status_t
from raftmeta.wire.commands cimport Bytes

cdef enum ZkHearing:
    HEARS_DATA = 1
    HEARS_CHILDREN = 2
    HEARS_ALWAYS = 4
    HEARS_BELOW = 8
    HEARS_ANY = 15

# The watches of one connection.
cdef struct ZkWatchList:
    ZkWatch* first
    uint32_t count              # of modes that are set
    uint32_t* also              # the same count of its account, shared; NULL: none

cdef struct ZkWatch:
    ZkWatch* next_here          # of its path
    ZkWatch* previous_here
    ZkWatch* next_own           # of its connection
    ZkWatch* previous_own
    ZkWatch* next_pair          # with the same hash of connection and path
    ZkWatchList* own            # of its connection
    ZkWatched* path
    uint32_t place              # of its connection
    uint8_t modes               # ZkHearing

# A path that somebody watches. Its bytes follow.
cdef struct ZkWatched:
    ZkWatched* next             # with the same hash
    ZkWatch* first
    uint64_t hash
    uint32_t length

cdef struct ZkWatchTable:
    Map64[ZkWatched*] by_path
    Map64[ZkWatch*] by_pair
    uint64_t count              # of modes that are set
    uint64_t count_max
    uint64_t paths
    uint64_t recursive          # watches with HEARS_BELOW: without any, no ancestor is looked at

cdef void watch_table_init(ZkWatchTable* table, uint64_t count_max) noexcept nogil
# All connections have dropped their watches.
cdef void watch_table_release(ZkWatchTable* table) noexcept nogil
# own: the list of that connection. OVERLOADED: there are count_max; NO_MEMORY.
cdef status_t watch_table_add(ZkWatchTable* table, ZkWatchList* own, uint32_t place, const Bytes* path,
                              uint8_t mode) noexcept nogil
# Which of the modes this connection has at the path.
cdef uint8_t watch_table_modes(ZkWatchTable* table, uint32_t place, const Bytes* path) noexcept nogil
cdef void watch_table_remove(ZkWatchTable* table, uint32_t place, const Bytes* path, uint8_t modes) noexcept nogil
# The connection is gone.
cdef void watch_table_drop(ZkWatchTable* table, ZkWatchList* own) noexcept nogil
# They are counted there from now on. NULL: nowhere.
cdef void watch_list_count(ZkWatchList* own, uint32_t* also) noexcept nogil
# Append the places of those who watch the path in one of `modes`, and of those who watch a node above it recursively,
# if HEARS_BELOW is among the modes. A connection may stand there twice. One-shot modes among `spent` are taken
# away from all who watch the path. False: no memory; nothing was taken away.
cdef bint watch_table_fire(ZkWatchTable* table, const Bytes* path, uint8_t modes, uint8_t spent,
                           Vec[uint32_t]* places) noexcept nogil
# Whether anybody would be told.
cdef bint watch_table_is_watched(ZkWatchTable* table, const Bytes* path, uint8_t modes) noexcept nogil

cdef inline const uint8_t* watched_path(const ZkWatched* watched) noexcept nogil:
    return <const uint8_t*>watched + sizeof(ZkWatched)
