# The world as the engine sees it: disk, clock, network and random numbers as function pointers and a `self`.
#
# Production code from raft/ to engine/ reaches the outside only through these structs. raftmeta/sim fills them with a
# simulated world, loop/ with the real one. Every function is noexcept nogil and returns a status; none raises.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.chunks cimport Slice
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport status_t

ctypedef int file_t     # handle of an open file; only valid for the DiskPort that gave it

cdef enum:
    FILE_NAME_BYTES_MAX = 63

cdef struct FileName:
    char[FILE_NAME_BYTES_MAX + 1] text      # no directory part, ends with 0

# One flat folder. Calls block; in production only the write thread makes them, and before it the opening thread.
# A write is in the cache until `sync` of its file returns OK. A name that was created, renamed or removed is in the
# cache
# until `sync_directory` returns OK (docs/decisions/log.md D1, D10). After the first failed write or sync of a file the
# caller stops; it never retries (D5).
cdef struct DiskPort:
    void* self
    void* keys                  # security/cipher KeyRing of this folder's files; NULL: all of them are plain
    # OK, NOT_FOUND (create is false), DISK_FAILED. Creating gives an empty file. A file that exists shows the content
    # of
    # stable storage: open first syncs what an earlier process left in the cache, and drops what the cache only claims
    # since
    # a sync failed (D5).
    status_t (*open)(void* self, const char* name, bint create, file_t* file) noexcept nogil
    void (*close)(void* self, file_t file) noexcept nogil
    status_t (*size)(void* self, file_t file, uint64_t* size_bytes) noexcept nogil
    # got < length only at the end of the file. DISK_FAILED: unreadable sectors.
    status_t (*read)(void* self, file_t file, uint64_t offset, uint8_t* into, size_t length, size_t* got) noexcept nogil
    # Writes all parts, one after another from offset, or fails: NO_SPACE (any part may be missing), DISK_FAILED.
    status_t (*write)(void* self, file_t file, uint64_t offset, const Slice* parts, size_t count) noexcept nogil
    status_t (*sync)(void* self, file_t file) noexcept nogil
    status_t (*truncate)(void* self, file_t file, uint64_t size_bytes) noexcept nogil
    status_t (*rename)(void* self, const char* source, const char* target) noexcept nogil   # replaces target
    status_t (*remove)(void* self, const char* name) noexcept nogil
    status_t (*sync_directory)(void* self) noexcept nogil
    status_t (*list_names)(void* self, Vec[FileName]* names) noexcept nogil                  # in no order
    status_t (*free_bytes)(void* self, uint64_t* free_bytes) noexcept nogil                  # room for new data

# One piece of work on another thread or at once, beside the caller's own. Between run and wait the work owns all that
# it touches. self == NULL: there is no port, and the caller does the work itself.
ctypedef void (*beside_work)(void* argument) noexcept nogil

cdef struct BesidePort:
    void* self
    void (*run)(void* self, beside_work work, void* argument) noexcept nogil
    void (*wait)(void* self) noexcept nogil         # until it is done

cdef struct ClockPort:
    void* self
    uint64_t (*now_ns)(void* self) noexcept nogil       # CLOCK_BOOTTIME: never steps back, counts suspended time
    uint64_t (*wall_ms)(void* self) noexcept nogil      # milliseconds since 1970; advice for people, never decides

cdef struct RandomPort:
    void* self
    uint64_t (*next)(void* self) noexcept nogil         # unpredictable to peers in production, seeded in simulation

# Frames to and from members. `link` is the position of the member in the engine's table of links.
# A link may lose, delay, repeat and reorder frames; it never delivers half of one.
cdef struct NetworkPort:
    void* self
    # Queue one frame: header and body bytes are copied, records are held until sent. The port drops the frame when the
    # link is down or its queue is over the limit; the protocol repeats what matters.
    void (*send)(void* self, uint32_t link, const uint8_t* head, size_t head_length,
                 const Slice* records) noexcept nogil
