# The etcd door of a node: one native thread serves etcd's clients, over the loop alone.
#
# Order of life: etcd_create, etcd_start after the loop has started; etcd_stop before the loop is stopped; etcd_destroy
# after it has.
from libc.stdint cimport uint8_t, uint64_t

from raftmeta.connections.state cimport ConnectionLimits
from raftmeta.doors.desk.state cimport DeskLimits
from raftmeta.doors.etcd.state cimport EtcdCounters, EtcdDoor, EtcdLimits
from raftmeta.loop.loop cimport Loop
from raftmeta.status cimport status_t

# Takes the listener over, also when it fails (NULL: no memory or no descriptor). address: where clients find it.
cdef EtcdDoor* etcd_create(Loop* loop, const ConnectionLimits* common, const DeskLimits* desk,
                           const EtcdLimits* limits, int listener, const uint8_t* address,
                           uint8_t address_length) noexcept nogil
cdef status_t etcd_start(EtcdDoor* door) noexcept nogil
# Every connection is closed, nothing is submitted any more. False: the thread did not end in time.
cdef bint etcd_stop(EtcdDoor* door, uint64_t timeout_ns) noexcept nogil
cdef void etcd_destroy(EtcdDoor* door) noexcept nogil
cdef void etcd_counters(const EtcdDoor* door, EtcdCounters* counters) noexcept nogil
# In a fork child, where there is no thread: only descriptors.
cdef void etcd_close_in_child(EtcdDoor* door) noexcept nogil
