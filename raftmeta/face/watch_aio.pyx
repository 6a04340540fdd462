"""A watch of the asyncio face: one task waits for what the node tells it.

It decides when the native watch is opened again, and when an iteration ends. It must never read an item of
a watch itself (face/watch).
"""

from libc.stdint cimport uint64_t

from raftmeta.face.answers cimport deadline_after
from raftmeta.face.base cimport LIFE_RUNNING
from raftmeta.face.mailbox cimport MailboxFace
from raftmeta.face.watch cimport TAKE_CLOSED, TAKE_REOPEN, TAKE_WAIT, WatchBase, batch_of
from raftmeta.loop.tickets cimport mailbox_drop, mailbox_hold
from raftmeta.native.threads cimport boot_now_ns

from raftmeta.errors import Fatal, NotExecuted
from raftmeta.verbs.watch import AioWatch

cdef uint64_t NEVER = ~<uint64_t>0


cdef class AioNodeWatch(WatchBase, AioWatch):
    def __init__(self, MailboxFace face not None, asked):
        super().__init__(face.node, asked)
        self.face = face

    def __dealloc__(self):
        # The loop knows nothing of the signal any more: NodeBase.attached would hold this object else.
        if self.signal.mailbox != NULL:
            mailbox_drop(self.signal.mailbox)

    async def _open(self):
        cdef uint64_t deadline_ns = deadline_after(5.0)
        await self.face._session(deadline_ns)
        self.face.bind()
        # Its mail lies in the mailbox until it is looked at, also when the node is closed in between.
        self.face.watches.add(self)
        if self.signal.mailbox == NULL:
            self.signal.mailbox = self.face.mailbox
            mailbox_hold(self.signal.mailbox)       # the loop may post there after the face was closed
        self.opened(await self.face.call_of(self.submit(self.face.mailbox), deadline_ns))

    async def _close_native(self):
        watch = <size_t>self.watch
        self.watch = NULL
        if not watch or self.node.life != LIFE_RUNNING or self.face.mailbox == NULL:
            return
        try:
            await self.face.call_of(self.node.submit_unwatch(<void*><size_t>watch, self.face.mailbox), NEVER)
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

    cdef int on_news(self) except -1:
        self.has_news = True
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)
        return 0

    def _give_up(self):
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    async def _next(self):
        """The next item, as `told` or a reset; None: closed, or timeout_s passed."""
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
                for event in <tuple>(<tuple>found)[2]:
                    yield event
            else:
                yield found
