# The asyncio face of a node: one mailbox and one eventfd for each event loop, answers in batches.
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libcpp.vector cimport vector

from raftmeta.runtime.calls cimport Call
from raftmeta.runtime.node cimport Node as SyncNode
from raftmeta.runtime.node_base cimport NodeBase, PendingResult
from raftmeta.runtime.node_lease cimport LeaseBase
from raftmeta.runtime.node_watch cimport WatchBase
from raftmeta.runtime.tickets cimport Mailbox, Ticket

cdef class Node:
    cdef SyncNode node
    cdef bint owns_node             # made with it: closes it
    cdef object event_loop          # bound at the first call
    cdef object running             # what the thread keeps while that runs; see _is_ready
    cdef Mailbox* mailbox           # NULL: not bound, or closed
    cdef Ticket* waiting            # tickets with a call, newest first
    cdef set watches                # what the mailbox may name; see AioWatch
    cdef uint32_t unrung            # submissions since the node's loop was rung
    cdef object ring                # bound method
    cdef bint rings_itself          # tasks are being resumed: whoever does that rings when all have run
    cdef uint64_t sweep_ns          # when time-outs are looked at next; UINT64_MAX: not planned
    cdef object sweep_handle
    cdef object __weakref__

    cdef int bind(self) except -1
    cdef int _begin_on(self, object event_loop) except -1
    # True: bound, on the event loop that runs here now, with a session to encode for.
    cdef bint _is_ready(self) except -1
    # The call that waits for a ticket of this mailbox.
    cdef Call call_of(self, Ticket* ticket, uint64_t deadline_ns)
    cdef int _await(self, Ticket* ticket, Call call, uint64_t deadline_ns) except -1
    cdef int _link(self, Ticket* ticket) except -1
    cdef void _unlink(self, Ticket* ticket) noexcept
    cdef int _ring_soon(self) except -1
    cdef int _plan_sweep(self, uint64_t deadline_ns) except -1
    cdef int _take_mail(self, bint may_resume) except -1
    cdef Call _deliver(self, Ticket* ticket)
    cdef int _answer(self, Call call, Ticket* ticket) except -1
    cdef int _resume(self, vector[PyObject*]* calls) except -1
    cdef bint _put_again(self, Call call, uint64_t deadline_ns) except -1
    cdef int _expire(self, Ticket* ticket) except -1
    cdef int _unbind(self) except -1

    cdef Call wish(self, uint8_t kind, uint64_t number, uint8_t purpose, uint64_t deadline_ns)
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

cdef class AioPendingResult(PendingResult):
    cdef Node face

cdef class AioWatch(WatchBase):
    cdef Node face
    cdef object waiter              # future of a consumer that waits for news
    cdef bint has_news
    cdef object timeout_s
    cdef int on_news(self) except -1

cdef class AioLease(LeaseBase):
    cdef Node face
    cdef object watcher             # task that waits for the loss
    cdef bint is_revoked
