"""raftmeta.aio: the same verbs as coroutines, on asyncio and uvloop.

A call encodes and submits, then awaits a Call (runtime/calls). Answers are posted by the loop thread into
one mailbox for each event loop, which is woken once for a whole batch. All of it is taken here in one go: first every
call gets its answer, then the tasks that await them are resumed one by one, and what they submit next is rung for once.
Time-outs are swept, not armed for each call.

What it decides: what a time-out means, and whom a batch concerns. What it never does: undo a write because nobody
waits for it any more (a cancelled call's answer is thrown away, its batch goes on), or call into an event loop from
another thread.
"""

import asyncio

from cpython.dict cimport PyDict_GetItem
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libcpp.vector cimport vector

from raftmeta.native.atomics cimport load_acquire, store_release, store_shared
from raftmeta.native.threads cimport boot_now_ns
from raftmeta.net cimport posix
from raftmeta.runtime.answers cimport (PURPOSE_NOTHING, PURPOSE_PREVIOUS, PURPOSE_READ, PURPOSE_REVISION, answer_of,
                                       deadline_after, error_of)
from raftmeta.runtime.calls cimport CALL_GET, CALL_PENDING, CALL_PLAIN, CALL_PUT, Call, call_create, submitted
from raftmeta.runtime.engine_state cimport SUBMIT_CAMPAIGN, SUBMIT_READ, SUBMIT_TRANSFER
from raftmeta.runtime.loop cimport LOOP_AWAIT_FOLLOWER, LOOP_AWAIT_READY, loop_ring
from raftmeta.runtime.node cimport Node as SyncNode
from raftmeta.runtime.node_base cimport LIFE_RUNNING, PendingResult
from raftmeta.runtime.node_lease cimport LeaseBase
from raftmeta.runtime.node_members cimport (next_look_ns, settled_members, submit_await_membership, submit_step,
                                            view_of)
from raftmeta.runtime.node_watch cimport TAKE_CLOSED, TAKE_REOPEN, TAKE_WAIT, WatchBase, batch_of
from raftmeta.runtime.tickets cimport (MAIL_TICKET, Mail, Ticket, WatchSignal, mailbox_abandon, mailbox_create,
                                       mailbox_take, ticket_drop, ticket_hold, ticket_is_done, ticket_withdraw)
from raftmeta.status cimport OK
from raftmeta.wire.commands cimport Fence, Op
from raftmeta.wire.puts cimport pairs_of
from raftmeta.wire.python_commands cimport take_fence, take_number
from raftmeta.wire.verbs cimport (add_op, create_op, delete_op, delete_range_op, fence_of, put_op, range_bounds,
                                  take_lease, update_op)

from raftmeta.errors import (Fatal, InvalidArgument, LeaseExpired, NodeClosed, NotExecuted, NotReady, OutcomeTimeout,
                             OutcomeUnknown, RaftmetaError, ReadyTimeout, Withdrawn)
from raftmeta.member_plans import adding, removing, replacing, voting
from raftmeta.runtime.node import Node as _SyncNode

cdef enum:
    TUNE_RING_EVERY = 128           # submissions in one turn of an event loop
    TUNE_SWEEP_NS = 5_000_000       # the least distance of two looks at time-outs
    LOOKS_PER_TTL = 20

cdef extern from "Python.h":
    PyObject* PyThreadState_GetDict()

# Under this name a thread keeps an object of its own for each run of an event loop (before Python 3.14, which needs no
# such shortcut). asyncio.get_running_loop() would look there, too, but asks the system first whether this is a fork.
cdef object _RUNNING_LOOP = "__asyncio_running_event_loop__"
cdef object _get_running_loop = asyncio.get_running_loop
cdef object _get_running_loop_or_none = asyncio._get_running_loop
cdef object _NO_LEASE = 0       # the defaults, by identity: whoever gives another 0 only takes a longer way
cdef object _NEWEST = 0
cdef uint64_t NEVER = ~<uint64_t> 0


cdef class Node:
    def __init__(self, name, *, peers, data_dir, listen=None, advertise=None, client_listen=None, cluster="default",
                 config=None):
        self.node = _SyncNode(name, peers=peers, data_dir=data_dir, listen=listen, advertise=advertise,
                              client_listen=client_listen, cluster=cluster, config=config)
        self.owns_node = True
        self.sweep_ns = NEVER

    @classmethod
    def of(cls, SyncNode node not None):
        cdef Node face = cls.__new__(cls)
        face.node = node
        face.sweep_ns = NEVER
        return face

    def __cinit__(self, *args, **kwargs):
        self.watches = set()

    def __del__(self):
        """Its event loop ended before it was closed. Not in __dealloc__: `watches` must still be there."""
        cdef Ticket* ticket
        if self.mailbox != NULL:
            mailbox_abandon(self.mailbox)
            self.mailbox = NULL
        while self.waiting != NULL:
            ticket = self.waiting
            self.waiting = ticket.next_waiting
            (<Call> ticket.waiter).abandon()
            Py_DECREF(<object> ticket.waiter)
            ticket_drop(ticket)

    # --- life ---------------------------------------------------------------------------------------------------------
    cdef int bind(self) except -1:
        """Belong to the running event loop: at the first call, for good."""
        cdef PyObject* run
        running = _get_running_loop()
        if self.mailbox == NULL:
            self._begin_on(running)
        elif running is not self.event_loop:
            raise InvalidArgument("this face of the node belongs to another event loop: make one with aio()")
        run = PyDict_GetItem(<object> PyThreadState_GetDict(), _RUNNING_LOOP)
        self.running = None if run == NULL else <object> run
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

    async def start(self):
        self.bind()
        await self.event_loop.run_in_executor(None, self.node.start)
        return self

    async def __aenter__(self):
        if self.owns_node and self.node.life != LIFE_RUNNING:
            await self.start()
        return self

    async def __aexit__(self, *_exc):
        await self.close()

    async def ready(self, timeout_s=10.0):
        await self._session(deadline_after(timeout_s))

    async def close(self, *, transfer=True):
        if self.owns_node and self.node.life == LIFE_RUNNING:
            self.bind()
            close = self.node.close
            await self.event_loop.run_in_executor(None, lambda: close(transfer=transfer))
        if self.mailbox != NULL:
            self._take_mail(False)
            self._unbind()

    cdef int _unbind(self) except -1:
        """Whoever still waits learns that nothing more can be learned here."""
        cdef Ticket* ticket
        cdef Call call
        self.event_loop.remove_reader(self.mailbox.event_fd)
        if self.sweep_handle is not None:
            self.sweep_handle.cancel()
        mailbox_abandon(self.mailbox)
        self.mailbox = NULL
        self.watches.clear()
        while self.waiting != NULL:
            ticket = self.waiting
            self._unlink(ticket)
            call = <Call> ticket.waiter
            withdrawn = ticket_withdraw(ticket)
            call.fail(NodeClosed("this face of the node is closed") if withdrawn
                      else OutcomeUnknown("this face of the node was closed meanwhile"))
            Py_DECREF(call)
            ticket.waiter = NULL
            ticket_drop(ticket)
        return 0

    @property
    def name(self):
        return self.node.name

    @property
    def identity(self):
        return self.node.identity

    @property
    def config(self):
        return self.node.config

    @property
    def is_running(self):
        return self.node.life == LIFE_RUNNING

    # --- calls --------------------------------------------------------------------------------------------------------
    cdef bint _is_ready(self) except -1:
        cdef PyObject* run
        if self.node.loop == NULL or load_acquire(&self.node.loop.session) == 0:
            return False
        if self.mailbox == NULL:
            return self.event_loop is None and _get_running_loop_or_none() is not None and self.bind() == 0
        run = PyDict_GetItem(<object> PyThreadState_GetDict(), _RUNNING_LOOP)
        return (run == <PyObject*> self.running if run != NULL
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
        call = call_create(self, self.event_loop, CALL_PLAIN)
        self._await(ticket, call, deadline_ns)
        return call

    cdef int _await(self, Ticket* ticket, Call call, uint64_t deadline_ns) except -1:
        Py_INCREF(call)
        ticket.waiter = <void*> call
        ticket.deadline_ns = deadline_ns
        self._link(ticket)
        self._ring_soon()
        return self._plan_sweep(deadline_ns) if deadline_ns < self.sweep_ns else 0

    cdef int _ring_soon(self) except -1:
        """Once for what all tasks of this turn of the event loop submit; in between when that is much."""
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

    cdef int _expire(self, Ticket* ticket) except -1:
        """Nobody waits on this call's ticket any more; the engine's hold comes back by mail."""
        cdef Call call = <Call> ticket.waiter
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

    cdef int _take_mail(self, bint may_resume) except -1:
        """may_resume: no task runs now, so that tasks can be resumed from here."""
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
                call = self._deliver(<Ticket*> mail)
                if call is not None and may_resume:
                    Py_INCREF(call)
                    calls.push_back(<PyObject*> call)
                elif call is not None:
                    call.wake_soon()
            else:
                store_shared(&(<WatchSignal*> mail).is_posted, <uint32_t> 0)
                (<AioWatch> (<WatchSignal*> mail).consumer).on_news()
            mail = next
        # Only now: what tasks do, such as to close a watch, must not meet mail that was not looked at.
        return self._resume(&calls)

    cdef Call _deliver(self, Ticket* ticket):
        """The call that this answers, if its task is to be resumed."""
        cdef Call call
        cdef bint must_resume = False
        if ticket.waiter == NULL:       # it expired before
            ticket_drop(ticket)
            return None
        call = <Call> ticket.waiter
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

    cdef int _answer(self, Call call, Ticket* ticket) except -1:
        """True: its task is to be resumed."""
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
                call = <Call> calls[0][i]
                Py_DECREF(call)
                i += 1
                try:
                    call.wake()
                except Exception as error:
                    self.event_loop.call_exception_handler({"message": "resuming a task failed", "exception": error})
        finally:
            self.rings_itself = False
            while i < calls.size():     # the event loop is told to end: it resumes the others if it goes on
                (<Call> calls[0][i]).wake_soon()
                Py_DECREF(<object> calls[0][i])
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
            await self.wish(LOOP_AWAIT_READY, 0, PURPOSE_NOTHING, deadline_ns)
        except Withdrawn:
            raise self.node.not_ready(ReadyTimeout, "the node is not ready") from None

    # --- writes -------------------------------------------------------------------------------------------------------
    # Each is submitted by a function of C types, from inside the coroutine; a session that ended between encoding and
    # arrival means certainly not executed, so that it is encoded anew (NotReady). put and get, which are called most,
    # need no coroutine but before the node is ready.
    cdef int _submit_put(self, Call call, object key, object value, object lease, object fence, bint previous,
                         uint64_t deadline_ns) except -1:
        cdef Op op
        cdef Fence taken
        cdef uint8_t purpose = PURPOSE_PREVIOUS if previous else PURPOSE_REVISION
        put_op(key, value, lease, previous, self.node.value_bytes_max, &op)
        take_fence(fence, &taken)
        return self._await(self.node.submit_op(&op, &taken, purpose, taken.is_present, self.mailbox), call, deadline_ns)

    def put(self, key, value, *, lease=0, fence=None, previous=False, timeout_s=5.0):
        cdef Call call
        if not self._is_ready():
            return self._put(key, value, lease, fence, previous, timeout_s)
        call = call_create(self, self.event_loop, CALL_PUT)
        call.key = key
        call.item = value
        try:
            if lease is not _NO_LEASE or fence is not None or previous:
                fence = fence_of(fence)
                call.options = (lease, fence, previous)
            self._submit_put(call, key, value, lease, fence, previous, deadline_after(timeout_s))
        except NotReady:
            return self._put(key, value, lease, fence, previous, timeout_s)
        except Exception as error:      # raised where it is awaited
            call.fail(error)
        return submitted(call)

    async def _put(self, key, value, lease, fence, previous, timeout_s):
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        cdef Call call
        fence = fence_of(fence)
        while True:
            await self._session(deadline_ns)
            self.bind()
            call = call_create(self, self.event_loop, CALL_PLAIN)
            try:
                self._submit_put(call, key, value, lease, fence, previous, deadline_ns)
                return await call
            except NotReady:
                if boot_now_ns() >= deadline_ns:
                    raise

    cdef bint _put_again(self, Call call, uint64_t deadline_ns) except -1:
        """Its session ended before it arrived: the same by a task of its own. False: it is too late."""
        cdef uint64_t now_ns = boot_now_ns()
        if now_ns >= deadline_ns:
            return False
        options = (0, None, False) if call.options is None else call.options
        timeout_s = None if deadline_ns == NEVER else (deadline_ns - now_ns) / 1e9
        call.follow(self.event_loop.create_task(self._put(call.key, call.item, *options, timeout_s)))
        return True

    cdef tuple _submit_puts(self, list pairs, Py_ssize_t first, object lease, object fence, uint64_t deadline_ns):
        """The future of the group that begins there, and the position behind it."""
        cdef uint64_t lease_id
        cdef Fence taken
        cdef Ticket* ticket
        self.bind()
        take_lease(lease, &lease_id)
        take_fence(fence, &taken)
        ticket = self.node.submit_puts(pairs, &first, lease_id, &taken, self.mailbox)
        return self.call_of(ticket, deadline_ns), first

    async def put_many(self, items, *, lease=0, fence=None, timeout_s=30.0):
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        cdef list pairs = pairs_of(items, self.node.value_bytes_max)
        cdef Py_ssize_t done = 0
        fence = fence_of(fence)
        revision = None
        try:
            while done < len(pairs):
                await self._session(deadline_ns)
                try:
                    future, end = self._submit_puts(pairs, done, lease, fence, deadline_ns)
                    revision = await future
                    done = end
                except NotReady:
                    if boot_now_ns() >= deadline_ns:
                        raise
        except RaftmetaError as error:
            error.items_done = done
            raise
        return revision

    cdef Call _submit_create(self, object key, object value, object lease, object fence, uint64_t deadline_ns):
        cdef Op op
        cdef Fence taken
        self.bind()
        create_op(key, value, lease, self.node.value_bytes_max, &op)
        take_fence(fence, &taken)
        return self.call_of(self.node.submit_op(&op, &taken, PURPOSE_REVISION, taken.is_present, self.mailbox),
                            deadline_ns)

    async def create(self, key, value, *, lease=0, fence=None, timeout_s=5.0):
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        fence = fence_of(fence)
        while True:
            await self._session(deadline_ns)
            try:
                return await self._submit_create(key, value, lease, fence, deadline_ns)
            except NotReady:
                if boot_now_ns() >= deadline_ns:
                    raise

    cdef Call _submit_update(self, object key, object value, object expected_revision, object lease, object fence,
                             bint previous, uint64_t deadline_ns):
        cdef Op op
        cdef Fence taken
        cdef uint8_t purpose = PURPOSE_PREVIOUS if previous else PURPOSE_REVISION
        self.bind()
        update_op(key, value, lease, expected_revision, previous, self.node.value_bytes_max, &op)
        take_fence(fence, &taken)
        return self.call_of(self.node.submit_op(&op, &taken, purpose, taken.is_present, self.mailbox), deadline_ns)

    async def update(self, key, value, *, expected_revision=0, lease=0, fence=None, previous=False, timeout_s=5.0):
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        fence = fence_of(fence)
        while True:
            await self._session(deadline_ns)
            try:
                return await self._submit_update(key, value, expected_revision, lease, fence, previous, deadline_ns)
            except NotReady:
                if boot_now_ns() >= deadline_ns:
                    raise

    cdef Call _submit_delete(self, object key, object expected_revision, bint must_exist, object fence, bint previous,
                             uint64_t deadline_ns):
        cdef Op op
        cdef Fence taken
        cdef uint8_t purpose = PURPOSE_PREVIOUS if previous else PURPOSE_REVISION
        self.bind()
        delete_op(key, must_exist, expected_revision, previous, &op)
        take_fence(fence, &taken)
        return self.call_of(self.node.submit_op(&op, &taken, purpose, True, self.mailbox), deadline_ns)

    async def delete(self, key, *, expected_revision=0, must_exist=False, fence=None, previous=False, timeout_s=5.0):
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        fence = fence_of(fence)
        while True:
            await self._session(deadline_ns)
            try:
                return await self._submit_delete(key, expected_revision, must_exist, fence, previous, deadline_ns)
            except NotReady:
                if boot_now_ns() >= deadline_ns:
                    raise

    cdef Call _submit_delete_range(self, object start, object end, object fence, bint previous, uint64_t deadline_ns):
        cdef Op op
        cdef Fence taken
        self.bind()
        delete_range_op(start, end, previous, &op)
        take_fence(fence, &taken)
        return self.call_of(self.node.submit_op(&op, &taken, PURPOSE_PREVIOUS, True, self.mailbox), deadline_ns)

    async def delete_range(self, start="", end="", *, prefix=None, fence=None, previous=False, timeout_s=5.0):
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        start, end = range_bounds(start, end, prefix)
        fence = fence_of(fence)
        while True:
            await self._session(deadline_ns)
            try:
                return await self._submit_delete_range(start, end, fence, previous, deadline_ns)
            except NotReady:
                if boot_now_ns() >= deadline_ns:
                    raise

    cdef Call _submit_add(self, object key, object number, object fence, uint64_t deadline_ns):
        cdef Op op
        cdef Fence taken
        self.bind()
        add_op(key, number, &op)
        take_fence(fence, &taken)
        return self.call_of(self.node.submit_op(&op, &taken, PURPOSE_PREVIOUS, taken.is_present, self.mailbox),
                            deadline_ns)

    async def add(self, key, number=1, *, fence=None, timeout_s=5.0):
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        fence = fence_of(fence)
        while True:
            await self._session(deadline_ns)
            try:
                return await self._submit_add(key, number, fence, deadline_ns)
            except NotReady:
                if boot_now_ns() >= deadline_ns:
                    raise

    async def txn(self, compares=(), then=(), otherwise=(), *, fence=None, timeout_s=5.0):
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        compares, then, otherwise, fence = tuple(compares), tuple(then), tuple(otherwise), fence_of(fence)
        while True:
            await self._session(deadline_ns)
            self.bind()
            try:
                return await self.call_of(self.node.submit_txn(compares, then, otherwise, fence, self.mailbox),
                                          deadline_ns)
            except NotReady:
                if boot_now_ns() >= deadline_ns:
                    raise

    async def replicated(self, name, cls):
        from raftmeta.runtime.user_machine import local_copy
        from raftmeta.runtime.user_machine_aio import AioUserMachine

        return AioUserMachine(self, local_copy(self.node, name, cls))

    async def compact(self, revision, *, timeout_s=5.0):
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        floor = _checked_number(revision, "revision")
        await self._session(deadline_ns)
        self.bind()
        return await self.call_of(self.node.submit_compact(floor, self.mailbox), deadline_ns)

    # --- reads --------------------------------------------------------------------------------------------------------
    async def _agree_on_read(self, uint64_t deadline_ns):
        await self._session(deadline_ns)
        await self.wish(SUBMIT_READ, 0, PURPOSE_READ, deadline_ns)

    def get(self, key, *, revision=0, local=False, timeout_s=5.0):
        cdef Call call
        cdef uint64_t deadline_ns
        if local or not self._is_ready():
            return self._get(key, revision, local, timeout_s)
        call = call_create(self, self.event_loop, CALL_GET)
        call.key = key
        try:
            if revision is not _NEWEST:
                call.revision = _checked_number(revision, "revision")
            deadline_ns = deadline_after(timeout_s)
            self._await(self.node.submit_wish(SUBMIT_READ, 0, PURPOSE_READ, self.mailbox), call, deadline_ns)
        except Exception as error:      # raised where it is awaited
            call.fail(error)
        return submitted(call)

    async def _get(self, key, revision, local, timeout_s):
        at_revision = _checked_number(revision, "revision")
        if not local:
            await self._agree_on_read(deadline_after(timeout_s))
        return self.node.read_key(key, at_revision)

    async def range(self, start="", end="", *, prefix=None, limit=0, revision=0, keys_only=False, count=False,
                    count_only=False, local=False, timeout_s=5.0):
        start, end = range_bounds(start, end, prefix)
        if not local:
            await self._agree_on_read(deadline_after(timeout_s))
        return self.node.range(start, end, limit=limit, revision=revision, keys_only=keys_only, count=count,
                               count_only=count_only, local=True)

    # --- leases and watches -------------------------------------------------------------------------------------------
    async def lease(self, ttl_s, *, id=0, on_lost=None, timeout_s=5.0):
        cdef AioLease lease = AioLease(self, ttl_s)
        await lease._grant(_checked_number(id, "id"), on_lost, deadline_after(timeout_s))
        return lease

    def watch(self, key=None, end=None, *, prefix=None, start_revision=0, previous=False, puts=True, deletes=True,
              progress=False, raise_lagged=False, reset=False, timeout_s=None):
        return AioWatch(self, key, end, prefix=prefix, start_revision=start_revision, previous=previous, puts=puts,
                        deletes=deletes, progress=progress, raise_lagged=raise_lagged, reset=reset,
                        timeout_s=timeout_s)

    # --- the node itself ----------------------------------------------------------------------------------------------
    async def transfer(self, to=None, *, timeout_s=5.0):
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        target = 0 if to is None else self.node.member_by_name(to)
        await self.wish(SUBMIT_TRANSFER, target, PURPOSE_NOTHING, deadline_ns)
        await self.wish(LOOP_AWAIT_FOLLOWER, 0, PURPOSE_NOTHING, deadline_ns)

    async def campaign(self, *, timeout_s=5.0):
        await self.wish(SUBMIT_CAMPAIGN, 0, PURPOSE_NOTHING, deadline_after(timeout_s))

    # --- members ------------------------------------------------------------------------------------------------------
    async def _reach(self, change, uint64_t deadline_ns):
        """runtime/node_members.reach, without blocking."""
        self.bind()
        while True:
            view = view_of(self.node)
            step = change.next_step(view)
            if step is None:
                return
            if boot_now_ns() >= deadline_ns:
                raise change.timed_out()
            try:
                if step:
                    change.begins(step, view)
                    await self.call_of(submit_step(self.node, view, step, self.mailbox), deadline_ns)
            except NodeClosed:
                raise change.timed_out() from None
            except RaftmetaError as error:
                change.failed(error)
            await self._look(view, next_look_ns(deadline_ns))

    async def _look(self, view, uint64_t deadline_ns):
        try:
            await self.call_of(submit_await_membership(self.node, view, self.mailbox), deadline_ns)
        except NotExecuted:
            pass        # nothing has changed: look again all the same, a peer may have answered

    async def members(self, *, timeout_s=5.0):
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        await self._session(deadline_ns)
        await self.wish(SUBMIT_READ, 0, PURPOSE_READ, deadline_ns)
        while not (view := view_of(self.node)).is_settled and boot_now_ns() < deadline_ns:
            await self._look(view, next_look_ns(deadline_ns))
        return settled_members(self.node)

    async def add_member(self, name, address, *, voter=True, timeout_s=30.0):
        await self._reach(adding(name, address, is_voter=bool(voter)), deadline_after(timeout_s))

    async def remove_member(self, name, *, timeout_s=30.0):
        await self._reach(removing(name), deadline_after(timeout_s))

    async def replace_member(self, old, name, address, *, timeout_s=60.0):
        await self._reach(replacing(old, name, address), deadline_after(timeout_s))

    async def promote(self, name, *, timeout_s=30.0):
        await self._reach(voting(name, is_voter=True), deadline_after(timeout_s))

    async def demote(self, name, *, timeout_s=30.0):
        await self._reach(voting(name, is_voter=False), deadline_after(timeout_s))

    def status(self):
        return self.node.status()

    def metrics(self, *, restart_maxima=False):
        return self.node.metrics(restart_maxima=restart_maxima)


cdef object _checked_number(object number, str field):
    cdef uint64_t checked
    take_number(int(number), field, (<uint64_t> 1 << 63) - 1, &checked)
    return checked


# --- an operation whose caller ran out of time ------------------------------------------------------------------------
cdef AioPendingResult _pending(Node face, Ticket* ticket):
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


# --- watches ----------------------------------------------------------------------------------------------------------
cdef class AioWatch(WatchBase):
    def __init__(self, Node face not None, key=None, end=None, *, prefix=None, start_revision=0, previous=False,
                 puts=True, deletes=True, progress=False, raise_lagged=False, reset=False, timeout_s=None):
        super().__init__(face.node, key, end, prefix=prefix, start_revision=start_revision, previous=previous,
                         puts=puts, deletes=deletes, progress=progress, raise_lagged=raise_lagged, reset=reset)
        deadline_after(timeout_s)
        self.face = face
        self.timeout_s = timeout_s

    async def _open(self):
        cdef uint64_t deadline_ns = deadline_after(5.0)
        await self.face._session(deadline_ns)
        self.face.bind()
        # Its mail lies in the mailbox until it is looked at, also when the node is closed in between.
        self.face.watches.add(self)
        self.signal.mailbox = self.face.mailbox
        self.opened(await self.face.call_of(self.submit(self.face.mailbox), deadline_ns))

    async def _close_native(self):
        watch = <size_t> self.watch
        self.watch = NULL
        if not watch or self.node.life != LIFE_RUNNING or self.face.mailbox == NULL:
            return
        try:
            await self.face.call_of(self.node.submit_unwatch(<void*> <size_t> watch, self.face.mailbox), NEVER)
        except (Fatal, NotExecuted):
            return          # the node ended meanwhile, and lets go of `attached` itself
        self.node.attached.discard(self)
        self.face.watches.discard(self)

    async def close(self):
        self.is_closed = True
        self.on_news()
        await self._close_native()

    async def __aenter__(self):
        await self._open()
        return self

    async def __aexit__(self, *_exc):
        await self.close()

    cdef int on_news(self) except -1:
        self.has_news = True
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)
        return 0

    def _give_up(self):
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    async def _next(self):
        """What comes next, as `told` or a reset; None: closed, or timeout_s passed."""
        cdef uint64_t deadline_ns = deadline_after(self.timeout_s)
        if self.watch == NULL and not self.is_closed and self.ready is None:
            await self._open()
        while self.ready is None:
            if self.is_closed or not self.can_take():
                return None
            self.has_news = False
            outcome = self.take()
            if outcome == TAKE_REOPEN:
                await self._close_native()
                await self._open()
            elif outcome == TAKE_CLOSED:
                await self.close()
            elif outcome == TAKE_WAIT:
                # Not a coroutine of its own: of idle watches there may be very many.
                self.waiter = self.face.event_loop.create_future()
                timer = None
                if deadline_ns != NEVER:
                    timer = self.face.event_loop.call_later(max(0, deadline_ns - boot_now_ns()) / 1e9, self._give_up)
                try:
                    await self.waiter
                finally:
                    self.waiter = None
                    if timer is not None:
                        timer.cancel()
                if not self.has_news:
                    return None
        return self.first_ready()

    async def batches(self):
        while (found := self.first_ready() if self.ready is not None else await self._next()) is not None:
            yield batch_of(found) if type(found) is tuple else found

    async def __aiter__(self):
        while (found := self.first_ready() if self.ready is not None else await self._next()) is not None:
            if type(found) is tuple:
                for event in <tuple> (<tuple> found)[2]:
                    yield event
            else:
                yield found


# --- leases -----------------------------------------------------------------------------------------------------------
cdef class AioLease(LeaseBase):
    def __init__(self, Node face not None, ttl_s):
        super().__init__(face.node, ttl_s)
        self.face = face

    async def _grant(self, id, on_lost, uint64_t deadline_ns):
        await self.face._session(deadline_ns)
        self.face.bind()
        asked_ns = boot_now_ns()
        granted = await self.face.call_of(self.node.submit_grant(id, self.ttl_ms, self.face.mailbox), deadline_ns)
        await self.face.call_of(self.keep(granted, asked_ns, self.face.mailbox), NEVER)
        if on_lost is not None:
            self.watcher = self.face.event_loop.create_task(self._watch(on_lost))

    async def _watch(self, on_lost):
        await self.wait_lost()
        if not self.is_revoked:
            on_lost(self)

    async def wait_lost(self, timeout_s=None):
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        while self.held():
            if boot_now_ns() >= deadline_ns:
                return False
            await asyncio.sleep(min(self.remaining_s(), self.ttl_s / LOOKS_PER_TTL))
        return True

    async def revoke(self, *, timeout_s=5.0):
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        if self.is_revoked:
            return
        self.is_revoked = True
        self.face.bind()
        was_held = self.held()          # else it is dropped now
        if was_held and self.node.life == LIFE_RUNNING:
            await self.face.call_of(self.drop(self.face.mailbox), NEVER)
        store_release(&self.until_ns, <uint64_t> 0)
        self.node.attached.discard(self)
        if not was_held:
            return      # it expires by itself; by now its id may be another's
        await self.face._session(deadline_ns)
        try:
            await self.face.call_of(self.node.submit_revoke(self.id, self.face.mailbox), deadline_ns)
        except LeaseExpired:
            pass        # gone already, and its keys with it

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_exc):
        if self.node.life == LIFE_RUNNING:
            await self.revoke()
