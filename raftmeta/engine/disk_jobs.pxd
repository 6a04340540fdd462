# Blocking work of a node as jobs, done by one thread (or by the simulated schedule): log writes, log reads, the
# identity file, snapshots. The engine hands them out and gets them back; neither side touches a job, nor what it works
# on, while the other has it. Jobs are done in order, but those in the background, in an order of their own, may come
# after others.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.engine.snapshots.files cimport Checking, Receiving, Taking
from raftmeta.machine.machine cimport MachineLimits
from raftmeta.machine.state cimport Machine
from raftmeta.native.chunks cimport Slice
from raftmeta.native.containers cimport Vec
from raftmeta.native.invariants cimport Broken
from raftmeta.ports cimport DiskPort
from raftmeta.raft.genesis cimport GenesisRecord
from raftmeta.raft.types cimport SnapshotPoint, index_t, member_id_t
from raftmeta.status cimport status_t
from raftmeta.storage.wal cimport WalBatch
from raftmeta.storage.wal_state cimport Wal
from raftmeta.wire.snapshot_messages cimport SnapshotFile

cdef enum DiskJobKind:
    JOB_WRITE = 1               # batch: one Ready.write of the core
    JOB_READ = 2                # peer, first, bytes_max: records that left memory; for a peer in the background
    JOB_IDENTITY = 3            # genesis: persist the genesis record (and begin the log when FOUNDED)
    JOB_COMPACT = 4             # point: segments that hold nothing behind it go
    JOB_BEGIN_LOG = 5           # point, membership: the log begins anew behind an installed snapshot
    JOB_REMOVE = 6              # file: a sealed file goes
    JOB_LOOK = 7                # nothing but what every job tells: how much room there is
    # In the background:
    JOB_TAKE = 8                # taking: one step
    JOB_PIECE = 9               # file, offset, bytes_max, peer: read for another member
    JOB_RECEIVE = 10            # receiving, offset, records: a piece that came
    JOB_LOAD = 11               # receiving: one step
    JOB_ABANDON = 12            # receiving: its file goes
    JOB_RETIRE = 13             # machine: give its memory back
    JOB_CHECK = 14              # checking: one step

cdef struct DiskJob:
    DiskJob* next               # for whoever queues it
    uint8_t kind
    bint is_background          # may wait for log writes, one step between two of them
    status_t status             # result
    Broken broken               # INVARIANT_BROKEN: the belief of whoever did the job
    uint64_t number             # while it is under way, of all jobs of its engine; else 0
    uint64_t free_bytes         # room in the log after the job
    uint64_t log_bytes          # what the log holds, as is
    uint64_t log_epoch          # JOB_WRITE: of the engine; another one since means that its records belong to no log
    WalBatch batch              # JOB_WRITE; slices is `slices`
    Vec[Slice] slices           # bytes are held by the core until core_persisted(batch.write_id)
    Vec[uint8_t] membership     # JOB_WRITE: encoded membership in force, batch.membership points here; JOB_BEGIN_LOG
    index_t membership_index    # JOB_BEGIN_LOG
    member_id_t peer            # JOB_READ, JOB_PIECE
    index_t first
    uint32_t bytes_max
    Slice records               # JOB_READ, JOB_PIECE: result, one chunk that the receiver drops; JOB_RECEIVE
    SnapshotPoint point
    SnapshotFile file
    uint64_t offset
    Taking* taking
    Receiving* receiving
    Checking* checking
    const MachineLimits* limits     # JOB_LOAD
    Machine* machine            # JOB_RETIRE
    GenesisRecord genesis       # JOB_IDENTITY; last, because it is long: no other job has a value here

cdef DiskJob* disk_job_create(DiskJobKind kind) noexcept nogil          # NULL: no memory
# A JOB_RETIRE that was never done takes its machine with it.
cdef void disk_job_destroy(DiskJob* job) noexcept nogil
# Do the jobs of a list (linked by next) in order, on the thread that owns the Wal; sets each job's status.
# `identity` is storage/identity's handle.
cdef void disk_jobs_run(Wal* wal, void* identity, DiskJob* first) noexcept nogil
