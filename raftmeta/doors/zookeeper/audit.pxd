# The ZooKeeper door tells the audit trail what its clients ask: who, from where, for which znodes, and what came of it.
#
#     audit_answered      a request was answered
#     audit_left          its client went away before it was answered
#     audit_proved        a client tried to prove who it is
#     audit_session       a session was opened or closed
#     audit_blocks        may writes be done, where all must be recorded?
#     audit_refused       a session was not let in; connections/connections tells of sockets and TLS
#
# A request gives one line, with the answer that its client is told. Nothing of a value is copied. Without a trail each
# of these functions is one branch. A line that has no room is dropped and counted (security/audit_queue), because the
# door keeps no room for the lines of requests under way.
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint8_t

from raftmeta.doors.zookeeper.codec cimport ZkRequest
from raftmeta.doors.zookeeper.state cimport ZkConnection, ZkDoor
from raftmeta.status cimport status_t

# The answer begins at `reply` of connection.base.out.
cdef void audit_answered(ZkDoor* door, const ZkConnection* connection, const ZkRequest* request,
                         size_t reply) noexcept nogil
# A write that was sent to the log: nobody is told what became of it.
cdef void audit_left(ZkDoor* door, const ZkConnection* connection, const ZkRequest* request) noexcept nogil
# Whether writes are refused, because each must be recorded and the trail cannot be written.
cdef bint audit_blocks(const ZkDoor* door) noexcept nogil
cdef void audit_proved(ZkDoor* door, const ZkConnection* connection, int32_t error) noexcept nogil
# operation: AUDIT_SESSION_OPEN or AUDIT_SESSION_CLOSE.
cdef void audit_session(ZkDoor* door, const ZkConnection* connection, uint8_t operation) noexcept nogil
cdef void audit_refused(ZkDoor* door, const ZkConnection* connection, status_t status) noexcept nogil
