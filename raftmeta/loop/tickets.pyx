"""How an answer gets from the loop to whoever waits, in batches and without a lock.

It decides who frees a ticket, and who is woken. It must never touch a Python object (waiter and consumer
are carried, not looked at), or wait on the loop's side.

A mailbox is rung once for everything posted since its owner looked. The race, in steps, and what prevents it:
    1. the loop posts mail and finds is_rung set: the owner will look, so it does not write to the eventfd;
    2. the owner, on its way, clears is_rung and then takes what is posted.
The owner clears *before* it takes: mail posted before 2 is taken now, mail posted after 2 finds is_rung clear and
rings.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from raftmeta.native.atomics cimport (add_shared, exchange_shared, load_acquire, load_shared, store_shared,
                                      subtract_shared, swap_shared)
from raftmeta.native.threads cimport futex_wait, futex_wake
from raftmeta.net cimport posix
from raftmeta.raft.types cimport index_t
from raftmeta.status cimport OK, OUTCOME_UNKNOWN, status_t


# --- the caller's side ------------------------------------------------------------------------------------------------
cdef Ticket* ticket_create(Mailbox* mailbox, bint wants_body) noexcept nogil:
    cdef Ticket* ticket = <Ticket*>calloc(1, sizeof(Ticket))
    if ticket == NULL:
        return NULL
    ticket.mail.kind = MAIL_TICKET
    ticket.holders = 2
    ticket.wants_body = wants_body
    ticket.mailbox = mailbox
    if mailbox != NULL:
        mailbox_hold(mailbox)
    return ticket


cdef void ticket_hold(Ticket* ticket) noexcept nogil:
    add_shared(&ticket.holders, <uint32_t>1)


cdef void ticket_drop(Ticket* ticket) noexcept nogil:
    if subtract_shared(&ticket.holders, <uint32_t>1) != 0:
        return
    if ticket.mailbox != NULL:
        mailbox_drop(ticket.mailbox)
    free(ticket.body)
    free(ticket)


cdef bint ticket_withdraw(Ticket* ticket) noexcept nogil:
    return swap_shared(&ticket.state, <uint32_t>TICKET_QUEUED, <uint32_t>TICKET_WITHDRAWN)


cdef bint ticket_is_done(Ticket* ticket) noexcept nogil:
    return load_acquire(&ticket.state) == TICKET_DONE


cdef void ticket_wait(Ticket* ticket, uint64_t timeout_ns) noexcept nogil:
    # 1. the waiter says is_awaited, 2. looks at state and sleeps on it; the loop 3. changes state, 4. looks at
    # is_awaited. In each order of 1 and 3, either 2 sees the change or 4 sees the waiter.
    store_shared(&ticket.is_awaited, <uint32_t>1)
    cdef uint32_t seen = load_shared(&ticket.state)
    if seen != TICKET_DONE:
        futex_wait(&ticket.state, seen, timeout_ns)


# --- the loop's side --------------------------------------------------------------------------------------------------
cdef bint ticket_claim(Ticket* ticket) noexcept nogil:
    return swap_shared(&ticket.state, <uint32_t>TICKET_QUEUED, <uint32_t>TICKET_PROPOSED)


cdef void _keep_body(Ticket* ticket, const uint8_t* body, uint32_t length) noexcept nogil:
    if not ticket.wants_body or length == 0:
        return
    ticket.body = <uint8_t*>malloc(length)
    if ticket.body == NULL:     # it was executed, and its caller cannot be told what came of it
        ticket.status = OUTCOME_UNKNOWN if ticket.status == OK else ticket.status
        return
    memcpy(ticket.body, body, length)
    ticket.length = length


cdef void _post(Mailbox* mailbox, Mail* mail, Wakeups* wakeups) noexcept nogil:
    mailbox.posted.push(mail)
    if not mailbox.has_news:
        mailbox.has_news = True
        mailbox.next = wakeups.mailboxes
        wakeups.mailboxes = mailbox
        mailbox_hold(mailbox)


cdef void ticket_done(Ticket* ticket, status_t status, uint64_t revision, index_t index, const uint8_t* body,
                      uint32_t length, Wakeups* wakeups) noexcept nogil:
    ticket.status = status
    ticket.revision = revision
    ticket.index = index
    _keep_body(ticket, body, length)
    if exchange_shared(&ticket.state, <uint32_t>TICKET_DONE) == TICKET_WITHDRAWN and ticket.mailbox == NULL:
        ticket_drop(ticket)     # its caller has left
    elif ticket.mailbox != NULL:
        _post(ticket.mailbox, &ticket.mail, wakeups)
    else:
        ticket.mail.next = wakeups.threads
        wakeups.threads = &ticket.mail


cdef void watch_signal_tell(WatchSignal* signal, Wakeups* wakeups) noexcept nogil:
    if signal.mailbox != NULL:
        if exchange_shared(&signal.is_posted, <uint32_t>1) == 0:
            _post(signal.mailbox, &signal.mail, wakeups)
        return
    # As in ticket_wait; a thread that is awake, or was just woken, looks again before it sleeps.
    add_shared(&signal.word, <uint32_t>1)
    if load_shared(&signal.is_awaited) and exchange_shared(&signal.is_awaited, <uint32_t>0):
        futex_wake(&signal.word, 1)


cdef void _throw_away(Mailbox* mailbox) noexcept nogil:
    cdef Mail* mail = mailbox.posted.take()
    cdef Mail* next
    while mail != NULL:
        next = mail.next
        if mail.kind == MAIL_TICKET:
            ticket_drop(<Ticket*>mail)
        mail = next


cdef void _ring(Mailbox* mailbox) noexcept nogil:
    mailbox.has_news = False
    # The owner says is_abandoned and then throws away; the loop posts and then looks here: nothing is left behind.
    if load_shared(&mailbox.is_abandoned):
        _throw_away(mailbox)
    else:
        mailbox_ring(mailbox)
    mailbox_drop(mailbox)


cdef void wakeups_flush(Wakeups* wakeups) noexcept nogil:
    cdef Mail* mail = wakeups.threads
    cdef Mailbox* mailbox = wakeups.mailboxes
    cdef Mail* next
    cdef Mailbox* next_mailbox
    wakeups.threads = NULL
    wakeups.mailboxes = NULL
    while mail != NULL:
        next = mail.next
        if load_shared(&(<Ticket*>mail).is_awaited):
            futex_wake(&(<Ticket*>mail).state, 1)
        ticket_drop(<Ticket*>mail)
        mail = next
    while mailbox != NULL:
        next_mailbox = mailbox.next
        _ring(mailbox)
        mailbox = next_mailbox


# --- mailboxes --------------------------------------------------------------------------------------------------------
cdef Mailbox* mailbox_create(bint with_event_fd) noexcept nogil:
    cdef Mailbox* mailbox = <Mailbox*>calloc(1, sizeof(Mailbox))
    if mailbox == NULL:
        return NULL
    mailbox.holders = 1
    mailbox.event_fd = posix.eventfd(0, posix.EFD_CLOEXEC | posix.EFD_NONBLOCK) if with_event_fd else -1
    if with_event_fd and mailbox.event_fd < 0:
        free(mailbox)
        return NULL
    return mailbox


cdef void mailbox_hold(Mailbox* mailbox) noexcept nogil:
    add_shared(&mailbox.holders, <uint32_t>1)


cdef void mailbox_drop(Mailbox* mailbox) noexcept nogil:
    if subtract_shared(&mailbox.holders, <uint32_t>1) == 0:
        if mailbox.event_fd >= 0:
            posix.close(mailbox.event_fd)
        free(mailbox)


cdef Mail* mailbox_take(Mailbox* mailbox) noexcept nogil:
    cdef uint64_t count
    if mailbox.event_fd >= 0:
        posix.read(mailbox.event_fd, &count, sizeof(count))
    store_shared(&mailbox.is_rung, <uint32_t>0)
    return mailbox.posted.take()


cdef void mailbox_ring(Mailbox* mailbox) noexcept nogil:
    cdef uint64_t one = 1
    if exchange_shared(&mailbox.is_rung, <uint32_t>1) != 0:
        return
    if mailbox.event_fd >= 0:
        posix.write(mailbox.event_fd, &one, sizeof(one))
    else:
        futex_wake(&mailbox.is_rung, 1)


cdef void mailbox_await(Mailbox* mailbox, uint64_t timeout_ns) noexcept nogil:
    futex_wait(&mailbox.is_rung, 0, timeout_ns)


cdef void mailbox_abandon(Mailbox* mailbox) noexcept nogil:
    store_shared(&mailbox.is_abandoned, <uint32_t>1)
    _throw_away(mailbox)
    mailbox_drop(mailbox)
