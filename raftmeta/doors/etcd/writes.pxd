# Put, DeleteRange, Txn and Compact: each is one command of the log.
from raftmeta.doors.etcd.state cimport EtcdCall, EtcdDoor, EtcdTask
from raftmeta.wire.commands cimport Bytes

cdef void put_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil
cdef void put_answered(EtcdDoor* door, EtcdCall* call, EtcdTask* task) noexcept nogil
cdef void delete_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil
cdef void delete_answered(EtcdDoor* door, EtcdCall* call, EtcdTask* task) noexcept nogil
cdef void txn_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil
cdef void txn_go(EtcdDoor* door, EtcdCall* call) noexcept nogil
cdef void txn_answered(EtcdDoor* door, EtcdCall* call, EtcdTask* task) noexcept nogil
cdef void compact_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil
cdef void compact_answered(EtcdDoor* door, EtcdCall* call, EtcdTask* task) noexcept nogil
