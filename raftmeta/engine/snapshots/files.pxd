# Sealed files in a node's folder: written, received and loaded in bounded steps, by the thread that owns the disk.
#
#     <index, 16 hexadecimal digits>.sealed           a snapshot
#     ....sealed.tmp                                  one that is being written; a leftover is removed at the next open
#     ....received                                    one that is being received; likewise
#
# Each step reads, writes and syncs one chunk, so that whatever else waits for the disk waits no longer than for that.
# The thread of the disk owns the data of a step from the job's submission until the job is back.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.machine.dump cimport Dump
from raftmeta.machine.machine cimport MachineLimits
from raftmeta.machine.state cimport Machine
from raftmeta.native.chunks cimport Slice
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport Hash128
from raftmeta.ports cimport FILE_NAME_BYTES_MAX, DiskPort, file_t
from raftmeta.raft.types cimport SnapshotPoint, index_t
from raftmeta.status cimport status_t
from raftmeta.storage.sealed cimport SealedHeader, SealedReader, SealedWriter
from raftmeta.wire.snapshot_messages cimport SnapshotFile

# A snapshot of this node's own state on its way to a file.
cdef struct Taking:
    SnapshotFile file           # size and hash are known at the end
    SealedHeader header
    Vec[uint8_t] membership     # encoded, in force at the point
    Hash128 state_hash
    Machine* machine
    Dump dump                   # prepared
    uint32_t chunk_bytes
    SealedWriter writer
    Vec[uint8_t] records        # not yet in a chunk
    bint is_done                # sealed, durable under its name

# A sealed file on its way into a machine.
cdef struct Loading:
    SealedReader reader
    Machine* machine            # NULL: not begun
    bint is_done                # all of it is loaded, and is what the file says it is

# Another member's file on its way into this folder.
cdef struct Receiving:
    SnapshotFile file
    file_t handle
    bint is_open
    Loading loading
    bint is_done                # loaded, and durable under its name

# A sealed file of this folder that is read once more.
cdef struct Checking:
    SnapshotFile file
    SealedReader reader
    bint is_done                # all of it is there, and what it says it is

cdef void sealed_name(index_t index, char* name) noexcept nogil
# The index in a sealed file's name, 0: it is none.
cdef index_t sealed_index(const char* name) noexcept nogil
# Is it what a crash left of a file that was being written or received?
cdef bint is_leftover(const char* name) noexcept nogil

# One chunk more. Not OK: the working file is gone. NO_SPACE, DISK_FAILED, NO_MEMORY.
cdef status_t take_step(Taking* taking, const DiskPort* disk) noexcept nogil
# Forget what is under way; the working file is left to the next open.
cdef void take_release(Taking* taking) noexcept nogil

# Open `name` and begin an empty machine; then one chunk per step. CORRUPT: damaged, or not what it says; NEWER_FORMAT,
# NOT_FOUND, DISK_FAILED, NO_MEMORY. The machine is the caller's once it is_done.
cdef status_t load_begin(Loading* loading, const DiskPort* disk, const char* name,
                         const MachineLimits* limits) noexcept nogil
cdef status_t load_step(Loading* loading) noexcept nogil
cdef void load_release(Loading* loading) noexcept nogil
# The identity of the file that was opened.
cdef void opened_file(const SealedReader* reader, SnapshotFile* file) noexcept nogil
cdef void loaded_file(const Loading* loading, SnapshotFile* file) noexcept nogil

# Bytes of the file at offset become durable; the first ones begin it anew.
cdef status_t receive_piece(Receiving* receiving, const DiskPort* disk, uint64_t offset,
                            const Slice* bytes) noexcept nogil
# All bytes are there: load one chunk more; after the last one the file gets its name. CORRUPT: it is not the file that
# was promised, and is removed.
cdef status_t receive_step(Receiving* receiving, const DiskPort* disk, const MachineLimits* limits) noexcept nogil
# Give up what is under way, and its file.
cdef status_t receive_abandon(Receiving* receiving, const DiskPort* disk) noexcept nogil
cdef void receive_release(Receiving* receiving, const DiskPort* disk) noexcept nogil

# Up to `length` bytes of a sealed file from offset on, as a new chunk. NOT_FOUND: the file is gone.
cdef status_t read_piece(const DiskPort* disk, const SnapshotFile* file, uint64_t offset, uint32_t length,
                         Slice* piece) noexcept nogil
# One chunk more. CORRUPT: not the file that it was; NOT_FOUND: it is gone; DISK_FAILED, NO_MEMORY.
cdef status_t check_step(Checking* checking, const DiskPort* disk) noexcept nogil
cdef void check_release(Checking* checking) noexcept nogil
# Remove a sealed file; that it is not there is no error.
cdef status_t remove_sealed(const DiskPort* disk, index_t index) noexcept nogil
