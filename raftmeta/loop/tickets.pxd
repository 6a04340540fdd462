# Tickets: a caller holds one while the engine works, and the answer comes back through it.
#
# A ticket is one malloc'ed struct with two holders, the caller and the engine; the last one to let go frees it. So a
# caller may leave at any time (time-out, Ctrl-C, cancelled task) without a word to the engine.
#
#     QUEUED --claim--> PROPOSED --done--> DONE          the engine
#     QUEUED --withdraw--> WITHDRAWN                     the caller; from PROPOSED on it is too late
#
# The engine posts the answer of a ticket with a mailbox there, with one wake-up for all answers of a turn. Without a
# mailbox, a thread sleeps on `state`.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.threads cimport Handoff
from raftmeta.raft.types cimport index_t
from raftmeta.status cimport status_t

cdef enum MailKind:
    MAIL_TICKET = 1             # a Ticket that is DONE
    MAIL_WATCH = 2              # a WatchSignal: its watch has items to take

# An item in a mailbox: the first member of a Ticket or a WatchSignal.
cdef struct Mail:
    Mail* next
    uint8_t kind

# One for each event loop, and one for the callbacks of watches: what is posted is looked at in batches. Counted by its
# owner and every ticket that names it.
cdef struct Mailbox:
    Mailbox* next               # in the loop's list of those to ring
    bint has_news               # since the last flush; the loop thread's own
    uint32_t holders
    uint32_t is_rung            # rung, and nobody looked since; without an eventfd the owner sleeps on it
    uint32_t is_abandoned       # its owner is gone: what is posted is thrown away
    int event_fd                # -1: none
    Handoff[Mail] posted

cdef enum TicketState:
    TICKET_QUEUED = 0
    TICKET_PROPOSED = 1
    TICKET_WITHDRAWN = 2
    TICKET_DONE = 3

cdef struct Ticket:
    Mail mail
    uint32_t state              # TicketState; shared, a caller's thread sleeps on it
    uint32_t holders
    uint32_t is_awaited         # a thread sleeps, or is about to
    uint8_t wants_body
    uint8_t is_of_client        # not counted among the operations of the host (Loop.in_flight)
    Mailbox* mailbox            # NULL: a thread waits
    # The answer; valid once DONE.
    status_t status
    uint32_t length
    uint64_t revision
    index_t index
    uint8_t* body               # malloc'ed; NULL: none, or not wanted
    # The mailbox owner's own; the engine never looks.
    void* waiter                # a Python object that the owner holds
    uint8_t purpose
    uint64_t deadline_ns
    Ticket* previous_waiting
    Ticket* next_waiting

# A watch told the loop that it has items.
cdef struct WatchSignal:
    Mail mail
    uint32_t word               # counts; a consumer's thread sleeps on it
    uint32_t is_awaited         # that thread sleeps, or is about to
    uint32_t is_posted          # in the mailbox already
    Mailbox* mailbox            # NULL: a thread consumes
    void* consumer              # a Python object that the mailbox's owner knows to be alive

# Whom the loop has to wake at the end of its turn; the loop thread's own.
cdef struct Wakeups:
    Mail* threads               # tickets whose thread may sleep, newest first
    Mailbox* mailboxes

cdef Ticket* ticket_create(Mailbox* mailbox, bint wants_body) noexcept nogil   # two holders; NULL: no memory
cdef void ticket_hold(Ticket* ticket) noexcept nogil
cdef void ticket_drop(Ticket* ticket) noexcept nogil
# The caller: true if the engine had not claimed it, which is then certainly not executed.
cdef bint ticket_withdraw(Ticket* ticket) noexcept nogil
cdef bint ticket_is_done(Ticket* ticket) noexcept nogil
# The caller's thread: sleep until done or timeout_ns have passed, or a signal came: look again.
cdef void ticket_wait(Ticket* ticket, uint64_t timeout_ns) noexcept nogil

# The loop:
cdef bint ticket_claim(Ticket* ticket) noexcept nogil
# Takes the engine's hold over.
cdef void ticket_done(Ticket* ticket, status_t status, uint64_t revision, index_t index, const uint8_t* body,
                      uint32_t length, Wakeups* wakeups) noexcept nogil
cdef void watch_signal_tell(WatchSignal* signal, Wakeups* wakeups) noexcept nogil
cdef void wakeups_flush(Wakeups* wakeups) noexcept nogil

# with_event_fd: its owner waits for that to be readable; else in mailbox_await. NULL: no memory or no descriptor.
cdef Mailbox* mailbox_create(bint with_event_fd) noexcept nogil
cdef void mailbox_hold(Mailbox* mailbox) noexcept nogil
cdef void mailbox_drop(Mailbox* mailbox) noexcept nogil
# The owner lets go; answers that are still to come are thrown away.
cdef void mailbox_abandon(Mailbox* mailbox) noexcept nogil
# Any thread that has a hold, or the owner's: have it look, though nothing may be posted.
cdef void mailbox_ring(Mailbox* mailbox) noexcept nogil
# The owner: sleep until it is rung, at most timeout_ns.
cdef void mailbox_await(Mailbox* mailbox, uint64_t timeout_ns) noexcept nogil
# The owner: everything posted, in order. Tickets bring the engine's hold with them.
cdef Mail* mailbox_take(Mailbox* mailbox) noexcept nogil
