# Requests of ZooKeeper clients: taken in order, answered in order.
#
#     write       submitted at once, behind the write of the same session before it (`after`); answered when this node
#                 has applied it and has told the events up to its revision
#     read        served when everything before it was answered; at once if nothing is. A write behind it may be carried
#                 out meanwhile. The read never shows that: the position stops in front of its revision (ZkStop)
#     sync        as a read that needs a read round; so are all reads with reads_linearizable
#     close       submitted when everything before it was answered
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.doors.zookeeper.state cimport ZkConnection, ZkDoor, ZkTask
from raftmeta.status cimport status_t

# A frame of an OPEN connection, without its length. BAD_LENGTH: it is no request, and the connection is to be closed.
cdef status_t requests_take(ZkDoor* door, ZkConnection* connection, const uint8_t* body,
                            uint32_t length) noexcept nogil
# TASK_WRITE or TASK_CLOSE is back. The task is the queue's, or freed.
cdef void requests_done(ZkDoor* door, ZkTask* task) noexcept nogil
# The position is about to reach the revision of a write of this connection: answer all requests before that write,
# whatever waits for the connection already.
cdef void requests_before(ZkDoor* door, ZkConnection* connection, uint64_t revision) noexcept nogil
# Answer what can be answered, from the first request on.
cdef void requests_go(ZkDoor* door, ZkConnection* connection) noexcept nogil
# The connection is closed: what is under way is carried to its end and answered to nobody.
cdef void requests_drop(ZkDoor* door, ZkConnection* connection) noexcept nogil
