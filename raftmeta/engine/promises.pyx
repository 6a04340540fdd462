"""Promises at the ports: bodies."""
from libc.stdint cimport uint64_t
from libc.string cimport memset

from raftmeta.engine.disk_jobs cimport JOB_BEGIN_LOG, JOB_WRITE
from raftmeta.engine.invariants cimport (BROKEN_FRAME_SHORT, BROKEN_JOB_BACK_TWICE, BROKEN_JOB_ORDER,
                                         BROKEN_JOB_OUT_TWICE, BROKEN_LINK_UNUSED)
from raftmeta.machine.state cimport Machine
from raftmeta.native.invariants cimport broken
from raftmeta.raft.types cimport MEMBERS_MAX
from raftmeta.status cimport INVARIANT_BROKEN, OK
from raftmeta.wire.frame cimport FRAME_HEADER_BYTES


cdef void promises_submit(Engine* engine, DiskJob* job) noexcept nogil:
    if job.number != 0:
        broken(&engine.promises.broken, BROKEN_JOB_OUT_TWICE, job.kind, job.number)
        return
    engine.promises.jobs_submitted += 1
    engine.promises.jobs_under_way += 1
    job.number = engine.promises.jobs_submitted
    engine.jobs.submit(engine.jobs.self, job)


cdef status_t promises_job_back(Engine* engine, DiskJob* job) noexcept nogil:
    cdef uint64_t number = job.number
    if number == 0:
        return broken(&engine.promises.broken, BROKEN_JOB_BACK_TWICE, job.kind, engine.promises.jobs_under_way)
    job.number = 0
    engine.promises.jobs_under_way -= 1
    if job.kind == JOB_WRITE or job.kind == JOB_BEGIN_LOG:
        if number <= engine.promises.log_job_back:
            return broken(&engine.promises.broken, BROKEN_JOB_ORDER, number, engine.promises.log_job_back)
        engine.promises.log_job_back = number
    if job.broken.what != 0:
        broken(&engine.promises.broken, job.broken.what, job.broken.a, job.broken.b)
    return OK


cdef bint promises_hold_frame(Engine* engine, int place) noexcept nogil:
    if place < 0 or place >= MEMBERS_MAX or not engine.links.table[place].is_used or engine.links.table[place].is_self:
        broken(&engine.promises.broken, BROKEN_LINK_UNUSED, <uint64_t>place, MEMBERS_MAX)
        return False
    if engine.body.size < FRAME_HEADER_BYTES:
        broken(&engine.promises.broken, BROKEN_FRAME_SHORT, engine.body.size, FRAME_HEADER_BYTES)
        return False
    return True


cdef status_t promises_look(const Engine* engine) noexcept nogil:
    return OK if engine.promises.broken.what == 0 else INVARIANT_BROKEN


cdef Broken engine_broken(const Engine* engine) noexcept nogil:
    cdef const Machine* machine = engine.machine
    cdef Broken none
    if engine.promises.broken.what != 0:
        return engine.promises.broken
    if machine != NULL and machine.broken.what != 0:
        return machine.broken
    if machine != NULL and machine.tree.broken.what != 0:
        return machine.tree.broken
    memset(&none, 0, sizeof(Broken))
    if engine.core != NULL:
        none.what = engine.core.broken
        none.a = engine.core.broken_a
        none.b = engine.core.broken_b
    return none
