"""The loop of one node: everything that happens to it, one turn at a time, on one native thread.

    _loop_main      while not closing:
        _wait                   epoll, until an event, a ring, or the earliest deadline
        transport_event ...     frames into the engine, bounded for each connection
        _take_submissions       callers' commands, reads, watches
        _take_finished_jobs     what became durable
        engine_run              one turn (engine/engine)
        transport_flush         what it said leaves first,
        write_thread_ring       then the disk gets its jobs, so that both work at once
        _answer_awaiting        whoever waits for the node to be ready, not to lead, or to have a sealed file

It decides when to sleep, and for how long. It must never touch a Python object, take the GIL, block in
anything but epoll, or know what a command means.

The race between a submitter and a loop that goes to sleep, in steps:
    1. the submitter pushes,                 2. rings: looks at is_asleep and writes wake_fd if it was set;
    3. the loop sets is_asleep,              4. then looks whether anything was pushed, and only else waits.
Both 1 and 3 are sequentially consistent: in each order, either 4 sees the submission or 2 sees the sleeper.
wake_fd is registered edge-triggered and never read: each write is a new edge.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset

from raftmeta._core cimport LEADER, TRACE_COMMITTED, core_membership
from raftmeta.engine.engine cimport (engine_add_peer, engine_address_refused, engine_boot, engine_deadline_ns,
                                     engine_frame, engine_hello, engine_hung_up, engine_job_done, engine_link_down,
                                     engine_link_up, engine_own_hello,
                                     engine_refused, engine_release, engine_run, engine_stop, engine_submit,
                                     engine_wants_link)
from raftmeta.engine.peers cimport peers_note_refusal
from raftmeta.engine.promises cimport engine_broken
from raftmeta.engine.snapshots.state cimport Snapshots
from raftmeta.engine.state cimport (ENGINE_GENESIS, ENGINE_RUNNING, ENGINE_STOPPED, EVENT_DISK_RESUMED,
                                    EVENT_DISK_WAITS, EVENT_FATAL, EVENT_LINK_DOWN, EVENT_LINK_UP, EVENT_PEER_REFUSED,
                                    EVENT_TRACE, Engine, Link)
from raftmeta.engine.submission cimport (AWAIT_FOLLOWER, AWAIT_MEMBERSHIP, AWAIT_SNAPSHOT, AWAIT_USERS,
                                         SUBMIT_SET_FAULTS, submission_is_awaited, submission_is_command,
                                         submission_payload)
from raftmeta.flight.ring cimport (FLIGHT_SYNC, FLIGHT_WRITE, flight_begin_life, flight_close_in_child, flight_destroy,
                                   flight_open, flight_start, flight_stop)
from raftmeta.loop.event_log cimport (EVENT_CERTIFICATE_EXPIRES, EVENT_TLS_RENEWED, NodeEvent, event_log_close,
                                      event_log_create, event_log_drop, event_log_read, event_log_write)
from raftmeta.loop.faults cimport (FAULT_CUT_FROM, FAULT_CUT_TO, faults_are_cut, faults_cut_name, faults_release,
                                   faults_send, faults_send_late, faults_set)
from raftmeta.loop.recorder cimport recorder_disk, recorder_end, recorder_event, recorder_seen, recorder_turn
from raftmeta.loop.tickets cimport WatchSignal, ticket_claim, ticket_done, wakeups_flush, watch_signal_tell
from raftmeta.loop.write_thread cimport (write_thread_abort, write_thread_ring, write_thread_start, write_thread_stop,
                                         write_thread_submit)
from raftmeta.machine.machine cimport machine_status
from raftmeta.machine.state cimport LEVEL_OF_USER_MACHINES
from raftmeta.machine.watches cimport hub_measure
from raftmeta.native.atomics cimport (add_shared, exchange_shared, load_shared, store_release, store_shared,
                                      subtract_shared)
from raftmeta.native.chunks cimport Slice
from raftmeta.native.intrinsics cimport next_random
from raftmeta.native.invariants cimport Broken
from raftmeta.native.threads cimport Handoff, boot_now_ns, pthread_t, thread_join, thread_start, wall_now_ms
from raftmeta.net cimport posix
from raftmeta.net.transport cimport (transport_clear, transport_close, transport_close_in_child,
                                     transport_drop_revoked, transport_event, transport_flush, transport_init,
                                     transport_nudge, transport_reset, transport_resolved, transport_send,
                                     transport_tick, transport_unwant, transport_want)
from raftmeta.net.transport_state cimport TransportPort, transport_wake_at
from raftmeta.ports cimport DiskPort, beside_work, file_t
from raftmeta.raft.genesis cimport GenesisPeer
from raftmeta.raft.types cimport MEMBERS_MAX, index_t
from raftmeta.security.contexts cimport tls_port_release, tls_port_take
from raftmeta.status cimport DISK_FAILED, NO_MEMORY, NODE_CLOSED, NOT_READY, OK, REMOVED, WITHDRAWN, status_t
from raftmeta.storage.disk cimport (real_disk_be_patient, real_disk_close, real_disk_close_in_child,
                                    real_disk_give_up, real_disk_lock, real_disk_open, real_disk_port)
from raftmeta.storage.identity cimport identity_create, identity_destroy
from raftmeta.storage.wal cimport WalLimits, wal_create, wal_destroy
from raftmeta.wire.hello cimport Hello

cdef extern from "<pthread.h>" nogil:
    int pthread_join(pthread_t thread, void** result)

cdef enum:
    TUNE_EVENTS_PER_WAIT = 64
    TUNE_LINKS_PERIOD_NS = 10_000_000   # how often wanted links are compared with the connections kept
    TUNE_SUBMISSIONS_PER_TURN = 16_384  # some milliseconds
    EVERY_SUBMISSION = 0xFFFFFFFF
    LONGEST_WAIT_MS = 1000
    REFUSAL_TIMEOUTS = 10               # election time-outs for which a refused HELLO is told; peers try again sooner
    NEVER_DAYS = 0xFFFF
    DAY_S = 86_400
    TAG_WAKE = 0                        # epoll tag of wake_fd; the transport's begin with 1 << 56


# --- ports of the engine ----------------------------------------------------------------------------------------------
cdef uint64_t _now_ns(void* self) noexcept nogil:
    return boot_now_ns()


cdef uint64_t _wall_ms(void* self) noexcept nogil:
    return wall_now_ms()


cdef uint64_t _random_next(void* self) noexcept nogil:
    return next_random(<uint64_t*>self)


cdef void _submit_job(void* self, DiskJob* job) noexcept nogil:
    write_thread_submit(&(<Loop*>self).writer, job)


cdef void _send(void* self, uint32_t link, const uint8_t* head, size_t head_length,
                const Slice* records) noexcept nogil:
    cdef Loop* loop = <Loop*>self
    if loop.faults.count == 0:
        transport_send(&loop.transport, link, head, head_length, records)
    else:
        faults_send(&loop.faults, &loop.transport, &loop.engine.links.table[link], link, head, head_length, records,
                    boot_now_ns())


cdef bint _claim(void* self, void* owner) noexcept nogil:
    return ticket_claim(<Ticket*>owner)


cdef void _done(void* self, void* owner, status_t status, uint64_t revision, index_t index, const uint8_t* body,
                uint32_t length) noexcept nogil:
    cdef Loop* loop = <Loop*>self
    if not (<Ticket*>owner).is_of_client:
        subtract_shared(&loop.in_flight, <uint32_t>1)
    ticket_done(<Ticket*>owner, status, revision, index, body, length, &loop.wakeups)


cdef void _woken(void* self, void* handle) noexcept nogil:
    watch_signal_tell(<WatchSignal*>handle, &(<Loop*>self).wakeups)


cdef void _lease_kept(void* self, void* handle, uint64_t until_ns) noexcept nogil:
    store_release(<uint64_t*>handle, until_ns)     # face/lease reads it whenever held() is called


# The end of a turn: whoever wakes up sees the state that answered it.
cdef void _flush(void* self) noexcept nogil:
    cdef Loop* loop = <Loop*>self
    cdef int i
    _publish(loop)
    for i in range(<int>LOOP_READERS):
        loop.reading_flushed[i] = load_shared(&loop.reading[i])
    wakeups_flush(&loop.wakeups)


# A reader of an exchanged state either began before its successor was shared, and then its `reading` was odd at
# that flush and differs when it has left; or it took the successor.
cdef bint _readers_left(void* self) noexcept nogil:
    cdef Loop* loop = <Loop*>self
    cdef int i
    for i in range(<int>LOOP_READERS):
        if loop.reading_flushed[i] % 2 != 0 and load_shared(&loop.reading[i]) == loop.reading_flushed[i]:
            return False
    return True


cdef void _event(void* self, uint8_t type, uint64_t a, uint64_t b, uint64_t c) noexcept nogil:
    cdef Loop* loop = <Loop*>self
    if type == EVENT_TRACE and (a & 0xFF) == TRACE_COMMITTED:
        return          # one for each batch: status() and metrics() tell it
    if type == EVENT_LINK_UP or type == EVENT_LINK_DOWN:
        loop.links_changed = True
    if type == EVENT_FATAL and a == DISK_FAILED:
        b = load_shared(&loop.disk.failure)
        c = b >> 32
        b = <uint32_t>b
    event_log_write(loop.event_log, type, a, b, c)
    recorder_event(&loop.recorder, &loop.engine, type, a, b, c)


# The loop whose disk this is. The loop stands at any address here; only where its disk stands in it counts.
cdef inline Loop* _loop_of(void* disk) noexcept nogil:
    cdef Loop* somewhere = <Loop*>sizeof(Loop)
    return <Loop*>(<uint8_t*>disk - (<uint8_t*>&somewhere.disk - <uint8_t*>somewhere))


cdef status_t _sync(void* self, file_t file) noexcept nogil:
    cdef Loop* loop = _loop_of(self)
    cdef uint64_t before_ns = loop.disk.counters.time_ns
    cdef status_t status = loop.recorder.disk.sync(self, file)
    recorder_disk(&loop.recorder, FLIGHT_SYNC, loop.disk.counters.time_ns - before_ns, status)
    return status


cdef status_t _write(void* self, file_t file, uint64_t offset, const Slice* parts, size_t count) noexcept nogil:
    cdef Loop* loop = _loop_of(self)
    cdef uint64_t begun_ns = boot_now_ns()
    cdef status_t status = loop.recorder.disk.write(self, file, offset, parts, count)
    recorder_disk(&loop.recorder, FLIGHT_WRITE, boot_now_ns() - begun_ns, status)
    return status


# The real disk, with its slow calls recorded.
cdef DiskPort _disk_port(Loop* loop) noexcept nogil:
    cdef DiskPort port = real_disk_port(&loop.disk)
    loop.recorder.disk = port
    port.sync = _sync
    port.write = _write
    return port


cdef void _fill_ports(Loop* loop) noexcept nogil:
    cdef Engine* engine = &loop.engine
    engine.clock.self = loop
    engine.clock.now_ns = _now_ns
    engine.clock.wall_ms = _wall_ms
    engine.random.self = &loop.random
    engine.random.next = _random_next
    engine.network.self = loop
    engine.network.send = _send
    engine.disk = _disk_port(loop)
    engine.beside.self = &loop.beside
    engine.beside.run = _beside_run
    engine.beside.wait = _beside_wait
    engine.jobs.self = loop
    engine.jobs.submit = _submit_job
    engine.callers.self = loop
    engine.callers.claim = _claim
    engine.callers.done = _done
    engine.callers.woken = _woken
    engine.callers.lease_kept = _lease_kept
    engine.callers.flush = _flush
    engine.callers.readers_left = _readers_left
    engine.callers.event = _event


# --- beside the opening thread ----------------------------------------------------------------------------------------
cdef void* _beside_main(void* argument) noexcept nogil:
    cdef Beside* beside = <Beside*>argument
    beside.work(beside.argument)
    return NULL


cdef void _beside_run(void* self, beside_work work, void* argument) noexcept nogil:
    cdef Beside* beside = <Beside*>self
    beside.work = work
    beside.argument = argument
    beside.is_running = thread_start(&beside.thread, _beside_main, beside, b"raftmeta-open") == 0
    if not beside.is_running:
        work(argument)


cdef void _beside_wait(void* self) noexcept nogil:
    cdef Beside* beside = <Beside*>self
    if beside.is_running:
        pthread_join(beside.thread, NULL)
    beside.is_running = False


# --- the network, upwards ---------------------------------------------------------------------------------------------
cdef void _own_hello(void* self, uint32_t link, Hello* hello) noexcept nogil:
    engine_own_hello(&(<Loop*>self).engine, link, hello)


cdef status_t _on_hello(void* self, uint32_t place, const Hello* hello) noexcept nogil:
    cdef Loop* loop = <Loop*>self
    memset(&loop.inbounds[place], 0, sizeof(Inbound))
    if faults_cut_name(&loop.faults, hello.name, hello.name_length):
        return NOT_READY
    cdef status_t status = engine_hello(&loop.engine, hello, &loop.inbounds[place])
    if status == OK:
        loop.links_checked_ns = 0       # its address may be new
        transport_nudge(&loop.transport, loop.inbounds[place].link)
    return status


cdef status_t _on_frame(void* self, uint32_t place, const Slice* frame) noexcept nogil:
    cdef Loop* loop = <Loop*>self
    cdef Inbound* inbound = &loop.inbounds[place]
    if loop.faults.count != 0 and faults_are_cut(&loop.faults, &loop.engine.links.table[inbound.link], FAULT_CUT_FROM):
        return OK
    return engine_frame(&loop.engine, inbound, frame)


cdef status_t _on_link_up(void* self, uint32_t link, const Hello* hello) noexcept nogil:
    cdef Loop* loop = <Loop*>self
    if faults_are_cut(&loop.faults, &loop.engine.links.table[link], FAULT_CUT_TO | FAULT_CUT_FROM):
        return NOT_READY
    return engine_link_up(&loop.engine, link, hello)


cdef void _on_link_down(void* self, uint32_t link, bint was_refused) noexcept nogil:
    cdef Loop* loop = <Loop*>self
    # Nothing comes back through a cut, not even that nobody listens there.
    if faults_are_cut(&loop.faults, &loop.engine.links.table[link], FAULT_CUT_TO | FAULT_CUT_FROM):
        was_refused = False
    engine_link_down(&loop.engine, link, was_refused)


cdef void _on_address_refused(void* self, uint32_t link) noexcept nogil:
    cdef Loop* loop = <Loop*>self
    if not faults_are_cut(&loop.faults, &loop.engine.links.table[link], FAULT_CUT_TO | FAULT_CUT_FROM):
        engine_address_refused(&loop.engine, link)


cdef void _on_hung_up(void* self, uint32_t place) noexcept nogil:
    cdef Loop* loop = <Loop*>self
    engine_hung_up(&loop.engine, &loop.inbounds[place])


cdef void _on_refused(void* self, status_t status, uint32_t link) noexcept nogil:
    peers_note_refusal(&(<Loop*>self).engine, <int>link, status)
    if status == REMOVED:       # told once, as "removed"
        engine_refused(&(<Loop*>self).engine, status)
    else:
        _event(self, EVENT_PEER_REFUSED, status, link, 0)


# Keep connections to those that the engine wants, and to nobody else.
cdef void _follow_links(Loop* loop) noexcept nogil:
    cdef bint is_wanted
    cdef uint32_t i
    cdef Link* link
    for i in range(<uint32_t>MEMBERS_MAX):
        link = &loop.engine.links.table[i]
        is_wanted = engine_wants_link(&loop.engine, i)
        if loop.faults.count != 0 and not link.is_up:
            is_wanted = is_wanted and not faults_are_cut(&loop.faults, link, FAULT_CUT_TO | FAULT_CUT_FROM)
        if is_wanted:
            transport_want(&loop.transport, i, link.address, link.address_length)
        else:
            transport_unwant(&loop.transport, i)


# --- what callers see -------------------------------------------------------------------------------------------------
# The names that the peer was started with, if they are others than here.
cdef void _copy_told(const Engine* engine, const Link* link, LinkStatus* into) noexcept nogil:
    cdef const GenesisPeer* peer
    cdef uint32_t i
    if engine.state != ENGINE_GENESIS:
        return
    for i in range(engine.genesis.peer_count):
        peer = &engine.genesis.peers[i]
        if peer.name_length == link.name_length and memcmp(peer.name, link.name, link.name_length) == 0:
            into.told_length = peer.told_length
            memcpy(into.told, peer.told, peer.told_length)


cdef void _publish_links(Loop* loop) noexcept nogil:
    cdef LinkTable table
    cdef Link* link
    cdef uint32_t i
    memset(&table, 0, sizeof(LinkTable))
    for i in range(<uint32_t>MEMBERS_MAX):
        link = &loop.engine.links.table[i]
        if not link.is_used:
            continue
        table.links[i].id = link.id
        table.links[i].boot = link.boot
        table.links[i].bytes_in = link.bytes_in
        table.links[i].bytes_out = link.bytes_out
        table.links[i].is_self = link.is_self
        table.links[i].is_up = link.is_up
        table.links[i].was_refused = link.was_refused
        if loop.engine.ticks - link.refused_tick < REFUSAL_TIMEOUTS * loop.engine.config.core.election_timeout_ticks:
            table.links[i].refusal = link.refusal
        _copy_told(&loop.engine, link, &table.links[i])
        table.links[i].name_length = link.name_length
        memcpy(table.links[i].name, link.name, link.name_length)
    loop.links.write(table)
    loop.links_changed = False


cdef void _publish_observers(Loop* loop) noexcept nogil:
    cdef ObserverTable table
    memset(&table, 0, sizeof(ObserverTable))
    table.count = <uint32_t>loop.engine.feeding.below.size
    memcpy(table.observers, loop.engine.feeding.below.data, table.count * sizeof(Observed))
    loop.observers.write(table)
    loop.observers_seen = loop.engine.feeding.changes


# Callers encode with these: a session that ended since makes a refusal, a base that rose since a longer memory.
cdef void _share(Loop* loop) noexcept nogil:
    cdef Engine* engine = &loop.engine
    cdef Broken belief
    store_release(&loop.session, engine.session.id)
    store_release(&loop.lowest_unanswered, engine.calls.own.base)
    store_shared(&loop.machine, engine.machine)
    loop.fatal = engine.fatal
    loop.unapplied = engine.applying.unapplied
    if engine.fatal != OK:
        belief = engine_broken(engine)
        loop.broken = belief.what
        loop.broken_a = belief.a
        loop.broken_b = belief.b
    store_release(&loop.is_removed, <uint32_t>engine.standing.was_removed)
    store_release(&loop.state, <uint32_t>engine.state)


cdef void _publish(Loop* loop) noexcept nogil:
    cdef NodeStatus status, shown
    cdef Engine* engine = &loop.engine
    memset(&status, 0, sizeof(NodeStatus))
    status.engine_state = engine.state
    status.fatal = engine.fatal
    status.unapplied = engine.applying.unapplied
    status.id = engine.id
    status.boot = engine.boot
    status.session = engine.session.id
    status.cluster_low = engine.cluster.low
    status.cluster_high = engine.cluster.high
    status.turns = loop.turns
    status.frames_dropped = loop.transport.counters.frames_dropped
    status.connections_accepted = loop.transport.counters.accepted
    status.connections_refused = loop.transport.counters.refused
    status.connections_evicted = loop.transport.counters.evicted
    status.bytes_in = loop.transport.counters.bytes_in
    status.bytes_out = loop.transport.counters.bytes_out
    status.log_bytes = engine.room.log_bytes
    status.log_free_bytes = engine.room.free_bytes
    status.lost_links = engine.links.lost
    status.lost_count = engine.links.lost_count
    status.voter_count = engine.links.voter_count
    status.tls = loop.tls.counters
    if loop.tls.context != NULL:
        status.certificate_expires_s = loop.tls.context.expires_s
    status.core = engine.core_status
    status.core.applied = engine.applying.applied    # the core hears of it in the next turn
    status.counters = engine.counters
    if engine.applying.must_publish:        # of an entry in slices: nobody sees what was applied before it yet
        while not loop.status.read(&shown):
            pass
        status.machine = shown.machine
    elif engine.machine != NULL:
        machine_status(engine.machine, &status.machine)
    if engine.hub != NULL:      # an opening that failed half-way has a machine and no hub
        hub_measure(engine.hub, &status.watches, &status.watch_queue_bytes)
    # Before the status, so that of two looks, status first, the second is not older: a membership at or below that
    # commit index is committed.
    if engine.core != NULL and engine.links.membership_seen != loop.membership_seen:
        loop.membership.write(core_membership(engine.core)[0])
        loop.membership_seen = engine.links.membership_seen
    loop.status.write(status)
    if engine.feeding.changes != loop.observers_seen:
        _publish_observers(loop)
    if loop.links_changed:
        _publish_links(loop)
    # Last: whoever is told that this node has stopped, or is ready, finds the same in its status.
    _share(loop)


cdef index_t _newest_file(Loop* loop) noexcept nogil:
    cdef Snapshots* snapshots = &loop.engine.snapshots
    return snapshots.files.back().point.index if snapshots.files.size != 0 else 0


cdef bint _is_met(Loop* loop, const Awaiting* item) noexcept nogil:
    cdef Engine* engine = &loop.engine
    if item.kind == AWAIT_FOLLOWER:
        return engine.state != ENGINE_RUNNING or engine.core_status.role != LEADER
    if item.kind == AWAIT_USERS:
        return engine.machine != NULL and engine.machine.feature_level >= LEVEL_OF_USER_MACHINES
    if item.kind == AWAIT_MEMBERSHIP:
        return (engine.core_status.membership_index != item.other_than
                and engine.core_status.membership_index <= engine.core_status.committed)
    if item.kind == AWAIT_SNAPSHOT:
        if _newest_file(loop) >= item.index:
            return True
        engine.snapshots.file_is_wanted = True
        return False
    return (engine.state == ENGINE_RUNNING and engine.session.id != 0 and engine.core_status.leader != 0
            and engine.applying.applied >= engine.core_status.committed)


cdef void _answer_awaiting(Loop* loop) noexcept nogil:
    cdef size_t i = 0
    while i < loop.awaiting.size:
        if _is_met(loop, &loop.awaiting.data[i]):
            _done(loop, loop.awaiting.data[i].ticket, OK, _newest_file(loop), loop.engine.applying.applied, NULL, 0)
        elif load_shared(&loop.awaiting.data[i].ticket.state) != 0:
            _done(loop, loop.awaiting.data[i].ticket, WITHDRAWN, 0, 0, NULL, 0)
        elif loop.engine.state == ENGINE_STOPPED:
            _done(loop, loop.awaiting.data[i].ticket, NODE_CLOSED, 0, 0, NULL, 0)
        elif loop.engine.standing.was_removed:
            _done(loop, loop.awaiting.data[i].ticket, NOT_READY, 0, 0, NULL, 0)
        else:
            i += 1
            continue
        loop.awaiting.data[i] = loop.awaiting.back()
        loop.awaiting.pop()
    wakeups_flush(&loop.wakeups)


# --- what callers want ------------------------------------------------------------------------------------------------
cdef void _await(Loop* loop, Submission* submission) noexcept nogil:
    cdef Awaiting item
    item.ticket = <Ticket*>submission.owner
    item.kind = submission.kind
    item.other_than = 0
    if submission.kind == AWAIT_MEMBERSHIP:
        item.other_than = submission.arguments.await_membership.other_than
    item.index = loop.engine.applying.applied
    if not loop.awaiting.push(item):
        _done(loop, submission.owner, NO_MEMORY, 0, 0, NULL, 0)
    free(submission)


cdef void _set_faults(Loop* loop, Submission* submission) noexcept nogil:
    cdef status_t status = faults_set(&loop.faults, submission_payload(submission), submission.length,
                                      submission.arguments.set_faults.seed)
    _done(loop, submission.owner, status, 0, 0, NULL, 0)
    free(submission)


# At most so many: however much callers and clients ask for, links and timers have their turn.
cdef void _take_submissions(Loop* loop, uint32_t most) noexcept nogil:
    cdef Submission* submission
    cdef uint32_t _count
    for _count in range(most):
        if loop.submitted == NULL:
            loop.submitted = loop.submissions.take()
        if loop.submitted == NULL:
            return
        submission = loop.submitted
        loop.submitted = submission.next
        if submission_is_command(submission):
            engine_submit(&loop.engine, submission)
        elif submission_is_awaited(submission):
            _await(loop, submission)
        elif submission.kind == SUBMIT_SET_FAULTS:
            _set_faults(loop, submission)
        else:
            engine_submit(&loop.engine, submission)


cdef void _take_finished_jobs(Loop* loop, Handoff[DiskJob]* jobs) noexcept nogil:
    cdef DiskJob* job = jobs.take()
    cdef DiskJob* next
    while job != NULL:
        next = job.next
        engine_job_done(&loop.engine, job)
        job = next


cdef Machine* loop_enter(Loop* loop, LoopReader reader) noexcept nogil:
    add_shared(&loop.reading[<int>reader], <uint64_t>1)
    return load_shared(&loop.machine)


cdef void loop_leave(Loop* loop, LoopReader reader) noexcept nogil:
    add_shared(&loop.reading[<int>reader], <uint64_t>1)


cdef void loop_ring(void* loop) noexcept nogil:
    cdef uint64_t one = 1
    if exchange_shared(&(<Loop*>loop).is_asleep, <uint32_t>0):
        posix.write((<Loop*>loop).wake_fd, &one, sizeof(one))


cdef void loop_submit(Loop* loop, Submission* submission) noexcept nogil:
    if submission.owner != NULL and not (<Ticket*>submission.owner).is_of_client:
        add_shared(&loop.in_flight, <uint32_t>1)
    loop.submissions.push(submission)


# --- a turn -----------------------------------------------------------------------------------------------------------
# How late a tick may come: another one while a leader is known and no caller of this node waits for anything.
cdef uint64_t _patience_ns(Loop* loop) noexcept nogil:
    if loop.engine.state != ENGINE_RUNNING or loop.engine.core_status.leader == 0 or load_shared(&loop.in_flight):
        return 0
    return <uint64_t>loop.engine.config.tick_ms * 1_000_000


cdef int _timeout_ms(Loop* loop) noexcept nogil:
    cdef uint64_t deadline_ns = min(engine_deadline_ns(&loop.engine) + _patience_ns(loop), loop.transport.deadline_ns)
    cdef uint64_t now_ns = boot_now_ns()
    if loop.engine.state == ENGINE_STOPPED:
        return LONGEST_WAIT_MS
    if deadline_ns <= now_ns:
        return 0
    return <int>min((deadline_ns - now_ns + 999_999) // 1_000_000, <uint64_t>LONGEST_WAIT_MS)


cdef bint _has_work(Loop* loop) noexcept nogil:
    return (loop.submitted != NULL or not loop.submissions.is_empty() or not loop.jobs_done.is_empty()
            or load_shared(&loop.is_closing))


cdef int _wait(Loop* loop, posix.epoll_event* events, bint more) noexcept nogil:
    cdef int timeout_ms = 0 if more else _timeout_ms(loop)
    cdef int count
    if timeout_ms != 0:
        store_shared(&loop.is_asleep, <uint32_t>1)
        if _has_work(loop):
            timeout_ms = 0
    loop.recorder.timeout_ns = <uint64_t>timeout_ms * 1_000_000
    count = posix.epoll_wait(loop.epoll, events, TUNE_EVENTS_PER_WAIT, timeout_ms)
    store_shared(&loop.is_asleep, <uint32_t>0)
    return count


# The step of 30, 7, 1 days and the end that is reached.
cdef uint32_t _expiry_days(int64_t left_s) noexcept nogil:
    if left_s <= 0:
        return 0
    if left_s <= DAY_S:
        return 1
    if left_s <= 7 * DAY_S:
        return 7
    return 30 if left_s <= 30 * DAY_S else NEVER_DAYS


# The node's own certificate: read anew, and how long it holds still.
cdef void _look_at_certificate(Loop* loop, uint64_t now_ns) noexcept nogil:
    cdef uint32_t days
    cdef bint is_first = loop.tls.context == NULL
    if tls_port_take(&loop.tls):
        loop.expiry_told_days = NEVER_DAYS
        if not is_first:
            _event(loop, EVENT_TLS_RENEWED, <uint64_t>loop.tls.context.expires_s, 0, 0)
        transport_drop_revoked(&loop.transport, now_ns)
    if loop.tls.context == NULL:
        return
    days = _expiry_days(loop.tls.context.expires_s - <int64_t>(wall_now_ms() // 1000))
    if days < loop.expiry_told_days:
        loop.expiry_told_days = days
        _event(loop, EVENT_CERTIFICATE_EXPIRES, days, <uint64_t>loop.tls.context.expires_s, 0)


cdef void _look_at_network(Loop* loop, const posix.epoll_event* events, int count) noexcept nogil:
    cdef uint64_t now_ns = boot_now_ns()
    cdef int i
    recorder_seen(&loop.recorder, now_ns)
    for i in range(count):
        if events[i].data.u64 != TAG_WAKE:
            transport_event(&loop.transport, events[i].data.u64, events[i].events, now_ns)
    if not loop.transport.resolver.answered.is_empty():
        transport_resolved(&loop.transport, now_ns)
    if now_ns - loop.links_checked_ns >= TUNE_LINKS_PERIOD_NS:
        loop.links_checked_ns = now_ns
        loop.links_changed = True       # their bytes: too much to copy in every turn
        _follow_links(loop)
        _look_at_certificate(loop, now_ns)
    if now_ns >= loop.transport.deadline_ns:
        transport_tick(&loop.transport, now_ns)


cdef void _restart_maxima(Loop* loop) noexcept nogil:
    loop.engine.counters.apply_time_ns_max = 0
    loop.engine.counters.commit_gap_ns_max = 0
    store_release(&loop.disk.counters.time_ns_max, <uint64_t>0)


cdef void _look_at_disk(Loop* loop) noexcept nogil:
    cdef uint32_t waits_for = load_shared(&loop.disk.waits_for)
    if waits_for == 0:
        waits_for = load_shared(&loop.disk.checkpoint_waits_for)
    if waits_for == loop.disk_waits_for:
        return
    loop.disk_waits_for = waits_for
    _event(loop, EVENT_DISK_WAITS if waits_for != 0 else EVENT_DISK_RESUMED, waits_for, 0, 0)


cdef void* _loop_main(void* argument) noexcept nogil:
    cdef Loop* loop = <Loop*>argument
    cdef posix.epoll_event[TUNE_EVENTS_PER_WAIT] events
    cdef bint more = True
    cdef int count
    while not load_shared(&loop.is_closing):
        count = _wait(loop, events, more)
        loop.turns += 1
        if exchange_shared(&loop.must_restart_maxima, <uint32_t>0):
            _restart_maxima(loop)
        if loop.engine.state != ENGINE_STOPPED:
            _look_at_network(loop, events, count)
        _take_submissions(loop, TUNE_SUBMISSIONS_PER_TURN)
        _take_finished_jobs(loop, &loop.jobs_done)
        _look_at_disk(loop)
        engine_run(&loop.engine, &more)
        recorder_turn(&loop.recorder, &loop.engine)
        if load_shared(&loop.is_aborted):
            break           # what this turn said stays here
        if loop.faults.late.size != 0:
            transport_wake_at(&loop.transport, faults_send_late(&loop.faults, &loop.transport, boot_now_ns()))
        if loop.engine.state == ENGINE_STOPPED:
            transport_close(&loop.transport)    # fatal: nothing leaves any more, and peers see at once that it is gone
        transport_flush(&loop.transport)
        write_thread_ring(&loop.writer)
        if loop.awaiting.size != 0:
            _answer_awaiting(loop)
    _end(loop)
    return NULL


# Everybody who waits is answered, sockets are closed.
cdef void _end(Loop* loop) noexcept nogil:
    engine_stop(&loop.engine, OK)
    _take_submissions(loop, EVERY_SUBMISSION)
    _answer_awaiting(loop)
    _flush(loop)
    if load_shared(&loop.is_aborted):
        transport_reset(&loop.transport)
    else:
        recorder_end(&loop.recorder, &loop.engine)
    transport_close(&loop.transport)
    event_log_close(loop.event_log)


# --- life -------------------------------------------------------------------------------------------------------------
cdef Loop* loop_create(uint64_t seed) noexcept nogil:
    cdef Loop* loop = <Loop*>calloc(1, sizeof(Loop))
    cdef posix.epoll_event event
    if loop == NULL:
        return NULL
    loop.random = seed
    loop.next_sequence = 1
    loop.listener = loop.disk.directory = loop.disk.lock = -1
    transport_clear(&loop.transport)
    _fill_ports(loop)
    loop.links_changed = True
    loop.event_log = event_log_create()
    loop.epoll = posix.epoll_create1(posix.EPOLL_CLOEXEC)
    loop.wake_fd = posix.eventfd(0, posix.EFD_CLOEXEC | posix.EFD_NONBLOCK)
    event.events = posix.EPOLLIN | posix.EPOLLET
    event.data.u64 = TAG_WAKE
    if (loop.event_log == NULL or loop.epoll < 0 or loop.wake_fd < 0
            or posix.epoll_ctl(loop.epoll, posix.EPOLL_CTL_ADD, loop.wake_fd, &event) != 0):
        loop_destroy(loop)
        return NULL
    return loop


cdef status_t loop_add_peer(Loop* loop, const uint8_t* name, uint8_t name_length, const uint8_t* address,
                            uint8_t address_length, bint is_self) noexcept nogil:
    return engine_add_peer(&loop.engine, name, name_length, address, address_length, is_self)


# The folder is this node's for certain now. Events of the start are in the event log.
cdef void _open_recorder(Loop* loop) noexcept nogil:
    cdef NodeEvent event
    cdef uint64_t seen = 0
    if loop.recorder.bytes == 0:
        return
    loop.recorder.ring = flight_open(loop.disk.directory, loop.recorder.bytes, loop.engine.config.name,
                                     loop.engine.config.name_length, &loop.recorder.error)
    flight_begin_life(loop.recorder.ring, loop.engine.boot, loop.engine.id)
    while event_log_read(loop.event_log, seen, &event):
        recorder_event(&loop.recorder, &loop.engine, event.type, event.a, event.b, event.c)
        seen = event.number


cdef status_t loop_open(Loop* loop, const char* path, uint64_t* holder) noexcept nogil:
    cdef WalLimits limits
    cdef status_t status = real_disk_open(&loop.disk, path)
    if status == OK:
        status = real_disk_lock(&loop.disk, holder)
    if status != OK:
        return status
    memset(&limits, 0, sizeof(WalLimits))
    limits.segment_bytes = loop.engine.config.segment_bytes
    limits.log_bytes_max = loop.engine.config.wal_bytes_max
    limits.reserve_bytes = loop.engine.config.reserve_bytes
    if not loop.pieces.start():
        return NO_MEMORY
    loop.engine.config.machine.pieces = &loop.pieces
    loop.wal = wal_create(&loop.engine.disk, &limits, next_random(&loop.random))
    loop.identity = identity_create(&loop.engine.disk, loop.engine.config.name, loop.engine.config.name_length,
                                    loop.engine.config.cluster_name, loop.engine.config.cluster_name_length)
    if loop.wal == NULL or loop.identity == NULL:
        return NO_MEMORY
    status = engine_boot(&loop.engine, loop.wal, loop.identity)
    if status == OK:
        _open_recorder(loop)
    return status


cdef status_t _init_transport(Loop* loop) noexcept nogil:
    cdef TransportPort port
    cdef status_t status
    port.self = loop
    port.own_hello = _own_hello
    port.hello = _on_hello
    port.frame = _on_frame
    port.link_up = _on_link_up
    port.link_down = _on_link_down
    port.address_refused = _on_address_refused
    port.hung_up = _on_hung_up
    port.refused = _on_refused
    tls_port_take(&loop.tls)
    loop.expiry_told_days = NEVER_DAYS
    status = transport_init(&loop.transport, &port, &loop.transport_limits, loop.epoll, loop.listener, loop.wake_fd,
                            &loop.tls, next_random(&loop.random))
    loop.listener = -1
    if status == OK:
        loop.inbounds = <Inbound*>calloc(loop.transport.accepted_max, sizeof(Inbound))
    return status if status != OK or loop.inbounds != NULL else NO_MEMORY


cdef status_t loop_start(Loop* loop, int listener) noexcept nogil:
    cdef status_t status
    loop.listener = listener
    status = _init_transport(loop)
    if status != OK:
        return status
    loop.writer.done = &loop.jobs_done
    loop.writer.loop = loop
    loop.writer.ring_loop = loop_ring
    loop.writer.wal = loop.wal
    loop.writer.identity = loop.identity
    _publish(loop)
    real_disk_be_patient(&loop.disk)
    loop.recorder.is_watching = True
    status = write_thread_start(&loop.writer) if flight_start(loop.recorder.ring) else NO_MEMORY
    if status == OK and thread_start(&loop.thread, _loop_main, loop, b"raftmeta-loop") != 0:
        status = NO_MEMORY
    loop.is_running = status == OK
    return status


cdef void loop_abort(Loop* loop) noexcept nogil:
    store_shared(&loop.is_aborted, <uint32_t>1)
    write_thread_abort(&loop.writer)
    real_disk_give_up(&loop.disk)


cdef bint loop_stop(Loop* loop, uint64_t timeout_ns) noexcept nogil:
    cdef uint64_t one = 1
    store_shared(&loop.is_closing, <uint32_t>1)
    posix.write(loop.wake_fd, &one, sizeof(one))
    if loop.is_running:
        loop.is_running = not thread_join(loop.thread, timeout_ns)
    real_disk_give_up(&loop.disk)       # nobody waits for its jobs any more
    return (not loop.is_running and write_thread_stop(&loop.writer, timeout_ns)
            and flight_stop(loop.recorder.ring, timeout_ns))


cdef void loop_destroy(Loop* loop) noexcept nogil:
    engine_stop(&loop.engine, OK)
    _take_submissions(loop, EVERY_SUBMISSION)       # pushed after the last turn
    _take_finished_jobs(loop, &loop.jobs_done)
    _take_finished_jobs(loop, &loop.writer.asked)       # an aborted write thread left them
    wakeups_flush(&loop.wakeups)
    transport_close(&loop.transport)
    tls_port_release(&loop.tls)
    faults_release(&loop.faults)
    engine_release(&loop.engine)
    flight_destroy(loop.recorder.ring)
    loop.pieces.close()
    loop.awaiting.release()
    free(loop.inbounds)
    if loop.event_log != NULL:
        event_log_close(loop.event_log)
        event_log_drop(loop.event_log)
    if loop.wal != NULL:
        wal_destroy(loop.wal)
    if loop.identity != NULL:
        identity_destroy(loop.identity)
    real_disk_close(&loop.disk)
    if loop.listener >= 0:
        posix.close(loop.listener)
    if loop.epoll >= 0:
        posix.close(loop.epoll)
    if loop.wake_fd >= 0:
        posix.close(loop.wake_fd)
    free(loop)


cdef void loop_close_in_child(Loop* loop) noexcept nogil:
    transport_close_in_child(&loop.transport)
    real_disk_close_in_child(&loop.disk)
    flight_close_in_child(loop.recorder.ring)
    posix.close(loop.epoll)
    posix.close(loop.wake_fd)
