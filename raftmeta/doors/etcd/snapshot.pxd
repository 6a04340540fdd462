# Maintenance.Snapshot: the state as a database of bbolt that `etcdutl snapshot status` and `restore` read.
#
# A snapshot shows one root, which stays pinned while its pages are made: turn by turn, as fast as the client reads. The
# order of an etcd database is that of revisions, and the tree's is that of keys. So the snapshot sorts one place for
# each key, counts the pages, and then writes them from the first to the last. It never copies a value that is not about
# to be sent. Writers go on beside it. One snapshot is made at a time.
from raftmeta.doors.etcd.state cimport EtcdCall, EtcdDoor, EtcdTask
from raftmeta.wire.commands cimport Bytes

# The door has something to do for its snapshot in the next turn, whatever happens.
cdef bint snapshot_is_busy(const EtcdDoor* door) noexcept nogil
cdef void snapshot_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil
cdef void snapshot_go(EtcdDoor* door, EtcdCall* call) noexcept nogil
cdef void snapshot_answered(EtcdDoor* door, EtcdCall* call, EtcdTask* task) noexcept nogil
cdef void snapshot_half_closed(EtcdDoor* door, EtcdCall* call) noexcept nogil
cdef void snapshot_closed(EtcdDoor* door, EtcdCall* call) noexcept nogil
