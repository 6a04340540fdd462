# Arguments of the verbs as operations: what the faces of a node and the client library encode alike.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.wire.commands cimport Fence, Op

# Windows point into the arguments: those must live until the Op is encoded. lease: an id, None, or anything with `id`.
cdef int put_op(object key, object value, object lease, bint previous, uint32_t value_bytes_max, Op* op) except -1
cdef int create_op(object key, object value, object lease, uint32_t value_bytes_max, Op* op) except -1
cdef int update_op(object key, object value, object lease, object expected_revision, bint previous,
                   uint32_t value_bytes_max, Op* op) except -1
cdef int delete_op(object key, bint must_exist, object expected_revision, bint previous, Op* op) except -1
cdef int delete_range_op(object start, object end, bint previous, Op* op) except -1
cdef int add_op(object key, object number, Op* op) except -1
# The id of an id, or of anything with `id`.
cdef int take_lease(object lease, uint64_t* into) except -1
# An operations.Fence, None, or anything with `fence`.
cdef object fence_of(object fence)
cdef uint64_t lease_ttl_ms(object ttl_s) except 0
# (start, end) of range arguments: prefix or start and end.
cdef tuple range_bounds(object start, object end, object prefix)
