"""The installation of a snapshot that was received.

It decides whether the log is kept. It must never begin before the file is whole, checked, loaded into a
state of its own and durable under its name; leave a moment in which a crash finds neither state.

    1. the file is durable under its name          a crash from here on: engine/snapshots/restore finishes what is below
    2. core_snapshot_installed                     the core goes on behind the point; what it says of it is true since 1
    3. JOB_BEGIN_LOG, unless the log goes on       ahead of all writes that come now: jobs are done in order
    4. the state is exchanged, in one step         readers of other threads see the one or the other
    5. callers, leases, watches, copies            are told from the new state what they waited for in the old one
"""

from libc.string cimport memset

from raftmeta._core cimport LEADER, core_set_clocks, core_snapshot_installed
from raftmeta.engine.applier cimport applier_begin
from raftmeta.engine.callers cimport callers_answer, callers_installed, callers_serve_reads
from raftmeta.engine.disk_jobs cimport JOB_BEGIN_LOG, DiskJob, disk_job_create
from raftmeta.engine.housekeeping cimport housekeeping_installed
from raftmeta.engine.invariants cimport BROKEN_INSTALLED_OTHER
from raftmeta.engine.log_jobs cimport log_jobs_begin_anew, log_jobs_submit
from raftmeta.engine.snapshots.files cimport Receiving
from raftmeta.engine.snapshots.state cimport RECEIVING_LOADED, RECEIVING_NOTHING, TAKING_NOTHING, Snapshots
from raftmeta.engine.snapshots.taking cimport snapshots_add_file, snapshots_durable
from raftmeta.engine.state cimport EVENT_SNAPSHOT_INSTALLED
from raftmeta.engine.user_fetches cimport user_fetches_answer
from raftmeta.machine.machine cimport MachineStatus, machine_destroy, machine_status
from raftmeta.machine.watches cimport hub_show
from raftmeta.native.buggify cimport BUGGIFY_INSTALL_POSTPONED, buggify
from raftmeta.native.invariants cimport broken
from raftmeta.native.marks cimport MARK_INSTALLED, MARK_INSTALL_OVERTAKEN, mark
from raftmeta.raft.membership cimport membership_decode
from raftmeta.raft.types cimport Membership, index_t
from raftmeta.status cimport CORRUPT, NO_MEMORY, OK, STALE
from raftmeta.storage.sealed cimport SealedHeader, sealed_close


cdef status_t install_run(Engine* engine) noexcept nogil:
    cdef Snapshots* snapshots = &engine.snapshots
    cdef status_t status
    # A state that another thread still reads, for a file or for its callers, cannot go yet.
    if (snapshots.receiving_state != RECEIVING_LOADED or snapshots.taking_state != TAKING_NOTHING
            or snapshots.retired != NULL or buggify(BUGGIFY_INSTALL_POSTPONED)):
        return OK
    # Committed entries on their way to the disk would be forgotten with the log that begins anew (I9). In a moment
    # they are there, and the log goes on behind the point.
    if (engine.core_status.persisted < snapshots.receiving.file.point.index
            and engine.core_status.committed > snapshots.receiving.file.point.index):
        return OK
    if engine.applying.applied >= snapshots.receiving.file.point.index or engine.core_status.role == LEADER:
        mark(MARK_INSTALL_OVERTAKEN)
        status = STALE          # the log was faster
    else:
        status = _install(engine)
    if status == STALE:
        status = snapshots_add_file(engine, &snapshots.receiving.file)
        machine_destroy(snapshots.receiving.loading.machine)
    sealed_close(&snapshots.receiving.loading.reader)
    memset(<void*>&snapshots.receiving, 0, sizeof(Receiving))
    snapshots.receiving_state = RECEIVING_NOTHING
    return status


cdef status_t _install(Engine* engine) noexcept nogil:
    cdef Snapshots* snapshots = &engine.snapshots
    cdef SealedHeader* header = &snapshots.receiving.loading.reader.header
    cdef index_t before = engine.applying.applied
    cdef Membership membership
    cdef MachineStatus machine
    cdef bint begins = False
    cdef status_t status
    if (header.cluster_low != engine.cluster.low or header.cluster_high != engine.cluster.high
            or membership_decode(snapshots.receiving.loading.reader.membership.data, header.membership_length,
                                 &membership) != OK):
        return CORRUPT          # a member of this cluster gave it: the two do not have one history
    membership.index = header.membership_index
    status = core_snapshot_installed(engine.core, &header.point, &membership, &begins)
    if status != OK:
        return status
    machine_status(snapshots.receiving.loading.machine, &machine)
    if machine.applied != header.point.index:
        return broken(&engine.promises.broken, BROKEN_INSTALLED_OTHER, machine.applied, header.point.index)
    status = core_set_clocks(engine.core, machine.lease_ms, header.wall_ms)
    if status == OK and begins:
        status = _begin_log(engine)
    if status == OK:
        status = _follow_point(engine)
    if status == OK:
        status = _exchange_state(engine)
    if status != OK:
        return status
    mark(MARK_INSTALLED)
    engine.counters.snapshots_installed += 1
    engine.callers.event(engine.callers.self, EVENT_SNAPSHOT_INSTALLED, header.point.index, before, 0)
    return OK


# --- the log ----------------------------------------------------------------------------------------------------------
cdef status_t _begin_log(Engine* engine) noexcept nogil:
    cdef Receiving* receiving = &engine.snapshots.receiving
    cdef DiskJob* job = disk_job_create(JOB_BEGIN_LOG)
    if job == NULL:
        return NO_MEMORY
    job.point = receiving.file.point
    job.membership_index = receiving.loading.reader.header.membership_index
    if not job.membership.append(receiving.loading.reader.membership.data, receiving.loading.reader.membership.size):
        return NO_MEMORY
    log_jobs_begin_anew(&engine.room)
    log_jobs_submit(engine, job)
    return OK


# Points, membership and files are those of the member that took it.
cdef status_t _follow_point(Engine* engine) noexcept nogil:
    cdef Snapshots* snapshots = &engine.snapshots
    cdef SealedHeader* header = &snapshots.receiving.loading.reader.header
    cdef status_t status
    snapshots.point = header.point.index
    snapshots.log_bytes = 0
    snapshots.last = header.point
    snapshots.last_wall_ms = header.wall_ms
    snapshots.membership_index = header.membership_index
    snapshots.membership.clear()
    if not snapshots.membership.append(snapshots.receiving.loading.reader.membership.data, header.membership_length):
        return NO_MEMORY
    status = snapshots_add_file(engine, &snapshots.receiving.file)
    # The copies before it lead nowhere: the log that would go on from them may be gone.
    snapshots.checkpointed = snapshots.checkpointed_before = header.point.index
    return status if status != OK else snapshots_durable(engine, header.point.index)


# --- the state --------------------------------------------------------------------------------------------------------
cdef status_t _exchange_state(Engine* engine) noexcept nogil:
    cdef Snapshots* snapshots = &engine.snapshots
    cdef MachineStatus machine
    applier_begin(&engine.applying, snapshots.last.index)
    snapshots.retired = engine.machine
    engine.machine = snapshots.receiving.loading.machine
    snapshots.receiving.loading.machine = NULL
    if engine.checkpoints.self != NULL:
        engine.checkpoints.begin_from(engine.checkpoints.self, engine.machine, False)
    machine_status(engine.machine, &machine)
    hub_show(engine.hub, machine.revision)
    callers_answer(engine)          # of entries that were applied and not yet published
    callers_installed(engine)
    housekeeping_installed(engine)
    callers_serve_reads(engine)
    user_fetches_answer(engine)
    return OK
