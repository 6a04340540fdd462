# The way out to a ZooKeeper client: how much may be under way for a connection, and how much may wait for it.
#
# It knows neither sockets nor requests: connections/connections sends the bytes, the modules of the requests append
# them.
from raftmeta.doors.zookeeper.state cimport ZkConnection, ZkDoor

# Bytes were appended to `out`: they leave at the end of the turn. One with too much unread is closed.
cdef void connection_appended(ZkDoor* door, ZkConnection* connection) noexcept nogil
# Whether more of it may be read: neither too much under way nor too much unsent.
cdef bint connection_has_room(const ZkDoor* door, const ZkConnection* connection) noexcept nogil
# Its socket has to take bytes before an answer may be made for it.
cdef bint connection_is_full(const ZkConnection* connection) noexcept nogil
# Whether an answer may be made for it now.
cdef bint connection_may_answer(const ZkDoor* door, const ZkConnection* connection) noexcept nogil
