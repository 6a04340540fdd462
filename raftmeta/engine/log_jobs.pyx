"""Writes and new beginnings of the log, in the order in which the engine asked for them, also over a full disk.

It decides when a job that found no room is tried again. It must never change the order of two jobs, or look
into one. The write thread refuses all jobs behind a refused one (raftmeta/engine/disk_jobs), so that jobs come back in
the order in which they went. The order would be lost if some were tried again while others are under way:
    1. a write finds no room and waits; the beginning of a new log is submitted behind it,
    2. the write is tried again, and waits for the write thread; nothing is known to be refused now,
    3. the beginning comes back, refused because of 1, and waits; then the write comes back, refused anew, behind it,
    4. from then on the beginning is refused because the write must be first, and the write because it stands behind the
       beginning. Both wait for ever, however much room there is.
So nothing is tried again before everything has come back.
"""

from raftmeta.engine.disk_jobs cimport JOB_WRITE, DiskJob, disk_job_destroy
from raftmeta.engine.invariants cimport BROKEN_ROOM_JOBS
from raftmeta.engine.promises cimport promises_submit
from raftmeta.engine.state cimport BLOCKED_RETRY_TICKS, Engine, PendingJob, Room
from raftmeta.native.invariants cimport broken
from raftmeta.native.marks cimport MARK_BLOCKED_WRITE_STRIPPED, mark
from raftmeta.status cimport NO_MEMORY, NO_SPACE, OK, status_t


cdef void log_jobs_submit(Engine* engine, DiskJob* job) noexcept nogil:
    engine.room.jobs_under_way += 1
    promises_submit(engine, job)


cdef bint log_jobs_refused(Engine* engine, DiskJob* job, status_t* status) noexcept nogil:
    cdef PendingJob pending
    if engine.room.jobs_under_way == 0:
        status[0] = broken(&engine.promises.broken, BROKEN_ROOM_JOBS, job.kind, 0)
        return False
    engine.room.jobs_under_way -= 1
    status[0] = job.status
    if job.status != NO_SPACE:
        return False
    engine.room.blocked_tick = engine.ticks
    pending.job = job
    if not engine.room.blocked.push(pending):
        status[0] = NO_MEMORY
        return False
    status[0] = OK
    return True


cdef void log_jobs_tick(Engine* engine) noexcept nogil:
    if (engine.room.blocked.size == 0 or engine.room.jobs_under_way != 0
            or engine.ticks - engine.room.blocked_tick < BLOCKED_RETRY_TICKS):
        return
    while engine.room.blocked.size != 0:
        engine.room.blocked.front().job.next = NULL
        log_jobs_submit(engine, engine.room.blocked.front().job)
        engine.room.blocked.pop_front()


# A write that found no room: its records belong to the log that is gone, its term and vote do not.
cdef void _strip(DiskJob* job) noexcept nogil:
    job.slices.clear()
    job.batch.slices = NULL
    job.batch.slice_count = 0
    job.batch.first = 1
    job.batch.last = 0
    job.batch.repairs = False
    job.batch.membership_length = 0


cdef void log_jobs_begin_anew(Room* room) noexcept nogil:
    cdef DiskJob* blocked
    cdef size_t i
    room.log_epoch += 1
    for i in range(room.blocked.size):
        blocked = room.blocked.at(i).job
        if blocked.kind == JOB_WRITE:
            mark(MARK_BLOCKED_WRITE_STRIPPED)
            _strip(blocked)
            blocked.log_epoch = room.log_epoch


cdef void log_jobs_strip(const Room* room, DiskJob* job) noexcept nogil:
    if job.log_epoch != room.log_epoch:
        _strip(job)
        job.log_epoch = room.log_epoch


cdef void log_jobs_release(Room* room) noexcept nogil:
    while room.blocked.size != 0:
        disk_job_destroy(room.blocked.front().job)
        room.blocked.pop_front()
    room.blocked.release()
