# The etcd door of a node: one native thread serves etcd's clients, over the loop alone.
#
# Order of life: etcd_create, etcd_start after the loop has started; connections_stop before the loop is stopped;
# etcd_destroy after it has.
from libc.stdint cimport uint8_t

from raftmeta.connections.accounts_state cimport Accounts
from raftmeta.connections.state cimport ConnectionLimits
from raftmeta.doors.desk.state cimport DeskLimits
from raftmeta.doors.etcd.state cimport EtcdCounters, EtcdDoor, EtcdLimits
from raftmeta.loop.loop cimport Loop
from raftmeta.status cimport status_t

# Takes the listener over, also when it fails (NULL: no memory or no descriptor). accounts: of the
# node. address: where clients find it.
cdef EtcdDoor* etcd_create(Loop* loop, Accounts* accounts, const ConnectionLimits* common, const DeskLimits* desk,
                           const EtcdLimits* limits, int listener, const uint8_t* address,
                           uint8_t address_length) noexcept nogil
cdef status_t etcd_start(EtcdDoor* door) noexcept nogil
cdef void etcd_destroy(EtcdDoor* door) noexcept nogil
cdef void etcd_counters(const EtcdDoor* door, EtcdCounters* counters) noexcept nogil
