# The sync face of a node. Its calls block the calling thread, without the GIL.
from libc.stdint cimport uint8_t, uint64_t

from raftmeta.face.base cimport NodeBase
from raftmeta.wire.commands cimport Op

cdef class Node(NodeBase):
    cdef object _write(self, const Op* op, object fence, uint8_t purpose, bint is_urgent, uint64_t deadline_ns)
    cdef int _agree_on_read(self, bint local, uint64_t deadline_ns) except -1
