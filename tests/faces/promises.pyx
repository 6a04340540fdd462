"""The engine's promises for tests: an engine of nothing but its ports, whose other side lies."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from raftmeta._core cimport Apply
from raftmeta.engine.applier cimport applier_release, applier_run, applier_take
from raftmeta.engine.callers cimport callers_serve_reads
from raftmeta.engine.disk_jobs cimport DiskJob, DiskJobKind, disk_job_create, disk_job_destroy
from raftmeta.engine.log_jobs cimport log_jobs_refused
from raftmeta.engine.promises cimport (engine_broken, promises_hold_frame, promises_hold_message, promises_job_back,
                                       promises_look, promises_submit)
from raftmeta.engine.state cimport Engine, ReadRound
from raftmeta.face.base cimport NodeBase
from raftmeta.native.chunks cimport Chunk, Slice, chunk_create, chunk_drop
from raftmeta.native.containers cimport Vec
from raftmeta.native.invariants cimport Broken
from raftmeta.raft.record cimport record_bytes
from raftmeta.raft.types cimport Message, Record, index_t
from raftmeta.status cimport status_t


cdef void _submit(void* self, DiskJob* job) noexcept nogil:
    pass


cdef void _done(void* self, void* owner, status_t status, uint64_t revision, index_t index, const uint8_t* body,
                uint32_t length) noexcept nogil:
    pass


cdef class PromisesHandle:
    cdef Engine* engine
    cdef Vec[DiskJob*] jobs

    def __cinit__(self):
        self.engine = <Engine*>calloc(1, sizeof(Engine))
        if self.engine == NULL:
            raise MemoryError
        self.engine.jobs.submit = _submit
        self.engine.callers.done = _done

    def __dealloc__(self):
        cdef size_t i
        for i in range(self.jobs.size):
            disk_job_destroy(self.jobs.data[i])
        self.jobs.release()
        applier_release(&self.engine.applying)
        self.engine.body.release()
        self.engine.reads.owners.release()
        self.engine.reads.rounds.release()
        free(self.engine)

    @property
    def broken(self):
        cdef Broken found = engine_broken(self.engine)
        return found.what, found.a, found.b

    def look(self):
        return promises_look(self.engine)

    def job(self, int kind):
        cdef DiskJob* job = disk_job_create(<DiskJobKind>kind)
        if job == NULL or not self.jobs.push(job):
            raise MemoryError
        return self.jobs.size - 1

    def submit(self, size_t job):
        promises_submit(self.engine, self.jobs.at(job))

    def back(self, size_t job, *, object records=None, uint64_t first=0, uint32_t bytes_max=0):
        cdef DiskJob* done = self.jobs.at(job)
        cdef bytes given = b"" if records is None else records
        done.first = first
        done.bytes_max = bytes_max
        done.records.data = <uint8_t*>given
        done.records.length = <uint32_t>len(given)
        cdef status_t status = promises_job_back(self.engine, done)
        memset(<void*>&done.records, 0, sizeof(Slice))
        return status

    def message(self, uint64_t source, *, uint64_t id):
        cdef Message message
        memset(<void*>&message, 0, sizeof(Message))
        message.source = source
        self.engine.id = id
        return promises_hold_message(self.engine, &message)

    def refused(self, size_t job):
        cdef status_t status
        return log_jobs_refused(self.engine, self.jobs.at(job), &status), status

    def use_link(self, int place, *, bint is_self=False):
        self.engine.links.table[place].is_used = True
        self.engine.links.table[place].is_self = is_self

    def frame(self, int place, size_t length):
        if not self.engine.body.resize(length):
            raise MemoryError
        return promises_hold_frame(self.engine, place)

    def take(self, list indexes not None, *, uint32_t missing_bytes=0, object last=None):
        cdef size_t bytes_each = record_bytes(0)
        cdef Chunk* chunk = chunk_create(bytes_each * len(indexes))
        cdef Slice slice
        cdef Apply apply
        cdef size_t i
        memset(&apply, 0, sizeof(Apply))
        memset(chunk.bytes(), 0, bytes_each * len(indexes))
        for i in range(len(indexes)):
            (<Record*>(chunk.bytes() + i * bytes_each)).index = indexes[i]
        slice.chunk = chunk
        slice.data = chunk.bytes()
        slice.length = <uint32_t>(bytes_each * len(indexes)) - missing_bytes
        apply.slices = &slice
        apply.slice_count = 1
        apply.last = indexes[len(indexes) - 1] if last is None else last
        cdef status_t status = applier_take(&self.engine.applying, &self.engine.promises.broken, &apply)
        chunk_drop(chunk)
        return status

    def publish(self, uint64_t applied, uint64_t published):
        cdef bint more
        self.engine.applying.applied = applied
        self.engine.applying.published = published
        self.engine.applying.must_publish = True
        return applier_run(self.engine, &more)

    def serve(self, uint32_t count, size_t waiting):
        cdef ReadRound round
        memset(&round, 0, sizeof(ReadRound))
        round.count = count
        round.is_answered = True
        for _ in range(waiting):
            self.engine.reads.owners.push(NULL)
        self.engine.reads.rounds.push(round)
        callers_serve_reads(self.engine)


def make_published_wrong(NodeBase node not None, uint64_t ahead):
    # What an applier that forgot entries would leave behind.
    node.started().engine.applying.published += ahead
