# Connections of ZooKeeper clients: bytes come in and whole requests go up; what others appended to `out` goes out.
from raftmeta.doors.zookeeper.state cimport ZkConnection, ZkDoor

cdef void connections_accept(ZkDoor* door) noexcept nogil
cdef void connection_readable(ZkDoor* door, ZkConnection* connection) noexcept nogil
cdef void connection_writable(ZkDoor* door, ZkConnection* connection) noexcept nogil
cdef void connection_close(ZkDoor* door, ZkConnection* connection) noexcept nogil
# It may have room again: take the requests that wait, and go on reading.
cdef void connection_resume(ZkDoor* door, ZkConnection* connection) noexcept nogil
# Everything appended before the call, one write for each connection; what that lets others append waits for the next.
cdef void connections_flush(ZkDoor* door) noexcept nogil
# Those that wait in line (rounds.pxd).
cdef void connections_wake(ZkDoor* door) noexcept nogil
# Close those that have no session in time, those whose certificate is revoked now, those that do not read.
cdef void connections_expire(ZkDoor* door) noexcept nogil
cdef void connections_drop_revoked(ZkDoor* door) noexcept nogil
cdef void connections_sweep(ZkDoor* door) noexcept nogil
# All that have a session or are about to get one; also those of read-only sessions, or only those.
cdef void connections_fail_all(ZkDoor* door, bint with_read_only, bint with_others) noexcept nogil
