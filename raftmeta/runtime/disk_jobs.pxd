# Blocking work of a node as jobs, done in order by one thread (or by the simulated schedule): log writes, log reads,
# the identity file. The engine hands them out and gets them back; neither side touches a job while the other has it.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.chunks cimport Slice
from raftmeta.native.containers cimport Vec
from raftmeta.ports cimport DiskPort
from raftmeta.raft.genesis cimport GenesisRecord
from raftmeta.raft.types cimport index_t, member_id_t
from raftmeta.status cimport status_t
from raftmeta.storage.wal cimport WalBatch
from raftmeta.storage.wal_state cimport Wal

cdef enum DiskJobKind:
    JOB_WRITE = 1               # batch: one Ready.write of the core
    JOB_READ = 2                # read_*: records that left memory
    JOB_IDENTITY = 3            # genesis: persist the genesis record (and begin the log when FOUNDED)

cdef struct DiskJob:
    DiskJob* next               # for whoever queues it
    uint8_t kind
    status_t status             # result
    uint64_t free_bytes         # room in the log after the job
    uint64_t log_bytes          # what the log holds, as is
    WalBatch batch              # JOB_WRITE; slices is `slices`
    Vec[Slice] slices           # bytes are held by the core until core_persisted(batch.write_id)
    Vec[uint8_t] membership     # JOB_WRITE: encoded membership in force; batch.membership points here
    member_id_t peer            # JOB_READ
    index_t first
    uint32_t bytes_max
    Slice records               # JOB_READ: result, one chunk that the receiver drops
    GenesisRecord genesis       # JOB_IDENTITY

cdef DiskJob* disk_job_create(DiskJobKind kind) noexcept nogil          # NULL: no memory
cdef void disk_job_destroy(DiskJob* job) noexcept nogil
# Do the jobs of a list (linked by next) in order, on the thread that owns the Wal; sets each job's status.
# `identity` is storage/identity's handle.
cdef void disk_jobs_run(Wal* wal, void* identity, DiskJob* first) noexcept nogil
