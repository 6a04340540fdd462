"""The words of four letters: bodies of four_letter.pxd.

Each text is a run of pieces; the first piece for which there is no memory ends it (`and`).
"""
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp
from libc.time cimport gmtime_r, strftime, time_t, tm

from raftmeta.doors.zookeeper.protocol cimport (ZK_ADD_WATCH, ZK_CHECK, ZK_CHECK_WATCHES, ZK_CLOSE_SESSION, ZK_CREATE,
                                                ZK_CREATE2, ZK_CREATE_CONTAINER, ZK_CREATE_TTL, ZK_DELETE, ZK_EXISTS,
                                                ZK_GET_ACL, ZK_GET_ALL_CHILDREN_NUMBER, ZK_GET_CHILDREN,
                                                ZK_GET_CHILDREN2, ZK_GET_DATA, ZK_GET_EPHEMERALS, ZK_MULTI,
                                                ZK_MULTI_READ, ZK_PING, ZK_RECONFIG, ZK_REMOVE_WATCHES, ZK_SET_ACL,
                                                ZK_SET_DATA, ZK_SET_WATCHES, ZK_SET_WATCHES2, ZK_SYNC, ZK_WHO_AM_I)
from raftmeta.doors.zookeeper.texts cimport add_digits, add_hex, add_number, add_text, add_word, text_equals
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport NO_MEMORY, OK, status_t

cdef enum:
    DATE_BYTES = 40
    DECIMALS = 10_000               # of a mean, as ServerStats rounds it

# kazoo and others take the version apart up to the first '-': it says whose behaviour this is.
cdef const char* VERSION = b"3.9.5-raftmeta, built on 2026-11-24 00:00 UTC"
cdef const char* NOT_SERVING = b"This ZooKeeper instance is not currently serving requests\n"
# In the order of FourLetterWord, then those that are never allowed.
cdef const char* WORDS = (b"ruok" b"srvr" b"stat" b"mntr" b"conf" b"cons" b"envi" b"isro" b"wchs" b"wchc"
                          b"wchp" b"dump" b"dirs"
                          b"crst" b"srst" b"gtmk" b"stmk" b"hash" b"icfg" b"lead" b"orst" b"obsr" b"sysp")


# --- which word -------------------------------------------------------------------------------------------------------
cdef FourLetterWord four_letter_find(const uint8_t* bytes) noexcept nogil:
    cdef int i = 0
    while WORDS[i]:
        if memcmp(bytes, WORDS + i, WORD_BYTES) == 0:
            i = i // WORD_BYTES + 1
            return <FourLetterWord>(i if i < WORD_OTHER else WORD_OTHER)
        i += WORD_BYTES
    return WORD_NONE


cdef bint four_letter_allowed(const uint8_t* text, size_t length, uint32_t* into) noexcept nogil:
    cdef size_t at = 0
    cdef FourLetterWord word
    into[0] = 0
    while at < length:
        if text[at] == c"," or text[at] == c" ":
            at += 1
        elif text[at] == c"*":
            into[0] = (<uint32_t>1 << WORD_OTHER) - (1 << WORD_RUOK)
            at += 1
        else:
            word = four_letter_find(text + at) if length - at >= WORD_BYTES else WORD_NONE
            if word == WORD_NONE or word == WORD_OTHER:
                return False
            into[0] |= <uint32_t>1 << word
            at += WORD_BYTES
            if at < length and text[at] != c"," and text[at] != c" ":
                return False
    return True


cdef const char* zk_short_name(int32_t opcode) noexcept nogil:
    if opcode == ZK_CREATE or opcode == ZK_CREATE2 or opcode == ZK_CREATE_CONTAINER or opcode == ZK_CREATE_TTL:
        return b"CREA"
    if opcode == ZK_DELETE:
        return b"DELE"
    if opcode == ZK_EXISTS:
        return b"EXIS"
    if opcode == ZK_GET_DATA:
        return b"GETD"
    if opcode == ZK_SET_DATA:
        return b"SETD"
    if opcode == ZK_GET_ACL:
        return b"GETA"
    if opcode == ZK_SET_ACL:
        return b"SETA"
    if opcode == ZK_GET_CHILDREN or opcode == ZK_GET_CHILDREN2:
        return b"GETC"
    if opcode == ZK_SYNC:
        return b"SYNC"
    if opcode == ZK_PING:
        return b"PING"
    if opcode == ZK_CHECK:
        return b"CHEC"
    if opcode == ZK_MULTI:
        return b"MULT"
    if opcode == ZK_MULTI_READ:
        return b"MLTR"
    if opcode == ZK_RECONFIG:
        return b"RECO"
    if opcode == ZK_SET_WATCHES:
        return b"SETW"
    if opcode == ZK_SET_WATCHES2:
        return b"STW2"
    if opcode == ZK_ADD_WATCH:
        return b"ADDW"
    if opcode == ZK_CHECK_WATCHES:
        return b"CHKW"
    if opcode == ZK_REMOVE_WATCHES:
        return b"REMW"
    if opcode == ZK_GET_EPHEMERALS:
        return b"GETE"
    if opcode == ZK_GET_ALL_CHILDREN_NUMBER:
        return b"GETACN"
    if opcode == ZK_WHO_AM_I:
        return b"HOMI"
    if opcode == ZK_CLOSE_SESSION:
        return b"CLOS"
    return b"NA"


# --- pieces -----------------------------------------------------------------------------------------------------------
# As Java writes a double with at most four decimals: 0.0, 1.25.
cdef bint _add_mean(Vec[uint8_t]* out, uint64_t total, uint64_t count) noexcept nogil:
    cdef uint64_t number = 0
    cdef uint64_t unit = DECIMALS // 10
    if count:
        number = total // count * DECIMALS + (total % count * DECIMALS + count // 2) // count
    if not (add_digits(out, number // DECIMALS, 10) and out.push(c".")):
        return False
    number %= DECIMALS
    while True:
        if not add_digits(out, number // unit, 10):
            return False
        number %= unit
        unit //= 10
        if number == 0:
            return True


# As Date.toString writes it.
cdef bint _add_date(Vec[uint8_t]* out, int64_t wall_ms) noexcept nogil:
    cdef time_t seconds = <time_t>(wall_ms // 1000)
    cdef tm parts
    cdef char[DATE_BYTES] text
    if gmtime_r(&seconds, &parts) == NULL:
        return add_number(out, wall_ms)
    return out.append(<const uint8_t*>text, strftime(text, DATE_BYTES, b"%a %b %d %H:%M:%S UTC %Y", &parts))


cdef bint _line(Vec[uint8_t]* out, const char* name, int64_t value) noexcept nogil:
    return add_word(out, name) and add_number(out, value) and out.push(c"\n")


cdef bint _text_line(Vec[uint8_t]* out, const char* name, const Bytes* value) noexcept nogil:
    return add_word(out, name) and add_text(out, value) and out.push(c"\n")


cdef const char* _mode_name(uint8_t mode) noexcept nogil:
    if mode == MODE_LEADER:
        return b"leader"
    if mode == MODE_FOLLOWER:
        return b"follower"
    if mode == MODE_OBSERVER:
        return b"observer"
    if mode == MODE_READ_ONLY:
        return b"read-only"
    return b"standalone"


# --- the words --------------------------------------------------------------------------------------------------------
cdef const char* _name_of(const ZkConnectionView* one) noexcept nogil:
    if one.last_request == NULL:
        return b"NA"
    return one.last_request


cdef bint _connection(Vec[uint8_t]* out, const ZkConnectionView* one, bint is_brief) noexcept nogil:
    if not (add_word(out, b" /") and add_text(out, &one.address) and add_word(out, b"[1](queued=")
            and add_number(out, one.queued) and add_word(out, b",recved=") and add_digits(out, one.received, 10)
            and add_word(out, b",sent=") and add_digits(out, one.sent, 10)):
        return False
    if is_brief or one.session == 0:
        return add_word(out, b")\n")
    return (add_word(out, b",sid=") and add_hex(out, one.session)
            and add_word(out, b",lop=") and add_word(out, _name_of(one))
            and add_word(out, b",est=") and add_number(out, one.established_ms)
            and add_word(out, b",to=") and add_number(out, one.timeout_ms)
            and (one.last_xid < 0 or (add_word(out, b",lcxid=") and add_hex(out, <uint64_t>one.last_xid)))
            and add_word(out, b",lzxid=") and add_hex(out, one.last_zxid)
            and add_word(out, b",lresp=") and add_number(out, one.last_response_ms)
            and add_word(out, b",llat=") and add_number(out, one.last_latency_ms)
            and add_word(out, b",minlat=") and add_number(out, one.least_latency_ms)
            and add_word(out, b",avglat=")
            and add_number(out, <int64_t>(one.sum_latency_ms // one.sent) if one.sent else 0)
            and add_word(out, b",maxlat=") and add_number(out, one.most_latency_ms) and add_word(out, b")\n"))


cdef bint _connections(Vec[uint8_t]* out, const ZkServerView* view, bint is_brief) noexcept nogil:
    cdef uint32_t i
    for i in range(view.connection_count):
        if not _connection(out, view.connections + i, is_brief):
            return False
    return out.push(c"\n")


cdef bint _stat(Vec[uint8_t]* out, const ZkServerView* view, bint has_clients) noexcept nogil:
    if not (add_word(out, b"Zookeeper version: ") and add_word(out, VERSION) and out.push(c"\n")):
        return False
    if view.mode == MODE_READ_ONLY and not add_word(out, b"READ-ONLY mode; serving only read-only clients\n"):
        return False
    if has_clients and not (add_word(out, b"Clients:\n") and _connections(out, view, True)):
        return False
    if not (add_word(out, b"Latency min/avg/max: ") and add_number(out, view.least_latency_ms) and out.push(c"/")
            and _add_mean(out, view.sum_latency_ms, view.count_latency) and out.push(c"/")
            and _line(out, b"", view.most_latency_ms)
            and _line(out, b"Received: ", <int64_t>view.received) and _line(out, b"Sent: ", <int64_t>view.sent)
            and _line(out, b"Connections: ", view.connection_count) and _line(out, b"Outstanding: ", view.outstanding)
            and add_word(out, b"Zxid: ") and add_hex(out, view.zxid) and add_word(out, b"\nMode: ")
            and add_word(out, _mode_name(view.mode)) and _line(out, b"\nNode count: ", <int64_t>view.node_count)):
        return False
    # A leader of ZooKeeper adds the sizes of its proposals. These are what it says before it has any.
    return view.mode != MODE_LEADER or add_word(out, b"Proposal sizes last/min/max: -1/-1/-1\n")


cdef bint _mntr(Vec[uint8_t]* out, const ZkServerView* view) noexcept nogil:
    if not (add_word(out, b"zk_version\t") and add_word(out, VERSION) and add_word(out, b"\nzk_server_state\t")
            and add_word(out, _mode_name(view.mode)) and out.push(c"\n")
            and _line(out, b"zk_ephemerals_count\t", <int64_t>view.ephemeral_count)
            and _line(out, b"zk_num_alive_connections\t", view.connection_count)
            and add_word(out, b"zk_avg_latency\t") and _add_mean(out, view.sum_latency_ms, view.count_latency)
            and _line(out, b"\nzk_outstanding_requests\t", view.outstanding)
            and _line(out, b"zk_znode_count\t", <int64_t>view.node_count)
            and _line(out, b"zk_global_sessions\t", <int64_t>view.session_count)
            and _line(out, b"zk_local_sessions\t", 0)
            and _line(out, b"zk_packets_sent\t", <int64_t>view.sent)
            and _line(out, b"zk_packets_received\t", <int64_t>view.received)
            and _line(out, b"zk_watch_count\t", <int64_t>view.watch_count)
            and _line(out, b"zk_min_latency\t", view.least_latency_ms)
            and _line(out, b"zk_max_latency\t", view.most_latency_ms)
            and _line(out, b"zk_approximate_data_size\t", <int64_t>view.data_bytes)
            and _line(out, b"zk_open_file_descriptor_count\t", view.open_descriptors)
            and _line(out, b"zk_max_file_descriptor_count\t", view.descriptors_max)
            and _line(out, b"zk_uptime\t", <int64_t>view.uptime_ms)):
        return False
    if view.mode != MODE_LEADER:
        return True
    return (_line(out, b"zk_quorum_size\t", view.voter_count)
            and _line(out, b"zk_learners\t", view.follower_count)
            and _line(out, b"zk_synced_followers\t", view.follower_count)
            and _line(out, b"zk_pending_syncs\t", 0))


cdef bint _conf(Vec[uint8_t]* out, const ZkServerView* view) noexcept nogil:
    return (_line(out, b"clientPort=", view.port) and _text_line(out, b"dataDir=", &view.folder)
            and _line(out, b"dataDirSize=", <int64_t>view.folder_bytes)
            and _text_line(out, b"dataLogDir=", &view.folder)
            and _line(out, b"dataLogSize=", <int64_t>view.log_bytes) and _line(out, b"tickTime=", view.tick_ms)
            and _line(out, b"maxClientCnxns=", view.connections_max)
            and _line(out, b"minSessionTimeout=", view.timeout_least_ms)
            and _line(out, b"maxSessionTimeout=", view.timeout_most_ms)
            and _line(out, b"clientPortListenBacklog=", -1) and _line(out, b"serverId=", <int64_t>view.server_id))


cdef bint _envi(Vec[uint8_t]* out, const ZkServerView* view) noexcept nogil:
    return (add_word(out, b"Environment:\nzookeeper.version=") and add_word(out, VERSION)
            and _text_line(out, b"\nhost.name=", &view.host) and add_word(out, b"os.name=Linux\n")
            and _text_line(out, b"user.dir=", &view.folder))


# Paths below the session that owns or watches them, or sessions below the path.
cdef bint _grouped(Vec[uint8_t]* out, const ZkServerView* view, bint by_path, const char* end) noexcept nogil:
    cdef const ZkPathView* one
    cdef const ZkPathView* before = NULL
    cdef bint is_new
    cdef uint32_t i
    for i in range(view.path_count):
        one = view.paths + i
        if by_path:
            is_new = before == NULL or not text_equals(&before.path, &one.path)
            if is_new and not (add_text(out, &one.path) and add_word(out, end)):
                return False
            if not (out.push(c"\t") and add_hex(out, one.session) and out.push(c"\n")):
                return False
        else:
            is_new = before == NULL or before.session != one.session
            if is_new and not (add_hex(out, one.session) and add_word(out, end)):
                return False
            if not (out.push(c"\t") and add_text(out, &one.path) and out.push(c"\n")):
                return False
        before = one
    return True


cdef uint32_t _owner_count(const ZkServerView* view) noexcept nogil:
    cdef uint32_t count = 0
    cdef uint32_t i
    for i in range(view.path_count):
        count += i == 0 or view.paths[i].session != view.paths[i - 1].session
    return count


cdef bint _dump(Vec[uint8_t]* out, const ZkServerView* view) noexcept nogil:
    cdef uint32_t i
    if not (add_word(out, b"SessionTracker dump:\nSession Sets (") and add_number(out, view.sessions_listed)
            and add_word(out, b")/(") and add_number(out, view.sessions_listed) and add_word(out, b"):\n")):
        return False
    for i in range(view.sessions_listed):
        if not (add_word(out, b"1 expire at ") and _add_date(out, view.wall_ms + view.sessions[i].expires_ms)
                and add_word(out, b":\n\t") and add_hex(out, view.sessions[i].session) and out.push(c"\n")):
            return False
    if not (add_word(out, b"ephemeral nodes dump:\nSessions with Ephemerals (") and add_number(out, _owner_count(view))
            and add_word(out, b"):\n") and _grouped(out, view, False, b":\n")
            and add_word(out, b"Connections dump:\nConnections Sets (") and add_number(out, view.connection_count)
            and add_word(out, b")/(") and add_number(out, view.connection_count) and add_word(out, b"):\n")):
        return False
    for i in range(view.connection_count):
        if not (add_word(out, b"1 expire at ") and _add_date(out, view.wall_ms + view.connections[i].timeout_ms)
                and add_word(out, b":\n\tip: /") and add_text(out, &view.connections[i].address)
                and add_word(out, b" sessionId: ") and add_hex(out, view.connections[i].session)
                and out.push(c"\n")):
            return False
    return True


cdef bint _answer(FourLetterWord word, const ZkServerView* view, Vec[uint8_t]* out) noexcept nogil:
    if word == WORD_RUOK:
        return add_word(out, b"imok")
    if word == WORD_ISRO:
        if not view.is_ready:
            return add_word(out, b"null")
        return add_word(out, b"ro") if view.mode == MODE_READ_ONLY else add_word(out, b"rw")
    if word == WORD_ENVI:
        return _envi(out, view)
    if not view.is_ready:
        return add_word(out, NOT_SERVING)
    if word == WORD_SRVR or word == WORD_STAT:
        return _stat(out, view, word == WORD_STAT)
    if word == WORD_MNTR:
        return _mntr(out, view)
    if word == WORD_CONF:
        return _conf(out, view)
    if word == WORD_CONS:
        return _connections(out, view, False)
    if word == WORD_WCHS:
        return (add_number(out, view.watcher_count) and add_word(out, b" connections watching ")
                and add_number(out, view.watched_paths) and add_word(out, b" paths\nTotal watches:")
                and _line(out, b"", <int64_t>view.watch_count))
    if word == WORD_WCHC or word == WORD_WCHP:
        return _grouped(out, view, word == WORD_WCHP, b"\n") and out.push(c"\n")
    if word == WORD_DUMP:
        return _dump(out, view)
    return (_line(out, b"datadir_size: ", <int64_t>view.folder_bytes)
            and _line(out, b"logdir_size: ", <int64_t>view.log_bytes))


cdef bint _refuse(FourLetterWord word, Vec[uint8_t]* out) noexcept nogil:
    if word == WORD_NONE or word == WORD_OTHER:
        if not add_word(out, b"The word"):
            return False
    elif not out.append(<const uint8_t*>WORDS + WORD_BYTES * (word - 1), WORD_BYTES):
        return False
    return add_word(out, b" is not executed because it is not in the whitelist.\n")


cdef status_t four_letter_answer(FourLetterWord word, uint32_t allowed, const ZkServerView* view,
                                 Vec[uint8_t]* out) noexcept nogil:
    if word == WORD_NONE or word == WORD_OTHER or not allowed >> word & 1:
        return OK if _refuse(word, out) else NO_MEMORY
    return OK if _answer(word, view, out) else NO_MEMORY
