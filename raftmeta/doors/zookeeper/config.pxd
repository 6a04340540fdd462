# The members of the cluster as ZooKeeper's clients read them: the data of /zookeeper/config.
from libc.stdint cimport uint8_t

from raftmeta.doors.zookeeper.state cimport ZkDoor
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport status_t

# NO_MEMORY.
cdef status_t config_text(ZkDoor* door, Vec[uint8_t]* out) noexcept nogil
