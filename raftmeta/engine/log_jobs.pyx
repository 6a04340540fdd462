"""Writes and new beginnings of the log, in the order in which the engine asked for them, also over a full disk.

What it decides: when a job that found no room is tried again. What it never does: change the order of two jobs, or look
into one. The write thread refuses all jobs behind a refused one (raftmeta/engine/disk_jobs), so that jobs come back in
the order in which they went. The order would be lost if some were tried again while others are under way:
    1. a write finds no room and waits; the beginning of a new log is submitted behind it,
    2. the write is tried again, and waits for the write thread; nothing is known to be refused now,
    3. the beginning comes back, refused because of 1, and waits; then the write comes back, refused anew, behind it,
    4. from then on the beginning is refused because the write must be first, and the write because it stands behind the
       beginning. Both wait for ever, however much room there is.
So nothing is tried again before everything has come back.
"""

from raftmeta.engine.disk_jobs cimport DiskJob, disk_job_destroy
from raftmeta.engine.promises cimport promises_submit
from raftmeta.engine.state cimport BLOCKED_RETRY_TICKS, Engine, PendingJob
from raftmeta.status cimport NO_MEMORY, NO_SPACE, OK, status_t


cdef void log_jobs_submit(Engine* engine, DiskJob* job) noexcept nogil:
    engine.log_jobs_under_way += 1
    promises_submit(engine, job)


cdef bint log_jobs_refused(Engine* engine, DiskJob* job, status_t* status) noexcept nogil:
    cdef PendingJob pending
    engine.log_jobs_under_way -= 1
    status[0] = job.status
    if job.status != NO_SPACE:
        return False
    engine.blocked_tick = engine.ticks
    pending.job = job
    if not engine.blocked.push(pending):
        status[0] = NO_MEMORY
        return False
    status[0] = OK
    return True


cdef void log_jobs_tick(Engine* engine) noexcept nogil:
    if (engine.blocked.size == 0 or engine.log_jobs_under_way != 0
            or engine.ticks - engine.blocked_tick < BLOCKED_RETRY_TICKS):
        return
    while engine.blocked.size != 0:
        engine.blocked.front().job.next = NULL
        log_jobs_submit(engine, engine.blocked.front().job)
        engine.blocked.pop_front()


cdef void log_jobs_release(Engine* engine) noexcept nogil:
    while engine.blocked.size != 0:
        disk_job_destroy(engine.blocked.front().job)
        engine.blocked.pop_front()
    engine.blocked.release()
