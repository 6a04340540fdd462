# Who may use the ZooKeeper door while users and rights of raftmeta are on: whoever has all of the tree.
#
# The node speaks the door's commands, so the machine asks nobody for rights. The door asks once for each connection,
# and again when rights change: its certificate must name a user with READ, WRITE and WATCH over all keys of the tree,
# and with LEASE. Within the tree ZooKeeper's lists of rights decide. While rights are off, nobody is asked.
from raftmeta.doors.zookeeper.state cimport ZkConnection, ZkDoor
from raftmeta.wire.commands cimport Bytes

# The name in its certificate, else its first identity of sasl or digest; without either its length is 0. It lies in
# ZkDoor.arena until identities are asked for again.
cdef Bytes access_principal(ZkDoor* door, const ZkConnection* connection, bint* is_certified) noexcept nogil
cdef bint access_allows(ZkDoor* door, const ZkConnection* connection) noexcept nogil
# Once in a while: close connections whose right has gone.
cdef void access_look(ZkDoor* door) noexcept nogil
