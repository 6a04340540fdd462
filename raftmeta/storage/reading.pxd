# Records of the log, read back from its segments (wal_read).
from libc.stdint cimport uint32_t

from raftmeta.native.chunks cimport Slice
from raftmeta.raft.types cimport index_t
from raftmeta.status cimport status_t
from raftmeta.storage.wal_state cimport Wal

# As wal_read of a Wal that is open and sound; `records` is zeroed.
cdef status_t read_records(Wal* wal, index_t index, uint32_t bytes_max, Slice* records) noexcept nogil
