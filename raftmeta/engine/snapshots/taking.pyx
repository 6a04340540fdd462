"""Points, taking, keeping.

It decides which entry is a point, and how far log and files may go. It must never let go of anything before
the copy that replaces it is durable, or hold up the loop for longer than a slice.

    snapshots_applied       TAKING_DUE          the applier stops behind the point
    _begin                  TAKING_PREPARING    the state is pinned; leases and sessions are copied, a slice per turn
    _hand_over              TAKING_FILE         the applier goes on; jobs write the file, a chunk per job
                            TAKING_CHECKPOINT   or the checkpoint port has the dump
    snapshots_durable       TAKING_NOTHING      core_compacted, then JOB_COMPACT, then JOB_REMOVE

The log is kept back to the point before the newest, and so is the sealed file there: members that are not far behind
need no snapshot, and when the newest file is damaged the one before and the log lead to the same state. A file behind
which the log is gone leads nowhere: it is of no use to anybody and goes. A point that comes while the last one is still
being taken is passed over; it counts all the same, so that members stay in step.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memset

from raftmeta._core cimport core_compacted, core_membership
from raftmeta.engine.disk_jobs cimport JOB_COMPACT, JOB_REMOVE, JOB_RETIRE, JOB_TAKE, disk_job_create, disk_job_destroy
from raftmeta.engine.invariants cimport BROKEN_CHECKPOINT_POINT
from raftmeta.engine.promises cimport promises_submit
from raftmeta.engine.snapshots.checkpoint cimport CheckpointHead
from raftmeta.engine.snapshots.files cimport Taking, check_release, receive_release, take_release
from raftmeta.engine.snapshots.state cimport RECEIVING_LOADED, TAKING_CHECKPOINT, TAKING_FILE, TAKING_NOTHING, Snapshots
from raftmeta.engine.state cimport (EVENT_LOG_COMPACTED, EVENT_SNAPSHOT_DAMAGED, EVENT_SNAPSHOT_DUE,
                                    EVENT_SNAPSHOT_FAILED, EVENT_SNAPSHOT_TAKEN)
from raftmeta.machine.machine cimport (MachineStatus, machine_destroy, machine_dump_begin, machine_dump_end,
                                       machine_dump_prepare, machine_publish, machine_status)
from raftmeta.native.buggify cimport BUGGIFY_DUMP_OF_ONE, BUGGIFY_LOG_CUT_EARLY, buggify
from raftmeta.native.invariants cimport broken
from raftmeta.native.marks cimport (MARK_FILE_LENT, MARK_OLDER_FILE_RECEIVED, MARK_OLD_FILE_REMOVED, MARK_SNAPSHOT_DUE,
                                    MARK_SNAPSHOT_WITHOUT_ROOM, mark)
from raftmeta.raft.membership cimport membership_position
from raftmeta.raft.record cimport record_bytes, record_payload
from raftmeta.raft.types cimport ENTRY_MEMBERSHIP
from raftmeta.status cimport NO_MEMORY, NO_SPACE, NOT_READY, OK, is_fatal
from raftmeta.wire.snapshot_messages cimport is_same_file

cdef enum:
    TUNE_PREPARE_RECORDS = 2000     # leases, sessions and results copied in one turn: well below a millisecond
    FILES_KEPT = 2
    LENT_TIMEOUTS = 10              # x election time-out: so long a file and its log wait for a member that is silent


# --- points -----------------------------------------------------------------------------------------------------------
cdef status_t snapshots_applied(Engine* engine, const Record* record) noexcept nogil:
    cdef Snapshots* snapshots = &engine.snapshots
    snapshots.last.index = record.index
    snapshots.last.term = record.term
    snapshots.last.chain = record.chain
    snapshots.last_wall_ms = record.wall_ms
    snapshots.log_bytes += record_bytes(record.length)
    if record.type == ENTRY_MEMBERSHIP:
        snapshots.membership_index = record.index
        snapshots.membership.clear()
        if not snapshots.membership.append(record_payload(record), record.length):
            return NO_MEMORY
    if (snapshots.log_bytes < engine.config.snapshot_log_bytes
            and record.index - snapshots.point < engine.config.snapshot_entries):
        return OK
    snapshots.point = record.index
    snapshots.log_bytes = 0
    _want(engine)
    return OK


# A state is worth a file only with the membership that was in force: a node that joins learns it from its log.
cdef void _want(Engine* engine) noexcept nogil:
    cdef Snapshots* snapshots = &engine.snapshots
    if (snapshots.taking_state == TAKING_NOTHING and snapshots.membership.size != 0
            and snapshots.receiving_state != RECEIVING_LOADED and snapshots.last.index != 0):
        mark(MARK_SNAPSHOT_DUE)
        snapshots.taking_state = TAKING_DUE


# --- taking -----------------------------------------------------------------------------------------------------------
cdef status_t _begin(Engine* engine) noexcept nogil:
    cdef Snapshots* snapshots = &engine.snapshots
    cdef Taking* taking = &snapshots.taking
    cdef MachineStatus machine
    cdef status_t status
    machine_status(engine.machine, &machine)
    taking.machine = engine.machine
    taking.chunk_bytes = engine.config.snapshot_chunk_bytes
    taking.state_hash = machine.state_hash
    taking.file.point = taking.header.point = snapshots.last
    taking.header.wall_ms = snapshots.last_wall_ms
    taking.header.cluster_low = engine.cluster.low
    taking.header.cluster_high = engine.cluster.high
    taking.header.feature_level = machine.feature_level
    taking.header.membership_index = snapshots.membership_index
    taking.header.membership_length = <uint32_t>snapshots.membership.size
    if not taking.membership.append(snapshots.membership.data, snapshots.membership.size):
        return NO_MEMORY
    status = machine_dump_begin(engine.machine, &taking.dump)
    if status == OK:
        snapshots.taking_state = TAKING_PREPARING
        engine.callers.event(engine.callers.self, EVENT_SNAPSHOT_DUE, snapshots.last.index, machine.state_hash.low, 0)
    return status


cdef status_t _prepare(Engine* engine) noexcept nogil:
    cdef bint done = False
    cdef uint32_t records = 1 if buggify(BUGGIFY_DUMP_OF_ONE) else TUNE_PREPARE_RECORDS
    cdef status_t status = machine_dump_prepare(engine.machine, &engine.snapshots.taking.dump, records, &done)
    return _hand_over(engine) if status == OK and done else status


cdef void _fill_head(const Taking* taking, CheckpointHead* head) noexcept nogil:
    head.cluster.low = taking.header.cluster_low
    head.cluster.high = taking.header.cluster_high
    head.point = taking.header.point
    head.wall_ms = taking.header.wall_ms
    head.state_hash = taking.state_hash
    head.feature_level = taking.header.feature_level
    head.membership_index = taking.header.membership_index
    head.membership_length = taking.header.membership_length
    head.membership = taking.membership.data


# A member whose log lacks room waits for nobody.
cdef uint32_t _turn(Engine* engine) noexcept nogil:
    if engine.room.free_bytes < 2 * engine.config.snapshot_log_bytes:
        return 0
    return <uint32_t>max(0, membership_position(core_membership(engine.core), engine.id))


# Nothing of the dump is the loop's from here on, and the applier goes on.
cdef status_t _hand_over(Engine* engine) noexcept nogil:
    cdef Snapshots* snapshots = &engine.snapshots
    cdef CheckpointHead head
    cdef status_t status
    if engine.checkpoints.self == NULL or snapshots.file_is_wanted:
        snapshots.taking_state = TAKING_FILE
        return _submit_step(engine)
    _fill_head(&snapshots.taking, &head)
    if head.point.index != engine.applying.applied:
        return broken(&engine.promises.broken, BROKEN_CHECKPOINT_POINT, head.point.index, engine.applying.applied)
    head.turn = _turn(engine)
    status = engine.checkpoints.take(engine.checkpoints.self, &head, engine.machine, &snapshots.taking.dump)
    snapshots.taking_state = TAKING_CHECKPOINT
    return OK if status == OK else _end_taking(engine, status)


cdef status_t _submit_step(Engine* engine) noexcept nogil:
    cdef DiskJob* job = disk_job_create(JOB_TAKE)
    if job == NULL:
        return NO_MEMORY
    job.taking = &engine.snapshots.taking
    return snapshots_submit(engine, job)


cdef status_t snapshots_submit(Engine* engine, DiskJob* job) noexcept nogil:
    if job == NULL:
        return NO_MEMORY
    promises_submit(engine, job)
    return OK


# Ended, well or not. After a failure the next point is the next try.
cdef status_t _end_taking(Engine* engine, status_t status) noexcept nogil:
    cdef Snapshots* snapshots = &engine.snapshots
    cdef SnapshotFile file = snapshots.taking.file
    machine_dump_end(engine.machine, &snapshots.taking.dump)
    take_release(&snapshots.taking)
    snapshots.taking_state = TAKING_NOTHING
    if status != OK:
        engine.callers.event(engine.callers.self, EVENT_SNAPSHOT_FAILED, file.point.index, status, 0)
        if status == NO_SPACE:
            mark(MARK_SNAPSHOT_WITHOUT_ROOM)
            return _make_room(engine)
        return status if is_fatal(status) else OK
    engine.counters.snapshots_taken += 1
    engine.callers.event(engine.callers.self, EVENT_SNAPSHOT_TAKEN, file.point.index, file.size_bytes, file.hash.low)
    if file.size_bytes != 0:
        snapshots.file_is_wanted = False
        status = snapshots_add_file(engine, &file)
    if status != OK:
        return status
    return snapshots_durable(engine, file.point.index)


cdef status_t snapshots_taken(Engine* engine, DiskJob* job) noexcept nogil:
    cdef status_t status = job.status
    if status == OK and not engine.snapshots.taking.is_done:
        return snapshots_submit(engine, job)
    disk_job_destroy(job)
    return _end_taking(engine, status)


cdef status_t _poll_checkpoint(Engine* engine) noexcept nogil:
    cdef status_t status = engine.checkpoints.poll(engine.checkpoints.self)
    return OK if status == NOT_READY else _end_taking(engine, status)


# --- keeping ----------------------------------------------------------------------------------------------------------
cdef status_t snapshots_add_file(Engine* engine, const SnapshotFile* file) noexcept nogil:
    cdef Snapshots* snapshots = &engine.snapshots
    cdef size_t i
    for i in range(snapshots.files.size):
        if snapshots.files.data[i].point.index == file.point.index:
            return OK       # it was made here as well: the same bytes under the same name
    if snapshots.files.size != 0 and snapshots.files.back().point.index > file.point.index:
        mark(MARK_OLDER_FILE_RECEIVED)
        return _remove(engine, file)
    return OK if snapshots.files.push(file[0]) else NO_MEMORY


cdef bint snapshots_have_use(const Snapshots* snapshots) noexcept nogil:
    cdef size_t count = snapshots.files.size
    return count != 0 and snapshots.files.data[count - 1].point.index >= snapshots.compacted


# A restart would pass it over: until there is another, the copy before it counts as the newest.
cdef status_t snapshots_drop_file(Engine* engine, const SnapshotFile* file, status_t status) noexcept nogil:
    cdef Snapshots* snapshots = &engine.snapshots
    cdef size_t count = snapshots.files.size
    cdef size_t i, kept = 0
    for i in range(count):
        if not is_same_file(&snapshots.files.data[i], file):
            snapshots.files.data[kept] = snapshots.files.data[i]
            kept += 1
    if kept == count:
        return OK           # it went meanwhile
    snapshots.files.size = kept
    engine.callers.event(engine.callers.self, EVENT_SNAPSHOT_DAMAGED, file.point.index, status, 0)
    if snapshots.checkpointed == file.point.index:
        snapshots.checkpointed = snapshots.checkpointed_before
    snapshots.file_is_wanted = snapshots.file_is_wanted or not snapshots_have_use(snapshots)
    return _remove(engine, file)


cdef status_t snapshots_durable(Engine* engine, index_t index) noexcept nogil:
    if index > engine.snapshots.checkpointed:
        engine.snapshots.checkpointed_before = engine.snapshots.checkpointed
        engine.snapshots.checkpointed = index
    return _let_go(engine)


# Is a member fetching a file, and does the log have room to wait for it?
cdef bint _is_lending(const Engine* engine) noexcept nogil:
    cdef uint64_t patience = LENT_TIMEOUTS * <uint64_t>engine.config.core.election_timeout_ticks
    return (engine.snapshots.lent != 0 and engine.ticks - engine.snapshots.lent_tick < patience
            and engine.room.free_bytes > 2 * engine.config.snapshot_log_bytes)


# Files that nobody needs, then the log behind them. The order at the disk is that of the jobs.
cdef status_t _let_go(Engine* engine) noexcept nogil:
    cdef Snapshots* snapshots = &engine.snapshots
    cdef index_t floor
    cdef bint is_lending = _is_lending(engine)
    cdef status_t status = OK
    if buggify(BUGGIFY_LOG_CUT_EARLY):
        snapshots.checkpointed_before = snapshots.checkpointed
    floor = snapshots.checkpointed_before
    if is_lending:
        mark(MARK_FILE_LENT)
        floor = min(floor, snapshots.lent)
    if snapshots.checkpointed != 0:
        status = core_compacted(engine.core, snapshots.checkpointed, floor)
    if status == OK and floor > snapshots.compacted:
        status = _compact_log(engine, floor)
    while status == OK and _oldest_may_go(snapshots, is_lending):
        status = _remove_oldest(engine)
    return status


cdef bint _oldest_may_go(const Snapshots* snapshots, bint is_lending) noexcept nogil:
    cdef index_t oldest = snapshots.files.data[0].point.index if snapshots.files.size != 0 else 0
    if oldest == 0 or is_lending and oldest >= snapshots.lent:
        return False
    return snapshots.files.size > FILES_KEPT or oldest < snapshots.compacted


cdef status_t _compact_log(Engine* engine, index_t floor) noexcept nogil:
    cdef DiskJob* job = disk_job_create(JOB_COMPACT)
    if job == NULL:
        return NO_MEMORY
    job.point.index = engine.snapshots.compacted = floor
    engine.callers.event(engine.callers.self, EVENT_LOG_COMPACTED, floor, 0, 0)
    return snapshots_submit(engine, job)


cdef status_t _remove(Engine* engine, const SnapshotFile* file) noexcept nogil:
    cdef DiskJob* job = disk_job_create(JOB_REMOVE)
    if job == NULL:
        return NO_MEMORY
    job.file = file[0]
    return snapshots_submit(engine, job)


cdef status_t _remove_oldest(Engine* engine) noexcept nogil:
    cdef SnapshotFile oldest = engine.snapshots.files.data[0]
    engine.snapshots.files.drop_front(1)
    mark(MARK_OLD_FILE_REMOVED)
    return _remove(engine, &oldest)


# The disk is full: of what is kept for comfort, nothing stays but the newest copy and the log behind it.
cdef status_t _make_room(Engine* engine) noexcept nogil:
    cdef Snapshots* snapshots = &engine.snapshots
    cdef status_t status = OK
    snapshots.lent = 0
    snapshots.checkpointed_before = snapshots.checkpointed
    while status == OK and snapshots.files.size != 0 and snapshots.files.data[0].point.index < snapshots.checkpointed:
        status = _remove_oldest(engine)
    return status if status != OK else _let_go(engine)


# --- turns ------------------------------------------------------------------------------------------------------------
# Nobody can be in the state before an install any more: its memory goes. On the disk's thread: it takes long.
cdef status_t _retire(Engine* engine) noexcept nogil:
    cdef DiskJob* job
    if engine.snapshots.retired == NULL or not engine.callers.readers_left(engine.callers.self):
        return OK
    job = disk_job_create(JOB_RETIRE)
    if job == NULL:
        return NO_MEMORY
    job.machine = engine.snapshots.retired
    engine.snapshots.retired = NULL
    return snapshots_submit(engine, job)


cdef status_t snapshots_run(Engine* engine, bint* more) noexcept nogil:
    cdef Snapshots* snapshots = &engine.snapshots
    cdef status_t status = _retire(engine)
    if (status == OK and snapshots.file_is_wanted and not engine.applying.is_partial
            and not engine.applying.must_publish):
        _want(engine)
    if not snapshots_hold_apply(engine):
        return status
    more[0] = True
    if status == OK and snapshots.taking_state == TAKING_DUE:
        status = _begin(engine)
    return _prepare(engine) if status == OK else status


cdef status_t snapshots_tick(Engine* engine) noexcept nogil:
    cdef status_t status = OK
    if engine.snapshots.taking_state == TAKING_CHECKPOINT:
        status = _poll_checkpoint(engine)
    elif engine.checkpoints.self != NULL:
        engine.checkpoints.tick(engine.checkpoints.self)
    if status == OK and engine.machine != NULL and not engine.applying.is_partial and not engine.applying.must_publish:
        # The pieces of the last checkpoint are given back in slices, also where nothing is applied any more.
        status = machine_publish(engine.machine)
    if status != OK or engine.ticks % engine.config.core.election_timeout_ticks != 0:
        return status
    if engine.room.free_bytes < engine.config.core.free_bytes_min and engine.snapshots.checkpointed != 0:
        return _make_room(engine)
    return _let_go(engine)


cdef void snapshots_release(Engine* engine) noexcept nogil:
    cdef Snapshots* snapshots = &engine.snapshots
    if engine.machine != NULL:
        machine_dump_end(engine.machine, &snapshots.taking.dump)
    take_release(&snapshots.taking)
    receive_release(&snapshots.receiving, &engine.disk)
    check_release(&snapshots.checking)
    machine_destroy(snapshots.retired)
    snapshots.membership.release()
    snapshots.files.release()
    memset(<void*>snapshots, 0, sizeof(Snapshots))
