"""raftmeta.aio: the same verbs as coroutines, on asyncio and uvloop.

What it decides: how a verb is encoded, and when it may be submitted anew. What it never does: wait by itself. A verb
submits and awaits a call; how its answer comes is the part of face/mailbox.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from libc.stdint cimport uint8_t, uint64_t

from raftmeta.bindings.commands cimport take_fence, take_number
from raftmeta.bindings.puts cimport pairs_of
from raftmeta.bindings.verbs cimport (add_op, create_op, delete_op, delete_range_op, fence_of, put_op, range_bounds,
                                      take_lease, update_op)
from raftmeta.engine.submission cimport AWAIT_FOLLOWER, SUBMIT_CAMPAIGN, SUBMIT_READ, SUBMIT_TRANSFER
from raftmeta.face.answers cimport PURPOSE_NOTHING, PURPOSE_PREVIOUS, PURPOSE_READ, PURPOSE_REVISION, deadline_after
from raftmeta.face.base cimport LIFE_RUNNING
from raftmeta.face.calls cimport CALL_GET, CALL_PLAIN, CALL_PUT, Call, call_create, submitted
from raftmeta.face.lease_aio cimport AioLease
from raftmeta.face.mailbox cimport MailboxFace
from raftmeta.face.members cimport (next_look_ns, settled_members, submit_await_membership, submit_step,
                                    transfer_target, view_of)
from raftmeta.face.node cimport Node as SyncNode
from raftmeta.face.watch_aio cimport AioWatch
from raftmeta.loop.tickets cimport Ticket
from raftmeta.native.threads cimport boot_now_ns
from raftmeta.wire.commands cimport Fence, Op

from raftmeta.errors import NodeClosed, NotExecuted, NotReady, RaftmetaError
from raftmeta.members.plans import adding, removing, replacing, voting
from raftmeta.operations import check_callable
from raftmeta.face.node import Node as _SyncNode

cdef object _NO_LEASE = 0       # the defaults, by identity: whoever gives another 0 only takes a longer way
cdef object _NEWEST = 0
cdef uint64_t NEVER = ~<uint64_t>0


cdef class Node(MailboxFace):
    def __init__(self, name, *, peers, data_dir, listen=None, advertise=None, client_listen=None, cluster="default",
                 config=None):
        self.node = _SyncNode(name, peers=peers, data_dir=data_dir, listen=listen, advertise=advertise,
                              client_listen=client_listen, cluster=cluster, config=config)
        self.owns_node = True

    @classmethod
    def of(cls, SyncNode node not None):
        cdef Node face = cls.__new__(cls)
        face.node = node
        return face

    # --- life ---------------------------------------------------------------------------------------------------------
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
        if self.owns_node:
            await _on_thread(lambda: self.node.close(transfer=transfer))
        self.unbind()

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
        return self.node.is_running

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
        return self.await_ticket(self.node.submit_op(&op, &taken, purpose, taken.is_present, self.mailbox), call,
                                 deadline_ns)

    def put(self, key, value, *, lease=0, fence=None, previous=False, timeout_s=5.0):
        cdef Call call
        if not self.is_ready():
            return self._put(key, value, lease, fence, previous, timeout_s)
        call = call_create(self.event_loop, CALL_PUT)
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
            call = call_create(self.event_loop, CALL_PLAIN)
            try:
                self._submit_put(call, key, value, lease, fence, previous, deadline_ns)
                return await call
            except NotReady:
                if boot_now_ns() >= deadline_ns:
                    raise

    # Its session ended before it arrived: the same by a task of its own. False: it is too late.
    cdef bint put_again(self, Call call, uint64_t deadline_ns) except -1:
        cdef uint64_t now_ns = boot_now_ns()
        if now_ns >= deadline_ns:
            return False
        options = (0, None, False) if call.options is None else call.options
        timeout_s = None if deadline_ns == NEVER else (deadline_ns - now_ns) / 1e9
        call.follow(self.event_loop.create_task(self._put(call.key, call.item, *options, timeout_s)))
        return True

    # The future of the group that begins there, and the position behind it.
    cdef tuple _submit_puts(self, list pairs, Py_ssize_t first, object lease, object fence, uint64_t deadline_ns):
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
        from raftmeta.face.user_machine import local_copy
        from raftmeta.face.user_machine_aio import AioUserMachine

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
        if local or not self.is_ready():
            return self._get(key, revision, local, timeout_s)
        call = call_create(self.event_loop, CALL_GET)
        call.key = key
        try:
            if revision is not _NEWEST:
                call.revision = _checked_number(revision, "revision")
            deadline_ns = deadline_after(timeout_s)
            self.await_ticket(self.node.submit_wish(SUBMIT_READ, 0, PURPOSE_READ, self.mailbox), call, deadline_ns)
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
        check_callable(on_lost, "on_lost")
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
        target = transfer_target(self.node, to)
        await self.wish(SUBMIT_TRANSFER, target, PURPOSE_NOTHING, deadline_ns)
        await self.wish(AWAIT_FOLLOWER, 0, PURPOSE_NOTHING, deadline_ns)

    async def campaign(self, *, timeout_s=5.0):
        await self.wish(SUBMIT_CAMPAIGN, 0, PURPOSE_NOTHING, deadline_after(timeout_s))

    # --- members ------------------------------------------------------------------------------------------------------
    async def _reach(self, change, uint64_t deadline_ns):
        """face/members.reach, without blocking."""
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


async def _on_thread(work):
    """On a thread of its own: those that the event loop keeps may all wait for this node."""
    executor = ThreadPoolExecutor(1, thread_name_prefix="raftmeta-close")
    try:
        await asyncio.get_running_loop().run_in_executor(executor, work)
    finally:
        executor.shutdown(wait=False)


cdef object _checked_number(object number, str field):
    cdef uint64_t checked
    take_number(int(number), field, (<uint64_t>1 << 63) - 1, &checked)
    return checked
