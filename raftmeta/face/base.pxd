# The base of a node's blocking and asyncio faces: its life, submissions, reads of the published state, its status.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.bindings.verbs cimport Request
from raftmeta.connections.accounts_state cimport Accounts
from raftmeta.engine.submission cimport Submission
from raftmeta.face.checkpoints cimport Checkpoints
from raftmeta.face.watch_callbacks cimport WatchCallbacks
from raftmeta.face.watch_events cimport WatchEvents
from raftmeta.loop.loop cimport LinkTable, Loop
from raftmeta.loop.loop cimport NodeStatus as StatusBlock
from raftmeta.loop.tickets cimport Mailbox, Ticket
from raftmeta.native.containers cimport Vec
from raftmeta.native.threads cimport Turnstile
from raftmeta.security.cipher_handle cimport KeyRingHandle
from raftmeta.security.tls_state cimport TlsContext, TlsPort
from raftmeta.server.state cimport ClientServer

cdef enum NodeLife:
    LIFE_NEW = 0
    LIFE_STARTING = 1           # a thread is in begin()
    LIFE_RUNNING = 2            # also while it hands over, before it ends
    LIFE_CLOSED = 3
    LIFE_FORKED = 4             # this process is a fork of the one that runs it

cdef class NodeBase:
    cdef Loop* loop             # NULL but in LIFE_RUNNING
    cdef Checkpoints checkpoints        # its thread runs as long as the loop does
    cdef Accounts* accounts     # what principals use at all listeners
    cdef ClientServer* clients  # NULL: it serves none
    cdef list doors             # of OpenDoor (face/door)
    cdef NodeLife life          # changes together with `loop`, without a moment in which Python code could run
    cdef unsigned long starter  # thread that is in begin()
    cdef unsigned long closer   # thread that closes, or has closed; 0: none
    cdef bint must_close        # close() was called while it started
    cdef uint32_t endings       # shared: counts starts and closings that came to their end
    cdef bint has_closed
    cdef readonly object identity       # config.Identity
    cdef readonly object config         # config.Config
    cdef object encryption      # security.encryption.Encryption, None: all files are plain
    cdef KeyRingHandle keys     # its keys as the native threads read them; None: all files are plain
    cdef readonly object tls            # security.settings.Tls, as it was given; None: plain
    cdef readonly object audit          # security.audit.Audit, as it was given; None: no trail is kept
    cdef readonly object kafka_host     # face.kafka_door.KafkaDoor, as it was given; None: raftmeta keeps records
    cdef readonly object trail          # security.audit_writer.AuditWriter of this run; None: no trail is kept
    cdef object certificates            # face.certificates.Certificates, which reads its files; None: plain
    cdef uint32_t value_bytes_max
    cdef uint32_t outstanding_max
    cdef uint64_t close_timeout_ns
    cdef uint64_t encoded_session       # of the command in scratch
    cdef Vec[uint8_t] scratch           # for encoding without running any Python code
    cdef readonly dict user_machines    # opened on this node, by name: face/user_machine.LocalCopy
    cdef set attached           # watches and terms of leases whose C parts the loop may still write to
    cdef list dropped           # terms that it is told to let go of (face/lease)
    cdef WatchEvents watch_events
    cdef WatchCallbacks callbacks       # None: no watch had one yet
    cdef object losses          # common.shared_threads.Losses of leases; None: nobody wanted to be told of one yet
    cdef Turnstile turnstile    # threads with news of their watches pass it one by one, each when it has the GIL
    cdef object watched         # face.host.HostWatch, whose thread looks whether Python goes on; None without one
    cdef object faces           # asyncio faces: a fork child closes their descriptors too
    cdef bytes link_faults      # LinkFaults that hold from the start on (loop/faults); empty but in tests
    cdef object __weakref__

    cdef int _begin(self) except -1
    cdef int _open(self, Loop* loop, object listener) except -1
    # Give the contexts of freshly read files to all ports. loop NULL: that of the running node.
    cdef int _offer_tls(self, Loop* loop) except -1
    cdef int _offer(self, TlsPort* port, TlsContext* context) except -1
    cdef void _tell_ending(self) noexcept
    cdef int _await_ending(self, uint32_t seen, uint64_t deadline_ns) except -1
    cdef uint64_t _session_now(self) except 0
    cdef int _check_room(self, bint is_urgent) except -1
    cdef Ticket* _send(self, Submission* submission, uint8_t purpose, Mailbox* mailbox) except NULL
    cdef Ticket* _send_command(self, uint8_t purpose, bint is_urgent, Mailbox* mailbox) except NULL
    cdef int _encode(self, Request request) except -1
    cdef list _read_part(self, object start, object asked, uint64_t limit, uint64_t* revision, bint count_only,
                         uint64_t* count, bint* more)

    # Lock the folder, read the log, start both threads; returns before the node has a leader.
    cdef int begin(self) except -1
    # Answer everybody and end both threads, without the GIL. Not in time, as the disk hangs: the block is left to it.
    # Nothing happens where there is no block: it never started, or somebody else took it to end it.
    cdef int end(self, uint64_t deadline_ns) except -1
    # The calling thread becomes the one that closes. False: another is, or there is nothing to close.
    cdef bint begin_closing(self) noexcept
    # It is closed; those who wait for that go on.
    cdef void end_closing(self) noexcept
    # close() of a node that is starting, is being closed, or does not run.
    cdef int close_beside(self, uint64_t deadline_ns) except -1
    # The same, as if the process had been killed (loop_abort).
    cdef int abort(self) except -1
    # From now on, or from the start on: the table as bytes of LinkFaults. Returns when it holds.
    cdef int set_link_faults(self, bytes table, uint64_t seed) except -1
    cdef int forked(self) except -1
    # The block, unless the node is not running in this process; it may have stopped for good.
    cdef Loop* started(self) except NULL
    # The block, if commands may be submitted; else the error that says why not.
    cdef Loop* running(self) except NULL
    # Whether commands can be encoded now; if not, wait for AWAIT_READY first.
    cdef bint has_session(self) except -1

    # Encode a prepared request, take the next sequence and submit, in one go under the GIL. The ticket has one hold of
    # the caller's.
    cdef Ticket* submit(self, Request request, Mailbox* mailbox) except NULL
    # A wish without a payload, or something awaited. about: the target of SUBMIT_TRANSFER; the index of the membership
    # that AWAIT_MEMBERSHIP wants to see replaced; 0 for the others.
    cdef Ticket* submit_wish(self, uint8_t kind, uint64_t about, uint8_t purpose, Mailbox* mailbox) except NULL
    # membership: encoded; made_from: index of the one that it was made from.
    cdef Ticket* submit_membership(self, bytes membership, uint64_t made_from, Mailbox* mailbox) except NULL
    cdef Ticket* submit_meet(self, bytes name, bytes address, Mailbox* mailbox) except NULL
    cdef Ticket* submit_watch(self, const uint8_t* range_bytes, uint32_t key_length, uint32_t length, uint64_t revision,
                              uint32_t filter, void* signal, Mailbox* mailbox) except NULL
    # The loop writes to *until_ns from now on, until submit_drop_lease was answered.
    cdef Ticket* submit_keep_lease(self, uint64_t lease, uint64_t ttl_ms, uint64_t* until_ns,
                                   Mailbox* mailbox) except NULL
    cdef Ticket* submit_drop_lease(self, uint64_t lease, Mailbox* mailbox) except NULL
    cdef WatchCallbacks watch_callbacks(self)
    cdef object lease_losses(self)
    cdef Ticket* submit_unwatch(self, void* watch, Mailbox* mailbox) except NULL

    # Reads of the published state, in the caller's thread.
    cdef object read_key(self, object key, uint64_t revision)
    # asked: a RangeAsked. Only its count and count_only look at keys beyond the limit.
    cdef object read_range(self, object asked)
    # A page of users or roles (machine/rights_show), as values.
    cdef list read_rights(self, uint8_t page, bytes first, uint32_t limit)
    # The block, if it has a state to read.
    cdef Loop* readable(self) except NULL
    # A buffer of one's own while Python code may run in between; give it back when done.
    cdef Vec[uint8_t] borrow_scratch(self) noexcept
    cdef void give_back_scratch(self, Vec[uint8_t]* taken) noexcept

    cdef int read_status(self, StatusBlock* status) except -1
    cdef int read_links(self, LinkTable* links) except -1
    cdef uint64_t member_by_name(self, object name) except? 0
    # A NotReady of that kind (face/links).
    cdef tuple problems(self)       # results.Problem of each state that keeps it from being ready
    cdef object not_ready(self, object kind, str message)

    # The calling thread waits, without the GIL: True when done. Signals are looked at often enough for Ctrl-C.
    cdef bint wait(self, Ticket* ticket, uint64_t deadline_ns) except -1
    # Wait, then answer; on time-out withdraw, or say how to go on. The ticket's hold is used up.
    cdef object finish(self, Ticket* ticket, uint8_t purpose, uint64_t deadline_ns)
    cdef int await_session(self, uint64_t deadline_ns) except -1

cdef class PendingResult:
    cdef Ticket* ticket
    cdef uint8_t purpose
    cdef NodeBase node
