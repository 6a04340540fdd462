"""raftmeta.aio: the same verbs as coroutines, on asyncio and uvloop.

It carries what the verbs ask (verbs/awaited): a request becomes a call of this face's mailbox, which its task awaits.
It must never wait by itself; how an answer comes is the part of face/mailbox.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from libc.stdint cimport uint64_t

from raftmeta.bindings.verbs cimport Request, put_request, take_revision
from raftmeta.engine.submission cimport AWAIT_FOLLOWER, SUBMIT_CAMPAIGN, SUBMIT_READ, SUBMIT_TRANSFER
from raftmeta.face.answers cimport PURPOSE_NOTHING, PURPOSE_READ, deadline_after
from raftmeta.face.base cimport LIFE_RUNNING
from raftmeta.face.calls cimport CALL_GET, CALL_PUT, Call, call_create, submitted
from raftmeta.face.lease_aio cimport AioNodeLease
from raftmeta.face.mailbox cimport MailboxFace
from raftmeta.face.members cimport (next_look_ns, settled_members, submit_await_membership, submit_step,
                                    transfer_target, view_of)
from raftmeta.face.node cimport Node as SyncNode
from raftmeta.face.watch_aio cimport AioNodeWatch
from raftmeta.native.threads cimport boot_now_ns

from raftmeta.bindings.verbs import grant, revision_of
from raftmeta.errors import NodeClosed, NotExecuted, NotReady, OutcomeUnknown, RaftmetaError, ReadyTimeout
from raftmeta.face.node import Node as _SyncNode
from raftmeta.face.audit import AioTold
from raftmeta.face.deaths import check_level
from raftmeta.verbs.awaited import AioVerbs
from raftmeta.verbs.deaths import report_awaited
from raftmeta.verbs.rights import AioAuth

cdef object _NEWEST = 0         # the default, by identity: whoever gives another 0 only takes a longer way


cdef class Node(MailboxFace, AioVerbs):
    def __init__(self, name, *, peers=None, data_dir, role="member", seeds=(), listen=None, advertise=None,
                 client_listen=None, zookeeper_listen=None, kafka_listen=None, etcd_listen=None, cluster="default",
                 config=None, encryption=None, tls=None, audit=None, kafka=None):
        self.node = _SyncNode(name, peers=peers, data_dir=data_dir, role=role, seeds=seeds, listen=listen,
                              advertise=advertise, client_listen=client_listen, zookeeper_listen=zookeeper_listen,
                              kafka_listen=kafka_listen, etcd_listen=etcd_listen, cluster=cluster, config=config,
                              encryption=encryption, tls=tls, audit=audit, kafka=kafka)
        self.owns_node = True

    @classmethod
    def of(cls, SyncNode node not None):
        cdef Node face = cls.__new__(cls)
        face.node = node
        return face

    # --- life ---------------------------------------------------------------------------------------------------------
    async def start(self):
        self.bind()
        if self.node.kafka_host is not None:
            self.node.kafka_host.bind(self.event_loop)
        await self.event_loop.run_in_executor(None, self.node.start)
        return self

    async def __aenter__(self):
        if self.owns_node and self.node.life != LIFE_RUNNING:
            await self.start()
        return self

    async def __aexit__(self, *_exc):
        await self.close()

    async def ready(self, timeout_s=10.0):
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        await self._session(deadline_ns)
        if self.node.status().is_ready:
            return
        try:
            await self._agree_on_read(deadline_ns)  # it has a session from before, and lost its leader
        except (TimeoutError, OutcomeUnknown):
            raise self.node.not_ready(ReadyTimeout, "the node is not ready") from None

    async def close(self, *, transfer=True):
        if self.owns_node:
            await _on_thread(lambda: self.node.close(transfer=transfer))
        self.unbind()

    async def reload_tls(self):
        await _on_thread(self.node.reload_tls)

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

    async def rotate_encryption_key(self):
        return await asyncio.to_thread(self.node.rotate_encryption_key)

    def encryption_keys(self):
        return self.node.encryption_keys()

    # --- the verbs that are called most -------------------------------------------------------------------------------
    # Those of AioVerbs, submitted at once: no coroutine is needed but before the node is ready.
    def put(self, key, value, *, lease=0, fence=None, previous=False, timeout_s=5.0):
        cdef Request request = put_request(key, value, lease, fence, previous)
        cdef Call call
        if not self.is_ready():
            return request.ask_aio(self, timeout_s)
        call = call_create(self.event_loop, CALL_PUT)
        call.request = request
        try:
            request.prepare(self.node.value_bytes_max)
            self.await_ticket(self.node.submit(request, self.mailbox), call, deadline_after(timeout_s))
        except NotReady:
            return request.ask_aio(self, timeout_s)
        except Exception as error:      # raised where it is awaited
            call.fail(error)
        return submitted(call)

    def get(self, key, *, revision=0, local=False, timeout_s=5.0):
        cdef Call call
        cdef uint64_t deadline_ns
        if local or not self.is_ready():
            return self._get(key, revision, local, timeout_s)
        call = call_create(self.event_loop, CALL_GET)
        call.key = key
        try:
            if revision is not _NEWEST:
                take_revision(revision, "revision", &call.revision)
            deadline_ns = deadline_after(timeout_s)
            self.await_ticket(self.node.submit_wish(SUBMIT_READ, 0, PURPOSE_READ, self.mailbox), call, deadline_ns)
        except Exception as error:      # raised where it is awaited
            call.fail(error)
        return submitted(call)

    # --- the carrier: the mailbox of this face ------------------------------------------------------------------------
    def _ask(self, Request request not None, timeout_s):
        return request.ask_aio(self, timeout_s)

    async def _agree_on_read(self, uint64_t deadline_ns):
        await self._session(deadline_ns)
        await self.wish(SUBMIT_READ, 0, PURPOSE_READ, deadline_ns)

    async def _get(self, key, revision, local, timeout_s):
        at_revision = revision_of(revision, "revision")
        if not local:
            await self._agree_on_read(deadline_after(timeout_s))
        return self.node.read_key(key, at_revision)

    async def _range(self, asked, timeout_s):
        if not asked.local:
            await self._agree_on_read(deadline_after(timeout_s))
        return self.node.read_range(asked)

    async def _rights_page(self, page, first, limit, timeout_s):
        await self._agree_on_read(deadline_after(timeout_s))
        return self.node.read_rights(page, first, limit)

    async def _lease(self, ttl_s, id, on_lost, timeout_s):
        cdef AioNodeLease lease = AioNodeLease(self, ttl_s)
        await lease._grant(grant(id, lease.ttl_ms), on_lost, deadline_after(timeout_s))
        return lease

    def _watch(self, asked):
        return AioNodeWatch(self, asked)

    async def _transfer(self, to, timeout_s):
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        with self.node._telling("transfer", name=to or ""):
            target = transfer_target(self.node, to)
            await self.wish(SUBMIT_TRANSFER, target, PURPOSE_NOTHING, deadline_ns)
            await self.wish(AWAIT_FOLLOWER, 0, PURPOSE_NOTHING, deadline_ns)

    async def _reach(self, change, timeout_s):
        with self.node._telling("member_change", change=change.what):
            await self._reach_by_steps(change, timeout_s)

    @property
    def auth(self):
        self._check_rights()
        if self.node.trail is None:
            return AioAuth(self._ask, self._rights_page)
        return AioTold(self._ask, self._rights_page, self.node.trail)

    async def _reach_by_steps(self, change, timeout_s):
        """face/members.reach, without blocking."""
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
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

    async def _members(self, timeout_s):
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        await self._agree_on_read(deadline_ns)
        while not (view := view_of(self.node)).is_settled and boot_now_ns() < deadline_ns:
            await self._look(view, next_look_ns(deadline_ns))
        return settled_members(self.node)

    # --- the node itself ----------------------------------------------------------------------------------------------
    async def report_dead(self, member, boot, *, timeout_s=5.0):
        with self.node._telling("process_end", member=str(member), boot=str(boot)):
            check_level(self.node.status().feature_level)
            return await report_awaited(self._ask, member, boot, timeout_s)

    async def replicated(self, name, cls):
        from raftmeta.face.user_machine import local_copy
        from raftmeta.face.user_machine_aio import AioUserMachine

        return AioUserMachine(self, local_copy(self.node, name, cls))

    async def campaign(self, *, timeout_s=5.0):
        await self.wish(SUBMIT_CAMPAIGN, 0, PURPOSE_NOTHING, deadline_after(timeout_s))

    def status(self):
        return self.node.status()

    def metrics(self, *, restart_maxima=False):
        return self.node.metrics(restart_maxima=restart_maxima)

    def flight_recorder(self):
        return self.node.flight_recorder()


async def _on_thread(work):
    """On a thread of its own: those that the event loop keeps may all wait for this node."""
    executor = ThreadPoolExecutor(1, thread_name_prefix="raftmeta-close")
    try:
        await asyncio.get_running_loop().run_in_executor(executor, work)
    finally:
        executor.shutdown(wait=False)
