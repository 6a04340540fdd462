"""Blocking work of a node, done in order by the thread that owns its log.

What it decides: nothing but what follows from a failure: a write behind a failed one is not tried. What it never does:
change the order of jobs, retry, or touch a job before it has it or after it gave it back. Entries that come while a
write is under way are the core's next write, and so one sync carries them all (thesis 10.2.1).
"""

from libc.stdint cimport uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from raftmeta.raft.genesis cimport FOUNDED, JOINING
from raftmeta.raft.membership cimport membership_encode
from raftmeta.raft.types cimport HardState, SnapshotPoint
from raftmeta.runtime.disk_jobs cimport JOB_IDENTITY, JOB_READ, JOB_WRITE, DiskJob, DiskJobKind
from raftmeta.status cimport OK, status_t
from raftmeta.storage.identity cimport Identity, identity_set_genesis
from raftmeta.storage.wal cimport wal_append, wal_begin, wal_free_bytes, wal_read, wal_used_bytes
from raftmeta.storage.wal_state cimport Wal

cdef DiskJob* disk_job_create(DiskJobKind kind) noexcept nogil:
    cdef DiskJob* job = <DiskJob*> calloc(1, sizeof(DiskJob))
    if job != NULL:
        job.kind = kind
    return job


cdef void disk_job_destroy(DiskJob* job) noexcept nogil:
    job.slices.release()
    job.membership.release()
    free(job)


cdef status_t _persist_genesis(Wal* wal, Identity* identity, DiskJob* job) noexcept nogil:
    """The log begins before the identity says FOUNDED (raftmeta/runtime/boot says why).

    A joining node's log begins empty; when it turns from JOINING to FOUNDED its log is in use already.
    """
    cdef SnapshotPoint beginning
    cdef HardState hard_state
    cdef status_t status = OK
    memset(&beginning, 0, sizeof(SnapshotPoint))
    memset(&hard_state, 0, sizeof(HardState))
    if job.genesis.state == FOUNDED and job.genesis.membership.count != 0:
        status = membership_encode(&job.genesis.membership, &job.membership)
    if status == OK and (job.membership.size != 0 or job.genesis.state == JOINING):
        status = wal_begin(wal, &beginning, &hard_state, job.membership.data, <uint32_t> job.membership.size, 0)
    if status == OK:
        status = identity_set_genesis(identity, &job.genesis)
    return status


cdef void disk_jobs_run(Wal* wal, void* identity, DiskJob* first) noexcept nogil:
    cdef DiskJob* job = first
    cdef status_t failed = OK       # of an earlier write: those behind it must not overtake it
    while job != NULL:
        if job.kind == JOB_WRITE:
            if failed == OK:
                failed = wal_append(wal, &job.batch)
            job.status = failed
        elif job.kind == JOB_READ:
            job.status = wal_read(wal, job.first, job.bytes_max, &job.records)
        elif job.kind == JOB_IDENTITY:
            job.status = _persist_genesis(wal, <Identity*> identity, job)
        job.free_bytes = wal_free_bytes(wal)
        job.log_bytes = wal_used_bytes(wal)
        job = job.next
