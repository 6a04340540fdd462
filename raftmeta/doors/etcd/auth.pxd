# The Auth service of etcd over the rights of the cluster: users, roles and permissions are those of docs/security.md.
#
# Each method is decided behind a read round, then it makes the entries of the log that it needs, one after the other.
# A method that stopped half way is asked again, and goes on. etcd's role "root" is the right ADMIN.
from raftmeta.doors.etcd.state cimport EtcdCall, EtcdDoor, EtcdTask
from raftmeta.wire.commands cimport Bytes

cdef void authenticate_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil
cdef void authenticate_go(EtcdDoor* door, EtcdCall* call) noexcept nogil
# All other methods.
cdef void auth_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil
cdef void auth_go(EtcdDoor* door, EtcdCall* call) noexcept nogil
cdef void auth_answered(EtcdDoor* door, EtcdCall* call, EtcdTask* task) noexcept nogil
cdef void auth_closed(EtcdDoor* door, EtcdCall* call) noexcept nogil
