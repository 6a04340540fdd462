# A request that changes keys as one command of the log: Put and DeleteRange are transactions of one operation.
#
# etcd evaluates all compares before the first operation; here those of a nested transaction see what was written before
# it (docs/etcd.md "Transactions").
from raftmeta.doors.etcd.state cimport EtcdCall, EtcdDoor
from raftmeta.status cimport status_t
from raftmeta.wire.commands cimport Bytes

# Fill in door.desk.command. The message must stay until it is submitted. OK; NO_MEMORY; KEY_INVALID: a key is too long;
# COMMAND_INVALID: the machine has no such compare; COMPACTED, FUTURE_REVISION: of a Range at a revision;
# PERMISSION_DENIED: the call was ended.
cdef status_t encode_put(EtcdDoor* door, EtcdCall* call, const Bytes* asked) noexcept nogil
cdef status_t encode_delete(EtcdDoor* door, EtcdCall* call, const Bytes* asked) noexcept nogil
cdef status_t encode_txn(EtcdDoor* door, EtcdCall* call, const Bytes* txn) noexcept nogil
