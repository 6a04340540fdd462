# The mark: a small second file that says how far the log is synced, with the hard state again.
#
# Two slots. A slot is written after the sync of its batch, mostly without a sync of its own, and never over the slot
# that was synced last: a power cut leaves that one or a newer one. docs/formats.md "Segment, batch and mark".
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Vec
from raftmeta.ports cimport DiskPort, file_t
from raftmeta.raft.types cimport HardState
from raftmeta.status cimport status_t
from raftmeta.storage.segment cimport BatchSummary

cdef enum:
    FORMAT_MARK_MAGIC = 0x4B524D52          # "RMRK" in file order
    FORMAT_MARK_SLOT_BYTES = 4096
    MARK_CHAINS_MAX = 488                   # chains that fit into a slot behind its header
    MARK_FILE_BYTES = 2 * 4096              # both slots

cdef packed struct MarkSlot:
    uint32_t magic
    uint32_t crc                # crc32c over bytes [8, header_bytes)
    uint8_t version
    uint8_t reserved0
    uint16_t reserved1
    uint32_t header_bytes       # this struct and the chains
    uint64_t sequence           # the higher of two sound slots rules
    uint64_t owner              # as in the segment header
    uint64_t segment            # synced through `end` of this segment
    uint64_t offset             # where the last batch stands
    uint64_t end
    uint64_t reach              # no batch begins in the segment at this offset or behind it
    HardState hard_state
    BatchSummary batch          # the last batch; then the chains of its first MARK_CHAINS_MAX records

cdef struct Mark:
    file_t file
    bint is_open
    uint32_t synced_slot        # 0 or 1: not to be overwritten until the other one is synced
    uint64_t sequence           # of the newest slot
    bint has_broken_slot        # mark_open found bytes in a slot that is not sound: the other may be an older one
    bint is_synced              # the newest slot is on stable storage
    uint32_t unsynced_writes
    HardState written_hard_state    # of the newest slot
    HardState synced_hard_state     # of the slot that was synced last

cdef enum MarkFound:
    MARK_MISSING = 0            # no file, or one that was never written to
    MARK_SOUND = 1
    MARK_BROKEN = 2             # bytes, but no sound slot

# Open the file if there is one and read the newest sound slot; chains gets what is known of its last batch.
cdef status_t mark_open(Mark* mark, const DiskPort* disk, MarkFound* found, MarkSlot* slot,
                        Vec[uint64_t]* chains) noexcept nogil
# Make the file, and room for both slots: a full disk never keeps a mark from being written once this returned OK.
# NO_SPACE: call it again later. The name is durable after the next sync of the directory.
cdef status_t mark_make_room(Mark* mark, const DiskPort* disk) noexcept nogil
cdef status_t mark_write(Mark* mark, const DiskPort* disk, MarkSlot* slot, const uint64_t* chains,
                         bint must_sync) noexcept nogil
cdef status_t mark_sync(Mark* mark, const DiskPort* disk) noexcept nogil
cdef void mark_close(Mark* mark, const DiskPort* disk) noexcept nogil
# The newest sound slot in the MARK_FILE_BYTES of the file's content, as mark_open finds it. NEWER_FORMAT, NO_MEMORY.
cdef status_t mark_read(const uint8_t* bytes, MarkFound* found, MarkSlot* slot, Vec[uint64_t]* chains) noexcept nogil
