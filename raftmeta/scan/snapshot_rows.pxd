# Rows out of a sealed file: the keyspace as it was at a revision, and the changes between two revisions.
#
# A file holds the keys at its history floor, in order, and behind them every change since (docs/formats.md "Records of
# the state"). The keyspace at a revision is the keys overlaid with the changes. So a range of keys reads its own part
# of
# the keys, and all of the history. This module decides which rows there are. It never shows a byte whose checksum it
# has
# not seen, and believes no length. It holds no more than a chunk, and the history's changes in its range.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.machine.dump cimport DumpHead, DumpState
from raftmeta.native.containers cimport Vec
from raftmeta.ports cimport DiskPort
from raftmeta.scan.columns cimport Columns, Row
from raftmeta.status cimport status_t
from raftmeta.storage.disk cimport RealDisk
from raftmeta.storage.sealed cimport SealedReader

# A chunk at which reading may begin.
cdef struct Place:
    uint32_t position           # of the split, for sealed_seek
    size_t key                  # place of its first key in the splits; a place without a key begins a revision
    uint32_t key_length

# The change that the history made to a key.
cdef struct Overlay:
    const uint8_t* version      # DumpVersion, key and value; while it grows, an offset
    size_t order                # the later change wins

cdef struct SnapshotRows:
    RealDisk disk
    DiskPort port
    SealedReader reader
    DumpState state
    Vec[Place] places
    size_t key_places           # places with a key come first
    const uint8_t* at           # in the chunk read last
    const uint8_t* end
    # The rows under way.
    Vec[uint8_t] start          # of the keys, inclusive
    Vec[uint8_t] stop           # exclusive; empty: none
    uint64_t low                # changes in (low, revision]
    uint64_t revision
    const uint8_t* key          # DumpVersion of the next key of the file, NULL: none, see is_at_end
    bint is_at_end
    Vec[uint8_t] overlay_bytes
    Vec[Overlay] overlay
    size_t next_overlay
    uint64_t change_revision    # under way; 0: none yet
    uint64_t change_wall_ms
    uint64_t changes_left       # of that revision
    uint64_t next_sub           # place of the next one in it

# A revision that begins with a chunk.
cdef struct Mark:
    uint32_t place
    uint64_t revision

# Open `name` in `folder` and read the head of the state. Status as of sealed_open, and CORRUPT: it is no state. Close
# it
# after any status.
cdef status_t rows_open(SnapshotRows* rows, const char* folder, const char* name) noexcept nogil
cdef void rows_close(SnapshotRows* rows) noexcept nogil

# Go to the first record.
cdef status_t rows_first(SnapshotRows* rows) noexcept nogil
# The next record: its head and its bytes, valid until the next call. NOT_FOUND: there are no more.
cdef status_t rows_record(SnapshotRows* rows, const DumpHead** head, const uint8_t** body) noexcept nogil

# The keys of [start, stop), which must be set, as of a revision that the file knows; then give rows until NOT_FOUND.
# rows_next stops at `rows_max` rows or `bytes_max` bytes; columns may hold rows with every status.
cdef status_t keys_begin(SnapshotRows* rows, uint64_t revision) noexcept nogil
cdef status_t keys_next(SnapshotRows* rows, Columns* columns, size_t rows_max, size_t bytes_max) noexcept nogil
# The changes of (low, high] in [start, stop), from a place at or before the first one. CORRUPT: a revision is missing.
cdef status_t changes_begin(SnapshotRows* rows, size_t place, bint is_first, uint64_t low, uint64_t high) noexcept nogil
cdef status_t changes_next(SnapshotRows* rows, Columns* columns, size_t rows_max, size_t bytes_max) noexcept nogil

# For versions (DumpVersion, key, value): whether the key is in [start, stop), the order of two keys, and the fields of
# a row that a version tells.
cdef bint rows_is_inside(const SnapshotRows* rows, const uint8_t* version) noexcept nogil
cdef int versions_compare(const uint8_t* left, const uint8_t* right) noexcept nogil
cdef void version_fill(const uint8_t* version, Row* row) noexcept nogil
# Set rows.key to the first key at the floor that is not before the key of `version`; NULL: there is none. Calls come in
# the order of keys. *reached is 0 at first and belongs to this function.
cdef status_t floor_seek(SnapshotRows* rows, const uint8_t* version, size_t* reached) noexcept nogil

# Go to the earliest place where the history may begin.
cdef status_t history_begin(SnapshotRows* rows) noexcept nogil
# The revisions that begin with a chunk, and keys of [start, stop) that cut keys and history into parts of about
# `bytes_each`. Each is in the order of DumpVersion, not sorted; behind them stand each key's length and bytes.
cdef status_t history_survey(SnapshotRows* rows, size_t bytes_each, Vec[Mark]* marks,
                             Vec[uint8_t]* cuts) noexcept nogil
