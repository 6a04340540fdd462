# The thread that owns a node's log: it takes all jobs that wait, does them, hands them back and rings the loop once.
from libc.stdint cimport uint32_t

from raftmeta.engine.disk_jobs cimport DiskJob
from raftmeta.engine.job_order cimport BackgroundJobs
from raftmeta.native.threads cimport Handoff, pthread_t
from raftmeta.status cimport status_t
from raftmeta.storage.wal_state cimport Wal

cdef struct WriteThread:
    Handoff[DiskJob] asked
    Handoff[DiskJob]* done          # the loop's
    void* loop
    void (*ring_loop)(void* loop) noexcept nogil
    Wal* wal                        # the thread's own while it runs, as is
    BackgroundJobs background
    void* identity
    uint32_t bell                   # counts; the thread sleeps on it
    uint32_t is_asleep
    uint32_t is_closing
    uint32_t is_aborted             # jobs that were not begun stay in `asked`
    bint is_running
    pthread_t thread

cdef status_t write_thread_start(WriteThread* writer) noexcept nogil    # NO_MEMORY: no thread could be started
# The loop: queue one job; the thread looks when it is rung.
cdef void write_thread_submit(WriteThread* writer, DiskJob* job) noexcept nogil
cdef void write_thread_ring(WriteThread* writer) noexcept nogil
# Before write_thread_stop: as if the process had been killed.
cdef void write_thread_abort(WriteThread* writer) noexcept nogil
# Jobs that were asked for are still done. False: the disk did not answer in time and the thread goes on.
cdef bint write_thread_stop(WriteThread* writer, unsigned long long timeout_ns) noexcept nogil
