# Which requests that change keys etcd refuses before it looks at the store (etcd server/etcdserver/api/v3rpc key.go).
from raftmeta.doors.etcd.state cimport EtcdDoor
from raftmeta.wire.commands cimport Bytes

cdef enum:
    TXN_OPS_MAX = 128               # etcd --max-txn-ops, at the root

# The words of the refusal; NULL: it may be asked.
cdef const char* put_fault(const Bytes* asked) noexcept nogil
cdef const char* delete_fault(const Bytes* asked) noexcept nogil
cdef const char* txn_fault(EtcdDoor* door, const Bytes* txn) noexcept nogil
