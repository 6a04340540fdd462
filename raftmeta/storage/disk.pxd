# The real DiskPort: one folder of the file system, by descriptor, and the lock that keeps other processes out of it.
#
# Decides: nothing but how a call of the operating system maps to a status. EINTR and short transfers are continued;
# EIO is DISK_FAILED, a full disk or quota NO_SPACE. Never retries a failed sync (decisions/log.md D5).
#
# No descriptor left (EMFILE, ENFILE) is no failure of the disk: an `open` that failed has lost nothing. A locked folder
# keeps some in reserve, so that a host that leaks descriptors does not stop its node. Where they are gone too, and the
# disk is patient, the call waits and tries again.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Vec
from raftmeta.ports cimport DiskPort
from raftmeta.status cimport status_t

# Counted by the thread that syncs; read with load_acquire by any other.
cdef struct SyncCounters:
    uint64_t syncs              # of files and of the folder
    uint64_t time_ns            # spent in them
    uint64_t time_ns_max        # in one

cdef enum:
    TUNE_RESERVED_DESCRIPTORS = 4   # files that a log opens beside those it has: spare, reserve, one read, one sealed

# Which call failed, for people.
cdef enum DiskCall:
    DISK_CALL_OPEN = 1
    DISK_CALL_READ = 2
    DISK_CALL_WRITE = 3
    DISK_CALL_SYNC = 4
    DISK_CALL_CHANGE = 5        # of a name or a size
    DISK_CALL_LIST = 6

cdef struct RealDisk:
    int directory               # descriptor of the folder, O_CLOEXEC; -1: closed
    int lock                    # descriptor of its lock file, -1: not locked
    Vec[uint64_t] settled       # inodes that were opened or made in this life: their cache can be believed
    SyncCounters counters
    uint8_t* staging            # aligned as direct writes want their bytes; made at the first one
    uint32_t is_staging_taken   # by the thread that writes directly now
    bint has_no_direct_writes   # this file system refused one
    # Shared, each a duplicate of `lock`, plus 1; 0: given up.
    uint32_t[TUNE_RESERVED_DESCRIPTORS] reserved
    uint32_t is_patient         # shared: a call that finds no descriptor waits for one
    uint32_t waits_for          # shared: the errno for which a call waits now; 0: none waits
    uint32_t checkpoint_waits_for   # shared: the same of the Python thread that writes checkpoints beside
    uint64_t failure            # shared: DiskCall << 32 | errno of the newest call that ended as DISK_FAILED

cdef uint64_t disk_failure(DiskCall call, int error) noexcept nogil
# Opens (and creates, mode 0700, parents must exist) the folder. NOT_FOUND, DISK_FAILED.
cdef status_t real_disk_open(RealDisk* disk, const char* path) noexcept nogil
# Closes the descriptors and gives up the lock. In a fork child the parent keeps its lock.
cdef void real_disk_close(RealDisk* disk) noexcept nogil
cdef void real_disk_close_in_child(RealDisk* disk) noexcept nogil
cdef DiskPort real_disk_port(RealDisk* disk) noexcept nogil
# One Node per folder, over all processes and within one. IN_USE at once, never waits; *holder is the pid that wrote
# itself into the lock file (0: it did not yet). With the lock come the descriptors in reserve.
cdef status_t real_disk_lock(RealDisk* disk, uint64_t* holder) noexcept nogil
# From here on calls wait for a descriptor; no more: those that wait fail at once, as DISK_FAILED.
cdef void real_disk_be_patient(RealDisk* disk) noexcept nogil
cdef void real_disk_give_up(RealDisk* disk) noexcept nogil
