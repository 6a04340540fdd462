# Files prepared ahead: the spare, which becomes the next segment, the reserve, and retired segments to be used again.
#
# Parts of a Wal (storage/wal_state) that storage/wal drives; nothing here is needed for what the log means.
from libc.stdint cimport uint32_t, uint64_t

from raftmeta.status cimport status_t
from raftmeta.storage.wal_state cimport Segment, Spare, Wal

cdef void spares_init(Wal* wal) noexcept nogil
# How large the spare and the reserve of an earlier life are, and which segments it retired (out of wal.names).
cdef status_t spares_adopt(Wal* wal) noexcept nogil
# Where new files are encrypted: those that still hold plain records of an earlier life go.
cdef status_t spares_drop_plain(Wal* wal) noexcept nogil
cdef void spares_close(Wal* wal) noexcept nogil
# Open the file of the spare or the reserve; create: from a retired segment if there is one, else a new file. NOT_FOUND.
cdef status_t spare_open(Wal* wal, Spare* spare, bint create) noexcept nogil
# As wal_prepare of a Wal that is open and sound. is_complete is not told with a failure.
cdef status_t spares_prepare(Wal* wal, uint32_t bytes_max, bint* is_complete) noexcept nogil
# One segment leaves the log, durably: its file is kept for later or removed.
cdef status_t segment_retire(Wal* wal, const Segment* segment) noexcept nogil
# Where the disk is nearly full, files that only wait to be used again are the first to go.
cdef status_t retired_drop(Wal* wal) noexcept nogil
# Bytes of these files: room that a full disk still has.
cdef uint64_t spares_room(const Wal* wal) noexcept nogil
