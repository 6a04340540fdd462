# The etcd door of a node: its socket, its settings, its figures.
from raftmeta.doors.etcd.state cimport EtcdDoor
from raftmeta.loop.loop cimport Loop

# After the loop was opened and before it is started. NULL: this node has no such door.
# Raises AddressInUse, ConfigError.
cdef EtcdDoor* open_etcd(Loop* loop, object identity, object config) except? NULL
cdef dict etcd_metrics(const EtcdDoor* door)
