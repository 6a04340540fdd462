# A simulated flat folder: what programs see (cached), what survives a power cut (durable), and faults in between.
#
# Each file has two images and a set of dirty sectors; the directory is an object of its own with names that wait for
# sync_directory. Deterministic: every choice comes from one seeded stream. Faults: docs/decisions/log.md.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Vec
from raftmeta.ports cimport DiskPort, FileName
from raftmeta.status cimport status_t

cdef struct SimFile:
    bint in_use
    bint size_is_dirty
    bint lost_a_sync            # a sync failed: cached sectors count as clean but are not durable (fsyncgate, D5)
    Vec[uint8_t] cached
    Vec[uint8_t] durable
    Vec[uint8_t] dirty          # one byte per sector of cached: 1 when it waits for a sync
    uint64_t dirty_first        # sectors [dirty_first, dirty_end) may be dirty
    uint64_t dirty_end

cdef struct SimName:
    FileName name
    uint32_t file               # position in SimDisk.files

cdef enum SimDirectoryOp:
    SIM_BIND = 1                # created: name -> file
    SIM_RENAME = 2
    SIM_UNBIND = 3

cdef struct SimPending:
    uint8_t op                  # SimDirectoryOp
    FileName name
    FileName target
    uint32_t file

# Faults to come; 0 means never. Counted from now: 1 is the next call.
cdef struct SimFaults:
    uint64_t cut_at_write       # power fails in the middle of that write
    uint64_t cut_at_sync        # at that sync (file or directory); `cut_after_sync`: it was durable already
    bint cut_after_sync
    uint64_t fail_at_write      # DISK_FAILED once
    uint64_t fail_at_sync       # DISK_FAILED once; the dirty sectors are forgotten, not kept
    uint64_t fail_at_read
    uint64_t lose_at_write      # reports OK, writes nothing
    uint64_t misdirect_at_write  # lands `misdirect_by` bytes away
    int64_t misdirect_by
    uint64_t no_space_at_write  # NO_SPACE once, after half of the bytes
    uint64_t capacity_bytes     # sum of file sizes; 0: not limited

cdef struct SimCounters:
    uint64_t reads
    uint64_t writes
    uint64_t syncs              # of files and of the directory
    uint64_t written_bytes
    uint64_t failures           # calls by whose fault a node may stop: DISK_FAILED, no room in place
    uint64_t crashes
    uint64_t sectors_lost
    uint64_t sectors_torn

cdef struct SimDisk:
    uint32_t sector_bytes       # 512 or 4096: what a power cut keeps, loses or tears
    uint64_t random
    bint is_cut                 # every call gives POWER_CUT until sim_disk_crash
    SimFaults faults
    SimCounters counters
    Vec[SimFile] files
    Vec[SimName] names          # as programs see them
    Vec[SimName] durable_names
    Vec[SimPending] pending     # name changes since the last sync_directory, in order
    Vec[uint32_t] handles       # file_t -> position in files, or closed

cdef SimDisk* sim_disk_create(uint64_t seed, uint32_t sector_bytes) noexcept nogil
cdef void sim_disk_destroy(SimDisk* disk) noexcept nogil
cdef DiskPort sim_disk_port(SimDisk* disk) noexcept nogil
# The power fails (or failed already: is_cut) and comes back: each unsynced sector is kept, lost or torn, name changes
# from some moment on are lost, handles are void. The disk can be used again at once.
cdef status_t sim_disk_crash(SimDisk* disk) noexcept nogil
# Only the process died: nothing is lost, handles are void.
cdef void sim_disk_reopen(SimDisk* disk) noexcept nogil
# Time passes: the kernel writes back everything that waits for a sync, names too. No fault strikes meanwhile.
cdef status_t sim_disk_write_back(SimDisk* disk) noexcept nogil

# Damage to both images, as if the medium had aged. NOT_FOUND: no such file or beyond its end.
cdef status_t sim_disk_flip(SimDisk* disk, const char* name, uint64_t offset, uint8_t mask) noexcept nogil
cdef status_t sim_disk_zero(SimDisk* disk, const char* name, uint64_t offset, uint64_t length) noexcept nogil
cdef status_t sim_disk_cut_file(SimDisk* disk, const char* name, uint64_t size_bytes) noexcept nogil
cdef status_t sim_disk_forget(SimDisk* disk, const char* name) noexcept nogil
# A copy of the whole disk, with its faults cleared: to look at another fate of the same moment.
cdef SimDisk* sim_disk_copy(const SimDisk* disk, uint64_t seed) noexcept nogil
# A read-only look at what a power cut now would certainly leave. NULL: the name is not durable.
cdef const Vec[uint8_t]* sim_disk_durable(SimDisk* disk, const char* name) noexcept nogil
