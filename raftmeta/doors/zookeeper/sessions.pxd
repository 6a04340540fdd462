# ZooKeeper sessions of this door's connections: made, found again with their password, kept alive, closed.
#
#     new         lease granted -> key made -> answer
#     of old      read index -> key looked at -> key made anew (session_keys.pxd) -> lease renewed -> answer
#     either      not before this node has applied as much as the client has seen
#
# A time-out is the lease's and runs on the lease clock, which stands still while no leader is confirmed. The door keeps
# leases alive of clients that it heard since the last time, many in one command. A client that falls silent loses its
# session at the earliest its time-out after it was heard last, also if its connection closed right behind that. A word
# of the last quarter of a tick before this node fails may not count.
from raftmeta.doors.zookeeper.codec cimport ZkConnect
from raftmeta.doors.zookeeper.state cimport ZkConnection, ZkDoor, ZkTask

cdef void sessions_connect(ZkDoor* door, ZkConnection* connection, const ZkConnect* connect) noexcept nogil
# CONNECTING: go on, if what it waits for is there.
cdef void sessions_go(ZkDoor* door, ZkConnection* connection) noexcept nogil
# TASK_CONNECT is back. The caller frees the task.
cdef void sessions_done(ZkDoor* door, ZkConnection* connection, const ZkTask* task) noexcept nogil
# The connection closes.
cdef void sessions_leave(ZkDoor* door, ZkConnection* connection) noexcept nogil
# Once in a while, and after the last one was answered.
cdef void sessions_keep_alive(ZkDoor* door) noexcept nogil
