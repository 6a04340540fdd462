# The answer of etcd to a command of keys, made of the command's result and of the request.
from libc.stdint cimport uint8_t, uint64_t

from raftmeta.doors.etcd.state cimport EtcdDoor
from raftmeta.native.containers cimport Vec
from raftmeta.wire.commands cimport Bytes
from raftmeta.wire.msgpack cimport Reader

# The fields behind the header. reader: at the body of the result. False: no memory, or the result is of another
# request.
cdef bint answer_put(Vec[uint8_t]* out, Reader* reader) noexcept nogil
cdef bint answer_delete(Vec[uint8_t]* out, const Bytes* asked, Reader* reader) noexcept nogil
# revision: the node's, behind the transaction.
cdef bint answer_txn(EtcdDoor* door, Vec[uint8_t]* out, const Bytes* txn, Reader* reader,
                     uint64_t revision) noexcept nogil
# Whether the request has a Range at a past revision: the state must be pinned while it is answered.
cdef bint answer_needs_state(const Bytes* txn) noexcept nogil
