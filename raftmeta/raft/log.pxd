# The log: records in memory, the pointers into it, and what it knows of records that are not in memory.
#
#     compacted <= snapshotted <= applied <= committed <= last          all inclusive; checked by log_check
#     persisted <= staged <= last                                       the disk has it; the disk was given it
#     applied <= persisted                                              a member applies only what its own disk holds
#
# `committed <= persisted` need not hold: a leader commits by the disks of others (thesis 10.2.1).
#
# Records stand in an arena of chunks. The disk and every socket get the same bytes, so records are made once and never
# change. A run is a contiguous stretch of records in one chunk; `places` has one pointer per record in memory.
#
#     index      1 ........ compacted ......... offset | offset + 1 ................... last
#                gone       log file only (released)    | in memory: places, runs
#
# The log decides where a conflict lies and what is still in memory. It never decides what is committed. It never
# overwrites bytes that others may read: after a truncation, records begin in a new place.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.chunks cimport Chunk, Slice
from raftmeta.native.containers cimport Ring, Vec
from raftmeta.raft.record cimport RecordPtr
from raftmeta.raft.types cimport Record, SnapshotPoint, index_t, term_t
from raftmeta.status cimport status_t

cdef struct Run:
    Chunk* chunk                # held; NULL for a damaged record
    uint8_t* data               # its first record
    index_t first
    uint64_t base_bytes         # bytes of all records before it since the log was made, without superseded ones

# Entries from `first` up to the next span have this term; 0: damaged, term not known.
cdef struct TermSpan:
    index_t first
    term_t term

# A record that is damaged on this disk; bytes with this chain hash would mend it.
cdef struct Damage:
    index_t index
    uint64_t chain

cdef struct Log:
    uint32_t chunk_bytes
    index_t compacted           # entries up to it are gone for good
    term_t compacted_term
    index_t snapshotted         # a durable checkpoint of the machine has it
    index_t applied
    index_t committed
    index_t last
    index_t persisted
    index_t staged              # last index handed to the disk
    index_t written             # last index of the disk's last write: a write at or below it truncates
    index_t offset              # entries up to it are not in memory
    uint64_t offset_chain       # chain hash and clocks of the entry at offset
    uint64_t offset_wall_ms
    uint64_t offset_lease_ms
    uint64_t last_chain
    uint64_t last_wall_ms
    uint64_t last_lease_ms
    uint64_t end_bytes          # Run.base_bytes of a run that would begin behind `last`
    Chunk* open                 # the chunk that takes new records, held; NULL: none yet
    Vec[Chunk*] spares          # chunks without a reader, for the next records
    uint32_t idle_ticks         # since a chunk was needed
    Ring[RecordPtr] places      # of offset + 1, offset + 2, ...; NULL: damaged
    Ring[Run] runs              # in index order
    Ring[TermSpan] spans        # in index order; the first one covers `compacted` when it is not 0
    Vec[Damage] damages         # in index order; empty: the log is whole
    bint must_start_run         # others may read bytes behind the last record: the next record begins a new run

cdef void log_init(Log* log, uint32_t chunk_bytes) noexcept nogil
cdef void log_release(Log* log) noexcept nogil
# The log is empty after `point`. Wall time does not step back. The lease clock comes from the state at the point
# (core_set_clocks): entries that the log held may never have been committed.
cdef void log_begin(Log* log, const SnapshotPoint* point) noexcept nogil

# --- reading ----------------------------------------------------------------------------------------------------------
# Term of the entry at index; 0: compacted, beyond the end or damaged. The term at `compacted` is known.
cdef term_t log_term(Log* log, index_t index) noexcept nogil
cdef term_t log_last_term(Log* log) noexcept nogil
# Is the chain hash of the entry at index known? It is in memory, at offset, or the last.
cdef bint log_chain(Log* log, index_t index, uint64_t* chain) noexcept nogil
# The record at index; NULL: not in memory.
cdef Record* log_record(Log* log, index_t index) noexcept nogil
# Is another log that ends with (index, term) at least as up to date as this one? (paper 5.4.1)
cdef bint log_is_up_to_date(Log* log, index_t index, term_t term) noexcept nogil
# The greatest index at or below `index` whose term is at most `term`: up to there two logs may agree.
cdef index_t log_find_conflict(Log* log, index_t index, term_t term) noexcept nogil
# Bytes of records in (low, high], both in memory or low = offset.
cdef uint64_t log_bytes_between(Log* log, index_t low, index_t high) noexcept nogil
cdef uint64_t log_memory_bytes(Log* log) noexcept nogil
# One contiguous slice that begins at `first`: one record at least, more only up to bytes_max. The caller gets no hold
# on
# its chunk. Returns the last index in it; 0: first is not in memory.
cdef index_t log_slice(Log* log, index_t first, index_t last, uint32_t bytes_max, Slice* slice) noexcept nogil
# Append all slices of [first, last] to `slices`, each with one more hold on its chunk.
cdef status_t log_slices(Log* log, index_t first, index_t last, Vec[Slice]* slices) noexcept nogil
cdef index_t log_first_damaged(Log* log) noexcept nogil      # UINT64_MAX: none

# --- writing ----------------------------------------------------------------------------------------------------------
# Append one entry at last + 1. NO_MEMORY: the log is as before.
cdef status_t log_append(Log* log, term_t term, uint8_t type, uint64_t wall_ms, uint64_t lease_ms,
                         const uint8_t* payload, uint32_t length) noexcept nogil
# Check `count` records that stand in `bytes` and continue (index, its chain): whole, undamaged, in order, chained, with
# terms that do not fall and are at most term_max. The first record can be checked only if the chain of `index` is
# known.
# BAD_LENGTH, BAD_CHECKSUM, BAD_VERSION, BAD_FIELD; CORRUPT: sound records of another history.
cdef status_t log_check_records(const uint8_t* bytes, uint32_t length, uint32_t count, index_t index, term_t term,
                                uint64_t chain, bint is_chain_known, term_t term_max) noexcept nogil
# Append checked records behind `last` by one copy into the arena, or with is_shared by a hold on their chunk.
cdef status_t log_append_records(Log* log, const Slice* records, uint32_t count, bint is_shared) noexcept nogil
# Make a place for a damaged record behind `last`; only while the log is restored.
cdef status_t log_append_damaged(Log* log, index_t index, uint64_t chain) noexcept nogil
# Put a sound record into its damaged place. STALE: that place is not damaged, or the bytes are others.
cdef status_t log_repair(Log* log, const Slice* record) noexcept nogil
# Remove all entries at and above `first`. Their bytes stay for others that still read them.
cdef status_t log_truncate(Log* log, index_t first) noexcept nogil
# Drop from memory whole runs of entries at or below `through` until at most bytes_max bytes are left.
cdef void log_release_memory(Log* log, index_t through, uint64_t bytes_max) noexcept nogil
cdef void log_compact(Log* log, index_t compact_to) noexcept nogil
# Called once in a while: gives memory back that was kept for records and not needed.
cdef void log_tick(Log* log) noexcept nogil

# 0, or the Invariant that is broken; a and b are the numbers that contradict it. `dear`: check every record too.
cdef uint32_t log_check(Log* log, bint dear, uint64_t* a, uint64_t* b) noexcept nogil
