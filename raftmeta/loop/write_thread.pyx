"""The write thread of a node.

It decides when the disk is idle enough to prepare the next segment. It must never do jobs in another order
than engine/job_order says, look at what they carry, or wake the loop more than once for one batch.
"""

from libc.stdint cimport uint32_t, uint64_t

from raftmeta.engine.disk_jobs cimport DiskJob, disk_jobs_run
from raftmeta.engine.job_order cimport order_arrived, order_background
from raftmeta.native.atomics cimport add_shared, exchange_shared, load_shared, store_shared
from raftmeta.native.threads cimport futex_wait, futex_wake, thread_join, thread_start
from raftmeta.status cimport NO_MEMORY, OK, status_t
from raftmeta.storage.wal cimport wal_idle, wal_prepare

cdef enum:
    TUNE_PREPARE_BYTES = 256 * 1024     # of the next segment in one step: a batch waits at most for that
    TUNE_REST_S = 1                     # after so long without work the mark is made durable
    IDLE_PAUSE_S = 60                   # the bell always rings in between


# Oldest first, as the loop will take them.
cdef void _hand_back(WriteThread* writer, DiskJob* first) noexcept nogil:
    cdef DiskJob* job = first
    cdef DiskJob* next
    while job != NULL:
        next = job.next
        writer.done.push(job)
        job = next
    writer.ring_loop(writer.loop)


# One step: whatever the log has to write meanwhile waits no longer than that.
cdef void _run_background(WriteThread* writer) noexcept nogil:
    cdef DiskJob* job = order_background(&writer.background)
    disk_jobs_run(writer.wal, writer.identity, job)
    _hand_back(writer, job)


cdef inline bint _may_sleep(WriteThread* writer, uint32_t seen) noexcept nogil:
    return (load_shared(&writer.bell) == seen and writer.asked.is_empty()
            and not load_shared(&writer.is_closing))


cdef void _sleep(WriteThread* writer, uint32_t seen) noexcept nogil:
    # 1. say is_asleep, 2. look once more; a submitter 3. pushes, 4. looks at is_asleep and rings. In each order of
    # 1 and 3, either 2 finds the job or 4 finds the sleeper; a ring between 2 and the wait changes `bell`.
    store_shared(&writer.is_asleep, <uint32_t>1)
    if _may_sleep(writer, seen):
        futex_wait(&writer.bell, seen, <uint64_t>TUNE_REST_S * 1_000_000_000)
    if _may_sleep(writer, seen):
        # Nothing came for a while. A mark that lags behind the log could let a power cut and a damaged last batch
        # together look like a torn tail. If its sync fails the log refuses the next write, which stops the node.
        wal_idle(writer.wal)
        futex_wait(&writer.bell, seen, <uint64_t>IDLE_PAUSE_S * 1_000_000_000)
    store_shared(&writer.is_asleep, <uint32_t>0)


cdef void* _write_main(void* argument) noexcept nogil:
    cdef WriteThread* writer = <WriteThread*>argument
    cdef DiskJob* jobs
    cdef uint32_t seen
    cdef bint is_prepared = False
    while True:
        seen = load_shared(&writer.bell)
        if load_shared(&writer.is_aborted):
            return NULL
        jobs = order_arrived(&writer.background, writer.asked.take())
        if jobs != NULL:
            disk_jobs_run(writer.wal, writer.identity, jobs)
            _hand_back(writer, jobs)
            is_prepared = False
        if writer.background.first != NULL:
            _run_background(writer)     # also under load: else the log would grow without a snapshot behind it
        elif jobs != NULL:
            continue
        elif load_shared(&writer.is_closing):
            return NULL
        elif is_prepared or wal_prepare(writer.wal, TUNE_PREPARE_BYTES, &is_prepared) != OK:
            _sleep(writer, seen)


cdef status_t write_thread_start(WriteThread* writer) noexcept nogil:
    if thread_start(&writer.thread, _write_main, writer, b"raftmeta-log") != 0:
        return NO_MEMORY
    writer.is_running = True
    return OK


cdef void write_thread_submit(WriteThread* writer, DiskJob* job) noexcept nogil:
    writer.asked.push(job)


cdef void _wake(WriteThread* writer) noexcept nogil:
    add_shared(&writer.bell, <uint32_t>1)
    futex_wake(&writer.bell, 1)


cdef void write_thread_ring(WriteThread* writer) noexcept nogil:
    if not writer.asked.is_empty() and exchange_shared(&writer.is_asleep, <uint32_t>0):
        _wake(writer)


cdef void write_thread_abort(WriteThread* writer) noexcept nogil:
    store_shared(&writer.is_aborted, <uint32_t>1)


cdef bint write_thread_stop(WriteThread* writer, unsigned long long timeout_ns) noexcept nogil:
    if not writer.is_running:
        return True
    store_shared(&writer.is_closing, <uint32_t>1)
    _wake(writer)
    writer.is_running = not thread_join(writer.thread, timeout_ns)
    return not writer.is_running
