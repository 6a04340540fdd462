# Snapshots of this node's own state: when, how, and what of log and files may go once one is durable.
#
# A point comes when enough was applied since the last one, counted by the log alone, so that all members take the same
# ones. There the applier stops, leases and sessions are copied in slices, and it goes on while the rest is written
# (decisions/README.md "Snapshots").
from raftmeta.engine.disk_jobs cimport DiskJob
from raftmeta.engine.snapshots.state cimport TAKING_DUE, TAKING_PREPARING, SnapshotFile, Snapshots
from raftmeta.engine.state cimport Engine
from raftmeta.raft.types cimport Record, index_t
from raftmeta.status cimport status_t

# An entry was applied: is there a point behind it?
cdef status_t snapshots_applied(Engine* engine, const Record* record) noexcept nogil

# Must nothing be applied now?
cdef inline bint snapshots_hold_apply(const Engine* engine) noexcept nogil:
    return engine.snapshots.taking_state == TAKING_DUE or engine.snapshots.taking_state == TAKING_PREPARING

# A turn's part of what is being taken; *more: the next turn has some, too.
cdef status_t snapshots_run(Engine* engine, bint* more) noexcept nogil
cdef status_t snapshots_tick(Engine* engine) noexcept nogil
# A step of JOB_TAKE came back; takes the job over.
cdef status_t snapshots_taken(Engine* engine, DiskJob* job) noexcept nogil
# A copy of the state at `index` is durable: log and files before it may go, as far as nobody needs them.
cdef status_t snapshots_durable(Engine* engine, index_t index) noexcept nogil
# A sealed file is in the folder.
cdef status_t snapshots_add_file(Engine* engine, const SnapshotFile* file) noexcept nogil
# It is, but not what it was (status): it goes, and if none is left that is of use, another one is taken.
cdef status_t snapshots_drop_file(Engine* engine, const SnapshotFile* file, status_t status) noexcept nogil
# Is there a file from which the log leads on? Another would bring a member nowhere.
cdef bint snapshots_have_use(const Snapshots* snapshots) noexcept nogil
# Hand a new job to the disk; NO_MEMORY when there is none.
cdef status_t snapshots_submit(Engine* engine, DiskJob* job) noexcept nogil
cdef void snapshots_release(Engine* engine) noexcept nogil
