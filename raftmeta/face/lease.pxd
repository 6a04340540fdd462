# Leases that this node keeps alive, natively: a host that holds the GIL does not lose them.
from libc.stdint cimport uint64_t

from raftmeta.bindings.verbs cimport Request
from raftmeta.face.base cimport NodeBase
from raftmeta.loop.tickets cimport Mailbox, Ticket

# The loop writes to a Term from keep() until drop() is answered. NodeBase.attached holds it for so long, and nothing
# else of the lease: a lease whose object is collected is dropped.
cdef class Term:
    # Shared: sent time of the last acknowledged keep-alive plus ttl, on CLOCK_BOOTTIME; 0: lost.
    cdef uint64_t until_ns

# A term whose drop was submitted, until that is answered: NodeBase.dropped.
cdef class DroppedTerm:
    cdef Ticket* ticket
    cdef Term term

cdef class LeaseBase:
    cdef NodeBase node
    cdef readonly uint64_t id
    cdef uint64_t ttl_ms
    cdef Term term
    cdef bint is_dropped            # revoked, or told to be lost: nothing is left to do at its collection
    cdef bint is_lost               # somebody was told so: it is never held again, whatever a late keep-alive says

    # After the grant, which was asked for at asked_ns.
    cdef Ticket* keep(self, uint64_t lease, uint64_t asked_ns, Mailbox* mailbox) except NULL
    cdef Ticket* drop(self, Mailbox* mailbox) except NULL
    # Until when it is certainly held: a margin for drifting clocks is taken off. 0: lost.
    cdef uint64_t held_until_ns(self) noexcept
    # Told for the first time: it is kept alive no longer, so that its keys go and others can have what it stood for.
    cdef int _lose(self) except -1

cdef class NodeLease(LeaseBase):
    cdef object ended               # threading.Event: revoked, or the node is closed: on_lost is not called any more
    cdef int _grant(self, Request request, uint64_t deadline_ns) except -1
