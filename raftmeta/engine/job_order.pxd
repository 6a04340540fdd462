# In which order a node's disk does its jobs: those of the log as they came, all that wait as one batch; those of the
# background (DiskJob.is_background) in an order of their own, one step after a batch. The write thread asks it, and the
# simulated disk: a job is overtaken in a world just as it may be in production.
from raftmeta.engine.disk_jobs cimport DiskJob

# Jobs that wait for those of the log; zeroed: none.
cdef struct BackgroundJobs:
    DiskJob* first
    DiskJob* last

# Of the jobs that have come (linked by next) those of the background go to its end; what is left is the next batch.
cdef DiskJob* order_arrived(BackgroundJobs* background, DiskJob* arrived) noexcept nogil
# The next step of the background, to be done after the batch was handed back; NULL: none waits.
cdef DiskJob* order_background(BackgroundJobs* background) noexcept nogil
