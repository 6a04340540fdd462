"""Node: raftmeta in a process, for callers that may block.

    with Node("a", peers={"a": "127.0.0.1:7001", ...}, data_dir="/var/lib/broker/a") as node:
        node.ready(10)
        node.put("topics/t", b"3")

It carries what the verbs ask (verbs/blocking): each request gets a ticket, and its caller waits for that without the
GIL. It never retries what may have been executed: an operation is submitted once, and what is repeated on the way is
deduplicated by the node's session.
"""

import logging
import threading

from libc.stdint cimport uint64_t

from raftmeta.bindings.verbs cimport Request, put_request, take_revision
from raftmeta.engine.state cimport ENGINE_STOPPED
from raftmeta.engine.submission cimport AWAIT_FOLLOWER, SUBMIT_CAMPAIGN, SUBMIT_READ, SUBMIT_TRANSFER
from raftmeta.face.answers cimport PURPOSE_NOTHING, PURPOSE_READ, deadline_after
from raftmeta.face.base cimport LIFE_RUNNING, NodeBase
from raftmeta.face.lease cimport NodeLease
from raftmeta.face.members cimport await_membership, reach, settled_members, transfer_target, view_of
from raftmeta.face.view cimport EventReader, flight_recorder_of, metrics_of, status_of
from raftmeta.face.watch cimport NodeWatch
from raftmeta.native.atomics cimport load_acquire
from raftmeta.native.threads cimport boot_now_ns

from raftmeta.errors import (ConfigError, Fatal, InvalidArgument, NodeRemoved, NotExecuted, NotReady, OutcomeUnknown,
                             RaftmetaError, ReadyTimeout)
from raftmeta.face.audit import Told
from raftmeta.face.deaths import check_level
from raftmeta.verbs.blocking import Verbs
from raftmeta.verbs.deaths import report
from raftmeta.verbs.rights import BlockingAuth


cdef class Node(NodeBase, Verbs):
    # --- life ---------------------------------------------------------------------------------------------------------
    def start(self):
        self.begin()
        return self

    def __enter__(self):
        return self.start() if self.life != LIFE_RUNNING else self

    def __exit__(self, *_exc):
        self.close()

    def ready(self, timeout_s=10.0):
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        self.await_session(deadline_ns)
        if self.status().is_ready:
            return
        try:
            self._agree_on_read(deadline_ns)        # it has a session from before, and lost its leader
        except (TimeoutError, OutcomeUnknown):
            raise self.not_ready(ReadyTimeout, "the node is not ready") from None

    def close(self, *, transfer=True):
        cdef uint64_t deadline_ns = boot_now_ns() + self.close_timeout_ns
        if not self.begin_closing():
            self.close_beside(deadline_ns)
            return
        try:
            # To leave and to hand over may take half of the time. The other half belongs to the disk.
            self._leave(self.config.close_timeout_s / 4)
            if transfer:
                self._hand_over(self.config.close_timeout_s / 4)
        finally:
            try:
                self.end(deadline_ns)
                for machine in list(self.user_machines.values()):
                    machine.join(max(0.0, (<double>deadline_ns - <double>boot_now_ns()) / 1e9))
            finally:
                self.end_closing()

    def _leave(self, timeout_s):
        """Let the objects on this node give back what they hold; raftmeta.Node has such objects."""

    def _hand_over(self, timeout_s):
        """A leader that leaves names its successor, so that the others need not wait for an election time-out."""
        try:
            if self.status().is_leader:
                self.transfer(timeout_s=min(timeout_s, 2 * self.config.election_timeout_s))
        except (Fatal, InvalidArgument, NotExecuted, OutcomeUnknown):
            pass        # it stopped meanwhile, or nobody can follow

    @property
    def is_running(self):
        return self.life == LIFE_RUNNING and load_acquire(&self.loop.state) != ENGINE_STOPPED

    # --- the carrier: a ticket of its own for each request ------------------------------------------------------------
    def _ask(self, Request request not None, timeout_s):
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        request.prepare(self.value_bytes_max)
        answer = None
        try:
            while not request.is_answered:
                self.await_session(deadline_ns)
                try:
                    answer = self.finish(self.submit(request, NULL), request.purpose, deadline_ns)
                    request._advance()
                except NotReady as error:
                    # The session ended between encoding and arrival: certainly not executed, so it is encoded anew.
                    if isinstance(error, NodeRemoved) or boot_now_ns() >= deadline_ns:
                        raise
        except RaftmetaError as error:
            request._fail(error)
            raise
        return answer

    # Wait until this node has applied all that was committed before now.
    cdef int _agree_on_read(self, uint64_t deadline_ns) except -1:
        self.await_session(deadline_ns)
        self.finish(self.submit_wish(SUBMIT_READ, 0, PURPOSE_READ, NULL), PURPOSE_READ, deadline_ns)
        return 0

    # Those of Verbs, without a frame of Python: a local get takes a microsecond, and many threads put at once.
    def put(self, key, value, *, lease=0, fence=None, previous=False, timeout_s=5.0):
        return self._ask(put_request(key, value, lease, fence, previous), timeout_s)

    def get(self, key, *, revision=0, local=False, timeout_s=5.0):
        cdef uint64_t at_revision = 0
        if revision:
            take_revision(revision, "revision", &at_revision)
        if not local:
            self._agree_on_read(deadline_after(timeout_s))
        return self.read_key(key, at_revision)

    def _range(self, asked, timeout_s):
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        if not asked.local:
            self._agree_on_read(deadline_ns)
        return self.read_range(asked)

    def _lease(self, ttl_s, id, on_lost, timeout_s):
        return NodeLease(self, ttl_s, id=id, on_lost=on_lost, timeout_s=timeout_s)

    def _watch(self, asked, callback, on_end):
        return NodeWatch(self, asked, callback, on_end)

    def _transfer(self, to, timeout_s):
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        cdef uint64_t target
        with self._telling("transfer", name=to or ""):
            target = transfer_target(self, to)
            self.finish(self.submit_wish(SUBMIT_TRANSFER, target, PURPOSE_NOTHING, NULL), PURPOSE_NOTHING, deadline_ns)
            self.finish(self.submit_wish(AWAIT_FOLLOWER, 0, PURPOSE_NOTHING, NULL), PURPOSE_NOTHING, deadline_ns)

    def _members(self, timeout_s):
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        self._agree_on_read(deadline_ns)
        while not (view := view_of(self)).is_settled and boot_now_ns() < deadline_ns:
            await_membership(self, view, deadline_ns)
        return settled_members(self)

    def _rights_page(self, page, first, limit, timeout_s):
        self._agree_on_read(deadline_after(timeout_s))
        return self.read_rights(page, first, limit)

    def _reach(self, change, timeout_s):
        with self._telling("member_change", change=change.what):
            reach(self, change, deadline_after(timeout_s))

    @property
    def auth(self):
        self._check_rights()
        if self.trail is None:
            return BlockingAuth(self._ask, self._rights_page)
        return Told(self._ask, self._rights_page, self.trail)

    def report_dead(self, member, boot, *, timeout_s=5.0):
        with self._telling("process_end", member=str(member), boot=str(boot)):
            check_level(self.status().feature_level)
            return report(self._ask, member, boot, timeout_s)

    # --- user machines ------------------------------------------------------------------------------------------------
    def replicated(self, name, cls):
        from raftmeta.face.user_machine import UserMachine, local_copy

        return UserMachine(local_copy(self, name, cls))

    # --- the node itself ----------------------------------------------------------------------------------------------
    def campaign(self, *, timeout_s=5.0):
        self.finish(self.submit_wish(SUBMIT_CAMPAIGN, 0, PURPOSE_NOTHING, NULL), PURPOSE_NOTHING,
                    deadline_after(timeout_s))

    def status(self):
        return status_of(self)

    def metrics(self, *, restart_maxima=False):
        return metrics_of(self, restart_maxima)

    def flight_recorder(self):
        return flight_recorder_of(self)

    def reload_tls(self):
        if self.certificates is None:
            raise ConfigError("tls: this node has no such setting", field="tls")
        self._offer_tls(NULL)

    def aio(self):
        from raftmeta.face.aio import Node as AioNode

        return AioNode.of(self)

    def events(self, *, timeout_s=None):
        return EventReader(self, timeout_s)

    def log_events(self, logger=None):
        logger = logging.getLogger("raftmeta") if logger is None else logger
        thread = threading.Thread(target=_log, args=(self.events(), logger, self.name), name="raftmeta-events",
                                  daemon=True)
        thread.start()
        return thread


_WARNINGS = {"stopped", "session_lost", "peer_refused", "stepped_down", "leader_lost", "record_repaired",
             "quorum_lost", "host_stalled", "certificate_expires",
             "machine_command_failed", "machine_diverged", "machine_stopped", "machine_not_dumped"}


def _log(events, logger, name):
    """One line for each event: fixed words, key=value."""
    for event in events:
        logger.log(logging.WARNING if event.name in _WARNINGS else logging.INFO, "%s node=%s", event, name)
