"""Keys of ZooKeeper sessions: bodies."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from raftmeta.connections.connections cimport connection_fail
from raftmeta.connections.state cimport CONNECTION_OPEN
from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.zookeeper.codec cimport ZK_PASSWORD_BYTES
from raftmeta.doors.zookeeper.quotas cimport quotas_session_ended
from raftmeta.doors.zookeeper.reads cimport reads_entry
from raftmeta.doors.zookeeper.state cimport FORMAT_SESSION_KEY_BYTES
from raftmeta.machine.entry cimport ENTRY_TOMBSTONE, Entry, entry_value
from raftmeta.native.sha256 cimport are_equal_in_constant_time, sha256

cdef enum:
    PREFIX_BYTES = 10
    DIGITS = 16

# FORMAT_.
cdef const char* PREFIX = b"-sessions/"
cdef const char* HEXADECIMAL = b"0123456789abcdef"


# --- bytes ------------------------------------------------------------------------------------------------------------
cdef uint32_t session_key(const ZkDoor* door, uint64_t session, uint8_t* into) noexcept nogil:
    cdef uint8_t* at = into + door.root_length
    cdef int i
    memcpy(into, door.root, door.root_length)
    memcpy(at, PREFIX, PREFIX_BYTES)
    for i in range(DIGITS):
        at[PREFIX_BYTES + i] = HEXADECIMAL[session >> (60 - 4 * i) & 15]
    return door.root_length + FORMAT_SESSION_KEY_BYTES


cdef uint64_t session_key_id(const ZkDoor* door, const Bytes* key) noexcept nogil:
    cdef const uint8_t* at = key.data + door.root_length
    cdef uint64_t session = 0
    cdef int i, digit
    if key.length != <uint32_t>(door.root_length + FORMAT_SESSION_KEY_BYTES) or memcmp(at, PREFIX, PREFIX_BYTES) != 0:
        return 0
    for i in range(DIGITS):
        for digit in range(16):
            if at[PREFIX_BYTES + i] == <uint8_t>HEXADECIMAL[digit]:
                break
        else:
            return 0
        session = session << 4 | <uint64_t>digit
    return session


cdef void session_value(const uint8_t* password, uint32_t timeout_ms, SessionValue* into) noexcept nogil:
    into.version = FORMAT_SESSION_VERSION
    sha256(password, ZK_PASSWORD_BYTES, into.password)
    into.timeout_ms = timeout_ms


cdef bint session_is_password(const SessionValue* value, const uint8_t* password) noexcept nogil:
    cdef uint8_t[32] digest
    sha256(password, ZK_PASSWORD_BYTES, digest)
    return are_equal_in_constant_time(digest, value.password, sizeof(digest))


cdef bint session_find(ZkDoor* door, uint64_t session, SessionValue* value, uint64_t* create_revision) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX] bytes
    cdef Bytes key = bytes_of(bytes, session_key(door, session, bytes))
    cdef const Entry* entry = reads_entry(door, &key, door.position)
    if entry == NULL or entry.flags & ENTRY_TOMBSTONE or entry.value_length != FORMAT_SESSION_VALUE_BYTES:
        return False
    memcpy(value, entry_value(entry), FORMAT_SESSION_VALUE_BYTES)
    create_revision[0] = entry.create_revision
    return value.version == FORMAT_SESSION_VERSION and entry.lease == session


# --- who serves it ----------------------------------------------------------------------------------------------------
cdef bint session_enter(ZkDoor* door, ZkConnection* connection) noexcept nogil:
    cdef uint32_t* place = door.sessions.insert(connection.session)
    if place == NULL:
        return False
    if place[0] != 0 and place[0] != connection.base.place + 1:
        # Its client has come back by another connection.
        connection_fail(&door.desk.base, &door.connections[place[0] - 1].base)
    place[0] = connection.base.place + 1
    return True


cdef void session_leave(ZkDoor* door, ZkConnection* connection) noexcept nogil:
    cdef uint32_t* place = door.sessions.find(connection.session)
    if place != NULL and place[0] == connection.base.place + 1:
        door.sessions.erase(connection.session)


cdef void session_key_changed(ZkDoor* door, uint64_t session, uint64_t create_revision, bint has_ended) noexcept nogil:
    cdef uint32_t* place = door.sessions.find(session)
    cdef ZkConnection* connection
    if has_ended:
        quotas_session_ended(door, session)
    if place == NULL:
        return
    connection = &door.connections[place[0] - 1]
    if has_ended:
        door.counters.sessions_expired += connection.base.state == CONNECTION_OPEN and not connection.base.has_ended
        if not connection.base.has_ended:        # else it closed the session, and its answer is on its way
            connection_fail(&door.desk.base, &connection.base)
        return
    # 1. This node claims the session at revision r, 2. another one at r + 1; 3. both events come before the answer to
    # the first claim. So the newest revision is kept, and looked at with that answer.
    if create_revision > connection.claimed:
        connection.claimed = create_revision
    if connection.fence != 0 and create_revision > connection.fence:
        connection_fail(&door.desk.base, &connection.base)
