"""The order of a node's disk jobs; job_order.pxd has the rule."""


cdef DiskJob* order_arrived(BackgroundJobs* background, DiskJob* arrived) noexcept nogil:
    cdef DiskJob* batch = arrived
    cdef DiskJob** place = &batch
    cdef DiskJob* job
    while place[0] != NULL:
        job = place[0]
        if not job.is_background:
            place = &job.next
            continue
        place[0] = job.next
        job.next = NULL
        if background.first == NULL:
            background.first = job
        else:
            background.last.next = job
        background.last = job
    return batch


cdef DiskJob* order_background(BackgroundJobs* background) noexcept nogil:
    cdef DiskJob* job = background.first
    if job != NULL:
        background.first = job.next
        job.next = NULL
    return job
