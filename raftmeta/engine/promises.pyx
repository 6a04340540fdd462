"""Promises at the ports: bodies."""
from libc.stdint cimport uint64_t
from libc.string cimport memset

from raftmeta.engine.disk_jobs cimport JOB_BEGIN_LOG, JOB_PIECE, JOB_READ, JOB_WRITE
from raftmeta.engine.invariants cimport (BROKEN_FRAME_SHORT, BROKEN_JOB_BACK_TWICE, BROKEN_JOB_ORDER,
                                         BROKEN_JOB_OUT_TWICE, BROKEN_JOB_PIECE, BROKEN_JOB_READ, BROKEN_LINK_UNUSED,
                                         BROKEN_MESSAGE_SENDER)
from raftmeta.machine.state cimport Machine
from raftmeta.native.invariants cimport broken
from raftmeta.raft.types cimport MEMBERS_MAX, Record
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
    if job.status == OK:
        _look_at_records(engine, job)
    return OK


# A read gives what was asked for: records from the wanted one on, or no more of a file than there is room for.
cdef void _look_at_records(Engine* engine, const DiskJob* job) noexcept nogil:
    cdef const Record* record = <const Record*>job.records.data
    if job.kind == JOB_READ and job.records.length != 0 and record.index != job.first:
        broken(&engine.promises.broken, BROKEN_JOB_READ, record.index, job.first)
    if job.kind == JOB_PIECE and job.records.length > job.bytes_max:
        broken(&engine.promises.broken, BROKEN_JOB_PIECE, job.records.length, job.bytes_max)


cdef bint promises_hold_message(Engine* engine, const Message* message) noexcept nogil:
    if message.source != engine.id:
        broken(&engine.promises.broken, BROKEN_MESSAGE_SENDER, message.source, engine.id)
        return False
    return True


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
