# The log on disk: one stream of batches in preallocated segment files, that only grows; a lower index supersedes.
#
# Used by one thread at a time (opening thread, then the write thread, or the simulator); blocks in DiskPort calls;
# knows nothing of terms' meaning: it keeps what the core gave it and says exactly what is still there.
# File formats: docs/formats.md "Segment, batch and mark". Rules: docs/decisions/log.md.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.chunks cimport Slice
from raftmeta.ports cimport DiskPort
from raftmeta.raft.types cimport HardState, SnapshotPoint, index_t
from raftmeta.status cimport status_t
from raftmeta.storage.wal_state cimport Wal, WalDamage, WalLimits

# One write of the core (Ready.write) as the write thread sees it.
cdef struct WalBatch:
    uint64_t write_id
    bint has_hard_state
    HardState hard_state
    index_t first                   # first > last: no records
    index_t last
    const Slice* slices
    uint32_t slice_count
    const uint8_t* membership       # encoded membership in force after this batch (segment headers carry it)
    uint32_t membership_length      # 0: unchanged
    index_t membership_index
    bint is_urgent                  # may use the reserve: hard state, memberships, deletes
    bint repairs                    # [first, last] were damaged: replace exactly these, supersede nothing

cdef enum WalState:
    WAL_CLEAN = 1                   # everything acknowledged is there
    WAL_TORN_TAIL = 2               # the last, never acknowledged batch was cut; clean otherwise
    WAL_DAMAGED = 3                 # some records are unreadable; `damaged` names each with its chain; the node must
                                    # not vote before they are repaired
    WAL_TAIL_LOST = 4               # acknowledged records are gone and their chain is not known, or the hard state is
                                    # lost in both places: re-join as a new incarnation (only wal_begin is accepted)
    WAL_BLANK = 5                   # a new folder
    WAL_VOID = 6                    # only what WalLimits.void_owner left: blank for this owner

# The findings of wal_open. Pointers are valid until wal_open_done.
cdef struct WalOpened:
    WalState state
    HardState hard_state
    SnapshotPoint start             # entries up to it are compacted; (0, 0, 0) from the beginning
    const uint8_t* membership       # encoded, of the first segment kept: in force at `start`
    uint32_t membership_length
    index_t membership_index
    index_t first                   # records [first, last] are there (damaged ones included)
    index_t last
    const Slice* slices             # their live bytes in index order, superseded ones left out
    size_t slice_count              # a damaged record appears as a gap between two slices
    const WalDamage* damaged
    size_t damaged_count
    uint64_t dropped_bytes          # torn bytes that were cut

cdef Wal* wal_create(const DiskPort* disk, const WalLimits* limits, uint64_t random_seed) noexcept nogil
cdef void wal_destroy(Wal* wal) noexcept nogil
# Reads, checks and repairs the stream; makes the tail durable before it returns; prepares the segment to write to.
# OK, NEWER_FORMAT, FOREIGN_NODE, DISK_FAILED, NO_SPACE, NO_MEMORY; NO_KEY: a segment is encrypted with a key that the
# disk's keys have not. Writes nothing before every file was understood, nor with a state from WAL_TAIL_LOST on.
cdef status_t wal_open(Wal* wal, WalOpened* opened) noexcept nogil
cdef void wal_open_done(Wal* wal) noexcept nogil
# A new folder, or after an install: the stream begins after `point`.
cdef status_t wal_begin(Wal* wal, const SnapshotPoint* point, const HardState* hard_state, const uint8_t* membership,
                        uint32_t membership_length, index_t membership_index) noexcept nogil
# Append one batch and make it durable. OK; NO_SPACE: nothing was written, the log is as before;
# DISK_FAILED: fatal, the Wal refuses everything from now on.
cdef status_t wal_append(Wal* wal, const WalBatch* batch) noexcept nogil
# Zero and sync a little of the next segment (bounded work); called by the write thread between batches and when idle.
cdef status_t wal_prepare(Wal* wal, uint32_t bytes_max, bint* is_complete) noexcept nogil
# Live records from index on, at most bytes_max bytes but at least one record, as one new chunk; NOT_FOUND: compacted or
# beyond the end; CORRUPT: a record no longer matches its checksum (scrub and repair).
cdef status_t wal_read(Wal* wal, index_t index, uint32_t bytes_max, Slice* records) noexcept nogil
# Whole segments whose records are all at or below `point` are removed; the directory is synced.
cdef status_t wal_compact(Wal* wal, const SnapshotPoint* point) noexcept nogil
# Room for new records, for acknowledgements.
cdef uint64_t wal_free_bytes(Wal* wal) noexcept nogil
# Bytes that the log holds, superseded records included.
cdef uint64_t wal_used_bytes(const Wal* wal) noexcept nogil
# Nothing to write for a while: makes the mark durable, so that nothing acknowledged could be taken for a torn tail.
cdef status_t wal_idle(Wal* wal) noexcept nogil
