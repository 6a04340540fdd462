# Locks and elections of etcd: the services v3lock and v3election, which stand on keys (server/etcdserver/api/v3lock,
# v3election; client/v3/concurrency mutex.go, election.go, key.go).
#
# Who waits stands in a queue: each has the key name/lease, and the key that was created first has the lock, or leads.
# This module decides who is next. A call that waits watches the one key before its own, so that an end wakes one caller
# alone.
#
# Departures, each in docs/etcd.md: a campaign whose lease ends while it waits fails, where etcd lets it win. The lease
# of a request is not kept alive for it.
from raftmeta.doors.etcd.state cimport EtcdCall, EtcdDoor, EtcdTask
from raftmeta.wire.commands cimport Bytes

cdef void lock_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil
cdef void campaign_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil
# These four of both.
cdef void queue_go(EtcdDoor* door, EtcdCall* call) noexcept nogil
cdef void queue_answered(EtcdDoor* door, EtcdCall* call, EtcdTask* task) noexcept nogil
cdef void queue_half_closed(EtcdDoor* door, EtcdCall* call) noexcept nogil
cdef void queue_closed(EtcdDoor* door, EtcdCall* call) noexcept nogil

cdef void unlock_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil
cdef void proclaim_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil
cdef void resign_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil
# Of the first and the last of these; and of proclaim.
cdef void plain_answered(EtcdDoor* door, EtcdCall* call, EtcdTask* task) noexcept nogil
cdef void proclaim_answered(EtcdDoor* door, EtcdCall* call, EtcdTask* task) noexcept nogil

cdef void leader_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil
cdef void leader_go(EtcdDoor* door, EtcdCall* call) noexcept nogil
cdef void observe_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil
cdef void observe_go(EtcdDoor* door, EtcdCall* call) noexcept nogil
cdef void observe_closed(EtcdDoor* door, EtcdCall* call) noexcept nogil
