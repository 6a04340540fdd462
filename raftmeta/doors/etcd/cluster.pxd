# The Cluster and Maintenance services, as far as a door has them: what members say of themselves.
from libc.stdint cimport uint8_t

from raftmeta.doors.etcd.state cimport EtcdCall, EtcdDoor, EtcdTask
from raftmeta.native.containers cimport Vec
from raftmeta.wire.commands cimport Bytes

# The version of etcd whose methods these are.
cdef inline const char* etcd_version() noexcept nogil:
    return b"3.6.0"

# All members, as the field 2 of a reply. False: no memory.
cdef bint put_members(EtcdDoor* door, Vec[uint8_t]* out) noexcept nogil

cdef void member_list_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil
cdef void member_list_go(EtcdDoor* door, EtcdCall* call) noexcept nogil
cdef void status_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil
cdef void alarm_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil
cdef void defragment_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil
cdef void hash_kv_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil
cdef void hash_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil
cdef void move_leader_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil
cdef void move_leader_answered(EtcdDoor* door, EtcdCall* call, EtcdTask* task) noexcept nogil
