# Connections of ZooKeeper clients: the rules of ZooKeeper's protocol for connections from outside.
from raftmeta.connections.state cimport ConnectionRules
from raftmeta.doors.zookeeper.state cimport ZkDoor

cdef const ConnectionRules* zookeeper_rules() noexcept nogil
# All that have a session or are about to get one; also those of read-only sessions, or only those.
cdef void connections_fail_all(ZkDoor* door, bint with_read_only, bint with_others) noexcept nogil
