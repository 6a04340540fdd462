# A Wal in memory; only the modules of storage/ that make it up look inside.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.chunks cimport Chunk, Slice
from raftmeta.native.containers cimport Vec
from raftmeta.native.invariants cimport Broken
from raftmeta.ports cimport DiskPort, FileName, file_t
from raftmeta.raft.types cimport HardState, SnapshotPoint, index_t
from raftmeta.security.cipher cimport Cipher
from raftmeta.status cimport status_t
from raftmeta.storage.mark cimport Mark
from raftmeta.storage.segment cimport BatchSummary

ctypedef Chunk* ChunkPtr

cdef enum:
    WAL_ZEROS_BYTES = 64 * 1024     # of Wal.zeros

cdef struct WalLimits:
    uint32_t segment_bytes          # of a preallocated segment; 64 MiB in production, 4 KiB upwards in simulation
    uint64_t log_bytes_max          # wal_append gives NO_SPACE above it (wal_bytes_max of Config); 0: the disk only
    uint64_t reserve_bytes          # preallocated, for hard state, memberships and compaction when the disk is full
    uint32_t alignment_bytes        # 512 or 4096, 0: 4096; a sector with acknowledged bytes is never written again
    uint64_t owner                  # incarnation, 0: not known; another one's segment or mark is refused,
    uint64_t void_owner             # but for this one's, which count for nothing; 0: none

cdef struct WalDamage:
    index_t index
    uint64_t chain                  # hash the record must have; 0: not known (only with WAL_TAIL_LOST)

# A run of sound live records that lie one after another in one segment. A live record in no extent is damaged.
cdef struct Extent:
    index_t first
    index_t last
    index_t origin              # the record at `offset`; lower than first when a repair replaced those between
    uint64_t segment            # number
    uint64_t offset             # in the segment's file
    uint64_t bytes              # from there, at least up to the end of record `last`

cdef struct Segment:
    uint64_t number
    uint64_t uuid_low
    uint64_t uuid_high
    uint64_t size_bytes         # batches may be written up to here
    uint64_t allocated_bytes    # the file's size: up to here a sync has no new size to record
    uint64_t end                # of its last batch
    uint32_t alignment_bytes    # from its header
    uint32_t flags              # SegmentFlags
    uint64_t key_id             # of its records, 0: they are plain
    index_t lowest_first        # least first index of its batches; all bits set: none
    SnapshotPoint start         # the last entry before it
    Chunk* image                # whole file, between wal_open and wal_open_done

# The file that becomes the next segment, or the reserve: zeroed bit by bit.
cdef struct Spare:
    const char* name
    uint64_t size_bytes         # zeroed and synced
    file_t file
    bint is_open

# One run of encrypted records, which are encrypted as one message (storage/encryption).
cdef struct RunBuffer:
    Vec[uint8_t] context        # that is authenticated
    Vec[Slice] parts            # the payloads
    uint64_t segment            # 0: nothing was decrypted
    uint64_t offset             # in the segment's file, of the run that was decrypted last,
    status_t status             # and whether it could be
    Vec[uint8_t] bytes          # its records, one after another, if it could

cdef struct Wal:
    const DiskPort* disk
    WalLimits limits
    uint64_t random             # state of next_random: segment uuids
    status_t failed             # not OK: poisoned for good
    Broken broken               # the first belief that proved wrong
    bint was_opened             # wal_open was here: the numbers below are right
    bint is_writable            # wal_begin, or a wal_open that found all or repairable damage

    Vec[Segment] segments       # in order of number, all that belong to the log
    uint64_t next_segment       # number, higher than any file's
    SnapshotPoint start         # the log holds (start.index, end.index]
    SnapshotPoint end           # the last record, or start
    Vec[Extent] extents         # in order of index
    Vec[WalDamage] damaged      # in order of index
    HardState hard_state
    Vec[uint8_t] membership     # encoded, in force at the end
    index_t membership_index
    BatchSummary batch          # the last batch written
    uint64_t batch_offset       # where it stands in the last segment
    uint64_t reach              # MarkSlot.reach of the last segment: batches beginning behind it need a synced mark
    Vec[uint64_t] chains        # of its records
    Mark mark
    Spare spare
    Spare reserve
    Vec[uint64_t] retired       # numbers of segments that left the log; their files become spares

    file_t file                 # of the last segment
    bint file_is_open
    uint64_t read_segment       # wal_read keeps one more file open
    file_t read_file
    bint read_is_open
    index_t cursor_index        # wal_read: this record stands at cursor_offset of segment cursor_segment
    uint64_t cursor_segment
    uint64_t cursor_offset

    void* refused               # who found no room and comes again: none behind it may overtake it (engine/disk_jobs)
    uint64_t used_bytes         # of all segments up to their ends
    Vec[uint8_t] head           # of the segment or batch being written
    Vec[uint64_t] next_chains
    Vec[Slice] parts
    # Of disk.keys; all of it is empty without keys.
    uint64_t write_key_id       # of the batch under way, 0: it is plain
    Cipher writing              # of the last segment that was written to, and
    Cipher reading              # of the last one that was read from: their salt is the segment's uuid
    Vec[uint8_t] encrypted      # records of the batch under way, as they stand in the file
    uint8_t* zeros              # WAL_ZEROS_BYTES of them, for padding and for what is erased or prepared
    Vec[FileName] names
    # wal_open's answer
    Vec[Slice] found_slices
    Vec[ChunkPtr] found_chunks  # decrypted records, to which slices point
    Vec[uint8_t] found_membership
    RunBuffer run               # that is encrypted, or was decrypted last
