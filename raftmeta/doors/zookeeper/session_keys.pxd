# The key of a ZooKeeper session: who has its password, and which connection speaks for it.
#
#     <root>-sessions/<16 hexadecimal digits>  ->  format, SHA-256 of the password, time-out in ms; lease: the session's
#
# A session is a lease. Its key ends with it, so every node sees in its own state which sessions live. A connection that
# takes a session over makes the key anew, and so its create revision is a fence: a command of an earlier connection
# that is still on its way is refused (FENCED), on whatever node that was. So a client that has come back and has looked
# at the tree never finds later that an old request of its own was carried out after that.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.doors.zookeeper.state cimport ZkConnection, ZkDoor
from raftmeta.wire.commands cimport KEY_BYTES_MAX, Bytes

cdef enum:
    FORMAT_SESSION_VERSION = 1
    FORMAT_SESSION_VALUE_BYTES = 37

# FORMAT_: docs/formats.md "Keys of ZooKeeper sessions". Little-endian.
cdef packed struct SessionValue:
    uint8_t version
    uint8_t[32] password        # its SHA-256
    uint32_t timeout_ms

# `into` has KEY_BYTES_MAX bytes. The key's length.
cdef uint32_t session_key(const ZkDoor* door, uint64_t session, uint8_t* into) noexcept nogil
# The session whose key this is; 0: none.
cdef uint64_t session_key_id(const ZkDoor* door, const Bytes* key) noexcept nogil
cdef void session_value(const uint8_t* password, uint32_t timeout_ms, SessionValue* into) noexcept nogil
# The key at the door's position, which must be pinned. False: there is no such session.
cdef bint session_find(ZkDoor* door, uint64_t session, SessionValue* value, uint64_t* create_revision) noexcept nogil
cdef bint session_is_password(const SessionValue* value, const uint8_t* password) noexcept nogil
# An event: the session ended, or another connection took it over.
cdef void session_key_changed(ZkDoor* door, uint64_t session, uint64_t create_revision, bint has_ended) noexcept nogil
# This connection serves the session from now on. False: no memory.
cdef bint session_enter(ZkDoor* door, ZkConnection* connection) noexcept nogil
cdef void session_leave(ZkDoor* door, ZkConnection* connection) noexcept nogil
