# The ZooKeeper door of a node: its socket, its settings, its figures.
from raftmeta.connections.accounts_state cimport Accounts
from raftmeta.doors.zookeeper.state cimport ZkDoor
from raftmeta.loop.loop cimport Loop

# After the loop was opened and before it is started. NULL: this node has no such door.
# accounts: of the node. Raises AddressInUse, ConfigError.
cdef ZkDoor* open_zookeeper(Loop* loop, Accounts* accounts, object identity, object config) except? NULL
cdef dict zookeeper_metrics(const ZkDoor* door)
