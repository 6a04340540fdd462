# Leases: grant, revoke, keep alive, time to live, list (etcd api/etcdserverpb rpc.proto Lease; server/lease/lessor.go).
#
# An id of etcd is the id of a lease of the cluster, bit by bit. This module decides how seconds stand for the
# milliseconds of the lease clock. It never keeps a lease alive by itself: each message of a client is one command of
# the log. Time to live and lists are what this node has applied, behind a read round.
from raftmeta.doors.etcd.state cimport EtcdCall, EtcdDoor, EtcdTask
from raftmeta.wire.commands cimport Bytes

cdef void lease_grant_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil
cdef void lease_grant_answered(EtcdDoor* door, EtcdCall* call, EtcdTask* task) noexcept nogil
cdef void lease_revoke_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil
cdef void lease_revoke_go(EtcdDoor* door, EtcdCall* call) noexcept nogil
cdef void lease_revoke_answered(EtcdDoor* door, EtcdCall* call, EtcdTask* task) noexcept nogil
cdef void lease_keep_alive_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil
cdef void lease_keep_alive_answered(EtcdDoor* door, EtcdCall* call, EtcdTask* task) noexcept nogil
cdef void lease_keep_alive_half_closed(EtcdDoor* door, EtcdCall* call) noexcept nogil
cdef void lease_show_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil
cdef void lease_show_go(EtcdDoor* door, EtcdCall* call) noexcept nogil
cdef void lease_show_answered(EtcdDoor* door, EtcdCall* call, EtcdTask* task) noexcept nogil
cdef void lease_list_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil
cdef void lease_list_go(EtcdDoor* door, EtcdCall* call) noexcept nogil
cdef void lease_list_answered(EtcdDoor* door, EtcdCall* call, EtcdTask* task) noexcept nogil
