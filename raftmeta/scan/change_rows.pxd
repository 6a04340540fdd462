# The changes of a sealed file, each with the record that it changed.
#
# A file does not hold that record beside the change. If the key changed before, the record is in the key's history; for
# a
# key's first change it is among the keys at the floor. So memory holds the history up to the last wanted revision, and
# those keys at the floor that were changed. This module decides which record was before a change. It never decides
# which
# changes there are (raftmeta/scan/snapshot_rows).
from libc.stdint cimport uint8_t, uint64_t

from raftmeta.native.containers cimport Vec
from raftmeta.scan.columns cimport Columns
from raftmeta.scan.snapshot_rows cimport SnapshotRows
from raftmeta.status cimport status_t

# A change of (floor, high] in the wanted range of keys.
cdef struct Change:
    const uint8_t* version      # DumpVersion, key, value; while the bytes grow, an offset
    const uint8_t* previous     # in the same form; NULL: there was no record
    uint64_t revision
    uint64_t wall_ms
    uint64_t sub

# Zeroed: nothing is held.
cdef struct ChangeRows:
    Vec[Change] changes         # in their order
    Vec[Change*] by_key         # by key, then in their order
    Vec[Change*] from_floor     # changes whose record before is at the floor
    Vec[uint8_t] history_bytes
    Vec[uint8_t] floor_bytes
    size_t next

# Collect the changes of (low, high] of keys in [rows.start, rows.stop), which must be set; low is not below the floor.
# CORRUPT: a revision is missing. NO_MEMORY. Then give rows until NOT_FOUND.
cdef status_t change_rows_begin(ChangeRows* held, SnapshotRows* rows, uint64_t low, uint64_t high) noexcept nogil
cdef status_t change_rows_next(ChangeRows* held, Columns* columns, size_t rows_max, size_t bytes_max) noexcept nogil
cdef void change_rows_release(ChangeRows* held) noexcept nogil
