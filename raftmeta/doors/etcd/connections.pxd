# Connections of etcd's clients: the rules of the door for connections from outside, and which transport each speaks.
from raftmeta.connections.state cimport ConnectionRules
from raftmeta.doors.etcd.state cimport EtcdDoor

cdef const ConnectionRules* etcd_rules() noexcept nogil
# Let each transport send the answers that its calls have so far.
cdef void connections_tell(EtcdDoor* door) noexcept nogil
# Once in a while: calls that wait for too long.
cdef void connections_expire_calls(EtcdDoor* door) noexcept nogil
