# The sync face of a node. Its calls block the calling thread, without the GIL.
from libc.stdint cimport uint64_t

from raftmeta.face.base cimport NodeBase

cdef class Node(NodeBase):
    cdef int _agree_on_read(self, uint64_t deadline_ns) except -1
