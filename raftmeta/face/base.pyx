"""A node as Python sees it, as far as its two faces (face/node, face/aio) agree.

It decides whether a call may reach the engine at all, and in which order commands get their sequence numbers.
It must never hold a Python object where a native thread could meet it. The native side of a node is one heap
block (loop/loop); this class is a handle over it and frees it when both threads have ended.

Why sequences arrive in order: a command is encoded with the next sequence and pushed while the GIL is held throughout.
"""

import os
import threading
import weakref
from functools import partial
from importlib import import_module
from logging import getLogger
from signal import SIG_BLOCK, pthread_sigmask, valid_signals

from cpython.bytes cimport PyBytes_AS_STRING
from cpython.exc cimport PyErr_CheckSignals
from cpython.pythread cimport PyThread_get_thread_ident
from cpython.ref cimport Py_INCREF
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from raftmeta.bindings.commands cimport read_values, take_bound, take_key, take_number, take_page
from raftmeta.bindings.verbs cimport Request
from raftmeta.connections.accounts cimport accounts_create, accounts_destroy
from raftmeta.connections.turns cimport connections_close_in_child, connections_stop
from raftmeta.engine.state cimport ENGINE_STOPPED
from raftmeta.engine.submission cimport (AWAIT_MEMBERSHIP, AWAIT_READY, SUBMIT_COMMAND, SUBMIT_DROP_LEASE,
                                         SUBMIT_KEEP_LEASE, SUBMIT_MEET, SUBMIT_MEMBERSHIP, SUBMIT_SET_FAULTS,
                                         SUBMIT_TRANSFER, SUBMIT_UNWATCH, SUBMIT_WATCH, Submission,
                                         submission_create, submission_payload)
from raftmeta.face.answers cimport (PURPOSE_NOTHING, PURPOSE_WATCH, answer_of, deadline_after, error_of,
                                    purpose_wants_body, raise_status, raise_unless_ok)
from raftmeta.face.checkpoints cimport Checkpoints
from raftmeta.face.door cimport DOORS_MAX, DoorBlock, OpenDoor, open_doors, take_doors
from raftmeta.face.host cimport HostWatch
from raftmeta.face.links cimport id_of_link
from raftmeta.face.listening cimport open_clients
from raftmeta.face.problems cimport not_ready_error, problems_of
from raftmeta.face.start cimport fill_loop, open_error, stopped_error
from raftmeta.face.tls cimport context_of, refusal_word
from raftmeta.loop.checkpoint_handover cimport handover_port
from raftmeta.loop.faults cimport faults_set
from raftmeta.loop.loop cimport (READER_HOST, LinkTable, loop_abort, loop_close_in_child, loop_create, loop_destroy,
                                 loop_enter, loop_leave, loop_open, loop_ring, loop_start, loop_stop, loop_submit)
from raftmeta.loop.tickets cimport ticket_create, ticket_drop, ticket_hold, ticket_is_done, ticket_wait, ticket_withdraw
from raftmeta.machine.machine cimport Grouping, machine_get_shared, machine_range_shared
from raftmeta.machine.rights cimport rights_drop, rights_hold
from raftmeta.machine.rights_show cimport RightsPage, rights_show
from raftmeta.machine.rights_state cimport RightsTable
from raftmeta.machine.watch_state cimport Watch as NativeWatch
from raftmeta.native.atomics cimport add_shared, load_acquire, load_shared, store_release
from raftmeta.native.containers cimport Vec
from raftmeta.native.threads cimport boot_now_ns, futex_wait, futex_wake
from raftmeta.raft.types cimport Membership
from raftmeta.security.audit_handle cimport AuditHandle
from raftmeta.security.audit_queue cimport AuditTrail
from raftmeta.security.cipher_handle cimport KeyRingHandle
from raftmeta.security.contexts cimport tls_context_free, tls_port_offer
from raftmeta.security.identity cimport ROLE_CLIENT, ROLE_PEER
from raftmeta.security.tls_state cimport TLS_CUT, TLS_NOT_SPOKEN, TLS_WANTED, TlsContext, TlsPort
from raftmeta.server.server cimport clients_close_in_child, clients_destroy, clients_start, clients_stop
from raftmeta.server.state cimport ClientServer
from raftmeta.status cimport NOT_FOUND, OK, status_t
from raftmeta.wire.commands cimport Bytes

from raftmeta.config import Config, Identity
from raftmeta.errors import (ConfigError, ForkedProcess, InvalidArgument, NodeClosed, NodeRemoved, NotReady,
                             OutcomeTimeout, Overloaded, ReadyTimeout, Withdrawn)
from raftmeta.face.audit import telling, writer_of
from raftmeta.face.certificates import Certificates
from raftmeta.verbs.asked import next_page, range_result
from raftmeta.face.listening import listen_at
from raftmeta.common.shared_threads import Losses, SharedThreads
from raftmeta.security.audit import check_audit
from raftmeta.security.encryption import check_encryption, ring_of, shown_id
from raftmeta.security.settings import Tls
from raftmeta.storage.keys_in_use import keys_of_checkpoint, keys_of_files, keys_of_folder
from raftmeta.storage.privacy import check_unshared, keep_files_private

cdef enum:
    SIGNALS_LOOKED_AT_NS = 50_000_000       # Ctrl-C ends a blocked call within 100 ms
    TUNE_END_NS_MIN = 20_000_000            # a thread that is told to end gets so long, also when the time is up
    LISTEN_BACKLOG = 128
    PORTS_MAX = 2 + DOORS_MAX               # of peers, of clients, of doors
    WATCHDOG_LOOKS = 5                      # the host is to be seen so often within Config.host_watchdog_s
    TUNE_RANGE_BYTES = 256 * 1024           # of a range read in one native call: how long the GIL is held at once
    TUNE_SCRATCH_BYTES = 1024 * 1024        # kept between calls

WATCH_HOST_S = 0.1          # between two looks whether the host's Python goes on

_LOG = getLogger("raftmeta")

# Nodes that run in this process, for its fork children only.
_running_nodes = weakref.WeakSet()


def _close_in_child():
    for node in list(_running_nodes):
        (<NodeBase>node).forked()
    _running_nodes.clear()


os.register_at_fork(after_in_child=_close_in_child)


def _close_files_in(folder):
    """Files of the log: the write thread opens and closes them, and its notes may have been copied half done."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{name}").startswith(folder + os.sep):
                os.close(int(name))
        except OSError:
            pass        # that of the listing itself


def _is_kafka_door(program):
    # Loaded by name, as the doors are (face/door): a node without a Kafka door does without.
    return isinstance(program, import_module("raftmeta.face.kafka_door").KafkaDoor)


# --- the handle -------------------------------------------------------------------------------------------------------
cdef class NodeBase:
    def __cinit__(self, *args, **kwargs):
        self.attached = set()
        self.dropped = []
        self.watch_events = WatchEvents()
        self.user_machines = {}
        self.doors = []
        self.faces = weakref.WeakSet()
        self.link_faults = b""

    def __init__(self, name, *, peers=None, data_dir, role="member", seeds=(), listen=None, advertise=None,
                 client_listen=None, zookeeper_listen=None, kafka_listen=None, etcd_listen=None, cluster="default",
                 config=None, encryption=None, tls=None, audit=None, kafka=None):
        config = Config() if config is None else config
        if not isinstance(config, Config):
            raise ConfigError(f"config: must be a Config, not {type(config).__name__}", field="config")
        if tls is not None and not isinstance(tls, Tls):
            raise ConfigError(f"tls: must be a Tls, not {type(tls).__name__}", field="tls")
        self.config = config
        self.tls = tls
        self.certificates = Certificates(tls) if tls is not None else None
        self.identity = Identity.check(name, peers=peers, data_dir=data_dir, listen=listen, advertise=advertise,
                                       client_listen=client_listen, zookeeper_listen=zookeeper_listen,
                                       kafka_listen=kafka_listen, etcd_listen=etcd_listen, cluster=cluster,
                                       config=config, role=role, seeds=seeds,
                                       is_private=tls is not None and not tls.accept_plain)
        if kafka is not None and not _is_kafka_door(kafka):
            raise ConfigError(f"kafka: must be a KafkaDoor, not {type(kafka).__name__}", field="kafka")
        if kafka is not None and kafka_listen is None:
            raise ConfigError("kafka: needs kafka_listen too", field="kafka")
        self.kafka_host = kafka
        self.encryption = check_encryption(encryption)
        self.audit = check_audit(audit)
        self.value_bytes_max = config.value_bytes_max
        self.outstanding_max = config.outstanding_max
        self.close_timeout_ns = round(config.close_timeout_s * 1e9)

    @property
    def name(self):
        return self.identity.name

    def __del__(self):
        # Never closed. Here and not in __dealloc__: what the loop writes to (`attached`) is certainly still there.
        self.end(boot_now_ns() + self.close_timeout_ns)

    def __dealloc__(self):
        self.scratch.release()

    # --- life ---------------------------------------------------------------------------------------------------------
    cdef int begin(self) except -1:
        if self.life == LIFE_FORKED:
            raise ForkedProcess("this node belongs to the process that was forked")
        if self.life != LIFE_NEW:
            raise NodeClosed("a node starts once; make a new Node over the same folder")
        self.starter = PyThread_get_thread_ident()
        self.life = LIFE_STARTING
        try:
            self._begin()
        finally:
            if self.life == LIFE_STARTING:
                self.life = LIFE_CLOSED if self.must_close else LIFE_NEW
            self._tell_ending()

    cdef int _begin(self) except -1:
        cdef Loop* loop
        cdef _Ending ending = _Ending()
        check_unshared(self.identity.data_dir)
        listener = listen_at(self.identity.listen, "listen", LISTEN_BACKLOG)
        try:
            self.keys = ring_of(self.encryption, lambda: keys_of_folder(self.identity.data_dir))
            ending.keys = self.keys
            ending.checkpoints = self.checkpoints = Checkpoints(self.identity.data_dir, self.keys)
            ending.trail = self.trail = writer_of(self.audit, _words())
            ending.loop = loop = loop_create(int.from_bytes(os.urandom(8), "little"))
            if loop == NULL:
                raise MemoryError
            self._open(loop, listener)
            _running_nodes.add(self)
            # From here on until `life` says so no Python code runs: close() comes before or after.
            if self.must_close:
                raise NodeClosed("the node was closed while it started")
        except BaseException:
            listener.close()
            _running_nodes.discard(self)
            ending.accounts = self.accounts
            ending.clients = self.clients
            self.accounts = NULL
            self.clients = NULL
            ending.door_count = take_doors(self.doors, ending.doors)
            ending.end_by(boot_now_ns() + self.close_timeout_ns)
            raise
        self.loop = loop
        self.life = LIFE_RUNNING
        try:
            if self.certificates is not None:
                self.certificates.start(self)
            if self.kafka_host is not None:
                self.kafka_host.start(self)
            self.watched = _host_watch(self)
        except BaseException:
            self.end(boot_now_ns() + self.close_timeout_ns)
            raise

    cdef int _open(self, Loop* loop, object listener) except -1:
        cdef uint64_t holder = 0
        cdef status_t status
        cdef OpenDoor door
        cdef bytes path = os.fsencode(self.identity.data_dir)
        cdef const char* path_bytes = path
        cdef AuditTrail* trail = (<AuditHandle>self.trail.handle).trail if self.trail is not None else NULL
        fill_loop(loop, self.config, self.identity)
        loop.engine.leases.host_ns = boot_now_ns()
        raise_unless_ok(faults_set(&loop.faults, self.link_faults, <uint32_t>len(self.link_faults), loop.random))
        loop.engine.disk.keys = self.keys.ring if self.keys is not None else NULL
        loop.engine.checkpoints = handover_port(self.checkpoints.handover)
        self.checkpoints.disk = &loop.disk
        self.checkpoints.start()
        with nogil:
            status = loop_open(loop, path_bytes, &holder)
        if status != OK:
            raise open_error(loop, status, holder, self.identity, self.keys)
        keep_files_private(self.identity.data_dir)
        if self.trail is not None:
            self.trail.open(self.identity.name, self.identity.cluster, loop.engine.boot)
            self.trail.start()
            loop.transport.audit = trail
        self.accounts = accounts_create()
        if self.accounts == NULL:
            raise MemoryError
        self.clients = open_clients(loop, self.accounts, self.identity, self.config)
        self.doors = []
        open_doors(self.doors, loop, self.accounts, self.identity, self.config, {"kafka_listen": self.kafka_host})
        if self.certificates is not None:
            self._offer_tls(loop)
        raise_unless_ok(loop_start(loop, <int>listener.detach()))
        if self.clients != NULL:
            raise_unless_ok(clients_start(self.clients))
        for door in self.doors:
            raise_unless_ok(door.block.start(door.block.connections))
        return 0

    # Contexts are made first: that runs Python code, and may see the node end.
    cdef int _offer_tls(self, Loop* loop) except -1:
        cdef TlsContext* contexts[PORTS_MAX]            # peers', clients', and those of the doors in their order
        cdef OpenDoor door
        cdef int count = 0
        cdef int i
        try:
            self.certificates.begin()
            texts = self.tls.read()
            for role in [ROLE_PEER] + [ROLE_CLIENT] * (1 + len(self.doors)):
                contexts[count] = context_of(self.tls, texts, self.identity, role)
                count += 1
            for i in range(2, count):
                door = self.doors[i - 2]
                door.prepare(contexts[i])
            if loop == NULL:
                loop = self.started()
        except BaseException as error:
            for i in range(count):
                tls_context_free(contexts[i])
            self.certificates.failure = f"{error}"
            raise
        self._offer(&loop.tls, contexts[0])
        self._offer(&self.clients.base.tls if self.clients != NULL else NULL, contexts[1])
        for i in range(2, count):
            door = self.doors[i - 2]
            self._offer(&door.block.connections.tls, contexts[i])
        self.certificates.failure = ""
        return 0

    # port NULL: nobody wants the context.
    cdef int _offer(self, TlsPort* port, TlsContext* context) except -1:
        if port == NULL:
            tls_context_free(context)
        else:
            port.accepts_plain = self.tls.accept_plain
            tls_port_offer(port, context)
        return 0

    cdef int end(self, uint64_t deadline_ns) except -1:
        cdef _Ending ending
        if self.loop == NULL:
            return 0
        ending = _Ending()          # which may run Python code (a collection), and so another end()
        if self.loop == NULL:
            return 0
        ending.loop = self.loop
        ending.keys = self.keys
        ending.accounts = self.accounts
        ending.clients = self.clients
        ending.door_count = take_doors(self.doors, ending.doors)
        self.loop = NULL            # nobody submits or reads from here on
        self.accounts = NULL
        self.clients = NULL
        self.life = LIFE_CLOSED
        ending.checkpoints = self.checkpoints
        ending.callbacks = self.callbacks
        ending.attached = self.attached
        ending.watched = self.watched
        ending.trail = self.trail
        if self.certificates is not None:
            self.certificates.end()
        if self.checkpoints.is_own_thread():
            # A checkpoint is under way below us on the stack, and cannot be waited for here.
            ending.timeout_ns = self.close_timeout_ns
            threading.Thread(target=ending.run, name="raftmeta-ending", daemon=True).start()
        else:
            ending.end_by(deadline_ns)
        return 0

    cdef int abort(self) except -1:
        cdef uint64_t deadline_ns = boot_now_ns() + self.close_timeout_ns
        cdef bint is_closer
        self.started()
        is_closer = self.begin_closing()
        loop_abort(self.loop)
        try:
            return self.end(deadline_ns)
        finally:
            if is_closer:
                self.end_closing()

    def _telling(self, operation, **facts):
        return telling(self.trail, operation, facts)

    # --- keys ---------------------------------------------------------------------------------------------------------
    def rotate_encryption_key(self):
        self.started()
        if self.keys is None:
            raise InvalidArgument("encryption: this node was started without", field="encryption")
        self.encryption.offer(self.keys, self._keys_in_use())
        return shown_id(self.keys.current)

    def encryption_keys(self):
        self.started()
        return {shown_id(key): count for key, count in sorted(self._keys_in_use().items())}

    def _keys_in_use(self):
        return keys_of_files(self.identity.data_dir) + keys_of_checkpoint(self.checkpoints.store.manifest)

    # --- closing ------------------------------------------------------------------------------------------------------
    # Any number of threads may close at once. One of them does it, the others wait for it. A signal handler may close
    # while the very thread below it starts or closes: it cannot wait for that, so it leaves the start to give up, and
    # ends the node itself in the place of the closing that it interrupted.
    cdef bint begin_closing(self) noexcept:
        if self.closer != 0 or self.life != LIFE_RUNNING:
            return False
        self.closer = PyThread_get_thread_ident()
        return True

    cdef void end_closing(self) noexcept:
        self.has_closed = True
        self._tell_ending()

    cdef void _tell_ending(self) noexcept:
        add_shared(&self.endings, <uint32_t>1)
        futex_wake(&self.endings, 0x7FFFFFFF)

    cdef int close_beside(self, uint64_t deadline_ns) except -1:
        cdef unsigned long thread = PyThread_get_thread_ident()
        cdef uint32_t seen
        if self.life == LIFE_STARTING:
            self.must_close = True
        if self.closer == thread and not self.has_closed:
            return self.end(deadline_ns)
        while boot_now_ns() < deadline_ns:
            seen = load_shared(&self.endings)
            if self.life == LIFE_STARTING:
                if self.starter == thread:
                    return 0
            elif self.closer == 0 or self.has_closed or self.life == LIFE_FORKED:
                return 0
            self._await_ending(seen, deadline_ns)
        return 0

    cdef int _await_ending(self, uint32_t seen, uint64_t deadline_ns) except -1:
        cdef uint64_t now_ns = boot_now_ns()
        cdef uint64_t pause_ns = min(deadline_ns - now_ns if now_ns < deadline_ns else 0,
                                     <uint64_t>SIGNALS_LOOKED_AT_NS)
        with nogil:
            futex_wait(&self.endings, seen, pause_ns)
        PyErr_CheckSignals()
        return 0

    cdef int set_link_faults(self, bytes table, uint64_t seed) except -1:
        cdef Submission* submission
        self.link_faults = table
        if self.life != LIFE_RUNNING:
            return 0
        submission = _submission(SUBMIT_SET_FAULTS, table, len(table))
        submission.arguments.set_faults.seed = seed
        self.finish(self._send(submission, PURPOSE_NOTHING, NULL), PURPOSE_NOTHING, ~<uint64_t>0)
        return 0

    # In a fork child: close what came along, touch nothing else; the native block is left as it was copied.
    cdef int forked(self) except -1:
        cdef OpenDoor door
        if self.clients != NULL:
            clients_close_in_child(self.clients)
        for door in self.doors:
            if door.block.connections != NULL:
                connections_close_in_child(door.block.connections)
        if self.loop != NULL:
            loop_close_in_child(self.loop)
            # LMDB would close its descriptors by number when it is collected, and those may be others' by then.
            Py_INCREF(self.checkpoints)
        if self.trail is not None:
            self.trail.close_in_child()
        self.loop = NULL
        self.clients = NULL
        self.life = LIFE_FORKED
        for face in list(self.faces):
            face._close_in_child()
        _close_files_in(os.path.realpath(self.identity.data_dir))
        return 0

    cdef Loop* started(self) except NULL:
        if self.life == LIFE_FORKED:
            raise ForkedProcess("this node runs in the process that was forked")
        if self.life != LIFE_RUNNING:
            raise NodeClosed("the node is closed" if self.life == LIFE_CLOSED else "the node was not started")
        return self.loop

    cdef Loop* running(self) except NULL:
        cdef Loop* loop = self.started()
        if load_acquire(&loop.state) == ENGINE_STOPPED:
            raise stopped_error(loop)
        if load_acquire(&loop.is_removed):
            raise NodeRemoved(f"node {self.identity.name} was removed from the cluster; add_member brings it back")
        return loop

    # --- submissions --------------------------------------------------------------------------------------------------
    cdef bint has_session(self) except -1:
        return load_acquire(&self.running().session) != 0

    # The session to encode with; it may have ended since the caller looked.
    cdef uint64_t _session_now(self) except 0:
        cdef uint64_t session = load_acquire(&self.loop.session)
        if session == 0:
            raise NotReady("the session of this node ended before the operation was submitted")
        return session

    cdef int _check_room(self, bint is_urgent) except -1:
        if not is_urgent and load_shared(&self.loop.in_flight) >= self.outstanding_max:
            raise Overloaded(f"{self.outstanding_max} operations of this node are under way")
        return 0

    cdef Ticket* _send(self, Submission* submission, uint8_t purpose, Mailbox* mailbox) except NULL:
        cdef Ticket* ticket = ticket_create(mailbox, purpose_wants_body(purpose))
        if ticket == NULL:
            free(submission)
            raise MemoryError
        ticket.purpose = purpose
        submission.owner = ticket
        loop_submit(self.loop, submission)
        if mailbox == NULL:
            loop_ring(self.loop)        # an event loop rings for all that its tasks submitted
        return ticket

    # Submit the command in scratch, which was encoded with next_sequence.
    cdef Ticket* _send_command(self, uint8_t purpose, bint is_urgent, Mailbox* mailbox) except NULL:
        cdef Submission* submission = _submission(SUBMIT_COMMAND, self.scratch.data, self.scratch.size)
        cdef Ticket* ticket
        submission.arguments.command.is_urgent = is_urgent
        submission.arguments.command.session = self.encoded_session
        submission.arguments.command.sequence = self.loop.next_sequence
        ticket = self._send(submission, purpose, mailbox)
        self.loop.next_sequence += 1
        return ticket

    cdef Ticket* submit(self, Request request, Mailbox* mailbox) except NULL:
        cdef Loop* loop = self.running()
        cdef uint64_t session
        self._check_room(request.is_urgent)
        if request.runs_python:
            self._encode(request)
        else:
            self.scratch.clear()
            self.encoded_session = session = self._session_now()
            request.append(session, loop.next_sequence, load_acquire(&loop.lowest_unanswered), &self.scratch)
        return self._send_command(request.purpose, request.is_urgent, mailbox)

    # Encoding runs Python code, and so perhaps other threads: if they submitted meanwhile, encode again.
    cdef int _encode(self, Request request) except -1:
        cdef uint64_t sequence, session
        cdef Vec[uint8_t] encoded
        while True:
            sequence = self.loop.next_sequence
            session = self._session_now()
            encoded = self.borrow_scratch()
            try:
                request.append(session, sequence, load_acquire(&self.loop.lowest_unanswered), &encoded)
            except BaseException:
                encoded.release()
                raise
            self.scratch.release()
            self.scratch = encoded
            self.running()
            if sequence == self.loop.next_sequence:
                self.encoded_session = session
                return 0

    cdef Ticket* submit_wish(self, uint8_t kind, uint64_t about, uint8_t purpose, Mailbox* mailbox) except NULL:
        cdef Submission* submission
        self.running()
        self._check_room(False)
        submission = _submission(kind, NULL, 0)
        if kind == SUBMIT_TRANSFER:
            submission.arguments.transfer.target = about
        elif kind == AWAIT_MEMBERSHIP:
            submission.arguments.await_membership.other_than = about
        return self._send(submission, purpose, mailbox)

    cdef Ticket* submit_membership(self, bytes membership, uint64_t made_from, Mailbox* mailbox) except NULL:
        cdef Submission* submission
        self.running()
        submission = _submission(SUBMIT_MEMBERSHIP, membership, len(membership))
        submission.arguments.membership.made_from = made_from
        return self._send(submission, PURPOSE_NOTHING, mailbox)

    cdef Ticket* submit_meet(self, bytes name, bytes address, Mailbox* mailbox) except NULL:
        cdef Submission* submission
        self.running()
        submission = _submission(SUBMIT_MEET, name + address, len(name) + len(address))
        submission.arguments.meet.name_length = <uint32_t>len(name)
        return self._send(submission, PURPOSE_NOTHING, mailbox)

    cdef Ticket* submit_watch(self, const uint8_t* range_bytes, uint32_t key_length, uint32_t length, uint64_t revision,
                              uint32_t filter, void* signal, Mailbox* mailbox) except NULL:
        cdef Submission* submission
        self.running()
        submission = _submission(SUBMIT_WATCH, range_bytes, length)
        submission.arguments.watch.key_length = key_length
        submission.arguments.watch.start_revision = revision
        submission.arguments.watch.filter = filter
        submission.arguments.watch.handle = signal
        return self._send(submission, PURPOSE_WATCH, mailbox)

    cdef WatchCallbacks watch_callbacks(self):
        if self.callbacks is None:
            self.callbacks = WatchCallbacks()
        return self.callbacks

    cdef object lease_losses(self):
        if self.losses is None:
            self.losses = Losses(SharedThreads("lease"))
        return self.losses

    cdef Ticket* submit_unwatch(self, void* watch, Mailbox* mailbox) except NULL:
        cdef Submission* submission
        self.running()
        submission = _submission(SUBMIT_UNWATCH, NULL, 0)
        submission.arguments.unwatch.watch = <NativeWatch*>watch
        return self._send(submission, PURPOSE_NOTHING, mailbox)

    cdef Ticket* submit_keep_lease(self, uint64_t lease, uint64_t ttl_ms, uint64_t* until_ns,
                                   Mailbox* mailbox) except NULL:
        cdef Submission* submission
        self.running()
        submission = _submission(SUBMIT_KEEP_LEASE, NULL, 0)
        submission.arguments.keep_lease.lease = lease
        submission.arguments.keep_lease.ttl_ms = ttl_ms
        submission.arguments.keep_lease.handle = until_ns
        return self._send(submission, PURPOSE_NOTHING, mailbox)

    cdef Ticket* submit_drop_lease(self, uint64_t lease, Mailbox* mailbox) except NULL:
        cdef Submission* submission
        self.running()
        submission = _submission(SUBMIT_DROP_LEASE, NULL, 0)
        submission.arguments.drop_lease.lease = lease
        return self._send(submission, PURPOSE_NOTHING, mailbox)

    # --- reads --------------------------------------------------------------------------------------------------------
    cdef Vec[uint8_t] borrow_scratch(self) noexcept:
        cdef Vec[uint8_t] taken = self.scratch
        taken.clear()
        memset(&self.scratch, 0, sizeof(self.scratch))
        return taken

    cdef void give_back_scratch(self, Vec[uint8_t]* taken) noexcept:
        if self.scratch.capacity == 0 and taken.capacity <= TUNE_SCRATCH_BYTES:
            self.scratch = taken[0]
        else:
            taken.release()

    cdef Loop* readable(self) except NULL:
        cdef Loop* loop = self.running()
        if load_acquire(&loop.machine) == NULL:
            raise self.not_ready(NotReady, "this node is not part of a founded cluster yet")
        return loop

    cdef object read_key(self, object key, uint64_t revision):
        cdef Loop* loop = self.readable()
        cdef Vec[uint8_t] found
        cdef Bytes window
        cdef uint64_t seen = 0
        cdef status_t status
        take_key(key, "key", &window)
        found = self.borrow_scratch()
        try:
            status = machine_get_shared(loop_enter(loop, READER_HOST), &window, revision, &found, &seen)
            loop_leave(loop, READER_HOST)
            if status == NOT_FOUND:
                return None
            if status != OK:
                raise_status(status, seen)
            return read_values(found.data, found.size)[0]
        finally:
            self.give_back_scratch(&found)

    cdef object read_range(self, object asked):
        cdef uint64_t count = 0
        cdef uint64_t revision = asked.revision
        cdef uint64_t limit
        cdef bint more = not asked.count_only
        cdef bint ignored
        cdef list found = []
        cdef list part
        take_number(asked.limit, "limit", ~<uint32_t>0, &limit)
        at = asked.start
        while more and not (limit and <uint64_t>len(found) >= limit):
            part = self._read_part(at, asked, limit - <uint64_t>len(found) if limit else 0, &revision, False, &count,
                                   &more)
            found += part
            if more:
                at = next_page(part[len(part) - 1])
        count = len(found)
        if asked.count_only or (asked.count and more):
            self._read_part(asked.start, asked, 0, &revision, True, &count, &ignored)
        return range_result(found, has_prefixes=bool(asked.delimiter), count=count, more=bool(more), revision=revision)

    cdef list read_rights(self, uint8_t page, bytes first, uint32_t limit):
        cdef Loop* loop = self.readable()
        cdef Vec[uint8_t] found = self.borrow_scratch()
        cdef RightsTable* table
        cdef Bytes nobody, window
        cdef status_t status
        memset(&nobody, 0, sizeof(nobody))
        window.data = <const uint8_t*>PyBytes_AS_STRING(first)
        window.length = <uint32_t>len(first)
        try:
            table = rights_hold(&loop_enter(loop, READER_HOST).rights)
            loop_leave(loop, READER_HOST)
            status = rights_show(table, <RightsPage>page, &nobody, &window, limit, TUNE_RANGE_BYTES, &found)
            if table != NULL:
                rights_drop(table)
            raise_unless_ok(status)
            return read_values(found.data, found.size)
        finally:
            self.give_back_scratch(&found)

    # One native call, so that a large range neither copies nor holds everybody up at once. *revision: which (0: the
    # newest) and, afterwards, which it was.
    cdef list _read_part(self, object start, object asked, uint64_t limit, uint64_t* revision, bint count_only,
                         uint64_t* count, bint* more):
        cdef Loop* loop = self.readable()
        cdef Vec[uint8_t] found
        cdef Bytes first, last
        cdef Grouping grouping
        cdef bint keys_only = asked.keys_only
        cdef uint64_t seen = 0
        cdef status_t status
        take_page(start, "start", &first)
        take_page(asked.end, "end", &last)
        take_bound(asked.delimiter, "delimiter", &grouping.delimiter)
        grouping.skip = asked.skip
        found = self.borrow_scratch()
        try:
            status = machine_range_shared(loop_enter(loop, READER_HOST), &first, &last, revision[0], &grouping,
                                          <uint32_t>limit, TUNE_RANGE_BYTES, keys_only, count_only, &found, count,
                                          more, &seen)
            loop_leave(loop, READER_HOST)
            if status != OK:
                raise_status(status, seen)
            if revision[0] == 0:
                revision[0] = seen      # the rest of the range is read as of the same revision
            return read_values(found.data, found.size)
        finally:
            self.give_back_scratch(&found)

    # --- what is known without asking ---------------------------------------------------------------------------------
    cdef int read_status(self, StatusBlock* status) except -1:
        cdef Loop* loop = self.started()
        while not loop.status.read(status):
            pass
        return 0

    cdef int read_links(self, LinkTable* links) except -1:
        cdef Loop* loop = self.started()
        while not loop.links.read(links):
            pass
        return 0

    cdef uint64_t member_by_name(self, object name) except? 0:
        cdef LinkTable links
        cdef StatusBlock status
        self.running()
        if name == self.identity.name:
            self.read_status(&status)
            return status.id
        self.read_links(&links)
        return id_of_link(&links, name)

    cdef object not_ready(self, object kind, str message):
        cdef LinkTable links
        cdef StatusBlock status
        self.read_status(&status)
        self.read_links(&links)
        return not_ready_error(kind, message, self.problems(), &status, &links)

    cdef tuple problems(self):
        cdef LinkTable links
        cdef StatusBlock status
        cdef Membership membership
        self.read_status(&status)
        self.read_links(&links)
        while not self.loop.membership.read(&membership):
            pass
        return problems_of(self.identity, self.loop.disk.directory, self.config.reserve_bytes, &status, &links,
                           &membership, self.certificates, self.trail)

    # --- waiting ------------------------------------------------------------------------------------------------------
    cdef bint wait(self, Ticket* ticket, uint64_t deadline_ns) except -1:
        cdef uint64_t now_ns, pause_ns
        while not ticket_is_done(ticket):
            now_ns = boot_now_ns()
            if now_ns >= deadline_ns:
                return False
            pause_ns = min(deadline_ns - now_ns, <uint64_t>SIGNALS_LOOKED_AT_NS)
            with nogil:
                ticket_wait(ticket, pause_ns)
            PyErr_CheckSignals()
        return True

    cdef object finish(self, Ticket* ticket, uint8_t purpose, uint64_t deadline_ns):
        try:
            if not self.wait(ticket, deadline_ns) and not ticket_is_done(ticket):
                if ticket_withdraw(ticket):
                    raise Withdrawn("timed out before it was proposed; certainly not applied")
                if not ticket_is_done(ticket):
                    raise OutcomeTimeout("timed out after it was proposed; it may still be applied",
                                         ticket=_pending(self, ticket, purpose))
            if ticket.status != OK:
                raise error_of(ticket)
            return answer_of(ticket, purpose)
        except BaseException:
            ticket_withdraw(ticket)     # of a call that a signal ended
            raise
        finally:
            ticket_drop(ticket)

    cdef int await_session(self, uint64_t deadline_ns) except -1:
        if self.has_session():
            return 0
        try:
            self.finish(self.submit_wish(AWAIT_READY, 0, PURPOSE_NOTHING, NULL), PURPOSE_NOTHING, deadline_ns)
        except Withdrawn:
            raise self.not_ready(ReadyTimeout, "the node is not ready") from None
        return 0


# None: there is neither a watchdog nor a recorder.
cdef HostWatch _host_watch(NodeBase node):
    cdef HostWatch watched
    cdef bint records = node.loop.recorder.ring != NULL
    cdef double watchdog_s = node.config.host_watchdog_s
    if node.loop.recorder.error != 0:
        _LOG.warning("flight_recorder_off node=%s: %s", node.identity.name, os.strerror(node.loop.recorder.error))
    if not watchdog_s and not records:
        return None
    watched = HostWatch(partial(_show_progress, weakref.ref(node)),
                        min(watchdog_s / WATCHDOG_LOOKS or WATCH_HOST_S, WATCH_HOST_S), records)
    watched.thread.start()
    return watched


def _show_progress(node_ref, HostWatch watched):
    """The thread whose only work is to run: what keeps it from running keeps the host from working."""
    cdef NodeBase node
    pthread_sigmask(SIG_BLOCK, valid_signals())
    while not watched.sleep():
        node = node_ref()
        if node is None or node.loop == NULL:
            return
        store_release(&node.loop.engine.leases.host_ns, boot_now_ns())
        watched.record(node.loop.recorder.ring)
        node = None


cdef class _Ending:
    """A node's native parts, to be ended: nobody else has them any more."""

    cdef Loop* loop
    cdef KeyRingHandle keys     # native threads read it as long as they run
    cdef Accounts* accounts
    cdef ClientServer* clients
    cdef DoorBlock[DOORS_MAX] doors
    cdef int door_count
    cdef Checkpoints checkpoints
    cdef WatchCallbacks callbacks
    cdef set attached
    cdef HostWatch watched
    cdef object trail           # native threads push into its rings as long as they run
    cdef uint64_t timeout_ns

    def run(self):
        self.end_by(boot_now_ns() + self.timeout_ns)

    # A signal handler that raises does not keep it from ending; it raises at the end.
    cdef int end_by(self, uint64_t deadline_ns) except -1:
        cdef bint has_ended
        cdef int i
        if self.watched is not None:
            self.watched.end()
        # Clients go first, so that nothing is submitted to a loop that ends.
        with nogil:
            has_ended = self.clients == NULL or clients_stop(self.clients, _left_ns(deadline_ns))
            for i in range(self.door_count):
                has_ended = connections_stop(self.doors[i].connections, _left_ns(deadline_ns)) and has_ended
            if self.loop != NULL:
                has_ended = loop_stop(self.loop, _left_ns(deadline_ns)) and has_ended
        raised = None
        while True:
            try:
                has_stopped = self.checkpoints is None or self.checkpoints.stop(_left_ns(deadline_ns) / 1e9)
                break
            except BaseException as error:
                raised = error
        if has_ended and has_stopped:
            self._destroy()
        else:
            Py_INCREF(self)         # a disk does not answer; whatever its threads still use is left to them
        while self.trail is not None:
            try:
                self.trail.end(_left_ns(deadline_ns) / 1e9)
                break
            except BaseException as error:
                raised = error
        while self.watched is not None and not self.watched.thread.is_this():
            try:
                self.watched.thread.wait(_left_ns(deadline_ns) / 1e9)
                break
            except BaseException as error:
                raised = error
        if self.callbacks is not None:
            self.callbacks.stop()
        if self.attached is not None and has_ended:
            self.attached.clear()
        if raised is not None:
            raise raised
        return 0

    # The clients' memory goes when nobody signals them any more.
    cdef void _destroy(self) noexcept:
        cdef int i
        with nogil:
            if self.clients != NULL:
                clients_destroy(self.clients)
            for i in range(self.door_count):
                self.doors[i].destroy(self.doors[i].connections)
            accounts_destroy(self.accounts)
            if self.loop != NULL:
                loop_destroy(self.loop)


# The audit trail's words for refusals of TLS.
cdef dict _words():
    return {status: refusal_word(status) for status in (TLS_NOT_SPOKEN, *range(TLS_CUT, TLS_WANTED + 1))}


cdef uint64_t _left_ns(uint64_t deadline_ns) noexcept nogil:
    cdef uint64_t now_ns = boot_now_ns()
    return max(deadline_ns - now_ns if now_ns < deadline_ns else 0, <uint64_t>TUNE_END_NS_MIN)


cdef Submission* _submission(uint8_t kind, const uint8_t* payload, size_t length) except NULL:
    cdef Submission* submission = submission_create(kind, length)
    if submission == NULL:
        raise MemoryError
    if length != 0:
        memcpy(submission_payload(submission), payload, length)
    return submission


# --- an operation whose caller ran out of time ------------------------------------------------------------------------
# Takes over a hold of its own: the caller's is dropped when its call ends.
cdef PendingResult _pending(NodeBase node, Ticket* ticket, uint8_t purpose):
    cdef PendingResult pending = PendingResult.__new__(PendingResult)
    pending.node = node
    pending.purpose = purpose
    pending.ticket = ticket
    ticket_hold(ticket)
    return pending


cdef class PendingResult:
    def __dealloc__(self):
        if self.ticket != NULL:
            ticket_drop(self.ticket)

    @property
    def is_done(self):
        return ticket_is_done(self.ticket)

    def result(self, timeout_s=5.0):
        cdef uint64_t deadline_ns = deadline_after(timeout_s)
        ticket_hold(self.ticket)
        return self.node.finish(self.ticket, self.purpose, deadline_ns)
