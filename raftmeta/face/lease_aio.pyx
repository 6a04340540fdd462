"""A lease of the asyncio face: granted, waited for and given back by tasks.

It decides when its loss is looked for, and what a revoke still has to do. It must never keep the lease
alive or judge whether it is held (face/lease).
"""

import asyncio

from libc.stdint cimport uint64_t

from raftmeta.bindings.verbs cimport Request
from raftmeta.face.answers cimport deadline_after
from raftmeta.face.base cimport LIFE_RUNNING
from raftmeta.face.lease cimport LeaseBase
from raftmeta.face.mailbox cimport MailboxFace
from raftmeta.native.atomics cimport store_release
from raftmeta.native.threads cimport boot_now_ns

from raftmeta.bindings.verbs import revoke
from raftmeta.errors import LeaseExpired
from raftmeta.verbs.lease import AioLease

cdef enum:
    LOOKS_PER_TTL = 20

cdef uint64_t NEVER = ~<uint64_t>0


cdef class AioNodeLease(LeaseBase, AioLease):
    def __init__(self, MailboxFace face not None, ttl_s):
        super().__init__(face.node, ttl_s)
        self.face = face

    # Asked for once: what is held counts from before it was sent.
    async def _grant(self, Request request, on_lost, uint64_t deadline_ns):
        request.prepare(self.node.value_bytes_max)
        await self.face._session(deadline_ns)
        self.face.bind()
        asked_ns = boot_now_ns()
        granted = await self.face.call_of(self.node.submit(request, self.face.mailbox), deadline_ns)
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
        deadline_after(timeout_s)
        if self.is_revoked:
            return
        self.is_revoked = True
        self.face.bind()
        was_held = self.held()          # else it is dropped now
        if was_held and self.node.life == LIFE_RUNNING:
            await self.face.call_of(self.drop(self.face.mailbox), NEVER)
        store_release(&self.term.until_ns, <uint64_t>0)
        if not was_held:
            return      # it expires by itself; by now its id may be another's
        try:
            await revoke(self.id).ask_aio(self.face, timeout_s)
        except LeaseExpired:
            pass        # gone already, and its keys with it

    async def __aexit__(self, *_exc):
        if self.node.life == LIFE_RUNNING:
            await self.revoke()
