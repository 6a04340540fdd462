"""The engine of one node: joins core, machine, log jobs, callers and peers; one turn at a time.

It decides the order of a turn. It must never block, read a clock or a socket but through its ports, touch a
Python object. It runs on the loop thread of a Node (loop/loop) or inside a simulated world (raftmeta/sim); both call
the same verbs.

A turn (engine_run) reads top to bottom:
    ticks that are due -> founding, or: callers' commands and reads into the core -> what the core says must happen now
    (messages, disk jobs, committed records, reads) -> one slice of apply -> watch replay -> wake callers, once.

Invariants: nothing leaves a node that has stopped; a job in the disk's hands is not touched; `applied` never passes
what the core committed; every owner of a submission is told exactly once.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

from raftmeta._core cimport (CLOCK_JUMPED, LEADER, TRACE_BECAME_CANDIDATE, TRACE_MEMBERSHIP, LogRead, Ready, Write,
                             core_campaign, core_destroy, core_has_ready, core_log_read, core_membership,
                             core_peer_event, core_persisted, core_ready, core_set_free_bytes, core_set_time,
                             core_status, core_tick, core_told_removed, core_transfer)
from raftmeta.engine.applier cimport applier_release, applier_run, applier_take
from raftmeta.engine.boot cimport boot_engine, boot_found, boot_identity_persisted
from raftmeta.engine.callers cimport (callers_ask_reads, callers_measure_gap, callers_propose, callers_propose_again,
                                      callers_propose_lost, callers_read, callers_read_ready, callers_refused,
                                      callers_release, callers_repeat_reads, callers_serve_reads, callers_stop,
                                      callers_submit, callers_submit_client, callers_try_refused,
                                      callers_try_sent_back)
from raftmeta.engine.deaths cimport deaths_tick
from raftmeta.engine.disk_jobs cimport (JOB_BEGIN_LOG, JOB_COMPACT, JOB_IDENTITY, JOB_LOOK, JOB_READ, JOB_REMOVE,
                                        JOB_RETIRE, JOB_TAKE, JOB_WRITE, DiskJob, disk_job_create, disk_job_destroy)
from raftmeta.engine.feeding cimport feeding_refuses, feeding_release, feeding_tick
from raftmeta.engine.housekeeping cimport (housekeeping_drop_lease, housekeeping_keep_lease, housekeeping_look,
                                           housekeeping_release, housekeeping_stop, housekeeping_tick)
from raftmeta.engine.invariants cimport BROKEN_MEMBERSHIP_LOGGED
from raftmeta.engine.lease_pages cimport leases_show, leases_submit
from raftmeta.engine.links cimport link_of_name
from raftmeta.engine.log_jobs cimport (log_jobs_refused, log_jobs_release, log_jobs_strip, log_jobs_submit,
                                       log_jobs_tick)
from raftmeta.engine.members cimport (members_change, members_look, members_meet, members_refused, members_release,
                                      members_stop, members_tick)
from raftmeta.engine.peers cimport (peers_address_refused, peers_follow_membership, peers_frame, peers_hello,
                                    peers_hung_up, peers_link_down, peers_link_up,
                                    peers_own_hello, peers_wants_link)
from raftmeta.engine.promises cimport promises_job_back, promises_look, promises_submit
from raftmeta.engine.sending cimport send_genesis, send_message, send_pings_to_strangers
from raftmeta.engine.snapshots.install cimport install_run
from raftmeta.engine.snapshots.state cimport Snapshots
from raftmeta.engine.snapshots.taking cimport snapshots_release, snapshots_run, snapshots_taken, snapshots_tick
from raftmeta.engine.snapshots.transfer cimport transfer_job_done, transfer_offer, transfer_tick
from raftmeta.engine.state cimport (ENGINE_GENESIS, ENGINE_RUNNING, ENGINE_STOPPED, EVENT_FATAL, EVENT_READY,
                                    EVENT_TRACE, Engine, BLOCKED_RETRY_TICKS, Links, TICKS_PER_TURN_MAX)
from raftmeta.engine.submission cimport (SUBMIT_CAMPAIGN, SUBMIT_CLIENT_COMMAND, SUBMIT_COMMAND, SUBMIT_DROP_LEASE,
                                         SUBMIT_KEEP_LEASE, SUBMIT_LIST_LEASES, SUBMIT_MEET, SUBMIT_MEMBERSHIP,
                                         SUBMIT_READ, SUBMIT_SHOW_LEASE, SUBMIT_TRANSFER, SUBMIT_UNWATCH,
                                         SUBMIT_USER_ANSWER, SUBMIT_USER_ASK, SUBMIT_USER_EVENT, SUBMIT_USER_FETCH,
                                         SUBMIT_USER_JOIN, SUBMIT_USER_LAST, SUBMIT_USER_LEAVE, SUBMIT_WATCH,
                                         CommandArguments, Submission, UserEventArguments, WatchArguments,
                                         submission_is_command, submission_payload)
from raftmeta.engine.user_fetches cimport (user_answer_submit, user_ask_submit, user_fetches_stop,
                                           user_fetches_submit, user_is_joined, user_join_submit, user_last_submit,
                                           user_leave_submit)
from raftmeta.machine.machine cimport machine_destroy
from raftmeta.machine.watch_state cimport Watch
from raftmeta.machine.watches cimport (WATCH_CLOSED, hub_add, hub_close, hub_destroy, hub_pump, hub_remove,
                                       hub_take_woken)
from raftmeta.native.buggify cimport BUGGIFY_LINK_DROPPED, BUGGIFY_PROPOSED_AGAIN, BUGGIFY_WATCH_REPLAY_OF_ONE, buggify
from raftmeta.native.chunks cimport Slice, chunk_drop
from raftmeta.native.invariants cimport broken
from raftmeta.raft.genesis cimport FOUNDED, JOINING, genesis_joined, genesis_release, genesis_tick
from raftmeta.raft.membership cimport membership_encode, membership_position
from raftmeta.raft.types cimport FEED, MEMBERS_MAX, Membership, member_id_t
from raftmeta.status cimport (BAD_FIELD, DISK_FAILED, NO_LEADER, NO_MEMORY, NO_SPACE, NODE_CLOSED,
                              NOT_FOUND, NOT_READY, OK, REMOVED, is_fatal, status_t)
from raftmeta.storage.wal_state cimport Wal
from raftmeta.wire.commands cimport Bytes, command_release
from raftmeta.wire.hello cimport Hello

cdef enum:
    TUNE_WATCH_CHANGES = 2000   # changes replayed to late watchers in one turn


# --- the network ------------------------------------------------------------------------------------------------------
cdef status_t engine_add_peer(Engine* engine, const uint8_t* name, uint8_t name_length, const uint8_t* address,
                              uint8_t address_length, bint is_self) noexcept nogil:
    cdef int place = link_of_name(&engine.links, name, name_length, address, address_length)
    if place < 0:
        return NO_MEMORY
    engine.links.table[place].is_self = is_self
    engine.links.table[place].is_wanted = True
    engine.links.table[place].is_initial = True
    return OK


cdef void engine_own_hello(Engine* engine, uint32_t link, Hello* hello) noexcept nogil:
    peers_own_hello(engine, link, hello)


cdef bint engine_wants_link(const Engine* engine, uint32_t link) noexcept nogil:
    return peers_wants_link(engine, link)


cdef status_t engine_hello(Engine* engine, const Hello* hello, Inbound* inbound) noexcept nogil:
    if engine.state == ENGINE_STOPPED:
        return NODE_CLOSED
    return _checked(engine, peers_hello(engine, hello, inbound))


cdef status_t engine_link_up(Engine* engine, uint32_t link, const Hello* hello) noexcept nogil:
    if engine.state == ENGINE_STOPPED:
        return NODE_CLOSED
    if buggify(BUGGIFY_LINK_DROPPED):
        return NOT_READY
    return _checked(engine, peers_link_up(engine, link, hello))


cdef void engine_refused(Engine* engine, status_t reason) noexcept nogil:
    if engine.state == ENGINE_RUNNING and reason == REMOVED:
        _checked(engine, core_told_removed(engine.core))


cdef void engine_link_down(Engine* engine, uint32_t link, bint was_refused) noexcept nogil:
    if engine.state != ENGINE_STOPPED:
        peers_link_down(engine, link, was_refused)


cdef void engine_address_refused(Engine* engine, uint32_t link) noexcept nogil:
    peers_address_refused(engine, link)


cdef void engine_hung_up(Engine* engine, Inbound* inbound) noexcept nogil:
    peers_hung_up(engine, inbound)


cdef status_t engine_frame(Engine* engine, Inbound* inbound, const Slice* frame) noexcept nogil:
    if engine.state == ENGINE_STOPPED:
        return NODE_CLOSED
    return _checked(engine, peers_frame(engine, inbound, frame))


# A fatal status stops the node; every other one belongs to the connection or the caller.
cdef status_t _checked(Engine* engine, status_t status) noexcept nogil:
    if is_fatal(status):
        engine_stop(engine, status)
    return status


# --- callers ----------------------------------------------------------------------------------------------------------
cdef void _answer(Engine* engine, Submission* submission, status_t status, const uint8_t* body,
                  uint32_t length) noexcept nogil:
    if submission.owner != NULL:
        engine.callers.done(engine.callers.self, submission.owner, status, 0, engine.applying.applied, body, length)
    free(submission)


# A wish that was done: its caller is told how, and only a fatal status is the engine's.
cdef status_t _end(Engine* engine, Submission* submission, status_t status) noexcept nogil:
    _answer(engine, submission, status, NULL, 0)
    return status if is_fatal(status) else OK


cdef void _watch(Engine* engine, Submission* submission) noexcept nogil:
    cdef const WatchArguments* asked = &submission.arguments.watch
    cdef Bytes key, end
    cdef Watch* watch = NULL
    key.data = submission_payload(submission)
    key.length = asked.key_length
    end.data = key.data + key.length
    end.length = submission.length - key.length
    cdef status_t status = hub_add(engine.hub, engine.machine, &key, &end, asked.start_revision, asked.filter,
                                   asked.handle, asked.purse, &watch)
    _answer(engine, submission, status, <const uint8_t*>&watch, sizeof(watch))


# A command for a user machine needs a copy here.
cdef void _submit_client(Engine* engine, Submission* submission) noexcept nogil:
    cdef const CommandArguments* command = &submission.arguments.command
    cdef const uint8_t* name = submission_payload(submission) + command.machine_offset
    if command.machine_length != 0 and not user_is_joined(engine, name, command.machine_length):
        _answer(engine, submission, NOT_FOUND, NULL, 0)
    else:
        callers_submit_client(engine, submission)


cdef void _tell(Engine* engine, Submission* submission) noexcept nogil:
    cdef const UserEventArguments* event = &submission.arguments.user_event
    engine.callers.event(engine.callers.self, event.type, event.a, event.b, event.c)
    _answer(engine, submission, OK, NULL, 0)


# Every kind of engine/submission that is the engine's, in the order in which they stand there. Each branch takes the
# submission over.
cdef status_t _take(Engine* engine, Submission* submission) noexcept nogil:
    if submission.kind == SUBMIT_COMMAND:
        callers_submit(engine, submission)
    elif submission.kind == SUBMIT_CLIENT_COMMAND:
        _submit_client(engine, submission)
    elif submission.kind == SUBMIT_READ:
        callers_read(engine, submission)
    elif submission.kind == SUBMIT_WATCH:
        _watch(engine, submission)
    elif submission.kind == SUBMIT_UNWATCH:
        hub_remove(engine.hub, submission.arguments.unwatch.watch)
        return _end(engine, submission, OK)
    elif submission.kind == SUBMIT_KEEP_LEASE:
        return _end(engine, submission, housekeeping_keep_lease(engine, &submission.arguments.keep_lease))
    elif submission.kind == SUBMIT_DROP_LEASE:
        housekeeping_drop_lease(&engine.leases, submission.arguments.drop_lease.lease)
        return _end(engine, submission, OK)
    elif submission.kind == SUBMIT_LIST_LEASES:
        leases_submit(engine, submission)
    elif submission.kind == SUBMIT_SHOW_LEASE:
        leases_show(engine, submission)
    elif submission.kind == SUBMIT_TRANSFER:
        return _end(engine, submission, core_transfer(engine.core, submission.arguments.transfer.target))
    elif submission.kind == SUBMIT_CAMPAIGN:
        return _end(engine, submission, core_campaign(engine.core))
    elif submission.kind == SUBMIT_MEMBERSHIP:
        return members_change(engine, submission)
    elif submission.kind == SUBMIT_MEET:
        members_meet(engine, submission)
    else:
        _take_of_users(engine, submission)
    return OK


cdef void _take_of_users(Engine* engine, Submission* submission) noexcept nogil:
    if submission.kind == SUBMIT_USER_FETCH:
        user_fetches_submit(engine, submission)
    elif submission.kind == SUBMIT_USER_LAST:
        user_last_submit(engine, submission)
    elif submission.kind == SUBMIT_USER_EVENT:
        _tell(engine, submission)
    elif submission.kind == SUBMIT_USER_ASK:
        user_ask_submit(engine, submission)
    elif submission.kind == SUBMIT_USER_ANSWER:
        user_answer_submit(engine, submission)
    elif submission.kind == SUBMIT_USER_JOIN:
        user_join_submit(engine, submission)
    elif submission.kind == SUBMIT_USER_LEAVE:
        user_leave_submit(engine, submission)
    else:
        _answer(engine, submission, BAD_FIELD, NULL, 0)     # the loop's own kinds do not come here


# Whether this node cannot take it, in which case its caller was told why.
cdef bint _is_refused(Engine* engine, Submission* submission) noexcept nogil:
    if engine.state == ENGINE_STOPPED:
        _answer(engine, submission, engine.fatal if engine.fatal != OK else NODE_CLOSED, NULL, 0)
    elif engine.state == ENGINE_GENESIS:
        _answer(engine, submission, NO_LEADER, NULL, 0)
    elif engine.standing.was_removed and (submission_is_command(submission) or submission.kind == SUBMIT_READ
                                          or submission.kind == SUBMIT_WATCH):
        _answer(engine, submission, NOT_READY, NULL, 0)
    else:
        return False
    return True


cdef void engine_submit(Engine* engine, Submission* submission) noexcept nogil:
    if engine.state != ENGINE_RUNNING or engine.standing.was_removed:
        if _is_refused(engine, submission):
            return
    _checked(engine, _take(engine, submission))


# --- the disk ---------------------------------------------------------------------------------------------------------
cdef void _count_write(Engine* engine, const Write* write) noexcept nogil:
    cdef uint32_t i
    engine.counters.writes += 1
    for i in range(write.slice_count):
        engine.counters.write_bytes += write.slices[i].length


cdef status_t _submit_write(Engine* engine, const Write* write) noexcept nogil:
    cdef DiskJob* job = disk_job_create(JOB_WRITE)
    cdef const Membership* membership = core_membership(engine.core)
    if job == NULL:
        return NO_MEMORY
    if not job.slices.append(write.slices, write.slice_count):
        disk_job_destroy(job)
        return NO_MEMORY
    job.log_epoch = engine.room.log_epoch
    job.batch.write_id = write.id
    job.batch.has_hard_state = True         # the commit index as it is now, for a start that finds this batch last
    job.batch.repairs = write.repairs
    job.batch.hard_state = write.hard_state
    job.batch.first = write.first
    job.batch.last = write.last
    job.batch.slices = job.slices.data
    job.batch.slice_count = <uint32_t>job.slices.size
    # Growth is held back where it begins, at the leader's proposals; what is on its way may use the reserve.
    job.batch.is_urgent = True
    if membership.index != engine.room.membership_logged and membership.count != 0:
        if membership_encode(membership, &job.membership) != OK:
            disk_job_destroy(job)
            return broken(&engine.promises.broken, BROKEN_MEMBERSHIP_LOGGED, membership.index, membership.count)
        engine.room.membership_logged = membership.index
        job.batch.membership = job.membership.data
        job.batch.membership_length = <uint32_t>job.membership.size
        job.batch.membership_index = membership.index
    _count_write(engine, write)
    log_jobs_submit(engine, job)
    return OK


# How a read could miss records that this node has to apply, and stop it:
#     1. its next committed records have left memory and are read from the log file,
#     2. a snapshot beyond them is installed, and the log begins anew behind it,
#     3. were the read a job of the background, it would be done after 2, and they would be gone.
# For a member that is behind it is one: acknowledgements do not wait for it, jobs of one batch are handed back
# together. If the log went on without those records meanwhile, that member gets a snapshot.
cdef status_t _submit_read(Engine* engine, const LogRead* read) noexcept nogil:
    cdef DiskJob* job = disk_job_create(JOB_READ)
    if job == NULL:
        return NO_MEMORY
    job.is_background = read.peer != 0
    job.peer = read.peer
    job.first = read.first
    job.bytes_max = read.bytes_max
    promises_submit(engine, job)
    return OK


# A write, or the beginning of a log.
cdef status_t _write_done(Engine* engine, DiskJob* job) noexcept nogil:
    cdef status_t status
    if job.status == NO_SPACE and job.kind == JOB_WRITE:
        log_jobs_strip(&engine.room, job)
    if log_jobs_refused(engine, job, &status):
        return OK
    if status == OK and job.kind == JOB_WRITE:
        status = core_persisted(engine.core, job.batch.write_id)
    disk_job_destroy(job)
    return status


# Something is gone, or will go at the next occasion: only a disk that failed is news.
cdef status_t _housework_done(DiskJob* job) noexcept nogil:
    cdef status_t status = job.status
    disk_job_destroy(job)
    return status if is_fatal(status) else OK


cdef status_t _read_done(Engine* engine, DiskJob* job) noexcept nogil:
    cdef LogRead read
    read.peer = job.peer
    read.first = job.first
    read.bytes_max = job.bytes_max
    cdef status_t failed = job.status
    cdef status_t status = core_log_read(engine.core, &read, &job.records, failed)
    chunk_drop(job.records.chunk)
    disk_job_destroy(job)
    if read.peer == 0 and failed != OK:
        return DISK_FAILED      # committed records that this node still has to apply are not in its log file
    return status if is_fatal(status) else OK


cdef void engine_job_done(Engine* engine, DiskJob* job) noexcept nogil:
    cdef status_t status = OK
    if engine.state == ENGINE_STOPPED:
        chunk_drop(job.records.chunk)
        disk_job_destroy(job)
        return
    status = promises_job_back(engine, job)
    if status != OK:                # whose it is now is not known: it stays as it is
        _checked(engine, status)
        return
    engine.room.free_bytes = job.free_bytes
    engine.room.log_bytes = job.log_bytes
    if engine.core != NULL:
        core_set_free_bytes(engine.core, job.free_bytes)
    if job.kind == JOB_WRITE or job.kind == JOB_BEGIN_LOG:
        status = _write_done(engine, job)
    elif job.kind == JOB_READ:
        status = _read_done(engine, job)
    elif job.kind == JOB_IDENTITY:
        status = boot_identity_persisted(engine, job)
        disk_job_destroy(job)
    elif job.kind == JOB_TAKE:
        status = snapshots_taken(engine, job)
    elif job.kind in (JOB_COMPACT, JOB_LOOK, JOB_REMOVE, JOB_RETIRE):
        status = _housework_done(job)
    else:
        status = transfer_job_done(engine, job)
    _checked(engine, status)


# Without room nothing is written, and so no job would ever tell that there is room again.
cdef status_t _look_for_room(Engine* engine) noexcept nogil:
    cdef DiskJob* job
    if engine.room.free_bytes >= engine.config.core.free_bytes_min or engine.ticks % BLOCKED_RETRY_TICKS != 0:
        return OK
    job = disk_job_create(JOB_LOOK)
    if job == NULL:
        return NO_MEMORY
    promises_submit(engine, job)
    return OK


# --- time -------------------------------------------------------------------------------------------------------------
# Members that found their cluster tell each other. An observer that met them before hears of it by another HELLO.
cdef void _greet_again(Links* links) noexcept nogil:
    cdef int i
    for i in range(MEMBERS_MAX):
        if links.table[i].is_used and links.table[i].is_up:
            links.table[i].must_reopen = True


cdef status_t _tick(Engine* engine) noexcept nogil:
    cdef uint32_t timeout_ticks = engine.config.core.election_timeout_ticks
    cdef status_t status = OK
    engine.ticks += 1
    if engine.state == ENGINE_GENESIS:
        if engine.config.core.is_observer and engine.ticks % timeout_ticks == 0:
            _greet_again(&engine.links)
        return genesis_tick(&engine.genesis)
    status = core_tick(engine.core, engine.clock.wall_ms(engine.clock.self))
    if status == OK:
        _look_at_core(engine)
        status = housekeeping_tick(engine)
    if not is_fatal(status):
        status = deaths_tick(engine)
    members_tick(engine)
    feeding_tick(engine)
    if not is_fatal(status):
        status = snapshots_tick(engine)
    if not is_fatal(status):
        status = transfer_tick(engine)
    if not is_fatal(status):
        status = _look_for_room(engine)
    log_jobs_tick(engine)
    callers_try_sent_back(&engine.calls)
    if engine.ticks % timeout_ticks == 0:
        send_pings_to_strangers(engine)
        callers_repeat_reads(engine)
        callers_try_refused(&engine.calls)
        # A forward may have been lost without a change of leader. The leader's own proposals cannot be lost.
        if engine.core_status.role != LEADER and engine.ticks % (4 * timeout_ticks) == 0:
            callers_propose_lost(engine)
    if engine.core_status.role != LEADER and buggify(BUGGIFY_PROPOSED_AGAIN):
        callers_propose_again(engine)
    return status


cdef status_t _run_ticks(Engine* engine) noexcept nogil:
    cdef uint64_t tick_ns = <uint64_t>engine.config.tick_ms * 1_000_000
    cdef uint32_t done = 0
    cdef status_t status
    engine.now_ns = engine.clock.now_ns(engine.clock.self)
    if engine.next_tick_ns == 0:
        engine.next_tick_ns = engine.now_ns + tick_ns
    if engine.state == ENGINE_RUNNING:
        core_set_time(engine.core, engine.now_ns)
    if engine.now_ns > engine.next_tick_ns + engine.config.core.election_timeout_ticks * tick_ns:
        # This node was paused, or its clock leapt: what it knew of others' time is void, and missed ticks are not
        # made up for, since messages of that time may wait in the sockets (etcd#21417 is the class).
        engine.next_tick_ns = engine.now_ns
        if engine.state == ENGINE_RUNNING:
            status = core_peer_event(engine.core, CLOCK_JUMPED, 0)
            if is_fatal(status):
                return status
    while engine.next_tick_ns <= engine.now_ns and done < TICKS_PER_TURN_MAX:
        engine.next_tick_ns += tick_ns
        done += 1
        status = _tick(engine)
        if is_fatal(status):
            return status
    if engine.next_tick_ns > engine.now_ns:
        return OK
    # The rest is not made up for. By the ticks counted a read lease would last longer by as many.
    engine.next_tick_ns = engine.now_ns + 1
    if engine.config.core.lease_reads and engine.state == ENGINE_RUNNING:
        status = core_peer_event(engine.core, CLOCK_JUMPED, 0)
        if is_fatal(status):
            return status
    return OK


cdef uint64_t engine_deadline_ns(const Engine* engine) noexcept nogil:
    return engine.next_tick_ns


# --- a turn -----------------------------------------------------------------------------------------------------------
# What the core said must happen now. Sends come first: they do not wait for this node's own disk.
cdef status_t _carry_out(Engine* engine, const Ready* ready) noexcept nogil:
    cdef uint32_t i
    cdef status_t status = OK
    for i in range(ready.message_count):
        if ready.messages[i].type == FEED and ready.messages[i].reject:
            feeding_refuses(engine, &ready.messages[i])
        send_message(engine, &ready.messages[i])
    if ready.write.id != 0:
        status = _submit_write(engine, &ready.write)
    if status == OK:
        status = applier_take(&engine.applying, &engine.promises.broken, &ready.apply)
    for i in range(ready.log_read_count):
        if status == OK:
            status = _submit_read(engine, &ready.log_reads[i])
    for i in range(ready.read_count):
        callers_read_ready(&engine.reads, &ready.reads[i])
    for i in range(ready.refusal_count):
        callers_refused(engine, &ready.refusals[i])
        members_refused(engine, &ready.refusals[i])
    for i in range(ready.snapshot_count):
        transfer_offer(engine, ready.snapshots[i])
    for i in range(ready.trace_count):
        if ready.traces[i].type == TRACE_BECAME_CANDIDATE:
            engine.counters.elections += 1
        # Not by its index: one that was cut from the log may have had the same.
        elif ready.traces[i].type == TRACE_MEMBERSHIP:
            engine.links.membership_count += 1
        engine.callers.event(engine.callers.self, EVENT_TRACE, ready.traces[i].type | ready.traces[i].term << 8,
                             ready.traces[i].a, ready.traces[i].b)
    return status


cdef status_t _drain_core(Engine* engine) noexcept nogil:
    cdef Ready ready
    cdef status_t status = OK
    while status == OK and core_has_ready(engine.core):
        memset(&ready, 0, sizeof(Ready))
        status = core_ready(engine.core, &ready)
        if status == OK:
            status = _carry_out(engine, &ready)
    _look_at_core(engine)
    return status if status != OK else _follow_membership(engine)


cdef void _look_at_core(Engine* engine) noexcept nogil:
    cdef member_id_t leader = engine.core_status.leader
    core_status(engine.core, &engine.core_status)
    if engine.core_status.leader != leader and engine.core_status.leader != 0:
        engine.counters.leader_changes += 1


cdef void _tell_woken(Engine* engine) noexcept nogil:
    cdef void* handles[64]
    cdef uint32_t i, count
    while True:
        count = hub_take_woken(engine.hub, handles, 64)
        for i in range(count):
            engine.callers.woken(engine.callers.self, handles[i])
        if count < 64:
            return


cdef status_t _run_running(Engine* engine, bint* more) noexcept nogil:
    cdef bint applies_more = False
    cdef bint watches_more = False
    cdef bint snapshots_more = False
    cdef status_t status = _persist_genesis(engine)
    if engine.genesis.messages.size != 0:
        send_genesis(engine)      # a peer that missed the end of the founding asks again
    if not is_fatal(status):
        status = callers_propose(engine)
    if not is_fatal(status):
        status = callers_ask_reads(engine)
    if not is_fatal(status):
        status = _drain_core(engine)
    if not is_fatal(status):
        status = install_run(engine)
    if not is_fatal(status):
        status = applier_run(engine, &applies_more)
    if not is_fatal(status):
        status = snapshots_run(engine, &snapshots_more)
    if not is_fatal(status):
        callers_serve_reads(engine)
        housekeeping_look(engine)
        status = hub_pump(engine.hub, engine.machine, 1 if buggify(BUGGIFY_WATCH_REPLAY_OF_ONE) else TUNE_WATCH_CHANGES,
                          &watches_more)
    if not is_fatal(status) and core_has_ready(engine.core):
        status = _drain_core(engine)
    members_look(engine)
    _tell_woken(engine)
    callers_measure_gap(engine)
    if not engine.was_ready and engine.session.id != 0 and engine.core_status.leader != 0:
        engine.was_ready = True
        engine.callers.event(engine.callers.self, EVENT_READY, engine.core_status.leader, engine.core_status.term, 0)
    more[0] = applies_more or snapshots_more or watches_more
    return status


cdef status_t _persist_genesis(Engine* engine) noexcept nogil:
    cdef DiskJob* job
    if not engine.genesis.must_persist or engine.ticks < engine.identity_tick:
        return OK
    job = disk_job_create(JOB_IDENTITY)
    if job == NULL:
        return NO_MEMORY
    job.genesis = engine.genesis.record
    engine.genesis.must_persist = False
    promises_submit(engine, job)
    return OK


cdef status_t _run_genesis(Engine* engine) noexcept nogil:
    cdef status_t status = _persist_genesis(engine)
    send_genesis(engine)
    if status == OK and not engine.genesis.is_persisting and engine.genesis.claimed_state in (FOUNDED, JOINING):
        status = boot_found(engine)
    return status


# The membership that an observer's feeder told stands in no entry, and files of the state need it
# (engine/snapshots/taking).
cdef status_t _keep_first(Engine* engine, const Membership* membership) noexcept nogil:
    cdef Snapshots* snapshots = &engine.snapshots
    if snapshots.membership.size != 0 or membership.count == 0 or membership.index > engine.applying.applied:
        return OK
    snapshots.membership_index = membership.index
    return membership_encode(membership, &snapshots.membership)


# Another membership is in force: links follow it, and a node that joined learns that it is a member.
cdef status_t _follow_membership(Engine* engine) noexcept nogil:
    cdef const Membership* membership = core_membership(engine.core)
    cdef status_t status = OK
    if engine.links.membership_count != engine.links.membership_seen:
        engine.links.membership_seen = engine.links.membership_count
        status = peers_follow_membership(engine, membership)
        if status == OK and engine.config.core.is_observer:
            status = _keep_first(engine, membership)
        if (status == OK and engine.genesis.record.state == JOINING and not engine.config.core.is_observer
                and membership_position(membership, engine.id) >= 0):
            status = genesis_joined(&engine.genesis)
    return status


cdef status_t engine_run(Engine* engine, bint* more) noexcept nogil:
    cdef status_t status
    more[0] = False
    if engine.state == ENGINE_STOPPED:
        return engine.fatal
    status = _run_ticks(engine)
    if not is_fatal(status) and engine.state == ENGINE_GENESIS:
        status = _run_genesis(engine)
    if not is_fatal(status) and engine.state == ENGINE_RUNNING:
        status = _run_running(engine, more)
    if not is_fatal(status):
        status = promises_look(engine)
    _checked(engine, status)
    engine.callers.flush(engine.callers.self)
    return engine.fatal


# --- life -------------------------------------------------------------------------------------------------------------
cdef status_t engine_boot(Engine* engine, Wal* wal, void* identity) noexcept nogil:
    cdef status_t status = boot_engine(engine, wal, identity)
    if wal.broken.what != 0:
        broken(&engine.promises.broken, wal.broken.what, wal.broken.a, wal.broken.b)
    return status


cdef void engine_stop(Engine* engine, status_t reason) noexcept nogil:
    if engine.state == ENGINE_STOPPED:
        return
    engine.state = ENGINE_STOPPED
    engine.fatal = reason
    housekeeping_stop(engine)
    callers_stop(engine)
    user_fetches_stop(engine)
    members_stop(engine)
    _tell_woken_closed(engine)
    if reason != OK:
        engine.callers.event(engine.callers.self, EVENT_FATAL, reason, engine.applying.unapplied, 0)
    engine.callers.flush(engine.callers.self)


cdef void _tell_woken_closed(Engine* engine) noexcept nogil:
    if engine.hub != NULL:
        hub_close(engine.hub, WATCH_CLOSED)
        _tell_woken(engine)


# Give everything back. The disk jobs are all done or never begun, and nobody calls any more.
cdef void engine_release(Engine* engine) noexcept nogil:
    log_jobs_release(&engine.room)
    applier_release(&engine.applying)
    snapshots_release(engine)
    if engine.hub != NULL:
        hub_destroy(engine.hub)
    if engine.machine != NULL:
        machine_destroy(engine.machine)
    if engine.core != NULL:
        core_destroy(engine.core)
    genesis_release(&engine.genesis)
    callers_release(&engine.calls, &engine.reads)
    housekeeping_release(&engine.leases, &engine.duties)
    members_release(&engine.standing)
    feeding_release(&engine.feeding)
    engine.user_fetches.release()
    command_release(&engine.scratch)
    engine.body.release()
