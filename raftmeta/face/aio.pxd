# The asyncio face of a node: its verbs as coroutines.
from libc.stdint cimport uint64_t

from raftmeta.face.calls cimport Call
from raftmeta.face.mailbox cimport MailboxFace

cdef class Node(MailboxFace):
    cdef bint owns_node             # made with it: closes it

    cdef int _submit_put(self, Call call, object key, object value, object lease, object fence, bint previous,
                         uint64_t deadline_ns) except -1
    cdef tuple _submit_puts(self, list pairs, Py_ssize_t first, object lease, object fence, uint64_t deadline_ns)
    cdef Call _submit_create(self, object key, object value, object lease, object fence, uint64_t deadline_ns)
    cdef Call _submit_update(self, object key, object value, object expected_revision, object lease, object fence,
                             bint previous, uint64_t deadline_ns)
    cdef Call _submit_delete(self, object key, object expected_revision, bint must_exist, object fence, bint previous,
                             uint64_t deadline_ns)
    cdef Call _submit_delete_range(self, object start, object end, object fence, bint previous, uint64_t deadline_ns)
    cdef Call _submit_add(self, object key, object number, object fence, uint64_t deadline_ns)
