# Which methods the etcd door has, and who handles each.
#
# A new method is a line in _fill (table.pyx), its messages in the schema, and functions of a module of its own.
from libc.stdint cimport uint8_t, uint32_t

from raftmeta.doors.etcd.state cimport EtcdHandler

cdef enum:
    ETCD_HANDLERS_MAX = 64

# NULL: the door has no such method. path: "/etcdserverpb.KV/Range".
cdef const EtcdHandler* handler_of(const uint8_t* path, uint32_t length) noexcept nogil
