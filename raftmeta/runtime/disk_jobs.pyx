"""Blocking work of a node, done in order by the thread that owns its log.

What it decides: which consecutive log writes become durable with one sync. What it never does: change the order of
jobs, retry a failed write, or touch a job before it has it or after it gave it back.
Source: thesis 10.2.1 (writing to the leader's disk in parallel), DESIGN "Log".
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from raftmeta.native.chunks cimport Slice
from raftmeta.native.containers cimport Vec
from raftmeta.raft.genesis cimport FOUNDED
from raftmeta.raft.membership cimport membership_encode
from raftmeta.raft.types cimport HardState, SnapshotPoint
from raftmeta.runtime.disk_jobs cimport JOB_COMPACT, JOB_IDENTITY, JOB_READ, JOB_WRITE, DiskJob, DiskJobKind
from raftmeta.status cimport NO_MEMORY, OK, status_t
from raftmeta.storage.identity cimport Identity, identity_set_genesis
from raftmeta.storage.wal cimport WalBatch, wal_append, wal_begin, wal_compact, wal_free_bytes, wal_read
from raftmeta.storage.wal_state cimport Wal

cdef enum:
    TUNE_GROUP_BYTES_MAX = 8 * 1024 * 1024  # of several writes made durable by one sync


cdef DiskJob* disk_job_create(DiskJobKind kind) noexcept nogil:
    cdef DiskJob* job = <DiskJob*> calloc(1, sizeof(DiskJob))
    if job != NULL:
        job.kind = kind
    return job


cdef void disk_job_destroy(DiskJob* job) noexcept nogil:
    job.slices.release()
    job.membership.release()
    free(job)


cdef bint _joins(const DiskJob* group_last, const DiskJob* job) noexcept nogil:
    """Whether job only appends directly after group_last, so that one batch can carry both."""
    if job == NULL or job.kind != JOB_WRITE or job.batch.is_urgent != group_last.batch.is_urgent:
        return False
    if group_last.batch.first > group_last.batch.last:      # only a hard state before: anything may follow
        return job.batch.first > job.batch.last
    return job.batch.first > job.batch.last or job.batch.first == group_last.batch.last + 1


cdef uint64_t _bytes_of(const DiskJob* job) noexcept nogil:
    cdef uint64_t total = 0
    cdef uint32_t i
    for i in range(job.batch.slice_count):
        total += job.batch.slices[i].length
    return total


cdef DiskJob* _write_group(Wal* wal, DiskJob* first, Vec[Slice]* slices) noexcept nogil:
    """Make first and the writes that join it durable with one sync; return the first job that is not of the group."""
    cdef WalBatch group = first.batch
    cdef DiskJob* last = first
    cdef DiskJob* job
    cdef uint64_t total = _bytes_of(first)
    cdef status_t status = OK
    slices.clear()
    if not slices.append(first.batch.slices, first.batch.slice_count):
        status = NO_MEMORY
    while status == OK and _joins(last, last.next):
        job = last.next
        total += _bytes_of(job)
        if total > TUNE_GROUP_BYTES_MAX:
            break
        if not slices.append(job.batch.slices, job.batch.slice_count):
            status = NO_MEMORY
            break
        group.write_id = job.batch.write_id
        if job.batch.first <= job.batch.last:
            group.last = job.batch.last
        if job.batch.has_hard_state:
            group.has_hard_state = True
            group.hard_state = job.batch.hard_state
        if job.batch.membership_length != 0:
            group.membership = job.batch.membership
            group.membership_length = job.batch.membership_length
            group.membership_index = job.batch.membership_index
        last = job
    group.slices = slices.data
    group.slice_count = <uint32_t> slices.size
    if status == OK:
        status = wal_append(wal, &group)
    job = first
    while True:
        job.status = status
        if job == last:
            return last.next
        job = job.next


cdef status_t _persist_genesis(Wal* wal, Identity* identity, DiskJob* job) noexcept nogil:
    """The log begins before the identity says FOUNDED (raftmeta/runtime/boot says why)."""
    cdef SnapshotPoint beginning
    cdef HardState hard_state
    cdef status_t status = OK
    memset(&beginning, 0, sizeof(SnapshotPoint))
    memset(&hard_state, 0, sizeof(HardState))
    if job.genesis.state == FOUNDED:
        status = membership_encode(&job.genesis.membership, &job.membership)
        if status == OK:
            status = wal_begin(wal, &beginning, &hard_state, job.membership.data, <uint32_t> job.membership.size, 0)
    if status == OK:
        status = identity_set_genesis(identity, &job.genesis)
    return status


cdef void disk_jobs_run(Wal* wal, void* identity, DiskJob* first) noexcept nogil:
    cdef DiskJob* job = first
    cdef DiskJob* group_end
    cdef Vec[Slice] slices
    cdef status_t failed = OK       # of an earlier write: those behind it must not overtake it
    slices.data = NULL
    slices.size = slices.capacity = 0
    while job != NULL:
        if job.kind == JOB_WRITE and failed != OK:
            job.status = failed
            job = job.next
        elif job.kind == JOB_WRITE:
            group_end = _write_group(wal, job, &slices)
            failed = job.status
            job = group_end
        else:
            if job.kind == JOB_READ:
                job.status = wal_read(wal, job.first, job.bytes_max, &job.records)
            elif job.kind == JOB_COMPACT:
                job.status = wal_compact(wal, &job.point)
            elif job.kind == JOB_IDENTITY:
                job.status = _persist_genesis(wal, <Identity*> identity, job)
            job = job.next
    slices.release()
    job = first
    while job != NULL:
        job.free_bytes = wal_free_bytes(wal)
        job = job.next
