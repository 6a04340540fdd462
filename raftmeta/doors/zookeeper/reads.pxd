# Reads of the ZooKeeper door: out of the published state, as it was at ZkDoor.position.
#
# All events up to that revision were told before, so a client never sees a change before its event. A root is pinned
# once for all reads of a turn. This module never waits, and never looks at the order of requests (requests.pyx).
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from raftmeta.doors.zookeeper.codec cimport ZkRequest
from raftmeta.doors.zookeeper.state cimport ZkConnection, ZkDoor
from raftmeta.machine.entry cimport Entry
from raftmeta.machine.tree cimport Cursor
from raftmeta.machine.znodes cimport ZnodeView
from raftmeta.native.containers cimport Vec
from raftmeta.wire.commands cimport KEY_BYTES_MAX, Bytes

# A walk over the nodes below one.
cdef struct Below:
    Cursor cursor
    uint32_t length             # of `prefix`
    uint8_t[KEY_BYTES_MAX + 1] prefix       # the key of the node, and a slash behind it

# The version of a key at `revision`, of the pinned root; NULL: none, or history no longer says. A tombstone counts.
cdef const Entry* reads_entry(ZkDoor* door, const Bytes* key, uint64_t revision) noexcept nogil
# Append the body of a read and set the watch that it asks for. ZK_OK, or the error; then bytes may have been appended.
cdef int32_t reads_serve(ZkDoor* door, ZkConnection* connection, const ZkRequest* request,
                         Vec[uint8_t]* out) noexcept nogil
# setWatches: events of what changed since the client saw it last go to `out` of the connection at once.
cdef int32_t reads_set_watches(ZkDoor* door, ZkConnection* connection, const ZkRequest* request) noexcept nogil

# False: no node can be below this path.
cdef bint reads_begin_below(ZkDoor* door, const Bytes* path, Below* below) noexcept nogil
# The next node below, at the door's position; *name is its key behind the prefix. NULL: no more.
cdef const Entry* reads_next_below(ZkDoor* door, Below* below, Bytes* name, ZnodeView* view) noexcept nogil
