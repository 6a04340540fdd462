"""Words of four letters: the door gathers their numbers.

It decides nothing. Numbers about the whole tree need a walk over it. A large tree is counted in parts, so that no
client waits for it, and again when the count is TUNE_COUNTED_NS old.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport qsort
from libc.string cimport memcpy, memset, strlen

from raftmeta._core cimport LEADER
from raftmeta.connections.state cimport CONNECTION_FREE, CONNECTION_OPEN
from raftmeta.doors.desk.desk cimport desk_pin
from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.zookeeper.four_letter cimport (MODE_FOLLOWER, MODE_LEADER, MODE_OBSERVER, MODE_READ_ONLY,
                                                   MODE_STANDALONE, WORD_CONS, WORD_DUMP, WORD_MNTR, WORD_SRVR,
                                                   WORD_STAT, WORD_WCHC, WORD_WCHP, ZkConnectionView, ZkPathView,
                                                   ZkServerView, ZkSessionView, four_letter_answer, zk_short_name)
from raftmeta.doors.zookeeper.reads cimport Below, reads_begin_below, reads_next_below
from raftmeta.doors.zookeeper.state cimport ZkCensus, ZkTreeSize
from raftmeta.doors.zookeeper.watch_table cimport ZkWatch, ZkWatched, watched_path
from raftmeta.machine.entry cimport Entry, entry_key
from raftmeta.machine.tree cimport cursor_seek
from raftmeta.machine.znodes cimport ZnodeView
from raftmeta.native.threads cimport wall_now_ms
from raftmeta.net.posix cimport AF_INET, AF_INET6, sockaddr, sockaddr_storage, socklen_t
from raftmeta.raft.types cimport VOTER_INCOMING
from raftmeta.wire.commands cimport Bytes
from raftmeta.wire.znodes cimport ZNODE_EPHEMERAL

cdef extern from "<sys/socket.h>" nogil:
    int getpeername(int fd, sockaddr* address, socklen_t* length)

cdef extern from "<arpa/inet.h>" nogil:
    const char* inet_ntop(int family, const void* bytes, char* into, socklen_t room)

cdef extern from "<unistd.h>" nogil:
    int gethostname(char* into, size_t room)

cdef extern from "<dirent.h>" nogil:
    ctypedef struct DIR:
        pass
    struct dirent:
        pass
    DIR* opendir(const char* path)
    dirent* readdir(DIR* folder)
    int closedir(DIR* folder)

cdef enum:
    TUNE_COUNTED_NS = 60_000_000_000
    TUNE_CENSUS_PART = 4_000    # nodes that are counted in one turn: half a millisecond
    HOST_BYTES = 256
    PEER_BYTES = 64
    NS_PER_MS = 1_000_000
    ENTRIES_OF_A_FOLDER = 3     # ".", ".." and the listing's own descriptor


# The memory that a view points into.
cdef struct Gathered:
    char[HOST_BYTES] host
    Vec[ZkConnectionView] connections
    Vec[ZkSessionView] sessions
    Vec[ZkPathView] paths
    Vec[uint8_t] texts          # addresses of connections, PEER_BYTES each


# --- numbers ----------------------------------------------------------------------------------------------------------
cdef uint32_t _open_descriptors() noexcept nogil:
    cdef DIR* folder = opendir(b"/proc/self/fd")
    cdef uint32_t count = 0
    if folder == NULL:
        return 0
    while readdir(folder) != NULL:
        count += 1
    closedir(folder)
    return count - ENTRIES_OF_A_FOLDER if count > ENTRIES_OF_A_FOLDER else 0


# --- the size of the tree ---------------------------------------------------------------------------------------------
cdef inline void _add(ZkDoor* door, ZkTreeSize* size, const Entry* entry, const ZnodeView* view) noexcept nogil:
    size.nodes += 1
    size.data_bytes += view.data.length + entry.key_length - door.root_length
    size.ephemerals += view.meta.kind == ZNODE_EPHEMERAL


cdef void _begin_census(ZkDoor* door) noexcept nogil:
    door.census.is_going = True
    memset(&door.census.size, 0, sizeof(ZkTreeSize))
    door.census.size.nodes = 1          # "/", which is not below itself
    door.census.key_length = 0


# The tree may change between two parts: of a large one the count is as exact as a moving thing allows.
cdef void census_go(ZkDoor* door) noexcept nogil:
    cdef ZkCensus* census = &door.census
    cdef Below below
    cdef Bytes name
    cdef Bytes top = bytes_of(<const uint8_t*><const char*>b"/", 1)
    cdef ZnodeView view
    cdef const Entry* entry
    if not census.is_going:
        return
    if not desk_pin(&door.desk, door.position):
        census.is_going = False         # whoever asks next begins anew
        return
    reads_begin_below(door, &top, &below)
    if census.key_length:
        cursor_seek(&below.cursor, door.desk.pinned, census.key, <uint16_t>census.key_length)
    for _ in range(TUNE_CENSUS_PART):
        entry = reads_next_below(door, &below, &name, &view)
        if entry == NULL:
            census.is_going = False
            door.size = census.size
            door.counted_ns = door.desk.base.now_ns
            return
        _add(door, &census.size, entry, &view)
    memcpy(census.key, entry_key(entry), entry.key_length)
    census.key[entry.key_length] = 0    # the least key above it
    census.key_length = entry.key_length + 1


cdef void _list_ephemerals(ZkDoor* door, Vec[ZkPathView]* paths) noexcept nogil:
    cdef Below below
    cdef Bytes name
    cdef Bytes top = bytes_of(<const uint8_t*><const char*>b"/", 1)
    cdef ZnodeView view
    cdef ZkPathView path
    cdef const Entry* entry
    if not desk_pin(&door.desk, door.position):
        return
    reads_begin_below(door, &top, &below)
    entry = reads_next_below(door, &below, &name, &view)
    while entry != NULL:
        if view.meta.kind == ZNODE_EPHEMERAL:
            path.session = entry.lease
            path.path = bytes_of(entry_key(entry) + door.root_length, entry.key_length - door.root_length)
            paths.push(path)
        entry = reads_next_below(door, &below, &name, &view)


# Of a small tree the size is that of now. One that was never counted whole shows as much as was counted.
cdef ZkTreeSize _size_of_tree(ZkDoor* door) noexcept nogil:
    cdef bint is_old = door.counted_ns == 0 or door.desk.base.now_ns - door.counted_ns > TUNE_COUNTED_NS
    if not door.census.is_going and (is_old or door.size.nodes < TUNE_CENSUS_PART):
        _begin_census(door)
        census_go(door)
    return door.census.size if door.counted_ns == 0 else door.size


cdef uint8_t _mode(const ZkDoor* door) noexcept nogil:
    cdef int i
    if door.is_minority:
        return MODE_READ_ONLY
    if door.desk.membership.count == 1:
        return MODE_STANDALONE
    if door.desk.status.core.role == LEADER:
        return MODE_LEADER
    for i in range(door.desk.membership.count):
        if (door.desk.membership.members[i].id == door.desk.status.id
                and door.desk.membership.members[i].roles & VOTER_INCOMING):
            return MODE_FOLLOWER
    return MODE_OBSERVER


cdef void _members(const ZkDoor* door, ZkServerView* view) noexcept nogil:
    cdef int i
    for i in range(door.desk.membership.count):
        view.voter_count += (door.desk.membership.members[i].roles & VOTER_INCOMING) != 0
        if door.desk.membership.members[i].id == door.desk.status.id:
            view.server_id = <uint64_t>i + 1
    view.follower_count = view.voter_count - 1 if view.voter_count else 0


# --- lists ------------------------------------------------------------------------------------------------------------
# The other end of a socket as text, into PEER_BYTES.
cdef void _peer(int fd, char* into) noexcept nogil:
    cdef sockaddr_storage storage
    cdef const uint8_t* bytes = <const uint8_t*>&storage
    cdef socklen_t length = sizeof(sockaddr_storage)
    cdef uint32_t port
    cdef size_t at
    cdef char[8] digits
    cdef int count = 0
    memset(&storage, 0, sizeof(storage))
    into[0] = 0
    if getpeername(fd, <sockaddr*>&storage, &length) != 0:
        return
    if storage.ss_family == AF_INET:
        inet_ntop(AF_INET, bytes + 4, into, PEER_BYTES - 8)
    elif storage.ss_family == AF_INET6:
        inet_ntop(AF_INET6, bytes + 8, into, PEER_BYTES - 8)
    else:
        return
    port = <uint32_t>bytes[2] << 8 | bytes[3]
    at = strlen(into)
    into[at] = c':'
    at += 1
    while count == 0 or port:
        digits[count] = <char>(c'0' + port % 10)
        port //= 10
        count += 1
    while count:
        count -= 1
        into[at] = digits[count]
        at += 1
    into[at] = 0


cdef void _list_connections(ZkDoor* door, const ZkConnection* asking, Gathered* gathered) noexcept nogil:
    cdef ZkConnectionView view
    cdef const ZkConnection* connection
    cdef uint32_t place
    cdef size_t i
    for place in range(door.desk.base.limits.connections_max):
        connection = &door.connections[place]
        if connection.base.state == CONNECTION_FREE or connection == asking:
            continue
        memset(&view, 0, sizeof(view))
        if not gathered.texts.resize(gathered.texts.size + PEER_BYTES):
            break
        _peer(connection.base.stream.fd, <char*>gathered.texts.data + gathered.texts.size - PEER_BYTES)
        view.session = connection.session
        view.queued = connection.task_count
        view.received = connection.traffic.received
        view.sent = connection.traffic.sent
        view.timeout_ms = <int>connection.timeout_ms
        view.established_ms = connection.since_ms
        view.last_xid = connection.last_xid
        view.last_request = zk_short_name(connection.last_opcode) if connection.last_opcode != 0 else NULL
        view.last_zxid = connection.last_zxid
        view.last_response_ms = connection.answered_ms
        view.last_latency_ms = connection.last_latency_ms
        view.least_latency_ms = connection.traffic.latency_least_ms
        view.sum_latency_ms = connection.traffic.latency_sum_ms
        view.most_latency_ms = connection.traffic.latency_most_ms
        if not gathered.connections.push(view):
            break
    for i in range(gathered.connections.size):      # now that the texts stay where they are
        gathered.connections.data[i].address = bytes_of(
            gathered.texts.data + i * PEER_BYTES, strlen(<const char*>gathered.texts.data + i * PEER_BYTES))


cdef void _list_sessions(ZkDoor* door, Gathered* gathered) noexcept nogil:
    cdef ZkSessionView view
    cdef const ZkConnection* connection
    cdef uint32_t place
    for place in range(door.desk.base.limits.connections_max):
        connection = &door.connections[place]
        if connection.base.state == CONNECTION_OPEN:
            view.session = connection.session
            view.expires_ms = <int64_t>connection.timeout_ms
            view.expires_ms -= <int64_t>((door.desk.base.now_ns - connection.base.heard_ns) // NS_PER_MS)
            gathered.sessions.push(view)


cdef int _by_session(const void* left, const void* right) noexcept nogil:
    cdef uint64_t a = (<const ZkPathView*>left).session
    cdef uint64_t b = (<const ZkPathView*>right).session
    return (a > b) - (a < b)


cdef void _list_watches(ZkDoor* door, Gathered* gathered) noexcept nogil:
    cdef size_t position = door.table.by_path.next(0)
    cdef const ZkWatched* watched
    cdef const ZkWatch* watch
    cdef ZkPathView view
    while position < door.table.by_path.end():
        watched = door.table.by_path.value_at(position)
        while watched != NULL:
            watch = watched.first
            while watch != NULL:
                view.session = door.connections[watch.place].session
                view.path = bytes_of(watched_path(watched), watched.length)
                gathered.paths.push(view)
                watch = watch.next_here
            watched = watched.next
        position = door.table.by_path.next(position + 1)


cdef uint32_t _watchers(const ZkDoor* door) noexcept nogil:
    cdef uint32_t count = 0
    cdef uint32_t place
    for place in range(door.desk.base.limits.connections_max):
        count += door.connections[place].watches.first != NULL
    return count


# --- the answer -------------------------------------------------------------------------------------------------------
cdef void _fill(ZkDoor* door, ZkServerView* view, Gathered* gathered, const ZkTreeSize* size) noexcept nogil:
    view.mode = _mode(door)
    view.is_ready = door.is_serving or door.is_minority
    view.zxid = door.position
    view.received = door.traffic.received
    view.sent = door.traffic.sent
    view.outstanding = door.writes
    view.least_latency_ms = door.traffic.latency_least_ms
    view.sum_latency_ms = door.traffic.latency_sum_ms
    view.count_latency = door.traffic.latency_count
    view.most_latency_ms = door.traffic.latency_most_ms
    view.node_count = size.nodes
    view.data_bytes = size.data_bytes
    view.ephemeral_count = size.ephemerals
    view.session_count = door.sessions.size
    view.watch_count = door.table.count
    view.watcher_count = _watchers(door)
    view.watched_paths = <uint32_t>door.table.paths
    view.wall_ms = <int64_t>wall_now_ms()
    view.uptime_ms = (door.desk.base.now_ns - door.desk.started_ns) // NS_PER_MS
    view.open_descriptors = _open_descriptors()
    view.descriptors_max = <uint32_t>min(door.desk.base.descriptors_max, <uint64_t>0x7FFFFFFF)
    view.address = bytes_of(door.address, door.address_length)
    view.host = bytes_of(<const uint8_t*>gathered.host, strlen(gathered.host))
    view.folder = bytes_of(door.folder.data, door.folder.size)
    view.log_bytes = door.desk.status.log_bytes
    view.port = door.port
    view.tick_ms = door.limits.tick_ms
    view.timeout_least_ms = 2 * door.limits.tick_ms
    view.timeout_most_ms = 20 * door.limits.tick_ms
    view.connections_max = door.desk.base.limits.connections_max
    view.connections = gathered.connections.data
    view.connection_count = <uint32_t>gathered.connections.size
    view.sessions = gathered.sessions.data
    view.sessions_listed = <uint32_t>gathered.sessions.size
    view.paths = gathered.paths.data
    view.path_count = <uint32_t>gathered.paths.size
    _members(door, view)


cdef void word_answer(ZkDoor* door, ZkConnection* connection, FourLetterWord word, Vec[uint8_t]* out) noexcept nogil:
    cdef ZkServerView view
    cdef Gathered gathered
    cdef ZkTreeSize size = door.size
    memset(&view, 0, sizeof(view))
    memset(&gathered, 0, sizeof(gathered))
    gethostname(gathered.host, HOST_BYTES - 1)
    if word == WORD_DUMP:
        _list_ephemerals(door, &gathered.paths)
        _list_sessions(door, &gathered)
    elif word in (WORD_MNTR, WORD_SRVR, WORD_STAT):
        size = _size_of_tree(door)
    if word in (WORD_CONS, WORD_STAT):
        _list_connections(door, connection, &gathered)
    if word in (WORD_WCHC, WORD_WCHP):
        _list_watches(door, &gathered)
    if word in (WORD_WCHC, WORD_DUMP) and gathered.paths.size:
        qsort(gathered.paths.data, gathered.paths.size, sizeof(ZkPathView), _by_session)
    _fill(door, &view, &gathered, &size)
    four_letter_answer(word, door.limits.words_allowed, &view, out)
    gathered.connections.release()
    gathered.sessions.release()
    gathered.paths.release()
    gathered.texts.release()
