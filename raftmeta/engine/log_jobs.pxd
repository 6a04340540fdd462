# Writes and new beginnings of the log: the order in which the write thread does them, also over a full disk.
from raftmeta.engine.disk_jobs cimport DiskJob
from raftmeta.engine.state cimport Engine, Room
from raftmeta.status cimport status_t

# Takes the job (JOB_WRITE, JOB_BEGIN_LOG). All others go to engine.jobs.
cdef void log_jobs_submit(Engine* engine, DiskJob* job) noexcept nogil
# It came back; True: it found no room, and waits for its next try. Else the caller has it.
cdef bint log_jobs_refused(Engine* engine, DiskJob* job, status_t* status) noexcept nogil
# Once per tick.
cdef void log_jobs_tick(Engine* engine) noexcept nogil
# A new log begins behind an installed snapshot; writes that wait for room keep their term and vote, not their records.
cdef void log_jobs_begin_anew(Room* room) noexcept nogil
# A write that found no room is to be tried again: what it carries of a log that is gone is left out.
cdef void log_jobs_strip(const Room* room, DiskJob* job) noexcept nogil
cdef void log_jobs_release(Room* room) noexcept nogil
