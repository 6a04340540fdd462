# Feeds of the etcd door: each is one watch of the loop's hub, for one call.
#
# It decides how long the memory lives that the loop may signal: from the opening until the loop has given the watch
# back. It never looks into an event. An owner takes items by watch_look and watch_pass while its client reads. One
# that is slow fills its own queue, is told that it has lagged, and goes on from the history (feed_again). The hub
# replays the history no faster than it is taken.
from libc.stdint cimport uint32_t, uint64_t

from raftmeta.doors.desk.state cimport Desk
from raftmeta.doors.etcd.state cimport EtcdDoor, EtcdFeed, EtcdTask
from raftmeta.loop.tickets cimport WatchSignal
from raftmeta.machine.watch_state cimport WatchPurse
from raftmeta.wire.commands cimport Bytes

# Changes of the keys in [key, end) from `revision` of the node on; an empty end is that of the keyspace. filter: bits
# of WatchFilter (machine/watches). NULL: no memory.
cdef EtcdFeed* feed_create(EtcdDoor* door, const Bytes* key, const Bytes* end, uint64_t revision, uint32_t filter,
                           WatchPurse* purse, void* owner,
                           void (*woken)(EtcdDoor* door, void* owner) noexcept nogil) noexcept nogil
# The watch has ended: begin another one. False: no memory.
cdef bint feed_again(EtcdDoor* door, EtcdFeed* feed, uint64_t revision) noexcept nogil
# The owner lets go. NULL: nothing.
cdef void feed_drop(EtcdDoor* door, EtcdFeed* feed) noexcept nogil

# --- the door ---------------------------------------------------------------------------------------------------------
# TASK_FEED_OPEN or TASK_FEED_CLOSE is back; the caller frees it.
cdef void feeds_answered(EtcdDoor* door, EtcdTask* task) noexcept nogil
# DeskRules.woken.
cdef void feeds_woken(Desk* desk, WatchSignal* signal) noexcept nogil
# At the end, once the loop has stopped.
cdef void feeds_release(EtcdDoor* door) noexcept nogil
