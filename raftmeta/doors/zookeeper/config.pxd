# The data of /zookeeper/config: the cluster's members as the ZooKeeper door tells them.
from libc.stdint cimport uint8_t

from raftmeta.doors.zookeeper.state cimport ZkDoor
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport status_t

# NO_MEMORY.
cdef status_t config_text(ZkDoor* door, Vec[uint8_t]* out) noexcept nogil
