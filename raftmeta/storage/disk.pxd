# The real DiskPort: one folder of the file system, by descriptor, and the lock that keeps other processes out of it.
#
# Decides: nothing but how a call of the operating system maps to a status. EINTR and short transfers are continued;
# EIO is DISK_FAILED, a full disk or quota NO_SPACE. Never retries a failed sync (decisions/log.md D5).
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Vec
from raftmeta.ports cimport DiskPort
from raftmeta.status cimport status_t

# Counted by the thread that syncs; read with load_acquire by any other.
cdef struct SyncCounters:
    uint64_t syncs              # of files and of the folder
    uint64_t time_ns            # spent in them
    uint64_t time_ns_max        # in one

cdef struct RealDisk:
    int directory               # descriptor of the folder, O_CLOEXEC; -1: closed
    int lock                    # descriptor of its lock file, -1: not locked
    Vec[uint64_t] settled       # inodes that were opened or made in this life: their cache can be believed
    SyncCounters counters
    uint8_t* staging            # aligned as direct writes want their bytes; made at the first one
    uint32_t is_staging_taken   # by the thread that writes directly now
    bint has_no_direct_writes   # this file system refused one

# Opens (and creates, mode 0700, parents must exist) the folder. NOT_FOUND, DISK_FAILED.
cdef status_t real_disk_open(RealDisk* disk, const char* path) noexcept nogil
# Closes the descriptors and gives up the lock. In a fork child the parent keeps its lock.
cdef void real_disk_close(RealDisk* disk) noexcept nogil
cdef void real_disk_close_in_child(RealDisk* disk) noexcept nogil
cdef DiskPort real_disk_port(RealDisk* disk) noexcept nogil
# One Node per folder, over all processes and within one. IN_USE at once, never waits; *holder is the pid that wrote
# itself into the lock file (0: it did not yet).
cdef status_t real_disk_lock(RealDisk* disk, uint64_t* holder) noexcept nogil
