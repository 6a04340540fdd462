"""Blocking work of a node, done in order by the thread that owns its log.

It decides nothing but what follows from a failure: a write behind a failed one is not tried. It must never
change the order of jobs, retry, or touch a job before it has it or after it gave it back. Entries that come while a
write is under way are the core's next write, and so one sync carries them all (thesis 10.2.1).
"""

from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from raftmeta.engine.disk_jobs cimport (JOB_ABANDON, JOB_BEGIN_LOG, JOB_CHECK, JOB_COMPACT, JOB_IDENTITY, JOB_LOAD,
                                        JOB_LOOK, JOB_PIECE, JOB_READ, JOB_RECEIVE, JOB_REMOVE, JOB_TAKE, JOB_WRITE,
                                        DiskJob, DiskJobKind)
from raftmeta.engine.snapshots.files cimport (check_step, read_piece, receive_abandon, receive_piece, receive_step,
                                              remove_sealed, take_step)
from raftmeta.machine.machine cimport machine_destroy
from raftmeta.raft.genesis cimport FOUNDED, JOINING, GenesisRecord
from raftmeta.raft.membership cimport membership_encode
from raftmeta.raft.types cimport HardState, SnapshotPoint
from raftmeta.status cimport INVARIANT_BROKEN, NO_SPACE, OK, status_t
from raftmeta.storage.identity cimport Identity, identity_set_genesis
from raftmeta.storage.wal cimport wal_append, wal_begin, wal_compact, wal_free_bytes, wal_read, wal_used_bytes
from raftmeta.storage.wal_state cimport Wal

cdef DiskJob* disk_job_create(DiskJobKind kind) noexcept nogil:
    cdef DiskJob* job = <DiskJob*>malloc(sizeof(DiskJob))
    if job != NULL:
        memset(job, 0, <size_t>(<uint8_t*>&job.genesis - <uint8_t*>job))
        if kind == JOB_IDENTITY:
            memset(&job.genesis, 0, sizeof(GenesisRecord))
        job.kind = kind
        job.is_background = kind >= JOB_TAKE
    return job


cdef void disk_job_destroy(DiskJob* job) noexcept nogil:
    job.slices.release()
    job.membership.release()
    machine_destroy(job.machine)
    free(job)


# The log begins before the identity says FOUNDED (raftmeta/engine/boot says why).
#
# A joining node's log begins empty; when it turns from JOINING to FOUNDED its log is in use already.
cdef status_t _persist_genesis(Wal* wal, Identity* identity, DiskJob* job) noexcept nogil:
    cdef SnapshotPoint beginning
    cdef HardState hard_state
    cdef status_t status = OK
    memset(&beginning, 0, sizeof(SnapshotPoint))
    memset(&hard_state, 0, sizeof(HardState))
    if job.genesis.state == FOUNDED and job.genesis.membership.count != 0:
        status = membership_encode(&job.genesis.membership, &job.membership)
    if status == OK and (job.membership.size != 0 or job.genesis.state == JOINING):
        status = wal_begin(wal, &beginning, &hard_state, job.membership.data, <uint32_t>job.membership.size, 0)
    if status == OK:
        status = identity_set_genesis(identity, &job.genesis)
    return status


# Term and vote go on as the log has them: what the core changed since comes with its next write.
cdef status_t _begin_log(Wal* wal, const DiskJob* job) noexcept nogil:
    cdef HardState hard_state = wal.hard_state
    return wal_begin(wal, &job.point, &hard_state, job.membership.data, <uint32_t>job.membership.size,
                     job.membership_index)


cdef status_t _run_snapshot(Wal* wal, DiskJob* job) noexcept nogil:
    if job.kind == JOB_REMOVE:
        return remove_sealed(wal.disk, job.file.point.index)
    if job.kind == JOB_TAKE:
        return take_step(job.taking, wal.disk)
    if job.kind == JOB_PIECE:
        return read_piece(wal.disk, &job.file, job.offset, job.bytes_max, &job.records)
    if job.kind == JOB_RECEIVE:
        return receive_piece(job.receiving, wal.disk, job.offset, &job.records)
    if job.kind == JOB_LOAD:
        return receive_step(job.receiving, wal.disk, job.limits)
    if job.kind == JOB_ABANDON:
        return receive_abandon(job.receiving, wal.disk)
    if job.kind == JOB_CHECK:
        return check_step(job.checking, wal.disk)
    machine_destroy(job.machine)
    job.machine = NULL
    return OK


# How a write would overtake the beginning of its own log:
#     1. the log is to begin behind a snapshot, and there is no room for its first segment; the engine is told so,
#     2. meanwhile it has submitted a write of what follows the snapshot,
#     3. there is room again: the write is done before the log has begun.
# So whoever was refused for want of room keeps its place, until it comes again.
cdef status_t _run_in_order(Wal* wal, DiskJob* job, status_t failed) noexcept nogil:
    if failed == OK and wal.refused != NULL and wal.refused != <void*>job:
        failed = NO_SPACE
    if failed != OK:
        return failed
    failed = wal_append(wal, &job.batch) if job.kind == JOB_WRITE else _begin_log(wal, job)
    wal.refused = <void*>job if failed == NO_SPACE else NULL
    return failed


# The log or the sealed file that did the job kept the belief that fell.
cdef void _take_broken(const Wal* wal, DiskJob* job) noexcept nogil:
    job.broken = wal.broken
    if job.broken.what == 0 and job.taking != NULL:
        job.broken = job.taking.writer.broken
    if job.broken.what == 0 and job.receiving != NULL:
        job.broken = job.receiving.loading.reader.broken
    if job.broken.what == 0 and job.checking != NULL:
        job.broken = job.checking.reader.broken


cdef void disk_jobs_run(Wal* wal, void* identity, DiskJob* first) noexcept nogil:
    cdef DiskJob* job = first
    cdef status_t failed = OK       # of an earlier write: those behind it must not overtake it
    while job != NULL:
        if job.kind == JOB_WRITE or job.kind == JOB_BEGIN_LOG:
            failed = _run_in_order(wal, job, failed)
            job.status = failed
        elif job.kind == JOB_READ:
            job.status = wal_read(wal, job.first, job.bytes_max, &job.records)
        elif job.kind == JOB_IDENTITY:
            job.status = _persist_genesis(wal, <Identity*>identity, job)
        elif job.kind == JOB_COMPACT:
            job.status = wal_compact(wal, &job.point)
        elif job.kind == JOB_LOOK:
            job.status = OK
        else:
            job.status = _run_snapshot(wal, job)
        if job.status == INVARIANT_BROKEN:
            _take_broken(wal, job)
        job.free_bytes = wal_free_bytes(wal)
        job.log_bytes = wal_used_bytes(wal)
        job = job.next
