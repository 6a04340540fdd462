# An asyncio face below its verbs: the event loop it belongs to, its mailbox with one eventfd, answers in batches.
from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libcpp.vector cimport vector

from raftmeta.face.base cimport PendingResult
from raftmeta.face.calls cimport Call
from raftmeta.face.node cimport Node as SyncNode
from raftmeta.loop.tickets cimport Mailbox, Ticket

cdef class MailboxFace:
    cdef SyncNode node
    cdef object event_loop          # bound at the first call
    cdef object running             # what the thread keeps while that runs; see is_ready
    cdef Mailbox* mailbox           # NULL: not bound, or closed
    cdef Ticket* waiting            # tickets with a call, newest first
    cdef set watches                # what the mailbox may name; see AioWatch
    cdef uint32_t unrung            # submissions since the node's loop was rung
    cdef object ring                # bound method
    cdef bint rings_itself          # tasks are being resumed: whoever does that rings when all have run
    cdef uint64_t sweep_ns          # when time-outs are looked at next; UINT64_MAX: not planned
    cdef object sweep_handle
    cdef object __weakref__

    # Belong to the running event loop: at the first call, for good.
    cdef int bind(self) except -1
    # Take what has come; whoever still waits learns that nothing more can be learned here. No task is resumed in it.
    cdef int unbind(self) except -1
    # True: bound, on the event loop that runs here now, with a session to encode for.
    cdef bint is_ready(self) except -1
    # The call that waits for a ticket of this mailbox.
    cdef Call call_of(self, Ticket* ticket, uint64_t deadline_ns)
    # The same for a call that is there.
    cdef int await_ticket(self, Ticket* ticket, Call call, uint64_t deadline_ns) except -1
    # A wish that is no command (NodeBase.submit_wish).
    cdef Call wish(self, uint8_t kind, uint64_t number, uint8_t purpose, uint64_t deadline_ns)

    cdef int _begin_on(self, object event_loop) except -1
    cdef int _link(self, Ticket* ticket) except -1
    cdef void _unlink(self, Ticket* ticket) noexcept
    cdef int _ring_soon(self) except -1
    cdef int _plan_sweep(self, uint64_t deadline_ns) except -1
    cdef int _expire(self, Ticket* ticket) except -1
    cdef int _take_mail(self, bint may_resume) except -1
    cdef bint _put_again(self, Call call, uint64_t deadline_ns) except -1
    cdef Call _deliver(self, Ticket* ticket)
    cdef int _answer(self, Call call, Ticket* ticket) except -1
    cdef int _resume(self, vector[PyObject*]* calls) except -1

cdef class AioPendingResult(PendingResult):
    cdef MailboxFace face
