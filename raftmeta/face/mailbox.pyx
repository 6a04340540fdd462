"""The mailbox of an asyncio face: how calls of tasks wait for their answers, on asyncio and uvloop.

A call is submitted and awaits its ticket (face/calls). Answers are posted by the loop thread into one mailbox for
each event loop, which is woken once for a whole batch. All of it is taken here in one go: first every call gets its
answer, then the tasks that await them are resumed one by one, and what they submit next is rung for once. Time-outs are
swept, not armed for each call.

It decides to which event loop a face belongs, whom a batch concerns, and what a time-out means. It must
never undo a write because nobody waits for it any more (the answer to a cancelled call is thrown away, its batch goes
on), call into an event loop from another thread, or know a verb.
"""

from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libcpp.vector cimport vector

from raftmeta.bindings.verbs cimport Request
from raftmeta.engine.submission cimport AWAIT_READY
from raftmeta.face.answers cimport PURPOSE_NOTHING, answer_of, deadline_after, error_of
from raftmeta.face.base cimport PendingResult
from raftmeta.face.calls cimport CALL_GET, CALL_PENDING, CALL_PLAIN, CALL_PUT, Call, call_create, load_asyncio
from raftmeta.face.watch cimport WatchBase
from raftmeta.loop.loop cimport loop_ring
from raftmeta.loop.tickets cimport (MAIL_TICKET, Mail, Ticket, WatchSignal, mailbox_abandon, mailbox_create,
                                    mailbox_take, ticket_drop, ticket_hold, ticket_is_done, ticket_withdraw)
from raftmeta.native.atomics cimport load_acquire, store_shared
from raftmeta.native.threads cimport boot_now_ns
from raftmeta.net cimport posix
from raftmeta.status cimport OK

from raftmeta.errors import (InvalidArgument, NodeClosed, NotReady, OutcomeTimeout, OutcomeUnknown, ReadyTimeout,
                             Withdrawn)

cdef enum:
    TUNE_RING_EVERY = 128           # submissions in one turn of an event loop
    TUNE_SWEEP_NS = 5_000_000       # the least distance of two looks at time-outs

cdef extern from "Python.h":
    PyObject* PyThreadState_GetDict()

# Under this name a thread keeps an object of its own for each run of an event loop (before Python 3.14, which needs no
# such shortcut). asyncio.get_running_loop() would look there, too, but asks the system first whether this is a fork.
cdef object _RUNNING_LOOP = "__asyncio_running_event_loop__"
cdef object _get_running_loop = None           # of asyncio, which the first face imports
cdef object _get_running_loop_or_none = None
cdef uint64_t NEVER = ~<uint64_t>0


cdef int _load_asyncio() except -1:
    global _get_running_loop, _get_running_loop_or_none
    import asyncio

    load_asyncio()
    _get_running_loop, _get_running_loop_or_none = asyncio.get_running_loop, asyncio._get_running_loop
    return 0


cdef class MailboxFace:
    def __cinit__(self, *args, **kwargs):
        if _get_running_loop is None:
            _load_asyncio()
        self.watches = set()
        self.sweep_ns = NEVER

    def __del__(self):
        """Its event loop ended before it was closed: while that runs, it holds the face as the reader of its mailbox.
        Calls do not hold it, for nobody would ever end one whose event loop is closed. Not in __dealloc__: `watches`
        must still be there."""
        cdef Ticket* ticket
        if self.mailbox != NULL:
            mailbox_abandon(self.mailbox)
            self.mailbox = NULL
        while self.waiting != NULL:
            ticket = self.waiting
            self.waiting = ticket.next_waiting
            (<Call>ticket.waiter).abandon()
            Py_DECREF(<object>ticket.waiter)
            ticket_drop(ticket)

    # --- the event loop -----------------------------------------------------------------------------------------------
    # Belong to the running event loop: at the first call, for good.
    cdef int bind(self) except -1:
        cdef PyObject* run
        running = _get_running_loop()
        if self.mailbox == NULL:
            self._begin_on(running)
        elif running is not self.event_loop:
            raise InvalidArgument("this face of the node belongs to another event loop: make one with aio()")
        run = PyDict_GetItem(<object>PyThreadState_GetDict(), _RUNNING_LOOP)
        self.running = None if run == NULL else <object>run
        return 0

    cdef int _begin_on(self, object event_loop) except -1:
        if self.event_loop is not None:
            raise NodeClosed("this face of the node is closed")
        self.event_loop = event_loop
        self.ring = self._ring
        self.mailbox = mailbox_create(True)
        if self.mailbox == NULL:
            raise MemoryError
        self.event_loop.add_reader(self.mailbox.event_fd, self._on_mail)
        self.node.faces.add(self)
        return 0

    def _close_in_child(self):
        if self.mailbox != NULL:
            posix.close(self.mailbox.event_fd)
            self.mailbox.event_fd = -1

    cdef int unbind(self) except -1:
        cdef Ticket* ticket
        cdef Call call
        if self.mailbox == NULL:
            return 0
        self._take_mail(False)
        self.event_loop.remove_reader(self.mailbox.event_fd)
        if self.sweep_handle is not None:
            self.sweep_handle.cancel()
        mailbox_abandon(self.mailbox)
        self.mailbox = NULL
        self.watches.clear()
        while self.waiting != NULL:
            ticket = self.waiting
            self._unlink(ticket)
            call = <Call>ticket.waiter
            withdrawn = ticket_withdraw(ticket)
            call.fail(NodeClosed("this face of the node is closed") if withdrawn
                      else OutcomeUnknown("this face of the node was closed meanwhile"))
            Py_DECREF(call)
            ticket.waiter = NULL
            ticket_drop(ticket)
        return 0

    # --- calls --------------------------------------------------------------------------------------------------------
    cdef bint is_ready(self) except -1:
        cdef PyObject* run
        if self.node.loop == NULL or load_acquire(&self.node.loop.session) == 0:
            return False
        if self.mailbox == NULL:
            return self.event_loop is None and _get_running_loop_or_none() is not None and self.bind() == 0
        run = PyDict_GetItem(<object>PyThreadState_GetDict(), _RUNNING_LOOP)
        return (run == <PyObject*>self.running if run != NULL
                else _get_running_loop_or_none() is self.event_loop)

    cdef int _link(self, Ticket* ticket) except -1:
        ticket.previous_waiting = NULL
        ticket.next_waiting = self.waiting
        if self.waiting != NULL:
            self.waiting.previous_waiting = ticket
        self.waiting = ticket
        return 0

    cdef void _unlink(self, Ticket* ticket) noexcept:
        if ticket.next_waiting != NULL:
            ticket.next_waiting.previous_waiting = ticket.previous_waiting
        if ticket.previous_waiting != NULL:
            ticket.previous_waiting.next_waiting = ticket.next_waiting
        else:
            self.waiting = ticket.next_waiting

    cdef Call call_of(self, Ticket* ticket, uint64_t deadline_ns):
        call = call_create(self.event_loop, CALL_PLAIN)
        self.await_ticket(ticket, call, deadline_ns)
        return call

    cdef int await_ticket(self, Ticket* ticket, Call call, uint64_t deadline_ns) except -1:
        Py_INCREF(call)
        ticket.waiter = <void*>call
        ticket.deadline_ns = deadline_ns
        self._link(ticket)
        self._ring_soon()
        return self._plan_sweep(deadline_ns) if deadline_ns < self.sweep_ns else 0

    # Once for what all tasks of this turn of the event loop submit; in between when that is much.
    cdef int _ring_soon(self) except -1:
        self.unrung += 1
        if self.unrung == 1 and not self.rings_itself:
            self.event_loop.call_soon(self.ring)
        elif self.unrung % TUNE_RING_EVERY == 0 and self.node.loop != NULL:
            loop_ring(self.node.loop)
        return 0

    def _ring(self):
        self.unrung = 0
        if self.node.loop != NULL:
            loop_ring(self.node.loop)

    cdef int _plan_sweep(self, uint64_t deadline_ns) except -1:
        cdef uint64_t now_ns = boot_now_ns()
        cdef uint64_t at_ns = max(deadline_ns, now_ns + TUNE_SWEEP_NS)
        if at_ns >= self.sweep_ns:
            return 0
        if self.sweep_handle is not None:
            self.sweep_handle.cancel()
        self.sweep_ns = at_ns
        self.sweep_handle = self.event_loop.call_later((at_ns - now_ns) / 1e9, self._sweep)
        return 0

    def _sweep(self):
        cdef Ticket* ticket = self.waiting
        cdef Ticket* next
        cdef uint64_t now_ns = boot_now_ns()
        cdef uint64_t earliest_ns = NEVER
        self.sweep_handle = None
        self.sweep_ns = NEVER
        while ticket != NULL:
            next = ticket.next_waiting
            if ticket.deadline_ns <= now_ns and not ticket_is_done(ticket):
                self._expire(ticket)
            elif ticket.deadline_ns < earliest_ns:
                earliest_ns = ticket.deadline_ns
            ticket = next
        if earliest_ns != NEVER:
            self._plan_sweep(earliest_ns)

    # Nobody waits on this call's ticket any more; the engine's hold comes back by mail.
    cdef int _expire(self, Ticket* ticket) except -1:
        cdef Call call = <Call>ticket.waiter
        if ticket_withdraw(ticket):
            error = Withdrawn("timed out before it was proposed; certainly not applied")
        else:
            error = OutcomeTimeout("timed out after it was proposed; it may still be applied",
                                   ticket=_pending(self, ticket))
        self._unlink(ticket)
        ticket.waiter = NULL
        ticket_drop(ticket)
        Py_DECREF(call)
        return call.fail(error)

    def _on_mail(self):
        self._take_mail(True)

    # may_resume: no task runs now, so that tasks can be resumed from here.
    cdef int _take_mail(self, bint may_resume) except -1:
        cdef vector[PyObject*] calls
        cdef Mail* mail
        cdef Mail* next
        cdef Call call
        if self.mailbox == NULL:
            return 0
        mail = mailbox_take(self.mailbox)
        while mail != NULL:
            next = mail.next
            if mail.kind == MAIL_TICKET:
                call = self._deliver(<Ticket*>mail)
                if call is not None and may_resume:
                    Py_INCREF(call)
                    calls.push_back(<PyObject*>call)
                elif call is not None:
                    call.wake_soon()
            else:
                store_shared(&(<WatchSignal*>mail).is_posted, <uint32_t>0)
                (<WatchBase>(<WatchSignal*>mail).consumer).on_news()
            mail = next
        # Only now: what tasks do, such as to close a watch, must not meet mail that was not looked at.
        return self._resume(&calls)

    # The call that this answers, if its task is to be resumed.
    cdef Call _deliver(self, Ticket* ticket):
        cdef Call call
        cdef bint must_resume = False
        if ticket.waiter == NULL:       # it expired before
            ticket_drop(ticket)
            return None
        call = <Call>ticket.waiter
        self._unlink(ticket)
        ticket.waiter = NULL
        Py_DECREF(call)
        try:
            if call.state == CALL_PENDING:      # else it was cancelled; what it asked for was done all the same
                must_resume = self._answer(call, ticket)
        except Exception as error:      # an answer that cannot be read is that caller's, not its batch's
            call.fail(error)
        ticket_drop(ticket)             # the engine's hold, then this face's
        ticket_drop(ticket)
        return call if must_resume else None

    # True: its task is to be resumed.
    cdef int _answer(self, Call call, Ticket* ticket) except -1:
        if ticket.status == OK:
            return call.succeed(self.node.read_key(call.key, call.revision) if call.kind == CALL_GET
                                else answer_of(ticket, ticket.purpose))
        error = error_of(ticket)
        if call.kind != CALL_PUT or not isinstance(error, NotReady) or not self._put_again(call, ticket.deadline_ns):
            call.fail(error)
        return False

    cdef int _resume(self, vector[PyObject*]* calls) except -1:
        cdef size_t i = 0
        cdef Call call
        self.rings_itself = True
        try:
            while i < calls.size():
                call = <Call>calls[0][i]
                Py_DECREF(call)
                i += 1
                try:
                    call.wake()
                except Exception as error:
                    self.event_loop.call_exception_handler({"message": "resuming a task failed", "exception": error})
        finally:
            self.rings_itself = False
            while i < calls.size():     # the event loop is told to end: it resumes the others if it goes on
                (<Call>calls[0][i]).wake_soon()
                Py_DECREF(<object>calls[0][i])
                i += 1
            if self.unrung != 0:
                self._ring()
        return 0

    cdef Call wish(self, uint8_t kind, uint64_t number, uint8_t purpose, uint64_t deadline_ns):
        self.bind()
        return self.call_of(self.node.submit_wish(kind, number, purpose, self.mailbox), deadline_ns)

    async def _session(self, uint64_t deadline_ns):
        if self.node.has_session():
            return
        try:
            await self.wish(AWAIT_READY, 0, PURPOSE_NOTHING, deadline_ns)
        except Withdrawn:
            raise self.node.not_ready(ReadyTimeout, "the node is not ready") from None

    # Its session ended before it arrived: the same by a task of its own. False: it is too late.
    cdef bint _put_again(self, Call call, uint64_t deadline_ns) except -1:
        cdef uint64_t now_ns = boot_now_ns()
        if now_ns >= deadline_ns:
            return False
        timeout_s = None if deadline_ns == NEVER else (deadline_ns - now_ns) / 1e9
        call.follow(self.event_loop.create_task(call.request.ask_aio(self, timeout_s)))
        return True

    # --- the carrier of a request (bindings/verbs) --------------------------------------------------------------------
    def _prepare(self, Request request not None, timeout_s):
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        request.prepare(self.node.value_bytes_max)
        return deadline_ns

    def _has_session(self):
        return self.node.has_session()

    def _carry(self, Request request not None, uint64_t deadline_ns):
        self.bind()
        return self.call_of(self.node.submit(request, self.mailbox), deadline_ns)

    def _is_late(self, uint64_t deadline_ns):
        return boot_now_ns() >= deadline_ns


# --- an operation whose caller ran out of time ------------------------------------------------------------------------
cdef AioPendingResult _pending(MailboxFace face, Ticket* ticket):
    cdef AioPendingResult pending = AioPendingResult.__new__(AioPendingResult)
    pending.face = face
    pending.node = face.node
    pending.purpose = ticket.purpose
    pending.ticket = ticket
    ticket_hold(ticket)
    return pending


cdef class AioPendingResult(PendingResult):
    async def result(self, timeout_s=5.0):
        if ticket_is_done(self.ticket):
            if self.ticket.status != 0:
                raise error_of(self.ticket)
            return answer_of(self.ticket, self.purpose)
        if self.ticket.waiter != NULL:
            raise InvalidArgument("ticket: somebody waits for it already", field="ticket")
        self.face.bind()
        ticket_hold(self.ticket)
        return await self.face.call_of(self.ticket, deadline_after(timeout_s))
