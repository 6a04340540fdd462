# Changes of the state on their way to ZooKeeper clients: one watch of the hub over the sessions' keys and the tree.
#
#     events_tend     open the watch, if there is none
#     events_drain    all that the loop enqueued: events to connections, ends of sessions; then `position` moves on
#
# A watch that has lagged goes on where it ended. One below the history's floor cannot: all connections are closed, and
# clients that come back are told what they missed by setWatches.
from libc.stdint cimport uint64_t

from raftmeta.doors.zookeeper.state cimport ZkDoor
from raftmeta.wire.commands cimport Bytes

cdef void events_tend(ZkDoor* door) noexcept nogil
# Tell the events up to this revision, as far as they are there. False: this node stops, or left the cluster, or its
# history was cut: every connection must be closed.
cdef bint events_drain(ZkDoor* door, uint64_t until) noexcept nogil
# Another membership is in force.
cdef void events_config(ZkDoor* door) noexcept nogil
