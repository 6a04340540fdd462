# The etcd door tells the audit trail what its clients ask: who, from where, for which keys, and what came of it.
#
# A call whose handler has a word of the trail (EtcdHandler.operation) gives one line when it ends. No value is copied.
# Without a trail each of these functions is one branch.
from raftmeta.doors.etcd.state cimport EtcdCall, EtcdDoor
from raftmeta.wire.commands cimport Bytes

# A client asked for a watch, or lost the right to one. is_key: of the one key `start`.
cdef void audit_watch(EtcdDoor* door, const EtcdCall* call, const Bytes* start, const Bytes* end, bint is_key,
                      bint is_allowed) noexcept nogil
# message: of a call that has only one.
cdef void audit_ended(EtcdDoor* door, const EtcdCall* call, const Bytes* message) noexcept nogil
# Whether changes are refused, because each must be recorded and the trail cannot be written.
cdef bint audit_blocks(const EtcdDoor* door) noexcept nogil
