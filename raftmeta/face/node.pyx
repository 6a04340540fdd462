"""Node: raftmeta in a process, for callers that may block.

    with Node("a", peers={"a": "127.0.0.1:7001", ...}, data_dir="/var/lib/broker/a") as node:
        node.ready(10)
        node.put("topics/t", b"3")

It decides how long a call waits and what its end means. It never retries what may have been executed: an operation is
submitted once, and what is repeated on the way is deduplicated by the node's session.
"""

import logging
import threading

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.bindings.commands cimport take_fence, take_number
from raftmeta.bindings.puts cimport pairs_of
from raftmeta.bindings.verbs cimport (add_op, create_op, delete_op, delete_range_op, fence_of, put_op, range_bounds,
                                      take_lease, update_op)
from raftmeta.engine.state cimport ENGINE_STOPPED
from raftmeta.engine.submission cimport AWAIT_FOLLOWER, SUBMIT_CAMPAIGN, SUBMIT_READ, SUBMIT_TRANSFER
from raftmeta.face.answers cimport (PURPOSE_NOTHING, PURPOSE_PREVIOUS, PURPOSE_READ, PURPOSE_REVISION, PURPOSE_TXN,
                                    deadline_after)
from raftmeta.face.base cimport LIFE_RUNNING, NodeBase
from raftmeta.face.lease cimport Lease
from raftmeta.face.members cimport await_membership, reach, settled_members, transfer_target, view_of
from raftmeta.face.view cimport EventReader, metrics_of, status_of
from raftmeta.face.watch cimport Watch
from raftmeta.native.atomics cimport load_acquire
from raftmeta.native.threads cimport boot_now_ns
from raftmeta.wire.commands cimport Fence, Op

from raftmeta.errors import Fatal, InvalidArgument, NotExecuted, NotReady, OutcomeUnknown, RaftmetaError
from raftmeta.members.plans import adding, removing, replacing, voting


cdef class Node(NodeBase):
    # --- life ---------------------------------------------------------------------------------------------------------
    def start(self):
        self.begin()
        return self

    def __enter__(self):
        return self.start() if self.life != LIFE_RUNNING else self

    def __exit__(self, *_exc):
        self.close()

    def ready(self, timeout_s=10.0):
        self.await_session(deadline_after(timeout_s))

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
        """What lives on this node gives back what it holds; raftmeta.Node has such things."""

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

    # --- writes -------------------------------------------------------------------------------------------------------
    cdef object _write(self, const Op* op, object fence, uint8_t purpose, bint is_urgent, uint64_t deadline_ns):
        cdef Fence taken
        fence = fence_of(fence)
        take_fence(fence, &taken)
        while True:
            self.await_session(deadline_ns)
            try:
                return self.finish(self.submit_op(op, &taken, purpose, is_urgent or taken.is_present, NULL), purpose,
                                   deadline_ns)
            except NotReady:
                # The session ended between encoding and arrival: certainly not executed, so it may be encoded anew.
                if boot_now_ns() >= deadline_ns:
                    raise

    def put(self, key, value, *, lease=0, fence=None, previous=False, timeout_s=5.0):
        cdef Op op
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        put_op(key, value, lease, previous, self.value_bytes_max, &op)
        return self._write(&op, fence, PURPOSE_PREVIOUS if previous else PURPOSE_REVISION, False, deadline_ns)

    def put_many(self, items, *, lease=0, fence=None, timeout_s=30.0):
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        cdef list pairs = pairs_of(items, self.value_bytes_max)
        cdef Py_ssize_t done = 0
        cdef Py_ssize_t next
        cdef uint64_t lease_id
        cdef Fence taken
        take_lease(lease, &lease_id)
        fence = fence_of(fence)
        take_fence(fence, &taken)
        revision = None
        try:
            while done < len(pairs):
                next = done
                self.await_session(deadline_ns)
                try:
                    revision = self.finish(self.submit_puts(pairs, &next, lease_id, &taken, NULL), PURPOSE_REVISION,
                                           deadline_ns)
                    done = next
                except NotReady:
                    if boot_now_ns() >= deadline_ns:
                        raise
        except RaftmetaError as error:
            error.items_done = done
            raise
        return revision

    def create(self, key, value, *, lease=0, fence=None, timeout_s=5.0):
        cdef Op op
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        create_op(key, value, lease, self.value_bytes_max, &op)
        return self._write(&op, fence, PURPOSE_REVISION, False, deadline_ns)

    def update(self, key, value, *, expected_revision=0, lease=0, fence=None, previous=False, timeout_s=5.0):
        cdef Op op
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        update_op(key, value, lease, expected_revision, previous, self.value_bytes_max, &op)
        return self._write(&op, fence, PURPOSE_PREVIOUS if previous else PURPOSE_REVISION, False, deadline_ns)

    def delete(self, key, *, expected_revision=0, must_exist=False, fence=None, previous=False, timeout_s=5.0):
        cdef Op op
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        delete_op(key, must_exist, expected_revision, previous, &op)
        return self._write(&op, fence, PURPOSE_PREVIOUS if previous else PURPOSE_REVISION, True, deadline_ns)

    def delete_range(self, start="", end="", *, prefix=None, fence=None, previous=False, timeout_s=5.0):
        cdef Op op
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        start, end = range_bounds(start, end, prefix)
        delete_range_op(start, end, previous, &op)
        return self._write(&op, fence, PURPOSE_PREVIOUS, True, deadline_ns)

    def add(self, key, number=1, *, fence=None, timeout_s=5.0):
        cdef Op op
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        add_op(key, number, &op)
        return self._write(&op, fence, PURPOSE_PREVIOUS, False, deadline_ns)

    def txn(self, compares=(), then=(), otherwise=(), *, fence=None, timeout_s=5.0):
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        compares, then, otherwise, fence = tuple(compares), tuple(then), tuple(otherwise), fence_of(fence)
        while True:
            self.await_session(deadline_ns)
            try:
                return self.finish(self.submit_txn(compares, then, otherwise, fence, NULL), PURPOSE_TXN, deadline_ns)
            except NotReady:
                if boot_now_ns() >= deadline_ns:
                    raise

    def compact(self, revision, *, timeout_s=5.0):
        cdef uint64_t floor
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        take_number(revision, "revision", (<uint64_t>1 << 63) - 1, &floor)
        self.await_session(deadline_ns)
        return self.finish(self.submit_compact(floor, NULL), PURPOSE_REVISION, deadline_ns)

    # --- reads --------------------------------------------------------------------------------------------------------
    # Unless a local read is enough: wait until this node has applied all that was committed before now.
    cdef int _agree_on_read(self, bint local, uint64_t deadline_ns) except -1:
        if local:
            return 0
        self.await_session(deadline_ns)
        self.finish(self.submit_wish(SUBMIT_READ, 0, PURPOSE_READ, NULL), PURPOSE_READ, deadline_ns)
        return 0

    def get(self, key, *, revision=0, local=False, timeout_s=5.0):
        cdef uint64_t at_revision = 0
        if revision:
            take_number(revision, "revision", (<uint64_t>1 << 63) - 1, &at_revision)
        if not local:
            self._agree_on_read(False, deadline_after(timeout_s))
        return self.read_key(key, at_revision)

    def range(self, start="", end="", *, prefix=None, limit=0, revision=0, keys_only=False, count=False,
              count_only=False, local=False, timeout_s=5.0):
        cdef uint64_t at_revision, most
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        start, end = range_bounds(start, end, prefix)
        take_number(int(revision), "revision", (<uint64_t>1 << 63) - 1, &at_revision)
        take_number(limit, "limit", ~<uint32_t>0, &most)
        self._agree_on_read(local, deadline_ns)
        return self.read_range(start, end, most, &at_revision, keys_only, count, count_only)

    # --- leases and watches -------------------------------------------------------------------------------------------
    def lease(self, ttl_s, *, id=0, on_lost=None, timeout_s=5.0):
        return Lease(self, ttl_s, id=id, on_lost=on_lost, timeout_s=timeout_s)

    def watch(self, key=None, end=None, *, prefix=None, start_revision=0, previous=False, puts=True, deletes=True,
              progress=False, raise_lagged=False, reset=False, callback=None, on_end=None, timeout_s=None):
        return Watch(self, key, end, prefix=prefix, start_revision=start_revision, previous=previous, puts=puts,
                     deletes=deletes, progress=progress, raise_lagged=raise_lagged, reset=reset, callback=callback,
                     on_end=on_end, timeout_s=timeout_s)

    # --- user machines ------------------------------------------------------------------------------------------------
    def replicated(self, name, cls):
        from raftmeta.face.user_machine import UserMachine, local_copy

        return UserMachine(local_copy(self, name, cls))

    # --- the node itself ----------------------------------------------------------------------------------------------
    def transfer(self, to=None, *, timeout_s=5.0):
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        cdef uint64_t target = transfer_target(self, to)
        self.finish(self.submit_wish(SUBMIT_TRANSFER, target, PURPOSE_NOTHING, NULL), PURPOSE_NOTHING, deadline_ns)
        self.finish(self.submit_wish(AWAIT_FOLLOWER, 0, PURPOSE_NOTHING, NULL), PURPOSE_NOTHING, deadline_ns)

    def campaign(self, *, timeout_s=5.0):
        self.finish(self.submit_wish(SUBMIT_CAMPAIGN, 0, PURPOSE_NOTHING, NULL), PURPOSE_NOTHING,
                    deadline_after(timeout_s))

    # --- members ------------------------------------------------------------------------------------------------------
    def members(self, *, timeout_s=5.0):
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        self._agree_on_read(False, deadline_ns)
        while not (view := view_of(self)).is_settled and boot_now_ns() < deadline_ns:
            await_membership(self, view, deadline_ns)
        return settled_members(self)

    def add_member(self, name, address, *, voter=True, timeout_s=30.0):
        reach(self, adding(name, address, is_voter=bool(voter)), deadline_after(timeout_s))

    def remove_member(self, name, *, timeout_s=30.0):
        reach(self, removing(name), deadline_after(timeout_s))

    def replace_member(self, old, name, address, *, timeout_s=60.0):
        reach(self, replacing(old, name, address), deadline_after(timeout_s))

    def promote(self, name, *, timeout_s=30.0):
        reach(self, voting(name, is_voter=True), deadline_after(timeout_s))

    def demote(self, name, *, timeout_s=30.0):
        reach(self, voting(name, is_voter=False), deadline_after(timeout_s))

    def status(self):
        return status_of(self)

    def metrics(self, *, restart_maxima=False):
        return metrics_of(self, restart_maxima)

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
             "quorum_lost", "host_stalled",
             "machine_command_failed", "machine_diverged", "machine_stopped", "machine_not_dumped"}


def _log(events, logger, name):
    """One line for each event: fixed words, key=value."""
    for event in events:
        logger.log(logging.WARNING if event.name in _WARNINGS else logging.INFO, "%s node=%s", event, name)
