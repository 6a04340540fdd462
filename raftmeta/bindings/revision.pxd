# The answer of a write, for the faces of a node and the client library alike.
from libc.stdint cimport uint64_t

cdef class Revision:
    cdef readonly uint64_t revision
    cdef readonly uint64_t index
    cdef readonly object result

cdef Revision new_revision(uint64_t revision, uint64_t index, object result)
