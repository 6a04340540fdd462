"""A lease as its owner holds it.

It decides when this process must believe the lease lost: by its own clock, from *before* the last acknowledged
keep-alive was sent, less a margin for clocks that drift (decisions/README.md "Leases"). A lease cannot protect
the time between a check and the act that follows, nor a pause of the machine. Only a fence does that, which the
store checks.
"""

import functools
import logging

from libc.stdint cimport uint64_t

from raftmeta.bindings.verbs cimport Request, lease_ttl_ms
from raftmeta.face.answers cimport PURPOSE_NOTHING, deadline_after
from raftmeta.face.base cimport LIFE_RUNNING, NodeBase
from raftmeta.loop.tickets cimport ticket_drop, ticket_hold, ticket_is_done
from raftmeta.native.atomics cimport load_acquire, store_release
from raftmeta.native.threads cimport boot_now_ns

from raftmeta.bindings.verbs import grant, revoke
from raftmeta.errors import LeaseExpired, RaftmetaError
from raftmeta.common.flags import Flag
from raftmeta.verbs.lease import Lease

_LOG = logging.getLogger(__name__)

cdef enum:
    DRIFT_DIVISOR = 20              # 5 %: clocks of two machines whose rates differ by more are broken
    LOOKS_PER_TTL = 20              # of a thread that waits for the loss


# Of the terms that the loop writes to no more.
cdef int _let_go(NodeBase node) except -1:
    cdef DroppedTerm dropped
    cdef list kept = []
    found, node.dropped = node.dropped, kept
    for dropped in found:
        if ticket_is_done(dropped.ticket):
            node.attached.discard(dropped.term)
        else:
            kept.append(dropped)
    return 0


cdef class DroppedTerm:
    def __dealloc__(self):
        if self.ticket != NULL:
            ticket_drop(self.ticket)


cdef class LeaseBase:
    def __cinit__(self, *args, **kwargs):
        self.term = Term()

    def __init__(self, NodeBase node not None, ttl_s):
        self.node = node
        self.ttl_ms = lease_ttl_ms(ttl_s)

    def __del__(self):
        """Nobody holds this object any more, and nobody gave the lease back: it is kept alive no longer."""
        if self.node is None or self.is_dropped or self.node.life != LIFE_RUNNING:
            return
        if load_acquire(&self.term.until_ns) == 0:      # the loop found it gone, and has let go of it
            self.node.attached.discard(self.term)
            return
        try:
            ticket_drop(self.drop(NULL))
        except RaftmetaError:
            return
        _LOG.info("lease collected and not revoked: its keys go when its time is over; hold the object for as long "
                  "as it is to be kept alive lease=%d ttl_s=%g", self.id, self.ttl_s)

    cdef Ticket* keep(self, uint64_t lease, uint64_t asked_ns, Mailbox* mailbox) except NULL:
        self.id = lease
        store_release(&self.term.until_ns, asked_ns + self.ttl_ms * 1_000_000)
        _let_go(self.node)
        self.node.attached.add(self.term)
        return self.node.submit_keep_lease(lease, self.ttl_ms, &self.term.until_ns, mailbox)

    cdef Ticket* drop(self, Mailbox* mailbox) except NULL:
        cdef DroppedTerm dropped = DroppedTerm()
        self.is_dropped = True
        dropped.term = self.term
        dropped.ticket = self.node.submit_drop_lease(self.id, mailbox)
        ticket_hold(dropped.ticket)
        self.node.dropped.append(dropped)
        return dropped.ticket

    cdef uint64_t held_until_ns(self) noexcept:
        cdef uint64_t until_ns = load_acquire(&self.term.until_ns) if not self.is_lost else 0
        return until_ns - self.ttl_ms * 1_000_000 // DRIFT_DIVISOR if until_ns != 0 else 0

    @property
    def ttl_s(self):
        return self.ttl_ms / 1000.0         # C integers would divide as such

    def held(self):
        return self.remaining_s() > 0

    def remaining_s(self):
        cdef uint64_t now_ns = boot_now_ns()
        cdef uint64_t until_ns = self.held_until_ns()
        if now_ns < until_ns:
            return (until_ns - now_ns) / 1e9
        if not self.is_lost:
            self._lose()
        return 0.0

    cdef int _lose(self) except -1:
        self.is_lost = True
        if load_acquire(&self.term.until_ns) == 0 or self.node.life != LIFE_RUNNING:
            return 0                # revoked, or the loop said so and has let go of it
        try:
            self.node.finish(self.drop(NULL), PURPOSE_NOTHING, ~<uint64_t>0)
        except RaftmetaError:
            pass                    # the node ended: nobody keeps it alive
        return 0

    def __repr__(self):
        return f"<Lease {self.id} ttl_s={self.ttl_s:g} {'held' if boot_now_ns() < self.held_until_ns() else 'lost'}>"


cdef class NodeLease(LeaseBase, Lease):
    def __init__(self, NodeBase node not None, ttl_s, *, id=0, on_lost=None, timeout_s=5.0):
        super().__init__(node, ttl_s)
        self.ended = Flag()
        self._grant(grant(id, self.ttl_ms), deadline_after(timeout_s))
        if on_lost is not None:
            self.node.lease_losses().add(self, functools.partial(on_lost, self))

    # Asked for once: what is held counts from before it was sent.
    cdef int _grant(self, Request request, uint64_t deadline_ns) except -1:
        cdef uint64_t asked_ns
        request.prepare(self.node.value_bytes_max)
        self.node.await_session(deadline_ns)
        asked_ns = boot_now_ns()
        granted = self.node.finish(self.node.submit(request, NULL), request.purpose, deadline_ns)
        self.node.finish(self.keep(granted, asked_ns, NULL), PURPOSE_NOTHING, ~<uint64_t>0)
        return 0

    @property
    def is_revoked(self):
        return self.ended.is_set()

    def wait_lost(self, timeout_s=None):
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        cdef double pause_s
        while self.held():
            pause_s = min(self.remaining_s(), self.ttl_s / LOOKS_PER_TTL)
            if boot_now_ns() >= deadline_ns:
                return False
            self.ended.wait(pause_s)
        return True

    def revoke(self, *, timeout_s=5.0):
        deadline_after(timeout_s)
        if self.ended.is_set():
            return
        self.ended.set()
        if self.node.losses is not None:
            self.node.losses.remove(self)       # revoked is not lost
        was_held = self.held()          # else it is dropped now
        if was_held and self.node.life == LIFE_RUNNING:
            self.node.finish(self.drop(NULL), PURPOSE_NOTHING, ~<uint64_t>0)
        store_release(&self.term.until_ns, <uint64_t>0)
        if not was_held:
            return      # it expires by itself; by now its id may be another's
        try:
            self.node._ask(revoke(self.id), timeout_s)
        except LeaseExpired:
            pass        # gone already, and its keys with it

    def __exit__(self, *_exc):
        if self.node.life == LIFE_RUNNING:
            self.revoke()
