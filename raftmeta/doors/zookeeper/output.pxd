# The way out to a ZooKeeper client: bytes behind each other in the buffer of its connection, and how much may wait.
#
# It knows neither sockets nor requests: connections.pyx sends the bytes, the modules of the requests append them.
from libc.stdint cimport uint64_t

from raftmeta.doors.zookeeper.state cimport ZkConnection, ZkDoor

# Bytes were appended to `out`: they leave with connections_flush. One with too much unread is closed.
cdef void connection_touch(ZkDoor* door, ZkConnection* connection) noexcept nogil
# It has more to do than fits this turn, or may go on.
cdef void connection_next_turn(ZkDoor* door, ZkConnection* connection) noexcept nogil
# The bytes appended so far are sent, then it is closed.
cdef void connection_end(ZkDoor* door, ZkConnection* connection) noexcept nogil
# It is closed as soon as may be, and what was not sent is thrown away: its client goes on elsewhere.
cdef void connection_fail(ZkDoor* door, ZkConnection* connection) noexcept nogil
# Whether more of it may be read: neither too much under way nor too much unsent.
cdef bint connection_has_room(const ZkDoor* door, const ZkConnection* connection) noexcept nogil
# Whether an answer may be made for it now.
cdef bint connection_may_answer(const ZkDoor* door, const ZkConnection* connection) noexcept nogil
# The bytes that wait for this connection changed: count them.
cdef void connection_count(ZkDoor* door, ZkConnection* connection) noexcept nogil
